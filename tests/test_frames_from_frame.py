"""A researcher's own table becomes checked frames: exactly, or with a warning, or not at all."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError
from skillcomp.frames import FrameWarning
from skillcomp.frames.words import condition_names


def table(**columns: Any) -> pd.DataFrame:
    """Four cases under two conditions, twice each."""
    rows = [(c, k, r) for c in "abcd" for k in ("baseline", "skill") for r in (1, 2)]
    made = pd.DataFrame(rows, columns=["case", "condition", "repeat"])
    made["skill"] = "tea"
    made["passed"] = [k == "skill" and c != "d" for c, k, _ in rows]
    return made.assign(**columns)


def quiet(frame: pd.DataFrame, **named: Any) -> sc.frames.Frames:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)
        return sc.from_frame(frame, **named)


def test_the_exported_pilot_gives_agreement_drift_and_correction_exactly(pilot, tmp_path) -> None:
    slugs = list(pilot.skills)[:2]
    cases, verdicts = (
        frame[frame["skill"].isin(slugs)].reset_index(drop=True)
        for frame in (sc.frames.cases(pilot), sc.frames.verdicts(pilot))
    )
    gold = sc.frames.gold(pilot)
    gold = gold[gold["attempt_id"].isin(verdicts["attempt_id"])].reset_index(drop=True)
    sc.export.write({"verdicts": verdicts, "gold": gold}, tmp_path)
    facts = ["skill", "case_id", "comprehension_dimension", "transfer", "contrast_of"]
    same = ("skill", "repeat", "grader", "grader_version", "transfer", "contrast_of", "check_kind")
    made = sc.from_frame(
        pd.read_csv(tmp_path / "verdicts.csv").merge(cases[facts], on=["skill", "case_id"]),
        **{name: name for name in same},
        case="case_id",
        dimension="comprehension_dimension",
        attempt="attempt_id",
        check="check_id",
        gold=pd.read_csv(tmp_path / "gold.csv"),
        labeller="labeller",
    )

    def answers(verdicts, gold, cases):
        two = verdicts[verdicts["condition"].isin(["baseline", "skill"])]
        yield sc.frames.outcomes(verdicts, cases)[["n_checks", "n_passed", "share_passed"]]
        yield sc.reliability.agreement(verdicts, gold, by=["grader"], cases=cases, n_resamples=99)
        yield sc.reliability.drift(
            verdicts, gold, reference_grader="g1", cases=cases, n_resamples=99
        )
        yield sc.correction.delta(two, gold, by=["grader"], cases=cases)

    for ours, theirs in zip(
        answers(made.verdicts, made.gold, made.cases), answers(verdicts, gold, cases), strict=True
    ):
        pd.testing.assert_frame_equal(ours, theirs)


def test_it_does_not_matter_how_the_columns_are_stored() -> None:
    own = table(transfer="near", check="c")
    texts = ["skill", "case", "condition", "transfer", "check"]
    category = own.astype(dict.fromkeys(texts, "category"))
    plain, *others = (
        sc.from_frame(stored, repeat="repeat", transfer="transfer", check="check")
        for stored in (own, own.convert_dtypes(dtype_backend="pyarrow"), category)
    )
    for made in others:
        for ours, theirs in zip(made, plain, strict=True):
            pd.testing.assert_frame_equal(ours, theirs)


# Words


@pytest.fixture(scope="module")
def plain() -> sc.frames.Frames:
    """The frames of the table in our own words."""
    return sc.from_frame(table(), repeat="repeat")


@pytest.mark.parametrize(
    ("column", "words", "change"),
    [
        ("condition", ("without skill", "with skill"), "'without skill' as baseline (8 rows)"),
        ("condition", ("No_Skill", "With-Skill"), "'With-Skill' as skill (8 rows)"),
        ("condition", ("w/o SKILL.md", "w/ SKILL.md"), "'w/ SKILL.md' as skill (8 rows)"),
        ("condition", (False, True), "False as baseline (8 rows), True as skill (8 rows)"),
        ("condition", (0, 1), "0 as baseline (8 rows), 1 as skill (8 rows)"),
        ("passed", ("no", "yes"), "'yes' as True (6 rows)"),
        ("passed", ("0.0", "1.0"), "'1.0' as True (6 rows)"),
        ("repeat", (0, 1), "(repeat=): counted from 0; 1 was added"),
        ("repeat", ("seed-a", "seed-b"), "'seed-a' as 1 (8 rows), 'seed-b' as 2"),
    ],
)
def test_words_are_mapped_with_one_warning(column, words, change, plain) -> None:
    own = table()
    own[column] = own[column].map(dict(zip(sorted(own[column].unique()), words, strict=True)))
    with pytest.warns(FrameWarning, match=re.escape(change)) as caught:
        made = sc.from_frame(own, repeat="repeat")
    assert len(caught) == 1
    pd.testing.assert_frame_equal(made.outcomes, plain.outcomes)


SIGNED = [
    # table, what is found, end of the problem
    ([1, 0, -1, -1], "found -1 (2 rows)", "{-1: ...}} says what it means; None: no value."),
    (
        ["1", "0", "0", "-1"],
        "found '-1' (1 row)",
        "{'-1': ...}} says what it means; None: no value.",
    ),
    (
        [1, 0, 9, 99],
        "found 9 (1 row), 99 (1 row)",
        "{9: ..., 99: ...}} says what they mean; None: no value.",
    ),
    (["+1", "0", "0", "0"], "found '+1' (1 row)", "no value."),
    (["pass", "no pass", "pass", "un-successful"], "'no pass' (1 row), 'un-", "no value."),
    (["!ok", "ok", "~ok", "not ok"], "'!ok' (1 row), '~ok' (1 row), 'not ok'", "no value."),
    (["compliant", "non-compliant"] * 2, "'compliant' (2 rows), 'non-compliant' (2", "value."),
    (["oui", "non", "ja", "nein"], "'oui' (1 row), 'non' (1 row), 'ja' (1 row)", "no value."),
    (list("blmrqsu"), "'q' (1 row) and 2 more (2 rows)", "no value."),
    ([0, 1, 2, 2], "found 2 (2 rows)", "counts of passes are texts such as '3/5'."),
]


@pytest.mark.parametrize(
    ("values", "number", "end", "role"),
    [*((*row, "passed") for row in SIGNED), *((*row, "own") for row in SIGNED[::4])],
)
def test_signs_codes_and_negations_keep_their_meaning(values, number, end, role) -> None:
    own = pd.DataFrame({"case": range(len(values)), "condition": "skill", "passed": 1, "own": 1})
    with pytest.raises(FrameError) as caught:
        quiet(own.assign(**{role: values}), skill=None, gold="own")
    (problem,) = caught.value.problems
    assert number in problem and problem.endswith(end)
    assert "Did you mean" not in problem


def test_a_code_of_a_failed_judge_is_missing_and_no_pass() -> None:
    # 20 of 40 cases pass under both conditions; with the skill, 12 of the other 20 are -1
    own = pd.DataFrame({"case": [*range(40)] * 2, "condition": ["baseline"] * 40 + ["skill"] * 40})
    own["passed"] = [*[1] * 20, *[0] * 20, *[1] * 20, *[-1] * 12, *[0] * 8]
    with pytest.raises(FrameError, match=r"found -1 \(12 rows\)") as caught:
        quiet(own, skill=None)
    assert "words={'passed': {-1: ...}} says what it means" in str(caught.value)
    for passed in (own["passed"], own["passed"].astype(float), own["passed"].astype("str")):
        with pytest.warns(FrameWarning, match="-1(.0)?'? as missing \\(12 rows\\)"):
            made = sc.from_frame(own.assign(passed=passed), skill=None, missing=[-1])
        row = sc.deltas.paired(made.outcomes).iloc[0]
        assert (row["estimate"], row["n"], row["n_missing"]) == (0, 28, 12)
        code = made.problems[made.problems["done"].eq("read as missing")]
        assert code["n"].tolist() == [12]


def test_missing_applies_to_verdicts_gold_and_scores_before_words_and_is_counted() -> None:
    own = table(mark=[-1.0, *range(1, 16)], human=["no", *["yes"] * 15], passed="yes", note="-")
    own.loc[3, "passed"] = "no"
    made = quiet(own, repeat="repeat", score="mark", gold="human", missing=["no", -1, "x"])
    assert made.verdicts["passed"].isna().sum() == 1 and made.verdicts["score"].isna().sum() == 1
    assert len(made.gold) == 15 and made.gold["passed"].all()
    counted = made.problems[made.problems["done"].isin(["read as missing", "in no column"])]
    assert counted[["found", "n"]].values.tolist() == [
        ["'no'", 1],
        ["'no'", 1],
        ["-1.0", 1],
        ["'x'", 0],
    ]
    labels = own[["skill", "case", "condition", "repeat"]].assign(passed=[9, *[1] * 15])
    with pytest.raises(
        FrameError, match=r"gold: column 'passed' .*found 9 \(1 row\).*\{9: \.\.\.\}"
    ):
        quiet(own, repeat="repeat", gold=labels)
    made = quiet(own, repeat="repeat", gold=labels.assign(passed=[9, 0, *[1] * 14]), missing=9)
    assert made.gold["passed"].isna().sum() == 1
    assert "gold: column 'passed' (passed=)" in made.problems["place"].tolist()
    # a code among truth values, and a bool that is no number
    mixed = table(passed=[True, False, -1, 1] * 4)
    assert quiet(mixed, repeat="repeat", missing=[-1, 1]).outcomes["passed"].sum() == 4


@pytest.mark.parametrize(("code", "others"), [(-1, 0.5), (99, 5), (999, 100)])
def test_a_code_outside_all_other_scores_is_named(code: int, others: float) -> None:
    own = table(mark=[code, *[others] * 15])
    with pytest.warns(FrameWarning, match=rf"{code}; counted as a score; missing=\[{code}\] if"):
        sc.from_frame(own, repeat="repeat", score="mark")
    sc.from_frame(table(mark=[*range(90, 106)]), repeat="repeat", score="mark")  # no code


@pytest.mark.parametrize("word", ["n/a", "", "error", None, pd.NA])
def test_what_has_no_value_is_missing_and_never_a_fail(word) -> None:
    own = table()
    own["passed"] = own["passed"].astype(object)
    own.loc[0, "passed"] = word
    made = quiet(own, repeat="repeat")
    assert made.outcomes["passed"].isna().tolist() == [True] + [False] * 15
    assert made.verdicts["status"].isna().tolist() == [True] + [False] * 15


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("without plugin", "with plugin"), ("baseline", "skill")),
        (("Without-Plugins", "with the plugin"), ("baseline", "skill")),
        (("no-tools", "tools"), ("baseline", "skill")),
        (("vanilla", "skill"), ("baseline", "skill")),
        (("plugin off", "plugin on"), ("baseline", "skill")),
        (("before", "after"), ("previous", "skill")),
        (("old", "new"), ("previous", "skill")),
        (("v2", "v10"), ("previous", "skill")),
        (("with maps", "with tea"), ("with maps", "with tea")),
        (("full", "no examples"), ("full", "no examples")),
        (("skill", "without examples"), ("skill", "without examples")),
        (("no tools", "full", "lite"), ("no tools", "full", "lite")),
        (("baseline", "with docs"), ("baseline", "with docs")),
        (("with tools", "without skill"), ("with tools", "baseline")),
        (("env1", "env2"), ("env1", "env2")),
        (("dev1", "dev2"), ("dev1", "dev2")),
        (("expert", "non-expert"), ("expert", "non-expert")),
        (("tea_v1", "tea version 2"), ("previous", "skill")),
        (("+skill", "-skill"), ("+skill", "-skill")),
        (("skill", "!skill"), ("skill", "!skill")),
        ((1, -1), ("skill", "-1")),
    ],
)
def test_the_baseline_is_recognised_and_never_guessed(words, names) -> None:
    assert tuple(condition_names(words).values()) == names


def test_conditions_of_ones_own_stay_and_a_missing_baseline_is_told() -> None:
    own = table()
    own["condition"] = own["condition"].map({"baseline": "plain", "skill": "gizmo"})
    with pytest.warns(FrameWarning, match="none is 'baseline'.*there: plain, gizmo") as caught:
        made = sc.from_frame(own, repeat="repeat")
    directions = [
        "with {}='plain'{} a positive difference means that 'gizmo' is above 'plain'",
        "with {}='gizmo'{} a positive difference means that 'plain' is above 'gizmo'",
    ]
    with pytest.raises(FrameError, match="there: plain, gizmo") as refused:
        sc.skillverdicts.decide(made.outcomes)
    for text in (str(caught[0].message), str(refused.value)):
        assert all(direction.format("reference", "") in text for direction in directions)
    with pytest.raises(StudyError, match="with reference='gizmo' a positive"):
        sc.report.answer(made)
    assert sc.deltas.paired(made.outcomes, reference="plain")["condition"].tolist() == ["gizmo"]
    made = sc.from_frame(
        own, repeat="repeat", words={"condition": {"plain": "baseline", "gizmo": "skill"}}
    )
    assert set(made.outcomes["condition"]) == {"baseline", "skill"}


# Columns


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # columns, arguments, part of the message
    ({"passed": 0.5}, {}, "column 'passed' (passed=): found 0.5 (16 rows); allowed: True, False"),
    ({"passed": "passd"}, {}, "Did you mean 'passed'?"),
    ({"passed": "parse error"}, {}, "words={'passed': {'parse error': ...}} says what it means"),
    ({"passed": "baseline"}, {}, "found 'baseline' (16 rows)"),
    ({"far": "distant"}, {"transfer": "far"}, "found 'distant' (16 rows); allowed: 'near', 'far'"),
    ({"kind": "postive"}, {"check_kind": "kind"}, "Did you mean 'positive'?"),
    ({"condition": 0.5}, {}, "(condition=): found 0.5 (16 rows); expected text"),
    ({"condition": ["control", "baseline"] * 8}, {}, "'baseline' would both be 'baseline'"),
    ({"case": True}, {}, "(case=): found True (16 rows); expected text"),
    ({"case": [["a"]] * 16}, {}, "(case=): found a list; expected plain values"),
    ({"skill": None}, {}, "(skill=): missing in 16 rows, the first is row 0"),
    ({"case": ""}, {}, "(case=): missing in 16 rows"),
    ({"repeat": -1}, {}, "are verdicts on the same thing"),
    ({"w": "fast"}, {"seconds": "w"}, "column 'w' (seconds=): found 'fast' (16 rows); expected nu"),
    ({"w": -1.0}, {"seconds": "w"}, "column 'w' (seconds=): found -1.0 (16 rows); allowed: at le"),
    ({"w": -1.0}, {"check_weight": "w"}, "(check_weight=): found -1.0 (16 rows); allowed: at"),
    ({"trial": range(16)}, {"repeat": "trial"}, "name their column by attempt=, "),
    ({"trial": list("aaabcdefghijklmn")}, {"attempt": "trial"}, "'a' stands for several cases"),
    ({}, {"condition": "conditon"}, "there is no column 'conditon' (condition=)"),
    ({}, {"condition": "Condition"}, "Did you mean 'condition'?"),
    ({}, {"grader": "judge"}, "there is no column 'judge' (grader=); there: case, condition, rep"),
    ({}, {"skill": "plugin", "answer": "text"}, "2 problems"),
    ({}, {"case": None}, "case= is needed"),
    ({}, {"labeller": "who"}, "there is no gold="),
    ({}, {"missing": [[-1], 99]}, "missing=: found [-1]; allowed: single values"),
    ({}, {"keep": "first"}, "keep=: found 'first'; allowed: None, all, last"),
    ({"condition": [("a", 1), ("b", 2)] * 8}, {}, "condition"),
    ({"condition": [1 + 2j, 2j] * 8}, {}, "condition"),
    ({"cost": [1 + 2j] * 16}, {"cost_usd": "cost"}, "cost"),
    ({"case": ["\ud800"] * 16}, {}, "case"),
    ({"condition": ["\ud800", "skill"] * 8}, {}, "condition"),
    ({"passed": ["\ud800"] * 16}, {}, "passed"),
    ({}, {"gold": [True] * 16}, "gold"),
    ({}, {"words": ["a"]}, "words=: found ['a']; expected such as words={'transfer': {"),
    ({}, {"words": {"case": {}}}, "words=: found 'case'; columns with words: skill, condition"),
    (
        {},
        {"words": {"passed": {"a": 2}}},
        "found 2 for 'a' of 'passed'; allowed: True, False, None",
    ),
    (
        {},
        {"words": {"condition": {"a": None}}},
        "found None for 'a' of 'condition'; allowed: a text",
    ),
    ({}, {"check": {"a": 1}}, "check"),
]


@pytest.mark.parametrize(("columns", "named", "message"), REFUSED)
def test_what_has_no_meaning_is_refused_with_what_is_allowed(columns, named, message) -> None:
    own = pd.DataFrame({**table().to_dict("list"), **columns}, dtype=object)
    with pytest.raises(FrameError) as caught:
        quiet(own, **{"repeat": "repeat", **named})
    assert message in str(caught.value) and str(caught.value).count("; there: ") <= 1


def test_no_column_is_taken_that_was_not_named_and_the_table_stays_unchanged() -> None:
    own = table(grader="g", agent="a", transfer="near", answer="text", gold=True)
    own = own.sample(frac=1, random_state=1)
    before = own.copy(deep=True)
    made = sc.from_frame(own, repeat="repeat")
    assert made.outcomes["grader"].eq("unnamed grader").all()
    assert made.outcomes[["agent", "transfer"]].isna().all(axis=None)
    assert made.attempts["answer"].isna().all() and made.gold.empty
    pd.testing.assert_frame_equal(own, before)
    own = table().drop(columns="skill").rename(columns={"case": 7, "passed": 0, "repeat": ("a", 1)})
    own["kind"] = "recall "
    made = sc.from_frame(own, skill=None, case=7, passed=0, repeat=("a", 1), dimension="kind")
    assert made.outcomes["skill"].eq("the skill").all()
    assert made.cases["comprehension_dimension"].eq("recall").all()
    assert made.cases["case_id"].tolist() == list("abcd")


ROLES = ", ".join(f"{role}='{role}'" for role in ("skill", "case", "condition", "passed", "repeat"))
UNCLEAR: list[tuple[Any, Any, str, str | None]] = [
    (
        {"skill": [0, 1] * 8, "condition": None},
        {"repeat": "repeat"},
        "found 0 and 1, which tell the conditions apart and name no skill. Is this "
        "condition='skill' of one skill, or are these names of skills, words={'skill': {0: '0'",
        None,
    ),
    (
        {"skill": "tea", "passed": range(0, 96, 6)},
        {"repeat": "repeat"},
        "Scores are named by score='passed' and compared by value='score' and bounds=; counts",
        None,
    ),
    (
        {"trial": list(range(16)), "condition": "skill", "repeat": 1},
        {"repeat": "repeat"},
        "Within them differ 'trial' (repeat=). Repeats in this order are keep='all': 6 of 16 "
        "pass under skill; with keep='last', a later row replaces an earlier one: 3 of 4 pass "
        "under skill, without 3 of 12 pass under skill.",
        f"{ROLES}; no role: trial.",
    ),
    (
        {"condition": "skill", "repeat": 1},
        {"repeat": "repeat"},
        "No other column differs within them. Repeats in this order are keep='all': 6 of",
        f"{ROLES}; no role: none.",
    ),
    (
        {"solved": 1, "model": "m", "latency": 0.5, "passed": "baseline"},
        {"passed": "okay", "repeat": "repeat", "agent": "model"},
        "there is no column 'okay' (passed=)",
        # the values of `passed` are a word for a condition, but only its name counts
        "skill='skill', case='case', condition='condition', repeat='repeat', agent='model', "
        "passed='passed'; no role: solved, latency.",
    ),
    (
        {},
        {"case": "cas", "condition": "kind", "passed": "okay", "name": "runs.csv"},
        "runs.csv (from_frame), 3 problems",
        f"{ROLES}; no role: none.",
    ),
]


@pytest.mark.parametrize(("columns", "named", "problem", "listed"), UNCLEAR)
def test_a_message_on_roles_lists_the_columns_by_name(columns, named, problem, listed) -> None:
    with pytest.raises(FrameError) as caught:
        quiet(table(**columns), **named)
    assert problem in str(caught.value)
    last = str(caught.value).splitlines()[-1]
    assert last == f"Columns: {listed}" if listed else "Columns: " not in str(caught.value)


def test_the_last_of_several_tries_counts_if_asked(plain) -> None:
    own = pd.concat([table(passed=False), table()], ignore_index=True)
    made = quiet(own, repeat="repeat", keep="last")
    pd.testing.assert_frame_equal(made.outcomes, plain.outcomes)
    replaced = "baseline 8 (8 failed), skill 8 (8 failed)"
    assert made.problems.iloc[0, 2:].tolist() == [replaced, 16]
    alone = table().rename(columns={"repeat": "nr"})
    assert len(quiet(alone, keep="last").outcomes) == 8
    assert len(quiet(table(), keep="last").outcomes) == 16


def test_scores_of_time_outs_count_and_scores_of_crashes_do_not() -> None:
    marks = {"baseline": [0.5] * 12, "skill": [0.9] * 6 + [0.0] * 6}
    own = pd.DataFrame({"condition": ["baseline"] * 12 + ["skill"] * 12, "case": [*range(12)] * 2})
    own["mark"], own["how"] = marks["baseline"] + marks["skill"], ["ok"] * 18 + ["timeout"] * 6
    own["passed"] = own["how"].eq("ok").where(own["how"].eq("ok"), None)
    made = quiet(own, skill=None, score="mark", status="how")
    row = sc.deltas.paired(made.outcomes, value="score").iloc[0]
    assert row["estimate"] == pytest.approx(-0.05) and row["n"] == 12
    assert made.outcomes["passed"].eq(False).sum() == 6
    own["how"] = own["how"].replace("timeout", "error")
    made = quiet(own, skill=None, passed=None, score="mark", status="how")
    assert made.outcomes["score"].isna().sum() == 6


def test_a_table_of_verdicts_and_labels_needs_no_condition() -> None:
    own = pd.DataFrame({"case": range(6), "passed": [1, 0] * 3, "human": [1, 0, 0] * 2})
    made = quiet(own, skill=None, condition=None, gold="human")
    agreement = sc.reliability.agreement(made.verdicts, made.gold).set_index("measure")
    assert agreement.loc["raw_agreement", "estimate"] == pytest.approx(0.5)
    with pytest.raises(FrameError, match="gold='human'; no role: none"):
        quiet(own, skill=None, gold="human")


def test_half_a_surrogate_pair_in_a_text_is_replaced_and_that_is_told() -> None:
    own = pd.DataFrame({**table().to_dict("list"), "text": ["half \ud83d"] * 16}, dtype=object)
    own["skill"] = ["a"] * 8 + ["b"] * 8  # rows of skills are compared, also in other columns
    with pytest.warns(FrameWarning, match=r"half of a surrogate pair; replaced by U\+FFFD \(16 r"):
        made = sc.from_frame(own, answer="text")
    assert set(made.attempts["answer"]) == {"half \ufffd"}
    assert len(quiet(own).attempts) == 16


# Repeats and ids


def test_rows_alike_are_repeats_in_their_order_and_ids_number_them_too(plain) -> None:
    with pytest.warns(FrameWarning, match="numbered as repeats in their order up to 2"):
        made = sc.from_frame(table().drop(columns="repeat"))
    pd.testing.assert_frame_equal(made.outcomes, plain.outcomes.drop(columns="named_repeats"))
    own = table(attempt=[f"id-{i}" for i in range(16)])
    made = sc.from_frame(own, attempt="attempt")
    assert made.outcomes["repeat"].tolist() == own["repeat"].tolist()
    assert made.outcomes["attempt_id"].tolist() == own["attempt"].tolist()


def test_with_checks_rows_alike_are_refused_and_the_columns_that_could_help_are_named() -> None:
    own = table(check="states_rule", text=[f"answer {i}" for i in range(16)], seconds=range(16))
    with pytest.raises(
        FrameError,
        match=r"(?s)16 rows are verdicts.*Within them differ 'nr', 'text', .*no role: nr, text",
    ):
        sc.from_frame(own.rename(columns={"repeat": "nr"}), check="check")
    made = sc.from_frame(own, repeat="repeat", answer="text", seconds="seconds")
    assert made.attempts["answer"].tolist() == own["text"].tolist()
    found = sc.deltas.paired(made.attempts, value="seconds")
    change = found[found["measure"].eq("delta_seconds")].iloc[0]
    assert change["estimate"] == pytest.approx(2.0)


# Facts

COLUMNS: dict[str, Any] = {"agent_model": "m", "agent_family": "f", "grader_model": "gm"}
COLUMNS |= {"grader_family": "gf", "input_tokens": 5, "output_tokens": 7, "score": 0.5}
COLUMNS |= {"check_weight": 2.0, "criticality": "high", "bloom": "apply", "should_trigger": True}


def test_a_fact_that_differs_within_a_case_is_refused_and_a_gap_is_filled() -> None:
    distance = ["near"] * 8 + ["far"] * 8
    own = table(transfer=distance)
    own.loc[1:3, "transfer"] = None
    made = sc.from_frame(own, repeat="repeat", transfer="transfer")
    assert made.cases["transfer"].tolist() == ["near", "near", "far", "far"]
    own.loc[0, "transfer"], own.loc[1, "transfer"] = "far", "near"
    with pytest.raises(FrameError, match=r"differs between the rows of one case.*'tea/a'"):
        sc.from_frame(own, repeat="repeat", transfer="transfer")


def test_columns_that_tie_cases_together_are_carried_to_cases_and_outcomes() -> None:
    own = table(video=["x"] * 8 + [None] * 4 + ["y"] * 4, user=range(16))
    made = sc.from_frame(own, repeat="repeat", cluster=["video"], seconds="repeat")
    amounts = sc.deltas.paired(made.attempts, value="seconds")
    assert amounts["n_clusters"].tolist() == [3] * 3
    assert made.cases["video"].tolist()[:2] == ["x", "x"]
    assert sc.frames.clusters_of(made.outcomes).nunique() == 3
    assert made.outcomes.groupby("case_id")["video"].nunique().tolist() == [1, 1, 0, 1]
    with pytest.raises(FrameError, match=r"'user' \(cluster=\): differs .*'tea/a'"):
        sc.from_frame(own, repeat="repeat", cluster=["video", "user"])
    with pytest.raises(FrameError, match=r"'suite' \(cluster=\): .* Rename yours"):
        sc.from_frame(own.rename(columns={"video": "suite"}), repeat="repeat", cluster="suite")


@pytest.mark.parametrize(
    ("shared_cases", "prompts", "tasks", "n_clusters"),
    [
        (None, None, [None] * 8, 8),
        (True, None, list("abcd") * 2, 4),
        (False, None, [f"{s}/{c}" for s in ("tea", "oak") for c in "abcd"], 8),
        # a: equal prompts, b: different ones, c: one of them is unknown, d: both are
        (
            None,
            ["p", "q", "r", None, "p", "x", None, None],
            ["tea/a", "tea/b", "tea/c", None, "tea/a", "oak/b", None, None],
            7,
        ),
    ],
)
def test_equal_case_names_of_several_skills_are_one_task_if_so_stated_or_by_their_prompts(
    shared_cases, prompts, tasks, n_clusters
) -> None:
    both = pd.concat([table(), table(skill="oak", passed=False)])
    both["prompt"] = np.repeat(prompts or [None] * 8, 4)
    made = sc.from_frame(both, repeat="repeat", prompt="prompt", shared_cases=shared_cases)
    assert [None if pd.isna(t) else t for t in made.cases["task"]] == tasks
    assert made.outcomes["task"].nunique() == len({*tasks} - {None})
    assert sc.frames.clusters_of(made.outcomes).nunique() == n_clusters


@pytest.mark.parametrize(
    ("first", "second", "message", "read"),
    [
        ("c1", "C2 ", r"'c1' as C1 \(8 rows\), 'C2 ' as C2", ["C1", "C2"]),
        ("c1", None, r"'c1' as C1 \(8 rows\)\.", ["C1", None]),
        ("recall", "C2", "not all are C1 to C9", [None, None]),
    ],
)
def test_rubric_dimensions_in_any_spelling_and_names_of_ones_own(first, second, message, read):
    own = table(dimension=[first] * 8 + [second] * 8)
    with pytest.warns(FrameWarning, match=message):
        made = sc.from_frame(own, repeat="repeat", dimension="dimension")
    dimensions = made.cases["comprehension_dimension"].astype("object")
    assert dimensions.where(dimensions.notna(), None).tolist() == [read[0]] * 2 + [read[1]] * 2
    if first == "recall":
        by = sc.deltas.paired(made.outcomes, by=["dimension"])
        assert by["dimension"].tolist() == ["recall", "C2"]


def test_every_other_column_reaches_its_frame() -> None:
    own = table(**COLUMNS)
    own["round"] = own["repeat"]
    made = quiet(own.assign(repeat=1), repeat="repeat", round="round", **{c: c for c in COLUMNS})
    for name, value in COLUMNS.items():
        frames = [frame for frame in made if name in frame and frame[name].notna().any()]
        assert frames and all(frame[name].eq(value).all() for frame in frames), name
    assert made.outcomes["round"].tolist() == [1, 2] * 8


def test_the_frames_unpack_and_list_the_conversions() -> None:
    made = quiet(table(condition=(["control"] * 2 + ["skill"] * 2) * 4), repeat="repeat")
    cases, _, _, _, gold = made
    assert len(cases) == 4 and gold.empty and made.pairwise.empty and made.passages.empty
    assert made.problems.astype(str).to_numpy().tolist() == [
        ["column 'condition' (condition=)", "'control'", "read as baseline", "8"],
        ["column 'condition' (condition=)", "'skill'", "read as skill", "8"],
    ]
    with pytest.raises(AttributeError):
        made.cases = cases


# Gold


def checks_table() -> pd.DataFrame:
    own = pd.concat([table(check=name) for name in ("states_rule", "no_copy")], ignore_index=True)
    own["human"] = own["passed"] & own["check"].eq("states_rule")
    return own


def test_gold_in_a_column_and_gold_in_a_frame_are_the_same() -> None:
    own = checks_table()
    named = {"repeat": "repeat", "check": "check"}
    inside = sc.from_frame(own, **named, gold="human")
    keys = ["skill", "case", "condition", "repeat", "check"]
    labels = own[keys].assign(passed=own["human"]).sample(frac=1, random_state=2)
    beside = sc.from_frame(own, **named, gold=labels)
    order = ["attempt_id", "check_id"]
    for one in (inside, beside):
        assert len(one.gold) == 32 and one.gold["labeller"].eq("own").all()
    pd.testing.assert_frame_equal(
        inside.gold.sort_values(order, ignore_index=True),
        beside.gold.sort_values(order, ignore_index=True),
    )
    agreement = sc.reliability.agreement(inside.verdicts, inside.gold)
    raw = agreement.set_index("measure").loc["raw_agreement", "estimate"]
    assert raw == pytest.approx((own["passed"] == own["human"]).mean())


def test_gold_reads_words_as_the_table_does_and_labels_that_match_nothing_are_named() -> None:
    own = checks_table()
    own["condition"] = own["condition"].map({"baseline": "without", "skill": "with"})
    own["repeat"] -= 1
    labels = own[own["condition"].eq("with") & own["repeat"].eq(1)].drop(
        columns=["passed", "human"]
    )
    made = quiet(own, repeat="repeat", check="check", gold=labels.assign(passed="yes"))
    assert made.gold["attempt_id"].isin(made.verdicts["attempt_id"]).all()
    assert made.gold["attempt_id"].str.endswith("/skill/2").all()
    other = labels.assign(passed="yes", case=["za", *labels["case"][1:]])
    with pytest.warns(FrameWarning, match=r"gold: 1 of 8 labels match nothing in the.*/za/"):
        sc.from_frame(own, repeat="repeat", check="check", gold=other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda gold: gold.drop(columns="check"), "(?s)gold: .*there is no column 'check'"),
        (lambda gold: gold.assign(passed="perhaps"), r"gold: column 'passed' .*found 'perhaps'"),
        (lambda gold: gold.assign(case=None), r"gold: column 'case' \(case=\): missing in 32 rows"),
        (lambda gold: pd.concat([gold, gold]), "rows share a key"),
    ],
)
def test_gold_that_cannot_be_read_is_refused(change, message) -> None:
    own = checks_table()
    with pytest.raises(FrameError, match=message):
        sc.from_frame(own, repeat="repeat", check="check", gold=change(own.assign(passed=True)))


def test_gold_that_contradicts_itself_or_names_no_repeat_is_refused() -> None:
    own = table().drop(columns="repeat")
    with pytest.raises(FrameError, match="several repeats could have this label"):
        quiet(own, gold=own.drop_duplicates(["case", "condition"]))
    own = pd.concat([table(grader=g, human=g == "g1") for g in ("g1", "g2")], ignore_index=True)
    with pytest.raises(FrameError, match=r"\(gold=\): differs between rows of one item"):
        sc.from_frame(own, repeat="repeat", grader="grader", gold="human")


def test_regrades_are_rounds_of_an_answer_and_no_new_answers() -> None:
    cells = [(case, condition) for case in "abc" for condition in ("baseline", "skill")]
    rows = [(*cell, n, n == 1) for n in (1, 2, 3) for cell in cells]
    own = pd.DataFrame(rows, columns=["case", "condition", "round", "passed"])
    made = quiet(own, skill=None, round="round")
    assert made.verdicts["attempt_id"].nunique() == 6
    assert set(made.verdicts["round"]) == {1, 2, 3}


# Properties


WORDS = st.sampled_from(["a", "b", "c/d", "1", "né"])


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(
        st.lists(
            st.tuples(WORDS, WORDS, st.sampled_from(["baseline", "skill"]), st.integers(1, 3)),
            min_size=1,
            max_size=30,
            unique=True,
        )
    )
    made = pd.DataFrame(rows, columns=["skill", "case", "condition", "repeat"])
    values = st.sampled_from([True, False, None])
    passed = draw(st.lists(values, min_size=len(rows), max_size=len(rows)))
    return made.assign(passed=pd.array(passed, dtype="boolean"))


@given(tables())
@example(
    pd.DataFrame(
        {"skill": "1", "case": list("abc"), "condition": "baseline", "repeat": [1, 2, 3]}
    ).assign(passed=pd.array([True] * 3, dtype="boolean"))
)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_row_is_one_outcome_with_its_own_values(own: pd.DataFrame) -> None:
    made = quiet(own, repeat="repeat", shared_cases=False)  # skills may have equal rows
    keys = ["skill", "condition", "repeat"]
    assert len(made.outcomes) == len(own) == made.outcomes["attempt_id"].nunique()
    theirs = own.rename(columns={"case": "case_id"})
    pd.testing.assert_frame_equal(
        made.outcomes[[*keys, "case_id", "passed"]],
        theirs[[*keys, "case_id", "passed"]],
        check_dtype=False,
    )
    assert len(made.cases) == len(own.drop_duplicates(["skill", "case"]))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.none() | st.floats() | st.text())).map(
        lambda held: pd.DataFrame({name: pd.Series(values) for name, values in held.items()})
    )
)
@example(pd.DataFrame({name: [None, None] for name in "abcd"} | {"e": [0.0, 0.5]}))
@example(pd.DataFrame({name: [None] for name in "abcd"} | {"e": [2.0**63]}))
@settings(max_examples=5, deadline=None)
def test_any_other_table_is_refused_in_our_own_words_or_read(own: pd.DataFrame) -> None:
    try:
        quiet(own, skill="a", case="b", condition="c", passed="d", repeat="e")
    except FrameError as error:
        assert str(error)


def test_rows_that_an_unnamed_column_tells_apart_are_asked_about() -> None:
    table = pd.DataFrame(
        {"skill": "s", "case": ["1", "1", "2", "2"] * 2, "judge": ["a", "b"] * 4,
         "condition": ["baseline"] * 4 + ["skill"] * 4, "passed": [True, False] * 4,
         "topic": ["x", "x", "y", "y"] * 2, "words": [3.5, 2.5] * 4}
    )  # fmt: skip
    names = {"skill": "skill", "case": "case", "condition": "condition", "passed": "passed"}
    asked = r"Within them differ 'judge' \(grader=\), 'words'\."
    with pytest.raises(FrameError, match=asked):
        sc.from_frame(table, **names)
    with pytest.raises(FrameError, match=asked):
        sc.from_frame(table, **names, keep="all")
    with pytest.warns(
        FrameWarning, match=r"as repeats in their order up to 2. Within them differ 'words'"
    ):
        sc.from_frame(table.drop(columns="judge"), **names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.from_frame(table, **names, grader="judge")


# Attempts without an answer


def test_a_crash_is_missing_a_time_limit_is_a_result_and_no_verdict_is_the_graders() -> None:
    ends = ["completed", "error", "timeout", "Refusal"]
    own = table(passed=pd.array([True] * 16, dtype="boolean")).assign(how=ends * 4)
    own.loc[own["how"].isin(["timeout", "Refusal"]), "passed"] = None
    own.loc[own["case"].eq("d") & own["how"].eq("completed"), "passed"] = None
    with pytest.warns(FrameWarning, match=r"error or paused; missing, not failed \(4 rows"):
        made = sc.from_frame(own, repeat="repeat", status="how")
    status = own["how"].map(dict(zip(ends, ["ok", "error", "timeout", "refused"], strict=True)))
    assert made.attempts["status"].tolist() == status.tolist()
    passed = made.outcomes.merge(made.attempts[["attempt_id", "status"]], on="attempt_id")
    assert passed["status"].value_counts().to_dict() == dict.fromkeys(set(status), 4)
    of = {name: rows["passed"].tolist() for name, rows in passed.groupby("status")}
    assert of == {
        "ok": [True, True, True, pd.NA],
        "error": [pd.NA] * 4,
        "timeout": [False] * 4,
        "refused": [False] * 4,
    }
    graded = made.attempts.loc[made.attempts["status"].eq("ok"), "attempt_id"]
    assert made.verdicts["attempt_id"].tolist() == graded.tolist()


def test_a_text_in_the_column_of_errors_is_a_crash_unless_a_status_says_otherwise() -> None:
    own = table(passed=False, how="ok")
    own["message"] = [None, "", "none", "ConnectionError: reset"] * 4
    made = quiet(own, repeat="repeat", error="message")
    assert made.attempts["status"].tolist() == ["ok", "ok", "ok", "error"] * 4
    assert made.outcomes["passed"].isna().sum() == 4
    late = quiet(own.assign(how="timeout"), repeat="repeat", error="message", status="how")
    assert late.attempts["status"].eq("timeout").all()
    with pytest.raises(
        FrameError, match=r"'failed' .*allowed: ok, error, refused, .* or missing\. .*says"
    ):
        quiet(own.assign(how="failed"), repeat="repeat", status="how")


def test_what_was_asked_and_not_answered_is_an_attempt_with_an_error() -> None:
    own = table()
    asked = own[["skill", "case", "condition", "repeat"]]
    few = own[own["condition"].eq("baseline") | own["case"].isin(["a", "b"])]
    made = quiet(few, repeat="repeat", asked=asked)
    assert made.attempts["status"].eq("error").sum() == 4
    whole = quiet(
        own.assign(passed=own["passed"].mask(~own.index.isin(few.index))), repeat="repeat"
    )
    names = ["estimate", "n_missing", "n_attempts", "worst_low", "worst_high"]
    same = [sc.deltas.paired(one.outcomes)[names] for one in (made, whole)]
    pd.testing.assert_frame_equal(*same)
    # a condition other than baseline and skill is missing only where it was asked for
    placebo = pd.concat([own, own[own["condition"].eq("skill")].assign(condition="placebo")])
    few = placebo[placebo["condition"].ne("placebo") | placebo["case"].ne("a")]
    asked = placebo[["skill", "case", "condition"]]
    for how, n in (({}, 0), ({"asked": asked}, 2)):
        rows = sc.deltas.paired(quiet(few, repeat="repeat", **how).outcomes).set_index("condition")
        assert rows.loc["placebo", "n_missing"] == n
    with pytest.raises(FrameError, match="asked: there is no column 'condition'"):
        quiet(few, repeat="repeat", asked=asked[["skill", "case"]])


def test_the_report_reads_the_words_of_conditions_that_were_asked() -> None:
    own = table()
    own["condition"] = own["condition"].map({"baseline": "without plugin", "skill": "with plugin"})
    asked = own.rename(columns={"case": "case_id"})[["skill", "case_id", "condition", "repeat"]]
    made = quiet(own.iloc[:-1], repeat="repeat")
    unanswered = sc.report.answer(made, asked=asked).frames["unanswered"]
    assert unanswered[["condition", "n"]].to_numpy().tolist() == [["skill", 1]]
    with pytest.raises(StudyError, match=r"asked: .* condition 'tea'; there: baseline, skill"):
        sc.report.answer(made, asked=asked.assign(condition="tea"))


def of_families(effects: Sequence[float], *, cluster: Any = "family") -> sc.frames.Frames:
    """Five tasks of each family, tried twice; the skill changes all tasks of a family alike."""
    rng, rows = np.random.default_rng(len(effects)), []
    for family, effect in enumerate(effects):
        for task in range(5):
            for setup, chance in (("baseline", 0.5), ("skill", 0.5 + effect)):
                rows += [
                    {"skill": "s", "task": f"{family}-{task}", "setup": setup, "try": trial,
                     "family": f"f{family}", "ok": rng.random() < chance}
                    for trial in (1, 2)
                ]  # fmt: skip
    roles = {"case": "task", "condition": "setup", "repeat": "try", "passed": "ok"}
    return sc.from_frame(pd.DataFrame(rows), skill="skill", **roles, cluster=cluster)


def test_a_declared_cluster_is_used_by_every_analysis_and_named(tmp_path: Path) -> None:
    made = of_families([0.4, -0.4] * 4)
    free = of_families([0.4, -0.4] * 4, cluster=None)
    for frame, n in ((made, 8), (free, 40)):
        rates, paired = sc.deltas.rates(frame.outcomes), sc.deltas.paired(frame.outcomes)
        verdicts = sc.skillverdicts.decide(frame.outcomes)
        for rows in (rates, paired, verdicts):
            assert rows["n_clusters"].dropna().eq(n).all() and rows["n_clusters"].notna().any()
    linked, alone = (sc.deltas.paired(f.outcomes).iloc[0] for f in (made, free))
    assert linked["estimate"] == alone["estimate"]
    assert linked["ci_high"] - linked["ci_low"] > alone["ci_high"] - alone["ci_low"]
    # analyses of verdicts read it from the cases
    gold = made.verdicts[["attempt_id", "check_id", "passed"]]
    agreement = sc.reliability.agreement(made.verdicts, gold, cases=made.cases)
    assert agreement.loc[agreement["measure"].eq("raw_agreement"), "n_clusters"].eq(8).all()
    (line,) = made.problems.to_dict("records")
    assert line["place"] == "column 'family' (cluster=)"
    assert (line["found"], line["n"]) == ("8 values", 40)
    with pytest.warns(FrameWarning, match="8 values; linked cases are one cluster"):
        again = sc.read_results(made.save(tmp_path / "saved"))
    assert sc.deltas.paired(again.outcomes)["n_clusters"].eq(8).all()


def test_two_declared_clusters_link_through_each_other() -> None:
    table = pd.DataFrame({
        "skill": "s", "task": list("abcd") * 2, "setup": ["baseline"] * 4 + ["skill"] * 4,
        "video": ["v", "v", "w", None] * 2, "user": ["x", "y", "y", None] * 2,
        "ok": [True, False, True, False, True, True, True, False],
    })  # fmt: skip
    roles = {"case": "task", "condition": "setup", "passed": "ok"}
    made = sc.from_frame(table, skill="skill", **roles, cluster=["video", "user"])
    # a and b share a video, b and c a user; d has neither
    assert sc.frames.clusters_of(made.outcomes).tolist() == [0, 0, 0, 1] * 2
