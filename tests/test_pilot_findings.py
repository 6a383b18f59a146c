"""What the recorded studies show: docs/pilot.md is that of its script and holds the main claims."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "pilot.md").read_text(encoding="utf-8").replace("\\", "")


def shown_in(stem: str) -> str:
    """Return the texts that the stored outputs of a chapter show."""
    (path,) = (ROOT / "notebooks").glob(f"{stem}-*.ipynb")
    outputs = [o for cell in nbformat.read(path, 4).cells for o in cell.get("outputs", [])]
    data = [output.get("data", {"text/plain": output.get("text", "")}) for output in outputs]
    texts = [d.get("text/markdown", d.get("text/plain", "")) for d in data]
    return "\n".join(texts).replace("\\", "")


CLAIMS = [
    "Of 6 skills, 3 teach and 3 are undetermined; of these, by the grader alone 1 helps",
    "+52 points [38, 64] on 84 cases; corrected for the grader's errors, +56 points",
    "a shared run of 4 content tokens (rule 'any')",
    "far minus near −6 points [−39, 25]",
    "the share of checks passed by g2 differs by −6 points [−8, −3] from that by g0",
    "more false passes (fails among gold fails −25 points [−35, −15])",
    "more false passes (fails among gold fails −8 points [−15, −1])",
    "The correction moves 3 estimates of the share of checks that pass by 1 to 6 points",
    "0 have an adjusted p-value below .05",
    "its content by +53 points [36, 66], its form by +6 points [−1, 13]",
    "opaque against precise: the share of prompts",
]


def test_the_page_holds_the_main_findings() -> None:
    assert [claim for claim in CLAIMS if claim not in PAGE] == []


def test_skills_on_invented_subjects_teach_and_the_others_are_undetermined() -> None:
    unconfirmed = "helps according to the grader, but labels on 14 cases do not confirm it"
    words = f"teaches|is undetermined|{unconfirmed}"
    verdicts = dict(re.findall(rf"(?m)^- ([a-z-]+) ({words}): ", PAGE))
    teaching = {skill for skill, verdict in verdicts.items() if verdict == "teaches"}
    assert teaching == {"braid-provenance", "lantern-escalation", "tidemark-reconciliation"}
    assert len(verdicts) == 6


@pytest.mark.parametrize(
    ("stem", "claims"),
    [
        ("08", ["112 of 112 answers are recorded; the next call asks for none", "1 teaches"]),
        ("09", ["its content by +53 points [36, 66]", "explains 1 % of the differences"]),
        ("10", ["invoked at 89 % [81, 94]", "Repeats of one condition, although nothing changed:"]),
    ],
)
def test_the_stored_outputs_hold_the_findings_of_their_chapter(stem: str, claims) -> None:
    texts = shown_in(stem)
    assert [claim for claim in claims if claim not in texts] == []


@pytest.mark.slow  # about a minute: the whole answer of the pilot
def test_the_page_is_what_its_script_writes() -> None:
    place = ROOT / "tools" / "pilot_page.py"
    spec = importlib.util.spec_from_file_location("pilot_page", place)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page() == (ROOT / "docs" / "pilot.md").read_text(encoding="utf-8")
