import numpy as np
import pandas as pd
import pytest

import skillcomp as sc


def study(cases: list[tuple[str, str, str, float, float]], repeats: int = 2) -> pd.DataFrame:
    """(skill, dimension, transfer, baseline rate, skill rate) a case."""
    rows = []
    for number, (skill, dimension, transfer, *rates) in enumerate(cases):
        for condition, rate in zip(("baseline", "skill"), rates, strict=True):
            for repeat in range(repeats):
                rows.append(
                    {
                        "attempt_id": f"{number}/{condition}/{repeat}",
                        "skill": skill,
                        "case_id": f"{skill}/{number}",
                        "condition": condition,
                        "repeat": repeat + 1,
                        "grader": "g",
                        "comprehension_dimension": dimension,
                        "transfer": transfer,
                        "passed": repeat < rate * repeats,
                        "share_passed": rate,
                    }
                )
    return pd.DataFrame(rows)


def headline(frame: pd.DataFrame, measure: str = "gap") -> pd.Series:
    rows = frame[frame["scope"].eq("within_dimensions") & frame["measure"].eq(measure)]
    assert len(rows) == 1
    return rows.iloc[0]


def mixed() -> pd.DataFrame:
    # within C2 far gains half as much as near; C1 has only near and C5 only far cases
    cases = [("s", "C2", "near", 0.0, 1.0)] * 6 + [("s", "C2", "near", 0.0, 0.5)] * 2
    cases += [("s", "C2", "far", 0.5, 1.0)] * 6 + [("s", "C2", "far", 0.5, 0.5)] * 2
    cases += [("s", "C1", "near", 0.0, 0.0)] * 5 + [("s", "C5", "far", 0.0, 1.0)] * 5
    return study(cases)


def test_the_headline_is_the_gap_within_dimensions_that_have_both() -> None:
    row = headline(sc.transfer.gap(mixed()))
    # near delta: (6 x 1 + 2 x 1/2) / 8 = 7/8; far delta: 6 x 1/2 / 8 = 3/8
    assert row["estimate"] == pytest.approx(3 / 8 - 7 / 8)
    assert row["dimensions"] == "C2"
    assert (row["n_near"], row["n_far"]) == (8, 8)
    assert row["ci_low"] < row["estimate"] < row["ci_high"]


def test_pooling_over_dimensions_would_give_another_sign_and_says_so() -> None:
    frame = sc.transfer.gap(mixed())
    pooled = frame[frame["scope"].eq("pooled") & frame["measure"].eq("gap")].iloc[0]
    # near: 7 of 13 gained, far: (3 + 5) of 13
    assert pooled["estimate"] == pytest.approx(8 / 13 - 7 / 13)
    assert "confounded with the rubric dimension" in pooled["note"]


def test_near_plus_gap_is_far_in_both_scopes() -> None:
    frame = sc.transfer.gap(mixed())
    for _, part in frame.groupby("scope"):
        value = part.set_index("measure")["estimate"]
        assert value["near_delta"] + value["gap"] == pytest.approx(value["far_delta"])


def test_too_few_cases_of_one_kind_are_unknown_with_a_note() -> None:
    cases = [("s", "C2", "near", 0.0, 1.0), ("s", "C2", "far", 0.0, 1.0)] * 1
    frame = sc.transfer.gap(study(cases), by=["skill"])
    assert frame["estimate"].isna().all()
    assert frame["note"].str.contains("1 near and 1 far, at least 2 of each").all()


def test_deltas_without_spread_get_limits_from_score_intervals() -> None:
    cases = [("s", "C2", kind, 0.0, 1.0) for kind in ("near", "far") for _ in range(6)]
    row = headline(sc.transfer.gap(study(cases)))
    assert row["estimate"] == pytest.approx(0)
    assert -1 < row["ci_low"] < 0 < row["ci_high"] < 1
    assert "MOVER" in row["note"]


def test_swapping_near_and_far_mirrors_the_gap() -> None:
    frame = mixed()
    swapped = frame.assign(transfer=frame["transfer"].map({"near": "far", "far": "near"}))
    there, back = headline(sc.transfer.gap(frame)), headline(sc.transfer.gap(swapped))
    assert there["estimate"] == pytest.approx(-back["estimate"])
    assert there["ci_low"] == pytest.approx(-back["ci_high"])


def test_one_level_is_the_ordinary_comparison_of_two_groups_of_deltas() -> None:
    # the published identity: attempts with condition x distance equal lm(delta ~ far) on cases
    rng = np.random.default_rng(0)
    cases = [
        ("s", "C2", kind, round(a, 1), round(b, 1))
        for kind in ("near", "far")
        for a, b in rng.choice([0.2, 0.4, 0.6, 0.8], size=(20, 2))
    ]
    frame = study(cases, repeats=5)
    row = headline(sc.transfer.gap(frame))
    table = frame.assign(p=frame["passed"].astype(float)).pivot_table(
        index=["case_id", "transfer"], columns="condition", values="p"
    )
    delta = (table["skill"] - table["baseline"]).groupby("transfer")
    assert row["estimate"] == pytest.approx(delta.mean()["far"] - delta.mean()["near"])


def test_both_one_or_no_member_of_a_contrast_pair_right_add_up_to_one() -> None:
    cases = [("s", "C2", "near", 0.0, 1.0)] * 6
    frame = study(cases)
    twins = {"s/1": "s/0", "s/3": "s/2", "s/5": "s/4"}
    frame["contrast_of"] = frame["case_id"].map(twins)
    frame.loc[frame["case_id"].eq("s/5"), "passed"] = False
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"])["estimate"]
    assert rows["skill"].to_dict() == pytest.approx(
        {"both_right": 2 / 3, "one_right": 1 / 3, "none_right": 0}
    )
    assert rows["baseline", "none_right"] == 1


def test_a_study_without_contrast_pairs_gives_no_rows() -> None:
    assert sc.transfer.contrast(mixed()).empty


def test_on_the_pilot_only_two_dimensions_can_tell_distance_from_dimension(
    forced: pd.DataFrame,
) -> None:
    frame = sc.transfer.gap(forced[forced["condition"] != "placebo"])
    row = headline(frame)
    assert row["dimensions"] == "C2, C7"
    assert row["ci_low"] < 0 < row["ci_high"]
    contrast = sc.transfer.contrast(forced).set_index(["condition", "measure"])
    assert contrast.loc[("skill", "both_right"), "n"] == 12
