"""A dual encoder of open_clip, trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.errors import require
from tellapart.models.openclip.dual_encoder import OpenClipEncoder
from tellapart.models.openclip.source import Source, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens
from tellapart.models.openclip.weights import Parts, assemble
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import import_torch, runtime
from tellapart.train.encoders import Inputs, unit

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["OpenClipTrained", "open_openclip"]


def open_openclip(name: str, device: str) -> OpenClipTrained:
    """Open an open_clip model to train it.

    Raises:
        UnknownNameError: no such architecture or tag.
        ModelError: its files are missing or do not fit each other, or the device is not to be had.

    >>> open_openclip("open_clip:ViT-B-23/openai", "cpu")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: open_clip has no architecture 'ViT-B-23'; did you mean 'ViT-B-32'?
    """
    options = ModelOptions(device=device)
    runtime(options)
    source = resolve(name)
    config = require("open_clip", extra="models").get_model_config(source.architecture)
    parts = assemble(source)
    parts.model.to(device)
    return OpenClipTrained(source, parts, config, device)


class OpenClipTrained:
    """An open_clip model with gradients; all of its weights are trained unless LoRA freezes them.

    Args:
        source: where it came from.
        parts: model, preprocessing and tokenizer.
        config: its architecture.
        device: where it computes.

    Attributes:
        module: the model in its wrapper.

    >>> OpenClipTrained.save.__name__
    'save'
    """

    def __init__(self, source: Source, parts: Parts, config: dict[str, Any], device: str) -> None:
        self._source, self._parts, self._config, self._device = source, parts, config, device
        *shaping, _, scale = parts.transform.transforms
        self._shape = type(parts.transform)(shaping)
        self._tokens = Tokens(parts.tokenizer)
        self._tower = TextTower(parts.model)
        parts.model.requires_grad_(True)
        self.module: nn.Module = _towers()(parts.model, self._tower, scale)

    @property
    def log_scale(self) -> Tensor:
        """CLIP's `logit_scale`."""
        scale: Tensor = self._parts.model.logit_scale
        return scale

    def image(self, pixels: Pixels) -> Inputs:
        """Resize and crop one image, to `pixels`, uint8 `(height, width, 3)`."""
        from PIL import Image

        return {"pixels": import_torch().from_numpy(np.array(self._shape(Image.fromarray(pixels))))}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, to `ids`, int64 `(m, length)`."""
        ids, _ = self._tokens.read(texts)
        return {"ids": ids[:, : max(self._tower.lengths(ids), default=ids.shape[1])]}

    def model(self) -> OpenClipEncoder:
        """Return a model that measures with the weights as they are."""
        return OpenClipEncoder(
            self._source.name, self._parts, runtime(ModelOptions(device=self._device)), config=self._config
        )

    def save(self, folder: Path) -> str:
        """Write `open_clip_config.json` and `open_clip_model.safetensors`; a tokenizer of its own comes along."""
        model = self._parts.model
        folder.mkdir(parents=True)
        config = {"model_cfg": self._config, "preprocess_cfg": dict(model.visual.preprocess_cfg)}
        (folder / "open_clip_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in model.state_dict().items()}
        require("safetensors.torch", extra="train").save_file(tensors, folder / "open_clip_model.safetensors")
        inner = getattr(self._parts.tokenizer, "tokenizer", None)
        if inner is not None:
            inner.save_pretrained(folder)
        return f"local-dir:{folder}"


@cache
def _towers() -> Any:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class Towers(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, model: Any, tower: TextTower, scale: Any) -> None:
            super().__init__()
            self.model, self._tower, self._scale = model, tower, scale

        def forward(self, images: Inputs, texts: Inputs) -> tuple[Any, Any, Any, Any]:
            pixels = images["pixels"].permute(0, 3, 1, 2).contiguous()  # (n, 3, height, width)
            image = self.model.encode_image(self._scale(pixels.to(torch.float32).div(255)))
            text = self._tower.encode(texts["ids"])
            bias = getattr(self.model, "logit_bias", None)
            return unit(image.float()), unit(text.float()), self.model.logit_scale.exp(), bias

    return Towers
