"""Files that wait, one after another: received -> validated -> measuring -> done, or refused, or failed.

Each step is one transaction, and a file is on the disk before its row is in the database. A server that dies in the middle
leaves a row that says where it was: the next one takes it up there, and whatever an orphaned worker still prints goes
nowhere, so that a file is measured to one recorded result however often the server dies. One process at a time works the
queue; a lock on a file, which the system gives back when its holder dies, says which.

Two processes are at a file (`worker.py`): one reads it, and is over when it is validated; one measures what it says. A server
that dies between the two has it read again.

A file counts against the limits from the moment it is received, so that two sent at once cannot both be the last; one that
is refused (not what such a file must be) or failed (the server's fault) is given back. One that was read and then not measured
to an end (stopped) is not: whether measuring ends could be made to depend on labels. Of several users' files the next is of
whoever had the fewest measured in the last day, and who sends one useless file after another has to wait for the next day.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from typing import Any

from tellapart.board.submissions.accounts import Account
from tellapart.board.submissions.closing import Closings
from tellapart.board.submissions.database import Database
from tellapart.board.submissions.forms import form_bytes, unpack
from tellapart.board.submissions.hidden import SubmissionSettings
from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.prepared import Prepared
from tellapart.board.submissions.process import Process, S, SaidOfFile, SaidOfForm
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.upload import Upload
from tellapart.errors import ScoreError, TellapartError

__all__ = ["COUNTED", "REFUSED_A_DAY", "Queue", "Worker"]

#: States in which a file counts against the limits.
COUNTED = ("received", "validated", "measuring", "done", "stopped")
#: Files of one user that may come to nothing in a day, over all benchmarks: each takes the server time, and none of the limits.
REFUSED_A_DAY = 20
_DAY = 86_400
_MOST_STARTS = 3  # a file that took the server down so often is not tried again
_AGAIN = 1.0  # seconds until what a full disk refused is written down again
_IN_COUNTED = f"state IN ({', '.join(repr(state) for state in COUNTED)})"
_UNDER_WAY = "state IN ('received', 'validated', 'measuring')"
_NEXT = f"""
WITH had AS (SELECT user, count(*) AS files FROM submission WHERE created >= ? AND NOT {_UNDER_WAY} GROUP BY user)
SELECT submission.* FROM submission LEFT JOIN had USING (user) WHERE state IN ('received', 'validated')
ORDER BY state != 'validated', coalesce(files, 0), submission.rowid LIMIT 1
"""  # noqa: S608  (constants; a file that was taken up already comes first)


class Queue:
    """The files that were sent, and the one that is being measured.

    Args:
        database: where their rows are.
        settings: limits of a worker, and the state's folder.
        prepared: the hidden benchmarks by name.
        clock: seconds since 1970.

    >>> import tempfile
    >>> from pathlib import Path, PurePosixPath
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     state = Path(scratch)
    ...     queue = Queue(Database(state / "board.sqlite"), SubmissionSettings(state=state), {}, lambda: 0.0)
    ...     queue.work_one()
    False
    """

    def __init__(
        self,
        database: Database,
        settings: SubmissionSettings,
        prepared: Mapping[str, Prepared],
        clock: Callable[[], float],
    ) -> None:
        self.database, self.settings, self.prepared, self.clock = database, settings, prepared, clock
        self.closings = Closings(database, clock)
        self.folder = settings.state / "uploads"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.news, self.over = Event(), Event()
        self._worker: Process | None = None
        self._lacking: list[str] = []

    def check(self, rows: sqlite3.Connection, account: Account, benchmark: str) -> None:
        """Refuse what the limits do not allow, or a benchmark that is closed.

        Raises:
            RefusedError: 404, 409 or 429.
        """
        if benchmark not in self.prepared:
            raise RefusedError(404, f"no hidden benchmark {benchmark!r:.80}")
        declared, now = self.prepared[benchmark].benchmark, self.clock()
        if not self.closings.takes(rows, declared):
            raise RefusedError(409, f"{benchmark} is closed; its private numbers are on the board")
        midnight = now - now % _DAY
        hours = (midnight + _DAY - now) / 3600
        useless = f"SELECT count(*) FROM submission WHERE user = ? AND created >= ? AND NOT {_IN_COUNTED}"  # noqa: S608
        if rows.execute(useless, (account.user, midnight)).fetchone()[0] >= REFUSED_A_DAY:
            raise RefusedError(
                429,
                f"{REFUSED_A_DAY} files of {account.user} were refused today, and no more are looked at; the next day (UTC) begins "
                f"in {hours:.1f} hours",
            )
        count = f"SELECT count(*), coalesce(sum(created >= ?), 0) FROM submission WHERE benchmark = ? AND user = ? AND {_IN_COUNTED}"  # noqa: S608
        total, today = rows.execute(count, (midnight, benchmark, account.user)).fetchone()
        if total >= declared.total:
            raise RefusedError(429, f"{account.user} has used all {declared.total} submissions to {benchmark}")
        if today >= declared.daily:
            raise RefusedError(
                429,
                f"{account.user} has used today's {declared.daily} submissions to {benchmark}; the next day (UTC) begins in "
                f"{hours:.1f} hours",
            )

    def take(self, account: Account, benchmark: str, model: str, file: str, sent: Upload) -> str:
        """Take a file that has come whole into the queue; return its id.

        Args:
            file: its name, which is shown to its sender and stands for nothing but its ending.

        Raises:
            RefusedError: as `check`, or the disk is full. The file is deleted then.
        """
        id_ = secrets.token_hex(8)
        place = self.folder / id_
        try:
            place.mkdir(mode=0o700)
            sent.path.rename(place / _stored(file))
            for folder in (place, self.folder):  # the file's name, too, survives a power cut
                _sync(folder)
            with self.database.change() as rows:
                self.check(rows, account, benchmark)
                values = (id_, account.user, benchmark, model, file, sent.sha256, sent.bytes, self.clock())
                rows.execute(
                    "INSERT INTO submission (id, user, benchmark, model, file, sha256, bytes, created, state) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'received')",
                    values,
                )
                about = {"submission": id_, "benchmark": benchmark, "model": model, "sha256": sent.sha256}
                self.database.log(rows, self.clock(), account.user, "submission received", about)
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            sent.path.unlink(missing_ok=True)
            if isinstance(error, OSError | sqlite3.OperationalError):
                raise RefusedError(
                    507, f"the server cannot keep the file now ({error}); nothing was counted"
                ) from error
            raise
        self.news.set()
        return id_

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the lock of the queue, and put right what a server that died left behind; False if another has it."""
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            self._recover()
            yield True

    def _recover(self) -> None:
        with self.database.change() as rows:
            for row in rows.execute("SELECT id FROM submission WHERE state = 'measuring'").fetchall():
                rows.execute("UPDATE submission SET state = 'validated' WHERE id = ?", (row["id"],))
                self.database.log(rows, self.clock(), "server", "submission taken up again", {"submission": row["id"]})

    def sweep(self) -> None:
        """Delete what belongs to no row: uploads that were cut off by the server's end. Before any is taken."""
        known = {row["id"] for row in self.database.all("SELECT id FROM submission")}
        for place in self.folder.iterdir():
            if place.is_dir() and place.name not in known:
                shutil.rmtree(place, ignore_errors=True)
            elif place.suffix == ".part":
                place.unlink(missing_ok=True)

    def work_one(self) -> bool:
        """Measure the next file; False if none waits. Only the lock's holder may."""
        row = self.database.one(_NEXT, self.clock() - _DAY)
        if row is None:
            return False
        id_ = str(row["id"])
        if row["benchmark"] not in self.prepared:
            self._end(id_, "failed", f"the board has no hidden benchmark {row['benchmark']!r} any more")
        elif row["starts"] >= _MOST_STARTS:
            self._end(id_, "failed", f"the server stopped {row['starts']} times while it was at this file")
        else:
            with self.database.change() as rows:
                rows.execute("UPDATE submission SET starts = starts + 1 WHERE id = ?", (id_,))
            self._measure(id_, row["file"], self.prepared[row["benchmark"]])
        return True

    def _measure(self, id_: str, file: str, prepared: Prepared) -> None:
        """Have a file read, and what it says measured, each by a process of its own; write down each step."""
        limits = f"within {self.settings.seconds} s and {self.settings.memory_bytes >> 20:,} MiB"
        form = self._read(id_, file, prepared, limits)
        if not form:
            return
        self._step(id_, "received", "validated")
        self._step(id_, "validated", "measuring")
        about = {"truth": str(prepared.truth.absolute()), "metrics": prepared.metrics, "step": prepared.benchmark.step}
        process = self._process(about, prepared.task, prepared.folder, form)
        *_, last = (SaidOfForm(), *self._heard(process, SaidOfForm))
        if last.public is not None and last.private is not None:
            self._end(id_, "done", "", public=last.public, private=last.private)
        elif self._goes_on(id_):
            if last.failed:  # for who runs the server alone: it may depend on labels
                logging.getLogger(__name__).warning("%s of %s could not be measured: %s", file, id_, last.failed)
            self._end(id_, "stopped", f"the file could not be measured {limits}; it counts as measured")

    def _read(self, id_: str, file: str, prepared: Prepared, limits: str) -> bytes:
        """Return what a file says, in a form that was checked; or write down its end, and return nothing."""
        folder = self.folder / id_
        size = (folder / _stored(file)).stat().st_size
        most = form_bytes(prepared.task, prepared.items, prepared.shape, size)
        about = {
            "file": _stored(file),
            "name": file,
            "published": str(prepared.published.absolute()),
            "form_bytes": most,
        }
        last, form = SaidOfFile(), b""
        process = self._process(about, prepared.task, folder)
        for last in self._heard(process, SaidOfFile):
            if last.read:
                form = process.take(last.read)
        try:
            if form:
                unpack(form, prepared.task, prepared.items, prepared.shape)
                return form
        except ScoreError:
            pass
        if self._goes_on(id_):
            if last.failed:
                self._end(id_, "failed", "the server cannot read files of this benchmark now")
            else:
                self._end(id_, "refused", last.refused or f"reading the file did not end {limits}")
        return b""

    def _goes_on(self, id_: str) -> bool:
        """Return whether a process ended by itself; one that was killed by `stop` the next server takes up again."""
        if not self.over.is_set():
            return True
        with self.database.change() as rows:
            rows.execute("UPDATE submission SET starts = starts - 1 WHERE id = ?", (id_,))
        return False

    def _process(self, about: Mapping[str, Any], task: str, folder: Path, form: bytes = b"") -> Process:
        limits = {"seconds": self.settings.seconds, "memory_bytes": self.settings.memory_bytes}
        return Process({**about, **limits, "task": task}, folder, 2 * self.settings.seconds + 10, form)

    def _heard(self, process: Process, kind: type[S]) -> Iterator[S]:
        """Yield what a process says, and make it the one that `stop` kills."""
        self._worker = process
        try:
            if self.over.is_set():  # `stop` came before there was anything to kill
                process.kill()
            for said in process.says(kind):
                if said.unconfined:
                    self._tell_lacking(said.unconfined)
                yield said
        finally:
            self._worker = None

    def _tell_lacking(self, guards: Sequence[str]) -> None:
        """Say once which guards of `confined` this system does not have."""
        if list(guards) == self._lacking:
            return
        self._lacking = list(guards)
        logging.getLogger(__name__).warning("files are measured without %s: this system lacks it", " and ".join(guards))
        with self.database.change() as rows:
            self.database.log(rows, self.clock(), "server", "files are measured unconfined", {"lacking": guards})

    def stop(self) -> None:
        """Stop the worker at hand; its file stays in the queue."""
        self.over.set()
        self.news.set()
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _step(self, id_: str, before: str, after: str) -> None:
        with self.database.change() as rows:
            rows.execute("UPDATE submission SET state = ? WHERE id = ? AND state = ?", (after, id_, before))

    def _end(
        self, id_: str, state: str, error: str, *, public: Split | None = None, private: Split | None = None
    ) -> None:
        """Write down the end of a file, once; while the disk is full, as soon as it is not."""
        splits = [None if split is None else json.dumps(asdict(split)) for split in (public, private)]
        change = f"UPDATE submission SET state = ?, error = ?, public = ?, private = ? WHERE id = ? AND {_UNDER_WAY}"  # noqa: S608
        while True:
            try:
                with self.database.change() as rows:
                    if rows.execute(change, (state, error, *splits, id_)).rowcount:
                        self.database.log(rows, self.clock(), "server", f"submission {state}", {"submission": id_})
                break
            except sqlite3.OperationalError:
                if self.over.wait(_AGAIN):
                    raise
        if state == "refused":
            shutil.rmtree(self.folder / id_, ignore_errors=True)


def _stored(file: str) -> str:
    """Return the name under which a file is kept: of its own only the ending."""
    return f"sent{PurePosixPath(file).suffix}"


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Worker(Thread):
    """The thread that works a queue while the server runs.

    Args:
        queue: whose files it measures.
        closed: which benchmarks are; asked again and again.
        after: called after each file, and when a benchmark has closed.
        every: seconds between two looks at an empty queue.

    >>> Worker.__mro__[1].__name__
    'Thread'
    """

    def __init__(
        self, queue: Queue, closed: Callable[[], frozenset[str]], after: Callable[[], None], *, every: float = 5.0
    ) -> None:
        super().__init__(name="submissions", daemon=True)
        self.queue, self.closed, self.after, self.every = queue, closed, after, every
        self._shown: frozenset[str] | None = None

    def run(self) -> None:
        """Measure what waits, until `stop`; nothing that goes wrong with one file ends it."""
        over = self.queue.over
        while not over.is_set():
            try:
                with self.queue.held() as mine:
                    while mine and not over.is_set():
                        self._look()
            except (OSError, sqlite3.Error, TellapartError):
                pass  # a full disk or a locked database passes; what was under way is taken up again
            except Exception:  # or the queue would stand still, and nobody would know
                logging.getLogger(__name__).exception("a file could not be measured; it is tried again")
            over.wait(self.every / 5)

    def _look(self) -> None:
        self.queue.news.clear()
        worked = self.queue.work_one()
        if worked:
            self._shown = None
        if (closed := self.closed()) != self._shown:
            self.after()
            self._shown = closed
        elif not worked:
            self.queue.news.wait(self.every)

    def stop(self) -> None:
        """End now; the file at hand stays in the queue."""
        self.queue.stop()
        self.join()
