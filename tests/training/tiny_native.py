"""METER and FIBER with a handful of weights, as their authors nest them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tiny_files import albef_state, save_tokenizer
from tiny_fusion import words
from tiny_meter_fiber import SETTINGS, fiber_state, meter_state
from training_sets import squares

from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch, runtime
from tellapart.training.data.rows import TrainingRows, read_rows, write_rows
from tellapart_native.load import open_model
from tellapart_native.prefix import find_family

#: With softer attention, since rounding grows in nine layers of a sharp one: tests compare trainings.
MAKE = {"meter": meter_state, "fiber": partial(fiber_state, sharp=2.0)}


def native(folder: Path, family: str) -> str:
    """One that can be trained, or ALBEF, which cannot."""
    folder.mkdir()
    state = (MAKE | {"albef": albef_state})[family]()
    import_torch().save({"state_dict": state, "global_step": 3}, folder / "model.ckpt")
    (folder / "config.json").write_text(json.dumps({"model_type": family, **SETTINGS}))
    save_tokenizer(folder, words())
    return f"{family}:{folder / 'model.ckpt'}"


def released_eqsim(folder: Path, family: str) -> dict[str, Any]:
    """The values of a run of EqSim's preset on a tiny model and eight squares, each of which names three as hard.

    Without dropout, which every rank draws for itself.
    """
    sources = folder / f"{family}-squares"
    rows = read_rows([str(squares(sources, 4, seed=3))], folder)
    hard = [replace(row, counterparts=tuple((n + k) % 8 for k in (1, 2, 3))) for n, row in enumerate(rows.rows)]
    write_rows(sources / "rows.jsonl", TrainingRows(tuple(hard)), sources)
    model = native(folder / f"{family}-tiny", family)
    opened = open_model(find_family(family), model.partition(":")[2], runtime(ModelOptions()))
    return {
        "name": "tiny", "preset": f"eqsim-{family}-f30k", "model": model, "image_size": opened.module.config.image_size,
        "dropout": {'"*.output.dense"': 0.0, '"*text_transformer.embeddings"': 0.0},
        "data": {"train": [str(sources / "rows.jsonl")]},
        "optimiser": {"steps": 2, "warm_up": 0, "learning_rate": 1e-3, "epsilon": 1e-2},
        "batch": {"size": 8, "accumulate": 2}, "matching": {"negatives": {"meter": 3, "fiber": 1}[family]},
        "validation": {"every": 1},
    }  # fmt: skip
