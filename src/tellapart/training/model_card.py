"""The model card of a trained model, `model/README.md`, whose every sentence comes from the run's record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tellapart.errors import plain
from tellapart.evaluation.compare import MetricComparison
from tellapart.report.numbers import points
from tellapart.report.why import reason_rows
from tellapart.training.losses.loss import FusionLoss, find_loss
from tellapart.training.record import TrainRecord

_FEW = 10


def model_card(record: TrainRecord) -> str:
    """Return a card in Markdown, with the hub's front matter.

    The licence is `unknown` unless `report.licence` names one: it is not the start's alone to give.

    Source: Mitchell et al. (2019), Model cards for model reporting; the sections that a record can fill.
    """
    sections = (
        _describe_origin,
        _describe_validation,
        _list_settings,
        _compare_start,
        _describe_match,
        _describe_sweep,
        _describe_leaks,
        _describe_reproduction,
    )
    blocks = [block for section in sections for block in section(record)]
    return "\n\n".join([_front_matter(record), *blocks]) + "\n"


def _front_matter(record: TrainRecord) -> str:
    report, base, loss = (
        _config_table(record, "report"),
        str(record.config["model"]),
        str(_config_table(record, "loss")["name"]),
    )
    lines = ["---", f"license: {report.get('licence') or 'unknown'}"]
    if _on_the_hub(base):
        lines.append(f"base_model: {base.removeprefix('hf-hub:')}")
    if not isinstance(find_loss(loss), FusionLoss):  # the hub has no name for the task of a matching head
        lines.append("pipeline_tag: zero-shot-image-classification")
    tags = ("tellapart", "image-text", "minimal-pairs", loss, *(["transductive"] if record.transductive else []))
    return "\n".join([*lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _describe_origin(record: TrainRecord) -> Iterator[str]:
    table, data, release = _config_table(record, "data"), record.data, record.versions.get("tellapart", "")
    loss, sources = (
        _config_table(record, "loss")["name"],
        ", ".join(f"`{_escape_code(name)}`" for name in table["train"]),
    )
    start = f"from `{_escape_code(record.config['model'])}`"
    yield f"# {record.config['name']}"
    yield (
        f"Trained by `tellapart train` {release} {start} with the loss `{loss}`, to tell\n"
        "almost identical pairs of images and texts apart. The fingerprint of the weights that it began with is\n"
        f"`{_escape_code(record.start)}`."
    )
    if record.transductive:
        yield "\n".join(f"- {_escape_cell(line)}" for line in record.describe_transductive())
    yield "## What it was trained on"
    share = table.get("share", 1)
    yield (
        f"{data.rows:,} pairs of {data.images:,} images and their captions, in {data.items:,} items, from {sources}\n"
        f"(SHA-256 `{data.fingerprint[:16]}`)."
    ) + (
        f"\nThey are about {100 * share:.0f} % of the clusters; the others were kept to choose weights by."
        if share < 1
        else ""
    )
    if data.duplicates and (counts := data.duplicates.describe()):
        masked = table.get("duplicates") == "masked"
        fate = "are never each other's negatives" if masked else "counted as each other's negatives, as released"
        yield f"Of these, {counts}. Equal captions and pictures {fate} (`data.duplicates`)."


def _describe_validation(record: TrainRecord) -> Iterator[str]:
    smoke = f" It is a smoke run, stopped by `--limit {record.limit}`." if record.limit else ""
    value = record.describe_validation()
    if value is None:
        yield f"The weights are those after the last of {record.steps:,} steps; there was no validation set.{smoke}"
    else:
        yield (
            f"The weights are those after step {record.best_step:,} of {record.steps:,}: the best of "
            f"{len(record.history)} measurements on a validation set, with {_escape_cell(value)}, ties counted as "
            f"wrong.{smoke}"
        )
    leak = record.data.validation_leak
    if leak is not None and leak.describe_choice():
        yield f"{len(leak.same) + len(leak.alike):,} training images are pictures of that set, or look like one."


def _list_settings(record: TrainRecord) -> Iterator[str]:
    yield "## Settings"
    if preset := record.config.get("preset"):
        yield f"Preset `{preset}`; all values, the preset's among them:"
    yield _markdown_table(
        ("key", "value"), [(f"`{key}`", f"`{_escape_code(value)}`") for key, value in settings_of(record)]
    )


def settings_of(record: TrainRecord) -> Iterator[tuple[str, Any]]:
    """Yield the settings that decide the weights, in the configuration's keys; empty values are left out."""
    for key, value in record.config.items():
        if key in {"loss", "matching", "optimiser", "batch", "lora", "data"} and isinstance(value, dict):
            for name, entry in value.items():
                if name not in {"train", "images"} and entry not in (None, [], False):
                    yield f"{key}.{name}", entry
            if key == "lora":
                yield "lora: updated", record.updated
        elif key in {"seed", "precision", "device", "reading"} and value is not None:
            yield key, value


def _compare_start(record: TrainRecord) -> Iterator[str]:
    comparison = record.comparison
    if comparison is None:
        yield (
            "Nothing was measured before and after (`report.benchmarks` is empty): what it lost elsewhere is not known."
        )
        return
    yield "## Before and after"
    yield "Percent, ties counted as wrong; paired 95 % intervals over the same items; p two-sided, Holm over all rows."
    headings = ("benchmark", "metric", "items", "before", "after", "difference", "p (Holm)")
    yield _markdown_table(headings, [_comparison_row(row) for row in comparison.rows], numbers_from=2)
    yield (
        f"Better, p after Holm below .05: {_join_rows(record.gained)}.\n"
        f"Worse, p after Holm below .05: {_join_rows(record.lost)}."
    ) + (
        f"\nMeasured on one side alone, and so not compared: {', '.join(comparison.unshared)}."
        if comparison.unshared
        else ""
    )


def _describe_match(record: TrainRecord) -> Iterator[str]:
    if record.why is None:
        return
    yield "## What moved: the match, or a prior"
    yield (
        "Percent of square items. The match is due to the right pairing; a prior prefers a caption whatever the\n"
        "picture, or a picture whatever the caption."
    )
    for name in dict.fromkeys(row.benchmark for row in record.why.rows):
        rows = [row for row in record.why.rows if row.benchmark == name]
        headings = (_escape_cell(name), *(row.model for row in rows))
        yield _markdown_table(headings, [(head, *cells) for head, cells in reason_rows(rows)], numbers_from=1)
    for row in record.why.differences:
        moved = f"{points(row.difference, row.low, row.high)} points, p {row.p_holm:.3g} (Holm)"
        yield f"Items of {_escape_cell(row.benchmark)} that {row.what}: {moved}."


def _comparison_row(row: MetricComparison) -> tuple[str, ...]:
    change = points(row.difference, row.low, row.high, row.reason)
    numbers = (f"{row.n:,}", f"{100 * row.a:.2f}", f"{100 * row.b:.2f}", change, row.p_holm_text)
    return _escape_cell(row.benchmark), row.metric, *numbers


def _join_rows(rows: Sequence[MetricComparison]) -> str:
    return ", ".join(f"{_escape_cell(row.benchmark)} {row.metric}" for row in rows) or "nothing"


def _describe_sweep(record: TrainRecord) -> Iterator[str]:
    sweep = record.sweep
    if sweep is None:
        return
    yield "## Between the start and these weights"
    yield (
        "Weights interpolated as in WiSE-FT: 0 is the start, 1 are these. "
        "Means of each benchmark's headline metrics, percent."
    )
    rows = [(f"{alpha:.2f}", *(f"{100 * value:.2f}" for value in values)) for alpha, values in sweep.curve.items()]
    yield _markdown_table(("alpha", *map(_escape_cell, sweep.benchmarks)), rows, numbers_from=0)
    yield f"Pareto-best is {sweep.best:.2f}. It was chosen on these very numbers, so they flatter it."


def _describe_leaks(record: TrainRecord) -> Iterator[str]:
    yield "## Images shared with what is reported"
    leaks = [leak for leak in record.leaks if leak.same or leak.alike]
    if not _config_table(record, "report").get("benchmarks"):
        yield "No benchmark is reported, so none was compared with the training images."
    elif not leaks:
        yield (
            "None: every training image was compared with every picture of the benchmarks, by its pixels and its looks."
        )
    else:
        yield (
            "**Training images are pictures of what is reported** (`--allow-leak`, or `test_time_matching`): "
            "those numbers say nothing of unseen pairs."
        )
        rows = [
            (_escape_cell(leak.benchmark), f"{leak.images:,}", *map(_join_few, (leak.same, leak.alike)))
            for leak in leaks
        ]
        yield _markdown_table(("benchmark", "its pictures", "the same to the pixel", "alike"), rows)


def _join_few(names: Sequence[str]) -> str:
    few = ", ".join(map(_escape_cell, names[:_FEW]))
    return f"{len(names):,}" + (f": {few}{' ...' if len(names) > _FEW else ''}" if names else "")


def _describe_reproduction(record: TrainRecord) -> Iterator[str]:
    machine, versions = record.machine, ", ".join(f"{name} {number}" for name, number in record.versions.items())
    on = machine.accelerator or f"{machine.processor}, {machine.cores} cores"
    ranks = "" if record.ranks == 1 else f", {record.ranks} ranks"
    yield "## To make it again"
    yield (
        f"{record.seconds:,.0f} s{' since it was resumed' if record.resumed else ''} on {on}{ranks}; {versions}.\n"
        f"The run's fingerprint (configuration, data, start, version) is `{record.fingerprint}`; all of it is in the\n"
        "run's `record.json`."
    )


def _config_table(record: TrainRecord, key: str) -> dict[str, Any]:
    table = record.config[key]
    return table if isinstance(table, dict) else {}


def _on_the_hub(name: str) -> bool:
    """Whether a start's name is a repository's: `openai/clip-vit-base-patch32` or `hf-hub:org/repo`."""
    owner, slash, repository = name.removeprefix("hf-hub:").partition("/")
    return bool(owner and slash and repository) and not set(":/") & set(owner + repository)


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> str:
    right = len(headings) if numbers_from is None else numbers_from
    rule = "|" + "|".join("---:" if column >= right else "---" for column in range(len(headings))) + "|"
    first, *lines = ("| " + " | ".join(row) + " |" for row in (headings, *rows))
    return "\n".join([first, rule, *lines])


def _escape_cell(text: str) -> str:
    """Keep a name from ending its cell or its line, and from being read as markup."""
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>" else letter for letter in plain(" ".join(text.split())))


def _escape_code(value: object) -> str:
    """Do the same inside backticks: there only these two and a line's end do harm."""
    return plain(" ".join(str(value).split())).replace("`", "'").replace("|", "\\|")
