"""Published per-item scores of Winoground give the published text, image and group scores, to the last digit."""

import json

import numpy as np
import pytest

from published import winoground
from tellapart.metrics.per_item import mean
from tellapart.metrics.registry import METRICS
from tellapart.metrics.ties import tied_comparisons

NAMES = ("text_score", "image_score", "group_score")
PUBLISHED = {  # per cent: text, image, group; the strict rule of the Winoground paper
    "clip_b32": (30.75, 10.25, 8.25),
    "clip_l14": (28.5, 11.0, 8.0),
    "blip_itm_b16": (40.5, 20.5, 16.5),
    "blip_itc_b16": (29.75, 14.5, 9.5),
    "vilt": (27.5, 8.75, 6.0),
    "flava_itm": (32.25, 20.5, 14.25),
    "flava_itc": (25.25, 13.5, 9.0),
    "ofa_medium": (22.75, 9.0, 5.5),
    "human": (89.5, 88.5, 85.5),
}


def scores_of(model: str) -> np.ndarray:
    scores = np.full((400, 2, 2), np.nan)
    for line in winoground(model).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        item, text, image = record["label"].split("_")
        scores[int(item), int(image[1]), int(text[1])] = record["score"]
    return scores


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_strict_scores_are_the_published_ones(model):
    scores = scores_of(model)
    assert tuple(METRICS[name].per_item(scores).sum() / 4 for name in NAMES) == PUBLISHED[model]


@pytest.mark.parametrize(
    ("model", "comparisons", "items"), [("human", 35, 28), ("ofa_medium", 11, 7), ("flava_itm", 1, 1), ("vilt", 0, 0)]
)
def test_ties_are_counted_by_comparison_and_by_item(model, comparisons, items):
    tied = tied_comparisons(scores_of(model))
    assert (tied.sum(), (tied > 0).sum()) == (comparisons, items)


def test_human_ties_counted_as_right_would_add_what_their_mask_says():
    scores = scores_of("human")
    lenient = [float(mean(METRICS[name].per_item(scores) + METRICS[name].measure(scores).ties)) * 100 for name in NAMES]
    assert lenient == [93.0, 91.75, 88.25]


def test_the_tie_neutral_value_of_people_lies_between_strict_and_lenient():
    scores = scores_of("human")
    neutral = [METRICS[name].tie_neutral(scores) for name in NAMES]
    assert [float(mean(values)) * 100 for values in neutral] == pytest.approx([91.0, 90.0625, 86.75], abs=1e-9)
    # The two comparisons of a text score share no entry, so random breaks of both are independent.
    won = [np.sign(scores[:, i, i] - scores[:, i, 1 - i]) / 2 + 0.5 for i in (0, 1)]
    np.testing.assert_array_equal(neutral[0], won[0] * won[1])
