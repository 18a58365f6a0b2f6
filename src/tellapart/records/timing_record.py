"""The record of what models cost: `timing.json`, which the Pareto view reads."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tellapart.data.validation import Problem
from tellapart.errors import RunError
from tellapart.records.result import ModelRecord
from tellapart.records.run_folder import write_text_file

__all__ = [
    "PARTS",
    "SCHEMA",
    "Duration",
    "Machine",
    "Throughput",
    "Timing",
    "Timings",
    "read_timings",
    "write_timings",
]

#: Raised when a reader of an older file would misread a newer one.
SCHEMA = 1

#: The parts of one pair's latency, in the order of time.
PARTS = ("decode", "prepare", "image", "text", "cross")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Duration(_Record):
    """Seconds: the median of the repeats, their 5th percentile (`low`) and their 95th (`high`).

    >>> Duration(median=0.02, low=0.018, high=0.03).median
    0.02
    """

    median: float
    low: float
    high: float


class Machine(_Record):
    """What it was measured on; times of two machines do not compare.

    Attributes:
        processor: the model's name.
        cores: that the process may use.
        system: operating system and architecture.
        accelerator: the GPU's name, if one was used.
        torch_threads: of torch on the CPU; None if the model does not use torch.

    >>> Machine(processor="EPYC", cores=2, system="Linux x86_64").accelerator is None
    True
    """

    processor: str
    cores: int
    system: str
    accelerator: str | None = None
    torch_threads: int | None = None


class Throughput(_Record):
    """How many a second, given in batches and decoded and prepared before; None where the model has no such part.

    Attributes:
        batch_size: samples given at once.
        images: encoded a second.
        texts: encoded a second.
        pairs: scored a second, where image and text of each are both new.

    >>> Throughput(batch_size=32, texts=950.0).pairs is None
    True
    """

    batch_size: int
    images: float | None = None
    texts: float | None = None
    pairs: float | None = None


class Timing(_Record):
    """What one model costs.

    Attributes:
        model: which.
        machine: where.
        device, dtype: as asked.
        benchmark: whose pairs; `pairs` of them, each with an image of its own.
        image_size: height and width of its images, the median.
        input_shape: in which the model is given an image; None if it prepares images within its forward pass.
        repeats, warm_up: pairs measured for the latency, and pairs before them.
        batches: measured for the throughput, after one that is not counted.
        latency: of one pair alone, from its file to its score.
        parts: of the latency, those of `PARTS` that the model has. `image` and `text` are what it computes of each by
            itself, `cross` what it computes of both: for dual encoders the similarity.
        throughput: in batches.
        parameters: how many; None if the model does not say.
        flops: of one pair, a multiplication and an addition being two; matrix products and convolutions only, as torch
            counts them. None where torch does not compute.
        peak_memory: the process's largest resident memory less what it held before the model was loaded, in bytes.
        peak_device_memory: torch's largest allocation on a CUDA device, in bytes.
        notes: lines for people: what the numbers leave out.

    >>> Timing.model_fields["parameters"].annotation
    int | None
    """

    model: ModelRecord
    machine: Machine
    device: str
    dtype: str
    benchmark: str
    pairs: int
    image_size: tuple[int, int] | None = None
    input_shape: tuple[int, ...] | None = None
    repeats: int
    warm_up: int
    batches: int
    latency: Duration
    parts: dict[str, Duration]
    throughput: Throughput
    parameters: int | None = None
    flops: int | None = None
    peak_memory: int | None = None
    peak_device_memory: int | None = None
    notes: tuple[str, ...] = ()


class Timings(_Record):
    """What `timing.json` holds.

    >>> Timings(started="2026-01-01T00:00:00+00:00", command="tellapart time", versions={}, models=()).schema_version
    1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: int = Field(default=SCHEMA, alias="schema")
    started: str
    command: str
    versions: dict[str, str]
    models: tuple[Timing, ...]


def write_timings(path: Path, timings: Timings) -> None:
    """Write the file atomically.

    Raises:
        RunError: it cannot be written.
    """
    write_text_file(path, timings.model_dump_json(by_alias=True, indent=1) + "\n")


def read_timings(path: Path) -> Timings:
    """Read the file.

    Raises:
        RunError: it is missing, of another schema, or not what the schema says.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except OSError as error:
        raise RunError(
            f"{path} cannot be read: {error.strerror or error}; `tellapart time --out FILE` writes one"
        ) from error
    except ValueError as error:
        raise RunError(f"{path} is no JSON file of `tellapart time`: {error}") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if isinstance(schema, int) and schema != SCHEMA:
        raise RunError(f"{path} has schema {schema}, this version reads {SCHEMA}; update tellapart")
    try:
        return Timings.model_validate_json(text)
    except ValidationError as error:
        raise RunError(f"{path} is no file of `tellapart time`: {Problem.first(error)}") from error
