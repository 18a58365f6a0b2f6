"""The folder of an ONNX dual encoder: its configuration, and the files that the configuration names by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.data.validation import Problem
from tellapart.errors import ModelError, nearest, quote
from tellapart.models.onnx.file_format import external_tensors

CONFIG = "config.json"

#: The files beside the configuration, which holds the hash of each.
FILES = ("image.onnx", "text.onnx", "tokenizer.json")

#: The format's limit.
_MOST_BYTES = 1 << 31

#: Names the way from pixels to the image tensor; part of a model's fingerprint, changed when that way changes.
PREPROCESSING = "pil-bicubic-float32-1"


class OnnxConfig(BaseModel):
    """The fields of an ONNX dual encoder's `config.json`.

    Attributes:
        schema_version: of this file's format.
        name: for people.
        image_size: height and width of the image tensor, in pixels.
        resize: `stretch` to the square, or `crop`: the shorter side to `image_size`, then the centre.
        mean: of each channel, R G B, in units of 0..1; subtracted.
        std: of each channel; divided by.
        context_length: tokens of a text, special tokens included; shorter ones are padded, longer ones cut.
        pad_token: the tokenizer's entry that fills up short texts.
        dimensions: of both encoders' vectors.
        kind: `similarity`, the cosine; or `logit`, the cosine times `logit_scale`.
        logit_scale: the factor that the model was trained with.
        sha256: of `image.onnx`, `text.onnx` and `tokenizer.json`, in hexadecimal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    schema_version: Literal[1]
    name: str = Field(min_length=1)
    image_size: int = Field(ge=1, le=4096)
    resize: Literal["stretch", "crop"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    context_length: int = Field(ge=1, le=65536)
    pad_token: str = Field(min_length=1)
    dimensions: int = Field(ge=1)
    kind: Literal["similarity", "logit"]
    logit_scale: float | None = Field(default=None, gt=0)
    sha256: dict[str, str]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive; got {self.std}")
        if self.kind == "logit" and self.logit_scale is None:
            raise ValueError("kind 'logit' needs a logit_scale")
        if set(self.sha256) != set(FILES):
            raise ValueError(f"sha256 must name {', '.join(FILES)}; got {', '.join(self.sha256) or 'nothing'}")
        return self


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The checked contents of a model's folder, read once, so that the bytes that run are those that were hashed.

    Attributes:
        files: name -> bytes.
        fingerprint: SHA-256 over the hashes of all four files and the name of the preprocessing.
    """

    path: Path
    config: OnnxConfig
    files: Mapping[str, bytes]
    fingerprint: str


def read_folder(folder: Path) -> ModelFolder:
    """Read and check the folder of an ONNX dual encoder."""
    head = _read_file(folder, CONFIG)
    config = _parse_config(folder / CONFIG, head)
    files = {name: _read_file(folder, name) for name in FILES}
    digest = hashlib.sha256(f"{PREPROCESSING}\n{hashlib.sha256(head).hexdigest()}\n".encode())
    for name, data in files.items():
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 != config.sha256[name]:
            raise ModelError(
                f"{folder / name}: its SHA-256 is {sha256[:12]}..., {CONFIG} says {config.sha256[name][:12]}...; "
                "the file was changed or is incomplete: fetch the folder again, or export it again"
            )
        if name.endswith(".onnx"):
            _refuse_external_data(folder / name, data)
        digest.update(f"{sha256}\n".encode())
    return ModelFolder(folder, config, files, digest.hexdigest())


def _read_file(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        if not path.exists():
            everything = ", ".join((CONFIG, *FILES[:-1])) + f" and {FILES[-1]}"
            raise ModelError(f"{folder} has no {name}; an ONNX dual encoder is a folder with {everything}")
    except OSError as error:  # too long a name
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    return read_whole(path, error=ModelError, most=_MOST_BYTES)


def _parse_config(path: Path, data: bytes) -> OnnxConfig:
    text = decode_text(data, path, error=ModelError)
    parse_json(text, path, error=ModelError)  # pydantic's reader takes a key twice, and names no line
    try:
        return OnnxConfig.model_validate_json(text)
    except ValidationError as error:
        raise ModelError(f"{path}: {_explain_problem(error)}") from error


def _explain_problem(error: ValidationError) -> str:
    first = Problem.first(error)
    if first.kind != "extra_forbidden":
        return str(first)
    fields = OnnxConfig.model_fields
    hint = nearest(first.field, fields) or f"; known are {', '.join(fields)}"
    return f"unknown field {quote(first.field)}{hint}"


def _refuse_external_data(path: Path, data: bytes) -> None:
    try:
        outside = external_tensors(data)
    except ValueError as error:
        raise ModelError(f"{path} is not an ONNX model: {error}") from error
    if outside:
        raise ModelError(
            f"{path} keeps {len(outside)} tensors in other files (the first: {quote(outside[0])}), which may lie "
            "anywhere and which no hash covers; save it as one file: onnx.save_model(..., save_as_external_data=False)"
        )
