"""What weights are chosen by: never what is reported, and only what has something to be told from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training_sets import config, squares, table

from facts import raises
from tellapart.benchmarks.locations import Locations
from tellapart.errors import DataError, UnknownNameError
from tellapart.stats.paired import better_beyond_doubt
from tellapart.training.config import TrainConfig
from tellapart.training.data.duplicates import find_leaks
from tellapart.training.data.rows import TrainingRow, TrainingRows, read_rows
from tellapart.training.loop import left_over, metric_of
from tellapart.training.training_run import choose_validation


def test_a_set_that_is_validated_or_reported_on_has_images_outside_only_if_that_is_allowed(tmp_path, made_set):
    folder = made_set("mine", n=2)
    for image in (folder / "images").iterdir():
        moved = image.rename(tmp_path / image.name)
        image.symlink_to(moved)
    name, rows = f"folder:{folder}", TrainingRows((TrainingRow(tmp_path / "0_0.png", "a"),))
    with raises(DataError, "outside_images", "pair"):
        find_leaks(rows, [name], None, Locations())
    assert find_leaks(rows, [name], None, Locations(outside=True))
    for allowed in (False, True):
        data = {"validation": name, "outside_images": allowed, "train": ["folder:train"]}
        settings = TrainConfig(**table(tmp_path, data=data))
        if allowed:
            assert choose_validation(settings, tmp_path, rows)[1] is not None
        else:
            with raises(DataError, "outside_images", "pair"):
                choose_validation(settings, tmp_path, rows)


def test_the_strictest_metric_of_a_shape_chooses_unless_another_of_it_is_named():
    chosen = [metric_of(None, shape) for shape in ((2, 2), (1, 2), (1, 5))]
    assert chosen == ["group_score", "choice_score", "choice_score"]
    assert metric_of("text_score", (2, 2)) == "text_score"
    with raises(DataError, "'group_score'", "choice_score"):
        metric_of("group_score", (1, 2))


@pytest.mark.parametrize(
    ("name", "error", "facts"),
    [("demo", DataError, ("weights", "chosen")), ("dmeo", UnknownNameError, ("benchmark", "'dmeo'", "'demo'"))],
)
def test_a_set_that_is_reported_or_unknown_is_refused(name, error, facts, tmp_path):
    reported = {"benchmarks": ["demo-objects", "demo"]}
    settings = TrainConfig(**table(tmp_path, data={"validation": name, "train": ["folder:train"]}, report=reported))
    with raises(error, *facts):
        choose_validation(settings, tmp_path, TrainingRows(()))


def test_a_metric_or_a_patience_without_a_set_is_refused(tmp_path):
    for value in ({"metric": "group_score"}, {"patience": 1}):
        with raises(DataError, "validation.patience", "data.share"):
            choose_validation(config(tmp_path, validation=value), tmp_path, TrainingRows(()))


def test_what_is_left_over_is_items_as_they_were(tmp_path):
    squares(tmp_path / "set", 20)
    rows = read_rows(["set"], tmp_path)
    kept, rest = rows.split(0.7)
    left = left_over(rest)
    assert (left.shape, len(left) * 2 + len(kept)) == ((2, 2), len(rows))
    assert left.pixels(left.items[0].images[1]).shape == (16, 16, 3)
    assert not {row.cluster for row in kept.rows} & {item.cluster for item in left.items}


def test_rows_of_items_of_several_sizes_are_left_over_one_by_one(tmp_path):
    squares(tmp_path / "set", 3)
    rows = read_rows(["set"], tmp_path).rows
    more = TrainingRow(rows[0].image, "one", ("two", "three"), item=3), TrainingRow(rows[0].image, "plain", item=4)
    left = left_over(TrainingRows((*rows, *more)))
    assert (left.shape, len(left)) == ((1, 2), 7)
    assert [item.texts for item in left.items] == [*((row.caption, *row.negatives) for row in rows), ("one", "two")]
    assert [item.cluster for item in left.items[:6]] == [row.cluster for row in rows]
    pair = [TrainingRow(rows[0].image, caption, item=5) for caption in ("four", "five")]  # each other's counterpart
    assert [item.texts for item in left_over(TrainingRows((more[0], *pair))).items] == [("one", "two", "three")]
    assert left_over(TrainingRows((*rows, more[1]))).shape == (2, 2)  # what has no false caption splits no item
    alike = (replace(row, negatives=(), item=5) for row in rows[:2])  # their captions differ in case alone
    assert left_over(TrainingRows((*alike, more[0]))).shape == (1, 3)


def test_a_share_is_trained_on_beside_a_named_validation_set_too(tmp_path):
    data = {"share": 0.5, "validation": f"folder:{squares(tmp_path / 'named', 4, seed=1)}"}
    settings, rows = TrainConfig(**table(tmp_path, data=data)), read_rows(["train"], tmp_path)
    trained, validation = choose_validation(settings, tmp_path, rows)
    assert (trained, validation.name, len(validation)) == (rows.split(0.5)[0], "folder:named", 4)
    assert 0 < len(trained) < len(rows)


def test_rows_without_a_false_caption_choose_nothing():
    plain, settings = TrainingRow(Path("a.png"), "a cat"), TrainingRow(Path("b.png"), "two", ("three", "four"), item=1)
    assert [item.texts for item in left_over(TrainingRows((plain, settings))).items] == [("two", "three", "four")]
    fewer = replace(settings, negatives=("five",), item=2)  # a set has one shape
    cut = left_over(TrainingRows((plain, settings, fewer))).items
    assert [item.texts for item in cut] == [("two", "three"), ("two", "five")]
    with raises(DataError, "data.share", "1", "data.validation"):
        left_over(TrainingRows((plain,)))
    with raises(DataError, "data.share", "0", "items"):
        left_over(TrainingRows(()))
    with raises(DataError, "data.share", "lower"):  # the false caption was drawn for training
        left_over(TrainingRows((plain,)), TrainingRows((settings,)))
    with raises(DataError, "share = 1", "data.validation") as refused:  # no share leaves one
        left_over(TrainingRows((plain,)), TrainingRows((plain,)))
    assert "lower" not in str(refused.value)


@pytest.mark.slow
def test_looking_often_finds_no_progress_where_there_is_none_and_still_finds_some():
    rows = (TrainingRow(Path("a.png"), "one", ("two",), item=k, cluster=str(k)) for k in range(100))
    pairs, rng, looks, runs = left_over(TrainingRows(tuple(rows))), np.random.default_rng(0), 12, 40
    first = [k % 2 for k in range(100)]

    def look():
        """Nine items change sides, each way as often as the other in the long run: a model that only trembles."""
        changed = {int(k) for k in 2 * rng.choice(50, 9, replace=False) + rng.integers(0, 2, 9)}
        return [1 - right if k in changed else right for k, right in enumerate(first)]

    seen = [[look() for _ in range(looks)] for _ in range(runs)]
    alone, together = (
        np.mean([any(better_beyond_doubt(one, first, pairs.outline.clusters, count) for one in run) for run in seen])
        for count in (1, looks)
    )
    assert alone > 0.1 and together <= 0.05
    more = [1] * 30 + first[30:]  # fifteen more, and none fewer
    assert better_beyond_doubt(more, first, pairs.outline.clusters, looks)
