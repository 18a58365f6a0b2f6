"""How far bfloat16 and `torch.compile` move a step from plain float32, measured on a run's first part."""

from __future__ import annotations

from collections.abc import Sequence

from tellapart.models.torch.backend import import_torch
from tellapart.training.encoders.trainable import Inputs
from tellapart.training.steps.step import Drawn, TrainingStep

__all__ = ["measure_moves"]


def measure_moves(
    steps: TrainingStep[Drawn], plain: TrainingStep[Drawn], drawn: Drawn, images: Sequence[Inputs]
) -> dict[str, float]:
    """Return how far a step differs from a plain one on the same rows: `moved_loss` and `moved_gradient`, both
    relative.

    The gradient's is the length of the difference over the plain one's. No gradient is left behind, and buffers (the
    running means of batch normalisation) are as they were.

    Args:
        steps: as the run takes them.
        plain: the same in float32, not compiled.
        drawn: the return value of `TrainingStep.draw`.
        images: of its rows.
    """
    torch = import_torch()
    found = []
    buffers = [(buffer, buffer.clone()) for buffer in steps.trainable.module.buffers()]
    for one in (plain, steps):
        loss = float(one.backward(drawn, images, 0)["total"])
        gradients = []
        for parameter in one.trainable.module.parameters():
            if parameter.grad is not None:
                gradients.append(parameter.grad.float().flatten())
                parameter.grad = None
        found.append((loss, torch.cat(gradients)))
        for buffer, value in buffers:
            buffer.copy_(value)
    (loss, gradient), (other, moved) = found
    return {
        "moved_loss": abs(other - loss) / max(abs(loss), 1e-30),
        "moved_gradient": float((moved - gradient).norm() / gradient.norm().clamp(min=1e-30)),
    }
