"""The training loop: AdamW, one cycle, an exponential average of the weights, validation on unseen scenes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tellapart.metrics.pairs import group_score, image_score, text_score
from training.batches import augment, normalise, shuffled_batches, text_batch
from training.captions import encode
from training.encoder import DualEncoder, Shape
from training.objective import Batch, Losses, pair_losses, whereabouts_loss
from training.quadruples import Quadruples

__all__ = ["Recipe", "Task", "Trained", "pair_scores", "strict_scores", "train"]


@dataclass(frozen=True)
class Recipe:
    """Settings that decide the result, beside the data and the shape of the towers.

    Attributes:
        steps: optimiser steps; the schedule is one cycle over all of them.
        batch: quadruples in a step (twice as many images).
        foils: false captions drawn for an image in a step.
        learning_rate: the cycle's peak.
        weight_decay: of AdamW; not on biases, norms, positions or the temperature.
        average: decay of the exponential average of the weights, which is exported.
        seed: of the initial weights, the batches and the augmentation.
    """

    steps: int
    batch: int = 32
    foils: int = 3
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.05
    average: float = 0.998
    seed: int = 0


@dataclass(frozen=True)
class Task:
    """Training data, validation data, tokenizer and the towers' shape."""

    data: Quadruples
    validation: Quadruples
    tokenizer: Any
    shape: Shape


@dataclass(frozen=True)
class Trained:
    """The averaged model, and the course of its training.

    Attributes:
        model: the exponential average of the weights.
        curve: for some steps: step, the losses (nats), learning rate, temperature, validation scores when taken.
        seconds: wall time of the loop.
    """

    model: DualEncoder
    curve: list[dict[str, Any]]
    seconds: float


def pair_scores(model: DualEncoder, data: Quadruples, tokenizer: Any, batch: int = 64) -> NDArray[np.float32]:
    """Return cosines of every quadruple, float32 `(n, 2 images, 2 texts)`, in evaluation mode."""
    was_training = model.training
    model.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(data), batch):
            images = data.images[start : start + batch]
            texts = [text for pair in data.texts[start : start + batch] for text in pair]
            vectors = model.image(normalise(images.reshape(-1, *images.shape[2:]))).reshape(len(images), 2, -1)
            sentences = model.text(torch.from_numpy(encode(tokenizer, texts))).reshape(len(images), 2, -1)
            parts.append((vectors @ sentences.transpose(1, 2)).numpy())
    model.train(was_training)
    return np.concatenate(parts).astype(np.float32)


def strict_scores(scores: NDArray[np.float32], aspects: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return text, image and group score by aspect, ties never right (Winoground's rule), and the number of items."""
    values = {metric.__name__: metric(scores) for metric in (text_score, image_score, group_score)}
    of = np.array(aspects)
    return {
        aspect: {name: float(value[of == aspect].mean()) for name, value in values.items()}
        | {"n": int((of == aspect).sum())}
        for aspect in sorted(set(aspects))
    }


def train(task: Task, recipe: Recipe, report: Callable[..., None]) -> Trained:
    """Train on the task's data; `report` is called with keywords now and then.

    The result depends on the seed, the data, the recipe, the number of threads and the torch build: sums of
    floats are taken in an order that the last two decide.
    """
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    model = DualEncoder(task.shape)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # twice as fast on a CPU
    average = copy.deepcopy(model)
    optimiser, schedule = _optimiser(model, recipe)
    rows = shuffled_batches(len(task.data), recipe.batch, rng)
    curve: list[dict[str, Any]] = []
    every = max(1, recipe.steps // 40)
    recent: list[Losses] = []
    start = time.perf_counter()
    for step in range(1, recipe.steps + 1):
        losses = _step(model, task.data.take(next(rows)), task.tokenizer, recipe, rng)
        optimiser.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        _blend(average, model, min(recipe.average, step / (step + 10)))
        recent.append(losses)
        if step % every == 0 or step == recipe.steps:
            entry = _entry(step, recent, schedule, model)
            if step % (4 * every) == 0 or step == recipe.steps:
                scores = pair_scores(average, task.validation, task.tokenizer)
                entry["validation"] = strict_scores(scores, task.validation.aspects)
            curve.append(entry)
            recent = []
            report(**entry, seconds=round(time.perf_counter() - start, 1))
    return Trained(average, curve, time.perf_counter() - start)


def _step(model: DualEncoder, batch: Quadruples, tokenizer: Any, recipe: Recipe, rng: np.random.Generator) -> Losses:
    flip = rng.random(len(batch)) < 0.5
    texts = text_batch(batch, flip, recipe.foils, tokenizer, rng)
    images = batch.images.reshape(-1, *batch.images.shape[2:])
    pixels, places = augment(images, batch.places.reshape(-1, 5, 3), np.repeat(flip, 2), rng)
    vectors = model.text(texts.ids)
    tokens = model.image.tokens(pixels)
    parts = Batch(model.image.pooled(tokens), vectors[texts.true], vectors[texts.foils], texts.has_foil, texts.meanings)
    contrastive, local = pair_losses(parts, model.scale())
    return Losses(contrastive, local, whereabouts_loss(model.whereabouts(tokens), places))


def _optimiser(model: DualEncoder, recipe: Recipe) -> tuple[Any, Any]:
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    free = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": free, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=recipe.steps + 1, pct_start=0.1, cycle_momentum=False
    )
    return optimiser, schedule


def _blend(average: DualEncoder, model: DualEncoder, decay: float) -> None:
    """Move the average towards the model: weights and the batch norms' running statistics alike."""
    current = model.state_dict()
    with torch.no_grad():
        for name, value in average.state_dict().items():
            fresh: Tensor = current[name]
            if value.is_floating_point():
                value.lerp_(fresh, 1.0 - decay)
            else:
                value.copy_(fresh)


def _entry(step: int, recent: list[Losses], schedule: Any, model: DualEncoder) -> dict[str, Any]:
    return {
        "step": step,
        **{field.name: round(_mean([getattr(part, field.name) for part in recent]), 4) for field in fields(Losses)},
        "learning_rate": float(schedule.get_last_lr()[0]),
        "scale": round(float(model.scale().detach()), 2),
    }


def _mean(values: list[Tensor]) -> float:
    return float(torch.stack([value.detach() for value in values]).mean())
