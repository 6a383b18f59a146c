"""N-grams that texts share with their skill: counts, flags by a calibrated rule, and ROC curves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from os.path import exists
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, instead, plural, require_known, suggest
from skillcomp.frames.check import check, plain_values, require_frame, settle
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import columns_of, listed, require_columns
from skillcomp.frames.table_reader import FrameWarning
from skillcomp.io.skills import FILE_NAME, skill_folders, skill_texts
from skillcomp.ngrams import (
    Ints,
    Matches,
    Tokenizer,
    check_n,
    match,
    name_of_tokenizer,
    share_not_ascii,
    tokenize,
)
from skillcomp.records import Skill
from skillcomp.stats.results import NAN, Bools, Floats

# A skill to compare with: a Skill (its SKILL.md), a text, or the path of a file or a folder.
Document = Skill | str | Path
Skills = Mapping[str, Document] | Mapping[str, Skill] | Mapping[str, str] | Path
LONGER = 1.25  # answers that are longer than calibrated texts by this factor are reported
FEW_LOST = 0.02  # share of the letters that a tokenizer may lose without a warning
_ATTEMPT = ["attempt_id", *CASE, "condition", "repeat"]
_PASSAGE = ["passage_id", "skill", "document", "level", "made_up"]
_KEYS = {
    **dict.fromkeys(("attempt_id", "passage_id", *CASE, "condition"), "str"),
    "repeat": "Int64",
    "document": "str",
    "level": "str",
    "made_up": "boolean",
}
# dtypes of the columns that are read from scored texts, calibrations and verdicts
_KNOWN = {
    **_KEYS,
    "kind": "str",
    "n": "Int64",
    "any_shared": "boolean",
    "n_shared": "Int64",
    "n_distinct": "Int64",
    "share": "float64",
    "longest_run": "Int64",
    "longest_text": "str",
    "n_tokens": "Int64",
    "not_ascii": "float64",
    "rule": "str",
    "cut": "float64",
    "chosen": "boolean",
    "passed": "boolean",
    "tokenizer": "str",
    "answer_tokens": "float64",
    "limit": "float64",
}


def score(
    texts: pd.DataFrame,
    *,
    skills: Skills,
    cases: pd.DataFrame | None = None,
    ngram: Iterable[int] | int = range(3, 13),
    exclude_prompt: bool = True,
    boilerplate: str | Sequence[str] = (),
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
) -> pd.DataFrame:
    """Count the n-grams that each text shares with its skill, for every length of n-gram.

    Each answer or passage is compared with the whole text of its skill. This includes answers
    without the skill, such as those of the baseline, which show how much is shared by coincidence.
    Nothing is averaged.

    Parameters
    ----------
    texts : pandas.DataFrame
        Attempts with attempt_id, skill, case_id, condition and answer, or passages with passage_id,
        skill, level, text and optionally question. The other columns of an attempts or passages
        frame may be missing.
    skills : mapping of str to Skill, str or path, or path
        The skills, with slugs as keys. A Skill means its SKILL.md; a str is the text itself. A
        path to a folder means all text files in it, a path to a file only this file. A
        single path is a folder of skills. N-grams do not cross the end of a file. Tests of the
        skill, hidden files and files that are not UTF-8 text are left out.
    cases : pandas.DataFrame, optional
        A cases frame (skill, case_id, prompt). Needed for attempts unless `exclude_prompt` is
        False.
    ngram : int or iterable of int, default 3 to 12
        Lengths of n-grams, in content tokens.
    exclude_prompt : bool, default True
        Whether to leave out shared n-grams that also occur in the prompt, because an answer may
        repeat its question. The prompt of an attempt is that of its case. The prompt of a passage
        is its ``question``; without a question, every shared n-gram counts.
    boilerplate : str or sequence of str, optional
        Texts that everybody was given, such as a form or a system prompt. Their n-grams do not
        count as shared.
    tokenizer : callable or "unicode", optional
        Function that splits a str into a list of tokens; by default `skillcomp.ngrams.tokenize`,
        which finds English words. It gets the normalised text (see `skillcomp.ngrams.normalise`).
        ``"unicode"`` finds words of any language (`skillcomp.ngrams.tokenize_unicode`).
    tokenizer_name : str, optional
        Name of the tokenizer in the result; by default its module and qualname. Needed for a
        lambda, a method of an object and any other callable without a unique name.

    Returns
    -------
    pandas.DataFrame
        One row per text and n, with texts in the given order and n ascending.

        kind : str, ``attempt`` or ``passage``
        attempt_id, passage_id, skill, case_id, condition, repeat, document, level : as in `texts`.
            NA if texts of this kind do not have the column.
        made_up : boolean, as in `texts`: whether :func:`positives` made the passage
        n : int64, number of tokens in an n-gram
        any_shared : boolean, whether any n-gram is shared; NA if the text has fewer than n tokens
        n_shared : Int64, number of distinct n-grams that are shared; NA where any_shared is NA
        n_distinct : Int64, number of distinct n-grams of the text, including those of the prompt
        share : float64, n_shared / n_distinct, 0 to 1; NaN if the text has no n-gram
        longest_run : Int64, number of tokens in the longest sequence of tokens that is shared.
            The same for every n; 0 if no token is shared.
        longest_text : str, the first such sequence as written in the text.
            It includes the small words and punctuation between the tokens; empty if no token is
            shared.
        n_tokens : Int64, number of content tokens of the text
        not_ascii : float64, share of the letters of the text that are not ASCII.
            The default tokenizer cannot find them.
        tokenizer : str, name of the tokenizer

        Without an answer, any_shared and all columns after it except tokenizer are NA. A text with
        fewer than n tokens, such as "No idea." or a number, is too short to judge at this n:
        ``shared["n_tokens"] < shared["n"]`` counts such texts.

    Raises
    ------
    FrameError
        If `texts` has neither attempts nor passages or breaks its contract, a skill is missing from
        `skills` or has no text, a prompt to exclude is missing, `ngram` is empty or has a length
        that is not a whole number of at least 1, or the tokenizer needs a name or returns tokens
        that are not str.
    SkillError
        If a file of a skill cannot be read, or a link leads out of its folder.

    Warns
    -----
    FrameWarning
        If the default tokenizer cannot find 2 % or more of the letters of the texts or skills,
        because they are not ASCII.

    See Also
    --------
    spans : Lists the shared spans with their places in both texts.

    Notes
    -----
    Longer texts share more n-grams by chance, and every text about a subject contains the technical
    terms of the subject. Therefore interpret `any_shared` and `share` only in comparison with texts
    that are known not to copy. A text that shares an n-gram also shares the shorter n-grams inside
    it, except those that occur in an excluded prompt. Matching is exact (see
    `skillcomp.ngrams.match`); its time is proportional to the length of the texts.

    Texts are normalised first (see `skillcomp.ngrams.normalise`), so that copies are found in spite
    of soft hyphens, ligatures, words broken at a line end and HTML tags; `longest_text` quotes the
    original.

    With your own tokenizer, `longest_text` is found by searching the text for the tokens of the
    longest run, if possible as whole words. It quotes whole words. If a token does not occur in the
    text, for example because tokens are lemmas, `longest_text` has the tokens joined by blanks.

    References
    ----------
    The default tokenizer is that of the comprehension report, which starts with n-grams of six
    tokens (sections 5.2 and A.3).

    Examples
    --------
    >>> passages = pd.DataFrame({
    ...     "passage_id": ["p1"], "skill": ["s"], "level": ["verbatim"],
    ...     "text": ["They narrow the unknown values."],
    ... })
    >>> shared = score(passages, skills={"s": "Always narrow unknown values."}, ngram=[2, 3, 4])
    >>> shared[["n", "any_shared", "n_shared", "share", "longest_text"]]
       n  any_shared  n_shared  share               longest_text
    0  2        True         2    1.0  narrow the unknown values
    1  3        True         1    1.0  narrow the unknown values
    2  4        <NA>      <NA>    NaN  narrow the unknown values
    """
    name = name_of_tokenizer(tokenizer, tokenizer_name)
    lengths = check_n(ngram, "overlap.score: ngram")
    texts_of = checked_texts(texts, skills, cases, exclude_prompt, boilerplate)
    share = np.array([share_not_ascii(text) for text in texts_of.texts])
    if tokenizer in (None, tokenize):
        _warn_of_lost_letters(texts_of, share)
    matches = match(
        texts_of.texts,
        texts_of.sources,
        texts_of.source_of,
        excludes=texts_of.excludes,
        exclude_of=texts_of.exclude_of,
        n=lengths,
        tokenizer=tokenizer,
    )
    keys = texts_of.frame[_ATTEMPT if texts_of.kind == "attempt" else _PASSAGE]
    missing = texts_of.missing
    rows = _row_per_length(texts_of.kind, keys, matches, missing)
    share = np.repeat(np.where(missing, NAN, share), len(matches.n))
    return rows.assign(not_ascii=share, tokenizer=name)


@dataclass(frozen=True)
class ScoredTexts:
    """Texts to score, the files of their skills, and excluded texts, such as prompts.

    `frame` is the checked frame of the texts, and `missing` marks its rows without a text.
    A source is a skill; `files` holds its files. N-grams of the texts in `excludes` do not count as
    shared. `source_of` and `exclude_of` hold, for each text, an index into `sources` and
    `excludes`.
    """

    kind: str
    frame: pd.DataFrame
    missing: Bools
    texts: list[str]
    files: list[dict[str, str]]
    source_of: Ints
    excludes: list[list[str]]
    exclude_of: Ints

    @property
    def sources(self) -> list[list[str]]:
        """For each source, the texts of its files."""
        return [list(files.values()) for files in self.files]


def checked_texts(
    texts: pd.DataFrame,
    skills: Skills,
    cases: pd.DataFrame | None,
    exclude_prompt: bool,
    boilerplate: str | Sequence[str],
) -> ScoredTexts:
    """Check a frame of texts; return them with their sources, prompts and boilerplate."""
    require_frame(texts, "texts")
    kinds = {"attempt_id": ("attempt", "answer"), "passage_id": ("passage", "text")}
    ids = [name for name in kinds if name in texts.columns]
    if len(ids) != 1:
        both = "both" if ids else "none of the two"
        raise FrameError(
            "texts: a frame of attempts has a column 'attempt_id', one of passages 'passage_id'; "
            f"found {both} among: {', '.join(map(str, texts.columns))}."
        )
    kind, column = kinds[ids[0]]
    require_columns(texts, [column], f"texts: {kind}s")
    frame = check(texts, f"{kind}s")
    documents = skills_by_slug(skills)
    source_of, slugs = pd.factorize(frame["skill"])
    for slug in slugs:
        if slug not in documents:
            n_rows = plural((frame["skill"] == slug).sum(), "row")
            raise FrameError(
                f"texts, column 'skill': found '{slug}' ({n_rows}), which is not in "
                f"skills{instead(slug, documents)} Give the text of its SKILL.md, as "
                f"skills={{'{slug}': text}}; a store reads it from its folder of skills."
            )
    prompts, codes = _prompts_of_answers(frame, cases, kind) if exclude_prompt else ([], None)
    forms = [boilerplate] if isinstance(boilerplate, str) else list(boilerplate)
    odd = [form for form in forms if not isinstance(form, str)]
    if odd:
        raise FrameError(f"boilerplate: found {type(odd[0]).__name__}; allowed: texts.")
    exclude_of = np.full(len(frame), -1) if codes is None else codes
    excludes = [[prompt, *forms] for prompt in prompts]
    if forms:
        # for texts without a prompt, exclude only the boilerplate
        excludes.append(forms)
        exclude_of = np.where(exclude_of < 0, len(prompts), exclude_of)
    files = [source_files(documents, slug) for slug in slugs]
    written = frame[column]
    about = kind, frame, written.isna().to_numpy(), written.fillna("").tolist()
    return ScoredTexts(*about, files, source_of.astype(np.int64), excludes, exclude_of)


def _warn_of_lost_letters(texts: ScoredTexts, share: Floats) -> None:
    """Warn if the default tokenizer ignores many of the letters of the texts or sources."""
    documents = [text for source in texts.sources for text in source]
    lost_in_skills = np.array([share_not_ascii(text) for text in documents])
    parts = ("texts", texts.texts, share), ("skills", documents, lost_in_skills)
    notes = []
    for what, written, lost in parts:
        size = np.array([*map(len, written)], float)
        total = size @ lost / max(size.sum(), 1.0)
        notes += [f"{what}: {lost_letters_note(total)}"] if total >= FEW_LOST else []
    if notes:
        warnings.warn(f"overlap.score: {'; '.join(notes)}.", FrameWarning, stacklevel=3)


def lost_letters_note(share: float) -> str:
    """Return a note: ``share`` of the letters are lost by the tokenizer, as they are not ASCII."""
    effect = "nothing can be found" if share >= 0.5 else "words with these letters are lost"
    return (
        f"{100 * share:.0f} % of the letters are not ASCII: {effect} with this tokenizer; "
        "tokenizer='unicode' reads every script"
    )


def skills_by_slug(skills: Skills) -> Mapping[str, Document]:
    """Return the skills by slug; a path is a folder of skills, or the folder of one skill."""
    if isinstance(skills, Path):
        return skill_folders(skills)
    if not isinstance(skills, Mapping):
        raise FrameError(
            f"skills: found {type(skills).__name__}; allowed: a mapping of slug to Skill, text or "
            "pathlib.Path, as store.skills, or the pathlib.Path of a folder of skills."
        )
    return skills


def source_files(skills: Mapping[str, Document], slug: str) -> dict[str, str]:
    """Return the texts of a skill, with file names as keys; raise FrameError if it has no text.

    A text that was given as a str has an empty file name.
    """
    require_known("skills: there is no", slug, skills, label="there")
    skill = skills[slug]
    if isinstance(skill, Path):
        return skill_texts(skill)
    text = skill.text or skill.body if isinstance(skill, Skill) else skill
    if isinstance(text, str) and len(text) < 1_000 and exists(text):
        raise FrameError(
            f"skills['{slug}']: found {text!r}, which names a file or folder; a str is the text "
            f"itself. To read it: pathlib.Path({text!r})."
        )
    if not isinstance(text, str) or not text.strip():
        raise FrameError(
            f"skills['{slug}']: found {type(skill).__name__} without text; allowed: a Skill with "
            "its text, the text of the SKILL.md itself, or the pathlib.Path of the skill's folder."
        )
    return {FILE_NAME if isinstance(skill, Skill) else "": text}


def _prompts_of_answers(
    frame: pd.DataFrame, cases: pd.DataFrame | None, kind: str
) -> tuple[list[str], Ints | None]:
    """Return the distinct prompts, and the index of each text's prompt in this list."""
    if kind == "passage":
        if "question" not in frame.columns:
            return [], None
        places, questions = pd.factorize(frame["question"])
        if wrong := [question for question in questions if not isinstance(question, str)]:
            raise FrameError(
                f"texts, column 'question': found {wrong[0]!r}; allowed: text, or missing for none."
            )
        return list(questions), places.astype(np.int64)
    if cases is None:
        raise FrameError(
            "exclude_prompt=True leaves out what an answer repeats from its prompt and needs the "
            "prompts: give cases=, or exclude_prompt=False to count it as shared."
        )
    table = check(cases, "cases").set_index(CASE)["prompt"]
    codes = frame.groupby(CASE, sort=False).ngroup().to_numpy()
    prompts = table.reindex(pd.MultiIndex.from_frame(frame[CASE].drop_duplicates()))
    lacking = prompts.index[prompts.isna()]
    if len(lacking):
        first = str(lacking[0][1])
        there = lacking[0] in table.index
        where = "has no prompt in cases" if there else "is not in cases"
        raise FrameError(
            f"texts, column 'case_id': '{first}' {where} ({len(lacking)} such cases)."
            + ("" if there else suggest(first, table.index.get_level_values("case_id")))
        )
    return prompts.tolist(), codes.astype(np.int64)


def _row_per_length(
    kind: str, keys: pd.DataFrame, matches: Matches, missing: Bools
) -> pd.DataFrame:
    row = np.repeat(np.arange(len(keys)), len(matches.n))
    absent = missing[row]
    unjudged = absent | (matches.n_tokens[:, None] < matches.n).ravel()

    def count(values: Ints, lacking: Bools = absent) -> pd.arrays.IntegerArray:
        return pd.arrays.IntegerArray(values, lacking.copy())

    dtypes = {"kind": "str", **_KEYS}
    columns = keys.assign(kind=kind).reindex(columns=list(dtypes)).astype(dtypes)
    shared, distinct = matches.n_shared.ravel(), matches.n_distinct.ravel()
    share = np.full(len(row), NAN)
    np.divide(shared, distinct, out=share, where=(distinct > 0) & ~absent)
    longest = pd.Series(matches.longest_text, dtype="str").mask(missing)
    columns = columns.take(row).reset_index(drop=True)
    return columns.assign(
        n=np.tile(matches.n, len(keys)),
        any_shared=pd.arrays.BooleanArray(shared > 0, unjudged.copy()),
        n_shared=count(shared, unjudged),
        n_distinct=count(distinct),
        share=share,
        longest_run=count(matches.longest_run[row]),
        longest_text=longest.array.take(row),
        n_tokens=count(matches.n_tokens[row]),
    )


def checked_columns(frame: pd.DataFrame, columns: Sequence[str], *, what: str) -> pd.DataFrame:
    """Convert known columns to their dtypes; raise FrameError if one of ``columns`` is missing."""
    require_columns(frame, columns, what)
    if "n" in columns:
        lengths = plain_values(frame["n"])
        lengths = lengths[lengths.notna()].drop_duplicates()
        wrong = [n for n in lengths if not isinstance(n, Real | Decimal) or n < 1 or n % 1]
        if wrong:
            raise FrameError(
                f"{what}, column 'n': found {wrong[0]!r}; allowed: whole numbers of at least 1."
            )
    return settle(frame, _KNOWN, what)


def require_one_row_per_attempt(shared: pd.DataFrame, *, what: str) -> None:
    """Raise FrameError if an attempt has two rows for one n."""
    again = shared[shared["attempt_id"].notna() & shared.duplicated(["attempt_id", "n"])]
    if len(again):
        first = again.iloc[0]
        raise FrameError(
            f"{what}: {plural(len(again), 'row')} too many, the first for attempt_id "
            f"'{first['attempt_id']}' and n = {first['n']}; allowed: one row per attempt and n."
        )


def common_tokenizer(frames: Mapping[str, pd.DataFrame], *, what: str, label: str = "") -> str:
    """Return the name of the tokenizer of several frames; raise FrameError if the names differ.

    ``label`` is the name of the tokenizer in use, if any. Frames without a column ``tokenizer`` are
    assumed to use the same tokenizer.
    """
    names = {label: "the argument tokenizer="} if label else {}
    for frame_name, frame in frames.items():
        if "tokenizer" in frame.columns:
            for name in frame["tokenizer"].dropna().unique():
                names.setdefault(str(name), frame_name)
    if len(names) > 1:
        (first, place), (second, other) = list(names.items())[:2]
        raise FrameError(
            f"{what}: found two tokenizers, '{first}' ({place}) and '{second}' ({other}); tokens "
            "of different tokenizers cannot be compared. Select one, or give tokenizer= (and, for "
            "a lambda, tokenizer_name=) as in overlap.score."
        )
    return next(iter(names), "")


def flag(verdicts: pd.DataFrame, shared: pd.DataFrame, cut: pd.DataFrame) -> pd.DataFrame:
    """Mark the verdicts on answers that are copies according to the calibrated rule.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts or outcomes frame: attempt_id and passed.
    shared : pandas.DataFrame
        Scored attempts, as returned by :func:`score`, with the chosen n among its lengths.
    cut : pandas.DataFrame
        A calibration, as returned by :func:`calibrate`. The rule in its ``chosen`` row is applied.
        A calibration by skill has one such row per skill.

    Returns
    -------
    pandas.DataFrame
        All verdicts, with three more boolean columns. ``copied`` is True if the rule flags the
        answer, and NA if the attempt was not scored, has no answer or is too short. ``too_short``
        is True if the answer has fewer tokens than the chosen n, and NA if the attempt was not
        scored or has no answer. ``passed_own_words`` is True if the verdict is a PASS and the
        answer is not flagged, False if the verdict is a FAIL or the answer is flagged, and
        otherwise NA. With ``value="passed_own_words"``, :func:`skillcomp.deltas.rates` and
        :func:`skillcomp.deltas.paired` give bounds that allow for the NA.

    Raises
    ------
    FrameError
        If a column is missing or ``passed`` is not boolean; if no row of ``cut`` is chosen, or the
        chosen row has no n; if ``shared`` lacks the chosen n, has an attempt twice for one n or
        was scored with another tokenizer; or if no verdict is about an attempt in ``shared``.

    Warns
    -----
    FrameWarning
        If the answers are longer, by a quarter or more, than the texts for which the rule was
        calibrated, because longer answers share more by chance.
    """
    checked = checked_columns(verdicts, ["attempt_id", "passed"], what="overlap.flag: verdicts")
    passed = checked["passed"]
    rules = _chosen_rules(cut)
    on = columns_of(rules, "n", "skill")
    columns = ["attempt_id", *on, "any_shared", "share"]
    shared = checked_columns(shared, columns, what="overlap.flag: shared")
    common_tokenizer({"shared": shared, "cut": cut}, what="overlap.flag")
    lacking = sorted(set(rules["n"]) - set(shared["n"]))
    if lacking:
        raise FrameError(f"overlap.flag: shared was not scored for n = {lacking[0]}.")
    attempts = shared.dropna(subset="attempt_id")
    require_one_row_per_attempt(attempts, what="overlap.flag: shared")
    attempt_ids = checked["attempt_id"].dropna()
    if len(attempt_ids) and not attempt_ids.isin(attempts["attempt_id"]).any():
        example = f"'{attempts['attempt_id'].iloc[0]}'" if len(attempts) else "no attempts"
        raise FrameError(
            "overlap.flag: no verdict is about an attempt in shared: verdicts have "
            f"'{attempt_ids.iloc[0]}', shared has {example}; allowed: the attempt_id of both "
            "frames alike."
        )
    scored = attempts.merge(rules, on=on)
    if "n_tokens" in scored and "limit" in rules:
        _warn_of_longer_answers(scored, on)
    by_share = scored["share"].fillna(0.0).ge(scored["cut"]).astype("boolean")
    copied = scored["any_shared"].where(scored["rule"].eq("any"), by_share)
    copied = copied.mask(scored["any_shared"].isna())
    too_short: Any = scored["n_tokens"].lt(scored["n"]) if "n_tokens" in scored else pd.NA
    marks = scored.assign(copied=copied, too_short=too_short).set_index("attempt_id")
    marks = marks[["copied", "too_short"]].reindex(checked["attempt_id"]).astype("boolean")
    marks = marks.set_axis(passed.index)
    copied = marks["copied"].mask(marks["too_short"].fillna(False))
    return verdicts.assign(
        copied=copied, too_short=marks["too_short"], passed_own_words=passed & ~copied
    )


def _chosen_rules(cut: pd.DataFrame) -> pd.DataFrame:
    """Return n, rule, cut and, if there is one, skill of the chosen rows of a calibration."""
    cut = checked_columns(cut, ["chosen", "n", "rule", "cut"], what="overlap.flag: cut")
    chosen = cut[cut["chosen"].fillna(False)]
    if chosen.empty or chosen["n"].isna().any():
        without = chosen[chosen["n"].isna()].get("note", pd.Series("no n was chosen."))
        why = "no row is marked chosen." if chosen.empty else str(without.iloc[0])
        raise FrameError(f"overlap.flag: no cut to apply: {why}")
    by_skill = "skill" in chosen.columns
    if not by_skill and len(chosen) > 1:
        raise FrameError(f"overlap.flag: {len(chosen)} rows are marked chosen; one is needed.")
    if by_skill and chosen["skill"].duplicated().any():
        first = chosen.loc[chosen["skill"].duplicated(), "skill"].iloc[0]
        raise FrameError(f"overlap.flag: more than one row is marked chosen for skill '{first}'.")
    names = ["n", *(["skill"] if by_skill else []), "rule", "cut"]
    if "answer_tokens" in chosen:
        chosen = chosen.assign(limit=cut["limit"].max())
        names += ["answer_tokens", "limit"]
    return chosen[names].astype({"n": "int64"})


def _warn_of_longer_answers(scored: pd.DataFrame, by: Sequence[str]) -> None:
    """Warn if the answers are longer than the texts for which a rule keeps its limit."""
    means = scored[scored["n_tokens"].ge(scored["n"])].groupby(list(by), as_index=False)
    for row in means[["n_tokens", "answer_tokens", "limit"]].mean().to_dict("records"):
        own, calibrated = row["n_tokens"], row["answer_tokens"]
        if own > LONGER * calibrated:
            times = (own - row["n"] + 1) / max(calibrated - row["n"] + 1, 1)
            rate = 1 - (1 - row["limit"]) ** times
            skill = f" of skill '{row['skill']}'" if "skill" in row else ""
            warnings.warn(
                f"overlap.flag: the answers{skill} have {own:.0f} content tokens on average, and "
                f"the rule was calibrated for {calibrated:.0f}: where it flags "
                f"{100 * row['limit']:g} % of texts that do not copy, it flags up to "
                f"{100 * rate:.0f} % of such answers. Give these answers to overlap.calibrate, too "
                "(shared=), so that the choice is made at their length.",
                FrameWarning,
                stacklevel=3,
            )


def roc(
    shared: pd.DataFrame,
    *,
    positive: str | Sequence[str] = ("verbatim", "near_copy"),
    negative: str | Sequence[str] = ("fresh", "heavy_revision"),
) -> pd.DataFrame:
    """Compute ROC and precision-recall curves for the share of n-grams in common with the skill.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored passages, as returned by :func:`skillcomp.overlap.score`.
    positive, negative : str or sequence of str
        Levels of passages that copy, and levels of passages that do not. Passages of other levels
        are ignored.

    Returns
    -------
    pandas.DataFrame
        One row per n and cut, the strictest cut first. A text is flagged if its share is at least
        ``cut``; the first cut is infinite. Further columns: ``true_positive_rate``,
        ``false_positive_rate``, ``recall`` (equal to the true positive rate), ``precision`` (1 if
        nothing is flagged, as in scikit-learn), ``prevalence`` (share of copies among the passages)
        and ``n_short`` (passages that are too short for an n-gram).

    Raises
    ------
    FrameError
        If a column or a level is missing, or passages were scored with several tokenizers.

    Notes
    -----
    The points are those of scikit-learn's ``roc_curve`` and ``precision_recall_curve``, one for
    each distinct share. They have no intervals. For rates with intervals use
    :func:`skillcomp.overlap.calibrate`. A passage that is too short for an n-gram is left out if it
    does not copy. If it copies, it counts as one with share 0, which every cut above 0 misses.
    """
    columns = ["kind", "level", "n", "any_shared", "share"]
    shared = checked_columns(shared, columns, what="overlap.roc: shared")
    copying, clean = listed(positive), listed(negative)
    common_tokenizer({"shared": shared}, what="overlap.roc")
    has_text = shared["n_tokens" if "n_tokens" in shared.columns else "any_shared"].notna()
    unjudged = shared["any_shared"].isna() | shared["share"].isna()
    passages = shared.assign(short=unjudged)[shared["kind"].eq("passage") & has_text]
    there = sorted(passages["level"].dropna().unique())
    for name in (*copying, *clean):
        require_known("overlap.roc: no passage has the level", name, there, label="there")
    rows = passages[passages["level"].isin([*copying, *clean])]
    parts = [_curve_points(of_length, copying) for _, of_length in rows.groupby("n")]
    return pd.concat(parts, ignore_index=True)


def _curve_points(passages: pd.DataFrame, copying: Sequence[str]) -> pd.DataFrame:
    """Return the points of the ROC curves for one length n of n-grams."""
    from sklearn.metrics import precision_recall_curve, roc_curve  # slow to import

    n, n_short = passages["n"].iloc[0], passages["short"].sum()
    passages = passages[~passages["short"] | passages["level"].isin(copying)]
    copies, share = passages["level"].isin(copying), passages["share"].fillna(0.0)
    if copies.all():
        raise FrameError(
            f"overlap.roc: every passage that does not copy has fewer than {n} tokens; allowed: "
            "shorter n-grams, or longer passages."
        )
    false_rate, true_rate, cut = roc_curve(copies, share, drop_intermediate=False)
    precision, recall, _ = precision_recall_curve(copies, share)
    return pd.DataFrame(
        {
            "n": n,
            "cut": cut,
            "true_positive_rate": true_rate,
            "false_positive_rate": false_rate,
            "recall": recall[::-1],
            "precision": precision[::-1],
            "prevalence": copies.mean(),
            "n_short": n_short,
        }
    )
