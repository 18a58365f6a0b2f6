"""The recipe of a rendered pair set: a TOML file whose every value changes what is drawn or how it is stored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.rendered.grammar import ASPECTS, Aspect
from tellapart.builders.rendered.quadruple import Key, Wording
from tellapart.builders.rendered.render import Settings
from tellapart.data.rows import read_toml
from tellapart.data.validation import checked
from tellapart.errors import DataError

__all__ = ["Recipe", "read_recipe"]


class Recipe(BaseModel):
    """What determines a rendered pair set.

    Attributes:
        name: the set's name.
        seed: first number of every random stream of the set.
        size: side of the pictures in pixels.
        samples: light paths a pixel.
        depth: longest light path.
        quality: WebP quality, 1..100.
        wording: `minimal` (captions differ in the changed phrase alone) or `paper` (Figure 14's looser one).
        held_out_every: every n-th item shows a pair of shape and colour that training scenes never show; 0 for none.
        attempts: draws of one item before the build gives up.
        items: how many items of each aspect.
        vocabulary: which objects there are (`vocabulary.vocabulary`).

    Raises:
        pydantic.ValidationError: an unknown key, or a value out of range.

    >>> Recipe(name="few", seed=1, items={"counting": 2}).item_keys()[0].name
    'counting-000'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1)
    seed: int = Field(ge=0)
    size: int = Field(default=160, ge=16, le=2048)
    samples: int = Field(default=8, ge=1, le=4096)
    depth: int = Field(default=6, ge=1, le=32)
    quality: int = Field(default=86, ge=1, le=100)
    wording: Wording = "minimal"
    held_out_every: int = Field(default=2, ge=0)
    attempts: int = Field(default=60, ge=1)
    items: dict[Aspect, int]
    vocabulary: str = "demo"

    def values(self) -> dict[str, Any]:
        """Return what the recipe says, as JSON types; the vocabulary only where it is not the demo's.

        Recipes that were written before there was another one keep their fingerprint.

        >>> "vocabulary" in Recipe(name="few", seed=1, items={"counting": 2}).values()
        False
        """
        values = self.model_dump(mode="json")
        if self.vocabulary == "demo":
            del values["vocabulary"]
        return values

    @property
    def fingerprint(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the recipe's canonical JSON.

        >>> len(Recipe(name="few", seed=1, items={"counting": 2}).fingerprint)
        16
        """
        text = json.dumps(self.values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def item_keys(self, stream: str = "demo") -> list[Key]:
        """Return the key of every item's first attempt, aspect by aspect.

        >>> [key.held_out for key in Recipe(name="few", seed=1, items={"counting": 3}).item_keys()]
        ['no', 'yes', 'no']
        """
        every = self.held_out_every
        return [
            Key(
                stream,
                self.seed,
                aspect,
                index,
                wording=self.wording,
                held_out="yes" if every and index % every == every - 1 else "no",
                vocabulary=self.vocabulary,
            )
            for aspect in ASPECTS
            for index in range(self.items.get(aspect, 0))
        ]

    def settings(self, key: Key) -> Settings:
        """Return how an item's pictures are rendered; both share the sampler's seed, so also the noise.

        >>> Recipe(name="few", seed=1, size=64, items={"counting": 2}).settings(Key("demo", 1, "counting", 0)).size
        64
        """
        return Settings(self.size, self.samples, self.depth, seed=self.seed * 1000 + key.index)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a TOML file.

    Raises:
        DataError: the file is missing, is not TOML, or holds an unknown key or a value out of range.

    >>> read_recipe(Path("missing.toml"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: no such recipe; name a TOML file with the keys name, seed, size, samples, depth, quality, wording, held_out_every, attempts, items, vocabulary
    """
    if not path.exists():
        raise DataError(f"{path}: no such recipe; name a TOML file with the keys {', '.join(Recipe.model_fields)}")
    return checked(Recipe, read_toml(path), str(path))
