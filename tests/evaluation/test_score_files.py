"""Score files of one system: which join a run folder, and which are refused because they are of something else."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tellapart as ta
from facts import raises
from tellapart.data.scores import Scores
from tellapart.errors import RunError
from tellapart.evaluation.run import run_scores
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import write_scores
from tellapart.report.image_sources import ImageSources


def scores_of(folder: Path, path: Path, seed: int = 0) -> Path:
    """Write random scores of a set's items."""
    ids = tuple(json.loads(line)["id"] for line in (folder / "pairs.jsonl").read_text().splitlines())
    values = np.random.default_rng(seed).random((len(ids), 2, 2), dtype=np.float32)
    write_scores(Scores(ids, values, "similarity"), path)
    return path


def test_several_files_without_a_name_are_of_nobody(made_set, tmp_path):
    names = [made_set(name, seed=seed) for seed, name in enumerate(("first", "second"))]
    files = {f"folder:{one}": scores_of(one, tmp_path / f"{one.name}.npz") for one in names}
    with raises(RunError, "name="):
        run_scores(files, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert read_result(run_scores(files, tmp_path / "run", name="mine")).model.name == "mine"


def test_the_same_file_again_changes_nothing_and_another_file_or_set_is_refused(made_set, tmp_path):
    folder, out = made_set(), tmp_path / "run"
    file, other = scores_of(folder, tmp_path / "a.npz"), scores_of(folder, tmp_path / "b.npz", 1)
    run_scores({f"folder:{folder}": file}, out, name="mine")
    before = (out / "results.json").read_bytes()
    run_scores({f"folder:{folder}": file}, out, name="mine")
    assert (out / "results.json").read_bytes() == before
    with raises(RunError, "a.npz", "out="):
        run_scores({f"folder:{folder}": other}, out, name="mine")
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    (folder / "pairs.jsonl").write_text("\n".join(lines[:-1]))
    with raises(RunError, "out=", "run"):
        run_scores({f"folder:{folder}": scores_of(folder, file)}, out, name="mine")


def test_pairs_in_memory_are_scored_wherever_their_folder_lies(made_set, tmp_path):
    folder = made_set()  # not below the working directory
    path = scores_of(folder, tmp_path / "a.npz")
    named = ta.score(f"folder:{folder}", path, out=tmp_path / "named")
    held = ta.score(ta.read_pair_set(folder), path, out=tmp_path / "held")
    assert held.result().benchmarks.keys() == named.result().benchmarks.keys()
    assert held.value("group_score") == named.value("group_score")
    read = ImageSources.of(held.folder, held.result(), f"folder:{folder.name}").reader()
    assert read is not None and read(ta.read_pair_set(folder).items[0].images[0])


def test_progress_of_scores_is_that_of_their_intervals(made_set, tmp_path):
    folder, seen = made_set(), []
    file = scores_of(folder, tmp_path / "mine.npz")

    def report(title: str) -> Callable[..., None]:
        return lambda stage, done, total: seen.append((title, stage, 0 <= done < total))

    ta.score(f"folder:{folder}", file, out=tmp_path / "run", progress=report)
    assert {*seen} == {(f"mine on folder:{folder.name}", "intervals", True)}
