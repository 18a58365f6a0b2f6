"""Priors that a user can estimate: means over unrelated captions and pictures, of a model with a known prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tellapart as ta
from facts import raises
from tellapart import catalog
from tellapart.diagnosis.why import Debiased, _draw, _subtract
from tellapart.errors import DataError, RunError
from tellapart.models.find import find_model


class Liking:
    """The demo encoder, and a liking for pictures that no caption has a part in."""

    name, fingerprint, kind = "liking", "liking-1", "similarity"

    def __init__(self) -> None:
        self.demo: Any = find_model("demo-encoder")

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        liking = [[image.mean() * 1000 % 1] for image in images]
        return np.concatenate([self.demo.encode_images(images), np.array(liking, np.float32)], axis=1)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.concatenate([self.demo.encode_texts(texts), np.ones((len(texts), 1), np.float32)], axis=1)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self.demo.similarity(images[:, :-1], texts[:, :-1]) + images[:, -1:], np.float32)


@pytest.fixture
def liking(monkeypatch, tmp_path) -> ta.Run:
    monkeypatch.setitem(catalog._ADDED["model"], "liking", lambda _options: Liking())
    return ta.evaluate("liking", "demo", limit=60, out=tmp_path / "liking", cache=tmp_path / "cache")


def test_a_liking_for_pictures_is_subtracted_and_the_gain_is_that_of_the_demo_encoder(liking, tmp_path, capsys):
    explained = ta.why(liking, debias=30, cache=tmp_path / "cache")
    rows: dict[str, Debiased] = {row.prior: row for row in explained.record.debiased}
    before = liking.value("group_score")
    assert before < 0.5 < ta.evaluate("demo-encoder", "demo", limit=60, cache=False).value("group_score") - 0.3
    pictures, captions = rows["pictures"], rows["captions"]
    assert pictures.group_score - before == pytest.approx(pictures.gain.value)
    assert pictures.group_score > 0.85 and pictures.gain.low is not None and pictures.gain.low > 0.2
    assert 0.7 < pictures.weights[0] < 1.5 and pictures.weights[1] == 0 == captions.weights[0]
    assert captions.gain.value < 0.1 and {row.unrelated for row in rows.values()} == {30}
    explained.show()
    assert "means of the pictures" in capsys.readouterr().out


def test_the_weights_of_an_item_are_those_of_the_other_folds():
    """Twelve items that their priors outweigh, and four that are right: none is served by the others' weight."""
    outweighed, right = [[0.9, 0.8], [0.3, 0.4]], [[0.9, 0.3], [0.3, 0.9]]
    scores = np.array([outweighed] * 12 + [right] * 4, np.float32)
    pictures = np.array([[0.85, 0.35]] * 12 + [[5.0, -5.0]] * 4)
    fold = np.array([0] * 12 + [1, 2, 3, 4])
    after, (weight, captions) = _subtract(scores, pictures, np.zeros((16, 2)), fold)["pictures"]
    assert not after.any() and captions == 0
    assert weight == pytest.approx((0 + 4 * 0.9) / 5)  # 0.9 is the least of use to the twelve
    every, _ = _subtract(scores, pictures, np.zeros((16, 2)), np.arange(16) % 4)["pictures"]
    assert every.tolist() == [True] * 12 + [False] * 4


def test_what_is_drawn_is_of_other_clusters_and_does_not_depend_on_the_order_of_items():
    entries = [("a", "b"), ("b", "c"), ("d", "e"), ("a", "f")]
    clusters = ["x", "x", "y", "z"]
    rows = _draw(entries, clusters, 9, 0)
    assert {len(row) for row in rows} == {3}  # the first has no more: a is its caption, too
    assert [set(row) for row in rows[:2]] == [{"d", "e", "f"}, set(rows[1]) - {"b", "c"}]
    assert not set(rows[2]) & {"d", "e"} and not set(rows[3]) & {"a", "f"}
    assert _draw(entries[::-1], clusters[::-1], 2, 0) == _draw(entries, clusters, 2, 0)[::-1]


def test_scores_that_cannot_be_had_again_are_refused(liking, monkeypatch, made_set, tmp_path):
    monkeypatch.setattr(Liking, "fingerprint", "liking-2")
    with raises(RunError, "debias=8", "liking", "liking-1", "liking-2"):
        ta.why(liking, debias=8, cache=False)
    with raises(RunError, "debias=8", "oracle", "whole items"):
        ta.why(ta.evaluate("oracle", "demo", limit=9, cache=False), debias=8, cache=False)
    numbers = np.random.default_rng(0).random((400, 2, 2))
    with raises(RunError, "debias=8", "mine", "demo", "file"):
        ta.why(ta.score("demo", numbers, name="mine"), debias=8, cache=False)
    folder = made_set()
    run = ta.evaluate("random", f"folder:{folder}", out=tmp_path / "run", cache=False)
    (folder / "pairs.jsonl").unlink()
    with raises(DataError, "set", "pairs.jsonl"):
        ta.why(run, debias=8, cache=False)


@pytest.mark.parametrize("number", [0, True, 2.5])
def test_a_number_that_is_none_is_refused(number):
    with raises(RunError, f"debias={number}", "64"):
        ta.why("runs/none", debias=number)


@pytest.mark.usefixtures("installed")
def test_a_model_of_probabilities_that_reads_pairs_has_priors_of_their_logits(made_set, tmp_path):
    folder = made_set(n=12, clusters=4)  # fewer clusters than folds
    run = ta.evaluate("probable", f"folder:{folder}", out=tmp_path / "run", cache=False)
    rows = ta.why(run, debias=50, cache=False).record.debiased
    assert [row.prior for row in rows] == ["pictures", "captions", "both"]
    for row in rows:
        assert row.group_score - row.gain.value == pytest.approx(run.value("group_score"))
        assert row.unrelated == 18  # nine items of other clusters, two pictures each
