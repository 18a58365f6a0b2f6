"""A model in its authors' file as a folder without pickles: safetensors, `config.json` and the tokenizer's files."""

from __future__ import annotations

import json
from pathlib import Path

from tellapart.data.atomic import atomic_folder
from tellapart.errors import require
from tellapart.models.native.load import WEIGHTS, load_vocabulary, open_model
from tellapart.models.native_prefixes import split_name
from tellapart.models.torch_backend import Runtime, parameter_count

__all__ = ["convert_model"]


def convert_model(name: str, folder: Path, *, tokenizer: Path | None = None) -> int:
    """Write the folder that `-m FOLDER` opens as the same model: its scores are equal to the bit.

    The tensors keep the authors' names and dtypes; what no reading needs (momentum copies, queues, other tasks' heads)
    is left out.

    Args:
        name: of the model, as `albef:FILE`.
        folder: a new one, or an empty one.
        tokenizer: folder of the tokenizer, if it is neither beside the file nor on the hub.

    Returns:
        The number of the model's parameters.

    Raises:
        ModelError: the name is of no family that reads its authors' files, or the file or the tokenizer is not whole.
        DataError: the folder holds something already, or cannot be written.
        MissingDependencyError: torch, timm, transformers or safetensors is not installed.
    """
    model_type, file = split_name(name)
    opened = open_model(model_type, file, Runtime("cpu"))
    words = load_vocabulary(opened, tokenizer)
    tensors = {key: tensor.clone().contiguous() for key, tensor in opened.needed.items()}
    with atomic_folder(folder) as draft:
        require("safetensors.torch", extra="models").save_file(tensors, draft / WEIGHTS, metadata={"format": "pt"})
        words.save_pretrained(draft)
        config = json.dumps(opened.module.config.to_dict(), indent=2, sort_keys=True)
        (draft / "config.json").write_text(f"{config}\n", encoding="utf-8")
    return parameter_count(opened.module)
