"""The configuration of a training run: one TOML file, checked before anything is computed.

docs/training_file.md explains every key; a test holds it to the keys and defaults below. A preset, a paper's
hyper-parameters by name, fills in keys that a file leaves out: a table of the file `presets.toml` beside its loss.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from tellapart.catalog import LOSSES, names
from tellapart.data.rows import read_toml
from tellapart.data.strict_json import first_repeated
from tellapart.data.validation import find_problems
from tellapart.errors import DataError, TellapartError, nearest
from tellapart.training.losses.loss import LossTerm, find_loss, read_terms

#: Released code takes equal captions, and copies of a picture, for each other's negatives.
_RELEASED: Mapping[str, Any] = {"data": {"duplicates": "negatives"}}


@dataclass(frozen=True, slots=True)
class Preset:
    """Values that fill in the keys that a configuration leaves out; model, data and device are in no preset.

    `source` is the paper, and the released command. `ours` maps each key, or step of training, that is not as released
    to the reason.
    """

    values: Mapping[str, Any]
    source: str
    ours: Mapping[str, str] = field(default_factory=dict)


def list_presets() -> dict[str, Preset]:
    """Return the presets of every loss, by name; those of other packages' losses last."""
    presets: dict[str, Preset] = {}
    for loss_name in names("loss"):
        try:
            path = Path(inspect.getfile(find_loss(loss_name).function)).with_name("presets.toml")
        except Exception:  # another package's loss that cannot be imported; `tellapart ls losses` shows why
            if loss_name in LOSSES:
                raise
            continue
        for name, preset in _read_presets(path).items():
            if preset.values.get("loss", {}).get("name") == loss_name:
                presets.setdefault(name, preset)
    return presets


@cache
def _read_presets(path: Path) -> dict[str, Preset]:
    """Return the presets of a file; none if there is no file."""
    presets: dict[str, Preset] = {}
    for name, table in (read_toml(path) if path.is_file() else {}).items():
        like, unset, ours = table.pop("like", None), table.pop("unset", ()), table.pop("ours", {})
        if like is not None and like not in presets:
            raise DataError(f"{path}: [{name}]: like = {like!r} names no preset before it", path=path, field="like")
        base = Preset(_RELEASED, "") if like is None else presets[like]
        for key in unset:  # such as `optimiser.clip_norm`, which the preset that this one is like sets
            part, _, last = key.rpartition(".")
            (table.setdefault(part, {}) if part else table)[last] = None
        source = table.pop("source", base.source)
        inherited = {key: reason for key, reason in base.ours.items() if key not in ours}
        presets[name] = Preset(merge_preset(base.values, table), source, ours | inherited)
    return presets


def merge_preset(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` completed by the preset's, table by table.

    A loss of another name takes none of the preset's options, and steps take the place of epochs. Losses of
    `[loss.also]` are completed one by one.
    """
    merged: dict[str, Any] = dict(preset)
    for key, value in values.items():
        base = merged.get(key)
        if not isinstance(value, Mapping) or not isinstance(base, Mapping):
            merged[key] = value
            continue
        if key == "loss" and value.get("name", base.get("name")) != base.get("name"):
            base = {}
        if key == "optimiser" and (lengths := {"steps", "epochs", "minutes"}) & set(value):
            base = {name: number for name, number in base.items() if name not in lengths}
        merged[key] = {**base, **value}
        if key == "loss" and isinstance(base.get("also"), Mapping) and isinstance(value.get("also"), Mapping):
            merged[key]["also"] = merge_preset(base["also"], value["also"])
    return merged


#: The largest number of steps, epochs, pairs or pixels: a product of two such numbers fits an int64.
_MOST = 2**31 - 1
_Count = Annotated[int, Field(ge=1, le=_MOST)]
_Share = Annotated[float, Field(ge=0, lt=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataConfig(_Table):
    """The training data."""

    train: list[str] = Field(min_length=1)
    folder: str | None = None
    images: str | None = None
    columns: dict[Literal["image", "caption", "cluster"], str] = {}
    outside_images: bool = False
    validation: str | None = None
    together: bool = False
    negative_captions: int | None = Field(default=None, ge=0, le=64)
    negative_images: Literal["none", "pairs", "mate"] | None = None
    join: Literal["none", "always", "alternate"] | None = None
    positive_captions: int | None = Field(default=None, ge=0, le=64)
    keep_images: bool = False
    augment: Literal["none", "meter", "fiber", "open-clip"] = "none"
    share: float = Field(default=1.0, gt=0, le=1)
    duplicates: Literal["masked", "negatives"] = "masked"
    take: list[Annotated[float, Field(gt=0, le=1)]] = []

    @model_validator(mode="after")
    def _check_augment(self) -> DataConfig:
        if self.keep_images and self.augment != "none":
            raise ValueError("keep_images keeps pictures that augment changes at each step; leave one of them out")
        return self


class OptimiserConfig(_Table):
    """The settings of AdamW, and of its learning rate: a linear warm-up and a fall to zero."""

    learning_rate: float = Field(gt=0)
    betas: Annotated[tuple[_Share, _Share], Field(strict=False)] = (0.9, 0.98)  # TOML has lists
    epsilon: float = Field(default=1e-6, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    warm_up: int = Field(default=0, ge=0, le=_MOST)
    decay: Literal["cosine", "linear"] = "cosine"
    epochs: _Count | None = None
    steps: _Count | None = None
    minutes: float | None = Field(default=None, gt=0, le=_MOST)
    clip_norm: float | None = Field(default=None, gt=0)
    max_scale: float | None = Field(default=100.0, gt=1)
    groups: dict[str, Annotated[float, Field(ge=0)]] = {}
    tower: Literal["both", "text"] = "both"
    decayed: Literal["matrices", "all"] = "matrices"

    @model_validator(mode="after")
    def _check_length(self) -> OptimiserConfig:
        if [self.epochs, self.steps, self.minutes].count(None) != 2:
            raise ValueError("give either epochs or steps or minutes")
        return self

    def count_steps(self, per_epoch: int, limit: int | None = None) -> int:
        """Return the steps of a run, `limit` at most. A run of `minutes` has its `steps` set by `fit_steps` before."""
        total = (self.epochs or 0) * per_epoch if self.steps is None else self.steps
        return total if limit is None else min(total, limit)


class BatchConfig(_Table):
    """The pairs of a step, and how many of them are in memory at a time."""

    size: int = Field(ge=2, le=_MOST)
    accumulate: _Count = 1
    micro: _Count | None = None
    chunk: _Count | None = None

    @property
    def part(self) -> int:
        """Pairs of one similarity matrix, over all ranks: a step's gradient is the mean of its parts' gradients."""
        return self.size // self.accumulate

    @model_validator(mode="after")
    def _check_parts(self) -> BatchConfig:
        if self.size % self.accumulate or self.part < 2:
            fault = f"accumulate = {self.accumulate} does not cut {self.size} pairs"
            raise ValueError(f"{fault} into equal parts, of 2 or more")
        return self


class MatchingConfig(_Table):
    """The negatives that a fusion encoder's pairs are crossed with."""

    negatives: _Count | None = None
    source: Literal["batch", "rows"] = "batch"
    close: int | None = Field(default=None, ge=0, le=_MOST)
    hardest: bool = False
    contrast: bool = True

    @model_validator(mode="after")
    def _check_source(self) -> MatchingConfig:
        if self.source == "batch" and self.close is not None:
            raise ValueError('close counts mined negatives: set source = "rows", or leave it out')
        if self.source == "rows" and self.hardest:
            raise ValueError("hardest chooses among the batch's pairs: mined negatives are hard already")
        return self


class LoraConfig(_Table):
    """Low-rank updates of linear layers (peft): they are trained, and all else is frozen."""

    rank: int = Field(ge=1, le=8192)
    alpha: float = Field(default=16.0, gt=0)
    dropout: _Share = 0.0
    targets: list[str] = []


#: Steps between two measurements at most, unless `validation.every` is set.
LONGEST_INTERVAL = 500


class ValidationConfig(_Table):
    """The choice of weights."""

    every: _Count | None = None
    metric: str | None = None
    keep: _Count = 1
    patience: _Count | None = None

    def interval(self, steps: int) -> int:
        """Return the steps between two measurements; if not set, a tenth of a run's steps, 500 at most."""
        return min(LONGEST_INTERVAL, max(1, math.ceil(steps / 10))) if self.every is None else self.every


class ReportConfig(_Table):
    """The measurements before and after, and the licence on the model card."""

    benchmarks: list[str] = []
    alphas: list[Annotated[float, Field(ge=0, le=1)]] = []
    licence: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]*$")

    @model_validator(mode="after")
    def _check_benchmarks(self) -> ReportConfig:
        if twice := first_repeated(self.benchmarks):
            raise ValueError(f"benchmarks: {twice!r} is named twice; name each once")
        if self.alphas and not self.benchmarks:
            raise ValueError("alphas: no weights are interpolated without benchmarks; name some")
        return self


class RoundsConfig(_Table):
    """Rounds of test-time matching; thresholds are in the unit in which `tellapart why` compares scores."""

    rounds: int = Field(default=4, ge=1, le=100)
    threshold: float = Field(ge=0)
    last_threshold: float = Field(default=0.0, ge=0)

    def thresholds(self) -> list[float]:
        """Return the threshold of each round; it falls, or rises, by the same step from round to round."""
        step = (self.threshold - self.last_threshold) / max(1, self.rounds - 1)
        return [self.threshold - number * step for number in range(self.rounds)]


class LogConfig(_Table):
    """Trackers that get the numbers of each step, in addition to `log.jsonl`."""

    tensorboard: bool = False
    wandb: str | None = None


class TrainConfig(_Table):
    """A training run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    model: str
    preset: str | None = None
    seed: int = Field(default=0, ge=0, le=_MOST)
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: Literal["inductor", "aot_eager"] | None = None
    reading: str | None = None
    image_size: _Count | None = None
    dropout: dict[str, _Share] = {}
    batch_norm: Literal["batch", "frozen"] = "batch"
    data: DataConfig
    loss: dict[str, JsonValue]
    optimiser: OptimiserConfig
    batch: BatchConfig
    matching: MatchingConfig | None = None
    lora: LoraConfig | None = None
    test_time_matching: RoundsConfig | None = None
    validation: ValidationConfig = ValidationConfig()
    report: ReportConfig = ReportConfig()
    log: LogConfig = LogConfig()

    @model_validator(mode="after")
    def _check_rounds(self) -> TrainConfig:
        data, alphas = self.data, self.report.alphas
        validated = alphas or data.validation is not None or data.share < 1 or data.take or data.images
        if self.test_time_matching is not None and (validated or len(data.train) > 1):
            raise ValueError(
                "test_time_matching takes all items of one set, named as a benchmark in data.train, and no label "
                "chooses weights: leave out data.validation, .share, .take and .images, and report.alphas"
            )
        return self

    def changed(self, **tables: Mapping[str, Any]) -> TrainConfig:
        """Return this configuration with other values of some tables, which are not checked again."""
        copies = {key: getattr(self, key).model_copy(update=values) for key, values in tables.items()}
        return self.model_copy(update=copies)

    def loss_terms(self) -> tuple[LossTerm, ...]:
        """Return the losses that are added up, the one that the table names first."""
        return read_terms(self.loss)

    def decisive_values(self) -> dict[str, Any]:
        """Return the values that decide the weights, as JSON."""
        data = {"outside_images", "folder", "columns"}  # the rows have their fingerprint
        return self.model_dump(mode="json", exclude={"name": True, "report": True, "log": True, "data": data})

    def fingerprint(self, *facts: str) -> str:
        """Return 16 hexadecimal digits of the SHA-256 of all that decides the weights."""
        content = json.dumps([self.decisive_values(), *facts], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_config(path: Path) -> TrainConfig:
    """Read a training run from a TOML file; a preset's values fill in the keys that the file leaves out."""
    values = read_values(path)
    for fault in find_faults(values, path):
        raise fault
    config = TrainConfig.model_validate(values)

    def locate(name: str) -> str:
        """Return a set's name with its path relative to the working folder, if it is in the configuration's."""
        folder = path.parent / name.removeprefix("folder:")
        with suppress(OSError):  # too long for a path: the set's reader names it
            return f"folder:{folder}" if name.startswith("folder:") and folder.exists() else name
        return name

    reported = [locate(benchmark) for benchmark in config.report.benchmarks]
    return config.changed(report={"benchmarks": reported})


def find_faults(values: Mapping[str, Any], path: Path) -> list[TellapartError]:
    """Return an error for every fault of a file's values: of its tables, then of other keys, then of its losses."""
    tables = {key: table for key, table in config_tables().items() if isinstance(values.get(key), Mapping)}
    faults = list[TellapartError]()
    for key, table in tables.items():
        faults += find_problems(table, values[key], f"{path}: [{key}]")
    whole = find_problems(TrainConfig, values, str(path))
    faults += [fault for fault in whole if re.split(r"[.\[]", fault.field or "")[0] not in tables]
    if isinstance(loss := values.get("loss"), Mapping):
        try:
            read_terms(loss, f"{path}: [loss]")
        except TellapartError as error:
            faults.append(error)
    return faults


def read_values(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file, completed by its preset's; no key is checked."""
    values = read_toml(path)
    if values.get("preset") is None:
        return values
    presets, name = list_presets(), str(values["preset"])
    if name not in presets:
        hint = nearest(name, presets) or ";"
        raise DataError(f"{path}: no preset {name!r}{hint} the presets are {', '.join(presets)}")
    return merge_preset(presets[name].values, values)


def config_tables() -> dict[str, type[BaseModel]]:
    """Return the tables of a configuration, by key."""
    tables: dict[str, type[BaseModel]] = {}
    for key, column in TrainConfig.model_fields.items():
        for kind in (column.annotation, *get_args(column.annotation)):  # a table may be optional: `LoraConfig | None`
            if isinstance(kind, type) and issubclass(kind, _Table):
                tables[key] = kind
    return tables
