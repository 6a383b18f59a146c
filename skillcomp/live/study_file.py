"""Read a STUDY.yaml, which describes a whole study, and report every fault with its line.

Its agents and graders may be defined in other packages. With ``kind: python``, the key ``target:
"my_module:MyAgent"`` names a class or function. Any other ``kind`` that is not built in must be
the name of an entry point of an installed package, in the group ``skillcomp.agents`` or
``skillcomp.graders``. A module is imported when its agent or grader is made, not when the study
file is read.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import entry_points
from inspect import Parameter, signature
from os import PathLike
from os.path import exists
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from skillcomp import live
from skillcomp.errors import (
    ExtraError,
    SkillcompError,
    StudyError,
    error_text,
    instead,
    literal,
    problem_list,
    require_known,
    suggest,
)
from skillcomp.io.files import YAML_FAILURES, JsonObject, as_path, read_yaml, sentence_at
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent, Thinking
from skillcomp.pricing import Price
from skillcomp.records import Record, Suite

Group = Literal["agents", "graders", "comparators"]
# For each kind of agent and grader, the class of `skillcomp.live` that makes it.
KINDS: dict[Group, dict[str, str]] = {
    "agents": {
        "anthropic": "AnthropicAgent",
        "openai": "OpenAIAgent",
        "cli": "CliAgent",
        "replay": "ReplayAgent",
        "python": "",
    },
    "graders": {
        "comprehension": "ComprehensionGrader",
        "replay": "ReplayGrader",
        "suite": "SuiteGrader",
        "python": "",
    },
    "comparators": {"pairwise": "PairwiseGrader"},
}
_DEFAULT_KIND = {"graders": "comprehension", "comparators": "pairwise"}
_MODEL = "{kind: anthropic, model: ...}"
_EXAMPLES = {
    "agents": _MODEL,
    "graders": f"{{agent: {_MODEL}}}",
    "comparators": f"{{agent: {_MODEL}}}",
}
_MEMBERS = {
    "agents": ("name", "model", "family", "settings", "ask", "aclose"),
    "graders": ("name", "kind", "model", "family", "version", "grade", "aclose"),
}
_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


def _own_words(message: str) -> PydanticCustomError:
    """Return a fault whose message is shown as it is."""
    return PydanticCustomError("own_words", message)


class _Mapping(Record):
    """A mapping of a study file; its faults are told in our own words."""

    @model_validator(mode="wrap")
    @classmethod
    def _tell_faults(cls, value: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(value)
        except ValidationError as error:
            faults = [
                InitErrorDetails(type=_own_words(cls._message(fault)), loc=fault["loc"], input=None)
                for fault in error.errors(include_url=False)
            ]
            raise ValidationError.from_exception_data(cls.__name__, faults) from None

    @classmethod
    def _message(cls, fault: Any) -> str:
        """Return what is wrong with a value, what is allowed, and the nearest match."""
        kind, loc = fault["type"], fault["loc"]
        key = str(loc[-1]) if loc else ""
        if kind == "own_words":
            return str(fault["msg"])
        if kind == "missing":
            return "missing."
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            if _SECRET.search(key):
                return "not a known key. Keys to services are read from the environment only."
            if key == "batch":
                return "not a known key any more; for half the price, ask on Inspect with --batch."
            return _unknown_key(key, signature(Price if "prices" in loc else cls).parameters)
        found = "" if _SECRET.search(key) else f"found {literal(fault['input'])}; "
        if kind == "list_type" and key in _EXAMPLES:
            return f"{found}write [{_EXAMPLES[key]}]."
        if kind == "model_type":
            return f"{found}write {{min_gold_agreement: 0.9}}."
        if kind == "literal_error":
            words = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
            return f"{found}allowed: {', '.join(words)}.{suggest(fault['input'], words)}"
        if "Sequence" in fault["msg"]:
            return f"{found}allowed: a list."
        message = fault["msg"].removeprefix("Input should be ").removeprefix("Value should be ")
        return f"{found}allowed: {message}."


def _unknown_key(key: str, allowed: Any) -> str:
    return f"not a known key{instead(key, allowed, label='allowed')}"


class _Entry(_Mapping):
    """An agent or grader; what makes it is called with the keys that the file gives.

    `entry_class` makes such a class. `made_by` names the class of `skillcomp.live` that makes the
    agent or grader.
    """

    group: ClassVar[Group]
    made_by: ClassVar[str]
    kind: str

    def maker(self, study: StudyFile, place: str) -> Any:
        """Return the class or function that makes the agent or grader."""
        maker = getattr(live, self.made_by)
        # the suites of a grader of task suites are those of the store
        return partial(maker, RunStore(study.store_path)) if self.kind == "suite" else maker

    def build(self, study: StudyFile, place: str) -> Any:
        """Make the agent or grader, and the agent of a grader before.

        A path is relative to the folder of the study file.
        """
        arguments = {}
        for name, value in self:
            if isinstance(value, _Entry):
                value = value.build(study, f"{place}.{name}")
            elif isinstance(value, Path):
                file = study.file(value, f"{place}.{name}")
                value = RunStore(file) if name == "store" else file
            if name in self.model_fields_set - {"kind", "program", "target"}:
                arguments[name] = value
        return self.call(self.maker(study, place), arguments, place)

    def call(self, maker: Any, arguments: JsonObject, place: str) -> Any:
        """Return what the class or function makes."""
        return maker(**arguments)


class _Program(_Entry):
    """An agent of kind cli: a known program, or a command."""

    program: Literal["claude", "codex"] | None = None
    command: list[str] | None = Field(default=None, min_length=1)
    extra: list[str] = []

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.program) == bool(self.command) or (self.extra and self.command):
            raise _own_words(
                "give either 'program' (claude or codex, with all that it needs) or 'command' (a "
                "list of program and arguments of your own); 'extra' goes with 'program'."
            )
        return self

    def maker(self, study: StudyFile, place: str) -> Any:
        """Return the class, or its method for the program."""
        return getattr(live.CliAgent, self.program) if self.program else live.CliAgent


class _Open(_Entry):
    """An entry whose keys are not checked when the file is read."""

    model_config = ConfigDict(extra="allow")


class _Guest(_Open):
    """An agent or grader from outside this package: an entry point is named by the kind.

    The class or function that makes it gets all keys that are not fields of this model. For a
    grader, it also gets the agent that is built from the field ``agent``.
    """

    def maker(self, study: StudyFile, place: str) -> Any:
        """Load the entry point for the kind."""
        entry = entry_points(group=f"skillcomp.{self.group}")[self.kind]
        try:
            return entry.load()
        except Exception as cause:  # code of another package may raise any exception
            where = f"{place}.kind: found {literal(self.kind)}"
            raise _import_failure(where, entry.value, cause) from cause

    def call(self, maker: Any, arguments: JsonObject, place: str) -> Any:
        """Check the keys by the signature, call the class or function, and check its object."""
        # code in C may have no signature; the call itself then checks the arguments
        with suppress(TypeError, ValueError):
            parameters = signature(maker).parameters.values()
            by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            own = [name for name in type(self).model_fields if name != "agent"]
            allowed = [*own, *(p.name for p in by_name)]
            takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
            for key in () if takes_any else sorted(set(arguments) - set(allowed)):
                raise StudyError(f"{place}.{key}: {_unknown_key(key, allowed)}")
            for p in by_name:
                if p.default is p.empty and p.name not in arguments:
                    raise StudyError(f"{place}.{p.name}: missing.")
        name = getattr(maker, "__qualname__", repr(maker))
        try:
            made = maker(**arguments)
        except SkillcompError as cause:
            raise StudyError(f"{place}: {cause}") from cause
        except Exception as cause:  # code of another package may raise any exception
            raise StudyError(f"{place}: {name} raised {error_text(cause)}") from cause
        members = _MEMBERS[self.group]
        if missing := [member for member in members if not hasattr(made, member)]:
            base = "BaseAgent" if self.group == "agents" else "BaseGrader"
            raise StudyError(
                f"{place}: {name} returned {literal(made)}, without {', '.join(missing)}; allowed: "
                f"an object with {', '.join(members)}, such as a sc.live.{base}."
            )
        return made


def _import_failure(where: str, module: str, cause: BaseException) -> StudyError:
    return StudyError(f"{where}: importing {module} failed: {error_text(cause)}")


def _checked_target(target: str) -> str:
    module, _, name = target.partition(":")
    if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return target
    raise _own_words(
        f"found {literal(target)}; allowed: 'module:name', such as 'my_module:MyAgent'."
    )


class _Python(_Guest):
    """An agent or grader of kind python."""

    target: Annotated[str, AfterValidator(_checked_target)]

    def maker(self, study: StudyFile, place: str) -> Any:
        """Import the target.

        The module is looked up on the import path of Python, then in the folder of the study file.
        """
        module_name, _, name = self.target.partition(":")
        where = f"{place}.target: found {literal(self.target)}"
        folder = study.folder.resolve()
        if str(folder) not in sys.path:
            # append the folder at the end, so that installed modules are found first
            sys.path.append(str(folder))
        try:
            module = importlib.import_module(module_name)
        except Exception as cause:  # code of another package may raise any exception
            missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
            if missing is None or not f"{module_name}.".startswith(f"{missing}."):
                raise _import_failure(where, module_name, cause) from cause
            near = suggest(module_name, [path.stem for path in folder.glob("*.py")])
            raise StudyError(
                f"{where}: there is no module '{missing}'; allowed: an installed module, or a "
                f"file in {folder}.{near}"
            ) from None
        own = folder / f"{module_name.replace('.', '/')}.py"
        file = getattr(module, "__file__", None)
        if own.is_file() and (file is None or Path(file).resolve() != own):
            raise StudyError(
                f"{where}: module '{module_name}' is already {file or 'part of Python'}, not "
                f"{own}; give the file another name."
            )
        if not hasattr(module, name):
            names = [
                key
                for key, value in vars(module).items()
                if callable(value)
                and not key.startswith("_")
                and getattr(value, "__module__", None) == module_name
            ]
            require_known(f"{where}: {module_name} has no", name, names, StudyError, label="there")
        maker = getattr(module, name)
        if not callable(maker):
            raise StudyError(
                f"{where}, which is {literal(maker)}; allowed: a class, or a function that returns "
                f"one of the {self.group}."
            )
        return maker


def _checked_entry(group: Group, value: Any) -> _Entry:
    """Return an entry of a study file, checked by the class of its kind."""
    if not isinstance(value, dict):
        raise _own_words(f"found {literal(value)}; write {_EXAMPLES[group]}.")
    kind = str(value.get("kind") or _DEFAULT_KIND.get(group, ""))
    if kind not in KINDS[group]:
        kinds = [*KINDS[group], *sorted(entry_points(group=f"skillcomp.{group}").names)]
        if not kind:
            raise _own_words(f"'kind' is missing; allowed: {', '.join(kinds)}.")
        if kind not in kinds:
            raise _own_words(f"kind: found {literal(kind)}{instead(kind, kinds, label='allowed')}")
    return entry_class(group, kind).model_validate(value)


_AgentEntry = Annotated[Any, BeforeValidator(partial(_checked_entry, "agents"))]
_GraderEntry = Annotated[Any, BeforeValidator(partial(_checked_entry, "graders"))]
_ComparatorEntry = Annotated[Any, BeforeValidator(partial(_checked_entry, "comparators"))]
# What a study file gives for a parameter of a type; every number is positive.
_IN_FILE: dict[str, Any] = {
    "int": PositiveInt,
    "float": PositiveFloat,
    "RunStore": Path,
    "str | Path | None": Path | None,
    "Agent": _AgentEntry,
    "Agent | None": _AgentEntry | None,
    "Thinking | JsonObject | None": Thinking | None,
}
_NOT_IN_FILE = {"source", "mock"}


_SPECIAL: dict[str, type[_Entry]] = {"cli": _Program, "python": _Python}


@cache
def entry_class(group: Group, kind: str) -> type[_Entry]:
    """Return the class of the entries of a kind; its fields are parameters of what makes them."""
    made_by = KINDS[group].get(kind, "")
    base: type[_Entry] = _SPECIAL.get(kind, _Entry if made_by else _Guest)
    fields: dict[str, Any] = {"kind": (str, kind if kind == _DEFAULT_KIND.get(group) else ...)}
    parameters: Mapping[str, Parameter] = {}
    module = __name__
    if made_by:
        try:
            maker = getattr(live, made_by)
            # the annotations are texts with names of this module
            parameters, module = signature(maker).parameters, maker.__module__
        except ExtraError:  # nothing can be made without the extra
            base = _Open
    elif group == "graders":
        fields["agent"] = _AgentEntry | None, None
    for name, parameter in parameters.items():
        if name not in {*base.model_fields, *_NOT_IN_FILE}:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = _IN_FILE.get(parameter.annotation, parameter.annotation), default
    made: Any = create_model(made_by or kind, __base__=base, __module__=module, **fields)
    made.group, made.made_by = group, made_by
    return made  # type: ignore[no-any-return]


class _Grading(_Mapping):
    gold: Path | None = None
    min_gold_agreement: float | None = Field(default=None, gt=0, le=1)
    budget_usd: PositiveFloat | None = None
    concurrency: PositiveInt | None = None
    seed: int | None = None


class StudyFile(_Mapping):
    """The content of a STUDY.yaml; its paths are relative to the folder of the file.

    An agent or grader with ``kind: python`` is made by the class or function that its key
    ``target: "my_module:MyAgent"`` names. A kind that is not listed below must be the name of an
    entry point in an installed package, in the group ``skillcomp.agents`` or ``skillcomp.graders``.
    In both cases, the class or function is called with the other keys as keyword arguments; a
    grader's ``agent`` is built before this call.

    The code of such agents and graders is imported only when the agents or graders of a study file
    (or of a command's option ``--agent``) are built. It is not imported when a study file, store,
    suite or skill is read, nor by the commands ``skillcomp check`` and ``skillcomp status``.

    Attributes
    ----------
    store : Path
        Folder of the store, which holds the data of the study.
    skills, suites : list of Path
        Files of skills and suites to add to the store. Without `suites`, all suites in the store
        are used.
    agents : list
        Agents, each with its ``kind`` (anthropic, openai, cli, replay or python) and arguments.
        ``prices`` is a list of ``{model: ..., input: ..., output: ...}`` in dollars per million
        tokens. ``kind: cli`` takes ``program: claude`` or ``program: codex`` with ``extra``
        arguments (see `CliAgent.claude` and `CliAgent.codex`), or a ``command``.
    graders : list
        Graders. One without a ``kind`` has an ``agent`` and takes the other arguments of
        `ComprehensionGrader` (``style``, ``without``, ``reply``, ``template`` and so on). One with
        ``kind: suite`` grades tasks and takes ``trust``, ``timeout`` and, for rubrics, an ``agent``
        (see `SuiteGrader`). The other kinds are replay and python.
    comparators : list
        Graders for ``skillcomp compare``, each with an ``agent`` (see `PairwiseGrader`).
    conditions, repeats, placebo, previous, seed, concurrency, budget_usd
        Arguments of `skillcomp.run`.
    grading : mapping
        ``gold`` and ``min_gold_agreement``, arguments of `skillcomp.grade`. ``seed``,
        ``concurrency`` and ``budget_usd`` here replace the values above for gradings and
        comparisons. A ``budget_usd`` applies separately to answers, gradings and comparisons.
    """

    store: Path
    skills: list[Path] = []
    suites: list[Path] = []
    agents: list[_AgentEntry] = []
    graders: list[_GraderEntry] = []
    comparators: list[_ComparatorEntry] = []
    conditions: tuple[Literal["baseline", "skill", "placebo", "previous"], ...] = Field(
        default=("baseline", "skill"), min_length=1
    )
    repeats: PositiveInt = 1
    placebo: str | dict[str, str] | None = None
    previous: str | dict[str, str] | None = None
    seed: int = 0
    concurrency: PositiveInt = 8
    budget_usd: PositiveFloat | None = None
    grading: _Grading = Field(default_factory=_Grading)
    _folder: Path = Path()
    _outside: bool = False

    @property
    def folder(self) -> Path:
        """Folder of the study file."""
        return self._folder

    @property
    def store_path(self) -> Path:
        """Folder of the store; it must be in the study's folder, unless `outside` is True."""
        return self._path_inside(self.folder / self.store, "store")

    def _path_inside(self, path: Path, key: str) -> Path:
        if "\0" in str(path):
            raise StudyError(f"{key}: found {literal(path.name)}; a path holds no NUL character.")
        if not self._outside and not path.resolve().is_relative_to(self.folder.resolve()):
            raise StudyError(
                f"{key}: {path} is outside the study's folder {self.folder.resolve()}. Where that "
                "is meant, allow it by --allow-outside."
            )
        return path

    def file(self, path: Path, key: str) -> Path:
        """Return a path that is relative to the folder of the study; there must be something."""
        file = self.folder / path
        if not exists(file):
            near = suggest(path.name, [p.name for p in file.parent.glob("*")])
            raise StudyError(f"{key}: there is nothing at {file}.{near}")
        return file

    def open_store(self) -> RunStore:
        """Open the store; raise if a skill that the file lists is missing."""
        for path in self.skills:
            self.file(path, "skills")
        return RunStore(self.store_path)

    def copy_in(self, folder: Path) -> StudyFile:
        """Return the study with a copy of its store in a folder, in which anything can be tried."""
        copy = self.model_copy(update={"store": folder / self.store_path.name})
        if self.store_path.exists():
            shutil.copytree(self.store_path, copy.store)
        copy._outside = True
        return copy

    def open_suites(self, store: RunStore) -> list[Suite] | None:
        """Add the listed skills and suites to the store; return the suites, None without any."""
        for path in self.skills:
            store.add_skill(self.file(path, "skills"))
        suites = [store.add_suite(self.file(path, "suites")) for path in self.suites]
        return suites or None

    def build(self, group: Group) -> list[Any]:
        """Make the agents, graders or comparators that the file lists."""
        entries = enumerate(getattr(self, group))
        return [entry.build(self, f"{group}[{at}]") for at, entry in entries]

    def limits(self, budget_usd: float | None, *, grading: bool) -> JsonObject:
        """Return the seed, concurrency and budget of a stage; a given budget prevails."""
        names = {"seed", "concurrency", "budget_usd"}
        own = self.grading.model_dump(include=names, exclude_none=True) if grading else {}
        given = {} if budget_usd is None else {"budget_usd": budget_usd}
        return self.model_dump(include=names) | own | given

    def texts(self, store: RunStore, name: Literal["placebo", "previous"]) -> Any:
        """Return `placebo` or `previous` for `skillcomp.run`; the name of a file becomes a path."""
        texts = getattr(self, name)
        if isinstance(texts, dict):
            return {slug: self._text_or_file(store, text, name) for slug, text in texts.items()}
        return None if texts is None else self._text_or_file(store, texts, name)

    def _text_or_file(self, store: RunStore, text: str, key: str) -> str | Path:
        if text in store.skills:
            return text
        path = self.folder / text
        return self._path_inside(path, key) if exists(path) or len(text.split()) == 1 else text


def read_agent(text: str, *, key: str, timeout: float | None = None) -> Agent:
    """Build an agent from a command-line option: a model's name, or a mapping in YAML.

    Raises
    ------
    StudyError
        If the text is neither, or the mapping has wrong keys or values. The message lists every
        fault.
    """
    try:
        fields = yaml.safe_load(text)
    except YAML_FAILURES:
        fields = None
    if isinstance(fields, str):
        fields = {"kind": "anthropic", "model": fields}
    if not isinstance(fields, dict):
        raise StudyError(
            f"{key}: found {literal(text)}; expected the name of a model, or a mapping such as "
            "'{kind: cli, program: claude}'."
        )
    if timeout is not None and fields.get("kind") == "cli":
        fields = {"timeout": timeout, **fields}
    try:
        study = StudyFile.model_validate({"store": ".", "agents": [fields]})
        agent: Agent = study.agents[0].build(study, key)
    except ValidationError as cause:
        faults = (fault.replace("line 1: agents[0]", key, 1) for fault in _fault_lines(cause, None))
        raise StudyError("\n".join(faults)) from None
    return agent


def read_study(path: str | PathLike[str], *, outside: bool = False) -> StudyFile:
    """Read a STUDY.yaml.

    Parameters
    ----------
    path : str or path
        The file.
    outside : bool, default False
        Whether the store and the texts of `placebo` and `previous` may be outside the folder of the
        file.

    Returns
    -------
    StudyFile
        The checked content.

    Raises
    ------
    StudyError
        If the file cannot be read, is not YAML, repeats a key, contains a value that refers to
        itself, or has wrong keys or values. The message lists every wrong key or value with its
        line, what is allowed and the nearest match. It does not show the value of keys with a name
        such as token or password.
    """
    path = as_path(path, "read_study", StudyError)
    content, node = read_yaml(path, what="study", error=StudyError)
    try:
        study = StudyFile.model_validate(content)
    except ValidationError as cause:
        raise StudyError(problem_list(str(path), _fault_lines(cause, node))) from None
    study._folder, study._outside = path.parent, outside
    return study


def _fault_lines(error: ValidationError, node: yaml.Node | None) -> list[str]:
    """Return the distinct faults, each with its line and its place."""
    lines = []
    for fault in error.errors(include_url=False):
        loc = list(fault["loc"])
        if loc[:1] in (["placebo"], ["previous"]):
            del loc[1:2]  # the type that pydantic tried
        lines.append(sentence_at(node, loc, fault["msg"]))
    return list(dict.fromkeys(lines))
