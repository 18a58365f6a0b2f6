"""tellapart: can a vision-language model tell two almost identical image-text pairs apart?

>>> import tellapart
>>> scores = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]]  # (item, image, text)
>>> tellapart.group_score(scores)  # a tie is never right
array([1., 0.])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tellapart import metrics as metrics
    from tellapart.annotate.findings import annotate_agree as annotate_agree
    from tellapart.annotate.study import annotate_export as annotate_export
    from tellapart.annotate.study import annotate_import as annotate_import
    from tellapart.annotate.surveys import annotate_ls as annotate_ls
    from tellapart.api.build import build as build
    from tellapart.api.compare import compare as compare
    from tellapart.api.costs import check as check
    from tellapart.api.costs import time as time
    from tellapart.api.curve import curve as curve
    from tellapart.api.evaluate import evaluate as evaluate
    from tellapart.api.evaluate import run as run
    from tellapart.api.evaluate import score as score
    from tellapart.api.items import items as items
    from tellapart.api.listing import ls as ls
    from tellapart.api.memory import score_vectors as score_vectors
    from tellapart.api.parity import parity as parity
    from tellapart.api.probe import PairProbe as PairProbe
    from tellapart.api.run import Run as Run
    from tellapart.api.run import open_run as open_run
    from tellapart.api.run import show as show
    from tellapart.api.verify import verify as verify
    from tellapart.api.why import why as why
    from tellapart.auditing.detectors import detect as detect
    from tellapart.auditing.show import audit as audit
    from tellapart.benchmarks.arguments import load_pairs as load_pairs
    from tellapart.benchmarks.benchmark import Benchmark as Benchmark
    from tellapart.benchmarks.find import find_benchmark as find_benchmark
    from tellapart.benchmarks.plugins import load_plugin as load_plugin
    from tellapart.board.serve import board_export as board_export
    from tellapart.board.serve import serve as serve
    from tellapart.board.submissions.administer import (
        board_accept as board_accept,
    )
    from tellapart.board.submissions.administer import (
        board_backup as board_backup,
    )
    from tellapart.board.submissions.administer import (
        board_check as board_check,
    )
    from tellapart.board.submissions.administer import (
        board_retry as board_retry,
    )
    from tellapart.board.submissions.administer import (
        board_user as board_user,
    )
    from tellapart.board.submissions.new_board import board_new as board_new
    from tellapart.data.folder import read_pair_set as read_pair_set
    from tellapart.data.folder import write_pair_set as write_pair_set
    from tellapart.data.item import Item as Item
    from tellapart.data.pairset import Outline as Outline
    from tellapart.data.pairset import PairSet as PairSet
    from tellapart.data.scores import Scores as Scores
    from tellapart.errors import TellapartError as TellapartError
    from tellapart.evaluation.export import export as export
    from tellapart.evaluation.gap import gap as gap
    from tellapart.evaluation.run import Settings as Settings
    from tellapart.evaluation.verified import read_result as read_result
    from tellapart.metrics.choice import choice_score as choice_score
    from tellapart.metrics.metric import Metric as Metric
    from tellapart.metrics.pairs import group_score as group_score
    from tellapart.metrics.pairs import image_score as image_score
    from tellapart.metrics.pairs import text_score as text_score
    from tellapart.metrics.registry import METRICS as METRICS
    from tellapart.models.find import find_model as find_model
    from tellapart.models.fusion.region_import import regions as regions
    from tellapart.models.memory.external import read_scores as read_scores
    from tellapart.models.memory.given import model as model
    from tellapart.models.store.cache import cache_ls as cache_ls
    from tellapart.models.store.cache import cache_prune as cache_prune
    from tellapart.models.store.embedding_store import EmbeddingStore as EmbeddingStore
    from tellapart.records.result import Result as Result
    from tellapart.records.samples import read_samples as read_samples
    from tellapart.report.interchange.foreign import import_results as import_results
    from tellapart.report.interchange.formats import convert as convert
    from tellapart.report.interchange.push import push as push
    from tellapart.report.paper_tables.layouts import table as table
    from tellapart.report.plots.prepare import plot as plot
    from tellapart.training.mining.negatives import mine as mine
    from tellapart.training.train import train as train

__version__ = "0.2.0"

#: Module -> its names, loaded on first use: `import tellapart` stays light. The imports above are these, for type
#: checkers and editors.
_NAMES = {
    "annotate.findings": "annotate_agree",
    "annotate.study": "annotate_export annotate_import",
    "annotate.surveys": "annotate_ls",
    "api.build": "build",
    "api.compare": "compare",
    "api.costs": "check time",
    "api.curve": "curve",
    "api.evaluate": "evaluate run score",
    "api.items": "items",
    "api.listing": "ls",
    "api.memory": "score_vectors",
    "api.parity": "parity",
    "api.probe": "PairProbe",
    "api.run": "Run open_run show",
    "api.verify": "verify",
    "api.why": "why",
    "auditing.detectors": "detect",
    "auditing.show": "audit",
    "benchmarks.arguments": "load_pairs",
    "benchmarks.benchmark": "Benchmark",
    "benchmarks.find": "find_benchmark",
    "benchmarks.plugins": "load_plugin",
    "board.serve": "board_export serve",
    "board.submissions.administer": "board_accept board_backup board_check board_retry board_user",
    "board.submissions.new_board": "board_new",
    "data.folder": "read_pair_set write_pair_set",
    "data.item": "Item",
    "data.pairset": "Outline PairSet",
    "data.scores": "Scores",
    "errors": "TellapartError",
    "evaluation.export": "export",
    "evaluation.gap": "gap",
    "evaluation.run": "Settings",
    "evaluation.verified": "read_result",
    "metrics.choice": "choice_score",
    "metrics.metric": "Metric",
    "metrics.pairs": "group_score image_score text_score",
    "metrics.registry": "METRICS",
    "models.find": "find_model",
    "models.fusion.region_import": "regions",
    "models.memory.external": "read_scores",
    "models.memory.given": "model",
    "models.store.cache": "cache_ls cache_prune",
    "models.store.embedding_store": "EmbeddingStore",
    "records.result": "Result",
    "records.samples": "read_samples",
    "report.interchange.foreign": "import_results",
    "report.interchange.formats": "convert",
    "report.interchange.push": "push",
    "report.paper_tables.layouts": "table",
    "report.plots.prepare": "plot",
    "training.mining.negatives": "mine",
    "training.train": "train",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "metrics", *sorted(_WHERE)]  # noqa: PLE0604  (the names are the strings of the table)

if not TYPE_CHECKING:  # for which any name would be one of Any

    def __getattr__(name: str) -> object:
        if name == "metrics":
            return importlib.import_module("tellapart.metrics")
        if name not in _WHERE:
            raise AttributeError(f"module 'tellapart' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"tellapart.{_WHERE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
