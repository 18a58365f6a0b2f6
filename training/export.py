"""Both towers as ONNX files with float16 weights, checked against torch."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tellapart.errors import ModelError
from training.encoder import DualEncoder, Shape

__all__ = ["TOLERANCE", "export_towers", "largest_difference", "sha256"]

OPSET = 17

#: The largest difference allowed between an ONNX file's vectors and torch's.
TOLERANCE = 1e-4


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def export_towers(model: DualEncoder, shape: Shape, folder: Path) -> float:
    """Write `image.onnx` and `text.onnx`; return the largest difference between onnxruntime and torch.

    Inputs are `pixel_values`, float32 `(n, 3, size, size)`, and `input_ids`, int64 `(n, context_length)`; the output of
    both is `vectors`, float32 `(n, dimension)`, of unit length. Weights are stored as float16 and cast when loaded.

    Args:
        model: from `encoder.frozen_for_export`, whose weights are float16 values already.
        shape: of the model.
        folder: an existing folder.

    Raises:
        ModelError: onnxruntime's vectors differ from torch's by more than `TOLERANCE`.
    """
    generator = torch.Generator().manual_seed(0)
    size = shape.image_size
    pixels = torch.randn(3, 3, size, size, generator=generator)
    ids = torch.randint(3, shape.vocabulary, (3, shape.context_length), generator=generator)
    ids[:, 0] = 2
    ids[1, shape.context_length // 2 :] = 0
    worst = 0.0
    for tower, name, sample in ((model.image, "pixel_values", pixels), (model.text, "input_ids", ids)):
        path = folder / ("image.onnx" if name == "pixel_values" else "text.onnx")
        _write(tower, name, sample, path)
        for part in (sample, sample[:1]):
            worst = max(worst, largest_difference(path, name, tower, part))
    if worst > TOLERANCE:
        raise ModelError(f"{folder}: onnxruntime differs from torch by {worst:.2e}; allowed is {TOLERANCE:.0e}")
    return worst


def _write(tower: nn.Module, name: str, sample: Tensor, path: Path) -> None:
    axes = {name: {0: "n"}, "vectors": {0: "n"}}
    with warnings.catch_warnings():
        # The other exporter needs onnxscript; this one is in every torch from 2.4 on.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            tower, (sample,), str(path), dynamo=False, opset_version=OPSET,
            input_names=[name], output_names=["vectors"], dynamic_axes=axes,
        )  # fmt: skip
    _store_as_float16(path)


def _store_as_float16(path: Path) -> None:
    """Replace each large float32 weight by its float16 value and a Cast."""
    import onnx

    model = onnx.load(str(path))
    graph = model.graph
    casts, stored = [], []
    for weight in graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype == np.float32 and values.size >= 64 and _survives(values):
            half = onnx.numpy_helper.from_array(values.astype(np.float16), weight.name + "_half")
            stored.append(half)
            casts.append(onnx.helper.make_node("Cast", [half.name], [weight.name], to=onnx.TensorProto.FLOAT))
        else:
            stored.append(weight)
    nodes = [*casts, *graph.node]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(stored)
    graph.node.extend(nodes)
    model.producer_name, model.producer_version, model.doc_string = "tellapart", "", ""
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def _survives(values: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(values, values.astype(np.float16).astype(np.float32)))


def largest_difference(path: Path, name: str, tower: nn.Module, sample: Tensor) -> float:
    """Return the largest absolute difference between onnxruntime's vectors and torch's."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = tower(sample).numpy()
    return float(np.abs(session.run(None, {name: sample.numpy()})[0] - expected).max())
