"""STUDY.yaml: a whole study in one file, read strictly, every mistake told with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from os.path import exists
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from skillcomp import live
from skillcomp.errors import StudyError, literal, suggest
from skillcomp.io.files import line_of, read_yaml
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent
from skillcomp.live.graders.prompts import Without
from skillcomp.live.plugins import (
    Group,
    build_from_target,
    build_installed,
    installed_kinds,
    target_problem,
)
from skillcomp.pricing import Price
from skillcomp.records import Record, Suite

_KINDS: Mapping[Group, tuple[str, ...]] = {
    "agents": ("anthropic", "openai", "cli", "replay", "python"),
    "graders": ("comprehension", "replay", "suite", "python"),
}
_ONE_WAY = (
    "give either 'program' (claude or codex, with all that it needs) or 'command' (a list of "
    "program and arguments of your own)"
)
_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class _Price(Record):
    model: str
    input: NonNegativeFloat
    output: NonNegativeFloat
    cache_write_5m: NonNegativeFloat = math.nan
    cache_write_1h: NonNegativeFloat = math.nan
    cache_read: NonNegativeFloat = math.nan
    batch: NonNegativeFloat = math.nan
    above: NonNegativeInt = 0


class _Agent(Record):
    name: str | None = None
    timeout: PositiveFloat = 600.0
    prices: list[_Price] = Field(default_factory=list)

    def _fields(self, *without: str) -> dict[str, Any]:
        """Return the arguments of the agent: what stands in the file."""
        fields = self.model_dump(exclude={"kind", "prices", *without})
        own = [Price(**one.model_dump()) for one in self.prices]
        return {**fields, "prices": own}


class _Anthropic(_Agent):
    kind: Literal["anthropic"]
    model: str
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking: Literal["adaptive", "disabled", "between_tools"] | None = None
    max_tokens: PositiveInt = 16_000
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"
    max_retries: NonNegativeInt = 5
    base_url: str | None = None

    def build(self, folder: Path, place: str) -> Agent:
        return live.AnthropicAgent(**self._fields())


class _OpenAI(_Agent):
    kind: Literal["openai"]
    model: str
    base_url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    effort: str | None = None
    max_tokens: PositiveInt = 16_000
    limit_name: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    json_mode: Literal["schema", "object", "none"] = "schema"
    options: dict[str, Any] | None = None
    max_retries: NonNegativeInt = 5

    def build(self, folder: Path, place: str) -> Agent:
        return live.OpenAIAgent(**self._fields())


class _Cli(_Agent):
    kind: Literal["cli"]
    program: Literal["claude", "codex"] | None = None
    command: list[str] | None = Field(default=None, min_length=1)
    extra: list[str] = Field(default_factory=list)
    model: str | None = None
    base_url: str | None = None
    skill_in: Literal["auto", "home", "prompt"] = "auto"
    output: Literal["auto", "claude", "codex", "text"] = "auto"
    passed: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_way(self) -> _Cli:
        if (self.program is None) == (self.command is None):
            raise PydanticCustomError("own_words", _ONE_WAY)
        if self.extra and self.program is None:
            raise PydanticCustomError(
                "own_words", "'extra' goes with 'program'; put it into command"
            )
        return self

    def build(self, folder: Path, place: str) -> Agent:
        if self.program is None:
            return live.CliAgent(**self._fields("program", "extra"))
        make = {"claude": live.CliAgent.claude, "codex": live.CliAgent.codex}
        return make[self.program](**self._fields("program", "command"))


class _Replay(Record):
    kind: Literal["replay"]
    store: Path
    agent: str | None = None
    name: str | None = None

    def build(self, folder: Path, place: str) -> Agent:
        store = RunStore(_there(folder, self.store, "agents"))
        return live.ReplayAgent(store, agent=self.agent, name=self.name)


def _checked_target(target: str) -> str:
    if problem := target_problem(target):
        raise PydanticCustomError("own_words", problem)
    return target


class _Guest(Record):
    """An object of another package; the keys without a field here are its arguments."""

    model_config = ConfigDict(extra="allow")
    group: ClassVar[Group]

    def _arguments(self, folder: Path, place: str) -> dict[str, Any]:
        arguments = dict(self.model_extra or {})
        spec = getattr(self, "agent", None) if "agent" in type(self).model_fields else None
        if spec is not None:
            arguments["agent"] = spec.build(folder, f"{place}.agent")
        return arguments


class _Python(_Guest):
    kind: Literal["python"]
    target: Annotated[str, AfterValidator(_checked_target)]

    def build(self, folder: Path, place: str) -> Any:
        arguments = self._arguments(folder, place)
        return build_from_target(self.group, self.target, arguments, place=place, folder=folder)


class _Installed(_Guest):
    kind: str

    def build(self, folder: Path, place: str) -> Any:
        arguments = self._arguments(folder, place)
        return build_installed(self.group, self.kind, arguments, place=place)


class _PythonAgent(_Python):
    group = "agents"


class _InstalledAgent(_Installed):
    group = "agents"


def _spec_tag(group: Group, kind: object) -> str:
    """Return the tag of the model that reads an entry of some kind."""
    is_guest = kind not in _KINDS[group] and str(kind) in installed_kinds(group)
    return "installed" if is_guest else str(kind)


def _agent_tag(entry: Any) -> str | None:
    # every model refuses what is no mapping, with the same message
    kind = entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", "anthropic")
    return None if kind is None else _spec_tag("agents", kind)


def _grader_tag(entry: Any) -> str:
    find = entry.get if isinstance(entry, dict) else partial(getattr, entry)
    return _spec_tag("graders", find("kind", "comprehension"))


_AgentSpec = Annotated[
    Annotated[_Anthropic, Tag("anthropic")]
    | Annotated[_OpenAI, Tag("openai")]
    | Annotated[_Cli, Tag("cli")]
    | Annotated[_Replay, Tag("replay")]
    | Annotated[_PythonAgent, Tag("python")]
    | Annotated[_InstalledAgent, Tag("installed")],
    Discriminator(_agent_tag),
]


class _Comprehension(Record):
    kind: Literal["comprehension"] = "comprehension"
    agent: _AgentSpec
    style: Literal["forced", "evidence", "impression"] = "forced"
    version: str | None = None
    name: str | None = None
    ngram: PositiveInt = 6
    without: list[Without] = Field(default_factory=list)
    reply: Literal["plain", "report"] = "plain"
    template: Path | None = None

    def build(self, folder: Path, place: str) -> live.LiveGrader:
        fields = self.model_dump(exclude={"kind", "agent", "template"})
        own = None if self.template is None else _there(folder, self.template, "graders")
        agent = self.agent.build(folder, f"{place}.agent")
        return live.ComprehensionGrader(agent, template=own, **fields)


class _Comparator(Record):
    agent: _AgentSpec
    version: str | None = None
    name: str | None = None

    def build(self, folder: Path, place: str) -> live.PairwiseGrader:
        fields = self.model_dump(exclude={"agent"})
        return live.PairwiseGrader(self.agent.build(folder, f"{place}.agent"), **fields)


class _ReplayGrader(Record):
    kind: Literal["replay"]
    store: Path
    grader: str | None = None
    round: PositiveInt = 1
    name: str | None = None

    def build(self, folder: Path, place: str) -> live.LiveGrader:
        store = RunStore(_there(folder, self.store, "graders"))
        return live.ReplayGrader(store, grader=self.grader, round=self.round, name=self.name)


class _SuiteGrader(Record):
    kind: Literal["suite"]
    agent: _AgentSpec | None = None
    trust: bool = False
    timeout: PositiveFloat = 60.0
    name: str = "suite"

    def build(self, folder: Path, place: str, store: RunStore) -> live.LiveGrader:
        agent = None if self.agent is None else self.agent.build(folder, f"{place}.agent")
        options = self.model_dump(exclude={"kind", "agent"})
        return live.SuiteGrader(store, agent, **options)


class _PythonGrader(_Python):
    group = "graders"
    agent: _AgentSpec | None = None


class _InstalledGrader(_Installed):
    group = "graders"
    agent: _AgentSpec | None = None


_GraderSpec = Annotated[
    Annotated[_Comprehension, Tag("comprehension")]
    | Annotated[_ReplayGrader, Tag("replay")]
    | Annotated[_SuiteGrader, Tag("suite")]
    | Annotated[_PythonGrader, Tag("python")]
    | Annotated[_InstalledGrader, Tag("installed")],
    Discriminator(_grader_tag),
]


class _Grading(Record):
    gold: Path | None = None
    min_gold_agreement: float | None = Field(default=None, gt=0, le=1)
    budget_usd: PositiveFloat | None = None
    concurrency: PositiveInt | None = None
    batch: bool | None = None
    seed: int | None = None


class StudyFile(Record):
    """The content of a STUDY.yaml; paths are relative to the file.

    An agent or a grader with ``kind: python`` is a class or function of a module, named by
    ``target: "my_module:MyAgent"``; a kind that is not listed below is an entry point
    ``skillcomp.agents`` or ``skillcomp.graders`` of an installed package. Both are called with the
    other keys as keyword arguments; a grader's ``agent`` is built first. Only a study file that you
    name yourself (or ``--agent`` of a command) imports code, when its agents or graders are built.
    Reading it, `skillcomp check` and `skillcomp status` import nothing, and neither does a store,
    a suite or a skill.

    Attributes
    ----------
    store : Path
        Folder of the study.
    skills, suites : list of Path
        Files to add; the store's own suites are asked when none are named.
    agents : list
        Each with ``kind``: anthropic, openai, cli, replay or python, and its arguments;
        ``prices`` are a list of ``{model: ..., input: ..., output: ...}`` in dollars for a million
        tokens. ``kind: cli`` takes ``program: claude`` or ``program: codex`` (as
        `CliAgent.claude` and `CliAgent.codex`, with ``extra`` arguments), or a ``command``.
    graders : list
        Each with an ``agent``, ``style``, ``without``, ``reply``, ``template`` and the like (as
        for `ComprehensionGrader`), or ``kind: replay``, or ``kind: suite`` for tasks, with an
        ``agent`` where a rubric needs one, ``trust`` and ``timeout`` (as for `SuiteGrader`), or
        ``kind: python``.
    comparators : list
        Each with an ``agent`` (as for `PairwiseGrader`), for ``skillcomp compare``.
    conditions, repeats, placebo, previous, seed, concurrency, budget_usd, batch
        As for `skillcomp.run`.
    grading : mapping
        ``gold``, ``min_gold_agreement``, and what is to differ from the above for grading. The
        ``budget_usd`` above holds for the answers, once more for the gradings, and once more for
        the comparisons, which are made as the gradings are.
    """

    store: Path
    skills: list[Path] = Field(default_factory=list)
    suites: list[Path] = Field(default_factory=list)
    agents: list[_AgentSpec] = Field(default_factory=list)
    graders: list[_GraderSpec] = Field(default_factory=list)
    comparators: list[_Comparator] = Field(default_factory=list)
    conditions: tuple[Literal["baseline", "skill", "placebo", "previous"], ...] = Field(
        default=("baseline", "skill"), min_length=1
    )
    repeats: PositiveInt = 1
    placebo: str | dict[str, str] | None = None
    previous: str | dict[str, str] | None = None
    seed: int = 0
    concurrency: PositiveInt = 8
    budget_usd: PositiveFloat | None = None
    batch: bool = False
    grading: _Grading = Field(default_factory=_Grading)
    folder: Path = Field(default=Path(), exclude=True)
    outside: bool = Field(default=False, exclude=True)

    @property
    def store_path(self) -> Path:
        """Where the store is, below the study's folder unless that was allowed otherwise."""
        return self._inside(self.folder / self.store, "store")

    def _inside(self, path: Path, key: str) -> Path:
        if "\0" in str(path):
            raise StudyError(f"{key}: found {literal(path.name)}; a path holds no NUL character.")
        if not self.outside and not path.resolve().is_relative_to(self.folder.resolve()):
            raise StudyError(
                f"{key}: {path} is outside the study's folder {self.folder.resolve()}. Where that "
                "is meant, allow it by --allow-outside."
            )
        return path

    def open_store(self) -> RunStore:
        """Return the store with the skills and suites of the file in it."""
        store = RunStore(self.store_path)
        for path in self.skills:
            store.add_skill(_there(self.folder, path, "skills"))
        return store

    def open_suites(self, store: RunStore) -> list[Suite] | None:
        """Return the suites to ask, None for all of the store's."""
        found = [store.add_suite(_there(self.folder, path, "suites")) for path in self.suites]
        return found or None

    def build_agents(self) -> list[Agent]:
        """Return the agents."""
        return [
            agent.build(self.folder, f"agents[{position}]")
            for position, agent in enumerate(self.agents)
        ]

    def build_graders(self) -> list[live.LiveGrader]:
        """Return the graders; those of task suites need the suites in the store already."""
        graders: list[live.LiveGrader] = []
        for position, grader in enumerate(self.graders):
            place = f"graders[{position}]"
            if isinstance(grader, _SuiteGrader):
                graders.append(grader.build(self.folder, place, RunStore(self.store_path)))
            else:
                graders.append(grader.build(self.folder, place))
        return graders

    def build_comparators(self) -> list[live.PairwiseGrader]:
        """Return the comparators."""
        return [
            comparator.build(self.folder, f"comparators[{position}]")
            for position, comparator in enumerate(self.comparators)
        ]

    def texts(self, store: RunStore, name: Literal["placebo", "previous"]) -> Any:
        """Return what is loaded in the skill's place: slugs stay, files are found."""
        given = getattr(self, name)
        if given is None:
            return None
        if isinstance(given, dict):
            return {slug: self._text(store, text, name) for slug, text in given.items()}
        return self._text(store, given, name)

    def _text(self, store: RunStore, text: str, key: str) -> str | Path:
        if text in store.skills:
            return text
        path = self.folder / text
        return self._inside(path, key) if exists(path) or len(text.split()) == 1 else text


def read_agent(text: str, *, key: str, timeout: float | None = None) -> Agent:
    """Return the agent that a command names: a model's name, or a mapping as in a study file.

    Raises
    ------
    StudyError
        When it is neither; every fault as `read_study` tells it.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError:
        given = None
    if isinstance(given, str):
        given = {"kind": "anthropic", "model": given}
    if not isinstance(given, dict):
        raise StudyError(
            f"{key}: found {literal(text)}; expected the name of a model, or a mapping such as "
            "'{kind: cli, program: claude}'."
        )
    if timeout is not None and given.get("kind") == "cli":
        given = {"timeout": timeout, **given}
    try:
        (spec,) = StudyFile.model_validate({"store": ".", "agents": [given]}).agents
        return spec.build(Path(), key)
    except ValidationError as cause:
        faults = (told.replace("line 1: agents[0]", key, 1) for told in _faults(cause, None))
        raise StudyError("\n".join(dict.fromkeys(faults))) from None


def _there(folder: Path, path: Path, key: str) -> Path:
    found = folder / path
    if not exists(found):
        near = suggest(path.name, [p.name for p in found.parent.glob("*")])
        raise StudyError(f"{key}: there is nothing at {found}.{near}")
    return found


def read_study(path: Path, *, outside: bool = False) -> StudyFile:
    """Read a STUDY.yaml.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    outside : bool, default False
        Whether its store and the texts of its conditions may lie outside its folder.

    Returns
    -------
    StudyFile
        Checked, with paths still as in the file.

    Raises
    ------
    StudyError
        When it cannot be read, is not YAML, gives a key twice or a value that holds itself, or does
        not fit: every fault with its line, what was found, what is allowed and the nearest match.
        Values of keys that speak of secrets are not repeated.
    """
    content, node = read_yaml(path, what="study", error=StudyError)
    try:
        for key in _NOT_IN_FILE & content.keys():
            raise StudyError(f"{path}: '{key}' is not a known key.")
        more = {"folder": path.parent, "outside": outside}
        return StudyFile.model_validate({**content, **more})
    except ValidationError as cause:
        faults = list(dict.fromkeys(_faults(cause, node)))
        many = f", {len(faults)} problems" if len(faults) > 1 else ""
        raise StudyError(f"{path}{many}:\n" + "\n".join(f"- {f}" for f in faults)) from None


def _faults(error: ValidationError, node: yaml.Node | None) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        whole = fault["loc"]
        loc = [part for at, part in enumerate(whole) if not _is_tag(whole, at)]
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
        line = line_of(node, loc)
        yield f"line {line}: {place}: {_told(fault, str(loc[-1]) if loc else '')}"


_NOT_IN_FILE = {"folder", "outside"}


def _is_tag(loc: tuple[Any, ...], at: int) -> bool:
    """Whether a part of a place names a member of a union, which is no place in the file."""
    in_list = at == 2 and loc[0] in ("agents", "graders")
    return in_list or (at > 0 and loc[at - 1] in ("agent", "placebo", "previous"))


def _told(fault: Mapping[str, Any], key: str) -> str:
    kind = fault["type"]
    if kind == "own_words":
        return f"{fault['msg'].rstrip('.')}."
    if kind == "extra_forbidden":
        if _SECRET.search(key):
            return "not a known key. Keys to services are read from the environment only."
        allowed = _keys(fault["loc"])
        return f"not a known key; allowed: {', '.join(allowed)}.{suggest(key, allowed)}"
    if kind == "missing":
        return "missing."
    if kind == "union_tag_not_found":
        return f"'kind' is missing; allowed: {', '.join(_allowed_kinds(fault['loc']))}."
    found = "" if _SECRET.search(key) else f"found {literal(fault['input'])}; "
    if kind == "union_tag_invalid":
        tag, kinds = str(fault["ctx"]["tag"]), _allowed_kinds(fault["loc"])
        return f"kind: found {literal(tag)}; allowed: {', '.join(kinds)}.{suggest(tag, kinds)}"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
        return f"{found}allowed: {', '.join(words)}.{suggest(str(fault['input']), words)}"
    if example := _example(kind, fault["loc"], fault["input"]):
        return f"{found}write {example}."
    message = fault["msg"].removeprefix("Input should be ").removeprefix("Value should be ")
    return f"{found}allowed: {message}."


def _allowed_kinds(loc: tuple[Any, ...]) -> list[str]:
    """Return the kinds of agents or graders that may be at a place of the file."""
    group: Group = "graders" if loc[0] == "graders" and "agent" not in loc else "agents"
    return [*_KINDS[group], *sorted(set(installed_kinds(group)) - set(_KINDS[group]))]


def _example(kind: str, loc: tuple[Any, ...], value: Any) -> str | None:
    """Return how what should stand at a place is written, where something of no use stands."""
    in_list = kind == "list_type" and len(loc) == 1
    if not (in_list or kind in ("model_type", "model_attributes_type")):
        return None
    if loc[0] == "grading":
        return "{min_gold_agreement: 0.9}"
    if loc[0] not in ("agents", "graders"):
        return None
    named = isinstance(value, str) and re.fullmatch(r"[\w.:/@-]{1,60}", value)
    text = f"{{kind: anthropic, model: {value if named else '...'}}}"
    if loc[0] == "graders" and loc[-1] != "agent":
        text = f"{{agent: {text}}}"
    return f"[{text}]" if in_list else text


def _keys(loc: tuple[Any, ...]) -> list[str]:
    """Return which keys are allowed where a strange one was found."""
    models: dict[str, type[Record]] = {
        "anthropic": _Anthropic,
        "openai": _OpenAI,
        "cli": _Cli,
        "replay": _Replay,
        "comprehension": _Comprehension,
        "suite": _SuiteGrader,
        "grading": _Grading,
        "comparators": _Comparator,
        "prices": _Price,
    }
    named = [part for part in loc[:-1] if part in models]
    model = models[named[-1]] if named else StudyFile
    if loc[0] == "graders" and named == ["replay"]:
        model = _ReplayGrader
    keys = [name for name in model.model_fields if name not in _NOT_IN_FILE]
    return sorted(keys, key=lambda name: name != "kind")
