"""Files of tiny size, drawn here: each family named, measured alone and in a batch, at another size, and refused."""

import ast
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden as authors
import numpy as np
import pytest
from golden import distance, needs_golden, open_golden
from tiny_files import PICTURES, SETTINGS, TEXTS, albef_state, save_family, save_tokenizer, score
from tiny_fusion_encoders import roberta
from tiny_meter_fiber import SETTINGS as LIGHTNING
from tiny_meter_fiber import fiber_state, meter_state

import tellapart_native.prefix
from facts import check_facts, raises
from tellapart import catalog
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.find import find_model, find_prefix, prefix_of_type
from tellapart.models.fusion.family import FusionPrefix
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart.models.reference import Constant
from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout

torch = import_torch()

#: The readings of each family; the first is the default.
READINGS: dict[str, dict[str, ScoreKind]] = {
    "albef": {"itm": "probability", "itm_logit": "logit", "match_logit": "logit", "itc": "similarity"},
    "blip": {
        "itm_enc": "probability",
        "itm_enc_logit": "logit",
        "match_logit": "logit",
        "retrieval": "logit",
        "itm": "probability",
        "itm_logit": "logit",
        "itc": "similarity",
    },
    "vilt": {"rank": "logit", "itm": "probability", "itm_logit": "logit"},
    "xvlm": {"itm": "probability", "itm_logit": "logit", "match_logit": "logit", "itc": "similarity"},
}


@pytest.mark.slow
@pytest.mark.parametrize("family", READINGS)
def test_readings(tmp_path: Path, family: str) -> None:
    name = save_family(tmp_path / "x", family)
    models = {reading: find_model(name, ModelOptions(reading=reading)) for reading in READINGS[family]}
    assert {reading: model.kind for reading, model in models.items()} == READINGS[family]
    assert len({model.fingerprint for model in models.values()}) == len(models)
    assert find_model(name).fingerprint == next(iter(models.values())).fingerprint
    for reading, model in models.items():
        if isinstance(model, PairScorer):
            scores = model.score_pairs(PICTURES, TEXTS)
            assert len(set(scores.tolist())) == 3
            fresh = find_model(name, ModelOptions(reading=reading))
            assert isinstance(fresh, PairScorer)
            for k in range(3):  # alone, to the bit
                np.testing.assert_array_equal(fresh.score_pairs(PICTURES[k : k + 1], TEXTS[k : k + 1]), scores[k])
        else:
            assert isinstance(model, DualEncoder)
            vectors = model.encode_images(PICTURES)
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
            np.testing.assert_array_equal(model.encode_images(PICTURES[2:]), vectors[2:])
    with raises(ModelError, "'vqa'", f"{', '.join(READINGS[family])}"):
        find_model(name, ModelOptions(reading="vqa"))


@pytest.mark.slow
@pytest.mark.parametrize("family", READINGS)
def test_another_image_size(tmp_path: Path, family: str) -> None:
    name = save_family(tmp_path / "x", family)
    larger = score(name, image_size=128)
    assert np.isfinite(larger).all()
    assert (larger != score(name)).all()
    if family == "vilt":  # any size will do: its pictures are cut to patches
        return
    with raises(ModelError, "100", "96", "image_size=", "96"):
        find_model(name, ModelOptions(image_size=100))


def test_a_blip_without_marks_behind_its_words_is_refused(tmp_path: Path) -> None:
    name = save_family(tmp_path / "x", "blip")
    path = tmp_path / "x" / "model.pth"
    held = torch.load(path)
    rows = held["model"]["text_encoder.embeddings.word_embeddings.weight"]
    tokenizer = json.loads((tmp_path / "x" / "tokenizer.json").read_text())
    words = len(tokenizer["model"]["vocab"])  # without two more, `[ENC]` would be one of them
    held["model"]["text_encoder.embeddings.word_embeddings.weight"] = rows[:words].clone()
    torch.save(held, path)
    with raises(ModelError, words, f"{words - 2}", "tokenizer"):
        find_model(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An ALBEF of tiny size, as its authors nest it, with the heads and the tokenizer beside it."""
    torch.save({"model": albef_state(), "epoch": 3, "config": {"image_res": 32}}, tmp_path / "mscoco.pth")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albef", **SETTINGS}))
    save_tokenizer(tmp_path)
    return tmp_path / "mscoco.pth"


def test_cleaned_texts_are_another_model(file: Path) -> None:
    raw, cleaned = (find_model(f"albef:{file}", ModelOptions(texts=texts)) for texts in ("raw", "cleaned"))
    assert isinstance(raw, PairScorer)
    assert isinstance(cleaned, PairScorer)
    assert raw.fingerprint != cleaned.fingerprint
    one = raw.score_pairs(PICTURES[:1], ["a red bowl on the cup"])
    np.testing.assert_array_equal(cleaned.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]), one)
    assert raw.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]) != one


@pytest.mark.parametrize(("options", "option"), [({"texts": "cleaned"}, "texts"), ({"image_size": 64}, "image_size")])
def test_other_models_refuse_these_options(options: dict[str, Any], option: str) -> None:
    with raises(ModelError, f"{option}=", "models"):
        find_model("constant", ModelOptions(**options))


def test_a_file_without_a_tokenizer(file: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (file.parent / name).unlink(missing_ok=True)
    with raises(ModelError, "tokenizer=", "FOLDER"):
        find_model(f"albef:{file}")


def test_of_plain_and_averaged_weights_each_can_be_taken(tmp_path: Path) -> None:
    plain = albef_state()
    mean = {name: tensor * 0.9 if tensor.ndim > 1 else tensor for name, tensor in plain.items()}
    beside = {"epoch": 3, "config": {"image_res": 32}}
    torch.save({"model": plain, "model_ema": {"decay": 0.999, "module": mean}, **beside}, tmp_path / "both.pth")
    torch.save({"model": mean, **beside}, tmp_path / "mean.pth")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albef", **SETTINGS}))
    save_tokenizer(tmp_path)
    both = f"albef:{tmp_path / 'both.pth'}"
    for reading in ("itm", "itc"):
        options = ModelOptions(reading=reading)
        taken, named, alone = (
            find_model(name, options) for name in (both, f"{both}#ema", f"albef:{tmp_path / 'mean.pth'}")
        )
        assert named.fingerprint == alone.fingerprint != taken.fingerprint
        check_facts(taken.provenance, "'model'", "model_ema.module")  # type: ignore[attr-defined]
        check_facts(named.provenance, "'model_ema.module'", "model")  # type: ignore[attr-defined]
        assert not alone.provenance  # type: ignore[attr-defined]
    with raises(ModelError, "'best'", "model", "model_ema.module"):
        find_model(f"{both}#best")
    prefix = find_prefix(both)
    assert prefix is not None
    assert prefix.convert is not None
    assert prefix.files(both) == prefix.files(f"{both}#ema") is not None
    with raises(ModelError, f"{both}#model", f"{both}#model_ema.module"):
        prefix.convert(both, tmp_path / "new", None)
    prefix.convert(f"{both}#ema", tmp_path / "new", None)
    assert find_model(f"hf:{tmp_path / 'new'}").fingerprint == find_model(f"albef:{tmp_path / 'mean.pth'}").fingerprint


WIDE_PICTURES = [np.random.default_rng(k).integers(0, 256, (70 + 9 * k, 80, 3)).astype(np.uint8) for k in range(3)]

FILES: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "meter": ("meter", meter_state),
    "meter-swin": ("meter", lambda: meter_state(swin_tower=True)),
    "fiber": ("fiber", fiber_state),
}


def write_lightning(folder: Path, family: str, state: dict[str, Any]) -> str:
    lightning = {"state_dict": state, "epoch": 3, "hyper_parameters": {"config": {"num_heads": 4}}}
    torch.save(lightning, folder / "model.ckpt")
    (folder / "config.json").write_text(json.dumps({"model_type": family, **LIGHTNING}))
    save_tokenizer(folder, roberta())
    return f"{family}:{folder / 'model.ckpt'}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_every_reading_of_a_file(kind: str, tmp_path: Path) -> None:
    family, make = FILES[kind]
    name = write_lightning(tmp_path, family, make())
    models = {reading: find_model(name, ModelOptions(reading=reading)) for reading in (None, "itm_logit", "rank")}
    assert len({model.fingerprint for model in models.values()}) == 3
    scores = {}
    for reading, model in models.items():
        assert isinstance(model, PairScorer)
        scores[reading] = model.score_pairs(WIDE_PICTURES, TEXTS)
        np.testing.assert_array_equal(model.score_pairs(WIDE_PICTURES[1:2], TEXTS[1:2]), scores[reading][1:2])
    np.testing.assert_allclose(scores[None], 1 / (1 + np.exp(-scores["itm_logit"])), atol=1e-6)
    assert [models[reading].kind for reading in (None, "itm_logit", "rank")] == ["probability", "logit", "logit"]
    larger = find_model(name, ModelOptions(image_size=96))
    assert isinstance(larger, PairScorer)
    assert not np.allclose(larger.score_pairs(WIDE_PICTURES, TEXTS), scores[None])


def test_vectors_of_fiber(tmp_path: Path) -> None:
    model = find_model(
        write_lightning(tmp_path, "fiber", fiber_state(itm=False))
    )  # as fine-tuned for contrast: no matching head
    assert isinstance(model, DualEncoder)
    vectors = model.encode_images(WIDE_PICTURES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.encode_images(WIDE_PICTURES[2:]), vectors[2:])
    with raises(ModelError, "FIBER", "'itm'", "itc"):
        find_model(f"fiber:{tmp_path / 'model.ckpt'}", ModelOptions(reading="itm"))


@pytest.mark.parametrize("family", ["meter", "fiber"])
def test_their_authors_clean_no_captions(family: str, tmp_path: Path) -> None:
    name = write_lightning(tmp_path, family, FILES[family][1]())
    with raises(ModelError, "texts=", "captions"):
        find_model(name, ModelOptions(texts="cleaned"))


def test_a_length_that_is_none(tmp_path: Path) -> None:
    name = write_lightning(tmp_path, "meter", meter_state())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "meter", **LIGHTNING, "max_text_len": 600}))
    with raises(ModelError, "max_text_len", "600", "3", "62"):
        find_model(name)


def test_the_files_own_setting_counts_before_the_published_size() -> None:
    keys = {f"encoder.layers.{k}.self_attn_layer_norm.weight": (768,) for k in range(3)}
    Layout("x", keys, {"encoder_layers": 3}).expect_published("ofa")
    for settings in ({}, {"encoder_layers": 4}):
        with pytest.raises(ModelError, match="3 of encoder"):
            Layout("x", keys, settings).expect_published("ofa")


@needs_golden
@pytest.mark.parametrize("name", ["albef", "albef_pretrain", "xvlm", "xvlm_pretrain", "blip"])
def test_match_logit_is_the_authors_score_of_retrieval(name: str) -> None:
    golden, family, module = open_golden(name)
    ours = authors.score(family.readings["match_logit"], module, golden)[..., 0]
    logits = golden.output["itm_logits_enc" if name == "blip" else "itm_logits"]
    assert distance(ours, logits[..., 1]) < 1e-5
    if "official_score_i2t" in golden.output and name != "blip":
        assert distance(ours, golden.output["official_score_i2t"]) < 1e-5
    # The difference of both logits is another number, and may order captions otherwise.
    assert distance(ours, logits[..., 1] - logits[..., 0]) > 1e-2


def test_the_reading_gives_the_logit_and_not_a_probability_of_it(tmp_path: Path) -> None:
    name = save_family(tmp_path / "x", "xvlm")
    models: dict[str, Any] = {
        reading: find_model(name, ModelOptions(reading=reading)) for reading in ("match_logit", "itm_logit")
    }
    scores = {reading: model.score_pairs(PICTURES, TEXTS) for reading, model in models.items()}
    encoder = models["itm_logit"].encoder
    images, texts = encoder.encode_images(PICTURES), encoder.encode_texts(TEXTS)
    assert models["match_logit"].kind == "logit"
    module = encoder.halves
    joined = [
        module.join(
            tuple(part[None] for part in image.tensors), tuple(part[None] for part in text.tensors)
        )[0].detach().numpy()
        for image, text in zip(images, texts, strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(scores["match_logit"], [pair[1] for pair in joined], atol=1e-5)
    np.testing.assert_allclose(scores["itm_logit"], [pair[1] - pair[0] for pair in joined], atol=1e-5)
    # A tiny file has no published size: results show the depths that were counted.
    assert "text_encoder.encoder.layer" in " ".join(models["match_logit"].take_notes())


PACKAGE = Path(tellapart_native.prefix.__file__).parent
FAMILIES = sorted(path.stem for path in PACKAGE.glob("*.py") if "\nFAMILY = " in path.read_text())


def imports_of(path: Path) -> set[str]:
    return {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}


def test_each_family_has_an_entry_point_and_each_entry_point_a_family() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["tellapart.prefixes"]
    assert len(FAMILIES) > 10
    assert points == {name: f"tellapart_native.prefix:{name.upper()}" for name in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_module_imports_a_family(family: str) -> None:
    assert [path for path in PACKAGE.rglob("*.py") if f"tellapart_native.{family}" in imports_of(path)] == []


def test_the_code_of_these_models_is_among_the_files_that_their_numbers_depend_on(tmp_path: Path) -> None:
    for name in ("model.pth", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    prefix = find_prefix(f"albef:{tmp_path / 'model.pth'}")
    assert isinstance(prefix, FusionPrefix)
    files = prefix.files(f"albef:{tmp_path / 'model.pth'}")
    assert files is not None
    assert {PACKAGE / "albef.py", PACKAGE / "layers" / "bert.py", tmp_path / "tokenizer.json"} <= set(files)


def test_a_strangers_prefix_opens_its_converted_folders_by_their_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the families here rely on serves any plugin."""
    loaded: list[str] = []

    def load(name: str, options: ModelOptions) -> Constant:
        loaded.append(name)
        return Constant()

    monkeypatch.setitem(catalog._ADDED["prefix"], "mine:", ModelPrefix({"mine:FILE": "mine"}, load, model_type="mine"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine"}))
    find_model(str(tmp_path))
    find_model(f"hf:{tmp_path}")
    assert loaded == [f"mine:{tmp_path}"] * 2
    assert prefix_of_type("") is None and prefix_of_type("no such type") is None


def test_a_prefix_that_cannot_be_loaded_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog._ADDED["prefix"], "broken:", "no declaration")
    found = prefix_of_type("blip_original")
    assert found is not None and found[0] == "blip:"
    with pytest.raises(ModelError, match="broken:"):
        find_prefix("broken:x")
