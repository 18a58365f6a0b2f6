"""A run folder: its layout, what may not change its numbers, how it is taken up again, and notes on its scores."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from runs import rankings, remeasure, score_file

import tellapart as ta
from facts import check_facts, raises
from sets import write_file
from tellapart import EmbeddingStore, catalog, errors, find_benchmark, read_result, read_samples
from tellapart.data.pairset import Outline
from tellapart.data.scores import ScoreKind, Scores, note_spread
from tellapart.errors import DataError, RunError
from tellapart.evaluation.evaluate import chosen, evaluate, prepare, yield_samples
from tellapart.evaluation.run import Settings, _describe_flips, _list_changed, compare_precisions, run, run_scores
from tellapart.models.memory.external import write_scores
from tellapart.models.options import ModelOptions
from tellapart.models.reference import Constant, Oracle
from tellapart.models.scoring.score import Scored
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Result, Sample
from tellapart.records.samples import write_samples
from tellapart.report.image_sources import ImageSources
from tellapart.tasks.pairs import ListedPairs, measure_pairs

VALUE = {
    *("value", "low", "high", "level", "method", "reason", "n", "clusters", "ties", "tie_neutral", "chance", "average"),
    *("official", "effective", "sd", "mean_absolute"),
}


def measured(out: Path, *, cache: Path | None = None, **settings) -> list[Path]:
    with EmbeddingStore(cache) as store:
        return [*run(Settings(**settings), out, store=store, command="tellapart run")]


def sole(folder: Path):
    (record,) = read_result(folder).benchmarks.values()
    return record


def numbers(folder: Path) -> list[tuple[object, ...]]:
    found = read_result(folder).benchmarks
    return [(name, record.metrics, record.by, record.macro, record.curves) for name, record in found.items()]


def samples(folder: Path) -> dict[str, Sample]:
    (name,) = read_result(folder).benchmarks
    return {sample.id: sample for sample in read_samples(folder, name)}


def test_the_record_has_the_documented_layout_and_reads_back_as_it_was(made_set, installed, tmp_path):
    measured(tmp_path / "run", models=("colours",), benchmarks=(f"folder:{made_set()}",), seed=4)
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (record["schema"], set(record)) == (1, {"schema", "run", "model", "benchmarks", "sha256"})
    known = {name: value for name, value in record["model"].items() if value is not None}
    assert known == {"name": "colours", "fingerprint": "colours-1", "kind": "similarity"}
    assert record["model"].keys() - known == {"dtype", "reading", "prompt", "texts", "file", "provenance"}
    versions = record["run"]["versions"]
    assert record["run"]["seed"] == 4 and "not installed" not in versions.values()
    assert {"python", "tellapart", "numpy", "scipy", "pillow", "onnxruntime"} <= set(versions)
    found = record["benchmarks"]["folder:set"]
    assert set(found["metrics"]["group_score"]) == VALUE
    assert set(found["by"]["type"]["swap"]["metrics"]["text_score"]) == VALUE
    assert found["macro"]["type"]["metrics"]["text_score"]["average"] == "macro: 3 values of type"
    assert len(found["fingerprint"]) == 64 and found["seconds"] > 0
    assert (found["images"], found["images_encoded"]) == (24, 24)
    assert found["texts"] == found["texts_encoded"] > 0
    assert (found["title"], sum(found["curves"]["v1"]["counts"])) == ("Set set", 12)
    del record["sha256"]  # of the file, not of the run
    assert Result.model_validate(record).model_dump(mode="json", by_alias=True) == record


def test_the_samples_hold_every_raw_score_and_outcome(made_set, installed, tmp_path):
    folder = made_set(n=5)
    (out,) = measured(tmp_path / "run", models=("colours",), benchmarks=(f"folder:{folder}",))
    found = samples(out)
    listed = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    assert [(s.id, list(s.images), list(s.texts), s.tags) for s in found.values()] == [
        (item["id"], item["images"], item["texts"], item["tags"]) for item in listed
    ]
    for sample in found.values():
        s = np.array(sample.scores, np.float32)
        assert s.shape == (2, 2)
        assert sample.outcomes["text_score"] == float(s[0, 0] > s[0, 1] and s[1, 1] > s[1, 0])
        assert sample.outcomes["v1"] == pytest.approx(float(s[0, 1]) - float(s[1, 0]))
    (name,) = read_result(out).benchmarks
    assert remeasure(out, name).metrics == sole(out).metrics


@pytest.mark.parametrize(
    ("shape", "model", "metrics"),
    [
        ((2, 2), "colours", {"text_score", "image_score", "group_score", "v1"}),
        ((1, 2), "colours", {"choice_score", "pairwise"}),
        ((1, 2), "probable", {"choice_score", "pairwise", "acc", "p_c", "p_f", "min_pc_pf"}),
        ((1, 5), "colours", {"choice_score"}),
        ((2, 1), "colours", {"choice_score"}),
    ],
)
def test_every_shape_runs_with_the_metrics_that_are_defined_for_it(
    made_set, installed, tmp_path, shape, model, metrics
):
    (out,) = measured(tmp_path / "run", models=(model,), benchmarks=(f"folder:{made_set(shape=shape)}",))
    record = sole(out)
    assert record.shape == shape
    assert metrics <= set(record.metrics)
    assert ("v1" in record.metrics) is (shape == (2, 2))
    assert remeasure(out, next(iter(read_result(out).benchmarks))).by == record.by


@pytest.fixture
def colours(made_set, installed) -> dict[str, Any]:
    """The settings of a run of one model on one set."""
    return {"models": ("colours",), "benchmarks": (f"folder:{made_set()}",)}


def test_neither_batches_nor_the_store_nor_other_models_nor_a_limit_change_a_number(colours, tmp_path):
    cache = tmp_path / "store.sqlite"
    runs = [
        measured(tmp_path / "a", **colours),
        measured(tmp_path / "b", **colours, batch_size=1),
        measured(tmp_path / "c", **colours, batch_size=7, cache=cache),
        measured(tmp_path / "d", **colours, cache=cache),
        measured(tmp_path / "e", **colours | {"models": ("random", "colours", "oracle")})[1:],
    ]
    for first, *_ in runs[1:]:
        assert (numbers(first), samples(first)) == (numbers(runs[0][0]), samples(runs[0][0]))
    counts = [(record.images_encoded, record.texts_encoded) for record in (sole(tmp_path / "c"), sole(tmp_path / "d"))]
    assert counts[0][0] == 24 and counts[1] == (0, 0)
    measured(tmp_path / "part", **colours, limit="5")
    part = samples(tmp_path / "part")
    assert len(part) == 5 and part.items() <= samples(tmp_path / "a").items()
    one, other = sole(tmp_path / "part"), sole(tmp_path / "a")
    assert (one.limited_from, one.limited_to, other.limited_from, other.limited_to) == (12, 5, None, None)
    assert one.fingerprint != other.fingerprint


def test_the_order_of_lines_changes_no_number_and_not_the_fingerprint(made_set, installed, tmp_path):
    folder = made_set(clusters=4)
    settings = {"models": ("colours",), "benchmarks": (f"folder:{folder}",)}
    (one,) = measured(tmp_path / "a", **settings)
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    (folder / "pairs.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    (other,) = measured(tmp_path / "b", **settings)
    assert (numbers(one), samples(one)) == (numbers(other), samples(other))
    assert sole(one).fingerprint == sole(other).fingerprint


@pytest.mark.parametrize(
    ("limit", "kept"), [("1", 1), ("5", 5), ("12", 12), ("13", 12), ("0.5", 6), (".25", 3), ("0.0001", 1), ("1.0", 12)]
)
def test_a_limit_is_a_number_or_a_share(limit, kept):
    places = list(chosen(12, limit))
    assert len(places) == len(set(places)) == kept
    assert places == sorted(places)
    gaps = np.diff([*places, 12])
    assert gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "0.0", "ten", "10%", "", "nan", "inf", "1e3", "1.e999", "9" * 99])
def test_another_limit_is_refused(limit):
    with raises(errors.RunError, "limit=", "20", "0", "1"):
        chosen(12, limit)


def test_what_two_benchmarks_share_is_encoded_once(made_set, installed, tmp_path):
    names = (f"folder:{made_set('a', n=6)}", f"folder:{made_set('b', n=6)}")  # of one seed: the same pixels
    measured(tmp_path / "run", models=("colours",), benchmarks=names)
    first, second = (read_result(tmp_path / "run").benchmarks[name] for name in ("folder:a", "folder:b"))
    assert (first.images_encoded, second.images_encoded, second.texts_encoded) == (12, 0, 0)
    assert first.fingerprint == second.fingerprint


def test_the_first_model_is_the_subject_and_the_others_lie_beside_it_by_the_names_that_were_asked_for(
    made_set, installed, tmp_path
):
    models = ("colours", "twin", "random", "oracle")  # the twin calls itself by the first one's name
    folders = measured(tmp_path / "run", models=models, benchmarks=(f"folder:{made_set()}",))
    places = [folder.relative_to(tmp_path).as_posix() for folder in folders]
    assert places == ["run", *(f"run/beside/{name}" for name in models[1:])]
    assert [read_result(folder).model.name for folder in folders] == [*models]
    assert [read_result(folder).model.fingerprint for folder in folders[:2]] == ["colours-1", "colours-2"]
    assert sole(folders[3]).metrics["group_score"].value == 1


def test_a_model_that_breaks_is_named_and_the_others_are_measured(made_set, tmp_path):
    asked = []

    def broken(image, text: str) -> float:
        asked.append(text)
        raise ValueError("no weights")

    broken.fingerprint = "broken-1"
    sets = [f"folder:{made_set(name)}" for name in "ab"]
    with (
        pytest.warns(errors.TellapartWarning, match=r"broken stopped on folder:a;.*run.*leave it out"),
        raises(errors.TellapartError, "no weights"),
    ):
        ta.evaluate(["oracle", broken, "blind"], sets, out=tmp_path / "run", progress=False)
    for folder, value in (("run", 1), ("run/beside/blind", 0)):
        records = read_result(tmp_path / folder).benchmarks.values()
        assert [record.metrics["group_score"].value for record in records] == [value, value]
    assert len(asked) == 2  # of the first set alone: in a batch, and again to name the image
    assert not (tmp_path / "run" / "beside" / "broken").exists()


def test_a_finished_benchmark_is_not_measured_again_and_another_is_added(made_set, colours, tmp_path):
    out, (first,), second = tmp_path / "run", colours["benchmarks"], f"folder:{made_set('b', seed=1)}"
    measured(out, **colours)
    before = sole(out)
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*") if path.is_file()}
    measured(out, **colours)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept} == kept
    measured(out, models=("colours",), benchmarks=(first, second))
    found = read_result(out).benchmarks
    assert found["folder:set"] == before  # with its time, to the nanosecond
    assert list(found) == ["folder:set", "folder:b"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models": ("random",)}, ("model", "colours")),
        ({"models": ("twin",)}, ("colours-1", "colours-2", "weights")),
        ({"seed": 1}, ("0", "1", "seed")),
        ({"limit": "3"}, ("unset", "3")),
    ],
)
def test_the_folder_of_another_run_is_refused(colours, tmp_path, change, said):
    measured(tmp_path / "run", **colours)
    before = (tmp_path / "run" / "results.json").read_bytes()
    with raises(errors.RunError, "out=", said):
        measured(tmp_path / "run", **colours | change)
    assert (tmp_path / "run" / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value", "facts"),
    [
        ("texts", ["another", "text"], ("folder",)),
        # The fingerprint covers neither of these, and intervals and breakdowns come from them.
        ("cluster", "scene", ("folder:set", "item-3, item-4")),
        ("tags", {"type": "other"}, ("folder:set", "item-3, item-4")),
    ],
)
def test_a_finished_benchmark_whose_content_clusters_or_tags_changed_is_refused(colours, tmp_path, field, value, facts):
    measured(tmp_path / "run", **colours)
    listed = tmp_path / "set" / "pairs.jsonl"
    rows = [json.loads(line) for line in listed.read_text().splitlines()]
    write_file(listed, [row | {field: value} if k in (3, 4) else row for k, row in enumerate(rows)])
    with raises(errors.RunError, "out=", facts):
        measured(tmp_path / "run", **colours)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")], ids=["gone", "damaged"])
def test_a_finished_benchmark_without_its_samples_is_held(colours, tmp_path, damage):
    measured(tmp_path / "run", **colours)
    before = (tmp_path / "run" / "results.json").read_bytes()
    damage(next((tmp_path / "run" / "samples").iterdir()))
    measured(tmp_path / "run", **colours)
    assert (tmp_path / "run" / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"models": ("random", "orcale")}, errors.UnknownNameError, ("model", "'orcale'", "'oracle'")),
        ({"benchmarks": ("winogrund",)}, errors.UnknownNameError, ("benchmark", "'winogrund'", "'winoground'")),
        ({"benchmarks": ("winoground",)}, errors.DataError, ("tellapart score", "winoground", "--scores", "FILE")),
        ({"benchmarks": ("folder:nowhere",)}, errors.DataError, ("'nowhere'", "folder")),
        ({"benchmarks": ("folder:",)}, errors.DataError, ("folder:PATH", "folder")),
        ({"benchmarks": ("no-benchmark",)}, errors.DataError, ("'no-benchmark'", "dict", "Benchmark")),
        ({"models": ("no-model",)}, errors.ModelError, ("model", "'no-model'", "str")),
        ({"models": ("onnx:",)}, errors.ModelError, ("model", "onnx:PATH")),
        ({"models": ("random", "random")}, errors.RunError, ("models=random", "twice")),
        ({"benchmarks": ("SET", "SET")}, errors.RunError, ("benchmarks=folder", "twice")),
        ({"limit": "0"}, errors.RunError, ("limit=", "0")),
        ({"device": "tpu"}, errors.ModelError, ("'tpu'", "device")),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_folder_is_made(made_set, installed, tmp_path, settings, error, said):
    here = f"folder:{made_set()}"
    wanted = {"models": ("random",), "benchmarks": (here,)} | settings
    wanted["benchmarks"] = tuple(here if name == "SET" else name for name in wanted["benchmarks"])
    with raises(error, said):
        measured(tmp_path / "run", **wanted)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_and_an_image_that_cannot_be_decoded_are_refused(made_set, tmp_path):
    here = f"folder:{made_set()}"
    (tmp_path / "file").write_text("")
    with raises(errors.RunError, "file/run", "file is not a folder", "out="):
        measured(tmp_path / "file" / "run", models=("random",), benchmarks=(here,))
    with raises(errors.RunError, "/proc/nowhere"):
        measured(Path("/proc/nowhere"), models=("random",), benchmarks=(here,))
    folder = made_set("broken")
    broken = folder / "images" / "3_1.png"
    broken.write_bytes(broken.read_bytes()[:-30])
    with raises(errors.DataError, "pairs.jsonl:4", "'images[1]'"):
        measured(tmp_path / "run", models=("random",), benchmarks=(f"folder:{folder}",))
    assert not (tmp_path / "run").exists()


def test_a_store_that_cannot_be_opened_costs_a_new_one(made_set, tmp_path, caplog):
    path = tmp_path / "store.sqlite"
    path.write_text("not a database, but long enough to be taken for one at first sight " * 20)
    settings = {"models": ("random",), "benchmarks": (f"folder:{made_set()}",)}
    measured(tmp_path / "plain", **settings)
    for number in (1, 2):
        measured(tmp_path / str(number), cache=path, **settings)
        check_facts(caplog.text, f"{path}.damaged-{number}")
        assert numbers(tmp_path / str(number)) == numbers(tmp_path / "plain")
        path.write_bytes(path.read_bytes()[:5000])


def test_scores_of_the_users_own_pairs_carry_captions_and_tags(made_set, tmp_path):
    file = score_file(tmp_path / "mine.csv", {f"item-{k}": np.eye(2) for k in range(12)})
    out = run_scores({f"folder:{made_set()}": file}, tmp_path / "run")
    assert (read_result(out).model.name, set(sole(out).by)) == ("mine", {"side", "type"})
    first = samples(out)["item-0"]
    assert len(first.texts) == len(first.images) == 2


@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_ties_that_float32_makes_are_counted_and_said_at_first_look(made_set, tmp_path, capsys, dtype):
    values = np.random.default_rng(0).integers(1, 1000, (12, 2, 2)).astype(dtype)
    values[3] = [[2**25, 2**25 + 1], [1, 2]]
    values[4] = [[5, 5], [1, 2]]
    np.save(tmp_path / "a.npy", values)
    ta.score(f"folder:{made_set()}", tmp_path / "a.npy", kind="similarity", out=tmp_path / "run").show()
    said = next(line for line in capsys.readouterr().out.splitlines() if "float32" in line)
    assert "a:" in said and "1 item" in said and "tied" in said
    record = sole(tmp_path / "run")
    assert (record.tied_items, record.tied_comparisons, record.rounded_ties) == (2, 2, 1)


# Further tags of items, from a file: results are broken down by them, and the set stays the set.


def test_results_are_broken_down_by_tags_of_a_file_which_a_task_does_not_take(tmp_path):
    plain = ta.evaluate("demo-encoder", "demo", limit=40, out=tmp_path / "plain")
    names = [sample.id for sample in read_samples(tmp_path / "plain", "demo")]
    file = write_file(tmp_path / "tags.jsonl", [{"id": name, "half": "ab"[k % 2]} for k, name in enumerate(names)])
    tagged = ta.evaluate("demo-encoder", "demo", limit=40, tags=file, out=tmp_path / "tagged")
    before, after = (run.result().benchmarks["demo"] for run in (plain, tagged))
    assert (after.fingerprint, after.metrics) == (before.fingerprint, before.metrics)
    assert after.by.keys() - before.by.keys() == {"half"}
    assert [group.metrics["group_score"].n for group in after.by["half"].values()] == [20, 20]
    assert ta.verify(tagged).passed
    with raises(RunError, "tags=", "pairing"):
        ta.evaluate("oracle", "pairing:demo", tags=write_file(tmp_path / "tags.jsonl", [{"id": "a", "kind": "b"}]))


def test_a_blank_value_is_no_tag_and_an_older_run_that_has_it_goes_on(tmp_path, monkeypatch):
    file = write_file(tmp_path / "tags.jsonl", [{"id": "attribute-000", "half": " "}])

    def has_tag(out: str) -> bool:
        run = ta.evaluate("oracle", "demo", limit=4, tags=file, out=tmp_path / out)
        return "half" in run.result().benchmarks["demo"].by

    with monkeypatch.context() as older:
        older.setattr("tellapart.data.pairset.filled_tags", dict)
        assert has_tag("run")
    has_tag("run")
    assert not has_tag("other")


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([{"id": "nowhere", "kind": "a"}], ("demo", "nowhere")),
        ([], ("tags.jsonl", "empty")),
        ([{"id": 3, "kind": "a"}], ("tags.jsonl:1", "texts")),
        ([{"id": "attribute-000", "kind": 3}], ("tags.jsonl:1", "texts")),
        ([{"id": "attribute-000", "kind": "a"}] * 2, ("tags.jsonl:2", "attribute-000", "twice")),
    ],
)
def test_tags_that_do_not_fit_are_refused(rows, facts, tmp_path):
    with raises((RunError, DataError), *facts):
        ta.evaluate("oracle", "demo", limit=4, tags=write_file(tmp_path / "tags.jsonl", rows))


# Score files of one system: which join a run folder, and which are refused because they are of something else.


def scores_of(folder: Path, path: Path, seed: int = 0) -> Path:
    """Write random scores of a set's items."""
    ids = tuple(json.loads(line)["id"] for line in (folder / "pairs.jsonl").read_text().splitlines())
    values = np.random.default_rng(seed).random((len(ids), 2, 2), dtype=np.float32)
    write_scores(Scores(ids, values, "similarity"), path)
    return path


def test_several_files_need_a_name_and_the_same_file_again_changes_nothing_where_another_is_refused(made_set, tmp_path):
    names = [made_set(name, seed=seed) for seed, name in enumerate(("first", "second"))]
    files = {f"folder:{one}": scores_of(one, tmp_path / f"{one.name}.npz") for one in names}
    with raises(RunError, "name="):
        run_scores(files, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert read_result(run_scores(files, tmp_path / "run", name="mine")).model.name == "mine"
    folder, out = made_set(), tmp_path / "run"
    file, other = scores_of(folder, tmp_path / "a.npz"), scores_of(folder, tmp_path / "b.npz", 1)
    run_scores({f"folder:{folder}": file}, out, name="mine")
    before = (out / "results.json").read_bytes()
    run_scores({f"folder:{folder}": file}, out, name="mine")
    assert (out / "results.json").read_bytes() == before
    with raises(RunError, "a.npz", "out="):
        run_scores({f"folder:{folder}": other}, out, name="mine")
    (folder / "pairs.jsonl").write_text("\n".join((folder / "pairs.jsonl").read_text().splitlines()[:-1]))
    with raises(RunError, "out=", "run"):
        run_scores({f"folder:{folder}": scores_of(folder, file)}, out, name="mine")


def test_the_same_file_on_a_set_with_other_true_captions_is_refused_and_not_compared(made_set, tmp_path):
    folder = made_set(shape=(1, 2))
    ids = tuple(f"item-{k}" for k in range(12))
    write_scores(Scores(ids, np.tile(np.float32([[0.2, 0.8]]), (12, 1, 1)), "similarity"), tmp_path / "a.npz")

    def score(out: str) -> ta.Run:
        return ta.score(f"folder:{folder}", tmp_path / "a.npz", name=out, out=tmp_path / out)

    assert score("before").value("choice_score") == 0
    listed = folder / "pairs.jsonl"
    rows = [json.loads(line) | {"true": [1]} for line in listed.read_text().splitlines()]
    write_file(listed, rows)
    with raises(RunError, "out=", "item-0", "captions"):
        score("before")
    assert score("after").value("choice_score") == 1
    with raises(RunError, "folder:set", "item-0", "captions"):
        ta.compare(tmp_path / "before", tmp_path / "after")
    # Nor are its intervals those of items that became a cluster, or its parts those of tags that became known.
    for change in ({"cluster": "scene"}, {"tags": {"type": "swap"}}):
        write_file(listed, [row | change for row in rows])
        with raises(RunError, "out=", "item-1", "clusters", "tags"):
            score("after")


@pytest.mark.parametrize("first", ["bare", "files"])
def test_the_same_scores_are_held_whether_the_files_of_the_set_are_there_or_not(tmp_path, first):
    ids = tuple(f"{k}" for k in range(12))
    files = Outline(ids, (2, 2), ("0", *ids[:-1]), tuple({"type": "swap"} for _ in ids))
    sets = {"bare": Outline(ids, (2, 2), ids, ({},) * 12), "files": files}
    scored = measure_pairs(ListedPairs(sets[first]), Scored(Scores(ids, np.zeros((12, 2, 2), np.float32), "logit")))
    samples = write_samples(tmp_path, "set", yield_samples(*scored))
    record = BenchmarkResult(title="", fingerprint=f"{IDS_ONLY}0", metrics={}, origin="", samples=samples)

    def changed(outline: Outline) -> list[str]:
        ready = SimpleNamespace(records=ListedPairs(outline), benchmark=SimpleNamespace(name="set"))
        return _list_changed(tmp_path, record, cast("Any", ready))

    assert not changed(sets["bare"]) and not changed(files)
    other = replace(files, tags=({"type": "add"}, *files.tags[1:]), clusters=("0", "scene", *files.clusters[2:]))
    assert changed(other) == ([] if first == "bare" else ["0", "1"])


def test_pairs_in_memory_are_scored_wherever_their_folder_lies(made_set, tmp_path):
    folder = made_set()  # not below the working directory
    path = scores_of(folder, tmp_path / "a.npz")
    named = ta.score(f"folder:{folder}", path, out=tmp_path / "named")
    held = ta.score(ta.read_pair_set(folder), path, out=tmp_path / "held")
    assert held.result().benchmarks.keys() == named.result().benchmarks.keys()
    assert held.value("group_score") == named.value("group_score")
    read = ImageSources.of(held.folder, held.result(), f"folder:{folder.name}").reader()
    assert read is not None and read(ta.read_pair_set(folder).items[0].images[0])


def test_progress_of_scores_is_that_of_their_intervals(made_set, tmp_path):
    folder, seen = made_set(), []
    file = scores_of(folder, tmp_path / "mine.npz")

    def report(title: str) -> Callable[..., None]:
        return lambda stage, done, total: seen.append((title, stage, 0 <= done < total))

    ta.score(f"folder:{folder}", file, out=tmp_path / "run", progress=report)
    assert {*seen} == {(f"mine on folder:{folder.name}", "intervals", True)}


# Scores that hardly vary are said with the likely cause; others are not.


class Flat:
    """A pair scorer whose scores lie about .5, as a reranker's do without its template."""

    name, fingerprint = "flat", "flat-1"

    def __init__(self, width: float, kind: ScoreKind = "probability") -> None:
        self.width, self.kind = width, kind

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        drawn = [(image.mean() * sum(map(ord, text))) % 1 for image, text in zip(images, texts, strict=True)]
        return np.array([0.5 + self.width * (number - 0.5) for number in drawn], np.float32)


@pytest.mark.parametrize("task", ["pairs", "ranking"])
def test_a_model_whose_scores_hardly_vary_is_noted(made_set, task):
    folder = made_set()
    name = f"folder:{folder}" if task == "pairs" else rankings(folder, "ab", range(1, 7))

    def notes(model) -> list[str]:
        ready = prepare(find_benchmark(name), store=EmbeddingStore(None))
        return [note for note in evaluate(model, ready).result.notes if "template" in note]

    (note,) = notes(Flat(0.05))
    check_facts(note, "48" if task == "pairs" else "12", ".1")
    (note,) = notes(Flat(0.0))
    check_facts(note, "100 %", "0.5")
    assert notes(Flat(0.5)) == notes(Flat(0.05, "similarity")) == notes(Constant()) == []
    (note,) = notes(Flat(0.0, "logit"))


def test_a_file_whose_scores_hardly_vary_is_noted_and_shown(made_set, tmp_path, command):
    name, ids = f"folder:{made_set()}", tuple(f"item-{k}" for k in range(12))
    values = 0.5 + 0.04 * np.random.default_rng(0).random((len(ids), 2, 2), dtype=np.float32)
    for kind, noted in (("probability", 1), ("similarity", 0)):
        write_scores(Scores(ids, values, kind), tmp_path / f"{kind}.npz")
        out = run_scores({name: tmp_path / f"{kind}.npz"}, tmp_path / kind)
        assert sum("template" in note for note in sole(out).notes) == noted
        assert ("without its chat template" in " ".join(command("show", out).out.split())) == noted


def test_cosines_of_an_encoder_in_a_narrow_range_are_ordinary_and_few_scores_say_nothing():
    """As SigLIP's: between -.1 and .1; and a few that are equal."""
    cosines = np.random.default_rng(0).normal(0.02, 0.01, (100, 2, 2)).astype(np.float32)
    cosines[:90] = cosines[0]
    ids = tuple(map(str, range(100)))
    assert note_spread([Scores(ids, cosines, "similarity")]) == ()
    cosines[:] = 0.7
    cosines[0, 0, 0] = 0.1
    (note,) = note_spread([Scores(ids, cosines, "similarity")])
    check_facts(note, "99.75 % of 400", "0.7")
    assert note_spread([]) == note_spread([Scores(("a", "b"), np.full((2, 2, 2), 0.5), "probability")]) == ()


# Outcomes that a lower precision flips are counted as two runs show them, and near ties.


def sample(number: int, scores: Sequence[Sequence[float]], right: float, cluster: str = "") -> Sample:
    outcomes = {"text_score": right, "v1": scores[0][0] - scores[0][1]}
    return Sample(id=str(number), cluster=cluster or str(number), scores=scores, outcomes=outcomes)


def test_flips_are_counted_both_ways_and_without_one_there_is_a_bound():
    exact = [sample(k, [[0.5, 0.25 + k / 100], [0.0, 0.75]], 1.0) for k in range(8)]
    exact[3] = sample(3, [[0.5, 0.5625], [0.0, 0.75]], 0.0)
    lower = list(exact)
    lower[2] = sample(2, [[0.25, 0.27], [0.0, 0.75]], 0.0)  # 0.23 from a tie in float32
    lower[3] = sample(3, [[0.5, 0.49], [0.0, 0.75]], 1.0)  # 0.0625 from one
    found = compare_precisions(lower, exact, dtype="bfloat16", seed=4)
    assert list(found.flips) == ["text_score"]  # v1 is a size
    flips = found.flips["text_score"]
    assert (flips.n, flips.gained, flips.lost, flips.flipped, flips.p) == (8, 1, 1, 2, 1.0)
    assert flips.low is not None and flips.high is not None and 0 < flips.low < 0.25 < flips.high < 1
    assert found.farthest_from_tie == pytest.approx(0.23)
    assert found.largest_difference == pytest.approx(0.25) and (found.items, found.seed) == (8, 4)
    exact = [sample(k, [[0.5, 0.25]], 1.0) for k in range(100)]
    found = compare_precisions(exact, exact, dtype="float16")
    flips = found.flips["text_score"]
    assert (flips.flipped, flips.low, found.farthest_from_tie, found.largest_difference) == (0, 0.0, None, 0.0)
    assert flips.high == pytest.approx(0.037, abs=1e-3)


def test_items_of_one_cluster_widen_the_interval_of_flips_and_a_p_is_written_as_a_bound():
    def wide(clusters: int) -> float:
        exact = [sample(k, [[0.5, 0.25]], 1.0, f"c{k % clusters}") for k in range(40)]
        wrong = [sample(k, [[0.2, 0.25]], 0.0, f"c{k % clusters}") for k in range(40)]
        lower = [wrong[k] if k % 10 == 0 else one for k, one in enumerate(exact)]
        flips = compare_precisions(lower, exact, dtype="bfloat16").flips["text_score"]
        return flips.high - flips.low

    assert wide(10) > wide(40)
    exact = [sample(k, [[0.5, 0.25]], 1.0, f"c{k // 2}") for k in range(60)]
    lower = [sample(k, [[0.2, 0.25]], 0.0, f"c{k // 2}") for k in range(60)]
    found = compare_precisions(lower, exact, dtype="bfloat16")
    assert found.flips["text_score"].p == 1 / 10_001
    assert "p <= 0.0001" in _describe_flips(found)
    exact = [sample(0, [[0.9, 0.5, 0.4, 0.1]], 1.0), sample(1, [[0.9, 0.5, 0.4, 0.1]], 1.0)]
    lower = [exact[0], sample(1, [[0.9, 0.3, 0.4, 0.1]], 0.0)]
    found = compare_precisions(lower, exact, dtype="bfloat16", true=2)
    assert found.farthest_from_tie == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"dtype": "float32", "check": 10}, ("check=10", "float32")),
        ({"dtype": "bfloat16", "check": 0}, ("check=0", "bfloat16", "float32")),
        ({"dtype": "bfloat16", "flips": 0.1}, ("flips=0.1", "bfloat16", "auto")),
        ({"dtype": "auto", "flips": 1.5}, ("flips=1.5", "0", "1")),
    ],
)
def test_a_check_needs_items_and_another_dtype_and_flips_are_a_share_of_auto(settings, facts, tmp_path):
    with raises(RunError, *facts):
        run(Settings(models=("oracle",), **settings), tmp_path / "run", store=EmbeddingStore(None))


def test_a_model_without_a_dtype_is_not_scored_twice(tmp_path, monkeypatch):
    def same_in_all(options: ModelOptions) -> Oracle:
        assert options.dtype in {"float32", "bfloat16"}
        return Oracle()

    monkeypatch.setitem(catalog._ADDED["model"], "same", same_in_all)
    settings = Settings(models=("same",), limit="3", dtype="bfloat16", check=2)
    folder, *_ = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    result = read_result(folder)
    assert result.benchmarks["demo"].precision is None and result.run.check == 2
    with raises(RunError, "check", "2", "unset"):
        run(Settings(models=("same",), limit="3", dtype="bfloat16"), folder, store=EmbeddingStore(None))
    assert np.isfinite(result.benchmarks["demo"].seconds)


def test_auto_is_float32_without_a_faster_dtype(tmp_path, monkeypatch):
    monkeypatch.setattr("tellapart.evaluation.run.fastest_dtype", lambda _device: "float32")
    settings = Settings(models=("oracle",), limit="3", dtype="auto")
    folder, *_ = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    result = read_result(folder)
    record = result.benchmarks["demo"]
    assert (result.model.dtype, result.run.check, record.precision) == (None, None, None)
    assert any("auto" in note and "float32" in note and "cpu" in note for note in record.notes)
