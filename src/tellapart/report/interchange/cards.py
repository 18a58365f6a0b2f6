"""Results in others' formats: `model-index` and `.eval_results/*.yaml` of the hub's cards, and lm-eval's JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from tellapart.benchmarks.find import declared_benchmark
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.errors import RunError, require
from tellapart.metrics.registry import METRICS
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.measured import first_metrics
from tellapart.report.numbers import is_deviation, percent, worth_text

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

    from tellapart.benchmarks.hub import Hub


def harness_results(result: Result) -> dict[str, Any]:
    """Return a run as lm-eval's `results_*.json`: a benchmark is a task, a tag's value a task of its group.

    A metric `m` is `m,none`, as no filter was applied; its `m_stderr,none` is half the interval's width over the
    normal quantile of its level, and `N/A` if there is none. Deviations, of which neither high nor low is better,
    are left out.

    Source: `result_schema.py` of lm-evaluation-harness 0.4.13; its `make_table` prints the result.
    """
    # A benchmark and its parts: name -> record, metrics, whether it is the full benchmark.
    tasks: dict[str, tuple[BenchmarkResult, Mapping[str, Value], bool]] = {}
    subtasks: dict[str, list[str]] = {}
    for name, record in result.benchmarks.items():
        tasks[name], subtasks[name] = (record, record.metrics, True), []
        for tag, values in record.by.items():
            for value, group in values.items():
                subtasks[name].append(f"{name}_{tag}_{value}")
                tasks[subtasks[name][-1]] = record, group.metrics, False
    entries = {name: _make_entry(name, metrics) for name, (_, metrics, _) in tasks.items()}
    groups = {name: entries[name] for name, record in result.benchmarks.items() if record.by}
    layout: dict[str, Any] = {
        "results": entries,
        # As in lm-eval, the field is absent if no task is a group.
        **({"groups": groups} if groups else {}),
        "group_subtasks": subtasks,
        "configs": {name: _make_config(name, record, metrics) for name, (record, metrics, _) in tasks.items()},
        "versions": {name: record.fingerprint[:12] for name, (record, _, _) in tasks.items()},
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {
            name: dict.fromkeys(_list_scores(metrics), True) for name, (_, metrics, _) in tasks.items()
        },
        "n-samples": {
            name: {"original": (record.limited_from or items) if title else items, "effective": items}
            for name, (record, metrics, title) in tasks.items()
            for items in [_count_items(metrics)]
        },
    }
    run = result.run
    return layout | {
        "config": {
            "model": "tellapart",
            "model_args": f"model={result.model.name}",
            "model_dtype": result.model.dtype,
            "model_sha": result.model.fingerprint,
            "batch_size": None if run.batch_size is None else str(run.batch_size),
            "device": run.device,
            "limit": run.limit,
            "random_seed": run.seed,
        },
        "date": _to_seconds(run.started),
        "model_source": "tellapart",
        "model_name": result.model.name,
        "model_name_sanitized": re.sub(r'["<>:/\\|?*\[\]]+', "__", result.model.name),
        "total_evaluation_time_seconds": f"{sum(benchmark.seconds for benchmark in result.benchmarks.values()):.6f}",
        "tellapart_versions": run.versions,
    }


def harness_json(result: Result) -> str:
    """Return `harness_results` as the text of a file."""
    return json.dumps(harness_results(result), indent=2, allow_nan=False) + "\n"


def _list_scores(metrics: Mapping[str, Value]) -> list[str]:
    return [name for name, value in metrics.items() if not is_deviation(value)]


def _count_items(metrics: Mapping[str, Value]) -> int:
    return max((value.n for value in metrics.values()), default=0)


def _make_entry(name: str, metrics: Mapping[str, Value]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "alias": name, "sample_len": _count_items(metrics)}
    for metric in _list_scores(metrics):
        entry[f"{metric},none"] = metrics[metric].value
        value = metrics[metric]
        error: float | str = "N/A"
        if value.low is not None and value.high is not None:
            error = (value.high - value.low) / 2 / NormalDist().inv_cdf(0.5 + value.level / 2)
        entry[f"{metric}_stderr,none"] = error
    return entry


def _make_config(name: str, record: BenchmarkResult, metrics: Mapping[str, Value]) -> dict[str, Any]:
    binary = {metric.name for metric in METRICS.values() if metric.binary}
    return {
        "task": name,
        "dataset_path": name,
        "output_type": record.output,
        "num_fewshot": 0,
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True, "binary": metric in binary}
            for metric in _list_scores(metrics)
        ],
        "metadata": {
            "fingerprint": record.fingerprint,
            "ties": "the other tool's rule" if is_imported(record) else "a tie is never right",
            "notes": list(record.notes),
        },
    }


def _to_seconds(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None


#: Task -> the hub's word for it; matching and retrieval have none there, and go by the field's.
_HUB_TASKS = {
    "pairs": "image-text-matching",
    "retrieval": "image-text-retrieval",
    "distinct-retrieval": "image-text-retrieval",
    "classification": "zero-shot-image-classification",
    "questions": "visual-question-answering",
    "captions": "image-to-text",
}


def eval_results(result: Result) -> list[EvalResult]:
    """Return a run's first-look metrics as huggingface_hub's records, fractions from 0 to 1."""
    hub = require("huggingface_hub", extra="hub")
    entries = []
    sources = {name: _hub_of(name) for name in result.benchmarks}
    repos = Counter(source.repo for source in sources.values() if source is not None)
    for name, record in result.benchmarks.items():
        source = sources[name]
        for metric in first_metrics([record]):
            value = record.metrics[metric]
            entries.append(
                hub.EvalResult(
                    task_type=_HUB_TASKS.get(record.task, record.task),
                    dataset_type=name if source is None else source.repo,
                    dataset_name=record.title,
                    dataset_revision=None if source is None else _known_revision(source, record),
                    # If two benchmarks are in one dataset, only this distinguishes their results.
                    dataset_config=name if source is not None and repos[source.repo] > 1 else None,
                    dataset_args={"benchmark": name, "fingerprint": record.fingerprint},
                    metric_type=metric,
                    metric_name=metric.replace("_", " "),
                    metric_value=value.value,
                    metric_args=_describe_value(record, value),
                )
            )
    return entries


def model_index_yaml(result: Result) -> str:
    """Return the front matter of a model card, between its two lines of dashes, with the run's results."""
    entries = eval_results(result)
    if not entries:
        raise RunError(f"the run of {result.model.name} measured nothing that a card could hold")
    hub = require("huggingface_hub", extra="hub")
    data = hub.ModelCardData(model_name=result.model.name, eval_results=entries)
    return f"---\n{data.to_yaml()}\n---\n"


def update_card(path: Path, result: Result) -> str:
    """Return the text of a model card with the run's results put in; results of other sets stay."""
    hub = require("huggingface_hub", extra="hub")
    try:
        text = decode_text(read_whole(path, error=RunError), path, error=RunError)
        data = hub.ModelCard(text).data
    except (RunError, ValueError) as error:
        raise RunError(f"{path} is not a model card: {error}") from error
    name = data.get("model_name")
    if data.get("eval_results") and name != result.model.name:
        raise RunError(f"{path} holds results of {name}, the run is of {result.model.name}; name the right card")
    return put_results(text, result, str(path), rename=True)


def put_results(text: str, result: Result, place: str, *, rename: bool = False) -> str:
    """Return the text of a model card with a run's results put in; results of other sets stay."""
    hub = require("huggingface_hub", extra="hub")
    entries = eval_results(result)
    try:
        card = hub.ModelCard(text)
    except ValueError as error:
        raise RunError(f"{place} is not a model card: {error}") from error
    new = {(entry.unique_identifier, entry.metric_type) for entry in entries}
    if rename or not card.data.get("model_name"):
        card.data.model_name = result.model.name
    card.data.eval_results = [
        *(one for one in card.data.get("eval_results") or [] if (one.unique_identifier, one.metric_type) not in new),
        *entries,
    ]
    return str(card)


def eval_results_yaml(result: Result) -> str:
    """Return the text of a file for a model's folder `.eval_results/`: an entry a benchmark on the hub and metric.

    The format has no place for a set that is not on the hub: such benchmarks are left out. A metric is an entry's
    `task_id`; the hub shows an entry once its dataset is registered there as a benchmark whose `eval.yaml` has a task
    of that id.

    Source: huggingface.co/docs/hub/eval-results.
    """
    hub = require("huggingface_hub", extra="hub")
    yaml = require("yaml", extra="hub")
    entries, _ = eval_result_entries(result)
    if not entries:
        raise RunError(
            f"none of {', '.join(result.benchmarks) or 'no benchmark'} is a dataset on the hub, and .eval_results "
            "knows no others; write a model-index instead"
        )
    text: str = yaml.safe_dump(hub.eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    return text


def eval_result_entries(result: Result) -> tuple[list[EvalResultEntry], tuple[str, ...]]:
    """Return the entries of `eval_results_yaml`, and the benchmarks that are not on the hub."""
    hub = require("huggingface_hub", extra="hub")
    entries, left_out = [], []
    for name, record in result.benchmarks.items():
        source = _hub_of(name)
        if source is not None:
            entries += [
                hub.EvalResultEntry(
                    dataset_id=source.repo,
                    dataset_revision=_known_revision(source, record),
                    task_id=metric,
                    value=record.metrics[metric].value,
                    # When another tool measured is not known; the date of the import is another one.
                    date=None if is_imported(record) else result.run.started,
                    notes=_write_note(record, record.metrics[metric]),
                )
                for metric in first_metrics([record])
            ]
        else:
            left_out.append(name)
    return entries, tuple(left_out)


def _hub_of(benchmark: str) -> Hub | None:
    declared = declared_benchmark(benchmark)
    return None if declared is None else declared.hub


def _known_revision(source: Hub, record: BenchmarkResult) -> str | None:
    """Return the dataset's revision if it is known to be the one measured: it was read from the hub's cache."""
    return source.revision if source.revision in record.origin else None


def _describe_value(record: BenchmarkResult, value: Value) -> dict[str, Any]:
    facts: dict[str, Any] = {"average": value.average}
    if value.low is not None and value.high is not None:
        facts |= {"interval": [value.low, value.high], "level": value.level, "method": value.method}
    elif value.reason:
        facts["no_interval"] = value.reason
    if value.n:
        facts |= {"items": value.n, "clusters": value.clusters, "ties": value.ties}
    further = {
        "effective_items": None if value.effective is None else round(value.effective, 1),
        "limited_from": record.limited_from,
        "published_items": record.published_items,
        "chance": value.chance,
        "imported": list(record.notes) if is_imported(record) else None,
    }
    return facts | {name: fact for name, fact in further.items() if fact is not None}


def _write_note(record: BenchmarkResult, value: Value) -> str:
    if is_imported(record):
        return "; ".join(record.notes)
    cut = "" if record.limited_from is None else f" of {record.limited_from}"
    effective = worth_text([value])
    parts = [f"{value.n}{cut} items{f' ({effective})' if effective else ''}, a tie is never right"]
    if record.published_items is not None:
        parts.append(f"not the published files, which hold {record.published_items} records")
    if value.low is not None and value.high is not None:
        parts.append(
            f"{value.level:.0%} interval {percent(value.low)} to {percent(value.high)} percent ({value.method})"
        )
    elif value.reason:
        parts.append(f"no interval: {value.reason.removeprefix('too few for an interval: ')}")
    if value.chance is not None:
        parts.append(f"chance {percent(value.chance)} percent")
    return "; ".join(parts)
