"""Tiny models, pair sets, rows and score files for the journeys of `same.toml`.

    python ci/same_inputs.py DIR

Models are those of the tests: random weights of fixed seeds, a few thousand of each family.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("", "native", "training", "models/huggingface", "models/fusion")]

import tiny_captioners
import tiny_files
import tiny_fusion
import tiny_heads
import tiny_models
import tiny_native
import tiny_region_models
from training_sets import COLOURS, RESNET, architecture, squares, table, toml

from sets import write_file
from tellapart.catalog import LOSSES
from tellapart.data.folder import read_pair_set
from tellapart.training.losses.loss import DualLoss, find_loss

#: The answers to tasks: family -> task -> state of a file with that head.
_HEADS = {
    "albef": {"vqa": tiny_heads.albef_vqa, "nlvr2": tiny_heads.albef_nlvr2},
    "xvlm": {"vqa": tiny_heads.xvlm_vqa, "nlvr2": tiny_heads.xvlm_nlvr2, "refcoco+": tiny_heads.xvlm_boxes},
    "meter": {task: lambda task=task: tiny_heads.meter_head(task) for task in ("vqa", "nlvr2")},
    "fiber": {task: lambda task=task: tiny_heads.fiber_head(task) for task in ("vqa", "nlvr2")},
}


def write_models(folder: Path) -> None:
    """Write a model of each family and each head."""
    for name, make in tiny_models.FAMILIES.items():
        (folder / "hf" / name).mkdir(parents=True)
        make(folder / "hf" / name)
    for name in ("blip", "vilt"):
        getattr(tiny_fusion, name)(folder / "fusion" / name)
    native = folder / "native"
    native.mkdir()
    for family in tiny_files.STATES:
        tiny_files.save_family(native / family, family)
    for family in tiny_native.MAKE:
        tiny_native.native(native / family, family)
    for family in ("ofa", "xvlm", "fiber"):
        tiny_captioners.save_captioner(native / f"{family}-captions", family)
    for family in tiny_region_models.REGION_STATES:
        tiny_region_models.save_region_model(native / family, family)
    for family, tasks in _HEADS.items():
        for task, make_state in tasks.items():
            tiny_heads.save(native / f"{family}-{task.strip('+')}", family, make_state())
    architecture(folder / "resnet", **RESNET)


def write_rows(folder: Path) -> None:
    """Write training rows with false captions, mates and units, and a configuration for each loss."""
    rows = []
    for number, item in enumerate(read_pair_set(folder / "train").items):
        for k, (image, text) in enumerate(zip(item.images, item.texts, strict=True)):
            row = {"image": f"train/{image}", "caption": text, "negative_captions": [item.texts[1 - k]]}
            words = text.split()
            row |= {"negative_images": [2 * number + 1 - k], "units": [[" ".join(words[:3]), " ".join(words[-3:])]]}
            rows.append(row | {"positive_captions": [text.replace("a ", "the ", 1)]})
    write_file(folder / "rows.jsonl", rows)
    architecture(folder / "sigmoid", init_logit_bias=-10.0)
    for name in LOSSES:
        dual = isinstance(find_loss(name), DualLoss)
        changes: dict[str, object] = {} if dual else {"matching": {"negatives": 1}, "reading": "itm"}
        changes |= {"loss": {"name": name}, "data": {"train": ["rows.jsonl"]}, "optimiser": {"steps": 20}}
        model = "new:sigmoid" if name == "siglip" else "new:arch" if dual else "hf:fusion/blip"
        values = table(folder, model=model, name=name, validation={"every": 10}, **changes)
        (folder / f"train-{name}.toml").write_text(toml(values), encoding="utf-8")


def write_tables(folder: Path) -> None:
    """Write a user's own pairs as CSV, scores of the demo in four formats, and predictions of NLVR2."""
    items = read_pair_set(folder / "test").items
    columns = ("id", "image_0", "image_1", "caption_0", "caption_1", "edits")
    pairs = [(x.id, *(f"test/{image}" for image in x.images), *x.texts, k % 4 + 1) for k, x in enumerate(items)]
    write_file(folder / "pairs.csv", [dict(zip(columns, pair, strict=True)) for pair in pairs])
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 2, 2)).astype(np.float32)
    np.save(folder / "scores.npy", scores + np.eye(2, dtype=np.float32))
    np.save(folder / "scores-b.npy", scores + 0.5 * np.eye(2, dtype=np.float32))
    (folder / "short.npy").write_bytes((folder / "scores.npy").read_bytes()[:-40])
    write_file(folder / "wrong.jsonl", [{"id": item.id, "image_0": 1} for item in items])


def write_inputs(folder: Path) -> None:
    """Write all of it into a new folder."""
    folder.mkdir(parents=True)
    squares(folder / "test", 24, seed=1)
    squares(folder / "train")
    architecture(folder / "arch")
    write_models(folder)
    write_rows(folder)
    write_tables(folder)
    for task in ("vqa", "nlvr2", "refcoco+"):
        tiny_heads.write_task(folder / f"vlue-{task.strip('+')}", task)
    rows = [f"{k},{k}.png,A {c} cup stands left of the small dog.\n" for k, c in enumerate(COLOURS)]
    (folder / "captions.csv").write_text("id,image,caption\n" + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]))
