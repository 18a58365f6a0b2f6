"""Pictures: what they show is what the records say, and the files are what papers need."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import tellapart as ta
from facts import raises
from tellapart.benchmarks.find import load_pairs
from tellapart.cli.main import app
from tellapart.errors import DataError, MissingDependencyError, RunError, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import ModelRecord, Sample
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples
from tellapart.records.timing_record import Duration, Machine, Throughput, Timing, Timings, write_timings
from tellapart.report.charts import score_bar
from tellapart.report.measured import gather, outcomes_of
from tellapart.report.plots.agreement import agreement
from tellapart.report.plots.pareto import list_points, read_batch_costs, read_costs
from tellapart.report.plots.pictures import draw_panels
from tellapart.report.plots.prepare import KINDS, prepare_plot
from tellapart.report.plots.style import look, write_picture
from tellapart.stats.paired import tiers

pytest.importorskip("matplotlib")

#: Published numbers of twelve checkpoints.
RECORDS = Path(__file__).parents[3] / "examples" / "clip_zoo_board" / "records.toml"


def figure(kind: str, paths: list[Path], **settings: object):
    return prepare_plot(kind, paths, **settings)()


def texts(labels) -> list[str]:
    return [label.get_text() for label in labels]


def test_a_bar_is_as_long_as_its_record_says_and_interval_ties_and_chance_lie_where_they_must(pair, save):
    folders = [*pair, save("flat", scores=np.full((60, 2, 2), 0.5, np.float32), n=60)]
    drawn = figure("bars", folders)
    assert texts(drawn.axes[0].get_yticklabels()) == ["strong", "weak", "flat"]
    chances = {"text_score": 25, "image_score": 25, "group_score": 100 / 6, "match_score": 50}
    for axes, (name, chance) in zip(drawn.axes, chances.items(), strict=True):
        values = [read_result(folder).benchmarks["shapes"].metrics[name] for folder in folders]
        assert axes.get_title() == name.replace("_", " ")
        assert [bar.get_width() for bar in axes.patches] == [100 * value.value for value in values]
        lines = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"]
        assert np.array(lines) == pytest.approx(100 * np.array([[value.low, value.high] for value in values]))
        dashed = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]
        assert dashed == [pytest.approx(chance)]
        assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "d"] == [pytest.approx(chance)]


def test_bars_below_0_and_above_100_are_whole(pair):
    value = read_result(pair[0]).benchmarks["shapes"].metrics["group_score"]
    biases = [value.model_copy(update={"value": of, "low": of - 0.1, "high": of + 0.1}) for of in (-0.3, 1.4)]
    drawn = draw_panels(["a"], {"bias": biases[:1], "cider": biases[1:]})
    lows, highs = zip(*(axes.get_xlim() for axes in drawn.axes), strict=True)
    assert max(lows) <= -40 and min(highs) >= 150
    assert [score_bar(of.value) for of in biases] == ["", ""]


def test_a_tier_chart_ranks_as_the_test_does(save):
    folders = [save(f"m{k}", skill=skill, seed=k, n=80) for k, skill in enumerate((0.1, 3.0, 2.9, 0.9))]
    runs = gather(folders)
    shared = outcomes_of(runs, "shapes", ["group_score"])
    labels = [run.label for run in runs]
    expected = tiers(dict(zip(labels, shared.outcomes["group_score"].T, strict=True)), shared.clusters)
    axes = figure("tiers", folders).axes[0]
    assert texts(axes.get_yticklabels()) == [name for tier in expected for name in tier.names]
    assert [text for text in texts(axes.texts) if "rank" in text] == [f"rank {tier.rank}" for tier in expected]
    assert len(expected) < len(folders)  # else no band would hold two models


def test_curves_have_a_panel_a_deviation_and_a_row_a_scale(save):
    spread = 20 * np.random.default_rng(5).normal(size=(30, 2, 2))
    narrow, wide = save("narrow", seed=1), save("wide", scores=spread.astype(np.float32))
    together = figure("curves", [narrow, save("other", seed=2)])
    apart = figure("curves", [narrow, wide])
    assert [axes.get_title().split(" (")[0] for axes in together.axes] == ["v1", "v2 text", "v2 image"]
    assert len(apart.axes) == 2 * len(together.axes)
    assert {*texts(apart.legends[0].get_texts())} == {"narrow", "wide"}
    # Few items are points.
    few, many = (figure("curves", [save(f"m{n}", seed=1, n=n)]) for n in (29, 30))
    assert [len(line.get_xdata()) for line in few.axes[0].lines if line.get_marker() not in ("None", "")] == [29]
    assert (few.axes[0].get_ylabel(), many.axes[0].get_ylabel()) == ("items", "density")


def test_a_heat_map_has_the_records_numbers_and_brackets_what_is_not_above_chance(save):
    instruments = ["existence", "foil-it", "plurals", "relations"]
    tags = [{"instrument": value} for value in instruments[::-1]]
    plan = {"benchmark": "valse", "shape": (1, 2), "tags": tags, "n": 120}
    folders = [save("strong", skill=3.0, seed=1, **plan), save("weak", skill=0.0, seed=2, **plan)]
    axes = figure("heatmap", folders).axes[0]  # VALSE's paper breaks it down by instrument
    records = [read_result(folder).benchmarks["valse"] for folder in folders]
    parts = [part for value in instruments for part in (record.by["instrument"][value] for record in records)]
    values = [part.metrics["choice_score"] for part in (*parts, *records)]
    numbers = [(f"{100 * value.value:.1f}", value.low > value.chance) for value in values]
    assert texts(axes.texts) == [number if above else f"({number})" for number, above in numbers]
    assert {above for _, above in numbers} == {True, False}
    assert texts(axes.get_xticklabels()) == ["strong", "weak"]
    assert texts(axes.get_yticklabels()) == [*(f"{value} (30)" for value in instruments), "all items (120)"]
    assert " ".join(axes.get_xlabel().split()) == "choice score, percent; in brackets: not above chance (50.00)"
    (image,) = axes.images
    assert image.get_array()[0].tolist() == [value.value for value in values[:2]]


@pytest.mark.slow
def test_of_many_models_the_names_stand_down_and_of_many_columns_there_are_shades_alone(save):
    tags = [{"type": f"kind {k}"} for k in range(13)]
    folders = [save(f"m{k}", seed=k, n=26, tags=tags) for k in range(15)]
    axes = figure("heatmap", folders, metrics=("text_score",)).axes[0]
    assert texts(axes.get_yticklabels()) == [f"m{k}" for k in range(15)]
    assert len(axes.get_xticklabels()) == 14 and len(axes.texts) == 0
    few = figure("heatmap", folders[:2]).axes[0]
    assert texts(few.get_xticklabels()) == ["m0", "m1"] and len(few.texts) == 28


def test_a_matrix_holds_an_items_scores_with_captions_down_and_its_pictures(tmp_path, make_run, pair):
    item = load_pairs("demo").items[0]
    scores = ((0.9, 0.25), (0.5, 0.75))  # [image][text]
    outcomes = {"text_score": 1.0, "image_score": 1.0, "group_score": 1.0}
    write_result(tmp_path / "run", make_run(model="m", benchmark="demo").result)
    sample = Sample(id="x", cluster="x", images=item.images, texts=item.texts, scores=scores, outcomes=outcomes)
    write_samples(tmp_path / "run", "demo", [sample])
    drawn = figure("matrix", [tmp_path / "run"], item="x")
    assert texts(drawn.axes[-1].texts) == ["0.9", "0.5", "0.25", "0.75"]
    assert [text.get_weight() for text in drawn.axes[-1].texts] == ["bold", "normal", "normal", "bold"]
    assert "text right, image right, group right" in " ".join(drawn.axes[-1].get_xlabel().split())
    pictures = [axes for axes in drawn.axes if axes.get_title(loc="center").startswith("image")]
    assert [len(axes.images) for axes in pictures] == [1, 1]
    assert item.texts[0].split()[0] in drawn.axes[0].texts[0].get_text()
    gone = figure("matrix", pair, item=read_samples(pair[0], "shapes")[0].id)
    assert [text for axes in gone.axes for text in texts(axes.texts)].count("not here") == 4


def test_the_last_bit_of_a_clipped_place_changes_no_byte_of_a_picture(tmp_path):
    def draw(width: float, to: Path) -> bytes:
        from matplotlib.figure import Figure

        figure = Figure()
        figure.add_axes((0.1, 0.1, width, 0.5)).plot([0, 1], [0, 1])
        write_picture(to, lambda: figure)
        return to.read_bytes()

    one, other = draw(0.7, tmp_path / "a.svg"), draw(np.nextafter(0.7, 1), tmp_path / "b.svg")
    assert b"clip-path" in one
    assert one == other


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        *(("bars", ending) for ending in ("pdf", "svg", "png")),
        *(pytest.param(kind, "pdf", marks=pytest.mark.slow) for kind in KINDS if kind not in ("bars", "cost", "agree")),
    ],
)
def test_the_same_picture_has_the_same_bytes_and_no_date(pair, tmp_path, kind, ending):
    (costs := tmp_path / "costs.csv").write_text("model,ms\nstrong,2\nweak,1\n")
    settings = {"matrix": {"item": "shapes-0000"}, "pareto": {"costs": costs}, "heatmap": {"tag": "type"}}
    files = [tmp_path / f"{k}.{ending}" for k in range(2)]
    for file in files:
        write_picture(file, prepare_plot(kind, pair, **settings.get(kind, {})))
    held = files[0].read_bytes()
    assert held == files[1].read_bytes()
    assert b"CreationDate" not in held and b"dc:date" not in held and b"Matplotlib v" not in held


@pytest.mark.slow
def test_fonts_are_in_the_file_and_a_dollar_sign_is_no_mathematics(save, tmp_path):
    folder = save(r"$\alpha_1$ & _x_", seed=1)
    for name in ("a.pdf", "a.svg"):
        write_picture(tmp_path / name, prepare_plot("bars", [folder]))
    assert b"/FontFile2" in (tmp_path / "a.pdf").read_bytes()
    drawn = (tmp_path / "a.svg").read_text()
    assert "<text" not in drawn  # outlines: nothing depends on the reader's fonts
    assert r"<!-- $\alpha_1$ &amp; _x_ -->" in drawn


def test_any_one_mark_tells_eight_models_apart_and_all_together_tell_sixty_four():
    first = [look(k) for k in range(8)]
    assert [len({getattr(one, mark) for one in first}) for mark in ("colour", "marker", "dash")] == [8, 8, 8]
    assert len({(one.colour, one.marker) for one in map(look, range(64))}) == 64
    # Neighbouring colours differ in lightness, so that grey print shows two models.
    colours = np.array([[int(one.colour[k : k + 2], 16) / 255 for k in (1, 3, 5)] for one in first])
    assert (abs(np.diff(colours**2.2 @ (0.2126, 0.7152, 0.0722))) > 0.1).all()


def test_agreement_of_benchmarks_is_drawn_and_said(save, tmp_path):
    names = ("imagenet", "winoground", "aro-relation")
    chosen = [part for name in names for part in ("-b", name)]
    done = CliRunner().invoke(app, ["plot", "agree", str(RECORDS), "--out", str(tmp_path / "a.svg"), *chosen, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert (said["models"], {one["name"] for one in said["benchmarks"]}) == (12, set(names))
    drawn = figure("agree", [RECORDS], benchmarks=names).axes[0]
    written = [[float(text.get_text()) for text in drawn.texts[row : row + 3]] for row in (0, 3, 6)]
    assert written == [[float(f"{100 * value:.0f}") for value in row] for row in said["correlations"]]
    # Runs stand beside published numbers; those of other benchmarks are no part of the comparison.
    run, other = save("a", benchmark="imagenet"), save("b", benchmark="imagenet", n=40)
    assert figure("agree", [RECORDS, run], benchmarks=names).axes[0].texts
    # A set that nobody asked for stops nothing.
    assert figure("agree", [RECORDS, run, other], benchmarks=names[1:]).axes[0].texts
    part = ta.evaluate("random", "demo", limit=20)
    for runs, benchmarks, *facts in (
        ([run], ("x",), "'x'", "imagenet"),
        ([run, other], (), "imagenet", "content", other),
        ([run, other], ("x",), "'x'", "imagenet"),
        ([run], (), "5", "5", "benchmarks"),
        (part, (), "20 of 400 items", "demo", "limit="),
        (part, ("x",), "'x'", "nothing"),
    ):
        with raises(RunError, *facts):
            agreement(runs, benchmarks=benchmarks)


def test_agreement_ranks_all_models_of_a_benchmark_by_one_metric(tmp_path):
    text, lines = (0.35, 0.4, 0.42, 0.45, 0.48, 0.5), ['source = "a paper"']
    for number, value in enumerate(text):
        group = "group_score = 0.1\n" * (number > 2)
        lines += [f"[[models]]\nname = 'm{number}'\n[models.scores.x]\naccuracy = {value}"]
        lines += [f"[models.scores.winoground]\ntext_score = {value}\n{group}"]
    (tmp_path / "records.toml").write_text("\n".join(lines))
    agreeing = agreement(tmp_path / "records.toml")
    assert agreeing.correlations == ((1, 1), (1, 1)) and {of.metric for of in agreeing.benchmarks} >= {"text_score"}


def test_runs_of_different_items_or_sets_share_no_picture(save):
    runs = [save("a", n=30), save("b", n=40), save("b", benchmark="other")]
    for kind, folders, benchmarks, *facts in (
        ("bars", runs[:2], (), "run-0", "30", "run-1", "40"),
        ("bars", runs[::2], (), "benchmarks=", "runs"),
        ("bars", runs[::2], ("x",), "'x'", "run"),
        ("tiers", runs[::2], ("shapes", "other"), "benchmark", "shapes"),
    ):
        with raises(RunError, *facts):
            figure(kind, folders, benchmarks=benchmarks)


@pytest.mark.parametrize("benchmark", ["shapes", "folder:/home/me/my pairs"])
def test_an_item_that_is_not_there_names_the_file_that_lists_the_items(save, benchmark):
    folder = save("a", benchmark=benchmark)
    first = read_samples(folder, benchmark)[0].id
    with raises(RunError, "'p99'", benchmark) as refused:
        figure("matrix", [folder], item="p99")
    assert Path(str(refused.value).rpartition(" are in ")[2]).read_text().startswith(f'{{"id":"{first}"')
    with raises(RunError, f"'{first[:-1]}'", f"{first[:-1]}"):
        figure("matrix", [folder], item=first[:-1])


def test_what_a_picture_cannot_show_is_said(pair, save, publish, tmp_path):
    write_result(tmp_path / "task", read_result(pair[0]))
    sample = Sample(id="q", cluster="q", unit="question", outcomes={"accuracy": 1.0})
    write_samples(tmp_path / "task", "shapes", [sample])
    folders = [publish("a", {("x", "accuracy"): 0.5}), publish("b", {("x", "exact_match"): 0.5})]
    for kind, settings, facts, *runs in (
        ("matrix", {"item": "q"}, ("'q'", "task"), tmp_path / "task"),
        ("heatmap", {}, ("type", "tag=")),
        ("heatmap", {"tag": "tpye"}, ("'tpye'", "'type'", "type")),
        ("heatmap", {"metrics": ("recall",), "tag": "type"}, ("'recall'", "text_score")),
        ("heatmap", {"metrics": ("v1",), "tag": "type"}, ("v1", "map", "scores")),
        ("heatmap", {"metrics": ("a", "b")}, ("metric", "b", "heatmap")),
        ("heatmap", {}, ("x", "items", "tags"), folders[0]),
        *((kind, {"metrics": ("v1",)}, ("v1",)) for kind in ("bars", "tiers")),
        ("bars", {"metrics": ("recall",)}, ("'recall'", "text_score")),
        ("bars", {}, ("metric", "runs", "share"), *folders),
        ("curves", {"metrics": ("v9",)}, ("v9", "v1", "shapes")),
        ("curves", {}, ("2x2", "scores", "items"), save("c", shape=(1, 2))),
        ("matrix", {}, ("item=", "ID")),
        ("tiers", {"metrics": ("a", "b")}, ("metric", "b", "ranks")),
        ("pareto", {}, ("costs=", "FILE")),
        ("pareto", {"metrics": ("a", "b"), "costs": tmp_path / "c.csv"}, ("metric", "b", "pareto")),
    ):
        with raises(RunError, *facts):
            figure(kind, runs or pair, **settings)
    with raises(UnknownNameError, "'tier'", "'tiers'"):
        figure("tier", pair)
    (tmp_path / "file").write_text("")
    for out in ("a.jpg", "file/a.svg"):
        with raises(RunError, out):
            write_picture(tmp_path / out, prepare_plot("bars", pair))


def test_a_run_named_twice_is_drawn_once_and_namesakes_are_numbered_but_for_reference_models(save):
    folders = [save(name, seed=seed) for seed, name in enumerate(("random", "m", "random", "m"))]
    assert [run.label for run in gather([folders[1], *folders])] == ["m (run 1)", "random", "m (run 2)"]
    with raises(RunError, "run", "named"):
        gather([])


def test_items_that_went_missing_or_have_no_value_are_said(save):
    folders = [save("a", seed=1), save("b", seed=2)]
    write_samples(folders[1], "shapes", read_samples(folders[1], "shapes")[1:])
    with raises(RunError, "run-1", "run-0", "shapes"):
        outcomes_of(gather(folders), "shapes", ["group_score"])
    result = read_result(folders[0])
    record = result.benchmarks["shapes"]
    record = record.model_copy(update={"metrics": {"bleu_4": record.metrics["group_score"]}})
    write_result(folders[0], result.model_copy(update={"benchmarks": {"shapes": record}}))
    with raises(RunError, "bleu_4", "shapes", "per item"):
        figure("tiers", folders[:1], metrics=("bleu_4",))


def test_without_matplotlib_the_extra_is_named(pair, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with raises(MissingDependencyError, 'pip install "tellapart[plot]"', "install"):
        write_picture(tmp_path / "a.svg", SimpleNamespace)


def timings(path: Path, batch_size: int, pairs: float | None = 50.0, parameters: int | None = 1000) -> Path:
    plan = {"device": "cpu", "dtype": "float32", "benchmark": "demo", "pairs": 1, "repeats": 1, "warm_up": 0}
    rates, latency = Throughput(batch_size=batch_size, pairs=pairs), Duration(median=0.02, low=0.018, high=0.03)
    measured = {"batches": 1, "latency": latency, "parts": {}, "throughput": rates, "parameters": parameters}
    model, machine = ModelRecord(name="strong", fingerprint="0"), Machine(processor="p", cores=1, system="s")
    one = Timing(model=model, machine=machine, **plan, **measured)
    write_timings(path, Timings(started="", command="", versions={}, models=(one,)))
    return path


def test_the_front_of_vlues_seven_models_is_the_papers(vlue, vlue_costs, vlue_published):
    found, _ = list_points(gather(vlue), read_costs(vlue_costs), ["vlue-nlvr2", "vlue-vqa"])
    performance = {model: row[2] for model, row in vlue_published.items()}
    assert {point.model: point.score for point in found} == pytest.approx(performance, abs=0.0051)
    # Figure 2: the two that no other one beats on both counts.
    assert [point.model for point in found if point.front] == ["ALBEF", "METER"]


def test_pareto_ranks_by_the_metric_of_a_first_look(publish, tmp_path):
    (path := tmp_path / "c.csv").write_text("model,ms\nA,1\nB,2\n")
    names = ("set", "accuracy"), ("set", "consistency"), ("pairs", "group_score")
    numbers = {"A": (0.7, 0.2, 0.4), "B": (0.6, 0.3, 0.5)}
    runs = gather([publish(model, dict(zip(names, row, strict=True))) for model, row in numbers.items()])
    ranked, _ = list_points(runs, read_costs(path), ["set"])
    assert [(point.score, point.front) for point in ranked] == [(70.0, True), (60.0, False)]
    asked = ("consistency", "group_score")
    mixed, _ = list_points(runs, read_costs(path), ["set", "pairs"], asked)
    assert [point.score for point in mixed] == pytest.approx([30.0, 40.0])
    folders = [run.folders["set"] for run in runs]
    drawn = prepare_plot("pareto", folders, costs=path, benchmarks=("set", "pairs"), metrics=asked)()
    assert " ".join(drawn.axes[0].get_ylabel().split()) == "mean of set consistency and pairs group score, percent"
    with raises(RunError, "accuracy"):
        list_points(runs, read_costs(path), ["set", "pairs"], ["accuracy"])


def test_pareto_takes_costs_from_a_timing_record(pair, tmp_path):
    path = timings(tmp_path / "timing.json", 32)
    ((point,), _) = list_points(gather(pair[:1]), read_costs(path), ["shapes"])
    group = read_result(pair[0]).benchmarks["shapes"].metrics["group_score"]
    assert (point.cost, point.score, point.high) == (20.0, 100 * group.value, 100 * group.high)
    (axes,) = prepare_plot("pareto", pair[:1], costs=path, cost="parameters")().axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("parameters, millions", "shapes group score, percent")


def test_a_folder_of_pairs_is_found_by_its_path(publish, tmp_path):
    (path := tmp_path / "c.csv").write_text("model,ms\nM0,1\nM1,2\nM2,3\nM3,4\nM4,5\n")
    sets = ("folder:a", "folder:b")
    folders = [publish(f"M{k}", {(name, "group_score"): k / 10 for name in sets}) for k in range(5)]
    typed = [f"folder:{tmp_path}/{name[-1]}" for name in sets]
    assert prepare_plot("pareto", folders, costs=path, benchmarks=typed)().axes
    assert {of.name for of in agreement(folders, benchmarks=typed).benchmarks} == {*sets}


def test_cost_against_batch_size_comes_from_several_timings_or_a_table(tmp_path):
    paths = [timings(tmp_path / "a.json", 64, pairs=200.0), timings(tmp_path / "b.json", 16, pairs=100.0)]
    assert read_batch_costs(paths)[1] == {"strong": [(16.0, 10.0), (64.0, 5.0)]}
    table = tmp_path / "steps.csv"
    table.write_text("series,batch_size,seconds a step\nitc,32,1.5\nitc,16,0.5\n")
    (axes,) = prepare_plot("cost", [table])().axes
    assert (axes.get_ylabel(), [*axes.lines[0].get_ydata()]) == ("seconds a step", [0.5, 1.5])


def test_a_table_of_costs_is_refused_with_its_line(tmp_path):
    path = tmp_path / "costs.csv"
    for text, *facts in (
        ("name,ms\na,1\n", ":1", "model", "name, ms"),
        ("model,ms\na,fast\n", ":2", "'fast'"),
        ("model,ms\na,0\n", ":2", "'0'"),
        ("model,ms\na,1\na,2\n", ":3", "a"),
        ("model,ms\na\n", ":2", "1", "2"),
        ("", "CSV"),
    ):
        path.write_text(text)
        with raises(DataError, path, facts):
            read_costs(path)


def test_costs_that_are_missing_are_said(pair, tmp_path):
    path, steps = tmp_path / "costs.csv", tmp_path / "steps.csv"
    path.write_text("model,ms\nstrong,1\n")
    steps.write_text("series,batch_size,seconds\na,1,1\n")
    twice = [timings(tmp_path / f"{k}.json", 8) for k in range(2)]
    refused = [
        (list_points, (gather(pair), read_costs(path), ["shapes"]), ("weak",)),
        (list_points, (gather(pair), read_costs(twice[0]), ["shapes", "other"]), ("model", "shapes")),
        (read_costs, (tmp_path / "timing.json", "price"), ("'price'", "parameters")),
        (read_costs, (timings(tmp_path / "none.json", 1, parameters=None), "parameters"), ("parameters",)),
        (read_batch_costs, ([timings(tmp_path / "slow.json", 1, pairs=None)],), ("throughput", "pairs")),
        (read_batch_costs, (twice,), ("8", "strong")),
        (read_batch_costs, ([steps, twice[0]],), ("seconds", "milliseconds")),
    ]
    for read, given, facts in refused:
        with raises(RunError, *facts):
            read(*given)
