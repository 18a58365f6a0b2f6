"""vl_compo's percentages of 202 checkpoints are whole hits of our counts; NegBench's published ones, too."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from examples.clip_zoo_board.build import COLUMNS

from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import names

Rows = list[dict[str, str]]

#: This row's numbers of EqBen's three parts from videos are rounded to hundredths of a percent; the others are exact.
ROUNDED = ("ViT-B-32", "openai"), ("eqbenyoucook2", "eqbenag")

#: Nine checkpoints were measured on another download of SVO-Probes: its pictures lie at addresses that come and go.
OTHER_SVO = {"subj_neg": 3_727, "verb_neg": 13_592, "obj_neg": 4_937}
ON_OTHER_SVO = 9


@pytest.fixture(scope="module")
def rows() -> Rows:
    path = Path(__file__).parents[3] / "shared" / "data" / "vl_compo" / "individual_results.csv"
    if not path.is_file():
        pytest.skip("vl_compo's results are not beside this checkout")
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_whole(percent: float, n: int) -> bool:
    return abs(percent / 100 * n - round(percent / 100 * n)) < 1e-5


def misses(rows: Rows, column: str, n: int) -> list[tuple[str, str]]:
    return [(row["arch"], row["pretrained"]) for row in rows if not is_whole(float(row[column]), n)]


def test_every_column_is_declared_and_every_checkpoint_has_it(rows: Rows) -> None:
    assert sorted(column.name for column in COLUMNS) == sorted(set(rows[0]) - {"arch", "pretrained", "family"})
    assert len(rows) == 202
    assert all(np.isfinite(float(row[column.name])) for row in rows for column in COLUMNS)


def test_percentages_are_whole_hits_of_the_declared_counts(rows: Rows) -> None:
    checked = 0
    for column in (column for column in COLUMNS if column.n and column.benchmark != "svo-probes"):
        assert column.n
        rounded = any(part in column.name for part in ROUNDED[1])
        assert set(misses(rows, column.name, column.n)) <= ({ROUNDED[0]} if rounded else set()), column
        # One item more or fewer, and they are whole no more: the percentages fix the number.
        assert min(len(misses(rows, column.name, column.n + step)) for step in (-1, 1)) > 50, column
        checked += 1
    assert checked == 98


def test_svo_probes_has_two_sizes(rows: Rows) -> None:
    columns = [column for column in COLUMNS if column.benchmark == "svo-probes"]
    others = [set(misses(rows, column.name, column.n or 0)) for column in columns]
    assert len(others[0]) == ON_OTHER_SVO
    assert others[0] == others[1] == others[2]
    again = [row for row in rows if (row["arch"], row["pretrained"]) in others[0]]
    assert [misses(again, column.name, OTHER_SVO[column.part]) for column in columns] == [[], [], []]


def test_the_counts_are_the_catalogues(rows: Rows) -> None:
    # Parts add up to the benchmark; of metrics over the same items one counts.
    sizes: Counter[str] = Counter()
    for benchmark, _, n in {
        (column.benchmark, column.part, column.n) for column in COLUMNS if "recall" not in column.metric
    }:
        sizes[benchmark] += n or 0
    held = {}
    for name in set(names("benchmark")) & {name for name, n in sizes.items() if n}:
        benchmark = find_benchmark(name)
        # Of a set of four images with four texts, each image is a question.
        held[name] = (benchmark.items or 0) * (benchmark.shape[0] if benchmark.shape and benchmark.shape[0] == 4 else 1)
    assert {"winoground", "eqben", "valse", "sugarcrepe", "aro-coco-order", "aro-flickr-order"} <= held.keys()
    assert {name: n for name, n in held.items() if n} == {name: sizes[name] for name, n in held.items() if n}


def test_papers_averages_of_one_benchmark_differ_by_their_weights(rows: Rows) -> None:
    row = next(row for row in rows if (row["arch"], row["pretrained"]) == ("ViT-B-32", "openai"))
    # What'sUp: the mean of six sets (vl_compo's), of three pooled pairs of sets, and over all questions.
    sets = [(float(row[column.name]), column.n or 0) for column in COLUMNS if column.name.startswith("whatsup")]
    assert np.mean([value for value, _ in sets]) == pytest.approx(41.46275226)
    assert np.mean([pool(sets[k : k + 2]) for k in (0, 2, 4)]) == pytest.approx(40.55, abs=0.005)
    assert pool(sets) == pytest.approx(100 * 2121 / 4958)
    # SugarCrepe: the mean of replace, swap and add, each pooled (vl_compo's); the mean of seven; over all items.
    parts = [(float(row[column.name]), column.n or 0) for column in COLUMNS if column.benchmark == "sugarcrepe"]
    assert np.mean([pool(parts[:3]), pool(parts[3:5]), pool(parts[5:])]) == pytest.approx(73.02574342)
    assert np.mean([value for value, _ in parts]) == pytest.approx(73.0544, abs=5e-5)
    assert pool(parts) == pytest.approx(100 * 5750 / 7511, abs=1e-9)


def pool(parts: list[tuple[float, int]]) -> float:
    return sum(value * n for value, n in parts) / sum(n for _, n in parts)


NEGBENCH = {
    "COCO": {"Positive": 2_032, "Negative": 1_870, "Hybrid": 2_012},
    "VOC2007": {"Positive": 682, "Negative": 2_121, "Hybrid": 2_228},
}


def test_negbench_tables_are_whole_hits_and_add_up(published: Callable[[str], Path]) -> None:
    checked = 0
    folder = published("negbench_results")
    for path in sorted(folder.glob("*_breakdown.csv")):
        with path.open(encoding="utf-8") as file, (folder / path.name.replace("breakdown", "total")).open() as whole:
            totals = {row["Model"]: row for row in csv.DictReader(whole)}
            for row in csv.DictReader(file):
                for name, sizes in NEGBENCH.items():
                    hits = {kind: float(row[f"{name} {kind} Accuracy"]) * n for kind, n in sizes.items()}
                    assert all(abs(one - round(one)) < 1e-6 for one in hits.values()), (path.name, row["Model"], hits)
                    total = float(totals[row["Model"]][f"{name} MCQ Total Accuracy"])
                    assert sum(hits.values()) / sum(sizes.values()) == pytest.approx(total, abs=1e-9)
                    checked += 1
    assert checked >= 10
    with (folder / "3_finetuned_total.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, sizes in NEGBENCH.items():
                assert is_whole(100 * float(row[f"{name} MCQ Total Accuracy"]), sum(sizes.values())), row
