"""Hidden benchmarks as a whole: what the pages, the commands and the tests do with them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tellapart.board.submissions.accounts import Account, Accounts
from tellapart.board.submissions.database import Database
from tellapart.board.submissions.hidden import HiddenSettings, read_hidden
from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.prepared import Prepared, prepare
from tellapart.board.submissions.published import Measured, Standing, as_result, standings, write_results
from tellapart.board.submissions.queue import Queue, Worker
from tellapart.board.submissions.queue_limits import Slots
from tellapart.board.submissions.rate import Rate
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.rounding import (
    bits_told,
    hidden_bits,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.board.submissions.shuffled import keyed
from tellapart.catalog import REFERENCES
from tellapart.errors import RunError, StoreError
from tellapart.records.result import Result

__all__ = ["Submissions", "checked_model", "opened"]

_PAGE = 200  # entries of the log, or submissions, at once
_UNSEEN = "\u115f\u1160\u17b4\u17b5\u2028\u2029\u2800\u3164\uffa0"  # letters by their class, and nothing to see
_RESERVED = {*REFERENCES, "human"}  # a board shows these as chance, as bounds and as people


class Submissions:
    """Everything behind the routes.

    Args:
        settings: as `read_hidden` returns them.
        clock: seconds since 1970.

    Raises:
        DataError: a hidden benchmark cannot be prepared.
        StoreError: the state's folder cannot be used.

    >>> import tempfile
    >>> from tellapart.board.submissions.hidden import SubmissionSettings
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     board = Submissions(HiddenSettings(submissions=SubmissionSettings(state=scratch), hidden=()))
    ...     board.standings("clocks")
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: no hidden benchmark 'clocks'
    """

    def __init__(self, settings: HiddenSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.clock = settings.submissions, clock
        self.state = self.settings.state
        secret = _secret(self.state)
        self.database = Database(self.state / "submissions.sqlite")
        self.accounts = Accounts(self.database, keyed(secret, "accounts"), clock)
        self.prepared: dict[str, Prepared] = {
            each.name: prepare(each, self.state / "hidden", keyed(secret, "hidden", each.name))
            for each in settings.hidden
        }
        self.queue = Queue(self.database, self.settings, self.prepared, clock)
        self.requests = Rate(self.settings.requests_a_minute, time.monotonic)
        self.sign_ins = Rate(self.settings.sign_ins_a_minute, time.monotonic)
        self.slots = Slots()
        self._worker: Worker | None = None

    def start(self) -> None:
        """Begin to measure what is sent, in a thread of its own."""
        with self.queue.held() as mine:
            if mine:  # no other server is taking files here
                self.queue.sweep()
                with contextlib.suppress(RunError):  # a full disk: the worker writes them as soon as it can
                    self.write_records()
        self._worker = Worker(self.queue, self._closed, self.write_records)
        self._worker.start()

    def stop(self) -> None:
        """Stop measuring; what is under way is taken up at the next start."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def benchmark(self, name: str) -> Prepared:
        """Return a hidden benchmark.

        Raises:
            RefusedError: there is none of that name.
        """
        if name not in self.prepared:
            raise RefusedError(404, f"no hidden benchmark {name!r:.80}")
        return self.prepared[name]

    def is_closed(self, name: str) -> bool:
        """Return whether a benchmark is closed: its private numbers are told, and no file is taken any more."""
        return self.queue.closings.told(self.benchmark(name).benchmark)

    def _closed(self) -> frozenset[str]:
        return frozenset(name for name in self.prepared if self.is_closed(name))

    def close(self, name: str, *, by: str) -> None:
        """Close a benchmark for good.

        Raises:
            RefusedError: there is none of that name, or it is closed.
        """
        if self.is_closed(name) or not self.queue.closings.close(name, by=by):
            raise RefusedError(409, f"{name} is closed already")
        self.queue.news.set()  # the worker writes the records

    def about(self, name: str) -> dict[str, Any]:
        """Say what a benchmark is, its limits, and how much they let through."""
        ready = self.benchmark(name)
        declared, numbers = ready.benchmark, len(ready.metrics)
        return {
            "name": name,
            "title": declared.title or name,
            "protocol": declared.protocol,
            "items": ready.items,
            "public_items": ready.public,
            "task": ready.task,
            "what": ready.what,
            "metrics": list(ready.metrics),
            "step": declared.step,
            "daily": declared.daily,
            "total": declared.total,
            "closes": None if declared.closes is None else declared.closes.isoformat(),
            "closed": self.is_closed(name),
            "fingerprint": ready.fingerprint,
            "labels_bits": hidden_bits(ready.public, ready.shape),
            "told_bits_at_most": bits_told(declared.total, declared.step, numbers),
            "submissions_for_one_label": submissions_for_one_label(ready.public, declared.step, ready.shape),
            "submissions_for_all_labels_at_least": submissions_for_all_labels(
                ready.public, ready.shape, declared.step, numbers
            ),
        }

    def check_allowed(self, account: Account, name: str) -> None:
        """Refuse early, before a file has come, what `Queue.take` would refuse.

        Raises:
            RefusedError: as `Queue.check`.
        """
        with self.database.look() as rows:
            self.queue.check(rows, account, name)

    def view(self, id_: str, account: Account) -> dict[str, Any]:
        """Return what its sender, or an admin, may see of a file.

        Raises:
            RefusedError: there is none, or it is somebody else's; which of the two is not told.
        """
        row = self.database.one("SELECT * FROM submission WHERE id = ?", id_)
        if row is None or not (row["user"] == account.user or account.may("admin")):
            raise RefusedError(404, f"no submission {id_!r:.80} of yours")
        return self._seen(row)

    def sent(self, account: Account) -> list[dict[str, Any]]:
        """Return what a user has sent, newest first."""
        rows = self.database.all(
            "SELECT * FROM submission WHERE user = ? ORDER BY created DESC LIMIT ?", account.user, _PAGE
        )
        return [self._seen(row) for row in rows]

    def _seen(self, row: sqlite3.Row) -> dict[str, Any]:
        known = row["benchmark"] in self.prepared
        private = row["private"] if known and self.is_closed(row["benchmark"]) else None
        seen = {name: row[name] for name in ("id", "user", "benchmark", "model", "sha256", "bytes", "created", "state")}
        return {
            **seen,
            "error": row["error"],
            "public": json.loads(row["public"]) if row["public"] else None,
            "private": json.loads(private) if private else None,
        }

    def standings(self, name: str) -> list[Standing]:
        """Return a benchmark's leaderboard.

        Raises:
            RefusedError: there is none of that name.
        """
        told, metric = self.is_closed(name), self.benchmark(name).metrics[-1]
        rows = self.database.all("SELECT * FROM submission WHERE benchmark = ? AND state = 'done'", name)
        measured = [
            Measured(
                id=row["id"],
                user=row["user"],
                model=row["model"],
                at=row["created"],
                public=Split(**json.loads(row["public"])),
                private=Split(**json.loads(row["private"])) if told else None,
            )
            for row in rows
        ]
        return standings([one for one in measured if metric in one.public.values], metric)

    def results(self, name: str) -> list[Result]:
        """Return a benchmark's leaderboard as records, for a board's other pages."""
        return [as_result(standing, self.benchmark(name)) for standing in self.standings(name)]

    @property
    def records(self) -> Path:
        """The folder of `write_records`; a board shows it like any folder of runs."""
        return self.state / "records"

    def write_records(self) -> None:
        """Write every leaderboard as run folders without samples; numbers that are private yet are not in them.

        Raises:
            RunError: the disk does not take them.
        """
        for name in self.prepared:
            write_results(self.records / name, self.results(name))

    def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Return entries of the log, oldest first, from behind one."""
        rows = self.database.all("SELECT * FROM log WHERE id > ? ORDER BY id LIMIT ?", after, _PAGE)
        return [{**dict(row), "about": json.loads(row["about"])} for row in rows]


@contextmanager
def opened(board: Path | None) -> Iterator[Submissions | None]:
    """Open a board file's hidden benchmarks and measure what is sent while the block lasts; None where it has none.

    Raises:
        DataError: the file is not what it should be, or a benchmark cannot be prepared.
        StoreError: the state's folder cannot be used.

    >>> with opened(None) as submissions:
    ...     submissions is None
    True
    """
    settings = None if board is None else read_hidden(board)
    if settings is None:
        yield None
        return
    submissions = Submissions(settings)
    submissions.start()
    try:
        yield submissions
    finally:
        submissions.stop()


def checked_model(name: str) -> str:
    """Return a model's name as it will be shown: one line of letters that can be seen, and no name that a board gives a meaning.

    Raises:
        RefusedError: it is empty, too long, holds what is not shown, or is that of a reference model or of people.

    >>> checked_model("  CLIP ViT-B/32 (ours) ")
    'CLIP ViT-B/32 (ours)'
    """
    plain = unicodedata.normalize("NFC", name).strip()
    if not 0 < len(plain) <= 100:
        raise RefusedError(422, f"model: give a name of up to 100 characters; got {len(plain)}")
    # Cc, Cf, Cs, Co, Cn: nothing to see, or able to turn the page's text around; Zl, Zp: another line.
    if hidden := [letter for letter in plain if unicodedata.category(letter)[0] == "C" or letter in _UNSEEN]:
        raise RefusedError(422, f"model: {hidden[0]!a} cannot be shown in a name; leave it out")
    if not any(letter.isalnum() for letter in plain):
        raise RefusedError(422, f"model: {plain!a} has no letter and no digit; give a name that people can say")
    if unicodedata.normalize("NFKC", plain).casefold() in _RESERVED:
        raise RefusedError(422, f"model: {plain!r} has a meaning on this board; use another name")
    return plain


def _secret(state: Path) -> bytes:
    """Read the server's secret, or make it: the key of every shuffle, token and session."""
    path = state / "secret"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_secret(path)
        found = path.read_bytes()
        loose = [each for each in (state, path) if each.stat().st_uid != os.geteuid()]
        open_to_others = path.stat().st_mode & 0o077 or state.stat().st_mode & 0o022
    except OSError as error:
        raise StoreError(f"{state} cannot hold the server's state: {error}; look at [submissions] state") from error
    if len(found) != 32:
        raise StoreError(f"{path} is not the secret that this server made; restore it, or no file can be measured")
    if loose:
        raise StoreError(f"{loose[0]} belongs to another user, who could read or change it; use a folder of your own")
    if open_to_others:
        raise StoreError(f"others can read {path} or write to {state}: chmod 700 {state}; chmod 600 {path}")
    return found


def _make_secret(path: Path) -> None:
    """Write a new secret, whole and on the disk before it has its name; of several processes one is first."""
    number, draft = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        Path(draft).unlink()
