"""Faster ways to prepare a JPEG: how many pictures keep their bytes, how far a pixel moves, and the cost.

    python bench/picture_shortcuts.py FOLDER      # of JPEG files, in it and below

The plain way is open_clip's: Pillow decodes, and resizes to a shorter side of 224, bicubic. A way is of use only where
every byte is the same, since nothing may change a number.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from record import run_bench

SIDE = 224


def resize_picture(path: Path, size: tuple[int, int], *, reduced: bool = False) -> NDArray[np.uint8]:
    """Decode, `reduced` to the smallest size that libjpeg offers above the wanted one, and resize with Pillow."""
    with Image.open(path) as picture:
        if reduced:
            picture.draft("RGB", size)
        return np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BICUBIC))


def resize_tensor(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode with Pillow, and resize with torch."""
    with Image.open(path) as picture:
        pixels = torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)
    resized = torch.nn.functional.interpolate(pixels[None], size[::-1], mode="bicubic", antialias=True)
    return resized[0].permute(1, 2, 0).numpy()


WAYS: dict[str, Callable[[Path, tuple[int, int]], NDArray[np.uint8]]] = {
    "plain": resize_picture,
    "draft": partial(resize_picture, reduced=True),
    "torch": resize_tensor,
}


def measure(folder: Path, pictures: int = 2_000) -> dict[str, Any]:
    """Prepare each picture in every way."""
    torch.set_num_threads(1)
    found = compare_ways(sorted(folder.rglob("*.jpg"))[:pictures])
    return {"command": "python bench/picture_shortcuts.py FOLDER"} | found


def compare_ways(paths: list[Path]) -> dict[str, Any]:
    """Return of each way the pictures that equal the plain way's, the largest difference, and milliseconds each."""
    same, largest, seconds = (dict.fromkeys(WAYS, 0) for _ in range(3))
    for path in paths:
        with Image.open(path) as picture:
            shorter = min(picture.size)
            size = tuple(SIDE * side // shorter for side in picture.size)
        made = {}
        for name, way in WAYS.items():
            began = time.process_time()
            made[name] = way(path, size)
            seconds[name] += time.process_time() - began
        for name, pixels in made.items():
            moved = int(np.abs(pixels.astype(int) - made["plain"]).max())
            same[name] += moved == 0
            largest[name] = max(largest[name], moved)
    return {
        "pictures": len(paths),
        "ways": {
            name: {
                "same": same[name],
                "largest_difference": largest[name],
                "ms": round(1e3 * seconds[name] / len(paths), 1),
            }
            for name in WAYS
        },
    }


if __name__ == "__main__":
    run_bench(measure, "picture_shortcuts", "--record")
