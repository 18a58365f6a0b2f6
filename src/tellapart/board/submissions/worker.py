"""The two processes that a file goes through: limited in time and memory, confined, and started anew for every file.

One opens what a stranger sent, and may open nothing else but what everybody may know of the benchmark: code that a file made it
run would find no label to tell. It hands on what the file says in a plain form (`forms.py`). The other holds the truth, and
is given that form and never the file; what it says is numbers and words that stand in this program.

It is run as `python -m tellapart.board.submissions.worker`. A job comes as a line of JSON on standard input, before the form
if there is one; the answer goes to standard output, a JSON object a line: `{"unconfined": [...]}` if this system lacks a
guard; of a file `{"read": length}` and then the form, `{"refused": why}`, or `{"failed": true}` where that is not the file's
fault; of a form `{"public": ..., "private": ...}`, or `{"failed": which}`. A process that dies says nothing, and the queue says
why.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from tellapart.errors import ScoreError, TellapartError

__all__ = ["limit", "may_open", "measure", "read"]

_MOST_SAID = 1000  # characters of a refusal: it repeats what the file says, which may be all of it
_FILES = 64  # open at once; modules are files, too


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process for good: CPU time, address space, open files, none of its own, no other process; pages come first.

    Args:
        seconds: of CPU time; a second later it is killed.
        memory_bytes: of address space.

    >>> limit.__name__  # limiting the process that runs the examples would end it
    'limit'
    """
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def may_open(job: dict[str, Any]) -> list[Path]:
    """Return the files that a job may open: its own and what is published, or the truth; never a file and the truth.

    >>> [path.name for path in may_open({"file": "sent.csv", "published": "/s/published.json", "task": "pairs"})]
    ['sent.csv', 'published.json']
    """
    return [Path(job["truth"])] if "truth" in job else [Path.cwd() / job["file"], Path(job["published"])]


def read(job: dict[str, Any]) -> None:
    """Read one file, and print what it says in the plain form, or why it is refused.

    Args:
        job: file, the name that its sender knows it by, published, task, form_bytes.

    >>> read({"file": "sent.csv", "name": "my.csv", "published": "gone.json", "task": "pairs", "form_bytes": 1000})
    {"failed": true}
    """
    from tellapart.board.submissions.forms import pack
    from tellapart.board.submissions.reading import read_published, read_sent

    try:
        records = read_published(Path(job["published"]), job["task"])
    except TellapartError:  # its message names the server's own files
        _say({"failed": True})
        return
    try:
        form = pack(read_sent(Path(job["file"]), records, job["task"]), job["task"])
        if len(form) > job["form_bytes"]:
            raise ScoreError(f"{job['name']} holds control characters without end; send predictions without them")
    except TellapartError as error:
        _say({"refused": str(error)[:_MOST_SAID].replace(job["file"], job["name"], 1)})
        return
    except MemoryError:
        _say({"refused": f"{job['name']} takes more memory to read than a file of this benchmark may"})
        return
    _say({"read": len(form)})
    sys.stdout.buffer.write(form)
    sys.stdout.buffer.flush()


def measure(job: dict[str, Any], form: bytes) -> None:
    """Measure what a file says, and print the rounded numbers; of what goes wrong, only which of a few things it is.

    Args:
        job: truth, task, metrics, step.
        form: as `read` prints it; checked again.

    >>> measure({"truth": "gone.json", "task": "pairs", "metrics": [], "step": 0.01}, b"")
    {"failed": "truth"}
    """
    from tellapart.board.submissions.forms import unpack
    from tellapart.board.submissions.measuring import measure_sent
    from tellapart.board.submissions.prepared import read_truth

    at = "truth"
    try:
        hidden = read_truth(Path(job["truth"]))
        at = "form"
        sent = unpack(form, job["task"], len(hidden.public), hidden.shape)
        at = "numbers"
        public, private = measure_sent(sent, hidden, tuple(job["metrics"]), job["step"])
    except TellapartError:  # its message may repeat labels
        _say({"failed": at})
        return
    except MemoryError:
        _say({"failed": "memory"})
        return
    _say({"public": asdict(public), "private": asdict(private)})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _load(job: dict[str, Any]) -> None:
    """Load what the job takes: what is loaded is open to it; what it reads is not."""
    modules = ["prepared", "measuring"] if "truth" in job else ["reading"]
    for name in [*modules, "forms", *(["hideable"] if job["task"] != "pairs" else [])]:
        import_module(f"tellapart.board.submissions.{name}")
    if job["task"] != "pairs":
        import_module("tellapart.tasks.registry")


if __name__ == "__main__":
    from tellapart.board.submissions.confined import confine

    asked = json.loads(sys.stdin.buffer.readline())
    limit(asked.pop("seconds"), asked.pop("memory_bytes"))
    _load(asked)
    if lacking := confine(may_open(asked)):
        _say({"unconfined": lacking})
    if "truth" in asked:
        measure(asked, sys.stdin.buffer.read())
    else:
        read(asked)
