"""The likelihood of a text by itself under a checkpoint of llama2.c, a Llama trained on simple stories; in numpy.

Sources: Eldan and Li, TinyStories, 2023; Touvron et al., Llama 2, 2023; Karpathy, llama2.c.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.data.strict_json import read_whole
from tellapart.errors import ModelError

#     model.bin      7 int32 (dim, hidden, layers, heads, key heads, vocabulary, context), float32 weights;
#                    a negative vocabulary: the classifier is not the embedding, and comes last
#     tokenizer.bin  int32 (longest piece), then for each piece float32 score, int32 length, UTF-8 bytes
#     (llama2.c: `run.c`, and the legacy export of `export.py`)

_MOST_BYTES = 1 << 34  # twice the largest checkpoint that a processor runs at all

Floats = NDArray[np.float32]

#: The pieces of the 256 bytes begin here, after those of control; normal pieces follow.
BYTES = 3

#: The tokenizer's file, beside a checkpoint that does not hold it.
TOKENIZER = "tokenizer.bin"

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


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A model and its tokenizer, and the SHA-256 of both.

    Matrices among the weights are (in, out), save the embedding. Pieces have a score and a number; those of control and
    of bytes, which no text may spell, are left out.
    """

    sizes: Sizes
    weights: Mapping[str, Floats]
    pieces: Mapping[bytes, tuple[float, int]]
    sha256: str


def read_checkpoint(path: Path) -> Checkpoint:
    """Read `model.bin`; its tokenizer follows in the same file, or lies beside it as `tokenizer.bin`."""
    data = _read_file(path, "name a checkpoint of llama2.c (model.bin)")
    end = 4 * len(Sizes._fields)
    sizes = Sizes(*struct.unpack_from("<7i", data.ljust(end, b"\0")))
    counts = (*sizes[:5], abs(sizes.vocabulary) - BYTES - 255, sizes.context)
    if min(counts) < 1 or sizes.dim % (2 * sizes.heads) or sizes.heads % sizes.key_heads:
        raise ModelError(f"{path} is not a checkpoint of llama2.c: it begins with {', '.join(map(str, sizes))}")
    layout = sizes.layout()
    if len(data) < (whole := end + 4 * sum(map(prod, layout.values()))):
        raise ModelError(f"{path} is cut short: its weights take {whole:,} bytes, it has {len(data):,}; fetch it again")
    weights = {}
    for name, shape in layout.items():
        stored = np.frombuffer(data, "<f4", prod(shape), end).reshape(shape).astype(np.float32, copy=False)
        end += stored.nbytes
        # Multiplying few rows is twice as fast with (in, out).
        weights[name] = np.ascontiguousarray(stored.swapaxes(-1, -2)) if name in _MATRICES else stored
    weights.setdefault("classifier", np.ascontiguousarray(weights["embedding"].T))
    source = path if data[end:] else path.with_name(TOKENIZER)
    rest = data[end:] or _read_file(source, f"{path} holds no tokenizer, so it must lie there")
    pieces: dict[bytes, tuple[float, int]] = {}
    at, expected = 4, len(weights["embedding"])
    for number in range(expected):
        score, length = struct.unpack_from("<fi", rest, at) if at + 8 <= len(rest) else (0.0, -1)
        at += 8 + length
        if length < 0 or at > len(rest):
            raise ModelError(f"{source} is cut short or no tokenizer: piece {number:,} of {expected:,} is not there")
        if number >= BYTES + 256:
            pieces.setdefault(rest[at - length : at], (score, number))
    return Checkpoint(sizes, weights, pieces, hashlib.sha256(data[:whole] + rest).hexdigest())


def _read_file(path: Path, todo: str) -> bytes:
    try:
        return read_whole(path, error=ModelError, most=_MOST_BYTES)
    except ModelError as error:
        raise ModelError(f"{error}; {todo}") from error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TinyStories:
    """A text's log-likelihood in nats under a llama2.c checkpoint: the sum over its pieces, or the mean.

    Runs of blanks count as one, and those around a text not at all. A text is computed by itself, without a batch.
    """

    checkpoint: Checkpoint
    per_token: bool = False
    kind: ClassVar[ScoreKind] = "similarity"

    @classmethod
    def load(cls, path: Path, *, per_token: bool = False) -> Self:
        """Read a checkpoint: `model.bin`, whose tokenizer follows in the same file or lies beside it."""
        return cls(read_checkpoint(path), per_token)

    @property
    def parameters(self) -> int:
        """Weights of the checkpoint, without the angles of positions."""
        return sum(prod(shape) for name, shape in self.checkpoint.sizes.layout().items() if name != "rotation")

    @property
    def name(self) -> str:
        """`tinystories-15M`, by the number of weights."""
        return f"tinystories-{self.parameters / 1e6:.0f}M" + ("-per-token" if self.per_token else "")

    @property
    def fingerprint(self) -> str:
        """Of the checkpoint's bytes, and of sum or mean."""
        return f"tellapart:tinystories:1:{'mean' if self.per_token else 'sum'}:{self.checkpoint.sha256}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-likelihood in nats, float32 `(n,)`."""
        pieces = map(self.log_likelihoods, texts)
        return np.array([piece.mean() if self.per_token else piece.sum() for piece in pieces], np.float32)

    def log_likelihoods(self, text: str) -> NDArray[np.float64]:
        """Return log P(piece | those before it) in nats, float64 `(piece,)`; the first follows the begin of a text."""
        pieces = self.encode(text)
        if not pieces:
            raise ModelError(f"{self.name} was given a text without words: {text!a}")
        if len(pieces) > self.checkpoint.sizes.context:
            raise ModelError(
                f"{self.name} reads {self.checkpoint.sizes.context} pieces at most; {text[:60]!a}... has "
                f"{len(pieces)}: shorten the text, or leave this model out"
            )
        logits = self._predict_pieces(pieces)
        shifted = logits - logits.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1, dtype=np.float64)
        likelihoods: NDArray[np.float64] = shifted[np.arange(len(pieces)), pieces].astype(np.float64) - np.log(total)
        return likelihoods

    def encode(self, text: str) -> list[int]:
        """Return a text's pieces: byte-pair encoding, best-scored pair first; characters without a piece as bytes."""
        words = " ".join(text.split())
        symbols = [character.encode("utf-8", "surrogatepass") for character in (f" {words}" if words else "")]
        while len(symbols) > 1:
            scores = [self.checkpoint.pieces.get(a + b, (-np.inf,))[0] for a, b in pairwise(symbols)]
            best = scores.index(max(scores))
            if scores[best] == -np.inf:
                break
            symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]
        numbers: list[int] = []
        for symbol in symbols:
            piece = self.checkpoint.pieces.get(symbol)
            numbers += [byte + BYTES for byte in symbol] if piece is None else [piece[1]]
        return numbers

    def _predict_pieces(self, pieces: Sequence[int]) -> Floats:
        """Return the logits of each piece, given those before it: float32 `(piece, vocabulary)`."""
        w, last = self.checkpoint.weights, len(pieces)
        x = w["embedding"][[1, *pieces[:-1]]]  # (piece, dim); piece 1 begins a text
        rotation = w["rotation"][:, :last, None]  # (cosine or sine, piece, 1, half a head)
        future = np.triu(np.full((last, last), -np.inf, np.float32), 1)
        for layer in range(self.checkpoint.sizes.layers):
            x = x + self._attend_layer(layer, _normalise_rows(x, w["attention_norm"][layer]), rotation, future)
            y = _normalise_rows(x, w["feed_norm"][layer])
            gate = y @ w["gate"][layer]
            opened = gate / (1 + np.exp(np.minimum(-gate, 80)))  # e^80 is a float32
            x = x + (opened * (y @ w["up"][layer])) @ w["down"][layer]
        result: Floats = _normalise_rows(x, w["norm"]) @ w["classifier"]
        return result

    def _attend_layer(self, layer: int, y: Floats, rotation: Floats, future: Floats) -> Floats:
        sizes, w = self.checkpoint.sizes, self.checkpoint.weights
        head = sizes.dim // sizes.heads
        queries = _rotate_pairs((y @ w["query"][layer]).reshape(len(y), sizes.heads, head), rotation)
        keys = _rotate_pairs((y @ w["key"][layer]).reshape(len(y), sizes.key_heads, head), rotation)
        values = (y @ w["value"][layer]).reshape(len(y), sizes.key_heads, head)
        shared = sizes.heads // sizes.key_heads  # query heads that read one key head
        q, k, v = (z.transpose(1, 0, 2) for z in (queries, keys.repeat(shared, 1), values.repeat(shared, 1)))
        weight = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(head)) + future  # (head, piece, earlier piece)
        weight = np.exp(weight - weight.max(axis=2, keepdims=True))
        mixed = (weight / weight.sum(axis=2, keepdims=True)) @ v
        result: Floats = mixed.transpose(1, 0, 2).reshape(len(y), sizes.dim) @ w["output"][layer]
        return result


def _normalise_rows(x: Floats, scale: Floats) -> Floats:
    """Scale rows to a root mean square of one."""
    result: Floats = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(1e-5)) * scale
    return result


def _rotate_pairs(x: Floats, rotation: Floats) -> Floats:
    """Rotate neighbouring pairs of a head's numbers by the angle of their position: (piece, head, number)."""
    cosine, sine = rotation
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(x.shape)
