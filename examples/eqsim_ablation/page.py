"""The page of the ablation, made of its record and of the test pairs' aspects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.outcomes import DRAWS, Interval, group, paired, parts
from examples.eqsim_ablation.plan import Method, fine_tuning, methods
from tellapart.benchmarks.find import load_pairs

__all__ = ["DRAWING", "PAGE", "PAPER", "RECORD", "page"]

#: The outcomes of the runs.
RECORD = Path(__file__).with_name("record.json")

#: The page that is made of it, and its drawing.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "eqsim_ablation.md"
DRAWING = PAGE.with_suffix(".svg")

#: Group scores in percent of FIBER on Eq-Kubric's location, counting and attribute (EqSim, Table 6).
PAPER = {
    "ft": (8.95, 28.49, 66.54),
    "hardneg": (10.89, 29.49, 67.69),
    "v1-all": (9.79, 29.94, 68.75),
    "v2-all": (10.25, 29.05, 68.30),
    "v2-close": (11.15, 29.25, 69.25),
    "eqsim": (11.05, 30.90, 70.20),
}

#: Group score of random draws: both true scores above both false ones, 4 of the 24 orders.
_RANDOM = 1 / 6

#: The paper's columns.
_ASPECTS = ("location", "counting", "attribute")

Masks = Mapping[str, NDArray[np.bool_]]


def page(record: Mapping[str, Any]) -> str:
    """Return the page in markdown.

    Raises:
        KeyError: the record lacks a run.
    """
    runs = record["runs"]
    rows = [row for row in methods() if any(run["method"] == row.name for run in runs)]
    masks = parts(load_pairs(record["test"]))
    blocks = [
        _introduction(record, rows),
        "## Group score\n",
        _scores(record, rows, masks),
        "## Differences\n",
        _differences(runs, rows, masks),
        "## What the regularisation said\n",
        _regularisation(runs, rows),
        "## Equivariance\n",
        _equivariance(record, rows),
        "## Cost\n",
        _costs(record, rows),
    ]
    return "\n\n".join(map(_wrap, "\n".join(blocks).split("\n\n")))


def _wrap(block: str) -> str:
    """Fill the lines of a paragraph or of a list; tables, code and headings are unchanged."""
    if block.lstrip().startswith(("|", "#", "<", "`", "!")):
        return block
    if block.startswith("- "):
        return "\n".join(_fill(line, "  ") for line in block.split("\n"))
    end = "\n" if block.endswith("\n") else ""
    return _fill(" ".join(block.split()), "") + end


def _fill(text: str, indent: str) -> str:
    return fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _introduction(record: Mapping[str, Any], rows: Sequence[Method]) -> str:
    about, seeds, start = record["about"], len({run["seed"] for run in record["runs"]}), record["start"]
    tuned = fine_tuning(rows[0], 0, Path(), "")
    steps, size, pairs = tuned.optimiser.steps or 0, tuned.batch.size, record["train"]["pairs"]
    packages = ", ".join(f"{name} {value}" for name, value in about["packages"].items())
    listed = "\n".join(f"- **{row.title}**: {row.about}" for row in rows)
    return f"""# EqSim's ablation in miniature

<!-- Made by examples/eqsim_ablation/run.py from its record.json; edit neither this page nor the record. -->

Does EqSim's regularisation help a dual encoder to tell minimal pairs apart, and which part of it? The paper asks this
of FIBER on Eq-Kubric (Table 6); here the same question is put to a small CLIP (a ResNet and a text transformer, 96
pixels) on rendered scenes that differ in one location, count or attribute. One command does everything, on two CPU
cores:

```console
$ python -m examples.eqsim_ablation.run
```

One model is pre-trained by contrast on {record["train"]["items"]} quadruples ({pairs:,} pairs); its weights after step
{start["best_step"]} are the common start. Each row fine-tunes that start with {seeds} seeds: {steps} steps of {size}
pairs, {steps * size / pairs:.1f} passes over the training pairs, which is short, and what two busy cores can do.
Weights are chosen by the group score on 180 validation scenes, and measured once on the 300 pairs of `demo`: scenes of
another seed, half of them with combinations that no training scene has. Pictures that the sets share are refused. No
weight of a loss was tuned: all are the losses' defaults, except where the list gives others.

{listed}

{packages}, Python {about["python"]}, {about["machine"]}, {about["threads"]} thread a run.
"""


def _scores(record: Mapping[str, Any], rows: Sequence[Method], masks: Masks) -> str:
    columns = list(masks)
    sizes = " | ".join(f"{name} ({int(mask.sum())})" for name, mask in masks.items())
    lines = [f"| | {sizes} | paper: location, counting, attribute |", "|---|" + "---|" * (len(columns) + 1)]
    for title, run in (("start", record["start"]), ("the bundled `demo-encoder`", record["bundled"])):
        right = group(run, len(masks["all"]))
        cells = (f"{100 * right[masks[name]].mean():.1f}" for name in columns)
        lines.append(f"| {title} | {' | '.join(cells)} | |")
    for row in rows:
        outcomes = _of(record["runs"], row, masks)
        cells = (_mean_sd([100 * right[masks[name]].mean() for right in outcomes]) for name in columns)
        paper = ", ".join(f"{value:.2f}" for value in PAPER.get(row.name, ()))
        lines.append(f"| {row.title} | {' | '.join(cells)} | {paper} |")
    return (
        "\n".join(lines)
        + "\n\nPercent of items with both captions and both images told apart, ties wrong: mean ± standard deviation "
        "over seeds. A model that draws at random gets 16.7. `seen` and `held out` are combinations that training "
        "scenes have "
        "and have not. The bundled encoder was trained longer, on more scenes and with more losses; it is not a row.\n"
        + _untaught(record, masks)
    )


def _untaught(record: Mapping[str, Any], masks: Masks) -> str:
    """Say on which aspects the start is no better than a draw: there a row can show little."""
    right = group(record["start"], len(masks["all"]))
    aspects = [name for name in _ASPECTS if name in masks and right[masks[name]].mean() <= _RANDOM]
    if not aspects:
        return ""
    return (
        f"\nThe start does no better than random draws on {' and '.join(aspects)}: at this size of model, data and "
        "training it has not learnt them, and these columns show little of a loss.\n"
    )


def _differences(runs: Sequence[Mapping[str, Any]], rows: Sequence[Method], masks: Masks) -> str:
    lines = ["| | " + " | ".join(masks) + " |", "|---|" + "---|" * len(masks)]
    clear: dict[bool, list[str]] = {True: [], False: []}
    compared = [(row, rows[0]) for row in rows[1:]]
    compared += [(row, base) for row in rows for base in rows if base.name == row.against]
    for row, base in compared:
        ours, theirs, cells = _of(runs, row, masks), _of(runs, base, masks), []
        title = f"{row.title} - {base.title}"
        for name, mask in masks.items():
            interval = paired([right[mask] for right in ours], [right[mask] for right in theirs])
            cells.append(_interval(interval))
            if interval.excludes_zero:
                clear[interval.value > 0].append(f"{title} on {name}")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    sentences = [
        f"Intervals wholly {'above' if above else 'below'} zero: {'; '.join(names) if names else 'none'}."
        for above, names in clear.items()
    ]
    count, excluding = len(compared) * len(masks), sum(map(len, clear.values()))
    sentences.append(
        f"{excluding} of {count} intervals leave zero out; if no loss differed from another, about {0.05 * count:.0f} "
        "would."
    )
    return (
        "\n".join(lines)
        + f"\n\nPoints, with 95 % intervals: a percentile bootstrap of {DRAWS:,} draws over seeds and items at once, "
        "of "
        "the same seeds and items for both. Few seeds make such an interval too narrow rather than too wide, and no "
        "interval is "
        "widened for their number.\n\n" + "\n\n".join(sentences) + "\n"
    )


def _regularisation(runs: Sequence[Mapping[str, Any]], rows: Sequence[Method]) -> str:
    lines = ["| | part | first quarter | last quarter |", "|---|---|---|---|"]
    for row in rows:
        mine = [run["parts"] for run in runs if run["method"] == row.name]
        for part in mine[0]:
            values = np.array([one[part] for one in mine]).mean(0)
            lines.append(f"| {row.title} | `{part}` | {values[0]:.3g} | {values[1]:.3g} |")
    return (
        "\n".join(lines)
        + "\n\nParts of the loss, each with its weight: means over the first and the last quarter of the steps, and "
        "over "
        "seeds. A part of zero changes nothing, at any weight.\n" + _same(runs, rows)
    )


def _same(runs: Sequence[Mapping[str, Any]], rows: Sequence[Method]) -> str:
    """Say which rows have the same outcomes item by item with every seed: their losses were as good as the same."""

    def outcomes(row: Method) -> list[tuple[str, str, float]]:
        mine = sorted((run for run in runs if run["method"] == row.name), key=lambda run: run["seed"])
        return [(run["text_score"], run["image_score"], run["v1"]) for run in mine]

    pairs = [
        f"The rows `{other.title}` and `{row.title}` have the same outcome for every item and seed: the difference of "
        "their losses was zero, or next to it."
        for number, row in enumerate(rows)
        for other in rows[:number]
        if outcomes(row) == outcomes(other)
    ]
    return "".join(f"\n{line}\n" for line in pairs)


def _equivariance(record: Mapping[str, Any], rows: Sequence[Method]) -> str:
    names = ("v1", "v2_text", "v2_image")
    lines = ["| | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|---|---|---|"]
    lines.append("| start | " + " | ".join(f"{record['start'][name]:.4f}" for name in names) + " |")
    for row in rows:
        mine = [run for run in record["runs"] if run["method"] == row.name]
        cells = (_mean_sd([run[name] for run in mine], 4) for name in names)
        lines.append(f"| {row.title} | {' | '.join(cells)} |")
    return (
        "\n".join(lines)
        + "\n\nMean absolute deviation on the test pairs, in cosines: mean ± standard deviation over seeds; 0 is "
        "equivariant.\n\n"
        + f"![Densities of the deviations over the test pairs]({DRAWING.name})\n\n"
        + "Densities over the test pairs of all seeds (the paper's Figure 6 has the second): the tighter, the more "
        "equivariant.\n"
    )


def _costs(record: Mapping[str, Any], rows: Sequence[Method]) -> str:
    titles = {row.name: row.title for row in rows}
    costs = {(row["loss"], row["batch"]): row for row in record["costs"]}
    batches = sorted({batch for _, batch in costs})
    lines = ["| | " + " | ".join(f"{batch} pairs" for batch in batches) + " |", "|---|" + "---|" * len(batches)]
    for name in dict.fromkeys(loss for loss, _ in costs):
        cells = []
        for batch in batches:
            mine, base = costs[name, batch], costs["ft", batch]
            longer = 1 + (mine["own"] - base["own"]) / base["forward"]
            more = "" if name == "ft" else f" ({longer:.3f}x)"
            cells.append(f"{mine['forward']:.0f}{more}, {mine['step']:.0f}")
        lines.append(f"| {titles.get(name, name)} | {' | '.join(cells)} |")
    return (
        "\n".join(lines)
        + "\n\nMilliseconds of the processor, the median of five: the forward pass of both towers and the loss; "
        "forward "
        "and backward. In brackets, how much longer than FT's the loss's own time makes the forward pass: the towers "
        "are "
        "the same, and their times differ by noise alone. The paper has 1.026x for a dual encoder.\n"
    )


def _of(runs: Sequence[Mapping[str, Any]], row: Method, masks: Masks) -> list[NDArray[np.bool_]]:
    mine = sorted((run for run in runs if run["method"] == row.name), key=lambda run: run["seed"])
    return [group(run, len(masks["all"])) for run in mine]


def _mean_sd(values: Sequence[float], digits: int = 1) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def _interval(interval: Interval) -> str:
    low, high = 100 * interval.low, 100 * interval.high
    text = f"{100 * interval.value:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if interval.excludes_zero else text
