"""A saved table is a store: every frame and every sentence comes back."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError, StoreError


def read_back(store: sc.RunStore, **checks: str) -> dict[str, pd.DataFrame]:
    """Return the frames that the readers make of a store."""
    cases, attempts = sc.frames.cases(store), sc.frames.attempts(store)
    verdicts = sc.frames.verdicts(store, round="all")
    return {
        "cases": cases,
        "attempts": attempts,
        "verdicts": verdicts,
        "outcomes": sc.frames.outcomes(verdicts, cases, attempts=attempts, **checks),
        "gold": sc.frames.gold(store, labeller="all"),
        "pairwise": sc.frames.pairwise(store),
        "passages": sc.frames.passages(store),
    }


def assert_saved(own: sc.frames.Frames, folder: Path) -> sc.RunStore:
    store = sc.RunStore(own.save(folder))
    for name, frame in read_back(store).items():
        pd.testing.assert_frame_equal(frame, getattr(own, name), check_like=name == "outcomes")
    return store


OPTIONS = (
    *("repeat", "check", "grader", "round", "score", "agent", "dimension", "transfer", "cluster"),
    *("prompt", "answer", "seconds", "status", "gold", "asked", "shared", "condition", "weight"),
)


def table_of(options: set[str], seed: int) -> sc.frames.Frames:
    """Return frames of a random table that has the given columns."""
    rng = np.random.default_rng(seed)
    levels = {
        "skill": ["tea", "tide"],
        "case": ["1", "a/b", "../up"],
        "condition": ["baseline", "skill"] if "condition" in options else ["only"],
        "repeat": [0, 1] if "repeat" in options else [0],
        "agent": ["x", "y"] if "agent" in options else ["x"],
        "check": ["p", "q"] if "check" in options else ["p"],
        "grader": ["old", "new"] if "grader" in options else ["old"],
        "round": [1, 2] if "round" in options else [1],
    }
    rows = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    of_case = rows["skill"] + rows["case"]
    of_answer = of_case + rows["condition"] + rows["repeat"].astype(str) + rows["agent"]
    code = pd.factorize(of_case)[0]
    answer = pd.factorize(of_answer)[0]
    rows["passed"] = rng.choice([True, False, None], len(rows), p=[0.5, 0.4, 0.1])
    rows["score"] = rng.choice([0.1, 0.9, np.nan], len(rows))
    rows["gold"] = rng.choice([True, False, None], len(rows))[answer]
    rows["dimension"] = rng.choice(["C1", "C2", "own"], 9)[code]
    rows["transfer"] = rng.choice(["near", "far", None], 9)[code]
    rows["film"] = rng.choice(["m", "n", None], 9)[code]
    rows["prompt"] = np.array([f"2026-01-0{k + 1}" for k in range(9)])[code]
    rows["weight"] = np.where(rows["check"].eq("p"), 1.0, 2.5)
    rows["answer"] = rng.choice(["two words", None, "Ünïcode\n</script>"], 99)[answer]
    rows["seconds"] = rng.choice([1.5, np.nan], 99)[answer]
    rows["status"] = rng.choice(["ok", "error", "timeout", None], 99, p=[0.7, 0.1, 0.1, 0.1])[
        answer
    ]
    direct = {*levels, "score", "dimension", "transfer", "prompt", "answer", "seconds", "status"}
    names = {name: name for name in direct & options} | {"condition": "condition"}
    if "cluster" in options:
        names["cluster"] = "film"
    if "weight" in options:
        names |= {"check_weight": "weight", "check": "check"}
    if "gold" in options and {"grader", "check", "round"}.isdisjoint(options):
        names["gold"] = "gold"
    if "condition" not in options:
        names["condition"] = None
    more: dict[str, object] = {"shared_cases": True} if "shared" in options else {}
    if "asked" in options:
        keys = ["skill", "case", *({"condition", "agent", "repeat"} & names.keys())]
        planned = rows[[name for name in keys if name in rows]].drop_duplicates()
        more["asked"] = pd.concat([planned, planned.assign(case="never answered")])
        if "condition" not in options:
            more["asked"]["condition"] = "unnamed condition"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        return sc.from_frame(rows, **names, **more)


@pytest.mark.parametrize("seed", range(4))
def test_every_frame_comes_back(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = seed / 3  # of the options: none in the first table, all in the last
    options = {name for name in OPTIONS if rng.random() < share}
    assert_saved(table_of(options, seed), tmp_path / "store")


def small(**columns: object) -> sc.frames.Frames:
    rows = pd.DataFrame({"case": ["a", "b"] * 2, "condition": ["baseline"] * 2 + ["skill"] * 2})
    rows = rows.assign(passed=[True, False, True, True], **columns)
    return sc.from_frame(rows, skill="skill" if "skill" in columns else None)


def test_unknown_stays_unknown(tmp_path: Path) -> None:
    store = sc.RunStore(small().save(tmp_path / "store"))
    assert store.skills == {} and store.suites == {}
    assert sc.frames.cases(store)["prompt"].isna().all()
    assert sc.frames.attempts(store)[["status", "answer", "agent"]].isna().all(axis=None)


def test_pairs_passages_and_the_draw_come_back(tmp_path: Path) -> None:
    own = small()
    ids = own.attempts["attempt_id"]
    pairs = pd.DataFrame({"skill": "the skill", "case_id": "a", "grader": "g", "order": [1, 2, 3]})
    pairs = pairs.assign(first=ids[0], second=ids[1], winner=["tie", ids[1], None])
    pairs["winner_position"] = pd.array([None, 2, None], "Int64")
    text = {"passage_id": "p", "skill": "the skill", "document": "d", "level": "fresh", "text": "t"}
    full = sc.frames.Frames(
        *own,
        pairwise=sc.frames.check(pairs, "pairwise"),
        passages=sc.frames.check(pd.DataFrame([text]), "passages"),
        problems=pd.DataFrame([{"place": "gold=", "found": "x", "done": "dropped", "n": 2}]),
        gold_drawn="chosen",
    )
    store = assert_saved(full, tmp_path / "store")
    assert store.manifest["frames"]["gold_drawn"] == "chosen"
    assert "gold=: x; dropped (2 rows)." in store.problems
    assert sc.frames.checks(store)["check_id"].tolist() == ["passed"] * 2


def test_no_name_leaves_the_folder(tmp_path: Path) -> None:
    names = ["../../etc", "/tmp/x", "..", "C:\\con"]
    own = small(skill=names, case=["a", "b", "../../c", "/d"])
    assert_saved(own, tmp_path / "deep" / "store")
    files = {f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*") if f.is_file()}
    places = ("manifest.json", "cases.jsonl", "attempts.jsonl", "verdicts.jsonl")
    assert files - {"deep/store/.writer.lock"} == {f"deep/store/{name}" for name in places}


def test_only_saved_frames_are_replaced(tmp_path: Path, pilot: sc.RunStore) -> None:
    own, folder = small(), tmp_path / "store"
    own.save(folder)
    with pytest.raises(FrameError, match="holds saved frames already; overwrite=True replaces it"):
        own.save(folder)
    before = sc.RunStore(folder).fingerprint
    assert sc.RunStore(folder).manifest["created"] is None  # saved later, it is the same
    assert sc.RunStore(own.save(folder, overwrite=True)).fingerprint == before
    with pytest.raises(FrameError, match="holds other things; name an empty or new folder"):
        own.save(pilot.path, overwrite=True)


def test_a_file_of_the_user_is_never_deleted(tmp_path: Path) -> None:
    own = small()
    folder = own.save(tmp_path / "store")
    (folder / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(FrameError, match=r"saved frames and other things, such as 'notes\.txt'"):
        own.save(folder, overwrite=True)
    assert (folder / "notes.txt").read_text("utf-8") == "mine"


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    own = small()
    link = tmp_path / "link"
    link.symlink_to(own.save(tmp_path / "store"), target_is_directory=True)
    assert_saved(replace(own, gold_drawn="chosen"), tmp_path / "other")
    own.save(link, overwrite=True)
    assert link.is_symlink() and sc.RunStore(link).manifest["frames"]["gold_drawn"] == "random"


@pytest.mark.parametrize("name", ["file/store", "n" * 300])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="the folder cannot be written"):
        small().save(tmp_path / name)


def test_what_a_store_cannot_hold_is_refused(tmp_path: Path) -> None:
    own = small()
    odd = sc.frames.Frames(own.cases, own.attempts, own.verdicts.assign(mood=1), *list(own)[3:])
    with pytest.raises(FrameError, match="verdicts: column 'mood' has no place in a store"):
        odd.save(tmp_path / "store")
    lost = sc.frames.Frames(own.cases, own.attempts.iloc[1:], *list(own)[2:])
    with pytest.raises(FrameError, match="of the verdicts is not in the attempts frame"):
        lost.save(tmp_path / "store")
    assert not any(tmp_path.iterdir())


def test_a_study_is_shown_in_a_few_escaped_lines(tmp_path: Path) -> None:
    own = small(skill="<b>tea</b>", mark=["yes", "no", "yes", "n/a"])
    with pytest.warns(sc.frames.FrameWarning):
        own = sc.from_frame(
            own.attempts.assign(mark=["yes", "no", "yes", "n/a"]), case="case_id", passed="mark"
        )
    assert repr(own) == "Frames(1 skill, 2 cases, 4 attempts, 4 verdicts, 0 gold labels)"
    store = sc.RunStore(own.save(tmp_path / "store"))
    for study in (own, store):
        html = study._repr_html_()
        assert "&lt;b&gt;tea&lt;/b&gt;" in html and "<b>tea" not in html
        for text in ("4 (2 baseline, 2 skill)", "1 verdict", "case = case_id", "passed = mark"):
            assert text in html
        assert "as True (2 rows)" in html
        assert html.count("<tr>") == 8
    assert repr(store).startswith("RunStore(") and "\n" not in repr(store)
