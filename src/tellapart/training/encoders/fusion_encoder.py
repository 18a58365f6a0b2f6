"""Fusion encoders with gradients: BLIP and ViLT of transformers, METER and FIBER in their authors' files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.find import declared_prefix
from tellapart.models.fusion.family import Contrast, Halves, Tensors, pad_tokens
from tellapart.models.fusion.load import find_family, prepare_pixels
from tellapart.models.fusion.prefix import FusionPrefix, TrainableParts
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart.models.huggingface.files import load_processor, quiet, read_config
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.training.encoders.trainable import Inputs, unit

if TYPE_CHECKING:
    from torch import Tensor, nn


def open_fusion(
    name: str,
    device: str,
    reading: str | None = None,
    *,
    contrast: bool = True,
    image_size: int | None = None,
    also: Sequence[str] = (),
) -> TrainableFusion:
    """Open a fusion encoder to train its matching head and all below it."""
    place = runtime(ModelOptions(device=device))
    prefix = declared_prefix(name)
    if isinstance(prefix, FusionPrefix) and prefix.open_trainable is not None:
        readings = (reading or "itm", *also)
        parts = prefix.open_trainable(name, place, readings, image_size)
        trainable = TrainableFusion(parts, place, parts.read, readings)
        _freeze_unread(trainable, place.device, contrast=contrast)
        return trainable
    if also:
        raise ModelError(
            f"{name}: has one matching head, and a loss names another, {also[0]!r}; leave out `reading` of that loss"
        )
    if image_size is not None:
        raise ModelError(f"{name}: image_size is for models in their authors' files (meter:, fiber:); leave it out")
    source = name.removeprefix("hf:")
    repository = "/" in name and not name.startswith(("open_clip:", "hf-hub:", "local-dir:", "new:", "onnx:"))
    config_type = read_config(source)["model_type"] if repository or (Path(source) / "config.json").is_file() else ""
    family = find_family(config_type)
    if family is None or family.load_trainable is None:
        raise ModelError(
            f"{name} cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text "
            "retrieval, by hub id or folder, or METER or FIBER in its authors' file; or take a loss of dual encoders "
            "(itc, negclip, eqsim, ...)"
        )
    halves, processor = family.load_trainable(source, place), load_processor(source)
    preparation = prepare_pixels(source, family, halves, processor)

    def save(folder: Path) -> str:
        folder.mkdir(parents=True)
        with quiet():
            halves.module.save_pretrained(folder)
            processor.save_pretrained(folder)
        return f"hf:{folder}"

    trainable = TrainableFusion(TrainableParts(source, halves, preparation, family.contrast, save), place, reading)
    if family.contrast is not None and not contrast:
        for head in family.contrast.heads:
            halves.module.get_submodule(head).requires_grad_(False)
    return trainable


def _freeze_unread(trainable: TrainableFusion, device: str, *, contrast: bool) -> None:
    """Freeze heads of other readings and all else that no gradient comes to: several ranks would wait for it."""
    torch, module = import_torch(), trainable.module
    image = {name: tensor.to(device) for name, tensor in trainable.image(np.zeros((8, 8, 3), np.uint8)).items()}
    tokens = {name: tensor.to(device) for name, tensor in trainable.tokens(["a"]).items()}

    def compute(fusion: Any) -> Any:
        images, texts = fusion.images([image]), fusion.texts(tokens)
        parts = [fusion.join(images, texts)]
        if contrast and fusion.scale is not None:
            vectors = fusion.vectors(images, texts)
            parts += [*vectors, torch.as_tensor(fusion.scale)]
        return sum(part.sum() for part in parts)

    module(compute).backward()
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


class TrainableFusion:
    """A fusion encoder with gradients.

    Attributes:
        module: the model in its wrapper; called with a function, it calls that with itself: one forward of a full
            step. Its `heads` are the readings of the columns that `join` returns.
    """

    def __init__(self, parts: TrainableParts, place: Runtime, reading: str | None, heads: tuple[str, ...] = ()) -> None:
        self._parts, self._where, self._reading = parts, place, reading or "itm"
        parts.halves.module.requires_grad_(True)
        self.module: nn.Module = _matcher_class()(parts.halves, parts.contrast, parts.others)
        cast("Any", self.module).heads = heads or (self._reading,)
        self.reader = parts.preparation.texts

    @property
    def log_scale(self) -> Tensor | None:
        """The contrastive scale's logarithm, if it is trained; the library's models hold none that is saved."""
        contrast, module = self._parts.contrast, self._parts.halves.module
        scale = None if contrast is None else contrast.log_scale(module)
        return None if scale is None or isinstance(scale, int | float) or not scale.requires_grad else scale

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as the model's processor does."""
        torch = import_torch()
        return {key: torch.as_tensor(value) for key, value in self._parts.preparation.images(pixels).items()}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts to `input_ids` and `attention_mask`, int64 `(m, length)`, as long as the longest needs."""
        lengths, _ = self.reader.lengths(texts)
        tokens = self.reader.tokens(texts, max(lengths))
        return {name: tokens[name] for name in ("input_ids", "attention_mask")}

    def model(self) -> FusionScorer:
        """Return a model that measures with the weights as they are; it shares them."""
        parts = self._parts
        return FusionScorer(
            TorchFusionEncoder(parts.name, parts.halves, parts.preparation, self._where, reading=self._reading)
        )

    def save(self, folder: Path) -> str:
        """Write the model's new folder: configuration, safetensors, processor or tokenizer."""
        return self._parts.save(folder)


@cache
def _matcher_class() -> type[nn.Module]:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class Matcher(torch.nn.Module):  # type: ignore[name-defined,misc]
        """`model` is the library's or the authors'."""

        def __init__(self, halves: Halves, contrast: Contrast | None, others: Sequence[Halves]) -> None:
            super().__init__()
            self.model, self._halves, self._contrast = halves.module, halves, contrast
            self._others = tuple(others)

        @property
        def scale(self) -> Tensor | float | None:
            """The scale of cosines, a parameter's or a number; None without a contrast."""
            if self._contrast is None:
                return None
            # BLIP learnt a temperature, which transformers' checkpoints lack; its configuration holds that one's first
            # value.
            logarithm = self._contrast.log_scale(self.model)
            scale: Tensor | float = logarithm.exp() if isinstance(logarithm, torch.Tensor) else math.exp(logarithm)
            return scale

        def forward(self, compute: Callable[[Any], Any]) -> Any:
            return compute(self)

        def images(self, inputs: Sequence[Inputs]) -> Tensors:
            """States `(n, length, ...)` of prepared images; those of one shape together, padded to the longest."""
            groups: dict[Any, list[int]] = {}
            for number, sample in enumerate(inputs):
                groups.setdefault(sample["pixel_values"].shape, []).append(number)
            states = [
                self._halves.images(**{name: torch.stack([inputs[n][name] for n in numbers]) for name in inputs[0]})
                for numbers in groups.values()
            ]
            length = max(group[0].shape[1] for group in states)
            order = torch.tensor([n for numbers in groups.values() for n in numbers]).argsort()
            columns = zip(*[[pad_tokens(tensor, length) for tensor in group] for group in states], strict=True)
            return tuple(torch.cat(column)[order.to(column[0].device)] for column in columns)

        def texts(self, tokens: Inputs) -> Tensors:
            """States `(m, length, ...)` of tokenised texts."""
            return self._halves.texts(tokens["input_ids"], tokens["attention_mask"].bool())

        def vectors(self, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
            """Unit vectors of images and of texts, float32 `(n, d)`; all the same without a contrast."""
            if self._contrast is None:
                return (torch.ones(len(images[0]), 1, device=images[0].device),) * 2
            image, text = self._contrast.vectors(self.model, images, texts)
            return unit(image.float()), unit(text.float())

        def join(self, images: Tensors, texts: Tensors) -> Tensor:
            """The logit of a match less that of none, float32 `(n, heads)`."""
            if not self._others:
                return _of_match(self._halves, self._halves.join(images, texts))[:, None]
            pooled = self._halves.pool_states(images, texts)  # type: ignore[attr-defined]
            logits: Tensor = torch.stack(
                [_of_match(halves, halves.match_head(pooled)) for halves in (self._halves, *self._others)],  # type: ignore[attr-defined]
                dim=1,
            )
            return logits

    return Matcher


def _of_match(halves: Halves, logits: Tensor) -> Tensor:
    logits, match = logits.float(), halves.match
    return logits[:, 0] if match is None else logits[:, match] - logits[:, 1 - match]
