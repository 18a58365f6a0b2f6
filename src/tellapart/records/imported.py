"""Imported numbers: a TOML file of models, their costs, and scores as a paper or a person reports them.

```toml
source = "VLUE (arXiv:2205.15237), Tables 2 and 4"

[[models]]
name = "ALBEF"
kind = "model"                # or "human", for the people's row
latency = 0.0635              # seconds of one pair
parameters = 210e6
training_images = 14e6
[models.scores.vlue-nlvr2]    # benchmark
accuracy = 0.7317             # metric: a fraction
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tellapart.data.rows import read_toml
from tellapart.data.validation import Problem
from tellapart.errors import DataError

Number = Annotated[float, Field(allow_inf_nan=False)]
Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ImportedModel(BaseModel):
    """One model's numbers.

    Attributes:
        kind: `human` is listed apart from models, without a rank.
        latency: seconds for one pair.
        scores: benchmark -> metric -> value, fractions if the metric is a share of right answers.
        by: tag -> value -> benchmark -> metric -> value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: Literal["model", "human"] = "model"
    note: str = ""
    latency: Cost | None = None
    parameters: Cost | None = None
    training_images: Cost | None = None
    scores: dict[str, dict[str, Number]] = Field(default_factory=dict)
    by: dict[str, dict[str, dict[str, dict[str, Number]]]] = Field(default_factory=dict)


class Imported(BaseModel):
    """A file of imported numbers.

    Attributes:
        source: the publication of the numbers; shown with each.
        tie_rule: how ties were counted there, as far as known.
        items: benchmark -> the number of items behind its numbers, if known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1)
    tie_rule: str = "not known"
    items: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    models: tuple[ImportedModel, ...]


def read_imported(path: Path) -> Imported:
    """Read a file of imported numbers."""
    try:
        return Imported.model_validate(read_toml(path))
    except ValidationError as error:
        raise DataError(f"{path}: {Problem.first(error)}") from error
