"""How far a case is from its skill: the words of its prompt that the skill does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.io.skills import sections_of
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.score_spans_and_positives import (
    Document,
    Skills,
    score,
    skills_by_slug,
    source_files,
)
from skillcomp.stats.results import NAN

_CODE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1")
_EXAMPLES = re.compile(r"(?i)\bexamples?\b")


def case_distance(
    cases: pd.DataFrame,
    skills: Skills,
    *,
    checks: pd.DataFrame | None = None,
    tokenizer: Tokenizer | None = None,
) -> pd.DataFrame:
    """Measure how far each case is from its skill, by the words that they do not share.

    A distance is 1 minus the share of the distinct content tokens of a text that also occur in the
    skill. It is 0 if the skill has all of them, and 1 if it has none. Shared words stand for shared
    content: a paraphrase of the skill counts as far.

    Parameters
    ----------
    cases : pandas.DataFrame
        A cases frame (skill, case_id, prompt).
    skills : mapping of str to Skill, str or path, or path
        The skills, as in :func:`skillcomp.overlap.score`.
    checks : pandas.DataFrame, optional
        A checks frame (skill, case_id, description), for ``distance_checks``.
    tokenizer : callable or "unicode", optional
        As in :func:`skillcomp.overlap.score`. The default finds English words.

    Returns
    -------
    pandas.DataFrame
        One row per case:

        skill, case_id : str
        distance : float64, 0 to 1, of the prompt from the whole skill
        distance_examples : float64, of the prompt from the examples of the skill: its code blocks,
            and the sections with a heading that contains "example". NaN if the skill has none.
        distance_checks : float64, of the descriptions of all checks of the case from the whole
            skill. NaN without ``checks``.
        longest_run : Int64, number of tokens in the longest sequence of tokens that the prompt
            shares with the skill
        longest_text : str, this sequence as written in the prompt

        A distance is NaN, and a run NA, if the text is missing or has no content token.

    Raises
    ------
    FrameError
        If a frame breaks its contract, or a skill is missing or has no text.
    SkillError
        As :func:`skillcomp.overlap.score`.

    See Also
    --------
    skillcomp.transfer.curve : Estimates how the effect of a skill changes with the distance.

    Notes
    -----
    The copy limit of :func:`skillcomp.overlap.calibrate` was chosen for answers. It says nothing
    about prompts.

    Examples
    --------
    >>> cases = pd.DataFrame({"skill": "tea", "case_id": ["near", "far"],
    ...     "prompt": ["How long should green leaves steep?", "Which roast suits espresso?"]})
    >>> case_distance(cases, {"tea": "Steep green leaves."})["distance"].round(2).tolist()
    [0.25, 1.0]
    """
    rows = check(cases, "cases").drop_duplicates(CASE)[[*CASE, "prompt"]].reset_index(drop=True)

    def shared(texts: pd.Series, documents: Mapping[str, Document]) -> pd.DataFrame:
        passages = rows[["skill"]].assign(
            passage_id=rows.index.astype("str"), level="prompt", text=texts
        )
        passages = passages[rows["skill"].isin(set(documents))]
        scored = score(
            passages, skills=documents, ngram=1, exclude_prompt=False, tokenizer=tokenizer
        )
        return scored.set_index(passages.index)

    documents = skills_by_slug(skills)
    files = {slug: source_files(documents, slug) for slug in rows["skill"].unique()}
    examples = {slug: _examples_of(texts) for slug, texts in files.items()}
    whole = shared(rows["prompt"], documents)
    result = rows[CASE].assign(distance=1.0 - whole["share"])
    of_examples = shared(rows["prompt"], {slug: text for slug, text in examples.items() if text})
    result["distance_examples"] = 1.0 - of_examples["share"]
    result["distance_checks"] = NAN
    if checks is not None:
        asked = check(checks, "checks").dropna(subset="description")
        joined = asked.groupby(CASE)["description"].agg("\n".join)
        texts = rows.join(joined, on=CASE)["description"]
        result["distance_checks"] = 1.0 - shared(texts, documents)["share"]
    return result.assign(longest_run=whole["longest_run"], longest_text=whole["longest_text"])


def _examples_of(files: dict[str, str]) -> str:
    """Return the code blocks and the sections on examples of the Markdown files of a skill."""
    found = []
    for name, text in files.items():
        if name and not name.endswith(".md"):
            continue
        found += [code for _, code in _CODE.findall(text)]
        inside = 0  # level of the heading on examples that the section is below
        for section in sections_of(text):
            if not inside or section.level <= inside:
                inside = section.level if _EXAMPLES.search(section.title) else 0
            found += [section.text] if inside else []
    return "\n".join(["", *found]) if "".join(found).strip() else ""
