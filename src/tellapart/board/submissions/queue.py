"""The queue of submitted files: received -> validated -> measuring -> done, refused, surplus, failed or stopped.

Each step is one transaction, and a file is on the disk before its row is in the database. If the server dies, the next
one continues from the row's state and ignores the later output of an orphaned worker, so that a file is measured to one
recorded result however often that happens. One process at a time works the queue: the one that holds a lock on a file,
which the system releases when the process dies.

Two processes handle a file (`worker.py`): one reads it and ends when it is validated, one measures the contents. If the
server dies between the two, the file is read again.

A file counts against the limits once it was read: one that waits or is refused (invalid) takes no place. The step to
`validated` counts it in one transaction, so that of two files that were read only one gets the last place; the other
(surplus) ends there, unmeasured and uncounted. One that failed (the server's fault) is given back. A file that was read
and then could not be measured (stopped) counts, as labels could be made to decide whether measuring ends. The next file
is of the user with the fewest measured in the last day, so a user who sends one useless file after another waits for
the next day.

The same bytes of the same user are not measured again: they are answered with the numbers of the first of them, which
reveals nothing new and so costs nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from threading import Event, Timer
from typing import IO, Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from tellapart.board.submissions.accounts import UNDER_WAY, Account, Database, QueueLimits, RefusedError
from tellapart.board.submissions.forms import form_bytes, unpack
from tellapart.board.submissions.hidden import SubmissionSettings, round_to
from tellapart.board.submissions.prepared import Prepared, Split
from tellapart.board.watch import TirelessThread
from tellapart.data.atomic import sync_folder
from tellapart.data.lock import take_lock
from tellapart.data.scores import join_names
from tellapart.errors import MetricError, ScoreError, TellapartError, nearest, plain

# Worker processes as the server sees them: start one, check each of its messages, and kill it with its children.
#
# One such process opens a stranger's file, and another measures its contents (`worker.py`). The server trusts neither:
# lines have a length, messages a schema for each of the two jobs, and numbers must be of the benchmark's metrics and
# step. A process that sends anything else is treated like one that died.

_LONGEST = 1 << 16  # bytes of a message
_MOST = 8  # messages
_MOST_SHOWN = 500  # characters of a refusal or of a field's name
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")


def _shorten(text: str) -> str:
    """Return a refusal or a name as it is shown: short, without characters that could reorder the text around."""
    excerpt = plain(text[: _MOST_SHOWN + 1])
    return excerpt if len(excerpt) <= _MOST_SHOWN else f"{excerpt[: _MOST_SHOWN - 1]}…"


class WorkerMessage(BaseModel):
    """A message of either process; `unconfined` lists the guards that this system lacks."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    unconfined: list[Literal["landlock", "seccomp"]] = Field(default=[], max_length=2)


class ReadResult(WorkerMessage):
    """A message of the process that reads; it has text about the file, and no scores."""

    read: int = Field(default=0, ge=0)  # the file is valid: a form of so many bytes follows
    # that predictions were read from; empty if the file's numbers have no names
    field: Annotated[str, AfterValidator(_shorten)] = ""
    refused: Annotated[str, AfterValidator(_shorten)] = ""  # why the file is invalid
    failed: bool = False  # the published items cannot be read


class MeasureResult(WorkerMessage):
    """A message of the process that measures: the numbers of both splits, or the step that failed."""

    failed: Literal["truth", "form", "numbers", "memory"] | None = None
    public: Split | None = None
    private: Split | None = None

    @field_validator("public", "private")
    @classmethod
    def _check_numbers(cls, split: Split, info: ValidationInfo) -> Split:
        """Accept only the job's metrics, rounded: more digits than the step has could hold labels."""
        job = cast("Mapping[str, Any]", info.context)
        try:
            rounded = {name: round_to(value, job["step"]) for name, value in split.values.items()}
        except MetricError as error:
            raise ValueError(str(error)) from error
        if rounded != dict(split.values) or set(rounded) != set(job["metrics"]):
            raise ValueError("these are not the numbers that were asked for")
        return split


Message = TypeVar("Message", bound=WorkerMessage)


class Process:
    """A process that reads one file, or measures one form."""

    def __init__(self, job: Mapping[str, Any], folder: Path, patience: float, form: bytes = b"") -> None:
        self.job, self.form = job, form
        # Of the server's environment only what Python needs: no database address, no token.
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        single_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tellapart.board.submissions.worker"],
            cwd=folder,
            env={**environment, **single_thread, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # its process group, which is killed as one
        )
        # The process limits its CPU time; this ends one that only waits.
        self._timer = Timer(patience, self.kill)
        self._timer.daemon = True

    def messages(self, kind: type[Message]) -> Iterator[Message]:
        """Yield the process's messages until the last, or the first invalid one; then the process is killed."""
        stdin, stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        try:
            self._timer.start()
            with contextlib.suppress(BrokenPipeError), stdin:
                stdin.write(json.dumps(self.job).encode() + b"\n")
                stdin.write(self.form)
            for _ in range(_MOST):
                line = stdout.readline(_LONGEST)
                if not line.endswith(b"\n"):  # the end, perhaps in the middle of a message; or a line that is too long
                    return
                yield kind.model_validate_json(line, context=self.job)
        except ValidationError:
            return
        finally:
            self._timer.cancel()
            self.kill()
            self._process.wait()
            stdout.close()

    def take(self, size: int) -> bytes:
        """Return the form after a message, up to so many bytes; nothing if the job allows no form of that size."""
        return cast("IO[bytes]", self._process.stdout).read(size) if size <= self.job["form_bytes"] else b""

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process.returncode is None:  # else the number may be another process's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()


_DAY = 86_400
_MOST_STARTS = 3  # a file that took the server down so often is not tried again
_AGAIN = 1.0  # seconds before a write that a full disk refused is tried again
_UNDER_WAY = f"state IN {UNDER_WAY}"
_END = f"UPDATE submission SET state = ?, error = ?, public = ?, private = ? WHERE id = ? AND {_UNDER_WAY}"  # noqa:S608
_NEXT = f"""
WITH had AS (SELECT user, count(*) AS files FROM submission WHERE created >= ? AND NOT {_UNDER_WAY} GROUP BY user)
SELECT submission.* FROM submission LEFT JOIN had USING (user) WHERE state IN ('received', 'validated')
ORDER BY state != 'validated', coalesce(files, 0), submission.rowid LIMIT 1
"""  # noqa: S608  (constants; a file that was begun already comes first)

_INSERT = """
INSERT INTO submission (id, user, benchmark, model, file, sha256, bytes, created, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'received')
"""
_GOOD = "SELECT 1 FROM token WHERE id = ? AND revoked IS NULL AND expires > ?"
_OF_SIZE = "SELECT 1 FROM submission WHERE user = ? AND benchmark = ? AND bytes BETWEEN ? AND ? LIMIT 1"
_SAME = f"""
SELECT id, state, model FROM submission WHERE user = ? AND benchmark = ? AND sha256 = ? AND substr(file, -length(?)) = ?
AND ({_UNDER_WAY} OR state = 'done' OR (state = 'refused' AND created >= ?)) ORDER BY rowid LIMIT 1
"""  # noqa: S608  (constants)
_FAILED = f"""
SELECT id FROM submission AS one WHERE state = 'failed' AND NOT EXISTS (
    SELECT 1 FROM submission AS other WHERE other.user = one.user AND other.benchmark = one.benchmark
    AND other.sha256 = one.sha256 AND other.rowid > one.rowid
    AND (other.state IN ('done', 'failed') OR other.{_UNDER_WAY})
) ORDER BY rowid
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class Upload:
    """A complete file on the disk, its size in bytes, and its SHA-256."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The fate of a file that was sent: its id, state and model, and if it was there before, as the same bytes."""

    id: str
    state: str
    model: str
    again: bool = False


def find_prepared(prepared: Mapping[str, Prepared], name: str) -> Prepared:
    """Return a board's hidden benchmark."""
    if name not in prepared:
        hint = nearest(name, prepared) or f"; this board has {join_names(list(prepared))}"
        raise RefusedError(404, f"no hidden benchmark {name!r:.80}{hint}")
    return prepared[name]


class Queue:
    """The submitted files, and the one that is being measured."""

    def __init__(
        self,
        database: Database,
        settings: SubmissionSettings,
        prepared: Mapping[str, Prepared],
        clock: Callable[[], float],
    ) -> None:
        self.database, self.settings, self.prepared, self.clock = database, settings, prepared, clock
        self.limits = QueueLimits(database, clock)
        self.folder = settings.state / "uploads"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.wake, self.stopping = Event(), Event()
        self._worker: Process | None = None
        self._lacking: list[str] = []

    def check_allowed(self, account: Account, name: str, sizes: range) -> None:
        """Refuse a file of such a size before it comes if `take` would refuse it; it may be one that came before."""
        benchmark = find_prepared(self.prepared, name).benchmark
        with self.database.look() as rows:
            try:
                self.limits.check(rows, account.user, benchmark)
            except RefusedError:
                if not rows.execute(_OF_SIZE, (account.user, name, sizes.start, sizes.stop - 1)).fetchone():
                    raise

    def take(self, account: Account, benchmark: str, model: str, file: str, upload: Upload) -> Receipt:
        """Take a complete file into the queue, or find the same one that was sent before."""
        id_ = secrets.token_hex(8)
        folder = self.folder / id_
        try:
            folder.mkdir(mode=0o700)
            upload.path.rename(folder / _stored_name(file))
            for directory in (folder, self.folder):  # the file's name, too, survives a power cut
                sync_folder(directory)
            with self.database.change() as rows:
                if not rows.execute(_GOOD, (account.token, self.clock())).fetchone():
                    raise RefusedError(401, "the token was revoked or expired while the file came; nothing was counted")
                # The same bytes and ending that were sent before; of refused ones, those of this day.
                now, suffix = self.clock(), PurePosixPath(file).suffix
                same_bytes = (account.user, benchmark, upload.sha256, suffix, suffix, now - now % _DAY)
                if row := rows.execute(_SAME, same_bytes).fetchone():
                    same = Receipt(**row, again=True)
                    shutil.rmtree(folder, ignore_errors=True)
                    self.database.log(rows, self.clock(), account.user, "submission again", {"submission": same.id})
                    return same
                self.limits.check(rows, account.user, find_prepared(self.prepared, benchmark).benchmark)
                values = (id_, account.user, benchmark, model, file, upload.sha256, upload.bytes, self.clock())
                rows.execute(_INSERT, values)
                about = {"submission": id_, "benchmark": benchmark, "model": model, "sha256": upload.sha256}
                self.database.log(rows, self.clock(), account.user, "submission received", about)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            upload.path.unlink(missing_ok=True)
            if isinstance(error, OSError | sqlite3.OperationalError):
                why = f"the server cannot keep the file now ({error}); nothing was counted"
                raise RefusedError(507, why) from error
            raise
        self.wake.set()
        return Receipt(id_, "received", model)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Lock the queue, and recover the file of a server that died; yield False if another process has the lock."""
        held = take_lock(self.folder / ".lock")
        if held is None:
            yield False
            return
        with held:
            with self.database.change() as rows:
                for row in rows.execute("SELECT id FROM submission WHERE state = 'measuring'").fetchall():
                    rows.execute("UPDATE submission SET state = 'validated' WHERE id = ?", (row["id"],))
                    taken_up = {"submission": row["id"]}
                    self.database.log(rows, self.clock(), "server", "submission taken up again", taken_up)
            yield True

    def retry(self, ids: Sequence[str] = ()) -> list[str]:
        """Put files that failed back into the queue, those of these ids or all; return their ids.

        A file whose sender sent the same bytes again since then stays as it is: it would count twice.
        """
        with self.database.change() as rows:
            failed = [str(row["id"]) for row in rows.execute(_FAILED)]
            present = [id_ for id_ in failed if (self.folder / id_).is_dir()]
            if other := [id_ for id_ in ids if id_ not in present]:
                why = "is not a file that failed, was sent again since, or is no longer on the server"
                raise RefusedError(404, f"{other[0]!r:.80} {why}")
            selected = [id_ for id_ in present if id_ in ids or not ids]
            for id_ in selected:
                rows.execute("UPDATE submission SET state = 'received', starts = 0, error = '' WHERE id = ?", (id_,))
                self.database.log(rows, self.clock(), "server", "submission tried again", {"submission": id_})
        self.wake.set()
        return selected

    def sweep(self) -> None:
        """Delete uploads that the server's end cut off. Call it before any upload is taken."""
        recorded = {row["id"] for row in self.database.all("SELECT id FROM submission")}
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in recorded:
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix == ".part":
                path.unlink(missing_ok=True)

    def work_one(self) -> bool:
        """Measure the next file; return False if there is none. The caller must hold the lock."""
        row = self.database.one(_NEXT, self.clock() - _DAY)
        if row is None:
            return False
        id_ = str(row["id"])
        if row["benchmark"] not in self.prepared:
            self._record_end(id_, "failed", f"the board has no hidden benchmark {row['benchmark']!r} any more")
        elif row["starts"] >= _MOST_STARTS:
            self._record_end(id_, "failed", f"the server stopped {row['starts']} times while it was at this file")
        else:
            with self.database.change() as rows:
                rows.execute("UPDATE submission SET starts = starts + 1 WHERE id = ?", (id_,))
            self._measure_file(id_, row["file"], self.prepared[row["benchmark"]])
        return True

    def _measure_file(self, id_: str, file: str, prepared: Prepared) -> None:
        """Have one process read a file and another measure its contents; record each step."""
        limits = f"within {self.settings.seconds} s and {self.settings.memory_bytes >> 20:,} MiB"
        form, field = self._read_file(id_, file, prepared, limits)
        if not form or not self._count_of(id_, field, prepared):
            return
        with self.database.change() as rows:
            rows.execute("UPDATE submission SET state = 'measuring' WHERE id = ? AND state = 'validated'", (id_,))
        job = {"truth": str(prepared.truth.absolute()), "metrics": prepared.metrics, "step": prepared.benchmark.step}
        messages = (message for _, message in self._run(job, prepared, prepared.folder, MeasureResult, form))
        *_, last = (MeasureResult(), *messages)
        if last.public is not None and last.private is not None:
            self._record_end(id_, "done", "", public=last.public, private=last.private)
        elif not self._was_stopped(id_):
            if last.failed:  # logged for the server's admin alone, as it may depend on labels
                failed = plain(f"{file} of {id_} could not be measured: {last.failed}")
                logging.getLogger(__name__).warning("%s", failed)
            self._record_end(id_, "stopped", f"the file could not be measured {limits}; it counts as measured")

    def _read_file(self, id_: str, file: str, prepared: Prepared, limits: str) -> tuple[bytes, str]:
        """Return the checked form of a file and the field it was read from; or record the file's end: no form."""
        folder, stored = self.folder / id_, _stored_name(file)
        if not (folder / stored).is_file():  # uploads and database are of different backups
            self._record_end(id_, "failed", "the file is no longer on the server, and does not count; send it again")
            return b"", ""
        size = (folder / stored).stat().st_size
        job = {
            "file": stored,
            "name": file,
            "published": str(prepared.published.absolute()),
            "form_bytes": form_bytes(prepared.task, prepared.items, prepared.shape, size),
        }
        last, form = ReadResult(), b""
        for process, last in self._run(job, prepared, folder, ReadResult):
            if last.read:
                form = process.take(last.read)
        try:
            if form:
                unpack(form, prepared.task, prepared.items, prepared.shape)
                return form, last.field
        except ScoreError:
            pass
        if not self._was_stopped(id_):
            if last.failed:
                self._record_end(id_, "failed", "the server cannot read files of this benchmark now")
            else:
                self._record_end(id_, "refused", last.refused or f"reading the file did not end {limits}")
        return b"", ""

    def _was_stopped(self, id_: str) -> bool:
        """Return whether `stop` killed the process: then this start of the file does not count."""
        if not self.stopping.is_set():
            return False
        with self.database.change() as rows:
            rows.execute("UPDATE submission SET starts = starts - 1 WHERE id = ?", (id_,))
        return True

    def _run(
        self, job: Mapping[str, Any], prepared: Prepared, folder: Path, kind: type[Message], form: bytes = b""
    ) -> Iterator[tuple[Process, Message]]:
        """Start a process, which `stop` kills, and yield it with each of its messages."""
        seconds, memory = self.settings.seconds, self.settings.memory_bytes
        limited = {**job, "task": prepared.task, "seconds": seconds, "memory_bytes": memory}
        self._worker = process = Process(limited, folder, 2 * seconds + 10, form)
        try:
            if self.stopping.is_set():  # `stop` came before there was a process to kill
                process.kill()
            for message in process.messages(kind):
                if message.unconfined:
                    self._log_lacking(message.unconfined)
                yield process, message
        finally:
            self._worker = None

    def _log_lacking(self, guards: Sequence[str]) -> None:
        """Log once which guards of `confine` this system lacks."""
        if list(guards) == self._lacking:
            return
        self._lacking = list(guards)
        lacking = plain(" and ".join(guards))
        logging.getLogger(__name__).warning("files are measured without %s: this system lacks it", lacking)
        with self.database.change() as rows:
            self.database.log(rows, self.clock(), "server", "files are measured unconfined", {"lacking": guards})

    def stop(self) -> None:
        """Kill the current worker process; its file stays in the queue."""
        self.stopping.set()
        self.wake.set()
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _count_of(self, id_: str, field: str, prepared: Prepared) -> bool:
        """Count a file that was read; return False, and end it, if files before it have used up a limit."""
        with self.database.change() as rows:
            row = rows.execute("SELECT * FROM submission WHERE id = ?", (id_,)).fetchone()
            if row["state"] != "received":  # counted before the server died
                return True
            used = self.limits.find_used_up(rows, row["user"], prepared.benchmark, row["created"])
            if not used:
                rows.execute("UPDATE submission SET state = 'validated', field = ? WHERE id = ?", (field, id_))
                return True
        used = used.replace("today", "that day")
        self._record_end(id_, "surplus", f"files before this one used up {used}; it does not count")
        return False

    def _record_end(
        self, id_: str, state: str, error: str, *, public: Split | None = None, private: Split | None = None
    ) -> None:
        """Record the end of a file, once; while the disk is full, try again."""
        splits = [None if split is None else json.dumps(asdict(split)) for split in (public, private)]
        while True:
            try:
                with self.database.change() as rows:
                    if rows.execute(_END, (state, error, *splits, id_)).rowcount:
                        self.database.log(rows, self.clock(), "server", f"submission {state}", {"submission": id_})
                break
            except sqlite3.OperationalError:
                if self.stopping.wait(_AGAIN):
                    raise
        if state in ("refused", "surplus"):
            shutil.rmtree(self.folder / id_, ignore_errors=True)


def _stored_name(file: str) -> str:
    """Return the name under which a file is stored: its ending, and nothing else of it."""
    return f"sent{PurePosixPath(file).suffix}"


class Worker(TirelessThread):
    """The thread that measures a queue's files while the server runs, and calls `around` between two of them."""

    def __init__(self, queue: Queue, around: Callable[[], None], *, every: float = 5.0) -> None:
        super().__init__("submissions", self._take_turn, queue.stopping)
        self.queue, self.around, self.every = queue, around, every

    def _take_turn(self) -> float:
        """Measure files until `stop` or an error; return the seconds until it is tried again."""
        try:
            with self.queue.lock() as locked:
                while locked and not self.queue.stopping.is_set():
                    self.queue.wake.clear()
                    worked = self.queue.work_one()
                    self.around()
                    if not worked:
                        self.queue.wake.wait(self.every)
        except (OSError, sqlite3.Error, TellapartError):
            pass  # a full disk or a locked database passes; the file is tried again
        except BaseException:  # or the queue would stop without a word
            logging.getLogger(__name__).exception("a file could not be measured; it is tried again")
        return self.every / 5

    def stop(self) -> None:
        """End now; the current file stays in the queue."""
        self.queue.stop()
        self.join()
