"""Doors of files that the program makes itself: models' weights and configurations, training, surveys, the board."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from doors import Door, door_of
from PIL import Image

from tellapart.annotate.folder import ImageAccess, read_answers, read_study, write_study
from tellapart.annotate.reply_files import read_replies
from tellapart.annotate.survey import Deal, deal
from tellapart.annotate.surveys import find_survey
from tellapart.board.settings import read_settings
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.hidden_items import hide
from tellapart.board.submissions.prepared import read_truth
from tellapart.board.submissions.reading import read_published
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.models.find import find_model
from tellapart.models.memory.external import read_scores
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training.checkpoint import TrainingState, read_checkpoint, write_checkpoint
from tellapart.training.config import read_config
from tellapart.training.encoders.new_model import write_new_model
from tellapart.training.report.curves import log_charts
from tellapart.training.run_files import RunFiles

__all__ = ["open_made_doors"]

_OPEN_CLIP = {
    "model_cfg": {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 8, "patch_size": 8, "head_width": 8},
        "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1},
    },
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}

_TRAINING = """name = "few"
model = "new:arch"
[data]
train = ["folder:few"]
[loss]
name = "negclip"
[optimiser]
learning_rate = 1e-3
steps = 4
[batch]
size = 8
[validation]
every = 2
"""

_BOARD = """[board]
title = "Ours"
[submissions]
state = "state"
[[hidden]]
name = "few"
pairs = "folder:few"
"""


def open_made_doors(folder: Path) -> dict[str, Door]:
    """Write a valid file of each format below a folder, and return its door by a name."""
    items = tuple(
        Item(id=id_, images=(f"images/{id_}0.png", f"images/{id_}1.png"), texts=(f"a {id_}", f"no {id_}"), cluster=id_)
        for id_ in ("a", "b", "c")
    )
    pictures = {name: _picture(number) for number, name in enumerate(name for item in items for name in item.images)}
    write_pair_set(folder / "few", items, pictures, {"title": "few"})
    return {**_sets(folder), **_weights(folder), **_training(folder), **_studies(folder), **_board(folder)}


def _picture(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def _sets(folder: Path) -> dict[str, Door]:
    few, raw = folder / "few", folder / "scores.npy"
    np.save(raw, np.arange(12, dtype=np.float64).reshape(3, 2, 2) / 8)

    def read_all() -> Any:
        pairs = read_pair_set(few)
        return pairs.items, sorted(pairs.card.items()), [pairs.pixels(name).tolist() for name in pairs.items[0].images]

    return {
        "pairs.jsonl": door_of(few / "pairs.jsonl", read_all, whole=False),
        "card.json": door_of(few / "card.json", read_all, whole=False),
        "picture.png": door_of(few / "images" / "a0.png", read_all, whole=False),
        "scores.npy": door_of(
            raw, lambda: list(read_scores(raw, ids=("a", "b", "c"), shape=(2, 2), kind="similarity").values.tolist())
        ),
    }


def _weights(folder: Path) -> dict[str, Door]:
    torch = import_torch()
    path, arch, model = folder / "weights.pt", folder / "arch", folder / "open_clip"
    state = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(4)}
    torch.save({"epoch": 1, "state_dict": state}, path)
    arch.mkdir()
    (arch / "open_clip_config.json").write_text(json.dumps(_OPEN_CLIP))
    write_new_model(arch, model, seed=0)

    def read_tensors(shapes_only: bool) -> Any:
        read = read_state_dict(path, shapes_only=shapes_only)
        return {name: (tuple(value.shape), str(value)) for name, value in read.items()}

    def encode() -> Any:
        encoder: Any = find_model(f"local-dir:{model}", ModelOptions(device="cpu"))
        encoder = encoder.load() if hasattr(encoder, "load") else encoder
        return encoder.fingerprint, encoder.encode_texts(["a cat"]).tolist()

    weights = next(model.glob("*.safetensors"))
    return {
        # A member with another content and its right checksum is another file of weights.
        "weights.pt": door_of(path, partial(read_tensors, False), whole=False),
        "open_clip_config.json": door_of(model / "open_clip_config.json", encode, whole=False, slow=True),
        "open_clip weights": door_of(weights, encode, slow=True),
    }


def _training(folder: Path) -> dict[str, Door]:
    torch = import_torch()
    config, run = folder / "train.toml", RunFiles(folder / "run-of-training")
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    write_checkpoint(run.checkpoints, module, optimiser, TrainingState(2, 0.5, 2, [(2, 0.5)]), keep=1)
    checkpoint = run.checkpoints / "step-00000002"
    rows = [{"step": step, "total": 1 / step, "learning_rate": 0.1} for step in (1, 2)]

    def resume() -> Any:
        fresh = torch.nn.Linear(2, 2)
        own = torch.optim.AdamW(fresh.parameters())
        state = read_checkpoint(checkpoint, fresh, own)
        return asdict(state), str(fresh.state_dict()), str(own.state_dict()["state"])

    return {
        "train.toml": door_of(config, lambda: read_config(config), _TRAINING, whole=False),
        "run.json": door_of(run.folder / "run.json", lambda: run.claim("f", resume=True), '{"fingerprint": "f"}\n'),
        "log.jsonl": door_of(
            run.log_path, lambda: log_charts(run.log_path), "\n".join(map(json.dumps, rows)) + "\n", whole=False
        ),
        "state.json": door_of(checkpoint / "state.json", resume),
        "checkpoint weights": door_of(checkpoint / "weights.safetensors", resume),
        "checkpoint moments": door_of(checkpoint / "optimiser.safetensors", resume),
    }


def _studies(folder: Path) -> dict[str, Door]:
    survey, pairs, home = find_survey("i2t"), read_pair_set(folder / "few"), folder / "study"
    study = deal(survey, pairs, Deal(("ann",)))
    write_study(home, survey, study, pairs, ImageAccess())
    answers = [
        {"task": task.id, "annotator": "ann", "unit": task.unit, "values": {"caption": 0}} for task in study.tasks
    ]
    said = [{"task": task.id, "values": {"caption": "A"}} for task in study.tasks]
    saved = {"tellapart_answers": 1, "study": study.token, "annotator": "ann", "answers": said}
    sheet, page = home / "sheets" / "ann.csv", home / "saved.json"
    return {
        "page answers": door_of(page, lambda: list(read_replies(page, survey, study)), json.dumps(saved), whole=False),
        "answers.jsonl of people": door_of(
            home / "answers.jsonl",
            lambda: read_answers(home, study),
            "\n".join(map(json.dumps, answers)) + "\n",
            whole=False,
        ),
        "study.json": door_of(home / "study.json", lambda: read_study(home), whole=False),
        "sheet.csv": door_of(sheet, lambda: list(read_replies(sheet, survey, study)), whole=False),
    }


def _board(folder: Path) -> dict[str, Door]:
    board, state = folder / "board.toml", folder / "hidden"
    pairs = hide(read_pair_set(folder / "few"), b"k" * 32, 0.5)
    truth, published = state / "truth.json", state / "published.json"

    def undo() -> Any:
        hidden: Any = read_truth(truth)
        return hidden.bare(), hidden.restore(np.zeros((len(hidden.items), *hidden.shape))).tolist(), hidden.public

    return {
        "board.toml": door_of(board, lambda: (read_settings(board), read_hidden(board)), _BOARD, whole=False),
        "truth.json": door_of(truth, undo, json.dumps(pairs.to_json())),
        "published.json": door_of(
            published, lambda: read_published(published, "pairs").items, json.dumps(pairs.bare_to_json()), whole=False
        ),
    }
