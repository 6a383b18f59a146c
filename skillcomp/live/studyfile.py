"""STUDY.yaml: a whole study in one file, read strictly, every mistake told with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PositiveFloat,
    PositiveInt,
    Tag,
    ValidationError,
)

from skillcomp.errors import StudyError, suggest
from skillcomp.io.store import RunStore
from skillcomp.live.agents import AnthropicAgent, CliAgent, OpenAIAgent, ReplayAgent
from skillcomp.live.graders import ComprehensionGrader, Grader
from skillcomp.live.prompts import Style
from skillcomp.live.replay_grader import ReplayGrader
from skillcomp.live.reply import Agent
from skillcomp.live.strictyaml import line_of, read_yaml
from skillcomp.records import Suite

__all__ = ["StudyFile", "read_study"]

_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Anthropic(_Strict):
    kind: Literal["anthropic"]
    model: str
    name: str | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking: Literal["adaptive", "disabled", "between_tools"] | None = None
    max_tokens: PositiveInt = 16_000
    cache: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"
    timeout: PositiveFloat = 600.0
    base_url: str | None = None

    def build(self, folder: Path) -> Agent:
        return AnthropicAgent(**self.model_dump(exclude={"kind"}))


class _OpenAI(_Strict):
    kind: Literal["openai"]
    model: str
    name: str | None = None
    base_url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    effort: str | None = None
    max_tokens: PositiveInt = 16_000
    limit_name: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    json_mode: Literal["schema", "object", "none"] = "schema"
    timeout: PositiveFloat = 600.0

    def build(self, folder: Path) -> Agent:
        return OpenAIAgent(**self.model_dump(exclude={"kind"}))


class _Cli(_Strict):
    kind: Literal["cli"]
    command: list[str] = Field(min_length=1)
    name: str | None = None
    model: str | None = None
    skill_in: Literal["auto", "home", "prompt"] = "auto"
    output: Literal["auto", "claude", "codex", "text"] = "auto"
    passed: list[str] = Field(default_factory=list)
    timeout: PositiveFloat = 600.0

    def build(self, folder: Path) -> Agent:
        return CliAgent(**self.model_dump(exclude={"kind"}))


class _Replay(_Strict):
    kind: Literal["replay"]
    store: Path
    agent: str | None = None
    name: str | None = None

    def build(self, folder: Path) -> Agent:
        store = RunStore(_there(folder, self.store, "agents"))
        return ReplayAgent(store, agent=self.agent, name=self.name)


_AgentSpec = Annotated[_Anthropic | _OpenAI | _Cli | _Replay, Field(discriminator="kind")]


class _Comprehension(_Strict):
    kind: Literal["comprehension"] = "comprehension"
    agent: _AgentSpec
    style: Style = "forced"
    version: str | None = None
    name: str | None = None
    overlap_n: PositiveInt = 6

    def build(self, folder: Path) -> Grader:
        fields = self.model_dump(exclude={"kind", "agent"})
        return ComprehensionGrader(self.agent.build(folder), **fields)


class _ReplayGrader(_Strict):
    kind: Literal["replay"]
    store: Path
    grader: str | None = None
    round: PositiveInt = 1
    name: str | None = None

    def build(self, folder: Path) -> Grader:
        store = RunStore(_there(folder, self.store, "graders"))
        return ReplayGrader(store, self.grader, round=self.round, name=self.name)


def _grader_kind(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("kind", "comprehension"))
    return str(getattr(value, "kind", "comprehension"))


_GraderSpec = Annotated[
    Annotated[_Comprehension, Tag("comprehension")] | Annotated[_ReplayGrader, Tag("replay")],
    Discriminator(_grader_kind),
]


class _Grading(_Strict):
    gold: Path | None = None
    min_gold_agreement: float | None = Field(default=None, gt=0, le=1)
    budget_usd: PositiveFloat | None = None
    concurrency: PositiveInt | None = None
    batch: bool | None = None
    seed: int | None = None


class StudyFile(_Strict):
    """What a STUDY.yaml holds; paths are relative to the file.

    Attributes
    ----------
    store : Path
        Folder of the study.
    skills, suites : list of Path
        Files to add; the store's own suites are asked when none are named.
    agents : list
        Each with ``kind``: anthropic, openai, cli or replay, and the arguments of that agent.
    graders : list
        Each with an ``agent``, ``style`` and the like, or ``kind: replay``.
    conditions, repeats, placebo, previous, seed, concurrency, budget_usd, batch
        As for `skillcomp.run`.
    grading : mapping
        ``gold``, ``min_gold_agreement``, and what is to differ from the above for grading. The
        ``budget_usd`` above holds for the answers, and once more for the gradings.
    """

    store: Path
    skills: list[Path] = Field(default_factory=list)
    suites: list[Path] = Field(default_factory=list)
    agents: list[_AgentSpec] = Field(default_factory=list)
    graders: list[_GraderSpec] = Field(default_factory=list)
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

    def open_store(self) -> RunStore:
        """Return the store with the skills and suites of the file in it."""
        store = RunStore(self.folder / self.store)
        for path in self.skills:
            store.add_skill(_there(self.folder, path, "skills"))
        return store

    def open_suites(self, store: RunStore) -> list[Suite] | None:
        """Return the suites to ask, None for all of the store's."""
        found = [store.add_suite(_there(self.folder, path, "suites")) for path in self.suites]
        return found or None

    def build_agents(self) -> list[Agent]:
        """Return the agents."""
        return [agent.build(self.folder) for agent in self.agents]

    def build_graders(self) -> list[Grader]:
        """Return the graders."""
        return [grader.build(self.folder) for grader in self.graders]

    def texts(self, store: RunStore, name: Literal["placebo", "previous"]) -> Any:
        """Return what is loaded in the skill's place: slugs stay, files are found."""
        given = getattr(self, name)
        if given is None:
            return None
        if isinstance(given, dict):
            return {slug: self._text(store, text) for slug, text in given.items()}
        return self._text(store, given)

    def _text(self, store: RunStore, text: str) -> str | Path:
        if text in store.skills:
            return text
        path = self.folder / text if len(text) < 500 and "\n" not in text else None
        return path if path is not None and (path.exists() or " " not in text) else text


def _there(folder: Path, path: Path, key: str) -> Path:
    found = folder / path
    if not found.exists():
        near = suggest(path.name, [p.name for p in found.parent.glob("*")])
        raise StudyError(f"{key}: there is nothing at {found}.{near}")
    return found


def read_study(path: Path) -> StudyFile:
    """Read a STUDY.yaml.

    Parameters
    ----------
    path : pathlib.Path
        The file.

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
    content, node = read_yaml(path)
    try:
        if "folder" in content:
            raise StudyError(f"{path}: 'folder' is not a known key.")
        return StudyFile.model_validate({**content, "folder": path.parent})
    except ValidationError as cause:
        faults = list(dict.fromkeys(_faults(cause, node)))
        many = f", {len(faults)} problems" if len(faults) > 1 else ""
        raise StudyError(f"{path}{many}:\n" + "\n".join(f"- {f}" for f in faults)) from None


def _faults(error: ValidationError, node: yaml.Node | None) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        # names of the members of a union are no places in the file
        loc = [part for part in fault["loc"] if not _is_tag(part, fault["loc"])]
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
        line = line_of(node, loc)
        yield f"line {line}: {place}: {_told(fault, str(loc[-1]) if loc else '')}"


_TAGS = ("anthropic", "openai", "cli", "replay", "comprehension", "str")


def _is_tag(part: Any, loc: tuple[Any, ...]) -> bool:
    return part in _TAGS or (isinstance(part, str) and part.startswith("dict["))


def _told(fault: Mapping[str, Any], key: str) -> str:
    kind = fault["type"]
    if kind == "extra_forbidden":
        if _SECRET.search(key):
            return "not a known key. Keys to services are read from the environment only."
        allowed = _keys(fault["loc"])
        return f"not a known key; allowed: {', '.join(allowed)}.{suggest(key, allowed)}"
    if kind == "missing":
        return "missing."
    if kind == "union_tag_not_found":
        return "'kind' is missing; allowed: anthropic, openai, cli, replay."
    found = "" if _SECRET.search(key) else f"found {_short(fault['input'])}; "
    if kind == "union_tag_invalid":
        tags = re.findall(r"'([^']*)'", fault["ctx"]["expected_tags"])
        tag = str(fault["ctx"]["tag"])
        return f"kind: found '{tag}'; allowed: {', '.join(tags)}.{suggest(tag, tags)}"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
        return f"{found}allowed: {', '.join(words)}.{suggest(str(fault['input']), words)}"
    if example := _example(kind, fault["loc"], fault["input"]):
        return f"{found}write {example}."
    message = fault["msg"].removeprefix("Input should be ").removeprefix("Value should be ")
    return f"{found}allowed: {message}."


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
    models: dict[str, type[BaseModel]] = {
        "anthropic": _Anthropic,
        "openai": _OpenAI,
        "cli": _Cli,
        "replay": _Replay,
        "comprehension": _Comprehension,
        "grading": _Grading,
    }
    named = [part for part in loc[:-1] if part in models]
    model = models[named[-1]] if named else StudyFile
    if loc[0] == "graders" and named == ["replay"]:
        model = _ReplayGrader
    return [name for name in model.model_fields if name != "folder"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
