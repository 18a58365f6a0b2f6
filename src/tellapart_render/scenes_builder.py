"""The builder `scenes`: rendered quadruples after EqBen's Figure 14, each verified by the renderer's masks."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np
from PIL import Image
from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart_render.captions.asset_vocabulary import asset_vocabulary
from tellapart_render.captions.grammar import GRADED
from tellapart_render.captions.vocabulary import vocabulary
from tellapart_render.meshes.assets import Up
from tellapart_render.recipe import Drawing, Recipe
from tellapart_render.scene_file import RendererName, load_renderer, scene_of_item
from tellapart_render.scene_items import ABOUT, make_item
from tellapart_render.scenes.quadruple import Key

#: The card's words about masks.
MASKS = (
    "masks/ITEM_IMAGE_THING.png: white where the thing is seen; an item's provenance lists them under masks, in the "
    "order of its things"
)


class Scenes:
    """Render pairs of scenes that differ in one attribute, count or location, or in the order of the same words.

    A candidate is an aspect and an item number. If the rendered masks do not confirm a draw's captions, the builder
    draws again, up to `attempts` times.

    >>> from pathlib import Path
    >>> options = Scenes.Options(items={"counting": 2})
    >>> [candidate.id for candidate in Scenes(Start(options, 1, Path("."))).candidates()]
    ['counting-000', 'counting-001']
    """

    class Options(Drawing):
        """The recipe's `[options]`: those of `Drawing`, and options of the objects and the renderer.

        Attributes:
            vocabulary: `figure-14` for all objects of the paper's figure, `demo` for those of the shipped demo set.
            assets: a folder of scanned objects that replaces the vocabulary; if empty, the vocabulary is used.
            names: a TOML or CSV file with the names of the scanned objects.
            up: the axis that points up in the scanned objects.
            masks: write a PNG file for each thing of each picture, white where it is seen.
            renderer: `mitsuba` or `blender`, whose Python interpreter the variable TELLAPART_BLENDER_PYTHON names.
        """

        vocabulary: Literal["demo", "figure-14"] = "figure-14"
        assets: str = ""
        names: str = ""
        up: Up = "z"
        renderer: RendererName = "mitsuba"
        masks: bool = False

    def __init__(self, start: Start) -> None:
        options: Scenes.Options = start.options
        self._renderer = load_renderer(options.renderer)
        self._versions = dict(self._renderer.versions)
        self._inputs: Mapping[str, str] = {}
        vocabulary_name = options.vocabulary if not options.assets else self._read_assets(start, options)
        if options.held_out_every and not vocabulary(vocabulary_name).held_out:
            raise DataError(
                f"held_out_every = {options.held_out_every}: {vocabulary_name} holds nothing out; set it to 0"
            )
        shared = options.model_dump(include=set(Drawing.model_fields))
        self._masks = options.masks
        self._recipe = Recipe(seed=start.seed, vocabulary=vocabulary_name, **shared)

    def _read_assets(self, start: Start, options: Options) -> str:
        """Read the assets and return their vocabulary's name."""
        names = start.home / options.names if options.names else None
        name, self._inputs = asset_vocabulary(start.home / options.assets, names, options.up)
        if options.items.get("attribute") and not vocabulary(name).categories:
            raise DataError(
                f"{options.assets}: no two assets share a category, so the attribute aspect has nothing to change; "
                "give them categories in `names`, or ask for no attribute items"
            )
        if graded := [aspect for aspect, number in options.items.items() if number and aspect in GRADED]:
            raise DataError(f"{options.assets}: scanned objects cannot be repainted; set items.{graded[0]} to 0")
        return name

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """The card's title, description, licence, source and citation."""
        masks = {"masks": MASKS} if self._masks else {}
        if self._inputs:
            source = "rendered by tellapart from scanned objects of the user's; see inputs"
            return {**ABOUT, **masks, "source": source, "licence": "that of the scanned objects"}
        return {**ABOUT, **masks, "source": "rendered by tellapart; no foreign meshes or pictures"}

    @property
    def inputs(self) -> Mapping[str, str]:
        """The files of the assets, meshes and textures, for the card; empty without assets."""
        return self._inputs

    @property
    def models(self) -> Mapping[str, str]:
        """The renderer and the denoiser, with their versions."""
        return self._versions

    def candidates(self) -> Sequence[Candidate]:
        """Return one candidate for every item that the options ask for, aspect by aspect."""
        return [Candidate(key.name, asdict(key)) for key in self._recipe.item_keys()]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Draw until the masks confirm the captions, and render both scenes."""
        key = Key(**candidate.data)
        try:
            item, images, redrawn = make_item(key, self._recipe, self._renderer)
        except DataError:  # no draw was accepted
            return Rejected("masks", f"none of {self._recipe.attempts} draws shows what its captions say")
        if self._masks:
            masks = [self._draw_masks(item, side) for side in (0, 1)]
            provenance = item.provenance | {"masks": [[*files] for files in masks]}
            item, images = item.model_copy(update={"provenance": provenance}), images | masks[0] | masks[1]
        return Made(item, images, tuple(redrawn))

    def _draw_masks(self, item: Item, side: int) -> dict[str, bytes]:
        """Return the masks of a picture's things, in the order of `things` in the provenance, by reference."""
        scene = scene_of_item(item, side).scene
        visible, _ = self._renderer.masks(scene, self._recipe.size)
        files = {}
        for number in range(len(scene.things)):
            stream = io.BytesIO()
            Image.fromarray(np.where(visible == number, 255, 0).astype(np.uint8)).save(stream, "PNG", optimize=True)
            files[f"masks/{item.id}_{side}_{number}.png"] = stream.getvalue()
        return files
