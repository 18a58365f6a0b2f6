"""A dry run finds every planted mistake, names all of them at once, forecasts, and leaves nothing behind."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="training needs the extra 'train'")

from training_sets import squares, table, toml

import tellapart as ta
from facts import check_facts, find_missing, raises
from sets import write_file
from tellapart.dry_run.run import Problems
from tellapart.errors import DataError
from tellapart.training.config import DataConfig, find_faults, read_values
from tellapart.training.dry_run import DryRun, rehearse
from tellapart.training.training_run import read_sources

pytestmark = pytest.mark.usefixtures("single_thread")
#: Steps that the 24 rows carry, with a set to choose by.
RIGHT: dict[str, Any] = {
    "data": {"train": ["folder:train"], "validation": "folder:held"},
    "optimiser": {"steps": 4, "warm_up": 1},
}


class Mistake(NamedTuple):
    """A mistake: changes of the configuration, and of the folder; the facts that its problem holds."""

    facts: tuple[str, ...]
    changes: Mapping[str, Any] = MappingProxyType({})
    spoil: Callable[[Path], object] = lambda _folder: None


def write_rows(folder: Path) -> None:
    rows = [{"image": "train/images/0_0.png", "caption": "a square"}, {"image": "train/images/1_0.png", "caption": 3}]
    write_file(folder / "rows.jsonl", rows)


def spoil_picture(folder: Path) -> None:
    picture = folder / "train" / "images" / "3_0.png"
    picture.write_bytes(picture.read_bytes()[:60])


def caption_pictures(folder: Path, captions: list[str]) -> None:
    """Rows of all pictures of the set, with these captions."""
    images = (f"train/images/{path.name}" for path in sorted((folder / "train" / "images").iterdir()))
    rows = [{"image": image, "caption": caption} for image, caption in zip(images, captions, strict=True)]
    write_file(folder / "rows.jsonl", rows)


def replace_pictures(folder: Path) -> None:
    """Every second picture is not there, and a placeholder in its place, under its name."""
    images = sorted((folder / "train" / "images").iterdir())
    for image in images[2:24:2]:
        image.write_bytes(images[0].read_bytes())
    images[3].write_bytes(images[0].read_bytes())
    caption_pictures(folder, [f"square {k}" for k in range(24)])


MISTAKES = {
    "a key is misspelt": Mistake(("'learning_rat'", "'learning_rate'"), {"optimiser": {"learning_rat": 1.0}}),
    "a value is out of range": Mistake(("[batch]", "'size'", "1"), {"batch": {"size": 1}}),
    "a needed table is missing": Mistake(("'batch'",), {"batch": None}),
    "the loss is unknown": Mistake(("'eqsin'", "'eqsim'"), {"loss": {"name": "eqsin"}}),
    "an option of the loss is out of range": Mistake(("alpha", "-1.0"), {"loss": {"name": "eqsim", "alpha": -1.0}}),
    "a source is missing": Mistake(("elsewhere",), {"data": {"train": ["folder:train", "folder:elsewhere"]}}),
    "a picture is missing": Mistake(
        ("'images/2_1.png'", "1 rows"), spoil=lambda f: (f / "train/images/2_1.png").unlink()
    ),
    "a picture is damaged": Mistake(("3_0.png", "1 rows"), spoil=spoil_picture),
    "a row is malformed": Mistake(
        ("rows.jsonl:2", "'caption'", "3"), {"data": {"train": ["folder:train", "rows.jsonl"]}}, write_rows
    ),
    "a recipe is not built": Mistake(
        ("recipe:few.toml", "tellapart build"),
        {"data": {"train": ["folder:train", "recipe:few.toml"]}},
        lambda f: (f / "few.toml").write_text('name = "few"\nbuilder = "scenes"\n[options]\nitems = {counting = 3}\n'),
    ),
    "a reported set is unknown": Mistake(("'sugarcrape'",), {"report": {"benchmarks": ["sugarcrape"]}}),
    "pictures are reported on": Mistake(("24 training images", "/train"), {"report": {"benchmarks": ["folder:train"]}}),
    "weights are chosen on a reported set": Mistake(
        ("data.validation", "report.benchmarks"), {"report": {"benchmarks": ["folder:held"]}}
    ),
    "weights are chosen by training pictures": Mistake(
        ("data.validation", "24 training images"), {"data": {"validation": "folder:train"}}
    ),
    "one caption is that of most pictures": Mistake(
        ("data.train", "'a square'", "20 of 24 pictures"),
        {"data": {"train": ["rows.jsonl"]}},
        lambda f: caption_pictures(f, ["a square"] * 20 + [f"square {k}" for k in range(4)]),
    ),
    "captions differ after the cut": Mistake(
        ("data.train", "24 captions"),
        {"data": {"train": ["rows.jsonl"]}},
        lambda f: caption_pictures(f, ["a square and " * 12 + str(k) for k in range(24)]),
    ),
    "pictures are placeholders": Mistake(
        ("data.train", "13 different captions", "0_0.png", "1 at most"),
        {"data": {"train": ["rows.jsonl"]}},
        replace_pictures,
    ),
    "the start is missing": Mistake(("elsewhere",), {"model": "local-dir:elsewhere"}),
    "a batch is larger than the data": Mistake(("24 rows", "64 pairs", "batch.size"), {"batch": {"size": 64}}),
    "a rate is of no weight": Mistake(("optimiser.groups", "'*norm9*'"), {"optimiser": {'groups."*norm9*"': 2.0}}),
    "a dropout is of no part": Mistake(("dropout", "'*norm9*'"), {"dropout": {'"*norm9*"': 0.5}}),
    "a row lacks what the loss reads": Mistake(
        ("'trohn-img'", "hard counterpart"),
        {"loss": {"name": "trohn-img"}, "data": {"train": ["rows.jsonl"]}, "batch": {"size": 2}},
        lambda f: write_file(
            f / "rows.jsonl", [{"image": f"train/images/{k}_0.png", "caption": f"{k}"} for k in range(8)]
        ),
    ),
    "the folder is taken": Mistake(
        ("run", "holds something"), spoil=lambda f: (f / "run").mkdir() or (f / "run" / "a.txt").write_text("a")
    ),
    "training diverges": Mistake(
        ("tried steps", "not finite"), {"optimiser": {"learning_rate": 1e30, "max_scale": 1e30}}
    ),
    "the warm-up is longer than the run": Mistake(("optimiser.warm_up", "9", "4 steps"), {"optimiser": {"warm_up": 9}}),
    "the schedule is longer than the data": Mistake(
        ("optimiser.steps", "200 steps", "66.7 times", "30"), {"optimiser": {"steps": 200}}
    ),
    "the validation set is measured once": Mistake(("validation.every", "4 steps"), {"validation": {"every": 500}}),
    "patience is lost on few items": Mistake(
        ("validation.patience", "3 validation items"), {"validation": {"patience": 1}}
    ),
    "a term of the loss is idle": Mistake(("v1", "4 steps", "loss.alpha"), {"loss": {"name": "eqsim", "alpha": 0.99}}),
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes a configuration that is right, but for its changes."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    squares(tmp_path / "held", 3, seed=5)

    def write_config(**changes):
        values = table(tmp_path, **RIGHT)
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) and key != "loss" else value
        path = tmp_path / "train.toml"
        path.write_text(toml({key: value for key, value in values.items() if value is not None}))
        return path

    return write_config


def try_run(path: Path) -> DryRun:
    """A dry run; it must leave the folder as it was."""
    before, done = sorted(path.parent.rglob("*")), rehearse(path, path.parent / "run", seconds=60.0)
    assert sorted(path.parent.rglob("*")) == before
    return done


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.few(12)
def test_a_mistake_is_found_and_named(name, write, tmp_path):
    mistake = MISTAKES[name]
    path = write(**mistake.changes)
    mistake.spoil(tmp_path)
    done = try_run(path)
    assert not done.passed
    assert any(not find_missing(problem, *mistake.facts) for problem in done.problems), done.problems


def test_mistakes_are_shown_at_once(write, tmp_path, command):
    shutil.copytree(tmp_path / "train", tmp_path / "same")
    wrong = {"learning_rat": 1.0, "learning_rate": -1.0}
    path = write(optimiser=wrong, batch={"size": 1}, report={"benchmarks": ["folder:same"]})
    for name in ("2_1", "3_0"):
        (tmp_path / "train" / "images" / f"{name}.png").unlink()
    ran = command("train", path, "--out", tmp_path / "run", "--dry-run")
    assert (ran.code, (tmp_path / "run").exists()) == (1, False)
    check_facts(ran.out, "'learning_rat'", "-1.0", "[batch]", "3 to mend", "before the configuration is mended")
    again = command("train", write(report={"benchmarks": ["folder:same"]}), "--out", tmp_path / "run", "--dry-run")
    check_facts(again.out, "2_1.png", "3_0.png", "22 training images", "--allow-leak", "2 to mend")


def test_the_decoded_images_are_those_of_the_rows_that_train(write):
    path = write(model="local-dir:elsewhere")  # nothing is trained
    path.write_text(path.read_text().replace('validation = "folder:held"', "share = 0.75"))
    data = try_run(path).data
    assert data is not None and 0 < data["rows"] == data["images"] == data["decoded"] < 24


def test_the_plan_of_a_right_run(write, tmp_path, command):
    squares(tmp_path / "reported", 9, seed=6)
    path = write(report={"benchmarks": ["folder:reported"], "alphas": [0.5]}, optimiser={'groups."*visual*"': 0.0})
    ran = command("train", path, "--out", tmp_path / "run", "--dry-run", "--json")
    plan = json.loads(ran.out)
    assert (ran.code, plan["passed"], plan["problems"]) == (0, True, []), ran.err
    assert [plan["data"][key] for key in ("rows", "images", "decoded", "validation")] == [24, 24, 24, 3]
    schedule, forecast = plan["schedule"], plan["forecast"]
    assert [schedule[key] for key in ("steps", "pairs", "measurements")] == [4, 8, 2]
    assert schedule["epochs"] == pytest.approx(4 / 3)
    frozen = {group["part"]: group["rate"] for group in plan["weights"]}
    assert frozen["visual"] == 0.0 and frozen["transformer"] == 1.0
    assert plan["trial"]["same"] is True and plan["trial"]["steps"] == 4
    assert 0 < forecast["seconds"]["low"] <= forecast["seconds"]["value"] <= forecast["seconds"]["high"]
    reported = f"folder:{tmp_path}/reported"
    assert {"load", "steps", "validation", "checkpoints", reported, "sweep"} <= forecast["parts"].keys()
    assert not (tmp_path / "run").exists()
    done = ta.train(path, tmp_path / "run")
    used = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert done.passed and used == pytest.approx(forecast["disk_bytes"], rel=0.25)


def test_memory_and_disk_that_do_not_suffice(write, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda _name: 10)
    usage = shutil.disk_usage(Path())
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    done = try_run(write(data={"keep_images": True}))
    check_facts("\n".join(done.problems), "data.keep_images", "24 prepared images", "1.0 kB", "disk")


def test_trackers_that_are_not_installed_are_shown_at_once(write, monkeypatch):
    for library in ("wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, library, None)
    done = try_run(write(batch={"size": 64}, log={"wandb": "pairs", "tensorboard": True}))
    check_facts(" ".join(done.problems), "batch.size", "wandb", "tensorboard")


def test_a_device_that_is_not_there_is_in_the_first_list(write, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for changes, fact in (({"batch": {"size": 1}}, "'size'"), ({"data": {"train": ["folder:elsewhere"]}}, "elsewhere")):
        problems = "\n".join(try_run(write(device="cuda", **changes)).problems)
        check_facts(problems, "device 'cuda'", "device = 'cpu'", fact)


@pytest.mark.parametrize(("typed", "missing"), [("stepz", "steps"), ("learning_rat", "learning_rate")])
def test_a_misspelt_key_is_one_problem(typed, missing, write):
    path = write()
    path.write_text(re.sub(rf"^{missing} =", f"{typed} =", path.read_text(), flags=re.MULTILINE))
    (fault,) = find_faults(read_values(path), path)
    check_facts(str(fault), "[optimiser]", repr(typed), repr(missing))
    with raises(DataError, "resume=", "against="):  # a dry run goes on with nothing
        ta.train(path, dry_run=True, resume=True)


def test_errors_of_images_name_the_lines_of_the_training_file(tmp_path):
    for image, line in (("there/a.png", 'images = "FOLDER"'), ("/there/a.png", "outside_images = true")):
        (tmp_path / "rows.csv").write_text(f"image,caption\n{image},a cup\n")
        with raises(DataError, "rows.csv:2", image, line, "[data]"):
            read_sources(DataConfig(train=["rows.csv"]), tmp_path)
        refused = Problems()
        read_sources(DataConfig(train=["rows.csv"]), tmp_path, refused.collect)
        check_facts(refused.found[0], "rows.csv:2", image, line, "[data]")


def test_rows_with_one_fault_are_one_line(write, tmp_path, command):
    rows = [f"/there/{number}.png,a cup\n" for number in range(12)]
    (tmp_path / "rows.csv").write_text("".join(["image,caption\n", *rows]))
    ran = command("train", write(data={"train": ["rows.csv"]}), "--out", tmp_path / "run", "--dry-run")
    check_facts(ran.out, "12 rows", "rows.csv:2", "'/there/0.png'", "line 3, line 4, line 5", "8 more")
    assert (ran.code, ran.out.count("/there/")) == (1, 1)
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("/there/12.png,\n")
    again = command("train", tmp_path / "train.toml", "--out", tmp_path / "run", "--dry-run", "--json")
    assert len(json.loads(again.out)["data"]["missing"]) == 13
    shown = command("train", tmp_path / "train.toml", "--out", tmp_path / "run", "--dry-run").out
    check_facts(shown, "rows.csv:14", "'caption'")
