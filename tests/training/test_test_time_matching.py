"""Rounds of training on a model's own matches: which they are, that a kill changes nothing, and the mark."""

import json
from pathlib import Path

import numpy as np
import pytest
from training_sets import architecture, config, far, made_record, squares, toml, weights

import tellapart as ta
from facts import check_facts, raises
from pictures import plain
from tellapart.board.records import Board, BoardSettings
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError, RunError
from tellapart.models.find import find_model
from tellapart.models.transductive import read_mark, write_mark
from tellapart.training.config import RoundsConfig, TrainConfig
from tellapart.training.encoders import write_new_model
from tellapart.training.loop import rescore
from tellapart.training.record import model_card, read_record, write_training_report
from tellapart.training.training_run import refuse_other_data, train_matched


def test_thresholds_fall_on_a_line_and_the_items_are_one_whole_set_without_labels(tmp_path):
    table = RoundsConfig(rounds=5, threshold=0.5, last_threshold=0.1)
    assert table.thresholds() == pytest.approx(np.linspace(0.5, 0.1, 5).tolist())
    assert RoundsConfig(rounds=1, threshold=0.5).thresholds() == [0.5]
    values = config(tmp_path).model_dump() | {"test_time_matching": {"threshold": 0.1}}
    TrainConfig.model_validate(values)
    data = ({"share": 0.5}, {"validation": "demo"}, {"train": ["demo", "winoground"]}, {"images": "photos"})
    changes = [*(("data", change) for change in data), ("report", {"alphas": [0.5], "benchmarks": ["demo"]})]
    for key, change in changes:
        with pytest.raises(ValueError, match="test_time_matching takes all items of one set"):
            TrainConfig.model_validate(values | {key: {**values[key], **change}})


def test_the_mark_of_a_folder_is_that_of_the_files_in_it(tmp_path):
    (file := tmp_path / "weights.pt").touch()
    write_mark(tmp_path, "demo")
    names = [f"local-dir:{tmp_path}", f"open_clip:ViT-B-32/openai@{file}#ema", f"albef:{file}", str(file)]
    assert [read_mark(name) for name in (*names, "oracle", "openai/clip")] == ["demo"] * 4 + ["", ""]


@pytest.fixture
def start(tmp_path):
    """A folder with squares, and a model of drawn weights that matches some of them."""
    squares(tmp_path / "train")
    write_new_model(Path(architecture(tmp_path / "arch").removeprefix("new:")), tmp_path / "start", 0)
    return tmp_path


def rounds(folder: Path, **changes) -> TrainConfig:
    values = {
        "model": f"local-dir:{folder / 'start'}", "data": {"train": [f"folder:{folder / 'train'}"], "together": True},
        "optimiser": {"steps": 2}, "batch": {"size": 4}, "test_time_matching": {"rounds": 2, "threshold": 1e-3},
        "report": {"benchmarks": [f"folder:{folder / 'train'}"]},
    }  # fmt: skip
    return config(folder, **{**values, **changes})


@pytest.mark.slow
def test_each_round_trains_on_the_confident_matches_and_the_outcome_is_marked(start, command):
    settings = rounds(start)
    done, record = train_matched(settings, start, start / "run"), read_record(start / "run")
    assert record == done.record and TrainConfig.model_validate(record.config) == settings
    items = read_pair_set(start / "run" / "rounds" / "items")
    models = (f"local-dir:{start / 'start'}", f"local-dir:{start}/run/rounds/1/run/model")
    for number, (model, each) in enumerate(zip(models, record.rounds, strict=True), 1):
        a, b, c, d = rescore(find_model(model), items).values.reshape(-1, 4).astype(float).T
        match = a + d - b - c
        sure = np.abs(match) >= each.threshold
        assert (each.threshold, each.matched, each.right) == (1e-3 * (2 - number), sure.sum(), (match[sure] > 0).sum())
        expected = [
            (item.id, item.texts if right else item.texts[::-1])
            for item, right, keep in zip(items.items, match > 0, sure, strict=True)
            if keep
        ]
        lines = (start / "run" / "rounds" / str(number) / "pairs" / "pairs.jsonl").read_text().splitlines()
        assert [(row["id"], tuple(row["texts"])) for row in map(json.loads, lines)] == expected
        assert find_model(model).fingerprint == each.start
    assert record.start == record.rounds[0].start and record.data.items == record.rounds[1].matched
    # Before is the start of the first round; after has the mark, as has each later run of the model.
    assert record.why is not None
    assert (record.comparison.b, record.comparison.a) == (f"{done.name} (transductive)", f"local-dir:{start / 'start'}")
    card, page = model_card(record), write_training_report(start / "run", record).read_text(encoding="utf-8")
    assert "\n- transductive\n" in card and "- transductive: fitted, without labels, to the very items of" in card
    assert "<b>transductive: fitted, without labels, to the very items of" in page
    both, name = [done.name, models[0]], f"folder:{start / 'train'}"
    again = ta.evaluate(both, name, out=start / "again", names=["mine", "other"])
    assert again.models == ["mine (transductive)", "other"]
    for line in ("compare", "table"):
        assert "mine (transductive)" in command(line, start / "again").out
    assert "ours (transductive)" in command("table", start / "again", "--label", "mine (transductive)=ours").out
    problems = []
    Board(BoardSettings(runs=(start / "again",))).read_in(problems.append)
    check_facts("\n".join(problems), "mine (transductive)", "results.json", "take the run out")
    assert len(problems) == 1


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(start):
    settings = rounds(start, report={"benchmarks": []}, validation={"every": 1})
    whole, steps = train_matched(settings, start, start / "whole"), []

    def kill(stage, done, total, note=""):
        steps.extend([done] if stage == "steps" else [])
        if len(steps) == 3:  # the first of the second round
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_matched(settings, start, start / "run", progress=kill)
    assert not (start / "run" / "record.json").exists()
    assert (start / "run" / "rounds" / "1" / "run" / "record.json").exists()
    with raises(RunError, start / "run", "resume=True"):
        train_matched(settings, start, start / "run")
    other = settings.model_copy(update={"test_time_matching": RoundsConfig(rounds=2, threshold=0.5)})
    with raises(RunError, "another run"):
        train_matched(other, start, start / "run", resume=True)
    resumed = train_matched(settings, start, start / "run", resume=True)
    assert far(weights(start / "run"), weights(start / "whole")) == 0
    assert resumed.record.rounds == whole.record.rounds


def test_items_that_are_no_squares_and_thresholds_that_no_match_reaches_are_refused(start):
    choice = Item(id="a", images=("images/a.png",), texts=("a red square", "a green square"))
    write_pair_set(start / "choices", [choice], {"images/a.png": plain(size=(16, 16))}, {})
    with raises(DataError, "choices", "1 image and 2 texts", "data.train"):
        train_matched(rounds(start, data={"train": [f"folder:{start / 'choices'}"]}), start, start / "no")
    assert not (start / "no").exists()
    high = rounds(start, test_time_matching={"rounds": 2, "threshold": 5.0})
    with raises(DataError, "test_time_matching.threshold", "round 1", "5", "12 items"):
        train_matched(high, start, start / "high")
    pairs = start / "train" / "pairs.jsonl"
    pairs.write_text(pairs.read_text().replace("square", "box"))
    with raises(RunError, start / "high" / "rounds" / "items", "folder:train", "out="):  # not the old items' matches
        train_matched(high, start, start / "high", resume=True)
    path = start / "train.toml"
    path.write_text(toml(high.model_dump(exclude_none=True)))
    with raises(DataError, "train.toml", "dry_run=True", "limit=1"):
        ta.train(path, dry_run=True)


def test_a_seed_that_is_done_is_of_the_same_start_and_the_same_reported_set(start):
    settings = rounds(start)
    done = made_record(start=find_model(settings.model).fingerprint)
    refuse_other_data(settings, start / "done", done, home=start)
    other = done.data.model_copy(update={"reported": {"folder:train": "of before"}})
    for changes, name in (({"start": "of before"}, "start"), ({"data": other}, "folder:train")):
        with raises(RunError, start / "done", f'{name} "of before" -> ', "out="):
            refuse_other_data(settings, start / "done", done.model_copy(update=changes), home=start)
