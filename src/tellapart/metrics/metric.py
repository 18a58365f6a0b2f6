"""The declaration of a metric, and the one check of scores before they are measured.

A metric of scores is a pure function that gives one value per item, with the facts that a reader needs to judge its
number: its source, the shapes and kinds of scores it is defined for, chance, its bounds. A metric of another task
(labels, answers, boxes) declares the same facts; its task computes the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import ScoreKind, as_float32, as_numbers, expect_finite
from tellapart.errors import MetricError, ScoreError
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ties import tie_neutral_by_enumeration
from tellapart.stats.combined import SmallestMean

Shape = tuple[int, int]
"""Images and texts of one item."""

PerItemFunction = Callable[[ArrayLike], NDArray[np.float64]]
"""A pure function: scores (item, image, text) -> float64 (item,) or (item, component)."""

ANY_KIND: frozenset[ScoreKind] = frozenset(get_args(ScoreKind))
PROBABILITY: frozenset[ScoreKind] = frozenset({"probability"})
_PLURAL = {"similarity": "similarities", "logit": "logits", "probability": "probabilities"}


def fits(pattern: str, shape: Shape) -> bool:
    """Return whether items of `shape` (images, texts) match a pattern such as `2x2` or `1xm`; a letter is two or more.

    One letter twice is a square of three or more: a 2x2 item has separate metrics.

    >>> fits("1xm", (1, 5)), fits("1xm", (1, 1)), fits("2x2", (2, 3)), fits("nxn", (4, 4)), fits("nxn", (2, 2))
    (True, False, False, True, False)
    """
    sides = pattern.split("x")
    if sides[0] == sides[1] and not sides[0].isdigit():
        return shape[0] == shape[1] > 2
    return all(size == int(side) if side.isdigit() else size >= 2 for side, size in zip(sides, shape, strict=True))


def read_scores(
    scores: ArrayLike, name: str, shapes: Sequence[str], ids: Sequence[str] | None = None
) -> NDArray[np.float32]:
    """Return `scores` as float32 (item, image, text), checked for the metric `name`.

    Wider numbers are rounded to float32 first: two scores that differ only beyond float32 are tied. `shapes` are the
    patterns (see `fits`) that the metric is defined for; `ids` are for messages.
    """
    values = as_float32(as_numbers(scores, f"{name}: scores", "(item, image, text)", shape_error=MetricError))
    if not any(fits(pattern, values.shape[1:]) for pattern in shapes):
        raise MetricError(
            f"{name} needs scores (item, image, text) of {' or '.join(shapes)} items; got shape "
            f"{values.shape}; tellapart.metrics.registry.defined_for((images, texts)) lists those that fit"
        )
    if len(values) == 0:
        raise ScoreError(f"{name}: no items to measure; give the scores of at least one")
    if ids is not None and len(ids) != len(values):
        raise ScoreError(f"{name}: {len(ids)} ids for {len(values)} items of scores; give one id for each item")
    expect_finite(values, f"{name}: scores", names=ids)
    return values


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that is measured, with the facts to read it.

    >>> from tellapart.metrics.registry import METRICS
    >>> scores = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]]
    >>> METRICS["text_score"].per_item(scores), METRICS["text_score"].tie_neutral(scores)
    (array([1., 0.]), array([1. , 0.5]))
    """

    #: The key in result files; of a metric of scores also the name of its function.
    name: str
    #: One line for people.
    title: str
    #: The paper's section, or the file, that defines it.
    source: str
    #: Patterns (images x texts) of its items, for `fits`; empty for a metric of another task, which has no functions.
    shapes: tuple[str, ...] = ()
    _: KW_ONLY
    #: The per-item function; a tie is never right.
    strict: PerItemFunction | None = None
    #: The value of a model without information, or its function of the shape; None if none exists or benchmarks differ.
    chance_level: float | Callable[[Shape], float] | None = None
    #: The closed form of the tie-neutral value; None: by enumeration of the tied orders.
    neutral: PerItemFunction | None = None
    kinds: frozenset[ScoreKind] = ANY_KIND
    bounds: tuple[float, float] = (0.0, 1.0)
    #: Every per-item value is 0 or 1, so an interval for a proportion may be used.
    binary: bool = True
    #: Names of the columns of a per-item value (item, component); empty for one number per item.
    components: tuple[str, ...] = ()
    #: The metric of which this is another name: equal on every item for which both are defined.
    same_as: str = ""
    #: It needs items whose texts are all true except the last.
    one_false: bool = False
    #: The value of an item depends on the others, so a part of the items is measured again.
    together: bool = False
    #: It compares sums of scores, so more than their order counts.
    additive: bool = False
    #: It takes probabilities as their logits.
    logits: bool = False

    @property
    def finite_bounds(self) -> tuple[float, float] | None:
        """The least and greatest per-item value; None where there are none."""
        return self.bounds if np.isfinite(self.bounds).all() else None

    @property
    def is_deviation(self) -> bool:
        """Whether it measures a deviation, best at 0: it has no chance level and no bounds."""
        return self.chance_level is None and self.finite_bounds is None

    def true_texts(self, texts: int) -> int:
        """Return how many of an item's texts must be true for this metric."""
        return texts - 1 if self.one_false else 1

    def defined_for(self, shape: Shape, true: int = 1) -> bool:
        """Return whether the metric exists for items of `shape` (images, texts) that have `true` true texts."""
        fits_truths = true == self.true_texts(shape[1]) and (true > 1 or not self.one_false)
        return fits_truths and any(fits(pattern, shape) for pattern in self.shapes)

    def chance(self, shape: Shape | None = None, true: int = 1) -> float | None:
        """Return the value of a model without information on items of `shape`; None if there is none.

        It is the strict value expected of exchangeable, distinct scores, and exactly the tie-neutral value of
        a constant model (constant at 1/2 if the metric compares a probability with 1/2).

        >>> from tellapart.metrics.registry import METRICS
        >>> METRICS["choice_score"].chance((1, 5))
        0.2
        """
        if self.shapes and (shape is None or not self.defined_for(shape, true)):
            items = "items of no shape" if shape is None else f"{shape[0]}x{shape[1]} items"
            items += f" with {true} true texts" if true > 1 else ""
            raise MetricError(
                f"{self.name} has no chance level for {items}: it is defined for {' or '.join(self.shapes)}"
            )
        if callable(self.chance_level):
            assert shape is not None  # noqa: S101  (a function of the shape is declared with shapes alone)
            return self.chance_level(shape)
        return self.chance_level

    def check(self, scores: ArrayLike, kind: ScoreKind, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Return the scores as the metric takes them, float32 (item, image, text); refuse those it is not defined for.

        Raises:
            MetricError: wrong shape, or a kind of score that the metric cannot use.
            ScoreError: no item, a NaN or an infinite value (up to ten items are named), not numbers.
        """
        if kind not in ANY_KIND:
            raise MetricError(f"score kind {kind!r} is unknown; use one of {', '.join(get_args(ScoreKind))}")
        if kind not in self.kinds:
            needed = " or ".join(sorted(_PLURAL[accepted] for accepted in self.kinds))
            raise MetricError(
                f"{self.name} needs {needed}; these scores are {_PLURAL[kind]}: calibrate them or use pairwise"
            )
        return self.scaled(read_scores(scores, self.name, self.shapes, ids), kind)

    def scaled(self, scores: NDArray[np.float32], kind: ScoreKind) -> NDArray[np.float32]:
        """Return the scores as the metric takes them: probabilities as their logits if it takes those.

        The logit of 0 or 1 is infinite: the nearest float32 between them is taken instead.
        """
        if not self.logits or kind != "probability":
            return scores
        from scipy.special import logit

        inside = np.clip(scores, np.finfo(np.float32).smallest_subnormal, np.nextafter(np.float32(1), np.float32(0)))
        return np.asarray(logit(inside.astype(np.float64)), dtype=np.float32)

    def per_item(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the strict value of every item: float64 (item,) or (item, component). A tie is never right."""
        return self._strict_function(scores)

    def tie_neutral(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return each item's value expected when its ties are broken uniformly at random, exactly.

        It equals `per_item` if no tie matters, and is never below it for a right-or-wrong metric.
        """
        if self.neutral is not None:
            return self.neutral(scores)
        return tie_neutral_by_enumeration(self._strict_function, read_scores(scores, self.name, self.shapes))

    def measure(self, scores: ArrayLike, true: int = 1) -> PerItem:
        """Return the values of items (item, image, text) that have `true` true texts, with the metric's facts."""
        strict, (_, images, texts) = self.per_item(scores), np.shape(scores)
        chance = self.chance((images, texts), true)
        return PerItem(
            name=self.name,
            strict=strict,
            neutral=None if chance is None else self.tie_neutral(scores),
            chance=chance,
            binary=self.binary,
            reduce=SmallestMean() if self.components else None,
            bounds=self.finite_bounds,
            deviation=self.is_deviation,
        )

    @property
    def _strict_function(self) -> PerItemFunction:
        if self.strict is None:
            raise MetricError(f"{self.name} is not a metric of scores; its task measures it")
        return self.strict
