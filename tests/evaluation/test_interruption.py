"""A run that is cut off, however rudely, goes on where it was and ends in the same numbers."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts
from tellapart.evaluation.run import Settings, run
from tellapart.models.store.embedding_store import EmbeddingStore

ITEMS, BATCH = 12, 4


@pytest.fixture
def started(made_set, start) -> Callable[..., subprocess.Popen[str]]:
    """Start a run of `slow` and `random` on two pair sets."""
    names = [f"-bfolder:{made_set(name, n=ITEMS, seed=seed)}" for seed, name in enumerate(("first", "second"))]

    def run(out: Path, *, seconds: float) -> subprocess.Popen[str]:
        options = ("--batch-size", BATCH, "--out", out, "--cache", out.with_suffix(".cache"))
        return start("run", "-m", "slow", "-m", "random", *names, *options, TEST_SECONDS_PER_BATCH=str(seconds))

    return run


def wait_for(process: subprocess.Popen[str], batches: int) -> None:
    for _ in range(batches):
        assert process.stderr.readline() == "encoding\n"


def numbers(out: Path) -> dict[str, Any]:
    record = json.loads((out / "results.json").read_text())
    blank = {"seconds": 0, "images_encoded": 0, "texts_encoded": 0, "texts_shared": 0}
    return {name: {**result, **blank} for name, result in record["benchmarks"].items()}


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_cut_off_goes_on_where_it_was(started, tmp_path, how):
    out, whole = tmp_path / "cut", tmp_path / "whole"
    batches = ITEMS * 2 // BATCH  # of each of the two sets
    process = started(out, seconds=0.15)
    wait_for(process, batches + 3)  # in the midst of the second set
    process.send_signal(how)
    printed, said = process.communicate(timeout=30)
    assert printed == ""
    if how is signal.SIGINT:
        assert process.returncode == 130
        check_facts(said, "2", out, f"{out.with_suffix('.cache')}/store.sqlite", "tellapart run -m slow")
        assert f"--out {out}" in said
        assert "Traceback" not in said
    else:
        assert process.returncode == -how

    cut = json.loads((out / "results.json").read_text())  # valid, and complete up to the last benchmark
    assert [name.rsplit("/", 1)[-1] for name in cut["benchmarks"]] == ["folder:first"]
    first = next(iter(cut["benchmarks"].values()))
    samples = {path: path.stat().st_mtime_ns for path in (out / "samples").iterdir()}

    again = started(out, seconds=0)
    printed, said = again.communicate(timeout=60)
    assert again.returncode == 0
    # Two batches of the second set were done and the third was at hand; the second may have been on its way to the
    # store.
    assert said.count("encoding") in {batches - 2, batches - 1}
    done = json.loads((out / "results.json").read_text())
    assert next(iter(done["benchmarks"].values())) == first
    assert {path: path.stat().st_mtime_ns for path in samples} == samples
    assert printed.rstrip().endswith(f"report: {out}/report.html")

    sets = tuple(f"folder:{tmp_path / name}" for name in ("first", "second"))
    run(Settings(models=("slow", "random"), benchmarks=sets), whole, store=EmbeddingStore(None))
    assert numbers(out) == numbers(whole)
    assert numbers(out / "beside" / "random") == numbers(whole / "beside" / "random")
