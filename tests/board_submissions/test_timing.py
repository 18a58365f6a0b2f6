"""What an attacker could time: a file takes the same steps whatever the labels are, and answers come at fixed times."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from steps import steps_of
from tellapart.board.submissions.prepared import HiddenRows, answer_seconds, measure_sent
from tellapart.data.item import Item
from tellapart.data.scores import Scores
from tellapart.models.generative.answers import BothOrders


def hidden_pairs(items: int) -> HiddenRows:
    """Return 2x2 items with drawn labels, half of them private."""
    drawn = np.random.default_rng(items).integers(0, 2, items).tolist()
    made = tuple(
        Item(id=f"p{k}", images=(f"{k}0.png", f"{k}1.png"), texts=(f"{k} top", f"{k} bottom")) for k in range(items)
    )
    orders = tuple((1, 0) if swapped else (0, 1) for swapped in drawn)
    return HiddenRows(made, tuple(k % 2 == 0 for k in range(items)), {}, texts=orders, images=((0, 1),) * items)


def crafted(items: int, target: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return scores of which one item decides whether anything differs between its columns; its number is 0."""
    scores = np.broadcast_to([[0, 0], [1, 1]], (items, 2, 2)).astype(np.float32)
    others = rng.permutation(items)
    scores[others[others != target][: items // 60]] = 0
    scores[target] = [[0, 3], [0, 3]]
    return scores


@pytest.mark.parametrize("items", [300, pytest.param(4000, marks=pytest.mark.slow)])
def test_files_made_to_time_one_label_take_the_same_steps(items):
    hidden, rng = hidden_pairs(items), np.random.default_rng(77)
    ids = tuple(item.id for item in hidden.records)
    steps, numbers = [], set()
    for target in rng.choice(items, 24, replace=False).tolist():
        sent = Scores(ids, crafted(items, target, rng), "similarity")

        def measure(sent: Scores = sent) -> None:
            public, private = measure_sent(sent, hidden, ("text_score", "group_score"), 0.01)
            numbers.update([*public.values.items(), *private.values.items()])

        measure()  # imports, and what libraries keep
        steps.append(steps_of(measure))
    assert numbers == {("text_score", 0.0), ("group_score", 0.0)}
    assert sum(steps[0].values()) > 100
    assert all(one == steps[0] for one in steps)


def test_answers_in_words_take_the_same_steps_whatever_the_labels_are():
    rng, sent = np.random.default_rng(5), ["1;2", "2;1", "neither of them", "Caption 2 is left, caption 1 is right."]
    first, second = (tuple(rng.choice(sent, 40).tolist()) for _ in range(2))
    hidden, steps = hidden_pairs(40), []
    for _ in range(4):
        orders = tuple((1, 0) if swapped else (0, 1) for swapped in rng.integers(0, 2, 40).tolist())
        other, answers = replace(hidden, texts=orders), BothOrders(first, second)

        def measure(other: HiddenRows = other, answers: BothOrders = answers) -> None:
            measure_sent(answers, other, ("group_score_both_orders",), 0.01)

        measure()
        steps.append(steps_of(measure))
    assert sum(steps[0].values()) > 1000
    assert all(one == steps[0] for one in steps)


def test_an_answer_comes_after_a_time_that_only_the_number_of_items_decides():
    assert [answer_seconds(items) for items in (2, 1000, 1001, 4000, 8000)] == [0.25, 0.25, 0.5, 1.0, 2.0]
