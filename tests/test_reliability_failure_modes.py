import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import failure_mode_rates, failure_modes
from skillcomp.reliability.integrity_and_failure_modes import MODES


def cases(**columns: object) -> pd.DataFrame:
    facts: dict[str, object] = {
        "skill": "s",
        "case_id": ["s/1", "s/2"],
        "comprehension_dimension": "C2",
        "transfer": "near",
        "bloom": "apply",
        "contrast_of": None,
    }
    return pd.DataFrame(facts | columns)


def attempts(condition: str = "skill") -> pd.DataFrame:
    """Two cases, and one baseline answer that shows what is shared by coincidence."""
    return pd.DataFrame(
        {
            "attempt_id": ["a1", "a2", "b1"],
            "skill": "s",
            "case_id": ["s/1", "s/2", "s/1"],
            "condition": [condition, condition, "baseline"],
            "loaded_skill": pd.Series([None] * 3, dtype="str"),
            "agent": "m",
        }
    )


def shared(any_shared: bool = False, share: float = 0.0) -> pd.DataFrame:
    answers = (("a1", any_shared, share), ("a2", False, 0.0), ("b1", False, 0.05))
    rows = [(name, n, copied, part) for name, copied, part in answers for n in (3, 6)]
    return pd.DataFrame(rows, columns=["attempt_id", "n", "any_shared", "share"]).assign(skill="s")


def verdicts(
    check_id: str = "names_it", kind: str = "positive", passed: tuple[int, ...] = (0, 1, 1, 1, 1)
) -> pd.DataFrame:
    """A behaviour of s/1, which fails by default, and four of s/2."""
    checks = [check_id, "p0", "p1", "p2", "p3"]
    return pd.DataFrame(
        {
            "attempt_id": ["a1", *["a2"] * 4],
            "case_id": ["s/1", *["s/2"] * 4],
            "check_id": checks,
            "check_kind": [kind, *["positive"] * 4],
            "skill": "s",
            "condition": "skill",
            "grader": "g",
            "passed": [bool(flag) for flag in passed],
        }
    )


def label(
    rows: pd.DataFrame | None = None,
    *,
    answers: pd.DataFrame | None = None,
    overlap: pd.DataFrame | None = None,
    **facts: object,
) -> pd.Series:
    labels = failure_modes(
        verdicts() if rows is None else rows,
        attempts() if answers is None else answers,
        shared() if overlap is None else overlap,
        cases(**facts),
    )
    assert len(labels) == 1
    return labels.iloc[0]


def rates(labels: pd.DataFrame) -> pd.DataFrame:
    return failure_mode_rates(labels).set_index("measure")


def test_a_failed_check_against_copying_with_a_shared_run_is_verbatim_copying() -> None:
    rows = verdicts("no_verbatim_span", "negative")
    copied = label(rows, overlap=shared(True))
    assert copied["mode"] == "verbatim_copying" and "shares a run of tokens" in copied["why"]
    # a grader that fails the check where nothing is shared has not shown copying
    assert label(rows)[["mode", "why"]].isna().all()


def test_a_failed_negative_check_of_a_misleading_prompt_is_capitulation() -> None:
    rows = verdicts("no_note_drafted", "negative")
    misled = label(rows, comprehension_dimension="C7")
    assert misled["mode"] == "leading_prompt_capitulation"
    # the prompt of the contrast member is right: refusing it is another failure
    member = label(rows, comprehension_dimension="C7", contrast_of=["s/2", None])
    assert pd.isna(member["mode"])


@pytest.mark.parametrize("dimension", ["C4", "C9"])
def test_partial_compliance_beyond_the_boundary_is_softening(dimension: str) -> None:
    rows = verdicts("no_partial_comply", "negative")
    assert label(rows, comprehension_dimension=dimension)["mode"] == "scope_reduction_softening"


@pytest.mark.parametrize(
    ("dimensions", "passed", "mode"),
    [
        ("C2", (0, 1, 1, 1, 1), "near_far_failure"),
        # no near case of the dimension: all near cases of the skill count
        (["C5", "C2"], (0, 1, 1, 1, 1), "near_far_failure"),
        ("C2", (0, 1, 1, 0, 0), None),  # half is not more than half
    ],
)
def test_a_far_case_fails_while_near_ones_pass(
    dimensions: object, passed: tuple[int, ...], mode: str | None
) -> None:
    facts = cases(transfer=["far", "near"], comprehension_dimension=dimensions)
    labels = failure_modes(verdicts(passed=passed), attempts(), shared(), facts)
    assert labels["mode"].fillna("").tolist() == [mode or ""] * (5 - sum(passed))


def test_without_near_cases_a_failure_of_transfer_is_unknown() -> None:
    assert pd.isna(label(transfer="far")["near_far_failure"])


@pytest.mark.parametrize(("bloom", "mode"), [("apply", "body_only_retrieval"), ("understand", "")])
def test_words_of_the_skill_without_their_use_are_body_only_retrieval(
    bloom: str, mode: str
) -> None:
    labelled = label(overlap=shared(True), bloom=bloom)
    assert (labelled["mode"] if mode else "") == mode
    assert labelled["body_only_retrieval"] == bool(mode)


def test_answers_without_the_skill_distinguish_a_close_paraphrase_from_coincidence() -> None:
    assert label(overlap=shared(share=0.2))["mode"] == "paraphrastic_regurgitation"
    assert pd.isna(label(overlap=shared(share=0.05))["mode"])
    # unknown without any answer that lacked the skill
    overlap = shared(share=0.2).query("attempt_id != 'b1'")
    unknown = label(overlap=overlap, answers=attempts()[:2])
    assert unknown[["paraphrastic_regurgitation", "mode"]].isna().all()


def test_copying_and_transfer_need_the_skill_to_have_been_loaded() -> None:
    rows = verdicts("no_verbatim_span", "negative")
    for condition in ("baseline", "placebo"):
        labelled = label(
            rows.assign(condition=condition),
            answers=attempts(condition),
            overlap=shared(True, share=0.3),
            transfer=["far", "near"],
        )
        assert pd.isna(labelled["mode"])
    own = attempts("placebo").assign(loaded_skill="s")
    labelled = label(rows.assign(condition="placebo"), answers=own, overlap=shared(True))
    assert labelled["mode"] == "verbatim_copying"


@pytest.mark.parametrize(
    ("column", "unknown"),
    [
        ("comprehension_dimension", ["leading_prompt_capitulation", "scope_reduction_softening"]),
        ("transfer", ["near_far_failure"]),
        ("bloom", ["body_only_retrieval"]),
    ],
)
def test_what_was_not_recorded_is_unknown_and_not_zero(column: str, unknown: list[str]) -> None:
    labels = failure_modes(verdicts(), attempts(), shared(), cases().drop(columns=column))
    assert labels[unknown].isna().all(axis=None)
    assert labels[[mode for mode in MODES if mode not in unknown]].notna().all(axis=None)
    table = rates(labels)
    for mode in unknown:
        assert np.isnan(table.loc[mode, "estimate"]) and table.loc[mode, "n_undecided"] == 1
        note = table.loc[mode, "note"]
        assert "unknown for every failure" in note and column in note
    assert table.loc["verbatim_copying", "estimate"] == 0
    none = table.loc["none_of_these"]
    assert none["estimate"] == 1 and "at most this share" in none["note"]


def test_without_the_kind_of_check_only_transfer_is_known() -> None:
    rows = verdicts().drop(columns="check_kind")
    estimate = rates(failure_modes(rows, attempts(), shared(), cases()))["estimate"].dropna()
    assert estimate.index.tolist() == ["near_far_failure", "none_of_these"]
    # an answer that had no skill cannot have copied it, whatever the kind of check
    bare = label(rows.assign(condition="baseline"), answers=attempts("baseline"))
    assert not bare["verbatim_copying"] and pd.isna(bare["leading_prompt_capitulation"])


def test_a_mode_that_is_unknown_for_some_failures_is_a_lower_bound() -> None:
    rows = verdicts(passed=(0, 0, 1, 1, 1))
    labels = failure_modes(rows, attempts(), shared(), cases(transfer=[None, "near"]))
    mode = rates(labels).loc["near_far_failure"]
    assert (mode["estimate"], mode["n"], mode["n_undecided"]) == (0, 2, 1)
    assert "for 1 of 2 failures it is unknown" in mode["note"]
    assert "at least this share" in mode["note"]


def test_a_mode_is_an_upper_bound_if_a_preceding_one_is_unknown() -> None:
    about = cases(transfer=[None, "near"])
    table = rates(failure_modes(verdicts(), attempts(), shared(True), about))
    mode = table.loc["body_only_retrieval"]
    assert (mode["estimate"], mode["n_undecided"]) == (1, 0)
    assert "of higher rank is unknown (near_far_failure): at most this share" in mode["note"]
    # the failure with the label of a later mode may be one of transfer
    assert table.loc["near_far_failure", "n_undecided"] == 1
    assert "at most" not in table.loc["verbatim_copying", "note"]


def test_a_share_that_may_be_higher_or_lower_is_not_called_a_bound() -> None:
    rows = verdicts(passed=(0, 0, 1, 1, 1))
    labels = failure_modes(rows, attempts(), shared(True), cases())
    labels["mode"] = ["body_only_retrieval", None]
    labels["near_far_failure"] = pd.array([None, False], dtype="boolean")
    labels["body_only_retrieval"] = pd.array([True, None], dtype="boolean")
    note = rates(labels).loc["body_only_retrieval", "note"]
    assert note.count("the share may be higher or lower") == 2 and "this share" not in note


def test_a_failed_grader_gives_no_label() -> None:
    rows = verdicts().assign(status=["error", "ok", "ok", "ok", "ok"])
    assert failure_modes(rows, attempts(), shared(), cases()).empty


def test_missing_rows_are_named() -> None:
    with pytest.raises(FrameError, match=r"shared has no n-grams of length 5; there: \[3, 6\]"):
        failure_modes(verdicts(), attempts(), shared(), cases(), ngram=5)
    with pytest.raises(FrameError, match="case 's/1' of the verdicts is not in the cases frame"):
        failure_modes(verdicts(), attempts(), shared(), cases()[1:])
    with pytest.raises(FrameError, match="attempt 'a1' of the verdicts is not in the attempts"):
        failure_modes(verdicts(), attempts()[1:], shared(), cases())


def test_the_shares_of_all_modes_add_up_by_skill_and_condition() -> None:
    labels = failure_modes(verdicts(passed=(0, 0, 0, 1, 1)), attempts(), shared(True), cases())
    table = rates(labels)
    assert table.index.tolist() == [*MODES, "none_of_these"]
    assert table["count"].sum() == 3 and table["n"].unique().tolist() == [3]
    assert table.loc["body_only_retrieval", "count"] == 1
    assert table.loc["none_of_these", "estimate"] == pytest.approx(2 / 3)
    assert set(zip(table["skill"], table["condition"], strict=True)) == {("s", "skill")}
    two = pd.concat([labels, labels.assign(grader="h")])
    with pytest.raises(FrameError, match="more than one grader"):
        failure_mode_rates(two, by="skill")
    with pytest.raises(FrameError, match="more than one agent: a, b"):
        failure_mode_rates(two.assign(agent=["a"] * 3 + ["b"] * 3), by=["grader", "skill"])


def test_the_pilot_copies_only_with_the_skill(
    pilot: sc.RunStore, pilot_cases: pd.DataFrame
) -> None:
    answers = sc.frames.attempts(pilot)
    overlap = sc.overlap.score(answers, skills=pilot.skills, cases=pilot_cases, ngram=[3, 6])
    labels = failure_modes(sc.frames.verdicts(pilot), answers, overlap, pilot_cases)
    forced = labels[labels["grader"].eq("g2")]
    counts = forced.groupby("condition")["mode"].value_counts().unstack(fill_value=0)
    assert counts["verbatim_copying"].to_dict() == {"baseline": 0, "placebo": 0, "skill": 6}
    assert counts.loc["skill", "near_far_failure"] == 10
    # without the skill most behaviours fail for want of knowledge, not in one of the six ways
    unlabelled = forced["mode"].isna().groupby(forced["condition"]).mean()
    assert unlabelled["baseline"] > 0.8 and unlabelled["skill"] < 0.5
