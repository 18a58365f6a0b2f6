"""Minimal pairs while a model trains: a callback of transformers' Trainer, and a step of any other loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.api.arguments import as_limit
from tellapart.api.evaluate import load_pairs
from tellapart.api.frame import Frame
from tellapart.errors import ModelError, RunError, quote, require
from tellapart.evaluation.evaluate import chosen
from tellapart.metrics.registry import defined_for
from tellapart.metrics.streaming import class_name, metric_class
from tellapart.models.torch.backend import import_torch
from tellapart.records.result import Value
from tellapart.tasks.registry import headline

__all__ = ["PairProbe"]

#: Events of a Trainer that a probe takes, in addition to those written out below.
_EVENT = "on_"


class PairProbe:
    """Measures minimal pairs every so many steps of a training, and logs them; the training is not changed by it.

    With transformers: `Trainer(..., callbacks=[probe])`, or `probe.watch(trainer)` for the trainer's log, which its
    TensorBoard, W&B and the like get. In open_clip's loop, or any other: `probe.step(model, step)` after each step.

    Args:
        benchmark: minimal pairs, as `load_pairs` takes them.
        every: steps between two measurements; the start and the end are measured, too.
        processor: transformers' processor of images and texts; the Trainer's if not given.
        preprocess: in its place, takes a PIL image to a tensor (open_clip's).
        tokenizer: with it, takes texts to a tensor of tokens.
        limit: items, spread evenly, or a share of them; None for all.
        batch_size: images or texts encoded together.
        log: takes a step and its numbers; or a SummaryWriter, or a run of W&B.
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
    >>> for step in range(1, 21):
    ...     _ = probe.step(Lengths(), step)
    >>> list(probe.history), probe.history[20]["group_score"].n
    ([10, 20], 20)
    """

    def __new__(cls, *_args: Any, **_options: Any) -> PairProbe:
        """Make a `TrainerCallback` of it if transformers is in use."""
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
        if (preprocess is None) != (tokenizer is None):
            raise RunError("PairProbe: preprocess and tokenizer belong together; give both, or a processor")
        pairs = load_pairs(benchmark, **place)
        self.pairs = pairs.one_truth().select(list(chosen(len(pairs), as_limit(limit))))
        self.every, self.batch_size, self.prefix = every, batch_size, prefix
        self.history: dict[int, dict[str, Value]] = {}
        self._processor, self._preprocess, self._tokenizer = processor, preprocess, tokenizer
        self._log = None if log is None else _as_log(log)
        self._trainer: Any = None
        self._writer: Any = None
        self._inputs: tuple[list[Any], list[Any]] | None = None
        self._metrics = headline([metric.name for metric in defined_for(self.pairs.shape, "similarity")])

    def measure(self, model: Any) -> dict[str, Value]:
        """Measure a model as it is: the metrics of a first look, each with interval, n and chance.

        Raises:
            ModelError: it is not a dual encoder of transformers or open_clip.
        """
        images, texts = self._encode_both(model)
        of_image = {name: k for k, name in enumerate(self._image_names())}
        of_text = {text: k for k, text in enumerate(self._text_list())}
        scores = np.array(
            [
                images[[of_image[name] for name in item.images]] @ texts[[of_text[text] for text in item.texts]].T
                for item in self.pairs.items
            ]
        )
        values = {}
        for name in self._metrics:
            metric = metric_class(class_name(name))()
            metric.update(scores, [item.cluster for item in self.pairs.items])
            values[name] = metric.compute()
        return values

    def step(self, model: Any, step: int) -> dict[str, float] | None:
        """Measure if it is time, and log; return the numbers, or None.

        Args:
            model: as it is after that step.
            step: steps that were made so far.
        """
        return None if step % self.every else self.record(model, step)

    def record(self, model: Any, step: int) -> dict[str, float]:
        """Measure now, and log."""
        self.history[step] = self.measure(model)
        numbers = {f"{self.prefix}/{name}": value.value for name, value in self.history[step].items()}
        if self._log is not None:
            self._log(step, numbers)
        return numbers

    def table(self) -> Frame:
        """Return the measurements: a row a step and metric."""
        rows = [
            (step, name, value.value, value.low, value.high, value.reason, value.n, value.chance)
            for step, values in self.history.items()
            for name, value in values.items()
        ]
        names = ("step", "metric", "value", "low", "high", "reason", "n", "chance")
        return Frame({name: [row[k] for row in rows] for k, name in enumerate(names)})

    def watch(self, trainer: Any) -> PairProbe:
        """Join a Trainer, and log by the Trainer's log, which all its trackers get; return the probe."""
        trainer.add_callback(self)
        self._trainer = trainer
        return self

    def on_train_begin(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure the start."""
        self._on_step(args, state, **given)

    def on_step_end(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure if it is time."""
        if state.global_step % self.every == 0:
            self._on_step(args, state, **given)

    def on_train_end(self, args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Measure the end."""
        if state.global_step not in self.history:
            self._on_step(args, state, **given)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_EVENT):  # of a Trainer that was imported later
            return lambda *_args, **_given: None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _on_step(self, args: Any, state: Any, model: Any = None, processing_class: Any = None, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        if self._processor is None and self._preprocess is None:
            self._processor = processing_class
        numbers = self.record(model, state.global_step)
        if self._trainer is not None:
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

    def _image_names(self) -> list[str]:
        return list(dict.fromkeys(name for item in self.pairs.items for name in item.images))

    def _text_list(self) -> list[str]:
        return list(dict.fromkeys(text for item in self.pairs.items for text in item.texts))

    def _encode_both(self, model: Any) -> tuple[Any, Any]:
        """Return the vectors of all images and all texts, of length one."""
        torch = import_torch()
        model = getattr(model, "module", model)  # of a model that is trained in several processes
        if self._inputs is None:
            self._inputs = self._prepare_batches()
        images, texts = self._inputs
        towers = _find_towers(model)
        first = next(model.parameters(), None)
        device = "cpu" if first is None else first.device
        with _at_rest(model), torch.no_grad():
            vectors = [
                torch.cat([_pooled_output(tower(**_move_batch(batch, device))) for batch in batches])
                for tower, batches in zip(towers, (images, texts), strict=True)
            ]
        return tuple((each / each.norm(dim=-1, keepdim=True)).float().cpu().numpy() for each in vectors)

    def _prepare_batches(self) -> tuple[list[Any], list[Any]]:
        """Decode, prepare and tokenise once: batches of the towers' inputs."""
        from PIL import Image

        torch = import_torch()
        images = [Image.fromarray(self.pairs.pixels(name)) for name in self._image_names()]
        if self._preprocess is not None and self._tokenizer is not None:
            pixels = [
                {"images": torch.stack([self._preprocess(one) for one in part])} for part in self._cut_batches(images)
            ]
            return pixels, [{"texts": self._tokenizer(part)} for part in self._cut_batches(self._text_list())]
        if self._processor is None:
            raise ModelError(
                "PairProbe: no function makes tensors of images and texts; give processor=, or preprocess= and "
                "tokenizer= (open_clip), or the Trainer its processing_class"
            )
        options: dict[str, Any] = {"return_tensors": "pt"}
        return (
            [dict(self._processor(images=part, **options)) for part in self._cut_batches(images)],
            [
                dict(self._processor(text=part, padding=True, truncation=True, **options))
                for part in self._cut_batches(self._text_list())
            ],
        )

    def _cut_batches(self, things: list[Any]) -> Iterator[list[Any]]:
        return (things[start : start + self.batch_size] for start in range(0, len(things), self.batch_size))


def _find_towers(model: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the function that encodes images, and that for texts."""
    if hasattr(model, "get_image_features") and hasattr(model, "get_text_features"):
        return model.get_image_features, model.get_text_features
    if hasattr(model, "encode_image") and hasattr(model, "encode_text"):
        return (lambda images: model.encode_image(images)), (lambda texts: model.encode_text(texts))  # noqa: PLW0108
    raise ModelError(
        f"PairProbe cannot measure a {type(model).__name__}: it has neither get_image_features and get_text_features "
        "(transformers) nor encode_image and encode_text (open_clip)"
    )


def _pooled_output(output: Any) -> Any:
    return getattr(output, "pooler_output", output)


def _move_batch(batch: Mapping[str, Any], device: Any) -> dict[str, Any]:
    return {name: value.to(device) for name, value in batch.items()}


@contextmanager
def _at_rest(model: Any) -> Iterator[None]:
    """Switch dropout and the like off, and every part back to how it was."""
    training: Sequence[tuple[Any, bool]] = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, was in training:
            part.training = was


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
        f"PairProbe(log={quote(log)}): give a function of a step and its numbers, a SummaryWriter or a run of W&B"
    )
