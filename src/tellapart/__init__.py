"""tellapart: can a vision-language model tell two almost identical image-text pairs apart?

>>> import tellapart
>>> scores = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]]  # (item, image, text)
>>> tellapart.group_score(scores)  # a tie is never right
array([1., 0.])
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

# Loaded on first use: `import tellapart` stays light.
_WHERE = {
    "Benchmark": "benchmarks.benchmark",
    "EmbeddingStore": "models.store.embedding_store",
    "Item": "data.item",
    "METRICS": "metrics.registry",
    "Metric": "metrics.metric",
    "Outline": "data.pairset",
    "PairProbe": "api.probe",
    "PairSet": "data.pairset",
    "Result": "records.result",
    "Run": "api.run",
    "Scores": "data.scores",
    "Settings": "evaluation.run",
    "TellapartError": "errors",
    "build": "api.build",
    "choice_score": "metrics.choice",
    "compare": "api.compare",
    "evaluate": "api.evaluate",
    "export": "api.interchange",
    "export_study": "api.annotate",
    "find_benchmark": "benchmarks.find",
    "find_model": "models.find",
    "group_score": "metrics.pairs",
    "image_score": "metrics.pairs",
    "load_pairs": "api.evaluate",
    "load_plugin": "api.plugins",
    "open_run": "api.run",
    "paper_table": "api.interchange",
    "plot": "api.interchange",
    "read_pair_set": "data.folder",
    "read_result": "records.run_folder",
    "read_samples": "records.run_folder",
    "read_scores": "models.memory.external",
    "score": "api.evaluate",
    "text_score": "metrics.pairs",
    "write_pair_set": "data.folder",
}

#: Rooms of the package that are used as functions, too: `tellapart.train("config.toml")`; and `tellapart.metrics`, in
#: which a class for each metric is found: `tellapart.metrics.GroupScore()`.
_CALLED = {"audit": "api.audit", "train": "api.train"}
_METRICS = "metrics"

__all__ = ["__version__", *_WHERE, *_CALLED, _METRICS]  # noqa: PLE0604  (the names are the strings of the table)


class _CalledRoom(ModuleType):
    """A room that is a function, too: the one of its name in `tellapart.api`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module(f"tellapart.{_CALLED[name]}"), name)(*args, **kwargs)


class _MetricsRoom(ModuleType):
    """The room of metrics, with a class for each that takes scores batch by batch, made when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if not name[:1].isupper():  # a module of the room that is not imported yet, as the import of it asks
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return importlib.import_module("tellapart.api.streaming").metric_class(name)


class _Root(ModuleType):
    """This package: a room becomes what it is above when it is first imported, whoever imports it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _CALLED:
            value.__class__ = _CalledRoom
        elif isinstance(value, ModuleType) and name == _METRICS:
            value.__class__ = _MetricsRoom
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root


def __getattr__(name: str) -> Any:
    if name in _CALLED or name == _METRICS:
        return importlib.import_module(f"tellapart.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'tellapart' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tellapart.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
