"""What identifies a model in memory: its weights, its architecture, the source of its code, how inputs are prepared."""

from __future__ import annotations

import dis
import hashlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial, partialmethod
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
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


def of_modules(
    thing: Any,
    modules: Sequence[Network],
    name: str,
    preparation: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    remedy: str = "an attribute `fingerprint` names it",
) -> Identity:
    """Return the identity of an object by the weights of its torch modules, and by all else that it holds.

    `preparation` are the functions that prepare its inputs, by their role; `settings` are further facts.
    """
    description = Description()
    for module in modules:
        description.add_module(module)
    if [*modules] != [thing]:
        description.add_attributes(thing, name_of(thing))
    for role, function in (preparation or {}).items():
        description.add_callable(function, role)
    name, unknown = name or name_of(thing), ", ".join(description.unknown[:3])
    why = f"no number of {name} was stored: nothing describes {unknown}; {remedy}" if unknown else ""
    digest = _digest_facts([*map(hash_tensors, modules), *settings, *description.facts])
    return Identity(name, f"tellapart:memory:1:{digest}", getattr(thing, "kind", "similarity"), not why, None, why)


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

    def add_module(self, module: Network) -> None:
        """Describe an architecture: classes, settings, configurations, the source of foreign classes; hooks."""
        for name, part in module.named_modules():
            kind = type(part)
            self.facts.append(f"{name} {kind.__module__}.{kind.__qualname__}")
            self.add_attributes(part, name or kind.__name__)
            self._add_packed(part, name or kind.__name__)
            if part._forward_hooks or part._forward_pre_hooks:
                self.unknown.append(f"a hook on its {name or kind.__name__}")

    def _add_packed(self, part: Network, name: str) -> None:
        """Describe what a module saves beside its parameters and buffers: the weights of layers in eight bits."""
        entries: dict[str, Any] = {}
        part._save_to_state_dict(entries, "", True)
        for key in sorted(entries.keys() - {*part._parameters.keys(), *part._buffers.keys()}):
            values = entries[key] if isinstance(entries[key], tuple) else (entries[key],)
            for value in values:
                if import_torch().is_tensor(value):
                    plain = value.dequantize() if value.is_quantized else value
                    self.facts.append(f"{key} {_hash_tensor(plain, f'{name}.{key}')}")
                elif _is_plain(value) or isinstance(value, import_torch().dtype):
                    self.facts.append(f"{key} {value}")
                else:
                    self.unknown.append(f"{key} of its {name}")

    def add_attributes(self, thing: object, name: str, text: str = "") -> None:
        """Describe an object's attributes, without torch's modules; of a library's class others are left out, too.

        Beside a text on the object those that it writes, and those that its class sets by default, add nothing.
        """
        kind = type(thing)
        usual = inspect.signature(kind.__init__).parameters if text else {}
        foreign = _library_of(kind) not in _LIBRARIES
        with_private = _library_of(kind) == "peft"  # they decide whether an adapter is active
        state = _names_set(kind) if foreign else set()
        for key, value in sorted(getattr(thing, "__dict__", {}).items()):
            is_tensor = import_torch().is_tensor(value)
            # Private attributes are as often a memory as a setting: simple ones count that `__init__` alone sets.
            is_setting = foreign and key not in state and (is_tensor or isinstance(value, _SIMPLE))
            is_private = key.startswith("_") and not (with_private or is_setting)
            if is_private or key in _torch_attributes():
                continue
            if isinstance(value, import_torch().nn.Module):
                # In no list of the parts is a CrossEncoder's activation: a sigmoid, unless somebody chose another.
                is_chosen = hasattr(thing, "_modules") and repr(value) != "Sigmoid()"
                self.facts += [f"{key}={_ADDRESS.sub('', repr(value))}"] if is_chosen else []
                continue
            if text and (f"{key}={value}" in text or (key in usual and repr(usual[key].default) == repr(value))):
                continue
            if _is_plain(value):
                self.facts.append(f"{key}={_write_plain(value)}")
            elif hasattr(value, "to_dict") and key == "config":
                self.facts.append(json.dumps(value.to_dict(), sort_keys=True, default=str))
            elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
                self.facts.append(f"{key}={value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}")
            elif is_tensor:
                self.facts.append(f"{key}={_hash_tensor(value, f'{name}.{key}')}")
            elif foreign or _is_preparation(value):
                self.add_callable(value, f"{name}.{key}")
        if callable(getattr(thing, "get_config_dict", None)):  # of sentence-transformers
            from tellapart.models.huggingface.files import part_settings

            self.facts.append(json.dumps(part_settings(thing), sort_keys=True, default=str))
        # Theirs, too, in a private attribute; by default a cosine or its largest by token.
        if (rule := getattr(thing, "similarity_fn_name", None)) in {"dot", "meanmaxsim"}:
            self.facts.append(str(rule))
        if foreign:
            self.facts += [_source_of(base) for base in kind.__mro__ if base is kind or not is_installed(base)]

    def add_callable(self, thing: Any, role: str) -> None:
        """Describe the preparation of images or texts: a library's transform, tokenizer, processor, or a function."""
        fingerprint = getattr(thing, "fingerprint", None)
        if thing is None or isinstance(fingerprint, str):
            self.facts.append(f"{role} {fingerprint}")
        elif is_of_library(thing) and isinstance(getattr(thing, "transforms", None), list | tuple):
            for step in thing.transforms:
                self.add_callable(step, role)
        elif described := _describe_library(thing):
            self.facts.append(f"{role} {described}")
            owner = getattr(thing, "__self__", None)
            if not (owner is None or inspect.isclass(owner) or isinstance(owner, ModuleType)):
                self.add_callable(owner, role)
        elif is_of_library(thing) and not _ADDRESS.search(text := repr(thing)):
            self.facts.append(f"{role} {text}")
            self.add_attributes(thing, role, text)  # it leaves some out: the function of torchvision's Lambda
        elif isinstance(thing, partial):
            self.add_callable(thing.func, role)
            for key, value in (*enumerate(thing.args), *sorted(thing.keywords.items())):
                if _is_plain(value):
                    self.facts.append(f"{key}={_write_plain(value)}")
                else:
                    self.add_callable(value, f"{role}, {key}")
        else:
            name = getattr(thing, "__qualname__", type(thing).__name__).rpartition(".")[2]
            self.unknown.append(f"{role} ({name}), a function without an attribute `fingerprint`")


#: Values of private attributes that may be settings.
_SIMPLE = (bool, int, float, str, tuple, np.ndarray)


def _names_set(kind: type) -> set[str]:
    """Return the attributes that methods of a class set, but for `__init__`."""
    methods = (method for base in kind.__mro__ for name, method in vars(base).items() if name != "__init__")
    functions = (inspect.unwrap(method) for method in methods if inspect.isfunction(method))  # of `torch.no_grad`
    codes = [function.__code__ for function in functions if inspect.isfunction(function)]
    return {step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}


def _is_preparation(value: object) -> bool:
    """Return whether a library's object is described by such a value, besides plain ones."""
    processes = hasattr(value, "special_tokens_map") or hasattr(value, "image_processor")
    return processes or inspect.isroutine(value) or isinstance(value, partial)


def is_installed(kind: Any) -> bool:
    """Return whether a class or a function comes with Python or with an installed package."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return _library_of(kind) in {*sys.stdlib_module_names, *_LIBRARIES, "tellapart"} or "-packages" in file


@cache
def _torch_attributes() -> frozenset[str]:
    """Return the attributes that every module has, its mode, and its compiled form."""
    return frozenset({*vars(import_torch().nn.Module()), "training", "_compiled_call_impl"})


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


def _hash_tensor(tensor: Any, subject: str) -> str:
    """Return the SHA-256 of a tensor that is no parameter: type, shape and bytes."""
    refuse_meta(tensor, subject)
    dense = tensor.detach().cpu().to_dense() if tensor.layout != import_torch().strided else tensor.detach().cpu()
    flat = dense.resolve_conj().contiguous().reshape(-1).view(import_torch().uint8).numpy()
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(flat.data)
    return digest.hexdigest()


def refuse_meta(tensor: Any, subject: str) -> None:
    """Refuse a tensor without numbers."""
    if tensor.device.type == "meta":
        raise ModelError(
            f"{subject} lies on the device 'meta' and has no numbers: load its weights first, as in "
            "model.load_state_dict(weights, assign=True)"
        )


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | str)


def _write_plain(value: object) -> str:
    """Write a plain value as Python does, but sets in a fixed order: theirs differs between two processes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_write_plain(key)}: {_write_plain(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_write_plain, value)))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_plain, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_write_plain, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _library_of(kind: object) -> str:
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def is_of_library(thing: object) -> bool:
    """Return whether an object's class is a library's: its name and attributes then tell what it does."""
    return _library_of(type(thing)) in _LIBRARIES


def _describe_library(thing: Any) -> str:
    """Describe a library's processor, tokenizer or function; empty if it is none of these."""
    parts = [getattr(thing, role, None) for role in ("image_processor", "tokenizer")]
    joins = parts[0] is not None
    described = [thing] if not joins else parts if isinstance(thing, SimpleNamespace) else [thing, *parts]
    if (joins or hasattr(thing, "special_tokens_map")) and all(map(is_of_library, described)):
        from tellapart.models.huggingface.files import processor_facts, tokenizer_facts

        facts = processor_facts(thing) if hasattr(thing, "image_processor") else tokenizer_facts(thing)
        # Of a folder these are facts of the model: how many tokens it reads, and whether all texts are padded.
        length = getattr(getattr(thing, "tokenizer", thing), "model_max_length", None)
        return f"{facts} {length} {getattr(thing, 'text_kwargs', None)}"
    if hasattr(thing, "context_length") and _library_of(type(thing)) == "open_clip":
        from tellapart.models.openclip.tokens import Tokens, copy_tokenizer

        return json.dumps(Tokens(copy_tokenizer(thing)).facts, sort_keys=True)
    if inspect.isroutine(thing):
        file = getattr(getattr(thing, "__code__", None), "co_filename", "site-packages")  # of C: a library's
        installed = "-packages" in file and not getattr(thing, "__closure__", None)
        return f"{thing.__module__}.{thing.__qualname__} {_source_of(thing)}" if installed else ""
    return ""


def _source_of(thing: object) -> str:
    """Return the source of a function or of an object's class; of one without a source, its code."""
    inner = thing.func if isinstance(thing, partial) else thing
    if not (inspect.isroutine(inner) or inspect.isclass(inner)):
        inner = type(inner)
    try:
        return inspect.getsource(inner)
    except (OSError, TypeError):  # typed at a prompt or in a notebook, or built in
        entries = vars(inner) if inspect.isclass(inner) else {"": inner}
        # Python's own facts of a class name lines, or are in another order in the next process.
        described = [(name, entry) for name, entry in entries.items() if name[:2] != "__" or inspect.isfunction(entry)]
        parts = []
        for name, entry in described:
            is_inner = inspect.isclass(entry) and entry.__qualname__ == f"{inner.__qualname__}.{name}"
            parts.append(f"{name}={_source_of(entry) if is_inner else _write_code(entry)}")
        return _ADDRESS.sub("", repr((inner.__qualname__, parts)))


def _write_code(entry: Any) -> str:
    """Write what an entry of a class does, or a function: its code and its defaults; of data the plain value."""
    if isinstance(entry, property):
        return f"property {[_write_code(method) for method in (entry.fget, entry.fset, entry.fdel)]}"
    if isinstance(entry, cached_property | partialmethod):
        settings = getattr(entry, "args", ()), getattr(entry, "keywords", {})
        return f"{_write_code(entry.func)} {_write_code(settings)}"
    if isinstance(entry, CodeType):
        return f"{entry.co_code!r} {entry.co_names} {[_write_code(constant) for constant in entry.co_consts]}"
    function = inspect.unwrap(getattr(entry, "__func__", entry))  # of a class method or a static one
    if inspect.isfunction(function):
        defaults = _write_code(function.__defaults__), _write_code(function.__kwdefaults__)
        return f"{_write_code(function.__code__)} {defaults}"
    return _write_plain(entry) if _is_plain(entry) else type(entry).__name__


def _digest_facts(facts: Sequence[str]) -> str:
    """Return the SHA-256 of texts, each with its length."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
