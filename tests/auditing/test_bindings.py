"""Bindings of captions, and which of them a corpus holds."""

import json

import pytest

import tellapart as ta
from facts import raises
from published import NEEDS_NLTK_DATA, NLTK_DATA
from tellapart.auditing.bindings import find_in_corpus, list_bindings, open_tagger, seen_bindings
from tellapart.builders.captions.stages import NltkTagger
from tellapart.errors import ModelError, RunError

pytestmark = NEEDS_NLTK_DATA


@pytest.fixture(scope="module")
def tagger() -> NltkTagger:
    return open_tagger(f"nltk:{NLTK_DATA}")


@pytest.mark.parametrize(
    ("caption", "bindings"),
    [
        ("a red car and a blue sky", {("red", "car"), ("blue", "sky")}),
        ("the car is red", {("red", "car")}),
        ("the horse is eating the grass", {("hors", "eat", "grass")}),
        ("the door is to the left of the bus", {("door", "to left of", "bu")}),
        (
            "two men in front of a large wooden table",
            {("men", "in front of", "tabl"), ("larg", "tabl"), ("wooden", "tabl")},
        ),
        ("an old person kisses a young person", {("old", "person"), ("person", "kiss", "person"), ("young", "person")}),
        ("there are three clocks", set()),
    ],
)
def test_bindings_are_attributes_and_relations(tagger, caption, bindings):
    assert list_bindings(tagger.read(caption)) == bindings


def test_words_of_a_binding_that_stand_apart_do_not_make_it(tagger):
    wanted = {("red", "car"), ("blue", "sky"), ("hors", "eat", "grass")}
    corpus = ["a red sky over a blue car", "Red cars in the rain", "grass and a horse", "a horse eats grass"]
    assert find_in_corpus(wanted, corpus, tagger) == {("red", "car"), ("hors", "eat", "grass")}


def test_true_captions_whose_bindings_alone_were_seen_are_warned_of(captioned, tagger, tmp_path):
    pairs = captioned([("a red car under a blue sky", "a blue car under a red sky")] * 30)
    corpus = tmp_path / "captions.txt"
    corpus.write_text("a red car is parked\n7\ta blue sky\na car under a sky\n")
    finding, classes = seen_bindings(pairs, corpus, tagger)
    assert (finding.value, finding.verdict, {*classes.values()}) == (1.0, "warn", {"seen"})
    assert "100.0 % of true and 0.0 % of false" in finding.says
    corpus.write_text("a red car is parked\n")
    finding, classes = seen_bindings(pairs, corpus, tagger)
    assert (finding.value, finding.verdict, {*classes.values()}) == (0.0, "pass", {"partly"})


def test_an_audit_writes_the_classes_of_items(tmp_path):
    corpus = tmp_path / "captions.jsonl"
    corpus.write_text(json.dumps({"caption": "a red cube left of a blue sphere"}) + "\n")
    audited = ta.audit("demo", corpus=corpus, tagger=f"nltk:{NLTK_DATA}", read_images=False, to=tmp_path / "audit")
    rows = [json.loads(line) for line in (tmp_path / "audit" / "bindings.jsonl").read_text().splitlines()]
    assert {row["id"]: row["bindings"] for row in rows} == audited.record.bindings
    assert len(rows) == 400 and {row["bindings"] for row in rows} <= {"seen", "partly", "unseen", "none"}


def test_a_corpus_needs_its_tagger():
    with raises(RunError, "corpus=", "tagger=", "nltk:FOLDER"):
        ta.audit("demo", corpus="captions.txt", read_images=False)
    with raises(ModelError, "spacy:en", "nltk:FOLDER"):
        open_tagger("spacy:en")
