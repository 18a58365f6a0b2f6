"""The authors' own counterfactuals: checks without a model, and with the tagger where its data are available."""

from __future__ import annotations

import json
import os
import runpy
from collections import Counter
from pathlib import Path

import pytest

from tellapart.builders.caption_files import read_captions
from tellapart.builders.captions.stages import NltkTagger

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared/data/coco_counterfactuals"
NLTK_DATA = Path(os.environ.get("TELLAPART_NLTK_DATA") or ROOT / "scratch" / "nltk-data")
released = pytest.mark.skipif(
    not (DATA / "generated_sim_0.8_0.91.txt").is_file(), reason="needs ../shared/data/coco_counterfactuals"
)


@released
def test_the_authors_inputs_are_read_and_their_blanks_are_one() -> None:
    captions = read_captions(DATA / "input_cap_val_2017.txt")
    assert len(captions) == 25_014
    assert captions[0].id == "179765_0" and captions[0].cluster == "179765"
    assert len({caption.cluster for caption in captions}) == 5_000
    assert not [caption for caption in captions if caption.text != " ".join(caption.text.split())]
    names = {line.partition("\t")[0] for line in (DATA / "generated_sim_0.8_0.91.txt").read_text().splitlines()}
    assert len(names) == 24_508
    assert names < {caption.id for caption in captions}


def test_the_record_of_agreement_adds_up() -> None:
    record = json.loads((ROOT / "docs/counterfactual_agreement.json").read_text())
    words = record["words"]
    assert words["one_word"] + words.get("not_one_word", 0) == words["pairs"] == 24_508
    assert record["inputs"]["captions"] - record["inputs"]["without_counterfactual"] == 24_508
    assert words["noun_before_and_after"] <= min(words["noun_before"], words["noun_after"])
    for counts in (record["wordnet"]["first_sense"], record["wordnet"]["all_senses"]):
        assert sum(counts.values()) == words["one_word"]
    assert record["similarity"]["inside"] / record["similarity"]["pairs"] > 0.99
    assert record["choice"]["same_choice"] > record["choice"]["same_choice_expected_by_chance"]


tagged = pytest.mark.skipif(
    not NLTK_DATA.is_dir(),
    reason="needs NLTK's data: python ci/nltk_data.py scratch/nltk-data, or their folder in TELLAPART_NLTK_DATA",
)


@pytest.fixture(scope="module")
def tagger() -> NltkTagger:
    pytest.importorskip("nltk", reason="needs the extra 'captions': nltk")
    return NltkTagger.load(NLTK_DATA)


@tagged
@pytest.mark.slow
def test_the_published_tagger_knows_nouns(tagger: NltkTagger) -> None:
    words = tagger.read("Two dogs sit on Mr. Smith's red sofa. They are asleep.")
    assert [(word.text, word.tag) for word in words] == [
        ("Two", "CD"), ("dogs", "NNS"), ("sit", "VBP"), ("on", "IN"), ("Mr.", "NNP"), ("Smith", "NNP"), ("'s", "POS"),
        ("red", "JJ"), ("sofa", "NN"), (".", "."), ("They", "PRP"), ("are", "VBP"), ("asleep", "JJ"), (".", "."),
    ]  # fmt: skip


@released
@tagged
@pytest.mark.slow
def test_the_record_is_what_the_tagger_says_of_the_first_pairs(tagger: NltkTagger) -> None:
    program = runpy.run_path(str(ROOT / "docs/counterfactual_agreement.py"))
    rows = program["read"](DATA / "generated_sim_0.8_0.91.txt")[:600]
    pairs, counts = program["align"](rows, tagger)
    expected = Counter(one_word=600, noun_before=600, noun_after=600, noun_before_and_after=600, same_text_rejoined=600)
    assert counts == dict(expected) | {"pairs": 600, "same_text_kept": 598}
    assert len(pairs) == 600
