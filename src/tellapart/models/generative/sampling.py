"""Answers drawn at a temperature: `sampled:3@0.7:NAME` names the third draw of all answers of a generative model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError, RunError, quote
from tellapart.models.find import find_model, find_prefix
from tellapart.models.options import MEANT_FOR, ModelOptions, ModelPrefix
from tellapart.models.protocols import Model, Pixels

_NAME = re.compile(r"sampled:(?P<number>[1-9]\d{0,5})@(?P<temperature>\d{1,3}(\.\d{1,6})?):(?P<model>.+)", re.DOTALL)


class Sampling(NamedTuple):
    """The number of a draw, from 1, and its temperature."""

    number: int
    temperature: float

    def seed(self, prompt: str, pictures: Sequence[Pixels]) -> int:
        """Return the seed of an answer, from the draw's number, its prompt and its pictures, and not from its batch."""
        facts = "\0".join((str(self.number), prompt, *map(pixel_hash, pictures)))
        return int.from_bytes(hashlib.sha256(facts.encode()).digest()[:7], "big")


def read_sampled(name: str) -> tuple[Sampling, str] | None:
    """Return the draw and the model that a name states; None if it states no draw.

    >>> read_sampled("sampled:3@0.7:hf:llava"), read_sampled("hf:llava")
    ((Sampling(number=3, temperature=0.7), 'hf:llava'), None)
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    return Sampling(int(parts["number"]), float(parts["temperature"])), parts["model"]


def with_samples(models: Sequence[Any], count: int, temperature: float) -> tuple[Any, ...]:
    """Return the models, each followed by the names of `count` draws of its answers.

    Raises:
        RunError: the count or the temperature is out of range, or a model has no name.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= 1_000:
        raise RunError(f"samples={quote(count)}: give a number of draws from 2 to 1000")
    if not isinstance(temperature, int | float) or not 0 < temperature <= 100:
        raise RunError(f"temperature={quote(temperature)}: give a number above 0, for example 1 or 0.7")
    if objects := [model for model in models if not isinstance(model, str)]:
        raise RunError(f"samples={count}: {quote(objects[0])} has no name; draws are of models that are named")
    parsed = read_sampled(f"sampled:1@{temperature:g}:model")
    if parsed is None or parsed[0].temperature != temperature:  # the models' names would round it
        raise RunError(f"temperature={quote(temperature)}: give at most six digits, such as 0.7 or 1.25")
    prefixes = ["", *(f"sampled:{number}@{temperature:g}:" for number in range(1, count + 1))]
    return tuple(f"{prefix}{model}" for model in models for prefix in prefixes)


def _load_sampled(name: str, options: ModelOptions) -> Model:
    parsed = read_sampled(name)
    if parsed is None:
        raise ModelError(f"{name}: write sampled:NUMBER@TEMPERATURE:MODEL, for example sampled:1@0.7:hf:PATH")
    sampling, writer = parsed
    model: Any = find_model(writer, options)
    if not hasattr(model, "draw"):
        raise ModelError(
            f"{name}: draws are of answers, and {writer} writes none; name a chat model of transformers or on a server"
        )
    model.draw(sampling)
    return model


def _list_files(name: str) -> list[Path] | None:
    parsed = read_sampled(name)
    prefix = find_prefix(parsed[1]) if parsed else None
    return prefix.files(parsed[1]) if parsed and prefix else None


SAMPLED = ModelPrefix(
    {"sampled:NUMBER@TEMPERATURE:MODEL": "one draw of a writer's answers; `run --samples K` makes K of them"},
    _load_sampled,
    files=_list_files,
    takes=frozenset(MEANT_FOR),
)
