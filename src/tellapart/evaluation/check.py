"""Sanity gates: models whose results are known beforehand must get them, on every shape; and laws for any model.

Several tools put the true caption first and take the index of the maximum: a constant model then scores 100 %. Here
it must score 0 under the strict rule and exactly chance when ties are broken at random.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind, Scores
from tellapart.errors import ModelError, ScoreError
from tellapart.evaluation.evaluate import measure
from tellapart.models.protocols import Model, Pixels
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Value

ITEMS = 200
IMAGES = 8
SHAPES = ((2, 2), (1, 2), (1, 5), (2, 1), (5, 1), (4, 4))


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that must hold: a metric or law (`what`) of a model (`subject`) on items of a shape, or on pairs.

    `must` is its expected value and `got` its value, in words.
    """

    subject: str
    on: str
    what: str
    must: str
    got: str
    passed: bool


def check_references(progress: Progress | None = None) -> list[Gate]:
    """Run every reference model on every shape, and return whether each got its expected value."""
    gates: list[Gate] = []
    with tempfile.TemporaryDirectory() as scratch:
        _draw_images(Path(scratch))
        for done, shape in enumerate(SHAPES, 1):
            gates += _gates_on(_make_pairs(Path(scratch), shape), f"{shape[0]}x{shape[1]}")
            if progress:
                progress("shapes", done, len(SHAPES))
        gates += _gates_on(_make_pairs(Path(scratch), (1, 3), true=2), "1x3, two true")
        same_words = _make_pairs(Path(scratch), (2, 2), same_words=True)
        gates += _expect_chance(BagOfWords(), same_words, "2x2, same words")
        gates += _expect_refusal(same_words)
    return gates


def check_model(model: Model, pairs: PairSet, progress: Progress | None = None) -> list[Gate]:
    """Test the laws that any model must obey: nothing but the image and the text may move a score, and both do."""
    on = f"{len(pairs)} items"
    base = _score_fresh(model, pairs, 32, progress)
    backwards = pairs.select(range(len(pairs))[::-1])
    again = {
        "same scores when run again": _score_fresh(model, pairs, 32, progress),
        "same scores one by one (batch size 1)": _score_fresh(model, pairs, 1, progress),
        "same scores in odd batches (batch size 7)": _score_fresh(model, pairs, 7, progress),
        "same scores in reversed order": _score_fresh(model, backwards, 32, progress)[::-1],
    }
    gates = []
    for what, values in again.items():
        same = np.array_equal(base, values)
        got = "equal" if same else f"differ by up to {float(np.abs(base - values).max()):.3g}"
        gates.append(Gate(model.name, on, what, "equal to the last bit", got, same))
    for axis, side in ((1, "images"), (2, "texts")):
        moved = int((np.ptp(base, axis=axis) > 0).any(axis=1).sum())
        value = f"in {moved} of {len(base)} items"
        gates.append(Gate(model.name, on, f"reads the {side}", f"scores differ between {side}", value, moved > 0))
    return gates


def _score_fresh(
    model: Model, pairs: PairSet, batch_size: int, progress: Progress | None = None
) -> NDArray[np.float32]:
    # A separate store for every call: the scores of one pass must not serve the next.
    with EmbeddingStore(None) as store:
        return score(model, pairs, store=store, batch_size=batch_size, progress=progress).scores.values


def _gates_on(pairs: PairSet, name: str) -> Iterator[Gate]:
    yield from _expect_chance(Constant(), pairs, name)
    yield from _expect(Oracle(), pairs, name, lambda _: "100 %", lambda value: value.value == 1)
    yield from _expect(
        *(Random(seed=0), pairs, name),
        lambda value: f"{_format_percent(value.chance)}, within chance",
        _consistent_with_chance,
    )
    if pairs.shape[1] == 1:
        yield from _expect_chance(Blind(), pairs, name)
    elif pairs.shape == (2, 2):
        of = {"text_score", "image_score", "group_score"}
        yield from _expect(Blind(), pairs, name, lambda _: "0 %", lambda value: value.value == 0, of)
    if pairs.shape[1] > 1:
        yield from _expect(BagOfWords(), pairs, name, lambda _: "100 % (other words)", lambda value: value.value == 1)


def _expect_chance(model: Model, pairs: PairSet, name: str) -> Iterator[Gate]:
    """Expect a model that ties everywhere to get nothing strictly, and exactly chance in expectation."""

    def passes(value: Value) -> bool:
        # A mean of equal numbers: the division may cost the last bit.
        neutral, chance = value.tie_neutral, value.chance
        alike = neutral is not None and chance is not None and math.isclose(neutral, chance, rel_tol=1e-15)
        return value.value == 0 and alike and value.ties == value.n

    return _expect(model, pairs, name, lambda value: f"0 %, tie-neutral {_format_percent(value.chance)}", passes)


def _expect(
    model: Model, pairs: PairSet, name: str,
    must: Callable[[Value], str], passes: Callable[[Value], bool], metrics: Collection[str] | None = None,
) -> Iterator[Gate]:  # fmt: skip
    """Measure a model, and judge each metric that has a chance, or those that are named alone."""
    # For other models 0.5 would not be a threshold.
    kind = model.kind if isinstance(model, (Constant, Random, Oracle)) else "similarity"
    scores = Scores([item.id for item in pairs.items], _score_fresh(model, pairs, 32), kind)
    for metric, value in measure(scores, pairs.outline).metrics.items():
        if value.chance is not None and (metrics is None or metric in metrics):
            neutral = f", tie-neutral {_format_percent(value.tie_neutral)}" if value.ties else ""
            got = _format_percent(value.value) + neutral
            yield Gate(model.name, name, metric, must(value), got, passes(value))


def _expect_refusal(pairs: PairSet) -> Iterator[Gate]:
    """Expect a score that is not a number to be refused, from a model and from a file."""
    ids = [item.id for item in pairs.items]
    attempts: dict[str, Any] = {
        "a model that returns NaN": lambda: _score_fresh(_NotANumber(), pairs, 32),
        "scores with NaN": lambda: Scores(ids, np.full((len(ids), *pairs.shape), np.nan), "similarity"),
    }
    for what, attempt in attempts.items():
        got = "refused"
        with suppress(ModelError, ScoreError):
            attempt()
            got = "accepted"
        yield Gate("not-a-number", "2x2", what, "refused", got, got == "refused")


class _NotANumber:
    name = "not-a-number"
    fingerprint = "tellapart:not-a-number"
    kind: ScoreKind = "similarity"

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full(min(len(images), len(texts)), np.nan, np.float32)


def _consistent_with_chance(value: Value) -> bool:
    """Test a share against chance at 1 in 10,000, so that a correct tool never fails by bad luck of the fixed draw."""
    from scipy.stats import norm

    assert value.chance is not None  # noqa: S101  (chosen by _expect)
    error = np.sqrt(value.chance * (1 - value.chance) / value.n)
    return bool(abs(value.value - value.chance) <= norm.ppf(1 - 0.5e-4) * error)


def _format_percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %".replace(".00 %", " %")


def _draw_images(folder: Path) -> None:
    """Write images of noise, which all items share: their captions differ, so that no two items share a pair."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(folder / f"{number}.png")


def _make_pairs(folder: Path, shape: tuple[int, int], *, true: int = 1, same_words: bool = False) -> PairSet:
    """Make items whose captions differ in length or hold the same words; true ones are not always short or first."""
    rng = np.random.default_rng(0)
    words = ("a", "red", "striped", "wooden", "shiny")
    items = []
    for number in range(ITEMS):
        images = tuple(f"{(number + k) % IMAGES}.png" for k in range(shape[0]))
        order = rng.permutation(shape[1])
        texts = tuple(f"clock {number} " + " ".join(words[: k + 1]) for k in order)
        if same_words:
            texts = (f"the cat number {number} is on the mat", f"the mat is on the cat number {number}")
        places = tuple(rng.permutation(shape[1])[:true].tolist()) if true > 1 else ()
        items.append(Item(id=str(number), images=images, texts=texts, true=places))
    return PairSet("noise", tuple(items), folder)
