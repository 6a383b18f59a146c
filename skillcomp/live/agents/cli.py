"""Agents that are programs: ``claude -p``, ``codex exec``, or any command that reads a prompt."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel

from skillcomp.errors import AgentError, require_known
from skillcomp.io.event_streams import Trace, is_result, kind_of, read_trace
from skillcomp.io.skills import copy_skill
from skillcomp.live.agents import process
from skillcomp.live.agents.agent import (
    TIME_LIMIT,
    BaseAgent,
    Bounds,
    Cell,
    Reply,
    StudyWarning,
    cost_fields,
    family_of,
    host_of,
    redact,
    settings_json,
    skill_block,
    unreadable,
)
from skillcomp.live.agents.process import Ran, keep, room, run_program
from skillcomp.pricing import Price
from skillcomp.records import Skill

# What a program needs of the environment: to be found and to reach the network.
PASSED = (
    *("PATH", "LANG", "LC_ALL", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
# A model that runs commands can read its keys, so a program gets those of its own maker only.
KEYS = {
    "claude": (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        *("CLAUDE_CODE_MAX_RETRIES", "DISABLE_AUTOUPDATER"),
    ),
    "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"),
}
_ENDPOINTS = {"ANTHROPIC_BASE_URL": "api.anthropic.com", "OPENAI_BASE_URL": "api.openai.com"}
# How the program is told where to ask.
_BASE_URL = {"claude": "ANTHROPIC_BASE_URL", "codex": "OPENAI_BASE_URL"}
# claude retries a wrong key ten times, which takes three minutes; three are enough, since we retry
# too. A value set in the environment wins.
_ALWAYS = {"claude": {"CLAUDE_CODE_MAX_RETRIES": "3", "DISABLE_AUTOUPDATER": "1"}}
_MAX_TRACE = 1_000_000  # characters of the output that are kept
_SECRET_FLAG = re.compile(r"key|token|secret|passw|credential|authorization", re.IGNORECASE)
_KEY_LIKE = re.compile(r"\bsk-[A-Za-z0-9_-]{8,}|(?<=Bearer )\S{8,}")
# What claude may do without asking; it has no sandbox, and nobody is there to be asked.
_PERMISSIONS = {"read-only": "default", "workspace-write": "acceptEdits"}
_RESULT = (
    "agent '{name}': its whole output is one JSON object of the type 'result', kept as the answer, "
    'with no cost read; give output="claude" if it comes from claude --output-format json, or '
    'output="text" if it is the answer.'
)
_SHAPE = "Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


class CliAgent(BaseAgent):
    """A program that reads the prompt on its standard input and writes its answer.

    Each question runs in a process of its own, in an empty temporary working folder, with a clean
    home and only the listed variables of the environment; no shell is involved. Output of
    ``claude -p --output-format stream-json --verbose`` and of ``codex exec --json`` is read as a
    trace, all other output is the answer, whatever lines it holds.

    Parameters
    ----------
    command : sequence of str
        Program and arguments, as ``["codex", "exec", "--json", "-"]``. See `CliAgent.claude` and
        `CliAgent.codex` for the usual ones.
    name : str, optional
        The label in the frames; the program's name, with the model when given.
    model : str, optional
        The model that the command asks for: for the frames and for the price.
    skill_in : str, default "auto"
        ``"home"``: the skill is installed into the clean home, and whether it is used is the
        agent's decision, read from the trace into ``triggered``. ``"prompt"``: its text stands
        before the question, and ``triggered`` stays None. ``"auto"``: home for a program named
        claude, else prompt.
    skills_folder : str, default ".claude/skills"
        Where in the home skills are looked for.
    output : str, default "auto"
        What the program writes: ``"claude"`` or ``"codex"``, the event stream of that program, or
        ``"text"``, its answer. ``"auto"`` goes by the command's ``--output-format`` or ``exec
        --json``; where it has neither, a stream is what begins with the opening event of one, and
        an output that is one JSON object with the type ``result`` and a ``subtype`` is claude's.
    passed : sequence of str, optional
        Names of further variables of the environment that the program gets. Keys of Anthropic go
        to ``claude`` only, those of OpenAI to ``codex`` only, and both to any other command.
    base_url : str, optional
        Where ``claude`` or ``codex`` asks; ``ANTHROPIC_BASE_URL`` or ``OPENAI_BASE_URL`` of the
        environment when not given. It is handed over in the way that the program heeds, a variable
        or an argument, and its host stands in the settings.
    timeout : float, default 600
        Seconds; then the program and all processes of its group are ended.
    prices : sequence of Price, optional
        Prices of the model, where the program does not report its cost.

    Raises
    ------
    AgentError
        When the command is a string or empty, or an option is not allowed.

    Warns
    -----
    StudyWarning
        Once, when a whole output is one JSON object of the type ``result`` without a ``subtype``:
        it is kept as the answer, and its cost is not read.

    Notes
    -----
    A program that is logged in through files in one's own home finds none here: give it a key in
    the environment. When this process is killed, so are its programs, by a watchdog; what it could
    not clear away is cleared away at the next start. Processes that leave the group on purpose are
    not ended.

    A program that writes more than 64 MB to its output is ended, and the reply is ``truncated``.
    On Linux no file of its own can grow beyond 2 GB; the number of its files is not limited.
    """

    takes_files = True  # of a case: they come into the working folder

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        model: str | None = None,
        skill_in: Literal["auto", "home", "prompt"] = "auto",
        skills_folder: str = ".claude/skills",
        output: Literal["auto", "claude", "codex", "text"] = "auto",
        passed: Sequence[str] = (),
        base_url: str | None = None,
        timeout: float = 600.0,
        prices: Sequence[Price] = (),
    ) -> None:
        _check(command, skill_in, output, base_url)
        first, *rest = command
        # the program runs in another folder, so a relative path would not be found
        self._command = [str(Path(first).resolve()) if os.sep in first else first, *rest]
        self._program = Path(first).name
        self.model = model
        self.name = name or (f"{self._program}:{model}" if model else self._program)
        self.family = family_of(model or self._program)
        auto = "home" if self._program == "claude" else "prompt"
        self._skill_in = auto if skill_in == "auto" else skill_in
        self.installs_folders = self._skill_in == "home"  # with all files of a skill's
        self._skills_folder = skills_folder
        anyone = (name for names in KEYS.values() for name in names)
        self._passed = (*PASSED, *KEYS.get(self._program, anyone), *passed)
        self._timeout = timeout
        self._has_told_of_result = False
        self.prices = tuple(prices)
        variable = _BASE_URL.get(self._program)
        # read now, so that what the settings say is what is asked
        self._base_url = base_url or (os.environ.get(variable) if variable else None) or None
        self._own_url = base_url
        self._secrets = _secrets_in(rest)
        shown = [self._program, *(redact(redact(arg), self._secrets) for arg in rest)]
        self._kind = kind_of(command) if output == "auto" else output
        self.settings = settings_json(
            command=shown,
            skill_in=self._skill_in,
            timeout=timeout,
            output=None if output == "auto" else output,
            endpoint=self._endpoint(),
        )

    @classmethod
    def claude(
        cls, model: str | None = None, *, extra: Sequence[str] = (), **options: Any
    ) -> CliAgent:
        """Return the agent that runs ``claude -p`` with its whole trace.

        Parameters
        ----------
        model : str, optional
            Its own default when not given.
        extra : sequence of str
            Further arguments, such as ``["--effort", "low", "--max-turns", "5"]``.
        **options
            Those of `CliAgent`.
        """
        command = ["claude", "-p", "--output-format", "stream-json", "--verbose"]
        command += ["--setting-sources", "user", "--strict-mcp-config", "--no-session-persistence"]
        command += ["--model", model] if model else []
        return cls([*command, *extra], model=model, **options)

    @classmethod
    def codex(
        cls, model: str | None = None, *, extra: Sequence[str] = (), **options: Any
    ) -> CliAgent:
        """Return the agent that runs ``codex exec --json`` in its read-only sandbox.

        Parameters
        ----------
        model : str, optional
            Its own default when not given.
        extra : sequence of str
            Further arguments, put before the final ``-`` that stands for standard input.
        **options
            Those of `CliAgent`.
        """
        command = ["codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check"]
        command += ["--sandbox", "read-only"]
        command += ["--model", model] if model else []
        return cls([*command, *extra, "-"], model=model, **options)

    async def ask(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
        cell: Cell | None = None,
    ) -> Reply:
        """Return the reply to one prompt; see `Agent.ask`."""
        placed = skill is not None and self._skill_in == "home"
        texts = [system, skill_block(skill) if skill and not placed else None, prompt]
        bounds = cell.bounds if cell and cell.bounds else Bounds()
        timeout = bounds.timeout or self._timeout
        offered = (skill, *bounds.neighbours) if skill is not None and placed else ()
        with room() as place:
            for one in offered:
                self._install(one, place / "home")
            for name, file in cell.files if cell else ():
                target = place / "work" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
            shape = schema.model_json_schema() if schema is not None else bounds.schema
            command, note = self._shaped(shape, place)
            command = self._bound(command, bounds.sandbox)
            given = "\n\n".join(text for text in (*texts, note) if text)
            try:
                (place / "io" / "in").write_text(given, encoding="utf-8")
            except UnicodeEncodeError as error:
                return Reply(status="error", error=f"the prompt: {error}", settings=self.settings)
            environment = self._environment(place)
            ran = await run_program(command, environment, place, timeout)
            hidden = {**environment, **self._secrets}
            output, complaint = redact(ran.output, hidden), redact(ran.complaint, hidden)
            ran = replace(ran, output=output, complaint=complaint)
            if bounds.keep is not None:
                keep(place / "work", bounds.keep, ran.output, ran.complaint, hidden)
        try:
            reply = self._reply(ran, offered, bounds, prompt)
        except Exception as error:  # of an answer that was paid for
            return unreadable(error, ran.output, seconds=ran.seconds, settings=self.settings)
        if ran.is_cut and reply.status != "timeout":
            size = process.MAX_OUTPUT // 1_000_000
            told = f"the program wrote more than {size} MB; the rest is cut off"
            kept = (reply.answer or "")[:_MAX_TRACE] or None
            return reply.model_copy(update={"status": "truncated", "error": told, "answer": kept})
        return reply

    def _environment(self, place: Path) -> dict[str, str]:
        kept = {name: os.environ[name] for name in self._passed if name in os.environ}
        kept |= {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
        kept = {**_ALWAYS.get(self._program, {}), **kept}
        if self._program == "claude" and self._base_url:
            kept["ANTHROPIC_BASE_URL"] = self._base_url
        if self._program == "codex" and "OPENAI_API_KEY" in kept:
            kept.setdefault("CODEX_API_KEY", kept["OPENAI_API_KEY"])  # what codex exec reads
        return kept

    def _endpoint(self) -> str | None:
        """Return where it asks, unless at the usual hosts."""
        if self._program in _BASE_URL:
            default = _ENDPOINTS[_BASE_URL[self._program]]
            own = urlsplit(self._own_url).hostname if self._own_url else None
            return host_of(self._base_url, default) or own
        urls = {name: os.environ.get(name) for name in _ENDPOINTS if name in self._passed}
        hosts = (host_of(url, _ENDPOINTS[name]) for name, url in urls.items())
        return ", ".join(dict.fromkeys(host for host in hosts if host)) or None

    def _install(self, skill: Skill, home: Path) -> None:
        folder = home / self._skills_folder / skill.slug
        if not folder.resolve().is_relative_to(home.resolve()):
            raise AgentError(f"CliAgent: skill '{skill.slug}' would be installed outside the home.")
        folder.mkdir(parents=True)
        own = Path(skill.path) if skill.path else None
        if own is not None and own.name == "SKILL.md" and own.is_file():
            copy_skill(own.parent, folder)
        (folder / "SKILL.md").write_text(skill.text, encoding="utf-8")

    def _shaped(self, schema: dict[str, Any] | None, place: Path) -> tuple[list[str], str | None]:
        """Return the command and what the prompt must say so that the answer has its shape."""
        more: list[str] = []
        if self._program == "codex" and self._base_url:
            more += ["-c", f"openai_base_url={json.dumps(self._base_url)}"]  # it heeds no variable
        note = None
        if schema is not None:
            text = json.dumps(schema)
            if self._program == "claude":
                more += ["--json-schema", text]
            elif self._program == "codex":
                file = place / "io" / "schema.json"
                file.write_text(text, encoding="utf-8")
                more += ["--output-schema", str(file)]
            else:
                note = _SHAPE.format(schema=text)
        last = ["-"] if self._program == "codex" and self._command[-1] == "-" else []
        return [*self._command[: len(self._command) - len(last)], *more, *last], note

    def _bound(self, command: list[str], sandbox: str | None) -> list[str]:
        """Return the command with the sandbox of a case, for programs that know one."""
        if sandbox is None or self._program not in _BASE_URL:
            return command
        option, value = "--sandbox", sandbox
        if self._program == "claude":
            option, value = "--permission-mode", _PERMISSIONS[sandbox]
        if option in command[:-1]:
            at = command.index(option) + 1
            return [*command[:at], value, *command[at + 1 :]]
        return [command[0], *command[1:2], option, value, *command[2:]]

    def _reply(self, ran: Ran, offered: Sequence[Skill], bounds: Bounds, prompt: str) -> Reply:
        code, output, complaint = ran.code, ran.output, ran.complaint.strip()[-2000:]
        if isinstance(code, str):
            return Reply(status="error", error=code, fatal=True, settings=self.settings)
        trace = read_trace(output, self._kind)
        if self._kind is None and trace.kind == "text" and is_result(output):
            if not self._has_told_of_result:
                warnings.warn(_RESULT.format(name=self.name), StudyWarning, stacklevel=2)
            self._has_told_of_result = True
        fields = {name: getattr(trace, name) for name in _SAME}
        if code is None:
            limit = bounds.timeout or self._timeout
            fields |= {"status": "timeout", "error": f"no end after {limit:g} seconds"}
            waited = bool(trace.steps) and trace.steps[-1].kind == "retry"
            if bounds.timeout and not waited:  # the case's own limit, and not for its service
                fields |= {"status": "truncated", "stop_reason": TIME_LIMIT}
        elif code != 0 and trace.status == "ok":
            fields |= {"status": "error", "error": f"exit code {code}: {complaint}"}
            if bounds.keep is not None and trace.kind != "text":
                fields["status"] = "ok"  # it came to its end; the exit code is checked as well
        elif trace.status == "error" and complaint:
            fields["error"] = f"{trace.error}: {complaint}"
        if fields["status"] == "ok" and offered and not _has(trace, offered[0]):
            told = ", ".join(trace.skills or ()) or "none"
            fields |= {
                "status": "error",
                "error": f"skill '{offered[0].slug}' was installed, but the program has: {told}",
            }
        if trace.cost_usd is None and trace.cost_note is None:
            fields |= self._cost(trace)
        return Reply(
            **{**fields, "model": trace.model or self.model},
            **_invoked(trace, offered, prompt if self._program == "codex" else ""),
            seconds=ran.seconds,
            exit_code=code,
            trace=output[:_MAX_TRACE] if trace.kind != "text" else None,
            settings=self.settings,
        )

    def _cost(self, trace: Trace) -> dict[str, Any]:
        model, whole, out = trace.model or self.model, trace.input_tokens, trace.output_tokens
        counts = (whole, out, trace.cached_tokens, trace.cache_write_tokens)
        tokens = [n for n in counts if n is not None]
        if model is None or len(tokens) < len(counts):
            return {"cost_note": "the program reports no tokens or no model"}
        return cost_fields("the program", model, tokens, self.prices)


def _check(command: Sequence[str], skill_in: str, output: str, base_url: str | None) -> None:
    if isinstance(command, str) or not command:
        raise AgentError(
            f"CliAgent: the command is {command!r}; give a list of program and arguments, as "
            "['codex', 'exec', '-']: no shell takes it apart."
        )
    require_known("CliAgent: skill_in is", skill_in, ("auto", "home", "prompt"), AgentError)
    kinds = ("auto", "claude", "codex", "text")
    require_known("CliAgent: output is", output, kinds, AgentError)
    program = Path(command[0]).name
    if base_url and program not in _BASE_URL:
        raise AgentError(
            f"CliAgent: base_url is for {' and '.join(_BASE_URL)}; '{program}' is told "
            "where to ask by its own arguments or by variables that are passed=."
        )


def _secrets_in(arguments: Sequence[str]) -> dict[str, str]:
    """Return the keys that stand in a command, by what is shown in their place."""
    found: dict[str, str] = {}

    def hide(secret: str, what: str) -> None:
        if secret not in found.values():
            n = sum(name.startswith(what) for name in found)
            found[f"{what} ({n + 1})" if n else what] = secret

    for before, argument in pairwise(["", *arguments]):
        name, sign, value = argument.partition("=")
        if sign and _SECRET_FLAG.search(name):
            hide(value, f"{name.lstrip('-')}, a key")
        elif _SECRET_FLAG.search(before) and before.startswith("-") and "=" not in before:
            hide(argument, f"{before.lstrip('-')}, a key")
        for key in _KEY_LIKE.findall(argument):
            hide(key, "a key")
    return found


def _invoked(trace: Trace, offered: Sequence[Skill], named: str) -> dict[str, Any]:
    """Return which skills were on offer and which of them were loaded, as the trace shows.

    codex puts a skill that the prompt names as ``$skill`` into the context by itself, before its
    first event, so the trace cannot show it.
    """
    if not offered:
        return {}
    found: dict[str, Any] = {"offered": tuple(one.slug for one in offered)}
    if trace.kind != "text":
        found["invoked"] = tuple(one.slug for one in offered if _fired(trace, one, named))
        found["triggered"] = offered[0].slug in found["invoked"]
    return found


def _fired(trace: Trace, skill: Skill, named: str) -> bool:
    """Whether a skill was loaded, by the name of its folder or that in its front matter."""
    names = list(filter(None, dict.fromkeys([skill.slug, skill.name])))
    by_name = any(re.search(rf"\${re.escape(name)}(?![\w-])", named) for name in names)
    return by_name or any(trace.loaded(name) for name in names)


_SAME = tuple(set(asdict(Trace())) & set(Reply.model_fields))


def _has(trace: Trace, skill: Skill) -> bool:
    """Whether the program knows the skill, as far as it tells."""
    if trace.skills is None:
        return True
    names = {name.split(":")[-1] for name in trace.skills}
    return bool(names & {skill.slug, skill.name})
