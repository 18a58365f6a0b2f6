"""The process that opens what strangers sent: limited in time, memory and files, and started anew for every file.

It is run as `python -m tellapart.board.submissions.worker`, in the folder of the file. A job comes as JSON on standard input; the
answer goes to standard output, a JSON object a line: `{"read": true}`, then `{"public": ..., "private": ...}`; or
`{"refused": why}`, or `{"failed": why}` where that is not the file's fault. A process that dies says nothing, and the queue says why.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tellapart.errors import TellapartError

__all__ = ["limit", "work"]


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process for good: CPU time, address space, no file of its own, no core dump; pages come first.

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


def work(job: dict[str, Any]) -> None:
    """Read and measure one file, and print what becomes of it.

    Args:
        job: file, truth, protocol, metrics, step.

    >>> work({"file": "gone.csv", "truth": "gone.json", "protocol": "scores", "metrics": [], "step": 0.01})
    {"failed": "the server cannot measure this benchmark now"}
    """
    from tellapart.board.submissions.measuring import measure_sent, read_sent
    from tellapart.board.submissions.prepared import read_truth

    try:
        hidden = read_truth(Path(job["truth"]))
    except TellapartError:  # its message names the server's own files
        _say({"failed": "the server cannot measure this benchmark now"})
        return
    try:
        sent = read_sent(Path(job["file"]), hidden, job["protocol"])
    except TellapartError as error:
        _say({"refused": str(error)})
        return
    except MemoryError:
        _say({"refused": f"{job['file']} takes more memory to read than a file of this benchmark may"})
        return
    _say({"read": True})
    try:
        public, private = measure_sent(sent, hidden, tuple(job["metrics"]), job["step"])
    except (TellapartError, MemoryError) as error:
        _say({"failed": str(error) or "measuring took more memory than a file may"})
        return
    _say({"public": asdict(public), "private": asdict(private)})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    limit(asked.pop("seconds"), asked.pop("memory_bytes"))
    work(asked)
