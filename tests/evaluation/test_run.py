"""A run folder: its layout, what may not change its numbers, and how it is taken up again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import score_file
from samples_again import remeasure

import tellapart as ta
from facts import check_facts, raises
from tellapart import errors
from tellapart.evaluation.evaluate import chosen
from tellapart.evaluation.run import Settings, run, run_scores
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Result, Sample
from tellapart.records.samples import read_samples

VALUE = {
    *("value", "low", "high", "level", "method", "reason", "n", "clusters", "ties", "tie_neutral", "chance", "average"),
    "official",
    *("effective", "sd", "mean_absolute"),
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


# The record


def test_the_record_has_the_documented_layout(made_set, installed, tmp_path):
    name = f"folder:{made_set()}"
    measured(tmp_path / "run", models=("colours",), benchmarks=(name,), seed=4)
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["schema"] == 1
    assert set(record) == {"schema", "run", "model", "benchmarks", "sha256"}
    known = {name: value for name, value in record["model"].items() if value is not None}
    assert known == {"name": "colours", "fingerprint": "colours-1", "kind": "similarity"}
    assert set(record["model"]) == {
        "name", "fingerprint", "kind", "dtype", "reading", "prompt", "texts", "file", "provenance",
    }  # fmt: skip
    assert record["run"]["seed"] == 4
    assert {"python", "tellapart", "numpy", "scipy", "pillow", "onnxruntime"} <= set(record["run"]["versions"])
    assert "not installed" not in record["run"]["versions"].values()
    found = record["benchmarks"]["folder:set"]
    assert set(found["metrics"]["group_score"]) == VALUE
    assert set(found["by"]["type"]["swap"]["metrics"]["text_score"]) == VALUE
    assert found["macro"]["type"]["metrics"]["text_score"]["average"] == "macro: 3 values of type"
    assert len(found["fingerprint"]) == 64
    assert (found["images"], found["images_encoded"]) == (24, 24)
    assert found["texts"] == found["texts_encoded"] > 0
    assert found["seconds"] > 0
    assert found["title"] == "Set set"
    assert sum(found["curves"]["v1"]["counts"]) == 12


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


# What may not change a number


def test_neither_batches_nor_the_store_nor_other_models_change_a_number(made_set, installed, tmp_path):
    settings: dict[str, Any] = {"models": ("colours",), "benchmarks": (f"folder:{made_set()}",)}
    cache = tmp_path / "store.sqlite"
    runs = [
        measured(tmp_path / "a", **settings),
        measured(tmp_path / "b", **settings, batch_size=1),
        measured(tmp_path / "c", **settings, batch_size=7, cache=cache),
        measured(tmp_path / "d", **settings, cache=cache),
        measured(tmp_path / "e", **settings | {"models": ("random", "colours", "oracle")})[1:],
    ]
    for first, *_ in runs[1:]:
        assert numbers(first) == numbers(runs[0][0])
        assert samples(first) == samples(runs[0][0])
    counts = [(record.images_encoded, record.texts_encoded) for record in (sole(tmp_path / "c"), sole(tmp_path / "d"))]
    assert counts[0][0] == 24 and counts[1] == (0, 0)


def test_the_order_of_lines_changes_no_number_and_not_the_fingerprint(made_set, installed, tmp_path):
    folder = made_set(clusters=4)
    name = f"folder:{folder}"
    measured(tmp_path / "a", models=("colours",), benchmarks=(name,))
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    (folder / "pairs.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    measured(tmp_path / "b", models=("colours",), benchmarks=(name,))
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b")
    assert samples(tmp_path / "a") == samples(tmp_path / "b")
    assert sole(tmp_path / "a").fingerprint == sole(tmp_path / "b").fingerprint


def test_a_limited_run_gives_its_items_the_scores_of_the_whole(made_set, installed, tmp_path):
    settings: dict[str, Any] = {"models": ("colours",), "benchmarks": (f"folder:{made_set()}",)}
    measured(tmp_path / "whole", **settings)
    measured(tmp_path / "part", **settings, limit="5")
    whole, part = samples(tmp_path / "whole"), samples(tmp_path / "part")
    assert len(part) == 5
    assert all(whole[item] == sample for item, sample in part.items())
    assert (sole(tmp_path / "part").limited_from, sole(tmp_path / "whole").limited_from) == (12, None)
    assert sole(tmp_path / "part").fingerprint != sole(tmp_path / "whole").fingerprint


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


# The store


def test_what_two_benchmarks_share_is_encoded_once(made_set, installed, tmp_path):
    names = (f"folder:{made_set('a', n=6)}", f"folder:{made_set('b', n=6)}")  # of one seed: the same pixels
    measured(tmp_path / "run", models=("colours",), benchmarks=names)
    first, second = (read_result(tmp_path / "run").benchmarks[name] for name in ("folder:a", "folder:b"))
    assert (first.images_encoded, second.images_encoded, second.texts_encoded) == (12, 0, 0)
    assert first.fingerprint == second.fingerprint


# Several models


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
    def broken(image, text: str) -> float:
        raise ValueError("no weights")

    broken.fingerprint = "broken-1"
    with (
        pytest.warns(errors.TellapartWarning, match=r"broken stopped on folder:.*run.*leave it out"),
        raises(errors.TellapartError, "no weights"),
    ):
        ta.evaluate(["oracle", broken, "blind"], f"folder:{made_set()}", out=tmp_path / "run", progress=False)
    assert sole(tmp_path / "run").metrics["group_score"].value == 1
    assert sole(tmp_path / "run" / "beside" / "blind").metrics["group_score"].value == 0


# Taken up again


def test_a_finished_benchmark_is_not_measured_again_and_another_is_added(made_set, installed, tmp_path):
    first, second = f"folder:{made_set('a')}", f"folder:{made_set('b', seed=1)}"
    out = tmp_path / "run"
    measured(out, models=("colours",), benchmarks=(first,))
    before = read_result(out).benchmarks["folder:a"]
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*") if path.is_file()}
    measured(out, models=("colours",), benchmarks=(first,))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept} == kept
    measured(out, models=("colours",), benchmarks=(first, second))
    assert read_result(out).benchmarks["folder:a"] == before  # with its time, to the nanosecond
    assert list(read_result(out).benchmarks) == ["folder:a", "folder:b"]


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
def test_the_folder_of_another_run_is_refused(made_set, installed, tmp_path, change, said):
    settings: dict[str, Any] = {"models": ("colours",), "benchmarks": (f"folder:{made_set()}",)}
    measured(tmp_path / "run", **settings)
    before = (tmp_path / "run" / "results.json").read_bytes()
    with raises(errors.RunError, "out=", said):
        measured(tmp_path / "run", **settings | change)
    assert (tmp_path / "run" / "results.json").read_bytes() == before


def test_a_finished_benchmark_whose_content_changed_is_refused(made_set, installed, tmp_path):
    folder = made_set()
    settings: dict[str, Any] = {"models": ("colours",), "benchmarks": (f"folder:{folder}",)}
    measured(tmp_path / "run", **settings)
    listed = folder / "pairs.jsonl"
    listed.write_text(listed.read_text().replace('"texts": ["', '"texts": ["not ', 1))
    with raises(errors.RunError, "out=", "folder"):
        measured(tmp_path / "run", **settings)


# Refused before anything is made


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


def test_an_image_that_cannot_be_decoded_leaves_no_folder(made_set, tmp_path):
    folder = made_set()
    broken = folder / "images" / "3_1.png"
    broken.write_bytes(broken.read_bytes()[:-30])
    with raises(errors.DataError, "pairs.jsonl:4", "'images[1]'"):
        measured(tmp_path / "run", models=("random",), benchmarks=(f"folder:{folder}",))
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_refused_at_once(made_set, tmp_path):
    here = f"folder:{made_set()}"
    (tmp_path / "file").write_text("")
    with raises(errors.RunError, "file/run", "out="):
        measured(tmp_path / "file" / "run", models=("random",), benchmarks=(here,))
    with raises(errors.RunError, "/proc/nowhere"):
        measured(Path("/proc/nowhere"), models=("random",), benchmarks=(here,))


def test_a_store_that_cannot_be_opened_costs_a_new_one(made_set, tmp_path, caplog):
    (tmp_path / "store.sqlite").write_text("not a database, but long enough to be taken for one at first sight " * 20)
    settings = {"models": ("random",), "benchmarks": (f"folder:{made_set()}",)}
    measured(tmp_path / "r", cache=tmp_path / "store.sqlite", **settings)
    check_facts(caplog.text, str(tmp_path / "store.sqlite.damaged-1"))
    measured(tmp_path / "s", **settings)
    assert numbers(tmp_path / "r") == numbers(tmp_path / "s")


# Scores made elsewhere


def test_scores_of_the_users_own_pairs_carry_captions_and_tags(made_set, tmp_path):
    file = score_file(tmp_path / "mine.csv", {f"item-{k}": np.eye(2) for k in range(12)})
    out = run_scores({f"folder:{made_set()}": file}, tmp_path / "run")
    assert read_result(out).model.name == "mine"
    assert set(sole(out).by) == {"side", "type"}
    first = samples(out)["item-0"]
    assert len(first.texts) == len(first.images) == 2


def test_ties_that_float32_makes_are_counted(made_set, tmp_path):
    values = np.random.default_rng(0).random((12, 2, 2))
    values[3] = [[0.5, 0.5 + 1e-12], [0.1, 0.2]]
    values[4] = [[0.5, 0.5], [0.1, 0.2]]
    file = score_file(tmp_path / "a.csv", {f"item-{k}": value for k, value in enumerate(values)})
    record = sole(run_scores({f"folder:{made_set()}": file}, tmp_path / "run"))
    assert (record.tied_items, record.tied_comparisons, record.rounded_ties) == (2, 2, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_the_first_look_counts_ties_that_float32_makes(made_set, tmp_path, capsys, dtype):
    values = np.random.default_rng(0).integers(1, 1000, (12, 2, 2)).astype(dtype)
    values[3] = [[2**25, 2**25 + 1], [1, 2]]
    np.save(tmp_path / "a.npy", values)
    ta.score(f"folder:{made_set()}", tmp_path / "a.npy", kind="similarity", out=tmp_path / "run").show()
    said = next(line for line in capsys.readouterr().out.splitlines() if "float32" in line)
    assert "a:" in said and "1 item" in said and "tied" in said


def test_a_record_reads_back_as_it_was(made_set, tmp_path):
    (out,) = measured(tmp_path / "run", models=("random",), benchmarks=(f"folder:{made_set()}",))
    record = json.loads((out / "results.json").read_text())
    del record["sha256"]  # of the file, not of the run
    assert Result.model_validate(record).model_dump(mode="json", by_alias=True) == record
