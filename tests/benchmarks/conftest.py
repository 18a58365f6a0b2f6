"""The real annotation files, where they lie beside the checkout, and small pictures."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tellapart import Benchmark, find_benchmark
from tellapart.benchmarks.locations import Locations


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch) -> None:
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
