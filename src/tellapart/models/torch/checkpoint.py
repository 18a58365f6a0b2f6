"""A file of `torch.save`, read without running it: tensors are made here, every other class becomes an inert object.

With `weights_only`, `torch.load` refuses a file that names a class it does not know, and training frameworks write such
files: Lightning keys callbacks by their class, fairseq keeps an argparse namespace.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import re
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from tellapart.data.scores import join_names
from tellapart.data.strict_json import expect_content, first_repeated
from tellapart.errors import ModelError, explain_failure, plain, quote, require
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.network import Tensor

__all__ = ["Checkpoint", "InertObject", "read_checkpoint", "read_state_dict", "split_part"]

#: Names that hold the state dict among a training checkpoint's other entries.
_NESTINGS = ("state_dict", "model_state_dict", "model")

#: Names of entries with averages of the weights: `ema_state_dict`, `state_dict_ema`, `model_ema`, `averaged_model`.
_AVERAGE = re.compile(r"(^|[._])(ema|swa|averaged?|averaging|shadow)([._]|$)|ema(_fp32)?_(params|weights)")

#: How deep a state dict may lie: fairseq's are `extra_state.ema`, a callback's `callbacks.NAME.state_dict`.
_DEPTH = 3

#: What data parallelism, `torch.compile` and a module around the model put before every name.
_PREFIXES = re.compile(r"(?:(?:module|_orig_mod|model|clip_model)\.)*")

#: An entry of torch's `AveragedModel` that is no weight.
_UPDATES = "n_averaged"

#: A pickle without the numbers: keys, shapes and settings. Real ones have a few hundred kilobytes.
_MOST_PICKLE_BYTES = 64 * 2**20


class InertObject(dict[Any, Any]):
    """Stands for an object of a class that is not read; of its state in the file a dictionary is kept."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        super().__init__()

    def __setstate__(self, state: object) -> None:
        if isinstance(state, Mapping):
            dict.update(self, state)

    def append(self, _value: object) -> None:
        """Drop an element of a list or a set, or several."""

    extend = add = append

    #: A file may use such an object as a key.
    __hash__ = object.__hash__  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's tensors by name, and its other entries.

    Attributes:
        path: the file.
        tensors: `torch.Tensor` by name, without a wrapper's prefix.
        beside: the entries outside the state dict (epoch, hyper-parameters, configuration).
        part: the entry that the tensors were taken from, as `state_dict`; empty if they are the whole file.
        others: entries with further weights of the same model, as `ema_state_dict` or `extra_state.ema`.
        prefix: the wrapper's, as `module._orig_mod.`, with which every name in the file begins.
    """

    path: Path
    tensors: dict[str, Tensor]
    beside: Mapping[Any, Any] = field(default_factory=dict)
    part: str = ""
    others: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def weights(self) -> str:
        """A line on the weights that were taken, for results; empty if the file holds one set under plain names."""
        file, others = self.path.name, join_names(self.others, 5)
        lines = []
        if self.others:
            ending = f"a model's name that ends in {file}#{plain(self.others[0])} takes the other"
            lines += [f"the weights are {quote(self.part)} of {file}, which also holds {others}: {ending}"]
        if self.prefix:
            lines += [f"every name in {file} begins with {quote(self.prefix)}, which is left out"]
        return "; ".join(lines)

    @property
    def saved(self) -> dict[str, Tensor]:
        """The tensors by the names that the file has."""
        return {self.prefix + name: tensor for name, tensor in self.tensors.items()}

    def expect_one(self, name: str) -> None:
        """Refuse a file of several sets of weights if `name` names none of them after a `#`."""
        if self.others and not split_part(name)[1]:
            listed = " or ".join(f"{name}#{plain(part)}" for part in (self.part, *self.others)[:4])
            raise ModelError(f"{name}: {self.path.name} holds {1 + len(self.others)} sets of weights; write {listed}")


def split_part(name: str) -> tuple[str, str]:
    """Split `FILE#PART` into the file and the part of it that is meant, which is empty if none is named.

    >>> split_part("epoch_5.pt#ema"), split_part("run#3/epoch_5.pt")
    (('epoch_5.pt', 'ema'), ('run#3/epoch_5.pt', ''))
    """
    file, _, part = name.rpartition("#")
    is_part = file and part and part == Path(part).name and not Path(name).expanduser().exists()
    return (file, part) if is_part else (name, "")


def read_checkpoint(path: Path | str, *, part: str = "", shapes_only: bool = False) -> Checkpoint:
    """Read a checkpoint: `.safetensors`, or a file of `torch.save` of any age. Nothing in it runs.

    A training checkpoint's nesting is undone: `state_dict`, `model_state_dict` or `model` next to epoch and optimiser,
    and a prefix that a wrapper puts before every name. Averages of the weights (EMA) lie next to them in some files;
    the plain ones are taken unless a part is named.

    Args:
        path: the file; ModelError if it is missing, damaged, or holds no state dict.
        part: the entry to take: its name, or `ema` for the one with an average.
        shapes_only: read no numbers; the tensors lie on torch's device `meta`.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ModelError(f"{path} is {'a folder' if path.is_dir() else 'no file'}; name a checkpoint file")
    expect_content(None, path, ModelError)
    safe = path.suffix == ".safetensors"
    with explain_failure(f"{path} is not {'a safetensors file' if safe else 'a checkpoint of torch.save'}"):
        content = (_read_safetensors if safe else _read_torch)(path, shapes_only)
    return _find_state_dict(path, content, part)


def read_state_dict(path: Path | str, *, shapes_only: bool = False) -> dict[str, Tensor]:
    """Read a checkpoint's tensors by name, as `read_checkpoint` does."""
    return read_checkpoint(path, shapes_only=shapes_only).tensors


def _read_safetensors(path: Path, shapes_only: bool) -> dict[str, Tensor]:
    torch, load_file = import_torch(), require("safetensors.torch", extra="models").load_file
    if not shapes_only:
        return load_file(path)
    with require("safetensors", extra="models").safe_open(path, "pt") as file:
        return {name: torch.empty(file.get_slice(name).get_shape(), device="meta") for name in file.keys()}  # noqa: SIM118


def _find_state_dict(path: Path, content: object, part: str) -> Checkpoint:
    """Find the state dict, the other entries, and further weights."""
    if not isinstance(content, Mapping):
        raise ModelError(f"{path} holds no state dict; it holds {type(content).__name__}")
    name = next((name for name in _NESTINGS if isinstance(content.get(name), Mapping)), "")
    held = content[name] if name else content
    if isinstance(held, InertObject) and "_modules" in held:
        model = f"torch.load({path.name!r}, weights_only=False){f'[{name!r}]' if name else ''}"
        raise ModelError(
            f"{path} is a model with its program, which is not run; save its weights, if you trust the file: "
            f"torch.save({model}.state_dict(), 'weights.pt')"
        )
    parts = dict(_list_parts(content, "", _DEPTH, set(_strip_prefixes(held)[0])))
    if part:
        name = _choose_part(path, part, parts)
    entries, prefix = _strip_prefixes(parts[name] if part else held)
    odd = _list_odd(entries)
    if odd or not entries:
        first = f": {len(odd)} of its {len(entries)} entries are no tensors, first {odd[0]!r:.60}" if odd else ""
        written = f"; let the model's name end in {path.name}#{' or #'.join([*parts][:5])}" if parts else ""
        raise ModelError(f"{path} holds no state dict{first}{written}")
    top = name.partition(".")[0]
    rest = {key: value for key, value in content.items() if key != top} if name else {}
    others = tuple(other for other in parts if name and other != name)
    return Checkpoint(path, dict(entries), rest, name, others, prefix)


def _list_odd(entries: Mapping[Any, Any]) -> list[Any]:
    """Return the keys of entries that are no tensors by name."""
    tensor = import_torch().Tensor
    return [key for key, value in entries.items() if not (isinstance(key, str) and isinstance(value, tensor))]


def _strip_prefixes(entries: Mapping[Any, Any]) -> tuple[Mapping[Any, Any], str]:
    """Return a state dict without the prefixes that all of its names have, and these."""
    names = [name for name in entries if name != _UPDATES]
    common = os.path.commonprefix(names) if all(isinstance(name, str) for name in names) else ""  # noqa: RUF071 (no path)
    prefix = "".join(_PREFIXES.findall(common)[:1])
    return ({name.removeprefix(prefix): entries[name] for name in names}, prefix) if prefix else (entries, "")


def _list_parts(content: Mapping[Any, Any], place: str, depth: int, names: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the path and the tensors of entries with a model's weights: named as averages, or with half its names."""
    for key, value in content.items() if depth else ():
        path = f"{place}{key}"
        if not isinstance(key, str) or not isinstance(value, Mapping):
            continue
        entries, _ = _strip_prefixes(value)
        if entries and not _list_odd(entries):
            if _AVERAGE.search(path) or key in (*_NESTINGS, "module") or 2 * len(names & set(entries)) >= len(names):
                yield path, value
        else:
            yield from _list_parts(value, f"{path}.", depth - 1, names)


def _choose_part(path: Path, part: str, parts: Mapping[str, object]) -> str:
    """Return the path of the part that a user names: all of it, its first or last name, or `ema`."""
    fits = [part] if part in parts else []
    fits = fits or [entry for entry in parts if part in (entry.partition(".")[0], entry.rpartition(".")[2])]
    fits = fits or [entry for entry in parts if part == "ema" and _AVERAGE.search(entry)]
    if len(fits) != 1:
        listed = join_names(fits or [*parts], 10) or "no parts, one set of weights"
        raise ModelError(f"{path} has {len(fits) or 'no'} weights named {quote(part)}; it has {listed}")
    return fits[0]


class _Unpickler(pickle.Unpickler):
    """Makes plain data and tensors; every other class becomes an inert object. It imports nothing.

    The standard reader reserves memory up to the highest place that a pickle names, so the places are looked at first.
    """

    def __init__(self, file: BinaryIO, **options: Any) -> None:
        start = file.tell()
        for operation, argument, _ in pickletools.genops(file):
            if operation.name in {"PUT", "LONG_BINPUT"} and int(argument or 0) > _MOST_PICKLE_BYTES:
                raise pickle.UnpicklingError(f"a place {argument}, further than any real file's")
        if file.tell() - start > _MOST_PICKLE_BYTES:
            raise ValueError(f"its pickle has more than {_MOST_PICKLE_BYTES // 2**20} MB")
        file.seek(start)
        super().__init__(file, **options | {"encoding": "utf-8", "errors": "surrogateescape"})

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module in {"torch._utils", "torch._tensor"} and name in {"_rebuild_tensor_v2", "_rebuild_tensor"}:
            return _rebuild_tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        return tuple if (module, name) == ("torch", "Size") else InertObject


def _rebuild_tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    """Make a tensor of a file's numbers; torch would let some reach beyond them."""
    torch = import_torch()
    if not isinstance(storage, torch.storage.TypedStorage):
        raise pickle.UnpicklingError("a tensor without a storage of numbers")
    count = storage._untyped_storage.nbytes() // storage.dtype.itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    shapes_only = storage._untyped_storage.device.type == "meta"  # there torch loses sight of the numbers
    if min((offset, *size, *stride)) < 0 or (0 not in size and last >= count and not shapes_only):
        raise pickle.UnpicklingError(f"a tensor of shape {tuple(size)} reaches beyond its {count} numbers")
    tensor: Tensor = torch._utils._rebuild_tensor(storage, offset, size, stride)
    return tensor


#: Stands for the standard module where torch reads a file by it.
_PICKLE = SimpleNamespace(
    Unpickler=_Unpickler, load=lambda file, **options: _Unpickler(file, **options).load(), __name__=pickle.__name__
)


def _read_torch(path: Path, shapes_only: bool) -> object:
    """Read a file of `torch.save`; torch itself finds the numbers."""
    archived = zipfile.is_zipfile(path)
    if archived:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = [member.filename for member in members]
        if (twice := first_repeated(names)) is not None:
            raise ModelError(f"{path} holds two members of one name, {quote(twice)}; torch would take either")
        if any(name.endswith("/constants.pkl") for name in names):
            raise ModelError(
                f"{path} is a TorchScript archive, a program with weights in it; save its state dict: "
                "torch.save(torch.jit.load(path, 'cpu').state_dict(), 'weights.pt')"
            )
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed, which torch never does: a small file may fill the memory")
    elif tarfile.is_tarfile(path):
        raise ValueError("it is an archive of tar, as torch wrote before 0.1.10")
    load, place = import_torch().serialization.load, "meta" if shapes_only else "cpu"
    return load(path, place, pickle_module=_PICKLE, weights_only=False, mmap=archived and shapes_only)
