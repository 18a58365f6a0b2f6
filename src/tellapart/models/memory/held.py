"""Models that callers hold in memory: objects, functions, and modules, measured where they are.

A module is wrapped by the classes that load the same architecture from a file; its weights are neither copied nor
moved. Its fingerprint is of its parameters' bytes, its architecture and the preparation of its inputs. Each measurement
computes the fingerprint anew, for the caller may have trained the module meanwhile.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias, cast, get_args

import numpy as np

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.captions import refuse_known_marks
from tellapart.models.memory import adapter, identity, mistakes
from tellapart.models.memory.adapter import MemoryModel
from tellapart.models.memory.identity import Identity
from tellapart.models.memory.mistakes import OPEN_CLIP_LINE, is_module, refuse_async
from tellapart.models.options import AUTO
from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch.backend import Runtime, import_torch
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers
from tellapart.models.torch.network import Network, Tensor


class _EncodesBoth(Protocol):
    def encode_images(self, images: Any, /) -> object: ...
    def encode_texts(self, texts: Any, /) -> object: ...


class _ScoresPairs(Protocol):
    def score_pairs(self, images: Any, texts: Any, /) -> object: ...


class _ScoresTexts(Protocol):
    def score_texts(self, texts: Any, /) -> object: ...


class _ScoresMatrices(Protocol):
    def score_matrix(self, images: Any, texts: Any, /) -> object: ...


class _Writes(Protocol):
    def log_likelihoods(self, images: Any, texts: Any, /) -> object: ...


#: A model as callers may pass it, other than by name: an object with the methods of a protocol, the class of such an
#: object, a function of an image and a text or of an item's images and texts, or a sentence-transformers model.
ModelGiven: TypeAlias = (
    Model | Callable[..., Any] | type[Any] | _EncodesBoth | _ScoresPairs | _ScoresTexts | _ScoresMatrices | _Writes
)


def as_model(thing: object, *, name: str = "", file: Path | None = None, batched: bool | None = None) -> Model:
    """Return an object or a function as a model.

    An object needs one of a protocol's methods (`models/protocols.py`); it gets PIL images in RGB. The rest of the
    protocol is filled in: a name, the kind `similarity`, cosines as the scores of `encode_images` and `encode_texts`. A
    function is `(image, text) -> number`, or `(images, texts) -> matrix` if it is `batched`. A sentence-transformers
    model works as it is; for a model of open_clip or transformers, call `tellapart.model` with its preprocessing.
    """
    if inspect.isclass(thing):
        missing: list[str] = []
        with suppress(TypeError, ValueError):  # a class written in C has no signature
            parameters = inspect.signature(thing).parameters.values()
            optional = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
            needed = (parameter for parameter in parameters if parameter.default is inspect.Parameter.empty)
            missing = [parameter.name for parameter in needed if parameter.kind not in optional]
        if missing:
            raise ModelError(f"{thing.__name__} is a class that needs {', '.join(missing)}; give an object of it")
        thing = thing()
    if isinstance(thing, HeldModel):
        return thing.open_again()
    if isinstance(thing, Model) and file is None and not batched and adapter.reads_arrays(thing):
        return thing
    encodes = callable(getattr(thing, "encode_images", None)) and callable(getattr(thing, "encode_texts", None))
    if is_module(thing) and not encodes and (held := hold_module(Parts(thing, name=name))) is not None:
        return held
    if adapter.methods_of(thing):
        is_named = file is not None or getattr(thing, "fingerprint", None) is not None
        modules = [] if is_named else adapter.modules_of(thing)
        described = identity.of_modules(thing, modules, name) if modules else identity.of_source(thing, name, file)
        return adapter.of_object(thing, described)
    refuse_async(thing, "model")
    if not callable(thing) or is_module(thing):
        raise ModelError(mistakes.explain_argument(thing) or _explain_refusal(thing))
    batched = batched if batched is not None else getattr(thing, "batched", False)
    return adapter.of_function(thing, identity.of_source(thing, name, file), batched=batched)


def model(
    module: object = None,
    processor: object = None,
    *,
    preprocess: Callable[[Any], Any] | None = None,
    tokenizer: Callable[[Any], Any] | None = None,
    images: Callable[[list[Any]], Any] | None = None,
    texts: Callable[[list[str]], Any] | None = None,
    score: Callable[[list[Any], list[str]], Any] | None = None,
    name: str = "",
    fingerprint: str | None = None,
    reading: str | None = None,
    kind: ScoreKind = "similarity",
) -> Model:
    """Return what you hold as a model: `evaluate` measures it where it is, and leaves it as it was.

    - `model(clip, preprocess=preprocess, tokenizer=tokenizer)`: of open_clip, of the package `clip`, or any module with
      `encode_image` and `encode_text`;
    - `model(hf_model, processor)`: of transformers, a dual encoder or one with a matching head;
    - `model(sentence_transformer)`;
    - `model(images=f, texts=g)`: two functions from a list to vectors `(n, dimensions)`, scored by the cosine;
    - `model(score=f)`: a function from an item's images and texts to their matrix `(images, texts)`.

    Images arrive as PIL images, RGB. The scores are those of the same weights through a file. While the model computes
    it is in evaluation mode and without gradients; afterwards the mode of each part and the random states are what they
    were. Device and dtype are the model's.

    Args:
        module: the model; recognised by what it has, wrapped by `torch.compile`, peft or for several processes, too.
        processor: of transformers, for images and texts. Images are prepared by its Pillow version, as of a folder.
        preprocess: takes a PIL image to a tensor `(channels, height, width)`.
        tokenizer: takes a list of texts to a tensor `(n, length)`.
        images, texts: functions to vectors.
        score: a function to a matrix.
        name: in results; the class's if not given.
        fingerprint: names weights and preparation; of a module it is the hash of its parameters, architecture and
            preparation if not given. If a part of that is not known, the store is off, and the record names the part.
        reading: which of the model's readings is scored; its family's first if not given.
        kind: of the scores of functions: similarity, logit or probability.

    Raises:
        ModelError: a part is missing or is something else; the message has the line to write.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> def brightness(images):
    ...     return np.array([[np.asarray(image).mean(), 128] for image in images])
    >>> def length(texts):
    ...     return np.array([[len(text), 30] for text in texts])
    >>> mine = ta.model(images=brightness, texts=length, name="mine", fingerprint="mine-1")
    >>> ta.evaluate(mine, "demo", limit=20).record("text_score").n
    20
    """
    if images is not None or texts is not None or score is not None:
        if module is not None:
            raise ModelError("ta.model: give a model, or functions (images= and texts=, or score=), not both")
        return _join_functions({"images": images, "texts": texts, "score": score}, name, fingerprint, kind)
    if module is None:
        raise ModelError(f"ta.model: give a model, as in {OPEN_CLIP_LINE}, or images= and texts=, or score=")
    if (mistake := mistakes.explain_argument(module, "module")) is not None:
        raise ModelError(f"ta.model: {mistake}")
    if is_module(module) and not isinstance(module, HeldModel):
        held = hold_module(Parts(module, processor, preprocess, tokenizer, name, fingerprint, reading))
        return held or as_model(module, name=name)
    if processor is not None or preprocess is not None or tokenizer is not None:
        raise ModelError(f"ta.model: a {type(module).__name__} prepares its inputs itself: write ta.model(it) alone")
    return as_model(module, name=name)


def _join_functions(
    functions: dict[str, Callable[..., Any] | None], name: str, fingerprint: str | None, kind: ScoreKind
) -> Model:
    """Return a model of `images` and `texts`, which return vectors, or of `score`, which returns a matrix."""
    if kind not in get_args(ScoreKind):
        raise ModelError(f"kind={quote(kind)}: use one of {', '.join(get_args(ScoreKind))}")
    for parameter, function in functions.items():
        if function is not None and not callable(function):
            mistake = mistakes.explain_argument(function, parameter)
            raise ModelError(f"ta.model: {mistake or f'{parameter}={quote(function)} is not a function'}")
        refuse_async(function, parameter)
    images, texts, score = functions.values()
    if score is not None and images is None and texts is None:
        return adapter.of_function(score, identity.of_functions([score], name, fingerprint, kind), batched=True)
    if score is None and images is not None and texts is not None:
        joined = identity.of_functions([images, texts], name or "vectors", fingerprint, "similarity")
        return adapter.of_encoders(images, texts, joined)
    raise ModelError(
        "ta.model: give images= and texts=, two functions that return vectors, or score=, one that returns a matrix"
    )


def _explain_refusal(thing: object) -> str:
    kind = type(thing).__name__
    if is_module(thing):
        return (
            f"a {kind} has neither encode_image and encode_text nor get_image_features and get_text_features, and how "
            "images and texts become its tensors is unknown: write ta.model(images=f, texts=g) with two functions to "
            f"vectors, {OPEN_CLIP_LINE}, or name its folder or its id (hf:...)"
        )
    return (
        f"{quote(thing)} ({kind}) is no model: give a name (`tellapart ls models`), an object of a protocol in "
        "tellapart.models.protocols, or a function (image, text) -> number"
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """The arguments of `model`; without a fingerprint, the model gets one computed from its parameters."""

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
        with adapter.at_rest([parts.module]):
            inner = build(self.parts, place, again)
        self.name, self.kind, self.device, self.dtype = name, inner.kind, place.device, place.dtype
        super().__init__(None, adapter.methods_of(inner), [parts.module], wrapped=inner)

    @cached_property
    def _identity(self) -> Identity:
        """The identity by the parameters as they are when it is first asked."""
        parts = self.parts
        if parts.fingerprint is not None:
            return Identity(self.name, parts.fingerprint, self.kind)
        preparation = {role: getattr(parts, role) for role in ("processor", "preprocess", "tokenizer")}
        remedy, settings = 'ta.model(..., fingerprint="...") names it', (self.dtype, str(parts.reading))
        return identity.of_modules(parts.module, [parts.module], self.name, preparation, settings, remedy)

    fingerprint = property(lambda self: self._identity.fingerprint)
    unstored = property(lambda self: self._identity.unstored)
    stored = property(lambda self: self._identity.stored)

    def open_again(self) -> HeldModel:
        """Return the same model, to be measured as it is now."""
        return HeldModel(self.parts, self._build, again=True)

    def expect_settings(self, *, device: str, dtype: str, reading: str | None) -> None:
        """Refuse settings of models that are named, which do not move this one."""
        devices, dtypes = {"cpu", self.device.partition(":")[0]}, {"float32", AUTO, self.dtype}  # with the defaults
        for setting, value, allowed, remedy in (
            ("device", device, devices, f"it lies on {self.device}: write model.to({device!r})"),
            ("dtype", dtype, dtypes, f"it computes in {self.dtype}: write model.to(torch.{dtype})"),
            ("reading", reading, {None, self.parts.reading}, f"write ta.model(..., reading={reading!r})"),
        ):
            if value not in allowed:
                raise ModelError(f"{self.name}: {setting}={value!r} is of models that are named; {remedy}")


def unwrap(module: Any) -> Any:
    """Return the module inside of wrappers: of `torch.compile`, of distributed training, of peft's adapters."""
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
    """Return a module and its preparation as a model; None if no attribute tells which library the module is of."""
    inner = unwrap(parts.module)
    for parameter, part in (("preprocess", parts.preprocess), ("tokenizer", parts.tokenizer)):
        refuse_async(part, parameter)
    if hasattr(inner, "similarity_fn_name") or (hasattr(inner, "predict") and hasattr(inner, "num_labels")):
        return HeldModel(parts, _build_sentence_transformer)
    if hasattr(inner, "config") and hasattr(inner.config, "model_type"):
        from tellapart.models.huggingface.load import FUSION

        features = hasattr(inner, "get_image_features") and hasattr(inner, "get_text_features")
        if features or inner.config.model_type in FUSION:
            return HeldModel(_join_processor(parts), _build_transformers)
    if callable(getattr(inner, "encode_image", None)) and callable(getattr(inner, "encode_text", None)):
        return HeldModel(_check_preparation(parts), _build_encoder)
    return None


def _place_of(module: Network) -> Runtime:
    """Return the device of a module's first parameter, and the dtype that its image tower reads."""
    torch, tower = import_torch(), getattr(unwrap(module), "visual", module)
    first = next(iter(module.parameters()), None)
    if first is None:
        return Runtime("cpu", "float32")
    identity.refuse_meta(first, f"the {type(module).__name__}")
    matrices = (weight for weight in tower.parameters() if weight.ndim > 1 and weight.is_floating_point())
    dtype = getattr(next(matrices, None), "dtype", torch.float32)
    device = first.device.type if first.device.index in {None, 0} else str(first.device)
    if device == "cpu" and dtype == torch.float16:
        warnings.warn(
            f"the {type(module).__name__} is in float16 on a CPU, which is slow, and rounds more than float32: write "
            "model.float()",
            TellapartWarning,
            stacklevel=2,
        )
    return Runtime(device, str(dtype).removeprefix("torch."))


def _build_sentence_transformer(parts: Parts, place: Runtime, again: bool) -> Any:
    module = unwrap(parts.module)
    if not hasattr(module, "modalities") or not hasattr(module, "preprocess"):
        raise ModelError(
            f"this {type(module).__name__} takes no images through `preprocess`: write "
            "ta.model(images=model.encode, texts=model.encode)"
        )
    from tellapart.models.sentence_transformers.load import hold_library

    return hold_library(parts.name, cast("Any", module), place, parts.reading, tested=again)


def _join_processor(parts: Parts) -> Parts:
    """Return the parts with one processor that prepares images by Pillow, as for a model from a folder."""
    processor = parts.processor
    if processor is None and hasattr(parts.tokenizer, "special_tokens_map") and hasattr(parts.preprocess, "to_dict"):
        processor = SimpleNamespace(image_processor=parts.preprocess, tokenizer=parts.tokenizer)
    if not (hasattr(processor, "image_processor") and hasattr(processor, "tokenizer")):
        got = "" if processor is None else f", not a {type(processor).__name__}"
        raise ModelError(
            f"a {type(unwrap(parts.module)).__name__} of transformers needs its processor of images and texts{got}: "
            "write ta.model(model, AutoProcessor.from_pretrained(...))"
        )
    from tellapart.models.huggingface.files import import_transformers

    images = processor.image_processor
    kind = type(images).__name__.removesuffix("Fast")
    pillow = None if kind.endswith("Pil") else getattr(import_transformers(), f"{kind}Pil", None)
    # The way of reading captions is set in a copy of SigLIP's tokenizer: the caller's keeps its own settings.
    joined = SimpleNamespace(
        image_processor=images if pillow is None else pillow.from_dict(images.to_dict()),
        tokenizer=copy.copy(processor.tokenizer),
        text_kwargs=getattr(processor, "text_kwargs", None),
    )
    return replace(parts, processor=joined, preprocess=None, tokenizer=None)


def _build_transformers(parts: Parts, place: Runtime, _again: bool) -> Any:
    from tellapart.models.fusion.families import hold_itm
    from tellapart.models.huggingface.dual_encoder import hold_dual
    from tellapart.models.huggingface.load import default_reading, readings_of

    module, name = unwrap(parts.module), parts.name
    architecture = next(kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("transformers."))
    config = module.config.to_dict() | {"architectures": [architecture]}
    reading = parts.reading or default_reading(config, readings_of(config, name))
    if reading == "itc":
        return hold_dual(name, module, architecture, parts.processor, place)
    held = hold_itm(name, module, parts.processor, place, reading)
    if held is None:
        raise ModelError(
            f"a {architecture} in memory has no reading {reading!r} here: save it, model.save_pretrained(FOLDER) and "
            'processor.save_pretrained(FOLDER), and write evaluate("hf:FOLDER", ...)'
        )
    return held


def _check_preparation(parts: Parts) -> Parts:
    """Check the preprocessing and the tokenizer of a model with `encode_image` and `encode_text`."""
    roles = ("processor", "preprocess", "tokenizer")
    for part in (getattr(parts, role) for role in roles):
        if hasattr(part, "image_processor"):
            raise ModelError(
                f"a {type(part).__name__} prepares images and texts of transformers' models, and this model has "
                "encode_image and encode_text: write ta.model(model, preprocess=preprocess, "
                "tokenizer=processor.tokenizer) with functions from a PIL image, and from texts, to a tensor"
            )
    if parts.processor is not None or not callable(parts.preprocess) or not callable(parts.tokenizer):
        part_names = [role for role in roles if getattr(parts, role) is not None]
        raise ModelError(
            f"a {type(unwrap(parts.module)).__name__} with encode_image and encode_text needs preprocess= and "
            f"tokenizer=, functions; got {' and '.join(part_names) or 'neither'}: write {OPEN_CLIP_LINE}"
        )
    steps = map(type, getattr(parts.preprocess, "transforms", ()))
    if drawn := [step.__name__ for step in steps if step.__name__.startswith("Random")]:
        raise ModelError(
            f"{parts.name or type(unwrap(parts.module)).__name__}: preprocess holds {drawn[0]}, of training: write "
            "model, _, preprocess = open_clip.create_model_and_transforms(...), the third"
        )
    return parts


def _reads_like_open_clip(parts: Parts) -> bool:
    """Return whether open_clip's text tower, called directly on shortened texts, does what `encode_text` does.

    It does not if the caller changed that method, or hooks the text tower.
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
        and all(map(identity.is_of_library, (parts.preprocess, *steps[-2:], parts.tokenizer)))
    )


def _build_encoder(parts: Parts, place: Runtime, _again: bool) -> TorchDual:
    """Return the dual encoder of a module with `encode_image` and `encode_text`, a preprocessing and a tokenizer."""
    name, module, preprocess, torch = parts.name, unwrap(parts.module), parts.preprocess, import_torch()
    if _reads_like_open_clip(parts):
        from tellapart.models.openclip.dual_encoder import hold_encoder

        return hold_encoder(name, module, preprocess, parts.tokenizer, place)

    def prepare(pixels: Pixels) -> Inputs:
        with mistakes.explain_mistakes(f"{name}: preprocess fails"):
            value = preprocess(adapter.to_picture(pixels))
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        shape = tuple(tensor.shape) if torch.is_tensor(tensor) and tensor.is_floating_point() else ()
        if len(shape) < 3 or shape[:-3] not in {(), (1,)}:
            raise ModelError(f"{name}: {mistakes.explain_prepared(value)}")
        return {"pixel_values": tensor.reshape(shape[-3:])}

    def run_tower(encode: Callable[[Tensor], Any], inputs: Tensor) -> Tensor:
        output = getattr(output := encode(inputs), "pooler_output", output)
        call = f"{name}, given {len(inputs)} samples,"
        vectors: Tensor = torch.from_numpy(mistakes.read_output(call, output, (len(inputs), None), "a row each"))
        return vectors

    towers = Towers(
        name,
        module,
        place,
        image=lambda inputs: run_tower(module.encode_image, inputs["pixel_values"]),
        text=lambda inputs: run_tower(module.encode_text, inputs["input_ids"]),
        prepare=prepare,
        reader=_CallersTokenizer(name, parts.tokenizer),
        offers={"traits": {"dtype": place.dtype}},
        shown=lambda inputs: inputs["pixel_values"].float().cpu(),
    )
    return TorchDual(towers, fingerprint="held")


class _CallersTokenizer:
    """A caller's tokenizer as a reader of texts: one at a time, each as long as the tokenizer pads it."""

    def __init__(self, name: str, tokenizer: Callable[..., Any]) -> None:
        self._name, self._tokenizer = name, tokenizer

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, as the tokenizer pads it."""
        return [[int(token) for token in self._tokenize_text(text)[0].flatten()] for text in texts]

    def samples(self, texts: Sequence[str]) -> tuple[list[Inputs], list[bool]]:
        """Return each text's tokens, and whether the tokenizer refused it as it was."""
        refuse_known_marks(self._name, texts)
        rows = [self._tokenize_text(text) for text in texts]
        return [{"input_ids": ids} for ids, _ in rows], [cut for _, cut in rows]

    def _tokenize_text(self, text: str) -> tuple[Tensor, bool]:
        try:
            cut, tokens = False, self._tokenizer([text])
        except RuntimeError as error:  # clip.tokenize, of a text that is too long
            if "too long" not in str(error):
                raise
            cut, tokens = True, self._tokenizer([text], truncate=True)
        problem = f"it returned a {type(tokens).__name__}"
        if hasattr(tokens, "keys"):
            raise ModelError(
                f"{self._name}: tokenizer returned a {type(tokens).__name__}, and encode_text takes a tensor: write "
                "tokenizer=lambda texts: tokenizer(texts, padding='max_length', truncation=True, "
                "return_tensors='pt')['input_ids']"
            )
        with suppress(TypeError, ValueError, RuntimeError):
            ids: Tensor = import_torch().as_tensor(tokens)
            if ids.ndim >= 2 and len(ids) == 1:
                return ids[0], cut
            problem = f"it returned {tuple(ids.shape)}"
        raise ModelError(f"{self._name}: tokenizer, given 1 text, must return a tensor (1, length); {problem}")
