"""The gates hold, and each of them falls when what it guards is broken."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tellapart import METRICS, PairSet, find_model, read_pair_set
from tellapart.evaluation.check import Gate, check_model, check_references
from tellapart.models.reference import Blind, Constant, Oracle, Random


@pytest.fixture(scope="module")
def checked() -> tuple[list[Gate], list[tuple[str, int, int]]]:
    told: list[tuple[str, int, int]] = []
    return check_references(lambda *what: told.append(what)), told


@pytest.fixture
def gates(checked) -> list[Gate]:
    return checked[0]


def fallen(gates: list[Gate]) -> set[tuple[str, str]]:
    return {(gate.subject, gate.what) for gate in gates if not gate.passed}


def test_every_gate_holds_on_every_shape_where_its_model_is_bounded_and_progress_is_told(gates, checked):
    assert fallen(gates) == set()
    assert checked[1] == [("shapes", k, 6) for k in range(1, 7)]
    shapes = {"2x2", "1x2", "1x5", "2x1", "5x1", "4x4", "1x3, two true"}
    on = {subject: {gate.on for gate in gates if gate.subject == subject} for subject in {g.subject for g in gates}}
    assert on["constant"] == on["oracle"] == on["random"] == shapes
    assert on["blind"] == {"2x2", "2x1", "5x1"}  # beside one image the captions' lengths may give the answer away
    assert on["bag-of-words"] == {"2x2", "1x2", "1x5", "4x4", "1x3, two true", "2x2, same words"}
    assert on["not-a-number"] == {"2x2"}


def test_progress_of_a_models_scorings_is_told(made_set):
    told: list[tuple[str, int, int]] = []
    check_model(Blind(), read_pair_set(made_set(n=8)), lambda *what: told.append(what))
    assert told.count(("texts", 16, 16)) == 5


@pytest.fixture
def changed(monkeypatch) -> Iterator[Callable[..., None]]:
    """Put another declaration in a metric's place."""

    def change(name: str, **changes: object) -> None:
        others = {**METRICS, name: dataclasses.replace(METRICS[name], **changes)}
        monkeypatch.setattr("tellapart.metrics.registry.METRICS", others)

    yield change


def lenient(scores: object) -> np.ndarray:
    s = np.asarray(scores, np.float32)
    return ((s[:, 0, 0] >= s[:, 0, 1]) & (s[:, 1, 1] >= s[:, 1, 0])).astype(np.float64)


def first_maximum(scores: object) -> np.ndarray:
    """What several tools do: the true caption stands first, and argmax takes the first of equals."""
    s = np.asarray(scores, np.float32)
    return (s.reshape(len(s), -1).argmax(axis=1) == 0).astype(np.float64)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("metric", "changes", "guard"),
    [
        ("text_score", {"strict": lenient}, {"constant", "bag-of-words"}),
        ("choice_score", {"strict": first_maximum}, {"constant", "blind"}),
        ("group_score", {"chance_level": 1 / 3}, {"constant", "random", "bag-of-words"}),
        ("text_score", {"neutral": lenient}, {"constant", "bag-of-words"}),
    ],
)
def test_a_broken_metric_is_caught(changed, metric, changes, guard):
    changed(metric, **changes)
    caught = fallen(check_references())
    assert {subject for subject, what in caught} >= guard
    assert {what for _, what in caught} == {metric}


@pytest.mark.slow
def test_broken_models_and_nan_that_passes_for_a_score_are_caught(monkeypatch):
    def unfair(_self: Random, _images: object, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text) / 1000 for text in texts], np.float32)

    monkeypatch.setattr(Oracle, "score_item", lambda _self, item: np.eye(*item.shape, dtype=np.float32)[::-1].copy())
    monkeypatch.setattr("tellapart.data.scores._check_scores", lambda *_: None)
    monkeypatch.setattr(Random, "score_pairs", unfair)
    found = fallen(check_references())
    assert found >= {("oracle", "text_score"), ("not-a-number", "scores with NaN")}
    assert any(subject == "random" for subject, _ in found)


@pytest.fixture
def pairs(made_set) -> PairSet:
    return read_pair_set(made_set(n=9))


def test_an_honest_encoder_passes_and_one_whose_batch_or_repetition_moves_its_scores_is_caught(pairs, installed):
    gates = check_model(find_model("colours"), pairs)
    assert fallen(gates) == set()
    assert [gate.what for gate in gates] == [
        "same scores when run again",
        "same scores one by one (batch size 1)",
        "same scores in odd batches (batch size 7)",
        "same scores in reversed order",
        "reads the images",
        "reads the texts",
    ]
    gates = check_model(find_model("of-its-batch"), pairs)
    moved = ("one by one (batch size 1)", "in odd batches (batch size 7)", "in reversed order")
    assert fallen(gates) == {("of-its-batch", f"same scores {how}") for how in moved}
    assert any(gate.got.startswith("differ by up to ") for gate in gates)

    class Moody(Constant):
        name, fingerprint, calls = "moody", "moody", 0

        def score_texts(self, texts: list[str]) -> np.ndarray:
            self.calls += 1
            return np.full(len(texts), self.calls / 100, np.float32)

    assert ("moody", "same scores when run again") in fallen(check_model(Moody(), pairs))


def test_an_onnx_encoder_passes_and_a_model_that_reads_one_side_only_is_caught(pairs, tiny_encoder):
    gates = check_model(find_model(f"onnx:{tiny_encoder.folder}"), pairs)
    assert (len(gates), fallen(gates)) == (6, set())
    assert fallen(check_model(Blind(), pairs)) == {("blind", "reads the images")}
    assert fallen(check_model(Constant(), pairs)) == {("constant", "reads the images"), ("constant", "reads the texts")}
