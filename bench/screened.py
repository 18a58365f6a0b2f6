"""Whether float32's outcomes can be had at a lower precision's price: items near a tie are scored again in float32.

    python bench/screened.py --data DIR --encoder scratch/real-encoder

Two trained ONNX encoders are rounded to bfloat16 after each operation, as torch rounds them. The spread is the largest
error of a margin on 200 items; items with a margin within twice that are scored again. The price is of ViT-B/32: both
towers in bfloat16, and in float32 for the sample and for items near a tie.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from record import run_bench, time_call
from rivals import make_model
from shapes import read_sets
from typer import Option

import tellapart as ta
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.reference import DEMO_ENCODER_FOLDER
from tellapart.models.torch.backend import import_torch
from tellapart.records.samples import read_samples

SAMPLE, FACTOR = 200, 2.0


def measure(data: Annotated[Path, Option()], encoder: Annotated[Path, Option()], items: int = 600) -> dict[str, Any]:
    """Measure published annotations, and the real encoder's folder with photos/."""
    towers = measure_towers(data)
    record: dict[str, Any] = {"items": items, "towers": towers, "sets": {}}
    cases: list[tuple[Path, Any]] = [(DEMO_ENCODER_FOLDER, "demo")]
    cases += [(encoder, pairs) for pairs in list_pairs(data, encoder / "photos", items)]
    with tempfile.TemporaryDirectory() as scratch:
        for folder, pairs in cases:
            name = pairs if isinstance(pairs, str) else pairs.name
            exact = score(folder, pairs, Path(scratch) / name / "float32")
            rounded = copy_folder(folder, Path(scratch) / folder.name)
            lower = score(rounded, pairs, Path(scratch) / name / "bfloat16")
            record["sets"][name] = {"bfloat16": screen(exact, lower, towers["bfloat16"])}
    return record


def list_pairs(data: Path, photos: Path, items: int) -> list[PairSet]:
    """Return sets of real captions, each with one of the photographs."""
    names = sorted(file.name for file in photos.iterdir())
    sets = read_sets(data, items, np.random.default_rng(0))
    return [
        PairSet(
            name,
            tuple(Item(id=str(k), images=(names[k % len(names)],), texts=texts) for k, (_, texts) in enumerate(rows)),
            photos,
        )
        for name, rows in sets.items()
        if name in {"sugarcrepe", "valse"}
    ]


def score(folder: Path, pairs: Any, out: Path) -> dict[str, Any]:
    """Return scores `(item, image, text)`, outcomes `(item, metric)`, and the processor seconds of the run."""
    run, _, seconds = time_call(lambda: ta.evaluate(f"onnx:{folder}", pairs, cache=False, out=out))
    samples = list(read_samples(out, run.benchmarks[0]))
    metrics = [name for name in samples[0].outcomes if all(sample.outcomes[name] in {0, 1} for sample in samples)]
    return {
        "scores": np.array([sample.scores for sample in samples], np.float64),
        "outcomes": np.array([[sample.outcomes[name] for name in metrics] for sample in samples]),
        "seconds": seconds,
    }


def screen(exact: dict[str, Any], lower: dict[str, Any], towers: dict[str, float]) -> dict[str, Any]:
    """Count flips, the items near a tie, the flips outside of these, and the price by ViT-B/32's towers."""
    error = np.abs(list_margins(lower["scores"]) - list_margins(exact["scores"]))
    flipped = (exact["outcomes"] != lower["outcomes"]).any(axis=1)
    count = len(flipped)
    drawn = np.random.default_rng(0).permutation(count)[:SAMPLE]
    spread = FACTOR * float(error[drawn].max())
    near = np.abs(list_margins(lower["scores"])).min(axis=1) <= spread
    again = near.copy()
    again[drawn] = True
    images, texts = exact["scores"].shape[1:]
    plain = images + texts * towers["text_over_image"]
    cheap = images * towers["image"] + texts * towers["text_over_image"] * towers["text"]
    return {
        "items": count,
        "flipped": int(flipped.sum()),
        "largest_error": float(error.max()),
        "spread": spread,
        "near_a_tie": round(float(near.mean()), 4),
        "missed_flips": int((flipped & ~near).sum()),
        "price": round(cheap / plain + float(again.mean()), 3),
        "price_of_many": round(cheap / plain + float(near.mean()), 3),  # the sample's share goes to nought
        "seconds": round(lower["seconds"], 2),
        "seconds_float32": round(exact["seconds"], 2),
    }


def list_margins(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much each true pair beats each other entry of its row and column, `(item, comparison)`."""
    columns = []
    for pair in range(min(scores.shape[1:])):
        true = scores[:, pair, pair, None]
        columns += [true - np.delete(scores[:, pair], pair, 1), true - np.delete(scores[:, :, pair], pair, 1)]
    return np.concatenate(columns, axis=1)


def copy_folder(folder: Path, to: Path) -> Path:
    """Copy an ONNX encoder with both graphs rounded."""
    if not to.exists():
        shutil.copytree(folder, to, ignore=shutil.ignore_patterns("photos"))
        config = json.loads((to / "config.json").read_text())
        for file in ("image.onnx", "text.onnx"):
            round_graph(to / file)
            config["sha256"][file] = hashlib.sha256((to / file).read_bytes()).hexdigest()
        (to / "config.json").write_text(json.dumps(config))
    return to


def round_graph(file: Path) -> None:
    """Round every float of a graph to bfloat16: the weights, the inputs, and after each operation its outputs."""
    model = onnx.shape_inference.infer_shapes(onnx.load(file))
    graph, real = model.graph, onnx.TensorProto.FLOAT
    floats = {each.name for each in (*graph.value_info, *graph.output) if each.type.tensor_type.elem_type == real}
    for tensor in graph.initializer:
        if tensor.data_type == real:
            values = import_torch().from_numpy(onnx.numpy_helper.to_array(tensor).copy())
            rounded = values.bfloat16().float().numpy()  # to the nearest, ties to even
            tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
    nodes = []
    for node in list(graph.node):
        names = [name for name in node.output if name in floats and node.op_type != "Constant"]
        node.output[:] = [f"{name}.full" if name in names else name for name in node.output]
        nodes.append(node)
        for name in names:
            nodes.append(onnx.helper.make_node("Cast", [f"{name}.full"], [f"{name}.low"], to=onnx.TensorProto.BFLOAT16))
            nodes.append(onnx.helper.make_node("Cast", [f"{name}.low"], [name], to=real))
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, file)


def measure_towers(data: Path, architecture: str = "ViT-B-32") -> dict[str, dict[str, float]]:
    """Return what a tower costs in bfloat16 as a share of float32, and a text over an image, on one thread."""
    import_torch().set_num_threads(1)
    rows = read_sets(data, 300, np.random.default_rng(1))["sugarcrepe"]
    texts = sorted({text for _, pair in rows for text in pair}, key=lambda text: (len(text) // 24, text))
    pixels = list(np.random.default_rng(0).integers(0, 256, (32, 224, 224, 3), dtype=np.uint8))
    cost: dict[str, tuple[float, float]] = {}
    for dtype in ("float32", "bfloat16"):
        name = f"local-dir:{make_model(architecture)['folder']}"
        model: Any = find_model(name, ModelOptions(dtype=dtype))
        prepared = [model.prepare_image(picture) for picture in pixels]
        model.encode_images(prepared), model.encode_texts(texts[:32])
        cost[dtype] = time_each(model.encode_images, prepared), time_each(model.encode_texts, texts)
    (image, text), (low_image, low_text) = cost["float32"], cost["bfloat16"]
    shares = {"image": low_image / image, "text": low_text / text, "text_over_image": text / image}
    return {
        "milliseconds": {"image": 1e3 * image, "text": 1e3 * text, "image_bfloat16": 1e3 * low_image,
                         "text_bfloat16": 1e3 * low_text},
        "bfloat16": shares,
    }  # fmt: skip


def time_each(encode: Any, samples: Sequence[Any]) -> float:
    """Return the processor seconds of one sample."""
    return time_call(lambda: encode(samples))[2] / len(samples)


if __name__ == "__main__":
    run_bench(measure, "screened")
