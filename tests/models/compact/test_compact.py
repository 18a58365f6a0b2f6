"""Compact dual encoders: the same vectors in any batch, by ONNX Runtime as by torch, and errors that name the file."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_fusion_encoders import change_weights
from tiny_models import check_neighbours

import tellapart as ta
from facts import raises
from tellapart.errors import DataError, ModelError
from tellapart.models.compact import dual_encoder as compact
from tellapart.models.compact import onnx_export
from tellapart.models.compact.towers import build_encoder, fold_norms
from tellapart.models.find import find_model
from tellapart.models.onnx.dual_encoder import OnnxDualEncoder
from tellapart.models.torch.backend import Runtime, import_torch
from tellapart.models.transductive import read_mark, write_mark
from tellapart.training.config import TrainConfig
from tellapart.training.encoders import open_start

TEXTS = ["the red mug", "the blue mug is left of the bowl", "unheard words"]


def make_tokenizer(words: list[str], **options):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, **options))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of random weights, whose batch norms have seen pictures."""
    torch, words = import_torch(), [compact.PAD, "[UNK]", "the", "red", "blue", "mug", "is", "left", "of", "bowl"]
    sizes = {"image_size": 32, "channels": (8, 8, 16, 16), "text_width": 16, "dimensions": 12}
    config = compact.CompactConfig(model_type="compact", context_length=8, **sizes)
    torch.manual_seed(0)
    model, folder = build_encoder(config, len(words)).train(), tmp_path_factory.mktemp("compact") / "model"
    with torch.no_grad():
        model.visual(torch.randn(8, 3, 32, 32) * 2 + 1)
    compact.CompactParts(config, model, make_tokenizer(words, unk_token="[UNK]")).save(folder)  # noqa: S106
    return folder


def pictures(count: int = 3) -> list[np.ndarray]:
    return list(np.random.default_rng(1).integers(0, 256, (count, 40, 48, 3), np.uint8))


def test_a_vector_does_not_depend_on_its_neighbours(folder):
    model = find_model(str(folder))  # a folder needs no prefix
    check_neighbours(model.encode_images, pictures(20), sizes=(1, 7))
    check_neighbours(model.encode_texts, TEXTS)
    assert model.truncated == 0
    model.encode_texts(["the mug is left of the bowl of the mug"])
    assert model.truncated == 1


@pytest.mark.slow
def test_onnx_runtime_gives_the_vectors_of_the_rounded_torch_model(folder, tmp_path):
    pytest.importorskip("onnx", reason="needs the train extra: onnx")
    write_mark(Path(shutil.copytree(folder, tmp_path / "marked")), "demo")
    assert (ta.convert(f"compact:{tmp_path / 'marked'}", tmp_path / "small").parameters or 0) > 10_000
    assert read_mark(f"onnx:{tmp_path / 'small'}") == "demo"
    converted, exact = OnnxDualEncoder(tmp_path / "small"), find_model(f"compact:{folder}")
    parts = compact.open_parts(folder)
    onnx_export.round_weights(parts.model)
    rounded = compact.make_dual("rounded", parts, Runtime("cpu"))
    for given, method in ((pictures(), "encode_images"), (TEXTS, "encode_texts")):
        found = getattr(converted, method)(given)
        np.testing.assert_allclose(found, getattr(rounded, method)(given), atol=1e-5)
        np.testing.assert_allclose(found, getattr(exact, method)(given), atol=5e-3)
    assert converted.name == "small"
    assert (tmp_path / "small" / "image.onnx").stat().st_size < (folder / compact.WEIGHTS).stat().st_size


@pytest.mark.slow
def test_weights_that_float16_cannot_hold_are_not_converted(folder, tmp_path):
    pytest.importorskip("onnx", reason="needs the train extra: onnx")
    large = Path(shutil.copytree(folder, tmp_path / "large"))
    change_weights(large, lambda weights: weights["visual.head.2.weight"].mul_(1e7))
    with raises(ModelError, "image.onnx", "torch by nan"):
        ta.convert(f"compact:{large}", tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_a_converted_folder_is_never_written_over_and_its_folded_norms_compute_the_same(folder, tmp_path):
    (tmp_path / "there").write_text("mine")
    with raises(DataError, str(tmp_path)):
        onnx_export.convert_to_onnx(f"compact:{folder}", tmp_path)
    torch, tower = import_torch(), compact.open_parts(folder).model.visual
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        before = tower(pixels)
        fold_norms(tower)
        np.testing.assert_allclose(tower(pixels).numpy(), before.numpy(), atol=1e-5)
    assert not [part for part in tower.modules() if isinstance(part, torch.nn.BatchNorm2d)]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (compact.CONFIG, '{"model_type": "compact", "heads": 5}', ("5", "text_width", "128")),
        (compact.CONFIG, '{"model_type": "compact", "layer": 5}', ("'layer'", "field")),
        (compact.CONFIG, None, ("compact", "dual")),
        (compact.TOKENIZER, "{}", ("tokenizer.json", "file")),
        (compact.WEIGHTS, "nothing", "model.safetensors"),
    ],
)
def test_a_damaged_file_is_named(folder, tmp_path, file, content, said):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / file).unlink()
    if content is not None:
        (copy / file).write_text(content)
    with raises(ModelError, said):
        find_model(f"compact:{copy}")


def test_a_tokenizer_that_pads_otherwise_and_a_control_token_are_refused(folder, tmp_path):
    values = json.loads((folder / compact.TOKENIZER).read_text())
    vocabulary = values["model"]["vocab"]
    vocabulary[compact.PAD], vocabulary["[UNK]"] = 1, 0
    (tmp_path / compact.TOKENIZER).write_text(json.dumps(values))
    with raises(ModelError, "0", "'[PAD]'"):
        compact.read_tokenizer(tmp_path, compact.open_parts(folder).config)
    tokenizer = make_tokenizer([compact.PAD, "<end>", "cat"], unk_token=compact.PAD)
    tokenizer.add_special_tokens(["<end>"])
    with raises(ModelError, "compact:few", "cat <end>", "'<end>'"):
        compact.CompactReader("compact:few", tokenizer, 8).lengths(["a cat", "cat <end>"])
    tokenizer.enable_padding(direction="left")
    tokenizer.save(str(tmp_path / compact.TOKENIZER))
    reader = compact.CompactReader("few", compact.read_tokenizer(tmp_path, compact.open_parts(folder).config), 8)
    assert reader.batch(["cat"])["input_ids"].tolist() == [[2]]  # padding is at the right, where it is left out


def test_siglip_trains_a_bias_that_the_model_lacks_and_saves_none(folder, tmp_path):
    def open_for(loss):
        how = {"loss": {"name": loss}, "optimiser": {"learning_rate": 1e-3, "steps": 1}, "batch": {"size": 2}}
        config = TrainConfig(name="few", model=f"compact:{folder}", data={"train": ["a"]}, **how)
        trainable = open_start(config.model, config)[0]
        pixels = import_torch().stack([trainable.image(np.zeros((32, 32, 3), np.uint8))["pixels"]] * 2)
        return trainable, trainable.module({"pixels": pixels}, trainable.tokens(TEXTS[:2]))

    trainable, outputs = open_for("siglip")
    assert outputs["bias"].item() == -10 and outputs["bias"].requires_grad
    assert any(parameter.item() == -10 for parameter in trainable.module.parameters() if parameter.numel() == 1)
    assert "bias" not in open_for("itc")[1]
    assert find_model(trainable.save(tmp_path / "saved")).fingerprint == find_model(f"compact:{folder}").fingerprint
