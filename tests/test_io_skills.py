"""What read_skill makes of good, bad and hostile files."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert (skill.slug, skill.name, skill.description) == (
        "tide-tables",
        "tide-tables",
        "Reading tide tables.",
    )
    assert tuple(skill.concept) == CONCEPT_FIELDS
    assert skill.concept["purpose"] == "What purpose says."
    assert skill.metadata == {"license": "Apache-2.0"}
    assert skill.text == GOOD
    assert skill.body == GOOD.split("---\n", 2)[2]
    assert skill.sha256 == sha256(file.read_bytes()).hexdigest()
    assert skill.problems == ()


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


def test_the_folder_and_the_file_give_the_same_skill(make):
    file = make()
    assert read_skill(file.parent) == read_skill(str(file))


def test_windows_line_ends_and_a_byte_order_mark_change_no_line_number(make):
    plain = read_skill(make())
    other = read_skill(make(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()))
    assert other.problems == ()
    assert other.concept == plain.concept
    assert [(s.anchor, s.line) for s in other.sections] == [
        (s.anchor, s.line) for s in plain.sections
    ]


def test_blank_lines_after_the_fence_do_not_shift_lines(make):
    skill = read_skill(make("---\n\n\nname: a\nname: b\n---\n\n\n# T\n", folder="b"))
    assert skill.sections[0].line == 9
    assert (
        "line 5: the key 'name' stands already in line 4; the later one counts." in skill.problems
    )


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
    assert "concept.purpose: a value of type int; expected text." in message
    assert "concept.analogie: not one of the seven concept fields" in message
    assert "Did you mean 'analogy'?" in message
    assert "concept: missing analogy." in message
    assert "'name' is 'Tide Tables'; allowed: lower-case letters" in message
    assert "the folder is called 'tide-tables'" in message


def test_what_does_not_belong_into_the_concept_block_is_kept(make):
    skill = read_skill(make("---\nname: a\ndescription: b\nconcept:\n  extra: [1]\n---\n", "a"))
    assert skill.metadata == {"concept": {"extra": [1]}}
    assert skill.concept == {}


def test_a_skill_without_concept_block_is_fine_unless_it_says_it_has_one(make):
    assert read_skill(make("---\nname: a\ndescription: b\n---\nText\n", "a")).problems == ()
    present = "---\nname: a\ndescription: b\ncomprehension_state: present\n---\n"
    assert read_skill(make(present, "a")).problems == (
        f"concept: missing {', '.join(CONCEPT_FIELDS)}.",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Only a body\n", "line 1: no front matter"),
        ("---\nname: a\n# never closed\n", "opened by '---' and never closed"),
        ("---\n- a\n- b\n---\n", "the front matter holds a list; expected 'key: value' lines"),
        ("---\nname: 5\n---\n", "'name' is 5; expected text"),
        ("---\nconcept: text\n---\n", "concept: text; expected a block of definition"),
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


def test_an_alias_bomb_is_refused_without_being_expanded(make):
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10))
    with pytest.raises(SkillError, match="more than 20,000 values once aliases are followed"):
        read_skill(make(f"---\nl0: &l0 [x]\n{levels}\n---\n"))


def test_a_list_that_holds_itself_is_refused(make):
    with pytest.raises(SkillError, match="more than 20,000 values"):
        read_skill(make("---\na: &a [*a]\n---\n"))


def test_bottomless_nesting_is_refused(make):
    with pytest.raises(SkillError, match="the front matter cannot be taken"):
        read_skill(make("---\na: " + "[" * 20_000 + "\n---\n"))


def test_a_file_that_is_too_large_is_refused(make):
    with pytest.raises(SkillError, match=r"1,048,577 bytes; a SKILL\.md may have at most"):
        read_skill(make(b"x" * (MAX_BYTES + 1)))


def test_a_front_matter_that_would_take_long_to_read_is_refused(make):
    keys = "\n".join(f"k{i}: v" for i in range(20_000))
    with pytest.raises(SkillError, match=r"characters of front matter; allowed: at most 131,072"):
        read_skill(make(f"---\n{keys}\n---\n"))


def test_bytes_that_are_not_utf8_are_named_with_their_line(make):
    with pytest.raises(SkillError, match="line 2: byte 0xff is not UTF-8"):
        read_skill(make(b"---\nname: \xff\n---\n"))


def test_a_missing_file_and_a_folder_in_its_place_are_told(make, tmp_path):
    with pytest.raises(SkillError, match=r"there is no SKILL\.md here"):
        read_skill(tmp_path / "nowhere")
    (tmp_path / "odd" / "SKILL.md").mkdir(parents=True)
    with pytest.raises(SkillError, match="not a regular file"):
        read_skill(tmp_path / "odd")


def test_a_link_out_of_the_folder_is_not_followed(make, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("---\nname: x\n---\n")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "SKILL.md").symlink_to(secret)
    with pytest.raises(SkillError, match="the link leads out of its folder"):
        read_skill(tmp_path / "linked")


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    with pytest.raises(SkillError, match="not a regular file"):
        read_skill(tmp_path / "pipe")


def test_a_file_of_another_name_lends_its_stem(tmp_path):
    (tmp_path / "older.md").write_text("---\nname: older\ndescription: b\n---\n")
    assert read_skill(tmp_path / "older.md", strict=True).slug == "older"


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=200), st.text(max_size=200).map(lambda t: f"---\n{t}\n---\n{t}")))
def test_any_text_is_read_or_refused_with_a_skill_error(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("any") / "SKILL.md"
    data = text.encode("utf-8", "surrogatepass")
    file.write_bytes(data)
    try:
        skill = read_skill(file)
    except SkillError as error:
        assert "SKILL.md" in str(error)
    else:
        assert skill.sha256 == sha256(data).hexdigest()
        assert skill.text.endswith(skill.body)


def test_merge_keys_that_double_at_each_level_are_refused_at_once(make):
    levels = ["a0: &a0 {x: 1}"]
    levels += [f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}" for k in range(1, 26)]
    front = "\n".join(["name: tea", "description: Tea.", *levels])
    assert len(front) < 1024
    with pytest.raises(SkillError, match="more than 20,000 values"):
        read_skill(make(f"---\n{front}\n---\n# Tea\n"))


@pytest.mark.parametrize("key", ["name", "description"])
def test_half_a_surrogate_pair_in_the_front_matter_is_told_with_its_line(make, key):
    text = {"name": "tea", "description": "Tea."} | {key: "a\\ud800b"}
    front = "\n".join(f'{name}: "{value}"' for name, value in text.items())
    with pytest.raises(SkillError, match=r"line \d: half of a surrogate pair"):
        read_skill(make(f"---\n{front}\n---\n# Tea\n"))


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


def test_a_key_that_any_skill_may_have_is_no_concept(make):
    text = "---\nname: tide\ndescription: Tides.\npurpose: Sailing.\n---\n# Tide\n"
    skill = read_skill(make(text))
    assert skill.concept == {} and skill.metadata == {"purpose": "Sailing."}
    assert not any("concept" in problem for problem in skill.problems)
