"""A family's model as a folder without pickles: `model.safetensors`, `config.json` and the tokenizer's files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.atomic import atomic_folder
from tellapart.errors import require
from tellapart.models.huggingface.files import quiet
from tellapart.models.torch.backend import Runtime, parameter_count
from tellapart_native.heads.answers import ANSWERS_FILE
from tellapart_native.load import WEIGHTS, load_vocabulary, open_model
from tellapart_native.prefix import find_family

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.torch.network import Network

__all__ = ["convert_model", "save_native"]


def convert_model(name: str, folder: Path, *, tokenizer: Path | None = None) -> int:
    """Write the folder that `-m FOLDER` opens as the same model: its scores are equal to the bit.

    Parts that no reading needs (momentum copies, queues, other tasks' heads) are left out; the list of answers in the
    file's folder is copied.

    Args:
        name: of the model, as `albef:FILE`.
        folder: a new one, or an empty one.
        tokenizer: folder of the tokenizer, if neither the file's folder nor the hub has it.

    Returns:
        The number of the model's parameters.

    Raises:
        ModelError: the file or the tokenizer is incomplete, or the file holds several weights and none is named.
        DataError: the folder holds something already, or cannot be written.
        MissingDependencyError: torch, timm, transformers or safetensors is not installed.
    """
    family, _, file = name.partition(":")
    opened = open_model(find_family(family), file, Runtime("cpu"))
    opened.checkpoint.expect_one(name)
    words = load_vocabulary(opened, tokenizer)
    with atomic_folder(folder) as draft:
        save_native(opened.module, words, draft)
        answers = opened.path.with_name(ANSWERS_FILE)
        if answers.is_file():
            shutil.copyfile(answers, draft / ANSWERS_FILE)
    return parameter_count(opened.module)


def save_native(module: Network, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a family's module and its tokenizer, of transformers, into an empty folder.

    The tensors have the names that the authors gave them in the files of fine-tuned models.
    """
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in module.state_dict().items()}
    save_file = require("safetensors.torch", extra="models").save_file
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.dumps(module.config.to_dict(), indent=2, sort_keys=True)
    (folder / "config.json").write_text(f"{config}\n", encoding="utf-8")
    with quiet():
        tokenizer.save_pretrained(folder)
