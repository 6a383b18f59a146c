"""Which text is loaded under each condition, settled once and kept with the study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from skillcomp.errors import StudyError, suggest
from skillcomp.io.files import digest
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore
from skillcomp.records import CONDITIONS, Record, Skill

Text = str | Path | Skill
_CHARACTERS = 4  # a token; the usual estimate for English text
_ALIKE = 1.25  # a placebo may be this many times longer or shorter than the skill


class ConditionText(Record):
    """What is loaded for the cases of a skill under a condition.

    Attributes
    ----------
    skill, condition : str
        Whose cases, and under which condition.
    loaded_skill : str or None
        Name of the text; None for a baseline.
    sha256 : str or None
        Of the text as loaded.
    n_tokens : int or None
        Its length, estimated at four characters a token.
    choice : str
        ``none``, ``own``, ``given`` or ``nearest`` (another skill of about the same length).
    text : str or None
        The text where it is not one of the store's skills.
    note : str or None
        What to keep in mind about it.
    """

    skill: str
    condition: str
    loaded_skill: str | None = None
    sha256: str | None = None
    n_tokens: int | None = None
    choice: str = "none"
    text: str | None = None
    note: str | None = None

    def loaded(self, store: RunStore) -> Skill | None:
        """Return the skill to give to an agent, None for a baseline."""
        if self.loaded_skill is None:
            return None
        if self.text is None:
            skill = store.skills[self.loaded_skill]
            # with its folder only where that was recorded: answers of earlier releases had none
            has_tree = "tree" in store.manifest["skills"].get(skill.slug, {})
            path = str((store.path / skill.path).resolve()) if has_tree else ""
            return skill.model_copy(update={"path": path})
        # an agent is told the name without the mark that tells two texts of a skill apart
        return Skill(slug=self.loaded_skill.split("@")[0], text=self.text, body=self.text)


def n_tokens(text: str) -> int:
    """Return the length of a text in tokens, estimated at four characters each."""
    return -(-len(text) // _CHARACTERS)


def settle_texts(
    store: RunStore,
    skills: Sequence[str],
    conditions: Collection[str],
    *,
    placebo: Text | Mapping[str, Text] | None = None,
    previous: Text | Mapping[str, Text] | None = None,
    recorded: Mapping[tuple[str, str], ConditionText] | None = None,
) -> dict[tuple[str, str], ConditionText]:
    """Return what is loaded for every skill under every condition."""
    given = {"placebo": placebo, "previous": previous}
    _check_conditions(conditions, given)
    found: dict[tuple[str, str], ConditionText] = {}
    for slug in skills:
        for condition in conditions:
            known = (recorded or {}).get((slug, condition))
            text = _text_of(store, slug, condition, given.get(condition), known, len(skills) == 1)
            if known is not None and text.sha256 != known.sha256:
                raise StudyError(
                    f"condition '{condition}' of skill '{slug}': the study was begun with "
                    f"'{known.loaded_skill}' ({_hash_of(known)}), now given is "
                    f"'{text.loaded_skill}' ({_hash_of(text)}). One study keeps one text; use a "
                    "new store for another."
                )
            found[slug, condition] = known or text
    return found


def _check_conditions(conditions: Collection[str], given: Mapping[str, object]) -> None:
    if not conditions:
        raise StudyError(f"conditions is empty; allowed: {', '.join(CONDITIONS)}.")
    for condition in conditions:
        if condition not in CONDITIONS:
            raise StudyError(
                f"There is no condition '{condition}'; allowed: {', '.join(CONDITIONS)}."
                + suggest(condition, CONDITIONS)
            )
    for name, text in given.items():
        if text is not None and name not in conditions:
            raise StudyError(
                f"{name}= is given, but '{name}' is not among the conditions "
                f"({', '.join(conditions)})."
            )


def _text_of(
    store: RunStore,
    slug: str,
    condition: str,
    given: Text | Mapping[str, Text] | None,
    known: ConditionText | None,
    alone: bool,
) -> ConditionText:
    if condition == "baseline":
        return ConditionText(skill=slug, condition=condition)
    own = store.skills[slug]
    if condition == "skill":
        return _of(slug, condition, own, choice="own", name=slug)
    text = given.get(slug) if isinstance(given, Mapping) else given
    if text is None:
        if known is not None:
            return known
        if condition == "placebo" and given is None:
            return _nearest(store, own)
        raise StudyError(
            f"condition '{condition}' of skill '{slug}': no text; give {condition}= a SKILL.md"
            f"{'' if given is None else f' for {slug!r} too'}."
        )
    loaded = _read(store, text, condition)
    if condition == "placebo":
        inside = store.skills.get(loaded.slug)
        known_text = inside is not None and inside.text == loaded.text
        chosen = _of(slug, condition, loaded, choice="given", name=loaded.slug)
        chosen = chosen if known_text else chosen.model_copy(update={"text": loaded.text})
        return _compared(chosen, own)
    if not alone and not isinstance(given, Mapping) and slug not in (loaded.slug, loaded.name):
        raise StudyError(
            f"previous= is one file, '{loaded.slug}', and not of skill '{slug}'; give a mapping "
            "from slug to file."
        )
    name = f"{slug}@{_sha(loaded.text)[:8]}"
    return _of(slug, condition, loaded, choice="given", name=name, text=loaded.text)


def _of(
    slug: str, condition: str, loaded: Skill, *, choice: str, name: str, text: str | None = None
) -> ConditionText:
    return ConditionText(
        skill=slug,
        condition=condition,
        loaded_skill=name,
        sha256=_sha(loaded.text),
        n_tokens=n_tokens(loaded.text),
        choice=choice,
        text=text,
    )


def _nearest(store: RunStore, own: Skill) -> ConditionText:
    others = [skill for slug, skill in store.skills.items() if slug != own.slug]
    if not others:
        raise StudyError(
            f"condition 'placebo' of skill '{own.slug}': the store holds no other skill to load "
            "in its place; give placebo= a text of about the same length."
        )
    length = n_tokens(own.text)
    chosen = min(others, key=lambda skill: (abs(n_tokens(skill.text) - length), skill.slug))
    found = _of(own.slug, "placebo", chosen, choice="nearest", name=chosen.slug)
    return _compared(found, own)


def _compared(text: ConditionText, own: Skill) -> ConditionText:
    length, other = n_tokens(own.text), text.n_tokens or 0
    if max(length, other) <= _ALIKE * min(length, other):
        return text
    note = f"the placebo has about {other} tokens, the skill about {length}"
    return text.model_copy(update={"note": note})


def _read(store: RunStore, text: Text, condition: str) -> Skill:
    if isinstance(text, Skill):
        return text
    if isinstance(text, str) and text in store.skills:
        return store.skills[text]
    if isinstance(text, str) and len(text.split()) > 1 and not Path(text[:200]).exists():
        return Skill(slug=condition, text=text, body=text)
    path = Path(text)
    if not path.exists():
        raise StudyError(
            f"{condition}= is '{text}': no file and no skill of the store "
            f"({', '.join(store.skills)}).{suggest(path.name, store.skills)}"
        )
    return read_skill(path)


def _sha(text: str) -> str:
    return digest(text.encode("utf-8", "surrogatepass"))


def _hash_of(text: ConditionText) -> str:
    return f"sha256 {text.sha256[:8]}" if text.sha256 else "no text"
