"""A model as its caller holds it, measured where it is: the file's family around the caller's own module.

Nothing is copied or moved. Each measurement takes the fingerprint of the parameters again, for they may have changed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.memory.adapter import MemoryModel, Ready, methods_of, to_picture
from tellapart.models.memory.identity import (
    describe_callable,
    describe_module,
    digest_facts,
    explain_unstored,
    hash_tensors,
)
from tellapart.models.memory.mistakes import (
    OPEN_CLIP_LINE,
    explain_mistakes,
    explain_prepared,
    read_output,
    refuse_async,
    refuse_steps,
    to_array,
)
from tellapart.models.memory.rest import at_rest
from tellapart.models.options import AUTO
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import (
    Runtime,
    fixed_batches,
    forward,
    import_torch,
    move,
    parameter_count,
    positions_by_key,
)
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network


#: Samples in one forward pass, as of the families here.
_ON_CPU, _ELSEWHERE = 16, 64


class ModuleEncoder:
    """A dual encoder of a module with `encode_image` and `encode_text`, a preprocessing and a tokenizer.

    Every forward pass has a fixed number of samples of one shape, so that no vector depends on its neighbours. Texts
    are tokenised one by one; those of one length meet.

    Attributes:
        truncated: how many of the texts encoded so far the tokenizer cut, if it counts them.
    """

    kind: ScoreKind = "similarity"

    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(
        self,
        name: str,
        module: Network,
        preprocess: Callable[[Any], Any],
        tokenizer: Callable[..., Any],
        place: Runtime,
    ) -> None:
        refuse_steps(name, getattr(preprocess, "transforms", ()))
        self.name, self.fingerprint, self.truncated = name, "", 0
        self.parameters = parameter_count(module)
        self._module, self._preprocess, self._tokenizer, self._where = module, preprocess, tokenizer, place
        self._size = _ON_CPU if place.device == "cpu" else _ELSEWHERE
        self.batch_size = 4 * self._size
        self.traits = {"dtype": place.dtype}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, as the tokenizer pads it."""
        return [[int(token) for token in self._tokenize_text(text).flatten()] for text in texts]

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as `encode_image` is given it."""
        values: NDArray[np.float32] = self.prepare_image(pixels).value.float().cpu().numpy()
        return values

    def prepare_image(self, pixels: Pixels) -> Ready:
        """Prepare one RGB image, uint8 `(height, width, 3)`: a tensor `(channels, height, width)`."""
        with explain_mistakes(f"{self.name}: preprocess fails"):
            value = self._preprocess(to_picture(pixels))
        torch = import_torch()
        if not torch.is_tensor(value):
            array = to_array(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else None
            if array is None or array.ndim != 3:
                raise ModelError(f"{self.name}: {explain_prepared(value)}")
            value = torch.from_numpy(array)
        if value.ndim == 4 and len(value) == 1:
            value = value[0]
        if value.ndim != 3 or not value.is_floating_point():
            raise ModelError(f"{self.name}: {explain_prepared(value)}")
        return Ready(value)

    def encode_images(self, images: Sequence[Pixels | Ready]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)` of length one."""
        ready = [image if isinstance(image, Ready) else self.prepare_image(image) for image in images]
        return self._encode_shapes(self._module.encode_image, [tensor.value for tensor in ready])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)` of length one."""
        refuse_known_marks(self.name, texts)
        tokens = [self._tokenize_text(text) for text in texts]
        return self._encode_shapes(self._module.encode_text, tokens)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _tokenize_text(self, text: str) -> Tensor:
        """Return the tokens of one text, `(length,)`."""
        torch = import_torch()
        try:
            tokens = self._tokenizer([text])
        except RuntimeError as error:  # clip.tokenize, of a text that is too long
            if "too long" not in str(error):
                raise
            self.truncated += 1
            tokens = self._tokenizer([text], truncate=True)
        if hasattr(tokens, "keys"):
            raise ModelError(
                f"{self.name}: tokenizer returned a {type(tokens).__name__}, and encode_text takes a tensor: write "
                "tokenizer=lambda texts: tokenizer(texts, padding='max_length', truncation=True, "
                "return_tensors='pt')['input_ids']"
            )
        try:
            ids: Tensor = torch.as_tensor(tokens)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"{self.name}: tokenizer must take a list of texts to a tensor (n, length); it returned a "
                f"{type(tokens).__name__}"
            ) from error
        if ids.ndim < 2 or len(ids) != 1:
            raise ModelError(
                f"{self.name}: tokenizer, given 1 text, must return a tensor (1, length); it returned "
                f"{tuple(ids.shape)}"
            )
        return ids[0]

    def _encode_shapes(self, encode: Callable[[Tensor], Tensor], samples: Sequence[Tensor]) -> Vectors:
        """Encode samples, those of one shape together."""
        torch = import_torch()
        rows: dict[int, NDArray[np.float32]] = {}
        for positions in positions_by_key(tuple(sample.shape) for sample in samples).values():
            for batch, real in fixed_batches(positions, self._size):
                with forward(self.name, self._module):
                    inputs = move(torch.stack([samples[position] for position in batch]), self._where)
                    output = getattr(output := encode(inputs), "pooler_output", output)
                vectors = read_output(
                    f"{self.name}, given {len(batch)} samples,", output, (len(batch), None), "a row each"
                )
                rows |= zip(batch[:real], vectors, strict=False)
        if not rows:
            return np.zeros((0, 0), np.float32)
        return normalise(np.stack([rows[position] for position in range(len(samples))]), self.name)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a caller gives of a model: without a fingerprint it is taken from the parameters."""

    module: Any
    processor: Any = None
    preprocess: Any = None
    tokenizer: Any = None
    name: str = ""
    fingerprint: str | None = None
    reading: str | None = None


class HeldModel(MemoryModel):
    """A caller's module as a model; `open_again` gives it a new fingerprint."""

    def __init__(self, parts: Parts, build: Callable[[Parts, Runtime, bool], Any], *, again: bool = False) -> None:
        name = parts.name or type(unwrap(parts.module)).__name__
        self.parts, self._build = replace(parts, name=name), build
        place = _place_of(parts.module)
        with at_rest([parts.module]):
            inner = build(self.parts, place, again)
        self.name, self.kind, self.device, self.dtype = name, inner.kind, place.device, place.dtype
        self._thing, self._holders, self._arrays, self._gradients = inner, [parts.module], True, False
        self._set_methods(methods_of(inner), inner)

    @cached_property
    def _identity(self) -> tuple[str, str]:
        """The fingerprint and why the store keeps nothing, of the parameters as they are when it is first asked."""
        parts = self.parts
        if parts.fingerprint is not None:
            return parts.fingerprint, ""
        unknown: list[str] = []
        facts = describe_module(parts.module, unknown)
        for role in ("processor", "preprocess", "tokenizer"):
            facts += describe_callable(getattr(parts, role), role, unknown)
        digest = digest_facts([hash_tensors(parts.module), self.dtype, str(parts.reading), *facts])
        why = explain_unstored(self.name, unknown, 'ta.model(..., fingerprint="...") names it')
        return f"tellapart:memory:1:{digest}", why

    fingerprint = property(lambda self: self._identity[0])
    unstored = property(lambda self: self._identity[1])
    stored = property(lambda self: not self._identity[1])

    def open_again(self) -> HeldModel:
        """Return the same model, to be measured as it is now."""
        return HeldModel(self.parts, self._build, again=True)

    def expect_settings(self, *, device: str, dtype: str, reading: str | None) -> None:
        """Refuse settings of models that are named, which do not move this one."""
        kind = self.device.partition(":")[0]
        moved = (
            (device in {"cpu", kind}, f"device={device!r}", f"it lies on {self.device}: write model.to({device!r})"),
            (
                dtype in {"float32", AUTO, self.dtype},
                f"dtype={dtype!r}",
                f"it computes in {self.dtype}: write model.to(torch.{dtype})",
            ),
            (
                reading in {None, self.parts.reading},
                f"reading={reading!r}",
                f"write ta.model(..., reading={reading!r})",
            ),
        )
        for fits, setting, remedy in moved:
            if not fits:
                raise ModelError(f"{self.name}: {setting} is of models that are named; {remedy}")


def unwrap(module: Any) -> Any:
    """Return the module inside of what compiles it or spreads it over processes, and of peft's adapters."""
    while True:
        if "_orig_mod" in getattr(module, "_modules", {}):
            module = module._orig_mod
        elif set(getattr(module, "_modules", {})) == {"module"} and not hasattr(type(module), "encode_image"):
            module = module.module
        elif callable(getattr(module, "get_base_model", None)):
            module = module.get_base_model()
        else:
            return module


def hold_module(parts: Parts) -> HeldModel | None:
    """Return the model of a module with its preparation, recognised by what it has; None if it has nothing known."""
    inner = unwrap(parts.module)
    for parameter, part in (("preprocess", parts.preprocess), ("tokenizer", parts.tokenizer)):
        refuse_async(part, parameter)
    if hasattr(inner, "similarity_fn_name") or (hasattr(inner, "predict") and hasattr(inner, "num_labels")):
        return HeldModel(parts, _build_sentence_transformer)
    if hasattr(inner, "config") and hasattr(inner.config, "model_type") and _is_transformers(inner):
        return HeldModel(_join_processor(parts), _build_transformers)
    if callable(getattr(inner, "encode_image", None)) and callable(getattr(inner, "encode_text", None)):
        return HeldModel(_check_preparation(parts), _build_towers)
    return None


def _place_of(module: Network) -> Runtime:
    """Return the device of a module's first parameter, and the dtype that its image tower reads."""
    torch = import_torch()
    tower = getattr(unwrap(module), "visual", module)
    first = next(iter(module.parameters()), None)
    matrix = next(
        (parameter for parameter in tower.parameters() if parameter.ndim > 1 and parameter.is_floating_point()), None
    )
    if first is None:
        return Runtime("cpu", "float32")
    if first.device.type == "meta":
        raise ModelError(
            f"the {type(module).__name__} lies on the device 'meta' and has no numbers: load its weights first, as in "
            "model.load_state_dict(weights, assign=True)"
        )
    device = first.device.type if first.device.index in {None, 0} else str(first.device)
    dtype = torch.float32 if matrix is None else matrix.dtype
    if device == "cpu" and dtype == torch.float16:
        warnings.warn(
            f"the {type(module).__name__} is in float16 on a CPU, which is slow, and rounds more than float32: write "
            "model.float()",
            TellapartWarning,
            stacklevel=2,
        )
    return Runtime(device, str(dtype).removeprefix("torch."))


def _is_transformers(module: Any) -> bool:
    from tellapart.models.huggingface.load import FUSION

    features = hasattr(module, "get_image_features") and hasattr(module, "get_text_features")
    return features or module.config.model_type in FUSION


def _join_processor(parts: Parts) -> Parts:
    """Return the parts with a processor of Pillow's images, as a folder is read with."""
    processor = parts.processor
    if processor is None and hasattr(parts.tokenizer, "special_tokens_map") and hasattr(parts.preprocess, "to_dict"):
        processor = SimpleNamespace(image_processor=parts.preprocess, tokenizer=parts.tokenizer)
    if not (hasattr(processor, "image_processor") and hasattr(processor, "tokenizer")):
        got = "" if processor is None else f", not a {type(processor).__name__}"
        raise ModelError(
            f"a {type(unwrap(parts.module)).__name__} of transformers needs its processor of images and texts{got}: "
            "write ta.model(model, AutoProcessor.from_pretrained(...))"
        )
    # The way of reading captions is set in a copy of SigLIP's tokenizer: the caller's keeps its own settings.
    joined = SimpleNamespace(
        image_processor=_with_pillow(processor.image_processor),
        tokenizer=copy.copy(processor.tokenizer),
        text_kwargs=getattr(processor, "text_kwargs", None),
    )
    return replace(parts, processor=joined, preprocess=None, tokenizer=None)


def _with_pillow(images: Any) -> Any:
    """Return an image processor that computes in Pillow, as of a model's folder; the same if there is none."""
    from tellapart.models.huggingface.files import import_transformers

    name = type(images).__name__.removesuffix("Fast")
    kind = getattr(import_transformers(), f"{name}Pil", None)
    return images if kind is None or name.endswith("Pil") else kind.from_dict(images.to_dict())


def _check_preparation(parts: Parts) -> Parts:
    """Check the preprocessing and the tokenizer of a model with `encode_image` and `encode_text`."""
    for part in (parts.processor, parts.preprocess, parts.tokenizer):
        if hasattr(part, "image_processor"):
            raise ModelError(
                f"a {type(part).__name__} prepares images and texts of transformers' models, and this model has "
                "encode_image and encode_text: write ta.model(model, preprocess=preprocess, "
                "tokenizer=processor.tokenizer) with functions from a PIL image, and from texts, to a tensor"
            )
    if parts.processor is not None or not callable(parts.preprocess) or not callable(parts.tokenizer):
        part_names = [name for name in ("processor", "preprocess", "tokenizer") if getattr(parts, name) is not None]
        raise ModelError(
            f"a {type(unwrap(parts.module)).__name__} with encode_image and encode_text needs preprocess= and "
            f"tokenizer=, functions; got {' and '.join(part_names) or 'neither'}: write {OPEN_CLIP_LINE}"
        )
    return parts


def _build_towers(parts: Parts, place: Runtime, _again: bool) -> Any:
    if _reads_like_open_clip(parts):
        from tellapart.models.openclip.dual_encoder import hold_encoder

        return hold_encoder(parts.name, unwrap(parts.module), parts.preprocess, parts.tokenizer, place)
    return ModuleEncoder(parts.name, unwrap(parts.module), parts.preprocess, parts.tokenizer, place)


def _reads_like_open_clip(parts: Parts) -> bool:
    """Return whether open_clip's shorter way through texts is the same as the model's `encode_text`.

    It is not if the caller changed that method, or hooks the text tower.
    """
    module, steps = unwrap(parts.module), list(getattr(parts.preprocess, "transforms", ()))
    encode_text = getattr(module.encode_text, "__func__", None)
    tower = getattr(module, "text", module)
    return (
        getattr(encode_text, "__module__", "").startswith("open_clip.")
        and not (tower._forward_hooks or tower._forward_pre_hooks)
        and len(steps) > 1
        and hasattr(steps[-1], "mean")
        and hasattr(steps[-1], "std")
        and "ToTensor" in type(steps[-2]).__name__
        and hasattr(parts.tokenizer, "context_length")
        and (hasattr(parts.tokenizer, "encoder") or hasattr(parts.tokenizer, "tokenizer"))
    )


def _build_transformers(parts: Parts, place: Runtime, _again: bool) -> Any:
    from tellapart.models.huggingface.load import default_reading, readings_of

    module = unwrap(parts.module)
    architecture = next(kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("transformers."))
    config = module.config.to_dict() | {"architectures": [architecture]}
    name = parts.name
    readings = readings_of(config, name)
    reading = parts.reading or default_reading(config, readings)
    if reading == "itc":
        from tellapart.models.huggingface.dual_encoder import hold_dual

        return hold_dual(name, module, architecture, parts.processor, place)
    from tellapart.models.fusion.load import hold_itm

    held = hold_itm(name, module, parts.processor, place, reading)
    if held is None:
        raise ModelError(
            f"a {architecture} in memory has no reading {reading!r} here: save it, model.save_pretrained(FOLDER) and "
            'processor.save_pretrained(FOLDER), and write evaluate("hf:FOLDER", ...)'
        )
    return held


def _build_sentence_transformer(parts: Parts, place: Runtime, again: bool) -> Any:
    module = unwrap(parts.module)
    if not hasattr(module, "modalities") or not hasattr(module, "preprocess"):
        raise ModelError(
            f"this {type(module).__name__} takes no images through `preprocess`: write "
            "ta.model(images=model.encode, texts=model.encode)"
        )
    from tellapart.models.sentence_transformers.load import hold_library

    return hold_library(parts.name, cast("Any", module), place, parts.reading, tested=again)
