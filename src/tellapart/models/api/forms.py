"""The forms of requests for vectors and scores, each a table of `forms.toml`."""

from __future__ import annotations

import base64
import io
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from tellapart.models.protocols import Pixels


class Form(BaseModel, frozen=True, extra="forbid"):
    """A request for a vector, or for scores of one text with several images; the file explains the fields."""

    source: str
    path: str
    answer: str
    image: Any
    body: dict[str, Any]
    text: Any = None  # None of a form of scores
    instruction: str | None = None  # the default; None of a form without a place for one
    lists_models: bool = True  # at /models, so that the name may be left out
    key_header: str = "Authorization"

    @property
    def scores(self) -> bool:
        """Whether it asks for scores."""
        return self.text is None

    def image_part(self, pixels: Pixels) -> Any:
        """Return a picture as a part of the request."""
        url = picture_url(pixels)
        return fill_template(self.image, {"{url}": url, "{base64}": url.partition(",")[2]})

    def request(self, model: str, **values: Any) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a request; `values` are what its braces name."""
        body = fill_template(self.body, {f"{{{name}}}": value for name, value in values.items()}, model)
        return self.path.replace("{model}", model), {"model": model} | body

    def read(self, answer: Any, count: int) -> list[NDArray[np.float64]] | None:
        """Return the finite vectors or scores of an answer, as many as were asked for; None if it has others."""
        try:
            values = [answer]
            for key in self.answer.split("."):
                values = [entry for value in values for entry in (_in_order(value) if key == "*" else [value[key]])]
            numbers = [np.asarray(value, np.float64) for value in values]
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            return None
        right = all(number.ndim == int(not self.scores) and np.isfinite(number).all() for number in numbers)
        return numbers if right and len(numbers) == count else None


@cache
def forms() -> Mapping[str, Form]:
    """Return the forms by their names, which are readings of `api:`.

    >>> forms()["rerank"].scores, forms()["embeddings_qwen3_vl"].instruction
    (True, "Represent the user's input.")
    """
    with files("tellapart.models.api").joinpath("forms.toml").open("rb") as file:
        return TypeAdapter(dict[str, Form]).validate_python(tomllib.load(file))


def picture_url(pixels: Pixels) -> str:
    """Return a picture as a `data:` URL of a PNG: its very pixels."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def fill_template(template: Any, values: Mapping[str, Any], model: str = "") -> Any:
    """Replace the texts of a template that are keys of the values, and the model's name within others."""
    if isinstance(template, dict):
        return {name: fill_template(part, values, model) for name, part in template.items()}
    if isinstance(template, list):
        return [fill_template(part, values, model) for part in template]
    if not isinstance(template, str):
        return template
    return values[template] if template in values else template.replace("{model}", model)


def _in_order(entries: Any) -> list[Any]:
    """Return the entries of a list by their `index`, if they have one; it must count them from 0."""
    if not isinstance(entries, list):
        raise TypeError(entries)
    if not all(isinstance(entry, dict) and "index" in entry for entry in entries):
        return entries
    ordered = sorted(entries, key=lambda entry: int(entry["index"]))
    if [entry["index"] for entry in ordered] != list(range(len(ordered))):
        raise ValueError(entries)
    return ordered
