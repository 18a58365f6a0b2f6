"""Ranks that train together and end together: an error in one of them is raised in all.

All that can fail in one rank runs in `RankGroup.together`, so that no other waits for an exchange that never comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.errors import RunError, TellapartError, require
from tellapart.evaluation.distributed import read_ranks
from tellapart.training.lazy_torch import torch

if TYPE_CHECKING:
    from accelerate import Accelerator

#: How long the others wait while the first measures and writes: torchrun ends them all when one is lost.
_PATIENCE = timedelta(days=7)

Result = TypeVar("Result")


class RankGroup:
    """The processes of one run, as each of them sees the others: `of` them, and its number from 0."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.of: int = accelerator.num_processes
        self.number: int = accelerator.process_index
        self._group: Any = None
        if self.of > 1:
            # A second group: that of the gradients keeps accelerate's backend and its time limit.
            self._group = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE)

    @property
    def leads(self) -> bool:
        """Whether this is the rank that measures and writes."""
        return self.number == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block when every rank has left it; an error in one of them is raised in all."""
        if self.of == 1:
            yield
            return
        raised: Exception | None = None
        described: tuple[type[TellapartError], str] | None = None
        try:
            yield
        except TellapartError as error:
            raised, described = error, (type(error), str(error))
        except Exception as error:
            raised, text = error, str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            described = RunError, text
        failed, failures = torch.tensor([raised is not None], dtype=torch.uint8), list[Any]([None] * self.of)
        try:
            torch.distributed.all_reduce(failed, op=torch.distributed.ReduceOp.MAX, group=self._group)
            if failed.item():
                torch.distributed.all_gather_object(failures, described, group=self._group)
        except RuntimeError as lost:  # gloo's, when a connection is gone
            raise raised or RunError(
                "another rank ended, and says why itself; go on with resume=True once that is mended"
            ) from lost
        for number, failure in enumerate(failures):
            if failure is not None:
                if raised is not None and not isinstance(raised, TellapartError | OSError):
                    raise raised  # unexpected: its traceback helps
                kind, message = failure
                raise kind(message if number == 0 else f"rank {number}: {message}") from raised

    def first(self, compute: Callable[[], Result]) -> Result:
        """Return the first rank's result to every rank."""
        results: list[Any] = [None]
        with self.together():
            if self.leads:
                results = [compute()]
        if self.of > 1:
            torch.distributed.broadcast_object_list(results, src=0, group=self._group)
        result: Result = results[0]
        return result

    def leave(self) -> None:
        """End the exchange, once all is done."""
        if self._group is not None:
            torch.distributed.destroy_process_group(self._group)
            self._group = None


def open_accelerator(device: str) -> Accelerator:
    """Return accelerate's view of this process: one of several under torchrun."""
    accelerate = require("accelerate", extra="train")
    read_ranks("GROUP_RANK")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if os.environ.get(name) == "":  # accelerate reads a number in each
            del os.environ[name]
    try:
        accelerator = accelerate.Accelerator(cpu=device == "cpu", mixed_precision="no")
    except ValueError as error:
        raise RunError(
            f"accelerate keeps to the device and precision that it has ({error}); train in another process"
        ) from error
    if accelerator.device.type != device:
        raise RunError(
            f"device {device!r} is not available here; set device = {accelerator.device.type!r} in the "
            "configuration, or train where there is one"
        )
    return accelerator
