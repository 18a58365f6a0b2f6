"""Fusion encoders as they are trained: BLIP and ViLT with their matching heads, gradients, and a folder to write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError
from tellapart.models.fusion import vilt as fusion_vilt
from tellapart.models.fusion.blip import Blip
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import Halves, Preparation, Tensors, TorchFusionEncoder, padded
from tellapart.models.huggingface.files import load_processor, load_weights, processor_facts, quiet, read_config
from tellapart.models.huggingface.images import check_images, image_inputs
from tellapart.models.huggingface.tokens import TokenReader
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import Runtime, import_torch, runtime
from tellapart.train.encoders import Inputs, unit

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FusionTrained", "open_fusion"]

#: Takes the library's model, image states and text states to unnormalised vectors of both.
Towers = Callable[[Any, Tensors, Tensors], tuple[Any, Any]]


def open_fusion(name: str, device: str, reading: str | None = None, *, contrast: bool = True) -> FusionTrained:
    """Open a fusion encoder of transformers to train its matching head and all below it.

    Args:
        name: a folder or a hub id; `hf:` may stand before it.
        device: `cpu`, `cuda` or `mps`.
        reading: of the head where the model is validated, `itm` (if None) or `itm_logit`.
        contrast: train the projections to unimodal vectors, too; else they stay as they are.

    Raises:
        ModelError: it is neither BLIP nor ViLT with a matching head, or its files are not what they must be.
        MissingDependencyError: torch or transformers is not installed.

    >>> open_fusion("demo-encoder", "cpu")
    Traceback (most recent call last):
    tellapart.errors.ModelError: demo-encoder cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text retrieval, by hub id or folder; or take a loss of dual encoders (itc, negclip, eqsim, ...)
    """
    source, where = name.removeprefix("hf:"), runtime(ModelOptions(device=device))
    found = "/" in name and not name.startswith(("open_clip:", "hf-hub:", "local-dir:", "new:", "onnx:"))
    family = read_config(source)["model_type"] if found or (Path(source) / "config.json").is_file() else ""
    towers: Towers | None = None
    if family == "vilt":
        halves: Halves = fusion_vilt.load(source, where)
    elif family == "blip":
        # With its projections, which a matching head alone does not read: negatives are chosen by them.
        halves, towers = Blip(load_weights("BlipForImageTextRetrieval", source, where)), _blip_vectors
    else:
        raise ModelError(
            f"{name} cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text retrieval, by "
            "hub id or folder; or take a loss of dual encoders (itc, negclip, eqsim, ...)"
        )
    trained = FusionTrained(source, halves, towers, load_processor(source), where, reading or "itm")
    if towers is not None and not contrast:
        halves.module.vision_proj.requires_grad_(False)
        halves.module.text_proj.requires_grad_(False)
    return trained


class FusionTrained:
    """A fusion encoder with gradients.

    Args:
        name: of its source.
        halves: its architecture.
        towers: makes the vectors of contrast; None of a model without unimodal towers.
        processor: its tokenizer and image processor.
        where: device and dtype.
        reading: of the head in `model()`.

    Attributes:
        module: the model in its wrapper; called with a function, it calls that with itself: one forward of a whole step.

    Raises:
        ModelError: the image processor is not the model's.

    >>> FusionTrained.save.__name__
    'save'
    """

    #: The library's models hold no contrastive scale that could be trained and saved.
    log_scale = None

    def __init__(
        self, name: str, halves: Halves, towers: Towers | None, processor: Any, where: Runtime, reading: str
    ) -> None:
        self._name, self._halves, self._processor, self._where = name, halves, processor, where
        self._reading = reading
        images = image_inputs(name, processor.image_processor)
        if towers is not None:  # ViLT takes any shape
            check_images(name, halves.module.config, images)
        self._preparation = Preparation(images, processor.tokenizer, processor_facts(processor))
        self._texts = TokenReader(processor.tokenizer, min(halves.context, int(processor.tokenizer.model_max_length)))
        halves.module.requires_grad_(True)
        self.module: nn.Module = _matcher()(halves, towers)

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as the model's own processor does."""
        torch = import_torch()
        return {key: torch.as_tensor(value) for key, value in self._preparation.images(pixels).items()}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts to `input_ids` and `attention_mask`, int64 `(m, length)`, as long as the longest needs."""
        lengths, _ = self._texts.lengths(texts)
        made = self._texts.tokens(texts, max(lengths))
        return {name: made[name] for name in ("input_ids", "attention_mask")}

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


def _blip_vectors(model: Any, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
    (patches,), (ids, mask) = images, texts
    words = model.text_encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return model.vision_proj(patches[:, 0]), model.text_proj(words[:, 0])


@cache
def _matcher() -> Any:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class Matcher(torch.nn.Module):  # type: ignore[name-defined,misc]
        """`model` is the library's; `scale` multiplies cosines, None where there are no towers."""

        def __init__(self, halves: Halves, towers: Towers | None) -> None:
            super().__init__()
            self.model, self._halves, self._towers = halves.module, halves, towers
            # BLIP learnt a temperature, which transformers' checkpoints lack; its configuration holds where that began.
            self.scale = None if towers is None else math.exp(halves.module.config.logit_scale_init_value)

        def forward(self, compute: Callable[[Any], Any]) -> Any:
            return compute(self)

        def images(self, inputs: Sequence[Inputs]) -> Tensors:
            """States `(n, length, ...)` of prepared images; those of one shape together, padded to the longest."""
            groups: dict[Any, list[int]] = {}
            for number, one in enumerate(inputs):
                groups.setdefault(one["pixel_values"].shape, []).append(number)
            made = [
                self._halves.images(**{name: torch.stack([inputs[n][name] for n in numbers]) for name in inputs[0]})
                for numbers in groups.values()
            ]
            length = max(states[0].shape[1] for states in made)
            order = torch.tensor([n for numbers in groups.values() for n in numbers]).argsort()
            columns = zip(*[[padded(tensor, length) for tensor in states] for states in made], strict=True)
            return tuple(torch.cat(column)[order.to(column[0].device)] for column in columns)

        def texts(self, tokens: Inputs) -> Tensors:
            """States `(m, length, ...)` of tokenised texts."""
            return self._halves.texts(tokens["input_ids"], tokens["attention_mask"].bool())

        def vectors(self, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
            """Unit vectors of images and of texts, float32 `(n, d)`; all the same where there are no towers."""
            if self._towers is None:
                return (torch.ones(len(images[0]), 1, device=images[0].device),) * 2
            image, text = self._towers(self.model, images, texts)
            return unit(image.float()), unit(text.float())

        def join(self, images: Tensors, texts: Tensors) -> Any:
            """The logit of a match less that of none, float32 `(n,)`."""
            logits, match = self._halves.join(images, texts).float(), self._halves.match
            return logits[:, 0] if match is None else logits[:, match] - logits[:, 1 - match]

    return Matcher
