"""A compact dual encoder, `compact:FOLDER`: `config.json`, `tokenizer.json` and `model.safetensors`.

`tellapart train` writes it for a model that it drew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.catalog import import_target
from tellapart.data.rows import read_object
from tellapart.data.strict_json import read_whole
from tellapart.data.validation import validate
from tellapart.errors import DataError, ModelError, explain_failure, quote, require
from tellapart.models.captions import ControlTokens
from tellapart.models.onnx.dual_encoder import Channels, open_tokenizer
from tellapart.models.options import ModelOptions, ModelPrefix, files_below
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.dual_encoder import Pictures, TextReader, TorchDual, Towers

if TYPE_CHECKING:
    from tokenizers import Tokenizer


PREFIX = "compact:"
CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"

#: The tokenizer's padding token; its id is 0.
PAD = "[PAD]"

#: Names the way from pixels to the first layer; part of the fingerprint.
_VERSION = "compact-1"

_Whole = Annotated[int, Field(ge=1, le=4096)]


class CompactConfig(BaseModel):
    """The sizes of both towers, and the size and normalisation of images."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model_type: Literal["compact"]
    #: Height and width of the input in pixels, to which pictures are stretched.
    image_size: int = Field(default=112, ge=32, le=1024, multiple_of=16)
    mean: Channels = (0.5, 0.5, 0.5)  # R, G and B, in units of 0..1; subtracted
    std: Channels = (0.25, 0.25, 0.25)  # divided by
    #: Of the feature maps at strides 2, 4, 8 and 16.
    channels: Annotated[tuple[_Whole, _Whole, _Whole, _Whole], Field(strict=False)] = (24, 48, 96, 160)
    image_layers: int = Field(default=2, ge=0, le=64)  # of the transformer over the last feature map's positions
    queries: _Whole = 4  # of the attention that pools the last feature map
    text_width: _Whole = 128  # channels of the text transformer
    text_layers: int = Field(default=2, ge=0, le=64)
    context_length: _Whole = 32  # tokens in a text, padding included
    heads: _Whole = 4  # of the attention in both towers
    dimensions: _Whole = 192  # of the vectors of images and texts

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        for name, width in (("channels", self.channels[-1]), ("text_width", self.text_width)):
            if width % self.heads:
                raise ValueError(f"heads: {self.heads} do not divide {name}, {width}")
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive; got {self.std}")
        return self


def is_compact(folder: Path) -> bool:
    """Return whether a folder's configuration is one of this family; False if it cannot be read."""
    try:
        return read_object(folder / CONFIG).get("model_type") == "compact"
    except (DataError, OSError):
        return False


def read_compact_config(folder: Path) -> CompactConfig:
    """Read `config.json`."""
    try:
        return validate(CompactConfig, read_object(folder / CONFIG), str(folder / CONFIG))
    except (DataError, OSError) as error:
        raise ModelError(f"{folder} is not a compact dual encoder: {error}") from error


def read_tokenizer(folder: Path, config: CompactConfig) -> Tokenizer:
    """Read the tokenizer, which cuts and pads every text to `context_length` tokens."""
    path = folder / TOKENIZER
    content = read_whole(path, error=ModelError)
    tokenizer = open_tokenizer(path, content, config.context_length, PAD, right=True)  # where `batch` drops it
    if tokenizer.token_to_id(PAD) != 0:
        raise ModelError(f"{path}: its token 0 must be {PAD!r}, which pads short texts")
    return tokenizer


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
        """Write the three files to a new folder; return the model's name."""
        folder.mkdir(parents=True)
        config = self.config.model_dump(mode="json")
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        (folder / TOKENIZER).write_text(self.tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        require("safetensors.torch", extra="models").save_file(tensors, folder / WEIGHTS)
        return f"{PREFIX}{folder}"


def open_parts(folder: Path) -> CompactParts:
    """Open the files of a folder."""
    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    model = import_target("tellapart.models.compact.towers:build_encoder")(config, tokenizer.get_vocab_size())
    with explain_failure(f"{folder / WEIGHTS} does not fit {folder}"):
        model.load_state_dict(require("safetensors.torch", extra="models").load_file(folder / WEIGHTS))
    return CompactParts(config, model.eval(), tokenizer)


def make_dual(name: str, parts: CompactParts, place: Runtime) -> TorchDual:
    """Make the encoder of a folder's parts: the row of `Towers` of this family."""
    from PIL.Image import Resampling

    model, config = parts.model, parts.config
    reader = CompactReader(name, parts.tokenizer, config.context_length)
    size = (config.image_size, config.image_size)
    pictures = Pictures(lambda image: image.resize(size, Resampling.BICUBIC), config.mean, config.std, place)
    towers = Towers(
        name=name,
        module=model,
        place=place,
        image=lambda inputs: model.visual(pictures.normalise(inputs)),
        text=lambda inputs: model.text(inputs["input_ids"]),
        prepare=pictures.prepare,
        reader=reader,
        facts=(_VERSION, config.model_dump_json(), parts.tokenizer.to_str(), reader.control.facts),
        offers={"traits": {"context": f"{config.context_length} tokens", "dtype": place.dtype}},
        dimensions=config.dimensions,
        shown=pictures.shown,
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
