"""Pages of the cases behind a result: what they show, and that they open fast and safely."""

import csv
import dataclasses
import re
from pathlib import Path

import pandas as pd
import pytest
from browser import Browser

import skillcomp as sc
from skillcomp.report import build, write_case_pages

HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror='window.pwned = 1'>"
    "</article></main></table></details><form action='https://example.com'><style>*{display:none}"
    "</style><a href='javascript:window.pwned=1'>x</a> {{ 7 * 7 }} \u202egnp\x00\x1b[31m\x85\u2066"
)


@pytest.fixture(scope="module")
def pilot_pages(pilot: sc.RunStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pilot-cases")
    table = write_case_pages(pilot, out, report="../index.html")
    assert table["n_cases"].tolist() == [14] * 6
    assert sorted(path.name for path in out.iterdir()) == sorted(table["page"])
    return out


def own_study(n_cases: int = 3, text: str = "An answer.", **columns: object) -> sc.frames.Frames:
    """Two conditions, two repeats, two checks, one grader; every second case loses a check."""
    table = pd.DataFrame(
        [(f"c{case}", condition, repeat, check, text, f"Prompt {case}")
         for case in range(n_cases) for condition in ("baseline", "skill") for repeat in (1, 2)
         for check in ("x", "y")],
        columns=["case", "condition", "repeat", "check", "answer", "prompt"],
    )  # fmt: skip
    lost = table["case"].str[1:].astype(int) % 2 == 1
    table["passed"] = ~(lost & table["condition"].eq("skill") & table["check"].eq("y"))
    table = table.assign(**columns)
    names = ["repeat", "check", "answer", "prompt", *({"agent", "grader"} & set(table))]
    skill = "skill" if "skill" in table else None
    named = {name: name for name in names}
    return sc.from_frame(table, skill=skill, shared_cases=False, **named)


def articles(page: str) -> list[str]:
    return re.findall(r"<article.*?</article>", page, flags=re.DOTALL)


def test_the_worst_case_comes_first_with_its_prompt_answers_quotes_and_gold(
    pilot_pages: Path, pilot: sc.RunStore
) -> None:
    page = (pilot_pages / "type-safety.html").read_text("utf-8")
    assert "14 cases, the largest loss of skill against baseline first" in page
    cases = articles(page)
    changes = [
        float(re.findall(r">([+−]?\d+) points", case)[0].replace("−", "-")) for case in cases
    ]
    assert len(cases) == 14 and changes == sorted(changes) and changes[0] == -100
    outcomes = sc.frames.outcomes(sc.frames.verdicts(pilot), sc.frames.cases(pilot))
    outcomes = outcomes[outcomes["grader"].eq("g2") & outcomes["skill"].eq("type-safety")]
    rows = sc.skillverdicts.cases(outcomes)
    deltas = rows[rows["condition"].eq("skill")].set_index("case_id")["delta"]
    ids = [re.findall(r"<h2><bdi>(.*?)</bdi>", case)[0] for case in cases]
    assert [round(100 * deltas[name]) for name in ids] == changes
    first = cases[0]
    assert "baseline</bdi> 2 of 2, <bdi>skill</bdi> 0 of 2" in first
    heads = re.findall(r"<h3><bdi>(.*?)</bdi></h3>", first)
    assert heads[:4] == ["baseline, repeat 1", "baseline, repeat 2", "skill, repeat 1",
                         "skill, repeat 2"]  # fmt: skip
    assert "Verdicts of <bdi>g2 (forced)</bdi>, <bdi>g0" in first and "gold in brackets" in first
    assert '<mark class="q' in first and 'title="gold: ✓ pass' in first
    assert '<div class="scx-text">“' in first and 'href="../index.html"' in page
    assert "<summary>Notes of other graders</summary>" in first


def test_a_verdict_that_a_grader_failed_to_give_is_na_and_never_a_fail(tmp_path: Path) -> None:
    study = own_study(1)
    verdicts = study.verdicts.assign(status="error", passed=pd.NA).astype({"passed": "boolean"})
    write_case_pages(dataclasses.replace(study, verdicts=verdicts), tmp_path)
    (page,) = (path.read_text("utf-8") for path in tmp_path.iterdir())
    assert page.count(">NA (error)<") == 8 and "✗" not in page and "NA, <bdi>skill" in page
    assert re.findall(r'<article.*?data-hits="(.*?)"', page) == ["0.0.n 1.0.n"]


def test_frames_without_texts_show_their_verdicts_and_say_so(tmp_path: Path) -> None:
    table = pd.DataFrame({"case": ["a", "b"] * 2, "condition": ["baseline"] * 2 + ["skill"] * 2,
                          "passed": [True, True, True, False]})  # fmt: skip
    write_case_pages(sc.from_frame(table, skill=None), tmp_path)
    (page,) = (path.read_text("utf-8") for path in tmp_path.iterdir())
    assert "<p>The data have no prompts and no answers.</p>" in page
    assert "scx-answers" not in page.split("<body>")[1]
    assert [re.findall(r"<h2><bdi>(.*?)<", case)[0] for case in articles(page)] == ["b", "a"]
    with pytest.warns(sc.frames.FrameWarning, match="second condition"):
        lone = sc.from_frame(table[table["condition"].eq("skill")], skill=None)
    write_case_pages(lone, tmp_path)  # nothing to compare with: the reason, and every case
    (page,) = (path.read_text("utf-8") for path in tmp_path.iterdir())
    assert "Conditions are not compared: " in page and len(articles(page)) == 2
    fired = write_case_pages(sc.datasets.load("triggers"), tmp_path)
    assert fired.empty and not list(tmp_path.iterdir())  # only which skills fired


AGENTS = ("opus", "haiku")


def test_agents_have_a_column_and_a_line_each(tmp_path: Path) -> None:
    one = own_study(1)
    agents = [one.verdicts.assign(agent=name) for name in AGENTS]
    attempts = [one.attempts.assign(agent=name) for name in AGENTS]
    for name, frame in zip(AGENTS, (*agents, *attempts)[:2], strict=True):
        frame["attempt_id"] = name + frame["attempt_id"]
    for name, frame in zip(AGENTS, attempts, strict=True):
        frame["attempt_id"] = name + frame["attempt_id"]
    study = dataclasses.replace(
        one, verdicts=pd.concat(agents, ignore_index=True),
        attempts=pd.concat(attempts, ignore_index=True),
    )  # fmt: skip
    write_case_pages(study, tmp_path)
    (page,) = (path.read_text("utf-8") for path in tmp_path.iterdir())
    assert '<th scope="col">Agent</th>' in page and "<td>haiku</td>" in page
    assert "<bdi>opus</bdi>: <bdi>baseline</bdi> 2 of 2" in page
    heads = re.findall(r'<th scope="col"><bdi>([^<]+)</bdi></th>', page)
    assert heads == [f"{arm}, {agent}" for arm in ("baseline", "skill") for agent in AGENTS]
    assert "baseline, haiku, repeat 1" in page


def test_what_a_model_wrote_never_runs_and_breaks_no_layout(
    tmp_path: Path, browser: Browser
) -> None:
    study = own_study(2, HOSTILE + " " + "w" * 3_000, skill=HOSTILE[:60], grader=HOSTILE[:50])
    verdicts = study.verdicts.assign(rationale=HOSTILE, evidence_quote=HOSTILE)
    attempts = study.attempts.assign(answer=study.attempts["answer"] + "y" * 1_000_000)
    cases = study.cases.assign(prompt=HOSTILE)
    study = dataclasses.replace(study, verdicts=verdicts, attempts=attempts, cases=cases)
    table = write_case_pages(study, tmp_path)
    page = tmp_path / table["page"].iloc[0]
    assert re.fullmatch(r"[a-z0-9_-]+\.html", page.name)
    text = page.read_text("utf-8")
    assert "characters more)" in text and len(text) < 12 * 100_000
    assert not re.search("[\x00\x1b\x85\u202e\u2066]", text) and "[U+202E]" in text
    for width in (1280, 390):
        opened = browser.page(page, width=width)
        opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert opened.evaluate("window.pwned === undefined && document.scripts.length") == 1
        live = "document.querySelectorAll('main :is(script, style, img, form, a, input)').length"
        assert opened.evaluate(live) == 0
        assert opened.evaluate("document.querySelectorAll('main > article').length") == 1
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.complaints == []
        assert [url for url in opened.requests if not url.startswith("file:")] == []


def test_filters_need_no_server_and_leave_the_cases_that_fit(
    pilot_pages: Path, browser: Browser
) -> None:
    opened = browser.page(pilot_pages / "type-safety.html", width=1280)

    def chosen(**values: str) -> int:
        for name in ("verdict", "condition", "grader", "words"):
            field = f"document.forms[0].elements.{name}"
            opened.evaluate(f"{field}.value = {values.get(name, '')!r}")
        opened.evaluate("document.forms[0].dispatchEvent(new Event('input'))")
        rows = opened.evaluate("document.querySelectorAll('tbody[data-hits]:not([hidden])').length")
        n = "document.querySelectorAll('article:not([hidden])').length"
        assert rows == opened.evaluate(n)
        assert opened.evaluate("document.querySelector('output').value") == f"{rows} of 14 cases"
        return int(rows)

    assert chosen() == 14
    left = "[...document.querySelectorAll('article:not([hidden])')].map(a => a.textContent)"
    changed = chosen(verdict="c", condition="1", grader="0")
    assert 0 < changed == sum(bool(re.search(r"[+−]\d+ points", t)) for t in opened.evaluate(left))
    assert 0 < chosen(verdict="f", condition="0") < 14
    assert chosen(verdict="n") == 0 and 0 < chosen(words=" Greenhouse CONTROLLER") < 14
    assert all("greenhouse controller" in text.lower() for text in opened.evaluate(left))
    assert opened.complaints == []


def test_notes_of_a_reader_are_kept_and_exported_as_text(tmp_path: Path, browser: Browser) -> None:
    table = write_case_pages(own_study(3), tmp_path)
    opened = browser.page(tmp_path / table["page"].iloc[0], width=390)
    hostile = '=HYPERLINK("x"), <img src=x onerror="window.pwned=1">'
    opened.evaluate(
        f"{{ const box = document.querySelectorAll('article textarea')[1]; box.value = {hostile!r};"
        " box.dispatchEvent(new Event('input')); location.reload() }"
    )
    opened.wait("document.readyState === 'complete' && document.forms[0].hidden === false")
    opened.evaluate(
        "{ window.blobs = []; const make = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => (window.blobs.push(blob), make(blob)) }"
    )
    opened.click("button")
    text = opened.wait("window.blobs[0].text()")
    head, row = csv.reader(text.lstrip("\ufeff").splitlines())
    assert head == ["skill", "case", "note"]
    assert row[0] == "the skill" and row[2] == f"'{hostile}"
    case = opened.evaluate("document.querySelectorAll('article h2')[1].textContent")
    assert row[1] == case
    assert opened.evaluate("window.pwned === undefined")
    assert opened.evaluate("document.querySelectorAll('article textarea')[0].value") == ""
    assert [url for url in opened.requests if not url.startswith(("file:", "blob:"))] == []


def test_5000_answers_are_in_parts_that_open_within_a_second(
    tmp_path: Path, browser: Browser
) -> None:
    study = own_study(1250, "It says what the skill says, and why. " * 40)
    verdicts = study.verdicts.assign(rationale="Because it says so. " * 8)
    table = write_case_pages(dataclasses.replace(study, verdicts=verdicts), tmp_path)
    assert table["n_cases"].tolist() == [1250] and len(study.attempts) == 5000
    parts = sorted(tmp_path.iterdir())
    sizes = [path.stat().st_size for path in parts]
    assert len(sizes) > 10 and max(sizes) < 1_500_000
    texts = [path.read_text("utf-8") for path in parts]
    numbers = [number for text in texts for number in re.findall(r'id="case-(\d+)"', text)]
    assert sorted(map(int, numbers)) == list(range(1, 1251))
    first, second = tmp_path / table["page"].iloc[0], parts[1]
    assert first.read_text("utf-8").count("<tbody data-hits") == 1250
    for page in (first, second):
        opened = browser.page(page, width=1280)
        opened.call("Performance.enable")
        metrics = opened.call("Performance.getMetrics")["metrics"]
        # processor time, because others use this machine too
        assert {one["name"]: one["value"] for one in metrics}["ThreadTime"] < 1
        assert opened.complaints == []


def test_the_page_of_an_answer_links_each_skill_to_its_cases(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "notes.html").write_text("mine")
    two = own_study(
        10, skill=lambda t: t["case"].isin(["c1", "c3"]).map({True: "A b", False: "a-b"})
    )
    for study, texts in ((two, ["8 cases", "2 cases"]), (own_study(4), ["4 cases"])):
        page = build(study, tmp_path, progress=False).read_text("utf-8")
        links = dict(re.findall(r'<a class="cases" href="(.*?)">(.*?)</a>', page))
        assert sorted(links.values()) == sorted(texts)
        assert all((tmp_path / link).is_file() for link in links)
    assert (tmp_path / "cases" / "notes.html").exists()
    assert len(list((tmp_path / "cases").iterdir())) == 2  # pages of the first study are gone
