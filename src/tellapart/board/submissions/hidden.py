"""The board file's hidden benchmarks: whose labels stay on the server, how often they may be tried, and how much is told.

```toml
[submissions]
state = "state"              # the folder of the server's secret, its database and what was sent; relative to this file

[[hidden]]
name = "clocks"
pairs = "/srv/clocks"        # a pair set's folder: pairs.jsonl and images
public_share = 0.5           # of the items: their numbers are told at once, the others' after closing
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

A file without `[[hidden]]` has none; other tables are the board's own.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from tellapart.benchmarks.benchmark import find_benchmark
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.board.submissions.hideable import HIDEABLE
from tellapart.board.submissions.rounding import bits_told, hidden_bits, round_to
from tellapart.data.rows import read_toml
from tellapart.data.validation import Problem
from tellapart.errors import DataError, MetricError, TellapartError

__all__ = ["HiddenBenchmark", "HiddenSettings", "SubmissionSettings", "check_limits", "closed", "read_hidden"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HiddenBenchmark(_Settings):
    """One benchmark whose labels are not told.

    Attributes:
        name: in addresses and tables: lower case letters, digits and hyphens.
        pairs: a pair set's folder, with its labels.
        benchmark: or a benchmark of the catalogue, of pairs or of a task.
        data, images: that benchmark's files, as `--data` and `--images` name them; nothing is fetched.
        title: for people; the name if not given.
        protocol: of pairs: `scores` of images and texts, or `answers` in words (2x2 items; as `pairing:` asks them); of a
            task: its `predictions`, which need not be said.
        metrics: whose numbers are told, models being ranked by the last; the headline's of what is measured if not given.
        public_share: of the items, from whole clusters, whose numbers are told while it is open.
        step: to which numbers are rounded.
        daily, total: files that count, a user.
        largest_share: of the public labels' bits that one user's files may tell at most; above 1 for a board that only tries things out.
        closes: when it closes by itself.

    >>> HiddenBenchmark(name="clocks", pairs="clocks").daily
    3
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
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
    def _divides(cls, step: float) -> float:
        try:
            round_to(0.0, step)
        except MetricError as error:
            raise ValueError(str(error)) from error
        return step

    @model_validator(mode="before")
    @classmethod
    def _protocol_of_a_task(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("benchmark"), str) or "protocol" in given:
            return given
        return {**given, "protocol": _protocols(given["benchmark"])[0]}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.pairs is None) == (self.benchmark is None):
            raise ValueError("name either `pairs`, a pair set's folder, or `benchmark`, one of the catalogue")
        if self.benchmark is None and (self.data or self.images):
            raise ValueError("`data` and `images` are of a `benchmark`; a pair set's folder holds everything")
        if self.protocol not in (allowed := _PAIRS if self.benchmark is None else _protocols(self.benchmark)):
            raise ValueError(f"protocol {self.protocol!r}: of this benchmark {' or '.join(allowed)} are taken")
        return self


_PAIRS = ("scores", "answers")


def _protocols(name: str) -> tuple[str, ...]:
    """Return what may be sent to a benchmark of the catalogue, the usual first."""
    if ":" in name:
        raise ValueError(
            f"{name!r} is not of the catalogue (`tellapart ls benchmarks`); a folder of pairs is named by `pairs`"
        )
    try:
        found = find_benchmark(name)
    except TellapartError as error:
        raise ValueError(str(error)) from error
    if not isinstance(found, TaskBenchmark):
        return _PAIRS
    if found.task not in HIDEABLE:
        raise ValueError(
            f"the task {found.task!r} of {name} cannot be hidden: its numbers are no means over units that are right or "
            f"wrong for themselves; tasks that can are {', '.join(HIDEABLE)}"
        )
    return ("predictions",)


class SubmissionSettings(_Settings):
    """How files are taken and measured.

    Attributes:
        state: the folder of the server's secret, its database, the task files and what was sent.
        upload_bytes: the largest file that is taken.
        spare_bytes: what must stay free on the disk.
        seconds: of processor time that reading one file may take, and again measuring what it says.
        memory_bytes: likewise, of address space.
        requests_a_minute: of one token or, without one, of one address.
        sign_ins_a_minute: attempts from one address.
        session_hours: how long a browser stays signed in.
        secure_cookies: cookies are sent over https alone; set it where the board is reached that way.

    >>> SubmissionSettings(state="state").seconds
    120
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
    """What a board file says of hidden benchmarks.

    >>> HiddenSettings(submissions=SubmissionSettings(state="state"), hidden=()).hidden
    ()
    """

    submissions: SubmissionSettings
    hidden: tuple[HiddenBenchmark, ...]


def read_hidden(path: Path) -> HiddenSettings | None:
    """Read a board file's hidden benchmarks; None if it has none. Folders are relative to the file.

    Raises:
        DataError: the file cannot be read, is no TOML, a key is unknown or its value is not what it should be, or two
            benchmarks have one name.

    >>> read_hidden(Path("gone.toml"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.toml: cannot be read (No such file or directory)
    """
    content = read_toml(path)
    if not content.get("hidden"):
        return None
    try:
        found = HiddenSettings.model_validate(
            {"submissions": content.get("submissions", {"state": "state"}), "hidden": content["hidden"]}
        )
    except ValidationError as error:
        raise DataError(f"{path}: {Problem.first(error)}") from error
    names = [benchmark.name for benchmark in found.hidden]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{path}: two hidden benchmarks are called {repeated[0]!r}; name each once")
    folder = path.parent
    hidden = [
        each.model_copy(
            update={
                field: folder / path.expanduser()
                for field in ("pairs", "data", "images")
                if (path := getattr(each, field)) is not None
            }
        )
        for each in found.hidden
    ]
    state = folder / found.submissions.state.expanduser()
    update: dict[str, Any] = {
        "hidden": tuple(hidden),
        "submissions": found.submissions.model_copy(update={"state": state}),
    }
    return found.model_copy(update=update)


def check_limits(benchmark: HiddenBenchmark, items: int, shape: tuple[int, int] | None, numbers: int) -> None:
    """Refuse limits under which one user's files could tell too much of the public labels.

    Args:
        benchmark: its step, total and largest share.
        items: of the public split.
        shape: images and texts of an item; None for a task's records.
        numbers: told of each file.

    Raises:
        DataError: they could; the message says what would do.

    >>> check_limits(HiddenBenchmark(name="clocks", pairs="clocks", total=200), 100, (2, 2), 3)
    Traceback (most recent call last):
    tellapart.errors.DataError: hidden benchmark 'clocks': 200 files with 3 numbers each, rounded to 0.01, tell up to 3995 bits, and the 100 public labels are 100; at most 50 % of them may be told: set a total of 2, fewer metrics, a larger step, or add items
    """
    told, hidden = bits_told(benchmark.total, benchmark.step, numbers), hidden_bits(items, shape)
    if told > benchmark.largest_share * hidden:
        most = int(benchmark.largest_share * hidden / bits_told(1, benchmark.step, numbers))
        remedy = f"a total of {most}, fewer metrics" if most else "fewer metrics"
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {benchmark.total} files with {numbers} numbers each, rounded to "
            f"{benchmark.step}, tell up to {told:.0f} bits, and the {items} public labels are {hidden:.0f}; at most "
            f"{100 * benchmark.largest_share:g} % of them may be told: set {remedy}, a larger step, or add items"
        )


def closed(benchmark: HiddenBenchmark, now: float, by_hand: float | None) -> bool:
    """Return whether a benchmark is closed: by its date, or by hand.

    Args:
        benchmark: its date.
        now: seconds since 1970.
        by_hand: when an admin closed it.

    >>> closed(HiddenBenchmark(name="clocks", pairs="clocks"), 0.0, None)
    False
    """
    dated = benchmark.closes is not None and now >= datetime.timestamp(benchmark.closes)
    return dated or by_hand is not None
