"""A user has three prediction files of one system: one row, one table, one LaTeX file, one row of the board."""

import json
from pathlib import Path

import numpy as np
import pytest

from facts import check_facts
from tellapart import find_benchmark, read_result
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.board.records import Board, BoardSettings


def write_scores(path: Path, ids: list[str], shape: tuple[int, int], seed: int) -> Path:
    """Scores of a system that is right more often than chance."""
    values = np.random.default_rng(seed).normal(size=(len(ids), *shape)).astype(np.float32)
    values[:, 0, 0] += 1
    np.savez(path, ids=np.array(ids), scores=values, kind="similarity")
    return path


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    """SugarCrepe's annotations, made to its published size, and files of scores of three benchmarks."""
    folder = tmp_path / "data" / "sugarcrepe"
    folder.mkdir(parents=True)
    ids = []
    for subset, published in SUBSETS.items():
        texts = ((f"{k}", f"a cat {k}", f"a dog {k}") for k in range(published[0]))
        rows = {k: {"filename": f"{k}.jpg", "caption": true, "negative_caption": false} for k, true, false in texts}
        (folder / f"{subset}.json").write_text(json.dumps(rows))
        ids += [f"{subset}/{k}" for k in rows]
    bivlc, winoground = find_benchmark("bivlc").outline(), find_benchmark("winoground").outline()
    return {
        "sugarcrepe": write_scores(tmp_path / "sc.npz", ids, (1, 2), 0),
        "bivlc": write_scores(tmp_path / "bv.npz", list(bivlc.ids), (2, 2), 1),
        "winoground": write_scores(tmp_path / "wg.npz", list(winoground.ids), (2, 2), 2),
    }


@pytest.mark.slow
def test_three_files_of_one_system_are_one_row_everywhere(command, files):
    sugarcrepe, *others = (("--scores", f"{name}={path}") for name, path in files.items())
    data = ("--data", "data", "--name", "mine", "--out", "runs/mine")
    command("score", *sugarcrepe, *data, code=0)
    command("score", *others[0], *others[1], *data, code=0)  # a later command adds to the same system
    record = read_result(Path("runs/mine"))
    assert list(record.benchmarks) == ["sugarcrepe", "bivlc", "winoground"]
    assert (record.model.name, record.model.fingerprint, record.model.kind) == ("mine", "", None)
    assert all(part.file and len(part.file.sha256) == 64 for part in record.benchmarks.values())
    rows = [line for line in command("table", "runs/mine", code=0).out.splitlines() if line.startswith("|")]
    heads = ["model", "sugarcrepe choice score", "bivlc group score", "winoground group score"]
    assert [cell.strip() for cell in rows[0].strip("| ").split("|")] == heads
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["mine", "chance"] and "–" not in rows[2]
    latex = command("table", "runs/mine", "--latex", "--out", "table.tex")
    assert latex.code == 0 and Path("table.tex").read_text().count("mine & ") == 1
    board = Board(BoardSettings(runs=(Path("runs"),)))
    board.read_in(print)
    (model,) = board.tables.models.values()
    assert (model.label, len(board.tables.entries)) == ("mine", 3)


@pytest.mark.slow
def test_files_in_three_run_folders_are_one_system_still(command, files):
    for name, path in files.items():
        command("score", name, "--scores", path, "--data", "data", "--name", "mine", "--out", f"runs/{name}", code=0)
    table = command("table", "runs/bivlc", "runs/winoground", "runs/sugarcrepe")
    assert table.out.count("| mine |") == 1 and "| mine (" not in table.out
    board = Board(BoardSettings(runs=(Path("runs"),)))
    board.read_in(print)
    assert [model.label for model in board.tables.models.values()] == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scores", "wg.npz"), ("--scores wg.npz", "BENCHMARK=FILE")),
        (("--scores", "winoground=wg.npz", "--scores", "winoground=wg.npz"), ("--scores winoground=", "twice")),
        (("--scores", "winoground=wg.npz", "--scores", "bivlc=bv.npz"), "--name"),
        (("winoground", "--scores", "wg.npz", "--scores", "bv.npz"), ("2", "--scores", "BENCHMARK=FILE")),
        (("--scores", "winoground=wg.npz", "--scores", "bivlc=wg.npz", "--name", "m"), "wg.npz"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_written(command, files, tmp_path, arguments, said):
    check_facts(command("score", *arguments, "--out", "runs/mine", code=2).err, said)
    assert not (tmp_path / "runs").exists()


def test_the_files_name_may_not_stand_for_another_system(command, files):
    assert command("score", "winoground", "--scores", files["winoground"], "--out", "runs/mine").code == 0
    refused = command("score", "bivlc", "--scores", files["bivlc"], "--out", "runs/mine", code=2)
    check_facts(refused.err, "wg", "bv")
    check_facts(refused.err, "model", "--name", "'wg'")
