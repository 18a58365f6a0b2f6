"""A model in its authors' file becomes a folder without pickles, and stays the same model."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_files import SETTINGS, SIZES, STATES, save_family, save_tokenizer, score
from typer.testing import CliRunner

from facts import check_facts, raises
from tellapart.cli.main import app
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.report.interchange import formats
from tellapart_native.training import convert_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("family", STATES)
def test_a_converted_model_is_the_same(tmp_path, family, command):
    name = save_family(tmp_path / "x", family)
    said = command("convert", name, tmp_path / "folder", code=0).out
    assert f"it is opened with -m {tmp_path / 'folder'}" in " ".join(said.split())
    assert not list((tmp_path / "folder").glob("*.pth"))
    one, other = (find_model(each, ModelOptions(image_size=128)) for each in (name, str(tmp_path / "folder")))
    assert one.fingerprint == other.fingerprint
    with safe_open(tmp_path / "folder" / "model.safetensors", "pt") as file:
        kept = set(file.keys())
    dropped = {"temp", "image_queue", "ptr_queue", "mlm_score.bias", "text_decoder.cls.predictions.bias"}
    assert kept < {name.replace("text_encoder.bert.", "text_encoder.") for name in STATES[family]()}
    assert not kept & dropped
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert {name: config[name] for name in SETTINGS} == SETTINGS
    assert (config["image_size"], config["model_type"].partition("_")[0]) == (SIZES[family], family)


def test_where_a_files_numbers_lie_changes_no_score(tmp_path):
    """Kernels round otherwise on memory that begins elsewhere: a safetensors file's header moves its numbers."""
    name = save_family(tmp_path / "x", "albef")
    convert_model(name, tmp_path / "folder")
    content = load_file(tmp_path / "folder" / "model.safetensors")
    expected = score(str(tmp_path / "folder"))
    for padding in (1, 25, 49):
        save_file(content, tmp_path / "folder" / "model.safetensors", metadata={"format": "pt", "x": "x" * padding})
        model = find_model(str(tmp_path / "folder"))
        assert {tensor.data_ptr() % 64 for tensor in model.encoder.halves.module.state_dict().values()} == {0}
        np.testing.assert_array_equal(score(str(tmp_path / "folder")), expected)


def test_what_is_not_converted(tmp_path, command):
    for model in ("constant", "albef:", "onnx:folder"):
        with raises(ModelError, f"'{model}'", "albef:FILE"):
            formats.convert(model, tmp_path / "folder")
    name = save_family(tmp_path / "x", "albef")
    with raises(DataError, "folder"):
        convert_model(name, tmp_path / "x")
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / "x" / file).unlink(missing_ok=True)
    with raises(ModelError, "tokenizer=", "FOLDER"):
        convert_model(name, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    save_tokenizer(tmp_path / "words")
    done = command("convert", name, tmp_path / "folder", "--tokenizer", tmp_path / "words", "--json", code=0)
    parameters = sum(tensor.numel() for tensor in load_file(tmp_path / "folder" / "model.safetensors").values())
    assert done.json == {"out": str(tmp_path / "folder"), "parameters": parameters}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/a"], ("runs/a", "model", "folder")),
        (["albef:a.pth", "folder", "--out", "x"], ("out=x", "to=FORMAT")),
        (["runs/a", "folder", "--to", "lm-eval"], ("folder=folder", "model")),
    ],
)
def test_options_of_the_other_meaning_are_refused(arguments, message):
    result = CliRunner().invoke(app, ["convert", *arguments])
    assert result.exit_code != 0
    check_facts(str(result.exception), message)
