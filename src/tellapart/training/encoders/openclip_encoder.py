"""Dual encoders of open_clip with gradients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.errors import require
from tellapart.models.openclip.dual_encoder import OpenClipEncoder
from tellapart.models.openclip.fitting import complete_name
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.openclip.source import Source, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens
from tellapart.models.openclip.weights import Parts, assemble
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import import_torch, runtime
from tellapart.training.encoders.local_features import LocalFeatures, LocalTower
from tellapart.training.encoders.trainable import Inputs, TrainableDual

if TYPE_CHECKING:
    from torch import Tensor


def open_openclip(name: str, device: str) -> TrainableOpenClip:
    """Open an open_clip model to train it."""
    options = ModelOptions(device=device)
    runtime(options)
    name = complete_name(name)
    source = resolve(name)
    config = import_open_clip().get_model_config(source.architecture)
    parts = assemble(source)
    if parts.checkpoint is not None:
        parts.checkpoint.expect_one(name)
    parts.model.to(device)
    return TrainableOpenClip(source, parts, config, device)


class TrainableOpenClip(TrainableDual):
    """An open_clip model with gradients; all of its weights are trained unless LoRA freezes them."""

    def __init__(self, source: Source, parts: Parts, config: dict[str, Any], device: str) -> None:
        self._source, self._parts, self._config, self._device = source, parts, config, device
        *shaping, _, scale = parts.transform.transforms
        self._shape = type(parts.transform)(shaping)
        self.reader = Tokens(parts.tokenizer)
        self._tower = TextTower(parts.model)

        def encode_images(images: Inputs) -> Tensor:
            pixels = images["pixels"].permute(0, 3, 1, 2).contiguous()  # (n, 3, height, width)
            features: Tensor = parts.model.encode_image(scale(pixels.float().div(255)))
            return features

        super().__init__(parts.model, encode_images, lambda texts: self._tower.encode(texts["ids"]))

    def image(self, pixels: Pixels) -> Inputs:
        """Resize and crop one image, to `pixels`, uint8 `(height, width, 3)`."""
        from PIL import Image

        return {"pixels": import_torch().from_numpy(np.array(self._shape(Image.fromarray(pixels))))}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, to `ids`, int64 `(m, length)`."""
        ids, _ = self.reader.read(texts)
        return {"ids": ids[:, : max(self._tower.lengths(ids), default=ids.shape[1])]}

    def _local_features(self) -> LocalFeatures | None:
        """Find the last norms and projections of a ViT that pools by its first token, and of a causal text tower."""
        vision = self._parts.model.visual
        if not self._tower.shortens or getattr(vision, "pool_type", None) != "tok":
            return None
        if vision.attn_pool is not None:
            return None

        def project(states: Tensor) -> Tensor:
            matrix = vision.proj
            return states if matrix is None else states @ matrix

        images = LocalTower(vision.ln_post, project)
        return LocalFeatures(images, LocalTower(self._tower.last_norm, self._tower.project), self._tower.words)

    def model(self) -> OpenClipEncoder:
        """Return a model that measures with the weights as they are."""
        return OpenClipEncoder(
            self._source.name, self._parts, runtime(ModelOptions(device=self._device)), config=self._config
        )

    def save(self, folder: Path) -> str:
        """Write `open_clip_config.json` and `open_clip_model.safetensors`; its tokenizer, too, if it has one."""
        model = self._parts.model
        folder.mkdir(parents=True)
        config = {"model_cfg": self._config, "preprocess_cfg": dict(import_open_clip().get_model_preprocess_cfg(model))}
        (folder / "open_clip_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in model.state_dict().items()}
        require("safetensors.torch", extra="train").save_file(tensors, folder / "open_clip_model.safetensors")
        inner = getattr(self._parts.tokenizer, "tokenizer", None)
        if inner is not None:
            inner.save_pretrained(folder)
        return f"local-dir:{folder}"
