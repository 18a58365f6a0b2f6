"""The recipe of a pair set: one TOML file that names a builder, its options, and what of all it makes is left out.

name = "kitchen"                 # of the set
builder = "negatives"            # `tellapart ls builders`
seed = 1
retries = 2                      # of a candidate that fails, after all others
max_failed = 0                   # candidates that may be left out for good

[options]                        # the builder's own; paths are relative to the recipe
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
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Builder, BuilderType, Start
from tellapart.builders.item_filters import FILTERS, ItemFilter
from tellapart.builders.selections import SELECTIONS, Selection, selection_type
from tellapart.catalog import load, nearest
from tellapart.data.rows import read_toml
from tellapart.data.validation import checked
from tellapart.errors import DataError, UnknownNameError

__all__ = ["RecipeFile", "open_builder", "open_filters", "open_selections", "read_recipe_file"]


class RecipeFile(BaseModel):
    """What determines a pair set.

    Attributes:
        name: the set's name; also that of its folder if none is given.
        builder: a name of the catalogue.
        seed: first number of every random stream of the set.
        retries: how often a candidate that failed is tried again, after all others.
        max_failed: with more failed candidates than these, no set is written.
        options: the builder's own, as its `Options` model takes them.
        filters: each a `name` of `item_filters.FILTERS` and that filter's options.
        selections: each a `name` of `selections.SELECTIONS` and that selection's options.

    Raises:
        pydantic.ValidationError: an unknown key, or a value out of range.

    >>> RecipeFile(name="few", builder="scenes").seed
    0
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    builder: str
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    retries: int = Field(default=2, ge=0)
    max_failed: int = Field(default=0, ge=0)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    filters: list[dict[str, JsonValue]] = Field(default_factory=list)
    selections: list[dict[str, JsonValue]] = Field(default_factory=list)

    def fingerprint(self, inputs: Mapping[str, str], models: Mapping[str, str], version: str) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of all that decides what is in the set.

        Args:
            inputs: the files that the builder and the selections read, with their SHA-256.
            models: the models and programs that they use, with their revision or version.
            version: tellapart's.

        >>> len(RecipeFile(name="few", builder="scenes").fingerprint({}, {"mitsuba": "3.7"}, "1"))
        16
        """
        told = self.model_dump(mode="json", exclude={"retries", "max_failed"})
        told |= {"inputs": dict(inputs), "models": dict(models), "version": version}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def read_recipe_file(path: Path) -> RecipeFile:
    """Read a recipe from a TOML file, and check its builder's options, its filters and its selections.

    Raises:
        DataError: the file cannot be read or is not TOML, or holds an unknown key or a value out of range.
        UnknownNameError: no such builder, filter or selection.

    >>> read_recipe_file(Path("missing.toml"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    values = read_toml(path)
    recipe = checked(RecipeFile, values, str(path))
    checked(_type_of(recipe).Options, recipe.options, f"{path}: [options]")
    open_filters(recipe, str(path))
    open_selections(recipe, str(path))
    return recipe


def open_builder(recipe: RecipeFile, home: Path) -> Builder:
    """Make the builder that a recipe names.

    Args:
        recipe: names it and holds its options.
        home: the folder that the options' paths are relative to.

    Raises:
        DataError: an option is unknown or out of range, or an input cannot be read.
        UnknownNameError: no such builder.

    >>> open_builder(RecipeFile(name="few", builder="negative"), Path("."))
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no builder 'negative'; did you mean 'negatives'? `tellapart ls builders` lists them all
    """
    found = _type_of(recipe)
    return found(Start(checked(found.Options, recipe.options, f"{recipe.name}: [options]"), recipe.seed, home))


def open_filters(recipe: RecipeFile, where: str) -> list[tuple[str, ItemFilter]]:
    """Make the filters that a recipe names, in its order, each with its name.

    Raises:
        DataError: a filter has no name, an unknown key, or a value out of range.
        UnknownNameError: no such filter.

    >>> open_filters(RecipeFile(name="few", builder="scenes", filters=[{"name": "word"}]), "recipe.toml")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: recipe.toml: filters[0]: no filter 'word'; did you mean 'words'? the filters are words, word_gap, same_pixels
    """
    named = _named(recipe.filters, "filter", FILTERS, where)
    return [(name, checked(FILTERS[name], options, at)) for name, options, at in named]


def open_selections(recipe: RecipeFile, where: str) -> list[tuple[str, Selection]]:
    """Make the selections that a recipe names, in its order, each with its name.

    Raises:
        DataError: a selection has no name, an unknown key, or a value out of range.
        UnknownNameError: no such selection.

    >>> recipe = RecipeFile(name="few", builder="scenes", selections=[{"name": "per_cluster", "maximum": 2}])
    >>> open_selections(recipe, "recipe.toml")
    [('per_cluster', PerCluster(maximum=2))]
    """
    named = _named(recipe.selections, "selection", SELECTIONS, where)
    return [(name, checked(selection_type(name), options, at)) for name, options, at in named]


def _named(
    tables: Sequence[Mapping[str, JsonValue]], kind: str, known: Collection[str], where: str
) -> list[tuple[str, dict[str, JsonValue], str]]:
    """Return each table's known `name`, its other keys, and where in the recipe it stands."""
    listed = f"the {kind}s are {', '.join(known)}"
    found = []
    for place, table in enumerate(tables):
        at = f"{where}: {kind}s[{place}]"
        name = table.get("name")
        if not isinstance(name, str):
            raise DataError(f"{at}: key 'name' is missing; {listed}")
        if name not in known:
            raise UnknownNameError(f"{at}: no {kind} {name!r}{nearest(name, known) or ';'} {listed}")
        found.append((name, {key: value for key, value in table.items() if key != "name"}, at))
    return found


def _type_of(recipe: RecipeFile) -> BuilderType:
    found: BuilderType = load("builder", recipe.builder)
    return found
