"""Which text is loaded under each condition, settled once and kept with the study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from skillcomp.errors import StudyError, suggest
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore
from skillcomp.records import CONDITIONS, Record, Skill

__all__ = ["Arm", "Text", "n_tokens", "settle_arms"]

Text = str | Path | Skill
_CHARACTERS = 4  # a token; the usual estimate for English text
_ALIKE = 1.25  # a placebo may be this many times longer or shorter than the skill


class Arm(Record):
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
            return store.skills[self.loaded_skill]
        # an agent is told the name without the mark that tells two texts of a skill apart
        return Skill(slug=self.loaded_skill.split("@")[0], text=self.text, body=self.text)


def n_tokens(text: str) -> int:
    """Return the length of a text in tokens, estimated at four characters each."""
    return -(-len(text) // _CHARACTERS)


def settle_arms(
    store: RunStore,
    skills: Sequence[str],
    conditions: Collection[str],
    *,
    placebo: Text | Mapping[str, Text] | None = None,
    previous: Text | Mapping[str, Text] | None = None,
    recorded: Mapping[tuple[str, str], Arm] | None = None,
) -> dict[tuple[str, str], Arm]:
    """Return what is loaded for every skill under every condition.

    Parameters
    ----------
    store : RunStore
        Holds the skills.
    skills : sequence of str
        Slugs of the skills whose cases are asked.
    conditions : collection of str
        ``baseline``, ``skill``, ``placebo``, ``previous``.
    placebo : str, path, Skill or mapping, optional
        A slug of the store, a file, or a text; or one of these for each skill. Without it, the
        store's other skill of the nearest length.
    previous : path, Skill or mapping, optional
        The older SKILL.md; or one for each skill.
    recorded : mapping, optional
        Arms that the study was begun with; they stay.

    Returns
    -------
    dict of (str, str) to Arm
        By skill and condition.

    Raises
    ------
    StudyError
        When a condition does not exist, a text is missing, or another text is given than the study
        was begun with.
    """
    _check_conditions(conditions, placebo=placebo, previous=previous)
    found: dict[tuple[str, str], Arm] = {}
    for slug in skills:
        for condition in conditions:
            known = (recorded or {}).get((slug, condition))
            arm = _arm(store, slug, condition, placebo, previous, known, len(skills) == 1)
            if known is not None and arm.sha256 != known.sha256:
                raise StudyError(
                    f"condition '{condition}' of skill '{slug}': the study was begun with "
                    f"'{known.loaded_skill}' ({_short(known)}), now given is '{arm.loaded_skill}' "
                    f"({_short(arm)}). One study keeps one text; use a new store for another."
                )
            found[slug, condition] = known or arm
    return found


def _check_conditions(conditions: Collection[str], **given: object) -> None:
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


def _arm(
    store: RunStore,
    slug: str,
    condition: str,
    placebo: Text | Mapping[str, Text] | None,
    previous: Text | Mapping[str, Text] | None,
    known: Arm | None,
    alone: bool,
) -> Arm:
    if condition == "baseline":
        return Arm(skill=slug, condition=condition)
    own = store.skills[slug]
    if condition == "skill":
        return _of(slug, condition, own, choice="own", name=slug)
    given = placebo if condition == "placebo" else previous
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
        arm = _of(slug, condition, loaded, choice="given", name=loaded.slug)
        arm = arm if known_text else arm.model_copy(update={"text": loaded.text})
        return _compared(arm, own)
    if not alone and not isinstance(given, Mapping) and slug not in (loaded.slug, loaded.name):
        raise StudyError(
            f"previous= is one file, '{loaded.slug}', and not of skill '{slug}'; give a mapping "
            "from slug to file."
        )
    name = f"{slug}@{_sha(loaded.text)[:8]}"
    return _of(slug, condition, loaded, choice="given", name=name, text=loaded.text)


def _of(
    slug: str, condition: str, loaded: Skill, *, choice: str, name: str, text: str | None = None
) -> Arm:
    return Arm(
        skill=slug,
        condition=condition,
        loaded_skill=name,
        sha256=_sha(loaded.text),
        n_tokens=n_tokens(loaded.text),
        choice=choice,
        text=text,
    )


def _nearest(store: RunStore, own: Skill) -> Arm:
    others = [skill for slug, skill in store.skills.items() if slug != own.slug]
    if not others:
        raise StudyError(
            f"condition 'placebo' of skill '{own.slug}': the store holds no other skill to load "
            "in its place; give placebo= a text of about the same length."
        )
    length = n_tokens(own.text)
    chosen = min(others, key=lambda skill: (abs(n_tokens(skill.text) - length), skill.slug))
    arm = _of(own.slug, "placebo", chosen, choice="nearest", name=chosen.slug)
    return _compared(arm, own)


def _compared(arm: Arm, own: Skill) -> Arm:
    length, other = n_tokens(own.text), arm.n_tokens or 0
    if max(length, other) <= _ALIKE * min(length, other):
        return arm
    note = f"the placebo has about {other} tokens, the skill about {length}"
    return arm.model_copy(update={"note": note})


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
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _short(arm: Arm) -> str:
    return f"sha256 {arm.sha256[:8]}" if arm.sha256 else "no text"
