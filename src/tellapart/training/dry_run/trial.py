"""Steps that are taken and thrown away: by the trainer's loop, in a folder that goes when they are done."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tellapart.data.pairset import PairSet
from tellapart.data.progress import NotedProgress
from tellapart.records.machine import device_peak, forget_device_peak, resident_memory
from tellapart.training.checkpoint import Weights, read_weights, weights_of
from tellapart.training.config import LogConfig, TrainConfig
from tellapart.training.data.validation import items_right, rescore
from tellapart.training.dry_run.plan import Trial
from tellapart.training.idle_terms import IDLE_STEPS, NOT_TERMS
from tellapart.training.loop import Training, train

__all__ = ["TRIED_ITEMS", "fit_seconds", "try_steps", "try_validation"]

#: Items of each set on which the evaluation is tried, and then those by which its time is measured.
TRIED_ITEMS = (8, 32)

#: Seconds after which no more items are tried.
_PATIENCE = 5.0


@dataclass
class _Watch:
    """Times a training loop by its calls: of a tracker after each step, of progress after the step's checkpoint."""

    training: Training
    progress: NotedProgress | None
    seconds: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    _begun: float = 0.0
    _logged: float = 0.0

    def run(self, config: TrainConfig) -> None:
        """Train to the end of a configuration."""
        self._begun = time.perf_counter()
        training = replace(self.training, config=config)
        training.files.trackers[:] = [self._track_numbers]
        train(training, progress=self._note_step)

    def _track_numbers(self, _step: int, numbers: Mapping[str, float]) -> None:
        self._logged = time.perf_counter()
        if "total" in numbers:
            self.seconds.append(self._logged - self._begun)
            self.numbers = numbers

    def _note_step(self, stage: str, done: int, total: int, note: str = "", /) -> None:
        if self.progress is not None:
            self.progress(stage, done, total, note)
        if done == total:
            self.written.append(time.perf_counter() - self._logged)
            self.weights = weights_of(self.training.trainable.module)
        self._begun = time.perf_counter()


def try_steps(training: Training, steps: int, seconds: float, progress: NotedProgress | None = None) -> Trial:
    """Take two steps, read their checkpoint, take the second one again from that of the first, and go on.

    Args:
        training: its validation set is measured after each of the two steps.
        steps: of the run; no more are taken, and never more than 50.
        seconds: to go on for.
        progress: called after each step.

    Raises:
        TellapartError: as `train`.
    """
    files, module, device = training.files, training.trainable.module, training.config.device
    watch = _Watch(training, progress)
    files.folder.mkdir(parents=True, exist_ok=True)
    forget_device_peak()
    watch.run(_shorten_run(training.config, 2, every=1))
    checkpoint, first = files.checkpoints / "step-00000002", watch.weights
    size = sum(path.stat().st_size for path in checkpoint.iterdir())
    read_weights(checkpoint / "weights.safetensors", module)
    same = _are_equal(first, weights_of(module))
    shutil.rmtree(checkpoint)
    watch.run(_shorten_run(training.config, 2, every=1))
    same = same and _are_equal(first, watch.weights)
    # The first step of a loop has its preparations in its time.
    kept = [1]
    more = min(steps, IDLE_STEPS, 2 + int(seconds / watch.seconds[1]))
    if more > 2:
        begun = len(watch.seconds)
        watch.run(_shorten_run(training.config, more, every=more))
        kept += range(begun + 1, len(watch.seconds))
    memory = device_peak(device)
    return Trial(
        seconds=tuple(watch.seconds[k] for k in kept),
        steps=more,
        peak_bytes=resident_memory(peak=True) if memory is None else memory,
        checkpoint_bytes=size,
        checkpoint_seconds=watch.written[0],
        same=same,
        loss={name: value for name, value in watch.numbers.items() if name not in NOT_TERMS},
    )


def _shorten_run(config: TrainConfig, steps: int, every: int) -> TrainConfig:
    validation = config.validation.model_copy(update={"every": every, "keep": 2, "patience": None})
    return config.with_steps(steps).model_copy(update={"validation": validation, "log": LogConfig()})


def _are_equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(bool((value == other[name]).all()) for name, value in one.items())


def try_validation(training: Training, pairs: PairSet, metric: str) -> float:
    """Measure a few items of the validation set, and return the seconds that all of them would take."""

    def measure_some(count: int) -> None:
        items_right(metric, rescore(training.trainable.model(), pairs.select(range(count))))

    return fit_seconds(measure_some, len(pairs))


def fit_seconds(measure_some: Callable[[int], None], items: int) -> float:
    """Call with 8 items, then with 32, and return the seconds that all items would take, on a line through both.

    If 8 took long they are not followed by 32: the seconds are in proportion to theirs.
    """
    points = [(0, 0.0)]
    for count in sorted({min(items, each) for each in TRIED_ITEMS}):
        began = time.perf_counter()
        measure_some(count)
        points.append((count, time.perf_counter() - began))
        if points[-1][1] > _PATIENCE:
            break
    (few, short), (many, long) = points[-2:]
    return long + max(0.0, long - short) / (many - few) * (items - many)
