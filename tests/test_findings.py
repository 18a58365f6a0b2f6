"""The pages of findings hold what their commands write today from the published data."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from examples.findings.counts import SCORES, read_systems
from examples.findings.differing_words import measure_shift
from examples.findings.frame import FOLDER, Source, make_table, points, write_pages_text
from examples.findings.leaderboard import _auc_text
from examples.findings.order_and_ties import _LAYOUTS
from examples.findings.pages import PAGES, index_text
from examples.findings.priors import Systems, read_sides
from examples.findings.without_looking import _count_words, _join_clusters
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import spearmanr

from tellapart.benchmarks.find import find_benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.report.plots.style import new_figure, write_picture
from tellapart.stats.intervals import wilson

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
#: Pages that take more than some seconds.
SLOW = {"leaderboard", "priors", "checkpoints", "gains", "without-looking", "order-and-ties", "differing-words"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PAGES])
def test_a_page_has_the_numbers_of_its_data(name, tmp_path):
    if not DATA.is_dir():
        pytest.skip("the published data are not beside this checkout, in ../shared/data")
    page = PAGES[name](DATA)
    missing = [source.pattern for source in page.sources if not source.files(DATA)]
    if missing:
        pytest.skip(f"no file matches {missing[0]} in ../shared/data")
    assert page.markdown() == (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert measure_overhang(page.picture, tmp_path) <= 0


def measure_overhang(draw: Callable[[], Figure], folder: Path) -> float:
    """Draw a picture as it is written; return the inches by which names or labels reach over its edge."""
    found = []

    def look() -> Figure:
        figure = draw()
        figure.draw_without_rendering()
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        found.append(max(-box.x0, -box.y0, box.x1 - width, box.y1 - height))
        return figure

    write_picture(folder / "picture.svg", look)
    return round(float(found[0]), 3)


def test_a_label_over_the_edge_of_a_picture_is_found(tmp_path):
    def draw(x: float) -> Figure:
        figure = new_figure(2, 1)
        figure.text(x, 0.5, "label")
        return figure

    assert measure_overhang(partial(draw, 0.1), tmp_path) < 0 < measure_overhang(partial(draw, 0.95), tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_answer_its_command_its_limits_and_a_picture(name):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text.count("**Answer.**") == 1
    assert f"$ python -m examples.findings {name} " in text
    assert "## Limits" in text
    assert f"]({name}.svg)" in text
    assert (FOLDER / f"{name}.svg").stat().st_size < 200_000
    assert len(text.splitlines()) <= 160


def test_the_index_quotes_every_answer():
    assert index_text() == (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")


def test_a_source_of_several_files_has_the_digest_of_their_list(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    one, two = Source("a.txt", "", ""), Source("*.txt", "", "")
    assert one.digest(tmp_path) == two.digest(tmp_path)
    (tmp_path / "b.txt").write_text("b")
    assert one.digest(tmp_path) != two.digest(tmp_path)


def test_pages_are_wrapped_and_tables_are_not():
    table = make_table(["a", "b"], "l|r", [["x" * 130, "1"]])
    text = write_pages_text(["word " * 60, table, "- item " + "word " * 40 + "\n- next"])
    assert table in text
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))
    assert text.endswith("\n- next\n")
    assert table.splitlines()[1] == "|---|--:|"


def test_an_item_without_discrimination_is_left_out_wherever_it_counts():
    values, members = np.array([np.nan, -0.1, -0.5, -0.2, np.nan, -0.3, -0.4]), {0, 1, 2, 3}
    assert _auc_text(values, members) == _auc_text(values[np.isfinite(values)], {0, 1, 2})
    text = (FOLDER / "leaderboard.md").read_text(encoding="utf-8")
    assert "has no discrimination" in text and "count as 0" not in text


def test_page_3_has_the_years_of_the_catalogue():
    text = (FOLDER / "order-and-ties.md").read_text(encoding="utf-8")
    for name, set_name, *_ in _LAYOUTS:
        assert f"| {name} | {find_benchmark(set_name).year} |" in text


def make_captions(*texts: tuple[str, str]) -> PairSet:
    items = (Item(id=f"{k}", images=("0.png",), texts=pair, cluster=f"{k}") for k, pair in enumerate(texts))
    return PairSet("captions", tuple(items), Path())


def test_page_4_judges_an_item_by_a_head_that_met_none_of_its_captions():
    joined = _join_clusters(make_captions(("a cat", "a dog"), ("a cow", "A  dog"), ("a pig", "a hen")))
    assert joined[0] == joined[1] != joined[2]


def test_page_4_has_a_head_that_reads_neither_capitals_nor_spare_spaces():
    read, form = _count_words(make_captions(("A cat. ", "a  cat.")))
    assert np.array_equal(read[0, 0], read[0, 1])
    assert (form[0, 0] - form[0, 1])[-4:].tolist() == [1, 0, 1, 0]  # capitals, length, the first, spare spaces


def test_differences_have_signs():
    assert [points(0.0123), points(-0.0123), points(-0.0001)] == ["+1.2", "-1.2", "0.0"]


def test_page_priors_has_the_algebra_of_four_scores_on_published_data():
    """The numbers that other pages quote, from the files."""
    if not list(DATA.glob(SCORES.pattern)) or not (DATA / "bivlc").is_dir():
        pytest.skip("the published scores are not beside this checkout, in ../shared/data")
    scores = read_systems(DATA)
    people = Systems.of({"people": scores.pop("human")}).medians()
    found = Systems.of(scores)
    assert found.medians()[:2] == pytest.approx([0.09, 0.6525])
    assert people[:2] == pytest.approx([0.855, 0.975])
    above = [sum((wilson(int(row.sum()), 400).low or 0) > chance for row in of) for of, chance in _above(found)]
    assert above == [3, 46]
    assert not any((wilson(int(row.sum()), 400).high or 1) < 1 / 2 for row in found.match)
    rho = spearmanr(found.group.mean(axis=1), found.match.mean(axis=1)).statistic
    assert round(rho, 2) == 0.86
    caption, picture, both, none = (round(100 * value) for value in found.medians()[3:7])
    assert (caption, picture, both, none) == (3, 22, 29, 35)
    assert [round(value, 3) for value in found.medians()[7:]] == [0.125, 0.076, 0.805]
    assert [round(value, 2) for value in people[7:]] == [0.89, 0.05, 0.06]
    bivlc = {
        name: [
            round(float(value), 3)
            for value in (*s.bounds, *(x.mean() for x in (s.text & s.image, s.text & ~s.image, s.image & ~s.text)))
        ]
        for name, s in read_sides(DATA).items()
    }
    assert bivlc == {
        "ViT-B-32": [0.792, 0.977, 0.491, 0.268, 0.033],
        "CLIP_COCO": [0.857, 0.979, 0.61, 0.218, 0.029],
        "CLIP_TROHN-Text": [0.829, 0.986, 0.575, 0.207, 0.047],
        "CLIP_TROHN-Img": [0.911, 0.988, 0.692, 0.193, 0.026],
    }


def _above(found: Systems) -> list[tuple[NDArray[np.float64], float]]:
    return [(found.group, 1 / 6), (found.match, 1 / 2)]


def test_page_differing_words_compares_items_within_strata():
    """The easy stratum has most of the low group: in the pool P falls by 60 points, within strata by 20."""
    rng = np.random.default_rng(0)
    strata, high, right = [], [], []
    for name, late, n, k in (("a", 0, 10, 5), ("a", 1, 90, 27), ("b", 0, 90, 90), ("b", 1, 10, 8)):
        strata += [name] * n
        high += [bool(late)] * n
        right += [1.0] * k + [0.0] * (n - k)
    order = rng.permutation(len(right))
    args = np.array(right)[order], np.array(high)[order], np.array(strata)[order]
    within = measure_shift(*args, [f"{k}" for k in range(200)])
    assert within.value == pytest.approx(-0.2)
    assert (within.low, within.high) == pytest.approx((-0.41, 0.01), abs=0.02)  # 1.96 times 0.106, by hand
    assert measure_shift(*args[:2], ["all"] * 200, [f"{k}" for k in range(200)]).value == pytest.approx(-0.6)
    twice = measure_shift(*(np.repeat(each, 2) for each in args), [f"{k // 2}" for k in range(400)])
    assert twice == pytest.approx(within)  # an item with a copy in its cluster shows no more
