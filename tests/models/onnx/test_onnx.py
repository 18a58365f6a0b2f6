import json
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from facts import raises
from scripts import run_python
from tellapart.errors import ModelError
from tellapart.models.onnx.dual_encoder import FILES, OnnxDualEncoder, preprocess_image
from tellapart.models.onnx.file_format import external_tensors
from tellapart.models.protocols import DualEncoder

onnx = pytest.importorskip("onnx", reason="the graphs are built with onnx, of the extra 'train'")


def pictures(n: int = 5) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 256, (20 + k, 31 - k, 3)).astype(np.uint8) for k in range(n)]


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return vector / np.linalg.norm(vector)


def test_vectors_are_what_numpy_computes_and_scores_are_their_cosines(tiny_encoder):
    model = OnnxDualEncoder(tiny_encoder.folder)
    filters, project = (tiny_encoder.weights[k].astype(np.float64) for k in ("filters", "project"))
    expected = []
    for pixels in pictures():
        tensor = preprocess_image(pixels, model.config).astype(np.float64)
        windows = np.lib.stride_tricks.sliding_window_view(tensor, (3, 3), axis=(1, 2))[:, ::2, ::2]
        maps = np.einsum("chwij,fcij->fhw", windows, filters)
        expected.append(unit(np.maximum(maps, 0).mean(axis=(1, 2)) @ project))
    output = model.encode_images(pictures())
    assert output.dtype == np.float32
    np.testing.assert_allclose(output, expected, atol=1e-6)
    table = tiny_encoder.weights["table"].astype(np.float64)
    texts = ["red cup", "Two blue bowl", "a cup"]
    ids = [[4 - 2, 6], [5, 3, 7], [1, 6]]
    assert ids[0] == [tiny_encoder.vocabulary[word] for word in ("red", "cup")]
    expected = [unit(table[row].mean(axis=0)) for row in ids]
    np.testing.assert_allclose(model.encode_texts(texts), expected, atol=1e-6)
    assert isinstance(model, DualEncoder)
    assert (model.name, model.kind) == ("tiny", "similarity")
    images, texts = model.encode_images(pictures(2)), model.encode_texts(["red", "blue", "cup"])
    scores = model.similarity(images, texts)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, images @ texts.T, atol=1e-6)
    tiny_encoder.change_config(kind="logit", logit_scale=50.0)
    logits = OnnxDualEncoder(tiny_encoder.folder)
    assert logits.kind == "logit"
    np.testing.assert_array_equal(logits.similarity(images, texts), scores * np.float32(50))


def test_neither_batch_nor_order_nor_threads_change_a_bit(tiny_encoder):
    images, texts = pictures(11), [f"{a} {b}" for a in ("red", "one cup", "left") for b in ("blue", "two bowl")]
    reference = OnnxDualEncoder(tiny_encoder.folder, threads=1)
    vectors, captions = reference.encode_images(images), reference.encode_texts(texts)
    for threads in (1, 2, 5):
        model = OnnxDualEncoder(tiny_encoder.folder, threads=threads)
        for size in (1, 2, 3, 11):
            parts = [model.encode_images(images[k : k + size]) for k in range(0, 11, size)]
            np.testing.assert_array_equal(np.concatenate(parts), vectors)
        np.testing.assert_array_equal(model.encode_images(images[::-1]), vectors[::-1])
        np.testing.assert_array_equal(model.encode_texts(texts[::-1]), captions[::-1])
    assert reference.encode_images([]).shape == (0, 8)


def test_texts_that_lose_their_end_are_counted(tiny_encoder):
    model = OnnxDualEncoder(tiny_encoder.folder)
    exact = "one two red blue cup bowl"
    for longer in (1, 2):
        vectors = model.encode_texts([exact, *[f"{exact} left"] * longer])
        np.testing.assert_array_equal(vectors[1:], vectors[[0] * longer])
    assert model.truncated == 3


def test_a_text_is_cut_and_padded_at_the_side_that_its_tokenizer_names(tiny_encoder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tiny_encoder.folder / "tokenizer.json"))
    tokenizer.enable_truncation(3, direction="left")
    tokenizer.enable_padding(direction="left")
    tiny_encoder.replace("tokenizer.json", tokenizer.to_str().encode())
    model = OnnxDualEncoder(tiny_encoder.folder)
    assert "['left', 'left']" in model.fingerprint
    words = ["one", "two", "red", "blue", "cup", "bowl", "left"]
    ids = [tiny_encoder.vocabulary[word] for word in words]
    assert model.token_ids([" ".join(words), "red cup"]) == [ids[1:], [0, 0, 0, 0, ids[2], ids[4]]]


def test_int32_inputs_are_fed_as_the_graph_wants(tiny_encoder, graphs):
    wide = OnnxDualEncoder(tiny_encoder.folder).encode_texts(["red cup"])
    tiny_encoder.replace("text.onnx", graphs["text"](tiny_encoder.weights, integer="INT32").SerializeToString())
    narrow = OnnxDualEncoder(tiny_encoder.folder).encode_texts(["red cup"])
    np.testing.assert_array_equal(wide, narrow)


def test_the_fingerprint_follows_the_contents_and_not_the_place(tiny_encoder, tmp_path):
    first = OnnxDualEncoder(tiny_encoder.folder).fingerprint
    tiny_encoder.folder = moved = tiny_encoder.folder.rename(tmp_path / "elsewhere")
    assert OnnxDualEncoder(moved).fingerprint == first
    tiny_encoder.change_config(mean=[0.5, 0.5, 0.5])
    second = OnnxDualEncoder(moved).fingerprint
    tokenizer = json.loads((moved / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    tiny_encoder.replace("tokenizer.json", json.dumps(tokenizer).encode())
    third = OnnxDualEncoder(moved).fingerprint
    assert len({first, second, third}) == 3


def bicubic(size_in: int, size_out: int) -> NDArray[np.float64]:
    """Weights (out, in) of the antialiased cubic convolution, a = -0.5 (Keys 1981), the kernel widened by the scale."""
    scale = size_in / size_out
    wide = max(scale, 1.0)
    centres = (np.arange(size_out) + 0.5) * scale
    x = np.abs((np.arange(size_in)[None, :] + 0.5 - centres[:, None]) / wide)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    weights = np.where(x < 1, near, np.where(x < 2, far, 0.0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("size", [(40, 30), (16, 16), (9, 21), (300, 200)])
def test_stretched_pixels_are_the_antialiased_bicubic_formula(size):
    height, width = size
    ramp = np.linspace(0, 200, width)[None, :, None] + np.linspace(0, 50, height)[:, None, None]
    noise = np.random.default_rng(0).integers(0, 6, (height, width, 3))
    pixels = (ramp + noise).astype(np.uint8)
    exact = np.einsum("yh,xw,hwc->cyx", bicubic(height, 16), bicubic(width, 16), pixels.astype(np.float64))
    setup = SimpleNamespace(image_size=16, resize="stretch", mean=(0.48, 0.46, 0.41), std=(0.27, 0.26, 0.28))
    expected = (exact.clip(0, 255) / 255 - np.array(setup.mean)[:, None, None]) / np.array(setup.std)[:, None, None]
    output = preprocess_image(pixels, setup)
    assert (output.dtype, output.shape) == (np.float32, (3, 16, 16))
    # Pillow rounds to whole levels after each of its two passes: at most one level off, 1/255 before the division.
    assert np.abs(output - expected).max() * min(setup.std) <= 1.0 / 255


@pytest.mark.parametrize(
    ("height", "width", "side", "top", "left"),
    [(48, 32, 32, 8, 0), (32, 48, 32, 0, 8), (16, 17, 16, 0, 0), (33, 50, 32, 0, 8), (20, 10, 16, 8, 0)],
)
def test_cropping_takes_the_middle_after_the_shorter_side_is_brought_to_size(height, width, side, top, left):
    from PIL import Image

    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3)).astype(np.uint8)
    short = min(height, width)
    size = (side * width // short, side * height // short)
    whole = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
    middle = whole[top : top + side, left : left + side].transpose(2, 0, 1) / 255.0
    setup = SimpleNamespace(image_size=side, resize="crop", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    output = preprocess_image(pixels, setup)
    np.testing.assert_allclose(output, middle, atol=1e-7)


def edit(change: Callable[[Any], object], **options) -> Callable[[Any, Any], None]:
    """Change the graph of images, and its hash in the configuration."""

    def apply(encoder, graphs) -> None:
        model = graphs["image"](encoder.weights, **options)
        change(model.graph)
        encoder.replace("image.onnx", model.SerializeToString())

    return apply


def put_outside(graph) -> None:
    onnx.external_data_helper.set_external_data(graph.initializer[1], location="../../secret")


#: What is changed in the configuration, or a file's new content (None: it goes) that no hash follows, or a function.
REFUSED: list[tuple[Any, Any]] = [
    *(((name, None), (name, "ONNX", "config.json")) for name in ("config.json", *FILES)),
    *(((name, b"of another model"), (name, "SHA-256", "config.json")) for name in FILES),
    ({"image_sizes": 3}, ("config.json", "'image_sizes'", "'image_size'")),
    ({"zzz": 3}, ("config.json", "'zzz'", "schema_version")),
    ({"std": None}, ("config.json", "'std'")),
    ({"image_size": "160px"}, ("config.json", "'image_size'", "input", "'160px'")),
    ({"schema_version": 2}, ("config.json", "'schema_version'", "input", "1", "2")),
    ({"std": [0.1, 0, 0.1]}, "(0.1, 0.0, 0.1)"),
    ({"kind": "logit"}, ("'logit'", "logit_scale")),
    ({"sha256": {}}, ("sha256", "image.onnx", "text.onnx", "tokenizer.json")),
    ({"pad_token": "<pad>"}, ("tokenizer.json", "'<pad>'", "config.json", "pad_token")),
    ({"image_size": 32}, ("image.onnx", "input", "'pixel_values'", "3, 32, 32")),
    ({"context_length": 7}, ("text.onnx", "input", "'input_ids'", "7", "tensor(int64)", "6")),
    (("config.json", b'{\n "name": "x",\n "image_size": ,\n}'), ("config.json", "JSON", "Expecting value", "3", "16")),
    (("config.json", b'{\n "name": "caf\xe9"}'), ("config.json:2", "UTF-8")),
    (lambda encoder, _: encoder.replace("tokenizer.json", b"{}"), ("tokenizer.json", "file")),
    (lambda encoder, _: encoder.replace("image.onnx", b"<html>"), ("image.onnx", "ONNX", "model")),
    (edit(lambda graph: setattr(graph.node[1], "op_type", "Conjure")), ("image.onnx", "Conjure")),
    (edit(lambda graph: graph.output.append(graph.input[0])), ("image.onnx", "pixel_values")),
    (edit(id, name="picture"), ("image.onnx", "input", "'pixel_values'", "picture")),
    (edit(put_outside), ("image.onnx", "1", "'project'")),
]


@pytest.mark.parametrize(("change", "facts"), REFUSED)
def test_a_folder_that_does_not_fit_is_refused(tiny_encoder, graphs, change, facts):
    if isinstance(change, dict):
        tiny_encoder.change_config(**change)
    elif callable(change):
        change(tiny_encoder, graphs)
    else:
        name, content = change
        path = tiny_encoder.folder / name
        path.unlink() if content is None else path.write_bytes(content)
    with raises(ModelError, facts):
        OnnxDualEncoder(tiny_encoder.folder)


def test_a_graph_that_fails_or_gives_other_vectors_is_refused_when_it_runs(tiny_encoder, graphs):
    tiny_encoder.change_config(dimensions=9)
    with raises(ModelError, "image.onnx", "float32", "(n, 9)", "float32", "(1, 8)"):
        OnnxDualEncoder(tiny_encoder.folder).encode_images(pictures(1))
    tiny_encoder.change_config(dimensions=8)
    weights = tiny_encoder.weights | {"project": np.zeros((5, 8), np.float32)}
    weights["table"] = weights["table"][:4]
    for kind in ("image", "text"):
        tiny_encoder.replace(f"{kind}.onnx", graphs[kind](weights).SerializeToString())
    model = OnnxDualEncoder(tiny_encoder.folder)
    with raises(ModelError, "2", "2", "vectors"):  # of length zero
        model.encode_images(pictures(2))
    with raises(ModelError, "text.onnx", "failed"):
        model.encode_texts(["left"])


def test_devices_that_are_not_there_are_refused(tiny_encoder, monkeypatch):
    with raises(ModelError, "'tpu'", "device"):
        OnnxDualEncoder(tiny_encoder.folder, device="tpu")
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with raises(ModelError, "'cuda'", "CUDAExecutionProvider", "CPUExecutionProvider"):
        OnnxDualEncoder(tiny_encoder.folder, device="cuda")
    # One that has the provider and cannot start it goes on with the CPU.
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CUDAExecutionProvider"])
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"), raises(ModelError, "CUDAExecutionProvider"):
        OnnxDualEncoder(tiny_encoder.folder, device="cuda")


@pytest.mark.slow
def test_onnxruntime_stores_no_identifier_and_no_events(tmp_path):
    """Its telemetry keeps both in the folder for caches, and begins with the first import."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    run_python("-m", "tellapart", "run", "--limit", 4, "--out", tmp_path / "run", "--quiet", env=environment)
    names = {path.name for path in tmp_path.rglob("*")}
    assert "results.json" in names
    assert not names & {"deviceid", "onnxruntime.db", ".ses"}


def tensor(name: str, *, external: bool = True):
    built = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), name)
    if external:
        onnx.external_data_helper.set_external_data(built, location="elsewhere")
    return built


def model(*nodes, initializers: tuple[Any, ...] = (), functions: tuple[Any, ...] = ()):
    graph = onnx.helper.make_graph(list(nodes), "g", [], [], list(initializers))
    return onnx.helper.make_model(graph, functions=list(functions))


def constant(name: str):
    return onnx.helper.make_node("Constant", [], ["y"], value=tensor(name))


def test_a_tensor_in_another_file_is_found_by_its_location_alone_and_in_training_too():
    """Every other place is among `ci/attacks.py`."""
    alone, training = tensor("a", external=False), model()
    alone.data_location = onnx.TensorProto.EXTERNAL
    training.training_info.add().algorithm.CopyFrom(onnx.helper.make_graph([constant("a")], "t", [], []))
    for hidden in (model(initializers=(tensor("b", external=False), alone)), training):
        assert external_tensors(hidden.SerializeToString()) == ["a"]
    whole = model(onnx.helper.make_node("Constant", [], ["y"], value=tensor("a", external=False)))
    assert external_tensors(whole.SerializeToString()) == []


def test_graphs_nested_without_end_are_refused():
    graph = onnx.helper.make_graph([constant("a")], "g", [], [])
    for _ in range(30):
        graph = onnx.helper.make_graph([onnx.helper.make_node("Loop", [], ["y"], body=graph)], "g", [], [])
    with raises(ValueError, "60"):
        external_tensors(onnx.helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "graph"),
        (b"\x08\x07", "graph"),
        (b"\x3a\x05ab", ("field", "3 bytes")),
        (b"\x80", "number"),
        (b"\x3a" + b"\xff" * 12, "number"),
    ],
)
def test_bytes_that_are_no_model_are_refused(data, message):
    with raises(ValueError, message):
        external_tensors(data)


@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer_or_a_value_error(data):
    try:
        external_tensors(b"\x3a" + bytes([len(data) % 128]) + data)
    except ValueError as error:
        assert str(error)
