"""The model card of a trained model, `model/README.md`: every sentence of it is read from the run's record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tellapart.evaluation.compare import Row
from tellapart.train.matching import is_matching
from tellapart.train.record import TrainRecord

__all__ = ["model_card"]

_FEW = 10


def model_card(record: TrainRecord) -> str:
    """Return a card in Markdown, with the hub's front matter.

    The licence is `unknown` unless `report.licence` names one: it is not the start's alone to give.

    Source: Mitchell et al. (2019), Model cards for model reporting; the sections that a record can fill.

    >>> model_card.__name__
    'model_card'
    """
    sections = (_begun, _learnt, _settings, _changed, _between, _shared, _again)
    body = [line for section in sections for line in section(record)]
    return "\n".join([*_front_matter(record), *body]) + "\n"


def _front_matter(record: TrainRecord) -> Iterator[str]:
    """The hub reads YAML between two rules; a string in JSON's quotes is one in YAML, too."""
    report, base = _table(record, "report"), str(record.config["model"])
    yield "---"
    yield f"license: {report.get('licence') or 'unknown'}"
    if _on_the_hub(base):
        yield f"base_model: {base.removeprefix('hf-hub:')}"
    if not is_matching(str(_table(record, "loss")["name"])):  # the hub has no name for what a matching head does
        yield "pipeline_tag: zero-shot-image-classification"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("tellapart", "image-text", "minimal-pairs", str(_table(record, "loss")["name"])))
    yield "---"
    yield ""


def _begun(record: TrainRecord) -> Iterator[str]:
    yield f"# {record.config['name']}"
    yield ""
    told = _table(record, "data")
    loss, sources = _table(record, "loss")["name"], ", ".join(f"`{_code(name)}`" for name in told["train"])
    start = f"from `{_code(record.config['model'])}` (weights `{record.start[:12]}`)"
    yield f"Trained by `tellapart train` {record.versions.get('tellapart', '')} {start} with the loss `{loss}`, to tell"
    yield "almost identical pairs of images and texts apart."
    yield ""
    yield "## What it was trained on"
    yield ""
    data = record.data
    yield f"{data.rows:,} pairs of {data.images:,} images and their captions, in {data.items:,} items, from {sources}"
    yield f"(SHA-256 `{data.fingerprint[:16]}`)."
    if told.get("share", 1) < 1:
        yield f"They are about {100 * told['share']:.0f} % of the clusters; the others were kept to choose weights by."
    yield ""


def _learnt(record: TrainRecord) -> Iterator[str]:
    smoke = f" It is a smoke run, stopped by `--limit {record.limit}`." if record.limit else ""
    if record.best is None or record.data.validation is None:
        yield f"The weights are those after the last of {record.steps:,} steps; there was no validation set.{smoke}"
    else:
        yield (
            f"The weights are those after step {record.best_step:,} of {record.steps:,}: the best of "
            f"{len(record.history)} measurements on a validation set of {record.data.validation:,} items, "
            f"{100 * record.best:.2f} %, ties counted as wrong.{smoke}"
        )
    yield ""


def _settings(record: TrainRecord) -> Iterator[str]:
    yield "## Settings"
    yield ""
    preset = record.config.get("preset")
    if preset:
        yield f"Preset `{preset}`; all values, the preset's among them:"
        yield ""
    yield from _markdown(("key", "value"), [(f"`{key}`", f"`{_code(value)}`") for key, value in _told(record.config)])


def _told(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What decides the weights, in the configuration's own keys; what was left at nothing is left out."""
    for key, value in config.items():
        if key in {"loss", "matching", "optimiser", "batch", "lora", "data"} and isinstance(value, dict):
            given = {name: each for name, each in value.items() if name not in {"train", "images"}}
            yield from ((f"{key}.{name}", each) for name, each in given.items() if each not in (None, [], False))
        elif key in {"seed", "precision", "device", "reading"} and value is not None:
            yield key, value


def _changed(record: TrainRecord) -> Iterator[str]:
    comparison = record.comparison
    if comparison is None:
        yield "Nothing was measured before and after (`report.benchmarks` is empty): what it lost elsewhere is not known."
        yield ""
        return
    yield "## Before and after"
    yield ""
    yield "Percent, ties counted as wrong; paired 95 % intervals over the same items; p two-sided, Holm over all rows."
    yield ""
    headings = ("benchmark", "metric", "items", "before", "after", "difference", "p (Holm)")
    yield from _markdown(headings, [_row(row) for row in comparison.rows], numbers_from=2)
    lost = [row for row in comparison.rows if row.high is not None and row.high < 0]
    kept = [row for row in comparison.rows if row.low is not None and row.low > 0]
    yield f"Better beyond doubt (the interval lies above 0): {_rows(kept)}."
    yield f"Forgotten beyond doubt (the interval lies below 0): {_rows(lost)}."
    if comparison.unshared:
        yield f"Measured on one side alone, and so not compared: {', '.join(comparison.unshared)}."
    yield ""


def _row(row: Row) -> tuple[str, ...]:
    bounds = "" if row.low is None or row.high is None else f" [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
    change = f"{100 * row.difference:+.2f}{bounds}"
    p = f"{row.p_holm:.3g}"
    return _cell(row.benchmark), row.metric, f"{row.n:,}", f"{100 * row.b:.2f}", f"{100 * row.a:.2f}", change, p


def _rows(rows: Sequence[Row]) -> str:
    return ", ".join(f"{_cell(row.benchmark)} {row.metric}" for row in rows) or "nothing"


def _between(record: TrainRecord) -> Iterator[str]:
    sweep = record.sweep
    if sweep is None:
        return
    yield "## Between the start and these weights"
    yield ""
    yield "Weights interpolated as in WiSE-FT: 0 is the start, 1 are these. Means of each benchmark's headline metrics, percent."
    yield ""
    rows = [(f"{alpha:.2f}", *(f"{100 * value:.2f}" for value in values)) for alpha, values in sweep.curve.items()]
    yield from _markdown(("alpha", *map(_cell, sweep.benchmarks)), rows, numbers_from=0)
    yield f"Pareto-best is {sweep.best:.2f}. It was chosen on these very numbers, so they flatter it."
    yield ""


def _shared(record: TrainRecord) -> Iterator[str]:
    report = _table(record, "report")
    yield "## Images shared with what is reported"
    yield ""
    found = [leak for leak in record.leaks if leak.same or leak.alike]
    if not report.get("benchmarks"):
        yield "No benchmark is reported, so none was compared with the training images."
    elif not found:
        yield "None: every training image was compared with every picture of the benchmarks, by its pixels and its looks."
    else:
        yield "**Training images are pictures of what is reported** (`--allow-leak`): those numbers say nothing of unseen pairs."
        yield ""
        rows = [(_cell(leak.benchmark), f"{leak.images:,}", *map(_names, (leak.same, leak.alike))) for leak in found]
        yield from _markdown(("benchmark", "its pictures", "the same to the pixel", "alike"), rows)
    yield ""


def _names(names: Sequence[str]) -> str:
    few = ", ".join(map(_cell, names[:_FEW]))
    return f"{len(names):,}" + (f": {few}{' ...' if len(names) > _FEW else ''}" if names else "")


def _again(record: TrainRecord) -> Iterator[str]:
    machine, versions = record.machine, ", ".join(f"{name} {found}" for name, found in record.versions.items())
    on = machine.accelerator or f"{machine.processor}, {machine.cores} cores"
    ranks = "" if record.ranks == 1 else f", {record.ranks} ranks"
    yield "## To make it again"
    yield ""
    yield f"{record.seconds:,.0f} s{' since it was resumed' if record.resumed else ''} on {on}{ranks}; {versions}."
    yield f"The run's fingerprint (configuration, data, start, version) is `{record.fingerprint}`; all of it stands in the run's"
    yield "`record.json`."


def _table(record: TrainRecord, key: str) -> dict[str, Any]:
    found = record.config[key]
    return found if isinstance(found, dict) else {}


def _on_the_hub(name: str) -> bool:
    """Whether a start's name is a repository's: `openai/clip-vit-base-patch32` or `hf-hub:org/repo`."""
    owner, slash, repository = name.removeprefix("hf-hub:").partition("/")
    return bool(owner and slash and repository) and not set(":/") & set(owner + repository)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> Iterator[str]:
    right = len(headings) if numbers_from is None else numbers_from
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "|".join("---:" if place >= right else "---" for place in range(len(headings))) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def _cell(text: str) -> str:
    """Keep a name from ending its cell or its line, and from being read as markup."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>" else letter for letter in plain)


def _code(value: object) -> str:
    """The same inside backticks, where only these two and a line's end do harm."""
    return (
        "".join(letter if letter.isprintable() else " " for letter in str(value)).replace("`", "'").replace("|", "\\|")
    )
