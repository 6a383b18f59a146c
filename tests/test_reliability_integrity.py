import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from benchmarks import simulated
from benchmarks.simulated import Grader
from skillcomp.errors import FrameError
from skillcomp.reliability import integrity, integrity_rates

ANSWER = "It’s a “sieve”.\n\nThe  rate is 4.3%, and no more."


PLACE = {"attempt_id": "a", "skill": "s", "case_id": "s/1", "condition": "skill", "repeat": 1}


def attempts(answer: str | None = ANSWER) -> pd.DataFrame:
    return pd.DataFrame([PLACE]).assign(answer=pd.Series([answer], dtype="str"))


CHECKS = pd.DataFrame(
    {
        "skill": "s",
        "case_id": "s/1",
        "check_id": ["names_rate", "names_sieve", "no_verbatim_span"],
        "check_kind": ["positive", "positive", "negative"],
    }
)


def verdicts(
    passed: tuple[bool | None, ...] = (True, True, True),
    quote: str | None = "The rate is 4.3%",
    rationale: str | None = "It is stated.",
    **columns: object,
) -> pd.DataFrame:
    rows = CHECKS[["check_id", "check_kind"]][: len(passed)]
    texts = {"evidence_quote": quote, "rationale": rationale}
    rows = rows.assign(**PLACE, grader="g", grader_version="1", round=1)
    rows = rows.assign(**{name: pd.Series([text] * 3, dtype="str") for name, text in texts.items()})
    status = ["error" if one is None else "ok" for one in passed]
    return rows.assign(passed=pd.array(passed, dtype="boolean"), status=status).assign(**columns)


def marks(rows: pd.DataFrame, answer: str | None = ANSWER, **settings: object) -> pd.DataFrame:
    found = integrity(rows, attempts(answer), CHECKS, **settings)  # type: ignore[arg-type]
    return found.set_index("check_id")


RULES = [
    *("count_differs", "ids_differ", "quote_empty", "quote_not_found", "hedged_fail"),
    *("softened_pass", "overlap_contradicted", "dimension_inconsistent", "undecided_fail"),
    *("quote_short", "rationale_contradicted"),
]


def test_a_sound_reply_breaks_no_rule() -> None:
    found = marks(verdicts())
    assert not found[RULES].fillna(False).to_numpy().any()
    assert found["quote_not_found"].tolist() == [False] * 3


def test_a_behaviour_without_a_verdict_gets_a_row_and_breaks_rules_1_and_9() -> None:
    found = marks(verdicts((True, True)))
    assert len(found) == 3
    assert pd.isna(found.loc["no_verbatim_span", "passed"])
    assert found["count_differs"].all() and found["ids_differ"].all()
    assert found["quote_empty"].isna().tolist() == [False, False, True]


def test_an_id_that_is_not_in_the_list_breaks_rule_9_though_the_count_is_right() -> None:
    rows = verdicts().replace({"check_id": {"names_sieve": "invented"}})
    found = marks(rows)
    assert found["ids_differ"].all()
    assert set(found.index) == {"names_rate", "names_sieve", "no_verbatim_span", "invented"}
    # three verdicts for three behaviours
    assert not found["count_differs"].any()


def test_a_quote_is_found_across_white_space_and_kinds_of_quotation_marks() -> None:
    assert not marks(verdicts(quote='It\'s a "sieve". The rate'))["quote_not_found"].any()
    assert marks(verdicts(quote="The rate is 4.4%"))["quote_not_found"].all()
    assert marks(verdicts(quote="the rate is 4.3%"))["quote_not_found"].all()  # letter by letter


def test_a_short_quote_is_marked_where_it_must_show_something() -> None:
    short = marks(verdicts(passed=(True, False, False), quote="is"))["quote_short"]
    assert short.tolist() == [True, pd.NA, True]
    assert not marks(verdicts(quote="It's a 'sieve'."))["quote_short"].any()
    assert marks(verdicts(quote="no such words"))["quote_short"].isna().all()


def test_a_rationale_that_contradicts_its_verdict_is_counted() -> None:
    rows = verdicts(passed=(True, False, None), rationale="The rate is missing, so it fails.")
    found = integrity(rows, attempts(), CHECKS)
    assert found["rationale_contradicted"].tolist() == [True, False, pd.NA]
    rates = integrity_rates(found).set_index("measure")
    assert rates.loc["rationale_contradicted", ["estimate", "n"]].tolist() == [0.5, 2]


def test_an_empty_quote_breaks_rule_2_unless_there_was_nothing_to_quote() -> None:
    found = marks(verdicts(quote="  "))
    assert found["quote_empty"].all() and found["quote_not_found"].isna().all()
    for nothing in ("", None):
        empty = marks(verdicts(quote=None), answer=nothing)
        assert empty["quote_empty"].isna().all()


def test_evidence_rules_are_na_for_a_grader_that_was_not_asked_for_any() -> None:
    plain = verdicts(quote=None, rationale=None, grader="impression")
    both = integrity(pd.concat([plain, verdicts()]), attempts(), CHECKS)
    one = both[both["grader"].eq("impression")]
    asked = ["quote_empty", "quote_not_found", "hedged_fail", "softened_pass", "undecided_fail"]
    assert one[asked].isna().all(axis=None)
    assert one["ids_differ"].notna().all()
    assert both[both["grader"].eq("g")]["quote_empty"].notna().all()


def test_a_failed_grader_breaks_no_rule() -> None:
    found = marks(verdicts((None, None, None)))
    assert found[RULES].isna().all(axis=None)
    part = marks(verdicts((True, None, True)))
    assert pd.isna(part.loc["names_sieve", "quote_empty"])
    assert not part["ids_differ"].any()


@pytest.mark.parametrize(
    ("passed", "rationale", "hedged", "softened"),
    [
        (False, "This could be strengthened.", True, None),
        (False, "It says 'perhaps' and names nothing.", False, None),
        (False, "It would benefit from a figure.", False, None),
        (True, "It could be more explicit about the owner.", None, True),
        (True, "A considerable gap is closed.", None, False),
    ],
)
def test_hedges_are_the_graders_own_words(
    passed: bool, rationale: str, hedged: bool | None, softened: bool | None
) -> None:
    found = marks(verdicts((passed,) * 3, rationale=rationale)).iloc[0]
    for name, wanted in (("hedged_fail", hedged), ("softened_pass", softened)):
        assert pd.isna(found[name]) if wanted is None else found[name] == wanted


def shared(any_shared: bool | None, n: int = 6) -> pd.DataFrame:
    return pd.DataFrame({"attempt_id": ["a"], "n": [n], "any_shared": [any_shared]})


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("passed", [True, False])
def test_a_verbatim_check_must_follow_the_overlap(copied: bool, passed: bool) -> None:
    found = marks(verdicts((True, True, passed)), shared=shared(copied))
    assert found.loc["no_verbatim_span", "overlap_contradicted"] == (copied == passed)
    assert found["overlap_contradicted"].isna().tolist() == [True, True, False]


def test_an_unknown_overlap_contradicts_nothing() -> None:
    assert marks(verdicts())["overlap_contradicted"].isna().all()
    assert marks(verdicts(), shared=shared(None))["overlap_contradicted"].isna().all()
    with pytest.raises(FrameError, match=r"shared has no n-grams of length 6; there: \[5\]"):
        marks(verdicts(), shared=shared(True, n=5))
    two = pd.concat([shared(True).assign(tokenizer=name) for name in ("a.split", "b.split")])
    with pytest.raises(FrameError, match=r"two tokenizers, 'a.split' \(shared\) and 'b.split'"):
        marks(verdicts(), shared=two)


@pytest.mark.parametrize(
    ("passed", "dimension", "wrong"),
    [
        ((True, True, True), False, True),
        ((True, False, True), True, True),
        ((True, True, True), [None, None, None], None),
        ((True, True, True), [True, False, True], True),
        ((True, False, None), True, True),
    ],
)
def test_the_dimension_passes_exactly_if_every_behaviour_does(
    passed: tuple[bool | None, ...], dimension: object, wrong: bool | None
) -> None:
    found = marks(verdicts(passed, dimension_passed=dimension))["dimension_inconsistent"]
    assert found.isna().all() if wrong is None else (found == wrong).all()


def test_a_strange_dimension_verdict_is_refused() -> None:
    with pytest.raises(
        FrameError, match=r"'dimension_passed': found 'maybe'.*allowed: True, False"
    ):
        marks(verdicts(dimension_passed="maybe"))
    with pytest.raises(FrameError, match=r"case 's/1' of the verdicts is not in the checks"):
        integrity(verdicts(), attempts(), CHECKS.assign(case_id="s/2"))


def test_evidence_of_a_fail_or_a_negative_behaviour_may_be_the_closest_spot() -> None:
    found = marks(verdicts((True, False, True)))
    assert found["closest_spot"].tolist() == [False, True, True]


def test_rates_are_shares_of_what_the_rule_is_about() -> None:
    good = verdicts((True, False, False), rationale="It is absent.")
    bad = verdicts((True, False, False), rationale="Perhaps absent.", quote="nowhere")
    rows = pd.concat([good, bad.assign(attempt_id="b", case_id="s/2")])
    checks = pd.concat([CHECKS, CHECKS.assign(case_id="s/2")])
    both = pd.concat([attempts(), attempts().assign(attempt_id="b", case_id="s/2")])
    found = integrity_rates(integrity(rows, both, checks)).set_index("measure")
    assert found.loc["quote_not_found", ["estimate", "n", "n_broken"]].tolist() == [0.5, 6, 3]
    assert found.loc["hedged_fail", ["estimate", "n", "n_broken"]].tolist() == [0.5, 4, 2]
    assert found.loc["softened_pass", ["estimate", "n", "n_broken"]].tolist() == [0.5, 2, 1]
    assert found.loc["ids_differ", ["estimate", "n", "counted"]].tolist() == [0.0, 2, "attempts"]
    assert np.isnan(found.loc["overlap_contradicted", "estimate"])
    assert "does not apply here" in found.loc["overlap_contradicted", "note"]
    assert found.loc["ids_differ", "ci_high"] > 0


def test_rates_never_pool_graders_or_rounds() -> None:
    found = integrity(pd.concat([verdicts(), verdicts(round=2)]), attempts(), CHECKS)
    with pytest.raises(FrameError, match="more than one round"):
        integrity_rates(found)
    assert integrity_rates(found, by=["grader", "round"])["round"].nunique() == 2
    skills = [found[found["round"].eq(1)].assign(skill=s, grader_family=s) for s in "st"]
    for rows in skills:
        rows["attempt_id"] += rows["skill"]
    both = pd.concat(skills)
    tasks = both[["skill", "case_id"]].drop_duplicates()
    same = integrity_rates(both, cases=tasks.assign(task=tasks["case_id"])).set_index("measure")
    alone = integrity_rates(found[found["round"].eq(1)]).set_index("measure")
    of_rule = (rows.loc["quote_empty", "n_clusters"] for rows in (same, alone))
    assert len(set(of_rule)) == 1
    with pytest.raises(FrameError, match="skills 's' and 't' both have a case"):
        integrity_rates(both)


def test_planted_errors_are_found_at_their_rate() -> None:
    graders = (
        Grader("j", dimension_error_rate=0.2, quote_error_rate=0.2),
        Grader("sound", failure_rate=0.1),
        Grader("plain", asks_evidence=False),
    )
    made = simulated.study(n_cases=14, graders=graders, seed=3)
    found = integrity(made.verdicts, made.attempts, made.checks)
    by_reply = found.groupby(["grader", "attempt_id"])["dimension_inconsistent"]
    assert by_reply.nunique().max() == 1
    rates = integrity_rates(found).set_index(["grader", "measure"])
    for measure in ("dimension_inconsistent", "quote_not_found"):
        row = rates.loc[("j", measure)]
        assert row["ci_low"] < 0.2 < row["ci_high"] and row["ci_high"] - row["ci_low"] < 0.12
        assert np.isnan(rates.loc[("plain", measure), "estimate"])
    row = rates.loc[("j", "dimension_inconsistent")]
    assert row["counted"] == "attempts" and row["n"] == len(made.attempts)
    # unknown where no behaviour failed and one has no verdict
    sound = rates.loc[("sound", "dimension_inconsistent")]
    assert sound["estimate"] == 0 and 0 < sound["n"] < len(made.attempts)
    assert rates.loc[("plain", "ids_differ"), "estimate"] == 0


def test_the_pilot_breaks_one_rule_only(pilot: sc.RunStore, pilot_cases: pd.DataFrame) -> None:
    answers = sc.frames.attempts(pilot)
    overlap = sc.overlap.score(
        answers, skills=pilot.skills, cases=pilot_cases, ngram=[6], exclude_prompt=False
    )
    found = integrity(sc.frames.verdicts(pilot), answers, sc.frames.checks(pilot), shared=overlap)
    rates = integrity_rates(found).set_index(["grader", "measure"])
    # the impression grader never saw the skill and passed four copied answers
    assert rates.loc[("g0", "overlap_contradicted"), "n_broken"] == 4
    assert rates.loc[("g1", "softened_pass"), "n_broken"] == 2
    others = rates.drop(index=[("g0", "overlap_contradicted"), ("g1", "softened_pass")])
    assert others["n_broken"].sum() == 0
    assert np.isnan(rates.loc[("g0", "quote_empty"), "estimate"])
    assert rates.loc[("g2", "quote_not_found"), "n"] == 2050


def test_attempts_of_another_study_are_refused() -> None:
    message = r"attempt 'a' of the verdicts is not in the attempts frame"
    for others in (attempts().assign(attempt_id="z-a"), attempts().head(0)):
        with pytest.raises(FrameError, match=message):
            integrity(verdicts(), others, CHECKS)
        assert integrity(verdicts().head(0), others, CHECKS).empty
