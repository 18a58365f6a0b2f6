"""Compact dual encoders with gradients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tellapart.errors import require
from tellapart.models.compact.config import CONFIG, TOKENIZER, WEIGHTS
from tellapart.models.compact.dual_encoder import (
    PREFIX,
    CompactEncoder,
    CompactParts,
    open_parts,
    resize,
    scale_pixels,
)
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.training.encoders.trainable import Inputs, TrainableDual


def open_compact(name: str, device: str) -> TrainableCompact:
    """Open a compact dual encoder, `compact:FOLDER`, to train it."""
    place = runtime(ModelOptions(device=device))
    return TrainableCompact(name, open_parts(Path(name.removeprefix(PREFIX)).expanduser()), place)


class TrainableCompact(TrainableDual):
    """A compact dual encoder with gradients."""

    def __init__(self, name: str, parts: CompactParts, place: Runtime) -> None:
        self._name, self._parts, self._where = name, parts, place
        model, config, self.reader = parts.model.to(place.device), parts.config, parts
        super().__init__(
            model,
            lambda images: model.visual(scale_pixels(images["pixels"], config)),
            lambda texts: model.text(texts["ids"]),
        )

    def image(self, pixels: Pixels) -> Inputs:
        """Resize one image, to `pixels`, uint8 `(size, size, 3)`."""
        return {"pixels": import_torch().from_numpy(resize(pixels, self._parts.config))}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, to `ids`, int64 `(m, length)`: as long as the longest needs."""
        ids = import_torch().tensor([encoding.ids for encoding in self._parts.encode(self._name, texts)])
        return {"ids": ids[:, : int((ids != 0).sum(1).max())]}

    def model(self) -> CompactEncoder:
        """Return a model that measures with the weights as they are."""
        return CompactEncoder(self._name, self._parts, self._where)

    def save(self, folder: Path) -> str:
        """Write `config.json`, `tokenizer.json` and `model.safetensors`."""
        write_parts(self._parts, folder)
        return f"{PREFIX}{folder}"


def write_parts(parts: CompactParts, folder: Path) -> None:
    """Write a model's files to a new folder."""
    folder.mkdir(parents=True)
    config = parts.config.model_dump(mode="json")
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (folder / TOKENIZER).write_text(parts.tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in parts.model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, folder / WEIGHTS)
