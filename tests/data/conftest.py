"""Small genuine image files, rows, and folders made of them: functions that tests ask for by name."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image


def _encoded(pixels: NDArray[Any], suffix: str = "png", **options: Any) -> bytes:
    stream = io.BytesIO()
    if suffix == "npy":
        np.save(stream, pixels[:, :, ::-1])
        return stream.getvalue()
    if suffix == "webp":
        options = {"lossless": True, **options}
    Image.fromarray(pixels).save(stream, "JPEG" if suffix == "jpg" else suffix.upper(), **options)
    return stream.getvalue()


def _noise(height: int = 6, width: int = 9, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def _record(**changes: Any) -> dict[str, Any]:
    row = {"id": "a", "images": ["images/0.png", "images/1.png"], "texts": ["two clocks", "three clocks"], **changes}
    return {key: value for key, value in row.items() if value is not ...}


@pytest.fixture(scope="session")
def encoded() -> Callable[..., bytes]:
    """`encoded(pixels, suffix, **options)`: the bytes of an image file; without loss, but for jpg."""
    return _encoded


@pytest.fixture(scope="session")
def noise() -> Callable[..., NDArray[np.uint8]]:
    """`noise(height, width, seed)`: a picture that no turn, mirror or swap of channels leaves as it is."""
    return _noise


@pytest.fixture(scope="session")
def record() -> Callable[..., dict[str, Any]]:
    """`record(**changes)`: the row of one good 2x2 item; a field given as `...` is left out."""
    return _record


@pytest.fixture(scope="session")
def put() -> Callable[..., Path]:
    """`put(home, listing, name, images)`.

    Write a folder of rows (or text, or bytes) and two images (or those given).
    """

    def write(home: Path, listing: Any, name: str = "pairs.jsonl", images: Mapping[str, bytes] | None = None) -> Path:
        files = {f"images/{k}.png": _encoded(_noise(seed=k)) for k in range(2)} if images is None else images
        if isinstance(listing, list):
            listing = "".join(json.dumps(row) + "\n" for row in listing)
        for path, data in {**files, name: listing.encode() if isinstance(listing, str) else listing}.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(data)
        return home

    return write


@pytest.fixture
def folder(tmp_path: Path, put: Callable[..., Path]) -> Callable[..., Path]:
    """As `put`, in a folder named `clocks` of this test."""
    return lambda *args, **kwargs: put(tmp_path / "clocks", *args, **kwargs)
