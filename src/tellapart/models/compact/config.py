"""The folder of a compact dual encoder: `config.json`, `tokenizer.json`, and `model.safetensors` if it has weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.data.rows import read_object
from tellapart.data.strict_json import read_whole
from tellapart.data.validation import validate_table
from tellapart.errors import DataError, ModelError
from tellapart.models.tokenizer_file import Channels, open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"

#: The tokenizer's padding token; its id is 0.
PAD = "[PAD]"

_MODEL_TYPE = "compact"

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

    @property
    def positions(self) -> int:
        """The number of positions in the last feature map."""
        return (self.image_size // 16) ** 2


def is_compact(folder: Path) -> bool:
    """Return whether a folder's configuration is one of this family; False if it cannot be read."""
    try:
        return read_object(folder / CONFIG).get("model_type") == _MODEL_TYPE
    except (DataError, OSError):
        return False


def read_compact_config(folder: Path) -> CompactConfig:
    """Read the configuration."""
    try:
        return validate_table(CompactConfig, read_object(folder / CONFIG), str(folder / CONFIG))
    except (DataError, OSError) as error:
        raise ModelError(f"{folder} is not a compact dual encoder: {error}") from error


def read_tokenizer(folder: Path, config: CompactConfig) -> Tokenizer:
    """Read the tokenizer, which cuts and pads every text to `context_length` tokens."""
    path = folder / TOKENIZER
    tokenizer = open_tokenizer(path, read_whole(path, error=ModelError), config.context_length, PAD)
    if tokenizer.token_to_id(PAD) != 0:
        raise ModelError(f"{path}: its token 0 must be {PAD!r}, which pads short texts")
    return tokenizer
