"""BLEU, ROUGE-L and CIDEr equal pycocoevalcap on golden corpora, and obey the laws they should."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.metrics.captions import bleu, bleu_statistics, caption_scores, cider, rouge_l

GOLDEN = json.loads((Path(__file__).parent / "captions_golden.json").read_text(encoding="utf-8"))
CAPTION = st.lists(st.sampled_from("abcde"), max_size=9).map(" ".join)
REFERENCES = st.lists(CAPTION, min_size=1, max_size=4)
CORPUS = st.lists(st.tuples(CAPTION, REFERENCES), min_size=2, max_size=6)


def split(corpus: list[tuple[str, list[str]]]) -> tuple[dict[str, str], dict[str, list[str]]]:
    ids = [f"image {place}" for place in range(len(corpus))]
    hypotheses = {image: hypothesis for image, (hypothesis, _) in zip(ids, corpus, strict=True)}
    return hypotheses, {image: references for image, (_, references) in zip(ids, corpus, strict=True)}


@pytest.mark.parametrize("corpus", GOLDEN, ids=lambda corpus: f"{len(corpus['hypotheses'])} images")
def test_every_metric_equals_pycocoevalcap_to_nine_digits(corpus):
    hypotheses, references, golden = corpus["hypotheses"], corpus["references"], corpus["metrics"]
    statistics = bleu_statistics(hypotheses, references)
    close = {"rtol": 0, "atol": 1e-9}
    np.testing.assert_allclose(bleu(statistics.sum(axis=0)), golden["bleu"]["corpus"], **close)
    np.testing.assert_allclose(bleu(statistics).T, golden["bleu"]["items"], **close)
    for name, metric in (("rouge_l", rouge_l), ("cider", cider)):
        values = metric(hypotheses, references)
        np.testing.assert_allclose(values, golden[name]["items"], **close)
        np.testing.assert_allclose(values.mean(), golden[name]["corpus"], **close)


def test_a_corpus_has_the_bleu_of_its_sums_and_raw_captions_are_tokenised():
    hypotheses, references = (
        {"1": "A dog runs!", "2": "Two cats sit"},
        {"1": ["a dog runs"], "2": ["two cats run", "cats"]},
    )
    scores = caption_scores(hypotheses, references)
    # Six words of six guessed with five found, four pairs with three, two triples with one, no run of four.
    assert scores.bleu_statistics.sum(axis=0).tolist() == [6, 6, 6, 4, 2, 0, 5, 3, 1, 0]
    corpus = scores.corpus()
    expected = [5 / 6, (5 / 6 * 3 / 4) ** (1 / 2), (5 / 6 * 3 / 4 * 1 / 2) ** (1 / 3)]
    assert [corpus[f"bleu_{n}"] for n in (1, 2, 3)] == pytest.approx(expected, abs=1e-6)
    assert corpus["rouge_l"] == pytest.approx(scores.rouge_l.mean())
    assert corpus["cider"] == pytest.approx(scores.cider.mean())
    scores = caption_scores({"1": "A DOG.", "2": "Isn't it?"}, {"1": ["a dog"], "2": ["is n't it"]})
    assert scores.ids == ("1", "2")
    assert (scores.rouge_l.tolist(), scores.corpus()["bleu_1"]) == ([1.0, 1.0], pytest.approx(1.0))
    assert list(scores.corpus()) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    assert cider({"1": "", "2": ""}, {"1": [""], "2": [""]}).tolist() == [0.0, 0.0]


def test_the_golden_corpora_hold_the_corners():
    corner = GOLDEN[0]
    assert corner["hypotheses"]["empty"] == ""
    lengths = {len(reference.split()) for reference in corner["references"]["tie"]}
    assert {3, 5} <= lengths
    assert max(len(references) for corpus in GOLDEN for references in corpus["references"].values()) == 5
    assert any("\xa0" in caption for corpus in GOLDEN for caption in corpus["hypotheses"].values())


@given(CORPUS, st.randoms(use_true_random=False))
def test_the_order_of_the_images_changes_no_bit(corpus, random):
    hypotheses, references = split(corpus)
    order = list(hypotheses)
    random.shuffle(order)
    moved = {image: hypotheses[image] for image in order}
    back = [order.index(image) for image in hypotheses]
    for metric in (bleu_statistics, rouge_l, cider):
        np.testing.assert_array_equal(metric(moved, references)[back], metric(hypotheses, references))


def test_the_order_of_the_images_changes_no_bit_of_long_captions_either():
    draw = np.random.default_rng(7)
    captions = [[f"word{code}" for code in row] for row in draw.integers(0, 400, (60, 40))]
    hypotheses = {str(place): " ".join(row[::-1][:20] + row[10:]) for place, row in enumerate(captions)}
    references = {str(place): [" ".join(row), " ".join(row[5:])] for place, row in enumerate(captions)}
    backwards = dict(reversed(hypotheses.items()))
    np.testing.assert_array_equal(cider(backwards, references)[::-1], cider(hypotheses, references))


@given(CAPTION, CAPTION)
def test_the_longest_common_subsequence_is_that_of_the_textbook(one, other):
    first, second = one.split(" "), other.split(" ")
    table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    for i, word in enumerate(first, 1):
        for j, against in enumerate(second, 1):
            table[i, j] = table[i - 1, j - 1] + 1 if word == against else max(table[i - 1, j], table[i, j - 1])
    common = table[-1, -1]
    precision, recall = common / len(first), common / len(second)
    expected = 2.44 * precision * recall / (recall + 1.44 * precision) if common else 0.0
    assert rouge_l({"1": one}, {"1": [other]})[0] == pytest.approx(expected)
