from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.store.batches import Batches


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for torch's CUDA memory, and say when its cache was emptied."""
    said: list[str] = []
    cuda = SimpleNamespace(OutOfMemoryError=OutOfMemoryError, empty_cache=lambda: said.append("emptied"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return said


def model(**attributes: Any) -> Any:
    return SimpleNamespace(name="m", fingerprint="m-1", kind="similarity", **attributes)


class Device:
    """Computes, at most `room` samples at once, at a price for each call and each pair of samples."""

    def __init__(self, room: int, *, call: float = 0.0, sample: float = 0.0) -> None:
        self.room, self.call, self.sample = room, call, sample
        self.sizes: list[int] = []
        self.got: list[int] = []

    def compute(self, samples: Sequence[int]) -> None:
        self.sizes.append(len(samples))
        if len(samples) > self.room:
            raise OutOfMemoryError("CUDA out of memory")
        time.sleep(self.call + self.sample * len(samples) ** 2)
        self.got.extend(samples)


def test_a_size_is_kept_as_asked_and_the_last_batch_is_the_rest() -> None:
    device = Device(100)
    Batches(model(device="cuda"), 4).run_samples(device.compute, range(10))
    assert (device.sizes, device.got) == ([4, 4, 2], list(range(10)))


def test_a_model_knows_its_size_better_than_the_device_but_not_better_than_the_user() -> None:
    assert Batches(model(batch_size=48, device="cuda"), None).size == 48
    assert Batches(model(batch_size=48), 5).size == 5
    assert Batches(model(), None).size == Batches(model(device="cpu"), None).size == 32
    assert Batches(model(device="cuda:1"), None).size == 64


def test_batches_grow_on_a_gpu_while_that_is_faster(emptied: list[str]) -> None:
    device = Device(10_000, call=0.02)
    batches = Batches(model(device="cuda"), None)
    batches.run_samples(device.compute, range(4000))
    assert device.sizes == [64, 128, 256, 512, 1024, 1024, 992]
    assert device.got == list(range(4000))
    dear = Device(10_000, sample=0.00001)  # twice as dear a sample in twice the batch
    batches = Batches(model(device="cuda"), None)
    batches.run_samples(dear.compute, range(400))
    assert dear.sizes[:2] == [64, 128]
    assert max(dear.sizes) == 128
    assert emptied == []


@pytest.mark.parametrize("asked", [None, 500])
def test_a_full_memory_halves_the_batch_and_no_sample_is_lost_or_given_twice(
    emptied: list[str], asked: int | None
) -> None:
    device = Device(100, call=0.01)
    batches = Batches(model(device="cuda"), asked)
    batches.run_samples(device.compute, range(1000))
    assert device.got == list(range(1000))
    assert batches.size in {62, 64}
    assert emptied == ["emptied"] * sum(size > 100 for size in device.sizes)
    assert set(device.sizes[-3:-1]) == {batches.size}  # it does not grow again


def test_one_sample_too_many_is_an_error(emptied: list[str]) -> None:
    with raises(ModelError, "model", "'m'"):
        Batches(model(device="cuda"), None).run_samples(Device(0).compute, range(3))


def test_another_error_is_raised_as_it_is(emptied: list[str]) -> None:
    def fail(samples: Sequence[int]) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with raises(RuntimeError, "shapes"):
        Batches(model(), None).run_samples(fail, range(3))
    with raises(ModelError, "batch_size", "1", "0"):
        Batches(model(), 0)
