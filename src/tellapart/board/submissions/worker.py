"""The two processes that handle a file (`python -m tellapart.board.submissions.worker`): limited, confined, and new.

The first opens a stranger's file, and finds no label: it may read the published part of the benchmark alone. It passes
the contents on as a form (`forms.py`) to the second, which holds the truth, and never gets the file. Standard input has
the job, a line of JSON, and then the form if there is one; standard output gets messages (`queue.py` has their fields).
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import platform
import resource
import signal
import struct
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from tellapart.errors import ScoreError, TellapartError

# Landlock (Linux 5.13) limits the files that a process may open, and a seccomp filter (x86-64, ARM) its system calls:
# for good, without root, for all code that runs in it from then on.
#
# Source: Linux's manual pages landlock(7), seccomp(2) and prctl(2); numbers are those of its headers.

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 4, 22, 38
_FILTER = 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION = 444, 445, 446, 1
_PATH_BENEATH = 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = (13, 14, 15, 15, 16)  # in Landlock's versions 1 to 5: how many bits are rights on files
_NETWORK, _SCOPES = 4, 6  # versions from which it guards TCP (bind, connect), and other processes' signals and sockets

with Path(__file__).with_name("refused_calls.toml").open("rb") as _table:
    _CALLS = tomllib.load(_table)  # machine -> call -> number
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # number in a filter
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NOT_PERMITTED, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_OTHER_NUMBERS = 0x40000000  # x86-64's second set of numbers for the same calls

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def confine(readable: Sequence[Path]) -> tuple[str, ...]:
    """Let this process read these files and Python's folders alone, and end with its parent; return lacking guards."""
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
    return bool(_libc.prctl(option, ctypes.c_ulong(value), zero if program is None else program, zero, zero) == 0)


def _system_call(number: int, *values: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *values))


def _open_only(readable: Iterable[Path]) -> bool:
    """Let only these folders and files be opened, for reading; return whether the kernel could."""
    version = _system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
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
    # Each step: operation, steps to skip if true and if false, operand.
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, name), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    refused = len(numbers) + 1
    steps.append((_AT_LEAST, refused, 0, _OTHER_NUMBERS))
    steps += [(_EQUAL, refused - k, 0, number) for k, number in enumerate(numbers, start=1)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOT_PERMITTED)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    return _set_process_control(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), code)))


_LONGEST = 1000  # characters of a refusal or a field: they repeat parts of the file, which may be long
_QUARTER, _OF_ITEMS = 0.25, 1000  # seconds, for every so many items: a few times the work
_FILES = 64  # open at once; modules are files, too


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process for good: CPU time, memory, open files and priority; it writes no file, starts no process."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    for none in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC):
        resource.setrlimit(none, (0, 0))


def read(job: dict[str, Any]) -> None:
    """Read one file, and print its form, or why it is refused."""
    from tellapart.board.submissions.forms import pack, read_published, read_sent
    from tellapart.data.prediction_field import watch_field

    try:
        records = read_published(Path(job["published"]), job["task"])
    except TellapartError:  # its message names the server's files
        _send_message({"failed": True})
        return
    try:
        with watch_field(None) as watched:
            form = pack(read_sent(Path(job["file"]), records, job["task"]), job["task"])
        if len(form) > job["form_bytes"]:
            raise ScoreError(f"{job['name']} holds control characters without end; send predictions without them")
    except TellapartError as error:
        _send_message({"refused": str(error)[:_LONGEST].replace(job["file"], job["name"], 1)})
        return
    except MemoryError:
        _send_message({"refused": f"{job['name']} takes more memory to read than a file of this benchmark may"})
        return
    _send_message({"read": len(form), "field": watched.stated[:_LONGEST]})
    sys.stdout.buffer.write(form)
    sys.stdout.buffer.flush()


def measure(job: dict[str, Any], form: bytes) -> None:
    """Measure a form, and print the rounded numbers, or only the step that failed.

    The answer comes after a time that only the number of items decides, or a multiple of it on a busy machine. The
    steps are the same whatever the labels are; the wait covers what the processor makes of them.
    """
    from tellapart.board.submissions.forms import unpack
    from tellapart.board.submissions.prepared import measure_sent, read_truth

    step, started, items = "truth", time.monotonic(), 0
    try:
        hidden = read_truth(Path(job["truth"]))
        step, items = "form", len(hidden.public)
        sent = unpack(form, job["task"], items, hidden.shape)
        step = "numbers"
        public, private = measure_sent(sent, hidden, tuple(job["metrics"]), job["step"])
    except TellapartError:  # its message may repeat labels
        answer: dict[str, Any] = {"failed": step}
    except MemoryError:
        answer = {"failed": "memory"}
    else:
        answer = {"public": asdict(public), "private": asdict(private)}
    time.sleep((started - time.monotonic()) % answer_seconds(items))
    _send_message(answer)


def answer_seconds(items: int) -> float:
    """Return after how many seconds the numbers of a file are answered."""
    return _QUARTER * max(1, math.ceil(items / _OF_ITEMS))


def _send_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do the job of standard input."""
    job = json.loads(sys.stdin.buffer.readline())
    limit(job.pop("seconds"), job.pop("memory_bytes"))
    # All modules of the job, before it is confined.
    for name in ("forms", "prepared") if "truth" in job else ("forms",):
        import_module(f"tellapart.board.submissions.{name}")
    if job["task"] != "pairs":
        import_module("tellapart.tasks.registry")
    # The file that was sent and the published items, or the truth alone.
    readable = [Path(job["truth"])] if "truth" in job else [Path.cwd() / job["file"], Path(job["published"])]
    if lacking := confine(readable):
        _send_message({"unconfined": lacking})
    if "truth" in job:
        measure(job, sys.stdin.buffer.read())
    else:
        read(job)


if __name__ == "__main__":
    main()
