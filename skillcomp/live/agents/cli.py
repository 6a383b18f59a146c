"""Agents that are programs: ``claude -p``, ``codex exec``, or any command that reads a prompt."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from skillcomp.errors import AgentError, require_known
from skillcomp.io.event_streams import Outcome, Trace, is_result, kind_of, read_trace
from skillcomp.io.redaction import (
    hide,
    is_secret_name,
    redact,
    redacted_start,
    secrets_inside,
)
from skillcomp.io.skills import copy_skill
from skillcomp.live.agents.agent import (
    MAX_ANSWER,
    TIME_LIMIT,
    TOKENS,
    BaseAgent,
    Bounds,
    Cell,
    Output,
    Reply,
    SkillIn,
    StudyWarning,
    cost_fields,
    family_of,
    host_of,
    redacted_reply,
    settings_json,
    skill_block,
    unreadable,
)
from skillcomp.live.agents.process import Ran, case_folder, keep_files, private_base, run_program
from skillcomp.pricing import Price
from skillcomp.records import Skill

# Every program gets these environment variables, because it needs them to run and to reach the
# network.
PASSED = (
    *("PATH", "LANG", "LC_ALL", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)


# Without these settings, claude repeats a call with a wrong key ten times, in three minutes.
_PATIENCE = {"CLAUDE_CODE_MAX_RETRIES": "3", "DISABLE_AUTOUPDATER": "1"}


class _ProgramFacts(NamedTuple):
    """Facts about one program.

    Attributes
    ----------
    passed : tuple of str
        Further environment variables that the program gets. A program gets only the keys of its own
        maker, because a model that runs commands can read the environment.
    url, host : str
        The environment variable that sets its endpoint, and the host of its usual endpoint.
    defaults : dict of str to str
        Defaults of environment variables; the user's own environment overrides them.
    """

    passed: tuple[str, ...]
    url: str = ""
    host: str = ""
    defaults: Mapping[str, str] = {}


_CLAUDE = _ProgramFacts(
    ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", *_PATIENCE),
    "ANTHROPIC_BASE_URL",
    "api.anthropic.com",
    _PATIENCE,
)
_CODEX = _ProgramFacts(
    ("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"), "OPENAI_BASE_URL", "api.openai.com"
)
_KNOWN = {"claude": _CLAUDE, "codex": _CODEX}
_OTHER = _ProgramFacts((*_CLAUDE.passed, *_CODEX.passed))
_KEY_LIKE = re.compile(
    r"\bsk-[\w-]{8,}|(?<=Bearer )\S{8,}|\b(?:gh[opsu]|github_pat|hf|glpat|xox[abps])[-_][\w-]{16,}"
    r"|\bAKIA[A-Z0-9]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+"
    # a word of 32 or more letters and digits is taken for a key, even without an option like --key
    r"|(?<![\w/.-])(?=\w*\d)(?=\w*[A-Za-z])\w{32,}(?![\w/.-])"
)
# A hash, such as that of a commit, is not hidden if the words before it show that it is a hash.
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OF_HASH = re.compile(r"commit|revision|digest|\bsha\d*\b|\bgit\b", re.IGNORECASE)
_HEADER = re.compile(r"([\w-]+):\s*(\S.*)")
# Maps a sandbox to a permission mode of claude, which has no sandbox. The mode limits what claude
# may do, because no user is present to grant more permissions.
_PERMISSIONS = {"read-only": "default", "workspace-write": "acceptEdits"}
# Patterns of environment variables to hide from the commands that codex's model runs.
_HIDDEN_VARIABLES = ["*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*", "*AUTH*"]
_HIDDEN_VARIABLES += ["*_PASS", "*_PWD", "*_PAT", "*DSN*", "*WEBHOOK*", "*COOKIE*", "*SESSION*"]
_RESULT = (
    "agent '{name}': its whole output is one JSON object of the type 'result', kept as the answer, "
    'with no cost read; give output="claude" if it comes from claude --output-format json, or '
    'output="text" if it is the answer.'
)
_SHAPE = "Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


class CliAgent(BaseAgent):
    """An agent that is a program: it reads the prompt from standard input and writes its answer.

    Each prompt is answered by a new process with a working folder of its own below ``/var/tmp``, a
    clean home and temporary folder, and only the allowed environment variables. The working folder
    holds the input files of the case. No shell is involved. The output of
    ``claude -p --output-format stream-json --verbose`` and of ``codex exec --json`` is read as a
    trace. Any other output is taken as the answer.

    Parameters
    ----------
    command : sequence of str
        Program and arguments, such as ``["my-agent", "--json"]``. `CliAgent.claude` and
        `CliAgent.codex` make agents with the usual commands.
    name : str, optional
        Label of the agent in the frames; by default the name of the program, followed by the model
        if one is given.
    model : str, optional
        The model that the command uses; it is shown in the frames and determines the price.
    skill_in : str, default "auto"
        ``"home"``: the skill is installed in the clean home, the agent decides whether to use it,
        and ``triggered`` is read from the trace. ``"prompt"``: the text of the skill is put before
        the prompt, and ``triggered`` is None. ``"auto"``: ``"home"`` if the program is named
        claude, otherwise ``"prompt"``.
    skills_folder : str, default ".claude/skills"
        Folder in the home in which the program looks for skills.
    output : str, default "auto"
        How the output is read. ``"claude"`` or ``"codex"``: as that program's event stream.
        ``"text"``: as the answer. ``"auto"``: as the options ``--output-format`` or ``exec --json``
        in the command require. If the command has neither, the output itself decides: it is read as
        a stream if it begins with the opening event of a stream, and as output of claude if it is
        one JSON object with the type ``result`` and a ``subtype``.
    passed : sequence of str, optional
        Names of further environment variables that the program gets. By default ``claude`` gets
        only the keys of Anthropic, ``codex`` only the keys of OpenAI, and any other program both.
    base_url : str, optional
        The endpoint of ``claude`` or ``codex``; by default the environment variable
        ``ANTHROPIC_BASE_URL`` or ``OPENAI_BASE_URL``. Its host is recorded in the
        settings of the agent.
    timeout : float, default 600
        Seconds after which the program and all processes of its group are ended.
    prices : sequence of Price, optional
        Prices to use instead of the list prices. No prices are used if the program reports its
        cost.

    Raises
    ------
    AgentError
        If the command is a string or empty, or an option has a value that is not allowed.

    Warns
    -----
    StudyWarning
        Once, if the whole output is one JSON object of the type ``result``, but without a
        ``subtype``. The output is then kept as the answer, and no cost is read from it.

    Notes
    -----
    The program does not see login files in the home of the user, so it needs a key in the
    environment. If this process is killed, a watchdog ends the running programs and removes their
    temporary folders. A process that has left the process group of its program is not ended.

    A program that writes more than 64 MB to its output is ended, and the reply is ``truncated``.
    On Linux a file that the program writes cannot grow beyond 2 GB; the number of files is not
    limited.
    """

    takes_files = True  # `ask` copies the input files of a case into the working folder

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        model: str | None = None,
        skill_in: SkillIn = "auto",
        skills_folder: str = ".claude/skills",
        output: Output = "auto",
        passed: Sequence[str] = (),
        base_url: str | None = None,
        timeout: float = 600.0,
        prices: Sequence[Price] = (),
    ) -> None:
        if isinstance(command, str) or not command:
            raise AgentError(
                f"CliAgent: the command is {command!r}; give a list of program and arguments, as "
                "['codex', 'exec', '-']: no shell takes it apart."
            )
        require_known("CliAgent: skill_in is", skill_in, get_args(SkillIn), AgentError)
        require_known("CliAgent: output is", output, get_args(Output), AgentError)
        first, *rest = command
        # the program runs in another folder, so its path must be absolute
        self._command = [str(Path(first).resolve()) if os.sep in first else first, *rest]
        self._program = Path(first).name
        self._known = _KNOWN.get(self._program, _OTHER)
        if base_url and self._known is _OTHER:
            raise AgentError(
                f"CliAgent: base_url is for {' and '.join(_KNOWN)}; '{self._program}' is told "
                "where to ask by its own arguments or by variables that are passed=."
            )
        self.model = model
        self.family = family_of(model or self._program)
        auto = "home" if self._program == "claude" else "prompt"
        self._skill_in = auto if skill_in == "auto" else skill_in
        self.installs_folders = self._skill_in == "home"
        self._skills_folder = skills_folder
        self._passed = (*PASSED, *self._known.passed, *passed)
        self._timeout = timeout
        self._has_warned = False
        self.prices = tuple(prices)
        # read the environment only once: the recorded endpoint must be the one that calls go to
        self._base_url = base_url or os.environ.get(self._known.url) or None
        secrets = _secrets_in(rest)
        # the environment comes first, so that the settings do not depend on other agents
        arguments = [self._program, *(redact(redact(arg, os.environ), secrets) for arg in rest)]
        hide({**secrets, "base_url": self._base_url})
        # the name is a part of the ids of answers, which must be the same when a study resumes
        self.name = redact(name or (f"{self._program}:{model}" if model else self._program))
        url = self._base_url or ""
        if self._program == "codex" and "CODEX_HOME" in passed and redact(url) != url:
            raise AgentError(
                "CliAgent: base_url holds a secret, which codex can read only from a config.toml "
                "in a home of its own; leave CODEX_HOME out of passed=."
            )
        self._kind = kind_of(command) if output == "auto" else output
        self.reports_cost = self._kind != "codex"
        self.settings = settings_json(
            command=arguments,
            skill_in=self._skill_in,
            timeout=timeout,
            output=None if output == "auto" else output,
            endpoint=self._unusual_endpoint(base_url),
        )

    @classmethod
    def claude(
        cls, model: str | None = None, *, extra: Sequence[str] = (), **options: Any
    ) -> CliAgent:
        """Return an agent that runs ``claude -p`` and reads its whole trace.

        Parameters
        ----------
        model : str, optional
            By default the program chooses.
        extra : sequence of str
            Further arguments, such as ``["--effort", "low", "--max-turns", "5"]``.
        **options
            Further parameters of `CliAgent`.
        """
        command = _command_of(
            "claude -p --output-format stream-json --verbose"
            " --setting-sources user --strict-mcp-config --no-session-persistence",
            model,
        )
        return cls([*command, *extra], model=model, **options)

    @classmethod
    def codex(
        cls, model: str | None = None, *, extra: Sequence[str] = (), **options: Any
    ) -> CliAgent:
        """Return an agent that runs ``codex exec --json`` in the read-only sandbox of codex.

        Parameters
        ----------
        model : str, optional
            By default the program chooses.
        extra : sequence of str
            Further arguments. They are put before the final ``-``, which means standard input.
        **options
            Further parameters of `CliAgent`.
        """
        command = _command_of(
            "codex exec --json --ephemeral --skip-git-repo-check --sandbox read-only", model
        )
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
        """Return the reply to one prompt; see `BaseAgent.ask`."""
        is_installed = skill is not None and self._skill_in == "home"
        texts = [system, skill_block(skill) if skill and not is_installed else None, prompt]
        bounds = cell.bounds if cell and cell.bounds else Bounds()
        timeout = bounds.timeout or self._timeout
        offered = (skill, *bounds.neighbours) if skill and is_installed else ()
        with case_folder(private_base()) as folder:
            for installed in offered:
                place = folder / "home" / self._skills_folder / installed.slug
                if not place.resolve().is_relative_to((folder / "home").resolve()):
                    slug = installed.slug
                    raise AgentError(
                        f"CliAgent: skill '{slug}' would be installed outside the home."
                    )
                place.mkdir(parents=True)
                own = Path(installed.path)
                if own.name == "SKILL.md" and own.is_file():
                    copy_skill(own.parent, place)
                (place / "SKILL.md").write_text(installed.text, encoding="utf-8")
            for name, file in cell.files if cell else ():
                target = folder / "work" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
            shape = schema.model_json_schema() if schema is not None else bounds.schema
            # other programs have no option for a schema
            if shape is not None and self._known is _OTHER:
                texts.append(_SHAPE.format(schema=json.dumps(shape)))
            try:
                given = "\n\n".join(text for text in texts if text).encode()
            except UnicodeEncodeError as error:
                return Reply(status="error", error=f"the prompt: {error}", settings=self.settings)
            command = self._command_in(folder, bounds.sandbox, shape)
            ran = await run_program(command, given, self._environment_in(folder), folder, timeout)
            if bounds.keep is not None:
                await asyncio.to_thread(keep_files, folder / "work", bounds.keep, ran)
        # a long output is read and redacted in a thread, so that other prompts do not wait
        return await asyncio.to_thread(self._reply_of, ran, offered, bounds, prompt)

    def _reply_of(self, ran: Ran, offered: Sequence[Skill], bounds: Bounds, prompt: str) -> Reply:
        try:
            reply = self._reply_from_trace(ran, offered, bounds, prompt)
        except Exception as error:  # the call was paid for, so an unreadable reply is recorded
            reply = unreadable(error, ran.output, seconds=ran.seconds, settings=self.settings)
        else:
            if ran.excess and reply.status != "timeout":
                cut = {"status": "truncated", "error": f"{ran.excess}; the rest is cut off"}
                reply = reply.model_copy(update=cut)
        return redacted_reply(reply)

    def _environment_in(self, folder: Path) -> dict[str, str]:
        variables = {
            **self._known.defaults,
            **{name: os.environ[name] for name in self._passed if name in os.environ},
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            # git must not find a repository above the folder, such as a home under version control
            "GIT_CEILING_DIRECTORIES": str(folder),
        }
        if self._program == "claude" and self._base_url:
            variables["ANTHROPIC_BASE_URL"] = self._base_url
        if self._program == "codex" and "OPENAI_API_KEY" in variables:
            # codex exec reads its key only from CODEX_API_KEY
            variables.setdefault("CODEX_API_KEY", variables["OPENAI_API_KEY"])
        return variables

    def _unusual_endpoint(self, own_url: str | None) -> str | None:
        """Return the hosts that the program calls; None if they are the program's defaults.

        A default host is returned, too, if the user named it by ``base_url``.
        """
        known = _KNOWN.values() if self._known is _OTHER else [self._known]
        hosts = (host_of(own_url or os.environ.get(of.url), of.host) for of in known)
        return ", ".join(dict.fromkeys(filter(None, hosts))) or host_of(own_url, "")

    def _codex_settings(self, folder: Path) -> list[str]:
        """Return options of codex: what its commands may write and see, and its endpoint."""
        settings = {
            # do not let commands write to the temporary directory that all programs share
            "sandbox_workspace_write.exclude_slash_tmp": True,
            "sandbox_workspace_write.exclude_tmpdir_env_var": True,
            "sandbox_workspace_write.writable_roots": [str(folder / "tmp")],
            # keep codex from reading instructions and skills of a repository around the folder
            "project_root_markers": [],
            # codex needs a key in the environment; hide it from commands that the model runs
            "shell_environment_policy.ignore_default_excludes": False,
            "shell_environment_policy.exclude": _HIDDEN_VARIABLES,
        }
        if self._base_url:
            # define a provider, because codex would otherwise try websockets first
            provider = {"name": "skillcomp", "base_url": self._base_url, "wire_api": "responses"}
            names = {"CODEX_API_KEY", "OPENAI_API_KEY"} & set(self._passed)
            if any(map(os.environ.get, names)):
                provider["env_key"] = "CODEX_API_KEY"
            settings["model_provider"] = "skillcomp"
            fields = {f"model_providers.skillcomp.{key}": v for key, v in provider.items()}
            if redact(self._base_url) == self._base_url:
                settings |= fields
            else:
                # every user of the machine can read arguments, but only this user the home
                file = folder / "home" / ".codex" / "config.toml"
                file.parent.mkdir(exist_ok=True)
                file.write_text("\n".join(_toml_lines(fields)) + "\n", encoding="utf-8")
        return [argument for line in _toml_lines(settings) for argument in ("-c", line)]

    def _command_in(self, folder: Path, sandbox: str | None, shape: Any) -> list[str]:
        """Return the command with the options for a case folder, a sandbox and a JSON Schema."""
        if self._known is _OTHER:
            return self._command
        command, is_claude = list(self._command), self._program == "claude"
        last = [command.pop()] if not is_claude and command[-1] == "-" else []
        if sandbox is not None:
            option = "--permission-mode" if is_claude else "--sandbox"
            if option in command[:-1]:
                at = command.index(option)
                del command[at : at + 2]
            command += [option, _PERMISSIONS[sandbox] if is_claude else sandbox]
        if not is_claude and "exec" in command:
            command += self._codex_settings(folder)
        if shape is not None and is_claude:
            command += ["--json-schema", json.dumps(shape)]
        elif shape is not None:
            schema_file = folder / "io" / "schema.json"
            schema_file.write_text(json.dumps(shape), encoding="utf-8")
            command += ["--output-schema", str(schema_file)]
        return command + last

    def _reply_from_trace(
        self, ran: Ran, offered: Sequence[Skill], bounds: Bounds, prompt: str
    ) -> Reply:
        code, output, complaint = ran.code, ran.output, redact(ran.complaint).strip()[-2000:]
        if isinstance(code, str):
            return Reply(status="error", error=code, fatal=True, settings=self.settings)
        trace = read_trace(output, self._kind)
        is_text = trace.kind == "text"
        if self._kind is None and is_text and is_result(output) and not self._has_warned:
            self._has_warned = True
            warnings.warn(_RESULT.format(name=self.name), StudyWarning, stacklevel=2)
        fields = {name: getattr(trace, name) for name in Outcome.model_fields}
        fields["model"] = trace.model or self.model
        if code is None:
            limit = bounds.timeout or self._timeout
            fields |= {"status": "timeout", "error": f"no end after {limit:g} seconds"}
            waited = bool(trace.steps) and trace.steps[-1].kind == "retry"
            # If the last step is not a retry, the case's time limit ended the agent while it was
            # working, not while it waited for its service.
            if bounds.timeout and not waited:
                fields |= {"status": "truncated", "stop_reason": TIME_LIMIT}
        elif code != 0 and trace.status == "ok":
            # A program that ended by itself is graded if a check may examine its exit code.
            is_graded = bounds.keep is not None and not is_text
            fields["status"] = "ok" if is_graded else "error"
            fields["error"] = f"exit code {code}: {complaint}"
        elif trace.status == "error" and complaint:
            fields["error"] = f"{trace.error}: {complaint}"
        if trace.cost_usd is None and trace.cost_note is None:
            counts = [getattr(trace, name) for name in TOKENS]
            fields |= cost_fields("the program", fields["model"], counts, self.prices)
        if offered:
            fields["offered"] = tuple(skill.slug for skill in offered)
        if offered and fields["status"] == "ok" and trace.skills is not None:
            names = {name.split(":")[-1] for name in trace.skills}
            if not names & {offered[0].slug, offered[0].name}:
                skills = ", ".join(trace.skills) or "none"
                missing = f"skill '{offered[0].slug}' was installed, but the program has: {skills}"
                fields |= {"status": "error", "error": missing}
        if offered and not is_text:
            # codex loads a skill that the prompt names before the first event of the stream
            read = prompt if self._program == "codex" else ""
            fields["invoked"] = tuple(s.slug for s in offered if _was_loaded(trace, s, read))
            fields["triggered"] = offered[0].slug in fields["invoked"]
        return Reply(
            **fields,
            seconds=ran.seconds,
            exit_code=code,
            trace=None if is_text else redacted_start(output, MAX_ANSWER),
            settings=self.settings,
        )


def _command_of(program: str, model: str | None) -> list[str]:
    return [*program.split(), *(["--model", model] if model else [])]


def _toml_lines(settings: Mapping[str, Any]) -> list[str]:
    # the JSON of these values is valid TOML
    return [f"{name}={json.dumps(value)}" for name, value in settings.items()]


def _secrets_in(arguments: Sequence[str]) -> dict[str, str]:
    """Map placeholders to the secrets that they replace in the arguments of a command."""
    secrets: dict[str, str] = {}

    def add(secret: str, what: str) -> None:
        if secret not in secrets.values():
            n = sum(name.startswith(what) for name in secrets)
            secrets[f"{what} ({n + 1})" if n else what] = secret

    for before, argument in pairwise(["", *arguments]):
        name, sign, value = argument.partition("=")
        for text in (argument, value):
            header = _HEADER.fullmatch(text)
            if header and is_secret_name(header[1]):
                add(header[2], f"{header[1]}, a key")
        if sign and _is_secret_flag(name) and not _HEADER.match(argument):
            add(value, f"{name.lstrip('-')}, a key")
        elif _is_secret_flag(before) and before.startswith("-") and "=" not in before:
            add(argument, f"{before.lstrip('-')}, a key")
        for secret in secrets_inside(argument):
            add(secret, "a key")
        for key in _KEY_LIKE.findall(argument):
            if not (_HASH.fullmatch(key) and _OF_HASH.search(f"{before} {argument}")):
                add(key, "a key")
    return secrets


def _is_secret_flag(name: str) -> bool:
    """Return whether an option has a secret; that of a session is rather its name."""
    return is_secret_name(name.lower().replace("session", "").lstrip("-"))


def _was_loaded(trace: Trace, skill: Skill, prompt: str) -> bool:
    """Return whether a skill was loaded; its slug or name in the prompt or trace shows this."""
    names = list(filter(None, dict.fromkeys([skill.slug, skill.name])))
    by_name = any(re.search(rf"\${re.escape(name)}(?![\w-])", prompt) for name in names)
    return by_name or any(trace.loaded(name) for name in names)
