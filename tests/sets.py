"""Small pair sets on disk."""

import io
from pathlib import Path

import numpy as np

from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item

WORDS = ("red", "blue", "one", "two", "cup", "bowl", "left", "right")


def write_set(
    folder: Path, *, n: int = 12, shape: tuple[int, int] = (2, 2), seed: int = 0, clusters: int | None = None
) -> Path:
    """Write noise images with drawn words: a tag on every item, another on every second, and clusters if wanted."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    items, images = [], {}
    for k in range(n):
        references = tuple(f"images/{k}_{side}.png" for side in range(shape[0]))
        for reference in references:
            stream = io.BytesIO()
            pixels = rng.integers(0, 100, 3) + rng.integers(0, 156, (8, 8, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(stream, "PNG")
            images[reference] = stream.getvalue()
        texts = tuple(" ".join(rng.choice(WORDS, 4)) + f" {text}" for text in range(shape[1]))
        tags = {"type": ("swap", "add", "replace")[k % 3]} | ({"side": "left"} if k % 2 else {})
        cluster = "" if clusters is None else f"scene-{k % clusters}"
        items.append(Item(id=f"item-{k}", images=references, texts=texts, tags=tags, cluster=cluster))
    write_pair_set(folder, items, images, {"title": f"Set {folder.name}", "licence": "CC0"})
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
