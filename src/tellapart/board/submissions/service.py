"""The service of hidden benchmarks: accounts, the queue, leaderboards and the log, for pages and commands."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tellapart.board.submissions.accounts import (
    DATABASE,
    MARKER,
    REMEDY,
    Account,
    Accounts,
    RateLimit,
    RefusedError,
    UploadLimit,
    open_state,
    read_marks,
    write_marker,
)
from tellapart.board.submissions.hidden import (
    HiddenSettings,
    in_points,
    label_bits,
    leaked_bits,
    read_hidden,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.board.submissions.prepared import Prepared, Split, digest_of, keyed_hash, prepare
from tellapart.board.submissions.queue import Queue
from tellapart.board.watch import TirelessThread
from tellapart.errors import RunError, StoreError, first_line
from tellapart.records.result import (
    HIDDEN,
    HIDDEN_NUMBERS,
    BenchmarkResult,
    Metrics,
    ModelRecord,
    Result,
    RunRecord,
    Value,
)
from tellapart.stats.intervals import independent_interval
from tellapart.tasks.registry import METRICS, TASKS

# An interval of hidden numbers is that of independent items (Clopper and Pearson's of 40 or fewer, else Wilson's)
# around the rounded number, with each cluster as one trial (fewer where their sizes differ): it is computed from
# published numbers and sizes, and gives nothing more away. (A bootstrap interval would be another number computed from
# the labels.)


@dataclass(frozen=True, slots=True)
class MeasuredSubmission:
    """A measured file of a user."""

    id: str
    user: str
    model: str
    at: float  # sent, in seconds since 1970
    public: Split
    private: Split | None  # None while the benchmark is open
    field: str = ""  # that it was read from; empty if not recorded
    # rank, private_rank: of the model's best file by its public and its private number, 1 for the best; equal numbers
    # share one; None while the benchmark is open
    rank: int | None = None
    private_rank: int | None = None

    @property
    def change(self) -> int | None:
        """Places gained (or, below 0, lost) by the private split; None while the benchmark is open."""
        return None if self.rank is None or self.private_rank is None else self.rank - self.private_rank

    @property
    def splits(self) -> dict[str, Split]:
        """The published splits by name."""
        return {"public": self.public, **({"private": self.private} if self.private else {})}


_SPLIT = TypeAdapter(Split)


def standings(measured: Sequence[MeasuredSubmission], metric: str) -> list[MeasuredSubmission]:
    """Rank the models of a benchmark by a metric of their best public file, the earliest of several.

    Once they are published, private numbers decide.
    """
    best: dict[tuple[str, str], MeasuredSubmission] = {}
    for sent in sorted(measured, key=lambda sent: sent.at):
        other = best.get((sent.user, sent.model))
        if other is None or sent.public.values[metric] > other.public.values[metric]:
            best[sent.user, sent.model] = sent
    leaders = list(best.values())
    ranks = _rank_values([sent.public.values[metric] for sent in leaders])
    private = [sent.private.values[metric] for sent in leaders if sent.private]
    private_ranks = _rank_values(private) if len(private) == len(leaders) else [None] * len(leaders)
    placed = zip(leaders, ranks, private_ranks, strict=True)
    rows = [replace(sent, rank=rank, private_rank=own) for sent, rank, own in placed]
    return sorted(rows, key=lambda row: (row.private_rank or row.rank, row.rank, row.at))


def _rank_values(values: Sequence[float]) -> list[int]:
    return [1 + sum(other > value for other in values) for value in values]


def read_measured(row: sqlite3.Row, *, private: bool) -> MeasuredSubmission:
    """Read a row of the database."""
    try:
        datetime.fromtimestamp(row["created"], UTC)
        return MeasuredSubmission(
            id=row["id"],
            user=row["user"],
            model=row["model"],
            at=row["created"],
            public=_SPLIT.validate_json(row["public"]),
            private=_SPLIT.validate_json(row["private"]) if private else None,
            field=row["field"],
        )
    except (ArithmeticError, OSError, TypeError, ValueError) as error:
        raise StoreError(
            f"the database of submissions is damaged: submission {row['id']} holds what no board writes "
            f"({first_line(error)}); restore the state from a backup"
        ) from error


def values_of(split: Split, shape: tuple[int, int] | None) -> dict[str, Value]:
    """Return a split's numbers as records have them; `shape` is None for a task's records."""
    values = {}
    for name, value in split.values.items():
        items, clusters = split.units.get(name, (split.items, split.clusters))
        effective = split.worth.get(name, clusters)
        interval = independent_interval(value * effective, effective)
        values[name] = Value(
            value=value,
            low=interval.low,
            high=interval.high,
            method=f"{interval.method} on clusters, around the rounded number",
            n=items,
            clusters=clusters,
            ties=split.ties,
            chance=METRICS[name].chance(shape),
            average="micro: items",
        )
    return values


def as_result(best: MeasuredSubmission, prepared: Prepared) -> Result:
    """Return a model's row as a record without samples, which a board shows like any other."""
    settings = prepared.benchmark
    numbers = {name: values_of(split, prepared.shape) for name, split in best.splits.items()}
    split = "private" if best.private else "public"
    count = f"{best.splits[split].items:,} {split} of {prepared.items:,}"
    benchmark = BenchmarkResult(
        title=settings.title or settings.name,
        fingerprint=f"{HIDDEN}{prepared.fingerprint}",
        task=prepared.task,
        output=TASKS[prepared.task].output,
        shape=prepared.shape,
        metrics=numbers[split],
        by={"split": {name: Metrics(metrics=values) for name, values in numbers.items()}},
        field=best.field,
        tied_items=best.splits[split].ties,
        origin=f"submission {best.id} by {best.user}",
        notes=(f"labels are hidden; {HIDDEN_NUMBERS}{count} items, rounded to {in_points(settings.step)}",),
    )
    return Result(
        run=RunRecord(started=datetime.fromtimestamp(best.at, UTC).isoformat(), seed=0, command="", versions={}),
        model=ModelRecord(name=best.model, fingerprint=f"submission-{best.id}"),
        benchmarks={settings.name: benchmark},
    )


_PAGE = 200  # entries of the log, or submissions, at once
#: Columns of a submission that its sender sees.
_SHOWN = ("id", "user", "benchmark", "model", "sha256", "bytes", "created", "state", "error", "field")


class Submissions:
    """The hidden benchmarks of a board, and everything behind their routes."""

    def __init__(
        self, settings: HiddenSettings, *, clock: Callable[[], float] = time.time, accept: bool = False
    ) -> None:
        if os.name != "posix":
            raise RunError(
                "hidden benchmarks need Linux or macOS: a stranger's file is read in a confined process there"
            )
        self.settings, self.clock = settings.submissions, clock
        self.state = self.settings.state
        secret, self.database = open_state(self.state, accept=accept)
        self._secret, self._noted = secret, self.database.counters()
        self.accounts = Accounts(self.database, keyed_hash(secret, "accounts"), clock)
        self.prepared: dict[str, Prepared] = {
            benchmark.name: prepare(benchmark, self.state / "hidden", keyed_hash(secret, "hidden", benchmark.name))
            for benchmark in settings.hidden
        }
        with self.database.change() as rows:  # the prepared files agree with their marks, or are new and get some
            marks = read_marks(rows)
            for prepared in self.prepared.values():
                digests = {prepared.truth: digest_of(prepared.truth), prepared.task_file: prepared.fingerprint}
                for path, digest in digests.items():
                    name = f"{prepared.benchmark.name}/{path.name}"
                    if marks.get(name, digest) != digest:
                        raise StoreError(f"{path} is not the file that was prepared; {REMEDY}")
                    rows.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", (name, digest))
        self.queue = Queue(self.database, self.settings, self.prepared, clock)
        self.requests = RateLimit(self.settings.requests_a_minute, time.monotonic)
        self.sign_ins = RateLimit(self.settings.sign_ins_a_minute, time.monotonic)
        self.uploads = UploadLimit()
        self._worker: TirelessThread | None = None

    def note_counters(self) -> None:
        """Write the database's counters next to it if they have grown."""
        counters = self.database.counters()
        if counters != self._noted:
            with contextlib.suppress(StoreError):  # a full disk: later
                write_marker(self.state, self._secret, counters)
                self._noted = counters

    def start(self) -> None:
        """Start the thread that measures files."""
        with self.queue.lock() as locked:
            if locked:  # no other server takes files here
                self.queue.sweep()
        turn = partial(self.queue.take_turn, self._look_around)
        self._worker = TirelessThread("submissions", turn, self.queue.stopping)
        self._worker.start()

    def stop(self) -> None:
        """Stop measuring; files that are not done are measured after the next start."""
        if self._worker is not None:
            self.queue.stop()
            self._worker.join()
            self._worker = None
            self.note_counters()

    def _look_around(self) -> None:
        """Note how far the state has come, and closings by date; called every few seconds."""
        self.note_counters()
        for name in self.prepared:
            self.queue.is_closed(name)

    def close(self, name: str, *, by: str) -> None:
        """Close a benchmark for good."""
        if self.queue.is_closed(name) or not self.queue.close(name, by=by):
            raise RefusedError(409, f"{name} is closed already")

    def about(self, name: str, root: str = "") -> dict[str, Any]:
        """Describe a benchmark, its limits, and how much its numbers give away."""
        prepared = self.queue.benchmark(name)
        settings, numbers = prepared.benchmark, len(prepared.metrics)
        return {
            "name": name,
            "title": settings.title or name,
            "protocol": settings.protocol,
            "items": prepared.items,
            "public_items": prepared.public,
            "task": prepared.task,
            "what": prepared.what,
            "task_file": f"{root}/hidden/{name}/task.zip",
            "metrics": list(prepared.metrics),
            "step": settings.step,
            "daily": settings.daily,
            "total": settings.total,
            "closes": None if settings.closes is None else settings.closes.isoformat(),
            "closed": self.queue.is_closed(name),
            "fingerprint": prepared.fingerprint,
            "labels_bits": label_bits(prepared.public, prepared.shape),
            "told_bits_at_most": leaked_bits(settings.total, settings.step, numbers),
            "submissions_for_one_label": submissions_for_one_label(prepared.public, settings.step, prepared.shape),
            "submissions_for_all_labels_at_least": submissions_for_all_labels(
                prepared.public, prepared.shape, settings.step, numbers
            ),
        }

    def view(self, id_: str, account: Account) -> dict[str, Any]:
        """Return a submission as its sender, or an admin, may see it."""
        row = self.database.one("SELECT * FROM submission WHERE id = ?", id_)
        if row is None or not (row["user"] == account.user or account.may("admin")):
            raise RefusedError(404, f"no submission {id_!r:.80} of yours")
        return self._row_view(row)

    def sent(self, account: Account) -> list[dict[str, Any]]:
        """Return a user's submissions, newest first."""
        rows = self.database.all(
            "SELECT * FROM submission WHERE user = ? ORDER BY created DESC LIMIT ?", account.user, _PAGE
        )
        return [self._row_view(row) for row in rows]

    def files_left(self, account: Account) -> dict[str, dict[str, int]]:
        """Return how many more files of a user may count, `today` and `in_all`, for each benchmark that is open."""
        names = [name for name in self.prepared if account.may("submitter") and not self.queue.is_closed(name)]
        with self.database.look() as rows:
            left = [self.queue.count_left(rows, account.user, name, self.clock()) for name in names]
        return {name: {"today": today, "in_all": total} for name, (total, today) in zip(names, left, strict=True)}

    def _row_view(self, row: sqlite3.Row) -> dict[str, Any]:
        is_hidden = row["benchmark"] in self.prepared
        private = row["private"] if is_hidden and self.queue.is_closed(row["benchmark"]) else None
        return {
            **{name: row[name] for name in _SHOWN},
            "public": json.loads(row["public"]) if row["public"] else None,
            "private": json.loads(private) if private else None,
        }

    def standings(self, name: str) -> list[MeasuredSubmission]:
        """Return a benchmark's leaderboard."""
        closed, metric = self.queue.is_closed(name), self.queue.benchmark(name).metrics[-1]
        rows = self.database.all("SELECT * FROM submission WHERE benchmark = ? AND state = 'done'", name)
        measured = [read_measured(row, private=closed) for row in rows]
        return standings([submission for submission in measured if metric in submission.public.values], metric)

    def listing(self, root: str = "") -> dict[str, Any]:
        """Return the content of the page that lists the hidden benchmarks, with addresses below the path `root`."""
        return {"benchmarks": [self.about(name, root) for name in self.prepared]}

    def leaderboard(self, name: str, root: str = "") -> dict[str, Any]:
        """Return the content of a benchmark's page: rounded numbers, private ones after closing alone."""
        shape = self.queue.benchmark(name).shape
        return {
            "benchmark": self.about(name, root),
            "models": [
                {
                    **{name: getattr(row, name) for name in ("model", "user", "rank", "private_rank", "change")},
                    **{
                        split: {metric: value.model_dump() for metric, value in values_of(numbers, shape).items()}
                        for split, numbers in row.splits.items()
                    },
                }
                for row in self.standings(name)
            ],
        }

    def results(self) -> list[Result]:
        """Return every leaderboard's rows as records without samples, without numbers that are still private."""
        return [as_result(row, self.prepared[name]) for name in self.prepared for row in self.standings(name)]

    def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Return the entries of the log after an id, oldest first."""
        rows = self.database.all("SELECT * FROM log WHERE id > ? ORDER BY id LIMIT ?", after, _PAGE)
        return [{**dict(row), "about": json.loads(row["about"])} for row in rows]


@contextmanager
def open_submissions(board: Path | None, *, measuring: bool = True) -> Iterator[Submissions | None]:
    """Open a board file's hidden benchmarks and measure files while the block lasts; yield None if it has none."""
    settings = None if board is None else read_hidden(board)
    if settings is None:
        yield None
        return
    state = settings.submissions.state
    if not measuring and not any((state / name).exists() for name in (DATABASE, MARKER)):
        yield None
        return
    try:
        submissions = Submissions(settings)
        submissions.results()  # a damaged row stops the start, too
        if measuring:
            submissions.start()
    except sqlite3.Error as error:
        raise StoreError(f"{state / DATABASE} cannot be used as the board's database: {error}; {REMEDY}") from error
    try:
        yield submissions
    finally:
        submissions.stop()
