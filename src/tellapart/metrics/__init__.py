"""Arrays of scores in, one value per item out; and a class for each metric that takes scores batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tellapart.metrics.streaming import StreamingMetric


def __getattr__(name: str) -> type[StreamingMetric]:
    """Return the class of a metric, those of plugins too."""
    if not name[:1].isupper():  # a module of the room that is not imported yet, as the import of it asks
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tellapart.metrics import streaming

    return streaming.StreamingMetric if name == "StreamingMetric" else streaming.metric_class(name)


def __dir__() -> list[str]:
    from tellapart.metrics.registry import METRICS
    from tellapart.metrics.streaming import class_name

    return sorted({*globals(), "StreamingMetric", *map(class_name, METRICS)})
