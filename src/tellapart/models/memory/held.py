"""A model as its caller holds it, measured where it is: the file's family around the caller's own module.

Nothing is copied or moved. Its identity is its parameters' bytes, its architecture and the preparation of its inputs;
each measurement takes it again, for they may have changed.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import re
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.memory.adapter import Identity, MemoryModel, at_rest, methods_of, to_picture
from tellapart.models.memory.mistakes import (
    OPEN_CLIP_LINE,
    explain_mistakes,
    explain_prepared,
    read_output,
    refuse_async,
    refuse_steps,
)
from tellapart.models.options import AUTO
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers
from tellapart.models.torch.network import Network, Tensor


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


def _encode_module(
    name: str, module: Network, preprocess: Callable[[Any], Any], tokenizer: Callable[..., Any], place: Runtime
) -> TorchDual:
    """Return the dual encoder of a module with `encode_image` and `encode_text`, a preprocessing and a tokenizer."""
    refuse_steps(name, getattr(preprocess, "transforms", ()))
    torch = import_torch()

    def prepare(pixels: Pixels) -> Inputs:
        with explain_mistakes(f"{name}: preprocess fails"):
            value = preprocess(to_picture(pixels))
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        shape = tuple(tensor.shape) if torch.is_tensor(tensor) and tensor.is_floating_point() else ()
        if len(shape) < 3 or shape[:-3] not in {(), (1,)}:
            raise ModelError(f"{name}: {explain_prepared(value)}")
        return {"pixel_values": tensor.reshape(shape[-3:])}

    def run_tower(encode: Callable[[Tensor], Any], inputs: Tensor) -> Tensor:
        output = getattr(output := encode(inputs), "pooler_output", output)
        call = f"{name}, given {len(inputs)} samples,"
        vectors: Tensor = torch.from_numpy(read_output(call, output, (len(inputs), None), "a row each"))
        return vectors

    towers = Towers(
        name,
        module,
        place,
        image=lambda inputs: run_tower(module.encode_image, inputs["pixel_values"]),
        text=lambda inputs: run_tower(module.encode_text, inputs["input_ids"]),
        prepare=prepare,
        reader=_CallersTokenizer(name, tokenizer),
        offers={"traits": {"dtype": place.dtype}},
        shown=lambda inputs: inputs["pixel_values"].float().cpu(),
    )
    return TorchDual(towers, fingerprint="held")


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
        problem = ""
        if device not in {"cpu", self.device.partition(":")[0]}:
            problem = (
                f"device={device!r} is of models that are named; it lies on {self.device}: write model.to({device!r})"
            )
        elif dtype not in {"float32", AUTO, self.dtype}:
            remedy = f"it computes in {self.dtype}: write model.to(torch.{dtype})"
            problem = f"dtype={dtype!r} is of models that are named; {remedy}"
        elif reading not in {None, self.parts.reading}:
            problem = f"reading={reading!r} is of models that are named; write ta.model(..., reading={reading!r})"
        if problem:
            raise ModelError(f"{self.name}: {problem}")


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
    if hasattr(inner, "config") and hasattr(inner.config, "model_type"):
        from tellapart.models.huggingface.load import FUSION

        features = hasattr(inner, "get_image_features") and hasattr(inner, "get_text_features")
        if features or inner.config.model_type in FUSION:
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
        raise _no_numbers(f"the {type(module).__name__}")
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
    given = (parts.name, unwrap(parts.module), parts.preprocess, parts.tokenizer, place)
    if _reads_like_open_clip(parts):
        from tellapart.models.openclip.dual_encoder import hold_encoder

        return hold_encoder(*given)
    return _encode_module(*given)


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
    from tellapart.models.fusion.load import hold_itm
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


def _build_sentence_transformer(parts: Parts, place: Runtime, again: bool) -> Any:
    module = unwrap(parts.module)
    if not hasattr(module, "modalities") or not hasattr(module, "preprocess"):
        raise ModelError(
            f"this {type(module).__name__} takes no images through `preprocess`: write "
            "ta.model(images=model.encode, texts=model.encode)"
        )
    from tellapart.models.sentence_transformers.load import hold_library

    return hold_library(parts.name, cast("Any", module), place, parts.reading, tested=again)


#: Bytes that one thread hashes at a time.
_PIECE = 8 * 2**20

#: Settings that a module may keep as plain values.
_PLAIN = (int, float, str, bool, type(None))

#: A part of a `repr` that changes from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

#: Packages whose classes their version of the file's model has, too.
_LIBRARIES = ("torch", "torchvision", "transformers", "open_clip", "timm", "sentence_transformers", "peft", "clip")


def identify_model(thing: object, name: str, file: Path | None = None) -> Identity:
    """Return the identity of an object or a function: by its fingerprint, or by the hash of its source."""
    kind: ScoreKind = getattr(thing, "kind", "similarity")
    if kind not in get_args(ScoreKind):
        raise ModelError(
            f"{name_of(thing)} says its scores are {quote(kind)}; use one of {', '.join(get_args(ScoreKind))}"
        )
    name = name or name_of(thing)
    declared: Any = getattr(thing, "fingerprint", None)
    if declared is not None and not (isinstance(declared, str) and declared):
        raise ModelError(
            f"{name} has the fingerprint {quote(declared)}; it must be a text that names its weights and code"
        )
    source = _source_of(thing) if file is None else file.read_text(encoding="utf-8", errors="replace")
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    if declared is None:
        warnings.warn(
            f"{name} has no fingerprint: it goes by the hash of its source, and is computed anew each time; give it an "
            "attribute `fingerprint` that changes with its weights and its code, and the store keeps its scores",
            TellapartWarning,
            stacklevel=2,
        )
        return Identity(name, f"source-{digest}", kind, stored=False, file=file)
    declared = declared if file is None else hashlib.sha256(f"{declared}\n{digest}".encode()).hexdigest()
    return Identity(name, str(declared), kind, file=file)


def identify_functions(functions: Sequence[Any], name: str, fingerprint: str | None, kind: ScoreKind) -> Identity:
    """Return the identity of a model of functions, by a caller's fingerprint or by those of all of them."""
    if fingerprint is not None:
        return Identity(name or name_of(functions[0]), fingerprint, kind)
    identities = [identify_model(function, name) for function in functions]
    together = digest_facts([identity.fingerprint for identity in identities])
    stored = all(identity.stored for identity in identities)
    return Identity(identities[0].name, f"functions-{together}", kind, stored)


def identify_modules(thing: Any, modules: Sequence[Network], name: str) -> Identity:
    """Return the identity of an object by the weights of its torch modules, and by all else that it holds."""
    unknown: list[str] = []
    facts = [fact for module in modules for fact in describe_module(module, unknown)]
    if [*modules] != [thing]:
        facts += describe_attributes(thing, name_of(thing), unknown)
    digest = digest_facts([*(hash_tensors(module) for module in modules), *facts])
    name = name or name_of(thing)
    kind: ScoreKind = getattr(thing, "kind", "similarity")
    why = explain_unstored(name, unknown, "an attribute `fingerprint` names it")
    return Identity(name, f"tellapart:memory:1:{digest}", kind, not unknown, None, why)


def explain_unstored(name: str, unknown: Sequence[str], remedy: str) -> str:
    """Return why the store keeps none of a model's numbers; empty if nothing of it is unknown."""
    listed = ", ".join(unknown[:3])
    return f"no number of {name} was stored: nothing describes {listed}; {remedy}" if unknown else ""


def name_of(thing: object) -> str:
    """Return the name of an object or a function."""
    inner = thing.func if isinstance(thing, partial) else thing
    inner_name = getattr(inner, "name", None) or getattr(inner, "__name__", None) or type(inner).__name__
    return "function" if inner_name == "<lambda>" else str(inner_name)


def hash_tensors(module: Network) -> str:
    """Return the SHA-256 of a module's parameters and buffers: names, types, shapes and bytes.

    Pieces of 8 MiB are hashed in threads; of a device's tensors one is on the CPU at a time.
    """
    torch, digest = import_torch(), hashlib.sha256()
    with ThreadPoolExecutor() as pool:
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.device.type == "meta":
                raise _no_numbers(f"the model's {name}")
            header = f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            view = flat.view(torch.uint8).numpy().data  # as bytes, for numpy knows no bfloat16
            pieces = [view[start : start + _PIECE] for start in range(0, max(len(view), 1), _PIECE)]
            for piece in pool.map(partial(_hash_piece, header), pieces):
                digest.update(piece)
    return digest.hexdigest()


def _hash_piece(header: bytes, piece: memoryview) -> bytes:
    digest = hashlib.sha256(header)
    digest.update(piece)
    return digest.digest()


def _no_numbers(subject: str) -> ModelError:
    return ModelError(
        f"{subject} lies on the device 'meta' and has no numbers: load its weights first, as in "
        "model.load_state_dict(weights, assign=True)"
    )


def describe_module(module: Network, unknown: list[str]) -> list[str]:
    """Describe a module's architecture: classes, plain settings, configurations, and the source of foreign classes.

    What cannot be described is added to `unknown`, in words, as by each function here: a hook changes numbers so.
    """
    facts: list[str] = []
    for name, part in module.named_modules():
        kind = type(part)
        facts.append(f"{name} {kind.__module__}.{kind.__qualname__}")
        facts += describe_attributes(part, name or kind.__name__, unknown)
        if part._forward_hooks or part._forward_pre_hooks:
            unknown.append(f"a hook on its {name or kind.__name__}")
    return facts


def describe_attributes(thing: object, name: str, unknown: list[str]) -> list[str]:
    """Describe the attributes of an object: plain settings, configurations, functions; torch's modules are left out.

    Of a library's class the others are left out, too; of another one they are unknown.
    """
    torch, facts = import_torch(), list[str]()
    foreign = _library_of(type(thing)) not in _LIBRARIES
    for key, value in sorted(vars(thing).items()):
        if key.startswith("_") or key == "training" or isinstance(value, torch.nn.Module):
            continue
        if _is_plain(value):
            facts.append(f"{key}={value!r}")
        elif hasattr(value, "to_dict") and key == "config":
            facts.append(json.dumps(value.to_dict(), sort_keys=True, default=str))
        elif isinstance(value, np.ndarray):
            facts.append(f"{key}={value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}")
        elif foreign or inspect.isroutine(value) or isinstance(value, partial):
            facts += describe_callable(value, f"{name}.{key}", unknown)
    return [*facts, _source_of(thing)] if foreign else facts


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, _PLAIN) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


def _library_of(kind: object) -> str:
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def describe_callable(thing: Any, role: str, unknown: list[str]) -> list[str]:
    """Describe the preparation of images or texts: a library's transform, tokenizer or processor, or a function."""
    fingerprint = getattr(thing, "fingerprint", None)
    if thing is None or isinstance(fingerprint, str):
        return [f"{role} {fingerprint}"]
    if hasattr(thing, "transforms"):
        return [fact for step in thing.transforms for fact in describe_callable(step, role, unknown)]
    if described := _describe_library(thing):
        return [f"{role} {described}"]
    if isinstance(thing, partial):
        return [*describe_callable(thing.func, role, unknown), f"{thing.args} {sorted(thing.keywords.items())}"]
    name = getattr(thing, "__qualname__", type(thing).__name__).rpartition(".")[2]
    unknown.append(f"{role} ({name}), a function without an attribute `fingerprint`")
    return []


def _describe_library(thing: Any) -> str:
    """Describe an object of an installed library; empty if it is none, or is not described by its `repr`."""
    if hasattr(thing, "special_tokens_map") or hasattr(thing, "image_processor"):
        from tellapart.models.huggingface.files import processor_facts, tokenizer_facts

        return processor_facts(thing) if hasattr(thing, "image_processor") else tokenizer_facts(thing)
    if hasattr(thing, "context_length") and (hasattr(thing, "encoder") or hasattr(thing, "tokenizer")):
        from tellapart.models.openclip.tokens import Tokens

        return json.dumps(Tokens(thing).facts, sort_keys=True)
    if inspect.isroutine(thing):
        file = getattr(getattr(thing, "__code__", None), "co_filename", "site-packages")  # of C: a library's
        installed = "-packages" in file and not getattr(thing, "__closure__", None)
        return f"{thing.__module__}.{thing.__qualname__} {_source_of(thing)}" if installed else ""
    text = repr(thing)
    return "" if _ADDRESS.search(text) or _library_of(type(thing)) not in _LIBRARIES else text


def _source_of(thing: object) -> str:
    """Return the source of a function or of an object's class; of one without a source, its code."""
    inner = thing.func if isinstance(thing, partial) else thing
    if not (inspect.isroutine(inner) or inspect.isclass(inner)):
        inner = type(inner)
    try:
        return inspect.getsource(inner)
    except (OSError, TypeError):  # typed at a prompt, or built in
        methods = [inner, *vars(inner).values()] if inspect.isclass(inner) else [inner]
        codes = [code for method in methods if (code := getattr(method, "__code__", None)) is not None]
        parts = [(code.co_code, code.co_names, code.co_consts) for code in codes]
        return _ADDRESS.sub("", repr((inner.__qualname__, parts)))


def digest_facts(facts: Sequence[str]) -> str:
    """Return the SHA-256 of texts, each with its length."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
