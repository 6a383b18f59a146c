import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.flags_at_length import carried, honest_text, largest_rate

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.overlap.calibrate import carried_rate

WORDS = [f"word{i:03d}" for i in range(400)]
SKILL = {"s": " ".join(WORDS[:200])}


def text(rng: np.random.Generator, run: int, length: int = 40) -> str:
    """Words that the skill does not have, with one run of `run` of its words in the middle."""
    start = int(rng.integers(0, 200 - run)) if run else 0
    own = [f"other{i:04d}" for i in rng.integers(0, 9999, length - run)]
    return " ".join([*own[:10], *WORDS[start : start + run], *own[10:]])


def corpus(runs: dict[str, list[int]]) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [
        {"passage_id": f"{level}/{i}", "skill": "s", "document": f"s/{i}", "level": level,
         "text": text(rng, run)}
        for level, each in runs.items()
        for i, run in enumerate(each)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def answers(runs: list[int], condition: str = "baseline") -> pd.DataFrame:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"answer": [text(rng, run) for run in runs]})
    ids = {"attempt_id": frame.index.map(f"{condition}/{{}}".format)}
    ids["case_id"] = frame.index.map("s/{}".format)
    return frame.assign(skill="s", condition=condition, **ids)


def calibrate(passages: pd.DataFrame, attempts: pd.DataFrame, **options: object) -> pd.DataFrame:
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=range(3, 9))
    return sc.overlap.calibrate(
        shared, attempts, passages=passages, skills=SKILL, n_resamples=50, **options
    )  # type: ignore[arg-type]


def only(frame: pd.DataFrame, measure: str, n: int, rule: str = "any") -> pd.Series:
    rows = frame[frame["measure"].eq(measure) & frame["n"].eq(n) & frame["rule"].eq(rule)]
    assert len(rows) == 1
    return rows.iloc[0]


LEVELS = {"verbatim": [12] * 20, "near_copy": [6] * 20, "fresh": [3] * 2 + [2] * 18}


@pytest.fixture(scope="module")
def planted() -> pd.DataFrame:
    # baseline shares runs of 4 in 2 of 40 answers (5 %), of 3 in 8; fresh runs of 3 in 2 of 20
    return calibrate(corpus(LEVELS), answers([4] * 2 + [3] * 6 + [0] * 32))


def test_the_longest_n_that_finds_most_copies_within_both_limits_is_chosen() -> None:
    cut = calibrate(corpus(LEVELS), answers([4] * 2 + [3] * 6 + [0] * 32), max_false_flags=0.2)
    chosen = cut[cut["chosen"]]
    assert len(chosen) == 1
    row = chosen.iloc[0]
    assert (row["measure"], row["rule"], row["n"]) == ("chosen_n", "any", 6)
    assert row["ci_low"] < 6 < row["ci_high"]


def test_rates_are_counted_by_hand(planted: pd.DataFrame) -> None:
    cut = planted
    assert only(cut, "sensitivity", 7)["estimate"] == pytest.approx(20 / 40)
    assert only(cut, "false_flags_baseline", 3)["estimate"] == pytest.approx(8 / 40)
    assert only(cut, "false_flags_baseline", 4)["estimate"] == pytest.approx(2 / 40)
    assert only(cut, "false_flags_fresh", 3)["estimate"] == pytest.approx(2 / 20)
    assert only(cut, "specificity", 3)["estimate"] == pytest.approx(18 / 20)
    clean = only(cut, "false_flags_fresh", 6)
    assert clean["estimate"] == 0 < clean["ci_high"]
    assert "needs 62 independent texts with none flagged" in clean["note"]


def test_the_answer_under_each_null_alone_stands_beside() -> None:
    # baseline alone would allow 3; fresh passages use the proper terms and ask for 6
    passages = corpus({"verbatim": [12] * 20, "near_copy": [12] * 10 + [5] * 10, "fresh": [5] * 20})
    attempts = answers([0] * 40)
    cut = calibrate(passages, attempts, max_false_flags=0.2)
    by = cut.drop_duplicates("measure").set_index("measure")
    assert by.loc["chosen_n_baseline", "estimate"] == 5
    assert by.loc["chosen_n_fresh", "estimate"] != 5 or by.loc["chosen_n_fresh", "rule"] == "share"
    assert not by.loc["chosen_n_baseline", "chosen"]


def test_passages_without_a_column_are_told_by_the_argument() -> None:
    with pytest.raises(FrameError, match="calibrate: passages: there is no column 'text'; there: "):
        calibrate(corpus(LEVELS).drop(columns="text"), answers([0] * 10))


def test_copied_answers_are_marked_and_never_dropped() -> None:
    attempts = answers([12, 0, 12, 0], "skill")
    attempts.loc[3, "answer"] = None
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[6])
    cut = pd.DataFrame({"chosen": [True], "n": [6], "rule": ["any"], "cut": [np.nan], "note": ""})
    verdicts = attempts[["attempt_id"]].assign(passed=[True, True, None, True])
    verdicts = pd.concat([verdicts, verdicts.head(1).assign(attempt_id="unscored")])
    marked = sc.overlap.flag(verdicts, shared, cut)
    assert len(marked) == 5
    assert marked["copied"].tolist() == [True, False, True, pd.NA, pd.NA]
    assert marked["passed_own_words"].tolist() == [False, True, False, pd.NA, pd.NA]


def test_on_the_pilot_both_nulls_choose_four(pilot: sc.RunStore) -> None:
    attempts, cases = sc.frames.attempts(pilot), sc.frames.cases(pilot)
    corpus_folder = pilot.path.parent / "corpus"
    first, second = (
        sc.frames.passages(corpus_folder / f"{name}.jsonl") for name in ("copies", "copies_second")
    )
    shared = sc.overlap.score(attempts, skills=pilot.skills, cases=cases)
    how = {"skills": pilot.skills, "n_resamples": 100}
    both = pd.concat([first, second], ignore_index=True)
    cut = sc.overlap.calibrate(shared, attempts, passages=both, **how)
    row = cut[cut["chosen"]].iloc[0]
    assert (row["rule"], row["n"]) == ("any", 4)
    assert (row["ci_low"], row["ci_high"]) == (3.5, 5.5)
    assert only(cut, "false_flags_baseline", 4)["estimate"] == pytest.approx(1 / 168)
    # 36 fresh passages bound the false flags at 8.4 % at best
    how["n_resamples"] = 5
    cut = sc.overlap.calibrate(shared, attempts, passages=first, **how)
    row = cut[cut["chosen"]].iloc[0]
    assert np.isnan(row["estimate"])
    assert "n = 4 with the rule 'any' would be chosen, but 0 of 36 texts of 'fresh'" in row["note"]
    # a second fresh passage shares a 3-gram only with its question
    assert only(cut, "false_flags_fresh", 3)["estimate"] == pytest.approx(1 / 36)
    assert only(cut, "flagged_skill", 6)["estimate"] == pytest.approx(27 / 168)
    cut = sc.overlap.calibrate(shared, attempts, passages=first, max_false_flags=0.1, **how)
    row = cut[cut["chosen"]].iloc[0]
    assert (row["rule"], row["n"]) == ("any", 4)
    two = shared["skill"].isin(["type-safety", "braid-provenance"])
    by = sc.overlap.calibrate(
        shared[two], attempts, passages=first[first["skill"].isin(shared.loc[two, "skill"])],
        by=["skill"], max_false_flags=0.5, **how
    )  # fmt: skip
    assert by.groupby("skill")["chosen"].sum().eq(1).all()
    # six documents a skill: there is a choice, and its limits are unknown
    of_skill = by[by["chosen"]]
    assert of_skill["n"].notna().all()
    assert of_skill["ci_low"].isna().all() and of_skill["note"].str.contains("6 documents").all()


def test_roc_points_are_counted_by_hand_and_end_in_the_corners() -> None:
    shared = sc.overlap.score(
        corpus({"verbatim": [12, 6], "fresh": [6, 0]}), skills=SKILL, ngram=[4]
    )
    points = sc.overlap.roc(shared, positive=["verbatim"], negative=["fresh"])
    # shares of 37 4-grams: 9/37 and 3/37 copy, 3/37 and 0 do not
    assert points["true_positive_rate"].tolist() == [0, 0.5, 1, 1]
    assert points["false_positive_rate"].tolist() == [0, 0, 0.5, 1]
    assert points["precision"].tolist() == pytest.approx([1, 1, 2 / 3, 1 / 2])
    assert points["n_short"].eq(0).all()
    with pytest.raises(FrameError, match="no passage has the level 'frsh'"):
        sc.overlap.roc(shared, positive=["verbatim"], negative=["frsh"])


def test_of_equal_cuts_of_the_share_the_middle_of_the_room_between_the_classes_is_taken() -> None:
    # Fresh passages share runs of 8, copies of 12, so with n = 3 to 8 only the share keeps them
    # apart, and every n does. Of equals the longest: at n = 8 a fresh passage has 1 of 33 8-grams
    # in common, a copy 5 of 33; one cut lies between, (1 + 5) / 2 / 33.
    passages = corpus({"verbatim": [12] * 20, "fresh": [8] * 20})
    how = {"positive": "verbatim", "nulls": "fresh", "max_false_flags": 0.2}
    cut = calibrate(passages, answers([0] * 40), **how)
    chosen = cut[cut["chosen"]].iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("share", 8)
    assert chosen["cut"] == pytest.approx(3 / 33)
    # a few fresh passages (1 of 40) may be flagged; a cut that flags none is preferred to it
    passages = corpus({"verbatim": [12] * 40, "fresh": [0] * 39 + [10]})
    cut = calibrate(passages, answers([0] * 40), **how)
    shown = only(cut, "false_flags_fresh", 8, "share")
    assert shown["estimate"] == 0
    assert shown["cut"] == pytest.approx((3 + 5) / 2 / 33)  # between a run of 10 and of 12


def test_folds_in_which_nothing_keeps_the_limit_are_left_out_and_counted() -> None:
    # One fresh passage of ten copies all of its words. One of ten, as in the whole sample, bounds
    # the rate at .42; one of eight, as in four training sets of five, at .48. The fifth leaves that
    # document out and can choose.
    passages = corpus({"verbatim": [12] * 10, "fresh": [39] + [0] * 9})
    how = {"positive": "verbatim", "nulls": "fresh", "max_false_flags": 0.43}
    cut = calibrate(passages, answers([0] * 40), **how)
    nested = cut[cut["measure"].str.startswith("nested")].set_index("measure")
    assert nested["note"].str.contains("40 of 50 folds left out: no candidate kept").all()
    assert nested.loc["nested_sensitivity", "estimate"] == 1
    assert nested.loc["nested_sensitivity", "n_texts"] < 10


@pytest.mark.parametrize(("documents", "known"), [(9, False), (10, True)])
def test_few_documents_give_the_choice_no_limits(documents: int, known: bool) -> None:
    passages = corpus({"verbatim": [12] * 20, "fresh": [2] * documents})
    how = {"positive": "verbatim", "max_false_flags": 0.4}
    row = calibrate(passages, answers([0] * 40), **how).query("chosen").iloc[0]
    # copies share 12 tokens, clean texts 2: every n and nearly every cut is as good
    assert (row["rule"], row["estimate"]) == ("any", 8)
    if known:
        assert (row["ci_low"], row["ci_high"]) == (7.5, 8.5)
    else:
        assert np.isnan(row["ci_low"]) and np.isnan(row["ci_high"])
        assert "no limits: 'fresh' come from 9 documents" in row["note"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_false_flags": 1}, r"max_false_flags: found 1; allowed: 0 to below 1"),
        ({"nulls": []}, r"nulls: found none; allowed: at least one name"),
        ({"by": "level"}, r"by= found \['level'\]; allowed"),
        ({"nulls": ["frsh"]}, r"nulls names 'frsh'.*Did you mean 'fresh'"),
        ({"nulls": ["verbatim"]}, "named as positive and as a null"),
    ],
)
def test_settings_out_of_range_say_what_is_allowed(
    options: dict[str, object], message: str
) -> None:
    attempts = answers([0] * 10)
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[3])
    with pytest.raises(FrameError, match=message):
        sc.overlap.calibrate(shared, attempts, passages=corpus(LEVELS), skills=SKILL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.head(0), r"shared has no rows; allowed: the rows of overlap\.score"),
        (lambda f: f.assign(n=f["n"].astype(str)), "column 'n': found '3'; allowed: whole"),
        (lambda f: pd.concat([f, f.head(1)]), r"1 row too many, .* 'baseline/0' and n = 3"),
        (lambda f: f.iloc[1:], "attempt 'baseline/0' was not scored for every n"),
        (lambda f: f.assign(attempt_id="x/" + f["attempt_id"]), "holds none of the attempts"),
    ],
)
def test_scores_that_cannot_be_calibrated_are_named(change: Any, message: str) -> None:
    attempts = answers([0] * 10)
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[3, 4])
    with pytest.raises(FrameError, match=message):
        sc.overlap.calibrate(change(shared), attempts, passages=corpus(LEVELS), skills=SKILL)


@pytest.mark.parametrize(
    ("frame", "change", "message"),
    [
        ("cut", lambda f: f.drop(columns="chosen"), "cut: there is no column 'chosen'; there: "),
        ("verdicts", lambda f: f.assign(passed="yes"), "'passed': found 'yes' .2 rows.; allowed"),
        (
            "verdicts",
            lambda f: f.assign(attempt_id=["a", "b"]),
            "no verdict is about an attempt in shared: .* 'a', shared has 'skill/0'",
        ),
        ("cut", lambda f: f.assign(chosen=False), "no row is marked chosen"),
        ("cut", lambda f: f.assign(n=5), "was not scored for n = 5"),
        ("cut", lambda f: pd.concat([f] * 2), "2 rows are marked chosen"),
    ],
)
def test_frames_that_cannot_be_flagged_are_named(frame: str, change: Any, message: str) -> None:
    attempts = answers([12, 0], "skill")
    frames = {
        "verdicts": attempts[["attempt_id"]].assign(passed=[True, False]),
        "shared": sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[6]),
        "cut": pd.DataFrame({"chosen": [True], "n": 6, "rule": "any", "cut": np.nan, "note": ""}),
    }
    frames[frame] = change(frames[frame])
    with pytest.raises(FrameError, match=message):
        sc.overlap.flag(**frames)


def test_the_longest_length_of_several_alike_is_said_to_be_the_end_of_those_offered():
    passages, attempts = corpus({"verbatim": [30] * 12, "fresh": [0] * 12}), answers([0] * 12)
    how = {"positive": "verbatim", "nulls": ["fresh"], "skills": SKILL, "n_resamples": 50}
    how |= {"max_false_flags": 0.3}
    for lengths, told in ((range(3, 9), True), (range(3, 36), False)):
        shared = sc.overlap.score(attempts, skills=SKILL, ngram=lengths, exclude_prompt=False)
        found = sc.overlap.calibrate(shared, attempts, passages=passages, **how)
        note = found.loc[found["measure"].eq("chosen_n"), "note"].iloc[0]
        assert ("n = 3 to 8 do equally well, and the longest offered" in note) == told, note


SENTENCE = " ".join(WORDS[:5])


def test_a_copy_too_short_to_judge_is_not_clean() -> None:
    attempts = answers([0] * 4, "skill")
    attempts["answer"] = [SENTENCE, SENTENCE, " ".join(WORDS[:8]), "x = 1; 2026"]
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[4, 6])
    assert shared["any_shared"].tolist() == [True, pd.NA, True, pd.NA, True, True, pd.NA, pd.NA]
    cut = pd.DataFrame({"chosen": [True], "n": [6], "rule": ["any"], "cut": [np.nan], "note": ""})
    verdicts = attempts[["attempt_id"]].assign(passed=[True, False, True, True])
    for rule in ("any", "share"):
        marked = sc.overlap.flag(verdicts, shared, cut.assign(rule=rule, cut=0.1))
        assert marked["copied"].tolist() == [pd.NA, pd.NA, True, pd.NA]
        assert marked["too_short"].tolist() == [True, True, False, True]
        assert marked["passed_own_words"].tolist() == [pd.NA, False, False, pd.NA]


def test_short_nulls_bound_nothing_and_short_copies_count_as_missed() -> None:
    # 100 answers "No idea." have no 4-gram. Of the copies, nine in ten have 6 tokens of the skill
    # and nothing else, one in ten has 12.
    passages = corpus({"verbatim": [12] * 70, "fresh": [0] * 70})
    copies = passages["level"].eq("verbatim")
    short = [" ".join(WORDS[i : i + 6]) for i in range(63)]
    passages.loc[copies, "text"] = short + [" ".join(WORDS[i : i + 12]) for i in range(7)]
    attempts = answers([0] * 170)
    attempts.loc[:99, "answer"] = "No idea."
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=range(3, 13))
    cut = sc.overlap.calibrate(
        shared, attempts, passages=passages, skills=SKILL, positive="verbatim", n_resamples=50
    )
    baseline = only(cut, "false_flags_baseline", 4)
    assert (baseline["n_texts"], baseline["n_short"]) == (70, 100)
    assert "100 texts too short for this n left out" in baseline["note"]
    assert only(cut, "sensitivity", 6)["estimate"] == 1
    lost = only(cut, "sensitivity", 12)
    assert lost["estimate"] == pytest.approx(0.1) and lost["n_short"] == 63
    assert "63 copies are too short for this n and count as missed" in lost["note"]
    assert cut.query("chosen")["n"].tolist() == [6]


def test_the_choice_follows_the_upper_limit_and_names_the_limit_that_the_data_support() -> None:
    passages = corpus({"verbatim": [12] * 40, "fresh": [0] * 40})
    how = {"positive": "verbatim", "nulls": "fresh"}
    cut = calibrate(passages, answers([0] * 40), **how)
    assert not only(cut, "false_flags_fresh", 6)["keeps_limit"]
    assert only(cut, "sensitivity", 6)["keeps_limit"] is pd.NA
    note = cut.query("chosen")["note"].iloc[0]
    assert "the data cannot support a limit of 5 %" in note and "62 independent texts" in note
    with pytest.raises(FrameError, match=r"no cut to apply: .* the data cannot support a limit"):
        attempts = answers([0] * 40)
        shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=[8])
        sc.overlap.flag(attempts.assign(passed=True), shared, cut)
    copied = corpus({"verbatim": [12] * 20, "fresh": [12] * 20})
    none = calibrate(copied, answers([12] * 20), positive="verbatim", max_false_flags=0.0)
    assert "no n and rule keeps the false flags" in none.query("chosen")["note"].iloc[0]
    supported = float(note.rpartition("a limit of ")[2].removesuffix(" %")) / 100
    assert supported < 0.08
    cut = calibrate(passages, answers([0] * 40), max_false_flags=supported, **how)
    assert cut.query("chosen")["n"].tolist() == [8]
    assert only(cut, "false_flags_fresh", 8)["keeps_limit"]


def test_a_longer_n_that_exceeds_the_limit_ends_the_search() -> None:
    # 2 of 62 long fresh texts share a run of 6, which bounds the false flags at about 11 %. 100
    # texts of four tokens are judged only up to n = 4, where 2 of 162 keep the limit again.
    passages = corpus({"verbatim": [12] * 20 + [5] * 20, "fresh": [6] * 2 + [0] * 160})
    fresh = passages.index[passages["level"].eq("fresh")]
    passages.loc[fresh[62:], "text"] = "lorem01 ipsum02 dolor03 amet04"
    how = {"positive": "verbatim", "nulls": "fresh", "max_false_flags": 0.08}
    cut = calibrate(passages, answers([0] * 70), **how)
    keeps = [bool(only(cut, "false_flags_fresh", n)["keeps_limit"]) for n in range(3, 9)]
    assert keeps == [True, True, False, False, True, True]
    assert only(cut, "sensitivity", 4)["estimate"] == 1
    chosen = cut.query("chosen").iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("any", 8)
    assert only(cut, "sensitivity", 8)["estimate"] == 0.5


def split_words(text: str) -> list[str]:
    return text.split()


def test_a_tokenizer_is_never_mixed_with_another() -> None:
    attempts, passages = answers([12, 0] * 20), corpus(LEVELS)
    how = {"skills": SKILL, "exclude_prompt": False, "ngram": [4]}
    default = sc.overlap.score(attempts, **how)
    shared = sc.overlap.score(attempts, **how, tokenizer=split_words)
    assert default["tokenizer"].unique().tolist() == ["skillcomp.ngrams.tokenize"]
    assert shared["tokenizer"].str.endswith("test_overlap_calibrate.split_words").all()
    with pytest.raises(FrameError, match="name it by tokenizer_name="):
        sc.overlap.score(attempts, **how, tokenizer=lambda text: text.split())
    named = sc.overlap.score(
        attempts, **how, tokenizer=lambda text: text.split(), tokenizer_name="blanks"
    )
    assert named["tokenizer"].eq("blanks").all()
    how = {"passages": passages, "skills": SKILL, "n_resamples": 10, "max_false_flags": 0.9}
    two = "found two tokenizers, '"
    for scored in (default, pd.concat([shared.head(20), default.tail(20)])):
        with pytest.raises(FrameError, match=two):
            sc.overlap.calibrate(scored, attempts, **how, tokenizer=split_words)
    cut = sc.overlap.calibrate(shared, attempts, **how, tokenizer=split_words)
    assert cut["tokenizer"].nunique() == 1
    verdicts = attempts[["attempt_id"]].assign(passed=True)
    assert sc.overlap.flag(verdicts, shared, cut)["copied"].notna().all()
    with pytest.raises(FrameError, match=two):
        sc.overlap.flag(verdicts, default, cut)
    scored = [sc.overlap.score(passages, skills=SKILL, ngram=[4], tokenizer=split)
              for split in (None, split_words)]  # fmt: skip
    with pytest.raises(FrameError, match=two):
        sc.overlap.roc(pd.concat(scored), negative="fresh")


def test_areas_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    rng = np.random.default_rng(3)
    copies = rng.random(200) < 0.4
    share = rng.choice([0.0, 0.1, 0.4, 0.8], 200) * np.where(copies, 1, 0.6).round(1)
    scored = pd.DataFrame(
        {"kind": "passage", "level": np.where(copies, "verbatim", "fresh"), "n": 4,
         "any_shared": share > 0, "share": share}
    )  # fmt: skip
    points = sc.overlap.roc(scored, positive="verbatim", negative="fresh")
    line = sc.plots.roc(points).get_lines()[0]
    assert line.get_drawstyle() == "default"
    area = np.trapezoid(
        *(np.asarray(side, dtype=float) for side in (line.get_ydata(), line.get_xdata()))
    )
    assert area == pytest.approx(roc_auc_score(copies, share))
    steps = points["recall"].diff() * points["precision"]
    assert steps.sum() == pytest.approx(average_precision_score(copies, share))


def test_the_recorded_passages_at_eight_tokens_have_an_average_precision_of_908(
    pilot: sc.RunStore,
) -> None:
    passages = sc.frames.passages(pilot.path.parent / "corpus" / "copies.jsonl")
    scored = sc.overlap.score(passages, skills=pilot.skills, ngram=8)
    negative = ["fresh", "heavy_revision", "light_revision"]
    points = sc.overlap.roc(scored, negative=negative)
    steps = points["recall"].diff() * points["precision"]
    assert steps.sum() == pytest.approx(0.908, abs=5e-4)
    # at full recall, everything is flagged: the prevalence
    assert points["precision"].min() == pytest.approx(0.4)


def test_short_passages_are_left_out_of_a_curve_unless_they_copy() -> None:
    passages = corpus({"verbatim": [12, 6], "fresh": [0, 0, 0]})
    passages.loc[passages["passage_id"].isin(["verbatim/1", "fresh/0"]), "text"] = "No idea"
    scored = sc.overlap.score(passages, skills=SKILL, ngram=4)
    points = sc.overlap.roc(scored, positive="verbatim", negative="fresh")
    assert points["n_short"].eq(2).all()
    assert points["prevalence"].iloc[0] == pytest.approx(2 / 4)
    assert points["true_positive_rate"].tolist() == [0, 0.5, 1]
    scored = scored[~scored["passage_id"].isin(["fresh/1", "fresh/2"])]
    with pytest.raises(FrameError, match="has fewer than 4 tokens"):
        sc.overlap.roc(scored, positive="verbatim", negative="fresh")


def test_lengths_for_which_every_null_is_too_short_do_not_end_the_search() -> None:
    words = [f"s{i}" for i in range(300)]
    fresh = [" ".join(f"w{9 * i + k}" for k in range(9)) for i in range(90)]
    copies = [" ".join(words[15 * i : 15 * i + 11]) for i in range(20)]
    passages = pd.DataFrame({"text": fresh + copies, "level": ["fresh"] * 90 + ["verbatim"] * 20})
    ids = [f"p{i}" for i in range(len(passages))]
    passages = passages.assign(passage_id=ids, document=ids, skill="s")
    skills = {"s": " ".join(words)}
    shared = sc.overlap.score(passages, skills=skills, ngram=range(3, 13))
    none = {"attempt_id": "a", "case_id": "c", "condition": "skill", "answer": "x", "status": "ok"}
    how = {"positive": "verbatim", "nulls": ["fresh"], "n_resamples": 20}
    nobody = passages.iloc[:0].assign(**none)
    cut = sc.overlap.calibrate(shared, nobody, passages=passages, skills=skills, **how)
    assert cut.loc[cut["chosen"], "n"].tolist() == [9]


def test_labelled_passages_alone_are_calibrated_as_with_answers_that_are_no_null() -> None:
    passages = corpus({"verbatim": [12] * 20, "near_copy": [6] * 20, "fresh": [2] * 70})
    how: dict[str, Any] = {"passages": passages, "skills": SKILL, "n_resamples": 50}
    alone = sc.overlap.calibrate(**how, ngram=range(3, 9))
    both = calibrate(passages, answers([0] * 40, "skill"), nulls="fresh")
    rates = ["sensitivity", "false_flags_fresh", "specificity", "auc"]
    columns = ["rule", "n", "measure", "estimate", "ci_low", "ci_high", "note"]
    parts = [cut.loc[cut["measure"].isin(rates), columns] for cut in (alone, both)]
    pd.testing.assert_frame_equal(*(part.reset_index(drop=True) for part in parts))
    chosen = alone.query("chosen").iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("any", 6)
    assert chosen["n"] == both.query("chosen")["n"].iloc[0]
    assert not alone["measure"].str.contains("baseline|answer_length").any()
    words = passages.assign(level=passages["level"].replace({"verbatim": "copied"}))
    assert sc.overlap.calibrate(**how | {"passages": words}).query("chosen")["n"].iloc[0] == 6
    with pytest.raises(FrameError, match="found no texts; give passages="):
        sc.overlap.calibrate(skills=SKILL)
    with pytest.raises(FrameError, match="nulls: found none; allowed: at least one name of a"):
        sc.overlap.calibrate(**how | {"passages": corpus({"verbatim": [12]})})


def test_answers_alone_are_calibrated_with_copies_made_up_from_the_skill() -> None:
    attempts = answers([3] * 20 + [2] * 60)
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=range(3, 9))
    cut = sc.overlap.calibrate(shared, skills=SKILL, n_resamples=20)
    chosen = cut.query("chosen").iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("any", 4)  # 20 of 80 answers share a run of 3
    assert only(cut, "sensitivity", 4)["note"].startswith("made-up copies")
    made = sc.overlap.positives(SKILL)
    fresh = corpus({"fresh": [2] * 70})
    for passages in (made, fresh):  # copies of your own, or only texts that do not copy
        cut = sc.overlap.calibrate(shared, passages=passages, skills=SKILL, n_resamples=20)
        assert cut.query("chosen")["n"].iloc[0] == 4
        assert len(cut[cut["measure"].eq("chosen_n_fresh")]) == (passages is fresh)
    with pytest.raises(FrameError, match="not scored for n = 9; there: 3, 4, 5, 6, 7, 8"):
        sc.overlap.calibrate(shared, skills=SKILL, ngram=9)


def written_corpus(n_sources: int, n_each: dict[str, int], seed: int) -> sc.frames.Frames:
    """Read a table of texts on sources: each word of a copy is replaced at a rate of its label."""
    rng = np.random.default_rng(seed)
    rates = {"cut": 0.05, "light": 0.25, "heavy": 0.8, "non": 1.0}
    rows = []
    for number in range(n_sources):
        words = [f"s{number}word{at}" for at in range(200)]
        for label, n in n_each.items():
            for _ in range(n):
                start = int(rng.integers(0, 140))
                new = rng.random(60) < rates[label]
                own = [f"own{at}" for at in rng.integers(0, 10**6, 60)]
                text = np.where(new, own, words[start : start + 60])
                rows.append({"text": " ".join(text), "source": " ".join(words), "label": label})
    with pytest.warns(sc.frames.FrameWarning, match="'cut' as near_copy"):
        return sc.from_frame(pd.DataFrame(rows))


def test_few_sources_limit_a_corpus_of_many_texts() -> None:
    # 95 texts on 5 sources, as the corpus of Clough and Stevenson (doi:10.1007/s10579-009-9112-1)
    own = written_corpus(5, {"cut": 4, "light": 4, "heavy": 4, "non": 7}, seed=1)
    assert repr(own) == "Frames(5 sources, 95 passages)"
    cut = sc.overlap.calibrate(passages=own.passages, skills=own.skills, n_resamples=20)
    chosen = cut.query("chosen").iloc[0]
    assert np.isnan(chosen["estimate"])
    assert "but 0 of 35 texts of 'fresh' flagged bound the false flags only at" in chosen["note"]
    limited = "the 5 documents limit this, because their texts are related: 62 documents of each"
    assert limited in chosen["note"]
    estimated = cut[cut["measure"].eq("estimated_n")].iloc[0]
    found = only(cut, "sensitivity", estimated["n"])
    assert found["estimate"] == 1 and found["n_clusters"] == 5 and found["ci_low"] < 0.8
    note = only(cut, "false_flags_fresh", estimated["n"])["note"]
    assert note.startswith("the 5 documents limit this") and "needs 62 documents with" in note


SOURCE = [f"word{number:04d}" for number in range(1500)]
SUBJECT = {"s": " ".join(SOURCE)}
LENGTHS = range(3, 13)


def honest(rng: random.Random, n_texts: int, size: int, start: float = 0.07) -> list[str]:
    return [honest_text(rng, size, SOURCE, start, 0.3) for _ in range(n_texts)]


def honest_answers(rng: random.Random, n: int, size: int, condition: str = "skill") -> pd.DataFrame:
    frame = pd.DataFrame({"answer": honest(rng, n, size)})
    ids = {"attempt_id": [f"{condition}/{i}" for i in range(n)]}
    ids["case_id"] = [f"s/{i}" for i in range(n)]
    return frame.assign(skill="s", condition=condition, **ids)


def labelled(rng: random.Random, n_fresh: int, size: int) -> pd.DataFrame:
    """Return fresh passages, and copies of 5 or 10 words in passages as long."""
    runs = [SOURCE[k : k + (5 if k % 2 else 10)] for k in range(0, 600, 15)]
    texts = honest(rng, n_fresh, size)
    texts += [" ".join([*run, *honest(rng, 1, size - len(run))]) for run in runs]
    levels = ["fresh"] * n_fresh + ["near_copy"] * len(runs)
    names = [f"s/{i}" for i in range(len(texts))]
    columns = {"passage_id": names, "document": names, "level": levels, "text": texts}
    return pd.DataFrame(columns).assign(skill="s")


def test_the_choice_is_made_at_the_length_of_the_answers() -> None:
    rng = random.Random(7)
    passages, answers = labelled(rng, 400, 40), honest_answers(rng, 200, 900)
    how: dict[str, Any] = {"skills": SUBJECT, "n_resamples": 2}
    shared = sc.overlap.score(answers, skills=SUBJECT, exclude_prompt=False, ngram=LENGTHS)
    verdicts = answers.assign(passed=True)
    # chosen on passages alone, n = 5 flags at most 5 % of them, but 34 % of honest answers
    short = sc.overlap.calibrate(passages=passages, **how)
    chosen = short.query("chosen").iloc[0]
    assert (chosen["rule"], chosen["n"], chosen["answer_tokens"]) == ("any", 5, 40)
    assert only(short, "false_flags_fresh", 5)["ci_high"] <= 0.05
    with pytest.warns(sc.frames.FrameWarning, match="have 900 content tokens .* for 40: where it"):
        marked = sc.overlap.flag(verdicts, shared, short)
    assert 0.3 < marked["copied"].mean() < 0.45
    # with the answers, 400 passages of 40 tokens show no limit of 5 % at 900 tokens
    at_length = sc.overlap.calibrate(shared, passages=passages, nulls="fresh", **how)
    row = at_length.query("chosen").iloc[0]
    assert np.isnan(row["estimate"]) and row["answer_tokens"] == 900
    assert "in answers of 900 content tokens (these texts have 40)" in row["note"]
    assert "such as answers without the skill" in row["note"]
    carried = only(at_length, "false_flags_fresh_at_answer_length", 5)
    assert carried["ci_low"] < marked["copied"].mean() < carried["ci_high"]
    # answers without the skill have this length: with them as a null, the rule keeps its limit
    bare = honest_answers(rng, 100, 900, "baseline")
    both = pd.concat([answers, bare], ignore_index=True)
    shared = sc.overlap.score(both, skills=SUBJECT, exclude_prompt=False, ngram=LENGTHS)
    cut = sc.overlap.calibrate(shared, passages=passages, **how)
    assert cut.query("chosen")["answer_tokens"].iloc[0] == 900
    assert cut.query("chosen")["n"].iloc[0] > 5
    assert sc.overlap.flag(verdicts, shared, cut)["copied"].mean() <= 0.05


@pytest.mark.slow
def test_a_rule_chosen_at_the_length_of_the_answers_keeps_its_limit() -> None:
    rng = random.Random(8)
    n_kept, n_chosen, n_studies = 0, 0, 40
    many = honest_answers(rng, 1500, 200)
    how: dict[str, Any] = {"skills": SUBJECT, "exclude_prompt": False, "ngram": LENGTHS}
    truth = sc.overlap.score(many, **how)
    for _ in range(n_studies):
        shared = sc.overlap.score(honest_answers(rng, 20, 200), **how)
        passages = labelled(rng, 500, 40)
        cut = sc.overlap.calibrate(
            shared, passages=passages, skills=SUBJECT, nulls="fresh", n_resamples=1
        )
        if cut.query("chosen")["n"].notna().all():
            n_chosen += 1
            flagged = sc.overlap.flag(many.assign(passed=True), truth, cut)["copied"].mean()
            n_kept += flagged <= 0.05
    assert n_chosen > 0.8 * n_studies
    assert n_kept >= n_chosen - 3  # at most about 2.5 % of calibrations exceed it


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.001, 0.9),
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.lists(st.integers(1, 2000), min_size=1, max_size=5),
)
def test_carried_rates_are_those_of_the_oracle(
    rate: float, places: list[int], target: list[int]
) -> None:
    own, longer = np.array(places, float), np.array(target, float)
    assert carried_rate(rate, own, longer) == pytest.approx(carried(rate, places, target), abs=1e-6)
    sample = carried_rate(rate, longer, own)  # the limit of the short texts is the way back
    assert min(sample, rate) == pytest.approx(largest_rate(rate, places, target), abs=1e-6)


def test_a_carried_rate_is_an_upper_bound_for_texts_that_differ() -> None:
    rng = np.random.default_rng(3)
    for shape in (0.2, 1.0, 5.0):  # some texts share many terms of the subject, others few
        chance = rng.gamma(shape, 0.001 / shape, 200_000)
        short, long = (np.mean(-np.expm1(-chance * n)) for n in (36, 896))
        assert long <= carried_rate(short, np.array([36.0]), np.array([896.0])) + 1e-3
