"""Dual encoders of transformers with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tellapart.errors import ModelError
from tellapart.models.caption_rules import caption_rule
from tellapart.models.huggingface.dual_encoder import HuggingFaceDual
from tellapart.models.huggingface.files import load_processor, load_weights, quiet, read_config
from tellapart.models.huggingface.images import check_images, image_inputs
from tellapart.models.huggingface.tokens import TokenReader
from tellapart.models.huggingface.towers import Towers, context_length, find_towers, is_siglip, pool_at_end
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.training.encoders.trainable import Inputs, TrainableDual

#: Architectures whose checkpoint holds a scale that is the exponential of `logit_scale`.
_SCALED = ("CLIPModel", "MetaClip2Model", "SiglipModel", "Siglip2Model", "AltCLIPModel", "ChineseCLIPModel")


def open_huggingface(source: str, device: str) -> TrainableHuggingFace:
    """Open a CLIP-like model of transformers to train it."""
    place = runtime(ModelOptions(device=device))
    architecture = next(iter(read_config(source).get("architectures") or ()), "")
    if architecture not in _SCALED:
        raise ModelError(
            f"{source}: {architecture or 'a model without an architecture'} cannot be trained by a contrastive loss "
            f"here; take one of {', '.join(_SCALED)}"
        )
    towers = cast("Towers", find_towers(architecture))
    return TrainableHuggingFace(
        source, load_weights(architecture, source, place, unused=towers.unused), load_processor(source), towers, place
    )


class TrainableHuggingFace(TrainableDual):
    """A CLIP-like model of transformers with gradients."""

    def __init__(self, name: str, model: Any, processor: Any, towers: Towers, place: Runtime) -> None:
        self._name, self._processor, self._towers, self._where = name, processor, towers, place
        self._image_inputs = image_inputs(name, processor.image_processor)
        check_images(name, model.config, self._image_inputs)
        pool_at_end(name, model, processor.tokenizer)
        length = context_length(name, model.config, processor.tokenizer, towers)
        _, clean = caption_rule(is_siglip(towers), processor.tokenizer)
        self.reader = TokenReader(processor.tokenizer, length, whole=towers.whole, clean=clean)
        super().__init__(model, lambda images: towers.image(model, images), lambda texts: towers.text(model, texts))

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image as the model's processor does."""
        torch = import_torch()
        return {key: torch.as_tensor(value) for key, value in self._image_inputs(pixels).items()}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, as the tokenizer names its tensors."""
        lengths, _ = self.reader.lengths(texts)
        return self.reader.tokens(texts, max(lengths))

    def model(self) -> HuggingFaceDual:
        """Return a model that measures with the weights as they are."""
        return HuggingFaceDual(self._name, self._model, self._processor, self._towers, self._where)

    def save(self, folder: Path) -> str:
        """Write the folder of a model of transformers: configuration, safetensors, processor."""
        folder.mkdir(parents=True)
        with quiet():
            self._model.save_pretrained(folder)
            self._processor.save_pretrained(folder)
        return f"hf:{folder}"
