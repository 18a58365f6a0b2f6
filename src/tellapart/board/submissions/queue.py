"""The queue of submitted files: received -> validated -> measuring -> done, refused, surplus, failed or stopped.

Each step is one transaction, and a file is on the disk before its row is in the database. If the server dies, the next
one continues from the row's state and ignores the later output of an orphaned worker: a file is measured to one
recorded result. The process that holds a lock on a file, which the system releases when it dies, works the queue.

The step to `validated` counts a file, so that of two that were read only one gets the last place; the other (surplus)
ends there. One that failed (the server's fault) is given back. One that was read and could not be measured (stopped)
counts, as labels could be made to decide whether measuring ends. The next file is of the user with the fewest measured
in the last day. The same bytes of the same user are answered with the first numbers, and cost nothing.
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

from tellapart.board.submissions.accounts import DAY, Account, Database, RefusedError
from tellapart.board.submissions.forms import form_bytes, unpack
from tellapart.board.submissions.hidden import HiddenBenchmark, SubmissionSettings, round_to
from tellapart.board.submissions.prepared import Prepared, Split
from tellapart.data.atomic import sync_folder
from tellapart.data.lock import take_lock
from tellapart.data.rows import read_toml
from tellapart.data.scores import join_names
from tellapart.errors import MetricError, ScoreError, TellapartError, nearest, plain

# The server trusts neither worker process: lines have a length, messages a schema for each of the two jobs, and numbers
# must be of the benchmark's metrics and step. A process that sends anything else is treated like one that died.

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


#: Uncounted files of a user in a day, over all benchmarks: each costs the server time and the user no attempt.
REFUSED_A_DAY = 20
_MOST_STARTS = 3  # a file that took the server down so often is not tried again
_AGAIN = 1.0  # seconds before a write that a full disk refused is tried again
_QUERIES = read_toml(Path(__file__).with_name("queries.toml"))


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


class Queue:
    """The submitted files, the one that is being measured, the limits on those that count, and closings.

    A closing is final, since private numbers are published from then on. One by date is written to the database before
    that: a clock that is set back, or a later date in the board file, does not open the benchmark again.
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
        self.wake, self.stopping = Event(), Event()
        self.every = 5.0  # seconds between two looks for files that another server took
        self._worker: Process | None = None
        self._lacking: list[str] = []

    def benchmark(self, name: str) -> Prepared:
        """Return a hidden benchmark."""
        if name not in self.prepared:
            hint = nearest(name, self.prepared) or f"; this board has {join_names(list(self.prepared))}"
            raise RefusedError(404, f"no hidden benchmark {name!r:.80}{hint}")
        return self.prepared[name]

    def is_closed(self, name: str) -> bool:
        """Return whether a benchmark is closed, by its date or by hand, and the closing is written down."""
        benchmark = self.benchmark(name).benchmark
        if self.database.one(_QUERIES["find_closing"], name) is not None:
            return True
        if not self._is_past(benchmark):
            return False
        try:
            self.close(name, by="server")
        except sqlite3.OperationalError:  # a full disk: no file is taken any more, and nothing published yet
            return False
        return True

    def _is_past(self, benchmark: HiddenBenchmark) -> bool:
        return benchmark.closes is not None and self.clock() >= benchmark.closes.timestamp()

    def close(self, name: str, *, by: str) -> bool:
        """Write down that a benchmark is closed from now on; return False if it was already."""
        with self.database.change() as rows:
            closing = rows.execute("INSERT OR IGNORE INTO closing VALUES (?, ?)", (name, self.clock()))
            if closing.rowcount:
                self.database.log(rows, self.clock(), by, "benchmark closed", {"benchmark": name})
            return bool(closing.rowcount)

    def count_left(self, rows: sqlite3.Connection, user: str, name: str, at: float) -> tuple[int, int]:
        """Return how many more files of a user may count: in all, and on the day (UTC) of a moment."""
        limits = self.prepared[name].benchmark
        total, today = rows.execute(_QUERIES["count_counted"], (at - at % DAY, name, user)).fetchone()
        left = max(0, limits.total - total)
        return left, min(left, max(0, limits.daily - today))

    def _find_used_up(self, rows: sqlite3.Connection, user: str, name: str, at: float) -> str:
        """Return `all submissions (20)` or `today's submissions (3)` if a user's counted files reach it, or ''."""
        left, today = self.count_left(rows, user, name, at)
        limits = self.prepared[name].benchmark
        if not left:
            return f"all submissions ({limits.total})"
        return "" if today else f"today's submissions ({limits.daily})"

    def _check_limits(self, rows: sqlite3.Connection, user: str, name: str) -> None:
        """Refuse a file to a closed benchmark, or beyond a limit; reads in the caller's transaction."""
        now = self.clock()
        if rows.execute(_QUERIES["find_closing"], (name,)).fetchone() or self._is_past(self.benchmark(name).benchmark):
            raise RefusedError(409, f"{name} is closed; its private numbers are on the board")
        midnight = now - now % DAY
        next_day = f"the next day (UTC) begins in {(midnight + DAY - now) / 3600:.1f} hours"
        if rows.execute(_QUERIES["count_uncounted"], (user, midnight)).fetchone()[0] >= REFUSED_A_DAY:
            raise RefusedError(
                429, f"{REFUSED_A_DAY} files of {user} wait or came to nothing today, and no more are read; {next_day}"
            )
        if used := self._find_used_up(rows, user, name, now):
            when = f"; {next_day}" if used.startswith("today") else ""
            raise RefusedError(429, f"{user} has used {used} to {name}{when}")

    def check_allowed(self, account: Account, name: str, sizes: range) -> None:
        """Refuse a file of such a size before it comes if `take` would refuse it; it may be one that came before."""
        with self.database.look() as rows:
            try:
                self._check_limits(rows, account.user, name)
            except RefusedError:
                if not rows.execute(
                    _QUERIES["find_size"], (account.user, name, sizes.start, sizes.stop - 1)
                ).fetchone():
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
                if not rows.execute(_QUERIES["find_token"], (account.token, self.clock())).fetchone():
                    raise RefusedError(401, "the token was revoked or expired while the file came; nothing was counted")
                now, suffix = self.clock(), PurePosixPath(file).suffix
                same_bytes = (account.user, benchmark, upload.sha256, suffix, suffix, now - now % DAY)
                if row := rows.execute(_QUERIES["find_same"], same_bytes).fetchone():
                    same = Receipt(**row, again=True)
                    shutil.rmtree(folder, ignore_errors=True)
                    self.database.log(rows, self.clock(), account.user, "submission again", {"submission": same.id})
                    return same
                self._check_limits(rows, account.user, benchmark)
                values = (id_, account.user, benchmark, model, file, upload.sha256, upload.bytes, self.clock())
                rows.execute(_QUERIES["insert"], values)
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
            failed = [str(row["id"]) for row in rows.execute(_QUERIES["find_failed"])]
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
        row = self.database.one(_QUERIES["find_next"], self.clock() - DAY)
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
        if not form or not self._count_of(id_, field):
            return
        with self.database.change() as rows:
            rows.execute("UPDATE submission SET state = 'measuring' WHERE id = ? AND state = 'validated'", (id_,))
        job = {"truth": str(prepared.truth.absolute()), "metrics": prepared.metrics, "step": prepared.benchmark.step}
        last, _ = self._run(job, prepared, prepared.folder, MeasureResult(), form)
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
        last, form = self._run(job, prepared, folder, ReadResult())
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
        self, job: Mapping[str, Any], prepared: Prepared, folder: Path, nothing: Message, form: bytes = b""
    ) -> tuple[Message, bytes]:
        """Start a process, which `stop` kills; return its last message, else `nothing`, and the form that it read."""
        seconds, memory = self.settings.seconds, self.settings.memory_bytes
        limited = {**job, "task": prepared.task, "seconds": seconds, "memory_bytes": memory}
        self._worker = process = Process(limited, folder, 2 * seconds + 10, form)
        last, read = nothing, b""
        try:
            if self.stopping.is_set():  # `stop` came before there was a process to kill
                process.kill()
            for last in process.messages(type(nothing)):
                if last.unconfined:
                    self._log_lacking(last.unconfined)
                if isinstance(last, ReadResult) and last.read:
                    read = process.take(last.read)
        finally:
            self._worker = None
        return last, read

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

    def take_turn(self, around: Callable[[], None]) -> float:
        """Measure files, with a call of `around` after each, until `stop` or an error; return seconds to wait."""
        try:
            with self.lock() as locked:
                while locked and not self.stopping.is_set():
                    self.wake.clear()
                    worked = self.work_one()
                    around()
                    if not worked:
                        self.wake.wait(self.every)
        except (OSError, sqlite3.Error, TellapartError):
            pass  # a full disk or a locked database passes; the file is tried again
        except BaseException:  # or the queue would stop without a word
            logging.getLogger(__name__).exception("a file could not be measured; it is tried again")
        return self.every / 5

    def _count_of(self, id_: str, field: str) -> bool:
        """Count a file that was read; return False, and end it, if files before it have used up a limit."""
        with self.database.change() as rows:
            row = rows.execute("SELECT * FROM submission WHERE id = ?", (id_,)).fetchone()
            if row["state"] != "received":  # counted before the server died
                return True
            used = self._find_used_up(rows, row["user"], row["benchmark"], row["created"])
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
                    if rows.execute(_QUERIES["end"], (state, error, *splits, id_)).rowcount:
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
