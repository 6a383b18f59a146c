"""Gold answers, which test a grader before a study: their correct verdicts are known."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from skillcomp.errors import StudyError, require_known, suggest
from skillcomp.io.files import JsonObject, read_own, strict_json
from skillcomp.live.agents.agent import first_fault, whole_hash
from skillcomp.records import Attempt, Record, Suite, Verdict

KEY = "gold_answers"
PREFIX = "gold/"  # Only the attempt_ids of gold answers start with this.
_DIGITS = 8  # The attempt_id contains this many hex digits of the sha256 of the answer.


class GoldAnswer(Record):
    """An answer with its known verdicts.

    Attributes
    ----------
    case_id : str
        The case that is answered.
    id : str
        Name of the gold answer within its case.
    answer : str
        Text of the answer.
    labels : dict of str to bool
        Known verdicts by check_id: True for a pass. A check without a label does not count.
    """

    case_id: str
    id: str
    answer: str
    labels: dict[str, bool] = Field(min_length=1)

    @property
    def attempt_id(self) -> str:
        """The attempt_id of this gold answer; it changes with the text of the answer."""
        return f"{PREFIX}{self.case_id}/{self.id}@{whole_hash(self.answer)[:_DIGITS]}"

    def attempt(self, skill: str) -> Attempt:
        """Return the answer as an attempt that can be graded; such attempts are never stored."""
        own = self.model_dump(include={"case_id", "answer"})
        return Attempt(attempt_id=self.attempt_id, skill=skill, condition="gold", **own)


_Gold = str | Path | Iterable[Mapping[str, Any] | GoldAnswer] | None


def gold_answers(suites: Iterable[Suite], gold: _Gold) -> list[GoldAnswer]:
    """Return the gold answers in the suites, followed by those in `gold`."""
    cases = {}
    rows = []
    for suite in suites:
        for case in suite.cases:
            cases[case.case_id] = case
            carried = case.extra.get(KEY, [])
            if not isinstance(carried, list):
                raise StudyError(f"case '{case.case_id}': {KEY} is not a list.")
            for i, row in enumerate(carried):
                place = f"case '{case.case_id}': {KEY}[{i}]"
                defaults = {"case_id": case.case_id, "id": str(i + 1)}
                rows.append((place, {**defaults, **row} if isinstance(row, dict) else row))
    if isinstance(gold, str | Path):
        data = read_own(Path(gold), what="file of gold answers (JSON Lines)", error=StudyError)
        for number, line in enumerate(data.removeprefix(BOM_UTF8).splitlines(), start=1):
            if line.strip():
                place = f"{Path(gold)}, line {number}"
                try:
                    rows.append((place, strict_json(line)))
                except ValueError as cause:
                    raise StudyError(f"{place}: not JSON ({cause}).") from cause
    else:
        rows += [(f"gold[{i}]", row) for i, row in enumerate(gold or ())]
    answers = {}
    for place, row in rows:
        try:
            content = row if isinstance(row, dict | GoldAnswer) else None
            answer = GoldAnswer.model_validate(content, strict=True)
        except ValidationError as cause:
            fault = first_fault(cause, "the line")
            allowed = tuple(GoldAnswer.model_fields)
            raise StudyError(
                f"{place}: {fault}; keys are {', '.join(allowed)}."
                + suggest(fault.split(": ")[0], allowed)
            ) from cause
        if answer.case_id not in cases:
            raise StudyError(
                f"{place}: there is no case '{answer.case_id}' in the store."
                + suggest(answer.case_id, cases)
            )
        checks = [check.check_id for check in cases[answer.case_id].checks]
        what = f"{place}: labels: case '{answer.case_id}' has no check"
        for name in answer.labels:
            require_known(what, name, checks, StudyError, label="it has")
        if (answer.case_id, answer.id) in answers:
            raise StudyError(f"{place}: the id '{answer.id}' stands twice for '{answer.case_id}'.")
        answers[answer.case_id, answer.id] = answer
    return list(answers.values())


@dataclass(frozen=True)
class Agreement:
    """How often the verdicts of a grader agree with the labels of gold answers.

    Attributes
    ----------
    n, n_agree, n_missing : int
        Number of labels with a verdict, number of labels that agree with their verdict, and number
        of labels without a verdict because the grader failed. `share` ignores labels without a
        verdict.
    ci_low, ci_high : float
        Wilson's 95 % interval for `share`. It treats all labels as independent, although labels of
        the same answer are not.
    differing : tuple of str
        Descriptions of the first five labels that differ from the grader's verdict.
    """

    n: int
    n_agree: int
    n_missing: int
    ci_low: float
    ci_high: float
    differing: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share of the labels that equal the grader's verdict; NaN if there is no such verdict."""
        return self.n_agree / self.n if self.n else float("nan")

    def fields(self) -> JsonObject:
        """Return fields for the receipt of a run; without verdicts, share and interval are None."""
        share = {"agreement": self.share, "ci_low": self.ci_low, "ci_high": self.ci_high}
        numbers = {name: value if self.n else None for name, value in share.items()}
        return {**numbers, "n": self.n, "n_agree": self.n_agree, "n_missing": self.n_missing}

    def __str__(self) -> str:
        """Return the share of agreement, its counts and its interval as a phrase."""
        if not self.n:
            return f"agreement with gold is not known: no verdicts on {self.n_missing} labels"
        missing = f", {self.n_missing} without a verdict" if self.n_missing else ""
        return (
            f"agreement with gold {self.share:.3f} ({self.n_agree} of {self.n} labels{missing}; "
            f"95 % interval {self.ci_low:.3f} to {self.ci_high:.3f})"
        )


def gold_agreement(answers: Collection[GoldAnswer], verdicts: Iterable[Verdict]) -> Agreement:
    """Compare a grader's verdicts on gold answers with the labels of these answers."""
    from skillcomp.stats.intervals import wilson  # a run without gold answers needs no scipy

    judgements = {
        (row.attempt_id, row.check_id): row.passed for row in verdicts if row.status == "ok"
    }
    n = n_agree = n_missing = 0
    differing = []
    for answer in answers:
        for name, label in answer.labels.items():
            passed = judgements.get((answer.attempt_id, name))
            n_missing += passed is None
            n += passed is not None
            n_agree += passed is label
            if passed is not None and passed is not label:
                word = "PASS" if label else "FAIL"
                differing.append(f"{answer.case_id} ({answer.id}) {name}: gold says {word}")
    interval = wilson(n_agree, n)
    return Agreement(n, n_agree, n_missing, interval.low, interval.high, tuple(differing[:5]))
