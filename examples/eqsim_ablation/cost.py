"""The cost of a step of the ablation with each loss, by batch size (EqSim's appendix A.5)."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from tellapart.models.torch_backend import import_torch
from tellapart.train.config import loss_options
from tellapart.train.load_start import open_dual
from tellapart.train.losses.batch import Batch
from tellapart.train.losses.loss import find_loss
from tellapart.train.rows import TrainingRows

__all__ = ["BATCHES", "costs"]

#: Pairs a step.
BATCHES = (16, 32, 64, 128)


def costs(start: str, rows: TrainingRows, losses: dict[str, dict[str, Any]], rounds: int = 5) -> list[dict[str, Any]]:
    """Time a forward pass (both towers and the loss), and forward and backward, losses in turns.

    Args:
        start: name of the model.
        rows: what is encoded; the first of them.
        losses: name -> options, with `name`.
        rounds: of which the median of the processor's time is taken.

    Returns:
        A row for each loss and batch that the rows fill: milliseconds of the loss's own forward pass (`own`), of the
        whole forward pass (`forward`), and with the backward pass (`step`).
    """
    torch = import_torch()
    encoder = open_dual(start, "cpu")
    encoder.module.train()
    pixels = [encoder.image(rows.pixels(n))["pixels"] for n in range(min(len(rows), BATCHES[-1]))]
    lines = []
    for count in (count for count in BATCHES if count <= len(pixels)):
        images = {"pixels": torch.stack(pixels[:count])}
        texts = encoder.tokens([row.caption for row in rows.rows[:count]])
        took: dict[str, list[tuple[float, float, float]]] = {name: [] for name in losses}
        for turn in range(rounds + 1):
            for name, table in losses.items():
                seconds = _once(encoder.module, images, texts, table)
                if turn:  # the first warms up
                    took[name].append(seconds)
        for name, times in took.items():
            middle = [round(1000 * median(column), 2) for column in zip(*times, strict=True)]
            lines.append({"loss": name, "batch": count} | dict(zip(("own", "forward", "step"), middle, strict=True)))
    return lines


def _once(module: Any, images: Any, texts: Any, table: dict[str, Any]) -> tuple[float, float, float]:
    """Return the processor's seconds of the loss, of the forward pass and of both passes."""
    torch = import_torch()
    loss, options = find_loss(table["name"]), loss_options(table)
    module.zero_grad(set_to_none=True)
    begin = time.process_time()
    image, text, scale, _ = module(images, texts)
    encoded = time.process_time()
    batch = Batch(image, text, scale, torch.arange(len(image)))
    total = loss(batch, options)["total"]
    forward = time.process_time()
    total.backward()
    return forward - encoded, forward - begin, time.process_time() - begin
