"""What identifies a model in memory: its weights, its architecture, the source of its code, how inputs are prepared."""

from __future__ import annotations

import copy
import dis
import enum
import hashlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, MappingProxyType, ModuleType
from typing import Any, NamedTuple, get_args

import numpy as np

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.network import Network

#: Bytes that one thread hashes at a time.
_PIECE = 8 * 2**20

#: A part of a `repr` that changes from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

#: Packages whose classes their version of the file's model has, too.
_LIBRARIES = ("torch", "torchvision", "transformers", "open_clip", "timm", "sentence_transformers", "peft", "clip")


class Identity(NamedTuple):
    """What a record holds of a model."""

    name: str
    fingerprint: str
    kind: ScoreKind
    stored: bool = True  # whether the store may keep its numbers: all that they depend on is in the fingerprint
    file: Path | None = None  # that defines it, if the user named one
    unstored: str = ""  # why the store keeps none of its numbers; empty if the record need not name it


def of_source(thing: object, name: str, file: Path | None = None) -> Identity:
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


def of_functions(functions: Sequence[Any], name: str, fingerprint: str | None, kind: ScoreKind) -> Identity:
    """Return the identity of a model of functions, by a caller's fingerprint or by those of all of them."""
    if fingerprint is not None:
        return Identity(name or name_of(functions[0]), fingerprint, kind)
    identities = [of_source(function, name) for function in functions]
    together = _digest_facts([identity.fingerprint for identity in identities])
    stored = all(identity.stored for identity in identities)
    return Identity(identities[0].name, f"functions-{together}", kind, stored)


def of_modules(thing: Any, modules: Sequence[Network], name: str) -> Identity:
    """Return the identity of an object by the weights of its torch modules, and by all else that it holds."""
    description = Description()
    for module in modules:
        description.add_module(module)
    if [*modules] != [thing]:
        description.add_attributes(thing, name_of(thing))
    name = name or name_of(thing)
    fingerprint = description.fingerprint(*map(hash_tensors, modules))
    why = description.explain_unstored(name, "an attribute `fingerprint` names it")
    return Identity(name, fingerprint, getattr(thing, "kind", "similarity"), not why, None, why)


def name_of(thing: object) -> str:
    """Return the name of an object or a function."""
    inner = thing.func if isinstance(thing, partial) else thing
    inner_name = getattr(inner, "name", None) or getattr(inner, "__name__", None) or type(inner).__name__
    return "function" if inner_name == "<lambda>" else str(inner_name)


class Description:
    """Facts on a model for its fingerprint, and the parts that nothing describes, in words."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.unknown: list[str] = []
        self._seen: dict[int, object] = {}

    def fingerprint(self, *before: str) -> str:
        """Return the hash of facts that are put before, and of these."""
        return f"tellapart:memory:1:{_digest_facts([*before, *self.facts])}"

    def explain_unstored(self, name: str, remedy: str) -> str:
        """Return why the store keeps none of a model's numbers; empty if nothing of it is unknown."""
        listed = ", ".join(self.unknown[:3])
        return f"no number of {name} was stored: nothing describes {listed}; {remedy}" if self.unknown else ""

    def add_module(self, module: Network) -> None:
        """Describe an architecture: classes, settings, configurations, the source of foreign classes; hooks."""
        for name, part in module.named_modules():
            kind = type(part)
            self.facts.append(f"{name} {kind.__module__}.{kind.__qualname__}")
            self.add_attributes(part, name or kind.__name__)
            if part._forward_hooks or part._forward_pre_hooks:
                self.unknown.append(f"a hook on its {name or kind.__name__}")

    def add_attributes(self, thing: object, name: str) -> None:
        """Describe an object's attributes, without torch's modules; of a library's class others are left out, too."""
        foreign = _library_of(type(thing)) not in _LIBRARIES
        # Of an adapter of peft private attributes decide whether it is active.
        with_private = foreign or _library_of(type(thing)) == "peft"
        for key, value in sorted(vars(thing).items()):
            if key in _torch_attributes() or (key.startswith("_") and not with_private) or _is_module(value):
                continue
            if hasattr(value, "to_dict") and key == "config":
                self.facts.append(json.dumps(value.to_dict(), sort_keys=True, default=str))
            elif foreign or self._is_described(value):
                self.add_value(value, key, name)
        if callable(settings := getattr(thing, "get_config_dict", None)):  # of sentence-transformers
            self.facts.append(json.dumps(settings(), sort_keys=True, default=str))
        if foreign:
            self.add_code(type(thing))

    @staticmethod
    def _is_described(value: object) -> bool:
        """Return whether a library's object is described by such a value."""
        kinds = inspect.isroutine(value) or isinstance(value, partial | np.ndarray) or _is_plain(value)
        return kinds or hasattr(value, "special_tokens_map") or hasattr(value, "image_processor")

    def add_value(self, value: Any, key: str, owner: str) -> None:
        """Describe what an object holds, or what a function reads, under a name."""
        if _is_plain(value):
            self.facts.append(f"{key}={_write_plain(value)}")
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self.facts.append(f"{key}={value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}")
        elif import_torch().is_tensor(value):
            self.facts.append(f"{key}={_hash_tensor(value)}")
        else:
            self.add_callable(value, f"{owner}.{key}")

    def add_callable(self, thing: Any, role: str) -> None:
        """Describe the preparation of images or texts: a library's transform, tokenizer, processor, or a function."""
        fingerprint = getattr(thing, "fingerprint", None)
        if thing is None or isinstance(fingerprint, str):
            self.facts.append(f"{role} {fingerprint}")
        elif hasattr(thing, "transforms"):
            for step in thing.transforms:
                self.add_callable(step, role)
        elif described := _describe_library(thing):
            self.facts.append(f"{role} {described}")
            owner = getattr(thing, "__self__", None)
            if not (owner is None or inspect.isclass(owner) or isinstance(owner, ModuleType)):
                self.add_callable(owner, role)
        elif isinstance(thing, partial):
            self.add_callable(thing.func, role)
            for key, value in (*enumerate(thing.args), *sorted(thing.keywords.items())):
                self.add_value(value, str(key), role)
        else:
            name = getattr(thing, "__qualname__", type(thing).__name__).rpartition(".")[2]
            self.unknown.append(f"{role} ({name}), a function without an attribute `fingerprint`")

    def add_code(self, code: Any) -> None:
        """Describe a function, or a class and its bases: the source, and the values from outside that it reads."""
        if id(code) in self._seen:
            return
        self._seen[id(code)] = code
        if not inspect.isclass(code):
            self.facts.append(_source_of(code))
            for name, value in sorted(_values_read(code), key=lambda read: read[0]):
                self._add_read(value, name, code.__qualname__)
            return
        for kind in code.__mro__:
            if _is_installed(kind):
                self.facts.append(f"{kind.__module__}.{kind.__qualname__}")
                continue
            self.facts.append(_source_of(kind))
            for key, value in () if issubclass(kind, enum.Enum) else sorted(vars(kind).items()):
                held = (getattr(value, name, None) for name in (() if inspect.isfunction(value) else _HOLDS))
                inner = next((part for part in held if part is not None), value)
                if inspect.isfunction(inner) or not (key.startswith("__") or key == "_abc_impl"):
                    self._add_read(inner, key, kind.__qualname__)

    def _add_read(self, value: Any, name: str, owner: str) -> None:
        """Describe a value that code reads by a name."""
        value = value.__wrapped__ if hasattr(value, "cache_info") else value  # of `functools.cache`
        if isinstance(value, ModuleType):
            return
        if _is_module(value):
            self.unknown.append(f"{name} in {owner}, a model that its code reads and it does not hold")
        elif not (inspect.isclass(value) or inspect.isfunction(value)):
            # Of containers `repr` may leave out the middle of an array, and sets have no fixed order.
            is_simple = _library_of(type(value)) in sys.stdlib_module_names and not isinstance(value, _CONTAINERS)
            if is_simple and not _is_plain(value) and not _ADDRESS.search(repr(value)):
                self.facts.append(f"{name}={value!r}")
            else:
                self.add_value(value, name, owner)
        elif _is_installed(value):
            self.facts.append(f"{name} {value.__module__}.{value.__qualname__}")
        else:
            self.add_code(value)


#: Attributes by which class and static methods, properties and cached ones hold their function.
_HOLDS = ("__func__", "fget", "func", "__wrapped__")


def _values_read(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that a function reads from outside, with their names: globals, closures, defaults."""
    code = function.__code__
    for name in {name for part in _parts_of(code) for name in _globals_named(part)} & function.__globals__.keys():
        yield name, function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if cell != CellType() and name != "__class__":
            yield name, cell.cell_contents
    yield from ((f"default {number}", value) for number, value in enumerate(function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()


def _parts_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _parts_of(part)


def _globals_named(code: CodeType) -> Iterator[str]:
    return (step.argval for step in dis.get_instructions(code) if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"})


def _is_installed(code: Any) -> bool:
    """Return whether a function or a class comes with Python or with an installed package."""
    file = getattr(sys.modules.get(code.__module__), "__file__", None) or ""
    library = _library_of(code)
    return library in {*sys.stdlib_module_names, *_LIBRARIES, "tellapart"} or "-packages" in file


def _is_module(value: object) -> bool:
    return isinstance(value, import_torch().nn.Module)


@cache
def _torch_attributes() -> frozenset[str]:
    """Return the attributes that every module has, and its mode."""
    return frozenset({*vars(import_torch().nn.Module()), "training"})


def hash_tensors(module: Network) -> str:
    """Return the SHA-256 of a module's parameters and buffers: names, types, shapes and bytes.

    Pieces of 8 MiB are hashed in threads; of a device's tensors one is on the CPU at a time.
    """
    torch, digest = import_torch(), hashlib.sha256()

    def hash_piece(header: bytes, piece: memoryview) -> bytes:
        piece_digest = hashlib.sha256(header)
        piece_digest.update(piece)
        return piece_digest.digest()

    with ThreadPoolExecutor() as pool:
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            refuse_meta(tensor, f"the model's {name}")
            header = f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            view = flat.view(torch.uint8).numpy().data  # as bytes, for numpy knows no bfloat16
            pieces = [view[start : start + _PIECE] for start in range(0, max(len(view), 1), _PIECE)]
            for piece in pool.map(partial(hash_piece, header), pieces):
                digest.update(piece)
    return digest.hexdigest()


def _hash_tensor(tensor: Any) -> str:
    """Return the SHA-256 of a tensor that is no parameter: type, shape and bytes."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(import_torch().uint8).numpy()
    return hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode() + flat.tobytes()).hexdigest()


def refuse_meta(tensor: Any, subject: str) -> None:
    """Refuse a tensor without numbers."""
    if tensor.device.type == "meta":
        raise ModelError(
            f"{subject} lies on the device 'meta' and has no numbers: load its weights first, as in "
            "model.load_state_dict(weights, assign=True)"
        )


_CONTAINERS = (dict, MappingProxyType, list, tuple, set, frozenset)


def _is_plain(value: object) -> bool:
    if isinstance(value, dict | MappingProxyType):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | str)


def _write_plain(value: object) -> str:
    """Write a value as Python does, but sets in a fixed order: theirs differs between two processes."""
    if isinstance(value, dict | MappingProxyType):
        entries = (f"{_write_plain(key)}: {_write_plain(entry)}" for key, entry in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_write_plain, value)))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_plain, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_write_plain, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _library_of(kind: object) -> str:
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def _describe_library(thing: Any) -> str:
    """Describe an object of an installed library; empty if it is none, or is not described by its `repr`."""
    if hasattr(thing, "special_tokens_map") or hasattr(thing, "image_processor"):
        from tellapart.models.huggingface.files import processor_facts, tokenizer_facts

        facts = processor_facts(thing) if hasattr(thing, "image_processor") else tokenizer_facts(thing)
        # Of a folder these are facts of the model: how many tokens it reads, and whether all texts are padded.
        length = getattr(getattr(thing, "tokenizer", thing), "model_max_length", None)
        return f"{facts} {length} {getattr(thing, 'text_kwargs', None)}"
    if hasattr(thing, "context_length") and (hasattr(thing, "encoder") or hasattr(thing, "tokenizer")):
        from tellapart.models.openclip.tokens import Tokens

        tokenizer = copy.copy(thing)  # the caller's is left as it is
        if hasattr(tokenizer, "tokenizer"):
            tokenizer.tokenizer = copy.copy(tokenizer.tokenizer)
        return json.dumps(Tokens(tokenizer).facts, sort_keys=True)
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


def _digest_facts(facts: Sequence[str]) -> str:
    """Return the SHA-256 of texts, each with its length."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
