"""What folders of ONNX and of compact models have in common: a tokenizer's file, and a number for each channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tellapart.errors import ModelError, first_line

if TYPE_CHECKING:
    from tokenizers import Tokenizer


#: A number for R, G and B.
Channels = Annotated[tuple[float, float, float], Field(strict=False)]  # JSON has lists


def open_tokenizer(path: Path, content: bytes, length: int, pad: str) -> Tokenizer:
    """Open the content of a file of the tokenizers library, which cuts and pads every text to `length` tokens."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} is not a file of the tokenizers library: {first_line(error)}") from error
    number = tokenizer.token_to_id(pad)
    if number is None:
        raise ModelError(f"{path} has no token {pad!r} that pads short texts: the pad_token of an ONNX config.json")
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=number, pad_token=pad)
    return tokenizer
