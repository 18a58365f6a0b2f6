"""The record of a training run, `record.json`, the last file that a run writes; and its page, curves and model card.

The record has the run's configuration, data, start and machine, its progress, and its gains and losses. The page,
`report.html`, is one self-contained HTML file without scripts, which links the other files of the run's folder. Names
are untrusted: the template escapes them.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import ConfigDict, Field, JsonValue

from tellapart.data.rows import read_jsonl
from tellapart.diagnosis.why import Why
from tellapart.errors import DataError, RunError, first_line, plain, quote
from tellapart.evaluation.compare import Comparison, MetricComparison
from tellapart.records import run_folder
from tellapart.records.result import Record
from tellapart.records.timing_record import Machine
from tellapart.report.charts import LineChart, score_bar, svg
from tellapart.report.diagnoses import reason_rows
from tellapart.report.numbers import percent, points, thousands
from tellapart.report.page import page_environment
from tellapart.report.show import write_run_report
from tellapart.report.templates import make_environment
from tellapart.training.data.duplicates import Duplicates, Leak
from tellapart.training.losses.loss import FusionLoss, find_loss
from tellapart.training.run_files import ENDS, NOT_TERMS, RunFiles

#: The record's file in the run's folder.
RECORD = "record.json"

#: p after correction below which a metric counts as better or worse.
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Sweep:
    """Mean headline metrics of weights between the start (alpha 0) and the trained model (alpha 1).

    `curve` has a fraction for each of `benchmarks` by alpha; `best` is the Pareto-best alpha, `model` its model's name.
    """

    benchmarks: tuple[str, ...]
    curve: dict[float, tuple[float, ...]]
    best: float
    model: str

    @staticmethod
    def label(alpha: float) -> str:
        """Return an alpha with two decimals, or with all if it has more: no two alphas have one label.

        >>> Sweep.label(1.0), Sweep.label(0.999)
        ('1.00', '0.999')
        """
        return max(f"{alpha:.2f}", str(alpha), key=len)


class DataRecord(Record):
    """The data: how many rows, images and items, and the SHA-256 of all texts and the bytes of every image.

    Attributes:
        validation: the number of items that the weights were chosen by; None if the last weights were taken.
        validation_metric: the metric that chose; None without such items.
        validation_fingerprint: SHA-256 of these items and of their images' files; None without them.
        reported: fingerprint of each benchmark that start and trained model were measured on.
        validation_leak: pictures that the set of `data.validation` shares with the training images, if one is named.
        duplicates: rows with the same caption or picture, and texts that are cut; None before they are counted.
    """

    rows: int
    images: int
    items: int
    fingerprint: str
    validation: int | None = None
    validation_metric: str | None = None
    validation_fingerprint: str | None = None
    reported: dict[str, str] = Field(default_factory=dict)
    validation_leak: Leak | None = None
    duplicates: Duplicates | None = None


class MatchedRound(Record):
    """A round of test-time matching: the fingerprint of the weights that matched the items, and the matches.

    `matched` counts the items whose match leads by the threshold. `right` counts the true matches among them: it is
    for people, and training does not read it.
    """

    start: str
    threshold: float
    items: int
    matched: int
    right: int


class TrainRecord(Record):
    """The content of `record.json`.

    Attributes:
        config: all of the configuration, the preset's values among it.
        fingerprint: of all that decides the weights.
        start: fingerprint of the weights that it began with.
        limit: the steps of a smoke run (`--limit`); None for a full run.
        started, seconds: of this process; a run that was resumed began before.
        leaks: pictures that each reported benchmark shares with the training images.
        steps, best_step, best, history: steps taken, the step of the best validation value, this value, and all values.
        updated: layers with low-rank updates; empty if all weights were trained.
        idle: terms of the loss that were 0 at each of the first 50 steps, and why; empty if there were none.
        comparison: of the start (a) with the trained model (b), on the reported benchmarks.
        why: match and priors of the reported square items, `before` and `after`, without tags and items; None if
            there are none.
        sweep: over weights between the two.
        transductive: the set whose items these weights or their start were fitted to without labels, if there is one.
        rounds: of test-time matching.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_version: int = Field(default=1, alias="schema")
    config: dict[str, JsonValue]
    fingerprint: str
    start: str
    model: str
    limit: int | None = None
    started: str
    seconds: float
    resumed: bool
    ranks: int
    versions: dict[str, str]
    machine: Machine
    data: DataRecord
    leaks: tuple[Leak, ...] = ()
    steps: int
    best_step: int | None
    best: float | None
    history: tuple[tuple[int, float], ...]
    updated: str = ""
    idle: str = ""
    comparison: Comparison | None = None
    why: Why | None = None
    sweep: Sweep | None = None
    transductive: str = ""
    rounds: tuple[MatchedRound, ...] = ()

    @property
    def gained(self) -> tuple[MetricComparison, ...]:
        """Metrics that are better, with p below .05 after Holm's correction over all of the comparison."""
        return tuple(row for row in self._distinct_rows if row.difference > 0)

    @property
    def lost(self) -> tuple[MetricComparison, ...]:
        """Metrics that are worse, with p below .05 after Holm's correction over all of the comparison."""
        return tuple(row for row in self._distinct_rows if row.difference < 0)

    @property
    def _distinct_rows(self) -> tuple[MetricComparison, ...]:
        # By p and not by intervals, which are not corrected: of many, some exclude 0 by chance.
        return tuple(row for row in self.comparison.rows if row.p_holm < _ALPHA) if self.comparison else ()

    def describe_transductive(self) -> tuple[str, ...]:
        """Return a line on the set that the weights were fitted to, and one for each round; none without such a set."""
        if not self.transductive:
            return ()
        rounds = (
            f"round {number}: {done.matched:,} of {done.items:,} items matched with a lead of {done.threshold:.3g} or "
            f"more, {done.right:,} of these truly"
            for number, done in enumerate(self.rounds, 1)
        )
        return (f"transductive: fitted, without labels, to the very items of {self.transductive}", *rounds)

    def describe_validation(self) -> str | None:
        """Name the metric, the value in percent and the items that the weights were chosen by; None without such."""
        if self.best is None or self.data.validation is None:
            return None
        table = self.config["data"]
        name = table.get("validation") if isinstance(table, dict) else None
        source = f"items of {name}" if name else "items held out of the training data (data.share)"
        return f"{self.data.validation_metric} {100 * self.best:.2f} % on {self.data.validation:,} {source}"


def write_record(folder: Path, record: TrainRecord) -> None:
    """Write `record.json` atomically."""
    values = record.model_dump(mode="json", by_alias=True)
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    run_folder.write_text_file(folder / RECORD, text + "\n")


def read_record(folder: Path) -> TrainRecord:
    """Read the record of a run's folder."""
    missing = f"{folder} has no {RECORD}; name the folder of a finished `tellapart train`"
    damaged = "is damaged, and training again with resume=True writes it anew"
    return run_folder.read_record(folder / RECORD, TrainRecord, missing=missing, refusal=damaged).result


def model_card(record: TrainRecord, start: str = "") -> str:
    """Return a card in Markdown, with the hub's front matter; `start` is the start's name as it was opened.

    Source: Mitchell et al. (2019), Model cards for model reporting; the sections that a record can fill.
    """
    config: dict[str, Any] = record.config
    environment = make_environment().overlay(autoescape=False)  # Markdown: names go through `cell` and `code`
    environment.filters |= {"cell": _escape_cell, "code": _escape_code, "percent": percent}
    environment.globals |= {call.__name__: call for call in (percent, points, reason_rows, settings_of, thousands)}
    rows = record.why.rows if record.why else ()
    hub = (start or config["model"]).removeprefix("hf-hub:").removeprefix("hf:")
    text = files("tellapart.training").joinpath("model_card.md.j2").read_text(encoding="utf-8")
    card = environment.from_string(text).render(
        record=record,
        config=config,
        # A repository's name, such as `openai/clip-vit-base-patch32`; a folder may have the same form.
        hub=hub if re.fullmatch(r"[^:/]+/[^:/]+", hub) and not Path(hub).expanduser().exists() else "",
        # The hub has no name for the task of a matching head.
        contrastive=not isinstance(find_loss(config["loss"]["name"]), FusionLoss),
        smoke=f" It is a smoke run, stopped by `--limit {record.limit}`." if record.limit else "",
        reasons={row.benchmark: [other for other in rows if other.benchmark == row.benchmark] for row in rows},
        leaks=[leak for leak in record.leaks if leak.same or leak.alike],
    )
    return f"{card}\n"


def settings_of(record: TrainRecord) -> Iterator[tuple[str, Any]]:
    """Yield the settings that decide the weights, in the configuration's keys; 0 and False are settings, too."""
    for key, value in record.config.items():
        if key not in {"name", "model", "preset", "report", "log"}:
            for name, entry in value.items() if isinstance(value, dict) and key != "dropout" else [("", value)]:
                if name not in {"train", "images", "outside_images", "keep_images"} and entry not in (None, [], {}):
                    yield f"{key}.{name}".removesuffix("."), entry
            if key == "lora" and value is not None:
                yield "lora: updated", record.updated


def _escape_cell(text: str) -> str:
    """Escape a name for a cell of a Markdown table: it can neither end the cell or the line nor be read as markup."""
    return re.sub(r"([\\|`*_\[\]<>])", r"\\\1", plain(" ".join(text.split())))


def _escape_code(value: object) -> str:
    """Escape a value for backticks in a table: only a backtick, a bar and a line's end are markup there."""
    return plain(" ".join(str(value).split())).replace("`", "'").replace("|", "\\|")


#: The most points of a drawn curve: each is the mean of some neighbouring steps.
_POINTS = 200

#: The points `(step, value)` of a curve.
_Points = list[tuple[float, float]]


def sweep_chart(sweep: Sweep) -> LineChart:
    """Draw each benchmark's mean headline metric, in percent, over alpha; the Pareto-best alpha is marked.

    Source: WiSE-FT (Wortsman et al. 2022), Figure 1, with alpha instead of the plane of the two accuracies.
    """
    lines = {
        name: [(alpha, 100 * values[position]) for alpha, values in sweep.curve.items()]
        for position, name in enumerate(sweep.benchmarks)
    }
    title = "From the start (0) to the trained weights (1): mean of headline metrics, %"
    return LineChart(title, "alpha", lines, (sweep.best, f"Pareto-best {sweep.label(sweep.best)}"))


def log_charts(path: Path) -> list[LineChart]:
    """Draw a log's losses, its validation values, which are in percent, and its learning rate."""
    losses, values = defaultdict[str, _Points](list), defaultdict[str, _Points](list)
    rates: _Points = []
    ranges: list[tuple[float, float, float]] = []
    try:
        for _, record in read_jsonl(path):
            step = _number(record, "step")
            if "learning_rate" in record:
                rates.append((step, _number(record, "learning_rate")))
            if all(end in record for end in ENDS):
                low, high = (100 * _number(record, end) for end in ENDS)
                ranges.append((step, low, high))
            for name in (name for name in record if name not in NOT_TERMS):
                if name.startswith("validation_"):
                    values[name.removeprefix("validation_")].append((step, 100 * _number(record, name)))
                else:
                    losses[name].append((step, _number(record, name)))
    except (DataError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path}: is damaged ({first_line(error)}); go on with resume=True, which mends it") from error
    # The total first, then its parts by name. Of the validation values, the metric that chooses is logged first.
    ordered = {name: _thin_points(losses[name]) for name in sorted(losses, key=lambda name: (name != "total", name))}
    last = max((line[-1][0] for line in [*losses.values(), *values.values()]), default=0.0)
    label = "Validation set, %" + (", and its 95 % interval" if ranges else "")
    charts = (
        LineChart("Loss and its parts", "step", ordered, span=(0.0, last)),
        LineChart(label, "step", values, span=(0.0, last), ranges=ranges),
        LineChart("Learning rate", "step", {"learning_rate": _thin_points(rates)} if rates else {}, span=(0.0, last)),
    )
    return [chart for chart in charts if chart.lines]


def _number(record: Mapping[str, Any], name: str) -> float:
    if isinstance(record[name], bool) or not isinstance(record[name], int | float):
        raise TypeError(f"its {quote(name)} is not a number")
    return float(record[name])


def _thin_points(points: _Points) -> _Points:
    """Return means of neighbours, `_POINTS` at most; each lies at its last neighbour's step."""
    size = math.ceil(len(points) / _POINTS)
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return [(part[-1][0], math.fsum(y for _, y in part) / len(part)) for part in parts]


#: The page's name in the run's folder.
PAGE = "report.html"


def write_training_report(folder: Path, record: TrainRecord, *, outside: bool = False) -> Path:
    """Write `report.html` and the curves of a training run's folder; return the page's path."""
    run_files = RunFiles(folder)
    if (run_files.report / run_folder.RESULTS).is_file():
        write_run_report(run_files.report, outside=outside)
    if charts := log_charts(run_files.log_path):
        run_folder.write_text_file(folder / "log.svg", svg(charts))
    if record.sweep is not None:
        charts.append(sweep_chart(record.sweep))
        run_folder.write_text_file(run_files.sweep / "curve.svg", svg(charts[-1:]))
    alphas = map(Sweep.label, record.sweep.curve if record.sweep else ())
    links = [
        (run_files.report / PAGE, "every item of the trained model, its start beside it"),
        (run_files.report, "their run folder, which tellapart show, compare, table and plot read"),
        *((run_files.sweep / f"alpha-{at}" / "report", f"the run folder of alpha {at}") for at in alphas),
        (run_files.model / "README.md", "the model card, beside the model"),
        (run_files.log_path, "the numbers of each step"),
        (folder / RECORD, "all that this page is made from, but the log"),
    ]
    names = [(path.relative_to(folder).as_posix() + "/" * path.is_dir(), text) for path, text in links if path.exists()]
    rows = record.comparison.rows if record.comparison else ()
    bounds = [abs(end) for row in rows for end in (row.low, row.high, row.difference) if end is not None]
    return _write_page(
        folder,
        record=record,
        title=f"{record.config['name']}, trained",
        groups={row.benchmark: [each for each in rows if each.benchmark == row.benchmark] for row in rows},
        reach=max(bounds, default=0.0),
        difference_bar=difference_bar,
        figures=charts,
        settings=[(key, str(value)) for key, value in settings_of(record)],
        links=names,
    )


def write_progress(run_files: RunFiles, name: str, done: int, total: int) -> None:
    """Write the page of a run that still trains, which loads itself again; `write_training_report` ends it."""
    title = f"{name}: step {thousands(done)} of {thousands(total)}"
    figures = log_charts(run_files.log_path)
    _write_page(run_files.folder, record=None, title=title, now=datetime.now(UTC), figures=figures)


def _write_page(folder: Path, **content: Any) -> Path:
    template = files("tellapart.training").joinpath("page.html.j2").read_text(encoding="utf-8")
    run_folder.write_text_file(folder / PAGE, page_environment().from_string(template).render(content))
    return folder / PAGE


def difference_bar(difference: float, low: float | None, high: float | None, reach: float) -> Markup:
    """Draw a difference and its interval around zero; the bar goes from -reach to reach."""
    scale = 2 * (reach or 1.0)
    start, end = (None if bound is None else 0.5 + bound / scale for bound in (low, high))
    css_class = "range"
    if low is not None and high is not None and (low > 0 or high < 0):
        css_class += " better" if low > 0 else " worse"
    bar = str(score_bar(0.5 + difference / scale, start, end, chance=0.5))
    return Markup(bar.replace('class="range"', f'class="{css_class}"'))  # noqa: S704  (numbers only)
