"""How many independent items clustered ones are worth: in the record, on the terminal, on the page and in a card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.evaluation.run import run_scores
from tellapart.evaluation.verified import read_result
from tellapart.records.samples import read_samples
from tellapart.report.interchange.push import eval_results
from tellapart.stats.power import effective_items

Make = Callable[..., Path]


@pytest.fixture
def clustered(made_set: Make, tmp_path: Path) -> Path:
    """A run on 60 items in 20 clusters, of which half the clusters are all right and half are all wrong."""
    folder = made_set(n=60, clusters=20)
    rows = ["id,image,text,score"]
    for k in range(60):
        right = k % 20 % 2 == 1
        rows += [f"item-{k},{i},{t},{float((i == t) == right)}" for i in range(2) for t in range(2)]
    (tmp_path / "scores.csv").write_text("\n".join(rows) + "\n")
    return run_scores({f"folder:{folder}": tmp_path / "scores.csv"}, tmp_path / "run", name="mine")


def test_the_record_holds_what_the_values_say(clustered: Path) -> None:
    record = read_result(clustered).benchmarks["folder:set"]
    samples = read_samples(clustered, "folder:set", record)
    for name, value in record.metrics.items():
        if value.mean_absolute is None:
            right = np.array([sample.outcomes[name] for sample in samples])
            assert value.effective == effective_items(right, [sample.cluster for sample in samples])
    assert 15 < record.metrics["group_score"].effective < 25


def test_it_is_shown_beside_the_number_of_items(clustered: Path, command: Callable[..., Any]) -> None:
    worth = round(read_result(clustered).benchmarks["folder:set"].metrics["group_score"].effective)
    shown = command("show", clustered)
    assert f"percent of 60 items in 20 clusters, as good as {worth}, 95% intervals" in shown.out
    page = (clustered / "report.html").read_text()
    assert f"in 20 clusters, as good as {worth} independent ones" in page
    assert '<th scope="col">as good as</th>' in page
    value = command("show", clustered, "--json").json["runs"][0]["benchmarks"]["folder:set"]["metrics"]["group_score"]
    assert round(value["effective"]) == worth


def test_a_model_card_says_it(clustered: Path) -> None:
    result = read_result(clustered)
    value = result.benchmarks["folder:set"].metrics["group_score"]
    of = {entry.metric_type: entry.metric_args for entry in eval_results(result)}
    assert of["group_score"]["effective_items"] == round(value.effective, 1)


def test_items_that_are_independent_say_nothing(made_set: Make, command: Callable[..., Any]) -> None:
    made_set("plain", n=12)
    shown = command("run", "-m", "random", "-b", "folder:plain", "--out", "r", "--no-cache")
    assert shown.code == 0
    assert "as good as" not in shown.out
    assert "as good as" not in Path("r/report.html").read_text()
    assert read_result(Path("r")).benchmarks["folder:plain"].metrics["group_score"].effective is None
