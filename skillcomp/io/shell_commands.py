"""Judge shell commands by their text: whether they only read, show a skill, or form a loop."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import groupby

# commands with more characters are not parsed, because the parsing time grows quadratically
_LONGEST = 20_000
# a loop is a sequence of up to 4 commands that is run 3 times in a row
_TIMES, _LONGEST_LOOP = 3, 4
_SHELL = re.compile(r"(?:.*/)?(?:bash|sh|zsh|dash)", re.DOTALL)
_SCRIPT = re.compile(r"-[^\W\d_]*c")  # the option before the script, such as -lc
# programs that write nothing, unless an argument matches their pattern in _WRITING
_READER = re.compile(
    r"basename|cat|cd|cut|date|df|diff|dirname|du|echo|env|false|file|find|[ef]?grep|head|hostname"
    r"|id|jq|less|ls|md5sum|more|nl|pwd|readlink|realpath|rg|sed|seq|sha256sum|sort|stat|tail|test"
    r"|tr|tree|true|type|uname|uniq|wc|which|whoami|\["
    r"|git (?:status|log|diff|show|blame|ls-files|rev-parse|grep|describe|shortlog)"
)
_WRITING = {
    "find": r"-(exec|execdir|ok|okdir|delete|fprint\w*|fls)\b",
    "sed": r"-[A-Za-z]*i|--in-place|^[^-].*\b[wWe]\b",
    "sort": "-o|--output",
    "rg": r"--pre\b",
    "env": ".",
    "date": "-s|--set",
    "tree": "-o",
    "uniq": "^[^-]",
    "hostname": ".",
    "git": "-o$|--output|--ext-diff|--textconv",
}
_BETWEEN = re.compile(r"^(\|\|?|&&?|;)+$")
_SKILL_FILE = re.compile(r"skills/[^/\s'\"]+/SKILL\.md")
# programs that take a file name as an argument but do not print the file
_NAMING = re.compile(
    r"\[|basename|chmod|cp|dirname|du|echo|file|find|ln|ls|md5sum|mkdir|mv|readlink|realpath|rm"
    r"|sha256sum|stat|test|touch|tree|wc"
)
_INTO_FILE = re.compile(r">{1,2}\s*[^\s&>]+")
_SAFE_TARGETS = re.compile(r"\d?>{1,2}\s*/dev/null|\d?>&\d")


def unwrapped(command: str) -> str:
    """Return the command inside ``sh -c '...'`` or the whole command, with single spaces.

    Examples
    --------
    >>> unwrapped("/bin/zsh -lc 'ls  -la'")
    'ls -la'
    """
    return " ".join(_inner_command(command).split())


def _inner_command(command: str) -> str:
    try:
        words = shlex.split(command) if len(command) <= _LONGEST else []
    except ValueError:
        words = []
    match words:
        case [shell, option, inner] if _SHELL.fullmatch(shell) and _SCRIPT.fullmatch(option):
            return inner
    return command


def is_read_only(command: str) -> bool:
    """Return whether a command only reads: all its programs are known to write nothing.

    Unknown programs, substitutions (``$(...)``) and redirections into a file count as writing.

    Examples
    --------
    >>> is_read_only("cat a.md | head -5"), is_read_only("cat a.md > b.md"), is_read_only("make")
    (True, False, False)
    """
    text = _SAFE_TARGETS.sub("", _inner_command(command)).strip().replace("\n", " ; ")
    if any(sign in text for sign in ("`", "$(", "<(", ">")):
        return False
    parts = _split_programs(text)
    return bool(parts) and all(map(_program_reads, parts))


def _split_programs(text: str) -> list[list[str]]:
    """Return the words of each program in a shell line; empty if the line cannot be parsed."""
    if len(text) > _LONGEST:
        return []
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    parts = groupby(words, key=_BETWEEN.match)
    return [list(part) for between, part in parts if between is None]


def _program_reads(words: Sequence[str]) -> bool:
    program, rest = words[0].rpartition("/")[2], words[1:]
    name = " ".join(["git", *rest[:1]]) if program == "git" else program
    writing = _WRITING.get(program)
    is_writing = writing is not None and any(re.search(writing, word) for word in rest)
    return not is_writing and _READER.fullmatch(name) is not None


def opens_skill(command: str) -> bool:
    """Return whether a command contains the path of a SKILL.md and writes nothing.

    The path must end in ``skills/<slug>/SKILL.md``; ``SKILL.md`` alone does not count.

    Examples
    --------
    >>> opens_skill("bash -lc 'cat .codex/skills/tides/SKILL.md'"), opens_skill("cat SKILL.md")
    (True, False)
    """
    return bool(_SKILL_FILE.search(command)) and is_read_only(command)


def shows_skill(text: str, slug: str) -> bool:
    """Return whether reading a path or running a command shows the SKILL.md of a skill.

    Examples
    --------
    >>> shows_skill("cat .codex/skills/tides/SKILL.md", "tides")
    True
    >>> shows_skill("ls .codex/skills/tides/SKILL.md", "tides")
    False
    >>> shows_skill(".claude/skills/low-tides/SKILL.md", "tides")
    False
    """
    if not ("SKILL.md" in text and slug in text):
        return False
    file = re.compile(rf"(?<![\w.-]){re.escape(slug)}/SKILL\.md(?![\w-])")
    line = _INTO_FILE.sub("", _inner_command(text)).replace("\n", " ; ")
    folder = ""
    for program, *rest in _split_programs(line) or [["", line]]:
        if program == "cd":
            folder = f"{rest[0]}/" if rest else ""
        elif not _NAMING.fullmatch(program.rpartition("/")[2]) and any(
            file.search(f"{folder}{word}") for word in (program, *rest)
        ):
            return True
    return False


def thrashing(commands: Sequence[str]) -> str | None:
    """Return the first loop of commands, or None.

    A loop is one to four commands that are run three times in a row.

    Examples
    --------
    >>> thrashing(["ls", "make", "make", "make"]), thrashing(["a", "b", "a", "b", "a", "b"])
    ('make', 'a; b')
    >>> thrashing(["make", "ls", "make"]) is None
    True
    """
    bare = [unwrapped(command) for command in commands]
    for length in range(1, _LONGEST_LOOP + 1):
        for start in range(len(bare) - length * _TIMES + 1):
            loop = bare[start : start + length]
            if loop * _TIMES == bare[start : start + length * _TIMES]:
                return "; ".join(loop)
    return None
