"""Metrics that take scores batch by batch: `tellapart.metrics.GroupScore()`, a class for each of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import MetricError, import_torch, quote, require
from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import METRICS
from tellapart.metrics.tabulate import tabulate
from tellapart.records.result import Value

if TYPE_CHECKING:
    import torchmetrics


class StreamingMetric:
    """A metric of minimal pairs that takes scores batch by batch: `update`, then `compute`.

    Args:
        kind: of the scores: similarity, logit or probability.
        seed: of the bootstrap, if the interval is one.

    Raises:
        MetricError: the metric cannot use scores of that kind.

    >>> import tellapart as ta
    >>> metric = ta.metrics.GroupScore()
    >>> metric.update([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]])  # (item, image, text)
    >>> metric.update([[0.7, 0.1], [0.2, 0.6]])  # one item
    >>> value = metric.compute()
    >>> round(value.value, 3), value.n, value.ties, round(value.chance, 3)
    (0.667, 3, 1, 0.167)
    """

    metric: ClassVar[Metric]

    def __init__(self, *, kind: ScoreKind = "similarity", seed: int = 0) -> None:
        self.kind: ScoreKind = kind
        self.seed = seed
        if kind not in self.metric.kinds:
            needed = " or ".join(sorted(self.metric.kinds))
            raise MetricError(f"{self.metric.name} of kind={quote(kind)}: it takes scores that are a {needed}")
        self.reset()

    def reset(self) -> None:
        """Forget every item."""
        self._scores: list[NDArray[np.float32]] = []
        self._clusters: list[str | None] = []

    def update(self, scores: ArrayLike, clusters: Sequence[object] | None = None) -> None:
        """Take the scores of further items.

        Args:
            scores: numbers `(item, image, text)`, or of one item `(image, text)`: lists, arrays or tensors.
            clusters: the unit of resampling of each item (for example its source image), None for an item by itself.

        Raises:
            MetricError: the metric is not defined for that shape, or it is another than that of earlier items.
            ScoreError: not numbers, or not finite.
        """
        if hasattr(scores, "detach"):  # a tensor, on whichever device
            scores = scores.detach().to("cpu").double().numpy()
        batch = np.asarray(scores) if isinstance(scores, np.ndarray) or _is_one_item(scores) else scores
        if isinstance(batch, np.ndarray) and batch.ndim == 2:
            batch = batch[None]
        values = self.metric.check(batch, self.kind)
        self._expect_shape(values)
        given = [None] * len(values) if clusters is None else clusters
        groups = [None if cluster is None else f"{cluster}" for cluster in given]
        if len(groups) != len(values):
            raise MetricError(f"{self.metric.name}: {len(groups)} clusters for {len(values)} items; give one for each")
        self._scores.append(values.copy())  # the caller may fill the same array again
        self._clusters += groups

    def compute(self) -> Value:
        """Return the metric over all items so far: its value (a tie is never right), interval, n, ties and chance."""
        if not self._scores:
            raise MetricError(f"{self.metric.name}: no items to measure; call update(scores) first")
        values = np.concatenate(self._scores)
        per_item = self.metric.measure(values, self.metric.true_texts(values.shape[2]))
        # No user's name begins with a NUL, so that an item without a cluster is in nobody's.
        names = [f"\0{item}" if name is None else name for item, name in enumerate(self._clusters)]
        return tabulate([per_item], names, [{}] * len(values), seed=self.seed).metrics[self.metric.name]

    def merge(self, other: StreamingMetric) -> None:
        """Take the items of another metric of this class and kind: the value is then that of all items.

        Items without a cluster stay separate.
        """
        if type(other) is not type(self) or other.kind != self.kind:
            raise MetricError(f"{self.metric.name}, {self.kind}, cannot take the items of {other!r}")
        for scores in other._scores:
            self._expect_shape(scores)
        self._scores += other._scores
        self._clusters += other._clusters

    def _expect_shape(self, scores: NDArray[np.float32]) -> None:
        if self._scores and self._scores[0].shape[1:] != scores.shape[1:]:
            raise MetricError(
                f"{self.metric.name}: items of {scores.shape[1:]} after items of {self._scores[0].shape[1:]}; use a "
                "metric for each shape"
            )

    def torchmetrics(self) -> torchmetrics.Metric:
        """Return the same as a `torchmetrics.Metric`, whose `compute` is the value as a tensor; `value()` has the rest.

        Its state is the items' scores, gathered over processes as torchmetrics does it.

        Raises:
            MissingDependencyError: torchmetrics is not installed.
        """
        import_torch()
        require("torchmetrics", extra="train")
        return _torch_class(class_name(self.metric.name))(kind=self.kind, seed=self.seed)

    def __len__(self) -> int:
        return len(self._clusters)

    def __repr__(self) -> str:
        return f"{class_name(self.metric.name)}(kind={self.kind!r}): {len(self):,} items"


def class_name(metric: str) -> str:
    """Return the name of a metric's class."""
    return "".join(part[:1].upper() + part[1:] for part in metric.split("_"))


@cache
def metric_class(name: str) -> type[StreamingMetric]:
    """Return the class of that name."""
    by_class = {class_name(metric): metric for metric in METRICS}
    if name not in by_class:
        raise AttributeError(f"tellapart.metrics has no {name!r}; its classes are {', '.join(by_class)}")
    metric = METRICS[by_class[name]]
    text = f"{metric.title[:1].upper()}{metric.title[1:]}, taken batch by batch."
    return type(name, (StreamingMetric,), {"__module__": "tellapart.metrics", "__doc__": text, "metric": metric})


@cache
def _torch_class(name: str) -> type[torchmetrics.Metric]:
    import torch
    import torchmetrics

    kind = metric_class(name)

    class TorchMetric(torchmetrics.Metric):  # type: ignore[misc]
        """The metric with its items as torchmetrics' state: one row an item."""

        full_state_update = False
        is_differentiable = False
        higher_is_better = None if kind.metric.is_deviation else True

        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.inner = kind(**options)
            self.scores: Any
            self.add_state("scores", default=[], dist_reduce_fx="cat")

        def update(self, scores: Any) -> None:
            """Take the scores of further items: `(item, image, text)`."""
            tensor = torch.as_tensor(scores).detach().to(torch.float32, copy=True)
            self.scores.append(tensor[None] if tensor.ndim == 2 else tensor)

        def value(self) -> Value:
            """Return the value with its interval, n, ties and chance."""
            inner: StreamingMetric = kind(kind=self.inner.kind, seed=self.inner.seed)
            gathered = self.scores if isinstance(self.scores, list) else [self.scores]
            for scores in gathered:
                inner.update(scores)
            return inner.compute()

        def compute(self) -> Any:
            """Return the value as a tensor of one number."""
            return torch.tensor(self.value().value)

        def __reduce__(self) -> Any:  # the class has no name from which another process could import it
            return _make_torch, (name, self.inner.kind, self.inner.seed), self.__getstate__()

    TorchMetric.__name__ = TorchMetric.__qualname__ = kind.__name__
    return TorchMetric


def _make_torch(name: str, kind: ScoreKind, seed: int) -> torchmetrics.Metric:
    return _torch_class(name)(kind=kind, seed=seed)


def _is_one_item(scores: object) -> bool:
    """Return whether these are lists of numbers, `[image][text]`: the scores of one item."""
    return (
        isinstance(scores, list | tuple)
        and bool(scores)
        and all(isinstance(row, list | tuple) and row and not isinstance(row[0], list | tuple) for row in scores)
    )
