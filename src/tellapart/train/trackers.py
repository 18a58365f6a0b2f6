"""TensorBoard and Weights & Biases: the log's numbers, told as they are written."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tellapart.errors import require
from tellapart.train.config import LogConfig

__all__ = ["Tell", "tracked"]

Tell = Callable[[int, Mapping[str, float]], None]
"""Called with a step and its numbers."""


@contextmanager
def tracked(config: LogConfig, folder: Path, name: str) -> Iterator[list[Tell]]:
    """Give whoever else is told of each step's numbers; what they have open is closed at the end.

    Nothing is opened before the first number, so other ranks than the first, which log nothing, open nothing.

    Args:
        config: who is told.
        folder: of the run: event files go to `tensorboard/`, what W&B keeps to `wandb/`.
        name: of the run.

    Raises:
        MissingDependencyError: tensorboard or wandb is asked for and not installed.

    >>> with tracked(LogConfig(), Path("run"), "few") as told:
    ...     told
    []
    """
    told: list[Tell] = []
    with ExitStack() as stack:
        if config.tensorboard:
            told.append(_lazy(_tensorboard(stack, folder)))
        if config.wandb is not None:
            told.append(_lazy(_wandb(stack, folder, name, config.wandb)))
        yield told


def _lazy(opened: Callable[[int], Tell]) -> Tell:
    """Open at the first number: its step is where the run begins, or goes on."""
    found: list[Tell] = []

    def tell(step: int, numbers: Mapping[str, float]) -> None:
        if not found:
            found.append(opened(step))
        found[0](step, numbers)

    return tell


def _tensorboard(stack: ExitStack, folder: Path) -> Callable[[int], Tell]:
    writer_of = require("torch.utils.tensorboard", extra="train").SummaryWriter

    def opened(first: int) -> Tell:
        # Steps that a killed run had told beyond its last checkpoint are taken again: the first telling is dropped.
        writer: Any = writer_of(str(folder / "tensorboard"), purge_step=first)
        stack.callback(writer.close)

        def tell(step: int, numbers: Mapping[str, float]) -> None:
            for key, value in numbers.items():
                writer.add_scalar(key, value, step)
            writer.flush()  # what a checkpoint has left behind is never told again

        return tell

    return opened


def _wandb(stack: ExitStack, folder: Path, name: str, project: str) -> Callable[[int], Tell]:
    wandb = require("wandb", extra="wandb")

    def opened(_first: int) -> Tell:
        # The run's own id, so that a resumed run goes on in the same place; W&B drops steps that it has.
        path = folder / "wandb-id.txt"
        if not path.exists():
            path.write_text(secrets.token_hex(8), encoding="utf-8")
        run: Any = wandb.init(project=project, name=name, dir=str(folder), id=path.read_text("utf-8"), resume="allow")
        stack.callback(run.finish)
        return lambda step, numbers: run.log(dict(numbers), step=step)

    return opened
