"""tellapart: can a vision-language model tell two almost identical image-text pairs apart?

>>> import tellapart
>>> scores = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]]  # (item, image, text)
>>> tellapart.group_score(scores)  # a tie is never right
array([1., 0.])
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

# Loaded on first use: `import tellapart` stays light.
_WHERE = {
    "Benchmark": "benchmarks.benchmark",
    "EmbeddingStore": "models.store",
    "Item": "data.item",
    "METRICS": "metrics.registry",
    "Metric": "metrics.metric",
    "Outline": "data.pairset",
    "PairSet": "data.pairset",
    "Result": "records.result",
    "Scores": "data.scores",
    "Settings": "evaluation.run",
    "TellapartError": "errors",
    "choice_score": "metrics.choice",
    "find_benchmark": "benchmarks.find",
    "find_model": "models.find",
    "group_score": "metrics.pairs",
    "image_score": "metrics.pairs",
    "read_pair_set": "data.folder",
    "read_result": "records.run_folder",
    "read_samples": "records.run_folder",
    "read_scores": "models.external",
    "text_score": "metrics.pairs",
    "write_pair_set": "data.folder",
}

__all__ = ["__version__", *_WHERE]  # noqa: PLE0604  (the names are the strings of the table)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tellapart' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tellapart.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
