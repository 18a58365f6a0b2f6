"""Imported numbers: a TOML file of models, their costs, and scores as a paper or a person reports them.

`examples/vlue_board/records.toml` is one. `[models.scores.BENCHMARK]` has a number for each metric.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tellapart.data.rows import read_toml
from tellapart.data.validation import validate
from tellapart.records.result import Record

Number = Annotated[float, Field(allow_inf_nan=False)]
Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ImportedModel(Record):
    """One model's numbers.

    Attributes:
        kind: `human` is listed apart from models, without a rank.
        latency: seconds of one pair.
        parameters, training_images: counts.
        scores: benchmark -> metric -> number; a share of right answers is a fraction of 1.
        by: tag -> value of the tag -> benchmark -> metric -> number.
    """

    name: str = Field(min_length=1)
    kind: Literal["model", "human"] = "model"
    note: str = ""
    latency: Cost | None = None
    parameters: Cost | None = None
    training_images: Cost | None = None
    scores: dict[str, dict[str, Number]] = Field(default_factory=dict)
    by: dict[str, dict[str, dict[str, dict[str, Number]]]] = Field(default_factory=dict)


class Imported(Record):
    """A file of imported numbers: their publication, its rule of ties, items in each benchmark, and the models."""

    source: str = Field(min_length=1)
    tie_rule: str = "not known"
    items: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    models: tuple[ImportedModel, ...]


def read_imported(path: Path) -> Imported:
    """Read a file of imported numbers."""
    return validate(Imported, read_toml(path), str(path))
