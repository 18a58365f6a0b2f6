"""Results as lm-evaluation-harness writes them, for the tools that read its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from statistics import NormalDist
from typing import Any

from tellapart.metrics.registry import METRICS
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.numbers import is_deviation


def harness_results(result: Result) -> dict[str, Any]:
    """Return a run as lm-eval's `results_*.json`: a benchmark is a task, a tag's value a task of its group.

    A metric `m` is `m,none`, as no filter was applied; its `m_stderr,none` is half the interval's width over the
    normal quantile of its level, and `N/A` if there is none. Deviations, of which neither high nor low is better,
    are left out.

    Source: `result_schema.py` of lm-evaluation-harness 0.4.13; its `make_table` prints the result.
    """
    tasks = {
        name: task for name, record in result.benchmarks.items() for name, task in _list_tasks(name, record).items()
    }
    entries = {name: _make_entry(name, metrics) for name, (_, metrics, _) in tasks.items()}
    groups = {name: entries[name] for name, record in result.benchmarks.items() if record.by}
    layout: dict[str, Any] = {
        "results": entries,
        # As in lm-eval, the field is absent if no task is a group.
        **({"groups": groups} if groups else {}),
        "group_subtasks": {
            name: [f"{name}_{tag}_{value}" for tag, values in record.by.items() for value in values]
            for name, record in result.benchmarks.items()
        },
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


_Task = tuple[BenchmarkResult, Mapping[str, Value], bool]


def _list_tasks(name: str, record: BenchmarkResult) -> dict[str, _Task]:
    """Return a benchmark and its parts: name -> record, metrics, whether it is the full benchmark."""
    parts = {
        f"{name}_{tag}_{value}": (record, group.metrics, False)
        for tag, values in record.by.items()
        for value, group in values.items()
    }
    return {name: (record, record.metrics, True), **parts}


def _list_scores(metrics: Mapping[str, Value]) -> list[str]:
    return [name for name, value in metrics.items() if not is_deviation(value)]


def _count_items(metrics: Mapping[str, Value]) -> int:
    return max((value.n for value in metrics.values()), default=0)


def _make_entry(name: str, metrics: Mapping[str, Value]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "alias": name, "sample_len": _count_items(metrics)}
    for metric in _list_scores(metrics):
        entry[f"{metric},none"] = metrics[metric].value
        entry[f"{metric}_stderr,none"] = _standard_error(metrics[metric])
    return entry


def _standard_error(value: Value) -> float | str:
    if value.low is None or value.high is None:
        return "N/A"
    return (value.high - value.low) / 2 / NormalDist().inv_cdf(0.5 + value.level / 2)


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
