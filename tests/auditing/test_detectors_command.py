"""`tellapart detect`: what it prints, writes and refuses."""

from pathlib import Path

import pytest

from tellapart.auditing.origin import Detection


@pytest.mark.slow
def test_it_prints_accuracies_and_the_game_and_writes_the_same_record(command, made_set):
    folder = made_set(n=24)
    done = command("detect", folder, "-m", "demo-encoder", "--folds", 4, "--out", "detection.json", code=0)
    assert "24 items, 24 clusters; heads on demo-encoder, fitted on the other 3 of 4 folds" in done.out
    assert all(name in done.out for name in ("image_accuracy", "text_accuracy", "group_score"))
    written = Detection.model_validate_json(Path("detection.json").read_text())
    again = command("detect", f"folder:{folder}", "-m", "demo-encoder", "--folds", 4, "--json")
    assert Detection.model_validate(again.json) == written


@pytest.mark.parametrize("kinds", [("JPEG", "PNG"), ("PNG", "PNG"), ("JPEG", "JPEG")])
def test_the_format_of_the_bytes_alone_is_measured_whatever_its_name(command, made_set, kinds):
    from PIL import Image

    folder = made_set(n=20)
    for path in (folder / "images").iterdir():  # all of them are named .png
        Image.open(path).copy().save(path, kinds[path.stem.endswith("_1")])
    done = command("detect", folder, "-m", "demo-encoder", "--folds", 2, "--out", "detection.json", code=0)
    written = Detection.model_validate_json(Path("detection.json").read_text())
    (first, second), apart = kinds, kinds[0] != kinds[1]
    assert written.formats == ({first: (20, 0), second: (0, 20)} if apart else {first: (20, 20)})
    assert written.scores["format_accuracy"].value == (1.0 if apart else 0.5)
    said = " ".join(done.out.split())
    assert ("format alone separates" in said) == apart
    assert not apart or "JPEG 20 and 0; PNG 0 and 20" in said


def test_the_format_is_judged_on_the_measured_set_alone(command, made_set):
    from PIL import Image

    here, there = made_set("here", n=8, seed=1), made_set("there", n=16, seed=2)
    for path in (here / "images").glob("*_1.png"):
        Image.open(path).copy().save(path, "WEBP")
    done = command("detect", here, "-m", "demo-encoder", "--trained-on", there, "--out", "detection.json", code=0)
    assert "heads on demo-encoder, fitted on folder:there" in " ".join(done.out.split())
    score = Detection.model_validate_json(Path("detection.json").read_text()).scores["format_accuracy"]
    assert score.value == 1
