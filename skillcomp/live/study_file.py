"""Read a STUDY.yaml, which describes a whole study, and report every fault with its line.

Its agents and graders may be defined in other packages. With ``kind: python``, the key ``target:
"my_module:MyAgent"`` names a class or function. Any other ``kind`` that is not built in must be
the name of an entry point of an installed package, in the group ``skillcomp.agents`` or
``skillcomp.graders``. A module is imported when its agent or grader is made, not when the study
file is read.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from os import PathLike
from os.path import exists
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from skillcomp import live
from skillcomp.errors import (
    SkillcompError,
    StudyError,
    error_text,
    literal,
    require_known,
    suggest,
)
from skillcomp.io.files import YAML_FAILURES, JsonObject, as_path, read_yaml, sentence_at
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent, Effort, JsonMode, Output, SkillIn
from skillcomp.live.graders.grader import ReplyForm, Style, Without
from skillcomp.pricing import Price
from skillcomp.records import Record, Suite

Group = Literal["agents", "graders"]
_MEMBERS = {
    "agents": ("name", "model", "family", "settings", "ask", "aclose"),
    "graders": ("name", "kind", "model", "family", "version", "grade", "aclose"),
}
_BASES = {"agents": "sc.live.BaseAgent", "graders": "sc.live.BaseGrader"}


def installed_kinds(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points for agents or graders in installed packages, by kind."""
    return {entry.name: entry for entry in entry_points(group=f"skillcomp.{group}")}


def _import_failure(where: str, module: str, cause: BaseException) -> StudyError:
    return StudyError(f"{where}: importing {module} failed: {error_text(cause)}")


_KINDS: Mapping[Group, tuple[str, ...]] = {
    "agents": ("anthropic", "openai", "cli", "replay", "python"),
    "graders": ("comprehension", "replay", "suite", "python"),
}
_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class _Spec(Record):
    """An agent or grader: the class of `skillcomp.live` that makes it is called with the fields.

    A path is relative to the folder of the study file. The agent of a grader is built first.
    """

    group: ClassVar[Group] = "agents"
    maker: ClassVar[str]

    def arguments(self, folder: Path, place: str) -> JsonObject:
        """Return the arguments of the constructor, by name."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}
        for name, value in fields.items():
            if isinstance(value, _Spec):
                fields[name] = value.build(folder, f"{place}.{name}")
            elif isinstance(value, Path):
                file = _file_in(folder, value, self.group)
                fields[name] = RunStore(file) if name == "store" else file
        return fields

    def build(self, folder: Path, place: str) -> Any:
        """Return the agent or grader."""
        return getattr(live, self.maker)(**self.arguments(folder, place))


class _Agent(_Spec):
    name: str | None = None
    timeout: PositiveFloat = 600.0
    prices: list[Price] = []


class _Service(_Agent):
    model: str
    max_tokens: PositiveInt = 16_000
    max_retries: NonNegativeInt = 5
    base_url: str | None = None


class _Anthropic(_Service):
    maker = "AnthropicAgent"
    kind: Literal["anthropic"]
    effort: Effort | None = None
    thinking: Literal["adaptive", "disabled", "between_tools"] | None = None
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"


class _OpenAI(_Service):
    maker = "OpenAIAgent"
    kind: Literal["openai"]
    key_env: str = "OPENAI_API_KEY"
    effort: str | None = None
    limit_name: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    json_mode: JsonMode = "schema"
    options: JsonObject | None = None


class _Cli(_Agent):
    kind: Literal["cli"]
    program: Literal["claude", "codex"] | None = None
    command: list[str] | None = Field(default=None, min_length=1)
    extra: list[str] = []
    model: str | None = None
    base_url: str | None = None
    skill_in: SkillIn = "auto"
    output: Output = "auto"
    passed: list[str] = []

    @model_validator(mode="after")
    def _one_way(self) -> _Cli:
        if (self.program is None) == (self.command is None):
            raise PydanticCustomError(
                "own_words",
                "give either 'program' (claude or codex, with all that it needs) or 'command' (a "
                "list of program and arguments of your own)",
            )
        if self.extra and self.program is None:
            raise PydanticCustomError(
                "own_words", "'extra' goes with 'program'; put it into command"
            )
        return self

    def build(self, folder: Path, place: str) -> Agent:
        fields = self.arguments(folder, place)
        program, command, extra = map(fields.pop, ("program", "command", "extra"))
        if program is None:
            return live.CliAgent(command, **fields)
        make = live.CliAgent.claude if program == "claude" else live.CliAgent.codex
        return make(extra=extra, **fields)


class _Replay(_Spec):
    maker = "ReplayAgent"
    kind: Literal["replay"]
    store: Path
    agent: str | None = None
    name: str | None = None


def _checked_target(target: str) -> str:
    module, _, name = target.partition(":")
    if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return target
    problem = f"found {literal(target)}; allowed: 'module:name', such as 'my_module:MyAgent'."
    raise PydanticCustomError("own_words", problem)


class _Guest(_Spec):
    """An agent or grader from outside this package.

    The class or function that makes it is called with all keys that are not fields of this
    model. For a grader, it also gets the agent that is built from the field ``agent``.
    """

    model_config = ConfigDict(extra="allow")

    def load(self, folder: Path, place: str) -> Any:
        """Return the class or function that makes the agent or grader."""
        raise NotImplementedError

    def build(self, folder: Path, place: str) -> Any:
        """Call the class or function with the other keys, and check the object it returns."""
        arguments = dict(self.model_extra or {})
        if self.group == "graders" and (spec := getattr(self, "agent", None)) is not None:
            arguments["agent"] = spec.build(folder, f"{place}.agent")
        maker = self.load(folder, place)
        # code in C may have no signature; the call itself then checks the arguments
        by_name = {}
        takes_any = True
        with suppress(TypeError, ValueError):
            parameters = inspect.signature(maker).parameters.values()
            by_name = {
                p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            }
            takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        for key in arguments:
            if key not in by_name and not takes_any:
                own = [name for name in type(self).model_fields if name != "agent"]
                allowed = [*own, *by_name]
                raise StudyError(
                    f"{place}.{key}: not a known key; allowed: {', '.join(allowed)}."
                    f"{suggest(key, allowed)}"
                )
        for name, parameter in by_name.items():
            if parameter.default is parameter.empty and name not in arguments:
                raise StudyError(f"{place}.{name}: missing.")
        name = getattr(maker, "__qualname__", repr(maker))
        try:
            made = maker(**arguments)
        except SkillcompError as cause:
            raise StudyError(f"{place}: {cause}") from cause
        except Exception as cause:  # code of another package may raise any exception
            raise StudyError(f"{place}: {name} raised {error_text(cause)}") from cause
        missing = [member for member in _MEMBERS[self.group] if not hasattr(made, member)]
        if missing:
            raise StudyError(
                f"{place}: {name} returned {literal(made)}, without {', '.join(missing)}; allowed: "
                f"an object with {', '.join(_MEMBERS[self.group])}, such as a {_BASES[self.group]}."
            )
        return made


class _Python(_Guest):
    kind: Literal["python"]
    target: Annotated[str, AfterValidator(_checked_target)]

    def load(self, folder: Path, place: str) -> Any:
        """Import the target.

        The module is looked up on the import path of Python, then in the folder of the study file.
        """
        module_name, _, name = self.target.partition(":")
        where = f"{place}.target: found {literal(self.target)}"
        folder = folder.resolve()
        if str(folder) not in sys.path:
            # append the folder at the end, so that installed modules are found first
            sys.path.append(str(folder))
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as cause:
            if cause.name is None or not f"{module_name}.".startswith(f"{cause.name}."):
                raise _import_failure(where, module_name, cause) from cause
            near = suggest(module_name, [path.stem for path in folder.glob("*.py")])
            raise StudyError(
                f"{where}: there is no module '{cause.name}'; allowed: an installed module, or a "
                f"file in {folder}.{near}"
            ) from None
        except Exception as cause:  # code of another package may raise any exception
            raise _import_failure(where, module_name, cause) from cause
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
                and getattr(value, "__module__", None) == module_name
                and not key.startswith("_")
            ]
            require_known(f"{where}: {module_name} has no", name, names, StudyError, label="there")
        maker: Any = getattr(module, name)
        if not callable(maker):
            raise StudyError(
                f"{where}, which is {literal(maker)}; allowed: a class, or a function that returns "
                f"one of the {self.group}."
            )
        return maker


class _Installed(_Guest):
    kind: str

    def load(self, folder: Path, place: str) -> Any:
        """Load the entry point for the kind."""
        entry = installed_kinds(self.group)[self.kind]
        try:
            return entry.load()
        except Exception as cause:
            where = f"{place}.kind: found {literal(self.kind)}"
            raise _import_failure(where, entry.value, cause) from cause


def _validated_spec(group: Group, entry: Any, validate: Callable[[Any], Any]) -> Any:
    """Validate an entry with the model of its kind; pydantic finds that of a built-in kind."""
    if not isinstance(entry, dict):
        return validate(entry)
    if group == "graders":
        entry = {"kind": "comprehension", **entry}
    kind = entry.get("kind")
    if kind not in _KINDS[group] and str(kind) in installed_kinds(group):
        return (_Installed if group == "agents" else _InstalledGrader).model_validate(entry)
    return validate(entry)


_AgentSpec = Annotated[
    _Anthropic | _OpenAI | _Cli | _Replay | _Python,
    Field(discriminator="kind"),
    WrapValidator(partial(_validated_spec, "agents")),
]


class _Comparator(_Spec):
    maker = "PairwiseGrader"
    agent: _AgentSpec
    version: str | None = None
    name: str | None = None


class _Comprehension(_Comparator):
    group, maker = "graders", "ComprehensionGrader"
    kind: Literal["comprehension"] = "comprehension"
    style: Style = "forced"
    ngram: PositiveInt = 6
    without: list[Without] = []
    reply: ReplyForm = "plain"
    template: Path | None = None


class _ReplayGrader(_Spec):
    group, maker = "graders", "ReplayGrader"
    kind: Literal["replay"]
    store: Path
    grader: str | None = None
    round: PositiveInt = 1
    name: str | None = None


class _SuiteGrader(_Spec):
    kind: Literal["suite"]
    agent: _AgentSpec | None = None
    trust: bool = False
    timeout: PositiveFloat = 60.0
    name: str = "suite"


class _PythonGrader(_Python):
    group = "graders"
    agent: _AgentSpec | None = None


class _InstalledGrader(_Installed):
    group = "graders"
    agent: _AgentSpec | None = None


_GraderSpec = Annotated[
    _Comprehension | _ReplayGrader | _SuiteGrader | _PythonGrader,
    Field(discriminator="kind"),
    WrapValidator(partial(_validated_spec, "graders")),
]


class _Grading(Record):
    gold: Path | None = None
    min_gold_agreement: float | None = Field(default=None, gt=0, le=1)
    budget_usd: PositiveFloat | None = None
    concurrency: PositiveInt | None = None
    seed: int | None = None


class StudyFile(Record):
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
    agents: list[_AgentSpec] = []
    graders: list[_GraderSpec] = []
    comparators: list[_Comparator] = []
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
    folder: Path = Field(default=Path(), exclude=True)
    outside: bool = Field(default=False, exclude=True)

    @property
    def store_path(self) -> Path:
        """Folder of the store; it must be in the study's folder, unless `outside` is True."""
        return self._path_inside(self.folder / self.store, "store")

    def _path_inside(self, path: Path, key: str) -> Path:
        if "\0" in str(path):
            raise StudyError(f"{key}: found {literal(path.name)}; a path holds no NUL character.")
        if not self.outside and not path.resolve().is_relative_to(self.folder.resolve()):
            raise StudyError(
                f"{key}: {path} is outside the study's folder {self.folder.resolve()}. Where that "
                "is meant, allow it by --allow-outside."
            )
        return path

    def open_store(self) -> RunStore:
        """Open the store, add the skills that the file lists, and return the store."""
        store = RunStore(self.store_path)
        for path in self.skills:
            store.add_skill(_file_in(self.folder, path, "skills"))
        return store

    def open_suites(self, store: RunStore) -> list[Suite] | None:
        """Add the listed suites to the store and return them; None if the file lists none."""
        suites = [store.add_suite(_file_in(self.folder, path, "suites")) for path in self.suites]
        return suites or None

    def build(self, key: Literal["agents", "graders", "comparators"]) -> list[Any]:
        """Make the agents, graders or comparators that are listed under a key."""
        built = []
        for position, spec in enumerate(getattr(self, key)):
            place = f"{key}[{position}]"
            if isinstance(spec, _SuiteGrader):  # its suites are those of the store
                fields = spec.arguments(self.folder, place)
                built.append(live.SuiteGrader(RunStore(self.store_path), **fields))
            else:
                built.append(spec.build(self.folder, place))
        return built

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
        (spec,) = StudyFile.model_validate({"store": ".", "agents": [fields]}).agents
        return spec.build(Path(), key)
    except ValidationError as cause:
        faults = (fault.replace("line 1: agents[0]", key, 1) for fault in _fault_lines(cause, None))
        raise StudyError("\n".join(dict.fromkeys(faults))) from None


def _file_in(folder: Path, path: Path, key: str) -> Path:
    file = folder / path
    if not exists(file):
        near = suggest(path.name, [p.name for p in file.parent.glob("*")])
        raise StudyError(f"{key}: there is nothing at {file}.{near}")
    return file


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
        for key in _NOT_IN_FILE & content.keys():
            raise StudyError(f"{path}: '{key}' is not a known key.")
        return StudyFile.model_validate({**content, "folder": path.parent, "outside": outside})
    except ValidationError as cause:
        faults = list(dict.fromkeys(_fault_lines(cause, node)))
        many = f", {len(faults)} problems" if len(faults) > 1 else ""
        raise StudyError(f"{path}{many}:\n" + "\n".join(f"- {f}" for f in faults)) from None


def _fault_lines(error: ValidationError, node: yaml.Node | None) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        loc = [part for at, part in enumerate(fault["loc"]) if not _is_tag(fault["loc"], at)]
        yield sentence_at(node, loc, _fault_message(fault, str(loc[-1]) if loc else ""))


_NOT_IN_FILE = {"folder", "outside"}


def _is_tag(loc: tuple[Any, ...], at: int) -> bool:
    """Return whether ``loc[at]`` is a tag that pydantic added, and not a key of the file."""
    if loc[at] in (*_KINDS["agents"], *_KINDS["graders"]):
        return loc[0] in _KINDS and (at == 2 or loc[at - 1] == "agent")
    return at == 1 and loc[0] in ("placebo", "previous")


def _fault_message(fault: Any, key: str) -> str:
    kind = fault["type"]
    if kind == "own_words":
        return f"{fault['msg'].rstrip('.')}."
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        if _SECRET.search(key):
            return "not a known key. Keys to services are read from the environment only."
        if key == "batch":
            return "not a known key any more; for half the price, ask on Inspect with --batch."
        allowed = _allowed_keys(fault["loc"])
        return f"not a known key; allowed: {', '.join(allowed)}.{suggest(key, allowed)}"
    if kind == "missing":
        return "missing."
    if kind == "union_tag_not_found":
        return f"'kind' is missing; allowed: {', '.join(_allowed_kinds(fault['loc']))}."
    opening = "" if _SECRET.search(key) else f"found {literal(fault['input'])}; "
    if kind == "union_tag_invalid":
        tag, kinds = str(fault["ctx"]["tag"]), _allowed_kinds(fault["loc"])
        return f"kind: found {literal(tag)}; allowed: {', '.join(kinds)}.{suggest(tag, kinds)}"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
        return f"{opening}allowed: {', '.join(words)}.{suggest(str(fault['input']), words)}"
    loc = fault["loc"]
    if example := _EXAMPLES.get("agents" if "agent" in loc else loc[0]):
        if kind == "list_type" and len(loc) == 1:
            return f"{opening}write [{example}]."
        if kind in ("model_type", "model_attributes_type"):
            return f"{opening}write {example}."
    message = fault["msg"].removeprefix("Input should be ").removeprefix("Value should be ")
    return f"{opening}allowed: {message}."


def _allowed_kinds(loc: tuple[Any, ...]) -> list[str]:
    """Return the kinds that are allowed at a location: kinds of graders or kinds of agents."""
    group: Group = "graders" if loc[0] == "graders" and "agent" not in loc else "agents"
    return [*_KINDS[group], *sorted(set(installed_kinds(group)) - set(_KINDS[group]))]


_EXAMPLES = {
    "agents": "{kind: anthropic, model: ...}",
    "graders": "{agent: {kind: anthropic, model: ...}}",
    "grading": "{min_gold_agreement: 0.9}",
}


def _allowed_keys(loc: tuple[Any, ...]) -> list[str]:
    """Return the keys that are allowed in place of the unknown key at the location `loc`."""
    models = {
        "anthropic": _Anthropic,
        "openai": _OpenAI,
        "cli": _Cli,
        "replay": _Replay,
        "comprehension": _Comprehension,
        "suite": _SuiteGrader,
        "grading": _Grading,
        "comparators": _Comparator,
        "prices": Price,
    }
    tags = [part for part in loc[:-1] if part in models]
    model = models[tags[-1]] if tags else StudyFile
    if loc[0] == "graders" and tags == ["replay"]:
        model = _ReplayGrader
    keys = (name for name in signature(model).parameters if name not in _NOT_IN_FILE)
    return sorted(keys, key=lambda name: name != "kind")
