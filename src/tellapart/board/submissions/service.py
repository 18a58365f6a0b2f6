"""The service of hidden benchmarks: the queue of submitted files, leaderboards and the log, for pages and commands.

States of a file: received -> validated -> measuring -> done, refused, surplus, failed or stopped. Each step is one
transaction, and a file is on the disk before its row is in the database. If the server dies, the next one continues
from the row's state. It ignores the later output of an orphaned worker, so a file gets one recorded result. One process
works the queue: the one that has a lock, which the system releases when the process dies.

The step to `validated` counts a file against the user's limits. If two files were read and one may count, the other
ends as `surplus`. A `failed` file (the server's fault) does not count. A `stopped` one was read and could not be
measured. It counts, as senders could otherwise make it depend on labels whether measuring ends. The next file is of the
user with the fewest files in the last day. The same bytes of the same user get the first numbers, and cost nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from typing import Any

from pydantic import TypeAdapter

from tellapart.board.records import rank_places, tireless_thread
from tellapart.board.submissions.accounts import DAY, Account, Accounts, RateLimit, RefusedError, State, UploadLimit
from tellapart.board.submissions.hidden import HiddenSettings, SubmissionSettings, in_points, read_hidden
from tellapart.board.submissions.prepared import Prepared, digest_of, keyed_hash, prepare
from tellapart.board.submissions.worker import MeasureResult, Message, Process, ReadResult, Split, form_bytes, unpack
from tellapart.data.atomic import sync_folder, take_lock
from tellapart.data.rows import read_toml
from tellapart.data.scores import join_names
from tellapart.errors import RunError, ScoreError, StoreError, TellapartError, first_line, nearest, plain
from tellapart.records.result import HIDDEN, HIDDEN_NUMBERS, BenchmarkResult, ModelRecord, Result, RunRecord, Value
from tellapart.stats.intervals import independent_interval
from tellapart.tasks.registry import METRICS, TASKS

#: The most files of a user in a day that do not count, over all benchmarks: they cost the server time.
REFUSED_A_DAY = 20
_MOST_STARTS = 3  # a file during which the server died so often is not tried again
_AGAIN = 1.0  # seconds until a write is tried again that a full disk refused
_QUERIES = read_toml(Path(__file__).with_name("queries.toml"))


@dataclass(frozen=True, slots=True)
class Upload:
    """A complete file on the disk, its size in bytes, and its SHA-256."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a sent file: its id, state and model, and whether the same bytes were sent before (`again`)."""

    id: str
    state: str
    model: str
    again: bool = False


class Queue:
    """The submitted files, their measuring, the limits on files that count, and the closings of benchmarks.

    A closing is final, since private numbers are published from then on. A closing by date is written to the database,
    so that a clock that is set back, or a later date in the board file, does not open the benchmark again.
    """

    def __init__(
        self, state: State, settings: SubmissionSettings, prepared: Mapping[str, Prepared], clock: Callable[[], float]
    ) -> None:
        self.database, self.settings, self.prepared, self.clock = state.database, settings, prepared, clock
        self.folder = state.folder / "uploads"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.wake, self.stopping = Event(), Event()
        self.every = 5.0  # seconds between two looks for files that another server received
        self._worker: Process | None = None
        self._lacking: list[str] = []  # guards whose lack was logged

    def benchmark(self, name: str) -> Prepared:
        """Return a hidden benchmark."""
        if name not in self.prepared:
            hint = nearest(name, self.prepared) or f"; this board has {join_names(list(self.prepared))}"
            raise RefusedError(404, f"no hidden benchmark {name!r:.80}{hint}")
        return self.prepared[name]

    def is_closed(self, name: str) -> bool:
        """Return whether a benchmark is closed, by its date or by hand, and the closing is written down."""
        is_past = self._is_past(name)  # refuses a benchmark that is not on the board
        if self.database.one(_QUERIES["find_closing"], name) is not None:
            return True
        if not is_past:
            return False
        try:
            self.close(name, by="server")
        except sqlite3.OperationalError:  # a full disk: files are refused already, and nothing is published yet
            return False
        return True

    def _is_past(self, name: str) -> bool:
        closes = self.benchmark(name).benchmark.closes
        return closes is not None and self.clock() >= closes.timestamp()

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
        """Return the limit that a user's files reach, `all submissions (20)` or `today's submissions (3)`; or ''."""
        left, today = self.count_left(rows, user, name, at)
        limits = self.prepared[name].benchmark
        if not left:
            return f"all submissions ({limits.total})"
        return "" if today else f"today's submissions ({limits.daily})"

    def _check_limits(self, rows: sqlite3.Connection, user: str, name: str) -> None:
        """Refuse a file to a closed benchmark, or beyond a limit, as the caller's transaction sees them."""
        now = self.clock()
        if rows.execute(_QUERIES["find_closing"], (name,)).fetchone() or self._is_past(name):
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
        """Refuse a file before it comes if `take` would; one of such a size may be the same as an earlier one."""
        with self.database.look() as rows:
            try:
                self._check_limits(rows, account.user, name)
            except RefusedError:
                size = (account.user, name, sizes.start, sizes.stop - 1)
                if not rows.execute(_QUERIES["find_size"], size).fetchone():
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
        last, _ = self._run(job, prepared, prepared.folder, MeasureResult, form)
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
        last, form = self._run(job, prepared, folder, ReadResult)
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
    ) -> tuple[Message, bytes]:
        """Run a process, which `stop` kills; return its message, and the form that it read."""
        seconds, memory = self.settings.seconds, self.settings.memory_bytes
        limited = {**job, "task": prepared.task, "seconds": seconds, "memory_bytes": memory}
        self._worker = process = Process(limited, folder, 2 * seconds + 10, form)
        try:
            if self.stopping.is_set():  # `stop` came before there was a process to kill
                process.kill()
            message, read = process.run(kind)
        finally:
            self._worker = None
        if process.unconfined:
            self._log_lacking(process.unconfined)
        return message, read

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
        """Measure files, and call `around` after each, until `stop` or an error; return the seconds to wait then."""
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
        except BaseException:  # the queue must go on, whatever it is
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


# An interval of hidden numbers is computed from the rounded number, and from published sizes. So it reveals nothing
# more; a bootstrap interval would be another number computed from the labels. It is the interval of independent items
# (Clopper and Pearson's of 40 or fewer, else Wilson's) with each cluster as one trial, or fewer if their sizes differ.


@dataclass(frozen=True, slots=True)
class MeasuredSubmission:
    """A measured file of a user."""

    id: str
    user: str
    model: str
    at: float  # sent, in seconds since 1970
    public: Split
    private: Split | None  # None while the benchmark is open
    field: str = ""  # the field that predictions were read from; empty if not recorded
    rank: int | None = None  # the model's place by the public number of its best file; None before `standings`
    private_rank: int | None = None  # its place by the private number of that file; None while the benchmark is open

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
    """Rank the models of a benchmark, each by its best file by a public metric, the earliest of equal ones.

    Private numbers of these files decide the order once they are published. Equal numbers share a rank.
    """
    best: dict[tuple[str, str], MeasuredSubmission] = {}
    for sent in sorted(measured, key=lambda sent: sent.at):
        other = best.get((sent.user, sent.model))
        if other is None or sent.public.values[metric] > other.public.values[metric]:
            best[sent.user, sent.model] = sent
    leaders = list(best.values())
    ranks = rank_places([sent.public.values[metric] for sent in leaders])
    private_ranks = rank_places([sent.private.values[metric] if sent.private else None for sent in leaders])
    placed = zip(leaders, ranks, private_ranks, strict=True)
    rows = [replace(sent, rank=rank, private_rank=private_rank) for sent, rank, private_rank in placed]
    return sorted(rows, key=lambda row: (row.private_rank or row.rank, row.rank, row.at))


def read_measured(row: sqlite3.Row, *, private: bool) -> MeasuredSubmission:
    """Read a row of the database."""
    try:
        datetime.fromtimestamp(row["created"], UTC)
        facts = {name: row[name] for name in ("id", "user", "model", "field")}
        public, hidden = _SPLIT.validate_json(row["public"]), _SPLIT.validate_json(row["private"]) if private else None
        return MeasuredSubmission(**facts, at=row["created"], public=public, private=hidden)
    except (ArithmeticError, OSError, TypeError, ValueError) as error:
        raise StoreError(
            f"the database of submissions is damaged: submission {row['id']} holds what no board writes "
            f"({first_line(error)}); restore the state from a backup"
        ) from error


def values_of(split: Split, shape: tuple[int, int] | None, true: int = 1) -> dict[str, Value]:
    """Return a split's numbers as records have them; `shape` is None for a task's records, `true` counts true texts."""
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
            chance=METRICS[name].chance(shape, true),
            average="micro: items",
        )
    return values


def as_result(best: MeasuredSubmission, prepared: Prepared) -> Result:
    """Return a model's row as a record without samples, which a board shows like any other."""
    settings = prepared.benchmark
    numbers = {name: values_of(split, prepared.shape, prepared.true) for name, split in best.splits.items()}
    split = "private" if best.private else "public"
    sender = hashlib.sha256(f"{best.user}\n{best.model}".encode()).hexdigest()
    count = f"{best.splits[split].items:,} {split} of {prepared.items:,}"
    benchmark = BenchmarkResult.model_validate(
        {
            "title": settings.title or settings.name,
            "fingerprint": f"{HIDDEN}{prepared.fingerprint}",
            "task": prepared.task,
            "output": TASKS[prepared.task].output,
            "shape": prepared.shape,
            "true": prepared.true,
            "metrics": numbers[split],
            "by": {"split": {name: {"metrics": values} for name, values in numbers.items()}},
            "field": best.field,
            "tied_items": best.splits[split].ties,
            "origin": f"submission {best.id} by {best.user}",
            "notes": (f"labels are hidden; {HIDDEN_NUMBERS}{count} items, rounded to {in_points(settings.step)}",),
        }
    )
    return Result(
        run=RunRecord(started=datetime.fromtimestamp(best.at, UTC).isoformat(), seed=0, command="", versions={}),
        # A user's model of one name is one row of the board, on however many benchmarks.
        model=ModelRecord(name=best.model, fingerprint=f"submission-{sender[:16]}"),
        benchmarks={settings.name: benchmark},
    )


_PAGE = 200  # the most entries of the log, or submissions, in one answer
#: Columns of a submission that its sender sees.
_SHOWN = ("id", "user", "benchmark", "model", "sha256", "bytes", "created", "state", "error", "field")


class Submissions:
    """The hidden benchmarks of a board, and everything behind their routes."""

    def __init__(
        self, settings: HiddenSettings, *, clock: Callable[[], float] = time.time, accept: bool = False
    ) -> None:
        if os.name != "posix":
            raise RunError(
                "hidden benchmarks need Linux or macOS: strangers' files are read in a confined process there"
            )
        self.settings, self.clock = settings.submissions, clock
        self.state = State(self.settings.state, accept=accept)
        secret, self.database = self.state.secret, self.state.database
        self.accounts = Accounts(self.database, keyed_hash(secret, "accounts"), clock)
        folder = self.settings.state / "hidden"
        self.prepared: dict[str, Prepared] = {
            benchmark.name: prepare(benchmark, folder, keyed_hash(secret, "hidden", benchmark.name))
            for benchmark in settings.hidden
        }
        for prepared in self.prepared.values():
            self.state.mark({prepared.truth: digest_of(prepared.truth), prepared.task_file: prepared.fingerprint})
        self.queue = Queue(self.state, self.settings, self.prepared, clock)
        self.requests = RateLimit(self.settings.requests_a_minute, time.monotonic)
        self.sign_ins = RateLimit(self.settings.sign_ins_a_minute, time.monotonic)
        self.uploads = UploadLimit()
        self._worker: Thread | None = None

    def start(self) -> None:
        """Start the thread that measures files."""
        with self.queue.lock() as locked:
            if locked:  # no other server takes files here
                self.queue.sweep()
        turn = partial(self.queue.take_turn, self._look_around)
        self._worker = tireless_thread("submissions", turn, self.queue.stopping)
        self._worker.start()

    def stop(self) -> None:
        """Stop measuring; files that are not done are measured after the next start."""
        if self._worker is not None:
            self.queue.stop()
            self._worker.join()
            self._worker = None
            self.state.note_counters()

    def _look_around(self) -> None:
        """Write down the database's counters, and closings by date; called every few seconds."""
        self.state.note_counters()
        for name in self.prepared:
            self.queue.is_closed(name)

    def close(self, name: str, *, by: str) -> None:
        """Close a benchmark for good."""
        if self.queue.is_closed(name) or not self.queue.close(name, by=by):
            raise RefusedError(409, f"{name} is closed already")

    def about(self, name: str, root: str = "") -> dict[str, Any]:
        """Describe a benchmark, its limits, and how much its numbers give away."""
        prepared = self.queue.benchmark(name)
        settings = prepared.benchmark
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
            **prepared.leaks,
        }

    def view(self, id_: str, account: Account) -> dict[str, Any]:
        """Return a submission as its sender, or an admin, may see it."""
        row = self.database.one("SELECT * FROM submission WHERE id = ?", id_)
        if row is None or not (row["user"] == account.user or account.may("admin")):
            raise RefusedError(404, f"no submission {id_!r:.80} of yours")
        return self._row_view(row)

    def sent(self, account: Account) -> list[dict[str, Any]]:
        """Return a user's submissions, newest first."""
        query = "SELECT * FROM submission WHERE user = ? ORDER BY created DESC LIMIT ?"
        rows = self.database.all(query, account.user, _PAGE)
        return [self._row_view(row) for row in rows]

    def files_left(self, account: Account) -> dict[str, dict[str, int]]:
        """Return benchmark -> how many more files of a user may count, `today` and `in_all`; open benchmarks alone."""
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

    def content(self, name: str = "", root: str = "") -> dict[str, Any]:
        """Return the content of a benchmark's page, or of the list of benchmarks, with addresses below the path `root`.

        Numbers are rounded; private ones are published after closing alone.
        """
        if not name:
            return {"benchmarks": [self.about(name, root) for name in self.prepared]}
        of_items = self.queue.benchmark(name).shape, self.queue.benchmark(name).true
        return {
            "benchmark": self.about(name, root),
            "models": [
                {
                    **{name: getattr(row, name) for name in ("model", "user", "rank", "private_rank", "change")},
                    **{
                        split: {metric: value.model_dump() for metric, value in values_of(numbers, *of_items).items()}
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
    if settings is None or not (measuring or State.exists(settings.submissions.state)):
        yield None
        return
    with State.usable(settings.submissions.state):
        submissions = Submissions(settings)
        submissions.results()  # a damaged row stops the start, too
        if measuring:
            submissions.start()
    try:
        yield submissions
    finally:
        submissions.stop()
