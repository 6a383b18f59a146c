"""Read a SKILL.md into a Skill: front matter, concept block, sections and the whole text.

Files are read leniently: deviations from the format are listed in ``Skill.problems``, and only an
unreadable file raises an error. The front matter is plain YAML, as ``safe_load`` reads it.
"""

from __future__ import annotations

import os
import re
import shutil
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import pairwise
from os import PathLike
from os.path import isdir
from pathlib import Path
from typing import Any

from frontmatter.default_handlers import YAMLHandler
from markdown_it import MarkdownIt

from skillcomp.errors import SkillcompError, SkillError, literal, problem_list, suggest
from skillcomp.io.files import (
    MAX_FILES,
    MAX_TREE,
    JsonObject,
    as_object,
    as_path,
    decode,
    digest,
    entry_problem,
    json_content,
    object_at,
    parse_yaml,
    read_bytes,
    read_own,
    shown,
)
from skillcomp.io.task_suites import FIXTURES, REFERENCES, is_task_suite
from skillcomp.records import CONCEPT_FIELDS, Section, Skill

MAX_BYTES = 1 << 20  # 1 MiB is far more than the context window of a model holds.
# Maximum number of characters of front matter; parsing 1 MiB of YAML takes seconds.
MAX_FRONT = 1 << 17
_BROKEN = "the front matter is not YAML"
FILE_NAME = "SKILL.md"

# The default pattern of python-frontmatter also removes blank lines after `---`, so line numbers
# would be wrong.
_FRONT = YAMLHandler(fm_boundary=re.compile(r"^-{3,}[ \t]*\r?$", re.MULTILINE))
# Headings that begin with ``#``, and the code in which such a line is no heading.
_MARKDOWN = MarkdownIt("zero").enable(["heading", "fence", "code"])
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SUITE_KEYS = ("evals", "routing_cases")
_LEFT_OUT = ("evals", "eval", "task_suites", "__pycache__", "node_modules")
_MAX_NAME, _MAX_DESCRIPTION = 64, 1024  # limits of the Agent Skills specification


def read_skill(path: str | PathLike[str], *, strict: bool = False) -> Skill:
    r"""Read one skill and list how its file deviates from the format.

    Parameters
    ----------
    path : str or path
        The ``SKILL.md`` or the folder that holds it.
    strict : bool, default False
        Raise one error that lists every problem instead of keeping them in ``problems``.

    Returns
    -------
    Skill
        ``slug`` is the folder's name (the file's stem if the file is not called SKILL.md).
        ``concept`` holds those of the seven concept fields that are present. ``metadata`` holds the
        rest of the front matter, with unknown keys of the concept block under ``concept``.
        ``sections`` are the parts of the body under each heading, with anchors and line numbers.
        ``text`` is the whole file without a byte-order mark, and ``sha256`` the hash of the file's
        bytes. ``problems`` has one sentence per deviation, with its line if it has one.

    Raises
    ------
    SkillError
        If the file is missing, is a link that leads out of its folder, is larger than 1 MiB, is not
        UTF-8, or has broken YAML (the message names the line) or a front matter of more than
        131,072 characters.
        With ``strict``, any problem raises.

    Notes
    -----
    Anchors follow the rule of public code hosts: letters become lower case, punctuation is dropped,
    spaces become hyphens, and repeated anchors get ``-1``, ``-2`` at the end. Headings inside
    fenced code are not headings. ``name`` and ``description`` are required and limited as in the
    Agent Skills specification; the seven concept fields are required if ``comprehension_state`` is
    ``present`` or there is a concept block. Concept fields outside such a block, at the top level
    or under ``metadata``, are read if ``mental_model`` or ``concept_boundary``, the later name of
    ``boundary``, is among them. An alias that expands into very many values is refused.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "tea", "SKILL.md")
    ...     file.parent.mkdir()
    ...     _ = file.write_text("---\nname: tea\ndescription: Brewing.\n---\n# Tea\n\nHot.\n")
    ...     skill = read_skill(file)
    >>> skill.slug, skill.description, skill.sections[0].anchor, skill.sections[0].line
    ('tea', 'Brewing.', 'tea', 5)
    """
    place = as_path(path, "read_skill", SkillError)
    file = place / FILE_NAME if isdir(place) else place
    data = read_bytes(file, root=file.parent, max_bytes=MAX_BYTES, what=FILE_NAME, error=SkillError)
    slug = file.parent.resolve().name if file.name == FILE_NAME else file.stem
    skill = skill_of(decode(data, file, SkillError), slug, file).model_copy(
        update={"sha256": digest(data), "path": shown(file)}
    )
    if strict and skill.problems:
        raise SkillError(problem_list(shown(file), skill.problems))
    return skill


def sections_of(text: str) -> tuple[Section, ...]:
    r"""Split a Markdown text, with or without a front matter, at its headings.

    Parameters
    ----------
    text : str
        The whole file.

    Returns
    -------
    tuple of Section
        The sections in order, with anchors and the line of each heading in the whole file.

    Examples
    --------
    >>> [(s.anchor, s.line) for s in sections_of("# Tea\n\nHot.\n\n## Do NOT stir\n")]
    [('tea', 1), ('do-not-stir', 5)]
    """
    _, body = _split_front_matter(text, [])
    first_line = text.count("\n", 0, len(text) - len(body)) + 1
    lines = [line.removesuffix("\r") for line in body.split("\n")]
    tokens = _MARKDOWN.parse("\n".join(lines).replace("\r", " "))
    headings = [
        (token.map[0], int(token.tag[1]), inline.content)
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.map
    ]
    used: Counter[str] = Counter()
    sections = []
    for (at, level, title), (end, *_) in pairwise([*headings, (len(lines), 0, "")]):
        anchor = _NOT_IN_ANCHOR.sub("", title.lower()).replace(" ", "-")
        unique = f"{anchor}-{used[anchor]}" if used[anchor] else anchor
        used[anchor] += 1
        below, line = "\n".join(lines[at + 1 : end]).strip("\n"), first_line + at
        sections.append(Section(title=title, level=level, anchor=unique, text=below, line=line))
    return tuple(sections)


def require_skills(what: str, skills: object, error: type[SkillcompError]) -> None:
    """Raise ``error`` unless ``skills`` maps slugs to skills or texts."""
    wrong = [skills]
    if isinstance(skills, Mapping):
        pairs = skills.items()
        wrong = [slug for slug, _ in pairs if not isinstance(slug, str)]
        wrong += [skill for _, skill in pairs if not isinstance(skill, Skill | str)]
    if wrong:
        raise error(
            f"{what}: found {type(wrong[0]).__name__} {literal(wrong[0])}; allowed: a mapping of "
            "slug to Skill or to the text of a SKILL.md, such as store.skills."
        )


def skill_of(text: str, slug: str, file: Path) -> Skill:
    """Parse the text of a SKILL.md; the hash stays empty, and error messages name ``file``."""
    problems: list[str] = []
    front, body = _split_front_matter(text, problems)
    metadata = _load_front_matter(front, file, problems)
    name = _text_field(metadata.pop("name", None), "name", problems)
    description = _text_field(metadata.pop("description", None), "description", problems)
    concept = _take_concept(metadata, problems)
    if name and (len(name) > _MAX_NAME or not _NAME.fullmatch(name)):
        problems.append(
            f"front matter: 'name' is '{name[:80]}'; allowed: lower-case letters, digits and "
            f"single hyphens, at most {_MAX_NAME} characters."
        )
    if name and name != slug:
        problems.append(f"front matter: 'name' is '{name[:80]}', the folder is called '{slug}'.")
    if len(description) > _MAX_DESCRIPTION:
        allowed = f"{len(description):,} characters; allowed: at most {_MAX_DESCRIPTION:,}"
        problems.append(f"front matter: 'description' has {allowed}.")
    return Skill(
        slug=slug,
        name=name,
        description=description,
        concept=concept,
        metadata=metadata,
        body=body,
        text=text,
        sections=sections_of(text),
        problems=tuple(problems),
    )


def _split_front_matter(text: str, problems: list[str]) -> tuple[str, str]:
    """Split a text into the YAML front matter and the body below it."""
    if not _FRONT.detect(text):
        problems.append("line 1: no front matter; expected a first line '---'.")
        return "", text
    try:
        front, body = _FRONT.split(text)
    except ValueError:
        problems.append("line 1: the front matter is opened by '---' and never closed.")
        return "", text
    return front, body.removeprefix("\n")


def _load_front_matter(front: str, file: Path, problems: list[str]) -> JsonObject:
    if len(front) > MAX_FRONT:
        size = f"{len(front):,} characters of front matter"
        raise SkillError(f"{file}: {size}; allowed: at most {MAX_FRONT:,}.")
    repeated: list[str] = []
    # the parsed text begins with the line feed after line 1 of the file
    loaded, _ = parse_yaml(front, file, SkillError, _BROKEN, repeated)
    problems += dict.fromkeys(repeated)
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        found = literal(loaded)
        problems.append(f"line 2: front matter: found {found}; expected 'key: value' lines.")
        return {}
    return {str(key): value for key, value in loaded.items()}


def _text_field(value: Any, key: str, problems: list[str]) -> str:
    if value is None:
        problems.append(f"front matter: '{key}' is missing.")
        return ""
    if not isinstance(value, str):
        problems.append(f"front matter: '{key}' is {value!r}; expected text.")
        return str(value)
    return value.strip()


def _take_concept(metadata: JsonObject, problems: list[str]) -> dict[str, str]:
    """Remove the concept fields from `metadata` and return them; other keys stay there."""
    block, names = metadata.pop("concept", None), ", ".join(CONCEPT_FIELDS)
    if block is None:
        block = _flat_concept(metadata)
    expected = block is not None or metadata.get("comprehension_state") == "present"
    if block is not None and not isinstance(block, dict):
        problems.append(f"concept: found {literal(block)}; expected a block of {names}.")
        metadata["concept"], block = block, {}
    concept, others = {}, {}
    for key, value in (block or {}).items():
        if key in CONCEPT_FIELDS and isinstance(value, str) and value.strip():
            concept[key] = value.strip()
            continue
        others[str(key)] = value
        if key in CONCEPT_FIELDS:
            problems.append(f"concept.{key}: found {literal(value)}; expected text.")
        else:
            hint = suggest(str(key), CONCEPT_FIELDS)
            problems.append(f"concept.{key}: not one of the seven concept fields ({names}).{hint}")
    if others:
        metadata["concept"] = others
    missing = [key for key in CONCEPT_FIELDS if key not in concept and key not in others]
    if expected and missing:
        problems.append(f"concept: missing {', '.join(missing)}.")
    return {key: concept[key] for key in CONCEPT_FIELDS if key in concept}


_FLAT = {**{name: name for name in CONCEPT_FIELDS}, "concept_boundary": "boundary"}


def _flat_concept(metadata: JsonObject) -> JsonObject | None:
    """Return concept fields outside a concept block: at the top level or under ``metadata``.

    Return None unless ``mental_model`` or ``concept_boundary`` (a newer name of ``boundary``) is
    present. Other schemas do not use these two fields, but they do use ``purpose`` and
    ``definition``.
    """
    for place in (metadata, object_at(metadata, "metadata")):
        if any(isinstance(place.get(key), str) for key in ("mental_model", "concept_boundary")):
            fields = {key: name for key, name in _FLAT.items() if isinstance(place.get(key), str)}
            return {name: place.pop(key) for key, name in fields.items()}
    return None


def skill_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield relative name and path of every file of a skill, including SKILL.md, in order.

    Hidden files, ``__pycache__`` and ``node_modules`` are left out. The tests of the skill are left
    out, too, because an agent must not see them: the folders ``evals``, ``eval`` and
    ``task_suites``, every suite file, and the folders ``fixtures`` and ``reference`` next to a task
    suite.

    Raises
    ------
    SkillError
        If there are too many files or bytes, or a link leads out of the folder or to a folder.
    """
    n_bytes = n_files = 0
    for root, folders, names in os.walk(folder):
        tests = any(is_task_suite(Path(root) / name) for name in names)
        hidden = (FIXTURES, REFERENCES) if tests else ()
        folders[:] = sorted(n for n in folders if _is_shown(n) and n not in hidden)
        for name in folders:
            if (Path(root) / name).is_symlink():
                raise SkillError(f"{Path(root) / name}: a link to a folder; put the folder there.")
        for name in sorted(names):
            file = Path(root) / name
            if not _is_shown(name):
                continue
            if problem := entry_problem(file, folder):
                raise SkillError(f"{folder}: {problem}; no file of the skill's own folder.")
            content = json_content(file, folder) if file.suffix == ".json" else None
            if is_task_suite(file) or any(key in as_object(content) for key in _SUITE_KEYS):
                continue
            n_files, n_bytes = n_files + 1, n_bytes + file.stat().st_size
            if n_files > MAX_FILES or n_bytes > MAX_TREE:
                raise SkillError(
                    f"{folder}: more than {MAX_FILES:,} files or {MAX_TREE // 1_000_000} MB; a "
                    "skill's folder may hold no more, since it is copied for every question."
                )
            yield file.relative_to(folder).as_posix(), file


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name not in _LEFT_OUT


def skill_texts(path: Path) -> dict[str, str]:
    """Return the texts of a skill by relative name, from a folder (SKILL.md first) or one file.

    Two kinds of files in a folder are left out: those that `skill_files` leaves out, and those that
    are not text in UTF-8 (or in UTF-16 with a byte order mark).

    Raises
    ------
    SkillError
        If there is no text, a file is too large, or a link leads out of the folder.
    """
    read = partial(read_bytes, max_bytes=MAX_TREE, what="text", error=SkillError)
    if not isdir(path):
        return {path.name: decode(read(path, root=path.parent), path, SkillError)}
    texts = {}
    for name, file in skill_files(path):
        data = read(file, root=path)
        is_utf16 = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        try:
            text = data.decode("utf-16") if is_utf16 else decode(data, file, SkillError)
        except (SkillError, UnicodeDecodeError):
            continue
        if "\0" not in text and text.strip():
            texts[name] = text
    if not texts:
        raise SkillError(f"{path}: the folder holds no text.")
    return dict(sorted(texts.items(), key=lambda item: item[0] != FILE_NAME))


def skill_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of skills by name: the folder itself if it is a skill, or its subfolders.

    Raises
    ------
    SkillError
        If no SKILL.md is there, or a link leads out of the folder.
    """
    if (folder / FILE_NAME).exists():
        return {folder.resolve().name: folder}
    folders = {file.parent.name: file.parent for file in sorted(folder.glob(f"*/{FILE_NAME}"))}
    problems = filter(None, (entry_problem(place, folder) for place in folders.values()))
    if problem := next(problems, None):
        raise SkillError(f"{folder}: {problem}; name that skill's own folder.")
    if not folders:
        raise SkillError(f"{folder}: found no {FILE_NAME}, neither here nor in a folder of it.")
    return folders


def tree_of(folder: Path) -> JsonObject | None:
    """Return hash, file count and size of a skill's folder; None if it has fewer than two files."""
    whole, n_files, n_bytes = sha256(), 0, 0
    for name, file in skill_files(folder):
        data = read_own(file, what="file of a skill", error=SkillError)
        mode = "x" if os.access(file, os.X_OK) else "-"
        whole.update(f"{name}\n{mode}\n{sha256(data).hexdigest()}\n".encode())
        n_files, n_bytes = n_files + 1, n_bytes + len(data)
    if n_files < 2:
        return None
    return {"sha256": whole.hexdigest(), "n_files": n_files, "bytes": n_bytes}


def copy_skill(folder: Path, target: Path) -> None:
    """Copy the files of a skill's folder into another folder."""
    for name, file in skill_files(folder):
        place = target / name
        if place.resolve() != file.resolve():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
