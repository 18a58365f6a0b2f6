"""Thresholds over a numeric tag: psychometric functions, curves of runs, tags from captions, chosen items."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.special import expit

import tellapart as ta
from facts import raises
from tellapart.diagnosis import psychometric
from tellapart.diagnosis.curve import count_edits, find_difference, tag_captions
from tellapart.diagnosis.item_analysis import outcomes_of, read_systems
from tellapart.diagnosis.psychometric import DIRECTIONS, ThresholdSearch, fit_psychometric
from tellapart.errors import MetricError, RunError
from tellapart.evaluation.systems import choose_models
from tellapart.report.page import ReportRun, make_page

Floats = NDArray[np.float64]


def draw(
    seed: int, thresholds: tuple[float, ...], guess: float, lapse: float = 0.02, n: int = 800, slope: float = 12
) -> tuple[Floats, Floats]:
    """Draw values from 0 to 1, and outcomes of models with a slope, as exactly as so many items allow."""
    rng = np.random.default_rng(seed)
    values = np.resize(np.linspace(0, 1, 41), n)
    p = guess + (1 - guess - lapse) * expit(slope * (values[:, None] - np.array(thresholds)))
    return values, (rng.random(p.shape) < p).astype(np.float64)


def test_without_guesses_and_lapses_it_is_logistic_regression(monkeypatch):
    """The same by iterated weighted least squares, which shares no line with the fit."""
    monkeypatch.setattr(psychometric, "_LAPSES", np.zeros(1))
    values, right = draw(1, (0.45,), guess=0.0, lapse=0.0)
    rows, weights = np.column_stack([np.ones(len(values)), values]), np.zeros(2)
    for _ in range(30):
        p = expit(rows @ weights)
        weights += np.linalg.solve((rows.T * (p * (1 - p))) @ rows, rows.T @ (right[:, 0] - p))
    fitted = fit_psychometric(values, right, guess=0.0, resamples=50)[0]
    assert fitted.slope == pytest.approx(weights[1], rel=1e-3)
    assert fitted.threshold == pytest.approx(-weights[0] / weights[1], abs=1e-4)
    assert fitted.at([0.2, 0.7]) == pytest.approx(expit(weights[0] + weights[1] * np.array([0.2, 0.7])), abs=1e-4)


@pytest.mark.parametrize("guess", [0.5, 0.25, 0.0])
def test_parameters_of_a_simulated_model_come_back(guess):
    fitted = fit_psychometric(*draw(2, (0.4,), guess, lapse=0.05, n=8000), guess=guess, resamples=200)[0]
    assert fitted.threshold == pytest.approx(0.4, abs=0.02)
    assert fitted.slope == pytest.approx(12, rel=0.2) and fitted.lapse == pytest.approx(0.05, abs=0.02)
    assert fitted.interval.low < 0.4 < fitted.interval.high < fitted.interval.low + 0.08
    assert fitted.p_fit > 0.01


def test_values_that_make_items_harder_give_a_falling_curve_of_the_same_threshold():
    values, right = draw(3, (0.4, 0.6), 0.5)
    rising, falling = (fit_psychometric(each, right, guess=0.5, resamples=200) for each in (values, 10 - 10 * values))
    for up, down in zip(rising, falling, strict=True):
        assert down.threshold == pytest.approx(10 - 10 * up.threshold, abs=1e-3)
        assert down.slope == pytest.approx(-up.slope / 10, rel=1e-3)
    up, down = rising[0].minus(rising[1])[1], falling[0].minus(falling[1])[1]
    assert (down.low, down.high) == pytest.approx((-10 * up.high, -10 * up.low))


def test_differences_are_paired_and_of_the_right_sign():
    values, right = draw(4, (0.3, 0.5), 0.25)
    near, far = fit_psychometric(values, right, guess=0.25, resamples=400)
    value, interval, p = near.minus(far)
    assert value == near.threshold - far.threshold < 0
    assert interval.high < 0 and p < 0.01
    same = fit_psychometric(values, right[:, [0, 0]], guess=0.25, resamples=200)
    value, _, p = same[0].minus(same[1])
    assert value == 0 and p > 0.9


def test_a_threshold_outside_of_the_values_or_between_two_levels_is_said_to_be_there():
    values = np.resize(np.linspace(2, 4, 9), 180)
    rng = np.random.default_rng(5)
    right = np.column_stack([np.ones(180), rng.random(180) < 0.5, values > 3]).astype(np.float64)
    all_right, guessing, middle = fit_psychometric(values, right, guess=0.5, resamples=400)
    assert (all_right.outside, guessing.outside, middle.outside) == ("below the smallest", "above the largest", None)
    assert all_right.interval.low is None and guessing.interval.high is None
    # All draws lie outside on one side: the other end is no open one, and the two models differ.
    assert all_right.interval.high == 2
    (alone,) = fit_psychometric(values, right[:, :1], guess=0.5, resamples=100)
    assert (alone.interval.low, alone.interval.high) == (None, None)  # its curve may rise or fall
    value, interval, p = all_right.minus(guessing)
    assert value is None and interval.low is None and interval.high < -1 and p < 0.01
    values = np.resize(np.arange(5.0), 200)
    fitted = fit_psychometric(values, (values > 2)[:, None], guess=0.0, resamples=100)[0]
    assert fitted.threshold == pytest.approx(2.5, abs=0.001)  # the middle, whatever the last bits of the fit are
    assert 2 < fitted.interval.low < 2.2 and 2.8 < fitted.interval.high < 3


def test_a_curve_whose_direction_is_unsure_has_an_interval_for_both_directions():
    for seed in (3, 24, 26):  # the likeliest curve falls
        values, right = draw(seed, (1.1,), 0.5, lapse=0, n=100, slope=5)
        high = fit_psychometric(values, right, guess=0.5, resamples=200)[0].interval.high
        assert high is None or high >= 1.1, seed


def test_p_of_a_difference_is_below_5_percent_if_its_interval_leaves_out_zero_in_both_directions():
    rng = np.random.default_rng(5)
    # The second model's threshold is lower if curves rise, and higher if they fall.
    values, right = np.resize(np.linspace(0, 1, 41), 200), (rng.random((200, 2)) < (0.52, 0.75)).astype(np.float64)
    for direction in (None, *DIRECTIONS):
        first, second = fit_psychometric(values, right, guess=0.5, resamples=300, direction=direction)
        _, interval, p = second.minus(first)
        assert len(first.draws) == (1 if direction else 2)
        assert (p < 0.05) == ((interval.low or -1) > 0 or (interval.high or 1) < 0) == bool(direction), direction


def test_a_direction_that_is_named_leaves_one_end_open(runs):
    values, right = draw(3, (1.1,), 0.5, lapse=0, n=100, slope=5)
    rising, falling = (
        fit_psychometric(values, right, guess=0.5, resamples=200, direction=name)[0] for name in DIRECTIONS
    )
    assert rising.slope > 0 > falling.slope
    ends = [(one.interval.low is None, one.interval.high is None) for one in (rising, falling)]
    assert ends == [(False, True), (True, False)]
    search = ThresholdSearch(np.arange(5.0), 0.5, "falling")
    for level in np.repeat(np.arange(5), 12):
        search.add(level, float(level > 2))
    assert search.fitted().slope < 0
    with raises(RunError, "direction='up'", *DIRECTIONS):
        ta.curve(runs, over="size", direction="up")


def test_items_of_one_cluster_count_as_one():
    def width(*of: object) -> float:
        interval = fit_psychometric(*of, guess=0.5, resamples=400)[0].interval
        return interval.high - interval.low

    values, right = draw(6, (0.5,), 0.5, n=410)
    copies = np.repeat(np.arange(410), 4)
    copied = width(values[copies], right[copies], copies)
    assert copied == pytest.approx(width(values, right), rel=0.1)
    assert copied > 1.5 * width(values[copies], right[copies])


def test_a_curve_that_turns_is_not_described():
    values = np.resize(np.linspace(0, 1, 20), 400)
    p = np.where(np.abs(values - 0.5) < 0.25, 1.0, 0.5)
    right = (np.random.default_rng(7).random(400) < p)[:, None]
    assert fit_psychometric(values, right, guess=0.5, resamples=50)[0].p_fit < 1e-6


def test_the_order_of_items_changes_nothing():
    values, right = draw(8, (0.5,), 0.5, n=200)
    values[:150] = np.linspace(0, 1, 150)  # more than 100 different ones, some of them twice
    clusters, order = np.arange(200) // 4, np.random.default_rng(0).permutation(200)
    straight, mixed = (
        fit_psychometric(values[items], right[items], clusters[items], guess=0.5, resamples=100)[0]
        for items in (np.arange(200), order)
    )
    assert straight.threshold == mixed.threshold and straight.interval == mixed.interval


def test_few_items_clusters_or_levels_are_said():
    values, right = draw(9, (0.5,), 0.5, n=100)
    assert "12 clusters" in fit_psychometric(values, right, np.arange(100) % 12, guess=0.5)[0].interval.reason
    few = fit_psychometric(values[:41], right[:41], guess=0.5)[0]
    assert "41 items" in few.interval.reason and few.minus(few)[2] is None
    for fact, *given, guess in (
        ("12 items", values[:12], right[:12], 0.5),
        ("2 values", np.round(values), right, 0.5),
        ("guess", values, right, 1.0),
        ("0 and 1", values, right / 2, 0.5),
    ):
        with raises(MetricError, fact):
            fit_psychometric(*given, guess=guess)


ITEMS, THRESHOLDS = 240, {"keen": 4.0, "dull": 8.0, "lost": 99.0}
COLUMNS = {"tag:pixels": "pixels", "tag:kind": "kind", "tag:id": "number", "tag:flat": "flat", "cluster": "scene"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three models on a table whose items differ by 1 to 16 pixels, each by another number; one item has none."""
    folder = tmp_path_factory.mktemp("curve")
    Image.new("RGB", (8, 8), "red").save(folder / "a.png")
    rng = np.random.default_rng(4)
    pixels = np.linspace(1, 16, ITEMS)
    lines = ["id,image,caption,foil,pixels,kind,number,flat,scene"]
    for k, size in enumerate(rng.permutation(ITEMS)):
        text = "" if k == 7 else f"{pixels[size]:.3f}"
        lines.append(f"p{k},a.png,caption {k},foil {k},{text},{('colour', 'size')[k % 2]},{k},1,s{k // 2}")
    (folder / "pairs.csv").write_text("\n".join(lines) + "\n")
    sizes = [float(line.split(",")[4] or 8) for line in lines[1:]]
    for name, threshold in THRESHOLDS.items():
        right = rng.random(ITEMS) < 0.5 + 0.48 * expit(1.5 * (np.array(sizes) - threshold))
        if name == "lost":  # right on every second size, whatever the luck
            right = np.argsort(np.argsort(sizes)) % 2 == 0
        scores = np.stack([np.where(right, 0.9, 0.1), np.full(ITEMS, 0.5)], axis=1)[:, None, :]
        given = {"name": name, "kind": "similarity", "columns": COLUMNS, "out": folder / name}
        ta.score(f"table:{folder / 'pairs.csv'}", scores, **given)
    return {name: folder / name for name in THRESHOLDS}


def test_models_have_the_thresholds_that_made_them_also_for_each_value_of_a_tag(runs):
    found = ta.curve(*runs.values(), over="pixels").record
    keen, dull, lost = found.curves
    assert (found.chance, found.n, found.metric) == (0.5, ITEMS - 1, "choice_score")
    for row, truth in ((keen, 4.0), (dull, 8.0)):
        assert row.low < truth < row.high and row.low < row.threshold < row.high and row.clusters == ITEMS // 2
    assert (lost.threshold, lost.outside, lost.high) == (None, "above the largest", None)
    first = found.differences[0]
    assert (first.a, first.b, first.difference) == ("keen", "dull", pytest.approx(dull.threshold - keen.threshold))
    assert first.low > 0 and first.p <= first.p_holm < 0.05
    assert sum(level.n for level in keen.levels) == found.n and len(keen.levels) <= 12
    assert any("1 item" in note and "pixels" in note for note in found.notes)
    found = ta.curve(runs["keen"], over="pixels", by="kind").record
    assert [row.subset for row in found.curves] == [None, "colour", "size"]
    assert found.curves[0].n == found.curves[1].n + found.curves[2].n
    assert found.differences == ()


def test_a_part_that_is_too_small_says_so_beside_the_others(runs, tmp_path):
    pairs = f"table:{runs['keen'].parent / 'pairs.csv'}"
    limited = ta.evaluate("random", pairs, columns=COLUMNS, limit=35, out=tmp_path / "limited")
    found = ta.curve(limited, over="pixels", by="kind")
    assert found.record.limited_from == ITEMS and f"of {ITEMS} items" in repr(found)
    whole, *parts = found.record.curves
    part = min(parts, key=lambda each: each.n)
    assert whole.slope is not None and "items" in whole.reason
    assert (part.slope, part.threshold) == (None, None) and str(part.n) in part.reason


def test_refusals_name_what_is_there(runs, tmp_path):
    keen, demo = runs["keen"], ta.evaluate("random", "demo", limit=20, out=tmp_path / "demo")
    for given, options, *facts in (
        ([keen], {"over": "kind"}, "over=", "kind", "240", "p0", "colour", "pixels"),
        ([keen], {"over": "pixel"}, "over=", "pixel", "pixels", "caption_edits", "first_difference"),
        ([keen], {"over": "flat"}, "flat", "1", "3"),
        ([keen], {"over": "pixels", "by": "kin"}, "by=", "kin", "kind"),
        ([keen], {"over": "pixels", "by": "id"}, "by=", "id", "240", "64"),
        ([keen], {"over": "pixels", "metric": "choice_scor"}, "metric=", "choice_scor", "choice_score"),
        ([keen], {"over": ""}, "over="),
        ([keen, demo], {"over": "pixels"}, "table:pairs.csv", "demo"),
        ([demo], {"over": "pixels"}, "over=", "pixels"),
    ):
        with raises(RunError, *facts):
            ta.curve(*given, **options)


def test_a_part_starts_from_its_chance(tmp_path):
    """Groups of one question and of three, each right from level 5 on."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    groups = [{"group": f"g{k}", "size": (1, 3)[k % 2], "level": str(k // 2 % 8 + 1)} for k in range(64)]
    rows = [{"id": f"{of['group']}-{k}", "answer": "yes", **of} for of in groups for k in range(int(of["size"]))]
    answers = [{"id": row["id"], "prediction": "yes" if int(row["level"]) > 4 else "no"} for row in rows]
    for name, lines in (("rows", rows), ("answers", answers)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "asked.toml").write_text(
        'name = "asked"\ntitle = "asked"\nsource = "here"\nfiles = ["rows.jsonl"]\nfolders = ["."]\n[[question]]\n'
        'id = "{id}"\nimages = ["a.png"]\nquestion = "{id}?"\nanswer = "{answer}"\ngroup = "{group}"\n'
        'tags = { size = "{size}", level = "{level}" }\n'
    )
    run = ta.score(str(tmp_path / "asked.toml"), tmp_path / "answers.jsonl", name="a")
    found = ta.curve(run, over="level", by="size", metric="g_acc")
    chances = [(row.subset, row.chance, row.line[0][1]) for row in found.record.curves]
    assert chances == [(of, p, pytest.approx(p, abs=1e-3)) for of, p in ((None, 0.3125), ("1", 0.5), ("3", 0.125))]
    assert "chance of 3: 12.5%" in repr(found) and "chance of 3: 12.5%" in found._repr_html_()


def test_the_command_prints_a_table_json_and_a_picture(runs, command):
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    typed = ("curve", runs["keen"], runs["lost"], "--over", "pixels")
    found = ta.curve(runs["keen"], runs["lost"], over="pixels")
    shown = command(*typed, "--out", "curve.svg")
    assert shown.code == 0 and "above 16" in shown.out and "picture: curve.svg" in shown.out
    assert repr(found).splitlines()[0] in shown.out
    assert Path("curve.svg").read_text().startswith("<?xml")
    assert command(*typed, "--json").json == json.loads(found.record.model_dump_json())
    refused = command(*typed, "--by", "kin")
    assert refused.code == 2 and "--by" in refused.err and "kind" in refused.err


def test_the_report_has_curves_of_numeric_tags_but_not_of_numbers_of_items(runs):
    opened = []
    for folder in runs.values():
        result = ta.read_result(folder)
        samples = {name: ta.read_samples(folder, name, record) for name, record in result.benchmarks.items()}
        opened.append(ReportRun(result, samples))
    page = make_page(opened).html
    keen = ta.curve(runs["keen"], over="pixels").record.curves[0]
    assert page.count("How small a difference") == 1 and "How small a difference: pixels" in page
    assert f"{keen.threshold:.4g} [{keen.low:.4g}, {keen.high:.4g}]" in page and "above 16" in page
    assert "How small" not in make_page([opened[-1]]).html


def test_words_that_differ_are_counted_from_both_sides():
    for first, second, edits, place in (
        ("A cat and a dog.", "a dog and a cat", 2, 2),
        ("Two cats", "two cats, two dogs", 2, 3),
        ("The cat sleeps", "Today the cat sleeps", 1, 1),
        ("An owl!", "an owl", 0, None),
        ("", "a cat", 2, 1),
    ):
        for one, other in ((first, second), (second, first)):
            assert (count_edits(one, other), find_difference(one, other)) == (edits, place)


def make_run(folder: Path, *, images: int, tag: str = "") -> Path:
    """A run of 80 items whose captions differ from word 1 to 8 on; a late difference is lost."""
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    columns = "image,caption,negative_caption" if images == 1 else "image_0,image_1,caption_0,caption_1"
    lines = [f"id,{columns},{'tag:first_difference' if tag else 'cluster'}"]
    words = [*"abcdefgh"]
    for k in range(80):
        false = " ".join([*words[: k % 8], "x", *words[k % 8 + 1 :]])
        lines.append(",".join([f"{k}", *["a.png"] * images, " ".join(words), false, tag or f"{k}"]))
    (folder / "pairs.csv").write_text("\n".join(lines) + "\n")
    scores = np.zeros((80, images, 2))
    scores[:, range(images), range(images)] = (np.arange(80) % 8 < 5)[:, None]
    return ta.score(f"table:{folder / 'pairs.csv'}", scores, name="m", kind="similarity", out=folder / "run").folder


@pytest.mark.parametrize("images", [1, 2])
def test_a_run_without_such_a_tag_has_a_curve_over_it(images, tmp_path):
    run = make_run(tmp_path, images=images)
    found = ta.curve(run, over="first_difference").record
    assert (found.n, found.smallest, found.largest) == (80, 1, 8) and 5 < found.curves[0].threshold < 6
    with raises(RunError, "caption_edits", "1", "3"):  # one word differs in all items
        ta.curve(run, over="caption_edits")


def test_a_tag_that_items_carry_is_kept(tmp_path):
    items = outcomes_of(*read_systems(choose_models([make_run(tmp_path, images=1, tag="3")]).runs)).items
    assert tag_captions(items, "first_difference") == items
    assert {item.tags["caption_edits"] for item in tag_captions(items, "caption_edits")} == {"1"}


THRESHOLD, LARGEST, ALIKE = 6.0, 12, 12


class Seer:
    """It sees a difference the better the larger it is, and counts the captions that it reads."""

    def __init__(self) -> None:
        self.fingerprint, self.read = "seer", 0

    def __call__(self, image, text: str) -> float:
        self.read += 1
        if text.startswith("foil"):
            return 0.5
        _, item, size = text.split()
        return float(np.random.default_rng(int(item)).random() < 0.5 + 0.5 * expit(4 * (float(size) - THRESHOLD)))


@pytest.fixture
def table(tmp_path):
    """Write pairs that differ by 1 to 12, twelve of each size; a further column comes from a function of the row."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def write(column="tag:number", value=str, alike=ALIKE):
        lines = [f"id,image,caption,foil,tag:size,{column}"]
        for k in range(LARGEST * alike):
            size = 1 + k // alike
            lines.append(f"p{k},a.png,caption {k} {size},foil {k},{size},{value(k)}")
        (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
        return f"table:{tmp_path / 'pairs.csv'}"

    return write


def test_a_threshold_comes_from_few_items_near_it(table):
    found = ta.curve(model=Seer(), benchmark=table(), over="size", adaptive=60, cache=False).record
    (row,) = found.curves
    assert row.low < THRESHOLD < row.high < row.low + 3 and row.low < row.threshold < row.high
    assert (row.n, len(set(found.drawn)), found.seed, found.limited_from) == (60, 60, 0, LARGEST * ALIKE)
    sizes = np.array([1 + int(name[1:]) // ALIKE for name in found.drawn])
    assert (abs(sizes - THRESHOLD) <= 2).mean() > 0.6
    assert (found.smallest, found.largest) == (1, LARGEST)


def test_a_second_call_reads_the_scores_that_the_store_keeps(table, tmp_path):
    pairs, first, second, other = table(), Seer(), Seer(), Seer()
    call = {"benchmark": pairs, "over": "size", "cache": tmp_path / "store"}
    short = ta.curve(model=first, adaptive=25, **call).record
    long = ta.curve(model=second, adaptive=40, **call).record
    assert long.drawn[:25] == short.drawn
    assert (first.read, second.read) == (50, 30)
    assert ta.curve(model=other, adaptive=25, seed=1, **call).record.drawn != short.drawn


def test_two_items_of_a_cluster_are_never_drawn(table):
    pairs = table("cluster", lambda k: f"scene-{k % ALIKE}-{k // ALIKE // 4}")
    found = ta.curve(model=Seer(), benchmark=pairs, over="size", adaptive=100, cache=False).record
    numbers = [int(name[1:]) for name in found.drawn]
    assert len(numbers) == len({(k % ALIKE, k // ALIKE // 4) for k in numbers}) == 3 * ALIKE
    assert any("36" in note and "100" in note for note in found.notes)


@pytest.mark.parametrize(
    ("rows", "options", "facts"),
    [
        (("cluster", lambda k: f"scene-{k // 2}"), {}, ("adaptive=", "size", "cluster", "scene-", "2 items", "items=")),
        (("tag:kind", lambda k: "ab"[k % 2]), {}, ("adaptive=", "size", "kind", "a", "b", "items=")),
        (("tag:number", str, 4), {}, ("adaptive=", "size", "0 of the 12", "5")),
        ((), {"by": "kind"}, ("adaptive=40", "by=")),
        ((), {"model": None}, ("adaptive=40", "model=")),
        ((), {"adaptive": 19}, ("adaptive=19", "20")),
        ((), {"metric": "group_score"}, ("metric=", "group_score", "choice_score")),
        ((), {"adaptive": None}, ("model=", "adaptive=")),
    ],
)
def test_calls_and_items_that_do_not_fit_are_refused_before_any_is_read(table, rows, options, facts):
    seer = Seer()
    call = {"model": seer, "benchmark": table(*rows), "over": "size", "adaptive": 40, "cache": False}
    with raises(RunError, *facts):
        ta.curve(**call | options)
    assert seer.read == 0


def test_the_command_chooses_the_same_items(table, command):
    pairs = table()
    shown = command("curve", "-m", "random", "-b", pairs, "--over", "size", "--adaptive", "24", "--seed", "3", "--json")
    found = ta.curve(model="random", benchmark=pairs, over="size", adaptive=24, seed=3).record
    assert shown.code == 0 and shown.json["drawn"] == list(found.drawn) and shown.json["seed"] == 3
    printed = command("curve", "-m", "random", "-b", pairs, "--over", "size", "--adaptive", "24")
    assert "posterior" in printed.out and "24 of 144" in printed.out
