"""A compact dual encoder as the folder that ONNX Runtime runs without torch: float16 weights, checked against torch."""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from pathlib import Path

import numpy as np

from tellapart.data.atomic import atomic_folder
from tellapart.errors import ModelError, require
from tellapart.models.compact.dual_encoder import PAD, PREFIX, TOKENIZER, CompactParts, open_parts
from tellapart.models.compact.towers import fold_norms
from tellapart.models.onnx.dual_encoder import CONFIG, FILES, import_onnxruntime
from tellapart.models.torch.backend import import_torch, parameter_count
from tellapart.models.torch.network import Network, Tensor

_OPSET = 17

#: The largest difference allowed between an ONNX file's vectors and torch's, on the same rounded weights.
TOLERANCE = 1e-5


def convert_to_onnx(name: str, folder: Path) -> int:
    """Write the folder that `-m onnx:FOLDER` opens; return the number of parameters.

    The image tower's batch norms are merged into its convolutions. Weights are rounded to float16, which halves the
    files and moves a cosine by about 1e-3.
    """
    source = Path(name.removeprefix(PREFIX)).expanduser()
    parts = open_parts(source)
    round_weights(parts.model)
    config = parts.config
    with atomic_folder(folder) as draft:
        _export_towers(parts, draft)
        (draft / TOKENIZER).write_bytes((source / TOKENIZER).read_bytes())
        fields = {
            "schema_version": 1,
            "name": folder.name,
            "image_size": config.image_size,
            "resize": "stretch",
            "mean": config.mean,
            "std": config.std,
            "context_length": config.context_length,
            "pad_token": PAD,
            "dimensions": config.dimensions,
            "kind": "similarity",
            "logit_scale": round(float(parts.model.logit_scale.detach().exp()), 4),
            "sha256": {file: hashlib.sha256((draft / file).read_bytes()).hexdigest() for file in FILES},
        }
        (draft / CONFIG).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    return parameter_count(parts.model)


def round_weights(model: Network) -> None:
    """Merge a model's batch norms and round its weights to float16's values, in place; their type stays float32."""
    torch = import_torch()
    fold_norms(model.visual)
    with torch.no_grad():
        for weight in (*model.visual.parameters(), *model.text.parameters()):
            weight.copy_(weight.half().float())


def _export_towers(parts: CompactParts, folder: Path) -> None:
    """Write `image.onnx` and `text.onnx`, each checked against torch on one sample and on three."""
    torch, onnxruntime, config = import_torch(), import_onnxruntime(), parts.config
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(3, 3, config.image_size, config.image_size, generator=generator)
    ids = torch.randint(1, parts.tokenizer.get_vocab_size(), (3, config.context_length), generator=generator)
    ids[1, config.context_length // 2 :] = 0  # a short text, with padding
    image, text = (parts.model.visual, "pixel_values", pixels), (parts.model.text, "input_ids", ids)
    for file, (tower, name, sample) in {"image.onnx": image, "text.onnx": text}.items():
        path = folder / file
        _write_graph(tower, name, sample, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        differences = list[float]()
        for part in (sample, sample[:1]):
            with torch.no_grad():
                expected = tower(part).numpy()
            differences.append(np.abs(session.run(None, {name: part.numpy()})[0] - expected).max())
        worst = np.max(differences)  # NaN if one of them is
        if not worst <= TOLERANCE:
            raise ModelError(f"{path.name}: ONNX Runtime differs from torch by {worst:.1e}; allowed is {TOLERANCE:.0e}")


def _write_graph(tower: Network, name: str, sample: Tensor, path: Path) -> None:
    torch = import_torch()
    require("onnx", extra="train")
    exported = copy.deepcopy(tower).to(memory_format=torch.contiguous_format)
    with warnings.catch_warnings():
        # The other exporter needs onnxscript; this one is in every torch from 2.4 on.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            exported, (sample,), str(path), dynamo=False, opset_version=_OPSET, input_names=[name],
            output_names=["vectors"], dynamic_axes={name: {0: "n"}, "vectors": {0: "n"}},
        )  # fmt: skip
    _store_as_float16(path)


def _store_as_float16(path: Path) -> None:
    """Replace each large float32 weight that was rounded by `round_weights`; float16 would change other constants."""
    onnx = require("onnx", extra="train")
    model = onnx.load(str(path))
    graph = model.graph
    casts, stored = [], []
    for weight in graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        rounded = values.astype(np.float16) if values.dtype == np.float32 and values.size >= 64 else None
        if rounded is not None and np.array_equal(values, rounded.astype(np.float32)):
            half = onnx.numpy_helper.from_array(rounded, weight.name + "_half")
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
