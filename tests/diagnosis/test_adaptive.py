"""Thresholds by items chosen one by one: from a table through a model to numbers, the record and refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.special import expit

import tellapart as ta
from facts import raises
from tellapart.errors import RunError

THRESHOLD, LARGEST, ALIKE = 6.0, 12, 12


class Seer:
    """It sees a difference the better the larger it is, and counts the captions that it reads."""

    def __init__(self) -> None:
        self.fingerprint, self.read = "seer", 0

    def __call__(self, image, text: str) -> float:
        self.read += 1
        if text.startswith("foil"):
            return 0.5
        _, item, size = text.split()
        return float(np.random.default_rng(int(item)).random() < 0.5 + 0.5 * expit(4 * (float(size) - THRESHOLD)))


@pytest.fixture
def table(tmp_path) -> Callable[..., str]:
    """Write pairs that differ by 1 to 12, twelve of each size; a further column comes from a function of the row."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def write(column: str = "tag:number", value: Callable[[int], object] = str, alike: int = ALIKE) -> str:
        lines = [f"id,image,caption,foil,tag:size,{column}"]
        for k in range(LARGEST * alike):
            size = 1 + k // alike
            lines.append(f"p{k},a.png,caption {k} {size},foil {k},{size},{value(k)}")
        (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
        return f"table:{tmp_path / 'pairs.csv'}"

    return write


def test_a_threshold_comes_from_few_items_near_it(table):
    found = ta.curve(model=Seer(), benchmark=table(), over="size", adaptive=60, cache=False).record
    (row,) = found.curves
    assert row.low is not None and row.high is not None and row.threshold is not None
    assert row.low < THRESHOLD < row.high and row.high - row.low < 3
    assert (row.n, len(set(found.drawn)), found.seed, found.limited_from) == (60, 60, 0, LARGEST * ALIKE)
    sizes = np.array([1 + int(name[1:]) // ALIKE for name in found.drawn])
    assert (abs(sizes - THRESHOLD) <= 2).mean() > 0.6
    assert (found.smallest, found.largest) == (1, LARGEST)


def test_a_second_call_reads_the_scores_that_the_store_keeps(table, tmp_path):
    pairs, first, second, other = table(), Seer(), Seer(), Seer()
    call: dict[str, Any] = {"benchmark": pairs, "over": "size", "cache": tmp_path / "store"}
    short = ta.curve(model=first, adaptive=25, **call).record
    long = ta.curve(model=second, adaptive=40, **call).record
    assert long.drawn[:25] == short.drawn
    assert (first.read, second.read) == (50, 30)
    assert ta.curve(model=other, adaptive=25, seed=1, **call).record.drawn != short.drawn


def test_two_items_of_a_cluster_are_never_drawn(table):
    pairs = table("cluster", lambda k: f"scene-{k % ALIKE}-{k // ALIKE // 4}")
    found = ta.curve(model=Seer(), benchmark=pairs, over="size", adaptive=100, cache=False).record
    numbers = [int(name[1:]) for name in found.drawn]
    assert len(numbers) == len({(k % ALIKE, k // ALIKE // 4) for k in numbers}) == 3 * ALIKE
    assert any("36" in note and "100" in note for note in found.notes)


@pytest.mark.parametrize(
    ("column", "value", "facts"),
    [
        ("cluster", lambda k: f"scene-{k // 2}", ("size", "cluster", "scene-", "2 items", "items=")),
        ("tag:kind", lambda k: ("colour", "shape")[k % 2], ("size", "kind", "colour", "shape", "items=")),
    ],
)
def test_items_that_do_not_stand_for_their_value_are_refused(table, column, value, facts):
    seer = Seer()
    with raises(RunError, "adaptive=", *facts):
        ta.curve(model=seer, benchmark=table(column, value), over="size", adaptive=40, cache=False)
    assert seer.read == 0


def test_values_of_few_items_are_refused(table):
    with raises(RunError, "size", "0 of the 12", "5", "adaptive="):
        ta.curve(model=Seer(), benchmark=table(alike=4), over="size", adaptive=40, cache=False)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"adaptive": 40, "by": "kind"}, ("adaptive=40", "by=")),
        ({"adaptive": 40, "model": None}, ("adaptive=40", "model=")),
        ({"adaptive": 19}, ("adaptive=19", "20")),
        ({"adaptive": 40, "metric": "group_score"}, ("metric=", "group_score", "choice_score")),
        ({}, ("model=", "adaptive=")),
    ],
)
def test_calls_that_do_not_fit_are_refused(table, options, facts):
    with raises(RunError, *facts):
        ta.curve(**{"model": Seer(), "benchmark": table(), "over": "size", **options})


def test_the_command_chooses_the_same_items(table, command):
    pairs = table()
    shown = command("curve", "-m", "random", "-b", pairs, "--over", "size", "--adaptive", "24", "--seed", "3", "--json")
    found = ta.curve(model="random", benchmark=pairs, over="size", adaptive=24, seed=3).record
    assert shown.code == 0 and shown.json["drawn"] == list(found.drawn) and shown.json["seed"] == 3
    printed = command("curve", "-m", "random", "-b", pairs, "--over", "size", "--adaptive", "24")
    assert "posterior" in printed.out and "24 of 144" in printed.out
