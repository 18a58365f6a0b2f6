"""Run folders, imported numbers and timings become the board's tables, and stay what they were."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from boards import labels, open_board, tables_of, write_run
from facts import check_facts, raises
from tellapart.board.records import BoardSettings, Item, ItemList, Tables, rank, read_settings
from tellapart.board.views.leaderboard import read_cells
from tellapart.errors import DataError
from tellapart.evaluation.verified import read_result
from tellapart.records.imported import read_imported
from tellapart.records.result import Flips, Precision
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples
from tellapart.report.interchange.foreign import import_results
from tellapart.stats.multiple import holm
from tellapart.stats.paired import mcnemar, tiers
from tellapart.tasks.registry import read_bounded


def names(tables: Tables) -> list[str]:
    return sorted(benchmark.name for benchmark in tables.benchmarks.values())


def test_a_run_folder_comes_back_number_for_number(tmp_path):
    folder = write_run(tmp_path / "a", "a", skill=1.0)
    record, samples = read_result(folder).benchmarks["shapes"], read_samples(folder, "shapes")
    _, board = open_board(tmp_path)
    (entry,) = board.tables.entries.values()
    assert (entry.record.metrics, entry.record.by) == (record.metrics, record.by)
    items = [(item.name, item.cluster, item.texts) for item in entry.items.rows]
    assert items == [(sample.id, sample.cluster, sample.texts) for sample in samples]
    assert entry.scores is not None and (entry.scores == np.float32([sample.scores for sample in samples])).all()


def test_flips_of_a_lower_precision_stand_beside_its_name(tmp_path):
    folder = write_run(tmp_path / "a", "a", skill=1.0)
    result = read_result(folder)
    flips = {name: Flips(n=200, gained=1, lost=lost, low=0.0, high=0.1, p=1.0) for name, lost in (("x", 0), ("y", 2))}
    found = Precision(dtype="bfloat16", against="float32", items=200, seed=0, flips=flips, largest_difference=0.1)
    benchmarks = {name: record.model_copy(update={"precision": found}) for name, record in result.benchmarks.items()}
    model = result.model.model_copy(update={"dtype": "bfloat16"})
    write_result(folder, result.model_copy(update={"benchmarks": benchmarks, "model": model}))
    (model,) = open_board(tmp_path)[1].tables.models.values()
    check_facts(model.note, "bfloat16", f"{4 * len(benchmarks)} of {400 * len(benchmarks)}", "float32")


def test_a_new_or_changed_run_is_read_alone_and_one_that_went_is_gone(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0)
    _, board = open_board(tmp_path)
    before = board.tables
    assert board.read_in(pytest.fail) == 0
    assert board.tables is before
    write_run(tmp_path / "b", "b", skill=2.0, seed=1)
    assert (board.read_in(pytest.fail), labels(board)) == (1, ["a", "b"])
    assert board.tables.version > before.version
    items = [entry.items for entry in board.tables.entries.values()]
    assert items[0] is items[1]  # those of one benchmark are kept once
    (tmp_path / "a" / "results.json").unlink()
    write_run(tmp_path / "b", "b", skill=4.0)
    board.read_in(pytest.fail)
    (entry,) = board.tables.entries.values()
    assert labels(board) == ["b"]
    assert entry.record.metrics == read_result(tmp_path / "b").benchmarks["shapes"].metrics


def test_of_two_runs_of_a_model_on_a_benchmark_the_later_one_counts(tmp_path):
    write_run(tmp_path / "1-later", "a", skill=9.0, started="2026-02-01T00:00:00+00:00")
    write_run(tmp_path / "2-earlier", "a", skill=0.0, started="2026-01-01T00:00:00+00:00")
    write_run(tmp_path / "3-other", "b", skill=0.0, seed=1)
    _, board = open_board(tmp_path)

    def folders() -> list[str]:
        return sorted(entry.folder.name for entry in board.tables.entries.values() if entry.folder)

    assert folders() == ["1-later", "3-other"]
    shutil.rmtree(tmp_path / "1-later")
    assert (board.read_in(pytest.fail), folders()) == (0, ["2-earlier", "3-other"])
    shutil.rmtree(tmp_path / "2-earlier")
    shutil.rmtree(tmp_path / "3-other")
    board.read_in(pytest.fail)
    assert not (board.tables.models or board.tables.benchmarks or board.tables.entries)


@pytest.mark.parametrize(
    ("fingerprint", "n", "expected", "on_trust"),
    [
        ("0" * 64, 10, ["shapes", "shapes#00000000"], [False, False]),  # other items under the same name
        ("ids-" + "0" * 60, 60, ["shapes"], [False, True]),  # scores made elsewhere join the same ids
        ("hidden-" + "0" * 57, 60, ["shapes", "shapes#00000000"], [False, False]),  # hidden labels join nothing
    ],
)
def test_a_benchmark_is_its_name_and_its_items(tmp_path, fingerprint, n, expected, on_trust):
    write_run(tmp_path / "a", "a", skill=1.0)
    second = write_run(tmp_path / "b", "b", skill=1.0, n=n, fingerprint=fingerprint)
    hidden = fingerprint.startswith("hidden")
    if hidden:  # which need no samples
        shutil.rmtree(second / "samples")
    tables = open_board(tmp_path)[1].tables
    assert names(tables) == expected
    assert sorted(entry.on_trust for entry in tables.entries.values()) == on_trust
    assert all(benchmark.items.rows for benchmark in tables.benchmarks.values()) is not hidden


def test_an_imported_run_is_not_called_on_trust(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0, fingerprint="ids-" + "0" * 60)
    file, metrics = tmp_path / "theirs.json", {"text_acc": 0.3, "image_acc": 0.1, "acc": 0.05}
    held = {"dataset": "winoground", "model": "m", "pretrained": "", "task": "image_caption_selection"}
    file.write_text(json.dumps({**held, "metrics": metrics}))
    import_results([file], tmp_path / "theirs", command="")
    tables = open_board(tmp_path)[1].tables
    assert {entry.model: entry.mark for entry in tables.entries.values()} == {"a": "on trust", "m": "imported"}
    cells = read_cells(tables, list(tables.benchmarks.values()), "metric", ["text_score"])
    assert sorted(row["text_score"].mark for row in cells.values()) == ["imported", "on trust"]


@pytest.mark.parametrize("clusters", [None, 12])
def test_tiers_are_those_of_the_statistics(tmp_path, clusters):
    for seed, skill in enumerate((3.0, 2.8, 0.0)):
        write_run(tmp_path / str(seed), f"m{seed}", skill=skill, seed=seed, clusters=clusters)
    found = {name: read_samples(tmp_path / name, "shapes") for name in "012"}
    outcomes = {f"m{name}": [s.outcomes["group_score"] for s in samples] for name, samples in found.items()}
    own = tiers(outcomes, [s.cluster for s in found["0"]] if clusters else None)
    expected = {name: tier.rank for tier in own for name in tier.names}
    assert open_board(tmp_path)[1].tables.tiers["shapes", "group_score"] == expected
    assert expected["m2"] > expected["m0"]


def test_tiers_of_many_models_are_those_of_one_exact_test_a_pair():
    rng = np.random.default_rng(0)
    outcomes = (rng.random((30, 120)) < np.linspace(0.95, 0.05, 30)[:, None]).astype(np.float64)
    order = sorted(range(30), key=lambda k: (-outcomes[k].mean(), f"m{k}"))
    pairs = [(a, b) for a in range(30) for b in range(a)]
    adjusted = holm([mcnemar(outcomes[a], outcomes[b]).p for a, b in pairs])
    differ = {pair for pair, p in zip(pairs, adjusted, strict=True) if p <= 0.05}
    expected, best = {}, order[0]
    for place, model in enumerate(order, start=1):
        if (max(best, model), min(best, model)) in differ:
            best = model
        expected[f"m{model}"] = place if best == model else expected[f"m{best}"]
    items = tuple(Item(f"{k}", "item", f"{k}", "", {}, (), ()) for k in range(outcomes.shape[1]))
    tables = tables_of("group_score", list(outcomes), ItemList(items, "digest"))
    assert rank(tables, tables.benchmarks["b"], "group_score", list(tables.entries.values())) == expected
    assert len(set(expected.values())) > 3


def test_samples_of_other_items_are_refused(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0)
    write_run(tmp_path / "b", "b", skill=1.0, n=10)  # the fingerprint says that the items are the same
    problems: list[str] = []
    open_board(tmp_path, problems.append)
    check_facts(problems[0], "10", "shapes", "60")


def test_a_timing_gives_the_model_of_the_same_weights_its_cost(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0)
    same, other = ({"name": "a", "fingerprint": f} for f in ("weights of a", "others"))
    timing = {"machine": {"processor": "P", "cores": 2, "system": "Linux"}, "device": "cpu", "dtype": "float32"}
    timing |= {"benchmark": "demo", "pairs": 1, "repeats": 1, "warm_up": 0, "batches": 1, "parameters": 1234}
    timing |= {"latency": {"median": 0.02, "low": 0.01, "high": 0.03}, "parts": {}, "throughput": {"batch_size": 1}}
    models = [timing | {"model": same}, timing | {"model": other, "parameters": 1}]
    content = {"schema": 1, "started": "", "command": "", "versions": {}, "models": models}
    (tmp_path / "timing.json").write_text(json.dumps(content))
    (model,) = open_board(tmp_path)[1].tables.models.values()
    assert (model.latency, model.parameters) == (0.02, 1234)


def test_imported_numbers_stand_beside_runs_and_have_no_tier(tmp_path):
    write_run(tmp_path / "a", "a", skill=1.0)
    path = tmp_path / "records.toml"
    path.write_text(
        'source = "a paper"\n[[models]]\nname = "people"\nkind = "human"\n[models.scores.shapes]\ngroup_score = 0.855\n'
        '[[models]]\nname = "b"\n[models.scores.shapes]\ngroup_score = 0.5\n'
    )
    tables = open_board(BoardSettings(runs=(tmp_path,), imported=(path,)))[1].tables
    assert list(tables.benchmarks) == ["shapes"]
    ranks = tables.tiers["shapes", "group_score"]
    rows = {
        model.name: (model.kind, ranks.get(slug), tables.entries["shapes", slug].tie_rule)
        for slug, model in tables.models.items()
    }
    assert rows.pop("a") == ("model", 1, "")
    assert rows == {"b": ("model", None, "not known"), "people": ("human", None, "not known")}


def test_a_draw_of_answers_is_not_ranked_beside_its_model(tmp_path):
    for name, skill in (("a", 1.0), ("sampled:1@0.7:a", 0.9), ("b", 0.5)):
        write_run(tmp_path / name.replace(":", "-"), name, skill=skill)
    tables = open_board(tmp_path)[1].tables
    kinds = {model.name: model.kind for model in tables.models.values()}
    assert kinds == {"a": "model", "b": "model", "sampled:1@0.7:a": "draw"}
    assert {tables.models[slug].name for slug in tables.tiers["shapes", "group_score"]} == {"a", "b"}


PERCENT = 'source = "a"\n[[models]]\nname = "b"\n[models.scores.y]\ncider = 1.4\nhuman_score = 4.2\n'


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_imported, "source = 3", "'source'"),
        (read_imported, 'source = "a"\n[[models]]\nname = "b"\nlatency = -1.0', "'models[0].latency'"),
        (read_imported, 'source = "a"\n[[models]]\nname = "b"\n[models.scores.x]\ny = nan', "'models[0].scores.x.y'"),
        (read_imported, 'source = "a"\nmodel = []', ("'model'", "'models'")),
        (read_imported, "source =", "TOML"),
        (read_bounded, f"{PERCENT}[models.scores.winoground]\ngroup_score = 8.5", ("group_score", "8.5", "percent")),
        (read_bounded, f"{PERCENT}[models.by.domain.out.x]\nsoft_accuracy = 78.37", ("soft_accuracy", "78.37", "x")),
        (read_settings, "[bord]", "'bord'"),
        (read_settings, "[board]\ntitel = 'a'", ("'titel'", "'title'")),
        (read_settings, "[board", "TOML"),
    ],
)
def test_a_file_of_numbers_or_of_a_board_that_is_wrong_is_refused(tmp_path, read, text, message):
    (tmp_path / "file.toml").write_text(text)
    with raises(DataError, message):
        read(tmp_path / "file.toml")


def test_paths_in_a_board_file_are_relative_to_it(tmp_path):
    path = tmp_path / "board.toml"
    path.write_text('[board]\nruns = ["runs", "/srv/runs"]\nimported = ["a.toml"]')
    found = read_settings(path)
    assert found.runs == (tmp_path / "runs", Path("/srv/runs"))
    assert found.imported == (tmp_path / "a.toml",)


def test_labels_differ_whatever_models_are_called(tmp_path):
    for number, name in enumerate(("m", "m (2)", "m")):
        write_run(folder := tmp_path / str(number), name, skill=1.0, seed=number)
        result = read_result(folder)
        model = result.model.model_copy(update={"fingerprint": str(number)})
        write_result(folder, result.model_copy(update={"model": model}))
    assert labels(open_board(tmp_path)[1]) == ["m", "m (2)", "m (3)"]
