"""Fusion encoders with gradients: BLIP and ViLT with their matching heads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Contrast, FusionFamily, Halves, Tensors, pad_tokens
from tellapart.models.fusion.load import find_family, prepare_pixels
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart.models.huggingface.files import load_processor, quiet, read_config
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import Runtime, import_torch, runtime
from tellapart.train.trainable import Inputs, unit

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TrainableFusion", "open_fusion"]


def open_fusion(name: str, device: str, reading: str | None = None, *, contrast: bool = True) -> TrainableFusion:
    """Open a fusion encoder of transformers to train its matching head and all below it.

    Args:
        name: a folder or a hub id; with or without `hf:` before it.
        device: `cpu`, `cuda` or `mps`.
        reading: of the head where the model is validated, `itm` (if None) or `itm_logit`.
        contrast: train the projections to unimodal vectors, too; else they are frozen.

    Raises:
        ModelError: it is neither BLIP nor ViLT with a matching head, or its files are not what they must be.
        MissingDependencyError: torch or transformers is not installed.
    """
    source, where = name.removeprefix("hf:"), runtime(ModelOptions(device=device))
    repository = "/" in name and not name.startswith(("open_clip:", "hf-hub:", "local-dir:", "new:", "onnx:"))
    model_type = read_config(source)["model_type"] if repository or (Path(source) / "config.json").is_file() else ""
    family = find_family(model_type)
    if family is None or family.load_trainable is None:
        raise ModelError(
            f"{name} cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text "
            "retrieval, by hub id or folder; or take a loss of dual encoders (itc, negclip, eqsim, ...)"
        )
    halves = family.load_trainable(source, where)
    trainable = TrainableFusion(source, family, halves, load_processor(source), where, reading or "itm")
    if family.contrast is not None and not contrast:
        for head in family.contrast.heads:
            halves.module.get_submodule(head).requires_grad_(False)
    return trainable


class TrainableFusion:
    """A fusion encoder with gradients.

    Args:
        name: of its source.
        family: declares its architecture.
        halves: the loaded model.
        processor: its tokenizer and image processor.
        where: device and dtype.
        reading: of the head in `model()`.

    Attributes:
        module: the model in its wrapper; called with a function, it calls that with itself: one forward of a whole
            step.

    Raises:
        ModelError: the image processor is not the model's.
    """

    #: The library's models hold no contrastive scale that could be trained and saved.
    log_scale = None

    def __init__(
        self, name: str, family: FusionFamily, halves: Halves, processor: Any, where: Runtime, reading: str
    ) -> None:
        self._name, self._halves, self._processor, self._where = name, halves, processor, where
        self._reading = reading
        self._preparation = prepare_pixels(name, family, halves, processor)
        halves.module.requires_grad_(True)
        self.module: nn.Module = _matcher()(halves, family.contrast)

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as the model's own processor does."""
        torch = import_torch()
        return {key: torch.as_tensor(value) for key, value in self._preparation.images(pixels).items()}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts to `input_ids` and `attention_mask`, int64 `(m, length)`, as long as the longest needs."""
        lengths, _ = self._preparation.texts.lengths(texts)
        tokens = self._preparation.texts.tokens(texts, max(lengths))
        return {name: tokens[name] for name in ("input_ids", "attention_mask")}

    def model(self) -> FusionScorer:
        """Return a model that measures with the weights as they are; it shares them."""
        return FusionScorer(
            TorchFusionEncoder(self._name, self._halves, self._preparation, self._where, reading=self._reading)
        )

    def save(self, folder: Path) -> str:
        """Write the folder of a model of transformers: configuration, safetensors, processor."""
        folder.mkdir(parents=True)
        with quiet():
            self._halves.module.save_pretrained(folder)
            self._processor.save_pretrained(folder)
        return f"hf:{folder}"


@cache
def _matcher() -> Any:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class Matcher(torch.nn.Module):  # type: ignore[name-defined,misc]
        """`model` is the library's; `scale` multiplies cosines, None where there is no contrast."""

        def __init__(self, halves: Halves, contrast: Contrast | None) -> None:
            super().__init__()
            self.model, self._halves, self._contrast = halves.module, halves, contrast
            # BLIP learnt a temperature, which transformers' checkpoints lack; its configuration holds where that began.
            self.scale = None if contrast is None else math.exp(halves.module.config.logit_scale_init_value)

        def forward(self, compute: Callable[[Any], Any]) -> Any:
            return compute(self)

        def images(self, inputs: Sequence[Inputs]) -> Tensors:
            """States `(n, length, ...)` of prepared images; those of one shape together, padded to the longest."""
            groups: dict[Any, list[int]] = {}
            for number, one in enumerate(inputs):
                groups.setdefault(one["pixel_values"].shape, []).append(number)
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
            """Unit vectors of images and of texts, float32 `(n, d)`; all the same where there is no contrast."""
            if self._contrast is None:
                return (torch.ones(len(images[0]), 1, device=images[0].device),) * 2
            image, text = self._contrast.vectors(self.model, images, texts)
            return unit(image.float()), unit(text.float())

        def join(self, images: Tensors, texts: Tensors) -> Any:
            """The logit of a match less that of none, float32 `(n,)`."""
            logits, match = self._halves.join(images, texts).float(), self._halves.match
            return logits[:, 0] if match is None else logits[:, match] - logits[:, 1 - match]

    return Matcher
