"""The interface in eight lines, in a script of its own: what a reader of the first page types must run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import UnknownNameError

ROOT = Path(__file__).parents[2]

SCRIPT = Path(__file__).with_name("eight_lines.py")


@pytest.mark.slow
def test_the_eight_lines_run_in_a_script_without_torch(tmp_path: Path) -> None:
    environment = {**os.environ, "TELLAPART_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["torch"] is False
    assert said["models"] == ["light", "random"]
    assert said["group_score"] == pytest.approx(2 / 3)
    assert said["scored"] == 60
    assert said["built"] >= 1


def test_a_run_stands_for_its_folder(tmp_path: Path) -> None:
    run = ta.evaluate(["demo-encoder", "constant"], "demo", limit=10, out=tmp_path / "run")
    assert ta.table(run) == ta.table([tmp_path / "run"])
    assert ta.open_run(run).models == run.models


def test_a_format_that_is_none_is_one_sentence() -> None:
    run = ta.evaluate("oracle", "demo", limit=4)
    with raises(UnknownNameError, "'latx'", "'latex'"):
        ta.table(run, "latx")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_eight_lines_run_in_a_notebook_and_train_there(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("accelerate")
    from training_sets import table, toml

    (tmp_path / "config.toml").write_text(toml(table(tmp_path)))
    cells = [*SCRIPT.read_text().split("\n\n\n"), 'trained = ta.train("config.toml", "runs/trained")\ntrained', "run"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    environment = {**os.environ, "TELLAPART_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT / "src")}
    environment["IPYTHONDIR"] = str(tmp_path / "ipython")
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    asyncio.run(client.async_execute(env=environment))  # `execute` leaves its event loop open
    assert "<table>" in notebook.cells[-1].outputs[0]["data"]["text/html"]
    assert (tmp_path / "runs" / "trained" / "report.html").is_file()
