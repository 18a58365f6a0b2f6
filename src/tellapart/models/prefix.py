"""Declarations of model prefixes: how models that are in no catalogue are named, loaded and recognised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model


@dataclass(frozen=True, slots=True)
class ModelPrefix:
    """A prefix of model names, such as `onnx:`, listed in `tellapart.catalog.PREFIXES` or by an entry point.

    Attributes:
        forms: each form of such a name, and its meaning, for `tellapart ls models`.
        load: makes the model of a name, prefix included.
        files: returns the files that the numbers of a model of that name depend on, by which a run recognises it; None
            if some may not lie here. Code of this package counts by itself; another package lists its code, too.
        model_type: in `config.json` of a folder that the prefix opens, too; `hf:FOLDER` opens it then. Empty for none.
        convert: writes the model of a name to a new folder, with the tokenizer in the given folder (None: the one in
            the model's folder, or the hub's); returns the number of parameters.
        takes: the options of `tellapart.models.options.MEANT_FOR` that some of its models take; another one ends a run
            before a model is loaded. Those that the loader reads, if None.
    """

    forms: Mapping[str, str]
    load: Callable[[str, ModelOptions], Model]
    files: Callable[[str], list[Path] | None] = lambda _name: None
    model_type: str = ""
    convert: Callable[[str, Path, Path | None], int] | None = None
    takes: frozenset[str] | None = None


def files_below(folder: str) -> list[Path] | None:
    """Return all files of a folder and its sub-folders, sorted; None without such a folder."""
    path = Path(folder).expanduser()
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else None
