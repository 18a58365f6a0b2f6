# The names of the interface and their modules: read by `__init__.py`, type checkers and editors.

from tellapart import metrics as metrics
from tellapart.annotate.findings import annotate_agree as annotate_agree
from tellapart.annotate.study import annotate_export as annotate_export
from tellapart.annotate.study import annotate_import as annotate_import
from tellapart.annotate.surveys import annotate_ls as annotate_ls
from tellapart.api.analyses import curve as curve
from tellapart.api.analyses import items as items
from tellapart.api.analyses import risk as risk
from tellapart.api.analyses import verify as verify
from tellapart.api.analyses import why as why
from tellapart.api.build import build as build
from tellapart.api.checks import check as check
from tellapart.api.checks import parity as parity
from tellapart.api.checks import time as time
from tellapart.api.compare import compare as compare
from tellapart.api.doctor import doctor as doctor
from tellapart.api.evaluate import evaluate as evaluate
from tellapart.api.evaluate import run as run
from tellapart.api.evaluate import score as score
from tellapart.api.evaluate import score_vectors as score_vectors
from tellapart.api.listing import ls as ls
from tellapart.api.probe import PairProbe as PairProbe
from tellapart.api.run import Run as Run
from tellapart.api.run import open_run as open_run
from tellapart.api.run import show as show
from tellapart.auditing.origin import detect as detect
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
from tellapart.board.submissions.administer import board_new as board_new
from tellapart.board.submissions.administer import (
    board_retry as board_retry,
)
from tellapart.board.submissions.administer import (
    board_user as board_user,
)
from tellapart.data.folder import read_pair_set as read_pair_set
from tellapart.data.folder import write_pair_set as write_pair_set
from tellapart.data.item import Item as Item
from tellapart.data.pairset import Outline as Outline
from tellapart.data.pairset import PairSet as PairSet
from tellapart.data.scores import Scores as Scores
from tellapart.diagnosis.gap import gap as gap
from tellapart.errors import TellapartError as TellapartError
from tellapart.evaluation.export import export as export
from tellapart.evaluation.run import Settings as Settings
from tellapart.evaluation.verified import read_result as read_result
from tellapart.metrics.choice import choice_score as choice_score
from tellapart.metrics.metric import Metric as Metric
from tellapart.metrics.pairs import group_score as group_score
from tellapart.metrics.pairs import image_score as image_score
from tellapart.metrics.pairs import text_score as text_score
from tellapart.metrics.registry import METRICS as METRICS
from tellapart.models.find import find_model as find_model
from tellapart.models.memory.external import read_scores as read_scores
from tellapart.models.memory.held import model as model
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
from tellapart_native.region_file import regions as regions

__version__: str
_WHERE: dict[str, str]
