"""Coverage of the analyses that have an interval of their own, errors of tests, planned widths.

Leniency of ``bias.audit`` among answers that fail by gold is scanned exactly for two conditions
with different cases. All else is simulated. ``perturbed``, ``drift``, ``contrast`` and
``agreement`` get verdicts, ``krippendorff_alpha`` marks, ``bias.position`` and ``bias.win_rates``
preferences. For ``bias.audit`` and ``structure.score_association``, the functions behind them
compute the same intervals and p-values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binom, norm, rankdata

from benchmarks.validity import corrections, distances, instruments
from benchmarks.validity.claims import FEWEST, SCAN_FEWEST, SIGNIFICANT, Claim, margins
from benchmarks.validity.designs import digest
from benchmarks.validity.methods import Rows
from skillcomp.bias import audit, perturbed, position, win_rates
from skillcomp.bias.features_and_perturbations import POINTS, feature_effect, leniency
from skillcomp.frames import empty
from skillcomp.planning import gold_needed
from skillcomp.reliability import agreement, contrast, drift
from skillcomp.stats import bounded_slope, krippendorff_alpha
from skillcomp.stats.agreement import association

Rng = np.random.Generator
LEVEL = 0.05
BATCH = 50  # studies in one call of a function with by=
CASES = (10, 20, 40)  # answers under each condition of the exact scan
SHARES = (
    0.0,
    0.01,
    0.02,
    0.05,
    0.08,
    0.1,
    0.2,
    0.3,
    0.5,
)  # answers that fool the grader
FEATURES = {
    "verbosity": "log2_words", "hedging": "hedges_per_100", "model family": "own_family",
    "order in the batch": "place", "polish: lists": "has_list",
    "polish: sentences": "log2_words_per_sentence",
}  # fmt: skip
# name of a design, share of answers that fool the grader, effect of one unit of the feature
GRADERS = (
    ("ordinary grader, effect", 0.3, 0.05),
    ("few answers fool the grader, no effect", 0.03, 0.0),
    ("few answers fool the grader, effect", 0.03, 0.05),
)
FALSE_CHANGE = "p below .05 without a change"
LONGEST = 1.1  # most that the mean length of planned intervals may be, in planned lengths


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis in one design; ``runs`` is the number of studies, 0 for an exact scan."""

    world: str
    analysis: str
    design: str
    numbers: tuple[tuple[str, Any], ...]
    runs: int


def cells(runs: int) -> list[Analysis]:
    """List the analyses and their designs; those that need verdicts have fewer of the studies."""
    third, sixth, few = (max(1, runs // parts) for parts in (3, 6, 40))
    made = [
        Analysis("leniency_scan", "audit: leniency, gold fail", f"{n} answers per condition, exact",
                 (("n", n),), 0)
        for n in CASES
    ]  # fmt: skip
    for stratum, gold in (("all", None), ("gold fail", 0.0)):
        numbers = (("gold", gold), ("shares", (0.08, 0.05)))
        design = "two skills, few answers fool the grader"
        made.append(
            Analysis("leniency_study", f"audit: leniency, {stratum}", design, numbers, third)
        )
    for bias, name in FEATURES.items():
        for design, share, effect in GRADERS:
            numbers = (("name", name), ("share", share), ("effect", effect))
            made.append(Analysis("feature", f"audit: {bias}", design, numbers, third))
    made += [
        Analysis("copies", "perturbed", "few verdicts change", (("down", 0.0),), third),
        Analysis("copies", "perturbed", "changes in both directions", (("down", 0.2),), third),
    ]
    for rare in (True, False):
        design = "few verdicts change" if rare else "two noisy versions"
        made.append(Analysis("versions", "drift", design, (("rare", rare),), sixth))
    for rate in (0.03, 0.1):
        design = f"40 cases of five checks, {rate:.0%} errors, of one version in whole cases"
        made.append(Analysis("clumps", "drift and contrast", design, (("rate", rate),), third))
    for rates in ((0.8,) * 6, (0.9, 0.9, 0.8, 0.8, 0.7, 0.7), (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)):
        design = f"six graders, {len(set(rates))} different, 30 cases of one or two checks"
        made.append(Analysis("ranks", "contrast: ranks", design, (("rates", rates),), 4 * few))
    design = "one grader, a pilot of 40 cases of two checks"
    for measure, width in (("agreement", 0.2), ("kappa", 0.3), ("false_passes", 0.2)):
        numbers = (("measure", measure), ("width", width), ("pilot", 40))
        made.append(Analysis("planned", "planning.gold_needed", design, numbers, few))
    for level in ("nominal", "ordinal"):
        for n in (20, 50):
            numbers = (("level", level), ("n", n))
            design = f"{n} items, marks from 1 to 5 of two graders"
            made.append(Analysis("marks", f"alpha, {level}", design, numbers, 4 * few))
    for n, signal in ((12, 0.6), (30, 0.6), (30, 0.0)):
        design = f"{n} documents, " + ("a score that predicts" if signal else "an unrelated score")
        numbers = (("documents", n), ("signal", signal))
        made.append(Analysis("scores", "structure.score_association", design, numbers, runs))
    for design, place, upper, tied in (
        ("30 cases of two pairs, ties", 0.5, 0.5, 0.2),
        ("30 cases of two pairs, the first nearly always wins", 4.0, 0.0, 0.0),
        ("30 cases of two pairs, one system nearly always wins", 0.0, 4.0, 0.02),
    ):
        numbers = (("place", place), ("upper", upper), ("tied", tied))
        made.append(Analysis("pairs", "pairwise judgements", design, numbers, 4 * few))
    for design, n, each, sure, length in (
        ("30 questions, gold, effects", 30, 1, 0.15, 0.1),
        ("30 questions, no gold, no effect of length", 30, 1, 0.0, 0.0),
        ("20 questions of three pairs, gold, effects", 20, 3, 0.15, 0.1),
        ("100 questions, gold, a judge that hardly errs", 100, 1, 0.45, 0.0),
    ):
        numbers = (("n", n), ("each", each), ("sure", sure), ("length", length))
        made.append(Analysis("pair_features", "audit of pairs", design, numbers, third))
    for rates, errors in (((0.9, 0.5), (0.1, 0.3)), ((0.9, 0.3), (0.05, 0.1))):
        design = (
            f"{100 * errors[0]:.0f} % missed and {100 * errors[1]:.0f} % false passes, 100 cases"
        )
        numbers = (("rates", rates), ("errors", errors), ("labels", 20))
        made.append(
            Analysis("separate_gold", "correction: calibration set", design, numbers, 4 * few)
        )
    for odd in (None, 0.3):
        design = "six skills of 14 cases, 3 % errors" + (", first lenient" if odd else "")
        numbers = (("errors", 0.03), ("odd", odd))
        made.append(Analysis("skills_gold", "correction: by skill", design, numbers, few))
    for design in distances.CURVES:
        name = f"40 cases of three attempts, {design}"
        made.append(
            Analysis("by_distance", "transfer.curve", name, (("design", design),), 10 * few)
        )
    for points in instruments.POINTS:
        effects = f"effects of {points} points" if points else "a judge without bias"
        for n in instruments.QUESTIONS:
            numbers = (("points", points), ("n", n))
            design = f"{n} questions, {effects}"
            made.append(Analysis("judge", "bias.datasheet", design, numbers, 10 * few))
    design = "100 questions, effects of 10 points, answers of the own family longer"
    numbers = (("points", 10), ("n", 100), ("longer", 0.5))
    made.append(Analysis("judge", "bias.datasheet", design, numbers, 10 * few))
    return made


def run(cell: Analysis) -> Rows:
    """Return the coverage, or the share of errors, one row per quantity of the analysis."""
    rng = np.random.default_rng(int(digest(asdict(cell))[:8], 16))
    about = {"analysis": cell.analysis, "design": cell.design}
    world = WORLDS[cell.world]
    if not cell.runs:
        return [about | row for row in world(rng, 0, **dict(cell.numbers))]
    columns = ["quantity", "truth", "low", "high"]
    found = pd.DataFrame(list(world(rng, cell.runs, **dict(cell.numbers))), columns=columns)
    planned = dict(cell.numbers).get("width", math.nan)
    rows = []
    for quantity, part in found.dropna().groupby("quantity", sort=False):
        above, below = (
            part["low"] > part["truth"] + 1e-9,
            part["high"] < part["truth"] - 1e-9,
        )
        rate, side = (
            float(1 - (above | below).mean()),
            float(max(above.mean(), below.mean())),
        )
        numbers = {"studies": len(part), "rate": rate, "side": side, "planned": planned}
        numbers["length"] = float((part["high"] - part["low"]).mean() / planned)
        rows.append(about | {"quantity": quantity} | numbers)
    return rows


def table(results: Sequence[tuple[Analysis, Rows]]) -> pd.DataFrame:
    """Tabulate the analyses; ``fails`` marks those that break the rule of the study."""
    frame = pd.DataFrame([row for _, rows in results for row in rows])
    exact = frame["studies"].eq(0)
    limit, side_limit = margins(
        pd.Series(1 - LEVEL, frame.index), frame["studies"].where(~exact, 1)
    )
    # of errors, only the share counts; they have no interval
    frame["limit"] = limit.where(~exact, SCAN_FEWEST)
    shares = (distances.NOT_SHOWN, distances.NOT_SAID)
    errors = (FALSE_CHANGE, instruments.ANY_SHOWN)
    frame.loc[frame["quantity"].str.endswith((*errors, *shares)), "limit"] = np.nan
    frame["side_limit"] = side_limit.where(~exact, LEVEL)
    frame.loc[frame["quantity"].str.endswith(shares), "side_limit"] = np.nan
    fails = frame["rate"].lt(frame["limit"]) | frame["side"].gt(frame["side_limit"])
    fails |= frame["length"].gt(LONGEST)
    return frame.assign(fails=fails)


def claim(found: pd.DataFrame) -> Claim:
    """Return the claim that no analysis breaks the rule, with the lowest coverage."""
    ruled = found[found["limit"].notna()]
    lowest, failing = ruled.loc[ruled["rate"].idxmin()], found[found["fails"]]
    names = "; ".join(f"{row['analysis']}, {row['design']}" for _, row in failing.iterrows())
    text = (
        f"{len(found)} rows of analyses: lowest coverage {lowest['rate']:.1%} ("
        f"{lowest['analysis']}, {lowest['design']}; rule {FEWEST:.0%}, exact {SCAN_FEWEST:.1%}), "
        f"at {SIGNIFICANT:.0%}; fail: {names or 'none'}"
    )
    return Claim(text, failing.empty)


# --- grader biases -----------------------------------------------------------------------------

Found = tuple[str, float, float, float]  # quantity, true value, lower and upper limit


def leniency_scan(_: Rng, __: int, *, n: int) -> Iterator[dict[str, Any]]:
    """Compute the lowest exact coverage over all pairs of shares of fooling answers."""
    column, none = np.repeat([[0.0], [1.0]], n, axis=0), np.zeros(2 * n)
    limits = np.empty((n + 1, n + 1, 2))
    for a, b in zip(*np.triu_indices(n + 1), strict=True):
        values = (np.r_[np.arange(n) < a, np.arange(n) < b]).astype(float)
        interval = bounded_slope(values, column, none, np.arange(2 * n), units=np.arange(2 * n))
        limits[a, b] = interval.low, interval.high
        limits[b, a] = -interval.high, -interval.low
    rates, sides = [], []
    for p, q in np.array(np.meshgrid(SHARES, SHARES)).reshape(2, -1).T:
        chance = np.outer(binom.pmf(range(n + 1), n, p), binom.pmf(range(n + 1), n, q))
        above, below = limits[..., 0] > q - p + 1e-12, limits[..., 1] < q - p - 1e-12
        rates.append(float(1 - chance[above | below].sum()))
        sides.append(float(max(chance[above].sum(), chance[below].sum())))
    yield {"quantity": "leniency", "studies": 0, "rate": min(rates), "side": max(sides)}


def leniency_study(
    rng: Rng, runs: int, *, gold: float | None, shares: tuple[float, float], n: int = 20
) -> Iterator[Found]:
    """Draw verdicts of two skills; the grader is fooled alike under both conditions."""
    frame = pd.MultiIndex.from_product(
        [["s", "t"], range(n), ["baseline", "skill"], ["c1", "c2"]]
    ).to_frame(index=False, name=["skill", "case_id", "condition", "check_id"])
    frame["cluster"] = frame["skill"] + frame["case_id"].astype(str)
    frame["gold"] = frame["check_id"].eq("c1").astype(float)
    wrong = frame["skill"].map(dict(zip("st", shares, strict=True))).to_numpy()
    chance = np.where(frame["gold"].eq(1), 1 - wrong, wrong)
    for _ in range(runs):
        drawn = frame.assign(verdict=(rng.random(len(frame)) < chance).astype(float))
        effect = leniency(drawn, "skill", "baseline", gold, 0.95)[0]
        yield "leniency", 0.0, effect.low, effect.high


def feature(
    rng: Rng, runs: int, *, name: str, share: float, effect: float, n: int = 20
) -> Iterator[Found]:
    """Draw verdicts on answers that fail by gold; the feature may raise the chance to pass.

    Answers under two conditions of one skill; the truth is the slope of the true chances.
    """
    condition, case = np.tile(["baseline", "skill"], n), np.repeat(np.arange(n), 2)
    frame = pd.DataFrame({"skill": "s", "condition": condition, "gold": 0.0, "cluster": case})
    frame["check_id"] = "c"
    for _ in range(runs):
        x = _feature_values(name, 2 * n, rng)
        chance = np.clip(share + effect * x, 0.0, 1.0)
        drawn = frame.assign(verdict=(rng.random(2 * n) < chance).astype(float), **{name: x})
        centred = x - pd.Series(x).groupby(condition).transform("mean").to_numpy()
        truth = float(centred @ chance / max(centred @ centred, 1e-12))
        slope = feature_effect(drawn, name, [], 0.95)
        yield "slope", POINTS * truth, slope.low, slope.high


def _feature_values(name: str, n: int, rng: Rng) -> np.ndarray:
    if name in ("own_family", "has_list"):
        return (rng.random(n) < 0.4).astype(float)
    if name == "place":
        return rng.random(n)
    if name == "hedges_per_100":
        return rng.exponential(size=n) * 2.0 * (rng.random(n) < 0.4)
    return rng.normal(0.0, 1.0 if name == "log2_words" else 0.5, size=n)


# --- analyses that take many studies in one call -------------------------------------------------


def _batches(runs: int) -> Iterator[list[str]]:
    """Yield the names of studies in batches; each study is a skill, analysed alone."""
    names = [f"s{number:05d}" for number in range(runs)]
    yield from (names[start : start + BATCH] for start in range(0, runs, BATCH))


def _items(studies: list[str], n_cases: int, *others: tuple[str, Sequence[Any]]) -> pd.DataFrame:
    levels = [studies, range(n_cases), *(values for _, values in others)]
    names = ["skill", "case_id", *(name for name, _ in others)]
    frame = pd.MultiIndex.from_product(levels).to_frame(index=False, name=names)
    return frame.assign(case_id=frame["skill"] + "/" + frame["case_id"].astype(str))


def _of_case(frame: pd.DataFrame, values: Callable[[int], np.ndarray]) -> np.ndarray:
    """Draw one value per case and return it for each row."""
    codes, cases = pd.factorize(frame["case_id"])
    return values(len(cases))[codes]


def _limits(rows: pd.DataFrame, quantity: str, truth: float) -> Iterator[Found]:
    for low, high in rows[["ci_low", "ci_high"]].to_numpy(float):
        yield quantity, truth, low, high


def copies(rng: Rng, runs: int, *, down: float) -> Iterator[Found]:
    """Draw verdicts on twenty answers with three checks and on copies that may fool the grader."""
    up = 0.24 if down else 0.12
    for names in _batches(runs):
        frame = _items(names, 20, ("check_id", ["c1", "c2", "c3"]))
        passes = rng.random(len(frame)) < _of_case(frame, lambda n: rng.beta(1.0, 1.0, n))
        # only some cases have answers whose copies can change a verdict
        open_to = _of_case(frame, lambda n: rng.random(n) < 0.5)
        chance = open_to * np.where(passes, down, up)
        frame["attempt_id"], frame["condition"] = frame["case_id"], "skill"
        frame["grader"], frame["passed"] = "g", passes
        copied = frame.assign(
            attempt_id=frame["attempt_id"] + "x",
            passed=passes ^ (rng.random(len(frame)) < chance),
        )
        answers = frame[["attempt_id", "skill", "case_id", "condition"]].drop_duplicates()
        other = answers.assign(
            source_attempt_id=answers["attempt_id"], perturbation="pad",
            attempt_id=answers["attempt_id"] + "x",
        )  # fmt: skip
        attempts = pd.concat([answers, other], ignore_index=True)
        rows = perturbed(pd.concat([frame, copied]), attempts, by=["skill"])
        yield from _limits(rows, "change", POINTS * 0.25 * (up - down))


def versions(rng: Rng, runs: int, *, rare: bool) -> Iterator[Found]:
    """Draw verdicts of two versions on twenty answers with three checks, and gold."""
    # chance to pass of the old and of the new version: gold fail, gold pass
    chances = ((0.0, 1.0), (0.0, 0.96)) if rare else ((0.2, 0.95), (0.1, 0.85))
    change = np.subtract(chances[1], chances[0])
    quantities = {"pass_rate": float(change.mean()), "sensitivity": float(change[1])}
    quantities["agreement"] = float(change[1] - change[0]) / 2
    if not rare:
        quantities["specificity"] = -float(change[0])
    for names in _batches(runs):
        frame = _items(names, 20, ("check_id", list("abc")))
        gold = rng.random(len(frame)) < _of_case(frame, lambda n: rng.beta(2.0, 2.0, n))
        passes = [rng.random(len(frame)) < np.where(gold, high, low) for low, high in chances]
        rows = drift(*_judged(frame, gold, passes), reference_grader="0", by="skill")
        for name, truth in quantities.items():
            of_measure = rows[rows["measure"].eq(f"{name}_change")]
            yield from _limits(of_measure, name.replace("_", " "), truth)


def clumps(rng: Rng, runs: int, *, rate: float) -> Iterator[Found]:
    """Draw two graders with equal shares of errors: on single checks, or on all of a case."""
    for names in _batches(runs):
        frame = _items(names, 40, ("check_id", list("abcde")))
        gold = rng.random(len(frame)) < 0.5
        whole = _of_case(frame, lambda n: rng.random(n) < rate)
        passes = [gold ^ (rng.random(len(frame)) < rate), gold ^ whole]
        made = _judged(frame, gold, passes)
        for name, rows in (
            ("drift", drift(*made, reference_grader="0", by="skill")),
            ("contrast", contrast(*made, by="skill")),
        ):
            changes = rows[rows["measure"].str.match("agreement_(change|difference)")]
            yield from _limits(changes, f"{name}: agreement", 0.0)
            errors = changes["p_value"].lt(LEVEL).astype(float)
            yield from ((f"{name}: {FALSE_CHANGE}", 0.0, error, error) for error in errors)


def _judged(
    frame: pd.DataFrame, gold: np.ndarray, passes: Sequence[np.ndarray]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the verdicts of graders "0", "1" and so on, and the gold labels, one answer a case."""
    frame = frame.assign(attempt_id=frame["case_id"], condition="skill")
    graders = [frame.assign(grader=str(k), passed=passed) for k, passed in enumerate(passes)]
    labels = frame[["attempt_id", "check_id"]].assign(passed=gold)
    return pd.concat(graders, ignore_index=True), labels


def pairs(rng: Rng, runs: int, *, place: float, upper: float, tied: float) -> Iterator[Found]:
    """Draw preferences for x over y in cases of two pairs, in both orders or in a random one.

    ``place`` (logits) favours the answer shown first, ``upper`` the answers of x; cases differ.
    """
    shift = norm.ppf((np.arange(4000) + 0.5) / 4000) + upper  # advantages of x over the cases
    ahead, behind = float(expit(shift + place).mean()), float(expit(shift - place).mean())
    truths = {
        "position points, one random order": POINTS * (1 - tied) * (ahead - behind),
        "position points, both orders": POINTS * (1 - tied) * (ahead - behind),
        "win rate, both orders": (1 - tied) * (ahead + behind) / 2 + tied / 2,
    }
    for names in _batches(runs):
        frame = _items(names, 30, ("pair", ["1", "2"]), ("order", [1, 2]))
        advantage = _of_case(frame, lambda n: rng.normal(upper, 1.0, n))
        x_first = frame["order"].eq(1).to_numpy()
        wins = rng.random(len(frame)) < expit(advantage + np.where(x_first, place, -place))
        x, y = (frame["case_id"] + f"/{name}" + frame["pair"] for name in "xy")
        winner = x.where(wins, y).mask(rng.random(len(frame)) < tied, "tie")
        frame = frame.assign(grader="g", first=x.where(x_first, y), second=y.where(x_first, x))
        frame = frame.assign(winner=winner).drop(columns="order")
        attempts = pd.DataFrame(
            {"attempt_id": pd.concat([x, y]), "agent": "x", "condition": "skill"}
        )
        attempts["agent"] = np.repeat(["x", "y"], len(x))
        attempts[["skill", "case_id"]] = pd.concat([frame[["skill", "case_id"]]] * 2).to_numpy()
        attempts = attempts.drop_duplicates("attempt_id")
        heads = rng.random(len(frame) // 2) < 0.5
        once = frame[np.column_stack([heads, ~heads]).ravel()]
        found = [
            position(once, by=["skill"]).query("measure == 'position_points'"),
            position(frame, by=["skill"]).query("measure == 'position_points'"),
            win_rates(frame, attempts, by=["skill"]),
        ]
        for rows, (quantity, truth) in zip(found, truths.items(), strict=True):
            yield from _limits(rows, quantity, truth)


def pair_features(
    rng: Rng, runs: int, *, n: int, each: int, sure: float, length: float
) -> Iterator[Found]:
    """Draw choices in one random order; the answers of the judge's family win more often.

    ``sure`` is added to the chance of the better answer, ``length`` to that of an answer for each
    doubling of its words. Questions vary in length and, with several pairs, in which system wins.
    """
    own = 0.02 if sure > 0.4 else 0.1
    for names in _batches(runs):
        frame = _items(names, n, ("pair", [str(k) for k in range(each)]))
        size = len(frame)
        ratio, x_first = rng.uniform(-1, 1, size), rng.random(size) < 0.5
        better = rng.random(size) < 0.5
        words = 2 ** _of_case(frame, lambda k: rng.uniform(6, 10, k))
        of_x, of_y = np.rint(words), np.rint(words * 2**ratio)
        real = np.log2(of_x / of_y)
        shift = _of_case(frame, lambda k: rng.choice([-0.1, 0.1], k)) * (each > 1)
        chance = 0.5 + sure * np.where(better, 1, -1) + own + length * real + shift
        chance += np.where(x_first, 0.02, -0.02)
        wins = rng.random(size) < chance
        x, y = (frame["case_id"] + f"/{name}" + frame["pair"] for name in "xy")
        pairwise = frame.assign(
            grader="g", grader_family="f", first=x.where(x_first, y), second=y.where(x_first, x),
            winner=x.where(wins, y), gold_winner=x.where(better, y) if sure else None,
        ).drop(columns="pair")  # fmt: skip
        attempts = pd.concat(
            [
                frame[["skill", "case_id"]].assign(
                    attempt_id=ids, agent=name, agent_family=family, condition="skill", n_words=of
                )
                for ids, name, family, of in ((x, "x", "f", of_x), (y, "y", "h", of_y))
            ]
        )
        rows = audit(empty("verdicts"), attempts, empty("gold"), by=["skill"], pairwise=pairwise)
        for bias, truth in (("verbosity", length), ("model family", own)):
            yield from _limits(rows[rows["bias"].eq(bias)], bias, POINTS * truth)


def ranks(rng: Rng, runs: int, *, rates: tuple[float, ...]) -> Iterator[Found]:
    """Draw graders that find the same checks hard; whether all sets hold the true ranks."""
    limit = norm.ppf(rates)[:, None]
    places = [rankdata(np.negative(rates), method=way) for way in ("min", "max")]
    for checks in (1, 2):
        for names in _batches(runs):
            frame = _items(names, 30, ("check_id", ["a", "b"][:checks]))
            shared = 0.5 * _of_case(frame, rng.standard_normal)
            shared += 0.4 * rng.standard_normal(len(frame))
            own = math.sqrt(1 - 0.5**2 - 0.4**2) * rng.standard_normal((len(rates), len(frame)))
            rows = contrast(*_judged(frame, np.ones(len(frame), bool), shared + own < limit),
                            by="skill")  # fmt: skip
            sets = rows[rows["measure"].eq("agreement_rank")]
            best, worst = (place[sets["grader"].astype(int)] for place in places)
            missed = sets["ci_low"].gt(best) | sets["ci_high"].lt(worst)
            for wrong in missed.groupby(sets["skill"]).any().astype(float):
                yield f"all ranks, {30 * checks} checks", 0.0, wrong, wrong


# share of gold passes; chance of two graders to be right on gold fails and on gold passes
PREVALENCE, RIGHT = 0.6, np.array([[0.8, 0.9], [0.7, 0.85]])
_MEASURES = {"agreement": "raw_agreement", "kappa": "cohen_kappa", "false_passes": "false_passes"}


def planned(rng: Rng, runs: int, *, measure: str, width: float, pilot: int) -> Iterator[Found]:
    """Draw studies with as many labels as a pilot plans for an interval of a length.

    The two checks of a case go together.
    """
    right = RIGHT[:1]
    how: dict[str, Any] = {"measure": measure, "width": width}
    agreed = float(right[0] @ [1 - PREVALENCE, PREVALENCE])
    truths = {"agreement": agreed, "false_passes": 1 - right[0, 0]}
    passes = (1 - PREVALENCE) * (1 - right[0, 0]) + PREVALENCE * right[0, 1]
    chance = PREVALENCE * passes + (1 - PREVALENCE) * (1 - passes)
    truths["kappa"] = (agreed - chance) / (1 - chance)
    for _ in range(runs):
        labels = gold_needed(*_labelled(rng, pilot, 2, right), **how)["estimate"].iloc[0]
        made = _labelled(rng, math.ceil(labels / 2), 2, right)
        rows = agreement(*made, quantities=_MEASURES[measure], n_resamples=500)
        yield from _limits(rows, measure.replace("_", " "), truths[measure])


def _labelled(
    rng: Rng, n_cases: int, checks: int, right: np.ndarray
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw verdicts of graders, and gold; the checks of a case go together."""
    frame = _items(["s"], n_cases, ("check_id", ["a", "b"][:checks]))

    def ranks() -> np.ndarray:
        own = rng.standard_normal(len(frame))
        return norm.cdf((_of_case(frame, rng.standard_normal) + own) / math.sqrt(2))

    gold = ranks() < PREVALENCE
    return _judged(
        frame, gold, [gold == (ranks() < chances[gold.astype(int)]) for chances in right]
    )


def marks(rng: Rng, runs: int, *, level: Any, n: int) -> Iterator[Found]:
    """Draw marks of two graders; truth is alpha of many items.

    Both see the same latent quality, each with an error of its own.
    """

    def draw(size: int) -> np.ndarray:
        seen = rng.normal(size=(size, 1)) + 0.5 * rng.normal(size=(size, 2))
        return 1.0 + np.digitize(seen, [-1, -0.35, 0.35, 1])

    truth = krippendorff_alpha(draw(300_000), level=level, n_resamples=1).estimate
    for _ in range(runs):
        alpha = krippendorff_alpha(draw(n), level=level)
        yield "alpha", truth, alpha.low, alpha.high


def scores(rng: Rng, runs: int, *, documents: int, signal: float) -> Iterator[Found]:
    """Draw documents with a score and ten cases each; truth is R squared in the population.

    The intervals are those of ``structure.score_association``.
    """
    rest, scale, n_cases = 0.9 - signal, 0.5, 10
    variance = scale**2 * (signal**2 + rest**2) / 3
    noise = (0.25 - variance) / n_cases
    truth = scale**2 * signal**2 / 3 / (variance + noise)
    for _ in range(runs):
        x, other = rng.uniform(-1, 1, (2, documents))
        passes = rng.binomial(n_cases, 0.5 + scale * (signal * x + rest * other))
        fit = association(x, passes / n_cases, np.arange(documents))
        yield "R squared", truth, fit.r_squared.low, fit.r_squared.high


WORLDS: dict[str, Callable[..., Iterator[Any]]] = {
    made.__name__: made
    for made in (
        leniency_scan, leniency_study, feature, copies, versions, clumps, ranks, pairs,
        pair_features, planned, marks, scores, corrections.separate_gold,
        corrections.skills_gold, distances.by_distance, instruments.judge,
    )
}  # fmt: skip


def study(runs: int, out: Path, *, jobs: int, docs: Path | None = None) -> pd.DataFrame:
    """Run the analyses and write their table, into the docs as well if there are any."""
    from benchmarks.validity.cells import work  # cells imports this module

    results, _ = work(cells(runs), run, out / "cells", jobs=jobs, title="analyses")
    found = table(results)
    found.to_csv(out / "analyses.csv", index=False)
    if docs is not None:
        (docs / "intervals").mkdir(parents=True, exist_ok=True)
        path = docs / "intervals" / "analyses.csv"
        found.to_csv(path, index=False, float_format="%.5g")
    return found
