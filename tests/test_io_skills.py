"""What read_skill makes of good, bad and hostile files."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from skillcomp.errors import SkillError
from skillcomp.io import read_skill
from skillcomp.io.skills import MAX_BYTES, sections_of
from skillcomp.records import CONCEPT_FIELDS

CONCEPT = "\n".join(f"  {key}: What {key} says." for key in CONCEPT_FIELDS)
GOOD = f"""---
name: tide-tables
description: Reading tide tables.
license: Apache-2.0
concept:
{CONCEPT}
---

# Tide Tables

Opening words.

## Highs & `lows`

```sh
# not a heading
```

## Highs & `lows` ##

Second of the name.
"""


@pytest.fixture
def make(tmp_path):
    def _make(text: str | bytes = GOOD, folder: str = "tide-tables") -> Path:
        file = tmp_path / folder / "SKILL.md"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return _make


def test_a_good_file_gives_all_its_parts_and_no_problems(make):
    file = make()
    skill = read_skill(file, strict=True)
    assert (skill.slug, skill.name) == ("tide-tables", "tide-tables")
    assert skill.description == "Reading tide tables."
    assert tuple(skill.concept) == CONCEPT_FIELDS
    assert skill.concept["purpose"] == "What purpose says."
    assert skill.metadata == {"license": "Apache-2.0"}
    assert skill.text == GOOD
    assert skill.body == GOOD.split("---\n", 2)[2]
    assert skill.sha256 == sha256(file.read_bytes()).hexdigest()
    assert read_skill(file.parent) == read_skill(str(file)) == skill


def test_sections_know_their_line_level_anchor_and_text(make):
    skill = read_skill(make())
    lines = GOOD.splitlines()
    assert [(s.level, s.title, s.anchor) for s in skill.sections] == [
        (1, "Tide Tables", "tide-tables"),
        (2, "Highs & `lows`", "highs--lows"),
        (2, "Highs & `lows`", "highs--lows-1"),
    ]
    assert all(s.title in lines[s.line - 1] for s in skill.sections)
    assert skill.sections[0].text == "Opening words."
    assert "# not a heading" in skill.sections[1].text


def test_only_what_opens_a_fence_hides_headings_and_only_a_bare_fence_closes_it():
    text = "```npm i``` first.\n# A\n```sh\n# no\n```python\n# no\n````\n"
    text += "# B\n~~~ `a`\n# no\n~~~ \n# C\n"
    assert [one.title for one in sections_of(text)] == ["A", "B", "C"]


def test_windows_line_ends_and_a_byte_order_mark_change_no_line_number(make):
    plain = read_skill(make())
    other = read_skill(make(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()))
    assert other.problems == () and other.concept == plain.concept
    places = [[(s.anchor, s.line) for s in skill.sections] for skill in (plain, other)]
    assert places[0] == places[1]


def test_blank_lines_after_the_fence_do_not_shift_lines(make):
    skill = read_skill(make("---\n\n\nname: a\nname: b\n---\n\n\n# T\n", folder="b"))
    assert skill.sections[0].line == 9
    assert any(p.startswith("line 5: the key 'name' stands already") for p in skill.problems)


def test_every_problem_is_listed_at_once_when_strict(make):
    text = GOOD.replace("name: tide-tables", "name: Tide Tables").replace(
        "  analogy: What analogy says.", "  analogie: What analogy says.\n  purpose: 7"
    )
    file = make(text)
    assert len(read_skill(file).problems) == 6
    with pytest.raises(SkillError) as caught:
        read_skill(file, strict=True)
    message = str(caught.value)
    assert "SKILL.md, 6 problems:" in message
    assert "the key 'purpose' stands already in line 8" in message
    assert "concept.purpose: found " in message
    assert "concept.analogie: not one of the seven concept fields" in message
    assert "Did you mean 'analogy'?" in message
    assert "concept: missing analogy." in message
    assert "'name' is 'Tide Tables'; allowed: lower-case letters" in message
    assert "the folder is called 'tide-tables'" in message


@pytest.mark.parametrize(
    ("lines", "metadata", "problems"),
    [
        ("", {}, ()),
        ("purpose: Sailing.", {"purpose": "Sailing."}, ()),
        (
            "comprehension_state: present",
            {"comprehension_state": "present"},
            (f"concept: missing {', '.join(CONCEPT_FIELDS)}.",),
        ),
    ],
)
def test_a_concept_is_only_expected_of_a_skill_that_says_it_has_one(
    make, lines, metadata, problems
):
    skill = read_skill(make(f"---\nname: a\ndescription: b\n{lines}\n---\nText\n", "a"))
    assert (skill.concept, skill.metadata, skill.problems) == ({}, metadata, problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Only a body\n", "line 1: no front matter"),
        ("---\nname: a\n# never closed\n", "opened by '---' and never closed"),
        ("---\n- a\n- b\n---\n", "front matter: found ['a', 'b']; expected 'key: value' lines"),
        ("---\nname: 5\n---\n", "'name' is 5; expected text"),
        ("---\nconcept: text\n---\n", "concept: found 'text'; expected a block of definition"),
        ("---\ndescription: " + "x" * 1025 + "\n---\n", "'description' has 1,025 characters"),
        ("", "line 1: no front matter"),
    ],
)
def test_a_deviating_file_is_read_and_the_problem_told(make, text, problem):
    assert any(problem in found for found in read_skill(make(text)).problems)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: a\ndescription: b: c\n---\n", 3),
        ("---\nname: a\n\tx: y\n---\n", 3),
        ("---\nname: a\nlist: [1,\n---\nbody", 4),
        ("---\nname: !!python/object/apply:os.system ['true']\n---\n", 2),
        ("---\nname: a\nb: \x07\n---\n", 3),
    ],
)
def test_broken_yaml_gives_an_error_with_the_line(make, text, line):
    with pytest.raises(SkillError, match=rf"SKILL\.md, line {line}: the front matter"):
        read_skill(make(text))


_LISTS = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10))
_MERGES = "\n".join(f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}" for k in range(1, 26))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"---\nl0: &l0 [x]\n{_LISTS}\n---\n",
            r"not YAML \(with its aliases written out it has more than 1,048,576 characters\)",
        ),
        (f"---\na0: &a0 {{x: 1}}\n{_MERGES}\n---\n", "more than 1,048,576 characters"),
        ("---\na: &a [*a]\n---\n", "more than 1,048,576 characters"),
        ("---\na: " + "[" * 1_000 + "\n---\n", "the front matter is not YAML"),
        ("---\n" + "k: v\n" * 30_000 + "---\n", "of front matter; allowed: at most 131,072"),
        (b"x" * (MAX_BYTES + 1), r"1,048,577 bytes; a SKILL\.md may have at most"),
        (b"---\nname: \xff\n---\n", "line 2: byte 0xff is not UTF-8"),
        (
            '---\nname: tea\ndescription: "a\\ud800b"\n---\n',
            r"line 3: the front matter is not YAML \(half of a surrogate",
        ),
    ],
    ids=["aliases", "merges", "circle", "nesting", "long", "large", "bytes", "surrogate"],
)
def test_what_cannot_be_read_safely_is_refused(make, text, message):
    with pytest.raises(SkillError, match=message):
        read_skill(make(text))


def test_what_is_no_file_of_the_folder_is_refused(tmp_path):
    with pytest.raises(SkillError, match=r"there is no SKILL\.md here"):
        read_skill(tmp_path / "nowhere")
    (tmp_path / "secret.txt").write_text("---\nname: x\n---\n")
    for folder, make, message in (
        ("folder", lambda file: file.mkdir(), "not a regular file"),
        ("pipe", os.mkfifo, "not a regular file"),
        ("link", lambda file: file.symlink_to(tmp_path / "secret.txt"), "leads out of its folder"),
    ):
        (tmp_path / folder).mkdir()
        make(tmp_path / folder / "SKILL.md")
        with pytest.raises(SkillError, match=message):
            read_skill(tmp_path / folder)


def test_a_file_of_another_name_lends_its_stem(tmp_path):
    (tmp_path / "older.md").write_text("---\nname: older\ndescription: b\n---\n")
    assert read_skill(tmp_path / "older.md", strict=True).slug == "older"


@pytest.mark.parametrize("under", ["", "metadata:\n"], ids=["at the top", "under metadata"])
def test_concept_fields_that_stand_by_themselves_are_read(make, under):
    fields = {"mental_model": "Gauge: what it reads.", "purpose": "Knowing when to sail."}
    fields |= {"concept_boundary": "Not the weather.", "analogy": "A clock."}
    fields |= {"misconception": "The moon alone."}
    pad = "  " if under else ""
    front = under + "".join(f'{pad}{key}: "{value}"\n' for key, value in fields.items())
    skill = read_skill(make(f"---\nname: tide\ndescription: Tides.\n{front}---\n# Tide\n"))
    expected = {"boundary" if key == "concept_boundary" else key: v for key, v in fields.items()}
    assert skill.concept == expected
    assert not any(key in skill.metadata for key in fields)
