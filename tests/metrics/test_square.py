"""Squares of images and texts, and several true texts: every value against all orders of the tied scores."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.metrics.ties import tied_comparisons


def rows_right(item: NDArray[np.float32], order: tuple[tuple[int, ...], ...]) -> list[bool]:
    """Whether each image's own text is above all others, ties of its row broken by an order of its texts."""
    ranked = [[(score, rank[k]) for k, score in enumerate(row)] for row, rank in zip(item.tolist(), order, strict=True)]
    return [max(row) == row[k] for k, row in enumerate(ranked)]


BY_NAME = {
    "individual_score": lambda right: sum(right) / len(right),
    "pair_score": lambda right: (all(right[:2]) + all(right[2:])) / 2,
    "set_score": all,
}


@pytest.mark.parametrize(("name", "size"), [("individual_score", 3), ("set_score", 3)])
def test_squares_are_the_mean_over_all_orders_of_tied_scores(name, size):
    metric, value = METRICS[name], BY_NAME[name]
    items = np.random.default_rng(0).integers(0, 3, (12, size, size)).astype(np.float32)
    orders = list(product(permutations(range(size)), repeat=size))
    for item, strict, neutral in zip(items, metric.per_item(items), metric.tie_neutral(items), strict=True):
        outcomes = [float(value(rows_right(item, order))) for order in orders]
        assert neutral == pytest.approx(np.mean(outcomes), abs=1e-12)
        top = [row[k] > max(np.delete(row, k)) for k, row in enumerate(item)]
        assert strict == float(value(top))


def test_pairs_are_of_the_first_two_images_and_of_the_last_two():
    right = np.eye(4, dtype=np.float32)
    wrong_0, wrong_3 = right.copy(), right.copy()
    wrong_0[0, 1] = wrong_3[3, 0] = 1  # a tie is never right
    scores = np.stack([right, wrong_0, wrong_3, 1 - right])
    assert METRICS["pair_score"].per_item(scores).tolist() == [1, 0.5, 0.5, 0]
    assert METRICS["pair_score"].tie_neutral(scores).tolist() == [1, 0.75, 0.75, 0]
    assert METRICS["individual_score"].per_item(scores).tolist() == [1, 0.75, 0.75, 0]
    assert METRICS["set_score"].per_item(scores).tolist() == [1, 0, 0, 0]
    assert [METRICS[name].binary for name in ("individual_score", "pair_score", "set_score")] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "chance"), [("individual_score", 1 / 4), ("pair_score", 1 / 16), ("set_score", 1 / 256)]
)
def test_a_constant_model_is_at_chance_on_squares(name, chance):
    metric, constant = METRICS[name], np.ones((2, 4, 4))
    assert metric.chance((4, 4)) == chance
    assert metric.per_item(constant).tolist() == [0, 0]
    assert metric.tie_neutral(constant).tolist() == [chance, chance]


def broken(item: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    orders = [np.array(order) for order in permutations(range(item.size))]
    return [np.lexsort((order, item.ravel())).argsort().astype(np.float32).reshape(item.shape) for order in orders]


@pytest.mark.parametrize("texts", [3, 4])
def test_every_true_text_must_beat_the_false_one(texts):
    metric: Metric = METRICS["itt"]
    itt = metric.per_item
    every = np.array(list(product((0, 1, 2), repeat=texts)), np.float32).reshape(-1, 1, texts)
    assert itt(every).tolist() == [float(item[0, :-1].min() > item[0, -1]) for item in every]
    for item, neutral in zip(every, metric.tie_neutral(every), strict=True):
        assert neutral == pytest.approx(itt(np.stack(broken(item))).mean(), abs=1e-12)
    orders = np.array(list(permutations(range(texts))), np.float32).reshape(-1, 1, texts)
    assert itt(orders).mean() == pytest.approx(metric.chance((1, texts), texts - 1), abs=1e-15)


def test_one_number_of_true_texts_has_its_own_metrics():
    assert [one.name for one in defined_for((1, 3), true=2)] == ["itt"]
    assert "itt" not in {one.name for one in defined_for((1, 3))} | {one.name for one in defined_for((1, 2))}
    assert defined_for((1, 4), true=2) == ()


def test_true_texts_are_not_compared_with_each_other():
    scores = [[[1, 1, 0]], [[1, 0, 0]], [[1, 1, 1]]]
    assert tied_comparisons(scores, true=2).tolist() == [0, 1, 2]
    assert tied_comparisons(scores).tolist() == [1, 0, 2]
    assert tied_comparisons([[[1, 2, 2, 1]]], true=2).tolist() == [2]  # each with each of the false ones
