"""A dual encoder that ONNX Runtime runs: a folder with two graphs, a tokenizer and a configuration."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.data.scores import ScoreKind
from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.data.validation import validate
from tellapart.errors import DataError, ModelError, explain_failure, quote
from tellapart.models.captions import ControlTokens
from tellapart.models.onnx.file_format import external_tensors, weight_count
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.store.batches import available_cores
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


CONFIG = "config.json"

#: The files beside the configuration, which holds the hash of each.
FILES = ("image.onnx", "text.onnx", "tokenizer.json")

#: The limit of ONNX files, which are protocol buffers.
_MOST_BYTES = 1 << 31

#: The name of the code from pixels to the image tensor: part of a model's fingerprint, changed when that code changes.
PREPROCESSING = "pil-bicubic-float32-1"

#: A number for each of R, G and B; not strict, because JSON has lists for tuples.
Channels = Annotated[tuple[float, float, float], Field(strict=False)]


def open_tokenizer(path: Path, content: bytes, length: int, pad: str, *, right: bool = False) -> Tokenizer:
    """Open the content of a file of the tokenizers library, which cuts and pads every text to `length` tokens.

    It does so at the sides that the file names, else at the right; with `right` always there.
    """
    from tokenizers import Tokenizer

    with explain_failure(f"{path} is not a file of the tokenizers library"):
        tokenizer = Tokenizer.from_str(content.decode())
    pad_id = tokenizer.token_to_id(pad)
    if pad_id is None:
        raise ModelError(f"{path} has no token {pad!r} that pads short texts: the pad_token of an ONNX config.json")
    named = ({}, {}) if right else (tokenizer.truncation or {}, tokenizer.padding or {})
    sides = [settings.get("direction", "right") for settings in named]
    tokenizer.enable_truncation(length, direction=sides[0])
    tokenizer.enable_padding(length=length, pad_id=pad_id, pad_token=pad, direction=sides[1])
    return tokenizer


class OnnxConfig(BaseModel):
    """The fields of an ONNX dual encoder's `config.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    schema_version: Literal[1]
    name: str = Field(min_length=1)
    image_size: int = Field(ge=1, le=4096)  # height and width of the image tensor, in pixels
    resize: Literal["stretch", "crop"]  # stretch to the square; or scale the shorter side to it and crop the centre
    mean: Channels  # R G B, in units of 0..1; subtracted from the pixels
    std: Channels  # by which the pixels are then divided
    context_length: int = Field(ge=1, le=65536)  # tokens to which a text is cut or padded, special tokens included
    pad_token: str = Field(min_length=1)
    dimensions: int = Field(ge=1)  # of both encoders' vectors
    kind: Literal["similarity", "logit"]  # the cosine, or the cosine times `logit_scale`
    logit_scale: float | None = Field(default=None, gt=0)  # the factor that the model was trained with
    sha256: dict[str, str]  # of `image.onnx`, `text.onnx` and `tokenizer.json`, in hexadecimal

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
    """The checked contents of a model's folder. They are read once: the bytes that run are those that were hashed."""

    path: Path
    config: OnnxConfig
    files: Mapping[str, bytes]
    fingerprint: str  # the SHA-256 over the hashes of all four files and the name of the preprocessing


def read_folder(folder: Path) -> ModelFolder:
    """Read and check the folder of an ONNX dual encoder."""
    head = _read_file(folder, CONFIG)
    try:
        text = decode_text(head, folder / CONFIG)
        config = validate(OnnxConfig, parse_json(text, folder / CONFIG), str(folder / CONFIG))
    except DataError as error:
        raise ModelError(str(error)) from error
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
            with explain_failure(f"{folder / name} is not an ONNX model"):
                outside = external_tensors(data)
            if outside:
                raise ModelError(
                    f"{folder / name} keeps {len(outside)} tensors in other files (the first: {quote(outside[0])}), "
                    "which may lie anywhere and which no hash covers; save it as one file: "
                    "onnx.save_model(..., save_as_external_data=False)"
                )
        digest.update(f"{sha256}\n".encode())
    return ModelFolder(folder, config, files, digest.hexdigest())


def _read_file(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        if not path.exists():
            everything = ", ".join((CONFIG, *FILES[:-1])) + f" and {FILES[-1]}"
            raise ModelError(f"{folder} has no {name}; an ONNX dual encoder is a folder with {everything}")
    except OSError as error:  # such as a name that is too long
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    return read_whole(path, error=ModelError, most=_MOST_BYTES)


#: The variable that ONNX Runtime reads once, at its first import (onnxruntime, pull request 27379).
_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def import_onnxruntime() -> ModuleType:
    """Import ONNX Runtime; in this process it sends nothing and stores no identifier of the machine.

    From version 1.29 its builds for Linux and macOS send facts of the session unless a variable is set. On Windows a
    function of the library turns that off.
    """
    before = os.environ.get(_TELEMETRY)
    os.environ[_TELEMETRY] = "1"
    try:
        import onnxruntime
    finally:
        del os.environ[_TELEMETRY]
        if before is not None:
            os.environ[_TELEMETRY] = before
    onnxruntime.disable_telemetry_events()
    return cast("ModuleType", onnxruntime)


_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def _load_encoder(name: str, options: ModelOptions) -> OnnxDualEncoder:
    options.expect_itc(name, "an ONNX model")
    return OnnxDualEncoder(Path(name.removeprefix("onnx:")).expanduser(), device=options.device)


ONNX = ModelPrefix(
    {"onnx:PATH": "a folder with config.json, image.onnx, text.onnx and tokenizer.json"},
    _load_encoder,
    takes=frozenset({"device", "reading"}),
)


class OnnxDualEncoder:
    """A dual encoder in a folder: `config.json`, `image.onnx`, `text.onnx`, `tokenizer.json`.

    - `image.onnx`: one input `pixel_values`, float32 `(n, 3, image_size, image_size)`; one output `(n, dimensions)`.
    - `text.onnx`: input `input_ids`, int64 or int32 `(n, context_length)`, and, if the graph wants it,
      `attention_mask` of the same type (1 on tokens, 0 on padding); one output `(n, dimensions)`.
    - `tokenizer.json`: of the `tokenizers` library. Texts are cut and padded to `context_length`.

    Vectors are scaled to length one, so a score is the cosine (or a logit, by `config.json`). Every sample is run by
    itself, on one thread: for another batch shape or thread count kernels may sum in another order, which would change
    numbers. Instead, `threads` samples run at the same time, by default as many as this process has cores. On a CPU
    this costs nothing (a tiny convolutional network, one core: 0.43 ms an image alone, 0.41 to 1.27 ms an image in
    batches of 2 to 64). `truncated` counts the texts that lost their end. The device is `cpu` or `cuda`.
    """

    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(self, folder: Path | str, *, device: str = "cpu", threads: int | None = None) -> None:
        content = read_folder(Path(folder))
        self.config = config = content.config
        self.name, self.fingerprint = config.name, content.fingerprint
        self.kind: ScoreKind = config.kind
        self.parameters = weight_count(content.files["image.onnx"]) + weight_count(content.files["text.onnx"])
        self.truncated, length = 0, config.context_length
        self.traits = {"context": f"{length} tokens", "dtype": "float32"}
        self._threads = threads or available_cores()
        path = content.path / "tokenizer.json"
        tokenizer = open_tokenizer(path, content.files[path.name], length, config.pad_token)
        self._control = ControlTokens(tokenizer)
        if self._control.facts:  # empty if no text can hold a control token
            self.fingerprint += f" {self._control.facts}"
        sides = [(settings or {}).get("direction") for settings in (tokenizer.truncation, tokenizer.padding)]
        if "left" in sides:
            self.fingerprint += f" cuts and pads {sides}"  # earlier numbers were cut and padded at the right
        self._image = _Graph(content, "image.onnx", device)
        self._text = _Graph(content, "text.onnx", device)
        self._image.expect_input("pixel_values", (None, 3, config.image_size, config.image_size), _FLOAT)
        for name in ("input_ids", *({"attention_mask"} & self._text.inputs.keys())):
            self._text.expect_input(name, (None, length), _INTEGER)

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)`, to float32 `(n, dimensions)` of length one."""
        return self._run_samples(self._image, images, lambda pixels: {"pixel_values": self.input_pixels(pixels)[None]})

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)` of length one; count the cut ones in `truncated`."""
        encodings = self._control.encode(self.name, texts)
        self.truncated += sum(1 for encoding in encodings if encoding.overflowing)

        def pack(encoding: Encoding) -> dict[str, Any]:
            return {"input_ids": np.array([encoding.ids]), "attention_mask": np.array([encoding.attention_mask])}

        return self._run_samples(self._text, encodings, pack)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        return [list(encoding.ids) for encoding in self._control.encode(self.name, texts)]

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return an image as the input of its graph, float32 `(3, image_size, image_size)`."""
        return preprocess_image(pixels, self.config)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: float32 `(images, texts)`, cosines or logits, by `kind`."""
        cosines = dot_products(images, texts)
        return cosines * np.float32(self.config.logit_scale) if self.config.kind == "logit" else cosines

    similarities = similarity  # many items in one call give the same bits (`StackedSimilarity`)

    def _run_samples(self, graph: _Graph, samples: Sequence[Any], pack: Callable[[Any], dict[str, Any]]) -> Vectors:
        dimensions = self.config.dimensions
        if not samples:
            return np.zeros((0, dimensions), np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            rows = list(pool.map(lambda sample: graph.run_sample(pack(sample), dimensions), samples))
        return normalise(np.concatenate(rows), self.name)


def preprocess_image(pixels: Pixels, config: OnnxConfig) -> NDArray[np.float32]:
    """Turn RGB uint8 `(height, width, 3)` into the image tensor, float32 `(3, image_size, image_size)`.

    Pillow's antialiased bicubic filter resizes it: to the square, or by its shorter side before the centre is cropped.
    """
    from PIL import Image

    size = config.image_size
    picture = Image.fromarray(pixels)
    width, height = picture.size
    if config.resize == "stretch":
        picture = picture.resize((size, size), Image.Resampling.BICUBIC)
    else:
        # As torchvision's Resize and CenterCrop: the longer side is rounded down, the offset to the nearest integer.
        short = min(width, height)
        width, height = int(size * width / short), int(size * height / short)
        x, y = round((width - size) / 2), round((height - size) / 2)
        picture = picture.resize((width, height), Image.Resampling.BICUBIC)
        picture = picture.crop((x, y, x + size, y + size))
    unit = np.asarray(picture, np.float32) / np.float32(255)
    scaled = (unit - np.array(config.mean, np.float32)) / np.array(config.std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))  # (3, size, size)


_FLOAT: dict[str, np.dtype[Any]] = {"tensor(float)": np.dtype(np.float32)}
_INTEGER: dict[str, np.dtype[Any]] = {"tensor(int64)": np.dtype(np.int64), "tensor(int32)": np.dtype(np.int32)}


class _Graph:
    """One ONNX graph: its session, and the names and shapes of its inputs."""

    def __init__(self, folder: ModelFolder, file: str, device: str) -> None:
        onnxruntime = import_onnxruntime()
        if device not in _PROVIDERS:
            raise ModelError(f"device {device!r} is unknown; use one of {', '.join(_PROVIDERS)}")
        provider, available = _PROVIDERS[device], onnxruntime.get_available_providers()
        if provider not in available:
            raise ModelError(
                f"device {device!r} needs {provider}; this onnxruntime has {', '.join(available)}: "
                "install onnxruntime-gpu in its place, or use device 'cpu'"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # fatal alone: errors are also raised
        self.path = folder.path / file
        # Under torchrun every rank has a separate GPU. TF32, the default, would round float32 to ten bits.
        gpu = {"device_id": int(os.environ.get("LOCAL_RANK") or "0"), "use_tf32": 0}
        providers: list[Any] = [(provider, gpu) if device == "cuda" else provider]
        with explain_failure(f"{self.path} cannot be loaded by onnxruntime"):
            self.session = onnxruntime.InferenceSession(folder.files[file], options, providers=providers)
        if provider not in self.session.get_providers():  # the session fell back to the CPU without an error
            raise ModelError(
                f"{self.path}: onnxruntime could not start {provider} and would compute on the CPU; install "
                "the CUDA and cuDNN that this onnxruntime-gpu was built for, or use device 'cpu'"
            )
        self.inputs = {node.name: node for node in self.session.get_inputs()}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        if len(self.session.get_outputs()) != 1:
            names = ", ".join(node.name for node in self.session.get_outputs())
            raise ModelError(f"{self.path}: expected one output, the vectors; got {names}")

    def expect_input(self, name: str, shape: tuple[int | None, ...], dtypes: dict[str, np.dtype[Any]]) -> None:
        """Check an input's name, shape (None: any) and type, which `run_sample` then converts to."""
        if name not in self.inputs:
            raise ModelError(f"{self.path}: expected an input {name!r}; got {', '.join(self.inputs) or 'none'}")
        node = self.inputs[name]
        # A symbolic dimension is a string, an unknown one is None; both take any size.
        fits = len(node.shape) == len(shape) and all(
            expected_size is None or not isinstance(size, int) or size == expected_size
            for expected_size, size in zip(shape, node.shape, strict=True)
        )
        if not fits or node.type not in dtypes:
            expected = f"{' or '.join(dtypes)} {tuple('n' if side is None else side for side in shape)}"
            raise ModelError(f"{self.path}: input {name!r} must be {expected}; got {node.type} {tuple(node.shape)}")
        self.dtypes[name] = dtypes[node.type]

    def run_sample(self, inputs: dict[str, NDArray[Any]], dimensions: int) -> Vectors:
        """Run one sample and return its vector, float32 `(1, dimensions)`; inputs that the graph lacks are left out."""
        typed = {name: value.astype(self.dtypes[name]) for name, value in inputs.items() if name in self.dtypes}
        with explain_failure(f"{self.path} failed"):
            (output,) = self.session.run(None, typed)
        if output.shape != (1, dimensions) or output.dtype != np.float32:
            raise ModelError(
                f"{self.path}: expected a float32 output (n, {dimensions}); "
                f"for n = 1 it gave {output.dtype} {output.shape}"
            )
        return np.asarray(output)
