"""The model's folder: files for `tellapart.models.onnx.dual_encoder`, the record of the training, and the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.evaluation.measure import measure
from tellapart.models.onnx.dual_encoder import OnnxDualEncoder
from training.batches import MEAN, STD
from training.encoder import DualEncoder, Shape
from training.export import export_towers, sha256

__all__ = ["FILES", "NAME", "demo_scores", "write_card", "write_model", "write_record"]

NAME = "demo-encoder"

#: The files that are loaded; the record holds the hash of each.
FILES = ("config.json", "image.onnx", "text.onnx", "tokenizer.json")

_HEADLINE = ("text_score", "image_score", "group_score")


def write_model(model: DualEncoder, shape: Shape, tokenizer: str, folder: Path) -> float:
    """Write the four files that make a model; return the largest difference between onnxruntime and torch.

    Args:
        model: from `encoder.frozen_for_export`.
        shape: of the model.
        tokenizer: from `captions.tokenizer_json`.
        folder: made if it is missing.

    Raises:
        ModelError: the exported towers differ from torch's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    worst = export_towers(model, shape, folder)
    (folder / "tokenizer.json").write_text(tokenizer + "\n", encoding="utf-8")
    config = {
        "schema_version": 1,
        "name": NAME,
        "image_size": shape.image_size,
        "resize": "stretch",
        "mean": MEAN,
        "std": STD,
        "context_length": shape.context_length,
        "pad_token": "[PAD]",
        "dimensions": shape.dimension,
        "kind": "similarity",
        "logit_scale": round(float(model.scale()), 4),
        "sha256": {name: sha256(folder / name) for name in FILES if name != "config.json"},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return worst


def demo_scores(folder: Path, pairs: PairSet) -> dict[str, Any]:
    """Measure the exported model on a 2x2 pair set: each score with its interval, over all items and by tag."""
    model = OnnxDualEncoder.load(folder)
    values = []
    for item in pairs.items:
        images = model.encode_images([pairs.pixels(reference) for reference in item.images])
        values.append(model.similarity(images, model.encode_texts(item.texts)))
    measured = measure(Scores([item.id for item in pairs.items], values, model.kind), pairs.outline)
    return {
        "metrics": _numbers(measured.metrics),
        "by": {
            tag: {value: _numbers(group.metrics) for value, group in groups.items()}
            for tag, groups in measured.by.items()
        },
    }


def _numbers(metrics: dict[str, Any]) -> dict[str, Any]:
    fields = ("value", "low", "high", "n", "ties", "chance", "method")
    return {name: {field: _round(getattr(metrics[name], field)) for field in fields} for name in _HEADLINE}


def _round(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `training_record.json`: the record, and the hash and size of each file of the model."""
    files = {name: {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in FILES}
    text = json.dumps({**record, "files": files}, indent=1, ensure_ascii=False)
    (folder / "training_record.json").write_text(text + "\n", encoding="utf-8")


def write_card(folder: Path, record: dict[str, Any]) -> None:
    """Write `MODEL_CARD.md` from the record's numbers."""
    demo, minutes = record["demo"], record["seconds"] / 60
    quadruples, parameters = (f"{number:,}" for number in (record["data"]["quadruples"], record["parameters"]))
    rows = [("all", demo["metrics"])]
    rows += [
        (f"{tag}: {value}", group) for tag in ("aspect", "held_out") for value, group in demo["by"].get(tag, {}).items()
    ]
    lines = [_row(name, group) for name, group in rows]
    table = "\n".join(["| demo items | n | text | image | group |", "|---|---|---|---|---|", *lines])
    text = f"""# {NAME}

A dual encoder of {parameters} parameters (a residual CNN with two attention layers on its last feature map; a
two-layer text transformer over whole words; weights stored as float16), trained from nothing on {quadruples} rendered
quadruples in {minutes:.0f} minutes on two busy CPU cores by `python -m training.demo_dual_encoder`. The loss is
contrastive with hard negatives (each image's mate, and captions false of it); beside it, a head that is not exported
learnt to name the object at each object's centre, which the scene's own description gives.

It is here so that a fresh installation can measure a real, if small, model without a network. It knows the objects,
colours, counts and places of the `demo` scenes and nothing else: never use it as a general model.

Scores on `demo` (%, strict rule, 95 % interval; chance is 25, 25 and 16.7). `demo` took no part in training or in
any choice; its scenes have other seeds, and items with `held_out: yes` show an object in a colour that no training
scene showed it in.

{table}

Limits: whole-word vocabulary (any other word is `[UNK]`), pictures of one to five objects in a bare room. What it
makes of size words ("small", "large") is not measured: nothing in `demo` turns on them.

Data, hyper-parameters, loss curve, validation scores, versions and file hashes: `training_record.json`.

Licence: Apache-2.0, as the rest of tellapart. Trained on this project's own renders only.
"""
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")


def _row(name: str, metrics: dict[str, Any]) -> str:
    cells = [
        f"{100 * m['value']:.1f} [{100 * m['low']:.1f}, {100 * m['high']:.1f}]" for m in (metrics[k] for k in _HEADLINE)
    ]
    return f"| {name} | {metrics['group_score']['n']} | " + " | ".join(cells) + " |"
