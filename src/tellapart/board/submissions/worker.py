"""The two processes that handle a file: limited, confined and new; and what passes between them and the server.

The first opens a stranger's file and can read only the published part of the benchmark, without labels. It passes the
contents on as a form to the second process, which reads the labels and never sees the file. Standard input has the job,
a line of JSON, and then the form if there is one; standard output gets messages.

A form is plain JSON: a row for each item or record, in their published order, without ids. The file may have taken over
the process that reads it. So a form is checked like any stranger's input, twice: by the server, and by the process that
measures it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import math
import os
import platform
import signal
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import IO, Annotated, Any, Literal, TypeVar, cast

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from tellapart.data.answer_text import watch_reading
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_object, read_toml
from tellapart.data.scores import ScoreKind, Scores
from tellapart.data.validation import first_problem
from tellapart.errors import DataError, MetricError, ScoreError, TellapartError, plain
from tellapart.models.memory.external import read_scores

_MOST_MEMBERS = 16  # of an archive
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy writes no other, and deflate packs 1,032 to 1 at most


def read_published(path: Path, task: str) -> Any:
    """Read the published items: a pair set, or a task's records without labels."""
    content = read_object(path)
    try:
        if task in ("pairs", "pairing"):
            return PairSet("hidden", tuple(Item.model_validate(row) for row in content["items"]), Path())
        from tellapart.tasks.registry import HIDEABLE  # slow to import, and scores do not need it

        return TypeAdapter(HIDEABLE[task].records).validate_python(content["records"])
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not what is published of a hidden benchmark ({first_problem(error)}); open the board again"
        ) from error


def _check_archive(path: Path, ids: int, shape: tuple[int, int], longest_id: int) -> None:
    """Refuse an npz file whose table of contents is not that of such scores, or is too large; nothing is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except Exception as error:  # damaged archives fail anywhere, with any exception
        with path.open("rb") as file:
            start = file.read(24)
        what = f"it begins with {start!r}; write arrays with numpy.savez; a table keeps its ending, .csv or .jsonl"
        if start.startswith(b"PK"):
            what = "it is an archive that is cut off or damaged; write it again, and send all of it"
        raise ScoreError(f"{path} is not an npz file: {what}") from error
    if len(members) > _MOST_MEMBERS:
        raise ScoreError(f"{path} holds {len(members)} members; ids, scores and kind are three")
    # Generous for any honest file: twice the scores as float64, four times the ids in UTF-32.
    limits = {"scores": 2 * 8 * ids * math.prod(shape) + 4096, "ids": 4 * 4 * ids * longest_id + 4096}
    wanted = f"send ids, texts {(ids,)}, and scores, float32 {(ids, *shape)}, and no other array"
    for member in members:
        name = member.filename.removesuffix(".npy")
        if "/" in name or "\\" in name or name.startswith("."):
            raise ScoreError(f"{path}: member {member.filename!r:.80} is named with a path; arrays have plain names")
        if member.flag_bits & 1 or member.compress_type not in _PLAIN:
            raise ScoreError(f"{path}: member {name!r:.80} is encrypted, or packed as numpy does not; use numpy.savez")
        if member.file_size > limits.get(name, 4096):
            raise ScoreError(
                f"{path}: {name!r:.80} unpacks to {member.file_size:,} bytes, "
                f"and at limits {limits.get(name, 4096):,} are read; {wanted}"
            )


def read_sent(path: Path, records: Any, task: str) -> Any:
    """Read `Scores`, `BothOrders` or a task's predictions from a submitted file, in the published order."""
    try:
        if task == "pairs":
            ids = records.outline.ids
            if path.suffix == ".npz":
                _check_archive(path, len(ids), records.shape, max(map(len, ids)))
            return read_scores(path, ids=ids, shape=records.shape)
        from tellapart.tasks.registry import TASKS

        return TASKS[task].read(path, records)
    except TellapartError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:  # digits without end, for example
        raise ScoreError(f"{path} cannot be read: {error!s:.200}") from error


_Choice = Literal[-1, 0, 1]
_Side = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]  # as `tasks.predictions.parse_box` has it
#: Task -> its two columns of predictions, which have rows of two.
_COLUMNS = {"pairing": ("in_order", "swapped"), "choice": ("true_first", "true_second")}
#: Task -> type of its rows.
_ROWS: Mapping[str, Any] = {
    "pairing": list[tuple[str, str]],
    "nlvr2": list[bool],
    "vqa": list[str],
    "vqa2": list[str],
    "grounding": list[tuple[_Side, _Side, _Side, _Side]],
    "choice": list[tuple[_Choice, _Choice]],
    "yes-no": list[str],
}
_A_ROW = 128  # bytes of a row without its texts: four numbers as JSON
_AROUND = 64  # bytes around the rows: brackets, names, a kind


class _Numbers(BaseModel, frozen=True, extra="forbid", strict=True):
    """Scores: a float32 array `(item, image, text)`, little-endian, in base64."""

    kind: ScoreKind
    scores: str


def form_bytes(task: str, items: int, shape: tuple[int, int] | None, sent_bytes: int) -> int:
    """Return the largest size of a form: exact for scores, else in proportion to the file."""
    if task == "pairs" and shape is not None:
        return 4 * math.ceil(4 * items * math.prod(shape) / 3) + _AROUND
    return 2 * sent_bytes + _A_ROW * items + _AROUND


def pack(sent: Any, task: str) -> bytes:
    """Return the form of the result of `read_sent`."""
    if task == "pairs":
        data = base64.b64encode(sent.values.astype("<f4").tobytes()).decode()
        return _Numbers(kind=sent.kind, scores=data).model_dump_json().encode()
    if columns := _COLUMNS.get(task):
        sent = list(zip(*(getattr(sent, name) for name in columns), strict=True))
    try:
        return _row_adapter(task).dump_json(sent)
    except ValueError as error:  # half a surrogate pair, which JSON's escapes can write and UTF-8 cannot
        raise ScoreError("a prediction holds what is no character; send texts of Unicode") from error


def unpack(form: bytes, task: str, items: int, shape: tuple[int, int] | None) -> Any:
    """Return the input of `pack`, with positions as ids; refuse a form that `pack` does not make."""
    refusal = ScoreError(f"what was read is not in the form of {task!r} with {items} rows")
    try:
        if task == "pairs":
            numbers = _Numbers.model_validate_json(form)
            if shape is None:
                raise refusal
            values = np.frombuffer(base64.b64decode(numbers.scores, validate=True), "<f4")
            return Scores(tuple(map(str, range(items))), values.reshape(items, *shape), numbers.kind)
        rows = _row_adapter(task).validate_json(form, strict=True)
    except (ValueError, ScoreError):
        raise refusal from None
    if len(rows) != items:
        raise refusal
    if task not in _COLUMNS:
        return rows
    # Imported here, so that a process that reads scores starts sooner.
    from tellapart.models.generative.answers import BothOrders
    from tellapart.tasks.choice import Chosen

    first, second = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return Chosen(first, second) if task == "choice" else BothOrders(first, second)


@cache
def _row_adapter(task: str) -> TypeAdapter[Any]:
    return TypeAdapter(_ROWS[task])


@dataclass(frozen=True, slots=True)
class Split:
    """The rounded numbers of one split."""

    items: int  # in the split
    clusters: int  # of its items
    ties: int  # items with two equal scores in a row or column, of both splits: no sender learns which split has which
    values: Mapping[str, float]  # metric -> number
    # metric -> number of its units and of their clusters, if the units are not the items (sentences, for example)
    units: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # metric -> how many clusters of one size would be as precise as these clusters of different sizes
    worth: Mapping[str, float] = field(default_factory=dict)


class RoundingError(MetricError, ValueError):
    """A step that does not divide 1, or a number that is no fraction; a ValueError, as pydantic's validators raise."""


def exact_step(step: float) -> Fraction:
    """Return a step of rounding as a fraction; it must divide 1."""
    exact = Fraction(str(step))
    if not 0 < exact <= Fraction(1, 2) or Fraction(1) % exact:
        raise RoundingError(f"a step of {step} does not divide 1; use one such as 0.01, 0.005 or 0.001")
    return exact


def round_to(value: float, step: float) -> float:
    """Round a fraction to the nearest multiple of a step; halves up."""
    if not 0 <= value <= 1:
        raise RoundingError(f"only fractions are rounded here; got {value}, which is not in [0, 1]")
    # In whole numbers, since the time that a Fraction takes depends on its value.
    over, under = exact_step(step).as_integer_ratio()
    top, bottom = float(value).as_integer_ratio()
    steps = (2 * top * under + bottom * over) // (2 * bottom * over)  # value / step + 1 / 2, rounded down
    return steps * over / under


# The server trusts neither worker process. Lines have a largest length, messages of either process a schema, and only
# the benchmark's metrics, rounded to its step, are accepted. A process that sends anything else counts as dead.

_LONGEST = 1 << 16  # bytes of a message
_MOST_SHOWN = 500  # characters of a refusal or of a field's name
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")
# Run before any module is imported: the board's readers have priority, and no file, process or thread can be made.
_FIRST = (
    "import os, resource as r; os.nice(10); "
    "[r.setrlimit(none, (0, 0)) for none in (r.RLIMIT_FSIZE, r.RLIMIT_CORE, r.RLIMIT_NPROC)]"
)


def _shorten(text: str) -> str:
    """Return a refusal or a name as it is shown: short, without characters that could reorder the text around."""
    excerpt = plain(text[: _MOST_SHOWN + 1])
    return excerpt if len(excerpt) <= _MOST_SHOWN else f"{excerpt[: _MOST_SHOWN - 1]}…"


class WorkerMessage(BaseModel, frozen=True, extra="forbid", strict=True):
    """A message of either process; `unconfined` lists the guards that this system lacks."""

    unconfined: list[Literal["landlock", "seccomp"]] = Field(default=[], max_length=2)


class ReadResult(WorkerMessage, frozen=True):
    """A message of the process that reads; it has text about the file, and no scores."""

    read: int = Field(default=0, ge=0)  # the file is valid: a form of so many bytes follows
    # that predictions were read from; empty if the file's numbers have no names
    field: Annotated[str, AfterValidator(_shorten)] = ""
    refused: Annotated[str, AfterValidator(_shorten)] = ""  # why the file is invalid
    failed: bool = False  # the published items cannot be read


class MeasureResult(WorkerMessage, frozen=True):
    """A message of the process that measures: the numbers of both splits, or the step that failed."""

    failed: Literal["truth", "form", "numbers", "memory"] | None = None
    public: Split | None = None
    private: Split | None = None

    @field_validator("public", "private")
    @classmethod
    def _check_numbers(cls, split: Split, info: ValidationInfo) -> Split:
        """Accept only the job's metrics, rounded: more digits than the step has could hold labels."""
        job = cast("Mapping[str, Any]", info.context)
        rounded = {name: round_to(value, job["step"]) for name, value in split.values.items()}
        if rounded != dict(split.values) or set(rounded) != set(job["metrics"]):
            raise ValueError("these are not the numbers that were asked for")
        return split


Message = TypeVar("Message", bound=WorkerMessage)


class Process:
    """A process that reads one file, or measures one form."""

    def __init__(self, job: Mapping[str, Any], folder: Path, patience: float, form: bytes = b"") -> None:
        self.job, self.form = job, form
        self.unconfined: list[str] = []  # guards that the process lacks
        # Of the server's environment only what Python needs: no database address, no token.
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        single_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        work = "prepared.measure" if "truth" in job else "worker.read"
        program = f"{_FIRST}; from tellapart.board.submissions import {work.partition('.')[0]}, worker"
        self._process = subprocess.Popen(  # noqa: S603  (nothing of it is from outside)
            [sys.executable, "-c", f"{program}; worker.main({work})"],
            cwd=folder,
            env={**environment, **single_thread, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a process group, so that its children are killed with it
        )
        # The process limits its CPU time; the timer ends a process that only waits.
        self._timer = Timer(patience, self.kill)
        self._timer.daemon = True

    def run(self, kind: type[Message]) -> tuple[Message, bytes]:
        """Return the process's message, an empty one if it sends none that is valid, and the form that follows it."""
        stdin, stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        try:
            self._timer.start()
            with contextlib.suppress(BrokenPipeError), stdin:
                stdin.write(json.dumps(self.job).encode() + b"\n")
                stdin.write(self.form)
            message = self._read_message(kind, stdout)
            if message.unconfined:  # sent before the file is opened
                self.unconfined += message.unconfined
                message = self._read_message(kind, stdout)
            size = message.read if isinstance(message, ReadResult) else 0
            return message, stdout.read(size) if size <= self.job.get("form_bytes", 0) else b""
        except ValidationError:
            return kind(), b""
        finally:
            self._timer.cancel()
            self.kill()
            self._process.wait()
            stdout.close()

    def _read_message(self, kind: type[Message], stdout: IO[bytes]) -> Message:
        line = stdout.readline(_LONGEST)
        # Without a line end the process ended, perhaps in the middle of a message, or the line is too long.
        return kind.model_validate_json(line if line.endswith(b"\n") else b"{}", context=self.job)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process.returncode is None:  # once it has ended, its number may be another process's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()


# Landlock (Linux 5.13) limits the files that a process may open, and a seccomp filter (x86-64, ARM) its system calls:
# for good, without root, for all code that runs in it from then on.
#
# Source: Linux's manual pages landlock(7), seccomp(2) and prctl(2); numbers are those of its headers.

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 4, 22, 38
_FILTER = 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION = 444, 445, 446, 1
_PATH_BENEATH = 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = (13, 14, 15, 15, 16)  # how many bits are rights on files, in Landlock's versions 1 to 5
_NETWORK, _SCOPES = 4, 6  # versions that first guard TCP (bind, connect), and other processes' signals and sockets

_CALLS = read_toml(Path(__file__).with_name("refused_calls.toml"))  # machine -> call -> number
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # number in a filter
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NOT_PERMITTED, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_OTHER_NUMBERS = 0x40000000  # x86-64's second set of numbers for the same calls


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)  # Windows, whose boards hide no labels, has none


def confine(readable: Sequence[Path]) -> tuple[str, ...]:
    """Let this process read these files and Python's folders alone, and end with its parent; return missing guards."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if not sys.platform.startswith("linux"):
        return ("landlock", "seccomp")
    _set_process_control(_SET_DEATH_SIGNAL, signal.SIGKILL)
    _set_process_control(_SET_DUMPABLE, 0)  # no other process of this user reads its memory
    if not _set_process_control(_SET_NO_NEW_PRIVILEGES, 1):
        return ("landlock", "seccomp")
    # The folders from which modules and libraries may still be loaded, unless they hold what is to be read.
    system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
    folders = map(Path, dict.fromkeys((sys.prefix, sys.base_prefix, *sys.path, *system)))
    modules = [
        folder
        for folder in folders
        if folder.is_absolute() and not any(path.absolute().is_relative_to(folder) for path in readable)
    ]
    guards = {"landlock": _open_only([*modules, *readable]), "seccomp": _refuse_calls()}
    return tuple(name for name, active in guards.items() if not active)


def _set_process_control(option: int, value: int, program: object = None) -> bool:
    zero = ctypes.c_ulong(0)
    return bool(_libc().prctl(option, ctypes.c_ulong(value), zero if program is None else program, zero, zero) == 0)


def _system_call(number: int, *values: object) -> int:
    return int(_libc().syscall(ctypes.c_long(number), *values))


def _open_only(readable: Iterable[Path]) -> bool:
    """Let only these folders and files be opened, for reading; return whether the kernel supports it."""
    version = _system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    # Rights on files, on TCP (2 bits), and on other processes (2 bits) that are refused unless a rule allows them.
    guards = struct.pack("=QQQ", rights, 3 if version >= _NETWORK else 0, 3 if version >= _SCOPES else 0)
    rules = _system_call(_CREATE_RULESET, ctypes.c_char_p(guards), ctypes.c_size_t(len(guards)), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        for path in filter(Path.exists, readable):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _READ_FILE | (_READ_FOLDER if path.is_dir() else 0), descriptor)
            beneath = (ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), ctypes.c_char_p(rule), ctypes.c_uint32(0))
            is_refused = _system_call(_ADD_RULE, *beneath)
            os.close(descriptor)
            if is_refused:
                return False
        return not _system_call(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _refuse_calls() -> bool:
    """Install the filter of system calls; return whether it knows the machine and the kernel accepted it."""
    if platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    name, numbers = _MACHINES[platform.machine()], tuple(_CALLS[platform.machine()].values())
    # Each step: operation, steps to skip if true, steps to skip if false, operand. At first another machine is killed.
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, name), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    refused = len(numbers) + 1
    steps.append((_AT_LEAST, refused, 0, _OTHER_NUMBERS))
    steps += [(_EQUAL, refused - k, 0, number) for k, number in enumerate(numbers, start=1)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOT_PERMITTED)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    return _set_process_control(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), code)))


_MOST_SENT = 1000  # characters of a refusal or a field: they repeat parts of the file, which may be long
_FILES = 64  # open at once; modules are files, too


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit the CPU time, memory and open files of this process for good."""
    import resource  # which Windows lacks

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def read(job: Mapping[str, Any], _form: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Read one file; return the message about it, or why it is refused, and its form."""
    try:
        records = read_published(Path(job["published"]), job["task"])
    except TellapartError:  # its message names the server's files
        return {"failed": True}, b""
    try:
        with watch_reading(None) as reading:
            form = pack(read_sent(Path(job["file"]), records, job["task"]), job["task"])
        if len(form) > job["form_bytes"]:
            raise ScoreError(f"{job['name']} holds control characters without end; send predictions without them")
    except TellapartError as error:
        return {"refused": str(error)[:_MOST_SENT].replace(job["file"], job["name"], 1)}, b""
    except MemoryError:
        return {"refused": f"{job['name']} takes more memory to read than a file of this benchmark may"}, b""
    return {"read": len(form), "field": reading.fields_read[:_MOST_SENT]}, form


def main(work: Callable[[Mapping[str, Any], bytes], tuple[dict[str, Any], bytes]]) -> None:
    """Do the job of standard input by a function: `read`, or `prepared.measure`."""
    job = json.loads(sys.stdin.buffer.readline())
    limit(job.pop("seconds"), job.pop("memory_bytes"))
    if job["task"] != "pairs":  # all modules of the job, before it is confined
        import_module("tellapart.tasks.registry")
    # The file that was sent and the published items, or the truth alone.
    readable = [Path(job["truth"])] if "truth" in job else [Path.cwd() / job["file"], Path(job["published"])]
    if lacking := confine(readable):
        _send({"unconfined": lacking})
    _send(*work(job, sys.stdin.buffer.read()))


def _send(message: Mapping[str, Any], form: bytes = b"") -> None:
    for part in (json.dumps(message).encode(), b"\n", form):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
