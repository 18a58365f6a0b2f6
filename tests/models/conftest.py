"""Pair sets on disk, small models that are honest, and a tiny ONNX encoder that numpy can follow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.vectors import dot_products, normalise

WORDS = ["red", "blue", "one", "two", "cup", "bowl", "left", "right"]


@dataclass
class Histogram:
    """A dual encoder: an image is the mean of its channels and their squares, a text its letters' sums."""

    name: str = "histogram"
    fingerprint: str = "histogram-1"
    kind: str = "similarity"
    image_batches: list[int] = field(default_factory=list)
    text_batches: list[int] = field(default_factory=list)

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.image_batches.append(len(images))
        unit = [image.astype(np.float64).reshape(-1, 3) / 255 for image in images]
        rows = [np.concatenate([u.mean(axis=0), (u**2).mean(axis=0), [0.1]]) for u in unit]
        return normalise(np.array(rows, np.float32))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.text_batches.append(len(texts))
        rows = [[1 + sum(ord(letter) % (k + 3) for letter in text) for k in range(7)] for text in texts]
        return normalise(np.array(rows, np.float32))

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return dot_products(images, texts)


@dataclass
class Fusion:
    """A pair scorer: the mean of a picture, turned by the text's hash."""

    name: str = "fusion"
    fingerprint: str = "fusion-1"
    kind: str = "probability"
    batches: list[int] = field(default_factory=list)

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(len(texts))
        turns = [hashlib.sha256(text.encode()).digest()[0] for text in texts]
        return np.array([(i.mean() * turn / 255) % 1 for i, turn in zip(images, turns, strict=True)], np.float32)


class Likelihood(Fusion):
    """The same as a generator."""

    score_pairs = None  # type: ignore[assignment]

    def log_likelihoods(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        return -Fusion.score_pairs(self, images, texts)


@pytest.fixture
def histogram() -> type[Histogram]:
    return Histogram


@pytest.fixture
def fusion() -> type[Fusion]:
    return Fusion


@pytest.fixture
def likelihood() -> Callable[[], Any]:
    def make() -> Any:
        model = Likelihood(name="likelihood", fingerprint="likelihood-1", kind="logit")
        return _Without(model, "score_pairs")

    return make


class _Without:
    """A model that lacks one method of another."""

    def __init__(self, model: Any, missing: str) -> None:
        self._model, self._missing = model, missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._model, name)


@pytest.fixture
def picture_set(tmp_path: Path) -> Callable[..., PairSet]:
    """Make a pair set of random pictures, PNG files of 12 by 16 pixels."""

    def make(n: int = 10, shape: tuple[int, int] = (2, 2), seed: int = 0) -> PairSet:
        from PIL import Image

        rng = np.random.default_rng(seed)
        folder = tmp_path / f"pictures-{seed}"
        folder.mkdir(exist_ok=True)
        items = []
        for k in range(n):
            images = tuple(f"{k}-{i}.png" for i in range(shape[0]))
            for image in images:
                colour = rng.integers(0, 200, 3)
                noise = rng.integers(0, 56, (12, 16, 3))
                Image.fromarray((colour + noise).astype(np.uint8)).save(folder / image)
            texts = tuple(" ".join(rng.choice(WORDS, 4)) + f" {t}" for t in range(shape[1]))
            items.append(Item(id=f"item-{k}", images=images, texts=texts))
        return PairSet("pictures", tuple(items), folder)

    return make


@dataclass
class TinyEncoder:
    """A folder with an ONNX dual encoder, and its weights for numpy."""

    folder: Path
    weights: dict[str, NDArray[np.float32]]
    vocabulary: dict[str, int]

    def change_config(self, **changes: object) -> None:
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        for key, value in changes.items():
            if value is None:
                del config[key]
            else:
                config[key] = value
        path.write_text(json.dumps(config, indent=1))

    def replace(self, name: str, data: bytes) -> None:
        """Put other bytes in a file's place, with the hash that goes with them."""
        (self.folder / name).write_bytes(data)
        config = json.loads((self.folder / "config.json").read_text())
        self.change_config(sha256=config["sha256"] | {name: hashlib.sha256(data).hexdigest()})


SIZE, LENGTH, DIMENSIONS = 16, 6, 8


def image_graph(weights: dict[str, NDArray[np.float32]], *, name: str = "pixel_values", size: object = SIZE) -> Any:
    """Convolution of stride 2, ReLU, mean over space, projection."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Conv", [name, "filters"], ["a"], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "project"], ["vectors"]),
    ]
    graph = helper.make_graph(
        nodes,
        "image",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, size, size])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", DIMENSIONS])],
        [numpy_helper.from_array(weights[key], key) for key in ("filters", "project")],
    )
    return finished(graph)


def text_graph(weights: dict[str, NDArray[np.float32]], *, integer: str = "INT64") -> Any:
    """Mean of the embeddings of the tokens that are no padding."""
    from onnx import TensorProto, helper, numpy_helper

    axes = numpy_helper.from_array(np.array([2]), "axes")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["a"]),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "axes"], ["mask"]),
        helper.make_node("Mul", ["a", "mask"], ["b"]),
        helper.make_node("ReduceSum", ["b", "one"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["vectors"]),
    ]
    kind = getattr(TensorProto, integer)
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info(name, kind, ["n", LENGTH]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", DIMENSIONS])],
        [numpy_helper.from_array(weights["table"], "table"), axes, numpy_helper.from_array(np.array([1]), "one")],
    )
    return finished(graph)


def finished(graph: Any) -> Any:
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


@pytest.fixture
def graphs() -> dict[str, Callable[..., Any]]:
    return {"image": image_graph, "text": text_graph, "finished": finished}


@pytest.fixture
def tiny_encoder(tmp_path: Path) -> TinyEncoder:
    """Write the folder of a tiny ONNX dual encoder."""
    pytest.importorskip("onnx", reason="the tiny model is built with onnx, of the extra 'train'")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    rng = np.random.default_rng(7)
    vocabulary = {token: k for k, token in enumerate(["[PAD]", "[UNK]", *WORDS])}
    weights = {
        "filters": rng.standard_normal((5, 3, 3, 3)).astype(np.float32),
        "project": rng.standard_normal((5, DIMENSIONS)).astype(np.float32),
        "table": rng.standard_normal((len(vocabulary), DIMENSIONS)).astype(np.float32),
    }
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    files = {
        "image.onnx": image_graph(weights).SerializeToString(),
        "text.onnx": text_graph(weights).SerializeToString(),
        "tokenizer.json": tokenizer.to_str().encode(),
    }
    folder = tmp_path / "encoder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    config = {
        "schema_version": 1,
        "name": "tiny",
        "image_size": SIZE,
        "resize": "stretch",
        "mean": [0.48, 0.46, 0.41],
        "std": [0.27, 0.26, 0.28],
        "context_length": LENGTH,
        "pad_token": "[PAD]",
        "dimensions": DIMENSIONS,
        "kind": "similarity",
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return TinyEncoder(folder, weights, vocabulary)
