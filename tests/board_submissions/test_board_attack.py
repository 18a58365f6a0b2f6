"""The board's measurement under attack, in its short form: the command itself, with a real server and readers."""

import json
import os
from pathlib import Path

import pytest

from scripts import run_python

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
def test_a_board_under_attack_loses_nothing(tmp_path):
    """That its first page is never older than 30 s is measured alone, on an idle machine: the record below."""
    options: dict[str, object] = {"--seconds": 20, "--files": 4, "--readers": 20, "--locked": 2, "--oldest": 600}
    options["--out"] = tmp_path / "found.json"
    words = [word for option in options.items() for word in option]
    run_python(BENCH / "board_attack.py", *words, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["missed"] == [] and found["files_lost"] == 0
    assert found["servers_killed"] == 1 and found["measuring_processes_killed"] >= 1
    assert found["readers"]["connections_cut"] > 0  # the server was down for a moment, and they noticed


def test_the_records_of_the_attack_missed_nothing_and_separate_no_labels():
    found = json.loads((BENCH / "records" / "board_attack.json").read_text())
    assert (found["command"], found["missed"]) == ("python bench/board_attack.py", [])
    assert found["oldest_first_page_seconds"] <= 30
    assert (found["seconds"], found["files_acknowledged"], found["readers"]["readers"]) == (300, 50, 200)
    found = json.loads((BENCH / "records" / "board_clock.json").read_text())
    assert (found["command"], found["missed"]) == ("python bench/board_attack.py --clock", [])
    for size in ("300 pairs", "4000 pairs"):
        assert found[size]["targets"] == 24 and found[size]["private"] > 5
        assert max(found[size][f"best_split_{name}"] for name in ("processor", "answer")) <= found[size]["by_chance"]
