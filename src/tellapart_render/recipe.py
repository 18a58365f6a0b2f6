"""What determines a rendered pair set: every value changes the pictures or how they are stored."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tellapart_render.captions.grammar import ASPECTS, GRADED, Aspect
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scenes.quadruple import Exchange, HeldOut, Key, Surroundings, Wording


class Drawing(BaseModel):
    """Options of the builder `scenes` that any renderer and vocabulary take.

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
    """Everything that determines the pictures of a rendered set: a `Drawing`, its seed and its vocabulary.

    >>> [key.held_out for key in Recipe(seed=1, held_out_every=2, items={"counting": 3}).item_keys()]
    ['no', 'yes', 'no']
    """

    seed: int = Field(ge=0)
    vocabulary: str = "demo"

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
