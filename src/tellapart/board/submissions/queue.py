"""Files that wait, one after another: received -> validated -> measuring -> done, or refused, or failed.

Each step is one transaction, and a file is on the disk before its row is in the database. A server that dies in the middle
leaves a row that says where it was: the next one takes it up there, and whatever an orphaned worker still prints goes
nowhere, so that a file is measured to one recorded result however often the server dies. One process at a time works the
queue; a lock on a file, which the system gives back when its holder dies, says which.

A file counts against the limits from the moment it is received, so that two sent at once cannot both be the last; one that
is refused (not what such a file must be) or failed (the server's fault) is given back.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, Timer
from typing import IO, Any, cast

from tellapart.board.hidden import SubmissionSettings, closed
from tellapart.board.submissions.accounts import Account
from tellapart.board.submissions.database import Database
from tellapart.board.submissions.prepared import Prepared
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.upload import Upload
from tellapart.errors import TellapartError

__all__ = ["COUNTED", "Queue", "Worker"]

#: States in which a file counts against the limits.
COUNTED = ("received", "validated", "measuring", "done")
_DAY = 86_400
_MOST_STARTS = 3  # a file that took the server down so often is not tried again
_IN_COUNTED = f"state IN ({', '.join(repr(state) for state in COUNTED)})"


class Queue:
    """The files that were sent, and the one that is being measured.

    Args:
        database: where their rows are.
        settings: limits of a worker, and the state's folder.
        prepared: the hidden benchmarks by name.
        clock: seconds since 1970.

    >>> import tempfile
    >>> from pathlib import Path
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
        self.folder = settings.state / "uploads"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.news, self.over = Event(), Event()
        self._worker: subprocess.Popen[bytes] | None = None

    def check(self, rows: sqlite3.Connection, account: Account, benchmark: str) -> None:
        """Refuse what the limits do not allow, or a benchmark that is closed.

        Raises:
            RefusedError: 404, 409 or 429.
        """
        if benchmark not in self.prepared:
            raise RefusedError(404, f"no hidden benchmark {benchmark!r:.80}")
        declared, now = self.prepared[benchmark].benchmark, self.clock()
        by_hand = rows.execute("SELECT at FROM closing WHERE benchmark = ?", (benchmark,)).fetchone()
        if closed(declared, now, by_hand[0] if by_hand else None):
            raise RefusedError(409, f"{benchmark} is closed; its private numbers are on the board")
        midnight = now - now % _DAY
        count = f"SELECT count(*), coalesce(sum(created >= ?), 0) FROM submission WHERE benchmark = ? AND user = ? AND {_IN_COUNTED}"  # noqa: S608
        total, today = rows.execute(count, (midnight, benchmark, account.user)).fetchone()
        if total >= declared.total:
            raise RefusedError(429, f"{account.user} has used all {declared.total} submissions to {benchmark}")
        if today >= declared.daily:
            hours = (midnight + _DAY - now) / 3600
            raise RefusedError(
                429,
                f"{account.user} has used today's {declared.daily} submissions to {benchmark}; the next day (UTC) begins in "
                f"{hours:.1f} hours",
            )

    def take(self, account: Account, benchmark: str, model: str, suffix: str, sent: Upload) -> str:
        """Take a file that has come whole into the queue; return its id.

        Raises:
            RefusedError: as `check`, or the disk is full. The file is deleted then.
        """
        id_ = secrets.token_hex(8)
        place = self.folder / id_
        try:
            place.mkdir(mode=0o700)
            sent.path.rename(place / f"sent{suffix}")
            with self.database.change() as rows:
                self.check(rows, account, benchmark)
                values = (id_, account.user, benchmark, model, f"sent{suffix}", sent.sha256, sent.bytes, self.clock())
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
        """Measure the file that has waited longest; False if none waits. Only the lock's holder may."""
        row = self.database.one(
            "SELECT * FROM submission WHERE state IN ('received', 'validated') ORDER BY rowid LIMIT 1"
        )
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
        """Run a worker on a file, and write down each step as it says it."""
        said: dict[str, Any] = {}
        for said in self._worker_says(id_, file, prepared):
            if said.get("read"):
                self._step(id_, "received", "validated")
                self._step(id_, "validated", "measuring")
        if "public" in said:
            self._end(id_, "done", "", public=said["public"], private=said["private"])
        elif "refused" in said:
            self._end(id_, "refused", said["refused"])
        elif "failed" in said:
            self._end(id_, "failed", said["failed"])
        elif self.over.is_set():  # killed by `stop`: the next server takes it up again
            with self.database.change() as rows:
                rows.execute("UPDATE submission SET starts = starts - 1 WHERE id = ?", (id_,))
        else:
            limits = f"{self.settings.seconds} s and {self.settings.memory_bytes >> 20:,} MiB"
            state, what = ("failed", "measuring") if said.get("read") else ("refused", "reading")
            self._end(id_, state, f"{what} the file did not end within {limits}")

    def _worker_says(self, id_: str, file: str, prepared: Prepared) -> Iterator[dict[str, Any]]:
        job = {
            "file": file,
            "truth": str(prepared.truth.absolute()),
            "protocol": prepared.benchmark.protocol,
            "metrics": prepared.metrics,
            "step": prepared.benchmark.step,
            "seconds": self.settings.seconds,
            "memory_bytes": self.settings.memory_bytes,
        }
        # Of the server's own environment only what Python needs: no database address, no token.
        own = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ
        }
        self._worker = worker = subprocess.Popen(
            [sys.executable, "-m", "tellapart.board.submissions.worker"],
            cwd=self.folder / id_,
            env={**own, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        stdin, stdout = cast(IO[bytes], worker.stdin), cast(IO[bytes], worker.stdout)
        # CPU time is limited by the worker itself; this is for one that only waits.
        patience = Timer(2 * self.settings.seconds + 10, worker.kill)
        patience.start()
        try:
            with contextlib.suppress(BrokenPipeError), stdin:
                stdin.write(json.dumps(job).encode())
            for line in stdout:
                if line.endswith(b"\n"):  # else it died in the middle of its last word
                    yield json.loads(line)
        finally:
            patience.cancel()
            worker.kill()
            worker.wait()
            stdout.close()
            self._worker = None

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

    def _end(self, id_: str, state: str, error: str, *, public: Any = None, private: Any = None) -> None:
        """Write down the end of a file, once."""
        splits = [None if split is None else json.dumps(split) for split in (public, private)]
        with self.database.change() as rows:
            changed = rows.execute(
                f"UPDATE submission SET state = ?, error = ?, public = ?, private = ? WHERE id = ? AND {_IN_COUNTED} "  # noqa: S608
                "AND state != 'done'",
                (state, error, *splits, id_),
            )
            if changed.rowcount:
                self.database.log(rows, self.clock(), "server", f"submission {state}", {"submission": id_})
        if state == "refused":
            shutil.rmtree(self.folder / id_, ignore_errors=True)


class Worker(Thread):
    """The thread that works a queue while the server runs.

    Args:
        queue: whose files it measures.
        after: called after each.
        every: seconds between two looks at an empty queue.

    >>> Worker.__mro__[1].__name__
    'Thread'
    """

    def __init__(self, queue: Queue, after: Callable[[], None], *, every: float = 5.0) -> None:
        super().__init__(name="submissions", daemon=True)
        self.queue, self.after, self.every = queue, after, every

    def run(self) -> None:
        """Measure what waits, until `stop`."""
        over = self.queue.over
        while not over.is_set():
            # A full disk or a locked database passes; what was under way is taken up again.
            with contextlib.suppress(OSError, sqlite3.Error, TellapartError), self.queue.held() as mine:
                while mine and not over.is_set():
                    self.queue.news.clear()
                    if self.queue.work_one():
                        self.after()
                    else:
                        self.queue.news.wait(self.every)
            over.wait(self.every / 5)

    def stop(self) -> None:
        """End now; the file at hand stays in the queue."""
        self.queue.stop()
        self.join()
