"""The datasheet of a judge: the rows of other analyses, and what was not measured."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from fuzz.analyses import frames
from test_bias_pairs import FAMILIES, pairs_of

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.stats.results import holm

pytestmark = pytest.mark.filterwarnings("ignore::skillcomp.frames.FrameWarning")
SAME = ["estimate", "ci_low", "ci_high", "method"]
WINS = {"pad": 0.1, "bullets": 0.8, "confident": 0.6}
NOT_MEASURED = "not measured"
TABLE = ["grader", "property", "condition", "unit", "estimate", "ci_low", "ci_high", "n", "null"]


def graded() -> dict[str, pd.DataFrame]:
    """A study with copies, two rounds of one judge, and a version before that of each judge."""
    made = frames()
    copies = made["perturbed"].dropna(subset="perturbation")
    before = made["verdicts"].assign(grader_version="0")
    before["passed"] = before["passed"].where(before["case_id"].ne(before["case_id"][0]), False)
    return {
        "verdicts": pd.concat([before, made["rounds"], copies], ignore_index=True),
        "attempts": made["both"],
        "gold": made["gold"],
        "pairwise": made["pairwise"],
    }


def compared(n: int = 30) -> sc.frames.Frames:
    """Pairs of two systems, of answers with copies in both orders, and of equal answers."""
    rng = np.random.default_rng(3)
    answers = pd.DataFrame({
        "attempt_id": [f"a{i}" for i in range(n)], "skill": "s", "condition": "c",
        "case_id": [f"t{i}" for i in range(n)],
        "answer": [f"It is plan {i}. It is cheap. It is the best of all." for i in range(n)],
    })  # fmt: skip
    tables = [pairs_of(rng, n).rename(columns={"case": "case_id"}).drop(columns="order")]
    for kind, share in WINS.items():
        table = sc.bias.copy_pairs(answers, kind=kind)
        tables.append(table.assign(winner=np.where(rng.random(2 * n) < share, kind, "original")))
    table = sc.bias.copy_pairs(answers, kind="identical")
    tables.append(table.assign(winner=rng.choice(["tie", "tie", "model_a"], len(table))))
    table = pd.concat(tables).assign(skill="s", judge="j").drop(columns="row_id")
    words = {"winner": {"A": "A", "B": "B"}}
    return sc.from_frame(table, words=words, gold="gold")


def by_property(sheet: pd.DataFrame, **values: str) -> pd.DataFrame:
    for name, value in values.items():
        sheet = sheet[sheet[name].eq(value)]
    return sheet.set_index("property")


def agree(row: pd.Series, frame: pd.DataFrame, **values: str) -> None:
    """Check that a row has the numbers of the row of an analysis."""
    for name, value in values.items():
        frame = frame[frame[name].eq(value)]
    (expected,) = frame.to_dict("records")
    plain = expected["method"].partition("; p adjusted")[0]
    assert row["method"].partition("; p adjusted")[0] == plain
    assert row[SAME[:3]].tolist() == pytest.approx([expected[n] for n in SAME[:3]], nan_ok=True)
    n_cases = expected["n"] if np.isnan(expected["n_clusters"]) else expected["n_clusters"]
    assert row[["n", "n_judged"]].tolist() == [n_cases, expected["n"]]


def test_each_row_of_a_judge_of_answers_is_that_of_its_own_analysis() -> None:
    made, cases = graded(), frames()["cases"]
    sheet = sc.bias.datasheet(**made, cases=cases)
    assert sheet["grader"].unique().tolist() == ["judge", "strict"]
    rows = by_property(sheet, grader="judge")
    of_judge = made["verdicts"][made["verdicts"]["grader"].eq("judge")]
    newest = of_judge[of_judge["grader_version"].eq("1")]
    first = newest[newest["round"].eq(1)]
    plain = first[first["perturbation"].isna()]
    how = {"by": "grader", "cases": cases}
    audit = sc.bias.audit(plain, made["attempts"], made["gold"], **how)
    agree(rows.loc["length per doubling"], audit, bias="verbosity")
    copies = sc.bias.perturbed(first, made["attempts"], **how)
    agree(rows.loc["hedged copy (tone)"], copies, perturbation="hedge")
    agreement = sc.reliability.agreement(plain, made["gold"], cases=cases)
    agree(rows.loc["agreement with gold"], agreement, measure="raw_agreement")
    errors = sc.reliability.agreement(plain, made["gold"], by=["grader", "condition"], cases=cases)
    for name in ("passes", "fails"):
        of_conditions = rows.loc[f"false {name}"]
        assert set(of_conditions["condition"]) == {"baseline", "skill", "placebo"}
        for _, row in of_conditions.iterrows():
            agree(row, errors, measure=f"false_{name}", condition=row["condition"])
    rounds = newest[newest["perturbation"].isna()]
    itself = sc.reliability.consistency(rounds, cases=cases)
    agree(rows.loc["agreement with itself"], itself, measure="raw_agreement")
    before = of_judge[of_judge["grader_version"].eq("0")]
    both = pd.concat([plain, before])
    drift = sc.reliability.drift(both, reference_grader=("judge", "0"), cases=cases)
    agree(rows.loc["change from the version before"], drift, measure="pass_rate_change")
    place = sc.bias.position(made["pairwise"], **how)
    place = place[place["grader"].eq("judge")]
    agree(rows.loc["first answer wins"], place, measure="position_points")


def test_each_row_of_a_judge_of_pairs_is_that_of_its_own_analysis() -> None:
    made = compared()
    sheet = sc.bias.datasheet(
        made.verdicts, made.attempts, made.gold, made.pairwise, families=FAMILIES
    )
    rows = by_property(sheet)
    place = sc.bias.position(made.pairwise, by="grader")
    agree(rows.loc["first answer wins"], place, measure="position_points")
    agree(rows.loc["ties of identical answers"], place, measure="ties_if_identical")
    first = rows.loc["first of identical answers wins"]
    agree(first, place, measure="first_wins_if_identical")
    assert first["null"] == 0.5 and np.isnan(rows.loc["ties of identical answers", "null"])
    wins = sc.bias.win_rates(made.pairwise, made.attempts, by="grader", reference="original")
    for kind, name in (("pad", "padded copy"), ("bullets", "copy in bullets")):
        agree(rows.loc[f"{name} in pairs"], wins, measure="win_rate", side=kind)
    of_systems = made.pairwise[made.pairwise["first"].str.contains("/[xy]")]
    audit = sc.bias.audit(
        made.verdicts, made.attempts, made.gold, pairwise=of_systems, by="grader", families=FAMILIES
    )
    agree(rows.loc["length per doubling in pairs"], audit, bias="verbosity")
    agree(rows.loc["own family in pairs"], audit, bias="model family")
    assert rows.loc[["padded copy in pairs", "copy in bullets in pairs"], "shown"].all()
    assert pd.isna(rows.loc["agreement with gold", "shown"])


def test_p_values_are_adjusted_over_the_rows_of_a_judge_that_have_a_null() -> None:
    sheet = sc.bias.datasheet(**graded())
    for _, rows in sheet.groupby("grader"):
        tested = rows[rows["null"].notna()]
        assert len(tested) > 3 and tested["p_adjusted"].tolist() == pytest.approx(
            holm(tested["p_value"])
        )
        assert rows.loc[rows["null"].isna(), ["p_adjusted", "shown"]].isna().all(axis=None)


def test_without_gold_length_is_a_preference_and_the_winner_of_gold_makes_it_a_bias() -> None:
    made = compared()
    pairs = made.pairwise.assign(gold_winner=pd.NA)
    for pairwise, name in ((made.pairwise, "{} in pairs"), (pairs, "preference for {}")):
        rows = by_property(sc.bias.datasheet(None, made.attempts, pairwise=pairwise))
        assert name.format("length per doubling") in rows.index


@pytest.mark.parametrize("n_given", range(1, 5))
def test_every_subset_of_the_inputs_has_all_properties(n_given: int) -> None:
    made = graded()
    for names in combinations(made, n_given):
        given = {name: made[name] for name in names}
        if not {"verdicts", "pairwise"} & set(names):
            with pytest.raises(FrameError, match=r"Give verdicts= .* pairwise="):
                sc.bias.datasheet(**given)
            continue
        if n_given == 2 and "gold" in names:
            continue  # as with all inputs, or with none of them
        sheet = sc.bias.datasheet(**given)
        unknown = sheet["estimate"].isna()
        assert sheet["note"].str.startswith(NOT_MEASURED).equals(unknown)
        assert sheet.loc[unknown, "note"].str.contains("to measure it, ").all()
        words = sheet["property"].str.replace("preference for | in pairs", "", regex=True)
        assert words.groupby(sheet["grader"]).nunique().tolist() == [18, 18]


def test_what_is_not_identified_has_its_reason_and_the_data_that_would_measure_it() -> None:
    pairs = pd.DataFrame({
        "case_id": [f"q{i}" for i in range(8)], "grader": "j", "winner_position": [1, 2] * 4,
        "first": [f"q{i}/x" for i in range(8)], "second": [f"q{i}/y" for i in range(8)],
    })  # fmt: skip
    note = by_property(sc.bias.datasheet(pairwise=pairs)).loc["first answer wins", "note"]
    assert "each system always in the same place" in note and "in both orders" in note


def test_the_pilot_has_a_row_for_each_judge_and_says_what_was_not_measured() -> None:
    store = sc.datasets.load("pilot")
    sheet = sc.bias.datasheet(
        sc.frames.verdicts(store, round="all", perturbation="all"),
        sc.frames.attempts(store, perturbation="all"),
        sc.frames.gold(store, labeller="all"),
        sc.frames.pairwise(store),
        cases=sc.frames.cases(store),
    )
    assert sheet["grader"].unique().tolist() == ["g0", "g1", "g2", "pairwise"]
    known = sheet[sheet["estimate"].notna()].groupby("grader")["property"].unique()
    assert known["pairwise"].tolist() == ["first answer wins"]
    assert "padded copy" in known["g0"] and "padded copy" not in known["g1"]
    assert "agreement with itself" in known["g2"] and "agreement of two labellers" in known["g2"]
    texts = sc.report.sentences(sheet)
    assert "pairwise, not shown to differ from an unbiased judge: first answer wins (" in texts[-2]
    assert texts[-1].startswith("pairwise, not measured: ") and "agreement with gold" in texts[-1]
    assert all(text.startswith(("g0", "g1", "g2", "pairwise")) for text in texts)
    tex = sc.table(sheet, columns=TABLE).latex()
    assert tex.count(r"\\") == len(sheet) + 1
    assert "g0 & padded copy & n/a & points & +1.7 [$-$2.9, 6.3] & 43 & 0" in tex


def test_identical_copies_of_a_store_count_as_identical_answers() -> None:
    plain = pd.DataFrame({"attempt_id": ["a", "b"], "skill": "s", "case_id": ["s/1", "s/2"],
                          "condition": "c", "answer": ["Yes.", "No."]})  # fmt: skip
    copies = sc.bias.perturb(plain, kind="identical")
    pairs = pd.DataFrame({
        "skill": "s", "case_id": ["s/1", "s/2"], "grader": "j", "first": ["a", "b"],
        "second": copies["attempt_id"], "winner": ["a", None], "winner_position": [1, None],
    })  # fmt: skip
    rows = by_property(sc.bias.datasheet(None, pd.concat([plain, copies]), pairwise=pairs))
    assert rows.loc["first of identical answers wins", ["estimate", "n"]].tolist() == [1, 1]


def test_versions_and_rounds_are_compared_and_so_are_no_names_of_a_judge() -> None:
    made = graded()
    for name in ("grader_version", "round", "condition"):
        with pytest.raises(FrameError, match=f"by= names '{name}', which is compared"):
            sc.bias.datasheet(made["verdicts"], by=["grader", name])
    with pytest.raises(FrameError, match="more than one grader"):
        sc.bias.datasheet(made["verdicts"], by=())


def test_the_version_that_graded_last_is_the_newest() -> None:
    made = graded()["verdicts"]
    one = made[made["grader"].eq("strict")]
    day = one["grader_version"].map({"0": "2026-02-02T00:00Z", "1": "2026-01-01T00:00Z"})
    changes = [
        by_property(sc.bias.datasheet(rows)).loc["change from the version before", "estimate"]
        for rows in (one, one.assign(graded_at=pd.to_datetime(day)))
    ]
    assert changes[0] == pytest.approx(-changes[1]) and changes[0] != 0


def test_the_only_judge_needs_no_name() -> None:
    made = graded()
    made["verdicts"] = made["verdicts"][made["verdicts"]["grader"].eq("judge")]
    made["pairwise"] = made["pairwise"][made["pairwise"]["grader"].eq("judge")]
    named, alone = sc.bias.datasheet(**made), sc.bias.datasheet(**made, by=())
    pd.testing.assert_frame_equal(named.drop(columns="grader"), alone)
    assert sc.report.sentences(alone)[-1].startswith("The judge, not measured: ")


def copies_compared(kind: str) -> pd.DataFrame:
    """A table of pairs of ten answers with their copies; the answer shown first wins."""
    answers = pd.DataFrame({
        "attempt_id": [f"a{i}" for i in range(12)], "skill": "s", "condition": "c",
        "case_id": [f"t{i}" for i in range(12)],
        "answer": [f"It is plan {i}. It is cheap." for i in range(12)],
    })  # fmt: skip
    return sc.bias.copy_pairs(answers, kind=kind).assign(winner="model_a", judge="j")


def rows_of(table: pd.DataFrame) -> pd.DataFrame:
    made = sc.from_frame(table)
    return by_property(sc.bias.datasheet(made.verdicts, made.attempts, pairwise=made.pairwise))


def test_pairs_of_copies_need_no_other_pairs_and_identical_copies_no_texts() -> None:
    rows = rows_of(copies_compared("bullets"))
    assert rows.loc["copy in bullets in pairs", ["estimate", "n"]].tolist() == [0.5, 12]
    table = copies_compared("identical")
    for part in (table, table.drop(columns=["response_a", "response_b"])):
        rows = rows_of(part)
        assert rows.loc["first of identical answers wins", ["estimate", "n"]].tolist() == [1, 12]


def test_a_form_with_a_fixed_place_is_not_measured() -> None:
    table = copies_compared("bullets")
    rows = rows_of(table[table["model_a"].eq("original")])
    row = rows.loc["copy in bullets in pairs"]
    assert row[["estimate", "p_value", "null", "shown"]].isna().all()
    assert row["note"].startswith("not measured: 'original' was shown first in 100 %")


def test_a_version_without_a_name_is_a_version() -> None:
    made = graded()["verdicts"]
    named = sc.bias.datasheet(made)
    unnamed = made["grader_version"].where(made["grader_version"].ne("0"))
    sheet = sc.bias.datasheet(made.assign(grader_version=unnamed))
    sheet["note"] = sheet["note"].str.replace("(no version)", "0")
    pd.testing.assert_frame_equal(sheet, named)


def test_the_attempts_say_which_verdicts_are_on_copies() -> None:
    made = graded()
    sheet = sc.bias.datasheet(**made)
    verdicts = made["verdicts"].drop(columns="perturbation")
    pd.testing.assert_frame_equal(sc.bias.datasheet(**{**made, "verdicts": verdicts}), sheet)
