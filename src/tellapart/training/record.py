"""The record of a training run: its configuration, data, start and machine, its progress, and its gains and losses.

`record.json` is the last file that a run writes: if it exists, the run is complete.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.data.validation import first_problem
from tellapart.diagnosis.why import Why
from tellapart.errors import RunError
from tellapart.evaluation.compare import Comparison, MetricComparison
from tellapart.records.run_folder import write_text_file
from tellapart.records.timing_record import Machine
from tellapart.training.data.duplicates import Duplicates, Leak

#: Its file in the run's folder.
RECORD = "record.json"

#: p after correction below which a metric counts as better or worse.
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Sweep:
    """A curve over alphas: each one's mean headline metric on each benchmark; 0 is the start, 1 the trained model."""

    benchmarks: tuple[str, ...]
    curve: dict[float, tuple[float, ...]]
    best: float
    model: str


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class DataRecord(_Record):
    """The training data: how many rows, images and items, and the SHA-256 of all texts and the bytes of every image.

    Attributes:
        validation: items that the weights were chosen by; None if the last weights were taken.
        validation_metric: by which metric of theirs; None without such items.
        validation_leak: pictures that the set of `data.validation` shares with the training images, if one is named.
        duplicates: rows with the same caption or picture, and texts that are cut; None before they are counted.
    """

    rows: int
    images: int
    items: int
    fingerprint: str
    validation: int | None = None
    validation_metric: str | None = None
    validation_leak: Leak | None = None
    duplicates: Duplicates | None = None


class MatchedRound(_Record):
    """A round of test-time matching: the fingerprint of the weights that matched the items, and the matches.

    `matched` are items whose match leads by the threshold, `right` the true ones of these, counted for people alone.
    """

    start: str
    threshold: float
    items: int
    matched: int
    right: int


class TrainRecord(_Record):
    """The content of `record.json`.

    Attributes:
        config: all of the configuration, the preset's values among it.
        fingerprint: of all that decides the weights.
        start: fingerprint of the weights that it began with.
        limit: steps, if it was a smoke run.
        started, seconds: of this process; a run that was resumed began before.
        leaks: pictures that each reported benchmark shares with the training images.
        steps, best_step, best, history: how far it went, and the validation set's values.
        updated: layers with low-rank updates; empty if all weights were trained.
        idle: terms of the loss that were 0 at each of the first 50 steps, and why; empty if there were none.
        comparison: of the start (a) with the trained model (b), on the reported benchmarks.
        why: match and priors of the reported square items, `before` and `after`, without tags and items; None if
            there are none.
        sweep: over weights between the two.
        transductive: the set whose items these weights or their start were fitted to without labels, if there is one.
        rounds: of test-time matching.
    """

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
        """Metrics that are better: p after Holm's correction, as the comparison has it, is below .05."""
        return tuple(row for row in self._distinct_rows if row.difference > 0)

    @property
    def lost(self) -> tuple[MetricComparison, ...]:
        """Metrics that are worse: p after Holm's correction, as the comparison has it, is below .05."""
        return tuple(row for row in self._distinct_rows if row.difference < 0)

    @property
    def _distinct_rows(self) -> tuple[MetricComparison, ...]:
        # An interval is of one metric alone: of many metrics, some intervals exclude 0 by chance.
        return tuple(row for row in self.comparison.rows if row.p_holm < _ALPHA) if self.comparison else ()

    def describe_transductive(self) -> tuple[str, ...]:
        """Return lines on what the mark means, and on each round; none for weights without it."""
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
    write_text_file(folder / RECORD, json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_record(folder: Path) -> TrainRecord:
    """Read the record of a run's folder."""
    path = folder / RECORD
    if not path.exists():
        raise RunError(f"{folder} has no record.json; name the folder of a finished `tellapart train`")
    text = decode_text(read_whole(path, error=RunError), path, error=RunError)
    parse_json(text, path, error=RunError)  # pydantic's reader takes a key twice
    try:
        return TrainRecord.model_validate_json(text)
    except ValidationError as error:
        raise RunError(f"{path}: is damaged: {first_problem(error)}; train again with resume=True") from error
