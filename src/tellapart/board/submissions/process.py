"""A confined process as the server sees it: started, listened to with suspicion, and ended with all that it began.

What strangers sent is opened in one such process, and meets the truth in another (`worker.py`). Nothing that comes from
either is taken on trust: lines have a length, messages a form of their own for each of the two, and numbers the benchmark's
own metrics and step. A process that says anything else is one that died.
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
from tellapart.errors import MetricError

__all__ = ["Process", "S", "Said", "SaidOfFile", "SaidOfForm"]

_LONGEST = 1 << 16  # bytes of a message
_MOST = 8  # messages
_MOST_TOLD = 500  # characters of a refusal
_OWN = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")


def _told(text: str) -> str:
    """Return what is told of a refusal: short, and nothing in it that turns a page's or a terminal's text around."""
    told = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[: _MOST_TOLD + 1])
    return told if len(told) <= _MOST_TOLD else f"{told[: _MOST_TOLD - 1]}…"


class Said(BaseModel):
    """A message of either process.

    Attributes:
        unconfined: guards that this system does not have.

    >>> Said.model_validate_json('{"unconfined": ["landlock"]}').unconfined
    ['landlock']
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    unconfined: list[Literal["landlock", "seccomp"]] = Field(default=[], max_length=2)


class SaidOfFile(Said):
    """A message of the process that reads; it may say what it likes of its file, and nothing of numbers.

    Attributes:
        read: the file is what it should be: so many bytes of its form follow.
        refused: what is wrong with it.
        failed: what is published of the benchmark cannot be read.

    >>> SaidOfFile.model_validate_json('{"refused": "a\\\\u202eb"}').refused
    'a\\\\u202eb'
    """

    read: int = Field(default=0, ge=0)
    refused: Annotated[str, AfterValidator(_told)] = ""
    failed: bool = False


class SaidOfForm(Said):
    """A message of the process that measures: numbers, or which of a few things went wrong.

    Attributes:
        failed: at what.
        public, private: what it got.

    >>> SaidOfForm.model_validate_json('{"failed": "memory"}').failed
    'memory'
    """

    failed: Literal["truth", "form", "numbers", "memory"] | None = None
    public: Split | None = None
    private: Split | None = None

    @field_validator("public", "private")
    @classmethod
    def _may_be_told(cls, split: Split, info: ValidationInfo) -> Split:
        """Take the job's metrics alone, and rounded: more digits than the step has could hold labels."""
        job = cast(Mapping[str, Any], info.context)
        try:
            rounded = {name: round_to(value, job["step"]) for name, value in split.values.items()}
        except MetricError as error:
            raise ValueError(str(error)) from error
        if rounded != dict(split.values) or set(rounded) != set(job["metrics"]):
            raise ValueError("these are not the numbers that were asked for")
        return split


S = TypeVar("S", bound=Said)


class Process:
    """A process that reads one file, or measures what one says.

    Args:
        job: as `worker.read` or `worker.measure` takes it, with its limits.
        folder: in which it is started.
        patience: seconds after which it is killed, whatever it does.
        form: what it is to measure.

    >>> Process.__init__.__name__
    '__init__'
    """

    def __init__(self, job: Mapping[str, Any], folder: Path, patience: float, form: bytes = b"") -> None:
        self.job, self.form = job, form
        # Of the server's own environment only what Python needs: no database address, no token.
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tellapart.board.submissions.worker"],
            cwd=folder,
            env={**own, **one, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, which ends as one
        )
        # CPU time is limited by the process itself; this is for one that only waits.
        self._timer = Timer(patience, self.kill)
        self._timer.daemon = True

    def says(self, kind: type[S]) -> Iterator[S]:
        """Yield its messages, until its last one, or one that is not what it should be; it is gone then.

        Args:
            kind: of messages, by what the job is.
        """
        stdin, stdout = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        try:
            self._timer.start()
            with contextlib.suppress(BrokenPipeError), stdin:
                stdin.write(json.dumps(self.job).encode() + b"\n")
                stdin.write(self.form)
            for _ in range(_MOST):
                line = stdout.readline(_LONGEST)
                if not line.endswith(b"\n"):  # the end, in the middle of its last word perhaps; or a line without one
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
        """Return so many bytes that follow a message, or fewer if there are not; none if there may not be so many."""
        return cast(IO[bytes], self._process.stdout).read(size) if size <= self.job["form_bytes"] else b""

    def kill(self) -> None:
        """End it, and whatever it began."""
        if self._process.returncode is None:  # else the number may be another's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
