"""Margins, order and outcomes of items."""

import base64
import io
import json
import re
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from facts import raises
from pictures import encoded, plain
from tellapart.errors import DataError
from tellapart.metrics.choice import choice_score
from tellapart.metrics.pairs import group_score
from tellapart.records.result import Sample
from tellapart.report.image_sources import KEEP_BYTES, album, data_uri
from tellapart.report.items import browsed_items, item_table, margins, model_table, shared_outcomes, worst_first

# Small whole numbers tie often; any float32 checks rounding and underflow.
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(width=32, allow_nan=False, allow_infinity=False)


SHAPES = st.sampled_from([(2, 2), (1, 2), (1, 5), (3, 1)])


@given(SHAPES.flatmap(lambda of: arrays(np.float32, (5, *of), elements=SCORES)))
def test_margin_is_positive_exactly_where_the_item_is_right(scores):
    right = group_score if scores.shape[1:] == (2, 2) else choice_score
    assert ((margins(scores) > 0) == (right(scores) == 1)).all()


@given(arrays(np.float32, (9,), elements=SCORES), arrays(np.float32, (9,), elements=SCORES))
def test_every_models_worst_item_comes_before_any_that_is_nobodys_worst(a, b):
    order, worst = worst_first([a, b]), {int(a.argmin()), int(b.argmin())}
    assert sorted(order) == list(range(9))
    if len(set(a.tolist())) == len(set(b.tolist())) == 9:
        assert worst == set(order[: len(worst)])


@given(st.permutations(range(25)), st.integers(1, 30))
def test_a_browser_holds_the_worst_items_and_a_tenth_of_the_best(order, most):
    kept = browsed_items(order, most)
    assert len(kept) == min(most, 25)
    assert kept == order if most >= 25 else kept == order[: most - most // 10] + order[25 - most // 10 :]


def test_a_metric_that_one_item_lacks_is_not_shared():
    samples = [Sample(id=str(k), cluster="a", outcomes={"x": 1.0, "y": 0.0}) for k in range(3)]
    lacking = Sample(id="3", cluster="a", outcomes={"y": 1.0})
    assert [shared_outcomes(of) for of in (samples, [*samples, lacking], [])] == [{"x", "y"}, {"y"}, set()]


def test_a_constant_model_does_not_disturb_the_order():
    margin = np.float32([0.3, -0.2, 0.1, -0.9, 0.6])
    assert worst_first([margin])[:2] == worst_first([margin, np.zeros(5, np.float32)])[:2] == [3, 1]


def test_scores_are_written_shortest_and_read_back_as_the_same_float32(make_run):
    samples = make_run(skill=1.0).samples["shapes"]
    table = json.loads(json.dumps(model_table(samples, ["group_score"])))
    exact = np.array([sample.scores for sample in samples], np.float32).reshape(30, 4)
    assert np.array_equal(np.array(table["scores"], np.float32), exact)
    assert max(len(repr(score)) for scores in table["scores"] for score in scores) <= 13
    # A margin that overflows makes JSON, too.
    scores = np.tile(np.float32([[-3e38, 3e38], [3e38, -3e38]]), (30, 1, 1))
    table = model_table(make_run(scores=scores).samples["shapes"], ["group_score"])
    assert json.loads(json.dumps(table, allow_nan=False))["margins"][0] == pytest.approx(-3.4028235e38)


def test_outcomes_are_coded_right_wrong_and_tied(make_run):
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.8]]), (30, 1, 1))
    scores[1, 0] = 0.5, 0.6
    scores[2, 0] = 0.9, 0.9
    codes = model_table(make_run(scores=scores).samples["shapes"], ["text_score"])["outcomes"]["text_score"]
    assert codes[:4] == "10t1"


def test_tags_are_columns_and_an_item_without_one_has_none(make_run):
    tags: list[dict[str, str]] = [{"type": ""}, {}, {"type": "swap", "side": "left"}]
    first = make_run().samples["shapes"][:3]
    samples = [replace(sample, tags=own) for sample, own in zip(first, tags, strict=True)]
    assert item_table(samples, {})["tags"] == {
        "side": {"values": ["left"], "of": [-1, -1, 0]},
        "type": {"values": ["swap"], "of": [-1, -1, 0]},
    }


def picture(kind: str, size: tuple[int, int] = (40, 20), noise: bool = False) -> bytes:
    drawn = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return encoded(drawn if noise else Image.new("RGB", size, "teal"), kind)


def unpacked(uri: str) -> tuple[str, bytes]:
    head, data = uri.split(",")
    found = re.fullmatch(r"data:image/(\w+);base64", head)
    assert found
    return found[1], base64.b64decode(data)


def test_an_image_goes_in_as_it_is_or_scaled_down_or_is_refused_by_name():
    for kind in ("PNG", "JPEG", "WEBP"):  # small images for the web
        assert unpacked(data_uri(picture(kind), "a")) == (kind.lower(), picture(kind))
    large = picture("PNG", (800, 400), noise=True)
    assert len(large) > KEEP_BYTES
    kind, data = unpacked(data_uri(large, "a.png"))
    opened = Image.open(io.BytesIO(data))
    assert (kind, opened.format, opened.size) == ("jpeg", "JPEG", (320, 160))
    with raises(DataError, "a.svg", "SVG", "PNG"):
        data_uri(b"<svg onload=alert(1)>", "a.svg")


def test_a_frame_of_eqben_becomes_a_picture_in_its_true_colours():
    _, data = unpacked(data_uri(plain((255, 0, 0), (16, 16), "npy"), "a.npy"))
    shown = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), int)[8, 8]
    assert np.abs(shown - [255, 0, 0]).max() < 15


def test_the_budget_holds_whole_items_in_the_order_given():
    budget = 5 * len(data_uri(picture("PNG"), "a"))
    made = album([["w0", "w1"], ["x0", "x1"], ["y0", "y1"]], lambda name: picture("PNG"), budget=budget)
    assert (list(made.index), made.left_out, made.size <= budget) == (["w0", "w1", "x0", "x1"], 1, True)


@pytest.mark.parametrize(
    ("items", "budget", "pictures", "left_out", "most_read"),
    [([["a", "b"], ["b", "c"]], 10**6, 3, 0, 3), ([[str(k)] for k in range(500)], 10, 0, 500, 32)],
    ids=["a shared image is embedded once", "no further block is read"],
)
def test_an_image_is_read_once_and_none_after_the_budget(items, budget, pictures, left_out, most_read):
    read = Mock(side_effect=lambda name: picture("PNG"))
    made = album(items, read, budget=budget)
    assert (len(made.uris), made.left_out) == (pictures, left_out)
    assert read.call_count == len({*map(str, read.call_args_list)}) <= most_read


def test_a_broken_image_is_counted_and_costs_no_other():
    def read(name: str) -> bytes:
        if name == "gone":
            raise DataError("no image 'gone'")
        return picture("PNG", (800, 400), noise=True)[: 60_000 if name == "cut" else None]

    made = album([["gone", "a"], ["cut"], ["b"]], read, budget=10**6)
    assert (made.unreadable, list(made.index), made.left_out) == (("gone", "cut"), ["a", "b"], 0)
