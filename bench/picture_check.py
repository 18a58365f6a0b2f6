"""The cost of the check that a picture is complete, by kind of picture: processor time of decoding with and without.

Both ways take turns, and the fastest of many repeats counts: other work on the machine only ever adds time.
"""

import io
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image
from record import run_bench, time_call
from sklearn.datasets import load_sample_images

from tellapart.data import images
from tellapart.records.machine import this_machine

#: Kind -> Pillow's mode, format and options.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "PNG, colour": ("RGB", "PNG", {}),
    "PNG, grey": ("L", "PNG", {}),
    "PNG, palette": ("P", "PNG", {}),
    "PNG, alpha": ("RGBA", "PNG", {}),
    "PNG, 16 bits": ("I;16", "PNG", {}),
    "JPEG": ("RGB", "JPEG", {"quality": 90}),
    "JPEG, progressive": ("RGB", "JPEG", {"quality": 90, "progressive": True}),
    "WebP": ("RGB", "WEBP", {"quality": 85}),
    "WebP, lossless": ("RGB", "WEBP", {"lossless": True}),
}


def draw_pictures() -> list[Image.Image]:
    """Return two photographs and a drawing, 640 x 427."""
    rows, columns = np.mgrid[:427, :640]
    flat = np.stack([(rows // 60) * 35, (columns // 60) * 23, (rows // 90 + columns // 90) * 15], 2).astype(np.uint8)
    return [Image.fromarray(pixels) for pixels in (*load_sample_images().images, flat)]


def encode(picture: Image.Image, mode: str, kind: str, options: dict[str, Any]) -> bytes:
    """Return a picture's file."""
    if mode == "I;16":
        converted = Image.fromarray(np.array(picture.convert("L")).astype(np.uint16) * 257)
    else:
        converted = picture.convert(mode)
    stream = io.BytesIO()
    converted.save(stream, kind, **options)
    return stream.getvalue()


def time_decoding(data: bytes, repeats: int) -> tuple[float, float]:
    """Return the fewest seconds of the processor that decoding takes, without the check and with it."""
    best = [float("inf"), float("inf")]
    for number in range(repeats):
        for checked in ((0, 1), (1, 0))[number % 2]:
            unchecked = patch.object(images, "load_whole", lambda picture, _data: picture.load())
            with nullcontext() if checked else unchecked:
                best[checked] = min(best[checked], time_call(lambda: images.decode(data, "picture"))[2])
    return best[0], best[1]


def measure(repeats: int = 100) -> dict[str, Any]:
    """Time each kind."""
    rows: dict[str, dict[str, Any]] = {}
    for kind, saved in KINDS.items():
        plain, checked, size = 0.0, 0.0, 0
        for picture in draw_pictures():
            data = encode(picture, *saved)
            without, with_check = time_decoding(data, repeats)
            plain, checked, size = plain + without, checked + with_check, size + len(data)
        rows[kind] = {
            "bytes": size,
            "milliseconds": round(1e3 * plain, 3),
            "checked_milliseconds": round(1e3 * checked, 3),
            "cost_percent": round(100 * (checked / plain - 1), 1),
        }
    return {"pictures": 3, "repeats": repeats, "kinds": rows, "machine": this_machine("cpu").model_dump()}


if __name__ == "__main__":
    run_bench(measure)
