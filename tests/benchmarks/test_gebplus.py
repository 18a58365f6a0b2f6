"""GEB+'s files: their published counts, and one clear error for whatever is done to them."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.benchmarks.gebplus import read_moments
from tellapart.data.task_records import MomentSet
from tellapart.errors import DataError
from tellapart.metrics.moments import (
    TOLERANCES,
    boundary_accuracy,
    boundary_f1,
    boundary_times,
    frame_times,
    random_accuracy,
)

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "gebplus"
VIDEO = "Vt7W3DoohcA"


def row(number: int = 0, time: float = 3.5, letter: str = "A") -> dict[str, Any]:
    return {
        "boundary_id": f"{VIDEO}_{number}{letter}",
        "timestamp": time,
        "prev_timestamp": 0,
        "next_timestamp": 9.5,
        "label": "Change of Action",
        "subject": "a man",
        "status_before": "stands",
        "status_after": "sits",
        "action_of_cause": None,
        "caption": "Subject: a man //Status_Before: stands //Status_After: sits",
    }


def write(folder: Path, found: Any) -> Path:
    path = folder / "val.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def shared(split: str) -> MomentSet:
    path = FOLDER / f"{split}.json"
    if not path.is_file():
        pytest.skip("GEB+'s annotation files are not beside this checkout")
    return read_moments(path)


@pytest.mark.parametrize(("split", "boundaries", "doubled"), [("val", 7279, 444), ("test", 7199, 466)])
def test_the_files_have_their_counts(split: str, boundaries: int, doubled: int) -> None:
    found = shared(split)
    assert (len(found.moments), len(found.videos)) == (boundaries, 2082)
    times = [[moment.time for moment in own] for own in found.videos.values()]
    assert sum(len(set(own)) < len(own) for own in times) == doubled
    assert [moment.id for moment in found.moments if moment.id[:11] != moment.video] == []


def test_both_files_together_have_the_counts_of_labels_letters_and_neighbours() -> None:
    moments = [moment for split in ("val", "test") for moment in shared(split).moments]
    assert Counter(moment.label for moment in moments) == {
        "Change of Action": 12_275,
        "Change of Subject": 1785,
        "Multiple": 205,
        "Change of Object Being Interacted": 177,
        "Change of Color": 36,
    }
    assert Counter(moment.id[-1] for moment in moments) == {"A": 13_370, "B": 1043, "C": 64, "D": 1}
    neighbours = [pair for split in ("val", "test") for own in shared(split).videos.values() for pair in pairwise(own)]
    assert len(neighbours) == 10_314
    assert sum(moment.before == moment.after for moment in moments) == 1


def test_eqbens_word_filter_drops_more_than_half() -> None:
    filtered = re.compile(r"\b(up|down|upwards?|downwards?|towards?)\b", re.IGNORECASE)
    moments = [moment for split in ("val", "test") for moment in shared(split).moments]
    dropped = sum(bool(filtered.search(f"{moment.before} {moment.after}")) for moment in moments)
    assert dropped == 8063
    assert dropped / len(moments) > 0.5


def test_the_chance_level_of_the_validation_file_is_that_of_moments_drawn_at_random() -> None:
    found = shared("val")
    rng = np.random.default_rng(0)
    exact, drawn = np.zeros(8), np.zeros(8)
    for moment, gold in zip(found.moments, found.gold, strict=True):
        duration = found.duration(moment.video)
        exact += random_accuracy(gold, duration)
        away = np.abs(rng.uniform(0, duration, (10, 1)) - np.array(gold)).min(axis=1)
        drawn += (away[:, None] < np.array(TOLERANCES)).mean(axis=0)
    chance = (exact / len(found.moments)).round(4).tolist()
    assert chance == [0.0257, 0.0514, 0.1277, 0.2453, 0.3473, 0.4365, 0.5167, 0.5894]
    np.testing.assert_allclose(drawn / len(found.moments), chance, atol=0.005)


def test_a_perfect_model_is_held_back_only_by_the_frames() -> None:
    found = shared("val")
    strict, one = [], []
    for moment, gold in list(zip(found.moments, found.gold, strict=True))[::5]:
        candidates = boundary_times(frame_times(found.duration(moment.video)))
        closeness = -np.abs(candidates[:, None] - np.array(gold)).min(axis=1)
        strict.append(boundary_accuracy(candidates, closeness, gold)[0])
        one.append(boundary_f1(candidates, closeness, gold, predictions=1))
    ceiling = np.mean(strict, axis=0)
    assert 0.9 < ceiling[0] < 1  # candidates lie 0.2 s apart, and exactly half of that is not near enough
    assert (ceiling[2:] == 1).all()
    assert (np.mean(one, axis=0) <= ceiling).all()  # several gold moments, one prediction


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boundary_id": "xxxxxxxxxxx_0A"}, ("0", "'boundary_id'", "'xxxxxxxxxxx_0A'")),
        ({"timestamp": -1.0}, ("0", "'timestamp'", "input", "0")),
        (
            {"timestamp": 9.9},
            ("'timestamp'", "9.9", "0.0", "9.5"),
        ),
        ({"subject": "a woman"}, ("0", "'caption'")),
        ({"extra": 1}, ("0", "'extra'")),
    ],
)
def test_a_bad_row_is_named_with_its_field(
    tmp_path: Path, change: dict[str, Any], message: str | tuple[str, ...]
) -> None:
    with raises(DataError, "val.json", message):
        read_moments(write(tmp_path, {VIDEO: [row() | change]}))


def test_a_video_without_rows_and_an_id_that_repeats_raise(tmp_path: Path) -> None:
    with raises(DataError, f"'{VIDEO}'", "video"):
        read_moments(write(tmp_path, {VIDEO: []}))
    with raises(DataError, "1", "'boundary_id'", f"{VIDEO}_0A"):
        read_moments(write(tmp_path, {VIDEO: [row(), row(time=4.0)]}))


def test_the_order_of_rows_and_videos_changes_no_query(tmp_path: Path) -> None:
    rows = [row(0, 1.0), row(1, 1.0, "B"), row(2, 5.0)]
    other = copy.deepcopy(rows[:1])
    other[0]["boundary_id"] = "abcdefghijk_0A"
    there = read_moments(write(tmp_path, {VIDEO: rows, "abcdefghijk": other}))
    back = read_moments(write(tmp_path, {"abcdefghijk": other, VIDEO: rows[::-1]}))
    assert there.videos == back.videos
    gold = [dict(zip([m.id for m in found.moments], found.gold, strict=True)) for found in (there, back)]
    assert gold[0] == gold[1]
    assert gold[0][f"{VIDEO}_0A"] == (1.0, 5.0)
