"""A run that is cut off goes on and ends in the same numbers; one process at a time writes into its folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart import EmbeddingStore, read_result
from tellapart.benchmarks.find import load_pairs
from tellapart.errors import RunError
from tellapart.evaluation.run import Settings, run, run_record, run_scores, take_up
from tellapart.records.result import ModelRecord
from tellapart.records.run_folder import beside

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
    assert next(iter(json.loads((out / "results.json").read_text())["benchmarks"].values())) == first
    assert {path: path.stat().st_mtime_ns for path in samples} == samples
    assert printed.rstrip().endswith(f"report: {out}/report.html")

    sets = tuple(f"folder:{tmp_path / name}" for name in ("first", "second"))
    run(Settings(models=("slow", "random"), benchmarks=sets), whole, store=EmbeddingStore(None))
    assert numbers(out) == numbers(whole)
    assert numbers(out / "beside" / "random") == numbers(whole / "beside" / "random")


RECORD = run_record(Path(), seed=0, command="")
MODEL = ModelRecord(name="m", fingerprint="f")

HOLDS = """
import sys
from pathlib import Path
from tellapart.evaluation.run import run_record, take_up
from tellapart.records.result import ModelRecord
with take_up(Path(sys.argv[1]), ModelRecord(name="other"), run_record(Path(), seed=0, command="")):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold a run folder."""
    command = [sys.executable, "-c", HOLDS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def measure(folder: Path, *models: str) -> None:
    run(Settings(models=models, limit="4"), folder, store=EmbeddingStore(None))


@pytest.mark.slow
def test_a_folder_that_another_process_writes_is_refused_with_its_id_until_that_is_killed(tmp_path):
    out, scores = tmp_path / "run", tmp_path / "mine.jsonl"
    places = [(item.id, i, t) for item in load_pairs("demo").items for i in range(2) for t in range(2)]
    rows = [f'{{"label": "{name}_c{t}_i{i}", "score": {i == t:d}}}' for name, i, t in places]
    scores.write_text("\n".join(rows))
    with another_process(out) as process:
        with raises(RunError, process.pid, out, "out="):
            measure(out, "oracle")
        with raises(RunError, "run", "writing"):
            run_scores({"demo": scores}, out)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (out / ".lock").exists()
    measure(out, "oracle")
    assert sorted(each.name for each in out.iterdir()) == ["results.json", "samples"]
    assert read_result(out).model.name == "oracle"


def test_a_folder_is_taken_up_in_turn_and_gone_again_if_nothing_was_written_also_beside_another(tmp_path):
    with pytest.raises(ZeroDivisionError), take_up(tmp_path / "a" / "b", MODEL, RECORD):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    with take_up(tmp_path / "a" / "b", MODEL, RECORD):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    for _ in range(2):
        with take_up(tmp_path / "run", MODEL, RECORD) as result:
            assert result.model == MODEL
            with raises(RunError, os.getpid(), "run"), take_up(tmp_path / "run", MODEL, RECORD):
                pass
    with another_process(beside(tmp_path / "run", "random")), raises(RunError, "writing", "run"):
        measure(tmp_path / "run", "oracle", "random")


STARTS = """
import sys
from pathlib import Path
from tellapart.evaluation.run import Settings, run
from tellapart.errors import RunError
from tellapart.models.store.embedding_store import EmbeddingStore
sys.stdin.readline()
try:
    run(Settings(models=(sys.argv[2],), limit="40"), Path(sys.argv[1]), store=EmbeddingStore(None))
except RunError as error:
    sys.exit(str(error))
"""


@pytest.mark.slow
def test_of_two_runs_of_different_models_at_once_one_is_refused(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = {
        model: subprocess.Popen([sys.executable, "-c", STARTS, str(tmp_path / "run"), model], **pipes)
        for model in ("oracle", "random")
    }
    for process in runs.values():
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = {model: process.communicate(timeout=120)[1] for model, process in runs.items()}
    assert sorted(process.returncode for process in runs.values()) == [0, 1], errors
    (winner,) = (model for model, process in runs.items() if process.returncode == 0)
    assert read_result(tmp_path / "run").model.name == winner
    (refusal,) = (error for error in errors.values() if error)
    assert "is writing its run into" in refusal or "holds another run" in refusal
