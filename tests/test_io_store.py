"""The store: what is written comes back, one writes, damage is found and never hidden."""

import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.errors import StoreError, SuiteError
from skillcomp.io import RunStore
from skillcomp.io.json_lines import RECORDS, read_lines, schema
from skillcomp.io.store import StoreWarning
from skillcomp.records import Attempt, GoldLabel, Verdict

SKILL = "---\nname: tide\ndescription: Tides.\n---\n# Tide\n"
CASE = {
    **{"id": 1, "prompt": "What?", "dimension": "definition", "substance": "domain"},
    **{"calibration": "semantic", "truth_mode": "code_verification", "skill_type": "concept"},
    **{"criticality": "high", "truth_sources": []},
    "expected_behaviors": [{"id": "b", "kind": "positive", "description": "Says it."}],
}
SUITE = {"skill_name": "tide", "evals": [CASE]}


def attempt(i: int = 1, **changes) -> Attempt:
    values = {"attempt_id": f"tide/1/skill/{i}", "skill": "tide", "case_id": "tide/1"}
    values |= {"condition": "skill", "repeat": i, "answer": f"Answer {i}"}
    return Attempt(**{**values, **changes})


LABEL = GoldLabel(attempt_id="a", check_id="c", labeller="me", passed=True)


@pytest.fixture
def store(tmp_path) -> RunStore:
    return RunStore(tmp_path / "study")


@pytest.fixture
def sources(tmp_path) -> Path:
    """Return a folder with the skill and the suite to add."""
    (tmp_path / "tide").mkdir()
    (tmp_path / "tide" / "SKILL.md").write_text(SKILL)
    (tmp_path / "tide.json").write_bytes(orjson.dumps(SUITE))
    return tmp_path


# Opening and writing


def test_a_store_that_is_not_there_is_empty_and_says_so_and_makes_nothing(store):
    assert store.table("attempts").num_rows == 0
    assert store.table("attempts").schema == schema("attempts")
    assert list(store.records("verdicts")) == []
    assert (store.skills, store.suites, store.tables) == ({}, {}, ())
    assert store.problems == (
        f"{store.path}: there is no store here yet; the first write makes it.",
    )
    assert not store.path.exists()


def test_one_bad_record_keeps_all_of_them_out_and_every_fault_is_told(store):
    bad = {"attempt_id": "a", "check_id": "c", "grader": "g", "pased": True, "status": "fine"}
    with pytest.raises(StoreError) as caught:
        store.append("verdicts", [Verdict(attempt_id="a", check_id="c", grader="g"), bad])
    message = str(caught.value)
    assert message.startswith("verdicts, record 2: ")
    assert "'pased' is not a field of Verdict (Did you mean 'passed'?)" in message
    assert "'status' is 'fine': input should be 'ok', 'malformed', 'error' or 'refused'" in message
    assert not (store.path / "verdicts.jsonl").exists()


@pytest.mark.parametrize(
    ("table", "record", "message"),
    [
        ("gold", {**LABEL.model_dump(exclude_none=True), "passed": "yes"}, "'passed' is 'yes'"),
        ("gold", {"attempt_id": "", "check_id": "c", "labeller": "me"}, "'attempt_id' is empty"),
        ("attempts", attempt().model_dump(exclude_none=True) | {"repeat": "2"}, "'repeat' is '2'"),
        ("attempts", attempt().model_copy(update={"status": "fine"}), "1: 'status' is 'fine'"),
        ("attempts", attempt(seconds=float("inf")), "'seconds' is infinite"),
        ("attempts", attempt(output_tokens=2**63), "'output_tokens' is beyond 64 bits"),
        ("verdicts", attempt(), "record 1: found Attempt; this table takes Verdict"),
        ("notes", {"text": "a\ud800"}, "UTF-8|surrogate"),
    ],
)
def test_a_record_that_would_not_come_back_equal_is_refused(store, table, record, message):
    with pytest.raises(StoreError, match=message):
        store.append(table, [record])


def test_tables_of_ones_own_take_any_mapping_and_infer_their_types(store):
    store.append("batches", [{"id": "b1", "n": 2}, {"id": "b2", "n": 3, "done": True}])
    assert list(store.records("batches"))[1] == {"id": "b2", "n": 3, "done": True}
    assert store.table("batches").to_pylist() == [
        {"id": "b1", "n": 2, "done": None},
        {"id": "b2", "n": 3, "done": True},
    ]
    assert store.table("receipts").num_rows == 0


@pytest.mark.parametrize("name", ["../attempts", "Attempts", "", "/etc/passwd"])
def test_a_tables_name_cannot_leave_the_folder(store, name):
    with pytest.raises(StoreError, match="cannot name a table"):
        store.append(name, [{}])
    with pytest.raises(StoreError, match="cannot name a table"):
        store.table(name)


def test_what_is_no_place_is_told(tmp_path):
    with pytest.raises(StoreError, match=r"RunStore: expected a path \(str or Path\), found int 3"):
        RunStore(3)
    with pytest.raises(SuiteError, match=r"add_suite: expected a path .*, found NoneType"):
        RunStore("nowhere").add_suite(None)
    for name in ("a\ud800", "a\0b"):
        with pytest.raises(StoreError):
            RunStore(tmp_path / name).append("gold", [LABEL])


def test_a_folder_that_cannot_be_locked_is_told(tmp_path):
    store = RunStore(tmp_path)
    store.append("attempts", [attempt()])
    (tmp_path / ".writer.lock").unlink(missing_ok=True)
    (tmp_path / ".writer.lock").mkdir()  # as on a disk that may only be read
    with pytest.raises(StoreError, match=r"cannot be written \("):
        store.append("attempts", [attempt()])


def test_a_folder_with_other_things_does_not_become_a_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(StoreError, match=r"holds other things \(thesis\.tex\) and no manifest"):
        RunStore(tmp_path).append("attempts", [attempt()])
    with pytest.raises(StoreError, match="is a file; a store is a folder"):
        RunStore(tmp_path / "thesis.tex")


# Skills and suites


def test_added_skills_and_suites_are_copied_and_listed(store, sources):
    skill = store.add_skill(sources / "tide")
    suite = store.add_suite(sources / "tide.json")
    assert store.skills == {"tide": skill}
    assert store.suites == {"tide": suite}
    assert skill.path == "skills/tide/SKILL.md"
    assert store.manifest["skills"]["tide"]["sha256"] == skill.sha256
    assert store.manifest["suites"]["tide"]["sha256"] == suite.sha256
    assert store.problems == ()
    assert RunStore(store.path).skills == store.skills


def test_adding_the_same_again_changes_nothing_and_another_text_is_refused(store, sources):
    store.add_skill(sources / "tide")
    before = store.fingerprint
    store.add_skill(sources / "tide" / "SKILL.md")
    assert store.fingerprint == before
    (sources / "tide" / "SKILL.md").write_text("---\nname: tide-2\n---\n")
    with pytest.raises(StoreError, match="skill 'tide' is recorded with another text"):
        store.add_skill(sources / "tide")
    assert store.add_skill(sources / "tide", slug="tide-2").slug == "tide-2"
    assert store.skills["tide"].text == SKILL
    assert store.problems == ("skills/tide-2/SKILL.md: front matter: 'description' is missing.",)
    assert store.add_suite(sources / "tide.json", slug="ebb").cases[0].case_id == "ebb/1"


def test_a_suite_without_answers_is_dropped_and_its_tries_are_kept_aside(store, sources):
    store.add_suite(sources / "tide.json")
    store.add_suite(sources / "tide.json", slug="ebb")
    cells = [{"case_id": f"{slug}/1", "agent": "a"} for slug in ("tide", "ebb")]
    store.append("plan", cells)
    tries = [("ebb/1", "error"), ("tide/1", "ok"), ("ebb/10", "timeout")]
    fields = {"skill": "tide", "condition": "skill"}
    rows = [
        {"attempt_id": f"{case_id}/x", "case_id": case_id, "status": status, **fields}
        for case_id, status in tries
    ]
    store.append("attempts", rows)
    with pytest.raises(StoreError, match="suite 'tide' has answers, which stay in the store"):
        store.drop_suite("tide")
    with pytest.raises(StoreError, match=r"no suite 'ebbb'.* Did you mean 'ebb'"):
        store.drop_suite("ebbb")
    store.drop_suite("ebb")
    assert list(store.suites) == ["tide"] == list(RunStore(store.path).suites)
    assert list(store.records("plan")) == cells[:1]
    assert [row["case_id"] for row in store.rows("attempts")] == ["tide/1"]
    dropped = (store.path / "attempts.dropped").read_text().splitlines()
    assert [json.loads(line)["case_id"] for line in dropped] == ["ebb/1", "ebb/10"]
    assert store.problems == ()
    assert store.add_suite(sources / "tide.json", slug="ebb").cases[0].case_id == "ebb/1"
    manifest = store.manifest
    manifest["suites"]["ebb"]["path"] = "../mine.txt"
    (store.path / "manifest.json").write_text(json.dumps(manifest))
    (store.path.parent / "mine.txt").touch()
    store.drop_suite("ebb")
    assert (store.path.parent / "mine.txt").exists()


def test_what_a_failed_block_added_is_undone_unless_something_was_tried(store, sources):
    store.append("plan", [{"case_id": "tide/1"}])
    before = store.fingerprint
    with pytest.raises(ValueError), store.provisional():
        store.add_skill(sources / "tide")
        store.add_suite(sources / "tide.json")
        store.append("plan", [{"case_id": "tide/2"}])
        store.append("arms", [{"skill": "tide"}])
        (store.path / "site").mkdir()
        (store.path / "site" / "page.html").touch()
        raise ValueError
    assert (store.path / "site" / "page.html").exists()  # it belongs to no skill or suite
    assert not store.skills and not store.suites and len(list(store.records("plan"))) == 1
    (store.path / "arms.jsonl").unlink()  # it is empty
    assert store.fingerprint == before and store.problems == ()
    with pytest.raises(KeyboardInterrupt), store.provisional():
        store.add_skill(sources / "tide")  # after Ctrl-C, the same call resumes
        raise KeyboardInterrupt
    row = {"attempt_id": "x", "skill": "tide", "case_id": "tide/1", "condition": "skill"}
    with pytest.raises(ValueError), store.provisional():
        store.add_suite(sources / "tide.json")
        store.append("attempts", [row | {"status": "error"}])
        raise ValueError
    assert list(store.suites) == list(store.skills) == ["tide"]


@pytest.mark.parametrize("slug", ["../out", ".hidden", "x" * 101, "a\x00"])
def test_a_slug_cannot_leave_the_folder(store, sources, slug):
    with pytest.raises(StoreError, match="cannot be a slug"):
        store.add_skill(sources / "tide", slug=slug)
    with pytest.raises(StoreError, match="cannot be a slug"):
        store.add_suite(sources / "tide.json", slug=slug)


def test_edited_missing_and_unlisted_files_are_named(store, sources):
    store.add_skill(sources / "tide")
    store.add_skill(sources / "tide", slug="ebb")
    store.add_suite(sources / "tide.json")
    (store.path / "skills/tide/SKILL.md").write_text(SKILL + "Edited.\n")
    (store.path / "skills/ebb/SKILL.md").unlink()
    (store.path / "suites/new.json").write_bytes(orjson.dumps(SUITE))
    problems = "\n".join(RunStore(store.path).problems)
    assert "skills/tide/SKILL.md was edited after it was recorded" in problems
    assert "skills: 'ebb' is in the manifest and its file is missing." in problems
    assert "suites/new.json is not in the manifest; add it with add_suite." in problems


def test_links_out_of_the_store_are_not_followed(store, sources):
    store.add_skill(sources / "tide")
    (store.path / "skills" / "out").symlink_to(sources / "tide")
    with pytest.raises(StoreError, match="the link leads out of the store"):
        _ = RunStore(store.path).skills
    (sources / "elsewhere.jsonl").write_text("{}\n")
    (store.path / "gold.jsonl").symlink_to(sources / "elsewhere.jsonl")
    with pytest.raises(StoreError, match="the link leads out of the store"):
        RunStore(store.path)


# Manifest and fingerprint


def test_notes_stand_in_the_manifest_and_the_stores_own_entries_are_safe(store):
    store.annotate(created="2026-11-21", collected="2026-11-21")
    assert store.manifest["created"] == "2026-11-21"
    with pytest.raises(StoreError, match="skills: kept by the store itself"):
        store.annotate(skills={})


def test_the_fingerprint_follows_every_file_and_nothing_else(store, sources):
    store.add_skill(sources / "tide")
    store.append("attempts", [attempt(1)])
    first = store.fingerprint
    assert RunStore(store.path).fingerprint == first
    (store.path / "notes.txt").write_text("beside")
    assert store.fingerprint == first
    store.append("attempts", [attempt(2)])
    second = store.fingerprint
    (store.path / "skills/tide/SKILL.md").write_text(SKILL + "Edited.\n")
    assert len({first, second, store.fingerprint}) == 3


# Damage


def test_a_torn_last_line_is_left_out_on_reading_and_moved_aside_on_writing(store):
    store.append("attempts", [attempt(1), attempt(2)])
    file = store.path / "attempts.jsonl"
    whole = file.read_bytes()
    torn = b'{"attempt_id":"tide/1/skill/3","answer":"Half an \xc3'
    file.write_bytes(whole + torn)
    before = {path.name: path.read_bytes() for path in store.path.iterdir()}
    with pytest.warns(StoreWarning, match=r"attempts\.jsonl: the last line is not whole"):
        again = RunStore(store.path)
    assert again.table("attempts").num_rows == 2 and "left out" in again.problems[0]
    assert {path.name: path.read_bytes() for path in store.path.iterdir()} == before
    with pytest.warns(StoreWarning, match=r"attempts\.jsonl, line 3: the last line was torn off"):
        again.append("gold", [LABEL])
    assert file.read_bytes() == whole
    assert (store.path / "attempts.torn").read_bytes() == torn + b"\n"
    assert again.table("attempts").num_rows == 2
    later = RunStore(store.path)
    assert len(later.problems) == 1
    assert later.problems[0] == "attempts.torn holds the bytes of torn lines of attempts.jsonl."


@pytest.mark.parametrize("torn", [b"\x00" * 100_000, b'{"attempt_id":'])
def test_a_line_that_is_torn_while_the_store_is_open_is_found_on_reading(store, torn):
    store.append("attempts", [attempt(1)])
    with (store.path / "attempts.jsonl").open("ab") as stream:
        stream.write(torn)
    with pytest.warns(StoreWarning, match=rf"not whole \({len(torn)} bytes\) and is left out"):
        assert store.table("attempts").num_rows == 1


def test_a_whole_last_record_without_line_feed_is_kept(store):
    store.append("attempts", [attempt(1)])
    file = store.path / "attempts.jsonl"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    again = RunStore(store.path)
    assert again.table("attempts").num_rows == 1
    again.append("attempts", [attempt(2)])
    assert list(again.records("attempts")) == [attempt(1), attempt(2)]
    assert again.problems == ()


@pytest.mark.parametrize(("unknown", "end"), [({}, ""), ({"colour": "red"}, "\n")])
def test_a_byte_order_mark_is_read_over(store, unknown, end):
    row = {"attempt_id": "a", "skill": "s", "case_id": "s/1", "condition": "skill", **unknown}
    store.append("gold", [LABEL])
    (store.path / "attempts.jsonl").write_text("\ufeff" + json.dumps(row) + end)
    again = RunStore(store.path)
    (read,) = again.table("attempts").to_pylist()
    assert (read["status"], read["repeat"], read["answer"]) == ("ok", 1, None)  # the defaults
    assert [record.attempt_id for record in again.records("attempts")] == ["a"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"attempt_id": 5}', "'attempt_id' is 5: input should be a valid string"),
        (b'{"repeat": 1.5}', "'repeat' is 1.5: input should be a valid integer"),
        (b'{"triggered": 1}', "'triggered' is 1: input should be a valid boolean"),
        (b'{"seconds": "fast"}', "'seconds' is 'fast': input should be a valid number"),
        (b'{"started_at": "noon"}', "'started_at' is 'noon': input should be a valid datetime"),
        (b'{"attempt_id":"","skill":"s","case_id":"c","condition":"k"}', "'attempt_id' is empty"),
        (b"[1]", r"\[1\] is not a JSON object"),
        (b'{"answer": "\xff"}', "not a JSON object"),
        (b'{"answer": "a"}{"answer": "b"}', "not a JSON object"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_named_with_its_line(store, line, message):
    store.append("attempts", [attempt(1)])
    with (store.path / "attempts.jsonl").open("ab") as stream:
        stream.write(line + b"\n")
    with pytest.raises(StoreError, match=rf"attempts\.jsonl, line 2: .*{message}"):
        store.table("attempts")


def test_unknown_keys_and_blank_lines_are_left_out_and_counted(store):
    store.append("attempts", [attempt(1)])
    row = attempt(2).model_dump(exclude_none=True)
    with (store.path / "attempts.jsonl").open("ab") as stream:
        stream.write(b"\n" + orjson.dumps({**row, "mood": "good"}) + b"\n")
        stream.write(orjson.dumps({**row, "mood": 3}) + b"\n")
    table = store.table("attempts")
    assert table.num_rows == 3
    assert table.schema == schema("attempts")
    assert store.problems == (
        "attempts: the key 'mood' is not one of the record's; left out of 2 lines.",
    )


# Tables


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_table_has_the_columns_of_its_record_even_when_empty(tmp_path, name):
    file = tmp_path / "some.jsonl"
    with pytest.raises(StoreError, match="cannot be read"):
        read_lines(file, name)[0]
    assert schema(name).names == list(RECORDS[name].model_fields)
    for content in (b"", b"\n", b"\n \n"):
        file.write_bytes(content)
        assert read_lines(file, name)[0].schema == schema(name)
        assert read_lines(file, name)[0].num_rows == 0


def test_lines_longer_than_a_block_are_read(store):
    long = "word " * 2_000_000
    store.append("attempts", [attempt(1), attempt(2, answer=long), attempt(3)])
    assert store.table("attempts")["answer"].to_pylist()[1] == long


def test_a_table_is_read_anew_once_it_has_grown(store):
    store.append("attempts", [attempt(1)])
    first = store.table("attempts")
    assert store.table("attempts") is first
    RunStore(store.path).append("attempts", [attempt(2)])
    assert store.table("attempts").num_rows == 2


# Text without lone surrogates, and with what breaks careless writers: line ends of all kinds, NUL.
_TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", "a\nb\r\n", "\x00", "\u2028\u0085", '"\\', "𝛼 ﷽", "null", "{"]
)
_NAME = _TEXT.filter(bool)
_TIME = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
_NUMBER = st.floats(allow_nan=False, allow_infinity=False)
_WHOLE = st.integers(-(2**63), 2**63 - 1)

_ATTEMPTS = st.builds(
    Attempt,
    attempt_id=_NAME,
    skill=_NAME,
    case_id=_NAME,
    condition=_NAME,
    repeat=_WHOLE,
    answer=st.none() | _TEXT,
    status=st.sampled_from(["ok", "error", "refused"]),
    output_tokens=st.none() | _WHOLE,
    cost_usd=st.none() | _NUMBER,
    triggered=st.none() | st.booleans(),
    started_at=st.none() | _TIME,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_ATTEMPTS, max_size=4))
def test_any_record_comes_back_equal_both_ways(tmp_path_factory, attempts):
    store = RunStore(tmp_path_factory.mktemp("round"))
    with store.writer():
        store.append("attempts", attempts[:1])
        store.append("attempts", attempts[1:])
    assert list(store.records("attempts")) == attempts
    assert store.table("attempts").to_pylist() == [record.model_dump() for record in attempts]
    assert store.problems == ()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10_000))
def test_a_file_cut_at_any_byte_loses_at_most_the_record_that_was_cut(tmp_path_factory, at):
    store = RunStore(tmp_path_factory.mktemp("cut"))
    written = [attempt(i, answer="é" * i) for i in range(1, 6)]
    store.append("attempts", written)
    file = store.path / "attempts.jsonl"
    whole = file.read_bytes()
    at %= len(whole)
    file.write_bytes(whole[:at])
    n_whole = whole[: at + 1].count(b"\n")  # a record that only lacks its line feed is whole
    torn = b"" if whole[:at].endswith(b"\n") or at == 0 or whole[at : at + 1] == b"\n" else True
    if torn:
        with pytest.warns(StoreWarning):
            again = RunStore(store.path)
    else:
        again = RunStore(store.path)
    assert list(again.records("attempts")) == written[:n_whole]
    assert again.table("attempts").num_rows == n_whole
    assert file.read_bytes() == whole[:at]
    if torn:
        with pytest.warns(StoreWarning):
            again.append("gold", [LABEL])
        kept = (store.path / "attempts.torn").read_bytes().rstrip(b"\n")
        assert file.read_bytes() + kept == whole[:at]


# More than one process


HOLD = """
    import sys, time
    from skillcomp.io import RunStore
    store = RunStore(sys.argv[1])
    with store.writer():
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_writer_in_another_process_is_named_and_its_death_frees_the_place(store):
    store.append("attempts", [attempt(1)])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(store.path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            StoreError, match=rf"written by process {other.pid} on .* since 20.* \(command: "
        ):
            store.append("attempts", [attempt(2)])
        with (store.path / "attempts.jsonl").open("ab") as stream:
            stream.write(b'{"half')
        assert RunStore(store.path).table("attempts").num_rows == 1  # no warning: it may go on
        other.kill()
    with pytest.warns(StoreWarning, match=r"attempts\.jsonl, line 2"):
        store.append("attempts", [attempt(2)])
    assert store.table("attempts").num_rows == 2


def test_a_store_that_cannot_be_written_can_be_read(store, monkeypatch):
    store.append("attempts", [attempt(1)])
    with (store.path / "attempts.jsonl").open("ab") as stream:
        stream.write(b'{"half')

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("skillcomp.io.journal.FileLock.acquire", denied)
    with pytest.warns(StoreWarning, match="is left out") as told:
        reader = RunStore(store.path)
        assert reader.table("attempts").num_rows == 1
    assert len(told) == 1 and told[0].filename == __file__
    assert "is left out" in reader.problems[0]
    with pytest.raises(StoreError, match="cannot be written"):
        reader.append("attempts", [attempt(2)])


# What no writer of ours leaves behind


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'[{"attempt_id": "a"}, {"attempt_id": "b"}]', id="an array in one line"),
        pytest.param(b'[\n{"attempt_id": "a"}\n]', id="an array over lines"),
        pytest.param(b'{\n"attempt_id": "a"\n}', id="an object over lines"),
        pytest.param(b'{"attempt_id": "a"}{"attempt_id": "b"}', id="no line feed"),
        pytest.param(b'{"attempt_id": "a"}\r{"attempt_id": "b"}\r', id="carriage returns"),
        pytest.param(b"attempt_id,skill\na,b", id="csv"),
        pytest.param(b'{"attempt_id": "a"} {"attempt_id": "b', id="blanks for line feeds"),
    ],
)
def test_a_file_that_is_no_json_lines_is_refused_and_left_as_it_is(store, data):
    store.append("gold", [LABEL])
    file = store.path / "attempts.jsonl"
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"attempts\.jsonl.*expected JSON Lines"):
        RunStore(store.path).table("attempts")
    assert file.read_bytes() == data
    assert not (store.path / "attempts.torn").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of Unix")
@pytest.mark.parametrize("name", ["attempts.jsonl", "manifest.json"])
def test_a_pipe_in_the_place_of_a_file_is_told_and_not_waited_for(store, name):
    store.append("gold", [LABEL])
    (store.path / name).unlink(missing_ok=True)
    os.mkfifo(store.path / name)
    with pytest.raises(StoreError, match="not a regular file"):
        RunStore(store.path)


@pytest.mark.parametrize("name", ["attempts.jsonl", "suites/tea.json"])
def test_links_that_lead_round_in_a_circle_are_told(store, tmp_path, name):
    store.append("gold", [LABEL])
    (store.path / "suites").mkdir(exist_ok=True)
    (store.path / name).symlink_to(store.path / name)
    with pytest.raises(StoreError, match="round in a circle"):
        _ = store.suites, store.table("attempts")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError):
        RunStore(tmp_path / "loop").append("gold", [LABEL])


ODD_ENTRIES = [
    *[("skills", value) for value in ([], {"tea": 1}, "tea", None)],
    *[("suites", value) for value in ([], {"tea": None})],
    *[("version", value) for value in (True, "1", 1.0, None)],
]
MANIFEST = {"format": "skillcomp-store", "version": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *[(orjson.dumps({**MANIFEST, key: v}), rf"json: .*{key}") for key, v in ODD_ENTRIES],
        (orjson.dumps({**MANIFEST, "version": 2}), "version 2; this skillcomp reads up to 1"),
        (orjson.dumps({**MANIFEST, "version": 0}), "version 0; .* Restore the manifest"),
        (orjson.dumps({**MANIFEST, "version": -1}), "version -1; .* Restore the manifest"),
        (b'{\n"format": ', r"manifest\.json, line 2: not JSON"),
        (b"{}", "not the manifest of a store"),
    ],
)
def test_the_manifest_of_a_newer_format_or_a_broken_one_is_refused(store, text, message):
    store.append("gold", [LABEL])
    (store.path / "manifest.json").write_bytes(text)
    with pytest.raises(StoreError, match=message):
        RunStore(store.path)


def test_a_full_disk_leaves_every_file_as_it_was(store, sources, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    store.append("attempts", [attempt(1)])
    before = {f: f.read_bytes() for f in store.path.rglob("*") if f.is_file()}
    with store.writer():
        monkeypatch.setattr("skillcomp.io.journal.os.fsync", full)
        for act in (
            lambda: store.append("attempts", [attempt(2)]),
            lambda: store.annotate(created="tomorrow"),
            lambda: store.add_skill(sources / "tide"),
            lambda: store.add_suite(sources / "tide.json"),
        ):
            with pytest.raises(StoreError, match="No space left on device"):
                act()
        monkeypatch.undo()
    assert {f: f.read_bytes() for f in store.path.rglob("*") if f.is_file()} == before
    store.add_skill(sources / "tide")
