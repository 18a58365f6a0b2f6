"""METER and FIBER with a handful of weights, as their authors nest them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "models" / "native"))

from tiny_files import albef_state, save_tokenizer
from tiny_fusion import words
from tiny_meter_fiber import SETTINGS, fiber_state, meter_state

from tellapart.models.torch_backend import import_torch

MAKE = {"meter": meter_state, "fiber": fiber_state}


def native(folder: Path, family: str) -> str:
    """One that can be trained, or ALBEF, which cannot."""
    folder.mkdir()
    import_torch().save(
        {"state_dict": (MAKE | {"albef": albef_state})[family](), "global_step": 3}, folder / "model.ckpt"
    )
    (folder / "config.json").write_text(json.dumps({"model_type": family, **SETTINGS}))
    save_tokenizer(folder, words())
    return f"{family}:{folder / 'model.ckpt'}"
