"""`tellapart detect`: what it prints, writes and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tellapart.auditing.origin import Detection
from tellapart.cli.main import app


@pytest.fixture
def ran(tmp_path, monkeypatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["detect", *map(str, arguments), "--cache", "cache"])


@pytest.mark.slow
def test_it_prints_accuracies_and_the_game_and_writes_the_same_record(ran, made_set):
    folder = made_set(n=24)
    done = ran(folder, "-m", "demo-encoder", "--folds", 4, "--out", "detection.json")
    assert done.exit_code == 0, done.output
    assert "24 items, 24 clusters; heads on demo-encoder, fitted on the other 3 of 4 folds" in done.output
    assert all(name in done.output for name in ("image_accuracy", "text_accuracy", "group_score"))
    written = Detection.model_validate_json(Path("detection.json").read_text())
    again = ran(f"folder:{folder}", "-m", "demo-encoder", "--folds", 4, "--json")
    assert Detection.model_validate(json.loads(again.stdout)) == written


@pytest.mark.parametrize("kinds", [("JPEG", "PNG"), ("PNG", "PNG"), ("JPEG", "JPEG")])
def test_the_format_of_the_bytes_alone_is_measured_whatever_its_name(ran, made_set, kinds):
    from PIL import Image

    folder = made_set(n=20)
    for path in (folder / "images").iterdir():  # all of them are named .png
        Image.open(path).copy().save(path, kinds[path.stem.endswith("_1")])
    done = ran(folder, "-m", "demo-encoder", "--folds", 2, "--out", "detection.json")
    assert done.exit_code == 0, done.output
    written = Detection.model_validate_json(Path("detection.json").read_text())
    (first, second), apart = kinds, kinds[0] != kinds[1]
    assert written.formats == ({first: (20, 0), second: (0, 20)} if apart else {first: (20, 20)})
    assert written.scores["format_accuracy"].value == (1.0 if apart else 0.5)
    said = " ".join(done.output.split())
    assert ("format alone separates" in said) == apart
    assert not apart or "JPEG 20 and 0; PNG 0 and 20" in said


def test_the_format_is_judged_on_the_measured_set_alone(ran, made_set):
    from PIL import Image

    here, there = made_set("here", n=8, seed=1), made_set("there", n=16, seed=2)
    for path in (here / "images").glob("*_1.png"):
        Image.open(path).copy().save(path, "WEBP")
    done = ran(here, "-m", "demo-encoder", "--trained-on", there, "--out", "detection.json")
    assert done.exit_code == 0, done.output
    assert "heads on demo-encoder, fitted on folder:there" in " ".join(done.output.split())
    score = Detection.model_validate_json(Path("detection.json").read_text()).scores["format_accuracy"]
    assert score.value == 1
