"""One page for each benchmark of the catalogue: what it is, its files, commands, numbers to expect and citation.

The site's hook (`docs/site_pages.py`) makes them at each build; nothing of them is kept. The numbers come from
`docs/baselines.json` (measured here) and `examples/vlue_board/records.toml` (what a paper reports).
"""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from generate import share

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.metrics.metric import Metric
from tellapart.tasks.authors import AUTHORS_METRICS
from tellapart.tasks.registry import TASKS, headline

ROOT = Path(__file__).resolve().parent.parent

#: A model that can be asked, by what the task wants of it.
EXAMPLE_MODELS = {"scores": "open_clip:ViT-B-32-quickgelu/openai"}
WRITES = "Qwen/Qwen2.5-VL-7B-Instruct"


def benchmark_pages() -> dict[str, str]:
    """Return every benchmark's name and its page in Markdown."""
    return {name: benchmark_page(find_benchmark(name)) for name in BENCHMARKS}


def benchmark_page(one: Benchmark) -> str:
    """Return the page of a benchmark in Markdown."""
    title = one.title if one.title.endswith("?") else f"{one.title}."
    citation = f"{one.citation[0].upper()}{one.citation[1:]}."
    paragraphs = [f"# {one.name}", _filled(title), *_facts(one), "## Files", *_files(one), "## Measure it"]
    paragraphs += [*_commands(one), *_expected(one), "## Cite", _filled(citation)]
    return "\n\n".join(paragraphs) + "\n"


def _facts(one: Benchmark) -> Iterator[str]:
    task = TASKS[one.task]
    shape = f", {_count(one.shape[0], 'image')} and {_count(one.shape[1], 'text')} each" if one.shape else ""
    shape += f", {one.true} of them true" if one.true > 1 else ""
    size = f"{one.items:,} {task.noun if one.items == 1 else _plural(task.noun)}" if one.items else "not stated"
    facts = [
        f"**Task:** {task.title}",
        f"**Size:** {size}{shape}",
        f"**Asks for:** {task.output}, of {task.models}",
        *(_metric_fact(metric, one) for metric in _first_metrics(one)),
        f"**Resampled together:** {one.cluster}",
        f"**In its authors' code:** {one.ties}; here a tie is never right",
    ]
    if one.domain:
        rival = f"; its rival is [`{one.rival}`]({one.rival}.md), see `tellapart gap`" if one.rival else ""
        facts.append(f"**Domain:** {one.domain}{rival}")
    yield "\n".join(_bullet(fact) for fact in facts)


def _first_metrics(one: Benchmark) -> list[Metric]:
    """Return the metrics of a first look, of pairs those that need no probability."""
    declared = TASKS[one.task].metrics_for(one.shape, one.true)
    metrics = {metric.name: metric for metric in declared if "similarity" in metric.kinds}
    authors = {metric.name: metric for metric in AUTHORS_METRICS}
    return [metrics[name] if name in metrics else authors[name] for name in one.official or headline(set(metrics))]


def _metric_fact(metric: Metric, one: Benchmark) -> str:
    chance = metric.chance(one.shape, one.true) if one.shape else metric.chance_level
    level = f"; chance is {100 * chance:.4g} %" if isinstance(chance, float | int) else ""
    return f"**`{metric.name}`:** {metric.title}{level}"


def _files(one: Benchmark) -> Iterator[str]:
    if not one.files:
        yield f"None are needed: it is {one.source}. Licence: {one.licence}."
        return
    files = [" or ".join(f"`{name}`" for name in names.split("|")) for names in one.files]
    facts = [f"**Annotations:** {', '.join(files)}", f"**Images:** {one.images}", f"**From:** {_link(one.source)}"]
    if one.hub:
        gated = "; gated: accept its conditions there, and set `HF_TOKEN`" if one.hub.gated else ""
        facts.append(f"**On the hub:** [{one.hub.repo}]({one.hub.page}) at revision `{one.hub.revision[:12]}`{gated}")
    facts.append(f"**Licence:** {one.licence}")
    yield "\n".join(_bullet(fact) for fact in facts)
    if one.hub is None:
        yield _filled(
            "Name the folder of the annotations with `--data` and that of the images with `--images`; "
            "[how they are looked for](../benchmarks.md#files)."
        )


def _commands(one: Benchmark) -> Iterator[str]:
    task = TASKS[one.task]
    model = EXAMPLE_MODELS.get(task.output, WRITES) + (" --reading choice" if one.task == "choice" else "")
    place = " --data DIR --images DIR" if one.files and one.hub is None else ""
    data = " --data DIR" if one.files and one.hub is None else ""
    suffix = ".csv" if ".csv" in task.suffixes else task.suffixes[0]
    exported = "queries.jsonl" if suffix in (".npz", ".jsonl") else f"answers{suffix}"
    lines = [
        f"$ tellapart run -b {one.name} -m {model}{place} --out runs/mine",
        f"$ tellapart export {one.name}{data} --to {exported}",
        f"$ tellapart score {one.name} --scores answers{suffix} --name mine{data} --out runs/mine",
    ]
    yield "```console\n" + "\n".join(lines) + "\n```"
    yield _filled(
        "The first command measures a model here. The other two are for a system that lives elsewhere: `export` writes "
        f"what is to be scored or answered, and `score` measures a file of the results ({', '.join(task.suffixes)})."
    )


def _expected(one: Benchmark) -> Iterator[str]:
    """Yield the numbers to expect: of baselines that were measured here, and of a paper's models."""
    tables = [*_measured(one), *_published(one)]
    if tables:
        yield "## Numbers to expect"
        yield _filled(
            "In percent; in brackets, with ties broken at random. No baseline looks at an image; "
            f"[what they are](../benchmarks.md#{'words-alone' if one.task == 'pairs' else 'answers-without-looking'})."
        )
        yield from tables


def _measured(one: Benchmark) -> Iterator[str]:
    """Yield what the baselines get that look at no image, or at no order of words; and what those of a task say."""
    shown = [metric.name for metric in _first_metrics(one)]
    if one.task == "pairs":
        systems = _baselines()["benchmarks"].get(one.name, {}).get("models", {})
        said = []
    else:
        record = _baselines()["tasks"]["benchmarks"].get(one.name, {})
        drawn = {metric: {"value": value} for metric, value in record.get("chance", {}).items() if metric in shown}
        chance = {"chance": {"knows": "nothing", "says": "drawn evenly", "metrics": drawn}} if drawn else {}
        known = chance | record.get("systems", {})
        systems = {name: system["metrics"] for name, system in known.items()}
        said = [
            f"`{name}` knows {system['knows']}; it says: {system['says']}."
            for name, system in record.get("systems", {}).items()
        ]
    rows = [
        [f"`{name}`", *(share(numbers[metric]) if metric in numbers else "" for metric in shown)]
        for name, numbers in systems.items()
    ]
    if rows:
        yield _table("baseline", shown, rows)
    if said:
        yield "\n".join(map(_bullet, said))


def _published(one: Benchmark) -> Iterator[str]:
    """Yield what the VLUE paper reports of its models."""
    reported = _vlue()
    rows = {model["name"]: model["scores"][one.name] for model in reported["models"] if one.name in model["scores"]}
    metrics = list(dict.fromkeys(name for scores in rows.values() for name in scores if name != "by"))
    if metrics:
        yield f"Reported by {reported['source']}:"
        yield _table(
            "model",
            metrics,
            [[name, *(f"{100 * row[k]:.2f}" if k in row else "" for k in metrics)] for name, row in rows.items()],
        )


@cache
def _baselines() -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads((ROOT / "docs" / "baselines.json").read_text(encoding="utf-8"))
    return record


@cache
def _vlue() -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "examples" / "vlue_board" / "records.toml").read_text(encoding="utf-8"))


def _table(first: str, metrics: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown: a column of names, then one of numbers for each metric."""
    lines = [[first, *(f"`{name}`" for name in metrics)], ["---", *["--:"] * len(metrics)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _bullet(text: str) -> str:
    return textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False)


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _link(source: str) -> str:
    return f"<{source}>" if source.startswith("https://") else source


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
