"""Pages of findings, of levels and of pictures hold what their commands write today, their limits and their sources."""

import json
import re
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
from scipy.stats import spearmanr

import tellapart as ta
from scripts import import_document
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.report.plots.prepare import KINDS
from tellapart.report.plots.style import new_figure, write_picture
from tellapart.stats.intervals import wilson
from tellapart_render.captions.grammar import GRADED

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
    for part in (f"$ python -m examples.findings {name} ", "## Limits", f"]({name}.svg)"):
        assert part in text
    assert (FOLDER / f"{name}.svg").stat().st_size < 200_000
    assert len(text.splitlines()) <= 160


def test_the_index_quotes_every_answer_and_a_source_has_the_digest_of_its_files(tmp_path):
    assert index_text() == (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
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


def test_page_4_judges_an_item_by_a_head_that_met_none_of_its_captions_in_any_spelling():
    joined = _join_clusters(make_captions(("a cat", "a dog"), ("a cow", "A  dog"), ("a pig", "a hen")))
    assert joined[0] == joined[1] != joined[2]
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
    people, found = Systems.of({"people": scores.pop("human")}).medians(), Systems.of(scores)
    assert found.medians()[:2] == pytest.approx([0.09, 0.6525])
    assert people[:2] == pytest.approx([0.855, 0.975])
    chances = [(found.group, 1 / 6), (found.match, 1 / 2)]
    above = [sum((wilson(int(row.sum()), 400).low or 0) > chance for row in of) for of, chance in chances]
    assert above == [3, 46]
    assert not any((wilson(int(row.sum()), 400).high or 1) < 1 / 2 for row in found.match)
    assert round(spearmanr(found.group.mean(axis=1), found.match.mean(axis=1)).statistic, 2) == 0.86
    caption, picture, both, none = (round(100 * value) for value in found.medians()[3:7])
    assert (caption, picture, both, none) == (3, 22, 29, 35)
    assert [round(value, 3) for value in found.medians()[7:]] == [0.125, 0.076, 0.805]
    assert [round(value, 2) for value in people[7:]] == [0.89, 0.05, 0.06]
    bivlc = {}
    for name, side in read_sides(DATA).items():
        parts = (side.text & side.image, side.text & ~side.image, side.image & ~side.text)
        bivlc[name] = [round(float(value), 3) for value in (*side.bounds, *(part.mean() for part in parts))]
    assert bivlc == {
        "ViT-B-32": [0.792, 0.977, 0.491, 0.268, 0.033],
        "CLIP_COCO": [0.857, 0.979, 0.61, 0.218, 0.029],
        "CLIP_TROHN-Text": [0.829, 0.986, 0.575, 0.207, 0.047],
        "CLIP_TROHN-Img": [0.911, 0.988, 0.692, 0.193, 0.026],
    }


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


DOCS = ROOT / "docs"


def test_the_page_has_every_picture_and_kind_of_plot_and_a_command_for_each():
    shown = re.findall(r"\]\((gallery/.+?)\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(f"gallery/{path.name}" for path in (DOCS / "gallery").iterdir())
    assert sum((DOCS / path).stat().st_size for path in shown) <= 1_500_000
    assert all((DOCS / path).read_bytes()[8:12] == b"WEBP" for path in shown)
    entries = import_document("gallery").ENTRIES
    commands = [command for entry in entries for command in entry["commands"]]
    assert {command.split()[2] for command in commands if command.startswith("tellapart plot ")} == set(KINDS)
    assert all(entry["commands"][-1].startswith("tellapart ") for entry in entries)
    made = " ".join(commands)
    for page in ("run", "items", "audit", "train", "build", "board export", "time"):
        assert f"tellapart {page} " in made


def test_the_numbers_in_the_pictures_are_those_of_the_demo_that_ships(tmp_path):
    kept = json.loads((DOCS / "pictures.json").read_text(encoding="utf-8"))
    now = ta.evaluate(["constant", "bag-of-words"], "demo", out=tmp_path / "r", cache=False, progress=False)
    assert kept["fingerprint"] == now.result().benchmarks["demo"].fingerprint, "run `make pictures`"
    shown, value = kept["percent"]["bag-of-words"]["group_score"], now.value("group_score", model="bag-of-words")
    assert float(shown) == pytest.approx(100 * value, abs=0.005)
    # A test of its own holds the documents' output to the command; the pictures are held to the documents.
    documents = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "start.md", DOCS.parent / "README.md"))
    quoted = dict(re.findall(r"^(\S+) +(\d+\.\d\d) \[[^\]]+\](?: +\d+\.\d){2,}$", documents, re.MULTILINE))
    expected = {model: numbers["group_score"] for model, numbers in kept["percent"].items()}
    assert quoted == expected, "run `make pictures`"


def test_the_record_has_every_aspect_and_an_outcome_for_each_item():
    record = json.loads((DOCS / "levels.json").read_text(encoding="utf-8"))
    assert list(record["aspects"]) == list(GRADED)
    counts = {aspect: len(row["levels"].split()) for aspect, row in record["aspects"].items()}
    assert sum(counts.values()) == record["items"]
    for aspect, row in record["aspects"].items():
        assert [len(right) for right in row["right"].values()] == [counts[aspect]] * 3
        assert {outcome for right in row["right"].values() for outcome in right} <= {"0", "1"}
        assert all(float(level) >= 0 for level in row["levels"].split())
