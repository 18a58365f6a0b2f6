"""The service of hidden benchmarks: accounts, the queue, leaderboards and the log, for pages and commands."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tellapart.board.submissions.accounts import Account, Accounts
from tellapart.board.submissions.database import Database
from tellapart.board.submissions.hidden import HiddenSettings, read_hidden
from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.prepared import Prepared, prepare
from tellapart.board.submissions.published import (
    MeasuredSubmission,
    Standing,
    as_result,
    as_row,
    standings,
    write_results,
)
from tellapart.board.submissions.queue import Queue, Worker
from tellapart.board.submissions.queue_limits import UploadLimit
from tellapart.board.submissions.rate import RateLimit
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.rounding import (
    label_bits,
    leaked_bits,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.data.atomic import sync_folder
from tellapart.errors import RunError, StoreError
from tellapart.records.result import Result

__all__ = ["Submissions", "open_submissions"]

DATABASE = "submissions.sqlite"
"""The database's file, in the state's folder."""

_PAGE = 200  # entries of the log, or submissions, at once
_SHOWN = ("id", "user", "benchmark", "model", "sha256", "bytes", "created", "state", "error")  # columns of a submission


class Submissions:
    """The hidden benchmarks of a board, and everything behind their routes.

    Args:
        settings: as `read_hidden` returns them.
        clock: seconds since 1970.

    Raises:
        DataError: a hidden benchmark cannot be prepared.
        StoreError: the state's folder cannot be used.
    """

    def __init__(self, settings: HiddenSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.clock = settings.submissions, clock
        self.state = self.settings.state
        secret = _read_secret(self.state)
        self.database = Database(self.state / DATABASE)
        self.accounts = Accounts(self.database, keyed_hash(secret, "accounts"), clock)
        self.prepared: dict[str, Prepared] = {
            each.name: prepare(each, self.state / "hidden", keyed_hash(secret, "hidden", each.name))
            for each in settings.hidden
        }
        self.queue = Queue(self.database, self.settings, self.prepared, clock)
        self.requests = RateLimit(self.settings.requests_a_minute, time.monotonic)
        self.sign_ins = RateLimit(self.settings.sign_ins_a_minute, time.monotonic)
        self.uploads = UploadLimit()
        self._worker: Worker | None = None

    def start(self) -> None:
        """Start the thread that measures files."""
        with self.queue.lock() as locked:
            if locked:  # no other server takes files here
                self.queue.sweep()
        self.write_records_alone()
        self._worker = Worker(self.queue, self._closed_names, self.write_records)
        self._worker.start()

    def stop(self) -> None:
        """Stop measuring; files that are not done are measured after the next start."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def benchmark(self, name: str) -> Prepared:
        """Return a hidden benchmark.

        Raises:
            RefusedError: the benchmark is unknown.
        """
        if name not in self.prepared:
            raise RefusedError(404, f"no hidden benchmark {name!r:.80}")
        return self.prepared[name]

    def is_closed(self, name: str) -> bool:
        """Return whether a benchmark is closed: private numbers are published, and no file is taken any more."""
        return self.queue.limits.is_closed(self.benchmark(name).benchmark)

    def _closed_names(self) -> frozenset[str]:
        return frozenset(name for name in self.prepared if self.is_closed(name))

    def close(self, name: str, *, by: str) -> None:
        """Close a benchmark for good.

        Raises:
            RefusedError: the benchmark is unknown, or closed already.
        """
        if self.is_closed(name) or not self.queue.limits.close(name, by=by):
            raise RefusedError(409, f"{name} is closed already")
        self.queue.wake.set()  # the thread writes the records

    def about(self, name: str) -> dict[str, Any]:
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
        """Refuse a file before it comes where `Queue.take` would refuse it.

        Args:
            account: of its sender.
            name: of the benchmark.
            sizes: that it may have: one of a size that was sent before may be the same file, and is answered.

        Raises:
            RefusedError: as `Queue.check`.
        """
        with self.database.look() as rows:
            try:
                self.queue.check(rows, account, name)
            except RefusedError as error:
                if error.status == 404 or not self.queue.may_be_again(rows, account.user, name, sizes):
                    raise

    def view(self, id_: str, account: Account) -> dict[str, Any]:
        """Return a submission as its sender, or an admin, may see it.

        Raises:
            RefusedError: it does not exist or is another user's; the message does not say which.
        """
        row = self.database.one("SELECT * FROM submission WHERE id = ?", id_)
        if row is None or not (row["user"] == account.user or account.may("admin")):
            raise RefusedError(404, f"no submission {id_!r:.80} of yours")
        return self._view(row)

    def sent(self, account: Account) -> list[dict[str, Any]]:
        """Return a user's submissions, newest first."""
        rows = self.database.all(
            "SELECT * FROM submission WHERE user = ? ORDER BY created DESC LIMIT ?", account.user, _PAGE
        )
        return [self._view(row) for row in rows]

    def _view(self, row: sqlite3.Row) -> dict[str, Any]:
        known = row["benchmark"] in self.prepared
        private = row["private"] if known and self.is_closed(row["benchmark"]) else None
        return {
            **{name: row[name] for name in _SHOWN},
            "public": json.loads(row["public"]) if row["public"] else None,
            "private": json.loads(private) if private else None,
        }

    def standings(self, name: str) -> list[Standing]:
        """Return a benchmark's leaderboard.

        Raises:
            RefusedError: the benchmark is unknown.
        """
        closed, metric = self.is_closed(name), self.benchmark(name).metrics[-1]
        rows = self.database.all("SELECT * FROM submission WHERE benchmark = ? AND state = 'done'", name)
        measured = [
            MeasuredSubmission(
                id=row["id"],
                user=row["user"],
                model=row["model"],
                at=row["created"],
                public=Split(**json.loads(row["public"])),
                private=Split(**json.loads(row["private"])) if closed else None,
            )
            for row in rows
        ]
        return standings([one for one in measured if metric in one.public.values], metric)

    def listing(self) -> dict[str, Any]:
        """Return the content of the page that lists the hidden benchmarks."""
        return {"benchmarks": [self.about(name) for name in self.prepared]}

    def leaderboard(self, name: str) -> dict[str, Any]:
        """Return the content of a benchmark's page: rounded numbers, private ones after closing alone.

        Raises:
            RefusedError: the benchmark is unknown.
        """
        shape = self.benchmark(name).shape
        return {"benchmark": self.about(name), "models": [as_row(one, shape) for one in self.standings(name)]}

    def results(self, name: str) -> list[Result]:
        """Return a benchmark's leaderboard as records, for a board's other pages."""
        return [as_result(standing, self.benchmark(name)) for standing in self.standings(name)]

    @property
    def records(self) -> Path:
        """The folder of `write_records`; a board shows it like any folder of runs."""
        return self.state / "records"

    def write_records(self) -> None:
        """Write every leaderboard as run folders without samples, without numbers that are still private.

        Raises:
            RunError: they cannot be written.
        """
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
    """Open a board file's hidden benchmarks and measure files while the block lasts; yield None if it has none.

    Args:
        board: the board file.
        measuring: else what was measured is only read, and a board that was never served has no hidden benchmarks.

    Raises:
        DataError: the board file is invalid, or a benchmark cannot be prepared.
        StoreError: the state's folder cannot be used.
    """
    settings = None if board is None else read_hidden(board)
    if settings is None:
        yield None
        return
    if not measuring and not (settings.submissions.state / DATABASE).is_file():
        yield None
        return
    submissions = Submissions(settings)
    if not measuring:
        submissions.write_records_alone()
        yield submissions
        return
    submissions.start()
    try:
        yield submissions
    finally:
        submissions.stop()


def _read_secret(state: Path) -> bytes:
    """Return the server's secret, the key of every shuffle, token and session; make it if it is missing."""
    path = state / "secret"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
        foreign = [each for each in (state, path) if each.stat().st_uid != os.geteuid()]
        open_to_others = path.stat().st_mode & 0o077 or state.stat().st_mode & 0o022
    except OSError as error:
        raise StoreError(f"{state} cannot hold the server's state: {error}; look at [submissions] state") from error
    if len(secret) != 32:
        raise StoreError(f"{path} is not the secret that this server made; restore it, or no file can be measured")
    if foreign:
        raise StoreError(f"{foreign[0]} belongs to another user, who could read or change it; use a folder of your own")
    if open_to_others:
        raise StoreError(f"others can read {path} or write to {state}: chmod 700 {state}; chmod 600 {path}")
    return secret


def _make_secret(path: Path) -> None:
    """Write a new secret atomically: on the disk before it has its name, and by one of several processes."""
    number, draft = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        sync_folder(path.parent)  # or the next start after a power cut makes another, under which no token is good
    finally:
        Path(draft).unlink()
