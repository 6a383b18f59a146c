"""Find faults that weaken a suite or spoil its measurements, before money is spent.

The rules are those of the comprehension report (5.1 to 5.12, 7.4, 8.2, 8.4, 8.8). A lint reads
files; it changes nothing and calls no model. Test files of task suites are searched for code that
executes an answer in the test's own process.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from os import PathLike
from os.path import exists, isfile
from pathlib import Path, PurePosixPath
from warnings import catch_warnings

import pandas as pd

from skillcomp.errors import SuiteError, literal, plural, require_type, suggest
from skillcomp.grading_rules import forbids_copying
from skillcomp.io.files import decode, read_bytes
from skillcomp.io.skills import sections_of
from skillcomp.io.task_suites import FIXTURES, task_files
from skillcomp.lint.lint_rules import Finding, RuleMessages, findings_frame, primitives
from skillcomp.ngrams import match, shared_ngrams
from skillcomp.overlap import case_distance
from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    RUBRIC,
    Case,
    Check,
    Skill,
    Suite,
    dimension_family,
)

FEWEST = 7  # A suite should have at least this many cases (comprehension report, 6.3).
TASKS = (5, 10)  # Fewest and most tasks that the format of task suites advises.
# The prompt of a far case must not share a run of this many content tokens with its skill
# (comprehension report, 7.4, rule R4).
FAR_N = 4
# A shared run of this many content tokens counts as a leak. In the 84 prompts of the pilot, runs of
# 4 tokens give no false alarm; runs of 3 would flag mere names.
LEAK_N = 4
# The pass criteria of these dimensions mention the primitives of the mental model (comprehension
# report, 5.3 and 5.8).
WITH_PRIMITIVES = ("C2", "C7")

_FIELD_OF = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
_SMALL = frozenset(["the", "and", "for", "not", "its", "that", "this", "with", "from"])
_ENDING = re.compile(r"(?:ies|ing|ed|es|s|y|e)$")
_MOST_SHOWN = 80  # Maximum number of characters that a finding quotes.
MAX_BYTES = 1 << 22  # Maximum size of a truth source in bytes; people should be able to read it.
_PARTS = re.compile(
    r"(?P<path>[^#]*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?:#(?P<anchor>.*))?"
)
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_MARKDOWN = (".md", ".markdown")
# A suite should have at least this many cases of dimension C2 (comprehension report, 5.3).
FEWEST_C2 = 3
SKILLS = 3  # A prompt with this many names of skills asks for several skills at once.

# Match the role of the listener in a prompt such as "Explain it to a product manager."
_ROLE = re.compile(
    r"\b(?:to|for) (?:an?|the|your|my|our) ([\w' -]{3,40}?)(?=[^\w' -]|\s(?:who|that)\b|$)", re.I
)


def lint_suite(
    suite: Suite, skill: Skill | None = None, *, root: str | PathLike[str] | None = None
) -> pd.DataFrame:
    """List the faults that weaken a suite or spoil its measurements.

    Parameters
    ----------
    suite : Suite
        The suite.
    skill : Skill, optional
        The suite's skill. Without it, three things are not checked: far prompts, primitives, and
        leaks of the concept field. A finding then says so.
    root : path, optional
        The folder to which `truth_sources` are relative. By default it is the parent of the
        suite's folder if this parent contains ``skills``, else the suite's folder. If the suite has
        no file, only sources in the skill are looked up. Nothing outside the folder is ever read.

    Returns
    -------
    pandas.DataFrame
        One row per finding: first those about the whole suite, then case by case in file order. No
        rows for a suite without findings. All columns are text.

        - ``place``: the case_id, or the suite.
        - ``rule``: the rule that was broken.
        - ``severity``: ``error`` or ``warning``.
        - ``message``: what was found and what is allowed.
        - ``reason``: why it matters.
        - ``case_id``: the case; missing for a finding about the whole suite.
        - ``file``: missing here; :func:`skillcomp.lint.lint_path` names the file.

    Raises
    ------
    SuiteError
        If `suite` is not a Suite (but, for example, a path), or `skill` is not its skill.

    See Also
    --------
    lint_skill : The findings about a SKILL.md.

    Notes
    -----
    A task suite is checked for its number of tasks (five to ten) and for the share of tasks that
    a model scores (at most half). All other rules of this function concern comprehension. Suites of
    other tools are not checked here; `lint_path` lists the problems found while reading them.

    A suite may name its own dimensions instead of C1 to C9; then C1 to C9 are not expected.

    Errors spoil the measurements: a case with no or several dimensions; a case without behaviours;
    duplicate behaviour ids; no negative behaviour or no anti-quote behaviour in the whole suite;
    truth sources that do not resolve; a ``contrast_of`` that names a missing case, or a case with
    the same prompt or behaviours.

    Gaps in a suite are warnings, which ``skillcomp check`` shows as advice: fewer than seven cases;
    a dimension of C1 to C9 without a case; one or two cases of C2; two or more prompts of
    C1 that name the same role for the explanation, or no role; a dimension of C1 to C7 without a
    far case; missing fields of the format in the comprehension report.

    If no case of a suite has one of the keys comprehension_dimension, concept_field, transfer and
    expected_behaviors, the suite has the older format, which remains valid: its only errors are
    truth sources that do not resolve.

    Other warnings are heuristics, so a person should judge them. A prompt should name fewer than
    three skills (the suite's skill, its ``adjacent_concepts``, or a ``$name``). Texts are compared
    by the content tokens of the comprehension report (A.3): a far prompt should share no run of
    four tokens with the skill (R4), and no prompt should share such a run with its expected
    reasoning, positive behaviours or concept field. A shared run can be a mere name, and a leak in
    other words is not detected. Primitives are the basic terms of the mental model (``Name: what it
    is``, bold or code). The behaviours of C2 and C7 are searched for the word stems of the
    primitives; a behaviour that asks for a primitive in other words is not recognized.

    Examples
    --------
    >>> from skillcomp.records import Case, Check, Suite
    >>> case = Case(case_id="tea/1", prompt="What is it?", comprehension_dimension="C1")
    >>> findings = lint_suite(Suite(slug="tea", skill="tea", cases=(case,)))
    >>> findings.loc[findings["case_id"].eq("tea/1"), "rule"].tolist()
    ['transfer_missing', 'behaviours_missing', 'truth_missing']
    """
    require_type("lint_suite: suite", suite, Suite, "sc.read_suite(path)", SuiteError)
    if skill is not None:
        require_type("lint_suite: skill", skill, Skill, "sc.read_skill(path)", SuiteError)
    return findings_frame(suite_findings(suite, skill, root=root))


def suite_findings(
    suite: Suite, skill: Skill | None = None, *, root: str | PathLike[str] | None = None
) -> list[Finding]:
    """Return the findings of `lint_suite` as records."""
    if skill is not None and skill.slug != suite.skill:
        raise SuiteError(
            f"lint_suite: suite '{suite.slug}' is about the skill '{suite.skill}'; found "
            f"'{skill.slug}'."
        )
    place = f"suite {suite.slug}"
    if suite.kind == "tasks":
        return [Finding(*message, place) for message in _task_messages(suite)]
    if suite.kind != "comprehension":
        return []  # all other rules are about comprehension suites
    lint = SuiteLint(suite, skill, _sources_root(suite) if root is None else Path(root))
    findings = [Finding(*message, place) for message in lint.messages()]
    for case in suite.cases:
        messages = lint.case_messages(case)
        findings += (Finding(*message, case.case_id, case.case_id) for message in messages)
    fields = ("comprehension_dimension", "concept_field", "transfer", "checks")
    if not suite.cases or any(getattr(case, name) for case in suite.cases for name in fields):
        return findings
    # advice only: no case has a field of this package
    return [
        entry if entry.rule.startswith("truth_") else entry._replace(severity="warning")
        for entry in findings
    ]


def _task_messages(suite: Suite) -> RuleMessages:
    n_tasks, (low, high) = len(suite.cases), TASKS
    if not low <= n_tasks <= high:
        yield "tasks_number", f"{plural(n_tasks, 'task')}; advised are {low} to {high}."
    kinds = [check.judge.type for case in suite.cases for check in case.checks if check.judge]
    n_rubrics = kinds.count("llm-rubric")
    if 2 * n_rubrics > n_tasks:
        message = (
            f"{n_rubrics} of {n_tasks} tasks are scored by a model; prefer contains or pytest "
        )
        yield "tasks_rubric", message + "where words or structure tell a good answer."


def _sources_root(suite: Suite) -> Path | None:
    file = Path(suite.path)
    if not suite.path or not isfile(file):
        return None
    above = file.resolve().parent.parent
    return above if (above / "skills").is_dir() else file.resolve().parent


def _word_stems(text: str) -> set[str]:
    return {_ENDING.sub("", word) for word in {*re.findall(r"[a-z]{3,}", text.lower())} - _SMALL}


class SuiteLint:
    """The rules for a comprehension suite and for its cases.

    Attributes
    ----------
    suite : Suite
        The suite.
    skill : Skill or None
        The suite's skill, if known.
    root : Path or None
        The folder below which truth sources are looked up.
    covered, family : collection of str
        The dimensions of the cases (None for a case without one), and those of a full suite.
    names : tuple of str
        Primitives (basic terms) of the skill's mental model.
    distinctive : tuple of str
        Primitives of which a behaviour must name at least one. These are the `names` that are not
        words of the skill's own name, or all `names` if none are left.
    text : str
        The skill's text, with which prompts are compared.
    """

    def __init__(self, suite: Suite, skill: Skill | None, root: Path | None) -> None:
        self.suite, self.skill, self.root = suite, skill, root
        self._source_text = cache(self._read_source)
        self.covered = {case.comprehension_dimension for case in suite.cases}
        self.family = dimension_family(self.covered)
        concept = skill.concept if skill else {}
        self.names = primitives(concept.get("mental_model", ""))
        # Many behaviours contain the name of the skill. If a primitive is a word of this name, its
        # occurrence does not show that a behaviour asks for the primitive.
        own = _word_stems(f"{skill.name} {skill.slug}".replace("-", " ")) if skill else set()
        distinctive = (name for name in self.names if " " in name or not _word_stems(name) <= own)
        self.distinctive = tuple(distinctive) or self.names
        self.text = ""
        if skill:
            self.text = skill.text or "\n\n".join([skill.body, *concept.values()])

    def messages(self) -> RuleMessages:
        """Yield rule and message of each finding about the whole suite."""
        for rules in (self._check_coverage, self._check_all_behaviours, self._check_knowledge):
            yield from rules()

    def case_messages(self, case: Case) -> RuleMessages:
        """Yield rule and message of each finding about a case."""
        for rules in (
            self._check_dimension,
            self._check_prompt,
            self._check_behaviours,
            self._check_leaks,
            self._check_references,
        ):
            yield from rules(case)

    def _check_coverage(self) -> RuleMessages:
        cases, covered = self.suite.cases, self.covered
        if len(cases) < FEWEST:
            yield "cases_few", f"{plural(len(cases), 'case')}; expected at least {FEWEST}."
        missing = [name for name in self.family if name not in covered]
        expected = "expected one or more for each of C1 to C9."
        if covered == {None}:
            message = f"none of the {len(cases)} cases names a comprehension_dimension; {expected}"
            yield "dimensions_missing", message
        elif missing:
            titles = ", ".join(f"{name} ({RUBRIC[name][0]})" for name in missing)
            yield "dimensions_missing", f"no case for {titles}; {expected}"
        near = covered - {case.comprehension_dimension for case in cases if case.transfer == "far"}
        if lacking := [name for name in DIMENSIONS[:7] if name in near]:
            message = f"no far case for {', '.join(lacking)}; expected one for each of C1 to C7."
            yield "far_missing", message
        n_c2 = sum(case.comprehension_dimension == "C2" for case in cases)
        if 0 < n_c2 < FEWEST_C2:
            yield "c2_few", f"{plural(n_c2, 'case')} of C2; expected at least {FEWEST_C2}."
        of_c1 = (case.prompt for case in cases if case.comprehension_dimension == "C1")
        roles = [role[1].lower() if (role := _ROLE.search(text)) else "nobody" for text in of_c1]
        if len(set(roles)) < len(roles):
            distinct = ", ".join(dict.fromkeys(roles))
            message = f"the {len(roles)} prompts of C1 explain to {distinct}; expected a role for "
            yield "c1_roles", f"{message}each, such as 'to a product manager'."

    def _check_all_behaviours(self) -> RuleMessages:
        checks = [check for case in self.suite.cases for check in case.checks]
        none = f"none of the {len(checks)} behaviours"
        if not checks:
            return
        if "negative" not in [check.check_kind for check in checks]:
            yield "negative_none", f"{none} is negative."
        if not any(map(forbids_copying, checks)):
            message = f"{none} forbids quoting the skill; expected one such as no_verbatim_span."
            yield "anti_quote_none", message
        if self._lacks_primitives(checks):
            message = f"{none} names a primitive of the mental model ({', '.join(self.names)})."
            yield "primitive_none", message

    def _lacks_primitives(self, checks: Sequence[Check]) -> bool:
        for check in checks:
            words = _word_stems(f"{check.description} {check.check_id.replace('_', ' ')}")
            stems = filter(None, map(_word_stems, self.distinctive))
            if check.check_kind == "positive" and any(name <= words for name in stems):
                return False
        return bool(self.names)

    def _check_knowledge(self) -> RuleMessages:
        if self.skill is None:
            message = f"skill '{self.suite.skill}' is not at hand: far prompts, leaks of concept "
            yield "not_checked", f"{message}fields and primitives were not checked."
        elif not self.names:
            message = "the mental model names no primitives: whether behaviours ask for one "
            yield "not_checked", f"{message}was not checked."
        sources = [source for case in self.suite.cases for source in case.truth_sources]
        if n := [self.source_fault(source)[0] for source in sources].count("not_checked"):
            message = f"{n} of {len(sources)} truth sources were not looked up: they are addresses,"
            yield "not_checked", f"{message} or no folder is known (root=)."

    def _check_dimension(self, case: Case) -> RuleMessages:
        dimension, family = case.comprehension_dimension, self.family
        if self.covered == {None}:
            return  # `_check_coverage` already reports that no case has a dimension
        if dimension not in family:
            hint = suggest(dimension.upper(), family) if dimension else ""
            value = f"'{dimension}'" if dimension else "none"
            message = f"comprehension_dimension: found {value}; allowed: "
            yield "dimension_single", f"{message}exactly one of {', '.join(family)}.{hint}"
        elif case.transfer not in ("near", "far"):
            rule = "transfer_missing" if case.transfer is None else "transfer_unknown"
            value = f"'{case.transfer}'" if case.transfer else "nothing"
            hint = suggest(case.transfer or "", ("near", "far"))
            yield rule, f"transfer: found {value}; allowed: near, far.{hint}"

    def _check_prompt(self, case: Case) -> RuleMessages:
        if case.transfer == "far" and self.text:
            about = pd.DataFrame([case.model_dump(include={"case_id", "prompt"})])
            with catch_warnings(action="ignore"):  # of words that are not English
                rows = case_distance(about.assign(skill="skill"), {"skill": self.text})
            run = rows["longest_run"].fillna(0).item()
            if run >= FAR_N:
                shared = _shortened(rows["longest_text"].item())
                message = f"transfer: tagged far, but the prompt shares '{shared}' with the skill "
                yield "far_overlap", f"{message}({run} content words); allowed: below {FAR_N}."
        # remove code, in which $ begins a variable and not the name of a skill
        text = re.sub(r"(?s)```.*?```|`[^`]*`", " ", case.prompt)
        named = {name[1:] for name in re.findall(r"\$[a-z][\w-]*", text)}
        for name in map(str.lower, (self.suite.skill, *self.suite.adjacent_concepts)):
            if re.search(rf"(?<![\w$-]){re.escape(name)}(?![\w-])", text.lower()):
                named.add(name)
        if len(named) >= SKILLS:
            listed = ", ".join(sorted(named))
            yield "many_skills", f"prompt: names {len(named)} skills ({listed}); expected one."

    def _check_behaviours(self, case: Case) -> RuleMessages:
        what, dimension = "expected_behaviors", case.comprehension_dimension
        if not case.checks:
            if dimension is not None:
                message = f"{what}: found none; required where comprehension_dimension is set."
                yield "behaviours_missing", message
            return
        for check_id, n in Counter(check.check_id for check in case.checks).items():
            if n > 1:
                message = f"{what}: the id '{check_id}' stands {n} times; allowed: once."
                yield "behaviour_id", message
        if "negative" not in [check.check_kind for check in case.checks]:
            yield "negative_missing", f"{what}: none of the {len(case.checks)} is negative."
        if dimension == "C1" and not any(map(forbids_copying, case.checks)):
            message = f"{what}: none forbids copying the skill, as no_verbatim_span does."
            yield "anti_quote_missing", message
        if dimension in WITH_PRIMITIVES and self._lacks_primitives(case.checks):
            message = f"{what}: no positive one names a primitive of the mental model "
            yield "primitive_missing", f"{message}({', '.join(self.names)})."

    def _check_leaks(self, case: Case) -> RuleMessages:
        # Compare the prompt only with positive behaviours. A negative behaviour may name the wrong
        # answer that the prompt suggests.
        answers = [("expected_reasoning", case.expected_reasoning or "")]
        answers += [(c.check_id, c.description) for c in case.checks if c.check_kind == "positive"]
        field_name = case.concept_field or _FIELD_OF.get(case.comprehension_dimension or "", "")
        # A prompt may share words with the misconception, because a prompt of dimension C7 must
        # state it (comprehension report, 5.8). Far prompts have a rule of their own.
        if self.skill and field_name not in ("", "misconception") and case.transfer != "far":
            answers.append((f"concept.{field_name}", self.skill.concept.get(field_name, "")))
        for place, answer in answers:
            if shared_ngrams(case.prompt, answer, n=LEAK_N):
                longest = match([case.prompt], [answer], [0], n=LEAK_N).longest_text[0]
                message = f"prompt: shares '{_shortened(longest)}' with {place}; "
                yield "leak", f"{message}allowed: no run of {LEAK_N} content words."

    def _check_references(self, case: Case) -> RuleMessages:
        if not case.truth_sources:
            yield "truth_missing", "truth_sources: found none."
        for rule, message in map(self.source_fault, case.truth_sources):
            if rule not in ("", "not_checked"):  # `_check_knowledge` counts those not checked
                yield rule, message
        name = case.contrast_of
        cases = {case.case_id: case for case in self.suite.cases}
        if name is None:
            return
        if name not in cases:
            hint = suggest(name, cases)
            yield "contrast_missing", f"contrast_of: '{name}' is no case of this suite.{hint}"
        elif name == case.case_id:
            yield "contrast_missing", f"contrast_of: '{name}' is the case itself."
        elif case.prompt.split() == cases[name].prompt.split():
            yield "contrast_same", f"prompt: the same as that of {name}."
        elif case.checks and _descriptions_of(case) == _descriptions_of(cases[name]):
            yield "contrast_behaviours", f"expected_behaviors: the same as those of {name}."

    def source_fault(self, source: str) -> tuple[str, str]:
        """Return a rule and a message about a faulty source; both are empty if it resolves.

        A source is ``path``, ``path:line``, ``path:first-last`` or ``path#anchor``. The rule is
        ``truth_source``, ``truth_outside`` or ``not_checked``. The latter has no message: the
        source is an address, or no folder is known.
        """
        if _ELSEWHERE.match(source):
            return "not_checked", ""
        parts = _PARTS.fullmatch(source.strip())
        path = parts["path"].replace("\\", "/") if parts else ""
        away = path.startswith(("/", "~")) or _DRIVE.match(path)
        if not path or not path.isprintable() or (":" in path and not away):
            forms = "path, path:line, path:first-last, path#anchor"
            return "truth_source", f"truth_sources: found '{source}'; allowed: {forms}."
        assert parts is not None
        if away or ".." in PurePosixPath(path).parts:
            message = f"truth_sources: '{source}' leads out of the folder; allowed: relative paths "
            return "truth_outside", message + "without '..'."
        try:
            text = self._source_text(path)
        except SuiteError as cause:
            message = str(cause).removeprefix(f"{(self.root or Path()) / path}: ")
            rule = "truth_outside" if "leads out of" in message else "truth_source"
            return rule, f"truth_sources: '{source}': {message}"
        if text is None:
            return "not_checked", ""
        first, last, anchor = parts["first"], parts["last"], parts["anchor"]
        if anchor is not None and (lines := _LINES.fullmatch(anchor)):
            (first, last), anchor = lines.groups(), None
        fault = _place_fault(text, path, first, last, anchor)
        return ("truth_source", f"truth_sources: '{source}': {fault}") if fault else ("", "")

    def _read_source(self, path: str) -> str | None:
        """Return the text of a truth source below the folder `root`, and never outside it.

        The text of the skill replaces ``skills/<slug>/SKILL.md`` if there is no such file. Without
        a `root`, this text is the only source; the result is None for all others.
        """
        skill = self.skill
        is_skill = skill is not None and path == f"skills/{skill.slug}/SKILL.md"
        file = (self.root or Path()) / path
        if self.root is None or (is_skill and not exists(file)):
            return skill.text if skill and is_skill else None
        data = read_bytes(
            file, root=self.root, max_bytes=MAX_BYTES, what="source", error=SuiteError
        )
        return decode(data, file, SuiteError)


def _descriptions_of(case: Case) -> set[str]:
    return {check.description for check in case.checks}


def _shortened(text: str) -> str:
    run = " ".join(text.split())
    return run if len(run) <= _MOST_SHOWN else run[: _MOST_SHOWN - 3] + "..."


def _place_fault(
    text: str, path: str, first: str | None, last: str | None, anchor: str | None
) -> str | None:
    """Return why a text has no such lines or no such heading; None if it has them."""
    if first is not None:
        begin, end, n_lines = int(first), int(last or first), len(text.splitlines())
        if not 1 <= begin <= end:
            return f"lines {begin}-{end} are no range; allowed: first <= last, counted from 1."
        if end > n_lines:
            return f"there is no line {end}; the file has {n_lines} lines."
    if anchor is None:
        return None
    if not path.lower().endswith(_MARKDOWN):
        return f"'#{anchor}' asks for a heading; only Markdown files have headings, or use :line."
    anchors = _heading_anchors(text)
    if anchor in anchors:
        return None
    return f"there is no heading '#{anchor}'.{suggest(anchor, anchors)}"


@lru_cache(maxsize=64)
def _heading_anchors(text: str) -> tuple[str, ...]:
    return tuple(section.anchor for section in sections_of(text))


_MAX_BYTES = 1 << 20
_FORKS = "fork forkpty execl execle execlp execlpe execv execve execvp execvpe posix_spawn"
_SPAWNS = "posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
# module -> its functions that execute or load code in the process of the test, or start a process
# that is not separated from the test
_NAMES = {
    "builtins": "exec eval __import__",
    "runpy": "run_path run_module",
    "importlib": "import_module reload",
    "importlib.util": "spec_from_file_location module_from_spec",
    "importlib.machinery": "SourceFileLoader SourcelessFileLoader",
    "code": "InteractiveInterpreter InteractiveConsole interact",
    "cProfile": "run runctx",
    "profile": "run runctx",
    "timeit": "timeit repeat Timer",
    "doctest": "testfile testmod",
    "pkgutil": "resolve_name",
    "types": "FunctionType CodeType",
    "pickle": "load loads Unpickler",
    "marshal": "load loads",
    "shelve": "open",
    "zipimport": "zipimporter",
    "ctypes": "CDLL PyDLL cdll",
    "os": f"{_FORKS} {_SPAWNS}",
    "pty": "fork spawn",
    "multiprocessing": "Process Pool get_context",
    "concurrent.futures": "ProcessPoolExecutor",
}
_CALLS = {f"{module}.{name}" for module, names in _NAMES.items() for name in names.split()}
_CALLS |= {*_NAMES["builtins"].split()}  # these names need no module


def in_process_messages(suite: Suite, folder: Path) -> RuleMessages:
    """Yield rule and message for each place that can execute the answer in the process of a test.

    A test file that never names ``AI_OUTPUT_FILE`` is searched too, because a ``conftest.py`` or a
    helper can read the variable. Files that a test imports and every ``conftest.py`` are searched
    as well. A file that is not Python is skipped; pytest reports it.
    """
    judges = (check.judge for case in suite.cases for check in case.checks)
    tests = dict.fromkeys(judge.test_file for judge in judges if judge and judge.test_file)
    files = {}
    try:
        names = list(task_files(folder, FIXTURES))
    except (SuiteError, OSError):
        names = []
    for name in dict.fromkeys([*tests, *names]):
        if name.endswith(".py"):
            try:
                files[name] = read_bytes(
                    folder / name,
                    root=folder,
                    max_bytes=_MAX_BYTES,
                    what="test file",
                    error=SuiteError,
                )
            except SuiteError:
                continue
    places = dict.fromkeys(place for test in tests for place in places_in_process(files, test))
    for name, line, call in places:
        yield "answer_in_process", f"{name}, line {line}: {literal(call)[1:-1]}."


def places_in_process(files: Mapping[str, bytes], test: str) -> Iterator[tuple[str, int, str]]:
    """Yield the places at which a test, or a file it loads, executes code in its own process.

    A place is the name of a file, a line, and the call. The values of `files` are the contents of
    the test, its fixtures and its helpers, by name.
    """
    folders = set(map(str, PurePosixPath(test).parents))
    conftests = [name for folder in folders if (name := f"{folder}/conftest.py") in files]
    names, seen = [test, *sorted(conftests)], set[str]()
    while names:
        name = names.pop(0)
        if name in seen or name not in files:
            continue
        seen.add(name)
        try:
            # parsing can warn, for example about an invalid escape sequence
            with catch_warnings(action="ignore"):
                tree = ast.parse(files[name])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        written = {posixpath.basename(text) for text in texts if isinstance(text, str)}
        for line, call in _calls_in_process(tree):
            yield name, line, f"{call}(...)"
        for line, _, whole in _imports(tree):
            # the name can be a module or something in a module
            for module in filter(None, (whole.rpartition(".")[0], whole)):
                place = module.replace(".", "/")
                inside = [f"{at}/{place}{end}" for at in folders for end in (".py", "/__init__.py")]
                helpers = [file for file in inside if file in files]
                names += helpers
                package = module.partition(".")[0]
                if not helpers and f"{package}.py" in written:  # the test writes the module
                    yield name, line, f"import {package}"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and full name of everything that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                yield node.lineno, alias.asname or alias.name, whole


def _calls_in_process(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each function that can execute the answer in the test's process.

    A function is found where it is called and where it is only named, as in ``run = exec``.
    """
    full_names = {name: whole for _, name, whole in _imports(tree) if whole in {*_CALLS, *_NAMES}}
    places = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = _dotted_name(node)
        elif isinstance(node, ast.Call) and _dotted_name(node.func) == "getattr" and node.args[1:]:
            place, attribute = node.args[:2]
            name = f"{_dotted_name(place)}.{getattr(attribute, 'value', '')}"
        else:
            continue
        module, _, function = name.rpartition(".")
        call = full_names.get(name, name)
        if module in full_names:
            call = f"{full_names[module]}.{function}"
        # every module loader has a method `exec_module`, so its name is enough
        if call in _CALLS or function == "exec_module":
            places.add((node.lineno, call))
    yield from sorted(places)


def _dotted_name(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id if isinstance(node, ast.Name) else ""]))
