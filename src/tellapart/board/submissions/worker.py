"""The two processes that handle a file: limited in time and memory, confined, and new for every file.

The first opens a stranger's file, and may otherwise read only the published part of the benchmark: code that takes it
over finds no label. It passes the contents on as a form (`forms.py`). The second holds the truth, and gets that form
and never the file; its messages are numbers and words of this program.

Run it as `python -m tellapart.board.submissions.worker`. Standard input holds the job, a line of JSON, and then the
form if there is one. Standard output gets one JSON object a line: `{"unconfined": [...]}` if this system lacks a guard;
after reading `{"read": length}` and then the form, `{"refused": why}`, or `{"failed": true}` where the file is not at
fault; after measuring `{"public": ..., "private": ...}` or `{"failed": step}`. If a process dies without a message, the
queue reports it.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from tellapart.errors import ScoreError, TellapartError

__all__ = ["answer_seconds", "limit", "may_open", "measure", "read"]

_LONGEST = 1000  # characters of a refusal or a field: they repeat parts of the file, which may be long
_QUARTER, _OF_ITEMS = 0.25, 1000  # seconds, for every so many items: a few times the work
_FILES = 64  # open at once; modules are files, too


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process for good: CPU time, memory, open files and priority; it writes no file, starts no process.

    Args:
        seconds: of CPU time; a second later it is killed.
        memory_bytes: of address space.
    """
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    for none in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC):
        resource.setrlimit(none, (0, 0))


def may_open(job: dict[str, Any]) -> list[Path]:
    """Return the files that a job may open: its file and the published items, or the truth; never a file and the truth.

    >>> [path.name for path in may_open({"file": "sent.csv", "published": "/s/published.json", "task": "pairs"})]
    ['sent.csv', 'published.json']
    """
    return [Path(job["truth"])] if "truth" in job else [Path.cwd() / job["file"], Path(job["published"])]


def read(job: dict[str, Any]) -> None:
    """Read one file, and print its form, or why it is refused.

    Args:
        job: file, the name that its sender knows it by, published, task, form_bytes.
    """
    from tellapart.board.submissions.forms import pack
    from tellapart.board.submissions.reading import read_published, read_sent
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

    Args:
        job: truth, task, metrics, step.
        form: as `read` prints it; checked again.
    """
    from tellapart.board.submissions.forms import unpack
    from tellapart.board.submissions.measuring import measure_sent
    from tellapart.board.submissions.prepared import read_truth

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
    """Return after how many seconds the numbers of a file are answered.

    >>> answer_seconds(300), answer_seconds(4000)
    (0.25, 1.0)
    """
    return _QUARTER * max(1, math.ceil(items / _OF_ITEMS))


def _send_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _load_modules(job: dict[str, Any]) -> None:
    """Import the modules of the job, before it is confined."""
    modules = ["prepared", "measuring"] if "truth" in job else ["reading"]
    for name in [*modules, "forms"]:
        import_module(f"tellapart.board.submissions.{name}")
    if job["task"] != "pairs":
        import_module("tellapart.tasks.registry")


if __name__ == "__main__":
    from tellapart.board.submissions.confined import confine

    job = json.loads(sys.stdin.buffer.readline())
    limit(job.pop("seconds"), job.pop("memory_bytes"))
    _load_modules(job)
    if lacking := confine(may_open(job)):
        _send_message({"unconfined": lacking})
    if "truth" in job:
        measure(job, sys.stdin.buffer.read())
    else:
        read(job)
