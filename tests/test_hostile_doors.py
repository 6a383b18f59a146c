"""Ids, patterns and files from outside that would destroy, hang or exhaust."""

import csv
import io
import json
import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skillcomp as sc
from skillcomp.errors import SkillcompError, StoreError, SuiteError
from skillcomp.io import bounded_patterns, parquet_tables
from skillcomp.io.files import checked_slug, id_problem, open_file, read_own
from skillcomp.io.journal import write_manifest
from skillcomp.io.task_suites import file_place
from skillcomp.live.trigger_runs import case_folder, read_run

HOSTILE = [
    *("/etc", "//x", "..", "../x", "a/../../b", "a/..", ".", "./a", "a//b", "a/", ".hidden"),
    *("a\\b", "..\\x", "C:\\x", "C:x", "a\0b", "a\x1b[31m", "a\nb", "a\rb", "a\tb", "a\x85b"),
    *("a.", "a..", "CON", "nul", "aux.txt", "COM1", "lpt9.md", "x" * 201, "é" * 101),
    *("a\u202eb", "a\u200bb", "a\u2066b", "\ufeffa", "a\u00adb", "a\u2028b", "\u3164"),
    *("\uff0fetc", "a\uff0fb", "\u2100", "\uff0e\uff0e", "\u2025", "~", "~root", "-x", "--help"),
]
REAL = ["1", "6.2 (b)", "A-3_v2", "größe", "案例1", "q: units", "a/b", "case #4", "x" * 200]
# compiled without limits, it takes more than 20 GB
NESTED = "(((((a{99}){99}){99}){99}){99})x"


@pytest.fixture
def plain_memory():
    """Limit the memory of this process, so that a failing test does not harm the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def table_of(folder, ident, **cells):
    folder.mkdir(exist_ok=True)
    row = {"id": ident, "should_trigger": "true", "prompt": "Use $tea", **cells}
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([row, row.values()])
    (folder / "prompts.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    return folder / "prompts.csv"


@pytest.mark.parametrize("ident", HOSTILE, ids=ascii)
def test_no_suite_takes_an_id_that_could_lead_elsewhere_or_look_like_another(tmp_path, ident):
    rows = {
        "expectations.json": {"id": ident, "prompt": "p", "expectations": ["e"]},
        "behaviors.json": {"id": ident, "prompt": "p", "expected_behaviors": []},
    }
    files = [table_of(tmp_path / "table", ident), tmp_path / "queries.json"]
    files[1].write_text(json.dumps([{"id": ident, "query": "p", "should_trigger": True}]))
    for name, row in rows.items():
        files.append(tmp_path / name)
        files[-1].write_text(json.dumps({"skill_name": "tea", "evals": [row]}))
    tasks = f"- id: {json.dumps(ident)}\n  prompt: p\n  judge: {{type: contains, expected: [x]}}\n"
    files.append(tmp_path / "task_suite.yaml")
    files[-1].write_text(f'skill_id: tea\nversion: "1.0"\ntasks:\n{tasks}')
    for file in files:
        try:
            suite = sc.read_suite(file)
        except SuiteError:
            continue
        # an id of a table has its blanks removed before
        assert all(id_problem(case.case_id) is None for case in suite.cases)
        assert suite.cases[0].case_id.partition("/")[2] == ident.strip() != ident
    with pytest.raises(StoreError):
        case_folder(tmp_path, "tea", f"tea/{ident}")
    with pytest.raises(StoreError):
        case_folder(tmp_path, ident, "tea/1")
    with pytest.raises(SkillcompError):
        checked_slug(ident, SkillcompError)


@pytest.mark.parametrize("ident", REAL, ids=ascii)
def test_ids_of_real_suites_are_taken(tmp_path, ident):
    file = tmp_path / "evals.json"
    row = {"id": ident, "prompt": "p", "expectations": ["e"]}
    file.write_text(json.dumps({"skill_name": "tea", "evals": [row]}))
    assert sc.read_suite(file).cases[0].case_id == f"tea/{ident}"


def test_a_sentence_as_the_name_of_a_case_is_no_id(tmp_path):
    file = tmp_path / "evals.json"
    row = {"name": "Brews the tea.", "prompt": "p", "expectations": ["e"]}
    file.write_text(json.dumps({"skill_name": "tea", "evals": [row]}))
    assert sc.read_suite(file).cases[0].case_id == "tea/case-1"


@pytest.mark.parametrize("link", ["work", "work/tea", "work/tea/1"])
def test_a_case_folder_is_never_a_link(tmp_path, link):
    place = tmp_path / "run" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path)
    with pytest.raises(StoreError, match="a link"):
        case_folder(tmp_path / "run", "tea", "tea/1")


@pytest.mark.parametrize("field", ["cases", "controls", "judged", "neighbours"])
def test_a_run_from_elsewhere_with_hostile_ids_is_refused_before_it_resumes(tmp_path, field):
    prey = tmp_path / "prey"
    prey.mkdir()
    (prey / "thesis.txt").write_text("three years")
    plan = {"run_id": "r", "cases": {"tea/1": "tea"}, "judged": [], "neighbours": []}
    case_id = f"tea/{prey}"
    plan[field] = {case_id: "tea"} if field in ("cases", "controls") else [case_id]
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "run.json").write_text(json.dumps(plan))
    with pytest.raises(StoreError, match="ids become names of files"):
        read_run(tmp_path / "runs" / "r")
    assert (prey / "thesis.txt").read_text() == "three years"


def test_two_cases_do_not_share_a_folder_where_case_does_not_matter(tmp_path):
    plan = {"run_id": "r", "cases": {"tea/a": "tea", "tea/A": "tea"}, "judged": []}
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text(json.dumps({**plan, "neighbours": []}))
    with pytest.raises(StoreError, match="upper and lower"):
        read_run(tmp_path / "r")


def test_two_slugs_of_a_store_differ_in_more_than_upper_and_lower_case(tmp_path):
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: d\n---\n")
    store = sc.RunStore(tmp_path / "store")
    store.add_skill(tmp_path / "tea")
    with pytest.raises(StoreError, match="upper and lower"):
        store.add_skill(tmp_path / "tea", slug="Tea")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../../x"])
def test_a_manifest_cannot_name_files_outside_its_store(name):
    with pytest.raises(SuiteError, match="leads out of the store"):
        file_place("suites/tea.json", "tea", name)


def test_an_input_file_cannot_leave_the_folder_of_the_agent(tmp_path):
    suite = tmp_path / "evals.json"
    inner = tmp_path / "a" / "tmp" / "x.txt"
    inner.parent.mkdir(parents=True)
    inner.write_text("x")
    row = {"id": 1, "prompt": "p", "expectations": ["e"], "fixture": "a", "files": ["a//tmp/x.txt"]}
    suite.write_text(json.dumps({"skill_name": "tea", "evals": [row]}))
    store = sc.RunStore(tmp_path / "store")
    case = store.add_suite(suite, slug="tea").cases[0]
    from skillcomp.live.plan import input_files

    with pytest.raises(SkillcompError, match="nothing was copied"):
        input_files(store, case)


def test_a_link_called_like_a_new_file_is_not_written_through(tmp_path):
    prey = tmp_path / "prey.txt"
    prey.write_text("mine")
    store = tmp_path / "store"
    store.mkdir()
    (store / "manifest.json.new").symlink_to(prey)
    write_manifest(store, created="now")
    assert prey.read_text() == "mine"


@pytest.mark.parametrize("text", ["aaa", ""])
def test_a_pattern_of_nested_counts_takes_no_memory_of_this_process(plain_memory, text):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    search = bounded_patterns.PatternSearch(20.0)
    with pytest.raises(bounded_patterns.PatternError, match=r"memory|longer than 20 seconds"):
        search.occurs(NESTED, text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_suites_and_schemas_refuse_a_pattern_that_cannot_be_compiled(plain_memory, tmp_path):
    suite = sc.read_suite(table_of(tmp_path / "tea", "a", must_include=NESTED))
    assert "is no regular expression" in suite.problems[0] and not suite.cases[0].extra.get(
        "must_include"
    )
    schema = {"properties": {"a": {"pattern": NESTED}}}
    problem = bounded_patterns.schema_problem(schema) or ""
    assert "cannot search for" in problem or "took longer" in problem


def test_a_large_pattern_that_fits_is_searched_for_in_a_process_of_its_own():
    search = bounded_patterns.PatternSearch(60.0)
    assert search.occurs("(?:[ab]{40}){600}", "ab" * 12_000)
    assert not search.occurs("(?:[ab]{40}){600}", "ab" * 100)
    with pytest.raises(bounded_patterns.PatternError, match="longer than 1 seconds"):
        bounded_patterns.PatternSearch(1.0).occurs("(a+)+$", "a" * 5000 + "b" * 2)


def test_pipes_devices_and_files_of_the_kernel_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.json").symlink_to("/dev/zero")
    for file in (tmp_path / "pipe", tmp_path / "link.json", "/proc/self/pagemap", tmp_path):
        with pytest.raises(SuiteError, match=r"not a regular file|cannot be read"):
            open_file(file, what="suite", error=SuiteError)
    os.symlink(tmp_path / "pipe", tmp_path / "results.csv")
    for name in ("link.json", "results.csv"):
        with pytest.raises(SkillcompError):
            sc.read_results(tmp_path / name)
        with pytest.raises(SkillcompError):
            sc.read_suite(tmp_path / name)
        with pytest.raises(SkillcompError):
            sc.frames.passages(tmp_path / name)


def test_an_endless_file_is_refused_by_its_size(tmp_path):
    with (tmp_path / "a.json").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(SuiteError, match="may have at most"):
        read_own(tmp_path / "a.json", what="suite", error=SuiteError)
    with pytest.raises(StoreError, match="may have at most"):
        sc.frames.passages(tmp_path / "a.json")


@pytest.mark.parametrize("command", ["answer", "check", "run", "export"])
@pytest.mark.parametrize("place", ["x" * 300, "pipe"])
def test_commands_say_one_sentence_on_a_long_name_and_on_a_pipe(tmp_path, command, place):
    os.mkfifo(tmp_path / "pipe")
    arguments = [command, place, *(["out"] if command == "export" else [])]
    code = "from skillcomp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 6


def test_a_small_parquet_file_of_a_huge_table_is_refused(tmp_path, monkeypatch):
    n = 200_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["y" * 2000]))
    pq.write_table(pa.table({"case": texts}), tmp_path / "letters.parquet")
    pq.write_table(pa.table({"case": np.zeros(n)}), tmp_path / "rows.parquet")
    monkeypatch.setattr(parquet_tables, "MAX_TABLE", 1 << 20)
    for name in ("letters", "rows"):
        with pytest.raises(sc.errors.FrameError, match=r"200,000 rows and .*million-rows\.md"):
            sc.read_results(tmp_path / f"{name}.parquet")


def test_a_small_parquet_file_of_eight_million_rows_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    n = 1_000_000
    texts = {"case": "a", "condition": "skill"}
    part = {
        name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([text]))
        for name, text in texts.items()
    }
    table = pa.table(part | {"passed": pa.array(np.ones(n, bool))})
    pq.write_table(pa.concat_tables([table] * 8), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(
        sc.errors.FrameError, match=r"8,000,000 rows; .*5,000,000.*million-rows\.md"
    ):
        sc.read_results(path)


@pytest.mark.parametrize(
    "value", [":".join(["1"] + ["59"] * 5000), "9" * 5000, "1" + ":59" * 99 + ".5"]
)
def test_a_number_of_thousands_of_digits_is_named_with_its_line(tmp_path, value):
    (tmp_path / "SKILL.md").write_text(f"---\nname: tea\ndescription: {value}\n---\n")
    (tmp_path / "task_suite.yaml").write_text(f"skill_id: tea\nversion: {value}\ntasks: []\n")
    with pytest.raises(sc.errors.SkillError, match=r"line 3: .*a number of"):
        sc.read_skill(tmp_path)
    with pytest.raises(SuiteError, match=r"line 2: .*a number of"):
        sc.read_suite(tmp_path / "task_suite.yaml")


def test_a_key_twice_in_a_json_line_is_refused(tmp_path):
    line = '{"case": "a", "condition": "skill", "passed": true, "passed": false}\n'
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(sc.errors.FrameError, match=r"line 1: .*'passed' twice"):
        sc.read_results(tmp_path / "a.jsonl")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "own.jsonl").write_text('{"a": 1, "a": 2}\n')
    store = sc.RunStore(tmp_path / "store")
    for read in (store.table, lambda name: list(store.records(name))):
        with pytest.raises(StoreError, match=r"line 1: .*'a' twice"):
            read("own")


@pytest.mark.parametrize("read", [sc.read_results, sc.read_suite, sc.read_skill, sc.RunStore])
def test_a_folder_without_permission_is_named_in_one_sentence(tmp_path, monkeypatch, read):
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may read every folder
    with pytest.raises(SkillcompError, match="no permission to read this folder"):
        read(tmp_path)
