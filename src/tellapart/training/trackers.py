"""TensorBoard and Weights & Biases: the log's numbers, passed on as they are written."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tellapart.errors import require
from tellapart.training.config import LogConfig

#: Called with a step and its numbers.
Tracker = Callable[[int, Mapping[str, float]], None]


@contextmanager
def open_trackers(config: LogConfig, folder: Path, name: str) -> Iterator[list[Tracker]]:
    """Give a callable for each tracker of the configuration, which writes below the run's folder; close all at the end.

    Nothing is opened before the first number, so other ranks than the first, which log nothing, open nothing.
    """
    trackers, opened = list[Tracker](), dict[str, Any]()
    with ExitStack() as stack:
        if config.tensorboard:
            writer_class = require("torch.utils.tensorboard", extra="train").SummaryWriter

            def track_tensorboard(step: int, numbers: Mapping[str, float]) -> None:
                if "tensorboard" not in opened:
                    # A killed run may have written steps beyond its last checkpoint, which are taken again.
                    opened["tensorboard"] = writer_class(str(folder / "tensorboard"), purge_step=step)
                    stack.callback(opened["tensorboard"].close)
                for key, value in numbers.items():
                    opened["tensorboard"].add_scalar(key, value, step)
                opened["tensorboard"].flush()  # steps before a checkpoint are never written again

            trackers.append(track_tensorboard)
        if config.wandb is not None:
            wandb = require("wandb", extra="wandb")

            def track_wandb(step: int, numbers: Mapping[str, float]) -> None:
                if "wandb" not in opened:
                    # The run's id, so that a resumed run goes on in the same place; W&B drops steps that it has.
                    path = folder / "wandb-id.txt"
                    if not path.exists():
                        path.write_text(secrets.token_hex(8), encoding="utf-8")
                    same = {"id": path.read_text("utf-8"), "resume": "allow"}
                    opened["wandb"] = wandb.init(project=config.wandb, name=name, dir=str(folder), **same)
                    stack.callback(opened["wandb"].finish)
                opened["wandb"].log(dict(numbers), step=step)

            trackers.append(track_wandb)
        yield trackers
