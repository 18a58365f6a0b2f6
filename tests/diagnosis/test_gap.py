"""The generalisation gap over run folders, and the correlation over models, on VLUE's tables, too."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tellapart as ta
from facts import raises
from tellapart.diagnosis.gap import difference_bounds, gap, pearson
from tellapart.errors import MetricError, RunError
from tellapart.evaluation.verified import read_result
from tellapart.records.imported import ImportedModel, read_imported
from tellapart.records.run_folder import beside, write_result

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """Four models on made NLVR2 files in domain and out of it: shares of right answers are known."""
    folder, rng = tmp_path_factory.mktemp("gap"), np.random.default_rng(0)
    for side, file, benchmark in (("in", "nlvr2_test.json", "nlvr2"), ("out", "nlvr2_vlue_test.json", "vlue-nlvr2")):
        (folder / side).mkdir()
        labels = [str(bool(rng.integers(2))) for _ in range(50)]
        rows = [{"sentence": f"{k}.", "images": ["a.png", "b.png"], "label": label} for k, label in enumerate(labels)]
        (folder / side / file).write_text(json.dumps(rows))
        for model, inside in (("a", 45), ("b", 40), ("c", 30), ("d", 20)):
            right = inside - (10 if side == "out" else 0)
            said = [{"id": k, "prediction": (row["label"] == "True") ^ (k >= right)} for k, row in enumerate(rows)]
            (folder / f"{model}.json").write_text(json.dumps(said))
            given = {"name": model, "data": folder / side, "out": folder / "runs" / f"{model}-{side}"}
            ta.score(benchmark, folder / f"{model}.json", **given)
    return folder / "runs"


@pytest.fixture
def runs(measured, tmp_path) -> list[Path]:
    folder = shutil.copytree(measured, tmp_path / "runs")
    return [folder / f"{model}-{side}" for side in ("in", "out") for model in "abcd"]


def test_the_bounds_of_a_difference_are_newcombes():
    """Newcombe (1998), table II, (a) by method 10: 56/70 less 48/80 has the bounds 0.0524 and 0.3339."""
    shares = []
    for right, n in ((56, 70), (48, 80)):
        ends = stats.binomtest(right, n).proportion_ci(method="wilson")
        shares.append(np.array([right / n, ends.low, ends.high]))
    assert difference_bounds(*shares) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@pytest.mark.slow
def test_the_gap_is_in_domain_less_out_of_domain_for_every_model(command, runs):
    found = gap(runs)
    assert [(row.model, row.task) for row in found.rows] == [(name, "nlvr2: accuracy") for name in "abcd"]
    assert [row.gap for row in found.rows] == pytest.approx([0.2] * 4)
    assert all(row.low < row.gap < row.high for row in found.rows)
    assert found.correlation == {"nlvr2: accuracy": pytest.approx(1.0)}
    ran = command("gap", *runs)
    assert "nlvr2: accuracy: Pearson's r over 4 models, in domain with out of domain: 1.00" in ran.out
    assert command("gap", *runs, "--json").json["rows"][0]["gap"] == pytest.approx(0.2)


@pytest.mark.parametrize("models", [1, 2, 3])
def test_fewer_than_four_models_have_no_correlation(command, runs, models):
    # Of two models it is 1.00 or -1.00, whatever was measured.
    few = [*runs[:models], *runs[4 : 4 + models]]
    assert (gap(few).correlation, gap(few).models) == ({"nlvr2: accuracy": None}, {"nlvr2: accuracy": models})
    assert "1.00" not in (said := command("gap", *few).out)
    assert f"r over {models} model" in said and "4 models or more" in said


def test_a_side_that_is_missing_a_benchmark_measured_twice_and_numbers_that_fit_nothing_are_refused(runs):
    with raises(RunError, "model", "task", "nlvr2", "vlue-nlvr2"):
        gap(runs[:4])
    with raises(RunError, "nlvr2", "runs"):
        gap([runs[0], *runs])
    for x, y, *facts in (
        ([1.0], [1.0], "models", "numbers"),
        ([1.0, np.nan], [1.0, 2.0], "finite"),
        ([1.0, 2.0], [1.0, np.nan], "finite"),
    ):
        with raises(MetricError, *facts):
            pearson(x, y)


def change_model(run: Path, out: Path | None = None, **changes: str) -> None:
    record = read_result(run)
    write_result(out or run, record.model_copy(update={"model": record.model.model_copy(update=changes)}))


def test_runs_of_other_weights_under_one_name_are_two_models(runs):
    change_model(runs[0], fingerprint="old")
    change_model(runs[4], fingerprint="new")
    assert [row.model for row in gap(runs).rows] == ["b", "c", "d"]
    with raises(RunError, "a (run 1), a (run 2)", "weights"):
        gap([runs[0], runs[4]])


def test_score_files_are_of_the_only_computed_model_of_their_name(runs):
    before = gap(runs)
    change_model(runs[0], fingerprint="weights")
    assert gap(runs) == before
    assert {*gap([*runs[4:], *runs[:4]]).rows} == {*before.rows}
    # Of two computed models it is unknown which one they are of.
    other = shutil.copytree(runs[0], runs[0].parent / "other")
    change_model(other, dtype="float16")
    assert [row.model for row in gap([*runs, other]).rows] == ["b", "c", "d"]


def test_a_number_of_a_part_of_the_items_says_so(command, runs):
    for run in runs[:4]:
        record = read_result(run)
        part = record.benchmarks["nlvr2"].model_copy(update={"limited_from": 6967})
        write_result(run, record.model_copy(update={"benchmarks": {"nlvr2": part}}))
    ran = command("gap", *runs)
    assert ran.out.count("(50 of 6,967 items)") == 4, ran.out
    for row in gap(runs).rows:
        assert (row.in_domain_items, row.in_domain_limited_from, row.out_of_domain_limited_from) == (50, 6967, None)


@pytest.mark.parametrize("name", ["oracle", "sampled:1@0.7:mine"])
def test_the_reference_models_and_draws_of_several_runs_are_no_models(runs, name):
    plain = gap(runs)
    for run in runs:
        change_model(run, beside(run, name), name=name)
    assert gap(runs) == plain


NUMBERS = st.lists(st.tuples(*[st.floats(-1e6, 1e6).map(lambda x: round(x, 3))] * 2), min_size=3, max_size=12)


@given(NUMBERS)
def test_it_is_scipys_wherever_both_vary_and_none_elsewhere(pairs):
    x, y = map(np.array, zip(*pairs, strict=True))
    found = pearson(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert found is None
        return
    if min(np.ptp(x), np.ptp(y)) > 1e-3 * max(np.abs(x).max(), np.abs(y).max()):  # scipy warns of the rest
        assert found == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert pearson(y, x) == pytest.approx(found, abs=1e-12)
    assert pearson(-x, y) == pytest.approx(-found, abs=1e-12)
    assert pearson(x[::-1], y[::-1]) == found


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_neither_tiny_nor_huge_numbers_are_lost_when_they_are_squared(scale):
    x, y = np.random.default_rng(0).uniform(46, 79, (2, 8))
    for found in (pearson(scale * x, y), pearson(x, scale * y)):
        assert found == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)


# What VLUE's correlation of 0.75 may be taken over: the table of docs/benchmarks.md, from the paper's Table 2
TEXT = (("coco-retrieval", "i2t_recall@1"), ("vlue-retrieval", "i2t_recall@1"))
IMAGE = (("coco-retrieval", "t2i_recall@1"), ("vlue-retrieval", "t2i_recall@1"))
NLVR2 = (("nlvr2", "accuracy"), ("vlue-nlvr2", "accuracy"))
VQA = (("vqa2", "soft_accuracy"), ("vlue-vqa", "exact_match"))
GROUNDING = (("refcoco+-val", "box_accuracy"), ("vlue-grounding", "box_accuracy"))
Task = tuple[tuple[str, str], tuple[str, str]]
MODELS = read_imported(ROOT / "examples" / "vlue_board" / "records.toml").models
SEVEN = [model for model in MODELS if model.latency is not None]


def points(tasks: Sequence[Task], models: Sequence[ImportedModel] = MODELS) -> list[tuple[float, float]]:
    """The scores in domain and out of it of every model in every task, where the paper has both."""
    both = [[model.scores.get(name, {}).get(of) for name, of in task] for task in tasks for model in models]
    return [(inside, outside) for inside, outside in both if inside is not None and outside is not None]


BOTH = [own for model in MODELS if len(own := points((NLVR2, VQA), [model])) == 2]
ROWS = {
    "NLVR2 (Test-P) and VQA (Test-dev), the two tasks of every model": points((NLVR2, VQA)),
    "the same, of the seven models of Table 4": points((NLVR2, VQA), SEVEN),
    "the same, each model's mean of the two": [tuple(np.mean(own, axis=0).tolist()) for own in BOTH],
    "R@1 of both ways of retrieval, NLVR2 and VQA": points((TEXT, IMAGE, NLVR2, VQA)),
    "R@1, NLVR2, VQA and grounding (Val)": points((TEXT, IMAGE, NLVR2, VQA, GROUNDING)),
    "R@1 of text retrieval alone": points((TEXT,)),
    "R@1 of image retrieval alone": points((IMAGE,)),
    "NLVR2 alone": points((NLVR2,)),
    "VQA alone": points((VQA,)),
    "grounding (Val) alone": points((GROUNDING,)),
}


def test_the_documents_table_and_the_papers_number_come_out_of_its_tables():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = text[text.index("| correlated, in domain") :].split("\n\n")[0]
    printed = re.findall(r"^\| (.+) \| (\d+) \| (0\.\d{3}) \|$", table, re.MULTILINE)
    assert len(SEVEN) == 7
    assert printed == [(name, str(len(own)), f"{pearson(*zip(*own, strict=True)):.3f}") for name, own in ROWS.items()]
    for left_out in ("none", "X-VLM", "X-VLM 16M"):
        own = points((NLVR2, VQA), [model for model in MODELS if model.name != left_out])
        assert pearson(*zip(*own, strict=True)) == pytest.approx(0.75, abs=0.005)
