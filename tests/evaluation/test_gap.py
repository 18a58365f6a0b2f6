"""The generalisation gap over run folders: pairs of benchmarks, intervals, correlation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.gap import gap
from tellapart.evaluation.verified import read_result
from tellapart.records.run_folder import beside, write_result


@pytest.fixture
def runs(command, tmp_path: Path) -> list[Path]:
    """Four models on made NLVR2 files in domain and out of it: shares of right answers are known."""
    rng = np.random.default_rng(0)
    folders = []
    for side, file, benchmark in (("in", "nlvr2_test.json", "nlvr2"), ("out", "nlvr2_vlue_test.json", "vlue-nlvr2")):
        (tmp_path / side).mkdir()
        rows = [
            {"sentence": f"Sentence {k}.", "images": ["a.png", "b.png"], "label": str(bool(rng.integers(2)))}
            for k in range(50)
        ]
        (tmp_path / side / file).write_text(json.dumps(rows))
        for model, inside in (("a", 45), ("b", 40), ("c", 30), ("d", 20)):
            right = inside - (10 if side == "out" else 0)
            said = [{"id": k, "prediction": (row["label"] == "True") ^ (k >= right)} for k, row in enumerate(rows)]
            Path(f"{model}.json").write_text(json.dumps(said))
            out = tmp_path / f"{model}-{side}"
            ran = command(
                "score",
                benchmark,
                "--scores",
                f"{model}.json",
                "--name",
                model,
                "--data",
                tmp_path / side,
                "--out",
                out,
            )
            assert ran.code == 0, ran.err
            folders.append(out)
    return folders


@pytest.mark.slow
def test_the_gap_is_in_domain_less_out_of_domain_for_every_model(command, runs: list[Path]) -> None:
    found = gap(runs)
    assert [(row.model, row.task) for row in found.rows] == [(name, "nlvr2: accuracy") for name in "abcd"]
    assert [row.gap for row in found.rows] == pytest.approx([0.2] * 4)
    assert all(row.low is not None and row.high is not None and row.low < row.gap < row.high for row in found.rows)
    assert found.correlation == {"nlvr2: accuracy": pytest.approx(1.0)}
    ran = command("gap", *runs)
    assert "nlvr2: accuracy: Pearson's r over 4 models, in domain with out of domain: 1.00" in ran.out
    assert command("gap", *runs, "--json").json["rows"][0]["gap"] == pytest.approx(0.2)


@pytest.mark.parametrize("models", [1, 2, 3])
def test_fewer_than_four_models_have_no_correlation(command, runs: list[Path], models: int) -> None:
    # Of two models it is 1.00 or -1.00, whatever was measured.
    few = [*runs[:models], *runs[4 : 4 + models]]
    assert (gap(few).correlation, gap(few).models) == ({"nlvr2: accuracy": None}, {"nlvr2: accuracy": models})
    assert "1.00" not in (said := command("gap", *few).out)
    assert f"r over {models} model" in said
    assert "4 models or more" in said


@pytest.mark.slow
def test_runs_that_measured_one_side_only_are_refused(runs: list[Path]) -> None:
    with raises(RunError, "model", "task", "nlvr2", "vlue-nlvr2"):
        gap(runs[:4])


def test_a_benchmark_measured_twice_is_refused(runs: list[Path]) -> None:
    with raises(RunError, "nlvr2", "runs"):
        gap([runs[0], *runs])


def test_a_number_of_a_part_of_the_items_says_so(command, runs: list[Path]) -> None:
    for run in runs[:4]:
        record = read_result(run)
        part = record.benchmarks["nlvr2"].model_copy(update={"limited_from": 6967})
        write_result(run, record.model_copy(update={"benchmarks": {"nlvr2": part}}))
    ran = command("gap", *runs)
    assert ran.out.count("(50 of 6,967 items)") == 4, ran.out
    assert {
        (row.in_domain_items, row.in_domain_limited_from, row.out_of_domain_limited_from) for row in gap(runs).rows
    } == {(50, 6967, None)}


def test_the_reference_models_of_several_runs_are_no_models(runs: list[Path]) -> None:
    plain = gap(runs)
    for run in runs:
        record = read_result(run)
        reference = record.model.model_copy(update={"name": "oracle"})
        write_result(beside(run, "oracle"), record.model_copy(update={"model": reference}))
    assert gap(runs) == plain
