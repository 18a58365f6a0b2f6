"""The training loop: steps, a log, checkpoints, and the weights that did best on the validation set.

A run is a folder. If it is killed, the next call resumes from the last checkpoint and gets the same numbers as a run
without a break.
"""

from __future__ import annotations

import math
import os
import shutil
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.atomic import sync_folder
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.progress import NotedProgress
from tellapart.data.scores import Scores, join_names
from tellapart.diagnosis.why import SHARES
from tellapart.errors import DataError, RunError, TellapartWarning, require
from tellapart.evaluation.distributed import RankGroup, read_ranks
from tellapart.metrics.matching import share_of_squares, sums_of_squares
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.intervals import share_in_clusters
from tellapart.stats.paired import better_beyond_doubt
from tellapart.training import run_files
from tellapart.training.config import LONGEST_INTERVAL, OptimiserConfig, TrainConfig
from tellapart.training.data.duplicates import Duplicates
from tellapart.training.data.pictures import ImageLoader
from tellapart.training.data.rows import BatchOrder, TrainingRows, read_image
from tellapart.training.encoders import Inputs, Trainable, count_updated
from tellapart.training.lazy_torch import torch
from tellapart.training.run_files import RunFiles, TrainingState
from tellapart.training.steps import DualStep, FusionStep, make_step


class TrainingRanks(RankGroup):
    """The ranks that train together, one or several under torchrun; accelerate exchanges their gradients."""

    def __init__(self, device: str) -> None:
        accelerate = require("accelerate", extra="train")
        read_ranks("GROUP_RANK")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            if os.environ.get(name) == "":  # accelerate would read the empty text as a number, and fail
                del os.environ[name]
        try:
            self.accelerator = accelerate.Accelerator(cpu=device == "cpu", mixed_precision="no")
        except ValueError as error:
            fault = f"accelerate keeps to the device and precision that it has ({error})"
            raise RunError(f"{fault}; train in another process") from error
        if (present := self.accelerator.device.type) != device:
            fault = f" is not available here; set device = {present!r} in the configuration, or train where it is"
            if device == "cuda" and torch.cuda.is_available():
                fault = f": this process has trained on {present!r}, which accelerate keeps; train in another"
            raise RunError(f"device {device!r}{fault}")
        number, of = self.accelerator.process_index, self.accelerator.num_processes
        advice = "go on with resume=True once that is mended"
        super().__init__(number, of, torch.distributed if of > 1 else None, advice)


def measure_moves(steps: Any, plain: Any, drawn: Any, images: Sequence[Inputs]) -> dict[str, float]:
    """Return the relative errors of loss and gradient against plain steps (eager, float32) on the same rows.

    Gradients are cleared and buffers restored, so that training begins as it would without this.
    """
    results, module = [], steps.trainable.module
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    for step in (plain, steps):
        loss = float(step.backward(drawn, images, 0)["total"])
        gradients = [weight.grad.float().flatten() for weight in module.parameters() if weight.grad is not None]
        results.append((loss, torch.cat(gradients)))
        module.zero_grad()
        for buffer, value in buffers:
            buffer.copy_(value)
    (plain_loss, plain_gradient), (loss, gradient) = results
    error = (gradient - plain_gradient).norm() / plain_gradient.norm().clamp(min=1e-30)
    return {"moved_loss": abs(loss - plain_loss) / max(abs(plain_loss), 1e-30), "moved_gradient": float(error)}


_NOTHING_LOST = "Nothing was written after the last checkpoint"

#: Threads that read and prepare a step's images.
_READERS = 2

#: Steps taken to plan a run of `optimiser.minutes`; the first is not timed, as it includes preparations.
_TIMED = 5


@dataclass(repr=False, eq=False)
class Training:
    """A training loop: its inputs, and the state that its steps share once `train` runs.

    `show` is called after each checkpoint, with the steps done and the steps in all. `seconds` gets two times for each
    step: until the weights are changed, and then for the log, the measurement and the checkpoint.
    """

    config: TrainConfig
    trainable: Trainable
    rows: TrainingRows
    files: RunFiles
    validation: PairSet | None
    ranks: TrainingRanks
    duplicates: Duplicates | None = None
    show: Callable[[int, int], None] | None = None
    seconds: list[tuple[float, float]] = field(default_factory=list)
    order: BatchOrder = field(init=False)
    total: int = field(init=False)
    interval: int = field(init=False)  # steps between two measurements
    optimiser: torch.optim.Optimizer = field(init=False)
    state: TrainingState = field(init=False)
    steps: DualStep | FusionStep = field(init=False)

    def train(self, *, limit: int | None = None, progress: NotedProgress | None = None) -> TrainingState:
        """Train, from the last checkpoint if there is one; the best weights end in rank 0's model and in `best/`."""
        config, trainable, ranks, settings = self.config, self.trainable, self.ranks, self.config.optimiser
        self.order = order = BatchOrder(self.rows, config.batch.size, config.seed, config.data.together)
        if config.batch.part % ranks.of:
            raise DataError(f"batch.size: {config.batch.part} pairs of a part cannot be shared by {ranks.of} ranks")
        if config.data.together and config.batch.part % len(self.rows.items[0]):
            rows = f"items of {len(self.rows.items[0])} rows do not fill a part of {config.batch.part} pairs"
            raise DataError(f"data.together: {rows}, which has its similarity matrix; lower batch.accumulate")
        self.total = settings.count_steps(order.steps_per_epoch, limit)
        self.interval = config.validation.interval(self.total)
        self.optimiser = make_optimiser(trainable.module, settings)
        self.state = state = self._begin_state()
        trainable.module.train()
        plain = self._make_steps()  # None if the run's steps are plain
        load, pool = ImageLoader(self.rows, trainable, config), ThreadPoolExecutor(_READERS)
        steps = range(state.step, state.step if state.stopped else self.total)
        try:
            once: dict[str, float] = {}  # numbers for the log's first line
            once |= {"lora_layers": sum(count_updated(trainable.module).values())} if config.lora else {}
            once |= {} if self.duplicates is None else self.duplicates.to_log()
            if plain is not None and 0 in steps:
                once |= measure_moves(self.steps, plain, *next(self._read_parts(load, pool, range(1))))
            parts = range(steps.start * config.batch.accumulate, steps.stop * config.batch.accumulate)
            feed = self._read_parts(load, pool, parts)
            for step in steps:
                begun = time.perf_counter()
                learning_rate = settings.learning_rate * rate(step, self.total, settings.warm_up, settings.decay)
                self.optimiser.zero_grad(set_to_none=True)
                numbers = self._accumulate_parts(feed, step)
                if step == 0 and config.lora and ranks.leads and (idle := count_updated(trainable.module, idle=True)):
                    text = f"lora: no gradient reaches {', '.join(idle)}: the loss does not read them; set lora.targets"
                    warnings.warn(text, TellapartWarning, stacklevel=2)
                numbers |= self._update_weights(learning_rate) | (once if step == 0 else {})
                state.step, updated = step + 1, time.perf_counter()
                with ranks.together():
                    if ranks.leads:
                        self._finish_step(numbers)
                        if progress is not None:
                            progress("steps", state.step, self.total, f"loss {numbers['total']:.4g}")
                self.seconds.append((updated - begun, time.perf_counter() - updated))
                measured = state.step % self.interval == 0
                if config.validation.patience and measured and ranks.first(lambda: state.stopped):
                    break
        finally:
            pool.shutdown(cancel_futures=True)
        with ranks.together():
            if ranks.leads:
                run_files.read_weights(self.files.best, trainable.module, state.best_sha256)
                trainable.module.eval()
        return state

    def _begin_state(self) -> TrainingState:
        """Load the last checkpoint, if there is one; all ranks must see the same one."""
        ranks, files = self.ranks, self.files
        checkpoint = run_files.latest_checkpoint(files.checkpoints)
        name = checkpoint and checkpoint.name
        first = ranks.first(lambda: name)
        with ranks.together():
            if name != first:
                seen = f"the last checkpoint is {name} here and {first} for rank 0"
                raise RunError(f"{files.checkpoints}: {seen}; all machines must see one folder")
            state = TrainingState(run=(run := (files.read_owner() or {}).get("fingerprint")))
            if checkpoint is not None:
                state = run_files.read_checkpoint(checkpoint, self.trainable.module, self.optimiser)
            if state.run != run:
                raise RunError(f"{checkpoint}: is of another run than {files.folder}; delete it and go on")
            if ranks.leads:
                files.cut_log(state.step)
                run_files.delete_older(files.checkpoints, self.config.validation.keep)
        return state

    def _make_steps(self) -> DualStep | FusionStep | None:
        """Make the run's steps; if they are compiled or not in float32, return plain ones to compare with."""
        config, accelerator = self.config, self.ranks.accelerator
        module = accelerator.prepare(self.trainable.module)
        wrapped = module if config.compile is None else torch.compile(module, backend=config.compile)
        self.steps = make_step(config, self.trainable, self.rows, accelerator, wrapped)
        if config.compile is None and config.precision == "float32":
            return None
        plain_config = config.model_copy(update={"precision": "float32", "compile": None})
        return make_step(plain_config, self.trainable, self.rows, accelerator, module)

    def _read_parts(self, load: ImageLoader, pool: Executor, numbers: range) -> Iterator[tuple[Any, list[Inputs]]]:
        """Yield each part's drawn inputs and images, while the pool reads the images of the next part."""
        ranks, parts = self.ranks, self.config.batch.accumulate
        begun = deque[tuple[Any, Iterator[Inputs]]]()
        for number in chain(numbers, [None]):  # None: nothing is begun after the last part
            if number is not None:
                drawn = self.steps.draw(self.order.batch(number, ranks.number, ranks.of, parts=parts), number)
                begun.append((drawn, pool.map(load, drawn.rows, drawn.joined or repeat(None), repeat(number))))
            if len(begun) == 2 or (begun and number is None):
                drawn, reading = begun.popleft()
                with ranks.together():
                    images = [*reading]
                yield drawn, images

    def _accumulate_parts(self, feed: Iterator[tuple[Any, list[Inputs]]], step: int) -> dict[str, float]:
        """Accumulate the mean gradient of a step's parts in the parameters, and return the mean of their losses."""
        count, means = self.config.batch.accumulate, dict[str, Any]()
        for part, (drawn, images) in enumerate(islice(feed, count)):
            number = step * count + part
            with nullcontext() if part == count - 1 else self.ranks.accelerator.no_sync(self.steps.module):
                losses = self.steps.backward(drawn, images, number)
            for name, value in losses.items():
                if not abs(float(value)) < float("inf"):
                    raise RunError(
                        f"the loss's part {name!r} is {float(value)} in step {step + 1}: training has diverged; lower "
                        "optimiser.learning_rate, or look at the rows of the batch: "
                        f"{self._name_rows(self.order.batch(number, parts=count))}. {_NOTHING_LOST}"
                    )
                means[name] = means.get(name, 0.0) + value / count
        for parameter in self.trainable.module.parameters() if count > 1 else ():
            if parameter.grad is not None:
                parameter.grad.div_(count)
        return {name: float(value) for name, value in means.items()}

    def _name_rows(self, numbers: list[int]) -> str:
        """Name the first few of some rows by number and image, for messages."""
        return f"rows {join_names([f'{number} ({self.rows.rows[number].image.name})' for number in numbers], limit=8)}"

    def _update_weights(self, learning_rate: float) -> dict[str, float]:
        """Take the optimiser's step, cap the scale at `max_scale`; return rate, scale and norm before clipping."""
        config = self.config
        limit = config.optimiser.clip_norm or float("inf")
        weights, on_cuda = self.trainable.module.parameters(), self.ranks.accelerator.device.type == "cuda"
        norm = float(torch.nn.utils.clip_grad_norm_(weights, limit, foreach=on_cuda))  # of those with a gradient
        if not norm < float("inf"):
            raise RunError(
                f"the gradient's norm is {norm}: training has diverged; lower optimiser.learning_rate, set clip_norm, "
                f"or train in float32 (precision is {config.precision!r}). The batch is "
                f"{self._name_rows(self.order.batch(self.state.step))}. {_NOTHING_LOST}"
            )
        for group in self.optimiser.param_groups:
            group["lr"] = group["factor"] * learning_rate
        self.optimiser.step()
        numbers, scale = {"gradient_norm": norm, "learning_rate": learning_rate}, self.trainable.log_scale()
        if scale is not None:
            with torch.no_grad():
                if config.optimiser.max_scale is not None:
                    scale.clamp_(max=float(torch.tensor(config.optimiser.max_scale).log()))
                numbers["scale"] = float(scale.exp())
        return numbers

    def _finish_step(self, numbers: dict[str, float]) -> None:
        """Log a step; after each interval of `validation.every` and after the last, validate and write a checkpoint."""
        files, state, settings = self.files, self.state, self.config.validation
        files.log(state.step, numbers)
        terms = self.config.loss_terms() if state.step == run_files.IDLE_STEPS else ()
        if terms and (idle := run_files.describe_idle(files.log_path, terms)):
            warnings.warn(idle, TellapartWarning, stacklevel=2)
        if state.step % self.interval == 0 or state.step == self.total:
            self._validate_weights()
            # On the disk before the checkpoint, whose steps are not taken again, after a power cut either.
            with files.log_path.open("rb") as log:
                os.fsync(log.fileno())
            sync_folder(files.folder)
            module = self.trainable.module
            run_files.write_checkpoint(files.checkpoints, module, self.optimiser, state, keep=settings.keep)
            if self.show is not None:
                self.show(state.step, self.total)

    def _validate_weights(self) -> None:
        """Measure the validation set, and keep the weights if they are the best so far."""
        trainable, state, pairs, settings = self.trainable, self.state, self.validation, self.config.validation
        if pairs is None:
            state.best_step = state.step  # without a validation set, the last weights are kept
        else:
            trainable.module.eval()
            metric = metric_of(settings.metric, pairs.shape)
            scores = rescore(trainable.model(), pairs)
            right = items_right(metric, scores)
            trainable.module.train()
            value, interval = float(right.mean()), share_in_clusters(right, pairs.outline.clusters)
            state.history.append((state.step, value))
            bounds = {"validation_low": interval.low, "validation_high": interval.high}
            measured = {name: end for name, end in bounds.items() if end is not None}
            numbers = {metric: value} | match_numbers(scores)
            self.files.log(state.step, {f"validation_{name}": number for name, number in numbers.items()} | measured)
            if settings.patience is not None:
                # One comparison fewer than measurements: the first has no earlier one to compare with.
                looks = max(1, math.ceil(self.total / self.interval) - 1)
                if not state.right or better_beyond_doubt(right.tolist(), state.right, pairs.outline.clusters, looks):
                    state.right, state.unmoved = right.tolist(), -1
                state.unmoved += 1
                state.stopped = state.unmoved >= settings.patience
            if state.best is None or value > state.best:
                state.best, state.best_step = value, state.step
        if state.best_step == state.step:
            best, weights = self.files.best, run_files.weights_of(trainable.module)
            state.best_sha256 = run_files.write_folder(best.parent, {best.name: weights})[best.name]


def time_steps(
    training: Training, steps: int, every: int, progress: NotedProgress | None = None
) -> tuple[list[float], float]:
    """Train to a step, and return the seconds of all steps but the first, and of the last checkpoint."""
    length, validation = {"steps": steps, "epochs": None}, {"every": every, "keep": 2, "patience": None}
    config = training.config.changed(optimiser=length, validation=validation)
    training.files.folder.mkdir(parents=True, exist_ok=True)
    timed = replace(training, config=config, show=None, seconds=[])
    timed.train(progress=progress)
    return [taken for taken, _ in timed.seconds[1:]], timed.seconds[-1][1]


def fit_steps(training: Training) -> int:
    """Return how many steps fit into `optimiser.minutes`, by a few trial steps and a measurement."""
    config, module, interval = training.config, training.trainable.module, training.config.validation.every
    if training.ranks.of > 1:
        raise DataError("optimiser.minutes is measured in one process; give steps or epochs to several")
    before, files = run_files.weights_of(module), RunFiles(training.files.folder / "tried")
    shutil.rmtree(files.folder, ignore_errors=True)  # left by a process that was killed here
    taken, measuring = time_steps(replace(training, files=files), _TIMED, every=_TIMED)
    run_files.copy_weights(before, module)
    shutil.rmtree(files.folder)
    pace, seconds = sum(taken) / len(taken), 60 * (config.optimiser.minutes or 0)
    if interval:
        return max(1, int(seconds / (pace + measuring / interval)))
    # The measurements of `ValidationConfig.interval`: one a step, ten in all, or one each LONGEST_INTERVAL steps.
    measured_each = min(10, int(seconds / (pace + measuring)))
    measured_ten_times = int((seconds - 10 * measuring) / pace)
    longest = int(seconds / (pace + measuring / LONGEST_INTERVAL))
    return max(1, min(longest, max(measured_each, measured_ten_times)))


def make_optimiser(module: torch.nn.Module, settings: OptimiserConfig) -> torch.optim.Optimizer:
    """Return AdamW; parameters of fewer than two axes (biases, norms, the scale) decay only if `decayed` is `all`."""
    parameters = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    for pattern in settings.groups:
        if not any(fnmatchcase(name, pattern) for name, _ in parameters):
            raise DataError(f"optimiser.groups: no trained weight matches {pattern!r}; {parameters[0][0]} is one")
    groups: dict[tuple[float, float], list[Any]] = {(1.0, settings.weight_decay): [], (1.0, 0.0): []}
    for name, parameter in parameters:
        factor = next((f for pattern, f in settings.groups.items() if fnmatchcase(name, pattern)), 1.0)
        decay = settings.weight_decay if parameter.ndim >= 2 or settings.decayed == "all" else 0.0
        groups.setdefault((factor, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": p, "weight_decay": decay, "factor": factor} for (factor, decay), p in groups.items() if p],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        foreach=parameters[0][1].is_cuda,  # on a CPU, one order of operations on every machine
    )


def rate(step: int, steps: int, warm_up: int, decay: str = "cosine") -> float:
    """Return the learning rate of step `step` of `steps`, as a share of the highest rate; steps count from 0.

    The rate rises linearly over the warm-up, then falls along half a cosine, or linearly. It would be 0 one step after
    the last.

    >>> [round(rate(step, 6, 2), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    >>> [rate(step, 6, 2, "linear") for step in range(7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if step < warm_up:
        return (step + 1) / warm_up
    if steps <= warm_up:
        return 1.0
    done = (step - warm_up) / (steps - warm_up)
    return 1 - done if decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))


# The set that weights are chosen by: never one that is reported.


def metric_of(metric: str | None, shape: tuple[int, int]) -> str:
    """Return the metric that chooses weights: the configured one, or the strictest that the set's shape has."""
    defined = [candidate.name for candidate in defined_for(shape) if candidate.binary]
    name = metric or ("group_score" if "group_score" in defined else defined[0])
    if name not in defined:
        fault = f"validation.metric: {name!r} is not for items of {describe(shape)}"
        raise DataError(f"{fault}; use {' or '.join(defined)}")
    return name


def left_over(rows: TrainingRows, trained: TrainingRows | None = None) -> PairSet:
    """Make a validation set of rows that are not trained on: each item's images with its captions.

    All items of a set have as many images and as many texts. So an image with false captions takes as many as the image
    with the fewest has. If items differ in their number of images, each image with false captions is an item of one.
    """
    groups = [item for item in rows.items if len(item) > 1 or rows.rows[item[0]].negatives]
    if len({*map(len, groups)}) > 1:
        groups = [(number,) for number in chain.from_iterable(groups) if rows.rows[number].negatives]
    items = []
    for numbers in groups:
        item_rows = [rows.rows[number] for number in numbers]
        texts = [*(row.caption for row in item_rows), *(item_rows[0].negatives if len(item_rows) == 1 else ())]
        images = tuple(str(row.image.resolve()).lstrip("/") for row in item_rows)
        items.append(Item(id=f"{numbers[0]}", images=images, texts=tuple(texts), cluster=item_rows[0].cluster))
    if not items:
        helps = trained is not None and any(len(item) > 1 or trained.rows[item[0]].negatives for item in trained.items)
        remedy = "lower it, or" if helps else "no item of data.train has one: write share = 1, or"
        raise DataError(
            f"data.share leaves {len(rows.items)} items and none with a false caption, so weights cannot be chosen by "
            f"them; {remedy} name a pair set in data.validation"
        )
    fewest = min(len(item.texts) for item in items)
    items = [item.model_copy(update={"texts": item.texts[: max(fewest, len(item.images))]}) for item in items]
    return PairSet("validation", tuple(items), Path("/"), read=lambda image: read_image(Path("/", image)))


def rescore(model: Model, pairs: PairSet) -> Scores:
    """Score a pair set without the store, which would keep the numbers of weights that change."""
    return score(model, pairs, store=EmbeddingStore(None)).scores


def items_right(metric: str, scores: Scores) -> NDArray[np.float64]:
    """Return a metric's outcome of each item, 0 or 1, float64 `(items,)`; a tie is 0."""
    return np.asarray(METRICS[metric].per_item(METRICS[metric].scaled(scores.values, scores.kind)), np.float64)


def match_numbers(scores: Scores) -> dict[str, float]:
    """Return the match score of square items and, unless all their scores are equal, the shares of match and priors."""
    match = METRICS["match_score"]
    if not match.defined_for(scores.values.shape[1:]):
        return {}
    values = match.scaled(scores.values, scores.kind)
    means = sums_of_squares(values).mean(axis=0)
    shares = {name: float(share_of_squares(means, part)) for part, name in enumerate(SHARES)} if means.any() else {}
    return {"match_score": float(match.per_item(values).mean()), **shares}
