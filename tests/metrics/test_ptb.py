"""The tokeniser gives the tokens of the Java program: on hard cases kept here, and on every annotation file."""

import json
from pathlib import Path

import pytest

from published import SHARED, published
from scripts import import_script
from tellapart.metrics.ptb import tokenize

HERE = Path(__file__).parent
GOLDEN = [json.loads(line) for line in (HERE / "ptb_golden.jsonl").read_text(encoding="utf-8").splitlines()]
DRAWN = json.loads((HERE / "ptb_drawn.json").read_text(encoding="utf-8"))
DIGESTS = json.loads((HERE / "ptb_digests.json").read_text(encoding="utf-8"))
MAKER = import_script(HERE / "make_ptb_golden.py")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: ascii(case["caption"])[:40])
def test_hard_captions_have_the_tokens_of_the_java_program(case):
    assert tokenize(case["caption"]) == case["tokens"]


def test_golden_and_drawn_captions_hold_what_they_are_for():
    captions = (HERE / "ptb_captions.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert [case["caption"] for case in GOLDEN] == captions
    assert len(captions) > 50
    captions = MAKER.drawn_captions(0)
    for part in ("&Amp;", "&lT;", "1\u20442", "'90S"):
        assert any(part in caption for caption in captions), part
    assert len({letter for caption in captions for letter in caption if letter > "\x7f"}) > 1000
    assert sum(caption not in (caption.lower(), caption.upper(), caption.capitalize()) for caption in captions) > 1000


@pytest.mark.parametrize("block", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, len(DRAWN)))])
def test_any_case_any_character_entities_and_numbers_have_the_tokens_of_the_java_program(block):
    captions = MAKER.drawn_captions(block)
    assert len(captions) > 4900
    assert MAKER.digest([tokenize(caption) for caption in captions]) == DRAWN[block]


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGESTS)
def test_every_string_of_the_annotation_files_has_the_tokens_of_the_java_program(name):
    strings = MAKER.strings_of(published(name))
    assert len(strings) == DIGESTS[name]["strings"]
    assert MAKER.digest([tokenize(text) for text in strings]) == DIGESTS[name]["tokens"]


def test_no_annotation_file_is_without_a_digest():
    found = {path.relative_to(SHARED).as_posix() for path in MAKER.annotation_files(published())}
    assert found == set(DIGESTS)


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        ("A dog's toy isn't here.", "a dog 's toy is n't here"),
        ("I cannot; you gotta", "i can not you got ta"),
        ("(w/ hat)", "-lrb- w / hat -rrb-"),
        ("visit www.example.com, now", "visit www.example.com now"),
        ("3 1/2 cups", "3\xa01/2 cups"),
        ("Building A. The man", "building a the man"),
        ("Building A. Smith", "building a. smith"),
        ("wow!! ?! !", "wow !! ?!"),
        ("well ----- done", "well ----- done"),
        ("R&Lt;a", "r&l t a"),  # a name with "and" ends in the capital; the Java program has these tokens, too
        ("TV&Gt;x", "tv&g t x"),
        ("R&Quot;x", "r&q uot x"),  # `R&Q` is a name, so that this is no entity
        # A caption does not depend on the next one: the Java program reads on, and keeps the full stop before "5 men".
        ("is it day? no.", "is it day no"),
        ("5 men", "5 men"),
        ("no. 5 men", "no. 5 men"),
        *((f"a dog{line_break}runs", "a dog runs") for line_break in ("\n", "\r", "\r\n", "\x85", "\u2028")),
        *((marks, "") for marks in ("", " ", ".", '"..."', "- -- ...", "😀")),
    ],
)
def test_rules_that_readers_of_a_token_list_stumble_on(caption, tokens):
    assert tokenize(caption) == tokens
