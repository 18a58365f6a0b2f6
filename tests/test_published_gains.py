"""Figures and counts that the findings quote: their tables follow from them, and copies of the sources have them."""

import csv
import math
import re
import tomllib
from collections.abc import Iterator

import pytest
from examples.findings.counts import FourCounts, read_counts
from examples.findings.frame import FOLDER, percent
from examples.findings.gains import PUBLISHED, published_table, read_gains
from examples.findings.pages import count_published
from scipy.stats import binomtest

from published import published
from tellapart.stats.intervals import wilson
from tellapart.stats.multiple import holm

COUNTS = read_counts()
SYSTEMS = {name: right for name, right in COUNTS["winoground"].items() if name != "human"}
CHANCE = (1 / 4, 1 / 4, 1 / 6)
VL_COMPO = {"CLIP": ("ViT-B-32", "openai"), "GNM-CLIP": ("GNM-CLIP", "coco-ft"), "NegCLIP": ("NegCLIP", "coco-ft")}
NEGBENCH = {"CLIP": "CLIP-OpenAI", "CLIP, on negation": "Our CLIP"}
NEGBENCH |= {"NegCLIP": "NegCLIP", "NegCLIP, on negation": "Our NegCLIP"}


def figures(key: str) -> Iterator[tuple[str, str, float]]:
    """Yield set, system and figure of the tables whose key begins so."""
    for table in tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["tables"]:
        if table["key"].startswith(key):
            for name, values in table["values"].items():
                yield from ((name, system, value) for system, value in values.items())


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_the_published_differences_follow_from_files_of_this_repository():
    published = read_gains()
    assert published_table(published) in page("gains")
    assert all(1 <= gain.worth <= gain.items for gain in published)
    below = sum(gain.verdict != "above" for gain in published)
    assert f"Of {len(published)} published differences, {below} are too small" in " ".join(page("gains").split())


def test_the_leaderboards_counts_follow_from_those_kept_here():
    text, people = page("leaderboard"), COUNTS["winoground"]["human"]
    names = ("by value", "by interval (95 %)", "after Holm")
    counted: list[list[str]] = [[] for _ in range(4)]
    rows = dict(zip((*(f"above chance {name}" for name in names), "below chance by interval"), counted, strict=True))
    for metric, chance in enumerate(CHANCE):
        rights = [right[metric] for right in SYSTEMS.values()]
        intervals = [wilson(right, 400) for right in rights]
        p = [binomtest(right, 400, chance, alternative="greater").pvalue for right in rights]
        counts = (
            sum(right / 400 > chance for right in rights),
            sum(one.low is not None and one.low > chance for one in intervals),
            int((holm(p) <= 0.05).sum()),
            sum(one.high is not None and one.high < chance for one in intervals),
        )
        for cells, count in zip(counted, counts, strict=True):
            cells.append(f"{count}")
    for name, cells in {"people": [percent(right / 400) for right in people], **rows}.items():
        assert f"| {name} | {' | '.join(cells)} |" in text


def test_matching_heads_follow_from_the_counts_kept_here():
    text, heads = page("leaderboard"), COUNTS["winoground_heads"]
    for name, (_, first, second, _) in heads.items():
        a, b = name.split(", ")
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{a}` | `{b}` |")]
        shown = re.search(r"\| (\S+) \[[^]]+\] \|", row)
        assert shown and float(shown[1]) == pytest.approx(100 * (first - second) / 400, abs=0.0501)
    p = holm([binomtest(first, first + second).pvalue for _, first, second, _ in heads.values()])
    assert f"{(p <= 0.05).sum()} of the differences remain" in " ".join(text.split())


def test_gpt4vs_table_follows_from_the_counts_kept_here():
    text, orders = page("order-and-ties"), COUNTS["gpt4v_orders"]
    for part, four in orders.items():
        both, first, second, _ = four
        items = sum(four)
        shares = [percent(count / items) for count in (both + first, both + second)]
        assert f"| {part} | {items:,} | {' | '.join(shares)} | {points_of(four)} [" in text
    total = [sum(column) for column in zip(*orders.values(), strict=True)]
    assert f"Over all {sum(total):,} items the difference is {points_of(total)} points" in " ".join(text.split())


def points_of(four: FourCounts) -> str:
    return f"{100 * (four[1] - four[2]) / sum(four):+.1f}"


@pytest.mark.slow
def test_the_counts_are_those_of_the_published_files():
    data = published()
    for pattern in COUNTS["sources"]:
        published(pattern.split("/")[0])
    assert count_published(data) == COUNTS


def test_figures_of_eqsims_tables_stand_in_the_paper():
    text = published("..", "papers", "002_b24596ec3a8c590f.txt").read_text(encoding="utf-8")
    lines, found = text.replace("\\cellcolormygray", "").splitlines(), list(figures("W"))
    assert len(found) == 8 * 4 + 4 * 2
    for _, system, value in found:
        rows = [line for line in lines if line.startswith(f"+ {system.partition(' + ')[2]}")]
        assert any(f"{value:.2f}" in re.findall(r"\d+\.\d\d", row) for row in rows), (system, value)


def test_figures_of_negbench_are_those_of_its_authors_file():
    with published("negbench_results", "3_finetuned_total.csv").open(encoding="utf-8") as file:
        rows = {row["Model"]: row for row in csv.DictReader(file)}
    columns = {"negbench-coco": "COCO MCQ Total Accuracy", "negbench-voc": "VOC2007 MCQ Total Accuracy"}
    found = list(figures("A"))
    assert len(found) == 8
    for name, system, value in found:
        assert value == round(100 * float(rows[NEGBENCH[system]][columns[name]]), 2)


def test_figures_of_vl_compo_are_means_over_its_items():
    with published("vl_compo", "individual_results.csv").open(encoding="utf-8") as file:
        rows = {(row["arch"], row["pretrained"]): row for row in csv.DictReader(file)}
    sizes = (692, 2062, 788, 1652, 1406, 666, 245)
    parts = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
    for name, system, value in figures("O"):
        shares = [float(rows[VL_COMPO[system]][f"{name}::{part}"]) for part in parts]
        mean = math.fsum(n * share for n, share in zip(sizes, shares, strict=True)) / sum(sizes)
        assert value == pytest.approx(mean, abs=0.006)
