"""The record of models' costs: `timing.json`, which the Pareto view reads."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tellapart.records.result import SCHEMA, ModelRecord, Record
from tellapart.records.run_folder import read_record, write_text_file

#: The parts of one pair's latency, in the order of time.
PARTS = ("decode", "prepare", "image", "text", "cross")


class Duration(Record):
    """Seconds: the median of the repeats, their 5th percentile (`low`) and their 95th (`high`)."""

    median: float
    low: float
    high: float


class Machine(Record):
    """The machine of a measurement, with the cores that the process may use; times of two machines do not compare."""

    processor: str
    cores: int
    system: str
    accelerator: str | None = None
    torch_threads: int | None = None


class Throughput(Record):
    """Images and texts encoded a second, and pairs scored, in batches of prepared samples; None without such a part."""

    batch_size: int
    images: float | None = None
    texts: float | None = None
    pairs: float | None = None


class Timing(Record):
    """The cost of one model.

    Attributes:
        benchmark, pairs: whose pairs, and how many of them, each with another image.
        image_size: height and width of its images, the median.
        input_shape: in which the model is given an image; None if it prepares images within its forward pass.
        repeats, warm_up, batches: pairs measured for the latency, pairs before them, and batches for the throughput.
        latency: of one pair alone, from its file to its score.
        parts: of the latency, those of `PARTS` that the model has. `image` and `text` are its computation of each by
            itself, `cross` that of both: for dual encoders the similarity.
        flops: of one pair, a multiplication and an addition being two; matrix products and convolutions only, as torch
            counts them. None if torch does not compute.
        peak_memory, peak_device_memory: the process's largest resident memory less that before the model was loaded,
            and torch's largest allocation on a CUDA device, in bytes.
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


class Timings(Record, populate_by_name=True):
    """The content of `timing.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    started: str
    command: str
    versions: dict[str, str]
    models: tuple[Timing, ...]


def write_timings(path: Path, timings: Timings) -> None:
    """Write the file atomically."""
    write_text_file(path, timings.model_dump_json(by_alias=True, indent=1) + "\n")


def read_timings(path: Path) -> Timings:
    """Read the file."""
    missing = f"{path} is missing; `tellapart time --out FILE` writes one"
    return read_record(path, Timings, missing=missing, refusal="is no file of `tellapart time`").result
