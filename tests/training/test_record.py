"""A finished run has a record that says all, a card that is read from it, and curves of what was measured."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from training_sets import compared, config, logged, squares

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.compare import Comparison
from tellapart.evaluation.verified import read_result
from tellapart.records.run_folder import find_runs
from tellapart.records.samples import read_samples
from tellapart.report.charts import LineChart, svg
from tellapart.stats.intervals import share_in_clusters
from tellapart.training.data.duplicates import Leak
from tellapart.training.record import (
    Sweep,
    TrainRecord,
    log_charts,
    model_card,
    read_record,
    settings_of,
    sweep_chart,
    write_record,
    write_training_report,
)
from tellapart.training.training_run import run_training

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on squares, some left over to choose by, reported on others, with a sweep."""
    import torch

    folder, threads = tmp_path_factory.mktemp("record"), torch.get_num_threads()
    torch.set_num_threads(1)
    name = f"folder:{squares(folder / 'test', seed=5)}"
    report = {"benchmarks": [name], "alphas": [0.0, 0.5, 1.0], "licence": "mit"}
    settings = config(folder, data={"share": 0.7, "together": True}, batch={"size": 4}, report=report)
    yield folder, run_training(settings, folder, folder / "run", allow_leak=True)
    torch.set_num_threads(threads)


@pytest.fixture
def record(run):
    return run[1].record


@pytest.mark.slow
def test_the_record_says_what_was_told_and_what_came_of_it(run):
    folder, finished = run
    record = read_record(folder / "run")
    assert record == finished.record
    written = (folder / "run" / "record.json").read_bytes()
    write_record(folder / "again", record)
    assert (folder / "again" / "record.json").read_bytes() == written
    assert record.config["optimiser"]["weight_decay"] == 0.1
    assert record.fingerprint == json.loads((folder / "run" / "run.json").read_text())["fingerprint"]
    assert record.data.validation is not None
    assert record.data.rows == record.data.images == 2 * record.data.items == 24 - 2 * record.data.validation
    assert (record.steps, len(record.history)) == (4, 2)
    assert record.comparison is not None and record.sweep is not None
    assert record.machine.cores > 0 and "torch" in record.versions and record.seconds > 0
    assert [leak.benchmark for leak in record.leaks] == [f"folder:{folder / 'test'}"]


@pytest.mark.slow
def test_the_card_in_the_models_folder_is_that_of_the_record(run):
    folder, finished = run
    card = (folder / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert card == model_card(read_record(folder / "run"))
    matter = pytest.importorskip("yaml", reason="PyYAML is not installed").safe_load(card.split("---\n")[1])
    assert matter["license"] == "mit" and "itc" in matter["tags"] and "base_model" not in matter
    for row in finished.record.comparison.rows:
        assert f"| {row.metric} | {row.n:,} | {100 * row.a:.2f} | {100 * row.b:.2f} | " in card
    assert "| `optimiser.learning_rate` | `0.001` |" in card
    assert f"is\n`{finished.record.start}`." in card and len(finished.record.start) == 64
    chosen_by = f"{100 * finished.state.best:.2f} % on {finished.record.data.validation} items held out"
    assert f"measurements on a validation set, with group\\_score {chosen_by} of the training data" in card
    assert f"Pareto-best is {finished.record.sweep.best:.2f}" in card
    for header, rule in re.findall(r"^(\|.*\|)\n(\|[-:|]+\|)$", card, re.MULTILINE):
        assert header.count("|") == rule.count("|")


def test_the_match_and_the_priors_are_those_of_the_measured_scores(run):
    folder, finished = run
    assert [row.model for row in finished.record.why.rows] == ["before", "after"]
    trained = next(path for path in find_runs(folder / "run" / "report"))
    (name,) = read_result(trained).benchmarks
    scores = np.array([sample.scores for sample in read_samples(trained, name)], np.float64)
    a, b, c, d = scores.reshape(-1, 4).T
    match, caption, picture = a + d - b - c, a + c - b - d, a + b - c - d
    after = finished.record.why.rows[1]
    assert after.match_score.value == np.mean(match > 0)
    squares = np.array([(part**2).sum() for part in (match, caption, picture)])
    assert [value.value for value in after.shares.values()] == pytest.approx(squares / squares.sum())
    # The log has the same of the validation set, after each measurement.
    lines = [line for line in logged(folder / "run") if "validation_group_score" in line]
    assert [line["step"] for line in lines] == [2, 4]
    parts = [[line[f"validation_{part}_share"] for part in ("match", "caption", "picture")] for line in lines]
    assert [sum(three) for three in parts] == pytest.approx([1, 1])
    assert all(line["validation_match_score"] >= line["validation_group_score"] for line in lines)


def changed(record: TrainRecord, **changes: object) -> TrainRecord:
    return TrainRecord.model_validate({**record.model_dump(), **changes})


def lost(low: float, high: float, name: str = "cifar10", **tests: object) -> Comparison:
    row = compared(name, 0.6, 0.5, "accuracy", difference=-0.1, low=low, high=high, **tests)
    return Comparison(a="before", b="after", rows=(row,), unshared=("valse",))


def test_the_settings_hold_nought_and_no_and_all_that_decides_the_weights(record):
    stated = record.config | {"loss": {"name": "eqsim", "alpha": 0.0}, "matching": {"contrast": False}}
    stated |= {"dropout": {"*ln_2": 0.1}, "batch_norm": "frozen", "lora": {"rank": 2, "dropout": 0.0}}
    settings = dict(settings_of(changed(record, config=stated)))
    assert (settings["loss.alpha"], settings["matching.contrast"]) == (0, False)
    assert settings["optimiser.weight_decay"] == 0.1
    assert (settings["dropout"], settings["batch_norm"], settings["validation.every"]) == ({"*ln_2": 0.1}, "frozen", 2)
    assert not settings.keys() & {"name", "data.take", "optimiser.clip_norm"}


def test_the_card_says_what_was_forgotten_shared_and_unknown(record, tmp_path, monkeypatch):
    worse = model_card(changed(record, comparison=lost(-0.2, -0.01)))
    assert "Worse, p after Holm below .05: cifar10 accuracy." in worse
    assert "Better, p after Holm below .05: nothing." in worse
    assert "Measured on one side alone, and so not compared: valse." in worse
    unclear = model_card(changed(record, comparison=lost(-0.2, -0.01, p_holm=0.196)))
    assert "Worse, p after Holm below .05: nothing." in unclear
    shared = model_card(changed(record, leaks=(Leak("demo", ("a_b.png",), (), 600),)))
    assert "**Training images are pictures of what is reported** (`--allow-leak`, or `test_time_matching`)" in shared
    assert r"| demo | 600 | 1: a\_b.png | 0 |" in shared
    bare = record.model_dump()
    bare["config"] |= {"report": {"benchmarks": [], "alphas": [], "licence": None}}
    bare["config"] |= {"model": "openai/clip-vit-base-patch32"}
    bare |= {"comparison": None, "sweep": None, "leaks": (), "best": None, "limit": 4, "resumed": True, "ranks": 2}
    start = f"tellapart:huggingface:itc:1:{'0123456789abcdef' * 4}"
    card = model_card(TrainRecord.model_validate(bare | {"start": start}))
    assert f"`{start}`" in card and "license: unknown\nbase_model: openai/clip-vit-base-patch32\n" in card
    assert "\nbase_model: openai/clip\n" in model_card(record, "hf:openai/clip")
    (tmp_path / "clips" / "base").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "base_model" not in model_card(record, "clips/base")  # a folder in the form of the hub's names
    assert "what it lost elsewhere is not known" in card
    assert "there was no validation set. It is a smoke run, stopped by `--limit 4`." in card
    assert "s since it was resumed on" in card and ", 2 ranks;" in card and "No benchmark is reported" in card
    assert "pipeline_tag: zero-shot-image-classification" in card
    bare["config"] |= {"loss": {"name": "eqsim-itm", "also": {"cyclip": {}}}, "reading": "itm"}
    bare["config"] |= {"matching": {"negatives": 2}}
    card = model_card(TrainRecord.model_validate(bare))
    assert "pipeline_tag" not in card and "| `matching.negatives` | `2` |" in card and "| `reading` | `itm` |" in card
    assert "with the loss `eqsim-itm + cyclip`" in card and "- eqsim-itm\n- cyclip\n" in card


def test_a_p_at_the_floor_of_the_drawn_flips_is_a_bound_on_the_card_and_on_the_page(record, tmp_path):
    floor = {"p": 1 / 10_001, "p_holm": 2 / 10_001, "test": "cluster sign flips"}
    drawn = changed(record, comparison=lost(-0.2, -0.01, flips=10_000, **floor))
    assert "-10.00 [-20.0, -1.0] | <= 0.0002 |" in model_card(drawn)
    (tmp_path / "log.jsonl").touch()
    assert "<td>&lt;= 0.0002</td>" in write_training_report(tmp_path, drawn).read_text(encoding="utf-8")
    assert "-10.00 [-20.0, -1.0] | 0.02 |" in model_card(changed(record, comparison=lost(-0.2, -0.01)))


def test_a_validation_value_names_its_metric_and_its_items(record):
    assert record.data.validation_metric == "group_score"
    data = {**record.data.model_dump(), "validation": 1200}
    left_over = "group_score 68.75 % on 1,200 items held out of the training data (data.share)"
    assert changed(record, best=0.6875, data=data).describe_validation() == left_over
    config = {**record.config, "data": {"train": ["a"], "validation": "folder:sets/mine"}}
    named = changed(record, best=0.6875, data=data, config=config)
    assert named.describe_validation() == "group_score 68.75 % on 1,200 items of folder:sets/mine"
    assert changed(record, best=None).describe_validation() is None


def test_a_hostile_name_ends_no_cell_and_no_line(record):
    card = model_card(changed(record, comparison=lost(-0.2, 0.2, "a|b\n# <script>`")))
    assert r"| a\|b # \<script\>\` | accuracy | 100 |" in card
    bare = record.model_dump()
    bare["config"]["model"] = "local-dir:x`\n---\n|y"
    assert "from `local-dir:x' --- \\|y`" in model_card(TrainRecord.model_validate(bare))


@pytest.mark.parametrize(("content", "said"), [("{", ("record.json", "JSON")), ("{}", ("record.json", "'config'"))])
def test_a_record_that_is_damaged_is_said(tmp_path, content, said):
    (tmp_path / "record.json").write_text(content)
    with raises(RunError, said):
        read_record(tmp_path)
    with raises(RunError, "record.json", "folder"):
        read_record(tmp_path / "gone")


def test_the_curves_are_those_of_the_log_and_the_sweep(run):
    folder, finished = run
    write_training_report(folder / "run", finished.record)
    written = [folder / "run" / name for name in ("log.svg", "wise/curve.svg")]
    loss, chosen, rate = log_charts(folder / "run" / "log.jsonl")
    steps = [line for line in logged(folder / "run") if "total" in line]
    assert loss.lines["total"] == [(line["step"], line["total"]) for line in steps]
    assert next(iter(chosen.lines)) == "group_score"  # the first line's interval is drawn
    assert chosen.lines["group_score"] == [(step, 100 * value) for step, value in finished.record.history]
    measured = finished.record.data.validation
    assert measured is not None
    for (step, low, high), (at, value) in zip(chosen.ranges, finished.record.history, strict=True):
        right = round(value * measured)
        expected = share_in_clusters([1.0] * right + [0.0] * (measured - right), None)
        assert (step, low, high) == (at, pytest.approx(100 * expected.low), pytest.approx(100 * expected.high))
    assert rate.lines["learning_rate"] == [(line["step"], line["learning_rate"]) for line in steps]
    assert written[0].read_text(encoding="utf-8").count('class="range s0"') == len(chosen.ranges) > 0
    for path, lines in zip(written, (len(loss.lines) + len(chosen.lines) + 1, 1), strict=True):
        drawn = ElementTree.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314  (written here)
        assert len(drawn.findall(f".//{SVG}polyline")) == lines
        assert not drawn.findall(f".//{SVG}script")


def test_a_point_is_drawn_where_its_value_lies_between_the_ticks():
    drawn = svg([LineChart("a <b>", "alpha", {"one & all": [(0.0, 0.0), (0.5, 50.0), (1.0, 100.0)]}, (0.5, "best"))])
    tree = ElementTree.fromstring(drawn)  # noqa: S314  (written here)
    points = tree.find(f".//{SVG}polyline").get("points").split()
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points)
    assert (x0, x2) == (62, 622) and x1 == 342  # the axis from end to end
    assert y0 > y1 > y2 and y0 - y1 == pytest.approx(y1 - y2, abs=0.02)
    marks = [path.get("d") for path in tree.findall(f".//{SVG}path") if path.get("class") == "best"]
    assert any(mark is not None and mark.startswith("M342") for mark in marks)
    texts = ["".join(text.itertext()) for text in tree.iter(f"{SVG}text")]
    assert {"a <b>", "one & all", "best", "alpha", "0", "20", "40", "60", "80", "100"} <= set(texts)


def test_long_logs_are_thinned_to_means_and_flat_ones_are_drawn(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {k}, "total": {k % 2}}}\n' for k in range(1, 1001)))
    (chart,) = log_charts(path)
    assert len(chart.lines["total"]) == 200
    assert {y for _, y in chart.lines["total"]} == {2 / 5, 3 / 5}
    flat = Sweep(tuple("abcdefghij"), {0.0: (0.0,) * 10}, 0.0, "x")
    assert svg([sweep_chart(flat)]).count("stroke-dasharray=") == 4  # two of ten lines and their keys
    for damaged in ('{"st', '{"step": 2, "total": 2.0, "total": 3.0}', '{"step": 2, "total": NaN}', "[" * 9_000):
        path.write_text(f'{{"step": 1, "total": 2.0}}\n{damaged}')
        with raises(RunError, "log.jsonl", "log.jsonl:2", "resume=True"):
            log_charts(path)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"step": 1, "total": [2.0]}', "total"),
        ('{"step": true, "total": 2.0}', "step"),
        ('{"step": "many", "learning_rate": 0.1}', "step"),
        ('{"step": 1, "learning_rate": "0.1"}', "learning_rate"),
        ('{"step": 1, "validation_low": "x", "validation_high": 0.2}', "validation_low"),
    ],
)
def test_a_logs_field_that_is_no_number_is_named(line, name, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(line + "\n")
    with raises(RunError, "log.jsonl", f"'{name}'", "resume=True"):
        log_charts(path)
