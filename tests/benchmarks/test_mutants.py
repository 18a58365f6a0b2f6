"""The golden numbers are guards: each change that someone might make to a scorer by mistake breaks one of them."""

from __future__ import annotations

import csv
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.metrics import choice, pairs, registry

Published = Callable[[str], Path]
Scores = NDArray[np.float32]
METRICS = ("text_score", "image_score", "group_score")


def winoground(published: Published, model: str) -> Scores:
    scores = np.full((400, 2, 2), np.nan, np.float32)
    for line in (published("winoground_scores") / f"{model}.jsonl").read_text().splitlines():
        record = json.loads(line)
        item, text, image = record["label"].split("_")
        scores[int(item), int(image[1]), int(text[1])] = record["score"]
    return scores


def percent(scores: Scores, names: tuple[str, ...] = METRICS) -> tuple[float, ...]:
    return tuple(round(100 * float(getattr(pairs, name)(scores).mean()), 2) for name in names)


PEOPLE, CLIP = (89.5, 88.5, 85.5), (30.75, 10.25, 8.25)


def compared_by(compare: Callable[[Any, Any], Any], join: Any = np.logical_and) -> Callable[..., Any]:
    """The rule of the pair metrics, with another comparison, or with another way to join its comparisons."""

    def rule(scores: Scores, _name: str, comparisons: tuple[tuple[int, int, int], ...]) -> Any:
        return join.reduce([compare(scores[:, true, true], scores[:, i, t]) for true, i, t in comparisons])

    return rule


def test_people_and_a_model_get_the_published_scores(published: Published) -> None:
    assert percent(winoground(published, "human")) == PEOPLE
    assert percent(winoground(published, "clip_b32")) == CLIP


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("_all_right", compared_by(operator.ge)),
        ("_all_right", compared_by(operator.lt)),
        ("_all_right", compared_by(operator.gt, np.logical_or)),
        ("_I2T", ((0, 1, 0), (1, 1, 0))),
        ("_T2I", ((0, 0, 1), (1, 0, 1))),
    ],
)
def test_a_wrong_comparison_breaks_a_golden_number(
    published: Published, monkeypatch: pytest.MonkeyPatch, name: str, mutant: Any
) -> None:
    people, clip = winoground(published, "human"), winoground(published, "clip_b32")
    monkeypatch.setattr(pairs, name, mutant)
    assert (percent(people), percent(clip)) != (PEOPLE, CLIP)


def test_swapped_axes_break_a_golden_number(published: Published) -> None:
    assert percent(winoground(published, "clip_b32").transpose(0, 2, 1)) != CLIP


def answers(published: Published) -> Scores:
    with (published("bivlc") / "SUGARCREPE_CORRECT_ViT-B-32.csv").open(newline="") as stream:
        right = [
            float(row["correct"]) for row in csv.DictReader(stream) if row["subtype"] == "obj" and row["type"] == "swap"
        ]
    return np.array([[[one, 1 - one]] for one in right], np.float32)


def test_a_wrong_index_of_the_truth_breaks_a_golden_number(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = answers(published)
    assert round(100 * float(choice.choice_score(scores).mean()), 2) == 61.38
    entries = choice._read_entries
    monkeypatch.setattr(choice, "_read_entries", lambda values, *facts: entries(values, *facts)[:, ::-1])
    assert round(100 * float(choice.choice_score(scores).mean()), 2) != 61.38


@pytest.mark.parametrize("name", ["choice_score", "pairwise", "p_c", "p_f", "acc"])
def test_a_model_that_always_answers_the_same_is_never_right(name: str) -> None:
    assert registry.METRICS[name].per_item(np.full((5, 1, 2), 0.5)).tolist() == [0.0] * 5
