"""The data card and Croissant say what is known, ask what is not, and take no text for markup."""

import fnmatch
import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import check_facts, raises
from sets import contents, write_file
from tellapart import PairSet, read_pair_set
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.card import (
    QUESTIONS,
    SAMPLES,
    answers,
    count_answers,
    croissant,
    html,
    make_card,
    markdown,
    missing,
    with_questions,
)
from tellapart.auditing.show import write_audit
from tellapart.benchmarks.find import load_pairs
from tellapart.errors import DataError

Blots = Callable[..., NDArray[np.uint8]]


def test_only_what_a_card_says_is_an_answer():
    assert len({question.key for question in QUESTIONS}) == len(QUESTIONS) == 57
    assert [*answers({}).values()] == [""] * 57
    card = {
        "licence": "MIT",
        "description": "Cups.",
        "creators": ["A. Person", "B. Person"],
        "datasheet": {"purpose": " To test. ", "funding": None, "licence": "CC0"},
    }
    told = {"purpose": "To test.", "creators": "A. Person, B. Person", "instances": "Cups.", "licence": "CC0"}
    assert {key: text for key, text in answers(card).items() if text} == told


def test_a_card_with_its_questions_says_the_same_when_read_again():
    card = {"licence": "MIT", "datasheet": {"purpose": "To test."}, "seed": 3}
    full = with_questions(card)
    assert full["seed"] == 3 and full["title"] is None and full["licence"] == "MIT"
    assert {*missing({})} | {"title"} <= full.keys() and full["creators"] is None
    assert with_questions({"title": "Cups"})["title"] == "Cups"
    assert [*full["datasheet"]] == [question.key for question in QUESTIONS]
    assert answers(full) == answers(card)
    assert with_questions(json.loads(json.dumps(full))) == full


def test_a_datasheet_that_is_none_is_an_error():
    for datasheet, *facts in (
        ({"purposes": "x"}, "'purposes'", "'purpose'"),
        ({"purpose": 3}, "'datasheet.purpose'", "null", "3"),
        (["purpose"], "'datasheet'", "object"),
    ):
        with raises(DataError, *facts):
            answers({"datasheet": datasheet})


@pytest.mark.slow
def test_the_card_shows_items_with_pictures_and_asks_nothing_of_the_network(pictured, blots):
    card = {"title": "Blots", "licence": "CC0-1.0", "creators": ["A. Person", "B. Person"]}
    pairs = pictured([[blots(k), blots(k + 50)] for k in range(20)], card=card)
    page = html(make_card(pairs, audit(pairs)))
    assert page.count('<img src="data:image/png;base64,') == 2 * SAMPLES
    assert page.count("<article") == SAMPLES
    assert not re.search(r"<script|<link|@import|(src|href)=\"(?!data:|#)|url\(", page)
    assert "<h1>Blots</h1>" in page and "creators: A. Person, B. Person" in page


def test_answered_questions_come_first_and_the_others_are_folded(pictured, blots):
    pairs = pictured([[blots(0), blots(1)]], card={"licence": "MIT", "datasheet": {"purpose": "To test."}})
    card = make_card(pairs, audit(pairs))
    counted = set(count_answers(pairs, audit(pairs)))
    assert counted >= {"count", "instance_data", "labels", "missing", "errors", "self_contained"}
    open_ = 55 - len(counted)
    assert (card.unanswered, [*card.sections]) == (open_, ["Motivation", "Composition", "Distribution"])
    for text in (html(card), markdown(card)):
        before, folded, rest = re.split(
            r"<details>|</details>", text[text.index("Datasheet</h2>" if "<h2>" in text else "## Datasheet") :]
        )
        assert "To test." in before and "MIT" in before
        asked = [question.text for question in QUESTIONS if question.key not in {"purpose", "licence", *counted}]
        assert all(question in folded and question not in before + rest for question in asked)
        assert f"<summary>{open_} of 57 questions have no answer yet</summary>" in folded
        assert "fill in" in folded and "funding" in folded


def test_the_audit_answers_what_it_has_counted_and_the_card_comes_first(made_set):
    pairs = read_pair_set(made_set(n=12, clusters=4))
    found = audit(pairs, Options(pictures=False))
    counted = count_answers(pairs, found)
    check_facts(counted["count"], ("12", "swap 4", "add 4", "replace 4"))
    check_facts(counted["instance_data"], ("2 images", "2 texts"))
    assert "masks" not in counted["instance_data"]
    masks = {"provenance": {"masks": [["a.png", "b.png"], ["c.png"]]}}
    masked = tuple(item.model_copy(update=masks) for item in pairs.items[:2])
    check_facts(count_answers(replace(pairs, items=masked), found)["instance_data"], ("2 images", "6 masks"))
    check_facts(counted["missing"], ("6", "side"))  # every second item has that tag
    check_facts(counted["relationships"], ("12", "4"))
    many = found.model_copy(update={"tags": {"verb": {f"verb {k:02}": 1 for k in range(23)}}})
    check_facts(count_answers(pairs, many)["count"], ("verb 19 1", "and 3 more"))
    torn = replace(pairs, items=(pairs.items[0].model_copy(update={"texts": ("a cat", "nan")}), *pairs.items[1:]))
    check_facts(count_answers(torn, audit(torn, Options(pictures=False)))["missing"], ("1 without a side", "torn"))
    check_facts(counted["errors"], (str(len(found.warnings)), str(len(found.findings))))
    replies = answers({"datasheet": {"count": "a dozen"}}, counted)
    assert (replies["count"], replies["labels"], replies["funding"]) == ("a dozen", counted["labels"], "")


def test_a_card_without_answers_says_so_and_one_with_all_folds_nothing(pictured, blots):
    every = {"datasheet": {question.key: "x" for question in QUESTIONS}}
    cards = {"none": None, "all": every}
    sets = (pictured([[blots(0), blots(1)]], name=name, card=card) for name, card in cards.items())
    none, all_of_them = (html(make_card(pairs, audit(pairs, Options(pictures=False)))) for pairs in sets)
    assert "answers none of its questions yet" in none and "<details>" not in all_of_them
    assert "<img" not in none and "pictures were not read" in none


def test_captions_and_answers_are_no_markup(pictured, blots):
    nasty = "<script>alert(1)</script> | **bold** [a](http://b)\n# c"
    about = {"title": nasty, "datasheet": {"purpose": nasty}}
    pairs = pictured([[blots(0), blots(1)]], texts=[(nasty, "b")], tags=[{"<b>": nasty}], card=about)
    card = make_card(pairs, audit(pairs))
    page, text = html(card), markdown(card)
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "<script" not in text.replace("\\<", "") and "\n# c" not in text
    assert not re.search(r"(?<!\\)(\*\*bold|\]\(http)", text)


def test_markdown_tables_have_a_cell_for_every_column(pictured, blots):
    pairs = pictured([[blots(k), blots(k + 50)] for k in range(3)], tags=[{"a|b": "c"}] * 3)
    rows = [line for line in markdown(make_card(pairs, audit(pairs))).splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_the_same_set_gives_the_same_files(pictured, blots, tmp_path):
    pairs = pictured([[blots(k), blots(k + 50)] for k in range(5)])
    for name in ("one", "two"):
        write_audit(tmp_path / name, pairs, audit(pairs))
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["audit.json", "card.html", "card.json", "card.md", "croissant.json"]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


FULL = {
    "name": "cups", "description": "Cups that differ in colour.", "url": "https://example.org/cups",
    "licence": "CC-BY-4.0", "citation": "A. Person, Cups, 2026", "version": "1.2.0", "date_published": "2026-01-31",
    "creators": ["A. Person", "B. Person"], "datasheet": {"purpose": "To tell cups apart.", "sensitive": "No."},
}  # fmt: skip


@pytest.fixture
def cups(pictured, blots) -> PairSet:
    tags = [{"type": "swap"}, {}, {"type": "add", "odd tag": "x"}]
    return pictured([[blots(k), blots(k + 50)] for k in range(3)], tags=tags, card=FULL, name="cups")


def test_files_have_their_hashes_and_ids_are_distinct_and_lead_to_one(cups):
    made = croissant(cups)
    listing, *sets = made["distribution"]
    assert listing["sha256"] == hashlib.sha256((cups.root / "pairs.jsonl").read_bytes()).hexdigest()
    assert (cups.root / listing["contentUrl"]).is_file()
    patterns = [pattern for each in sets for pattern in each["includes"]]
    assert all(any(fnmatch.fnmatch(name, each) for each in patterns) for item in cups.items for name in item.images)
    (records,) = made["recordSet"]
    ids = [each["@id"] for each in [*made["distribution"], records, *records["field"]]]
    assert len(set(ids)) == len(ids)
    used = [field["source"]["fileObject"]["@id"] for field in records["field"]] + [records["key"]["@id"]]
    assert set(used) <= set(ids)
    fields = {field["name"]: field for field in records["field"]}
    assert [(fields[name]["arrayShape"], fields[name]["isArray"]) for name in ("images", "texts")] == [("2", True)] * 2
    assert ids[3:] == ["items/id", "items/images", "items/texts", "items/cluster", "items/tags/type"]


def test_the_card_is_told_in_croissants_terms_and_what_it_lacks_is_not_made_up(cups, pictured, blots):
    made = croissant(cups)
    assert made["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert made["license"] == "https://spdx.org/licenses/CC-BY-4.0"
    assert [person["name"] for person in made["creator"]] == FULL["creators"]
    assert (made["rai:dataUseCases"], made["rai:personalSensitiveInformation"]) == ("To tell cups apart.", "No.")
    assert missing(FULL) == []
    bare = croissant(pictured([[blots(0), blots(1)]], card={}, name="bare"))
    assert not {"license", "url", "creator", "datePublished", "version", "citeAs"} & set(bare)
    assert bare["description"] == "1 minimal pairs, each of 2 images and 2 texts."
    assert missing({}) == ["description", "licence", "url", "creators", "date_published"]
    mixed = pictured([[blots(0), blots(1)]], card={"licence": "MIT; images of COCO"})
    assert croissant(mixed)["license"] == "MIT; images of COCO"


def test_a_set_without_files_and_creators_that_are_no_list_are_refused(pictured, blots):
    with raises(DataError, "Croissant", "pairs.jsonl", "folder"):
        croissant(PairSet("far", load_pairs("demo").items[:1], Path("nowhere")))
    with raises(DataError, "'creators'", "'A. Person'"):
        croissant(pictured([[blots(0), blots(1)]], card={"creators": "A. Person"}))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the validator's own, of rdflib
def test_its_validator_accepts_it_and_reads_every_item(cups, caplog):
    mlcroissant = pytest.importorskip("mlcroissant", reason="the validator, of the extra 'dev': mlcroissant")
    (cups.root / "croissant.json").write_text(json.dumps(croissant(cups)))
    with caplog.at_level(logging.WARNING):
        dataset = mlcroissant.Dataset(str(cups.root / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors and not dataset.metadata.ctx.issues.warnings

    def text(value):
        return tuple(each.decode() for each in value) if isinstance(value, list) else value and value.decode()

    names = ("items/id", "items/images", "items/texts", "items/tags/type")
    records = [tuple(text(row[name]) for name in names) for row in dataset.records("items")]
    assert records == [(item.id, item.images, item.texts, item.tags.get("type")) for item in cups.items]


def fields_of(folder: Path, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The fields that Croissant declares of a set whose listing has these rows."""
    write_file(folder / "pairs.jsonl", rows)
    return {field["name"]: field for field in croissant(read_pair_set(folder))["recordSet"][0]["field"]}


def test_a_listing_promises_what_its_rows_have(cups, pictured, blots):
    rows = [json.loads(line) for line in (cups.root / "pairs.jsonl").read_text().splitlines()]
    bare = [{name: value for name, value in row.items() if name != "cluster"} for row in rows]
    assert [*fields_of(cups.root, bare)] == ["id", "images", "texts", "tags/type"]
    one = rows[0] | {"images": rows[0]["images"][:1], "texts": ["a", "b", "c"], "true": [1]}
    fields = fields_of(cups.root, [one])
    assert fields["true"]["dataType"] == "sc:Integer" and "field true" in fields["texts"]["description"]
    # A true caption that is not the first is marked.
    set_ = pictured([[blots(0)]], texts=[("a cup", "two cups", "no cup")], name="few")
    pairs = replace(set_, items=tuple(item.model_copy(update={"true": (1,)}) for item in set_.items))
    page = html(make_card(pairs, audit(pairs)))
    assert "<li>two cups <b>(true)" in page and "<li>a cup</li>" in page
