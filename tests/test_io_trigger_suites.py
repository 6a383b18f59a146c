"""prompts.csv: every column of the trigger document, what deviates told by row and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import SuiteError
from skillcomp.io import RunStore, read_suite
from skillcomp.io.trigger_suites import COLUMNS
from skillcomp.live.plan import input_files

HEAD = "id,should_trigger,prompt"
SCHEMA = {"type": "object", "properties": {"invoked_skills": {"type": "array"}}}


def write(tmp_path: Path, *rows: str, head: str = HEAD, slug: str = "tides") -> Path:
    folder = tmp_path / "evals" / "skills" / slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return folder


def test_every_column_is_read_and_gives_its_check(tmp_path):
    head = (
        "id,should_trigger,prompt,sandbox,timeout_s,max_commands,max_input_tokens,"
        "max_output_tokens,max_total_tokens,output_schema,judge,require_files,must_include,"
        "must_not_include,fixture,required_steps"
    )
    row = (
        'a,TRUE,"Use $tides, please",Workspace-Write,60,3,100,20,120,evals/schemas/s.json,False,'
        r'a.md; b/c.md,"^one|two\|2",bad,fixtures/x,git init|git commit'
    )
    folder = write(tmp_path, row, head=head)
    (tmp_path / "evals" / "schemas").mkdir()
    (tmp_path / "evals" / "schemas" / "s.json").write_text(json.dumps(SCHEMA))
    (folder / "fixtures" / "x" / "sub").mkdir(parents=True)
    (folder / "fixtures" / "x" / "sub" / "note.txt").write_text("n")
    suite = read_suite(folder, strict=True)
    case = suite.cases[0]
    assert (suite.slug, suite.skill, case.case_id) == ("tides", "tides", "tides/a")
    assert (case.should_trigger, case.prompt_kind) == (True, "explicit")
    assert case.prompt == "Use $tides, please"
    assert case.extra == {
        **{"sandbox": "workspace-write", "timeout_s": 60, "max_commands": 3, "judge": False},
        **{"max_input_tokens": 100, "max_output_tokens": 20, "max_total_tokens": 120},
        **{"require_files": ["a.md", "b/c.md"], "must_include": ["^one", "two|2"]},
        **{"must_not_include": ["bad"], "required_steps": ["git init", "git commit"]},
        **{"output_schema": "evals/schemas/s.json", "schema": SCHEMA},
        **{"fixture": "fixtures/x", "files": ["fixtures/x/sub/note.txt"]},
    }
    by_goal = {
        "outcome": "exit_code final_message require_files-1 require_files-2 must_include-1 "
        "must_include-2",
        "efficiency": "thrashing max_commands max_input_tokens max_output_tokens max_total_tokens",
        "process": "trigger invoked_skills required_steps",
        "style": "output_schema must_not_include-1",
    }
    expected = {check: goal for goal, checks in by_goal.items() for check in checks.split()}
    assert {check.check_id: check.goal for check in case.checks} == expected
    assert read_suite(folder / "prompts.csv") == suite


def test_a_store_keeps_the_suite_with_fixture_and_schema(tmp_path):
    folder = write(
        tmp_path, "a,true,Ask,schema.json,fix", head=f"{HEAD},output_schema,fixture", slug="tides"
    )
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "fix").mkdir()
    (folder / "fix" / "in.txt").write_text("given")
    store = RunStore(tmp_path / "store")
    store.add_suite(folder, slug="tides-triggers")
    again = RunStore(tmp_path / "store")
    suite = again.suites["tides-triggers"]
    assert suite.skill == "tides" and suite.problems == () and again.problems == ()
    case = suite.cases[0]
    assert case.extra["schema"] == SCHEMA
    ((name, place),) = input_files(again, case)
    assert name == "in.txt" and place.read_text() == "given"
    frame = sc.frames.cases(again)
    assert frame[["skill", "case_id", "prompt_kind"]].to_dict("records") == [
        {"skill": "tides", "case_id": "tides-triggers/a", "prompt_kind": "implicit"}
    ]
    assert frame["should_trigger"].tolist() == [True]


def test_a_fixture_that_is_one_file_lands_under_its_own_name(tmp_path):
    folder = write(tmp_path, "a,true,Ask,in.txt", head=f"{HEAD},fixture")
    (folder / "in.txt").write_text("given")
    store = RunStore(tmp_path / "store")
    case = store.add_suite(folder).cases[0]
    assert [name for name, _ in input_files(store, case)] == ["in.txt"]


@pytest.mark.parametrize(
    ("prompt", "trigger", "given", "kind"),
    [
        ("Use $tides now", "true", "", "explicit"),
        ("use $TIDES.", "true", "", "explicit"),
        ("Use $tides-table now", "true", "", "implicit"),
        ("When is high water?", "true", "", "implicit"),
        ("Use $tides", "False", "", "negative"),
        ("When is high water?", "true", "explicit", "explicit"),
        ("Use $tides", "yes", "", None),
    ],
)
def test_the_kind_of_a_prompt_is_worked_out_or_given(tmp_path, prompt, trigger, given, kind):
    folder = write(tmp_path, f"a,{trigger},{prompt},{given}", head=f"{HEAD},kind")
    assert read_suite(folder).cases[0].prompt_kind == kind


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        ("", "a,maybe,Ask", r"row 2 \(id a\), column should_trigger: found 'maybe'; allowed: true"),
        ("", ",true,Ask", "row 2, column id: is empty; 'row-2' is taken"),
        ("", "a,true,", r"row 2 \(id a\), column prompt: is empty"),
        ("", "a,true,Ask,more", "row 2: 4 cells; the first row has 3"),
        ("timeout_s", "a,true,Ask,0", "column timeout_s: found '0'; allowed: a whole"),
        ("max_commands", "a,true,Ask,-1", "column max_commands: found '-1'; allowed: a whole"),
        ("sandbox", "a,true,Ask,readonly", "column sandbox: .*Did you mean 'read-only'"),
        ("kind", "a,true,Ask,negative", "kind: found 'negative', but should_trigger is"),
        ("must_include", "a,true,Ask,(", r"column must_include: '\(' is no regular expression"),
        ("require_files", "a,true,Ask,../x", "column require_files: '../x' leaves the working"),
        ("require_files", "a,true,Ask,/etc/x", "column require_files: '/etc/x' leaves"),
        ("fixture", "a,true,Ask,none", "column fixture: there is nothing at 'none' in 'tides/'"),
        ("fixture", "a,true,Ask,out", "column fixture: there is nothing at 'out'"),
        ("fixture", f"a,true,Ask,{'n' * 5000}", "column fixture: there is nothing at 'nnn"),
        (
            "fixture",
            "a,true,Ask,round",
            "'tides/round/link': a link that leads to no file",
        ),
        (
            "fixture",
            "a,true,Ask,leaky",
            "'tides/leaky/link': the link leads out of tides/",
        ),
        ("output_schema", "a,true,Ask,none.json", "column output_schema: there is no file 'none"),
        ("output_schema", "a,true,Ask,bad.json", "'bad.json' is no JSON Schema"),
        ("output_schema", "a,true,Ask,torn.json", "'torn.json' cannot be read as JSON"),
        ("must_inclde", "a,true,Ask,x", "row 1, column must_inclde: .*Did you mean 'must_include'"),
    ],
)
def test_what_deviates_is_told_by_row_and_column(tmp_path, head, row, message):
    folder = write(tmp_path, row, head=f"{HEAD},{head}" if head else HEAD)
    (folder / "bad.json").write_text('{"type": "nothing"}')
    (folder / "torn.json").write_text("{")
    (tmp_path / "secret").write_text("s")
    (folder / "out").symlink_to(tmp_path)
    (folder / "leaky").mkdir()
    (folder / "round").mkdir()
    (folder / "round" / "link").symlink_to(folder / "round" / "link")
    (folder / "leaky" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(SuiteError, match=message):
        read_suite(folder, strict=True)
    assert len(read_suite(folder).cases) == 1


DEEP = '{"properties":{"a":' * 510 + "{}" + "}}" * 510


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (DEEP, "'s.json' is no JSON Schema (it is nested too deeply)"),
        ('{"$schema": []}', "'s.json' is no JSON Schema (TypeError("),
        ('{"pattern": "("}', "'s.json' is no JSON Schema ("),
        (f'{{"pattern": "{"(" * 900}{")" * 900}"}}', "'s.json' is no JSON Schema ("),
        ('{"pattern": "a{99999999999999}"}', "'s.json' is no JSON Schema ("),
        ('{"allOf": [{"patternProperties": {}}]}',
         "patternProperties is not supported; list the properties"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_a_problem_of_its_row(tmp_path, schema, message):
    folder = write(tmp_path, "a,true,Ask,s.json", head=f"{HEAD},output_schema")
    (folder / "s.json").write_text(schema)
    (problem,) = read_suite(folder).problems
    assert problem.startswith("row 2 (id a), column output_schema: ") and message in problem
    assert len(problem) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,prompt\na,b\n", "no column should_trigger; expected at least id, should_trigger"),
        ("", "the first row has no column id"),
        ("id;should_trigger;prompt\na;true;x\n", "Write commas between the columns, not ';'"),
        ('id,should_trigger,prompt\na,true,"open\n', "not CSV"),
    ],
)
def test_a_file_that_is_no_table_of_prompts_is_refused(tmp_path, text, message):
    folder = write(tmp_path)
    (folder / "prompts.csv").write_text(text)
    with pytest.raises(SuiteError, match=message):
        read_suite(folder)


def test_a_row_below_a_cell_of_several_lines_is_told_with_its_line(tmp_path):
    folder = write(tmp_path, 'a,true,"one', "two", 'three"', "b,maybe,Ask", "c,true")
    assert read_suite(folder).problems[0].startswith("row 3, line 5 (id b), column should_trigger")
    assert "row 4, line 6: 2 cells" in read_suite(folder).problems[1]


def test_ids_that_stand_twice_and_empty_tables_are_problems(tmp_path):
    assert "'a' stands 2 times" in read_suite(write(tmp_path, "a,true,x", "a,true,y")).problems[0]
    assert "there are no cases" in read_suite(write(tmp_path)).problems[0]


_CELLS = st.text(alphabet='tru,;|"\n\r\0()[]{}*+?^$./~0129é\\\\', max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(st.lists(_CELLS, max_size=18), max_size=4), st.booleans())
def test_no_table_whatever_it_holds_raises_anything_else(tmp_path, rows, quoted):
    lines = [",".join(f'"{c}"' if quoted else c for c in row) for row in rows]
    folder = write(tmp_path, *lines, head=",".join(COLUMNS))
    try:
        suite = read_suite(folder)
    except SuiteError:
        return
    text = "\n".join(lines)
    assert len(suite.cases) <= len(text) + len(rows)  # a carriage return begins a row too
