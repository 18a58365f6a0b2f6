"""Every form of a model's name reaches its family, and a wrong one ends in one line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.catalog import PREFIXES, names
from tellapart.catalog import load as load_from_catalog
from tellapart.errors import MissingDependencyError, ModelError, UnknownNameError
from tellapart.models import find
from tellapart.models.find import find_model, name_forms
from tellapart.models.options import ModelOptions
from tellapart.models.reference import Constant


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, ModelOptions]]:
    """Stand in for both families of torch, and note who was asked for what."""
    calls: list[tuple[str, str, ModelOptions]] = []
    for prefix, target in PREFIXES.items():
        module, _, declaration = target.partition(":")

        def load(name: str, options: ModelOptions, family: str = module.split(".")[2]) -> Constant:
            calls.append((family, name, options))
            return Constant()

        monkeypatch.setattr(f"{module}.{declaration}", replace(load_from_catalog("prefix", prefix), load=load))
    return calls


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("open_clip:ViT-B-32/laion2b_s34b_b79k", "openclip"),
        ("open_clip:ViT-B-32-quickgelu@weights.pt", "openclip"),
        ("open_clip:ViT-B-32/openai@/folder/weights.pt", "openclip"),
        ("hf-hub:org/repo", "openclip"),
        ("local-dir:folder", "openclip"),
        ("hf:folder", "huggingface"),
        ("hf:org/repo", "huggingface"),
        ("openai/clip-vit-base-patch32", "huggingface"),
    ],
)
def test_each_form_of_a_name_goes_to_its_family_with_the_options(asked: Any, name: str, family: str) -> None:
    options = ModelOptions(dtype="bfloat16", reading="itc")
    find_model(name, options)
    assert asked == [(family, name, options)]


def test_a_folder_of_transformers_needs_no_prefix(asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with raises(UnknownNameError, "model", "model", "folder"):
        find_model("mine")
    (tmp_path / "mine" / "config.json").write_text("{}")
    find_model("mine")
    assert [call[:2] for call in asked] == [("huggingface", "mine")]


def test_a_name_of_the_catalogue_comes_before_a_folder_of_that_name(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random").mkdir()
    (tmp_path / "random" / "config.json").write_text("{}")
    assert find_model("random").name == "random"
    assert asked == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "image.onnx"], "onnx:mine"),
        (["open_clip_config.json", "a.pt"], "local-dir:mine"),
        (["model/config.json"], "mine/model"),
        (["a/open_clip_config.json"], "local-dir:mine/a"),
        (["images.npz", "texts.parquet"], "vectors:mine"),
        (["notes.txt"], ("mine", "hf:FOLDER", "vectors:FOLDER")),
    ],
)
def test_a_folder_without_its_prefix_is_answered_with_the_name_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Any, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in files:
        (tmp_path / "mine" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / file).write_text("{}")
    with raises(UnknownNameError, said):
        find_model("mine")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.csv", "tellapart score BENCHMARK --scores a.csv"),
        ("image.onnx", ("onnx:FOLDER", "config.json", "image.onnx")),
        ("a.txt", ("a.txt", "file")),
        ("a.py", "a.py:NAME"),
    ],
)
def test_a_file_without_a_prefix_is_answered_with_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("")
    with raises(UnknownNameError, said):
        find_model(name)


@pytest.mark.parametrize(
    ("there", "name", "said"),
    [("epoch_3.pt", "{}/epoch_4.pt", "'epoch_3.pt'"), ("model", "local-dir:{}/modle", ("is not there", "'model'"))],
)
def test_a_path_that_is_not_there_is_answered_with_the_nearest(
    tmp_path: Path, there: str, name: str, said: str | tuple[str, ...]
) -> None:
    (tmp_path / there).mkdir()
    with raises((UnknownNameError, ModelError), name.rpartition("/")[2], "did you mean", said):
        find_model(name.format(tmp_path))


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        *((f"{prefix}:", ModelError, ("names no model", prefix)) for prefix in ("onnx", "open_clip", "hf-hub", "hf")),
        ("onx:folder", UnknownNameError, ("'onx:'", "'onnx:'", "tellapart ls models")),
        ("hf_hub:org/repo", UnknownNameError, ("'hf_hub:'", "'hf-hub:'", "tellapart ls models")),
        ("zebra:a/b", UnknownNameError, ("'zebra:'", "tellapart ls models")),
        ("http://localhost:8000/v1#tiny", UnknownNameError, ("api:http://localhost:8000/v1#tiny", "hf:ORG/REPO")),
        ("constnat", UnknownNameError, ("model", "'constnat'", "'constant'")),
        ("gone.pt", UnknownNameError, ("gone.pt", "there is no file")),  # and the hub is not asked
        ("runs/gone.safetensors", UnknownNameError, ("runs/gone.safetensors", "there is no file")),
    ],
)
def test_a_wrong_name_is_answered_with_the_form_or_the_nearest(name: str, error: Any, said: tuple[str, ...]) -> None:
    with raises(error, *said):
        find_model(name)


def test_every_form_that_is_listed_is_one_that_is_read() -> None:
    assert {form.partition(":")[0] + ":" for form in name_forms()} == set(names("prefix"))
    assert {"albef:", "xvlm:"} < {*names("prefix")} - {*PREFIXES}


def test_a_folder_of_transformers_may_have_a_colon_in_its_name(asked: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run:1"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    find_model(str(folder))
    assert [call[:2] for call in asked] == [("huggingface", str(folder))]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"device": "tpu"}, ("'tpu'", "device")), ({"dtype": "int8"}, ("'int8'", "float32", "bfloat16", "float16"))],
)
def test_an_unknown_device_or_dtype_is_refused(options: Any, message: Any) -> None:
    with raises(ModelError, message):
        ModelOptions(**options)


def test_an_onnx_model_has_one_reading() -> None:
    with raises(ModelError, "onnx:a", "'itm'", "'itc'"):
        find_model("onnx:a", ModelOptions(reading="itm"))


@pytest.mark.parametrize(("module", "name"), [("torch", "open_clip:ViT-B-32/openai"), ("open_clip", "hf-hub:a/b")])
def test_a_missing_library_ends_in_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with raises(MissingDependencyError, module, 'pip install "tellapart[models]"'):
        find_model(name)


def test_what_a_package_installs_as_a_model_and_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "load_from_catalog", lambda kind, name: lambda options: object())
    with raises(ModelError, "model", "'theirs'", "object"):
        find_model("theirs")
