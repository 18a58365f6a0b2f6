"""Croissant 1.1: the metadata describes the files that are there, and its own validator accepts it."""

import fnmatch
import hashlib
import json
import logging
from pathlib import Path

import pytest

from facts import raises
from tellapart.auditing.datasheet import croissant, missing
from tellapart.benchmarks.find import load_pairs
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

FULL = {
    "name": "cups",
    "description": "Cups that differ in colour.",
    "licence": "CC-BY-4.0",
    "url": "https://example.org/cups",
    "citation": "A. Person, Cups, 2026",
    "version": "1.2.0",
    "creators": ["A. Person", "B. Person"],
    "date_published": "2026-01-31",
    "datasheet": {"purpose": "To tell cups apart.", "sensitive": "No."},
}


@pytest.fixture
def cups(pictured, blots) -> PairSet:
    tags = [{"type": "swap"}, {}, {"type": "add", "odd tag": "x"}]
    return pictured([[blots(k), blots(k + 50)] for k in range(3)], tags=tags, card=FULL, name="cups")


def test_files_are_named_with_their_hash_and_every_picture_is_in_a_file_set(cups):
    made = croissant(cups)
    listing, *sets = made["distribution"]
    assert listing["sha256"] == hashlib.sha256((cups.root / "pairs.jsonl").read_bytes()).hexdigest()
    assert (cups.root / listing["contentUrl"]).is_file()
    patterns = [pattern for each in sets for pattern in each["includes"]]
    assert all(any(fnmatch.fnmatch(name, each) for each in patterns) for item in cups.items for name in item.images)


def test_ids_are_distinct_and_every_reference_leads_to_one(cups):
    made = croissant(cups)
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


def test_a_licence_that_is_no_identifier_is_told_as_it_is(pictured, blots):
    made = croissant(pictured([[blots(0), blots(1)]], card={"licence": "MIT; images of COCO"}))
    assert made["license"] == "MIT; images of COCO"


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
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings

    def text(value):
        return [each.decode() for each in value] if isinstance(value, list) else value.decode()

    rows = dataset.records("items")
    records = [{key: text(value) for key, value in row.items() if value is not None} for row in rows]
    assert [row["items/id"] for row in records] == [item.id for item in cups.items]
    assert [tuple(row["items/images"]) for row in records] == [item.images for item in cups.items]
    assert [tuple(row["items/texts"]) for row in records] == [item.texts for item in cups.items]
    assert [row.get("items/tags/type") for row in records] == ["swap", None, "add"]


def test_a_listing_without_clusters_promises_none(cups):
    listing = cups.root / "pairs.jsonl"
    rows = [json.loads(line) for line in listing.read_text().splitlines()]
    listing.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "cluster"}) + "\n" for row in rows))
    fields = [field["name"] for field in croissant(read_pair_set(cups.root))["recordSet"][0]["field"]]
    assert fields == ["id", "images", "texts", "tags/type"]
