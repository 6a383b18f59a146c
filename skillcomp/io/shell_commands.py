"""Judge shell commands by their text: whether they only read, show a skill, or form a loop."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# commands with more characters are not parsed, because the parsing time grows quadratically
_LONGEST = 20_000
# a loop is a sequence of up to 4 commands that is run 3 times in a row
_TIMES, _LONGEST_LOOP = 3, 4
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
# programs that write nothing, unless an argument matches their pattern in _WRITING
_READERS = {
    *("basename", "cat", "cd", "cut", "date", "df", "diff", "dirname", "du", "echo", "env"),
    *("false", "file", "find", "grep", "egrep", "fgrep", "head", "hostname", "id", "jq"),
    *("less", "ls", "md5sum", "more", "nl", "pwd", "readlink", "realpath", "rg", "sed", "seq"),
    *("sha256sum", "sort", "stat", "tail", "test", "tr", "tree", "true", "type", "uname"),
    *("uniq", "wc", "which", "whoami", "["),
}
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
_GIT = {
    *("status", "log", "diff", "show", "blame", "ls-files", "rev-parse", "grep", "describe"),
    "shortlog",
}
_GIT_WRITING = re.compile(r"-o$|--output|--ext-diff|--textconv")
_BETWEEN = re.compile(r"^(\|\|?|&&?|;)+$")
_SKILL_FILE = re.compile(r"skills/[^/\s'\"]+/SKILL\.md")
# programs that take a file name as an argument but do not print the file
_NAMING = {
    *("[", "basename", "chmod", "cp", "dirname", "du", "echo", "file", "find", "ln", "ls"),
    *("md5sum", "mkdir", "mv", "readlink", "realpath", "rm", "sha256sum", "stat", "test"),
    *("touch", "tree", "wc"),
}
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
    is_shell = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS
    return words[2] if is_shell and re.fullmatch(r"-[^\W\d_]*c", words[1]) else command


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
    parts: list[list[str]] = [[]]
    for word in words:
        if _BETWEEN.match(word):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _program_reads(words: Sequence[str]) -> bool:
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "git":
        return bool(rest) and rest[0] in _GIT and not any(map(_GIT_WRITING.search, rest))
    if program not in _READERS:
        return False
    writing = _WRITING.get(program)
    return writing is None or not any(map(writing.search, rest))


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
        elif program.rpartition("/")[2] not in _NAMING and any(
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
