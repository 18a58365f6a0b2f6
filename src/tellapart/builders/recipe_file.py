"""The recipe of a pair set: one TOML file that names a builder, its options, filters and selections.

A recipe may come from a stranger: it names files, models and servers, but no program and no secret. The user gives
programs and secrets by environment variables (docs/trust.md).

name = "kitchen"                 # of the set
builder = "negatives"            # `tellapart ls builders`
seed = 1
retries = 2                      # how often a failed candidate is tried again, after all others
max_failed = 0                   # how many candidates may still fail then; they are left out

[options]                        # of the builder; paths are relative to the recipe
captions = "captions.jsonl"
images = "photos"

[[filters]]                      # in this order, on every item
name = "words"
maximum = 40

[[selections]]                   # in this order, on all items that are left
name = "per_cluster"
maximum = 2
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Builder, BuilderType, Start
from tellapart.catalog import load, names
from tellapart.data.fields import field_fault
from tellapart.data.rows import read_toml
from tellapart.data.validation import validate
from tellapart.errors import UnknownNameError, nearest

_SET_KEY = "set TELLAPART_API_KEY to the server's key, and take it out"
#: Options that a recipe must not have, with the fault and the user's setting that takes their place.
_USER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "blender_python": "names a program, and a recipe may name none: set TELLAPART_BLENDER_PYTHON to a Python that "
        "has bpy, and take it out",
        "key_variable": f"names an environment variable, and a recipe may name none: {_SET_KEY}",
        "api_key": f"is a secret, and a recipe may hold none: {_SET_KEY}",
    }
)


class RecipeFile(BaseModel):
    """The content of a recipe, as the module's docstring shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    builder: str
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    retries: int = Field(default=2, ge=0)
    max_failed: int = Field(default=0, ge=0)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    filters: list[dict[str, JsonValue]] = Field(default_factory=list)
    selections: list[dict[str, JsonValue]] = Field(default_factory=list)

    def facts(self, inputs: Mapping[str, str], models: Mapping[str, str], version: str) -> dict[str, Any]:
        """Return all that decides the set's content, as JSON."""
        facts = self.model_dump(mode="json", exclude={"retries", "max_failed"})
        return facts | {"inputs": dict(inputs), "models": dict(models), "version": version}


def fingerprint_facts(facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of facts that JSON holds."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_recipe_file(path: Path) -> RecipeFile:
    """Read a recipe from a TOML file, and check its builder's options, its filters and its selections."""
    recipe = validate(RecipeFile, read_toml(path), str(path))
    _refuse_user_settings(recipe.options, f"{path}: [options]")
    try:
        builder_type: BuilderType = load("builder", recipe.builder)
    except UnknownNameError as error:
        raise UnknownNameError(f"{path}: {error}") from error
    validate(builder_type.Options, recipe.options, f"{path}: [options]")
    open_tables("filter", recipe.filters, str(path))
    open_tables("selection", recipe.selections, str(path))
    return recipe


def open_builder(recipe: RecipeFile, home: Path, *, insecure: bool = False) -> Builder:
    """Make the builder that a recipe names."""
    builder_type: BuilderType = load("builder", recipe.builder)
    options = validate(builder_type.Options, recipe.options, f"{recipe.name}: [options]")
    return builder_type(Start(options, recipe.seed, home, insecure))


def open_tables(kind: str, tables: Sequence[Mapping[str, JsonValue]], place: str) -> list[tuple[str, Any]]:
    """Make the filters or selections that a recipe names, in its order, each with its name."""
    if not tables:
        return []  # `names` searches the installed packages, which takes time
    known_names = names(kind)
    choices = f"the {kind}s are {', '.join(known_names)}"
    opened = []
    for index, table in enumerate(tables):
        table_place = f"{place}: {kind}s[{index}]"
        name = table.get("name")
        if not isinstance(name, str):
            raise field_fault(table_place, "name", f"is missing; {choices}")
        if name not in known_names:
            raise UnknownNameError(f"{table_place}: no {kind} {name!r}{nearest(name, known_names) or ';'} {choices}")
        options = {key: value for key, value in table.items() if key != "name"}
        opened.append((name, validate(load(kind, name), options, table_place)))
    return opened


def _refuse_user_settings(table: Mapping[str, JsonValue], place: str, prefix: str = "") -> None:
    """Refuse options that name a program or a secret, at any depth; `prefix` is the path of the table, with a dot."""
    for key, value in table.items():
        if key in _USER_SETTINGS:
            raise field_fault(place, prefix + key, _USER_SETTINGS[key])
        if isinstance(value, Mapping):
            _refuse_user_settings(value, place, f"{prefix}{key}.")
