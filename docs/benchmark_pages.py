"""One page for each benchmark of the catalogue, made at each build of the site: facts, commands, numbers, citation."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from generate import share
from jinja2 import Environment, FileSystemLoader
from speed_tables import make_table, write_pages_text

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.metrics.metric import Metric
from tellapart.tasks.authors import AUTHORS_METRICS
from tellapart.tasks.registry import TASKS, headline

ROOT = Path(__file__).resolve().parent.parent
BASELINES = json.loads((ROOT / "docs" / "baselines.json").read_text(encoding="utf-8"))
VLUE = tomllib.loads((ROOT / "examples" / "vlue_board" / "records.toml").read_text(encoding="utf-8"))

#: A model that can be asked, by what the task wants of it.
EXAMPLE_MODELS = {"scores": "open_clip:ViT-B-32-quickgelu/openai"}
WRITES = "Qwen/Qwen2.5-VL-7B-Instruct"


def benchmark_pages() -> dict[str, str]:
    """Return every benchmark's name and its page in Markdown."""
    return {name: benchmark_page(find_benchmark(name)) for name in BENCHMARKS}


def benchmark_page(one: Benchmark) -> str:
    """Return the page of a benchmark in Markdown."""
    task = TASKS[one.task]
    noun = task.noun if one.items == 1 else f"{task.noun[:-1]}ies" if task.noun.endswith("y") else f"{task.noun}s"
    model = EXAMPLE_MODELS.get(task.output, WRITES) + (" --reading choice" if one.task == "choice" else "")
    metrics = _first_metrics(one)
    chances = [metric.chance(one.shape, one.true) if one.shape else metric.chance_level for metric in metrics]
    values = {
        "files": ", ".join(" or ".join(f"`{name}`" for name in names.split("|")) for names in one.files),
        "metrics": list(zip(metrics, chances, strict=True)),
        "suffix": ".csv" if ".csv" in task.suffixes else task.suffixes[0],
        "tables": [*_measured(one), *_published(one)],
    }
    size = f"{one.items:,} {noun}" if one.items else "not stated"
    page = _TEMPLATES.get_template("benchmark.md.j2").render(one=one, task=task, model=model, size=size, **values)
    return write_pages_text([page])


_TEMPLATES = Environment(loader=FileSystemLoader(ROOT / "docs" / "templates"), trim_blocks=True)
_TEMPLATES.filters["count_of"] = lambda number, noun: f"{number} {noun if number == 1 else noun + 's'}"


def _first_metrics(one: Benchmark) -> list[Metric]:
    """Return the metrics of a first look, of pairs those that need no probability."""
    declared = TASKS[one.task].metrics_for(one.shape, one.true)
    metrics = {metric.name: metric for metric in declared if "similarity" in metric.kinds}
    authors = {metric.name: metric for metric in AUTHORS_METRICS}
    return [metrics[name] if name in metrics else authors[name] for name in one.official or headline(set(metrics))]


def _measured(one: Benchmark) -> Iterator[str]:
    """Yield what the baselines get that look at no image, or at no order of words; and what those of a task say."""
    shown = [metric.name for metric in _first_metrics(one)]
    if one.task == "pairs":
        systems = BASELINES["benchmarks"].get(one.name, {}).get("models", {})
        said = []
    else:
        record = BASELINES["tasks"]["benchmarks"].get(one.name, {})
        measured = record.get("systems", {})
        drawn = {metric: {"value": value} for metric, value in record.get("chance", {}).items() if metric in shown}
        systems = ({"chance": drawn} if drawn else {}) | {name: one["metrics"] for name, one in measured.items()}
        said = [f"- `{name}` knows {one['knows']}; it says: {one['says']}." for name, one in measured.items()]
    rows = [
        [f"`{name}`", *(share(numbers[metric]) if metric in numbers else "" for metric in shown)]
        for name, numbers in systems.items()
    ]
    if rows:
        yield _table("baseline", shown, rows)
    if said:
        yield "\n".join(said)


def _published(one: Benchmark) -> Iterator[str]:
    """Yield what the VLUE paper reports of its models."""
    reported = VLUE
    rows = {model["name"]: model["scores"][one.name] for model in reported["models"] if one.name in model["scores"]}
    metrics = list(dict.fromkeys(name for scores in rows.values() for name in scores if name != "by"))
    if metrics:
        yield f"Reported by {reported['source']}:"
        cells = ((name, *(f"{100 * row[k]:.2f}" if k in row else "" for k in metrics)) for name, row in rows.items())
        yield _table("model", metrics, cells)


def _table(first: str, metrics: list[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown: a column of names, then one of numbers for each metric."""
    return make_table([first, *(f"`{name}`" for name in metrics)], "l" + "|r" * len(metrics), rows)
