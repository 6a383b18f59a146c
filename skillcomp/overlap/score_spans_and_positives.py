"""N-grams that texts share with their skill: counts, places, flags, ROC curves and copies."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from numbers import Real
from os.path import exists
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, instead, plural, require_known, require_whole, suggest
from skillcomp.frames.check import check, plain_values, require_frame, settle
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import check_settings, columns_of, listed, require_columns
from skillcomp.frames.table_reader import FrameWarning
from skillcomp.io.skills import FILE_NAME, skill_folders, skill_of, skill_texts
from skillcomp.ngrams import (
    NO_BLANKS,
    Ints,
    Matches,
    Tokenizer,
    Tokens,
    check_n,
    count_words,
    intern_groups,
    match,
    match_lengths,
    name_of_tokenizer,
    run_lengths,
    share_not_ascii,
    split_sentences,
    tokenize,
)
from skillcomp.records import Skill
from skillcomp.stats.results import NAN, Bools, Fields, Floats

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


_TEXT_KEYS = ["attempt_id", "passage_id", "skill", "case_id", "condition", "level"]
_PLACES = {
    "start": "Int64",
    "end": "Int64",
    "span": "str",
    "file": "str",
    "source_start": "Int64",
    "source_end": "Int64",
    "source": "str",
}


def spans(
    texts: pd.DataFrame,
    *,
    skills: Skills,
    cases: pd.DataFrame | None = None,
    ngram: int = 6,
    exclude_prompt: bool = True,
    boilerplate: str | Sequence[str] = (),
    most: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> pd.DataFrame:
    """List the spans that texts share with their skill, with their places in both texts.

    A span is a sequence of at least `ngram` tokens that is also in the skill, and that cannot be
    made longer at either end. Spans may overlap. A span is left out if it overlaps another span and
    has only n-grams of that span.

    Parameters
    ----------
    texts, skills, cases, exclude_prompt, boilerplate, tokenizer
        As in :func:`score`.
    ngram : int, default 6
        Smallest number of tokens of a span.
    most : int, optional
        Largest number of spans.

    Returns
    -------
    pandas.DataFrame
        One row per span, the longest first: attempt_id, passage_id, skill, case_id, condition and
        level (NA if `texts` does not have the column), then

        n_tokens : int64, number of tokens of the span
        start, end : Int64, place in the text in characters, so that ``text[start:end]`` is the span
        span : str, as written in the text
        file : str, file of the skill; NA if the skill was given as a text
        source_start, source_end : Int64, place of the first such sequence in that file
        source : str, as written in the skill

        Indices are NA if the tokens do not occur in the text, because your own tokenizer rewrites
        them.

    Raises
    ------
    FrameError
        As in :func:`score`, or if `most` is below 1.

    See Also
    --------
    score : Counts the n-grams; a text has a span exactly if ``any_shared`` is True for this n.

    Notes
    -----
    A span counts if at least one of its n-grams is in neither the prompt nor the boilerplate. It is
    listed as a whole, even if it begins or ends with words of the prompt.

    Examples
    --------
    >>> passages = pd.DataFrame({"passage_id": ["p"], "skill": ["s"], "level": ["near_copy"],
    ...     "text": ["They narrow the unknown values."]})
    >>> skills = {"s": "Always narrow unknown values, then decode."}
    >>> shared = spans(passages, skills=skills, ngram=3)
    >>> shared.loc[0, ["span", "source"]].tolist()
    ['narrow the unknown values', 'narrow unknown values']
    """
    if most is not None and most < 1:
        raise FrameError(f"overlap.spans: most: found {most!r}; allowed: at least 1.")
    (n,) = check_n(ngram, "overlap.spans: ngram").tolist()
    written = checked_texts(texts, skills, cases, exclude_prompt, boilerplate)
    rows = [
        place
        for at in range(len(written.files))
        for place in _spans_of_source(written, at, n, tokenizer)
    ]
    dtypes = {"row": "int64", "n_tokens": "int64", **_PLACES}
    places = pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)
    order = ["n_tokens", "row", "start"]
    places = places.sort_values(order, ascending=[False, True, True]).head(most or len(places))
    keys = (
        written.frame.reindex(columns=_TEXT_KEYS).astype("str").take(places.pop("row").to_numpy())
    )
    return pd.concat([keys.reset_index(drop=True), places.reset_index(drop=True)], axis=1)


def _spans_of_source(
    written: ScoredTexts, source: int, n: int, tokenizer: Tokenizer | None
) -> list[Fields]:
    """Return the spans that texts share with one source; ``row`` is the number of the text."""
    rows = np.flatnonzero(written.source_of == source)
    texts = [written.texts[row] for row in rows]
    banned, exclude = np.unique(written.exclude_of[rows], return_inverse=True)
    files = written.files[source]
    groups = [list(files.values()), *("" if i < 0 else written.excludes[i] for i in banned)]
    tokens, owned, first = intern_groups(groups, texts, tokenizer)
    text = np.repeat(np.arange(len(rows)), np.diff(tokens.bounds)[first:])
    runs = _maximal_runs(tokens, owned, first, exclude[text], n)
    placed = []
    ids = tokens.ids[: owned[1]]
    for begin, run in _without_repeats(tokens.ids, runs, n):
        at = text[begin - tokens.bounds[first]]
        other = _first_occurrence(ids, tokens.ids[begin : begin + run])
        part = int(np.searchsorted(tokens.bounds, other, side="right")) - 1
        file, whole = list(files.items())[part]
        place = {"row": rows[at], "n_tokens": run, "file": file or None}
        place |= _place(tokens, texts[at], first + at, begin, run, ("start", "end", "span"))
        names = ("source_start", "source_end", "source")
        place |= _place(tokens, whole, part, other, run, names)
        placed.append(place)
    return placed


def _maximal_runs(
    tokens: Tokens, owned: Ints, first: int, exclude: Ints, n: int
) -> list[tuple[int, int]]:
    """Return position and length of each shared run that is not part of a longer shared run.

    At least one n-gram of each run is in no excluded text. The first group of documents is the
    source. `exclude` holds, for each position, the index (from 0) of the group of excluded texts.
    """
    here = np.arange(tokens.bounds[first], tokens.bounds[-1])
    run = run_lengths(tokens, owned, here, np.zeros_like(here))
    # A run is not maximal if a longer shared run contains it and begins one token earlier.
    grows = np.append(0, run[:-1]) == run + 1
    begin = np.flatnonzero((run >= n) & ~grows)
    banned = match_lengths(tokens, owned[1:], here, exclude, n)
    counted = np.concatenate([[0], np.cumsum(banned < n)])
    begin = begin[counted[begin + run[begin] - n + 1] > counted[begin]]
    return list(zip(here[begin].tolist(), run[begin].tolist(), strict=True))


def _without_repeats(ids: Ints, runs: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """Leave out each run that overlaps another run and has only n-grams of that run.

    Without this rule, a text that repeats one word would have a run at every word.
    """
    listed = []
    # `stop` is the end of the last listed run. If a run begins before `stop`, the two overlap, and
    # `seen` keeps its n-grams; otherwise `seen` is emptied. N-grams at positions before `checked`
    # were added already.
    seen: set[bytes] = set()
    checked = stop = -1
    for begin, run in runs:
        overlaps = begin < stop
        if not overlaps:
            seen, checked = set(), begin
        last = begin + run - n + 1
        new = {ids[at : at + n].tobytes() for at in range(max(checked, begin), last)}
        checked = max(checked, last)
        if not overlaps or not new <= seen:
            listed.append((begin, run))
            stop = begin + run
        seen |= new
    return listed


def _first_occurrence(ids: Ints, run: Ints) -> int:
    """Return the position of the first occurrence of a run of tokens, which must exist."""
    at = np.flatnonzero(ids[: len(ids) - len(run) + 1] == run[0])
    for step in range(1, len(run)):
        if len(at) == 1:
            break
        at = at[ids[at + step] == run[step]]
    return int(at[0])


def _place(
    tokens: Tokens, text: str, doc: int, begin: int, run: int, names: tuple[str, str, str]
) -> Fields:
    """Return start, end and text of a run of tokens in its document."""
    at = begin - tokens.bounds[doc]
    start, end = tokens.edges(text, doc, at, run) or (None, None)
    return dict(zip(names, (start, end, tokens.cut(text, doc, at, run)), strict=True))


MADE_UP = "made-up copies: the rate belongs to the edits that made them, so there is no interval"
_EDIT_RATES = (0.1, 0.3)  # shares of the words that are edited
_SENTENCES = (1, 2, 4)  # numbers of sentences in a passage
FEWEST_WORDS = 4  # a text with fewer words than this is taken for a label, not a sentence
_FENCE = re.compile(r"^\s*(?:```|~~~)")
# matches lines that are never quoted: tables, headings, horizontal rules
_LEFT_OUT = re.compile(r"^\s*(?:\||#{1,6}\s|[-=*_]{3,}\s*$)")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
# matches a word and the blanks before it; in scripts without blanks, each character is a word
_WORD = re.compile(rf"(\s*)([{NO_BLANKS}]|[^\s{NO_BLANKS}]+)")


def positives(
    skill: Skill | Skills,
    *,
    seed: int = 0,
    n_each: int = 20,
) -> pd.DataFrame:
    """Make verbatim passages and near copies out of the text of a skill.

    A passage is a sequence of one, two or four sentences of one section. It is quoted whole, or 10
    or 30 % of its words are dropped or swapped with the next word. Tables, headings and code are
    left out.

    Parameters
    ----------
    skill : Skill, mapping of str to Skill, str or path, or path
        A skill, or several with slugs as keys, such as ``store.skills``; paths as in :func:`score`.
    seed : int, default 0
        Seed of the random generator. Each skill has its own generator, so that its passages do not
        depend on the other skills.
    n_each : int, default 20
        Largest number of passages for each combination of skill, number of sentences, edit and
        rate. A skill with few sentences gives fewer.

    Returns
    -------
    pandas.DataFrame
        A passages frame (passage_id, skill, document, level, text) with ``made_up`` True and

        level : ``verbatim`` without an edit, otherwise ``near_copy``
        document : the skill and the first sentence that is quoted
        edit : str, ``none``, ``dropped`` or ``swapped``
        edit_rate : float64, share of the words that are edited
        n_sentences : int64
        source_text : str, the sentences before the edit

    Raises
    ------
    FrameError
        If a skill has no sentence to quote, or a number is out of range.

    See Also
    --------
    positives_found : Computes how many of these passages have an n-gram of the skill.
    calibrate : Estimates the threshold; its choice then depends only on the nulls.

    Notes
    -----
    The rate of made-up copies that are detected is a fact about these edits. It has no interval,
    because more passages would not show more about the copies of an agent. Passages that people or
    models wrote by copying are the better source.

    Examples
    --------
    >>> copies = positives({"tea": "Pour the water over the leaves. Wait for four minutes."})
    >>> copies.loc[copies["level"].eq("verbatim"), "text"].tolist()[0]
    'Pour the water over the leaves.'
    """
    check_settings("overlap.positives", 0.95, seed=seed)
    require_whole("overlap.positives: n_each", n_each, FrameError)
    edits = [("none", 0.0), *product(("dropped", "swapped"), _EDIT_RATES)]
    rows = []
    for slug, one_skill in _parsed_skills(skill).items():
        rng = np.random.default_rng([seed, *slug.encode()])
        blocks = [list(_sentences_of_block(block)) for block in _blocks_of_skill(one_skill)]
        if not any(_quoted_sentences(blocks, 1)):
            raise FrameError(
                f"overlap.positives: skill '{slug}' has no sentence of {FEWEST_WORDS} words or "
                "more; give passages that were written by hand."
            )
        for n_sentences in _SENTENCES:
            quotes = list(_quoted_sentences(blocks, n_sentences))
            picked = rng.permutation(len(quotes))[:n_each]
            for place in sorted(picked.tolist()):
                number, text = quotes[place]
                about = {
                    "skill": slug,
                    "document": f"{slug}/sentence {number}",
                    "n_sentences": n_sentences,
                    "source_text": text,
                }
                rows += [
                    about
                    | {"edit": edit, "edit_rate": rate, "text": _edited_text(text, edit, rate, rng)}
                    for edit, rate in edits
                ]
    table = pd.DataFrame(rows)
    numbers = (table.groupby("skill").cumcount() + 1).astype("str").str.zfill(4)
    table["passage_id"] = table["skill"] + "/made-up-" + numbers
    levels = table["edit"].eq("none").map({True: "verbatim", False: "near_copy"})
    return check(table.assign(level=levels, made_up=True), "passages")


def positives_found(
    passages: pd.DataFrame,
    *,
    skills: Skills,
    ngram: Iterable[int] | int = range(3, 13),
) -> pd.DataFrame:
    """Compute the rate of made-up copies with an n-gram of their skill, by length and edit.

    Parameters
    ----------
    passages : pandas.DataFrame
        Passages of :func:`positives`.
    skills, ngram
        As in :func:`score`.

    Returns
    -------
    pandas.DataFrame
        One row per number of sentences, edit, rate and n: n_sentences, edit, edit_rate, n,
        ``copy`` (the edit in words), measure (``sensitivity``), unit, estimate, ci_low and ci_high
        (NaN, see the note), n_texts, note. A passage with fewer than n tokens counts as missed.

    Raises
    ------
    FrameError
        If a column of :func:`positives` is missing, or a skill is missing from `skills`.
    """
    keys = ["n_sentences", "edit", "edit_rate"]
    passages = checked_columns(passages, ["text", *keys], what="overlap.positives_found: passages")
    scored = score(passages, skills=skills, ngram=ngram)
    scored = scored.merge(passages[["passage_id", *keys]], on="passage_id")
    scored["estimate"] = scored["any_shared"].fillna(False).astype("float64")
    rates = scored.groupby([*keys, "n"], sort=False)["estimate"]
    table = rates.agg(estimate="mean", n_texts="size").reset_index()
    words = {"none": "quoted whole", "dropped": "words dropped", "swapped": "words swapped"}
    copy = [
        words[edit] if edit == "none" else f"{100 * rate:g} % of {words[edit]}"
        for edit, rate in zip(table["edit"], table["edit_rate"], strict=True)
    ]
    table = table.assign(copy=copy, measure="sensitivity", unit="rate", note=MADE_UP)
    table[["ci_low", "ci_high"]] = NAN
    front = [*keys, "copy", "n", "measure", "unit", "estimate", "ci_low", "ci_high"]
    return table[[*front, "n_texts", "note"]]


def _parsed_skills(skill: Skill | Skills) -> dict[str, Skill]:
    if isinstance(skill, Skill):
        return {skill.slug: skill}
    documents = skills_by_slug(skill)
    if not documents:
        raise FrameError(
            "overlap.positives: there is no skill; give the text of its SKILL.md, as {'tea': text},"
            " or add it to the study (RunStore.add_skill)."
        )
    return {
        slug: document
        if isinstance(document, Skill)
        else skill_of("\n\n".join(source_files(documents, slug).values()), slug, Path(slug))
        for slug, document in documents.items()
    }


def _blocks_of_skill(skill: Skill) -> Iterator[list[str]]:
    """Yield blocks of lines that can be quoted; a heading, table or code block ends a block."""
    for text in (skill.description, *skill.concept.values(), skill.body or skill.text):
        block: list[str] = []
        code = False
        for line in text.splitlines():
            fence = bool(_FENCE.match(line))
            if fence or code or _LEFT_OUT.match(line):
                code ^= fence
                yield block
                block = []
            else:
                block.append(line)
        yield block


def _sentences_of_block(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a block, after joining the lines of each paragraph."""
    paragraph: list[str] = []
    for line in [*lines, ""]:
        item = _ITEM.match(line)
        ends = (
            item or not line.strip() or (paragraph and re.search(r"[.!?。！？:;]$", paragraph[-1]))
        )
        if ends:
            yield from split_sentences(" ".join(paragraph))
            paragraph = []
        text = line[item.end() :] if item else line
        paragraph += [text.strip()] if text.strip() else []


def _quoted_sentences(blocks: Iterable[Sequence[str]], size: int) -> Iterator[tuple[int, str]]:
    """Yield ``size`` neighbouring sentences of a block, and the number of the first sentence."""
    first = 1
    for block in blocks:
        for at in range(len(block) - size + 1):
            text = " ".join(block[at : at + size])
            if count_words(text) >= FEWEST_WORDS:
                yield first + at, text
        first += len(block)


def _edited_text(text: str, edit: str, rate: float, rng: np.random.Generator) -> str:
    """Drop a share of the words of a text, at least one, or swap neighbouring words."""
    if edit == "none":
        return text
    blanks, words = zip(*_WORD.findall(text), strict=True)
    n_edited = max(1, round(rate * len(words)))
    order = np.arange(len(words))
    if edit == "dropped":
        order = np.sort(rng.permutation(order)[min(n_edited, len(words) - 1) :])
        return "".join(blanks[at] + words[at] for at in order).strip()
    free = np.ones(len(words), dtype=bool)
    for at in rng.permutation(len(words) - 1):
        if n_edited > 0 and free[at] and free[at + 1]:  # swap no word twice
            order[[at, at + 1]] = at + 1, at
            free[[at, at + 1]] = False
            n_edited -= 2
    return "".join(blank + words[at] for blank, at in zip(blanks, order, strict=True)).strip()
