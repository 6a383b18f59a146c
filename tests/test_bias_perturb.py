"""Perturbed copies keep the content, touch no code and are the same every time."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from benchmarks import simulated
from skillcomp.bias.features_and_perturbations import parts

KINDS = ["pad", "hedge", "reorder", "confident", "approve", "disapprove"]
ADDED = (
    "perhaps|I think|it seems|probably|certainly|without question|beyond any doubt|"
    "of that there is no doubt"
)
ANSWER = """The key is the row. It is stored once. Look at `a. B` here.

- Cost is low.
- Risk is high, e.g. on Mondays.
  It falls later.
- Time is short.

```python
x = 1. # Keep. This
- not a bullet
```

1. First, stop.
2. Then start.

> Quoted. Never changed.

| a. | B. |
"""


def attempts(*answers: str | None) -> pd.DataFrame:
    frame = pd.DataFrame({"answer": answers, "skill": "s", "condition": "skill"}, dtype=object)
    numbers = frame.index.astype(str)
    status = np.where(frame["answer"].isna(), "error", "ok")
    calls = {"output_tokens": 10, "cost_usd": 0.1}
    return frame.assign(attempt_id="a" + numbers, case_id="s/" + numbers, status=status, **calls)


def changed(answer: str, kind: str) -> str:
    return sc.bias.perturb(attempts(answer), kind=kind)["answer"].iloc[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_names_its_source_and_carries_no_cost(kind: str) -> None:
    frame = sc.bias.perturb(attempts(ANSWER), kind=kind)
    row = frame.iloc[0]
    assert row["attempt_id"] == f"a0/{kind}"
    assert row["source_attempt_id"] == "a0" and row["perturbation"] == kind
    assert row["n_words"] == len(row["answer"].split())
    assert pd.isna(row["output_tokens"]) and pd.isna(row["cost_usd"])
    pd.testing.assert_frame_equal(frame, sc.frames.check(frame, "attempts"))


@pytest.mark.parametrize("kind", KINDS)
def test_code_quotations_and_tables_stay_as_they_are(kind: str) -> None:
    answer = changed(ANSWER, kind)
    for block in (
        "```python\nx = 1. # Keep. This\n- not a bullet\n```",
        "> Quoted. Never changed.",
        "| a. | B. |",
        "`a. B`",
        "1. First, stop",
    ):
        assert block in answer


def test_every_other_sentence_is_marked_and_abbreviations_are_none() -> None:
    answer = changed("One is. Two are, e.g. Three. Four sit. Five go. It is 2.5 long", "hedge")
    # sentences end after is, Three, sit and go; the first and third are marked
    assert len(re.findall(ADDED, answer)) == 2
    assert re.match(
        rf"One is, (?:{ADDED})\. Two are, e\.g\. Three\. Four sit, (?:{ADDED})\.", answer
    )


def test_bullets_are_reversed_with_the_lines_under_them() -> None:
    lines = changed(ANSWER, "reorder").split("\n")
    at = lines.index("- Time is short.")
    assert lines[at + 1 : at + 4] == [
        "- Risk is high, e.g. on Mondays.",
        "  It falls later.",
        "- Cost is low.",
    ]
    assert sorted(lines) == sorted(ANSWER.split("\n"))


def test_what_leans_on_its_neighbour_keeps_its_place() -> None:
    assert sc.bias.perturb(attempts("- Stop.\n- Then go."), kind="reorder").empty
    assert sc.bias.perturb(attempts("1. Stop.\n2. Go."), kind="reorder").empty
    assert sc.bias.perturb(attempts("One.\n\nTwo.\n\nThree."), kind="reorder").empty


def test_labelled_paragraphs_are_reversed_where_no_list_can_be() -> None:
    answer = changed("So.\n\n**Cost.** It is low.\n\n**Risk.** It is high.\n\nDone.", "reorder")
    assert answer == "So.\n\n**Risk.** It is high.\n\n**Cost.** It is low.\n\nDone."


LINE = st.sampled_from(
    ["", "- one item.", "  under it.", "* Star", "1. First.", "Plain text. More.", "```", "# Head",
     "> said. So", "    code. Here", "**Cost.** Low. It is.", "| a | b |", "- then last.", "~~~"]
)  # fmt: skip


@settings(max_examples=5, deadline=None)
@given(st.lists(LINE, min_size=1, max_size=14))
def test_parts_join_to_the_answer_and_changes_lose_nothing(lines: list[str]) -> None:
    answer = "\n".join(lines)
    assert "\n".join(part.text for part in parts(answer)) == answer
    fixed = [part.text for part in parts(answer) if part.kind == "fixed"]
    for kind in KINDS:
        frame = sc.bias.perturb(attempts(answer), kind=kind)
        pd.testing.assert_frame_equal(frame, sc.bias.perturb(attempts(answer), kind=kind))
        for new in frame["answer"]:
            plain = re.sub(f", (?:{ADDED})(?=\\.)", "", new)
            if kind in ("pad", "approve", "disapprove"):
                assert answer in plain
            else:
                assert sorted(plain.split("\n")) == sorted(lines)
            if kind in ("hedge", "confident"):
                assert plain == answer
                assert [p.text for p in parts(new) if p.kind == "fixed"] == fixed


def test_features_of_an_answer_by_hand() -> None:
    # prose: 12 words with two bullets, the code is left out; "may" is a hedge and "May" is not
    text = "In May it may rain. Perhaps not.\n\n- sun here\n- snow\n\n```\nperhaps maybe\n```"
    row = sc.bias.features(attempts(text, None)).iloc[0]
    assert row["n_words"] == 16
    # marks count as words of the prose: 7 + 3 + 2
    assert row["hedges_per_100"] == pytest.approx(100 * 2 / 12)
    assert row["has_list"] == 1
    # sentences: "In May it may rain.", "Perhaps not.", "sun here", "snow"
    assert row["words_per_sentence"] == pytest.approx(12 / 4)
    assert sc.bias.features(attempts(None)).iloc[0].drop("attempt_id").isna().all()


def test_a_grader_that_agrees_with_the_user_shows_framing_in_the_audit() -> None:
    made = simulated.study(n_skills=2, n_cases=20, n_repeats=1, delta=0.1, seed=4)
    answered = made.attempts.assign(answer="The mark is read at high water.")
    rng = np.random.default_rng(2)
    copies, verdicts = [answered], [made.verdicts]
    for kind, to in (("approve", True), ("disapprove", False)):
        copy = sc.bias.perturb(answered, kind=kind)
        assert copy["answer"].str.contains("[The user replied: ", regex=False).all()
        sources = made.verdicts.merge(
            copy[["attempt_id", "source_attempt_id"]].rename(
                columns={"attempt_id": "copy_id", "source_attempt_id": "attempt_id"}
            )
        )
        flips = rng.random(len(sources)) < 0.5
        verdicts.append(
            sources.assign(
                attempt_id=sources["copy_id"],
                perturbation=kind,
                passed=sources["passed"].mask(flips, to),
            ).drop(columns="copy_id")
        )
        copies.append(copy)
    found = sc.bias.audit(pd.concat(verdicts), pd.concat(copies), made.gold)
    framing = found[found["bias"].eq("framing")].set_index("per")
    assert framing.at["copy with a remark of a pleased user", "ci_low"] > 0
    assert framing.at["copy with a remark of a displeased user", "ci_high"] < 0
