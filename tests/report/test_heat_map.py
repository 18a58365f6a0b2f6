"""The map of subsets and models."""

from __future__ import annotations

import re

from tellapart.report.heat_map import heat_map, main_tag
from tellapart.report.rivals import rivals_of
from tellapart.report.sections import sections


def mapped(*runs):
    (section,) = sections(runs)
    return heat_map(section, rivals_of(section))


def test_every_model_has_its_number_on_every_subset_and_the_highest_is_the_darkest(make_run) -> None:
    runs = [make_run(model="a", skill=0.5, n=90), make_run(model="b", skill=2.0, seed=1, n=90)]
    found = mapped(*runs)
    assert found is not None
    assert (found.tag, found.metric, found.models) == ("side", "group_score", ("b", "a"))
    assert [(row.value, row.n) for row in found.rows] == [("left", 30), ("right", 30)]
    by = {run.result.model.name: run.result.benchmarks["shapes"].by["side"] for run in runs}
    cells = {
        (row.value, model): cell for row in found.rows for model, cell in zip(found.models, row.cells, strict=True)
    }
    for (value, model), cell in cells.items():
        assert cell.value == by[model][value].metrics["group_score"].value
    light = {key: sum(map(int, re.findall(r"\d+", cell.style.split(";")[0]))) for key, cell in cells.items()}
    order = sorted(cells, key=lambda key: cells[key].value)
    assert light[order[0]] > light[order[-1]]
    assert "color: #fff" in cells[order[-1]].style and "color: #000" in cells[order[0]].style


def test_one_model_or_one_subset_is_no_map(make_run) -> None:
    assert mapped(make_run(model="a")) is None
    assert mapped(make_run(model="a"), make_run(model="random", seed=1)) is None
    one = [{"type": "only"}]
    assert mapped(make_run(model="a", tags=one), make_run(model="b", seed=1, tags=one)) is None


def test_the_tag_is_that_of_the_paper_where_there_is_one(make_run) -> None:
    tags = [{"bag_of_words": "same" if k % 3 else "differs", "subset": "add" if k % 2 else "swap"} for k in range(30)]
    (own,) = sections([make_run(benchmark="mine", shape=(1, 2), tags=tags)])
    (known,) = sections([make_run(benchmark="sugarcrepe", shape=(1, 2), tags=tags)])
    assert (main_tag(own), main_tag(known)) == ("bag_of_words", "subset")
