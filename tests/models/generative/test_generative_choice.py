"""Which caption belongs to which image, asked in both orders: what a model knows, and what the order alone gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError
from tellapart.models.generative.choice import BothOrders, Chooser, ask_both_orders, pad_to_square, side_by_side

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 255, 0)}


@dataclass
class Person:
    """Sees colours; answers by its habit."""

    answers: str = "knowing"
    name: str = "person"
    fingerprint: str = "1"
    kind: str = "probability"
    batches: list[int] = field(default_factory=list)

    def choose(self, images: Sequence[tuple[Any, Any]], captions: Sequence[tuple[str, str]]) -> list[str]:
        self.batches.append(len(images))
        if self.answers == "few":
            return ["1;2"]
        answers = []
        for (left, right), (first, second) in zip(images, captions, strict=True):
            assert (left[0, 0] == COLOURS[first]).all() != (left[0, 0] == COLOURS[second]).all()
            assert (right[0, 0] == COLOURS[first]).all() != (right[0, 0] == COLOURS[second]).all()
            right_one = "1;2" if (left[0, 0] == COLOURS[first]).all() else "2;1"
            answers.append({"knowing": right_one, "listing": "1;2"}.get(self.answers, "I cannot say."))
        return answers


@pytest.fixture
def pairs(tmp_path: Path) -> PairSet:
    for name, colour in COLOURS.items():
        Image.new("RGB", (4, 3), colour).save(tmp_path / f"{name}.png")
    names = [("red", "blue"), ("blue", "green"), ("green", "red")]
    items = [Item(id=f"{a}-{b}", images=(f"{a}.png", f"{b}.png"), texts=(a, b)) for a, b in names]
    return PairSet("colours", tuple(items), tmp_path)


@pytest.mark.parametrize(
    ("habit", "expected"),
    [("knowing", (1, 1, 1, 0, 0.5, 0)), ("listing", (1, 0, 0, 1, 1, 0)), ("silent", (0, 0, 0, 0, 0.5, 1))],
)
def test_who_repeats_the_list_looks_perfect_in_one_order_alone(
    pairs: PairSet, habit: str, expected: tuple[float, ...]
) -> None:
    names = ("group_score_in_order", "group_score_swapped", "group_score_both_orders")
    names += ("order_bias", "followed_list", "unparseable")
    values = ask_both_orders(Person(habit), pairs).measure()
    assert {name: float(value.mean()) for name, value in values.items()} == dict(zip(names, expected, strict=True))


def test_answers_stay_with_their_items_for_any_batch_size(pairs: PairSet) -> None:
    reports: list[tuple[str, int, int]] = []
    person = Person()
    both = ask_both_orders(person, pairs, batch_size=2, progress=lambda *report: reports.append(report))
    assert both.ids == ("red-blue", "blue-green", "green-red")
    assert person.batches == [2, 2, 1, 1]
    assert reports == [("items", 2, 3), ("items", 3, 3)]
    whole = ask_both_orders(Person(), pairs)
    assert (both.in_order, both.swapped) == (whole.in_order, whole.swapped)
    assert isinstance(person, Chooser)


def test_other_shapes_and_missing_answers_are_refused(pairs: PairSet, tmp_path: Path) -> None:
    with raises(ModelError, "model", "'person'", "1", "3"):
        ask_both_orders(Person("few"), pairs)
    one = PairSet("one", (Item(id="a", images=("red.png",), texts=("red", "blue")),), tmp_path)
    with raises(DataError, "1", "2", "2x2"):
        ask_both_orders(Person(), one)


@given(st.lists(st.tuples(*[st.sampled_from(["1;2", "2;1", "?"])] * 2), min_size=1, max_size=8))
def test_right_in_both_orders_is_never_more_than_right_in_one(answers: Any) -> None:
    ids = tuple(map(str, range(len(answers))))
    both = BothOrders(ids, tuple(first for first, _ in answers), tuple(second for _, second in answers))
    values = both.measure()
    assert all(len(own) == len(answers) for own in values.values())
    right = values["group_score_both_orders"]
    assert (right <= np.minimum(values["group_score_in_order"], values["group_score_swapped"])).all()
    assert (right + values["unparseable"] <= 1).all()


def test_images_stand_side_by_side_without_a_gap_and_at_one_height() -> None:
    left, right = np.full((10, 20, 3), 200, np.uint8), np.full((30, 15, 3), 50, np.uint8)
    whole = side_by_side(left, right)
    assert whole.shape == (30, 60 + 15, 3)  # the lower one is enlarged in proportion
    assert (whole[:, :60] == 200).all()
    np.testing.assert_array_equal(whole[:, 60:], right)
    same = side_by_side(right, right)
    np.testing.assert_array_equal(same, np.concatenate([right, right], axis=1))


def test_a_square_keeps_every_pixel_in_its_middle() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (10, 25, 3), dtype=np.uint8)
    whole = pad_to_square(picture)
    assert whole.shape == (25, 25, 3)
    np.testing.assert_array_equal(whole[7:17], picture)
    assert (whole[:7] == 127).all()
    assert (whole[17:] == 127).all()
    np.testing.assert_array_equal(pad_to_square(picture[:, :10]), picture[:, :10])
