"""Pictures as printed: no letter under 7 points, nothing cut off, no name over another, however long names are."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib.text import Text

from tellapart.records.result import Value
from tellapart.records.samples import read_samples
from tellapart.report.plots import style
from tellapart.report.plots.pareto import CostPoint, draw_pareto
from tellapart.report.plots.pictures import draw_panels
from tellapart.report.plots.prepare import prepare_plot
from tellapart.report.plots.style import COLUMN, PAGE, fold
from tellapart.stats.pareto import pareto_front

LONG = (
    "openai/clip-vit-base-patch32", "open_clip:ViT-B-32/laion2b_s34b_b79k", "google/siglip2-so400m-patch14-384",
    "open_clip:ViT-SO400M-14-SigLIP-384@open_clip_model.safetensors", "x" * 70,
)  # fmt: skip


def names(count: int) -> list[str]:
    return [f"{LONG[number % len(LONG)]}-v{number}" for number in range(count)]


@pytest.fixture(autouse=True)
def rules():
    """Draw as `write_picture` does."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(style._RULES)
        yield


def texts_of(figure) -> dict[str, Any]:
    """Every text that is shown, with its place on the paper in dots."""
    figure.draw_without_rendering()
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    for axes in figure.axes:  # a tick beyond its axis has a label that is not drawn
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not min(limits) <= tick.get_loc() <= max(limits):
                    shown = [text for text in shown if text not in {tick.label1, tick.label2}]
    return {f"{number} {text.get_text()}": text for number, text in enumerate(shown)}


def check(figure, widths: tuple[float, ...] = (COLUMN, PAGE)) -> None:
    shown = texts_of(figure)
    boxes = {name: text.get_window_extent() for name, text in shown.items()}
    assert figure.get_figwidth() in widths
    assert min(text.get_fontsize() for text in shown.values()) >= 7
    paper = figure.bbox
    for name, box in boxes.items():
        assert paper.x0 - 1 <= box.x0 and box.x1 <= paper.x1 + 1, f"{name} leaves the picture sideways"
        assert paper.y0 - 1 <= box.y0 and box.y1 <= paper.y1 + 1, f"{name} leaves the picture up or down"
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        # Two points of a line's leading are no collision.
        over = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert over[0] <= 2 or over[1] <= 3, f"{one!r} lies over {other!r}"


def points(count: int, seed: int, model: Callable[[int], str]) -> list[CostPoint]:
    rng = np.random.default_rng(seed)
    scores, costs = rng.uniform(20, 70, count).tolist(), rng.uniform(5, 900, count).tolist()
    front = pareto_front([(score, -cost) for score, cost in zip(scores, costs, strict=True)])
    return [
        CostPoint(model(number), cost, score, score - 2, score + 2, bool(on))
        for number, (score, cost, on) in enumerate(zip(scores, costs, front, strict=True))
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("kind", ["bars", "tiers", "curves"])
def test_runs_with_long_names_are_drawn_without_collisions(save, kind, count):
    folders = [save(name, skill=number / 4, seed=number) for number, name in enumerate(names(count))]
    check(prepare_plot(kind, folders)())


@pytest.mark.slow
@pytest.mark.parametrize(("count", "values"), [(2, 3), (5, 14), (18, 3), (18, 14)])
def test_a_heat_map_of_long_names_is_drawn_without_collisions(save, count, values):
    tags = [{"type": f"{LONG[number % len(LONG)][:40]} {number}"} for number in range(values)]
    folders = [save(name, seed=number, tags=tags, n=2 * values) for number, name in enumerate(names(count))]
    check(prepare_plot("heatmap", folders)())


@pytest.mark.slow
def test_an_items_blocks_stand_within_a_page(save):
    folders = [save(name, seed=number) for number, name in enumerate(names(5))]
    figure = prepare_plot("matrix", folders, item=read_samples(folders[0], "shapes")[0].id)()
    assert figure.get_figwidth() <= PAGE
    check(figure, (figure.get_figwidth(),))


def test_scores_of_an_item_that_differ_are_written_so(save):
    scores = np.full((30, 2, 2), -57411.0, np.float32)
    scores[:, 1] += np.float32([-2, 1])
    figure = prepare_plot("matrix", [save("m", scores=scores)], item="shapes-0000")()
    written = [text.get_text() for text in figure.axes[-1].texts]
    assert written == ["-57411", "-57413", "-57411", "-57410"]


@pytest.mark.parametrize("count", [9, 40])
def test_many_models_are_named_beside_their_bars(count):
    value = Value(value=0.5, low=0.4, high=0.6, tie_neutral=0.55, ties=3, method="wilson", n=9, clusters=9, average="")
    figure = draw_panels(names(count), {name: [value] * count for name in ("text score", "image score")}, "t")
    check(figure)
    assert [label.get_text().replace("\n", "") for label in figure.axes[0].get_yticklabels()] == names(count)


def test_vlues_seven_models_are_named_at_their_points_within_a_column(vlue, vlue_costs, vlue_published):
    figure = prepare_plot("pareto", vlue, benchmarks=("vlue-nlvr2", "vlue-vqa"), costs=vlue_costs)()
    check(figure, (COLUMN,))
    assert {text.get_text() for text in figure.axes[0].texts} == set(vlue_published)
    assert not figure.legends


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [1, 5, 12])
def test_names_of_points_meet_nothing_or_stand_in_a_key(count, seed):
    found = points(count, seed, lambda number: f"model {number}")
    figure = draw_pareto(found, "milliseconds", "percent")
    check(figure)
    said = [text.get_text() for text in figure.axes[0].texts]
    key = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert said == [point.model for point in found] or key == [f"{k} model {k - 1}" for k in range(1, count + 1)]


@pytest.mark.slow
def test_forty_points_have_numbers_and_a_key_with_every_name():
    figure = draw_pareto(points(40, 1, lambda number: names(40)[number]), "milliseconds", "percent")
    key = [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()]
    assert key == [f"{number} {name}" for number, name in enumerate(names(40), start=1)]
    assert [text.get_text() for text in figure.axes[0].texts] == [str(number) for number in range(1, 41)]
    paper = figure.bbox
    for text in figure.legends[0].get_texts():
        box = text.get_window_extent()
        assert paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 <= box.y0


def test_shares_have_no_tick_below_nothing_or_above_all():
    found = [CostPoint("a", 1.0, 0.0, None, None, True), CostPoint("b", 2.0, 100.0, None, None, True)]
    ticks = draw_pareto(found, "ms", "percent").axes[0].get_yticks()
    assert ticks[0] == 0 and ticks[-1] == 100


def test_a_folded_name_is_the_name_again_and_no_line_is_longer():
    for name in (*names(10), "", "a b", "-" * 50):
        lines = fold(name, 20).split("\n")
        assert "".join(lines) == name
        assert max(map(len, lines)) <= 20
