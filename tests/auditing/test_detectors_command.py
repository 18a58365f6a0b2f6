"""`tellapart detect`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from facts import check_facts
from tellapart.auditing.detectors import Detection
from tellapart.cli.detect import detect_command
from tellapart.errors import DataError


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(detect_command)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments), "--cache", "cache"])


@pytest.mark.slow
def test_it_prints_accuracies_and_the_game_and_writes_the_same_record(ran: Any, made_set: Callable[..., Path]) -> None:
    folder = made_set(n=24)
    done = ran(folder, "-m", "demo-encoder", "--folds", 4, "--out", "detection.json")
    assert done.exit_code == 0, done.output
    assert "24 items, 24 clusters; heads on demo-encoder, fitted on the other 3 of 4 folds" in done.output
    assert all(name in done.output for name in ("image_accuracy", "text_accuracy", "group_score"))
    written = Detection.model_validate_json(Path("detection.json").read_text())
    again = ran(f"folder:{folder}", "-m", "demo-encoder", "--folds", 4, "--json")
    assert Detection.model_validate(json.loads(again.stdout)) == written


def test_another_set_to_fit_on_is_named(ran: Any, made_set: Callable[..., Path]) -> None:
    here, there = made_set("here", n=8, seed=1), made_set("there", n=16, seed=2)
    done = ran(here, "-m", "demo-encoder", "--trained-on", there)
    assert done.exit_code == 0, done.output
    assert "heads on demo-encoder, fitted on folder:there" in " ".join(done.output.split())


def test_a_set_of_another_shape_is_refused(ran: Any, made_set: Callable[..., Path]) -> None:
    done = ran(made_set(shape=(1, 2)), "-m", "demo-encoder")
    assert isinstance(done.exception, DataError)
    check_facts(str(done.exception), "2", "2", "images")
