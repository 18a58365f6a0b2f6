"""Models on a server that write nothing: vectors and scores, each asked for by a form of `forms.toml`."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, quote
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import positions_by_key
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from tellapart.models.api.load import Server


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
        return _fill(self.image, {"{url}": url, "{base64}": url.partition(",")[2]})

    def request(self, model: str, **values: Any) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a request; `values` are what its braces name."""
        body = _fill(self.body, {f"{{{name}}}": value for name, value in values.items()}, model)
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


def _fill(template: Any, values: Mapping[str, Any], model: str = "") -> Any:
    """Replace the texts of a template that are keys of the values, and the model's name within others."""
    if isinstance(template, dict):
        return {name: _fill(part, values, model) for name, part in template.items()}
    if isinstance(template, list):
        return [_fill(part, values, model) for part in template]
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


def hash_facts(*facts: object) -> str:
    """Return the SHA-256 of facts that are JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class _Pooled:
    """A model that is asked by a form, with an instruction in place of the form's own where it has a place for one."""

    kind: ScoreKind = "similarity"

    def __init__(self, server: Server, reading: str, instruction: str | None = None) -> None:
        self.name, self._server, self._form, self._reading = server.model, server, forms()[reading], reading
        if instruction is not None and self._form.instruction is None:
            able = ", ".join(name for name, form in forms().items() if form.instruction is not None)
            raise ModelError(
                f"instruction={quote(instruction)}: a request of the form {reading} has no place for one; "
                f"leave it out, or take a reading that has: {able}"
            )
        self._instruction = self._form.instruction if instruction is None else instruction
        told = [] if self._instruction is None else [self._instruction]
        self.fingerprint = hash_facts(server.facts, reading, *told)

    def take_notes(self) -> tuple[str, ...]:
        """Return the instruction, if the form has one."""
        form = f"the server was asked by the form {self._reading}, with the instruction"
        return () if self._instruction is None else (f"{form} {self._instruction!r}",)

    def _ask(self, counts: Sequence[int], values: Sequence[Mapping[str, Any]]) -> list[list[NDArray[np.float64]]]:
        """Return the numbers of a request for each mapping of values, as many as its count."""
        told = {} if self._instruction is None else {"instruction": self._instruction}
        requests = [self._form.request(self.name, **told, **part) for part in values]
        rows = []
        for count, answer in zip(counts, self._server.post(requests), strict=True):
            if (numbers := self._form.read(answer, count)) is None:
                raise ModelError(
                    f"{self._server.base} answers no {self._form.answer} for each of {count}: "
                    f"{json.dumps(answer):.200}; does {self.name!r} run with `--runner pooling`, and does the server "
                    f"take requests of the form {self._reading}?"
                )
            rows.append(numbers)
        return rows


class ServedEncoder(_Pooled):
    """A dual encoder: a request for each image and each text alone, several at once; cosine similarity."""

    ranks_by_cosine = True

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)`, to vectors of length one, float32 `(n, dimensions)`."""
        return self._embed_parts([self._form.image_part(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to vectors of length one, float32 `(n, dimensions)`; errors as of `encode_images`."""
        refuse_known_marks(self.name, texts)
        return self._embed_parts([_fill(self._form.text, {"{text}": text}) for text in texts])

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _embed_parts(self, parts: Sequence[Any]) -> Vectors:
        rows = [row for (row,) in self._ask([1] * len(parts), [{"part": part} for part in parts])]
        if len(widths := {len(row) for row in rows}) > 1 or 0 in widths:
            raise ModelError(f"{self._server.base} answers vectors of {sorted(widths)} dimensions")
        return normalise(np.array(rows, np.float32), self.name)


class ServedReranker(_Pooled):
    """A reranker: a request for a text, the query, with all of its images, the documents."""

    is_reranker = True

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`. The images of one text go in one request."""
        refuse_known_marks(self.name, texts)
        rows_of = positions_by_key(texts)
        values = [
            {"text": text, "images": [self._form.image_part(images[row]) for row in rows]}
            for text, rows in rows_of.items()
        ]
        scores = np.empty(len(texts), np.float32)
        for rows, numbers in zip(rows_of.values(), self._ask([*map(len, rows_of.values())], values), strict=True):
            scores[rows] = [float(number) for number in numbers]
        return scores
