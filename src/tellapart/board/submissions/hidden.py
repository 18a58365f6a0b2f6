"""Settings of hidden benchmarks: the tables `[submissions]` and `[[hidden]]` of a board file.

```toml
[submissions]
state = "state"              # folder of the server's secret, its database and the files; relative to this file

[[hidden]]
name = "clocks"
pairs = "/srv/clocks"        # a pair set's folder: pairs.jsonl and images
public_share = 0.5           # of the items: their numbers are shown at once, the others' after closing
step = 0.01                  # numbers are rounded to it
daily = 3
total = 20
closes = 2027-06-01T12:00:00Z

[[hidden]]
name = "statements"
benchmark = "vlue-nlvr2"     # one of the catalogue, of pairs or of a task, instead of a folder of pairs
data = "/srv/vlue"           # its files, as `tellapart run` takes them with --data and --images
images = "/srv/marvl"
```

A board file without `[[hidden]]` has none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tellapart.benchmarks.find import find_benchmark
from tellapart.board.submissions.rounding import allowed_submissions, label_bits, leaked_bits, round_to
from tellapart.data.rows import read_toml
from tellapart.data.validation import Problem
from tellapart.errors import DataError, MetricError, TellapartError
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE, TASKS

#: What a hidden benchmark may be called.
BENCHMARK_NAME = r"^[a-z0-9][a-z0-9-]{0,62}$"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


_S = TypeVar("_S", bound=_Settings)


class HiddenBenchmark(_Settings):
    """A benchmark with hidden labels.

    Attributes:
        name: in addresses and tables: lower case letters, digits and hyphens.
        pairs: folder of a pair set, with its labels.
        benchmark: instead of `pairs`, a benchmark of the catalogue, of pairs or of a task.
        data, images: that benchmark's files, as `--data` and `--images` name them; nothing is fetched.
        title: for people; the name if not given.
        protocol: of pairs, `scores` of images and texts or `answers` in words (2x2 items; as `pairing:` asks them); of
            a task its `predictions`, the default.
        metrics: that are published, models being ranked by the last; the headline's if not given.
        public_share: of the items, without splitting a cluster, whose numbers are published while the benchmark is
            open.
        step: to which numbers are rounded.
        daily, total: files of a user that count.
        largest_share: of the public labels' bits that one user's files may give away; above 1 to try things out.
        closes: when it closes by itself.
    """

    name: str = Field(pattern=BENCHMARK_NAME)
    pairs: Path | None = None
    benchmark: str | None = None
    data: Path | None = None
    images: Path | None = None
    title: str = ""
    protocol: Literal["scores", "answers", "predictions"] = "scores"
    metrics: tuple[str, ...] = ()
    public_share: float = Field(default=0.5, gt=0, lt=1)
    step: float = 0.01
    daily: int = Field(default=3, ge=1)
    total: int = Field(default=20, ge=1)
    largest_share: float = Field(default=0.5, gt=0)
    closes: AwareDatetime | None = None

    @field_validator("step")
    @classmethod
    def _check_step(cls, step: float) -> float:
        try:
            round_to(0.0, step)
        except MetricError as error:
            raise ValueError(str(error)) from error
        return step

    @model_validator(mode="before")
    @classmethod
    def _add_protocol(cls, table: object) -> object:
        if not isinstance(table, dict) or not isinstance(table.get("benchmark"), str) or "protocol" in table:
            return table
        return {**table, "protocol": _allowed_protocols(table["benchmark"])[0]}

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.pairs is None) == (self.benchmark is None):
            raise ValueError("name either `pairs`, a pair set's folder, or `benchmark`, one of the catalogue")
        if self.benchmark is None and (self.data or self.images):
            raise ValueError("`data` and `images` are of a `benchmark`; a pair set's folder holds everything")
        if self.protocol not in (
            allowed := PAIRS.accepts if self.benchmark is None else _allowed_protocols(self.benchmark)
        ):
            raise ValueError(f"protocol {self.protocol!r}: of this benchmark {' or '.join(allowed)} are taken")
        return self


def _allowed_protocols(name: str) -> tuple[str, ...]:
    """Return the protocols that a benchmark of the catalogue allows, the default first."""
    if ":" in name:
        raise ValueError(
            f"{name!r} is not of the catalogue (`tellapart ls benchmarks`); a folder of pairs is named by `pairs`"
        )
    try:
        task = find_benchmark(name).task
    except TellapartError as error:
        raise ValueError(str(error)) from error
    if not TASKS[task].accepts:
        raise ValueError(
            f"the task {task!r} of {name} cannot be hidden: its numbers are not means over units that are right or "
            f"wrong one by one; tasks that can are {', '.join(HIDEABLE)}"
        )
    return TASKS[task].accepts


class SubmissionSettings(_Settings):
    """Limits of a server that takes files and measures them.

    Attributes:
        state: folder of the server's secret, its database, the task files and the submitted files.
        upload_bytes: the largest file.
        spare_bytes: that must stay free on the disk.
        seconds: of CPU time to read one file, and again to measure it.
        memory_bytes: of address space, likewise.
        requests_a_minute: of one token or, without one, of one address.
        sign_ins_a_minute: attempts from one address.
        session_hours: until a browser must sign in again.
        secure_cookies: send cookies over https alone; set it if the board is reached that way.
    """

    state: Path
    upload_bytes: int = Field(default=64 << 20, ge=1024)
    spare_bytes: int = Field(default=256 << 20, ge=0)
    seconds: int = Field(default=120, ge=1)
    memory_bytes: int = Field(default=2 << 30, ge=256 << 20)
    requests_a_minute: int = Field(default=120, ge=1)
    sign_ins_a_minute: int = Field(default=10, ge=1)
    session_hours: float = Field(default=12, gt=0)
    secure_cookies: bool = False


class HiddenSettings(_Settings):
    """The part of a board file that is about hidden benchmarks."""

    submissions: SubmissionSettings
    hidden: tuple[HiddenBenchmark, ...]


def read_hidden(path: Path) -> HiddenSettings | None:
    """Read a board file's hidden benchmarks; None if it has none. Folders are relative to the file."""
    if not path.exists():
        raise DataError(
            f"no board file {path}; for hidden labels, `tellapart board new DIR --pairs P` makes DIR/board.toml"
        )
    content = read_toml(path)
    if not content.get("hidden"):
        return None
    tables = {"submissions": content.get("submissions", {"state": "state"}), "hidden": content["hidden"]}
    try:
        settings = HiddenSettings.model_validate(tables)
    except ValidationError as error:
        raise DataError(f"{path}: {Problem.first(error)}") from error
    names = [benchmark.name for benchmark in settings.hidden]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{path}: two hidden benchmarks are called {repeated[0]!r}; name each once")
    return HiddenSettings(
        submissions=_resolve_paths(settings.submissions, path.parent),
        hidden=tuple(_resolve_paths(benchmark, path.parent) for benchmark in settings.hidden),
    )


def _resolve_paths(settings: _S, folder: Path) -> _S:
    """Return settings with their paths relative to a folder."""
    paths = {name: folder / value.expanduser() for name, value in settings if isinstance(value, Path)}
    return settings.model_copy(update=paths)


def check_limits(benchmark: HiddenBenchmark, items: int, shape: tuple[int, int] | None, numbers: int) -> None:
    """Refuse limits under which one user's files could give too much of the public labels away."""
    leaked, hidden = leaked_bits(benchmark.total, benchmark.step, numbers), label_bits(items, shape)
    if leaked > benchmark.largest_share * hidden:
        allowed = allowed_submissions(items, shape, benchmark.step, benchmark.largest_share, numbers)
        remedy = f"a total of {allowed}, fewer metrics" if allowed else "fewer metrics"
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {benchmark.total} files with {numbers} numbers each, rounded to "
            f"{benchmark.step}, give up to {leaked:.0f} bits away, and the {items} public labels are {hidden:.0f}; at "
            f"most {100 * benchmark.largest_share:g} % of them may be: set {remedy}, a larger step, or add items"
        )
