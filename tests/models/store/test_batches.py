import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.store.batches import Batches, bytes_held, prefetch


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.fixture
def emptied(monkeypatch):
    """Stand in for torch's CUDA memory, and say when its cache was emptied."""
    said = []
    cuda = SimpleNamespace(OutOfMemoryError=OutOfMemoryError, empty_cache=lambda: said.append("emptied"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return said


def model(**attributes):
    return SimpleNamespace(name="m", fingerprint="m-1", kind="similarity", **attributes)


class Device:
    """Computes, at most `room` samples at once, at a price for each call and each pair of samples, by its clock."""

    seconds = 0.0

    def __init__(self, room: int, *, call: float = 0.0, sample: float = 0.0) -> None:
        self.room, self.call, self.sample = room, call, sample
        self.sizes = []
        self.got = []

    def compute(self, samples: Sequence[int]) -> None:
        self.sizes.append(len(samples))
        if len(samples) > self.room:
            raise OutOfMemoryError("CUDA out of memory")
        Device.seconds += self.call + self.sample * len(samples) ** 2
        self.got.extend(samples)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Measure batches by the devices' clock, which nothing else on this machine moves."""
    monkeypatch.setattr("tellapart.models.store.batches.time", SimpleNamespace(perf_counter=lambda: Device.seconds))


def test_a_size_is_as_asked_of_the_user_then_the_model_then_the_device():
    device = Device(100)
    Batches(model(device="cuda"), 4).run_samples(device.compute, range(10))
    assert (device.sizes, device.got) == ([4, 4, 2], list(range(10)))
    assert Batches(model(batch_size=48, device="cuda"), None).size == 48
    assert Batches(model(batch_size=48), 5).size == 5
    assert Batches(model(), None).size == Batches(model(device="cpu"), None).size == 32
    assert Batches(model(device="cuda:1"), None).size == 64


def test_batches_grow_on_a_gpu_while_that_is_faster(emptied):
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
def test_a_full_memory_halves_the_batch_and_no_sample_is_lost_or_given_twice(emptied, asked):
    device = Device(100, call=0.01)
    batches = Batches(model(device="cuda"), asked)
    batches.run_samples(device.compute, range(1000))
    assert device.got == list(range(1000))
    assert batches.size in {62, 64}
    assert emptied == ["emptied"] * sum(size > 100 for size in device.sizes)
    assert set(device.sizes[-3:-1]) == {batches.size}  # it does not grow again


def test_one_sample_too_many_is_an_error_and_another_one_is_raised_as_it_is(emptied):
    with raises(ModelError, "model", "'m'"):
        Batches(model(device="cuda"), None).run_samples(Device(0).compute, range(3))
    other = RuntimeError("mat1 and mat2 shapes cannot be multiplied")  # torch's full memory is a RuntimeError, too
    with raises(RuntimeError, "shapes"):
        Batches(model(), None).run_samples(Mock(side_effect=other), range(3))
    with raises(ModelError, "batch_size", "1", "0"):
        Batches(model(), 0)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5), st.sampled_from([1, 3000, 2**30]))
def test_results_come_in_order_whatever_the_threads_and_the_budget(inputs, workers, budget):
    def compute(k):
        time.sleep(k / 5000)  # later inputs are often done first
        return k * k

    assert list(prefetch(compute, inputs, workers=workers, budget=budget)) == [k * k for k in inputs]


def test_no_more_is_held_than_the_budget_and_one_result_a_thread():
    held, most, lock = 0, 0, threading.Lock()

    def compute(k):
        nonlocal held, most
        with lock:
            held += 1
            most = max(most, held)
        return np.zeros(100_000, np.uint8)

    for count, _ in enumerate(prefetch(compute, range(60), workers=3, budget=500_000)):
        if count == 0:
            time.sleep(0.2)  # time enough to compute all sixty
            assert 5 <= held <= 5 + 1 + 3
        with lock:
            held -= 1
    assert most <= 5 + 1 + 3


def test_work_goes_on_while_the_loop_is_busy():
    begun = []
    with closing(prefetch(begun.append, range(8), workers=2)) as results:
        next(results)
        deadline = time.monotonic() + 10
        while len(begun) < 8 and time.monotonic() < deadline:
            time.sleep(0.005)
    assert sorted(begun) == list(range(8))


@pytest.mark.parametrize("workers", [1, 4])
def test_an_error_comes_in_the_place_of_its_result_and_nothing_is_begun_after_it(workers):
    begun = []

    def compute(k):
        begun.append(k)
        if k in {5, 6}:
            raise ValueError(f"broken {k}")
        time.sleep(0.002)
        return k

    got = []
    with pytest.raises(ValueError, match="broken 5"):
        got.extend(prefetch(compute, range(100), workers=workers))
    assert got == [0, 1, 2, 3, 4]
    assert max(begun) <= 5 + workers


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("budget", [1, 3000])  # with the small one the threads wait for room
def test_leaving_early_ends_the_threads_and_drops_what_they_made(error, budget):
    begun = []

    def compute(k):
        begun.append(k)
        time.sleep(0.01)
        return k

    started = time.monotonic()
    with pytest.raises(error), closing(prefetch(compute, range(1000), workers=2, budget=budget)) as results:
        for _ in results:
            raise error
    assert len(begun) < 20
    assert time.monotonic() - started < 5


def test_bytes_are_counted_in_arrays_and_in_what_holds_them():
    array = np.zeros((3, 4), np.float32)
    assert bytes_held({"a": array, "b": [array, (array, "text")], "c": 3}) == 144
    assert bytes_held(None) == 0
