"""The form of a document: scored, related to pass rates, and changed in an experiment."""

import itertools
import math
import time

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import FrameError, SkillError, StudyError
from skillcomp.structure import FEATURES

DESIGN = [
    {"condition": f"{content}-{form}", "content": content, "form": form}
    for content in ("full", "gutted")
    for form in ("structured", "flat")
]
CELLS = [row["condition"] for row in DESIGN]
TEXT = """\
---
name: tea
description: How we brew.
version: ''
concept:
  definition: |
    Hot water on leaves.
  purpose: To wake up.
metadata:
  tags: [drink, "", hot]
---
# Tea

## Brewing

Use **hot** water, see [the pot](pot.md) and `kettle --on`.

1. Wait.
2. Pour __gently__.
   - not beside

| leaf | time |
|---|---|
| green | 2 |

```sh
# no heading
boil **water**
```

## Empty

## Last

![leaf](leaf.png) Done.
"""


def values(text: str) -> dict[str, float]:
    found = sc.structure.score({"tea": text}).set_index("feature")
    return found["value"].to_dict()


# Score


def test_every_feature_is_counted_as_it_says() -> None:
    found = values(TEXT)
    assert found["sections"] == 2  # Brewing and Last; Tea and Empty have nothing of their own
    assert found["headings"] == 4  # not the comment in the code
    assert (found["list_items"], found["tables"]) == (3, 1)
    assert found["code"] == 2  # one block, one span
    assert found["links"] == 2  # a link and a picture
    assert found["bold"] == 2  # not the stars in the code
    assert found["front_matter_fields"] == 5  # name, description, definition, purpose, tags
    # headings 4, sentence 9, items 1 + 2 + 2, table 4, code 5, last 2, front 3 + 4 + 3 + 1 + 2 + 1
    front = [len(t.split()) for t in ("tea", "How we brew.", "Hot water on leaves.", "To wake up.")]
    body = 4 + 9 + 5 + 4 + 5 + 2
    assert found["words"] == sum(front) + len(["drink", "hot"]) + body


def test_readability_is_the_published_index() -> None:
    # 36 letters, 9 words, 2 sentences
    found = values("---\nname: ''\n---\nThe quick brown fox jumps. The lazy dog slept.\n")
    assert found["readability"] == pytest.approx(4.71 * 36 / 9 + 0.5 * 9 / 2 - 21.43)
    assert math.isnan(values("---\nname: ''\n---\n")["readability"])


def test_points_grow_up_to_their_mark_and_the_total_is_their_mean() -> None:
    found = sc.structure.score({"tea": TEXT}).set_index("feature")
    assert list(found.index) == [*FEATURES, "total"]
    assert found["points"].between(0, 1).all()
    mean = found.loc[list(FEATURES), "points"].mean()
    assert found.loc["total", ["value", "points"]].tolist() == pytest.approx([100 * mean, mean])
    hard = "Incomprehensibilities characteristically institutionalised " * 20
    texts = {"a": "# A\n\nx\n", "b": "# A\n\nx\n\n" + "## B\n\ny y\n\n" * 9, "hard": hard}
    by = sc.structure.score(texts).pivot(index="feature", columns="document")
    assert by["points"].loc["headings"].tolist() == pytest.approx([1 / 6, 1, 0])
    assert by["value"].loc["readability", "hard"] > 20
    assert by["points"].loc["readability", "hard"] == 0


def test_a_skill_and_its_text_give_the_same(pilot: sc.RunStore) -> None:
    scores = sc.structure.score(pilot.skills)
    texts = {slug: skill.text for slug, skill in pilot.skills.items()}
    pd.testing.assert_frame_equal(scores, sc.structure.score(texts))
    assert scores["document"].nunique() == 6


@pytest.mark.parametrize("skills", [[3], {"a": 3}, {3: "text"}, pd.DataFrame()])
def test_only_a_mapping_of_skills_is_scored(skills: object) -> None:
    with pytest.raises(FrameError, match=r"structure\.score: skills: found"):
        sc.structure.score(skills)


def test_a_broken_front_matter_and_a_long_text_are_refused() -> None:
    with pytest.raises(SkillError, match="not YAML"):
        sc.structure.score({"a": "---\nname: [\n---\n"})
    with pytest.raises(FrameError, match="characters; allowed"):
        sc.structure.score({"a": "x" * (3 << 20)})


@pytest.mark.parametrize("part", ["[", "> ", "|a|\n|-|\n", "<a "])
def test_a_hostile_document_takes_seconds_at_most(part: str) -> None:
    start = time.perf_counter()
    found = sc.structure.score({"a": part * (20_000 // len(part))})
    assert time.perf_counter() - start < 20
    assert found["points"].between(0, 1).all()


# The score and the pass rates


def study(n: int, **options: float) -> simulated.ScoredDocuments:
    return simulated.scored_documents(n_skills=n, **{"r_squared": 0.3, "seed": 2, **options})


def association(outcomes: pd.DataFrame, scores: pd.DataFrame, **options: object) -> pd.DataFrame:
    rows = sc.structure.score_association(outcomes, scores=scores, **options)
    return rows.set_index("measure")


def test_missing_attempts_of_documents_are_counted_by_condition() -> None:
    made = study(12)
    outcomes = made.outcomes.astype({"passed": "boolean"})
    n = len(outcomes)
    outcomes.loc[outcomes.index[::4], "passed"] = pd.NA
    found = association(outcomes, made.scores)
    n_lost = len(outcomes.index[::4])
    assert found["n_missing"].eq(n_lost).all()
    assert found["note"].str.contains(f"missing: {n_lost} of {n} under the documents").all()
    base = made.outcomes.assign(condition="baseline", passed=False)
    base["attempt_id"] += "/baseline"
    both = pd.concat([base, outcomes])
    gains = association(both, made.scores, outcome="delta")
    counts = f"{n_lost} of {n} under the documents, 0 of {n} under the reference; their shares"
    assert gains["note"].str.contains(counts).all()
    assert not association(made.outcomes, made.scores)["n_missing"].any()


def test_r_squared_is_that_of_the_rates_of_documents() -> None:
    made = study(40)
    found = association(made.outcomes, made.scores)
    rate = made.outcomes.groupby("skill")["passed"].mean().astype(float)
    score = made.scores.set_index("document")["value"].reindex(rate.index)
    r = np.corrcoef(score, rate)[0, 1]
    assert found.loc["r_squared", "estimate"] == pytest.approx(r**2)
    assert found["n"].eq(40).all() and found["n_clusters"].eq(40).all()
    assert found.loc["adjusted_r_squared", "estimate"] < r**2
    assert found.loc["cross_validated_r_squared", "estimate"] < r**2
    assert found["unit"].eq("coefficient").all()


def test_six_skills_are_too_few_and_the_note_says_so() -> None:
    made = study(6)
    found = association(made.outcomes, made.scores)
    limits = found.loc[["r_squared", "spearman"], ["ci_low", "ci_high", "p_value"]]
    assert limits.isna().all(axis=None)
    assert found.loc["r_squared", "note"] == "6 clusters are too few for limits (at least 10)"
    assert found.loc["detectable_r_squared", "estimate"] > 0.8


def test_a_delta_is_held_against_the_score_too() -> None:
    made = study(12)
    base = made.outcomes.assign(
        condition="baseline", passed=False, attempt_id="b" + made.outcomes["attempt_id"]
    )
    both = pd.concat([made.outcomes, base], ignore_index=True)
    rate = association(both, made.scores)
    delta = association(both, made.scores, outcome="delta")
    same = ["r_squared", "spearman"]
    pd.testing.assert_series_equal(rate.loc[same, "estimate"], delta.loc[same, "estimate"])


def test_documents_loaded_under_other_conditions_are_known_by_their_attempts() -> None:
    made = study(12)
    other = made.outcomes.assign(
        condition="flat", attempt_id="f" + made.outcomes["attempt_id"], passed=True
    )
    both = pd.concat([made.outcomes, other], ignore_index=True)
    keys = ["attempt_id", "skill", "case_id", "condition"]
    flat = both["condition"].eq("flat")
    attempts = both[keys].assign(loaded_skill=both["skill"].where(~flat, both["skill"] + "-flat"))
    flat_scores = made.scores.assign(document=made.scores["document"] + "-flat")
    scores = pd.concat([made.scores, flat_scores])
    found = sc.structure.score_by_document(both, scores=scores, attempts=attempts)
    assert len(found) == 24 and found["document"].nunique() == 24
    explained = association(both, scores, attempts=attempts)
    assert explained["n"].eq(24).all() and explained["n_clusters"].eq(12).all()
    alone = sc.structure.score_by_document(both, scores=scores)
    assert alone["condition"].eq("skill").all()


def test_features_are_adjusted_and_documents_without_a_score_dropped() -> None:
    made = study(30)
    rng = np.random.default_rng(0)
    dropped = association(made.outcomes, made.scores.iloc[5:])
    assert dropped["n"].eq(25).all() and dropped["n_dropped"].eq(5).all()
    noise = made.scores.assign(feature="noise", value=rng.normal(size=30))
    scores = pd.concat([made.scores.assign(feature="signal"), noise])
    found = association(made.outcomes, scores, features=["signal", "noise"])
    plain = found.loc["r_squared"].set_index("feature")
    lower = plain["p_value"].idxmin()
    assert plain.loc[lower, "p_adjusted"] == pytest.approx(2 * plain.loc[lower, "p_value"])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda scores: scores, {"features": "totl"}, r"no 'totl'.*Did you mean 'total'"),
        (lambda scores: scores.assign(document="x"), {}, "two values of one feature"),
        (lambda scores: scores.assign(document="x-" + scores["document"]), {}, "no document of"),
        (lambda scores: scores.assign(value="many"), {}, "has a value that is not a number"),
        (lambda scores: scores, {"features": 3}, "features: there is no 3; there: "),
        (lambda scores: scores, {"by": ["score"]}, "'score', a column of the result"),
        (lambda scores: scores, {"skills": {"s": "# S"}}, "give either skills, .* or scores="),
        (lambda scores: None, {"skills": pd.DataFrame()}, "skills: found a DataFrame; .* scores="),
    ],
)
def test_a_fault_of_the_scores_is_named(change, options, message) -> None:
    made = study(12)
    outcomes = made.outcomes.assign(score=1)
    with pytest.raises(FrameError, match=message):
        sc.structure.score_association(outcomes, scores=change(made.scores), **options)


def test_documents_all_alike_explain_nothing_and_say_why() -> None:
    made = study(12)
    flat = association(made.outcomes, made.scores.assign(value=50.0))
    assert flat.loc["r_squared", "note"] == "x is the same in all units"
    rows = association(made.outcomes.assign(passed=True), made.scores)
    rows = rows.drop(index="detectable_r_squared")
    assert rows["estimate"].isna().all()
    assert rows["note"].eq("y is the same in all units").all()


def test_simulated_documents_are_what_they_say() -> None:
    made = study(4000, r_squared=0.3)
    rate, score = made.rates["rate"], made.scores["value"]
    assert np.corrcoef(rate, score)[0, 1] ** 2 == pytest.approx(0.3, abs=0.03)
    assert rate.between(0, 1).all() and score.between(0, 100).all()
    observed = made.outcomes.groupby("skill")["passed"].mean().astype(float)
    shown = np.corrcoef(observed, score)[0, 1] ** 2
    assert shown == pytest.approx(made.r_squared_observed, abs=0.03) and shown < 0.3
    for options, message in (({"r_squared": 2}, "r_squared: found 2"), ({"n": 0}, "n_skills: fo")):
        with pytest.raises(StudyError, match=message):
            study(**{"n": 5, **options})


def test_the_ceiling_is_what_perfect_knowledge_would_show() -> None:
    made = study(500, r_squared=1.0)
    found = association(made.outcomes, made.scores)["estimate"]
    assert found["ceiling_r_squared"] == pytest.approx(made.r_squared_observed, abs=0.06)
    assert found["r_squared"] == pytest.approx(found["ceiling_r_squared"], abs=0.06)


# The experiment


def experiment(
    n_cases: int = 12, *, n_skills: int = 2, repeats: int = 2, seed: int = 0
) -> pd.DataFrame:
    """Return outcomes of a baseline and four documents, content +50 points and form +10."""
    rng = np.random.default_rng(seed)
    rates = dict(zip(["baseline", *CELLS], [0.3, 0.9, 0.8, 0.4, 0.3], strict=True))
    rows = [
        {"skill": f"s{s}", "case_id": f"s{s}/{c}", "condition": name, "repeat": r}
        | {"passed": bool(rng.random() < rate)}
        for s, c, r in itertools.product(range(n_skills), range(n_cases), range(1, repeats + 1))
        for name, rate in rates.items()
    ]
    return pd.DataFrame(rows)


def factorial(outcomes: pd.DataFrame, design: object = DESIGN, **options: object) -> pd.DataFrame:
    return sc.structure.factorial(outcomes, design, **options).set_index(["effect", "at"])


def test_effects_worked_by_hand() -> None:
    # of a first and a second case
    rates = {"baseline": (0, 1), CELLS[0]: (1, 1), CELLS[1]: (1, 0), CELLS[2]: (1, 0)}
    rates[CELLS[3]] = (0, 0)
    rows = [
        {"skill": "s", "case_id": str(i), "condition": name, "passed": bool(passed)}
        for name, pair in rates.items()
        for i, passed in enumerate(pair)
    ]
    found = factorial(pd.DataFrame(rows))["estimate"].to_dict()
    assert found == {
        ("total", ""): 0.5,  # (1 - 0 + 1 - 1) / 2
        ("any document", ""): -0.5,  # (0 - 0 + 0 - 1) / 2
        ("content", ""): 0.5,  # case 1: (1 + 1 - 1 - 0) / 2, case 2: (1 + 0 - 0 - 0) / 2
        ("form", ""): 0.5,  # case 1: (1 - 1 + 1 - 0) / 2, case 2: (1 - 0 + 0 - 0) / 2
        ("content x form", ""): 0.0,  # case 1: (1 - 1) - (1 - 0), case 2: (1 - 0) - (0 - 0)
        ("content", "structured"): 0.5,
        ("content", "flat"): 0.5,
        ("form", "full"): 0.5,
        ("form", "gutted"): 0.5,
    }


def test_simple_effects_are_paired_deltas() -> None:
    outcomes = experiment()
    found = factorial(outcomes)
    pairs = {
        ("content", "structured"): (CELLS[0], CELLS[2]),
        ("form", "gutted"): (CELLS[2], CELLS[3]),
        ("total", ""): (CELLS[0], "baseline"),
    }
    for key, pair in pairs.items():
        kept = outcomes[outcomes["condition"].isin(pair)]
        delta = sc.deltas.paired(kept, reference=pair[1]).iloc[0]
        same = ["measure", "unit", "estimate", "ci_low", "ci_high", "n", "rate", "note"]
        pd.testing.assert_series_equal(found.loc[key, same], delta[same], check_names=False)


def test_effects_are_the_coefficients_of_a_regression_with_cases_held() -> None:
    outcomes = experiment()
    cells = outcomes[outcomes["condition"].ne("baseline")].merge(pd.DataFrame(DESIGN))
    cells["y"] = cells["passed"].astype(float)
    # effects coded -1/2 and 1/2: coefficients are main effects and the interaction
    cells["c"] = cells["content"].eq("full") - 0.5
    cells["f"] = cells["form"].eq("structured") - 0.5
    fit = smf.ols("y ~ c * f + C(case_id)", cells).fit().params
    found = factorial(outcomes, reference=None)["estimate"]
    assert found["content", ""] == pytest.approx(fit["c"])
    assert found["form", ""] == pytest.approx(fit["f"])
    assert found["content x form", ""] == pytest.approx(fit["c:f"])


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_the_total_is_the_sum_of_its_parts_and_levels_flip_signs(seed: int, n: int) -> None:
    outcomes = experiment(n, seed=seed)
    found = factorial(outcomes)
    parts = found["estimate"]
    whole = parts["any document", ""] + parts["content", ""] + parts["form", ""]
    assert parts["total", ""] == pytest.approx(whole)
    assert found["ci_low"].lt(found["ci_high"]).all()
    turned = factorial(outcomes, DESIGN[::-1], reference=None)
    for name in ("content", "form"):
        assert turned.loc[(name, ""), "estimate"] == pytest.approx(-parts[name, ""])
        assert turned.loc[(name, ""), "ci_low"] == pytest.approx(-found.loc[(name, ""), "ci_high"])
    crossed = ("content x form", "")
    assert turned.loc[crossed, "estimate"] == pytest.approx(parts[crossed])


def test_what_is_missing_is_counted_and_unequal_loss_is_told() -> None:
    outcomes = experiment()
    gone = outcomes["case_id"].eq("s0/0") & outcomes["condition"].eq(CELLS[1])
    found = factorial(outcomes[~gone])
    assert found.loc[("content", ""), ["n", "n_dropped"]].tolist() == [23, 1]
    assert found.loc[("content", "structured"), ["n", "n_dropped"]].tolist() == [24, 0]
    assert "1 case dropped" in found.loc[("form", ""), "note"]
    lost = outcomes["condition"].eq(CELLS[3]) & outcomes["repeat"].eq(1)
    outcomes["passed"] = outcomes["passed"].astype("boolean").mask(lost)
    found = factorial(outcomes)
    assert found.loc[("content", ""), "n_missing"] == 24
    note = found.loc[("content", ""), "note"]
    assert "24 of 48 under gutted-flat" in note and "their shares differ" in note
    assert found.loc[("content", "structured"), "n_missing"] == 0


def test_few_skills_say_nothing_of_skills_and_a_claim_is_made_of_them_only_when_asked() -> None:
    outcomes = experiment(n_skills=1)
    found = sc.structure.factorial(outcomes, DESIGN, cluster="skill")
    assert found["estimate"].isna().all()
    assert found["note"].str.contains("one skill says nothing").all()
    six = sc.structure.factorial(experiment(n_skills=6), DESIGN, cluster="skill")
    assert six["n_clusters"].eq(6).all()
    deltas = six[six["measure"].eq("delta_passed")]
    assert deltas["note"].str.contains("6 skills can show 51 points").all()


def test_by_skill_and_an_interaction_with_its_own_bounds() -> None:
    found = sc.structure.factorial(experiment(3), DESIGN, by=["skill"], reference=None)
    assert found.groupby("skill").size().eq(7).all()
    crossed = found[found["effect"].eq("content x form")]
    assert crossed["ci_high"].gt(1).any()  # three cases leave open more than a whole difference
    assert crossed["ci_low"].ge(-2).all() and crossed["ci_high"].le(2).all()
    assert crossed["measure"].eq("difference_passed").all() and crossed["unit"].eq("points").all()


@pytest.mark.parametrize(
    "design",
    [
        *(None, "text", [{"condition": "a"}], [*DESIGN, DESIGN[0]]),
        [row | {"size": 1} for row in DESIGN],
        [row | {"form": "flat"} for row in DESIGN],
        [row | {"form": None} for row in DESIGN],
        [{**row, "condition": "full-flat"} for row in DESIGN],
    ],
)
def test_a_design_that_is_none_is_told(design: object) -> None:
    with pytest.raises(FrameError, match=r"structure\.factorial: design: .*expected four rows"):
        sc.structure.factorial(experiment(), design)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": [row | {"condition": row["condition"].upper()} for row in DESIGN]}, "'FULL-S"),
        ({"reference": "none"}, "there is no condition 'none'"),
        ({"reference": CELLS[0]}, "is a condition of the design"),
        ({"grader": ["a", "b"]}, "more than one grader"),
        ({"by": ["effect"]}, "by= names what the result tells apart"),
    ],
)
def test_a_fault_of_the_experiment_is_named(options, message) -> None:
    graders = options.pop("grader", ["g"])
    outcomes = pd.concat([experiment().assign(grader=name) for name in graders])
    with pytest.raises(FrameError, match=message):
        sc.structure.factorial(outcomes, **{"design": DESIGN, **options})


def test_a_study_without_outcomes_has_no_effects() -> None:
    assert sc.structure.factorial(sc.frames.empty("outcomes"), DESIGN).empty


@pytest.mark.slow
def test_the_intervals_of_an_experiment_cover() -> None:
    # case by case: hard and easy ones, deterministic attempts half of the time
    truth = {"content": 0.5, "form": 0.1, "content x form": 0.0, "total": 0.6, "any document": 0.0}
    held = dict.fromkeys(truth, 0)
    for seed in range(150):
        found = sc.structure.factorial(experiment(16, n_skills=3, seed=seed), DESIGN)
        rows = found[found["at"].eq("")].set_index("effect")
        for name, value in truth.items():
            held[name] += rows.loc[name, "ci_low"] <= value <= rows.loc[name, "ci_high"]
    assert min(held.values()) / 150 >= 0.93, held


def test_a_ceiling_does_not_take_cases_that_are_all_alike_for_measured_without_error() -> None:
    def ceiling(passes: list[int], n_cases: int) -> pd.Series:
        rows = [
            {"skill": f"s{i}", "case_id": f"s{i}/{j}", "condition": "skill", "passed": j < n}
            for i, n in enumerate(passes)
            for j in range(n_cases)
        ]
        scores = {"document": [f"s{i}" for i in range(len(passes))], "value": range(len(passes))}
        return association(pd.DataFrame(rows), pd.DataFrame(scores)).loc["ceiling_r_squared"]

    for passes, n_cases in (([0, 8, 0, 8, 0], 8), ([0, 1, 0, 1, 0], 1)):
        found = ceiling(passes, n_cases)
        assert np.isnan(found["estimate"]) and "is not known" in found["note"]
    assert "2 of 5 documents, whose cases are all alike" in ceiling([0, 8, 3, 5, 2], 8)["note"]
    assert "alike" not in ceiling([1, 7, 3, 5, 2], 8)["note"]
