"""Models by their names: from the catalogue, a folder or a file on disk, open_clip's table, or the hub."""

from __future__ import annotations

from pathlib import Path

from tellapart.catalog import has, names
from tellapart.catalog import load as load_from_catalog
from tellapart.errors import ModelError, UnknownNameError, quote
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.protocols import Model
from tellapart.models.unprefixed import explain_path

__all__ = ["find_model", "find_prefix", "name_forms"]


def name_forms() -> dict[str, str]:
    """Return the forms of names of models that are in no catalogue, each with its meaning."""
    forms: dict[str, str] = {}
    for prefix in names("prefix"):
        try:
            forms |= _load_prefix(prefix).forms
        except Exception as error:  # another package's prefix may fail in any way; the others are listed nevertheless
            forms[prefix] = f"cannot be loaded: {error}"
    return forms


def find_model(name: str, options: ModelOptions | None = None) -> Model:
    """Make the model of that name, as `tellapart ls models` lists it or of one of the forms of `name_forms`.

    Raises:
        UnknownNameError: no such name or prefix.
        ModelError: the device is not available, the model's files are missing or wrong, or another package installed
            something under that name that is no model.
        MissingDependencyError: the family's library is not installed.

    >>> find_model("constant").kind
    'probability'
    """
    options = options or ModelOptions()
    if (prefix := find_prefix(name)) is not None:
        if ":" in name and not name.partition(":")[2].strip():
            form, meaning = next(iter(prefix.forms.items()))
            raise ModelError(f"{name} names no model; write {form}: {meaning}")
        if not prefix.native:
            options.refuse_native(name)
        return prefix.load(name, options)
    options.refuse_native(name)
    model = load_from_catalog("model", name)(options)
    if not isinstance(model, Model):
        raise ModelError(f"model {name!r} is a {type(model).__name__} without a name, a fingerprint or a kind of score")
    return model


def find_prefix(name: str) -> ModelPrefix | None:
    """Return the prefix that a model's name begins with; None for a name of the catalogue.

    A folder of transformers and a hub id get that of `hf:`, which may be left out.

    Raises:
        UnknownNameError: the name begins with a prefix that is not known, or is a path that needs one.
        ModelError: another package installed something under that prefix that is no `ModelPrefix`.
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"find_model({quote(name)}): {type(name).__name__} is no name; give a text")
    head, colon, _ = name.partition(":")
    if colon and has("prefix", head + colon):
        return _load_prefix(head + colon)
    if has("model", name):
        return None
    if (lies_there := explain_path(name)) is not None:
        raise UnknownNameError(lies_there)
    if (Path(name).expanduser() / "config.json").is_file():
        return _load_prefix("hf:")
    if colon and "/" not in head:  # a hub id has no colon
        return _load_prefix(head + colon)
    return _load_prefix("hf:") if "/" in name else None


def _load_prefix(prefix: str) -> ModelPrefix:
    declaration = load_from_catalog("prefix", prefix)
    if not isinstance(declaration, ModelPrefix):
        raise ModelError(f"prefix {prefix!r} is a {type(declaration).__name__}; its package must give a ModelPrefix")
    return declaration
