"""The identity of a model in memory: its parameters' bytes, its architecture, and the preparation of its inputs."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.network import Network

if TYPE_CHECKING:
    from torch import Tensor

#: Bytes that one thread hashes at a time.
_PIECE = 8 * 2**20

#: Pieces that are cut before the first of them must be hashed.
_AHEAD = 32

#: Settings that a module may keep as plain values.
_PLAIN = (int, float, str, bool, type(None))

#: A part of a `repr` that changes from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

#: Packages whose classes their version of the file's model has, too.
_LIBRARIES = ("torch", "torchvision", "transformers", "open_clip", "timm", "sentence_transformers", "peft", "clip")


class Identity(NamedTuple):
    """What a record holds of a model.

    Attributes:
        stored: whether the store may keep its numbers: False without a fingerprint of all that they depend on.
        file: the file that defines it, if the user named one.
        unstored: why the store keeps none of its numbers, for the record; empty if the record need not name it.
    """

    name: str
    fingerprint: str
    kind: ScoreKind
    stored: bool = True
    file: Path | None = None
    unstored: str = ""


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
    return Identity(name or identities[0].name, f"functions-{together}", kind, stored)


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

    Pieces of 8 MiB are hashed in threads, a tensor on a device comes to the CPU alone.

    >>> torch = import_torch()
    >>> layer = torch.nn.Linear(2, 2)
    >>> before = hash_tensors(layer)
    >>> with torch.no_grad():
    ...     _ = layer.weight.add_(1)
    >>> before == hash_tensors(layer)
    False
    """
    digest, waiting = hashlib.sha256(), deque[Future[bytes]]()
    with ThreadPoolExecutor() as pool:
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            header = f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            for piece in _cut_bytes(name, tensor):
                waiting.append(pool.submit(_hash_piece, header, piece))
                if len(waiting) > _AHEAD:  # a copy from a device is gone once its pieces are hashed
                    digest.update(waiting.popleft().result())
        for rest in waiting:
            digest.update(rest.result())
    return digest.hexdigest()


def _hash_piece(header: bytes, piece: memoryview) -> bytes:
    digest = hashlib.sha256(header)
    digest.update(piece)
    return digest.digest()


def _cut_bytes(name: str, tensor: Tensor) -> Iterator[memoryview]:
    torch = import_torch()
    if tensor.device.type == "meta":
        raise ModelError(
            f"the model's {name} lies on the device 'meta' and has no numbers: load its weights first, as in "
            "model.load_state_dict(weights, assign=True)"
        )
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    view = flat.view(torch.uint8).numpy().data  # as bytes, for numpy knows no bfloat16
    return (view[start : start + _PIECE] for start in range(0, max(len(view), 1), _PIECE))


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
    """Describe the preparation of images or texts: a library's transform, tokenizer or processor, or a function.

    >>> unknown = []
    >>> describe_callable(lambda image: image, "preprocess", unknown), unknown
    ([], ['preprocess (<lambda>), a function without an attribute `fingerprint`'])
    """
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
    """Return the SHA-256 of texts, each with its length.

    >>> digest_facts(["ab"]) == digest_facts(["a", "b"])
    False
    """
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
