"""Worker processes as the server sees them: start one, check each of its messages, and kill it with its children.

One such process opens a stranger's file, and another measures its contents (`worker.py`). The server trusts neither:
lines have a length, messages a schema for each of the two jobs, and numbers must be of the benchmark's metrics and
step. A process that sends anything else is treated like one that died.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import IO, Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.rounding import round_to
from tellapart.errors import MetricError, plain

__all__ = ["MeasureResult", "Message", "Process", "ReadResult", "WorkerMessage"]

_LONGEST = 1 << 16  # bytes of a message
_MOST = 8  # messages
_MOST_SHOWN = 500  # characters of a refusal or of a field's name
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")


def _shorten(text: str) -> str:
    """Return a refusal or a name as it is shown: short, without characters that could reorder the text around."""
    shown = plain(text[: _MOST_SHOWN + 1])
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 1]}…"


class WorkerMessage(BaseModel):
    """A message of either process; `unconfined` lists the guards that this system lacks."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    unconfined: list[Literal["landlock", "seccomp"]] = Field(default=[], max_length=2)


class ReadResult(WorkerMessage):
    """A message of the process that reads; it has text about the file, and no scores.

    Attributes:
        read: the file is valid: a form of so many bytes follows.
        field: that predictions were read from; empty if the file's numbers have no names.
        refused: why the file is invalid.
        failed: the published items cannot be read.
    """

    read: int = Field(default=0, ge=0)
    field: Annotated[str, AfterValidator(_shorten)] = ""
    refused: Annotated[str, AfterValidator(_shorten)] = ""
    failed: bool = False


class MeasureResult(WorkerMessage):
    """A message of the process that measures: the numbers of both splits, or the step that failed."""

    failed: Literal["truth", "form", "numbers", "memory"] | None = None
    public: Split | None = None
    private: Split | None = None

    @field_validator("public", "private")
    @classmethod
    def _check_numbers(cls, split: Split, info: ValidationInfo) -> Split:
        """Accept only the job's metrics, rounded: more digits than the step has could hold labels."""
        job = cast(Mapping[str, Any], info.context)
        try:
            rounded = {name: round_to(value, job["step"]) for name, value in split.values.items()}
        except MetricError as error:
            raise ValueError(str(error)) from error
        if rounded != dict(split.values) or set(rounded) != set(job["metrics"]):
            raise ValueError("these are not the numbers that were asked for")
        return split


Message = TypeVar("Message", bound=WorkerMessage)


class Process:
    """A process that reads one file, or measures one form.

    Args:
        job: as `worker.read` or `worker.measure` takes it, with its limits.
        folder: its working folder.
        patience: seconds after which it is killed.
        form: to be measured.
    """

    def __init__(self, job: Mapping[str, Any], folder: Path, patience: float, form: bytes = b"") -> None:
        self.job, self.form = job, form
        # Of the server's environment only what Python needs: no database address, no token.
        own = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tellapart.board.submissions.worker"],
            cwd=folder,
            env={**own, **one, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # its process group, which is killed as one
        )
        # The process limits its CPU time; this ends one that only waits.
        self._timer = Timer(patience, self.kill)
        self._timer.daemon = True

    def messages(self, kind: type[Message]) -> Iterator[Message]:
        """Yield the process's messages until the last, or the first invalid one; then the process is killed.

        Args:
            kind: of messages that the job sends.
        """
        stdin, stdout = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
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
        return cast(IO[bytes], self._process.stdout).read(size) if size <= self.job["form_bytes"] else b""

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process.returncode is None:  # else the number may be another process's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
