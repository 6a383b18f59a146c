"""A private copy of a suite: what is changed, what never is, and that it reads back."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import SuiteError
from skillcomp.io import read_suite, write_suite
from skillcomp.lint import lint_suite
from skillcomp.perturb_suite import (
    HE,
    SHE,
    PerturbationWarning,
    move_dates,
    perturbation_candidates,
    perturbation_table,
)
from skillcomp.records import Case, Check, Skill, Suite


def case_of(ident, prompt, *descriptions, **changes):
    checks = tuple(Check(check_id=f"b{i}", description=text) for i, text in enumerate(descriptions))
    return Case(case_id=f"tide/{ident}", prompt=prompt, checks=checks, **changes)


def suite_of(*cases, **changes):
    return Suite(slug="tide", skill="tide", cases=cases, sha256="abc", **changes)


def skill_of(text):
    return Skill(slug="tide", name="tide", description="D.", text=text, body=text)


def changed(*texts, **options):
    """The mapping found for a suite with these prompts."""
    suite = suite_of(*[case_of(i, text) for i, text in enumerate(texts)])
    copy = sc.perturb_suite(suite, **options)
    return {found: new for _, found, new in copy.extra["perturbation"]["changes"]}


def test_replacements_go_by_whole_words():
    names = changed("May Anna go to Annapolis?", replacements={"Annapolis": "Boston"})
    assert list(names) == ["Annapolis", "Anna"]
    words = changed("Is it art? Artists know.", replacements={"art": "craft"})
    assert list(words) == ["art"]


def test_one_mapping_is_applied_to_prompt_reasoning_and_behaviours():
    case = case_of(
        1,
        "Ines sealed PT-3390 at 14:10. May she reopen it?",
        "Says that Ines may not.",
        "Names PT-3390.",
        expected_reasoning="Ines's seal of PT-3390 stands.",
        extra={"gold": ["Ines must not"], "score": 3},
    )
    copy = sc.perturb_suite(suite_of(case))
    new = copy.cases[0]
    name, code = new.prompt.split()[0], new.prompt.split()[2]
    assert name != "Ines" and code.endswith("-3390") and code != "PT-3390"
    assert new.prompt == f"{name} sealed {code} at 14:10. May she reopen it?"
    assert new.expected_reasoning == f"{name}'s seal of {code} stands."
    assert [c.description for c in new.checks] == [f"Says that {name} may not.", f"Names {code}."]
    assert new.extra == {"gold": [f"{name} must not"], "score": 3}
    assert [c.check_id for c in new.checks] == ["b0", "b1"]


def test_the_copy_is_renamed_keeps_its_skill_and_records_where_it_comes_from():
    cases = (case_of(1, "Ines seals."), case_of(2, "Who seals?", contrast_of="tide/1"))
    with pytest.warns(PerturbationWarning, match="1 of 2 prompts"):
        copy = sc.perturb_suite(suite_of(*cases), seed=7)
    assert (copy.slug, copy.skill) == ("tide-perturbed-7", "tide")
    assert [c.case_id for c in copy.cases] == ["tide-perturbed-7/1", "tide-perturbed-7/2"]
    assert copy.cases[1].contrast_of == "tide-perturbed-7/1"
    record = copy.extra["perturbation"]
    assert (record["source"], record["source_sha256"], record["seed"]) == ("tide", "abc", 7)
    assert record["unchanged"] == ["tide-perturbed-7/2"]
    assert sc.perturb_suite(suite_of(cases[0]), slug="mine").cases[0].case_id == "mine/1"


def test_prompts_that_stay_word_for_word_are_warned_about_with_what_could_be_changed():
    suite = suite_of(
        case_of(1, "Ines seals a cask."), case_of(2, "Who wrote the ledger?"), case_of(3, "Ines?")
    )
    with pytest.warns(PerturbationWarning) as caught:
        sc.perturb_suite(suite, skill=skill_of("Who seals?"))
    assert str(caught[0].message) == (
        "perturb_suite: 1 of 3 prompts of 'tide-perturbed-0' are those of 'tide' word for word "
        "(2). Give replacements=; words of the prompts that are not the skill's: ledger, wrote."
    )
    assert caught[0].filename == __file__
    sc.perturb_suite(suite, replacements={"ledger": "letter"})  # every prompt: no warning


def test_a_name_is_replaced_by_one_that_fits_its_pronoun_and_is_new_to_the_suite():
    names = changed("Ines says she packs; Tomas says he waits; Clara and Otto watch.")
    assert {names["Ines"], names["Clara"]} <= set(SHE.split()) - {"Ines", "Clara"}
    assert {names["Tomas"], names["Otto"]} <= set(HE.split()) - {"Tomas", "Otto"}
    assert len(set(names.values())) == 4
    assert list(changed("Ines asks Dana.", keep=["Ines"])) == ["Dana"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Our Storewell team waits.",
        "We pay the company Storewell for it.",
        "We buy from Storewell Ltd and others.",
        "It is a tool called Storewell.",
    ],
)
def test_an_invented_name_is_known_by_the_word_beside_it(prompt):
    assert list(changed(prompt)) == ["Storewell"]


@pytest.mark.parametrize(
    "prompt",
    [
        "On Friday our Python service reads 3 files with SHA-256 from Postgres.",  # products
        "Send the Order now. Check RFC-2119 and ISO-8601.",  # sentence openings, standards
        "Our Storage team uses the storage rack.",  # a word, not only a name
        "It failed at 14:10 after 35 minutes at 40%.",  # numbers
        "In March the books close; on 31 March they seal.",  # months without a year
        "Sealed 2025-04-02, founded in 2019.",  # a year without a date
        "Sealed 2025-04-02 with 2025 lines.",
    ],
)
def test_what_may_carry_the_answer_is_left_alone(prompt):
    with pytest.raises(SuiteError, match="no name, code or date that a program can change"):
        sc.perturb_suite(suite_of(case_of(1, prompt)))


def test_types_and_functions_declared_in_code_get_a_mark_in_front():
    found = changed("`type OrderId = string; function loadOrder(id: OrderId) {}` typed by Ines")
    mark = found["OrderId"].removesuffix("OrderId")
    assert len(mark) == 2 and found["loadOrder"] == f"{mark.lower()}LoadOrder"
    assert changed("def load_order(x): ... # for Ines")["load_order"].endswith("_load_order")


def test_codes_keep_their_numbers_and_share_a_prefix():
    found = changed("PT-3390 and PT-17 wait for P-771.")
    prefixes = {old: new.split("-")[0] for old, new in found.items()}
    assert prefixes["PT-3390"] == prefixes["PT-17"] != prefixes["P-771"]
    assert [new.split("-")[1] for new in found.values()] == ["3390", "17", "771"]
    assert len(prefixes["PT-17"]) == 2 and len(prefixes["P-771"]) == 1


def test_dates_move_by_one_number_of_years_and_keep_their_distance():
    dates = changed("From 12 March 2025 to March 31, 2025; sealed 2025-04-02.")
    year = dates["2025-04-02"][:4]
    assert year != "2025" and dates == {
        "12 March 2025": f"12 March {year}",
        "March 31, 2025": f"March 31, {year}",
        "2025-04-02": f"{year}-04-02",
    }
    new = changed("Closed on Wednesday, 2025-04-02.")["2025-04-02"]
    assert date.fromisoformat(new).weekday() == date(2025, 4, 2).weekday() == 2


def test_moving_dates_by_hand():
    assert move_dates(["2024-02-29"], 1) is None  # no such day
    assert move_dates(["2024-01-05"], 1) is None  # a leap year becomes a common one
    assert move_dates(["2024-01-05"], 4) == ["2028-01-05"]
    # 1 January 2023 to 1 January 2025 are 731 days, two years later 730
    assert move_dates(["2023-01-01", "2025-01-01"], 2) is None
    assert move_dates(["2025-04-02"], 2, same_weekday=True) is None
    assert move_dates(["2025-02-30"], 1) is None


def test_the_skills_own_words_are_never_touched():
    suite = suite_of(case_of(1, "Ines asks Dana about PT-3390."))
    found = changed("Ines asks Dana about PT-3390.", skill=skill_of("Dana keeps PT-3390."))
    assert list(found) == ["Ines"]
    with pytest.raises(SuiteError, match="'asks' is a word of the skill; it must stay"):
        sc.perturb_suite(suite, skill=skill_of("Who asks?"), replacements={"asks": "begs"})
    with pytest.raises(SuiteError, match="'keel' is a word of the skill; choose another"):
        sc.perturb_suite(suite, skill=skill_of("The keel."), replacements={"Ines": "keel"})
    with pytest.raises(SuiteError, match="is about the skill 'tide'; found 'other'"):
        sc.perturb_suite(suite, skill=Skill(slug="other"))


@pytest.mark.parametrize(
    ("prompt", "replacements", "new"),
    [
        (
            "An aquarium waits 35 minutes. Aquarium staff call an aquarium, the aquarium.",
            {"aquarium": "bakery", "35 minutes": "36 minutes"},
            "A bakery waits 36 minutes. Bakery staff call a bakery, the bakery.",
        ),
        ("red before blue", {"red": "blue", "blue": "red"}, "blue before red"),
    ],
)
def test_asked_replacements_come_first_and_carry_case_and_article(prompt, replacements, new):
    copy = sc.perturb_suite(suite_of(case_of(1, prompt)), replacements=replacements)
    assert copy.cases[0].prompt == new


@pytest.mark.parametrize(
    ("replacements", "said"),
    [
        ({"aquarim": "dairy"}, "'aquarim' stands in no text of the suite. Did you mean 'aquarium'"),
        ({"aquarium": "tank"}, "'tank' stands in the suite already"),
        ({"aquarium": " "}, "expected two different words"),
        ({"aquarium": "dairy", "tank": "dairy"}, "they would merge"),
        ({"tide": "ebb"}, "'tide' is a word of the skill"),
    ],
)
def test_replacements_that_cannot_be_made_are_named(replacements, said):
    suite = suite_of(case_of(1, "The aquarium has one tank at high tide."))
    with pytest.raises(SuiteError, match="replacements: ") as caught:
        sc.perturb_suite(suite, replacements=replacements)
    assert said in str(caught.value)


def test_a_copy_that_breaks_a_rule_of_the_lint_is_refused():
    twin = case_of(2, "The tank is blue.", contrast_of="tide/1")
    suite = suite_of(case_of(1, "The tank is green."), twin)
    with pytest.raises(SuiteError, match="breaks rules that the original keeps") as caught:
        # a phrase and a word that meet in the same text make the twins one
        sc.perturb_suite(suite, replacements={"tank is green": "vat is dry", "tank is blue":
                                              "vat  is dry"})  # fmt: skip
    assert "contrast_same" in str(caught.value)


def test_the_table_names_every_place_and_the_prompts_without_a_change():
    suite = suite_of(case_of(1, "Ines and Ines.", "Says Ines."), case_of(2, "Nobody."))
    with pytest.warns(PerturbationWarning):
        copy = sc.perturb_suite(suite)
    table = perturbation_table(suite, copy)
    rows = table.drop(columns=["found", "replaced"]).fillna("").values.tolist()
    assert rows == [
        ["tide-perturbed-0/1", "prompt", "person", 2],
        ["tide-perturbed-0/1", "b0", "person", 1],
        ["tide-perturbed-0/2", "", "", 0],
    ]
    with pytest.raises(SuiteError, match="is no copy of"):
        perturbation_table(copy, suite)


def test_candidates_are_the_words_of_prompts_that_the_skill_has_not():
    suite = suite_of(case_of(1, "A brewery seals early.", "The brewery."), case_of(2, "Brewery?"))
    table = perturbation_candidates(suite, skill=skill_of("Who seals?"))
    assert table.values.tolist() == [["brewery", 2, 3], ["early", 1, 1]]


@pytest.mark.parametrize("slug", ["lantern-escalation", "tidemark-reconciliation", "type-safety"])
def test_the_pilots_suites_are_perturbed_without_a_new_finding_and_read_back(pilot, tmp_path, slug):
    suite, skill = pilot.suites[slug], pilot.skills[slug]
    with pytest.warns(PerturbationWarning, match="1[0-9] of 14 prompts"):
        copy = sc.perturb_suite(suite, skill=skill, seed=3)
    assert any(old.prompt != new.prompt for old, new in zip(suite.cases, copy.cases, strict=True))
    rules = lint_suite(copy, skill)["rule"].tolist()
    assert rules == lint_suite(suite.model_copy(update={"path": ""}), skill)["rule"].tolist()
    written = write_suite(copy, tmp_path)
    assert (written.cases, written.extra, written.problems) == (copy.cases, copy.extra, ())
    assert perturbation_table(suite, written).equals(perturbation_table(suite, copy))


def test_a_suite_without_names_says_what_could_be_replaced(pilot):
    suite, skill = pilot.suites["braid-provenance"], pilot.skills["braid-provenance"]
    with pytest.raises(SuiteError, match=r"Give replacements=; words .*: index, "):
        sc.perturb_suite(suite, skill=skill)


def test_writing_refuses_what_would_be_lost(tmp_path):
    suite = suite_of(case_of(1, "Q?"))
    with pytest.raises(SuiteError, match=r"expected the name tide\.json"):
        write_suite(suite, tmp_path / "ebb.json")
    with pytest.raises(SuiteError, match="there is no folder"):
        write_suite(suite, tmp_path / "gone" / "tide.json")
    with pytest.raises(SuiteError, match="cannot be a slug"):
        write_suite(suite.model_copy(update={"slug": "../x"}), tmp_path)
    lost = suite_of(case_of(1, "Q?").model_copy(update={"case_id": "other/1"}))
    with pytest.raises(SuiteError, match=r"would not read back the same \(other/1 would change\)"):
        write_suite(lost, tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_suite(suite, tmp_path)
    with pytest.raises(SuiteError, match="is there already; give overwrite=True"):
        write_suite(suite, tmp_path)
    assert write_suite(suite, tmp_path, overwrite=True).slug == "tide"


def test_odd_kinds_and_unknown_keys_survive_writing(tmp_path):
    file = tmp_path / "tide.json"
    rows = [
        {"id": "a1", "prompt": "Q?", "weight": 2, "expected_behaviors": [
            {"id": "x", "kind": "neutral", "description": "D", "note": "N", "goal": "style"}]},
        {"id": 2, "prompt": "R?", "contrast_of": "a1", "should_trigger": False},
    ]  # fmt: skip
    file.write_text(json.dumps({"skill_name": "tide", "evals": rows, "owner": "me"}))
    suite = read_suite(file)
    back = write_suite(suite, file, overwrite=True)
    assert back.cases == suite.cases and back.extra == {"owner": "me"}
    written = json.loads(file.read_text())
    assert written["evals"][0]["id"] == "a1" and written["evals"][1]["contrast_of"] == "a1"
    assert written["evals"][0]["expected_behaviors"][0]["kind"] == "neutral"


TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3))
def test_any_text_is_written_and_read_back(tmp_path_factory, rows):
    cases = [
        case_of(i, prompt, description, expected_reasoning=reasoning)
        for i, (prompt, description, reasoning) in enumerate(rows)
    ]
    suite = suite_of(*cases)
    assert write_suite(suite, tmp_path_factory.mktemp("s")).cases == suite.cases
