"""Loads a model that writes text about images: weights, processor, and the reader of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.generative.blip import BlipAnswerer, BlipCaptioner
from tellapart.models.generative.chat import ChatModel
from tellapart.models.generative.text import Reader, Task
from tellapart.models.huggingface.files import load_processor, load_weights, read_config
from tellapart.models.torch_backend import runtime

if TYPE_CHECKING:
    from tellapart.models.options import ModelOptions

__all__ = ["load_reader"]

#: What each task wants of a model, and what another one can be scored by.
_WANTED = {"vqa": "answers no questions; score it by the reading 'likelihood'", "nlvr2": "follows no instructions"}


def load_reader(source: str, options: ModelOptions, task: Task | None = None) -> Reader:
    """Load a model that writes text about images.

    Args:
        source: a folder or a hub id.
        options: device and dtype.
        task: what it must have been made for.

    Raises:
        ModelError: it is not to be had, its weights do not fit, its family cannot be read, or it was not made for the task.
        MissingDependencyError: torch or transformers is not installed.

    >>> from tellapart.models.options import ModelOptions
    >>> load_reader(str(getfixture("tmp_path")), ModelOptions())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: ... has no config.json; expected the folder of a model of transformers
    """
    place = runtime(options)
    config = read_config(source)
    processor = load_processor(source)
    reader: Reader
    if config["model_type"] != "blip":
        reader = ChatModel(source, load_weights("AutoModelForImageTextToText", source, place), processor, place)
    elif config.get("architectures") == ["BlipForQuestionAnswering"]:
        reader = BlipAnswerer(source, load_weights("BlipForQuestionAnswering", source, place), processor, place)
    else:
        reader = BlipCaptioner(source, load_weights("BlipForConditionalGeneration", source, place), processor, place)
    if task is not None and task not in reader.tasks:
        raise ModelError(f"{source}, a {type(reader.model).__name__}, {_WANTED.get(task, f'has no task {task!r}')}")
    return reader
