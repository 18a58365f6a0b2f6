"""A compact dual encoder as a model: `compact:FOLDER`, written by `tellapart train` for one that it drew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tellapart.catalog import import_target
from tellapart.errors import ModelError, first_line, quote, require
from tellapart.models.compact.config import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    CompactConfig,
    read_compact_config,
    read_tokenizer,
)
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.dual_encoder import Inputs, TextReader, TorchDual, Towers
from tellapart.models.torch.network import Tensor

if TYPE_CHECKING:
    from tokenizers import Tokenizer


#: The prefix of such a model's name.
PREFIX = "compact:"

#: Names the way from pixels to the first layer; part of the fingerprint.
_VERSION = "compact-1"


class CompactReader(TextReader):
    """The tokenizer of a compact dual encoder, which pads every text to the context."""

    def __init__(self, name: str, tokenizer: Tokenizer, length: int) -> None:
        self.name, self.tokenizer, self.length, self.control = name, tokenizer, length, ControlTokens(tokenizer)

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return the context for each text, and whether the text exceeds it."""
        encodings = self.control.encode(self.name, texts)
        return [self.length] * len(texts), [bool(encoding.overflowing) for encoding in encodings]

    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts: `input_ids`, int64 `(n, length)`."""
        ids = [encoding.ids[:length] for encoding in self.control.encode(self.name, texts)]
        return {"input_ids": import_torch().tensor(ids)}

    def batch(self, texts: Sequence[str]) -> dict[str, Any]:
        """Tokenise texts to one batch without the places that are padding in all of them."""
        ids = self.tokens(texts, self.length)["input_ids"]
        return {"input_ids": ids[:, : int((ids != 0).sum(1).max())]}


@dataclass(frozen=True, eq=False)
class CompactParts:
    """The opened files of a folder: the configuration, the module and the tokenizer."""

    config: CompactConfig
    model: Any
    tokenizer: Tokenizer

    def save(self, folder: Path) -> str:
        """Write `config.json`, `tokenizer.json` and `model.safetensors` to a new folder; return the model's name."""
        folder.mkdir(parents=True)
        config = self.config.model_dump(mode="json")
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        (folder / TOKENIZER).write_text(self.tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        require("safetensors.torch", extra="models").save_file(tensors, folder / WEIGHTS)
        return f"{PREFIX}{folder}"


def open_parts(folder: Path) -> CompactParts:
    """Open the files of a folder."""
    from tellapart.models.compact.towers import build_encoder

    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    model = build_encoder(config, tokenizer.get_vocab_size())
    try:
        model.load_state_dict(require("safetensors.torch", extra="models").load_file(folder / WEIGHTS))
    except Exception as error:  # of safetensors, of the disk, or names and shapes that are another model's
        raise ModelError(f"{folder / WEIGHTS} does not fit {folder}: {first_line(error)}") from error
    return CompactParts(config, model.eval(), tokenizer)


def make_dual(name: str, parts: CompactParts, place: Runtime) -> TorchDual:
    """Make the encoder of a folder's parts: the row of `Towers` of this family."""
    torch, model, config = import_torch(), parts.model, parts.config
    reader = CompactReader(name, parts.tokenizer, config.context_length)
    mean, std = (torch.tensor(channels, device=place.device)[:, None, None] for channels in (config.mean, config.std))

    def prepare(pixels: Pixels) -> Inputs:
        from PIL import Image

        size = (config.image_size, config.image_size)
        return {"pixels": torch.from_numpy(np.array(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)))}

    def scale(pixels: Tensor) -> Tensor:
        values = pixels.permute(0, 3, 1, 2).to(torch.float32).div(255)  # (n, 3, size, size)
        return (values - mean) / std

    towers = Towers(
        name=name,
        module=model,
        place=place,
        image=lambda inputs: model.visual(scale(inputs["pixels"])),
        text=lambda inputs: model.text(inputs["input_ids"]),
        prepare=prepare,
        reader=reader,
        facts=(_VERSION, config.model_dump_json(), parts.tokenizer.to_str(), reader.control.facts),
        offers={"traits": {"context": f"{config.context_length} tokens", "dtype": place.dtype}},
        dimensions=config.dimensions,
        shown=lambda inputs: scale(inputs["pixels"][None].to(place.device))[0].cpu(),
        save=parts.save,
    )
    dual = TorchDual(towers)
    model.to(place.device)
    return dual


def _load_encoder(name: str, options: ModelOptions) -> TorchDual:
    options.expect_itc(name, "a compact dual encoder")
    return make_dual(name, open_parts(Path(name.removeprefix(PREFIX)).expanduser()), runtime(options))


def _convert_to_onnx(name: str, folder: Path, tokenizer: Path | None) -> int:
    if tokenizer is not None:
        raise ModelError(f"{name} has its own tokenizer; leave out tokenizer {quote(str(tokenizer))}")
    return cast("int", import_target("tellapart.models.compact.onnx_export:convert_to_onnx")(name, folder))


COMPACT = ModelPrefix(
    {"compact:PATH": "a folder that `tellapart train` wrote of a model that it drew (docs/new_model.md)"},
    _load_encoder,
    lambda name: files_below(name.removeprefix(PREFIX)),
    convert=_convert_to_onnx,
    takes=frozenset({"device", "reading"}),
    model_type="compact",
)
