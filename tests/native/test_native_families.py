"""Files of tiny size, drawn here: each family named, measured alone and in a batch, at another size, and refused."""

import ast
import json
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_files import PICTURES, SETTINGS, albef_state, save_cappa, save_family, save_tokenizer
from tiny_meter_fiber import SETTINGS as LIGHTNING
from tiny_meter_fiber import fiber_state, meter_state, save_lightning

import tellapart_native.prefix
from facts import check_facts, raises
from sets import write_file
from tellapart import catalog
from tellapart.errors import ModelError
from tellapart.models.find import find_model, find_prefix, prefix_of_type, source_key
from tellapart.models.fusion.family import FusionPrefix
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.protocols import PairScorer
from tellapart.models.reference import Constant
from tellapart_native.family import Layout


def test_a_blip_without_marks_behind_its_words_is_refused(tmp_path):
    name, table = save_family(tmp_path / "x", "blip"), "text_encoder.embeddings.word_embeddings.weight"
    held = torch.load(tmp_path / "x" / "model.pth")
    tokenizer = json.loads((tmp_path / "x" / "tokenizer.json").read_text())
    words = len(tokenizer["model"]["vocab"])  # without two more, `[ENC]` would be one of them
    held["model"][table] = held["model"][table][:words].clone()
    torch.save(held, tmp_path / "x" / "model.pth")
    with raises(ModelError, words, f"{words - 2}", "tokenizer"):
        find_model(name)


@pytest.fixture
def albef(tmp_path):
    """Write an ALBEF of tiny size, as its authors nest it, with the heads and the tokenizer beside it."""
    write_file(tmp_path / "config.json", {"model_type": "albef", **SETTINGS})
    save_tokenizer(tmp_path)

    def write(name, **weights):
        torch.save({**weights, "epoch": 3, "config": {"image_res": 32}}, tmp_path / name)
        return f"albef:{tmp_path / name}"

    return write


@pytest.fixture
def file(albef, tmp_path):
    albef("mscoco.pth", model=albef_state())
    return tmp_path / "mscoco.pth"


def test_cleaned_texts_are_another_model(file):
    raw, cleaned = (find_model(f"albef:{file}", ModelOptions(texts=texts)) for texts in ("raw", "cleaned"))
    assert isinstance(raw, PairScorer) and raw.fingerprint != cleaned.fingerprint
    assert "text_encoder.encoder.layer" in " ".join(raw.take_notes())  # of no published size: its depths were counted
    one = raw.score_pairs(PICTURES[:1], ["a red bowl on the cup"])
    np.testing.assert_array_equal(cleaned.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]), one)
    assert raw.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]) != one


def test_of_plain_and_averaged_weights_each_can_be_taken(albef, tmp_path):
    plain = albef_state()
    mean = {name: tensor * 0.9 if tensor.ndim > 1 else tensor for name, tensor in plain.items()}
    both = albef("both.pth", model=plain, model_ema={"decay": 0.999, "module": mean})
    single = albef("mean.pth", model=mean)
    for reading in ("itm", "itc"):
        options = ModelOptions(reading=reading)
        taken, named, alone = (find_model(name, options) for name in (both, f"{both}#ema", single))
        assert named.fingerprint == alone.fingerprint != taken.fingerprint
        check_facts(taken.provenance, "'model'", "model_ema.module")
        check_facts(named.provenance, "'model_ema.module'", "model")
        assert not alone.provenance
    with raises(ModelError, "'best'", "model", "model_ema.module"):
        find_model(f"{both}#best")
    prefix = find_prefix(both)
    assert prefix.files(both) == prefix.files(f"{both}#ema") is not None
    with raises(ModelError, f"{both}#model", f"{both}#model_ema.module"):
        prefix.convert(both, tmp_path / "new", None)
    prefix.convert(f"{both}#ema", tmp_path / "new", None)
    assert find_model(f"hf:{tmp_path / 'new'}").fingerprint == find_model(single).fingerprint


@pytest.mark.parametrize(
    ("save", "options", "facts"),
    [
        (partial(save_lightning, family="meter", state=meter_state()), {"texts": "cleaned"}, ("texts=", "captions")),
        (partial(save_lightning, family="fiber", state=fiber_state()), {"texts": "cleaned"}, ("texts=", "captions")),
        (save_cappa, {"texts": "cleaned"}, ("Open CapPa", "texts=")),
        (save_cappa, {"image_size": 64}, ("Open CapPa", "image_size=64")),
        (save_cappa, {"reading": "itm"}, ("Open CapPa", "'itm'", "mean_likelihood")),
    ],
)
def test_what_their_authors_have_no_method_of_is_refused(save, options, facts, tmp_path):
    with raises(ModelError, facts):
        find_model(save(tmp_path / "x"), ModelOptions(**options))


def test_a_length_that_is_none_is_refused_and_a_files_setting_counts_before_published_ones(tmp_path):
    name = save_lightning(tmp_path / "x", "meter", meter_state())
    write_file(tmp_path / "x" / "config.json", {"model_type": "meter", **LIGHTNING, "max_text_len": 600})
    with raises(ModelError, "max_text_len", "600", "3", "62"):
        find_model(name)
    keys = {f"encoder.layers.{k}.self_attn_layer_norm.weight": (768,) for k in range(3)}
    Layout("x", keys, {"encoder_layers": 3}).expect_published("ofa")
    for settings in ({}, {"encoder_layers": 4}):
        with pytest.raises(ModelError, match="3 of encoder"):
            Layout("x", keys, settings).expect_published("ofa")


PACKAGE = Path(tellapart_native.prefix.__file__).parent
FAMILIES = sorted(path.stem for path in PACKAGE.glob("*.py") if "\nFAMILY = " in path.read_text())


def imports_of(path: Path) -> set[str]:
    return {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}


def test_each_family_has_an_entry_point_and_each_entry_point_a_family():
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["tellapart.prefixes"]
    assert len(FAMILIES) > 10
    assert points == {name: f"tellapart_native.prefix:{name.upper()}" for name in FAMILIES}


def test_no_module_imports_a_family():
    families = {f"tellapart_native.{family}" for family in FAMILIES}
    assert {path: found for path in PACKAGE.rglob("*.py") if (found := imports_of(path) & families)} == {}


def test_the_code_of_these_models_is_among_the_files_that_their_numbers_depend_on(tmp_path):
    for name in ("model.pth", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    prefix = find_prefix(f"albef:{tmp_path / 'model.pth'}")
    assert isinstance(prefix, FusionPrefix)
    files = prefix.files(f"albef:{tmp_path / 'model.pth'}")
    assert files is not None
    code = {PACKAGE / name for name in ("albef.py", "layers/bert.py", "published.toml")}
    assert {*code, tmp_path / "tokenizer.json"} <= set(files)
    (tmp_path / "config.json").write_text('{"model_type": "lxmert"}')
    prefix = find_prefix(str(tmp_path))
    assert {PACKAGE / "library_regions.py", tmp_path / "config.json"} <= set(prefix.files(str(tmp_path)))


@pytest.mark.parametrize("name", ["special_tokens_map.json", "added_tokens.json", "config.json", "vocab.txt"])
def test_a_file_that_its_tokenizer_or_settings_read_makes_it_another_model(file, name):
    before = source_key(f"albef:{file}", ModelOptions())
    (file.parent / name).write_text("{}")
    assert source_key(f"albef:{file}", ModelOptions()) != before


def test_prefixes_of_strangers_open_their_folders_and_broken_ones_hide_no_other(tmp_path, monkeypatch):
    """What the families here rely on serves any plugin."""
    loaded = []

    def load(name, options):
        loaded.append(name)
        return Constant()

    monkeypatch.setitem(catalog._ADDED["prefix"], "mine:", ModelPrefix({"mine:FILE": "mine"}, load, model_type="mine"))
    write_file(tmp_path / "config.json", {"model_type": "mine"})
    find_model(str(tmp_path))
    find_model(f"hf:{tmp_path}")
    assert loaded == [f"mine:{tmp_path}"] * 2
    assert prefix_of_type("") is None and prefix_of_type("no such type") is None
    monkeypatch.setitem(catalog._ADDED["prefix"], "broken:", "no declaration")
    assert prefix_of_type("blip_original")[0] == "blip:"
    with pytest.raises(ModelError, match="broken:"):
        find_prefix("broken:x")
