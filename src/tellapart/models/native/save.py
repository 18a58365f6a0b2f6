"""Write a family's model as a folder without pickles: `model.safetensors`, `config.json`, and the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tellapart.errors import require
from tellapart.models.huggingface.files import quiet
from tellapart.models.native.load import WEIGHTS

__all__ = ["save_native"]


def save_native(module: Any, tokenizer: Any, folder: Path) -> str:
    """Write a new folder and return the name that `tellapart run -m` takes, `MODEL_TYPE:FOLDER`.

    Args:
        module: of a family; its names are the authors'.
        tokenizer: of transformers.
        folder: does not exist yet.
    """
    save_file, config = require("safetensors.torch", extra="models").save_file, module.config
    folder.mkdir(parents=True)
    save_file({name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}, folder / WEIGHTS)
    # The size of images follows from the weights; the length of texts does not.
    settings = {**config.to_dict(), "context": config.context}
    (folder / "config.json").write_text(json.dumps(settings, indent=2, default=str) + "\n", encoding="utf-8")
    with quiet():
        tokenizer.save_pretrained(folder)
    return f"{config.model_type}:{folder}"
