"""The files with a run's results for a model's page on the hub, and a benchmark's tasks on its dataset's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.errors import RunError, first_line, require
from tellapart.metrics.registry import METRICS
from tellapart.records.result import Result
from tellapart.report.interchange.cards import eval_result_entries, model_index_yaml, put_results
from tellapart.tasks.registry import find_task

CARD, RESULTS, EVAL = "README.md", ".eval_results/tellapart.yaml", "eval.yaml"

#: Takes a file's path in a repository to its text; None if there is none.
ReadFile = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files for one repository on the hub.

    Attributes:
        files: path -> text.
        kind: of the repository: `model` or `dataset`.
        message, description: of the commit, which are the pull request's title and text.
        left_out: benchmarks that one of the files has no place for.
    """

    files: Mapping[str, str]
    kind: str
    message: str
    description: str
    left_out: tuple[str, ...] = field(default=())


def files_of_run(result: Result, read: ReadFile) -> HubFiles:
    """Return a run's results as files for its model's page, with the results already there.

    `README.md` gets a model-index of all benchmarks; `.eval_results/tellapart.yaml` an entry for each metric of those
    that are datasets on the hub, the only ones that it has a place for. Results of other sets stay in both.
    """
    card = read(CARD)
    files = {CARD: model_index_yaml(result) if card is None else put_results(card, result, CARD)}
    entries, left_out = eval_result_entries(result)
    if entries:
        files[RESULTS] = _entries_text(entries, read(RESULTS))
    names = ", ".join(result.benchmarks)
    return HubFiles(
        files,
        "model",
        f"Results on {names}, measured with tellapart",
        f"Measured by `tellapart` on {result.run.started[:10]}: {names}. Every number has its items, interval, ties "
        "and chance; a tie is never right.",
        left_out,
    )


def files_of_benchmark(benchmark: Benchmark, *, config: str = "default", split: str = "test") -> HubFiles:
    """Return the `eval.yaml` that registers a benchmark's dataset on the hub: a task for each metric of a first look.

    Source: huggingface.co/docs/hub/eval-results.

    >>> from tellapart.benchmarks.find import find_benchmark
    >>> lines = files_of_benchmark(find_benchmark("winoground")).files["eval.yaml"].splitlines()
    >>> [line[6:] for line in lines if line.startswith("- id:")]
    ['text_score', 'image_score', 'group_score', 'match_score']
    """
    yaml = require("yaml", extra="hub")
    shape = "" if benchmark.shape is None else f", {benchmark.shape[0]} images by {benchmark.shape[1]} texts each"
    content = {
        "name": benchmark.title,
        "description": f"{benchmark.items:,} records{shape}. Measured with tellapart: a tie is never right. From "
        f"{benchmark.source}. Licence: {benchmark.licence}. Citation: {benchmark.citation}.",
        "evaluation_framework": "tellapart",
        "tasks": [{"id": metric, "config": config, "split": split} for metric in _first_look(benchmark)],
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    description = "Registers this dataset as a benchmark: a task for each metric of tellapart's first look."
    return HubFiles({EVAL: text}, "dataset", f"{benchmark.title} as a benchmark", description)


def _first_look(benchmark: Benchmark) -> list[str]:
    """Return the metrics of every first look that a model of some kind can have here."""
    shape = "" if benchmark.shape is None else f"{benchmark.shape[0]}x{benchmark.shape[1]}"
    rows = [
        row
        for row in find_task(benchmark.task, benchmark.name).headlines
        if all(not shape or name not in METRICS or shape in METRICS[name].shapes for name in row)
    ]
    return list(dict.fromkeys(name for row in rows for name in row))


def _entries_text(entries: list[Any], there: str | None) -> str:
    """Write entries after those of a file that is there already and are of other sets or metrics."""
    hub, yaml = require("huggingface_hub", extra="hub"), require("yaml", extra="hub")
    new = {(entry.dataset_id, entry.task_id) for entry in entries}
    try:
        earlier = [] if there is None else hub.parse_eval_result_entries(yaml.safe_load(there) or [])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunError(f"{RESULTS} in the repository is not a list of results: {first_line(error)}") from error
    remaining = [entry for entry in earlier if (entry.dataset_id, entry.task_id) not in new]
    text: str = yaml.safe_dump(
        hub.eval_result_entries_to_yaml([*remaining, *entries]), sort_keys=False, allow_unicode=True
    )
    return text
