from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tellapart.models.find
from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import Deferred, find_deferred, source_key
from tellapart.models.options import ModelOptions
from tellapart.models.reference import Constant, Oracle
from tellapart.models.store.embedding_store import EmbeddingStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    weights = tmp_path / "weights"
    (weights / "deep").mkdir(parents=True)
    (weights / "open_clip_config.json").write_text("{}")
    (weights / "deep" / "open_clip_model.safetensors").write_bytes(b"weights")
    return weights


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the loading of a model that lies in files, and count it."""
    said: list[str] = []

    def find(name: str, options: ModelOptions) -> Any:
        said.append(name)
        return Constant()

    monkeypatch.setattr(tellapart.models.find, "find_model", find)
    return said


def test_a_model_is_loaded_once_and_remembered_by_the_store(folder: Path, loads: list[str], tmp_path: Path) -> None:
    name = f"local-dir:{folder}"
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        first = find_deferred(name, ModelOptions(), store)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        again = find_deferred(name, ModelOptions(), store)
    assert not isinstance(first, Deferred) and isinstance(again, Deferred) and loads == [name]
    assert (again.name, again.fingerprint, again.kind) == (first.name, first.fingerprint, first.kind)
    assert again.load() is again.load()
    assert loads == [name, name]


@pytest.mark.parametrize("change", ["content", "new file", "device", "dtype", "reading", "code", "library"])
def test_whatever_may_move_a_number_loads_the_model_again(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    name, options = f"local-dir:{folder}", {"dtype": "float32"}
    with EmbeddingStore(None) as store:
        find_deferred(name, ModelOptions(**options), store)
        match change:
            case "content":
                (folder / "deep" / "open_clip_model.safetensors").write_bytes(b"WEIGHTS")
            case "new file":
                (folder / "params.txt").write_text("quick")
            case "code":
                content = tellapart.models.find._content_hash
                monkeypatch.setattr(tellapart.models.find, "_content_hash", lambda p: content(p) + p.suffix)
            case "library":
                monkeypatch.setattr(tellapart.models.find, "library_versions", lambda: ("torch 3.0",))
            case other:
                options[other] = {"device": "cuda", "dtype": "bfloat16", "reading": "itm"}[other]
        assert not isinstance(find_deferred(name, ModelOptions(**options), store), Deferred)
    assert loads == [name, name]


@pytest.mark.slow
def test_code_in_any_sub_folder_is_part_of_the_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = tmp_path / "models"
    shutil.copytree(tellapart.models.find._CODE, code, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    monkeypatch.setattr(tellapart.models.find, "_CODE", code)
    keys = [source_key(f"local-dir:{folder}", ModelOptions())]
    for changed in sorted(code.glob("*/*.py")):
        changed.write_text(changed.read_text() + "# changed\n")
        keys.append(source_key(f"local-dir:{folder}", ModelOptions()))
    assert len(keys) > 20
    assert len(set(keys)) == len(keys)


def test_a_checkpoints_key_covers_what_lies_beside_it_and_no_other_weights(folder: Path) -> None:
    file = folder / "epoch_1.pt"
    file.write_bytes(b"one")
    name = f"open_clip:ViT-B-32@{file}"
    before = source_key(name, ModelOptions())
    (folder / "epoch_2.pt").write_bytes(b"two")
    assert source_key(name, ModelOptions()) == before
    (folder / "open_clip_config.json").write_text(json.dumps({"quick_gelu": True}))
    assert source_key(name, ModelOptions()) != before


def test_names_whose_files_do_not_all_lie_here_are_loaded_at_once(folder: Path, loads: list[str]) -> None:
    names = ["oracle", "open_clip:ViT-B-32/openai", "openai/clip-vit-base-patch32", "hf-hub:org/repo", "onnx:here"]
    names += [f"local-dir:{folder}/gone", f"open_clip:ViT-B-32@{folder}/gone.pt"]
    with EmbeddingStore(None) as store:
        for name in names * 2:
            assert source_key(name, ModelOptions()) is None
            assert not isinstance(find_deferred(name, ModelOptions(), store), Deferred)
    assert loads == names * 2


@pytest.mark.parametrize("why", ["it answers and gives no score", "its record names a prompt"])
def test_a_model_whose_record_needs_more_of_it_is_loaded_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    model: Any = Oracle() if "answers" in why else Constant()  # an oracle reads the key: nothing of it is ever stored
    if "prompt" in why:
        model.prompt = "yes-1"
    monkeypatch.setattr(tellapart.models.find, "find_model", lambda name, options: model)
    with EmbeddingStore(None) as store:
        for _ in range(2):
            assert find_deferred(f"local-dir:{folder}", ModelOptions(), store) is model


def test_a_deferred_model_counts_texts_that_it_cut_and_is_refused_if_its_files_changed() -> None:
    model: Any = Constant()
    model.truncated = 3
    deferred = Deferred(model.name, model.fingerprint, model.kind, lambda: model)
    assert deferred.truncated == 0
    assert (deferred.load().name, deferred.truncated) == ("constant", 3)
    with raises(ModelError, "model", "'constant'"):
        Deferred("constant", "of yesterday", "probability", Constant).load()


def test_a_damaged_memory_counts_as_none(folder: Path, loads: list[str]) -> None:
    with EmbeddingStore(None) as store:
        find_deferred(f"local-dir:{folder}", ModelOptions(), store)
        store._connection.execute("UPDATE entry SET value = 'no json'")
        kinds = [type(find_deferred(f"local-dir:{folder}", ModelOptions(), store)) for _ in range(2)]
    assert kinds == [Constant, Deferred] and len(loads) == 2
