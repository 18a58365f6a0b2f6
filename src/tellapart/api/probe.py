"""Minimal pairs while a model trains: in transformers' Trainer, in Lightning, and in any other loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.arguments import load_pairs
from tellapart.data.arguments import as_limit
from tellapart.errors import MissingDependencyError, ModelError, RunError, quote, require
from tellapart.evaluation.evaluate import chosen
from tellapart.metrics.registry import defined_for
from tellapart.metrics.streaming import class_name, metric_class
from tellapart.models.memory.held import HeldModel, Parts, as_model, hold_module, unwrap
from tellapart.models.memory.mistakes import is_module
from tellapart.models.protocols import DualEncoder, Model
from tellapart.models.scoring.frames import average_frames, prepare_slot
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch
from tellapart.records.result import Value
from tellapart.report.frame import Frame
from tellapart.report.numbers import chance, thousands
from tellapart.report.numbers import score as write_score
from tellapart.report.tables import Row, text_row, text_table
from tellapart.tasks.registry import headline

T = TypeVar("T")

#: Methods by which a part of a LightningModule is the model.
_TOWERS = ("get_image_features", "encode_image", "encode_images")


class PairProbe:
    """Measures minimal pairs every so many steps of a training, and logs them; the training is not changed by it.

    With transformers: `Trainer(..., callbacks=[probe])`, or `probe.watch(trainer)` for the trainer's log, which its
    TensorBoard, W&B and the like get. With Lightning: `Trainer(callbacks=[probe.for_lightning()])`. In any other loop:
    `for step, batch in probe.follow(model, loader)`, which measures before the first step and after the last, too; or
    `probe.begin(model)`, `probe.step(model, step)` after each step, and `probe.end(model)`.

    The model is taken as `tellapart.model` takes it, and left as it was.

    Args:
        benchmark: minimal pairs, as `load_pairs` takes them.
        every: steps between two measurements.
        processor: transformers' processor of images and texts; the Trainer's if not given.
        preprocess: in its place, takes a PIL image to a tensor (open_clip's).
        tokenizer: with it, takes texts to a tensor of tokens.
        limit: items, spread evenly, or a share of them; None for all.
        batch_size: images or texts encoded together.
        log: takes a step and its numbers; or a SummaryWriter, a run of W&B, or the module `trackio`.
        prefix: of the numbers' names: `pairs/group_score`.
        data, images, outside_images: as of `evaluate`.

    Attributes:
        history: step -> metric -> `Value`, with interval, n and chance.

    Raises:
        TellapartError: no such pairs.

    >>> import tellapart as ta
    >>> torch = import_torch()
    >>> class Lengths(torch.nn.Module):  # as open_clip's models
    ...     def encode_image(self, images):
    ...         return images.mean(dim=(2, 3))
    ...     def encode_text(self, tokens):
    ...         return tokens.float()
    >>> def tokenize(texts):
    ...     return torch.tensor([[len(text), text.count("a"), text.count("red")] for text in texts])
    >>> def preprocess(image):
    ...     return torch.tensor(np.asarray(image) / 255).float().permute(2, 0, 1)
    >>> probe = ta.PairProbe("demo", every=10, preprocess=preprocess, tokenizer=tokenize, limit=20)
    >>> for step, batch in probe.follow(Lengths(), range(25)):
    ...     pass  # train on the batch
    >>> list(probe.history), probe.history[25]["group_score"].n
    ([0, 10, 20, 25], 20)
    """

    def __new__(cls, *_args: Any, **_options: Any) -> PairProbe:
        """Return a probe that is a `TrainerCallback` as well, if transformers is imported."""
        import_torch()
        callback = getattr(sys.modules.get("transformers"), "TrainerCallback", object)
        if callback is object or issubclass(cls, callback):
            return super().__new__(cls)
        return super().__new__(type("PairProbe", (cls, callback), {}))

    def __init__(
        self,
        benchmark: Any = "demo",
        *,
        every: int = 100,
        processor: Any = None,
        preprocess: Callable[[Any], Any] | None = None,
        tokenizer: Callable[[list[str]], Any] | None = None,
        limit: int | float | None = 200,
        batch_size: int = 32,
        log: Any = None,
        prefix: str = "pairs",
        **place: Any,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise RunError(f"PairProbe(every={quote(every)}): give a number of steps from 1 on")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RunError(f"PairProbe(batch_size={quote(batch_size)}): give a number of images or texts from 1 on")
        if (preprocess is None) != (tokenizer is None):
            raise RunError("PairProbe: preprocess and tokenizer belong together; give both, or a processor")
        pairs = load_pairs(benchmark, **place)
        self.pairs = pairs.one_truth().select(list(chosen(len(pairs), as_limit(limit))))
        self.available = len(pairs)
        self.every, self.batch_size, self.prefix = every, batch_size, prefix
        self.history: dict[int, dict[str, Value]] = {}
        self._processor, self._preprocess, self._tokenizer = processor, preprocess, tokenizer
        self._log = None if log is None else _as_log(log)
        self._trainer: Any = None
        self._writer: Any = None
        self._last = 0  # the last step that was made
        self._opened: tuple[object, Model] | None = None  # the user's model, and the same as `measure` takes it
        self._images: list[Any] | None = None  # as the model prepares them
        self._metrics = headline([metric.name for metric in defined_for(self.pairs.shape, "similarity")])

    def measure(self, model: Any) -> dict[str, Value]:
        """Measure a model as it is: the metrics of a first look, each with interval, n and chance.

        Raises:
            ModelError: it is not a model that `tellapart.model` takes.
        """
        opened = self._open_model(model)
        if isinstance(opened, DualEncoder):
            scores = self._score_vectors(opened)
        else:
            scores = score(opened, self.pairs, store=EmbeddingStore(None)).scores.values
        values = {}
        for name in self._metrics:
            metric = metric_class(class_name(name))()
            metric.update(scores, [item.cluster for item in self.pairs.items])
            values[name] = metric.compute()
        return values

    def follow(self, model: Any, batches: Iterable[T]) -> Iterator[tuple[int, T]]:
        """Yield each batch with the number of its step, from 1; measure before the first, on time, and after the last.

        After a `break`, call `end`.
        """
        self.begin(model)
        for step, batch in enumerate(batches, start=self._last + 1):
            yield step, batch
            self.step(model, step)
        self.end(model)

    def begin(self, model: Any) -> None:
        """Measure the start, before the first step."""
        if not self.history:
            self.record(model, self._last)

    def end(self, model: Any) -> None:
        """Measure the end, after the last step, unless it is measured already."""
        if self._last not in self.history:
            self.record(model, self._last)

    def step(self, model: Any, step: int) -> dict[str, float] | None:
        """Measure if it is time, and log; return the numbers, or None.

        Args:
            model: as it is after that step.
            step: steps that were made so far.
        """
        self._last = step
        return None if step % self.every else self.record(model, step)

    def record(self, model: Any, step: int) -> dict[str, float]:
        """Measure now, and log."""
        self.history[step] = self.measure(model)
        numbers = {f"{self.prefix}/{name}": value.value for name, value in self.history[step].items()}
        if self._log is not None:
            self._log(step, numbers)
        return numbers

    def table(self) -> Frame:
        """Return the measurements: a row a step and metric, fractions; it prints a row a step, in percent."""
        rows = [
            (step, name, value.value, value.low, value.high, value.n, value.ties, value.chance)
            for step, values in self.history.items()
            for name, value in values.items()
        ]
        names = ("step", "metric", "value", "low", "high", "n", "ties", "chance")
        count = len(self.pairs)
        items = thousands(count) if count == self.available else f"{thousands(count)} of {thousands(self.available)}"
        title = f"{self.pairs.name}: percent of {items} items, 95% intervals"
        lines: list[Row] = []
        for step, values in self.history.items():
            ties = max(value.ties for value in values.values())
            texts = [thousands(step), *(write_score(values[name]) for name in self._metrics), thousands(ties)]
            lines.append(text_row(texts, 0))
        if self.history:
            last = next(reversed(self.history.values()))
            lines.append(text_row(["chance", *(chance(last[name]) for name in self._metrics), ""], 0, ruled=True))
        shown = text_table("step", *self._metrics, "ties", numbers_from=0, title=title, rows=lines)
        return Frame({name: [row[k] for row in rows] for k, name in enumerate(names)}, shown=[shown])

    def watch(self, trainer: Any) -> PairProbe:
        """Join a Trainer, and log by the Trainer's log, which all its trackers get; return the probe."""
        trainer.add_callback(self)
        self._trainer = trainer
        return self

    def for_lightning(self) -> Any:
        """Return a callback of Lightning: `Trainer(callbacks=[probe.for_lightning()])`; its loggers get the numbers.

        The model is the LightningModule, or its first part that is one.

        Raises:
            MissingDependencyError: neither lightning nor pytorch_lightning is installed.
        """
        for name in ("lightning.pytorch", "pytorch_lightning"):
            if name.partition(".")[0] in sys.modules:
                return _lightning_callback(self, require(name, extra="train").Callback)
        raise MissingDependencyError(
            "for_lightning: import lightning.pytorch, or pytorch_lightning, and its Trainer first"
        )

    def on_train_begin(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure the start."""
        self._forget_from(state.global_step)
        self._on_step(args, state, **given)

    def on_step_end(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure if it is time."""
        if state.global_step % self.every == 0:
            self._on_step(args, state, **given)

    def on_train_end(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure the end; of weights that the Trainer loads as the best ones, under the step that made them."""
        loads_best = args.load_best_model_at_end and state.best_model_checkpoint is not None
        step = (getattr(state, "best_global_step", None) if loads_best else None) or state.global_step
        if step not in self.history:
            self._on_step(args, replace(state, global_step=step), **given)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _forget_from(self, step: int) -> None:
        """Delete the measurements at a step and after it, which an earlier training made with the same probe."""
        self.history = {before: values for before, values in self.history.items() if before < step}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # another event of a Trainer that was imported later
            return lambda *_args, **_given: None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _on_step(self, args: Any, state: Any, model: Any = None, processing_class: Any = None, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        if self._processor is None and self._preprocess is None:
            self._processor = processing_class
        numbers = self.record(model, state.global_step)
        if self._trainer is not None and self._trainer.state.global_step == state.global_step:
            self._trainer.log(numbers)
            return
        state.log_history.append({**numbers, "epoch": state.epoch, "step": state.global_step})
        if "tensorboard" in (args.report_to or ()):
            if self._writer is None:
                root = os.environ.get("TENSORBOARD_LOGGING_DIR") or Path(args.output_dir) / "runs"
                writer = require("torch.utils.tensorboard", extra="train").SummaryWriter
                self._writer = writer(str(Path(root) / "pairs"))
            _as_log(self._writer)(state.global_step, numbers)
        if "wandb" in (args.report_to or ()) and (run := getattr(sys.modules.get("wandb"), "run", None)) is not None:
            run.log({**numbers, "train/global_step": state.global_step})

    def _open_model(self, model: Any) -> Model:
        """Return a model as `score` takes it, with its present weights; its parts are looked for once."""
        if self._opened is not None and self._opened[0] is model:
            return as_model(self._opened[1])
        self._images = None  # another model may prepare them in another way
        if isinstance(model, HeldModel) or not is_module(model):
            self._opened = model, model
            return as_model(model)
        inner = unwrap(model)
        if self._preprocess is None and self._processor is None and any(hasattr(inner, name) for name in _TOWERS[:2]):
            raise ModelError(
                f"PairProbe: no function makes tensors of images and texts for a {type(inner).__name__}; give "
                "processor=, or preprocess= and tokenizer= (open_clip), or the Trainer its processing_class"
            )
        parts = Parts(model, self._processor, self._preprocess, self._tokenizer)
        of_parts = None if hasattr(inner, "encode_images") else hold_module(parts)
        opened = as_model(model) if of_parts is None else of_parts
        self._opened = model, opened
        return opened

    def _score_vectors(self, model: DualEncoder) -> NDArray[np.float32]:
        """Score every item by the vectors of distinct images and texts; images are decoded and prepared once."""
        names = list(dict.fromkeys(chain.from_iterable(item.images for item in self.pairs.items)))
        texts = list(dict.fromkeys(chain.from_iterable(item.texts for item in self.pairs.items)))
        if self._images is None:
            prepare = prepare_slot(getattr(model, "prepare_image", None))
            self._images = [prepare(self.pairs.pixels(name)) for name in names]
        images = np.concatenate([average_frames(model.encode_images, part) for part in self._cut_batches(self._images)])
        vectors = np.concatenate([model.encode_texts(part) for part in self._cut_batches(texts)])
        of_image, of_text = dict(zip(names, images, strict=True)), dict(zip(texts, vectors, strict=True))
        matrices = []
        for item in self.pairs.items:
            item_images = np.stack([of_image[name] for name in item.images])
            matrices.append(model.similarity(item_images, np.stack([of_text[text] for text in item.texts])))
        return np.stack(matrices)

    def _cut_batches(self, inputs: Sequence[T]) -> Iterator[Sequence[T]]:
        return (inputs[start : start + self.batch_size] for start in range(0, len(inputs), self.batch_size))


def _lightning_callback(probe: PairProbe, base: Any) -> Any:
    def measure(trainer: Any, module: Any, *_: Any) -> None:
        if not trainer.is_global_zero or trainer.global_step in probe.history:
            return
        parts = (module, *module.children())
        model = next((part for part in parts if any(hasattr(part, name) for name in _TOWERS)), module)
        numbers = probe.record(model, trainer.global_step)
        for logger in trainer.loggers:
            logger.log_metrics(numbers, trainer.global_step)

    def begin(trainer: Any, module: Any, *_: Any) -> None:
        probe._forget_from(trainer.global_step)
        measure(trainer, module)

    def measure_on_time(trainer: Any, module: Any, *_: Any) -> None:
        if trainer.global_step % probe.every == 0:
            measure(trainer, module)

    methods = {"on_train_start": begin, "on_train_batch_end": measure_on_time, "on_train_end": measure}
    return type("PairCallback", (base,), {name: staticmethod(method) for name, method in methods.items()})()


def _as_log(log: Any) -> Callable[[int, Mapping[str, float]], None]:
    """Return a function of a step and its numbers, of TensorBoard's writer, a run of W&B, or such a function."""
    if hasattr(log, "add_scalar"):

        def write(step: int, numbers: Mapping[str, float]) -> None:
            for name, number in numbers.items():
                log.add_scalar(name, number, step)
            log.flush()

        return write
    if callable(getattr(log, "log", None)):
        return lambda step, numbers: log.log(dict(numbers), step=step)
    if callable(log):
        return log  # type: ignore[no-any-return]
    raise RunError(
        f"PairProbe(log={quote(log)}): give a function of a step and its numbers, a SummaryWriter, a run of W&B or "
        "the module trackio"
    )
