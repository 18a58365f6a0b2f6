"""Settings of hidden benchmarks, the tables `[submissions]` and `[[hidden]]` of a board file, and their limits."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from tellapart.benchmarks.find import find_benchmark
from tellapart.board.submissions.worker import exact_step
from tellapart.data.rows import read_toml
from tellapart.data.validation import validate
from tellapart.errors import DataError, TellapartError
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE, TASKS

# A number rounded to a step of 0.01 takes one of 101 values, so a file with one number reveals at most log2(101) = 6.66
# bits. Labels are bits, too: an item of two images and two texts hides one, an item of `m` texts log2(m), and a task's
# record counts as one. Labels that can be guessed, or that follow from one another, hide less.
#
# That bounds all labels together. The difference attack learns one label sooner. Tied scores are always wrong, so a
# file that guesses the first `j` items and ties the others gets the number (right guesses) / n. A search over `j` finds
# the item at which the rounded number first rises. From then on each file reveals one more label, or more if a step is
# a few items (`bench/label_attack.py`). Rounding lengthens the search only by a logarithm. What protects labels is the
# limit on files, and the private split.

#: Probabilities below this are left out of a sum.
_NEGLIGIBLE = 1e-12


def in_points(step: float) -> str:
    """Return a step in percentage points, in words: `1 point`, `0.5 points`."""
    points = f"{float(100 * exact_step(step)):g}"
    return f"{points} point" if points == "1" else f"{points} points"


def leaked_bits(submissions: int, step: float, numbers: int = 1) -> float:
    """Return the most bits that submissions can learn: log2 of the possible values, summed over the numbers of each.

    Source: the counting bound, used likewise in Blum and Hardt, The Ladder (2015), section 3.
    """
    return submissions * numbers * math.log2(1 + 1 / exact_step(step))


def label_bits(items: int, shape: tuple[int, int] | None) -> float:
    """Return the bits in the labels of some items: which text belongs to which image; one bit for a task's record."""
    if shape is None:
        return float(items)
    images, texts = shape
    return items * math.log2(math.factorial(images) if images == texts else max(images, texts))


def allowed_submissions(items: int, shape: tuple[int, int] | None, step: float, share: float, numbers: int = 1) -> int:
    """Return how many submissions together reveal at most a share of the labels' bits."""
    return int(share * label_bits(items, shape) / leaked_bits(1, step, numbers))


def submissions_for_all_labels(items: int, shape: tuple[int, int] | None, step: float, numbers: int = 1) -> int:
    """Return the fewest submissions that could reveal every label: the information bound."""
    return math.ceil(label_bits(items, shape) / leaked_bits(1, step, numbers))


def first_step(items: int, step: float) -> int:
    """Return how many items must be right before the rounded number rises above 0."""
    return max(1, math.ceil(exact_step(step) * items / 2))


@cache
def submissions_for_one_label(items: int, step: float, shape: tuple[int, int] | None = (2, 2)) -> float:
    """Return how many submissions the best search that we know takes on average until it is certain of one label.

    If one right item changes the number, one file with one guess reveals its label. Else the guess at which the number
    rises is distributed as the `first_step`-th success (a negative binomial), and each file halves the remaining
    probability. In a task an answer that is certainly wrong takes the place of the tie. Statements have no such answer,
    and take longer.
    """
    needed = first_step(items, step)
    if needed == 1:
        return 1.0
    totals = [0.0, *accumulate(rise_chances(items, step, shape))]

    def count_files(start: int, end: int) -> float:
        """Return the expected number of files that the search needs between two guesses."""
        if end - start < 2 or (probability := totals[end] - totals[start]) < _NEGLIGIBLE:
            return 0.0
        middle = middle_index(totals, start, end)
        return probability + count_files(start, middle) + count_files(middle, end)

    return count_files(0, len(totals) - 1)


def rise_chances(items: int, step: float, shape: tuple[int, int] | None = (2, 2)) -> list[float]:
    """Return the probabilities that the number first rises with guess `first_step`, the next... and never."""
    needed, right = first_step(items, step), 2 ** -label_bits(1, shape)
    last = min(items, math.ceil((needed + 12 * math.sqrt(needed)) / right))  # a later rise has less than a millionth
    log_right, log_wrong = math.log(right), math.log1p(-right)
    chances = []
    for guess in range(needed, last + 1):
        log_ways = math.lgamma(guess) - math.lgamma(needed) - math.lgamma(guess - needed + 1)
        chances.append(math.exp(log_ways + needed * log_right + (guess - needed) * log_wrong))
    return [*chances, max(0.0, 1 - sum(chances))]


def middle_index(totals: Sequence[float], start: int, end: int) -> int:
    """Return the index between two others at which running totals are nearest to the middle of the others' totals."""
    half = (totals[start] + totals[end]) / 2
    index = bisect_left(totals, half, start + 1, end - 1)
    return index - 1 if index - 1 > start and half - totals[index - 1] < totals[index] - half else index


#: The names that a hidden benchmark may have, such as `clocks-2`.
BENCHMARK_NAME = r"^[a-z0-9][a-z0-9-]{0,62}$"


class _Settings(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A table of a board file, whose paths are relative to the file."""

    def below(self, folder: Path) -> Self:
        """Return the settings with their paths relative to a folder."""
        paths = {name: folder / value.expanduser() for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class HiddenBenchmark(_Settings, frozen=True):
    """A benchmark with hidden labels.

    Attributes:
        name: its name in addresses and tables: lower case letters, digits and hyphens.
        pairs: the folder of a pair set, with its labels.
        benchmark: instead of `pairs`, a benchmark of the catalogue, of pairs or of a task.
        data, images: that benchmark's files, as `--data` and `--images` name them; nothing is fetched.
        title: its name for people; `name` if not given.
        protocol: the content of submitted files: `scores` of images and texts, `answers` in words (2x2 items; as
            `pairing:` asks them), or a task's `predictions`, its default.
        metrics: the published metrics, of which the last ranks models; the headline's if not given.
        public_share: the share of the items whose numbers are published while the benchmark is open; no cluster is
            split.
        step: the step to which numbers are rounded.
        daily: how many files of a user count on one day.
        total: how many files of a user count in all.
        largest_share: the share of the public labels' bits that one user's files may reveal; above 1 for trials.
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
    step: Annotated[float, AfterValidator(lambda step: exact_step(step) and step)] = 0.01
    daily: int = Field(default=3, ge=1)
    total: int = Field(default=20, ge=1)
    largest_share: float = Field(default=0.5, gt=0)
    closes: AwareDatetime | None = None

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
        allowed = PAIRS.accepts if self.benchmark is None else _allowed_protocols(self.benchmark)
        if self.protocol not in allowed:
            raise ValueError(f"protocol {self.protocol!r}: of this benchmark {' or '.join(allowed)} are taken")
        return self


def _allowed_protocols(name: str) -> tuple[str, ...]:
    """Return the protocols that a benchmark of the catalogue allows, the default first."""
    if ":" in name:
        raise ValueError(f"{name!r} is not in the catalogue (`tellapart ls benchmarks`); `pairs` names a set's folder")
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


class SubmissionSettings(_Settings, frozen=True):
    """Limits of a server that takes files and measures them.

    Attributes:
        state: the folder of the server's secret, its database, the task files and the submitted files.
        upload_bytes: the size of the largest file.
        spare_bytes: how many bytes must stay free on the disk.
        seconds: CPU time to read one file, and as much again to measure it.
        memory_bytes: address space, likewise.
        requests_a_minute: requests with one token or, without a token, from one address.
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


class HiddenSettings(_Settings, frozen=True):
    """The part of a board file that is about hidden benchmarks."""

    submissions: SubmissionSettings
    hidden: tuple[HiddenBenchmark, ...]


def read_hidden(path: Path) -> HiddenSettings | None:
    """Read a board file's hidden benchmarks; None if it has none. Folders are relative to the file."""
    if not path.exists():
        raise DataError(f"no board file {path}; for hidden labels, `tellapart board new DIR --pairs P` writes one")
    content = read_toml(path)
    if not content.get("hidden"):
        return None
    tables = {"submissions": content.get("submissions", {"state": "state"}), "hidden": content["hidden"]}
    settings = validate(HiddenSettings, tables, str(path))
    names = [benchmark.name for benchmark in settings.hidden]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{path}: two hidden benchmarks are called {repeated[0]!r}; name each once")
    return HiddenSettings(
        submissions=settings.submissions.below(path.parent),
        hidden=tuple(benchmark.below(path.parent) for benchmark in settings.hidden),
    )


def check_limits(
    benchmark: HiddenBenchmark, items: int, shape: tuple[int, int] | None, numbers: int
) -> dict[str, float]:
    """Return how much a user's files reveal of the public labels; refuse limits that allow too much."""
    leaked, hidden = leaked_bits(benchmark.total, benchmark.step, numbers), label_bits(items, shape)
    if leaked > benchmark.largest_share * hidden:
        allowed = allowed_submissions(items, shape, benchmark.step, benchmark.largest_share, numbers)
        remedy = f"a total of {allowed}, fewer metrics" if allowed else "fewer metrics"
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {benchmark.total} files with {numbers} numbers each, rounded to "
            f"{benchmark.step}, give up to {leaked:.0f} bits away, and the {items} public labels are {hidden:.0f}; at "
            f"most {100 * benchmark.largest_share:g} % of them may be: set {remedy}, a larger step, or add items"
        )
    return {
        "labels_bits": hidden,
        "told_bits_at_most": leaked,
        "submissions_for_one_label": submissions_for_one_label(items, benchmark.step, shape),
        "submissions_for_all_labels_at_least": submissions_for_all_labels(items, shape, benchmark.step, numbers),
    }


#: Steps of rounding, the finest first. Coarser ones leave so few numbers that models with many errors have the same.
STEPS = (0.01, 0.02, 0.05, 0.1)
#: A step finer than this is taken only if it allows so many files.
_USEFUL, _ENOUGH_FILES = 0.05, 10
#: The public part may be smaller than its share by this factor, as clusters are not split.
_LEAST = 0.9


def fit_limits(items: int, shape: tuple[int, int]) -> dict[str, float] | None:
    """Return `public_share`, `daily`, `total` and the finest `step` at which ten files of a user may count.

    If 0.01 and 0.02 do not allow ten, the step is 0.05 with as many files as it allows, or 0.1 if 0.05 allows none.
    None if no step allows a file.
    """
    limits = {name: HiddenBenchmark.model_fields[name].default for name in ("public_share", "daily", "total")}
    share = HiddenBenchmark.model_fields["largest_share"].default
    for step in STEPS:
        allowed = allowed_submissions(int(_LEAST * limits["public_share"] * items), shape, step, share)
        if allowed >= (_ENOUGH_FILES if step < _USEFUL else 1):
            return {"step": step, **limits, **{name: min(limits[name], allowed) for name in ("daily", "total")}}
    return None
