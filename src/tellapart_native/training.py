"""Open a native fusion model for training with the matching losses of `tellapart train`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.atomic import atomic_folder
from tellapart.errors import ModelError, require
from tellapart.models.fusion.family import TrainableParts
from tellapart.models.huggingface.files import quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime, parameter_count
from tellapart_native.family import NativeFamily
from tellapart_native.heads.answers import ANSWERS_FILE
from tellapart_native.load import WEIGHTS, choose_reading, load_vocabulary, open_model, prepare_inputs
from tellapart_native.prefix import find_family

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.torch.network import Network


def convert_model(name: str, folder: Path, *, tokenizer: Path | None = None) -> int:
    """Write the folder that `-m FOLDER` opens as the same model: its scores are equal to the bit.

    Parts that no reading needs (momentum copies, queues, other tasks' heads) are left out; the list of answers in the
    file's folder is copied.

    Returns:
        The number of the model's parameters.
    """
    family, _, file = name.partition(":")
    opened = open_model(find_family(family), file, Runtime("cpu"))
    opened.checkpoint.expect_one(name)
    vocabulary = load_vocabulary(opened, tokenizer)
    with atomic_folder(folder) as draft:
        save_native(opened.module, vocabulary, draft)
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


def open_trainable(
    family: NativeFamily, name: str, place: Runtime, readings: Sequence[str], image_size: int | None
) -> TrainableParts:
    """Open a file of the authors with a matching head for each reading; validations use the first reading."""
    prefix, _, file = name.partition(":")
    opened = open_model(family, file, place, image_size=image_size)
    opened.checkpoint.expect_one(name)
    if family.begin_training is None:
        raise ModelError(f"{name}: {family.title} cannot be trained here; METER and FIBER can")
    chosen, names_in_file = [], opened.module.state_dict().keys()
    for reading in readings:
        family.begin_training(opened.module, reading)
        chosen.append(choose_reading(opened, reading))
        if chosen[-1].read not in {"itm", "itm_logit"}:
            raise ModelError(f"{name}: a matching loss trains a matching head; reading {reading!r} does not use one")
    preparation, tokenizer = prepare_inputs(opened, ModelOptions(device=place.device))

    def save(folder: Path) -> str:
        folder.mkdir(parents=True)
        save_native(opened.module, tokenizer, folder)
        return f"{prefix}:{folder}"

    first, *others = (reading.halves(opened.module) for reading in chosen)
    begun = any(reading.needs not in names_in_file for reading in chosen)
    return TrainableParts(name, first, preparation, family.contrast, save, tuple(others), chosen[0].read, begun)
