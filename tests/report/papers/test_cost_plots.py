"""Pictures of costs: the front of models, cost against batch size, and tables of costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import DataError, RunError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import ModelRecord
from tellapart.records.timing_record import Duration, Machine, Throughput, Timing, Timings, write_timings
from tellapart.report.measured import gather
from tellapart.report.plots.pareto import points, read_batch_costs, read_costs
from tellapart.report.plots.prepare import prepare_plot

pytest.importorskip("matplotlib")


def timings(path: Path, batch_size: int, pairs: float | None = 50.0, parameters: int | None = 1000) -> Path:
    duration = Duration(median=0.02, low=0.018, high=0.03)
    one = Timing(
        model=ModelRecord(name="strong", fingerprint="0"),
        machine=Machine(processor="p", cores=1, system="s"),
        device="cpu",
        dtype="float32",
        benchmark="demo",
        pairs=1,
        repeats=1,
        warm_up=0,
        batches=1,
        latency=duration,
        parts={},
        throughput=Throughput(batch_size=batch_size, pairs=pairs),
        parameters=parameters,
    )
    write_timings(path, Timings(started="", command="", versions={}, models=(one,)))
    return path


def test_the_front_of_vlues_seven_models_is_the_papers(vlue, vlue_costs, vlue_published) -> None:
    found = points(gather(vlue), read_costs(vlue_costs), ["vlue-nlvr2", "vlue-vqa"])
    assert {point.model: point.score for point in found} == pytest.approx(
        {model: row[2] for model, row in vlue_published.items()}, abs=0.0051
    )
    # Figure 2: the two that no other one beats on both counts.
    assert [point.model for point in found if point.front] == ["ALBEF", "METER"]


def test_pareto_ranks_by_the_metric_of_a_first_look(publish, tmp_path) -> None:
    (path := tmp_path / "c.csv").write_text("model,ms\nA,1\nB,2\n")
    numbers = {"A": (0.7, 0.2, 0.4), "B": (0.6, 0.3, 0.5)}
    runs = gather(
        [
            publish(name, {("set", "accuracy"): accuracy, ("set", "consistency"): same, ("pairs", "group_score"): both})
            for name, (accuracy, same, both) in numbers.items()
        ]
    )
    assert [point.score for point in points(runs, read_costs(path), ["set"])] == [70.0, 60.0]
    assert [point.front for point in points(runs, read_costs(path), ["set"])] == [True, False]
    asked = ("consistency", "group_score")
    mixed = points(runs, read_costs(path), ["set", "pairs"], asked)
    assert [point.score for point in mixed] == pytest.approx([30.0, 40.0])
    folders = [run.folders["set"] for run in runs]
    drawn = prepare_plot("pareto", folders, costs=path, benchmarks=("set", "pairs"), metrics=asked)()
    assert " ".join(drawn.axes[0].get_ylabel().split()) == "mean of set consistency and pairs group score, percent"
    with raises(RunError, "accuracy"):
        points(runs, read_costs(path), ["set", "pairs"], ["accuracy"])


def test_pareto_takes_costs_from_a_timing_record(pair, tmp_path) -> None:
    path = timings(tmp_path / "timing.json", 32)
    (point,) = points(gather(pair[:1]), read_costs(path), ["shapes"])
    group = read_result(pair[0]).benchmarks["shapes"].metrics["group_score"]
    assert (point.cost, point.score, point.high) == (20.0, 100 * group.value, 100 * group.high)
    drawn = prepare_plot("pareto", pair[:1], costs=path, cost="parameters")()
    assert drawn.axes[0].get_xlabel() == "parameters, millions"
    assert drawn.axes[0].get_ylabel() == "shapes group score, percent"


def test_cost_against_batch_size_comes_from_several_timings_or_a_table(tmp_path) -> None:
    paths = [timings(tmp_path / "a.json", 64, pairs=200.0), timings(tmp_path / "b.json", 16, pairs=100.0)]
    assert read_batch_costs(paths)[1] == {"strong": [(16.0, 10.0), (64.0, 5.0)]}
    table = tmp_path / "steps.csv"
    table.write_text("series,batch_size,seconds a step\nitc,32,1.5\nitc,16,0.5\n")
    drawn = prepare_plot("cost", [table])()
    assert drawn.axes[0].get_ylabel() == "seconds a step"
    assert list(drawn.axes[0].lines[0].get_ydata()) == [0.5, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,ms\na,1\n", (":1", "model", "name, ms")),
        ("model,ms\na,fast\n", (":2", "'fast'")),
        ("model,ms\na,0\n", (":2", "'0'")),
        ("model,ms\na,1\na,2\n", (":3", "a")),
        ("model,ms\na\n", (":2", "1", "2")),
        ("", "CSV"),
    ],
)
def test_a_table_of_costs_is_refused_with_its_line(tmp_path, text, message) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text)
    with raises(DataError, path, message):
        read_costs(path)


def test_costs_that_are_missing_are_said(pair, tmp_path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text("model,ms\nstrong,1\n")
    with raises(RunError, "weak"):
        points(gather(pair), read_costs(path), ["shapes"])
    with raises(RunError, "'price'", "parameters"):
        read_costs(tmp_path / "timing.json", "price")
    with raises(RunError, "parameters"):
        read_costs(timings(tmp_path / "none.json", 1, parameters=None), "parameters")
    with raises(RunError, "throughput", "pairs"):
        read_batch_costs([timings(tmp_path / "slow.json", 1, pairs=None)])
    twice = [timings(tmp_path / f"{k}.json", 8) for k in range(2)]
    with raises(RunError, "8", "strong"):
        read_batch_costs(twice)
    path.write_text("series,batch_size,seconds\na,1,1\n")
    with raises(RunError, "seconds", "milliseconds"):
        read_batch_costs([path, twice[0]])
    with raises(RunError, "model", "shapes"):
        points(gather(pair), read_costs(timings(tmp_path / "one.json", 1)), ["shapes", "other"])


def test_two_runs_of_a_model_on_the_same_items_are_two_points(save, tmp_path) -> None:
    folders = [save("strong", seed=1), save("strong", seed=2)]
    drawn = points(gather(folders), read_costs(timings(tmp_path / "t.json", 1)), ["shapes"])
    assert [point.model for point in drawn] == ["strong (run 1)", "strong (run 2)"]
