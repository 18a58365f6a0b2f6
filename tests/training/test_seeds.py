"""Seeds are runs of their own, kept when they are done; what is said over them is scipy's, paired by seed."""

import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_sets import compared, config, made_record, squares, table, toml

import tellapart as ta
from facts import check_facts, raises
from tellapart.errors import DataError, RunError
from tellapart.evaluation.compare import Comparison
from tellapart.evaluation.run import Settings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.paired import paired_by_seed
from tellapart.training import training_run
from tellapart.training.record import DataRecord, TrainRecord, read_record, write_record
from tellapart.training.train import between, over_seeds, read_seeds, train_seeds
from tellapart.training.training_run import FinishedRun, interpolate

SCORES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=6)


def made(seed: int, after: Sequence[float], before: Sequence[float], names: str = "ab", **changes) -> TrainRecord:
    """A record whose metrics have these values in the trained model and in its start."""
    rows = tuple(compared(name, a, b, p=1.0, p_holm=1.0) for name, a, b in zip(names, before, after, strict=False))
    told = {"name": "made", "seed": seed, **changes}
    return made_record(config=told, model=f"local-dir:{seed}", comparison=Comparison(a="a", b="b", rows=rows))


@settings(max_examples=30)  # scipy tries every sign where differences tie
@given(SCORES)
def test_the_tests_are_those_of_scipy_on_the_differences(values):
    from scipy.stats import t

    a, b = (np.array(side) / 100 for side in zip(*values, strict=True))
    low, high, p, ranks = paired_by_seed(a.tolist(), b.tolist())
    changes = a - b
    if np.ptp(changes) < 1e-12:
        assert (low, high, p) == (None, None, None)
        assert ranks is not None
        return
    error = changes.std(ddof=1) / np.sqrt(len(changes))  # the same by hand: Student's t of the mean difference
    half = t.ppf(0.975, len(changes) - 1) * error
    assert (low, high) == pytest.approx((changes.mean() - half, changes.mean() + half))
    assert p == pytest.approx(2 * t.sf(abs(changes.mean() / error), len(changes) - 1))
    assert (low is not None and high is not None and low * high > 0) == (p is not None and p < 0.05)
    assert ranks is not None and 0 < ranks <= 1
    assert paired_by_seed(b.tolist(), a.tolist())[2:] == pytest.approx((p, ranks))


def test_signed_ranks_of_a_few_seeds_are_counted_by_hand():
    # All of five differences are positive: two of the 32 signs are as extreme.
    assert paired_by_seed([0.2, 0.4, 0.7, 0.5, 0.9], [0.1, 0.2, 0.3, 0.0, 0.1])[3] == pytest.approx(2 / 32)
    assert paired_by_seed([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]) == (None, None, None, 1.0)
    # Ranks 2, 2, -2 and 4, whatever the last bits of the differences: a sum of 2 or less has 4 of the 16 signs.
    assert paired_by_seed([0.3, 0.2, 0.6, 0.9], [0.2, 0.1, 0.7, 0.7])[3] == pytest.approx(2 * 4 / 16)
    assert paired_by_seed([0.2] * 14, [0.1] * 14)[3] == pytest.approx(2 / 2**14)


def test_over_seeds_gives_means_spread_and_the_start():
    first, second = over_seeds([made(s, (0.5 + 0.1 * s, 0.3), (0.4, 0.3)) for s in range(3)])
    assert (first.benchmark, first.seeds, first.other) == ("a", 3, pytest.approx(0.4))
    assert (first.mean, first.sd, first.difference) == pytest.approx((0.6, 0.1, 0.2))
    assert first.p is not None and first.p_holm == first.p  # the only row with a test
    assert (second.difference, second.low, second.p, second.p_holm, second.p_ranks) == (0.0, None, None, None, 1.0)
    (alone,) = over_seeds([made(0, (0.5,), (0.4,))])
    assert (alone.sd, alone.p, alone.p_ranks, alone.mean) == (None, None, None, 0.5)
    # The tests of many metrics are corrected together.
    result = over_seeds([made(s, (0.5 + 0.01 * s, 0.4 + 0.02 * s), (0.4, 0.35)) for s in range(5)])
    ps = sorted(row.p for row in result if row.p is not None)
    expected = [min(1, 2 * ps[0]), max(min(1, 2 * ps[0]), ps[1])]
    assert sorted(row.p_holm for row in result if row.p_holm is not None) == pytest.approx(expected)


def test_two_configurations_are_paired_on_the_seeds_that_both_have():
    first = [made(s, (0.6 + 0.01 * s,), (0,)) for s in (1, 2, 3, 4)]
    second = [made(s, (0.5 + 0.02 * s,), (0,)) for s in (3, 2, 9)]
    (row,) = between(first, second)
    assert (row.seeds, row.mean, row.other) == (2, pytest.approx(0.625), pytest.approx(0.55))
    assert row.p == pytest.approx(paired_by_seed([0.62, 0.63], [0.54, 0.56])[2])
    with raises(RunError, "1, 2, 3, 4", "9", "share"):
        between(first, second[2:])
    with raises(RunError, "benchmark", "report"):
        between(first, [made(1, (0.5,), (0,), names="z")])
    data = [first[0].data.model_copy(update={"reported": {"a": content}}) for content in "12"]
    pairs = zip((first, second), data, strict=True)
    sides = ([each.model_copy(update={"data": own}) for each in some] for some, own in pairs)
    with raises(RunError, "items", "a", "benchmarks"):  # sets of one name are not one set
        between(*sides)
    same = [each.model_copy(update={"data": data[0]}) for each in first]
    with raises(RunError, "items", "a", "benchmarks"):  # of the last seed alone
        between(same, [*same[:-1], same[-1].model_copy(update={"data": data[1]})])


@pytest.mark.parametrize("name", ["seeds", "limit"])
def test_no_seed_and_no_step_are_refused(name, tmp_path):
    for count in (0, -1):
        with raises(DataError, f"{name}={count}", "from 1 on"):
            ta.train(tmp_path / "gone.toml", tmp_path / "run", **{name: count})


def test_folders_of_seeds_are_read_in_the_order_of_numbers(tmp_path):
    for seed in (107, 9, 1000):
        (tmp_path / f"seed-{seed:03d}").mkdir()
        write_record(tmp_path / f"seed-{seed:03d}", made(seed, (0.5,), (0.4,)))
    assert [record.config["seed"] for record in read_seeds(tmp_path)] == [9, 107, 1000]
    with raises(RunError, "seeds", "folder"):
        read_seeds(tmp_path / "gone")


def test_only_what_is_not_done_is_trained_again(tmp_path):
    told, trained = config(tmp_path), []

    def once(one, folder):
        trained.append(one.seed)
        if one.seed == 2 and len(trained) == 3:
            raise KeyboardInterrupt
        folder.mkdir(parents=True, exist_ok=True)
        record = made(one.seed, (0.5,), (0.4,)).model_copy(update={"config": one.model_dump(mode="json")})
        write_record(folder, record)
        return FinishedRun("x", None, False, record=record)

    with pytest.raises(KeyboardInterrupt):
        train_seeds(told, tmp_path / "out", 4, once)
    result = train_seeds(told, tmp_path / "out", 4, once, resume=True)
    assert (trained, [record.config["seed"] for record in result]) == ([0, 1, 2, 2, 3], [0, 1, 2, 3])
    # Another configuration or limit is not what was trained: `start` decides what is to be said of it.
    train_seeds(config(tmp_path, optimiser={"weight_decay": 0.0}), tmp_path / "out", 1, once, resume=True)
    train_seeds(told, tmp_path / "out", 1, once, resume=True, limit=3)
    assert trained[5:] == [0, 0]


@pytest.mark.parametrize("field", ["data", "start"])
def test_seeds_on_different_data_or_from_different_starts_are_no_sample(field, tmp_path):
    def once(one, folder):
        other = str(one.seed // 2)
        other = DataRecord(rows=1, images=1, items=1, fingerprint=other) if field == "data" else other
        record = made(one.seed, (0.5,), (0.4,)).model_copy(update={field: other})
        return FinishedRun("x", None, False, record=record)

    with raises(RunError, "seed-002", "trained" if field == "data" else "start"):
        train_seeds(config(tmp_path), tmp_path / "out", 3, once)


def test_seeds_that_are_done_are_not_those_of_another_data_file(tmp_path):
    reported = squares(tmp_path / "test", count=4, seed=5) / "pairs.jsonl"
    changes = {"optimiser": {"steps": 1, "warm_up": 0}, "report": {"benchmarks": [f"folder:{reported.parent}"]}}
    values = table(tmp_path, data={"train": ["folder:train"], "share": 0.7}, **changes, seed=7)
    (tmp_path / "run.toml").write_text(toml(values), encoding="utf-8")
    first = ta.train(tmp_path / "run.toml", tmp_path / "out", seeds=1)
    assert ta.train(tmp_path / "run.toml", tmp_path / "out", seeds=1, resume=True).records == first.records
    before = reported.read_text("utf-8")
    reported.write_text(before.replace("square", "box"), encoding="utf-8")
    with raises(RunError, "seed-007", "folder:test", f'"{first.record.data.reported["folder:test"][:23]}...', "out="):
        ta.train(tmp_path / "run.toml", tmp_path / "out", seeds=1, resume=True)
    reported.write_text(before, encoding="utf-8")
    pairs = tmp_path / "train" / "pairs.jsonl"
    pairs.write_text(pairs.read_text("utf-8").replace("square", "box"), encoding="utf-8")
    rows = first.record.data.fingerprint
    for count in (1, 2):  # and nothing is trained before
        with raises(RunError, "seed-007", "rows", f'"{rows[:23]}...', "validation", "out="):
            ta.train(tmp_path / "run.toml", tmp_path / "out", seeds=count, resume=True)
    assert not (tmp_path / "out" / "seed-008").exists()


@pytest.mark.slow
def test_the_command_trains_resumes_and_compares(tmp_path, command):
    name = f"folder:{squares(tmp_path / 'test', seed=5)}"
    values = table(tmp_path, report={"benchmarks": [name]}, optimiser={"steps": 2}, seed=7)
    (tmp_path / "run.toml").write_text(toml(values), encoding="utf-8")
    arguments = ("train", tmp_path / "run.toml", "--out", tmp_path / "a", "--allow-leak")
    ran = command(*arguments, "--seeds", 2, "--json", code=0)
    assert (ran.json["seeds"], ran.json["against"]) == ([7, 8], None)
    records = [read_record(tmp_path / "a" / f"seed-00{seed}") for seed in (7, 8)]
    rows = {row["metric"]: row for row in ran.json["start"]}
    for row, other in zip(*(record.comparison.rows for record in records), strict=True):
        assert row.metric == other.metric and rows[row.metric]["mean"] == pytest.approx((row.b + other.b) / 2)
    assert (tmp_path / "a" / "seed-007" / "log.svg").is_file()
    assert (tmp_path / "a/seed-007/model/README.md").is_file()
    again = command(*arguments, "--seeds", 2, "--resume", "--against", tmp_path / "a", code=0)
    assert "2 seeds, percent" in again.out and again.out.count("group_score") == 2
    assert [read_record(tmp_path / "a" / f"seed-00{seed}") for seed in (7, 8)] == records  # nothing ran again
    check_facts(command(*arguments, "--seeds", 2, code=2).err, "--resume", "run")
    check_facts(command(*arguments, "--against", tmp_path / "a", code=2).err, "--against", "--seeds", "N")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@given(alpha=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_every_tensor_equals_the_float64_reference(dtype, alpha):
    before, after = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    result = interpolate({"w": before}, {"w": after}, alpha)["w"]
    exact = (1 - alpha) * before.double().numpy() + alpha * after.double().numpy()
    assert result.dtype == dtype
    assert torch.equal(result, torch.from_numpy(exact).to(dtype))


def test_the_ends_are_kept_to_the_bit_counters_are_the_nearer_ends_and_neither_end_is_changed_nor_shared():
    before, after = {"w": torch.tensor([1.0, math.inf])}, {"w": torch.tensor([math.inf, 2.0])}
    assert torch.equal(interpolate(before, after, 0)["w"], before["w"])
    assert torch.equal(interpolate(before, after, 1)["w"], after["w"])
    before = {"counter": torch.tensor(1), "mean": torch.tensor([0.1, 2.0])}
    after = {"counter": torch.tensor(4), "mean": torch.tensor([0.7, -1.0])}
    copies = [{name: value.clone() for name, value in end.items()} for end in (before, after)]
    for alpha in (k / 10 for k in range(11)):
        state = interpolate(before, after, alpha)
        assert (state.keys(), state["counter"].dtype) == (before.keys(), torch.int64)
        assert state["counter"].item() == (1 if alpha < 0.5 else 4)
        mean = (1 - alpha) * before["mean"].double() + alpha * after["mean"].double()
        assert torch.equal(state["mean"], mean.float())
        for value in state.values():
            value.zero_()
    for end, copy in zip((before, after), copies, strict=True):
        assert all(torch.equal(end[name], value) for name, value in copy.items())


BEST = [((0.2, 0.4, 0.4), 0.999), ((0.4, 0.3, 0.4), 0.0), ((0.1, 0.2, 0.4), 1.0)]


@pytest.mark.parametrize(("headlines", "best"), BEST)
def test_a_sweep_keeps_the_best_model_and_of_equals_the_nearest_to_the_start(monkeypatch, tmp_path, headlines, best):
    values = dict(zip((0.0, 0.999, 1.0), headlines, strict=True))

    def run(_settings, folder, expect, **_):
        expect(SimpleNamespace(benchmark=SimpleNamespace(name="demo")))
        value = SimpleNamespace(value=values[float(folder.parent.name.removeprefix("alpha-"))])
        metrics = dict.fromkeys(("text_score", "image_score", "group_score"), value)
        benchmarks = {"demo": SimpleNamespace(metrics=metrics)}
        measured = SimpleNamespace(benchmarks=benchmarks, model=SimpleNamespace(name="made"))
        measured.model_copy = lambda update: SimpleNamespace(**vars(measured) | update)
        return {folder: measured}

    def save(weights, folder):
        folder.mkdir(parents=True)
        return f"weights {float(weights['w']):g}"

    monkeypatch.setattr(training_run, "run", run)
    ends, asked = ({"w": torch.tensor(0.0)}, {"w": torch.tensor(1.0)}), Settings(models=("x",), benchmarks=("demo",))
    sweep = training_run.run_sweep(ends, [1.0, 0.0, 0.999], save, asked, tmp_path, EmbeddingStore(None))
    assert (sweep.best, sweep.model) == (best, f"weights {best:g}")
    assert [folder.parent.name for folder in tmp_path.glob("*/model")] == [f"alpha-{sweep.label(best)}"]
