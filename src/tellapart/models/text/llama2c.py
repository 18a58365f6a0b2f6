"""The checkpoints of llama2.c: `model.bin`, with its `tokenizer.bin` behind it in one file or beside it in another.

    model.bin      7 int32 (dim, hidden, layers, heads, key heads, vocabulary, context), float32 weights;
                   a negative vocabulary: the classifier is not the embedding, and comes last
    tokenizer.bin  int32 (longest piece), then for each piece float32 score, int32 length, UTF-8 bytes

Source: Karpathy, llama2.c (`run.c`, and the legacy export of `export.py`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.data.strict_json import read_whole
from tellapart.errors import ModelError

__all__ = ["BYTES", "Checkpoint", "Floats", "Sizes", "read_checkpoint"]

#: Twice the largest checkpoint that a processor runs at all.
_MOST_BYTES = 1 << 34

Floats = NDArray[np.float32]

#: The pieces of the 256 bytes begin here, after those of control; normal pieces follow.
BYTES = 3

_MATRICES = {"query", "key", "value", "output", "gate", "down", "up", "classifier"}


class Sizes(NamedTuple):
    """The numbers that `model.bin` begins with."""

    dim: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    context: int

    def layout(self) -> dict[str, tuple[int, ...]]:
        """Return name -> shape of the weights, in the file's order; matrices are (out, in)."""
        head, pieces = self.dim // self.heads, abs(self.vocabulary)
        keys = self.key_heads * head
        return {
            "embedding": (pieces, self.dim),
            "attention_norm": (self.layers, self.dim),
            "query": (self.layers, self.dim, self.dim),
            "key": (self.layers, keys, self.dim),
            "value": (self.layers, keys, self.dim),
            "output": (self.layers, self.dim, self.dim),
            "feed_norm": (self.layers, self.dim),
            "gate": (self.layers, self.hidden, self.dim),
            "down": (self.layers, self.dim, self.hidden),
            "up": (self.layers, self.hidden, self.dim),
            "norm": (self.dim,),
            "rotation": (2, self.context, head // 2),
        } | ({"classifier": (pieces, self.dim)} if self.vocabulary < 0 else {})

    def parameters(self) -> int:
        """Count the weights, without the angles of positions, which the file holds too."""
        return sum(prod(shape) for name, shape in self.layout().items() if name != "rotation")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A model and its tokenizer, read and checked.

    Attributes:
        weights: name -> float32; matrices are (in, out), save the embedding.
        pieces: bytes of a piece -> its score and number, without those of control and of bytes, which no text may
            spell.
        sha256: of both files.
    """

    sizes: Sizes
    weights: Mapping[str, Floats]
    pieces: Mapping[bytes, tuple[float, int]]
    sha256: str


def read_checkpoint(path: Path) -> Checkpoint:
    """Read `model.bin`; its tokenizer follows in the same file, or lies beside it as `tokenizer.bin`.

    Raises:
        ModelError: a file is missing, or does not follow its format.
    """
    data = _read_file(path, "name a checkpoint of llama2.c (model.bin)")
    sizes, weights, end = _read_weights(path, data)
    source = path if data[end:] else path.with_name("tokenizer.bin")
    rest = data[end:] or _read_file(source, f"{path} holds no tokenizer, so it must lie there")
    pieces = _read_pieces(source, rest, len(weights["embedding"]))
    return Checkpoint(sizes, weights, pieces, hashlib.sha256(data[:end] + rest).hexdigest())


def _read_file(path: Path, todo: str) -> bytes:
    try:
        return read_whole(path, error=ModelError, most=_MOST_BYTES)
    except ModelError as error:
        raise ModelError(f"{error}; {todo}") from error


def _read_weights(path: Path, data: bytes) -> tuple[Sizes, dict[str, Floats], int]:
    """Return the sizes, the weights and the position of their end."""
    begin = 4 * len(Sizes._fields)
    sizes = Sizes(*struct.unpack_from(f"<{len(Sizes._fields)}i", data.ljust(begin, b"\0")))
    counts = (*sizes[:5], abs(sizes.vocabulary) - BYTES - 255, sizes.context)
    if min(counts) < 1 or sizes.dim % (2 * sizes.heads) or sizes.heads % sizes.key_heads:
        raise ModelError(f"{path} is not a checkpoint of llama2.c: it begins with {', '.join(map(str, sizes))}")
    layout = sizes.layout()
    end = begin + 4 * sum(prod(shape) for shape in layout.values())
    if len(data) < end:
        raise ModelError(f"{path} is cut short: its weights take {end:,} bytes, it has {len(data):,}; fetch it again")
    weights = {}
    for name, shape in layout.items():
        stored = np.frombuffer(data, "<f4", prod(shape), begin).reshape(shape).astype(np.float32, copy=False)
        begin += stored.nbytes
        # Multiplying few rows is twice as fast with (in, out).
        weights[name] = np.ascontiguousarray(stored.swapaxes(-1, -2)) if name in _MATRICES else stored
    weights.setdefault("classifier", np.ascontiguousarray(weights["embedding"].T))
    return sizes, weights, end


def _read_pieces(path: Path, data: bytes, expected: int) -> dict[bytes, tuple[float, int]]:
    """Return `Checkpoint.pieces`."""
    pieces: dict[bytes, tuple[float, int]] = {}
    at = 4
    for number in range(expected):
        score, length = struct.unpack_from("<fi", data, at) if at + 8 <= len(data) else (0.0, -1)
        at += 8 + length
        if length < 0 or at > len(data):
            raise ModelError(f"{path} is cut short or no tokenizer: piece {number:,} of {expected:,} is not there")
        if number >= BYTES + 256:
            pieces.setdefault(data[at - length : at], (score, number))
    return pieces
