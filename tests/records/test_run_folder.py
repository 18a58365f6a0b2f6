"""Files of a run folder: named for any file system, written whole, and refused by name where they are not whole."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.run import Settings, run, run_record
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import ModelRecord, Result
from tellapart.records.run_folder import beside, file_name, find_runs, write_result, write_text_file


def result(model: str = "m") -> Result:
    record = ModelRecord(name=model, fingerprint="f", kind="similarity")
    return Result(run=run_record(Path(), seed=0, command=""), model=record, benchmarks={})


@given(st.text(min_size=1, max_size=200))
def test_any_name_becomes_one_that_any_file_system_takes(name):
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", file_name(name))


@pytest.mark.parametrize("name", ["con", "NUL", "com1", "lpt9.txt", "Aux", "con:x", "a" * 300])
def test_no_name_is_a_device_or_long(name):
    made = file_name(name)
    assert made.partition(".")[0].lower() not in {"con", "nul", "com1", "lpt9", "aux"} and len(made) <= 100
    assert file_name("clip") == "clip" and file_name("CLIP").lower() != "clip"


@given(st.text(max_size=12), st.text(max_size=12))
def test_different_names_stay_different(one, other):
    assert (file_name(one).lower() == file_name(other).lower()) is (one == other)


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    write_text_file(tmp_path / "a.txt", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with raises(RunError, "a.txt", "No space left", "device"):
        write_text_file(tmp_path / "a.txt", "new")
    assert os.listdir(tmp_path) == ["a.txt"]  # noqa: PTH208
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": 2, "news": 1}', ("results.json", "2", "1")),
        ('{"schema": 1}', ("results.json", "'run'")),
        ("[]", ("results.json", "record", "object")),
        ("", ("results.json", "JSON", "Expecting value", "1")),
    ],
)
def test_a_record_that_is_none_is_refused_by_field(tmp_path, text, said):
    (tmp_path / "results.json").write_text(text)
    with raises(RunError, said):
        read_result(tmp_path)


def test_an_unknown_field_is_refused(tmp_path):
    write_result(tmp_path, result())
    record = json.loads((tmp_path / "results.json").read_text())
    record["model"]["colour"] = "red"
    del record["sha256"]
    (tmp_path / "results.json").write_text(json.dumps(record))
    with raises(RunError, "'model.colour'"):
        read_result(tmp_path)


def test_a_run_is_found_with_the_models_beside_it_the_references_last(tmp_path):
    for folder, model in [(tmp_path, "m")] + [(beside(tmp_path, name), name) for name in ("oracle", "mine", "random")]:
        write_result(folder, result(model))
    assert [read_result(folder).model.name for folder in find_runs(tmp_path)] == ["m", "mine", "random", "oracle"]


def test_a_folder_of_runs_is_that_many_subjects(tmp_path):
    for name in ("b", "a"):
        write_result(tmp_path / name, result(name))
        write_result(beside(tmp_path / name, "random"), result("random"))
    assert [folder.name for folder in find_runs(tmp_path)] == ["a", "b"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with raises(RunError, "--out", "run"):
        find_runs(tmp_path)


def test_a_record_that_was_changed_is_refused_and_measured_again_once_its_checksum_is_taken_out(tmp_path):
    _ = run(Settings(models=("oracle",), limit="3"), tmp_path / "run", store=EmbeddingStore(None))
    path = tmp_path / "run" / "results.json"
    whole = read_result(tmp_path / "run")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content))  # laid out otherwise, it is the same
    assert read_result(tmp_path / "run") == whole
    content["benchmarks"]["demo"]["metrics"]["group_score"]["value"] = 0.9
    path.write_text(json.dumps(content))
    with raises(RunError, "results.json", "delete", "tellapart verify"):
        read_result(tmp_path / "run")
    del content["sha256"]
    path.write_text(json.dumps(content))
    again = read_result(tmp_path / "run").benchmarks["demo"]
    assert again.metrics == whole.benchmarks["demo"].metrics and "1 differed" in again.notes[-1]
