"""What a shell command does, as far as it can be told without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_LONGEST = 20_000  # characters of a command that is taken apart, which takes their square in time
_TIMES, _LONGEST_LOOP = 3, 4  # a loop of at most so many commands, so often in a row
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
# programs that write nothing, whatever their arguments, but for the options in _WRITING
_READERS = frozenset(
    (
        *("basename", "cat", "cd", "cut", "date", "df", "diff", "dirname", "du", "echo", "env"),
        *("false", "file", "find", "grep", "egrep", "fgrep", "head", "hostname", "id", "jq"),
        *("less", "ls", "md5sum", "more", "nl", "pwd", "readlink", "realpath", "rg", "sed", "seq"),
        *("sha256sum", "sort", "stat", "tail", "test", "tr", "tree", "true", "type", "uname"),
        *("uniq", "wc", "which", "whoami", "["),
    )
)
_WRITING = {
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint\w*|fls)\b"),
    "sed": re.compile(r"-[A-Za-z]*i|--in-place|^[^-].*\b[wWe]\b"),
    "sort": re.compile(r"-o|--output"),
    "rg": re.compile(r"--pre\b"),
    "env": re.compile(r"."),
    "date": re.compile(r"-s|--set"),
    "tree": re.compile(r"-o"),
    "uniq": re.compile(r"^[^-]"),
    "hostname": re.compile(r"."),
}
_GIT = frozenset(
    (
        *("status", "log", "diff", "show", "blame", "ls-files", "rev-parse", "grep", "describe"),
        "shortlog",
    )
)
_GIT_WRITING = re.compile(r"-o$|--output|--ext-diff|--textconv")
_BETWEEN = re.compile(r"^(\|\|?|&&?|;)+$")
_SKILL_FILE = re.compile(r"skills/[^/\s'\"]+/SKILL\.md")
# programs that name a file and show nothing of what it holds
_NAMING = frozenset(
    (
        *("[", "basename", "chmod", "cp", "dirname", "du", "echo", "file", "find", "ln", "ls"),
        *("md5sum", "mkdir", "mv", "readlink", "realpath", "rm", "sha256sum", "stat", "test"),
        *("touch", "tree", "wc"),
    )
)
_INTO_FILE = re.compile(r">{1,2}\s*[^\s&>]+")
_SAFE_TARGETS = re.compile(r"\d?>{1,2}\s*/dev/null|\d?>&\d")


def unwrapped(command: str) -> str:
    """Return what a shell is told, without the shell and with single blanks.

    Examples
    --------
    >>> unwrapped("/bin/zsh -lc 'ls  -la'")
    'ls -la'
    """
    return " ".join(_told(command).split())


def _told(command: str) -> str:
    try:
        words = shlex.split(command) if len(command) <= _LONGEST else []
    except ValueError:
        words = []
    is_shell = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS
    return words[2] if is_shell and re.fullmatch(r"-[^\W\d_]*c", words[1]) else command


def is_read_only(command: str) -> bool:
    """Return whether a command only reads: every program of it is known to write nothing.

    What is not known counts as writing, and so does everything that a shell works out (``$(...)``)
    or sends into a file.

    Examples
    --------
    >>> is_read_only("cat a.md | head -5"), is_read_only("cat a.md > b.md"), is_read_only("make")
    (True, False, False)
    """
    text = _SAFE_TARGETS.sub("", _told(command)).strip().replace("\n", " ; ")
    if any(sign in text for sign in ("`", "$(", "<(", ">")):
        return False
    parts = _parts(text)
    return bool(parts) and all(map(_reads, parts))


def _parts(text: str) -> list[list[str]]:
    """Return the words of each program in a line for a shell; nothing where it cannot be told."""
    if len(text) > _LONGEST:
        return []
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    parts: list[list[str]] = [[]]
    for word in words:
        if _BETWEEN.match(word):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _reads(words: Sequence[str]) -> bool:
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "git":
        return bool(rest) and rest[0] in _GIT and not any(map(_GIT_WRITING.search, rest))
    if program not in _READERS:
        return False
    writing = _WRITING.get(program)
    return writing is None or not any(map(writing.search, rest))


def opens_skill(command: str) -> bool:
    """Return whether a command only reads, and what it reads is the SKILL.md of a skill.

    Examples
    --------
    >>> opens_skill("bash -lc 'cat .codex/skills/tides/SKILL.md'"), opens_skill("cat SKILL.md")
    (True, False)
    """
    return bool(_SKILL_FILE.search(command)) and is_read_only(command)


def shows_skill(text: str, slug: str) -> bool:
    """Return whether a path or command shows what the SKILL.md of a skill says.

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
    line = _INTO_FILE.sub("", _told(text)).replace("\n", " ; ")
    folder = ""
    for program, *rest in _parts(line) or [["", line]]:
        if program == "cd":
            folder = f"{rest[0]}/" if rest else ""
        elif program.rpartition("/")[2] not in _NAMING and any(
            file.search(f"{folder}{word}") for word in (program, *rest)
        ):
            return True
    return False


def thrashing(commands: Sequence[str]) -> str | None:
    """Return the commands that stand again and again in a row, or None.

    One command, or a loop of up to four of them, that stands three times running.

    Examples
    --------
    >>> thrashing(["ls", "make", "make", "make"]), thrashing(["a", "b", "a", "b", "a", "b"])
    ('make', 'a; b')
    >>> thrashing(["make", "ls", "make"]) is None
    True
    """
    said = [unwrapped(command) for command in commands]
    for length in range(1, _LONGEST_LOOP + 1):
        for start in range(len(said) - length * _TIMES + 1):
            loop = said[start : start + length]
            if loop * _TIMES == said[start : start + length * _TIMES]:
                return "; ".join(loop)
    return None
