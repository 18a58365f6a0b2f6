"""The real annotation files, where they lie beside the checkout, and small pictures."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations

DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def published() -> Callable[[str], Path]:
    """Name a folder of published files, or skip where it is absent."""

    def folder(name: str) -> Path:
        if not (DATA / name).is_dir():
            pytest.skip(f"the published files of {name} are not beside this checkout")
        return DATA / name

    return folder


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this machine's own data, hub cache and token out of every test."""
    monkeypatch.delenv("TELLAPART_DATA", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    constants = pytest.importorskip("huggingface_hub.constants")  # it comes with tokenizers
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def at() -> Callable[..., Benchmark]:
    """Find a benchmark at a place."""

    def find(name: str, data: Path, images: Path | None = None) -> Benchmark:
        return find_benchmark(name, Locations(data, images))

    return find


def picture(seed: int, *, kind: str = "PNG", size: int = 4) -> bytes:
    """An image file of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3)).astype(np.uint8)
    stream = io.BytesIO()
    if kind == "npy":
        np.save(stream, pixels)
    else:
        Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.fixture
def draw() -> Callable[..., bytes]:
    return picture
