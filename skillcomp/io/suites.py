"""Read suites of every format.

A field such as the dimension of a case has a closed vocabulary, defined in sections 2.1 and 6.1 of
comprehension-report.md, one of the documents that this package implements. If a file has another
word in such a field, the word is kept and listed in ``Suite.problems``. If the word is known from
other published files, its problem says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from os.path import isdir
from pathlib import Path
from typing import Any, get_args

import frontmatter
import orjson
import yaml

from skillcomp.errors import SuiteError, literal, problem_list, suggest
from skillcomp.io.files import (
    JsonObject,
    as_object,
    as_path,
    as_text,
    decode,
    digest,
    read_bytes,
    require_ids,
    shown,
    strict_json,
)
from skillcomp.io.task_suites import FILE_NAME, read_tasks
from skillcomp.io.trigger_suites import (
    FILE,
    KINDS,
    SuiteReader,
    is_evals,
    is_trigger_set,
    read_listed,
    read_prompts,
    repeats,
)
from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    KNOWLEDGE,
    Case,
    Check,
    CheckKind,
    Goal,
    Suite,
    dimension_family,
)

__all__ = ["VOCABULARY", "read_suite"]

PLUGIN_EVAL = (
    "cases of claude plugin eval; run them with `claude plugin eval` and read its results with "
    "sc.read_results. A suite of skillcomp is an evals.json, a prompts.csv or a task_suite.yaml."
)
_PLUGIN_FILES = ("prompt.md", "case.yaml")
_PLUGIN_KEY = "claude_plugin_eval"  # JSON with this key holds the cases in an old store
MAX_BYTES = 1 << 24  # 16 MiB, enough for thousands of cases

# the words that the comprehension report allows, by field
VOCABULARY: Mapping[str, tuple[str, ...]] = {
    "dimension": (
        *("definition", "mental_model", "purpose", "boundary", "application", "rule_conflict"),
        "anti_pattern",
    ),
    "comprehension_dimension": DIMENSIONS,
    "concept_field": CONCEPT_FIELDS,
    "transfer": ("near", "far"),
    "knowledge": KNOWLEDGE,
    "substance": ("domain", "contradiction-check"),
    "calibration": ("semantic", "process"),
    "truth_mode": (
        *("code_verification", "conceptual_correctness_plus_repo_application"),
        "process_correctness",
    ),
    "skill_type": ("concept", "workflow"),
    "criticality": ("normal", "high", "critical"),
}
# by field, words that are not in the comprehension report, but in public files or in the later
# comprehension schema
ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "dimension": ("taxonomy", "analogy", "misconception"),
    "substance": ("concept", "procedure", "boundary"),
    "calibration": ("exact-match", "structural"),
    "truth_mode": (
        *("output_correctness", "conceptual_correctness", "spec_grounded", "principle_grounded"),
    ),
    "skill_type": ("procedure", "router", "overlay"),
    "criticality": ("low", "medium"),
}
# keys that the comprehension report requires "de facto" in each case; missing ones are reported
_EXPECTED = (*ELSEWHERE, "truth_sources")
# known keys of a case; the entries with other keys are kept in ``extra``
_CASE_KEYS = (
    *("id", "prompt", *VOCABULARY, "truth_sources", "expected_behaviors", "expected_reasoning"),
    *("contrast_of", "should_trigger", "prompt_kind", "right_skills", "skill_name"),
)
_SUITE_KEYS = ("skill_name", "subject", "adjacent_concepts", "grounding_note")
# skillcomp's own keys in a suite; they are kept in ``extra`` without a note in ``problems``
_OURS = ("perturbation",)
# skillcomp's own keys in a case; live.graders.gold_answers, suite_files and live.probe read them
_CASE_OURS = ("gold_answers", "files", "refusal")
# names that a suite's file may have inside a folder; the first one that exists is read
_IN_FOLDER = (FILE_NAME, FILE, "evals.json", "evals/evals.json")


def read_suite(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    slug: str | None = None,
    skill: str | None = None,
) -> Suite:
    r"""Read one suite: its cases, their checks, and every deviation from the format.

    Parameters
    ----------
    path : str or path
        The file of a suite, or a folder that contains ``task_suite.yaml``, ``prompts.csv``,
        ``evals.json`` or ``evals/evals.json``. A comprehension suite is a JSON file with
        ``skill_name`` and ``evals``.
        A trigger suite is a CSV file ``evals/skills/<slug>/prompts.csv`` with the columns ``id``,
        ``should_trigger`` and ``prompt``; the notes list optional columns. A task suite is a YAML
        file with ``skill_id``, ``version`` and ``tasks``.
    strict : bool, default False
        Raise one error that lists every problem instead of keeping them in ``problems``.
    slug : str, optional
        The first half of every ``case_id``; when not given, the folder's name for ``prompts.csv``,
        the ``skill_id`` for ``task_suite.yaml``, the skill for an evals.json (with ``-triggers``
        for a trigger set), and the file's stem for all others. Set it if several files are called
        ``comprehension.json``.
    skill : str, optional
        The skill of the suite, if its file does not name it; by default the slug.

    Returns
    -------
    Suite
        The cases in file order. A ``case_id`` is ``slug/id`` with the id in the file;
        ``contrast_of`` is a full case_id as well. Words outside the vocabulary of the comprehension
        report are kept in their field, unknown keys in ``extra``, and both are listed in
        ``problems`` with the place, the value, the allowed values and the nearest match. A
        behaviour of unknown kind counts as positive. Keys of a behaviour for which `Check` has no
        field are in the case's ``extra`` under ``checks``, by check id.

    Raises
    ------
    SuiteError
        If the file is missing, is larger than 16 MiB, cannot be parsed (the message names the
        line), has no list of cases, or has an id that the notes exclude. With ``strict``, any
        problem raises; one message lists all.

    Notes
    -----
    The ids of a suite, its skill and its cases consist of visible characters, at most 200 bytes
    each. They do not begin or end with a dot or blank, begin with ``-`` or ``~``, contain a
    backslash, or name a drive or device, also after Unicode normalisation (NFKC).

    Repeated case ids, and repeated check ids within a case, are problems; the cases are kept
    unchanged, and the frames refuse them.

    A trigger suite's further columns are ``sandbox`` (read-only, workspace-write), ``timeout_s``,
    ``max_commands``, ``max_input_tokens``, ``max_output_tokens``, ``max_total_tokens``,
    ``output_schema`` (a JSON Schema without ``patternProperties``, in the folder of the table or of
    the repository), ``judge``,
    ``require_files`` (separated by ``;``), ``must_include``, ``must_not_include`` and
    ``required_steps`` (patterns separated by ``|``; the steps are commands in this order),
    ``fixture`` (a folder next to the table with files for the agent), ``kind`` and ``right_skills``
    (every skill that should trigger, separated by ``;``; an empty cell means no skill). They are
    kept in the ``extra`` of a case; problems name row and column. A ``\|`` is a ``|`` inside a
    pattern; the program in trigger-evals.md splits at every ``|``. Patterns are searched line by
    line and ignore case. A missing kind of a prompt is inferred: negative if the skill should
    not trigger, explicit if the prompt names ``$skill``, and implicit otherwise.

    A task has one check: ``check_id`` is the type of the judge, and ``judge`` is the judge. A task
    suite that breaks a rule of its format cannot be used for grading, so this is always an error,
    which lists every fault with its line. The rules concern ``skill_id``, ``version`` "1.0", unique
    ids that are not empty, prompts, judges of a known type with their required keys, and an
    existing test file below ``fixtures/``. Unknown keys are listed in ``problems``.
    ``reference/<id>.*`` next to the file may contain an ideal answer to each task.

    Suites of other tools are recognised by their content. In skill-creator's ``evals.json``, each
    expectation is a check that a grader judges, and ``files`` (relative to the skill's folder) are
    installed for the agent. A trigger set is a list of ``query`` and ``should_trigger``. All
    other parts (such as assertions with a ``type``) are kept in the case's ``extra``, under their
    key or under ``unmapped``, and are listed in ``problems``. The cases of ``claude plugin eval``
    are run by that program; :func:`skillcomp.read_results` reads its results.
    """
    file, data = suite_source(as_path(path, "read_suite", SuiteError))
    if file.suffix in (".yaml", ".yml"):
        suite = read_tasks(data, file, slug)
    else:
        text = decode(data, file, SuiteError)
        if file.suffix == ".csv":
            slug = slug or (file.resolve().parent.name if file.name == FILE else file.stem)
            suite = read_prompts(text, file, slug, skill or slug)
        else:
            problems: list[str] = []
            content = _load_json(text, file, problems)
            if isinstance(content, dict) and _PLUGIN_KEY in content:
                suite = _recorded_plugin_cases(content, slug or file.stem, skill)
            elif (is_set := is_trigger_set(content)) or is_evals(content):
                suite = read_listed(content, file, slug, skill, is_set=is_set)
            elif isinstance(content, dict):
                suite = _Reader(slug or file.stem, skill).suite(content, file)
            else:
                found = literal(content)
                raise SuiteError(f"{file}: found {found}; expected an object with 'evals'.")
            suite = suite.model_copy(update={"problems": (*problems, *suite.problems)})
    ids = [suite.slug, suite.skill, *(case.case_id for case in suite.cases)]
    require_ids(ids, shown(file), SuiteError)
    suite = suite.model_copy(update={"sha256": digest(data), "path": shown(file)})
    if strict and suite.problems:
        raise SuiteError(problem_list(shown(file), suite.problems))
    return suite


def suite_source(path: Path) -> tuple[Path, bytes]:
    """Return the path and the bytes of a suite's file, which may be inside the folder ``path``.

    In a folder, the first of these is read: task_suite.yaml, prompts.csv, evals.json,
    evals/evals.json.
    """
    if path.name in _PLUGIN_FILES:
        raise SuiteError(f"{path}: {PLUGIN_EVAL}")
    if isdir(path):
        file = next((path / name for name in _IN_FOLDER if (path / name).is_file()), None)
        if file is None and any(path.glob("**/graders/*.md")):
            raise SuiteError(f"{path}: {PLUGIN_EVAL}")
        path = file or path / FILE
    data = read_bytes(path, root=path.parent, max_bytes=MAX_BYTES, what="suite", error=SuiteError)
    return path, data


def holds_suite(folder: Path) -> bool:
    """Return whether `read_suite` finds a suite in a folder."""
    return any((folder / name).is_file() for name in _IN_FOLDER)


def _recorded_plugin_cases(content: JsonObject, slug: str, skill: str | None) -> Suite:
    """Return the cases of ``claude plugin eval`` that an old store holds.

    The prompts and the names of the checks are read, so that recorded verdicts find their cases.
    """
    cases = []
    for name, files in content[_PLUGIN_KEY].items():
        case = yaml.safe_load(files.get("case.yaml", "")) or {}
        prompt = frontmatter.loads(files.get("prompt.md", ""))
        named = {**case, **prompt.metadata}
        listed = [str(grader.get("name")) for grader in case.get("graders") or []]
        stems = [Path(file).stem for file in files if file.startswith("graders/")]
        rule = {"type": "claude plugin eval"}
        checks = [Check(check_id=each, rule=rule) for each in dict.fromkeys([*listed, *stems])]
        text = prompt.content or str(case.get("prompt", ""))
        ident = named.get("name") or name.rpartition("/")[2]
        cases.append(Case(case_id=f"{slug}/{ident}", prompt=text.strip(), checks=tuple(checks)))
    skill = skill or str(content.get("plugin") or slug)
    return Suite(slug=slug, skill=skill, kind="plugin-eval", cases=tuple(cases))


def _load_json(text: str, file: Path, problems: list[str]) -> Any:
    repeated: list[str] = []
    try:
        content = strict_json(text, repeated)
    except orjson.JSONDecodeError as cause:
        place = f"{file}, line {cause.lineno}, column {cause.colno}"
        raise SuiteError(f"{place}: not JSON ({cause.msg}).") from cause
    problems += [f"the key '{key}' is repeated in one object; the last counts." for key in repeated]
    return content


class _Reader(SuiteReader):
    """Turn the parsed file into records, and collect deviations from the format."""

    def __init__(self, slug: str, skill: str | None) -> None:
        super().__init__(slug)
        self.skill = skill
        self.own: set[str] = set()

    def suite(self, content: JsonObject, file: Path) -> Suite:
        rows = content.get("evals")
        if not isinstance(rows, list):
            why = f"'evals' is {literal(rows)}" if "evals" in content else "'evals' is missing"
            raise SuiteError(f"{file}: {why}; expected a list of cases.{suggest('evals', content)}")
        if not rows:
            self.note("evals", "the list is empty.")
        # a suite may use its own words for dimension and comprehension_dimension
        for name in ("dimension", "comprehension_dimension"):
            values = (as_object(row).get(name) for row in rows)
            words = {value for value in values if isinstance(value, str)}
            expected = {*VOCABULARY[name], *ELSEWHERE.get(name, ())}
            if dimension_family(words) is not DIMENSIONS and not words & expected:
                self.own.add(name)
        cases = [self.case(row, f"evals[{i}]", i) for i, row in enumerate(rows)]
        self.problems += repeats("evals", (case.own_id for case in cases))
        ids = {case.case_id for case in cases}
        for i, case in enumerate(cases):
            other, place = case.contrast_of, f"evals[{i}] (id {case.own_id})"
            if other == case.case_id:
                self.note(place, f"contrast_of: '{other}' is the case itself.")
            elif other is not None and other not in ids:
                self.note(place, f"contrast_of: '{other}' is no case of this suite.")
        of_cases = []
        for of_case in (as_object(row).get("skill_name") for row in rows):
            if of_case and of_case not in of_cases:
                of_cases.append(of_case)
        is_of_cases = len(of_cases) == 1 and content.get("skill_name") is None
        whole = {"skill_name": of_cases[0]} if is_of_cases else {}
        skill = self.text({**content, **whole}, "skill_name", "")
        taken = skill or self.skill or self.slug
        for of_case in of_cases:
            if of_case != taken:
                rule = "a suite is about one skill; cases about another belong to its own"
                self.note("skill_name", f"found {literal(of_case)}; {rule}.")
        if skill is None and self.skill is None:
            self.note("skill_name", f"missing; '{self.slug}' is taken.")
        return Suite(
            slug=self.slug,
            skill=taken,
            cases=tuple(cases),
            subject=self.text(content, "subject", ""),
            adjacent_concepts=self.texts(content, "adjacent_concepts", ""),
            grounding_note=self.text(content, "grounding_note", ""),
            extra=self.others(content, (*_SUITE_KEYS, "evals"), "", _OURS),
            problems=tuple(self.problems),
        )

    def case(self, row: Any, place: str, index: int) -> Case:
        row = self.object(row, place)
        ident = self.ident(row.get("id"), place, index)
        place = f"{place} (id {ident})"
        if missing := [key for key in _EXPECTED if key not in row]:
            self.note(place, f"missing {', '.join(missing)}.")
        prompt = self.prompt(row, place)
        words: JsonObject = {key: self.word(row, key, place) for key in VOCABULARY}
        dimension, field = words["comprehension_dimension"], words["concept_field"]
        right = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False)).get(dimension or "", field)
        if field in CONCEPT_FIELDS and field != right:
            self.note(place, f"concept_field: found '{field}'; {dimension} asks about '{right}'.")
        checks, odd = self.checks(row, place)
        extra = self.others(row, _CASE_KEYS, place, _CASE_OURS)
        kind = row.get("prompt_kind")
        if kind not in (None, *KINDS):
            self.note(place, f"prompt_kind: found {literal(kind)}; allowed: {', '.join(KINDS)}.")
            kind = None
        sources = self.texts(row, "truth_sources", place)
        reasoning = self.text(row, "expected_reasoning", place)
        contrast = row.get("contrast_of")
        if isinstance(contrast, bool) or not isinstance(contrast, str | int | None):
            self.note(place, f"contrast_of: found {contrast!r}; expected an id.")
            contrast = None
        if contrast is not None:
            contrast = f"{self.slug}/{str(contrast).removeprefix(f'{self.slug}/')}"
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt,
            checks=checks,
            truth_sources=sources,
            expected_reasoning=reasoning,
            contrast_of=contrast,
            should_trigger=self.trigger(row, place),
            prompt_kind=kind,
            right_skills=self.texts(row, "right_skills", place) if "right_skills" in row else None,
            extra={**extra, "checks": odd} if odd else extra,
            **words,
        )

    def object(self, value: Any, place: str) -> JsonObject:
        if isinstance(value, dict):
            return value
        self.note(place, f"found {literal(value)}; expected an object.")
        return {}

    def ident(self, value: Any, place: str, index: int) -> str:
        if as_text(value):
            return str(value)
        ident = f"case-{index + 1}"
        self.note(place, f"id: found {value!r}; expected a number or text; '{ident}' is taken.")
        return ident

    def word(self, row: JsonObject, key: str, place: str) -> str | None:
        value = self.text(row, key, place)
        if value is None or key in self.own or value in VOCABULARY[key]:
            return value
        hint = suggest(value, VOCABULARY[key])
        if value in ELSEWHERE.get(key, ()):
            hint = " A word of other published files, kept."
        self.note(place, f"{key}: found '{value}'; allowed: {', '.join(VOCABULARY[key])}.{hint}")
        return value

    def checks(self, row: JsonObject, place: str) -> tuple[tuple[Check, ...], JsonObject]:
        listed = self.items(row, "expected_behaviors", place)
        place = f"{place}: expected_behaviors"
        read = [self.check(item, f"{place}[{i}]", i) for i, item in enumerate(listed)]
        self.problems += repeats(place, (check.check_id for check, _ in read))
        odd = {check.check_id: others for check, others in read if others}
        return tuple(check for check, _ in read), odd

    def check(self, item: Any, place: str, index: int) -> tuple[Check, JsonObject]:
        if isinstance(item, str):
            self.note(place, "plain text; expected an object with id and kind.")
            return Check(check_id=f"behavior-{index + 1}", description=item), {}
        item = self.object(item, place)
        ident = item.get("id")
        if not isinstance(ident, str) or not ident.strip():
            taken = f"behavior-{index + 1}"
            self.note(place, f"id: found {ident!r}; expected text; '{taken}' is taken.")
            ident = taken
        place = f"{place} ({ident})"
        words = {"kind": item.get("kind"), "goal": item.get("goal", "outcome")}
        bad: JsonObject = {}
        for key, allowed in (("kind", get_args(CheckKind)), ("goal", get_args(Goal))):
            value = words[key]
            if value not in allowed:
                words[key] = allowed[0]
                bad |= {key: value} if value is not None or key == "goal" else {}
                sentence = f"found {value!r}; allowed: {', '.join(allowed)}; taken as {allowed[0]}."
                self.note(place, f"{key}: {sentence}{suggest(str(value), allowed)}")
        odd = self.others(item, ("id", "kind", "description", "goal"), place) | bad
        sentence = self.text(item, "description", place) or ""
        check = Check(
            check_id=ident, check_kind=words["kind"], goal=words["goal"], description=sentence
        )
        return check, odd

    def texts(self, row: JsonObject, key: str, place: str) -> tuple[str, ...]:
        value = row.get(key)
        if value is None:
            return ()
        items = value if isinstance(value, list) else [value]
        texts = tuple(text for text in items if isinstance(text, str))
        if not isinstance(value, list) or len(texts) < len(items):
            self.note(place, f"{key}: found {literal(value)}; expected a list of texts.")
        return texts
