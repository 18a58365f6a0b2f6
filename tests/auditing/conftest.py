"""Sets whose findings are known, because they were planted."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pictures import encoded
from tellapart import Item, PairSet, read_pair_set, write_pair_set
from tellapart.models.text.tinystories import Sizes

Pixels = NDArray[np.uint8]


def smooth(seed: int, side: int = 64) -> Pixels:
    """A picture with forms of its own: some random blots, in colours."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC), np.uint8)


@pytest.fixture
def blots() -> Callable[..., Pixels]:
    return smooth


@pytest.fixture
def captioned() -> Callable[..., PairSet]:
    """A set of captions alone."""

    def make(texts: Sequence[Sequence[str]], *, images: int = 1, name: str = "set", **fields) -> PairSet:
        items = []
        for k, each in enumerate(texts):
            own = {field: values[k] for field, values in fields.items()}
            shown = tuple(f"{k}_{side}.png" for side in range(images))
            items.append(Item(id=str(k), images=shown, texts=tuple(each), **own))
        return PairSet(name, tuple(items), Path("nowhere"))

    return make


@pytest.fixture
def pictured(tmp_path) -> Callable[..., PairSet]:
    """A set on disk, of pictures; captions are distinct if none are given."""

    def make(
        pictures: Sequence[Sequence[Pixels | bytes]], *,
        texts=None, clusters=None, tags=None, card=None, name: str = "pictured",
    ) -> PairSet:  # fmt: skip
        items, files = [], {}
        for k, row in enumerate(pictures):
            references = tuple(f"images/{k}_{side}.png" for side in range(len(row)))
            for reference, picture in zip(references, row, strict=True):
                files[reference] = picture if isinstance(picture, bytes) else encoded(picture)
            captions = tuple(texts[k]) if texts else (f"one {name} {k}", f"two {name} {k}")
            facts = {"cluster": clusters[k] if clusters else "", "tags": tags[k] if tags else {}}
            items.append(Item(id=f"item-{k}", images=references, texts=captions, **facts))
        write_pair_set(tmp_path / name, items, files, {"title": f"Set {name}"} if card is None else card)
        return read_pair_set(tmp_path / name)

    return make


@pytest.fixture
def loves_z(tmp_path) -> Path:
    """A checkpoint of llama2.c that knows bytes alone, to which the letter z is the likeliest after any text."""
    sizes = Sizes(dim=4, hidden=4, layers=1, heads=2, key_heads=2, vocabulary=259, context=64)
    weights = {name: np.zeros(shape) for name, shape in sizes.layout().items()}
    weights["embedding"][:, 0] = 1.0
    weights["embedding"][3 + ord("z"), 0] = 4.0
    weights["norm"] += 1
    weights["attention_norm"] += 1
    weights["feed_norm"] += 1
    names = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    pieces = b"".join(struct.pack("<fi", 0.0, len(piece)) + piece for piece in names)
    path = tmp_path / "loves-z.bin"
    data = struct.pack("<7i", *sizes) + b"".join(weight.astype("<f4").tobytes() for weight in weights.values())
    path.write_bytes(data + struct.pack("<i", max(map(len, names))) + pieces)
    return path
