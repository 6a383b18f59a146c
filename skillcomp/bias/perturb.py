"""Copies of answers with one change in form, and the effect of the change on verdicts."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
import pandas as pd

from skillcomp.bias.feature_effects import (
    MARK,
    POINTS,
    Part,
    checked_verdicts,
    known_attempts,
    parts,
    prose,
)
from skillcomp.contrast import changes_over_items
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.check import check
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    groups,
    listed,
    refuse_pooling,
    row,
)
from skillcomp.ngrams import share_not_ascii, split_sentences
from skillcomp.stats.results import Fields, undefined

Kind = Literal[
    "identical", "bullets", "pad", "reorder", "hedge", "confident", "approve", "disapprove"
]
ORIGINAL = "original"
# each kind of copy in words; hedges and assurances change how strongly a claim is made
FORMS = {
    "identical": "identical copy",
    "bullets": "copy as bullets",
    "pad": "padded copy",
    "reorder": "reordered copy",
    "hedge": "copy with hedges (tone)",
    "confident": "copy with assurances (tone)",
    "approve": "copy, user pleased",
    "disapprove": "copy, user displeased",
}

# filler sentences, with neither content nor hedges
_OPENINGS = (
    "This question touches on something that comes up in a great many projects, and it rewards a "
    "calm and thorough look. Before turning to the substance, it helps to keep the wider picture "
    "in mind and to take the points one after the other.",
    "Questions of this kind deserve a full and orderly answer, and this one is no exception. What "
    "follows goes through the matter step by step, with the attention that it calls for.",
)
_CLOSINGS = (
    "Taken together, the points above form a coherent whole, and each of them has been weighed "
    "with care. Keeping all of them in view makes it easier to proceed in an orderly and "
    "well-founded way, now and whenever a similar matter comes up again.",
    "In sum, the considerations above belong together and support one another. Going back over "
    "them at leisure is time well spent, since a clear overview is the best basis for everything "
    "that comes after.",
)
_APPROVALS = (
    "[The user replied: Thank you, that is exactly right. I could not ask for a better answer.]",
    "[The user replied: Perfect, this is just what I was hoping for.]",
)
_DISAPPROVALS = (
    "[The user replied: No, that is not right. I had expected a much better answer.]",
    "[The user replied: This is disappointing, and not at all what I was hoping for.]",
)
_HEDGES = ("perhaps", "I think", "it seems", "probably")
_BOOSTS = ("certainly", "without question", "beyond any doubt", "of that there is no doubt")

# An answer of at least _FEW_WORDS is English if _SHARE_COMMON of its words or more are these.
_ENGLISH = """
a an and are as at be by can do for from has have if in is it its not of on or so that the then there
this to use was when which will with you your
"""
_COMMON = frozenset(_ENGLISH.split())
_FEW_WORDS, _SHARE_COMMON = 20, 0.15

# patterns of labels at the start of a paragraph: "**Cost.** It is ..." and "Cost: it is ..."
_LABELS = (
    ("bold", re.compile(r"\*\*[^*\n]{1,60}\*\*\W*\w")),
    ("colon", re.compile(r"(?:[\w'-]+ )?[\w'-]+: \w")),
)
_END = re.compile(r"(?<=[A-Za-z0-9)\]])\.(?=\s+[\"'“(*_]*[A-Z]|\s*$)")
_SHORT = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|Dr|Mr|Mrs|Ms|St|No|Fig|Eq)|\b\w)$")
# matches the start of an item or paragraph that refers to its position or to preceding text
_BACK_REFERENCE = re.compile(
    r"^\W*(?:first|second|third|fourth|last|lastly|finally|then|next|after|afterwards|before|"
    r"step|so|thus|therefore|hence|however|but|and|also|or|yet|still|instead|otherwise|this|that|"
    r"these|those|it|its|they|their|them|he|she|both|neither|such|here|in that|in this|in short|"
    r"in sum|in summary|overall|for example|for instance|as above|same|similarly|likewise|again|"
    r"one more|another|the other|the latter|the former|now)\b",
    re.IGNORECASE,
)


def perturb(attempts: pd.DataFrame, *, kind: Kind) -> pd.DataFrame:
    r"""Copy answers with one change in form, to be graded like the originals.

    The content is unchanged, so a grader without the bias gives a copy the verdicts of its
    original. Grade the copies like other attempts, and give the verdicts on originals and copies to
    :func:`skillcomp.bias.perturbed`.

    Parameters
    ----------
    attempts : pandas.DataFrame
        An attempts frame. Attempts that are copies or have no answer are ignored.
    kind : {"identical", "bullets", "pad", "reorder", "hedge", "confident", "approve", "disapprove"}
        - ``identical``: the same bytes.
        - ``bullets``: each paragraph of prose as a list with one sentence per item.
        - ``pad``: four sentences of filler around the answer.
        - ``hedge``, ``confident``: a hedge or a word of assurance at the end of every second
          sentence. These change the tone, not the form: how strongly a claim is made.
        - ``reorder``: bulleted lists in reverse order. If no list can be reversed, runs of
          labelled paragraphs (``**Cost.** ...`` or ``Cost: ...``) are reversed. Numbered lists,
          prose, and lists with an item that refers to preceding text (then, this, however ...)
          keep their order.
        - ``approve``, ``disapprove``: a remark below the answer, in which the user is pleased or
          displeased with it.

    Returns
    -------
    pandas.DataFrame
        An attempts frame with one row per copy. ``attempt_id`` is ``<id of the original>/<kind>``,
        ``source_attempt_id`` the id of the original, and ``perturbation`` the kind. ``answer`` and
        ``n_words`` are those of the changed answer. Costs, tokens and times are NA. All other
        columns are as in the original. An answer that stays the same has no copy (but an identical
        one), and neither has an answer of which a word would be lost or changed.

    Raises
    ------
    FrameError
        If the frame breaks its contract, the kind is unknown, or a kind that inserts English words
        is asked for answers in another language.

    See Also
    --------
    skillcomp.bias.perturbed : The analysis of the pairs.
    copy_pairs : Originals beside their copies, for a judge that compares two answers.

    Notes
    -----
    The result is deterministic: the inserted words depend only on the attempt_id. Code, tables,
    quotations and headings are never changed. Whether items may be reordered is inferred from their
    first words; read some copies before you grade many.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"attempt_id": ["a"], "skill": ["s"], "case_id": ["s/1"],
    ...     "condition": ["skill"], "answer": ["Look at:\n\n- cost\n- risk"]})
    >>> perturb(frame, kind="reorder")["answer"].tolist()
    ['Look at:\n\n- risk\n- cost']
    """
    require_known("kind: found", kind, _CHANGES)
    checked = check(attempts, "attempts")
    plain = checked["perturbation"].isna() & checked["source_attempt_id"].isna()
    frame = checked[plain & checked["answer"].notna()].reset_index(drop=True)
    change, inserted = _CHANGES[kind]
    foreign = np.array([bool(inserted) and not _is_english(text) for text in frame["answer"]], bool)
    if 2 * foreign.sum() > len(frame):
        raise FrameError(
            f"bias.perturb: kind '{kind}' inserts English words, and {foreign.sum()} of "
            f"{plural(len(frame), 'answer')} are in another language; allowed for them: "
            "'identical', 'bullets' and 'reorder'."
        )
    answers = [
        change(answer, zlib.crc32(name.encode()))
        for answer, name in zip(frame["answer"], frame["attempt_id"], strict=True)
    ]
    copies = frame.assign(
        source_attempt_id=frame["attempt_id"],
        attempt_id=frame["attempt_id"] + f"/{kind}",
        perturbation=kind,
        answer=pd.array(answers, dtype="str"),
        n_words=pd.array([len(answer.split()) for answer in answers], dtype="Int64"),
        **dict.fromkeys(_CALL_COLUMNS),
    )
    changed = copies["answer"].ne(frame["answer"]) | (kind == "identical")
    both = zip(frame["answer"], answers, strict=True)
    changed &= np.array([_keeps_words(old, new, inserted) for old, new in both], bool)
    return check(copies[changed & ~foreign], "attempts")


def copy_pairs(attempts: pd.DataFrame, *, kind: Kind) -> pd.DataFrame:
    """Put each answer beside its copy, for a judge that compares two answers.

    Parameters
    ----------
    attempts : pandas.DataFrame
        An attempts frame with answers.
    kind : str
        As in :func:`perturb`.

    Returns
    -------
    pandas.DataFrame
        Two rows per pair, one for each order: ``question_id``, ``model_a``, ``model_b`` (one is
        ``original``, the other the kind), ``response_a``, ``response_b``, and an empty ``winner``
        to fill in. :func:`skillcomp.from_frame` reads the table with the winners.

    Raises
    ------
    FrameError
        As :func:`perturb`.

    See Also
    --------
    datasheet : Shows the wins of the copies of each kind.
    """
    copies = perturb(attempts, kind=kind)
    texts = check(attempts, "attempts").set_index("attempt_id")["answer"]
    originals = copies["source_attempt_id"].map(texts)
    sides = {"a": (ORIGINAL, originals), "b": (kind, copies["answer"])}
    orders = [
        pd.DataFrame({"question_id": copies["source_attempt_id"]}).assign(
            **{f"model_{place}": sides[side][0] for place, side in zip("ab", order, strict=True)},
            **{
                f"response_{place}": sides[side][1] for place, side in zip("ab", order, strict=True)
            },
        )
        for order in ("ab", "ba")
    ]
    pairs = pd.concat(orders).sort_index(kind="stable", ignore_index=True)
    return pairs.assign(winner=pd.array([None] * len(pairs), "str"))


def _words_of(text: str) -> Counter[str]:
    """Count the words and numbers of a text."""
    return Counter(re.findall(r"[^\W_]+(?:['’.,][^\W_]+)*", text.casefold()))


def _keeps_words(old: str, new: str, inserted: Sequence[str]) -> bool:
    """Return whether a copy has the words of its original, and no others but the inserted ones."""
    before, after = _words_of(old), _words_of(new)
    return not before - after and {*(after - before)} <= {*_words_of(" ".join(inserted))}


def _is_english(answer: str) -> bool:
    """Return whether an answer may be English: few words, or the usual share of common ones."""
    words = re.findall(r"[^\W\d_]+", prose(answer).casefold())
    if len(words) < _FEW_WORDS:
        return share_not_ascii(answer) < 0.5
    return sum(word in _COMMON for word in words) >= _SHARE_COMMON * len(words)


_CALL_COLUMNS = (
    "input_tokens", "cached_tokens", "output_tokens", "cost_usd", "seconds", "started_at",
)  # fmt: skip


def _pad_answer(answer: str, seed: int) -> str:
    opening = _OPENINGS[seed % len(_OPENINGS)]
    closing = _CLOSINGS[seed // len(_OPENINGS) % len(_CLOSINGS)]
    return f"{opening}\n\n{answer}\n\n{closing}"


def _remark_appender(remarks: Sequence[str]) -> Callable[[str, int], str]:
    """Return a function that appends one of the remarks to an answer."""
    return lambda answer, seed: f"{answer}\n\n{remarks[seed % len(remarks)]}"


def _word_inserter(words: Sequence[str]) -> Callable[[str, int], str]:
    """Return a function that adds one of the words at the end of every second sentence."""

    def change(answer: str, seed: int) -> str:
        seen = 0
        changed = []
        for part in parts(answer):
            if part.kind in ("fixed", "blank"):
                changed.append(part.text)
                continue
            text, shift = part.text, 0
            for end in _sentence_ends(part.text):
                if seen % 2 == 0:
                    added = f", {words[(seed + seen // 2) % len(words)]}"
                    text = text[: end + shift] + added + text[end + shift :]
                    shift += len(added)
                seen += 1
            changed.append(text)
        return "\n".join(changed)

    return change


def _sentence_ends(text: str) -> list[int]:
    """List the positions of full stops that end a statement outside quotes and code."""
    mark = MARK.match(text)
    start = mark.end() if mark else 0
    ends = []
    for hit in _END.finditer(text, start):
        before = text[: hit.start()]
        quoted = before.count('"') % 2 or before.count("`") % 2
        quoted = quoted or before.count("“") > before.count("”")
        if not quoted and not _SHORT.search(before):
            ends.append(hit.start())
    return ends


def _reorder_answer(answer: str, seed: int) -> str:
    original = parts(answer)
    turned = _turned_runs(original, range(len(original)), lambda part: part.kind == "bullet")
    if turned == original:
        written = [i for i, part in enumerate(original) if part.kind != "blank"]
        turned = _turned_runs(original, written, _paragraph_label)
    return "\n".join(part.text for part in turned)


def _turned_runs(
    original: list[Part], places: Iterable[int], label: Callable[[Part], object]
) -> list[Part]:
    """Reverse each run of parts at these places that have the same label, if they have one.

    A run is unchanged if one of its parts refers to preceding text.
    """
    turned = list(original)
    for is_labelled, run in groupby(places, key=lambda i: label(original[i])):
        where = list(run)
        if is_labelled and not any(
            _BACK_REFERENCE.match(MARK.sub("", original[i].text, count=1)) for i in where
        ):
            for to, source in zip(where, reversed(where), strict=True):
                turned[to] = original[source]
    return turned


def _paragraph_label(part: Part) -> str:
    """Return the form of a label, bold text or a word with a colon, that starts a paragraph."""
    if part.kind != "paragraph":
        return ""
    return next((name for name, form in _LABELS if form.match(part.text)), "")


def _as_bullets(answer: str, seed: int) -> str:
    """Write each paragraph of prose as a list of its sentences."""
    changed = []
    for part in parts(answer):
        sentences = split_sentences(" ".join(part.text.split()))
        if part.kind == "paragraph" and len(sentences) > 1:
            changed += [f"- {sentence}" for sentence in sentences]
        else:
            changed.append(part.text)
    return "\n".join(changed)


# for each kind, the function that changes an answer, and the texts that it may insert
_CHANGES: dict[str, tuple[Callable[[str, int], str], Sequence[str]]] = {
    "identical": (lambda answer, seed: answer, ()),
    "bullets": (_as_bullets, ()),
    "pad": (_pad_answer, (*_OPENINGS, *_CLOSINGS)),
    "reorder": (_reorder_answer, ()),
    "hedge": (_word_inserter(_HEDGES), _HEDGES),
    "confident": (_word_inserter(_BOOSTS), _BOOSTS),
    "approve": (_remark_appender(_APPROVALS), _APPROVALS),
    "disapprove": (_remark_appender(_DISAPPROVALS), _DISAPPROVALS),
}


EXTRA = ("n_to_pass", "n_to_fail", "n_dropped")


def perturbed(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: By = (),
    exclude_checks: str | Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the change in verdicts when only the form of the answer changes.

    Each verdict on a copy is paired with the verdict that the same grader, version and round gave
    on the same check of the original. No gold is needed.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with originals and copies (``perturbation="all"``).
    attempts : pandas.DataFrame
        The attempts of the verdicts; source_attempt_id and perturbation identify the copies.
    by : str or sequence of str, default ()
        Columns to group by, in addition to ``perturbation``.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and perturbation, with the estimates columns. The measure is
        ``perturbation_points``: the pass rate of the copies minus that of the originals, in
        percentage points, with equal weight of verdicts. ``n`` counts the pairs of verdicts,
        ``n_clusters`` the cases, ``n_to_pass`` and ``n_to_fail`` the pairs in which only the copy
        passes or only the copy fails. ``n_dropped`` counts the checks of copies that are left out,
        because the copy or its original has no verdict. Without copies there are no rows.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds or agents would be pooled, a verdict has no
        attempt in ``attempts``, or ``ci_level`` is not between 0 and 1.

    See Also
    --------
    perturb : Make the copies.

    Notes
    -----
    An item is a pair of verdicts, one on the copy and one on the original, and items have equal
    weight: an answer counts as often as it has checks with both verdicts. Interval and p-value
    follow the rule of :func:`skillcomp.reliability.drift`, which measures how far fails come singly
    within their cases: McNemar's mid-p test on cases and, if a case has several items, the interval
    as well. The rule assumes that cases are independent of each other. It shows a change from .05
    to .12 fails in 40 cases of five items in 46 to 60 % of studies. It is cautious if fails come in
    whole cases: in one simulated study, 12 of 300 verdicts in 12 of 50 cases changed to PASS and
    none to FAIL. The p-value is then .03 if the fails of a case have a correlation of .1, .12 if
    they have one of .5, and .0002 by the test alone.
    """
    names = [name for name in listed(by) if name != "perturbation"]
    what = "bias.perturbed"
    check_settings(what, ci_level)
    graded = checked_verdicts(
        verdicts, by=names, exclude_checks=exclude_checks, cases=cases, what=what
    )
    refuse_pooling(graded, names, what, graders=False, copies=False, agents=True)
    if graded.empty:
        return estimates([], by=[*names, "perturbation"], extra=EXTRA)
    pairs = paired_verdicts(graded, known_attempts(graded, attempts, what), what)
    rows = []
    for values, part in groups(pairs, [*names, "perturbation"]):
        rows.append(compared(part, ci_level) | values)
    return estimates(rows, by=[*names, "perturbation"], extra=EXTRA)


def paired_verdicts(verdicts: pd.DataFrame, attempts: pd.DataFrame, what: str) -> pd.DataFrame:
    """Join each verdict on a copy (``after``) with the verdict on the original (``before``)."""
    about = attempts[["attempt_id", "source_attempt_id", "perturbation"]]
    lost = about[about["perturbation"].notna() & about["source_attempt_id"].isna()]
    if len(lost):
        raise FrameError(
            f"{what}: {len(lost)} perturbed attempts have no source_attempt_id; the first is "
            f"'{lost['attempt_id'].iloc[0]}'."
        )
    graded = verdicts.drop(columns=about.columns[1:], errors="ignore")
    graded = graded.merge(about, on="attempt_id", how="left")
    graded = graded.assign(after=graded["passed"].astype("float64"))
    is_copy = graded["perturbation"].notna()
    keys = ["source_attempt_id", "check_id", "grader", "grader_version", "round"]
    original = graded[~is_copy].assign(source_attempt_id=graded["attempt_id"])
    original = original.rename(columns={"after": "before"})[[*keys, "before"]]
    return graded[is_copy].merge(original, on=keys, how="left")


def compared(pairs: pd.DataFrame, ci_level: float) -> Fields:
    """Estimate the effect of one perturbation on the verdicts."""
    decided = pairs.dropna(subset=["before", "after"])
    steps = decided["after"] - decided["before"]
    to_pass, to_fail = (steps.eq(step).sum() for step in (1.0, -1.0))
    (change,) = changes_over_items([decided], "after", "before", ci_level=ci_level)
    if not len(decided):
        nothing = "no copy has a verdict together with its original"
        change = undefined("", nothing, ci_level, 0.0)
    return row(
        "perturbation_points",
        change.times(POINTS),
        n_to_pass=to_pass,
        n_to_fail=to_fail,
        n_dropped=len(pairs) - len(decided),
    )
