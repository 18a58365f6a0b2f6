"""The cost of a model on this machine: the latency of one pair, throughput, parameters, FLOPs, memory.

Measured are wall times of a run's work for a pair that is new: no store, no half that was computed already, no sample
repeated to fill a batch up. Every model is measured in a separate process.

Source: VLUE (Zhou et al. 2022), section 3.3 and Appendix A: inference time at batch size 1, on fixed hardware.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellapart.benchmarks.find import load_pairs
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.plugins import load_again, loaded
from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.video import is_video
from tellapart.errors import DataError, ExitError, ModelError, RunError
from tellapart.evaluation.evaluate import chosen
from tellapart.models.find import find_model
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import (
    DualEncoder,
    Generator,
    ImagePreparer,
    KeyReader,
    Model,
    PairScorer,
    TextScorer,
    Weighed,
)
from tellapart.models.torch.backend import exact_batches
from tellapart.records.machine import device_peak, forget_device_peak, resident_memory, this_machine
from tellapart.records.result import ModelRecord
from tellapart.records.timing_record import PARTS, Duration, Throughput, Timing


def count_flops(compute: Callable[[], object]) -> int | None:
    """Count the operations of matrix products and convolutions in a call; a multiplication and an addition are two.

    Attention is computed by plain products meanwhile: torch's counter knows only some of its fused kernels, and none of
    those for CPUs. None if torch did none of these, or is not loaded.

    >>> import torch
    >>> count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 5))
    60
    """
    torch = sys.modules.get("torch")  # a model that computes with torch has imported it
    if torch is None:
        compute()
        return None
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            compute()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return int(counter.get_total_flops()) or None


#: Batches whose median gives the throughput; one more goes before them and is not counted.
BATCHES = 3


@dataclass(slots=True)
class _Bench:
    """A model, the pairs that it is timed on, and a clock.

    `parts` are the functions by which it computes a pair, by the names of `PARTS`: those that it has. Their times
    follow each other without a gap, each until the device has finished.
    """

    parts: Mapping[str, Callable[..., Any]]
    pairs: Sequence[tuple[str, str]]
    device: str
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = 0.0

    def _time(self, part: str, *inputs: Any) -> Any:
        """Return what a part computes of the inputs; the first of them if the model has no such part."""
        if part not in self.parts:
            return inputs[0]
        output = self.parts[part](*inputs)
        torch = sys.modules.get("torch")
        if self.device != "cpu" and torch is not None:  # work on a device is queued, and a clock would not see it
            getattr(torch, self.device).synchronize()
        now = time.perf_counter()
        self.seconds[part], self.last = self.seconds.get(part, 0.0) + now - self.last, now
        return output

    def begin(self) -> None:
        """Begin to count time."""
        self.seconds, self.last = {}, time.perf_counter()

    def compute(self, images: Any, texts: Any) -> None:
        """Score image `k` with text `k`."""
        self._time("cross", self._time("image", images), self._time("text", texts))

    def inputs(self, start: int, count: int) -> tuple[list[Any], list[str]]:
        """Decode and prepare pairs in turn: no image comes twice running, since some models remember the last one."""
        pairs = [self.pairs[k % len(self.pairs)] for k in range(start, start + count)]
        images = [self._time("prepare", self._time("decode", reference)) for reference, _ in pairs]
        return images, [text for _, text in pairs]

    def lap(self, start: int, count: int, *, from_files: bool) -> dict[str, float]:
        """Time pairs given at once, from their files or from images decoded and prepared before: seconds by part."""
        self.begin()
        inputs = self.inputs(start, count)
        if not from_files:
            self.begin()
        self.compute(*inputs)
        return self.seconds


def time_apart(name: str, measure: Callable[[], Timing]) -> Timing:
    """Time a model in a separate process: it finds no other one's memory, threads or caches."""
    # Spawned, not forked: a fork would begin with this process's memory and with threads that it does not have.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        fault = (
            "could not begin. It reads the calling script again: save that as a file, not standard input, and make "
            'this call under `if __name__ == "__main__":`'
        )
        try:
            pool.submit(os.getpid).result()  # a process that cannot begin needs other advice than one that was killed
            fault = "was killed, as a rule because memory ran out; free some, or lower batch_size="
            return pool.submit(_load_and_time, name, measure, loaded()).result()
        except BrokenProcessPool as error:
            raise RunError(f"{name}: the process that times it {fault}") from error


def _load_and_time(name: str, measure: Callable[[], Timing], plugins: tuple[tuple[str, str], ...]) -> Timing:
    """Time a model after the plugins and objects that the user has added to the calling process are loaded again."""
    try:
        load_again(plugins)
        return measure()
    except SystemExit as ended:
        raise ExitError(
            f"{name}: its code calls sys.exit({ended.code!r}), which ends the process that times it"
        ) from ended


def time_model(
    name: str,
    benchmark: str = "demo",
    options: ModelOptions | None = None,
    *,
    place: Locations | None = None,
    repeats: int = 50,
    warm_up: int = 5,
    batch_size: int = 32,
) -> Timing:
    """Time one model in this process, by the true pairs of a benchmark in turn, as `tellapart.time` does."""
    options = options or ModelOptions()
    pairset = load_pairs(benchmark, place)
    before = resident_memory()
    forget_device_peak()
    model = find_model(name, options)
    parts, notes = _list_parts(model)
    reads_images = not isinstance(model, KeyReader | TextScorer)
    pairs = _pick_pairs(pairset, max(repeats, batch_size), reads_images)
    if batch_size > len(pairs):
        raise DataError(f"{pairset.name} has {len(pairs)} different images; give batch_size={len(pairs)} or less")
    height_and_width, prepared = None, None
    if reads_images:
        parts["decode"] = pairset.pixels
        sizes = [pairset.pixels(image).shape[:2] for image, _ in pairs]
        height_and_width = tuple(map(round, np.median(sizes, axis=0).tolist()))
    bench = _Bench(parts, pairs, options.device)
    with exact_batches(1):
        laps = [bench.lap(number, 1, from_files=True) for number in range(warm_up + repeats)][warm_up:]
        inputs = bench.inputs(warm_up + repeats, 1)
        flops = count_flops(lambda: bench.compute(*inputs))
    throughput = _measure_throughput(bench, batch_size)
    after = resident_memory(peak=True)
    if "prepare" in parts:
        prepared = parts["prepare"](pairset.pixels(pairs[0][0]))
    if isinstance(prepared, Mapping):
        prepared = prepared.get("pixel_values", next(iter(prepared.values())))
    return Timing(
        model=ModelRecord(name=model.name, fingerprint=model.fingerprint, kind=model.kind),
        machine=this_machine(options.device),
        device=options.device,
        dtype=options.dtype,
        benchmark=benchmark,
        pairs=len(pairs),
        image_size=height_and_width,
        input_shape=None if prepared is None else tuple(map(int, prepared.shape)),
        repeats=repeats,
        warm_up=warm_up,
        batches=BATCHES,
        latency=_summarise_duration([sum(lap.values()) for lap in laps]),
        parts={part: _summarise_duration([lap[part] for lap in laps]) for part in PARTS if part in laps[0]},
        throughput=throughput,
        parameters=model.parameters if isinstance(model, Weighed) else None,
        flops=flops,
        peak_memory=None if before is None or after is None else max(0, after - before),
        peak_device_memory=device_peak(options.device),
        notes=notes,
    )


def _list_parts(model: Model) -> tuple[dict[str, Callable[..., Any]], tuple[str, ...]]:
    """Return the functions by which a model computes a pair, by the names of `PARTS`, and notes on them."""
    parts: dict[str, Callable[..., Any]]
    notes = "what it does to an image first (resizing, scaling) is in the part that reads it"
    match model:
        case KeyReader():

            def score_items(_images: object, texts: Sequence[str]) -> list[Any]:
                return [model.score_item(Item(id="pair", images=("image.png",), texts=(text,))) for text in texts]

            return {"cross": score_items}, ()
        case TextScorer():
            return {"text": model.score_texts}, ()
        case DualEncoder():
            parts = {"image": model.encode_images, "text": model.encode_texts, "cross": model.similarity}
        case FusionScorer(encoder=encoder):
            # Not by `score_pairs`, which remembers the halves that it has computed.
            parts = {"image": encoder.encode_images, "text": encoder.encode_texts, "cross": encoder.score_states}
            notes = encoder.left_out
        case PairScorer():
            parts = {"cross": model.score_pairs}
        case Generator():
            parts = {"cross": model.log_likelihoods}
        case _:
            raise ModelError(
                f"model {model.name!r} scores no pairs in this reading, so none can be timed; name another"
            )
    if isinstance(model, ImagePreparer):
        return parts | {"prepare": model.prepare_image}, (notes,) if isinstance(model, FusionScorer) and notes else ()
    return parts, (notes,) if notes else ()


def _pick_pairs(pairset: PairSet, count: int, reads_images: bool) -> list[tuple[str, str]]:
    """Return true pairs, spread evenly over the set, of as many different images."""
    true: dict[str, str] = {}
    for item in pairset.items:
        for image, text in zip(item.images, item.texts, strict=False):  # of 1xm and nx1 the first of each
            true.setdefault(image, text)
    pairs = [list(true.items())[position] for position in chosen(len(true), str(count))]
    if not reads_images:
        return pairs
    if films := [image for image, _ in pairs if is_video(image)]:
        raise DataError(f"{pairset.name}: {films[0]!r} is a video, and pictures alone are timed; name a set of those")
    different = {pixel_hash(pairset.pixels(image)): (image, text) for image, text in pairs}
    if len(different) < 2:
        raise DataError(
            f"{pairset.name} has one image only; timing needs two, for some models remember the last one that they saw"
        )
    return list(different.values())


def _measure_throughput(bench: _Bench, size: int) -> Throughput:
    try:
        with exact_batches(size):
            laps = [bench.lap(batch * size, size, from_files=False) for batch in range(1 + BATCHES)][1:]
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported for this
            raise
        raise ModelError(
            f"a batch of {size} is too much for the device's memory; give a smaller batch_size="
        ) from error

    def rate(*parts: str) -> float | None:
        if not all(part in laps[0] for part in parts):
            return None
        return float(size / np.median([sum(lap[part] for part in parts) for lap in laps]))

    pairs = rate(*laps[0]) if "cross" in bench.parts else None
    return Throughput(batch_size=size, images=rate("image"), texts=rate("text"), pairs=pairs)


def _summarise_duration(seconds: Sequence[float]) -> Duration:
    low, median, high = np.percentile(seconds, [5, 50, 95]).tolist()
    return Duration(median=median, low=low, high=high)
