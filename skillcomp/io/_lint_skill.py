"""What a lint says about a skill: front matter, concept block, and the sections C8 and C9 need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillcomp.errors import suggest
from skillcomp.io._lint_cases import primitives
from skillcomp.io.findings import Finding, finding
from skillcomp.records import CONCEPT_FIELDS, Skill

# Words; the fields of the pilot's skills have 36 to 120, those of the report's two examples fill
# 115 lines of front matter.
SHORTEST, LONGEST = 8, 400
SECTIONS = {"Verification": "C8", "Do NOT Use When": "C9"}
ITEMS = 3  # C8 asks for at least three items of the checklist (report 5.9)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\S", re.MULTILINE)
_ROW = re.compile(r"^\s*\|(?!\s*:?-+).*\|\s*$", re.MULTILINE)


class SkillLint:
    """The rules that look at a skill."""

    def __init__(self, skill: Skill) -> None:
        self.skill = skill
        block = skill.metadata.get("concept")
        self._others = block if isinstance(block, dict) else {}
        self._expected = bool(skill.concept) or block is not None
        self._expected |= skill.metadata.get("comprehension_state") == "present"

    def look(self) -> Iterator[Finding]:
        """Yield everything that is to be said about the skill."""
        yield from self.front_matter()
        yield from self.concept()
        yield from self.sections()

    def front_matter(self) -> Iterator[Finding]:
        for key, value in (("name", self.skill.name), ("description", self.skill.description)):
            if not value.strip():
                yield self._say("front_matter", f"front matter: '{key}' is missing or empty.")

    def concept(self) -> Iterator[Finding]:
        if not self._expected:
            yield self._say(
                "concept_none", f"concept: there is none; expected {', '.join(CONCEPT_FIELDS)}."
            )
            return
        concept = self.skill.concept
        absent = [name for name in CONCEPT_FIELDS if name not in concept]
        missing = [name for name in absent if not _is_odd(self._others.get(name))]
        if missing:
            yield self._say("concept_missing", f"concept: missing or empty: {', '.join(missing)}.")
        for name in absent:
            if name not in missing:
                kind = type(self._others[name]).__name__
                yield self._say(
                    "concept_not_text", f"concept.{name}: found a {kind}; expected text."
                )
        unknown = [name for name in self._others if name not in CONCEPT_FIELDS]
        for name in unknown:
            yield self._say(
                "reading",
                f"concept.{name}: not one of the seven concept fields."
                + suggest(str(name), CONCEPT_FIELDS),
            )
        for name, text in concept.items():
            n = len(text.split())
            if n < SHORTEST:
                yield self._say(
                    "concept_short",
                    f"concept.{name}: {n} words ('{text[:60]}'); expected at least {SHORTEST}.",
                )
            elif n > LONGEST:
                yield self._say(
                    "concept_long", f"concept.{name}: {n} words; expected at most {LONGEST}."
                )
        if concept.get("mental_model") and not primitives(concept["mental_model"]):
            yield self._say(
                "primitives_unnamed",
                "concept.mental_model: no primitive can be told from the text; expected lines "
                "such as 'Name: what it is', or names in bold.",
            )

    def sections(self) -> Iterator[Finding]:
        rule = "section_missing" if self._expected else "section_missing_no_concept"
        found = {" ".join(s.title.lower().split()): s for s in self.skill.sections}
        for title, dimension in SECTIONS.items():
            section = found.get(title.lower())
            if section is None:
                titles = [s.title for s in self.skill.sections]
                yield self._say(
                    rule,
                    f"sections: there is no '## {title}', which {dimension} is graded against."
                    + suggest(title, titles),
                )
                continue
            text = self._with_below(section.line)
            if not text.strip():
                yield self._say(
                    rule, f"line {section.line}: the section '{section.title}' is empty."
                )
            elif title == "Verification":
                n = len(_ITEM.findall(text)) + max(len(_ROW.findall(text)) - 1, 0)
                if n < ITEMS:
                    yield self._say(
                        "verification_short",
                        f"line {section.line}: '{section.title}' has {n} items; expected at least "
                        f"{ITEMS}.",
                    )

    def _with_below(self, line: int) -> str:
        """Return the text of the section that begins at a line, with its subsections."""
        after = [s for s in self.skill.sections if s.line >= line]
        parts = [after[0].text]
        for section in after[1:]:
            if section.level <= after[0].level:
                break
            parts.append(section.text)
        return "\n".join(parts)

    def _say(self, rule: str, message: str) -> Finding:
        return finding(rule, f"skill {self.skill.slug}", message)


def _is_odd(value: object) -> bool:
    """Return whether a concept field holds something, and no text."""
    return value is not None and not isinstance(value, str)
