"""One page for each benchmark of the catalogue, made at each build of the site: facts, commands, numbers, citation."""

import json
import tomllib
from pathlib import Path

from generate import share
from speed_tables import fill_table, write_pages_text

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
    record = BASELINES["benchmarks"].get(one.name) or BASELINES["tasks"]["benchmarks"].get(one.name, {})
    names, chance = [metric.name for metric in metrics], record.get("chance", {})
    systems = {"chance": {name: {"value": chance[name]} for name in names if name in chance}}
    systems |= record.get("models", {}) | {name: each["metrics"] for name, each in record.get("systems", {}).items()}
    values = {
        "files": ", ".join(" or ".join(f"`{name}`" for name in names.split("|")) for names in one.files),
        "metrics": list(zip(metrics, chances, strict=True)),
        "suffix": ".csv" if ".csv" in task.suffixes else task.suffixes[0],
        "shown": names,
        "record": record,
        "systems": {f"`{name}`": numbers for name, numbers in systems.items() if numbers},
        "published": {row["name"]: row["scores"][one.name] for row in VLUE["models"] if one.name in row["scores"]},
        "source": VLUE["source"],
        "share": share,
    }
    size = f"{one.items:,} {noun}" if one.items else "not stated"
    return write_pages_text([fill_table("benchmark", one=one, task=task, model=model, size=size, **values)])


def _first_metrics(one: Benchmark) -> list[Metric]:
    """Return the metrics of a first look, of pairs those that need no probability."""
    declared = TASKS[one.task].metrics_for(one.shape, one.true)
    metrics = {metric.name: metric for metric in declared if "similarity" in metric.kinds}
    authors = {metric.name: metric for metric in AUTHORS_METRICS}
    return [metrics[name] if name in metrics else authors[name] for name in one.official or headline(set(metrics))]
