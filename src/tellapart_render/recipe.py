"""The recipe of a rendered pair set: a TOML file whose every value changes the pictures or how they are stored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tellapart.data.rows import read_toml
from tellapart.data.validation import validate_table
from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS, GRADED, Aspect
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scenes.quadruple import Exchange, HeldOut, Key, Surroundings, Wording


class Drawing(BaseModel):
    """The values that a recipe and the options of the builder `scenes` share.

    Attributes:
        size: side of the pictures in pixels.
        samples: light paths a pixel.
        depth: longest light path.
        quality: WebP quality, 1..100.
        wording: `minimal` (captions differ in the changed phrase alone) or `paper` (Figure 14's looser one).
        held_out_every: every n-th item shows a pair of shape and colour that training scenes never show; 0 for none.
        attempts: draws of one item before the build gives up.
        unseen: of `camera`, `light` and `ground` those that are drawn from ranges which other sets never show.
        exchange: of `colours`, `numbers` and `places` those that order items swap, in turn; all if empty.
        items: number of items of each aspect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    size: int = Field(default=160, ge=16, le=2048)
    samples: int = Field(default=8, ge=1, le=4096)
    depth: int = Field(default=6, ge=1, le=32)
    quality: int = Field(default=86, ge=1, le=100)
    wording: Wording = "minimal"
    held_out_every: int = Field(default=0, ge=0)
    attempts: int = Field(default=60, ge=1)
    unseen: list[Surroundings] = []
    exchange: list[Exchange] = []
    items: dict[Aspect, int]


class Recipe(Drawing):
    """Everything that determines a rendered pair set: a `Drawing`, the set's name, its seed and its vocabulary.

    >>> [key.held_out for key in Recipe(name="few", seed=1, items={"counting": 3}).item_keys()]
    ['no', 'yes', 'no']
    """

    name: str = Field(min_length=1)
    seed: int = Field(ge=0)
    held_out_every: int = Field(default=2, ge=0)
    vocabulary: str = "demo"

    def values(self) -> dict[str, Any]:
        """Return the recipe as JSON types."""
        return {"name": self.name, "seed": self.seed} | self.model_dump(mode="json")

    @property
    def fingerprint(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the recipe's canonical JSON."""
        text = json.dumps(self.values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def item_keys(self, stream: str = "demo") -> list[Key]:
        """Return the key of every item's first attempt, aspect by aspect."""
        interval = self.held_out_every

        def key(aspect: Aspect, index: int) -> Key:
            held_out: HeldOut = "yes" if interval and (index + 1) % interval == 0 else "no"
            rules = tuple(self.unseen), tuple(self.exchange)
            return Key(stream, self.seed, aspect, index, 0, self.wording, held_out, self.vocabulary, *rules)

        return [key(aspect, index) for aspect in (*ASPECTS, *GRADED) for index in range(self.items.get(aspect, 0))]

    def settings(self, key: Key) -> Settings:
        """Return the settings for an item's pictures; both share the sampler's seed, so also the noise."""
        return Settings(self.size, self.samples, self.depth, seed=self.seed * 1000 + key.index)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a TOML file."""
    if not path.exists():
        raise DataError(f"{path}: no such recipe; name a TOML file with the keys {', '.join(Recipe.model_fields)}")
    return validate_table(Recipe, read_toml(path), str(path))
