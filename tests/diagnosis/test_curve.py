"""Thresholds over a numeric tag: from a table with a column of numbers, through runs, to numbers and refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.special import expit

import tellapart as ta
from facts import raises
from tellapart.errors import RunError
from tellapart.report.page import ReportRun, render

ITEMS = 240
THRESHOLDS = {"keen": 4.0, "dull": 8.0, "lost": 99.0}
COLUMNS = {"tag:pixels": "pixels", "tag:kind": "kind", "tag:id": "number", "tag:flat": "flat", "cluster": "scene"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Three models on a table whose items differ by 1 to 16 pixels, each by another number; one item has none."""
    folder = tmp_path_factory.mktemp("curve")
    Image.new("RGB", (8, 8), "red").save(folder / "a.png")
    rng = np.random.default_rng(4)
    pixels = np.linspace(1, 16, ITEMS)
    lines = ["id,image,caption,foil,pixels,kind,number,flat,scene"]
    for k, size in enumerate(rng.permutation(ITEMS)):
        text = "" if k == 7 else f"{pixels[size]:.3f}"
        lines.append(f"p{k},a.png,caption {k},foil {k},{text},{('colour', 'size')[k % 2]},{k},1,s{k // 2}")
    (folder / "pairs.csv").write_text("\n".join(lines) + "\n")
    sizes = [float(line.split(",")[4] or 8) for line in lines[1:]]
    for name, threshold in THRESHOLDS.items():
        right = rng.random(ITEMS) < 0.5 + 0.48 * expit(1.5 * (np.array(sizes) - threshold))
        if name == "lost":  # right on every second size, whatever the luck
            right = np.argsort(np.argsort(sizes)) % 2 == 0
        scores = np.stack([np.where(right, 0.9, 0.1), np.full(ITEMS, 0.5)], axis=1)[:, None, :]
        ta.score(
            f"table:{folder / 'pairs.csv'}", scores, name=name, kind="similarity", columns=COLUMNS, out=folder / name
        )
    return {name: folder / name for name in THRESHOLDS}


def test_models_have_the_thresholds_that_made_them(runs):
    found = ta.curve(*runs.values(), over="pixels").record
    keen, dull, lost = found.curves
    assert (found.chance, found.n, found.metric) == (0.5, ITEMS - 1, "choice_score")
    for row, truth in ((keen, 4.0), (dull, 8.0)):
        assert row.low is not None and row.high is not None and row.low < truth < row.high
        assert row.threshold is not None and row.low < row.threshold < row.high and row.clusters == ITEMS // 2
    assert (lost.threshold, lost.outside, lost.high) == (None, "above the largest", None)
    first = found.differences[0]
    assert (first.a, first.b) == ("keen", "dull") and keen.threshold is not None and dull.threshold is not None
    assert first.difference == pytest.approx(dull.threshold - keen.threshold)
    assert first.low is not None and first.low > 0 and first.p is not None and first.p_holm is not None
    assert first.p <= first.p_holm < 0.05
    assert sum(level.n for level in keen.levels) == found.n and len(keen.levels) <= 12
    assert any("1 item" in note and "pixels" in note for note in found.notes)


def test_each_value_of_a_second_tag_has_curves_of_its_items_alone(runs):
    found = ta.curve(runs["keen"], over="pixels", by="kind").record
    assert [row.subset for row in found.curves] == [None, "colour", "size"]
    assert found.curves[0].n == found.curves[1].n + found.curves[2].n
    assert found.differences == ()


def test_a_part_that_is_too_small_says_so_beside_the_others(runs, tmp_path):
    limited = ta.evaluate(
        "random", f"table:{runs['keen'].parent / 'pairs.csv'}", columns=COLUMNS, limit=35, out=tmp_path / "limited"
    )
    found = ta.curve(limited, over="pixels", by="kind")
    assert found.record.limited_from == ITEMS and f"of {ITEMS} items" in repr(found)
    whole, *parts = found.record.curves
    part = min(parts, key=lambda each: each.n)
    assert whole.slope is not None and whole.reason is not None and "items" in whole.reason
    assert (part.slope, part.threshold) == (None, None) and part.reason is not None and str(part.n) in part.reason


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"over": "kind"}, ("over=", "kind", "240", "p0", "colour", "pixels")),
        ({"over": "pixel"}, ("over=", "pixel", "pixels", "caption_edits", "first_difference")),
        ({"over": "flat"}, ("flat", "1", "3")),
        ({"over": "pixels", "by": "kin"}, ("by=", "kin", "kind")),
        ({"over": "pixels", "by": "id"}, ("by=", "id", "240", "64")),
        ({"over": "pixels", "metric": "choice_scor"}, ("metric=", "choice_scor", "choice_score")),
        ({"over": ""}, ("over=",)),
    ],
)
def test_refusals_name_what_is_there(runs, options, facts):
    with raises(RunError, *facts):
        ta.curve(runs["keen"], **options)


def test_runs_of_other_items_are_refused(runs, tmp_path):
    ta.evaluate("random", "demo", limit=20, out=tmp_path / "demo")
    with raises(RunError, "table:pairs.csv", "demo"):
        ta.curve(runs["keen"], tmp_path / "demo", over="pixels")
    with raises(RunError, "over=", "pixels"):
        ta.curve(tmp_path / "demo", over="pixels")


def test_the_command_prints_a_table_json_and_a_picture(runs, command):
    typed = ("curve", runs["keen"], runs["lost"], "--over", "pixels")
    found = ta.curve(runs["keen"], runs["lost"], over="pixels")
    shown = command(*typed, "--out", "curve.svg")
    assert shown.code == 0 and "above 16" in shown.out and "picture: curve.svg" in shown.out
    assert repr(found).splitlines()[0] in shown.out
    assert Path("curve.svg").read_text().startswith("<?xml")
    assert command(*typed, "--json").json == json.loads(found.record.model_dump_json())
    refused = command(*typed, "--by", "kin")
    assert refused.code == 2 and "--by" in refused.err and "kind" in refused.err


def test_the_report_has_curves_of_numeric_tags_but_not_of_numbers_of_items(runs):
    opened = []
    for folder in runs.values():
        result = ta.read_result(folder)
        samples = {name: ta.read_samples(folder, name, record) for name, record in result.benchmarks.items()}
        opened.append(ReportRun(result, samples))
    page = render(opened)
    keen = ta.curve(runs["keen"], over="pixels").record.curves[0]
    assert page.count("How small a difference") == 1 and "How small a difference: pixels" in page
    assert f"{keen.threshold:.4g} [{keen.low:.4g}, {keen.high:.4g}]" in page and "above 16" in page
    assert "How small" not in render([opened[-1]])
