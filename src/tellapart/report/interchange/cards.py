"""Results for model cards on the hub: `model-index` in a card's front matter, and the newer `.eval_results/*.yaml`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.benchmarks.find import declared_benchmark
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.errors import RunError, require
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.measured import first_metrics
from tellapart.report.numbers import percent, worth_text

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

    from tellapart.benchmarks.hub import Hub

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
    """Return a run's first-look metrics as huggingface_hub's records, fractions from 0 to 1.

    Interval, items, ties and chance are in `metric_args`; the content's fingerprint is in `dataset_args`.
    """
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
    if value.effective is not None:
        facts["effective_items"] = round(value.effective, 1)
    if record.limited_from is not None:
        facts["limited_from"] = record.limited_from
    if record.published_items is not None:
        facts["published_items"] = record.published_items
    if value.chance is not None:
        facts["chance"] = value.chance
    if is_imported(record):
        facts["imported"] = list(record.notes)
    return facts


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
