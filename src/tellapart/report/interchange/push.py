"""Results to the hub, as a pull request: the only part of the reports that uses the network, when it is asked to."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import declared_benchmark, find_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.arguments import expect_used
from tellapart.data.rows import read_toml
from tellapart.data.strict_json import decode_text
from tellapart.errors import RunError, first_line, first_sentence, require
from tellapart.evaluation.verified import read_result
from tellapart.metrics.registry import METRICS
from tellapart.models.hub import reach_hub
from tellapart.records.result import BenchmarkResult, Metrics, Result, Value, is_imported
from tellapart.records.zipped import run_folders
from tellapart.report.measured import first_metrics
from tellapart.report.numbers import is_deviation, worth_text
from tellapart.report.templates import write_lines
from tellapart.tasks.registry import find_task, is_higher_better

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

    from tellapart.benchmarks.benchmark import Hub


def harness_json(result: Result) -> str:
    """Return a run as lm-eval's `results_*.json`: a benchmark is a task, a tag's value a task of its group.

    A metric `m` is `m,none`; its `m_stderr,none` is half the interval's width over the normal quantile of its level.
    Deviations are left out.

    Source: `result_schema.py` of lm-evaluation-harness 0.4.13; its `make_table` prints the result.
    """
    tasks: dict[str, dict[str, Any]] = {}
    subtasks: dict[str, list[str]] = {}
    for name, record in result.benchmarks.items():
        parts: dict[str, Metrics] = {}
        for tag, value, group in ((tag, value, of[value]) for tag, of in record.by.items() for value in of):
            part = f"{name}_{tag}_{value}"  # `a`, `b_c` and `a_b`, `c` would share it
            taken = any(part in names for names in (tasks, parts, result.benchmarks))
            parts[f"{name} {tag}={value}" if taken else part] = group
        tasks[name] = _harness_task(name, record, record.metrics, (record.limited_from, record.limited_to))
        tasks |= {part: _harness_task(part, record, group.metrics) for part, group in parts.items()}
        subtasks[name] = [*parts]
    sections = {section: {name: task[section] for name, task in tasks.items()} for section in _SECTIONS}
    whole = {name: sections["results"][name] for name, record in result.benchmarks.items() if record.by}
    run, model, date = result.run, result.model, None
    with suppress(ValueError):
        date = datetime.fromisoformat(run.started).timestamp()
    content = {
        "results": sections["results"],
        # As in lm-eval, the field is absent if no task is a group.
        **({"groups": whole} if whole else {}),
        "group_subtasks": subtasks,
        **sections,
        "config": {
            "model": "tellapart",
            "model_args": f"model={model.name}",
            "model_dtype": model.dtype,
            "model_sha": model.fingerprint,
            "batch_size": None if run.batch_size is None else str(run.batch_size),
            "device": run.device,
            "limit": run.limit,
            "random_seed": run.seed,
        },
        "date": date,
        "model_source": "tellapart",
        "model_name": model.name,
        "model_name_sanitized": re.sub(r'["<>:/\\|?*\[\]]+', "__", model.name),
        "total_evaluation_time_seconds": f"{sum(benchmark.seconds for benchmark in result.benchmarks.values()):.6f}",
        "tellapart_versions": run.versions,
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


#: The sections of lm-eval's file that have an entry for each task.
_SECTIONS = ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples")


def _harness_task(
    name: str, record: BenchmarkResult, metrics: Mapping[str, Value], limited: tuple[int | None, ...] = (None, None)
) -> dict[str, Any]:
    """Return a task's entries by section; a limit left so many of so many items: `limited` from and to."""
    items = max((value.n for value in metrics.values()), default=0)
    entry: dict[str, Any] = {"name": name, "alias": name, "sample_len": items}
    listed, higher = [], {}
    for metric, value in metrics.items():
        if is_deviation(value):
            continue
        stem, _, chosen = metric.partition(",")  # an imported one may name its filter
        error: float | str = "N/A"
        if value.low is not None and value.high is not None:
            error = (value.high - value.low) / 2 / NormalDist().inv_cdf(0.5 + value.level / 2)
        entry |= {f"{stem},{chosen or 'none'}": value.value, f"{stem}_stderr,{chosen or 'none'}": error}
        higher[stem] = is_higher_better(metric)
        binary = metric in METRICS and METRICS[metric].binary
        listed.append({"metric": metric, "aggregation": "mean", "higher_is_better": higher[stem], "binary": binary})
    ties = "the other tool's rule" if is_imported(record) else "a tie is never right"
    facts = {"fingerprint": record.fingerprint, "ties": ties, "notes": list(record.notes)}
    task = {"task": name, "dataset_path": name, "output_type": record.output, "num_fewshot": 0}
    config = {**task, "metric_list": listed, "metadata": facts}
    sizes = {"original": limited[0] or items, "effective": limited[1] or items}
    return dict(zip(_SECTIONS, (entry, config, record.fingerprint[:12], 0, higher, sizes), strict=True))


#: Task -> the hub's word for it; matching and retrieval have none there, and go by the field's.
_HUB_TASKS = read_toml(Path(__file__).with_name("foreign.toml"))["hub"]


def _hub_of(benchmark: str) -> Hub | None:
    declared = declared_benchmark(benchmark)
    return None if declared is None else declared.hub


def _list_headlines(result: Result) -> Iterator[tuple[str, Hub | None, str | None, BenchmarkResult, str, Value]]:
    """Yield a run's first-look metrics: benchmark, dataset on the hub and its revision, record, metric and number."""
    for name, record in result.benchmarks.items():
        source = _hub_of(name)
        # The revision is known to be the one measured if it was read from the hub's cache.
        revision = source.revision if source is not None and source.revision in record.origin else None
        for metric in first_metrics([record]):
            yield name, source, revision, record, metric, record.metrics[metric]


def eval_results(result: Result) -> list[EvalResult]:
    """Return a run's first-look metrics as huggingface_hub's records, fractions from 0 to 1."""
    hub = require("huggingface_hub", extra="hub")
    repos = Counter(source.repo for source in map(_hub_of, result.benchmarks) if source is not None)
    return [
        hub.EvalResult(
            task_type=_HUB_TASKS.get(record.task, record.task),
            dataset_type=name if source is None else source.repo,
            dataset_name=record.title,
            dataset_revision=revision,
            # If two benchmarks are in one dataset, only this distinguishes their results.
            dataset_config=name if source is not None and repos[source.repo] > 1 else None,
            dataset_args={"benchmark": name, "fingerprint": record.fingerprint},
            metric_type=metric,
            metric_name=metric.replace("_", " "),
            metric_value=value.value,
            metric_args=_describe_value(record, value),
        )
        for name, source, revision, record, metric, value in _list_headlines(result)
    ]


def model_index_yaml(result: Result) -> str:
    """Return the front matter of a model card, between its two lines of dashes, with the run's results."""
    entries = eval_results(result)
    if not entries:
        raise RunError(f"the run of {result.model.name} measured nothing that a card could hold")
    data = require("huggingface_hub", extra="hub").ModelCardData(model_name=result.model.name, eval_results=entries)
    return f"---\n{data.to_yaml()}\n---\n"


def put_results(text: str, result: Result, place: str, *, rename: bool = False) -> str:
    """Return the text of a model card with a run's results put in; results of other sets, metrics and models stay."""
    hub, yaml = require("huggingface_hub", extra="hub"), require("yaml", extra="hub")

    def identify(entry: Any) -> tuple[Any, ...]:  # as huggingface_hub's `EvalResult.unique_identifier`
        dataset = entry["dataset"]
        return entry["task"]["type"], dataset["type"], *map(dataset.get, ("config", "split", "revision"))

    name, others = result.model.name, []
    added = hub.ModelCardData(model_name=name, eval_results=eval_results(result)).to_dict()["model-index"][0]["results"]
    new = {(identify(entry), metric["type"]) for entry in added for metric in entry["metrics"]}
    try:
        # Not a ModelCard, which joins entries of a dataset whatever their arguments and source.
        card = hub.RepoCard(text)
        index = list(card.data.get("model-index") or [{"name": card.data.get("model_name", name), "results": []}])
        place_of = next((k for k, model in enumerate(index) if model["name"] == name), len(index) - 1)
        title = index[place_of]["name"]
        for entry in index[place_of]["results"]:
            metrics = [metric for metric in entry["metrics"] if (identify(entry), metric["type"]) not in new]
            others += [{**entry, "metrics": metrics}] if metrics else []
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise RunError(f"{place} is not a model card: {first_line(error)}") from error
    if rename and title != name and index[place_of]["results"]:
        raise RunError(f"{place} holds results of {title}, the run is of {name}; name the right card")
    index[place_of] = {"name": name if rename else title, "results": [*others, *added]}
    card.data["model-index"] = index
    return str(card)


def eval_results_yaml(result: Result) -> str:
    """Return the text of a file for a model's folder `.eval_results/`: an entry a benchmark on the hub and metric.

    The hub shows an entry once its dataset is registered there, by an `eval.yaml` with a task of that metric's name.

    Source: huggingface.co/docs/hub/eval-results.
    """
    entries = eval_result_entries(result)
    if not entries:
        raise RunError(
            f"none of {', '.join(result.benchmarks) or 'no benchmark'} is a dataset on the hub, and .eval_results "
            "knows no others; write a model-index instead"
        )
    return _entries_text(entries, None)


def eval_result_entries(result: Result) -> list[EvalResultEntry]:
    """Return the entries of `eval_results_yaml`."""
    hub = require("huggingface_hub", extra="hub")
    return [
        hub.EvalResultEntry(
            dataset_id=source.repo,
            dataset_revision=revision,
            task_id=metric,
            value=value.value,
            # When another tool measured is not known; the date of the import is another one.
            date=None if is_imported(record) else result.run.started,
            notes=_write_note(record, value),
        )
        for _, source, revision, record, metric, value in _list_headlines(result)
        if source is not None
    ]


def _describe_value(record: BenchmarkResult, value: Value) -> dict[str, Any]:
    measured = value.low is not None and value.high is not None
    facts = {
        "average": value.average,
        "interval": [value.low, value.high] if measured else None,
        "level": value.level if measured else None,
        "method": value.method if measured else None,
        "no_interval": None if measured else value.reason or None,
        "items": value.n or None,
        "clusters": value.clusters if value.n else None,
        "ties": value.ties if value.n else None,
        "effective_items": None if value.effective is None else round(value.effective, 1),
        "limited_from": record.limited_from,
        "limited_to": record.limited_to,
        "published_items": record.published_items,
        "chance": value.chance,
        "imported": list(record.notes) if is_imported(record) else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _write_note(record: BenchmarkResult, value: Value) -> str:
    facts = {"record": record, "value": value, "effective": worth_text([value])}
    return "; ".join(record.notes if is_imported(record) else write_lines("hub_note", **facts))


CARD, RESULTS, EVAL = "README.md", ".eval_results/tellapart.yaml", "eval.yaml"


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files for one repository on the hub, the pull request's title and text, and the benchmarks that are left out."""

    files: Mapping[str, str]
    message: str
    description: str
    left_out: tuple[str, ...] = field(default=())


def files_of_run(result: Result, read: Callable[[str], str | None]) -> HubFiles:
    """Return a run's results as files for its model's page, with the results already there."""
    card = read(CARD)
    files = {CARD: model_index_yaml(result) if card is None else put_results(card, result, CARD)}
    if entries := eval_result_entries(result):
        files[RESULTS] = _entries_text(entries, read(RESULTS))
    left_out = tuple(name for name in result.benchmarks if _hub_of(name) is None)
    names = ", ".join(result.benchmarks)
    description = (
        f"Measured by `tellapart` on {result.run.started[:10]}: {names}. Every number has its items, interval, ties "
        "and chance; a tie is never right."
    )
    return HubFiles(files, f"Results on {names}, measured with tellapart", description, left_out)


def files_of_benchmark(benchmark: Benchmark, *, config: str = "default", split: str = "test") -> HubFiles:
    """Return the `eval.yaml` that registers a dataset on the hub, with a task for each metric of a first look."""
    sizes = benchmark.shape
    of = "" if sizes is None else f", {sizes[0]} images by {sizes[1]} texts each"
    # The metrics of every first look that a model of some kind can have here.
    metrics = dict.fromkeys(
        name
        for row in find_task(benchmark.task, benchmark.name).headlines
        if sizes is None or all(name not in METRICS or "{}x{}".format(*sizes) in METRICS[name].shapes for name in row)
        for name in row
    )
    content = {
        "name": benchmark.title,
        "description": f"{benchmark.items:,} records{of}. Measured with tellapart: a tie is never right. From "
        f"{benchmark.source}. Licence: {benchmark.licence}. Citation: {benchmark.citation}.",
        "evaluation_framework": "tellapart",
        "tasks": [{"id": metric, "config": config, "split": split} for metric in metrics],
    }
    description = "Registers this dataset as a benchmark: a task for each metric of tellapart's first look."
    return HubFiles({EVAL: _write_yaml(content, 100)}, f"{benchmark.title} as a benchmark", description)


def _entries_text(entries: list[Any], there: str | None) -> str:
    """Write entries after those of a file that is there already and are of other sets or metrics."""
    hub, yaml = require("huggingface_hub", extra="hub"), require("yaml", extra="hub")
    new = {(entry.dataset_id, entry.task_id) for entry in entries}
    try:
        earlier = [] if there is None else hub.parse_eval_result_entries(yaml.safe_load(there) or [])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"{RESULTS} in the repository is not a list of results: {first_line(error)}") from error
    remaining = [entry for entry in earlier if (entry.dataset_id, entry.task_id) not in new]
    return _write_yaml(hub.eval_result_entries_to_yaml([*remaining, *entries]))


def _write_yaml(content: Any, width: int = 80) -> str:
    text: str = require("yaml", extra="hub").safe_dump(content, sort_keys=False, allow_unicode=True, width=width)
    return text


#: The variable that holds the token; no file and no option does.
TOKEN = "HF_TOKEN"  # noqa: S105


class HubRepository:
    """A repository on the hub, whose files are read, and to which files are proposed."""

    def __init__(self, repo: str, kind: str) -> None:
        self._hub = require("huggingface_hub", extra="hub")
        constants = require("huggingface_hub.constants", extra="hub")
        self.repo, self.kind, self.offline = repo, kind, bool(constants.HF_HUB_OFFLINE)
        self.server = constants.ENDPOINT
        self.page = f"{self.server}/{'datasets/' if kind == 'dataset' else ''}{repo}"
        self._known: dict[str, str | None] = {}
        # Without a token in the environment nobody is logged in, even if one of the hub's files has one.
        self._api = self._hub.HfApi(token=os.environ.get(TOKEN) or False)

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if there is none."""
        if path not in self._known:
            local = self._ask_hub(lambda: self._api.hf_hub_download(self.repo, path, repo_type=self.kind))
            name = f"{path} of {self.page}"
            self._known[path] = None if local is None else decode_text(Path(local).read_bytes(), name, error=RunError)
        return self._known[path]

    def propose(self, proposed: HubFiles) -> str | None:
        """Open a pull request with files; return its address, or None if the repository has them as they are."""
        if not os.environ.get(TOKEN):
            raise RunError(
                f"{TOKEN} is not set, and a pull request to {self.page} needs a token that may write discussions: make "
                f"one on {self.server}/settings/tokens and set {TOKEN}, or see the files: dry_run=True"
            )
        operations = [
            self._hub.CommitOperationAdd(path_in_repo=path, path_or_fileobj=text.encode())
            for path, text in proposed.files.items()
            if text != self.read(path)
        ]
        if not operations:
            return None
        words = {"commit_message": proposed.message, "commit_description": proposed.description}
        made = self._ask_hub(
            lambda: self._api.create_commit(self.repo, operations, repo_type=self.kind, create_pr=True, **words)
        )
        address: str | None = made.pr_url
        return address

    def _ask_hub(self, call: Callable[[], Any]) -> Any:
        """Ask the hub, None for a file that it has not; its other errors become one line with advice."""
        errors = require("huggingface_hub.errors", extra="hub")
        with reach_hub(self._hub) as why:
            if why:
                raise RunError(f"{self.page}: {why.removesuffix(', or').rstrip(';')}")
        try:
            with warnings.catch_warnings():
                # The hub's advice on a card (no licence) is its owner's.
                warnings.simplefilter("ignore", UserWarning)
                return call()
        except Exception as error:
            if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
                return None
            if not (message := self._describe_error(error)):
                raise
            raise RunError(message) from error

    def _describe_error(self, error: Exception) -> str:
        """Return the line of an error of the hub; empty of one that is not the hub's."""
        errors, said = require("huggingface_hub.errors", extra="hub"), first_sentence(error)
        refused = getattr(getattr(error, "response", None), "status_code", None) in {401, 403}
        gone = f"is not there, or this token may not see it; check the name (OWNER/NAME), and {TOKEN}"
        rights = "it needs the right to write there, or to open discussions and pull requests"
        # Of the library that carries the calls, which is another one in each of the hub's versions.
        is_carrier = type(error).__module__.partition(".")[0] in {"httpx", "requests"}
        lines: list[tuple[bool, str]] = [
            (isinstance(error, errors.GatedRepoError),
             f"{self.page} is gated: accept its conditions there, and set {TOKEN}"),
            (isinstance(error, errors.RepositoryNotFoundError), f"{self.page} {gone}"),
            (isinstance(error, errors.HFValidationError),
             f"{self.repo} is not an id of the hub; expected OWNER/NAME"),
            # The hub's check of a card's front matter.
            (isinstance(error, ValueError), f"the hub refuses {self.page}: {' '.join(str(error).split())}"),
            (isinstance(error, errors.HfHubHTTPError) and refused,
             f"{self.page}: the hub refuses this {TOKEN} ({said}); {rights}"),
            (isinstance(error, (errors.HfHubHTTPError, OSError)), f"{self.page}: {said}"),
            (is_carrier, f"{self.page} cannot be reached: {said}"),
        ]  # fmt: skip
        return next((line for holds, line in lines if holds), "")


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposal that was made, or would be.

    Attributes:
        page: the repository's address.
        files: their content, and which benchmarks are left out.
        request: the pull request's address; None if none was opened.
        unseen: whether the page was not read, because the hub is not to be used.
    """

    page: str
    files: HubFiles
    request: str | None
    unseen: bool = False


def push(
    source: Any,
    repo: str,
    *,
    benchmark: bool = False,
    config: str = "default",
    split: str = "test",
    dry_run: bool = False,
) -> Proposed:
    """Propose a run's results to its model's page, or a benchmark's `eval.yaml` to its dataset's, as a pull request.

    Args:
        source: a run folder; with `benchmark` a benchmark's name.
        repo: the page, OWNER/NAME.
        benchmark: propose the `eval.yaml` of a dataset.
        config, split: with it, the dataset's.
        dry_run: send nothing.

    Raises:
        TellapartError: the token is missing, or the hub refuses it or cannot be reached.

    >>> import tellapart as ta
    >>> proposed = ta.push("winoground", "me/winoground", benchmark=True, dry_run=True)
    >>> proposed.page, list(proposed.files.files), proposed.request
    ('https://huggingface.co/datasets/me/winoground', ['eval.yaml'], None)
    """
    if not benchmark:
        expect_used("push", "without benchmark=True", config=(config, "default"), split=(split, "test"))
    repository = HubRepository(repo, "dataset" if benchmark else "model")
    alone = dry_run and repository.offline and not benchmark
    if benchmark:
        files = files_of_benchmark(find_benchmark(open_benchmark(source)), config=config, split=split)
    else:
        with run_folders(source, "source") as (run,):
            files = files_of_run(read_result(run), (lambda _: None) if alone else repository.read)
    return Proposed(repository.page, files, None if dry_run else repository.propose(files), alone)
