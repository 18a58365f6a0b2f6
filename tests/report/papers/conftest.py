"""Runs on disk, as `tellapart run` leaves them: made with the real metrics on drawn scores."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sets import write_file
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples

#: VLUE Tables 2 and 4: model -> NLVR2 and VQA out of domain, performance, milliseconds a pair (with object detection).
VLUE = {
    "ViLBERT": (66.53, 48.38, 57.46, 152.16),
    "LXMERT": (65.24, 46.18, 55.71, 154.36),
    "UNITER": (66.60, 47.79, 57.20, 157.39),
    "VL-T5": (73.84, 46.31, 60.08, 164.51),
    "ALBEF": (73.17, 51.52, 62.35, 63.50),
    "X-VLM": (74.16, 51.55, 62.86, 79.50),
    "METER": (73.47, 53.76, 63.62, 64.80),
}


@pytest.fixture
def save(tmp_path, make_run) -> Callable[..., Path]:
    """Make a run and write it: `save("strong", skill=2.0, seed=1, ...)`; returns its folder."""

    def write(model: str, **plan) -> Path:
        run = make_run(model=model, **plan)
        folder = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        write_result(folder, run.result)
        for benchmark, samples in run.samples.items():
            write_samples(folder, benchmark, samples)
        return folder

    return write


@pytest.fixture
def save_eqben(save) -> Callable[..., Path]:
    """Write a run of EqBen with all its subsets."""
    subsets = ("youcook2", "gebc", "ag", "kubric_location", "kubric_attribute", "kubric_counting", "sd")
    return partial(save, benchmark="eqben", tags=[{"subset": value} for value in subsets], n=70)


@pytest.fixture
def pair(save) -> list[Path]:
    return [save("strong", skill=2.5, seed=1, n=60), save("weak", skill=0.2, seed=2, n=60)]


@pytest.fixture
def publish(tmp_path) -> Callable[..., Path]:
    """Write published numbers as a record: `publish("METER", {("nlvr2", "accuracy"): 0.73})` returns its folder."""

    def write(model: str, numbers: dict[tuple[str, str], float], task: str = "pairs", fingerprint: str = "0") -> Path:
        folder = tmp_path / f"published-{len(list(tmp_path.glob('published-*')))}"
        metrics: dict[str, dict[str, Value]] = {}
        for (benchmark, metric), number in numbers.items():
            value = Value(value=number, method="published", n=100, clusters=100, average="micro: items")
            metrics.setdefault(benchmark, {})[metric] = value
        benchmarks = {
            name: BenchmarkResult(title=name, fingerprint=name, task=task, metrics=own, origin=name)
            for name, own in metrics.items()
        }
        run = RunRecord(started="2026-11-21T07:00:00+00:00", seed=0, versions={}, command="published")
        named = ModelRecord(name=model, fingerprint=fingerprint)
        write_result(folder, Result(run=run, model=named, benchmarks=benchmarks))
        return folder

    return write


@pytest.fixture
def vlue(publish) -> list[Path]:
    """The seven models of VLUE's Figure 2."""
    return [
        publish(model, {("vlue-nlvr2", "accuracy"): nlvr2 / 100, ("vlue-vqa", "exact_match"): vqa / 100})
        for model, (nlvr2, vqa, *_) in VLUE.items()
    ]


@pytest.fixture
def vlue_costs(tmp_path) -> Path:
    """What they cost."""
    rows = [{"model": model, "milliseconds a pair": of} for model, (*_, of) in VLUE.items()]
    return write_file(tmp_path / "costs.csv", rows)


@pytest.fixture
def vlue_published() -> dict[str, tuple[float, float, float, float]]:
    """The numbers as printed."""
    return VLUE
