"""Words of tables: names of columns, conditions, verdicts and distances, and their meanings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import argument
from skillcomp.frames.contracts import key_by_word
from skillcomp.io.files import whole_text
from skillcomp.io.store import SOURCE
from skillcomp.records import AttemptStatus

# words that a column without a value has
NO_VALUE = ["", "na", "n/a", "nan", "none", "null", "missing", "error", "?", "."]


def _meanings(table: Mapping[Any, str], no_value: Iterable[str] = NO_VALUE) -> dict[str, Any]:
    """Return the meaning of each word, from texts that list the words of each meaning."""
    return {**key_by_word(table, "|"), **dict.fromkeys(no_value)}


# Words that tables use for each condition, as `plain_word` returns them.
_CONDITIONS = {
    "baseline": "baseline|base|control|vanilla|without|no|off|0|false|no skill|without skill"
    "|without skills|without the skill|without a skill|noskill|unassisted|w/o|w/o skill"
    "|w/o skill.md|without skill.md|no skill.md",
    "skill": "skill|with|treatment|treated|on|yes|1|true|with skill|with the skill|with a skill"
    "|with skills|withskill|skilled|w/|w/ skill|w/ skill.md|with skill.md|skill.md|new skill"
    "|candidate|isolated|skilledisolated",
    "placebo": "placebo|sham|placebo skill|other skill|with placebo|with a placebo",
    "previous": "previous|old|old skill|previous skill|previous version",
}
TRUTHS = _meanings(
    {
        True: "true|t|yes|y|1|1.0|pass|passed|ok|correct|right|success",
        False: "false|f|no|n|0|0.0|fail|failed|incorrect|wrong|failure",
    }
)
# values that often mean "missing" in tables; only `missing=` makes them missing
NUMBER_CODES = (-1, -9, -99, -999, 9, 99, 999)
STATUSES = _meanings(
    {
        "ok": "ok|success|succeeded|completed|complete|done|finished",
        "error": "error|errored|crash|crashed|exception|aborted|cancelled|canceled",
        "timeout": "timeout|timed out|time out|time limit",
        "truncated": "truncated|length|max tokens|cut off",
        "refused": "refused|refusal|content filter",
        "paused": "paused|interrupted",
    },
    NO_VALUE[:6],
)
NO_ERROR = [*NO_VALUE[:6], "false", "no", "0", "ok", "-", "[]", "{}"]
DISTANCES = _meanings({"near": "near", "far": "far"})
# words for each degree of copying; "copied" is a copy of unknown degree
LEVELS = _meanings(
    {
        "verbatim": "verbatim|exact|exact copy|copy and paste|copy paste|word for word",
        "near_copy": "near copy|cut|cut and paste",
        "light_revision": "light revision|light",
        "heavy_revision": "heavy revision|heavy",
        "fresh": "fresh|non|clean|not copied|non plagiarism|non plagiarised|non plagiarized"
        "|not plagiarised|not plagiarized|own words|no|n|false|f|0|0.0",
        "copied": "copied|copy|plagiarism|plagiarised|plagiarized|yes|y|true|t|1|1.0",
        SOURCE: f"{SOURCE}|original|orig",
    },
    ("", "na", "n/a", "nan", "null", "missing"),
)
# A winner is the answer in the first or second column (A, B), the answer shown first or second, or
# a tie. The form of a word is that of `winner_word`.
_WINNERS = {
    "A": "a|1|1.0|a>b|a>>b|b<a|b<<a|1>2",
    "B": "b|2|2.0|b>a|b>>a|a<b|a<<b|2>1",
    "first": "first",
    "second": "second",
    "tie": "tie|tied|draw|equal|same|c|a=b|a~=b|b=a",
}
# words for a tie that also say something else, such as that both answers are bad
_TIES_TOO = {
    "tie": "both|both bad|bothbad|both good|neither|tie (bothbad)|tie (both bad)|tie (inconsistent)"
}
_NOUNS = ("model", "system", "output", "response", "answer", "assistant", "candidate")
PLAIN_WINNERS = _meanings(_WINNERS, ()) | {
    f"{noun} {side}": name for noun in _NOUNS for side, name in zip("a1b2", "AABB", strict=True)
}
WINNERS = PLAIN_WINNERS | _meanings(_TIES_TOO)
KINDS = _meanings({"positive": "positive", "negative": "negative"}, ())
# words for an order of presentation, and the order that a truth value in a column "swapped" means
ORDERS = _meanings(
    {
        1: "ab|1|1.0|original|swap=false|not swapped",
        2: "ba|2|2.0|swapped|reversed|swap=true",
    }
)
SWAPS = ORDERS | _meanings({1: "false|0|no", 2: "true|1|yes"}, ())
_CONDITION_OF = _meanings(_CONDITIONS, ())
_THE = "(?:the |an? |any )?"
_WITHOUT = re.compile(rf"(?:without|w/o|no) {_THE}(.+)|(.+) (?:off|disabled)")
_WITH = re.compile(rf"(?:with|w/) {_THE}(.+)|(.+) (?:on|enabled)")
_BEFORE = re.compile("(?:before|pre|old|previous)((?: .+)?)")
_AFTER = re.compile("(?:after|post|new|current|updated)((?: .+)?)")
_VERSION = re.compile(r"(?:(.*) )?v(?:ersion)? ?(\d{1,9}(?:\.\d{1,9})*)")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_NEGATED = re.compile(r"(?:not?|non|un|dis|\W).+")


def usual_condition(word: Any) -> str | None:
    """Return the condition that a word means in any table; None for an unknown word."""
    return _CONDITION_OF.get(plain_word(word))


def condition_names(words: Iterable[Any]) -> dict[Any, str | None]:
    """Return the condition that each word means; an unknown word keeps its name.

    The words are read together, because "v1" means the previous version only if there is also a
    "v2", and "tools" means the skill only if there is also "no tools". A word that cannot be a name
    has the value None.
    """
    texts = {word: plain_word(word) for word in words}
    names = {text: _CONDITION_OF[text] for text in texts.values() if text in _CONDITION_OF}
    unknown = list(dict.fromkeys(text for text in texts.values() if text not in names))
    for pair in (_with_and_without(unknown), _before_and_after([*unknown, *names])):
        taken = [name for text, name in names.items() if text not in pair]
        if not set(pair.values()) & set(taken) and (pair | names).items() >= pair.items():
            names |= pair
    return {word: names.get(text) or as_name(word) for word, text in texts.items()}


def pooled_words(meanings: Mapping[Any, str], own: Collection[Any]) -> Iterator[str]:
    """Yield a problem if two different words mean one condition, unless both are in `own`."""
    first: dict[str, Any] = {}
    for word, name in meanings.items():
        other = first.setdefault(name, word)
        if plain_word(other) != plain_word(word) and not {word, other} <= set(own):
            both = f"{as_literal(other)} and {as_literal(word)} would both be '{name}'"
            named = other if plain_word(word) == name else word
            apart = argument("words", {"condition": {plain_value(named): str(named)}})
            yield f"{both}; {apart} keeps them apart, or name what each means."


_TOKENS = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Words in the name of a column that may turn the meaning of True: no skill, a bad verdict, no copy.
_TURNING = {
    "condition": "no.*|non|wo|dis.*|off|ctrl|control|base.*|vanilla|plain|bare|un(?!i).+|absen.*"
    "|remov.*|ablat.*|exclu.*|skip.*|default|lack.*|minus|missing|drop.*|omit.*|without.*|.*less"
    "|free|closed|hid.*|ignor.*|with?held|mask.*|strip.*|hold.*|out|zero|raw|naive|placebo|old|pre"
    "|prior|before|original|ref.*|nak.*|blank|ohne|sans|sin",
    "passed": "no|not|non.*|un(?!i).+|in(?:correct|valid|complete|accurate|consistent|secure)"
    "|fail.*|wrong.*|err.*|hallucinat.*|violat.*|broke.*|break.*|bugs?|toxic.*|harm.*|.*refus.*"
    "|leak.*|cheat.*|bad|miss.*|reject.*|flagged|attack.*|jailb.*|infring.*|plagiar.*|contradict.*"
    "|bias.*|crash.*|timeout.*|timed|defect.*|danger.*|risk.*|spam|mistake.*|false|los[ets].*"
    "|negative.*|fabricat.*|regress.*|abuse.*|offens.*|vulnerab.*|exploit.*|exit.*|return.*|rc|gave"
    "|give|stuck|loop.*|escalat.*|handoff|intervention|needs?|fix|rework|redo|retry|asr"
    "|made|mis.*|expos.*|.*hack.*|decept.*|abst.*|block.*|trunc.*|hit|limit.*|except.*|warn.*"
    "|breach.*|worse|severity|ko|nok|falsch|fehler|echec|error.*|complaint.*|deviat.*|slop"
    "|off|incident.*|alarm.*|skip.*|empty|problem.*|issues?|abort.*|abandon.*|illegal.*|malici.*"
    "|irrelevant.*|copied|stop.*|loss|wer|perplexity",
    "level": "fresh|original.*|clean|own|non|no|not|different|human|independent.*|un.+|new",
}
# words in the name of a column with truth values that say what True means: with the skill
_STRAIGHT = (
    "skills?|with|has|have|uses?|used|using|treat.*|load.*|enabled?|on|is|plugins?|docs?|tools?|pdf"
    "|aug.*|assist.*|condition|arm|variant|setup|group|config.*|mode|setting|interven.*|given|expos.*"
    "|present|activ.*|inject.*|kind|version|experiment.*|test|new"
)
_PLAIN_TRUTHS = _meanings({True: "true|t|yes|y|1|1.0|on", False: "false|f|no|n|0|0.0|off"}, ())


def truth_words(column: Hashable, role: str, words: Iterable[Any]) -> dict[Any, bool]:
    """Return the truth values among the words if the name of the column leaves their meaning open.

    A condition needs a name such as with_skill. Names such as no_skill and failed leave it open.

    Examples
    --------
    >>> truth_words("no_skill", "condition", [True, False]), truth_words("ok", "passed", [1])
    ({True: True, False: False}, {})
    """
    tokens = [token.casefold() for token in _TOKENS.findall(str(column))]
    straight = [re.fullmatch(_STRAIGHT, token) for token in tokens]
    turned = any(re.fullmatch(_TURNING[role], token) for token in tokens)
    if not turned and (role != "condition" or any(straight)):
        return {}
    truths = {word: _PLAIN_TRUTHS.get(plain_word(word)) for word in words}
    return {word: truth for word, truth in truths.items() if truth is not None}


def _things_in(texts: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Return what each text that matches is about, such as "tools" for "no tools"."""
    matches = {text: match for text in texts if (match := pattern.fullmatch(text))}
    return {text: match[match.lastindex or 1] for text, match in matches.items()}


def _with_and_without(texts: list[str]) -> dict[str, str]:
    """Return the meanings of two words such as "with X" (or "X") and "without X" (or "no X")."""
    without, loaded = _things_in(texts, _WITHOUT), _things_in(texts, _WITH)
    loaded |= {text: text for text in texts if text in without.values()}
    things = {thing.removesuffix("s") for thing in (*without.values(), *loaded.values())}
    if len(things) != 1 or len(without) != 1 or len(loaded) != 1:
        return {}
    return dict.fromkeys(without, "baseline") | dict.fromkeys(loaded, "skill")


def _before_and_after(texts: list[str]) -> dict[str, str]:
    """Return the meanings of two words such as before and after, old and new, or v1 and v2."""
    before, after = _things_in(texts, _BEFORE), _things_in(texts, _AFTER)
    versions = {text: match for text in texts if (match := _VERSION.fullmatch(text))}
    if len(before) == 1 and list(before.values()) == list(after.values()):
        return dict.fromkeys(after, "skill") | dict.fromkeys(before, "previous")
    if len(versions) == 2 and len({match[1] for match in versions.values()}) == 1:
        numbers = {t: [int(n) for n in match[2].split(".")] for t, match in versions.items()}
        first, second = sorted(versions, key=numbers.__getitem__)
        return {second: "skill", first: "previous"} if numbers[first] != numbers[second] else {}
    return {}


def distinct_words(values: pd.Series) -> list[Any]:
    """Return the distinct values of a column; an empty list if a value cannot be hashed."""
    try:
        return list(pd.unique(values[values.notna()].astype("object")))
    except TypeError:
        return []


def as_name(value: Any) -> str | None:
    """Return a text unchanged and a whole number as text; None if the value cannot be a name."""
    if isinstance(value, str):
        return value if whole_text(value) == value else None
    if isinstance(value, bool | np.bool_ | complex | np.complexfloating):
        return None
    try:
        return str(int(value)) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def plain_word(value: Any) -> str:
    """Return a word in lower case; ``_`` and a hyphen between letters become a space.

    Minus signs and negating words are kept: "-1" is not "1", and "-skill" is not "skill".
    """
    text = str(value) if isinstance(value, bool | np.bool_) else as_name(value)
    if text is None:
        return f"\0{value!r}"  # not a name: return a text that equals no known word
    return " ".join(_HYPHEN.sub(" ", text.casefold().replace("_", " ")).split())


def winner_word(value: Any) -> str:
    """Return a word for a winner without brackets, and without spaces around ">" or "=".

    >>> [winner_word(word) for word in ("[[A]]", "model_a", "Model-2", "A > B")]
    ['a', 'model a', 'model 2', 'a>b']
    """
    word = re.sub(r"^\[+(.*?)\]+$", r"\1", plain_word(value))
    return re.sub(r"\s*([<>=~]+)\s*", r"\1", re.sub(r"(?<=\w)-(?=\w)", " ", word))


class Words(NamedTuple):
    """The words that are known in a column, each in the form of ``plain``, and their meanings."""

    meanings: Mapping[Any, Any] = {}
    allowed: str = ""  # the words in a message; if empty, a message lists the meanings
    plain: Callable[[Any], str] = plain_word


_VERDICTS = Words(TRUTHS, "True, False, 1, 0, words such as 'yes' and 'fail', or missing")
# `words=` gives the meaning of other words, or another meaning
WORDS = {
    "skill": Words(),
    "condition": Words(),
    "passed": _VERDICTS,
    "gold": _VERDICTS,
    "transfer": Words(DISTANCES),
    "status": Words(STATUSES, f"{', '.join(get_args(AttemptStatus))}, or missing"),
    "should_trigger": _VERDICTS,
    "check_kind": Words(KINDS),
    "winner": Words(
        WINNERS,
        "the value of the first or the second column, A and B, 1 and 2, model_a and model_b, A>B, "
        "first and second, tie, or missing",
        winner_word,
    ),
    "order": Words(ORDERS, "AB and BA, 1 and 2, original and swapped", winner_word),
    "level": Words(
        LEVELS,
        "copied or fresh, yes or no, 1 or 0, cut, light, heavy or non, or names of levels",
    ),
}


def is_negated(word: str) -> bool:
    """Return whether a plain word is negated. A similar known word may mean the opposite."""
    return bool(_NEGATED.fullmatch(word))


def literal_key(value: Any) -> str:
    """Return a key that is equal for a number and its text, such as -1, -1.0 and "-1"."""
    return as_name(value) or f"\0{as_literal(value)}"


def plain_value(value: Any) -> Any:
    """Return a value of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def as_literal(value: Any) -> str:
    """Return a value as Python code."""
    return repr(plain_value(value))


ColumnName = Hashable | None  # an argument that names a column; None if there is no such column
# arguments that name columns of a table, by what they are about or by what is read from them
_ARGUMENTS = {
    "row": "skill case condition passed repeat check grader grader_version agent attempt"
    " status error",
    "case": "prompt transfer dimension contrast_of criticality bloom should_trigger",
    "answer": "answer agent_model agent_family seconds cost_usd input_tokens output_tokens",
    "verdict": "check_kind check_weight grader_model grader_family round score",
    "label": "labeller labeller_kind labeller_family",
    "pair": "first second winner order first_answer second_answer repeat",
    "passage": "text source level document question",
    "number": "seconds cost_usd input_tokens output_tokens score check_weight",
    "key": "skill case condition agent check grader grader_version",
    "plan": "skill case condition agent repeat",
    # they can distinguish rows of equal keys
    "apart": "repeat check grader agent attempt order labeller",
    "check": "check check_kind check_weight"
    " grader grader_kind grader_model grader_family grader_version",
    # columns of the frames in which a later row equals the one that it replaces
    "keep=": "skill case_id condition agent check_id grader grader_version"
    " repeat attempt_id round first second order",
    "missing=": "passed gold score winner level",
}
ARGUMENTS = {kind: names.split() for kind, names in _ARGUMENTS.items()}
# columns of the frames whose names differ from those of the arguments
COLUMN_OF = {"case": "case_id", "check": "check_id", "attempt": "attempt_id"}
# for each argument, names that its column often has in tables, the most likely first
_COLUMN_NAMES = {
    "skill": "plugin toolkit package",
    "case": "case_id task task_id item item_id question question_id problem problem_id instance"
    " instance_id example example_id id",
    "condition": "arm variant setup group config configuration treatment mode setting",
    "passed": "pass ok solved success correct result resolved outcome verdict is_correct",
    "repeat": "trial run seed sample try rep replicate epoch attempt_number",
    "attempt": "attempt_id answer_id trial_id response_id run_id",
    "grader": "judge judge_name judge_model rater evaluator scorer annotator",
    "check": "check_id assertion criterion rubric expectation",
    "agent": "model system assistant model_name model_id agent_name llm llm_name engine",
    "text": "passage answer submission content response",
    "source": "source_text original reference task source_id",
    "level": "label category copied plagiarised class",
    "gold": "gold_winner",
    "winner": "preference preferred verdict judgement judgment choice prediction vote label",
    "order": "swap swapped is_swapped presentation_order",
}

# Names of columns such as model_a and output_1 consist of a word and a side. Words of the first
# line mean that the column holds names of systems, those of the second that it holds texts.
SYSTEMS = ("model", "system", "agent")
TEXTS = ("output", "response", "answer", "completion", "text", "candidate")
_SIDES = (("first", "second"), ("a", "b"), ("1", "2"), ("left", "right"))


def columns_of_answers(
    frame: pd.DataFrame, used: Collection[Any], *, texts: bool = False
) -> list[list[Hashable]]:
    """Return the pairs of unused columns that may hold two answers, by their names.

    Columns called first and second are preferred, and names of systems to texts, unless only texts
    are wanted.
    """
    labels = {plain_label(label): label for label in frame if label not in used}
    for nouns, sides in (([""], _SIDES[:1]), (SYSTEMS, _SIDES), (TEXTS, _SIDES))[2 * texts :]:
        pairs = [(n + a, n + b) for n, (a, b) in product(nouns, sides)]
        pairs += [(a + n, b + n) for n, (a, b) in product(nouns, sides) if n]
        columns: list[list[Hashable]] = [
            [labels[name] for name in pair] for pair in pairs if labels.keys() >= {*pair}
        ]
        if columns:
            return columns
    return []


def kind_of_table(frame: pd.DataFrame, given: Collection[str], known: Collection[Any]) -> str:
    """Return ``pairs``, ``passages`` or ``answers``, by the names of columns.

    ``given`` are the arguments that name columns, ``known`` the roles of columns by their names.
    """
    if "winner" in given or "level" in given:
        return "pairs" if "winner" in given else "passages"
    roles = {*given, *known}
    if not roles & {"passed", "score"}:
        if "winner" in roles or (
            usual_columns("winner", frame, ()) and columns_of_answers(frame, ())
        ):
            return "pairs"
        if roles >= {"text", "source"} and "condition" not in roles:
            return "passages" if usual_columns("level", frame, ()) else "answers"
    return "answers"


def plain_label(label: Hashable) -> str:
    """Return the name of a column in lower case, without separators."""
    return re.sub(r"[\s_.-]", "", str(label).casefold())


def usual_columns(role: str, frame: pd.DataFrame, used: Collection[Any]) -> list[Hashable]:
    """Return the unused columns with a name that fits the argument ``role``.

    A column with the name ``role`` itself is returned alone. Without such a column, all columns
    with usual names for this argument are returned.
    """
    labels = {str(label).casefold(): label for label in frame if label not in used}
    if role in labels:
        return [labels[role]]
    return [labels[name] for name in _COLUMN_NAMES.get(role, "").split() if name in labels]


def usual_roles(
    frame: pd.DataFrame, roles: Iterable[str], found: Mapping[str, Hashable]
) -> dict[str, Hashable]:
    """Return the column that the usual names of each role fit best, beside those found already."""
    found = dict(found)
    for role in roles:
        if role not in found:
            found |= dict(zip([role], usual_columns(role, frame, found.values()), strict=False))
    return found


def columns_with_roles(
    frame: pd.DataFrame, names: Mapping[str, Hashable], roles: Iterable[str]
) -> str:
    """Return a line that lists all columns with the argument that the name of each stands for.

    Only names count, never values. ``names`` are the columns that the caller named, by argument.

    Examples
    --------
    >>> frame = pd.DataFrame(columns=["task", "setup", "latency"])
    >>> columns_with_roles(frame, {"case": "task"}, ["case", "condition", "repeat"])
    "Columns: case='task', condition='setup'; no role: latency."
    """
    found = {role: name for role, name in names.items() if name in frame}
    known = set(map(str, frame.columns))
    found = usual_roles(frame, sorted(roles, key=lambda role: role not in known), found)
    rest = [str(name) for name in frame if name not in found.values()]
    pairs = [argument(role.partition(" ")[0], plain_value(name)) for role, name in found.items()]
    listed = ", ".join(pairs).replace("}, columns={", ", ") or "none"
    return f"Columns: {listed}; no role: {', '.join(rest) or 'none'}."
