"""The service of hidden benchmarks: accounts, the queue, leaderboards and the log, for pages and commands."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tellapart.board.submissions.accounts import Account, Accounts
from tellapart.board.submissions.hidden import HiddenSettings, read_hidden
from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.board.submissions.prepared import Prepared, find_prepared, prepare
from tellapart.board.submissions.published import (
    Standing,
    as_result,
    as_row,
    read_measured,
    standings,
    write_results,
)
from tellapart.board.submissions.queue import Queue, Worker
from tellapart.board.submissions.queue_limits import QueueLimits, UploadLimit
from tellapart.board.submissions.rate import RateLimit
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.rounding import (
    label_bits,
    leaked_bits,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.board.submissions.state import DATABASE, MARKER, REMEDY, digest_of, open_state, write_marker
from tellapart.errors import RunError, StoreError
from tellapart.records.result import Result

_PAGE = 200  # entries of the log, or submissions, at once
#: Columns of a submission that its sender sees.
_SHOWN = ("id", "user", "benchmark", "model", "sha256", "bytes", "created", "state", "error", "field")


class Submissions:
    """The hidden benchmarks of a board, and everything behind their routes."""

    def __init__(
        self, settings: HiddenSettings, *, clock: Callable[[], float] = time.time, accept: bool = False
    ) -> None:
        self.settings, self.clock = settings.submissions, clock
        self.state = self.settings.state
        secret, self.database = open_state(self.state, accept=accept)
        self._secret, self._noted = secret, self.database.counters()
        self.accounts = Accounts(self.database, keyed_hash(secret, "accounts"), clock)
        self.prepared: dict[str, Prepared] = {
            benchmark.name: prepare(benchmark, self.state / "hidden", keyed_hash(secret, "hidden", benchmark.name))
            for benchmark in settings.hidden
        }
        self._mark_prepared()
        self.queue = Queue(self.database, self.settings, self.prepared, clock)
        self.requests = RateLimit(self.settings.requests_a_minute, time.monotonic)
        self.sign_ins = RateLimit(self.settings.sign_ins_a_minute, time.monotonic)
        self.uploads = UploadLimit()
        self._worker: Worker | None = None

    def _mark_prepared(self) -> None:
        """Compare the prepared files with their marks in the database; mark new ones."""
        with self.database.change() as rows:
            marks = self.database.read_marks(rows)
            for prepared in self.prepared.values():
                for path, digest in (
                    (prepared.truth, digest_of(prepared.truth)),
                    (prepared.task_file, prepared.fingerprint),
                ):
                    name = f"{prepared.benchmark.name}/{path.name}"
                    if marks.get(name, digest) != digest:
                        raise StoreError(f"{path} is not the file that was prepared; {REMEDY}")
                    rows.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", (name, digest))

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
        self.write_records_alone()
        self._worker = Worker(self.queue, self._look_around, self.write_records)
        self._worker.start()

    def stop(self) -> None:
        """Stop measuring; files that are not done are measured after the next start."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
            self.note_counters()

    def benchmark(self, name: str) -> Prepared:
        """Return a hidden benchmark."""
        return find_prepared(self.prepared, name)

    def is_closed(self, name: str) -> bool:
        """Return whether a benchmark is closed: private numbers are published, and no file is taken any more."""
        return self.queue.limits.is_closed(self.benchmark(name).benchmark)

    def _closed_names(self) -> frozenset[str]:
        return frozenset(name for name in self.prepared if self.is_closed(name))

    def _look_around(self) -> frozenset[str]:
        """Note how far the state has come, and return the closed benchmarks; called every few seconds."""
        self.note_counters()
        return self._closed_names()

    def close(self, name: str, *, by: str) -> None:
        """Close a benchmark for good."""
        if self.is_closed(name) or not self.queue.limits.close(name, by=by):
            raise RefusedError(409, f"{name} is closed already")
        self.queue.wake.set()  # the thread writes the records

    def about(self, name: str, root: str = "") -> dict[str, Any]:
        """Describe a benchmark, its limits, and how much its numbers give away."""
        prepared = self.benchmark(name)
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
            "closed": self.is_closed(name),
            "fingerprint": prepared.fingerprint,
            "labels_bits": label_bits(prepared.public, prepared.shape),
            "told_bits_at_most": leaked_bits(settings.total, settings.step, numbers),
            "submissions_for_one_label": submissions_for_one_label(prepared.public, settings.step, prepared.shape),
            "submissions_for_all_labels_at_least": submissions_for_all_labels(
                prepared.public, prepared.shape, settings.step, numbers
            ),
        }

    def check_allowed(self, account: Account, name: str, sizes: range) -> None:
        """Refuse a file before it comes if `Queue.take` would refuse it."""
        with self.database.look() as rows:
            try:
                self.queue.check(rows, account, name)
            except RefusedError as error:
                if error.status == 404 or not self.queue.may_be_again(rows, account.user, name, sizes):
                    raise

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
        now = self.queue.limits.clock()
        names = [name for name in self.prepared if account.may("submitter") and not self.is_closed(name)]
        with self.database.look() as rows:
            left = [QueueLimits.count_left(rows, account.user, self.prepared[name].benchmark, now) for name in names]
        return {name: {"today": today, "in_all": total} for name, (total, today) in zip(names, left, strict=True)}

    def _row_view(self, row: sqlite3.Row) -> dict[str, Any]:
        is_hidden = row["benchmark"] in self.prepared
        private = row["private"] if is_hidden and self.is_closed(row["benchmark"]) else None
        return {
            **{name: row[name] for name in _SHOWN},
            "public": json.loads(row["public"]) if row["public"] else None,
            "private": json.loads(private) if private else None,
        }

    def standings(self, name: str) -> list[Standing]:
        """Return a benchmark's leaderboard."""
        closed, metric = self.is_closed(name), self.benchmark(name).metrics[-1]
        rows = self.database.all("SELECT * FROM submission WHERE benchmark = ? AND state = 'done'", name)
        measured = [read_measured(row, private=closed) for row in rows]
        return standings([submission for submission in measured if metric in submission.public.values], metric)

    def listing(self, root: str = "") -> dict[str, Any]:
        """Return the content of the page that lists the hidden benchmarks, with addresses below the path `root`."""
        return {"benchmarks": [self.about(name, root) for name in self.prepared]}

    def leaderboard(self, name: str, root: str = "") -> dict[str, Any]:
        """Return the content of a benchmark's page: rounded numbers, private ones after closing alone."""
        shape = self.benchmark(name).shape
        return {
            "benchmark": self.about(name, root),
            "models": [as_row(standing, shape) for standing in self.standings(name)],
        }

    def results(self, name: str) -> list[Result]:
        """Return a benchmark's leaderboard as records, for a board's other pages."""
        return [as_result(standing, self.benchmark(name)) for standing in self.standings(name)]

    @property
    def records(self) -> Path:
        """The folder of `write_records`; a board shows it like any folder of runs."""
        return self.state / "records"

    def write_records(self) -> None:
        """Write every leaderboard as run folders without samples, without numbers that are still private."""
        for name in self.prepared:
            write_results(self.records / name, self.results(name))

    def write_records_alone(self) -> None:
        """Write the records unless a server does, which holds the queue's lock."""
        with self.queue.lock() as locked:
            if locked:
                with contextlib.suppress(RunError):  # a full disk: the thread writes them later
                    self.write_records()

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
    if not measuring and not any((settings.submissions.state / name).exists() for name in (DATABASE, MARKER)):
        yield None
        return
    try:
        submissions = Submissions(settings)
        if measuring:
            submissions.start()
        else:
            submissions.write_records_alone()
    except sqlite3.Error as error:
        database = settings.submissions.state / DATABASE
        raise StoreError(f"{database} cannot be used as the board's database: {error}; {REMEDY}") from error
    if not measuring:
        yield submissions
        return
    try:
        yield submissions
    finally:
        submissions.stop()
