import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import failure_mode_rates, failure_modes
from skillcomp.reliability.failure_modes import MODES


def cases(**columns: object) -> pd.DataFrame:
    about: dict[str, object] = {
        "skill": "s",
        "case_id": ["s/1", "s/2"],
        "comprehension_dimension": "C2",
        "transfer": "near",
        "bloom": "apply",
        "contrast_of": None,
    }
    return pd.DataFrame(about | columns)


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


def shared(long_: bool = False, share: float = 0.0, without: float = 0.05) -> pd.DataFrame:
    rows = [
        {"attempt_id": name, "skill": "s", "n": n, "any_shared": flag, "share": part}
        for name, flag, part in (("a1", long_, share), ("a2", False, 0.0), ("b1", False, without))
        for n in (3, 6)
    ]
    return pd.DataFrame(rows)


def verdicts(
    check_id: str = "names_it", kind: str = "positive", rationale: str | None = None
) -> pd.DataFrame:
    """The behaviour of s/1 fails, four behaviours of s/2 pass."""
    one = {"attempt_id": "a1", "case_id": "s/1", "check_id": check_id, "check_kind": kind}
    rest = [
        {"attempt_id": "a2", "case_id": "s/2", "check_id": f"p{k}", "check_kind": "positive"}
        for k in range(4)
    ]
    rows = pd.DataFrame([one, *rest]).assign(
        skill="s", condition="skill", grader="g", passed=[False, True, True, True, True]
    )
    rows["rationale"] = pd.Series([rationale] + [None] * 4, dtype="str")
    return rows


def label(
    rows: pd.DataFrame,
    *,
    answers: pd.DataFrame | None = None,
    overlap: pd.DataFrame | None = None,
    about: pd.DataFrame | None = None,
) -> pd.Series:
    found = failure_modes(
        rows,
        attempts() if answers is None else answers,
        shared() if overlap is None else overlap,
        cases() if about is None else about,
    )
    assert len(found) == 1
    return found.iloc[0]


def test_a_failed_check_against_copying_with_a_shared_run_is_verbatim_copying() -> None:
    found = label(verdicts("no_verbatim_span", "negative"), overlap=shared(True))
    assert (found["mode"], found["basis"]) == ("verbatim_copying", "data")
    # a grader that fails the check where nothing is shared has not shown copying
    assert pd.isna(label(verdicts("no_verbatim_span", "negative"))["mode"])


def test_the_forbidden_thing_in_a_misleading_prompt_is_capitulation() -> None:
    misled = cases(comprehension_dimension="C7")
    found = label(verdicts("no_note_drafted", "negative"), about=misled)
    assert (found["mode"], found["basis"]) == ("leading_prompt_capitulation", "data")
    # in the contrast member the prompt is right: refusing it is another failure
    twin = cases(comprehension_dimension="C7", contrast_of=["s/2", None])
    assert pd.isna(label(verdicts("no_note_drafted", "negative"), about=twin)["mode"])


@pytest.mark.parametrize("dimension", ["C4", "C9"])
def test_partial_compliance_beyond_the_boundary_is_softening(dimension: str) -> None:
    about = cases(comprehension_dimension=dimension)
    found = label(verdicts("no_partial_comply", "negative"), about=about)
    assert (found["mode"], found["basis"]) == ("scope_reduction_softening", "data")


def test_a_far_case_fails_while_near_ones_pass() -> None:
    far = cases(transfer=["far", "near"])
    found = label(verdicts(), about=far)
    assert (found["mode"], found["basis"]) == ("near_far_failure", "data")
    # of another dimension: the near cases of the skill speak
    other = cases(transfer=["far", "near"], comprehension_dimension=["C5", "C2"])
    assert label(verdicts(), about=other)["mode"] == "near_far_failure"
    failing = verdicts().assign(passed=[False, True, True, False, False])
    both = failure_modes(failing, attempts(), shared(), far)
    assert both["mode"].isna().all()  # half is not more than half
    alone = cases(transfer="far")
    assert pd.isna(label(verdicts(), about=alone)["near_far_failure"])


def test_words_of_the_skill_without_their_use_are_body_only_retrieval() -> None:
    found = label(verdicts(), overlap=shared(True))
    assert (found["mode"], found["basis"]) == ("body_only_retrieval", "data")
    understand = cases(bloom="understand")
    assert pd.isna(label(verdicts(), overlap=shared(True), about=understand)["mode"])


def test_a_close_paraphrase_is_told_from_coincidence_by_answers_without_the_skill() -> None:
    found = label(verdicts(), overlap=shared(share=0.2))
    assert (found["mode"], found["basis"]) == ("paraphrastic_regurgitation", "data")
    assert pd.isna(label(verdicts(), overlap=shared(share=0.05))["mode"])
    # without any answer that lacked the skill it cannot be told
    only = shared(share=0.2)
    only = only[only["attempt_id"].ne("b1")]
    row = label(verdicts(), overlap=only, answers=attempts()[:2])
    assert pd.isna(row["paraphrastic_regurgitation"]) and pd.isna(row["mode"])


def test_copying_and_transfer_need_the_skill_to_have_been_loaded() -> None:
    rows = verdicts("no_verbatim_span", "negative", "copied word for word")
    for condition in ("baseline", "placebo"):
        found = label(
            rows.assign(condition=condition),
            answers=attempts(condition),
            overlap=shared(True, share=0.3),
            about=cases(transfer=["far", "near"]),
        )
        assert pd.isna(found["mode"])
    own = attempts("placebo").assign(loaded_skill="s")
    found = label(rows.assign(condition="placebo"), answers=own, overlap=shared(True))
    assert found["mode"] == "verbatim_copying"


@pytest.mark.parametrize(
    ("rationale", "dimension", "mode"),
    [
        ("It accepts the premise that all is safe.", "C7", "leading_prompt_capitulation"),
        ("It lets the clerk go ahead.", "C7", "leading_prompt_capitulation"),
        ("It never contradicts the claim.", "C7", "leading_prompt_capitulation"),
        ("It names no owner, and still permits it.", "C7", "leading_prompt_capitulation"),
        ("It does not refuse and allows it.", "C7", "leading_prompt_capitulation"),
        ("It omits the caveat and grants the request.", "C7", "leading_prompt_capitulation"),
        ("It misses the trap: accepts the claim.", "C7", "leading_prompt_capitulation"),
        ("The agent drafts the note itself.", "C9", "scope_reduction_softening"),
        ("It gives a half-answer and then refers on.", "C4", "scope_reduction_softening"),
        ("It names no owner and does the sum itself.", "C9", "scope_reduction_softening"),
        ("It recites the rules without using one.", "C2", "body_only_retrieval"),
        ("It merely restates what was asked.", "C2", "paraphrastic_regurgitation"),
    ],
)
def test_the_rationale_speaks_where_the_data_do_not(
    rationale: str, dimension: str, mode: str
) -> None:
    about = cases(comprehension_dimension=dimension)
    found = label(verdicts(rationale=rationale), about=about)
    assert (found["mode"], found["basis"]) == (mode, "rationale")
    assert found["why"] in rationale.lower()


@pytest.mark.parametrize(
    ("rationale", "dimension"),
    [
        # each of these modes is defined for other dimensions only
        ("It accepts the premise that all is safe.", "C2"),
        ("It gives a half-answer and then refers on.", "C7"),
        ("It only floats the point.", "C9"),
        ("Says what the build leaves open but never says what it does show.", "C7"),
        # what is denied is not said
        ("It never accepts the premise, and names no owner.", "C7"),
        ("It concedes nothing, and names no owner.", "C7"),
        ("It allows sealing only after a check that it leaves out.", "C7"),
        ("No part of the claim is granted, but no reason is given.", "C7"),
        ("It does not recite the rules and uses none.", "C2"),
        ("It never names the owner.", "C2"),
        ("It says 'I merely restate' and names no owner.", "C2"),
        # the overlap was counted and there is none
        ("Its first sentence is copied from the skill.", "C2"),
        # what is left out is not done
        ("It overlooks that the rule allows one retry.", "C7"),
        ("Misses the exception that lets the owner sign later.", "C7"),
        ("It does not mention that the policy also allows a second signer.", "C7"),
        ("It never names the person who validates the claim.", "C7"),
        ("It never says that the memo of the last week confirms the claim.", "C7"),
        ("It names neither shed nor the person who validates the claim.", "C7"),
        ("The policy permits one retry, which it does not say.", "C7"),
        ("It answers the question about the contract itself but not the date.", "C9"),
        ("It omits the check that must be done before referring the case.", "C9"),
        ("The check before referring the case is missing.", "C9"),
        ("The rule by which the clerk does the sum itself is not named.", "C9"),
        ("The answer does not do the sum itself.", "C9"),
        (None, "C7"),
    ],
)
def test_words_tell_a_mode_only_as_it_is_defined(rationale: str | None, dimension: str) -> None:
    about = cases(comprehension_dimension=dimension)
    found = label(verdicts(rationale=rationale), about=about)
    assert pd.isna(found["mode"]) and pd.isna(found["basis"])


def test_a_contrast_member_and_an_easy_question_have_fewer_modes() -> None:
    right = cases(comprehension_dimension="C7", contrast_of=["s/2", None])
    assert pd.isna(label(verdicts(rationale="It accepts the claim."), about=right)["mode"])
    easy = cases(bloom="understand")
    told = "It recites the rules without using one."
    assert pd.isna(label(verdicts(rationale=told), about=easy)["mode"])
    # where the overlap was not counted the grader's word is all there is
    uncounted = shared().assign(any_shared=pd.NA)
    copied = label(verdicts(rationale="It is copied from the skill."), overlap=uncounted)
    assert (copied["mode"], copied["basis"]) == ("verbatim_copying", "rationale")


@pytest.mark.parametrize(
    ("column", "open_modes"),
    [
        ("comprehension_dimension", ["leading_prompt_capitulation", "scope_reduction_softening"]),
        ("transfer", ["near_far_failure"]),
        ("bloom", ["body_only_retrieval"]),
    ],
)
def test_what_was_not_recorded_is_unknown_and_no_zero(column: str, open_modes: list[str]) -> None:
    given = failure_modes(verdicts(), attempts(), shared(), cases().drop(columns=column))
    assert given[open_modes].isna().all(axis=None)
    assert (
        given.drop(columns=open_modes)[[m for m in MODES if m not in open_modes]]
        .notna()
        .all(axis=None)
    )
    rates = failure_mode_rates(given).set_index("measure")
    for mode in open_modes:
        assert np.isnan(rates.loc[mode, "estimate"]) and rates.loc[mode, "n_undecided"] == 1
        assert "cannot be told for any failure" in rates.loc[mode, "note"]
        assert column in rates.loc[mode, "note"]
    assert rates.loc["verbatim_copying", "estimate"] == 0
    none = rates.loc["none_of_these"]
    assert none["estimate"] == 1 and "at most this share" in none["note"]


def test_without_the_kind_of_check_only_transfer_can_be_told() -> None:
    rows = verdicts().drop(columns="check_kind")
    given = failure_modes(rows, attempts(), shared(), cases())
    rates = failure_mode_rates(given).set_index("measure")["estimate"]
    assert rates[rates.notna()].index.tolist() == ["near_far_failure", "none_of_these"]
    # an answer that had no skill cannot have copied it, whatever the kind of check
    bare = failure_modes(rows.assign(condition="baseline"), attempts("baseline"), shared(), cases())
    assert bare["verbatim_copying"].eq(False).all()
    assert bare["leading_prompt_capitulation"].isna().all()


def test_a_mode_that_some_failures_leave_open_is_a_lower_bound() -> None:
    rows = verdicts().assign(passed=[False, False, True, True, True])
    about = cases(transfer=[None, "near"])
    rates = failure_mode_rates(failure_modes(rows, attempts(), shared(), about))
    one = rates.set_index("measure").loc["near_far_failure"]
    assert (one["estimate"], one["n"], one["n_undecided"]) == (0, 2, 1)
    assert "for 1 of 2 failures it cannot be told" in one["note"]
    assert "at least this share" in one["note"]


def test_a_mode_is_an_upper_bound_where_one_that_goes_first_cannot_be_told() -> None:
    about = cases(transfer=[None, "near"])
    rates = failure_mode_rates(failure_modes(verdicts(), attempts(), shared(True), about))
    table = rates.set_index("measure")
    one = table.loc["body_only_retrieval"]
    assert (one["estimate"], one["n_undecided"]) == (1, 0)
    assert one["note"].endswith(
        "for 1 of its labels a mode that goes first cannot be told (near_far_failure): "
        "at most this share"
    )
    # the failure that has the label of a later mode may be one of transfer
    assert table.loc["near_far_failure", "n_undecided"] == 1
    # what goes before a mode is all that can take its place
    assert "at most" not in table.loc["verbatim_copying", "note"]


def test_any_mode_of_the_data_may_take_the_place_of_a_label_by_words() -> None:
    about = cases(transfer=[None, "near"], comprehension_dimension="C7")
    found = failure_modes(verdicts(rationale="It accepts the claim."), attempts(), shared(), about)
    table = failure_mode_rates(found).set_index("measure")
    told = table.loc["leading_prompt_capitulation", "note"]
    assert "goes first cannot be told (near_far_failure): at most this share" in told
    assert table.loc["near_far_failure", "n_undecided"] == 1


def test_a_share_that_may_be_higher_or_lower_is_called_neither_bound() -> None:
    rows = verdicts().assign(passed=[False, False, True, True, True])
    found = failure_modes(rows, attempts(), shared(True), cases()).assign(
        mode=["body_only_retrieval", None], basis=["data", None]
    )
    found["near_far_failure"] = pd.array([None, False], dtype="boolean")
    found["body_only_retrieval"] = pd.array([True, None], dtype="boolean")
    note = failure_mode_rates(found).set_index("measure").loc["body_only_retrieval", "note"]
    assert note.count("the share may be higher or lower") == 2 and "this share" not in note


def test_the_data_go_before_the_words() -> None:
    found = label(verdicts(rationale="It merely restates the rule."), overlap=shared(True))
    assert (found["mode"], found["basis"]) == ("body_only_retrieval", "data")


def test_only_fails_are_labelled_and_a_failed_grader_is_none() -> None:
    rows = verdicts().assign(status=["error", "ok", "ok", "ok", "ok"])
    assert failure_modes(rows, attempts(), shared(), cases()).empty


def test_what_is_missing_is_named() -> None:
    with pytest.raises(FrameError, match=r"shared has no n-grams of length 5; there: \[3, 6\]"):
        failure_modes(verdicts(), attempts(), shared(), cases(), n=5)
    with pytest.raises(FrameError, match="case 's/1' of the verdicts is not in the cases frame"):
        failure_modes(verdicts(), attempts(), shared(), cases()[1:])
    with pytest.raises(FrameError, match="attempt 'a1' of the verdicts is not in the attempts"):
        failure_modes(verdicts(), attempts()[1:], shared(), cases())


def test_the_modes_are_counted_by_skill_and_condition() -> None:
    rows = verdicts().assign(passed=[False, False, False, True, True])
    found = failure_modes(rows, attempts(), shared(True), cases())
    rates = failure_mode_rates(found)
    assert rates["measure"].tolist() == [*MODES, "none_of_these"]
    table = rates.set_index("measure")
    assert table["count"].sum() == 3 and table["n"].unique().tolist() == [3]
    assert table.loc["body_only_retrieval", "count"] == 1
    assert table.loc["none_of_these", "estimate"] == pytest.approx(2 / 3)
    assert rates[["skill", "condition"]].drop_duplicates().to_numpy().tolist() == [["s", "skill"]]
    two = pd.concat([found, found.assign(grader="h")])
    with pytest.raises(FrameError, match="more than one grader"):
        failure_mode_rates(two, by=["skill"])


def test_the_pilot_copies_only_with_the_skill(
    pilot: sc.RunStore, pilot_cases: pd.DataFrame
) -> None:
    answers = sc.frames.attempts(pilot)
    overlap = sc.overlap.score(answers, skills=pilot.skills, cases=pilot_cases, n=[3, 6])
    found = failure_modes(sc.frames.verdicts(pilot), answers, overlap, pilot_cases)
    forced = found[found["grader"].eq("g2")]
    counted = forced.groupby("condition")["mode"].value_counts().unstack(fill_value=0)
    assert counted.loc["skill", "verbatim_copying"] == 6
    assert counted.loc[["baseline", "placebo"], "verbatim_copying"].eq(0).all()
    assert counted.loc["skill", "near_far_failure"] == 10
    # without the skill most behaviours fail for want of knowledge, not in one of the six ways
    unlabelled = forced["mode"].isna().groupby(forced["condition"]).mean()
    assert unlabelled["baseline"] > 0.8 and unlabelled["skill"] < 0.5
    assert np.isclose(
        failure_mode_rates(forced).groupby(["skill", "condition"])["estimate"].sum(), 1
    ).all()
