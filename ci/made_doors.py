"""Doors of files that the program makes itself: models' weights and configurations, training, the board."""

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
from reshape import FIELDS, ROWS
from study_doors import open_study_doors

from tellapart.board.settings import read_settings
from tellapart.board.submissions.forms import read_published, read_sent
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.prepared import HiddenPairs, hide, hide_records, measure_sent, read_truth
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.data.task_records import Statement, StatementSet
from tellapart.models.find import find_model
from tellapart.models.memory.external import read_scores, write_scores
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.tasks.registry import TASKS
from tellapart.training.config import read_config
from tellapart.training.encoders.load_start import write_new_model
from tellapart.training.report.page import log_charts
from tellapart.training.run_files import RunFiles, TrainingState, read_checkpoint, write_checkpoint

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
seed = 3
precision = "float32"
[data]
train = ["folder:few"]
share = 0.75
take = [0.5]
negative_captions = 1
[loss]
name = "negclip"
[optimiser]
learning_rate = 1e-3
betas = [0.9, 0.95]
epsilon = 1e-8
weight_decay = 0.2
warm_up = 2
steps = 4
clip_norm = 1.5
max_scale = 50.0
groups = {"visual.*" = 0.5}
[batch]
size = 8
accumulate = 2
[validation]
every = 2
keep = 3
patience = 4
[report]
benchmarks = ["folder:few", "demo"]
alphas = [0.25, 0.5]
"""

_LORA = """name = "low"
model = "new:arch"
dropout = {"*.dense" = 0.1}
[data]
train = ["folder:few"]
[loss]
name = "itm"
[loss.also.eqsim]
factor = 0.5
k = 4
[optimiser]
learning_rate = 1e-3
epochs = 2
[batch]
size = 8
[lora]
rank = 2
alpha = 4.0
dropout = 0.25
"""

_BOARD = """[board]
title = "Ours"
runs = ["runs"]
performance = ["vlue-nlvr2"]
[submissions]
state = "state"
upload_bytes = 4096
session_hours = 6.5
secure_cookies = true
[[hidden]]
name = "few"
pairs = "folder:few"
public_share = 0.25
step = 0.02
daily = 2
total = 7
largest_share = 0.75
closes = 2027-06-01T12:00:00Z
[[hidden]]
name = "sentences"
benchmark = "vlue-nlvr2"
metrics = ["accuracy"]
"""


def open_made_doors(folder: Path) -> dict[str, Door]:
    """Write a valid file of each format below a folder, and return its door by a name."""
    items = tuple(
        Item(id=id_, images=(f"images/{id_}0.png", f"images/{id_}1.png"), texts=(f"a {id_}", f"no {id_}"), cluster=id_)
        for id_ in ("a", "b", "c")
    )
    pictures = {name: _picture(number) for number, name in enumerate(name for item in items for name in item.images)}
    write_pair_set(folder / "few", items, pictures, {"title": "few"})
    return {**_sets(folder), **_weights(folder), **_training(folder), **_board(folder), **open_study_doors(folder)}


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
    config, updates, run = folder / "train.toml", folder / "updates.toml", RunFiles(folder / "run-of-training")
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
        **{
            path.name: door_of(
                path, partial(_settings_of, path), content, whole=False, knows=FIELDS, free=("groups", "dropout")
            )
            for path, content in ((config, _TRAINING), (updates, _LORA))
        },
        "run.json": door_of(
            run.folder / "run.json", lambda: run.claim("f", resume=True), '{"fingerprint": "f", "values": {}}\n'
        ),
        "log.jsonl": door_of(
            run.log_path, lambda: log_charts(run.log_path), "\n".join(map(json.dumps, rows)) + "\n", whole=False
        ),
        "state.json": door_of(checkpoint / "state.json", resume, knows=FIELDS | {"key dropped"}),
        "checkpoint weights": door_of(checkpoint / "weights.safetensors", resume),
        "checkpoint moments": door_of(checkpoint / "optimiser.safetensors", resume),
    }


def _settings_of(path: Path) -> Any:
    """Return a training's settings, and those of its losses."""
    config = read_config(path)
    return config.model_dump(mode="json"), config.loss_terms()


def _board(folder: Path) -> dict[str, Door]:
    board, state = folder / "board.toml", folder / "hidden"
    pairs = hide(read_pair_set(folder / "few"), b"k" * 32, 0.5)
    truth, published = state / "truth.json", state / "published.json"

    def undo() -> Any:
        hidden: Any = read_truth(truth)
        return hidden.bare(), hidden.restore(np.zeros((len(hidden.items), *hidden.shape))).tolist(), hidden.public

    return {
        "board.toml": door_of(
            board, lambda: (read_settings(board), read_hidden(board)), _BOARD, whole=False, knows=FIELDS
        ),
        **_submissions(state, pairs),
        "truth.json": door_of(
            truth, undo, json.dumps(pairs.to_json()), knows=FIELDS | {"key dropped"}, free=("tags", "sources", "pixels")
        ),
        "published.json": door_of(
            published, lambda: read_published(published, "pairs").items, json.dumps(pairs.bare_to_json()), whole=False
        ),
    }


def _submissions(state: Path, pairs: HiddenPairs) -> dict[str, Door]:
    """Return the doors of files that are sent to a board: of scores, and of labels."""
    state.mkdir(exist_ok=True)
    ids, shown = [item.id for item in pairs.items], PairSet("hidden", pairs.bare(), Path())
    scores = Scores(tuple(ids), np.arange(12).reshape(3, 2, 2) * 5 % 12 / 8, "similarity")
    stated = tuple(Statement(str(k), f"Both show a dog {k}.", "a.png", "b.png", k < 2) for k in range(4))
    labels = hide_records(TASKS["nlvr2"], StatementSet("nlvr2", stated), b"k" * 32, 0.5, ".png")

    def measure(path: Path, records: Any, task: str, hidden: Any, metrics: tuple[str, ...]) -> Any:
        sent = read_sent(path, records, task)
        return measure_sent(sent, hidden, metrics, 0.01)

    doors = {}
    for suffix in ("npz", "csv", "jsonl"):
        path = state / f"sent.{suffix}"
        write_scores(scores, path)
        read = partial(measure, path, shown, "pairs", pairs, ("text_score", "image_score", "group_score"))
        doors[f"sent scores.{suffix}"] = door_of(path, read, knows=FIELDS | ROWS if suffix != "npz" else frozenset())
    path = state / "labels.jsonl"
    rows = [{"id": row.id, "prediction": k % 3 == 0} for k, row in enumerate(labels.rows)]
    read = partial(measure, path, labels.bare(), "nlvr2", labels, ("accuracy",))
    content = "".join(json.dumps(row) + "\n" for row in rows)
    return doors | {"sent labels.jsonl": door_of(path, read, content, knows=FIELDS | ROWS)}
