"""What a researcher types, as the design writes it, runs on the pilot without a key."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CONTRACTS

ROOT = Path(__file__).resolve().parent.parent
SNIPPET = """
import skillcomp as sc
sc.style.use()
store    = sc.RunStore("../data/pilot")                    # recorded; a live study resumes the same way
if LIVE:
    sc.run(store, suites, agents=[sc.AnthropicAgent("claude-sonnet-5-5")], conditions=["baseline", "skill", "placebo"], repeats=3)
    sc.grade(store, graders=[sc.ComprehensionGrader(sc.CliAgent(["codex", "exec", "-"]))])
cases, attempts = sc.frames.cases(store), sc.frames.attempts(store)
verdicts, gold  = sc.frames.verdicts(store), sc.frames.gold(store)          # three graders
outcomes        = sc.frames.outcomes(verdicts, cases)
passages        = sc.frames.passages("../data/corpus/copies.jsonl")
forced          = outcomes[outcomes.grader == "g2"]

shared  = sc.overlap.score(attempts, skills=store.skills, cases=cases, ngram=range(3, 13))
cut     = sc.overlap.calibrate(shared, attempts, passages=passages, skills=store.skills, max_false_flags=0.05)
delta   = sc.deltas.paired(forced, by=["skill"])            # one row a skill and condition: minus baseline, same case
gap     = sc.transfer.gap(forced)                           # (skill - baseline | far) - (... | near)
agree   = sc.reliability.agreement(verdicts, gold, by=["grader"])
drift   = sc.reliability.drift(verdicts, gold, reference_grader="g1", by=["check_kind"])
bias    = sc.bias.audit(verdicts, attempts, gold, by=["grader"])
fixed   = sc.correction.delta(verdicts, gold, by=["grader", "skill"])

fig, (a, b) = sc.style.figure("text", ncols=2)
sc.plots.estimates(delta, y="skill", null=0, ax=a)
sc.plots.transfer(gap, ax=b)
sc.style.save(fig, "../report/fig2", data={"delta": delta, "gap": gap})     # pdf, png, one csv per frame, json provenance
sc.explore.verdicts(verdicts, attempts, gold)               # read and label the cases behind a number
"""  # noqa: E501 - verbatim


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like ``notebooks/``, with the recorded data beside it."""
    top = tmp_path_factory.mktemp("checkout")
    (top / "data").symlink_to(ROOT / "data")
    (top / "notebooks").mkdir()
    return top / "notebooks"


@pytest.fixture(scope="module")
def typed(folder: Path) -> Iterator[dict[str, object]]:
    """The names that the snippet leaves behind."""
    names: dict[str, object] = {"LIVE": False}
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context():
        patch.chdir(folder)
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        *body, last = ast.parse(SNIPPET).body
        exec(compile(ast.Module(body, []), "snippet", "exec"), names)
        assert isinstance(last, ast.Expr)
        names["shown"] = eval(compile(ast.Expression(last.value), "snippet", "eval"), names)
        yield names
    plt.close("all")


def test_the_recorded_frames_have_the_rows_that_were_counted_independently(
    typed: dict[str, object],
) -> None:
    names = ("cases", "attempts", "verdicts", "gold", "passages", "forced")
    assert [len(typed[name]) for name in names] == [84, 420, 5740, 820, 180, 420]
    graders = typed["verdicts"]["grader"].value_counts().to_dict()
    assert graders == {"g0": 2050, "g1": 1640, "g2": 2050}


def test_every_analysis_gives_an_estimates_frame_that_keeps_the_contract(
    typed: dict[str, object],
) -> None:
    for name in ("cut", "delta", "gap", "agree", "drift", "bias", "fixed"):
        frame = typed[name]
        check(frame, "estimates")
        # a calibration tests nothing and may come without its p-values
        optional = {"p_value", "p_adjusted", "shown"} if name == "cut" else set()
        assert set(CONTRACTS["estimates"].columns) - optional <= set(frame.columns)
        assert frame["measure"].notna().all() and frame["method"].notna().all()
        known = frame[frame["estimate"].notna()]
        assert len(known)
        bounded = known[known["ci_low"].notna()]
        assert (bounded["ci_low"] <= bounded["ci_high"]).all()
        assert frame.loc[frame["estimate"].isna(), "note"].ne("").all()  # says why


def test_the_figure_is_saved_with_its_frames_and_the_last_line_shows_a_widget(
    typed: dict[str, object], folder: Path
) -> None:
    files = {path.name for path in (folder.parent / "report").iterdir()}
    assert {f"fig2.{ending}" for ending in ("json", "pdf", "png", "svg")} <= files
    assert {name for name in files if name.endswith(".csv")} == {"fig2-delta.csv", "fig2-gap.csv"}
    drawn = pd.read_csv(folder.parent / "report" / "fig2-delta.csv")
    assert drawn["estimate"].tolist() == pytest.approx(typed["delta"]["estimate"].tolist())
    assert sc.__version__ in (folder.parent / "report" / "fig2.json").read_text("utf-8")
    assert hasattr(typed["shown"], "_repr_mimebundle_")  # the widget of the last line


def test_the_example_of_the_readme_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names_of_pages = ("README.md", "docs/overview.md", "docs/triggers.md")
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in names_of_pages)
    own, first, triggers = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    monkeypatch.chdir(folder.parent)
    names: dict[str, object] = {}
    with mpl.rc_context():
        exec(compile(first, "README.md", "exec"), names)
        names["table"] = (
            names["forced"]
            .drop(columns="task")
            .rename(  # type: ignore[attr-defined]
                columns={
                    "skill": "plugin",
                    "case_id": "task",
                    "condition": "setup",
                    "passed": "solved",
                }
            )
        )
        with pytest.warns(UserWarning, match="read the table"):
            exec(compile(own, "README.md", "exec"), names)
        run = folder.parent / "artifacts" / "skill-evals" / "monday"
        shutil.copytree(ROOT / "data" / "triggers", run / "store")
        exec(compile(triggers, "README.md", "exec"), names)
    plt.close("all")
    assert (folder.parent / "report" / "delta.pdf").is_file()
    assert (folder.parent / "page" / "index.html").is_file()
