"""The builder `scenes`: two pictures and two captions of rendered scenes, after EqBen's Figure 14, checked by masks.

The objects are those of a vocabulary, or of a folder of scanned objects.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.data.item import Item
from tellapart.data.rows import read_csv, read_toml
from tellapart.errors import DataError
from tellapart_render.captions.grammar import (
    ASPECTS,
    GRADED,
    Aspect,
    Noun,
    Vocabulary,
    add_vocabulary,
    split_phrase,
    vocabulary,
)
from tellapart_render.meshes.assets import Up, find_assets, read_asset, register
from tellapart_render.meshes.materials import PALETTE
from tellapart_render.meshes.objects import shape
from tellapart_render.renderers.mitsuba import MITSUBA
from tellapart_render.renderers.mitsuba import masks as mitsuba_masks
from tellapart_render.renderers.renderer import Renderer, Settings
from tellapart_render.scene_file import RendererName, load_renderer, scene_of_item
from tellapart_render.scenes.quadruple import (
    LEVELS,
    Exchange,
    Fact,
    HeldOut,
    Key,
    Quadruple,
    Surroundings,
    View,
    Wording,
    draw,
    draw_level,
    measure_level,
)
from tellapart_render.scenes.scene import Scene, project


class Drawing(BaseModel):
    """Options of the builder `scenes` that any renderer and vocabulary take.

    Attributes:
        size: side of the pictures in pixels.
        samples: light paths per pixel.
        depth: length of the longest light path.
        quality: WebP quality, 1..100.
        wording: `minimal` (captions differ in the changed phrase alone) or `paper` (Figure 14's looser one).
        held_out_every: every n-th item shows a pair of shape and colour that training scenes never show; 0 for none.
        attempts: the most draws of one item.
        unseen: which of `camera`, `light` and `ground` are drawn from ranges that other sets never show.
        exchange: which of `colours`, `numbers` and `places` order items exchange, in turn; all if empty.
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
    """Everything that determines the pictures of a rendered set: a `Drawing`, its seed and its vocabulary."""

    seed: int = Field(ge=0)
    vocabulary: str = "demo"

    def item_keys(self, stream: str = "demo") -> list[Key]:
        """Return the key of every item's first attempt, aspect by aspect."""
        interval, rules = self.held_out_every, (tuple(self.unseen), tuple(self.exchange))
        keys = []
        for aspect in (*ASPECTS, *GRADED):
            for index in range(self.items.get(aspect, 0)):
                held_out: HeldOut = "yes" if interval and (index + 1) % interval == 0 else "no"
                choices = (self.wording, held_out, self.vocabulary, *rules)
                keys.append(Key(stream, self.seed, aspect, index, 0, *choices))
        return keys

    def settings(self, key: Key) -> Settings:
        """Return the settings for an item's pictures; both have the sampler's seed, and so the same noise."""
        seed = (self.seed * 1000 + key.index) % 2**32  # renderers take seeds of 32 bits
        return Settings(self.size, self.samples, self.depth, seed)


Masks = Callable[[Scene, int], tuple[NDArray[np.int16], list[int]]]  # `Renderer.masks`

MIN_AREA = 0.008
"""Smallest visible part of an object, as a share of the picture."""
MIN_SHARE = 0.5
"""Smallest visible part of an object, as a share of the pixels that it would fill alone."""
MIN_OFFSET = 0.08
"""Smallest horizontal distance of mask centroids for left and right, as a share of the picture's width."""
MAX_SLANT = 0.6
"""Largest offset across a relation's axis, as a share of the offset along it."""

REASONS = ("too small", "occluded", "cut off", "wrong count", "wrong side", "wrong depth", "not on top")


class NoDrawError(DataError):
    """No attempt of an item shows its facts."""


def draw_accepted(key: Key, attempts: int, size: int, masks: Masks = mitsuba_masks) -> tuple[Quadruple, list[str]]:
    """Return the first attempt of a key whose masks show its facts, and why the earlier attempts were rejected."""
    rejected: list[str] = []
    for attempt in range(attempts):
        quadruple = (draw if key.aspect in ASPECTS else draw_level)(replace(key, attempt=attempt))
        reason = check(quadruple, size, masks)
        if reason is None:
            return quadruple, rejected
        rejected.append(reason)
    counts = dict(Counter(rejected))
    fault = f"none of {attempts} draws shows its captions' content ({counts})"
    raise NoDrawError(f"{key.name}: {fault}; change the seed or raise the attempts")


def check(quadruple: Quadruple, size: int, masks: Masks = mitsuba_masks) -> str | None:
    """Render the masks of both scenes, with a side of `size` pixels, and return the first fault, or None."""
    pairs = zip(quadruple.scenes, quadruple.facts, strict=True)
    faults = (find_fault(scene, fact, *masks(scene, size)) for scene, fact in pairs)
    return next((fault for fault in faults if fault is not None), None)


def find_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16], alone: list[int]) -> str | None:
    """Return the reason why a scene does not show a fact, or None; `visible` and `alone` are its `Renderer.masks`."""
    areas = [int((visible == k).sum()) for k in range(len(scene.things))]
    if min(areas) < fact.slack * MIN_AREA * visible.size:
        return "too small"
    if any(area < fact.slack * MIN_SHARE * lone_area for area, lone_area in zip(areas, alone, strict=True)):
        return "occluded"
    border = np.concatenate([visible[0], visible[-1], visible[:, 0], visible[:, -1]])
    if (border >= 0).any():
        return "cut off"
    if len(areas) != fact.count:
        return "wrong count"
    return None if fact.relation is None else _relation_fault(scene, fact, visible)


def _relation_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16]) -> str | None:
    """Return why thing 0 is not in a fact's relation to thing 1: by mask centroids, depths or positions."""
    thing, subject = scene.things[:2]
    shift = np.subtract(thing.position, subject.position)
    if fact.relation == "top":
        top = shape(subject.shape).top
        is_resting = top is not None and abs(shift[2] - top.height * subject.size) < 1e-3
        return None if is_resting and float(np.hypot(shift[0], shift[1])) < 1e-3 else "not on top"
    if abs(shift[2]) > 1e-3:
        return "not on top"
    if fact.relation in ("left", "right"):
        columns = [float(np.nonzero(visible == k)[1].mean()) for k in (0, 1)]
        offset = (columns[0] - columns[1]) / visible.shape[1] * (1.0 if fact.relation == "right" else -1.0)
        return None if offset >= MIN_OFFSET and abs(shift[1]) <= MAX_SLANT * abs(shift[0]) else "wrong side"
    depth = project(np.array([thing.position, subject.position]), scene.camera)[:, 2]
    nearer = (depth[1] - depth[0]) * (1.0 if fact.relation == "front" else -1.0)
    return None if nearer > 0 and abs(shift[0]) <= MAX_SLANT * abs(shift[1]) else "wrong depth"


ABOUT: dict[str, str] = {
    "title": "Rendered scenes that differ in one attribute, count or location, or in the order of words",
    "description": "2x2 minimal pairs after EqBen's Eq-Kubric: both captions differ in the changed phrase alone, or "
    "(order) in the order of the same words; both pictures share camera, light, floor and all other objects. Checked "
    "against the renderer's object masks.",
    "licence": "Apache-2.0",
    "citation": "Templates and vocabulary after Wang et al., Equivariant Similarity for Vision-Language Foundation "
    "Models (EqBen), ICCV 2023, Figure 14",
}
"""The fields that every rendered set's card has."""


def pictures(quadruple: Quadruple, recipe: Recipe, renderer: Renderer = MITSUBA) -> list[NDArray[np.uint8]]:
    """Render both pictures of a quadruple: sRGB uint8 `(size, size, 3)` each."""
    return [renderer.render(scene, recipe.settings(quadruple.key)) for scene in quadruple.scenes]


def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """Encode a picture as WebP."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", quality=quality, method=6)
    return buffer.getvalue()


def _item_provenance(quadruple: Quadruple, recipe: Recipe, renderer: Renderer) -> dict[str, Any]:
    """Return an item's provenance: camera, light and ground of both scenes, each scene's things, and the renderer."""
    first, second = (scene.to_record() for scene in quadruple.scenes)
    return {
        **{name: first[name] for name in ("camera", "light", "ground")},
        "things": [first["things"], second["things"]],
        "renderer": ", ".join(f"{name} {version}" for name, version in renderer.versions.items()),
        "attempt": quadruple.key.attempt,
        "settings": {"renderer": renderer.name, **asdict(recipe.settings(quadruple.key))},
    }


def make_item(key: Key, recipe: Recipe, renderer: Renderer = MITSUBA) -> tuple[Item, dict[str, bytes], list[str]]:
    """Draw, check and render one item; return it, its pictures by reference, and its rejected draws' reasons."""
    quadruple, rejected = draw_accepted(key, recipe.attempts, recipe.size, renderer.masks)
    names = [f"images/{key.name}_{side}.webp" for side in (0, 1)]
    rendered = pictures(quadruple, recipe, renderer)
    files = {name: encode(pixels, recipe.quality) for name, pixels in zip(names, rendered, strict=True)}
    tags = {"aspect": key.aspect, "change": quadruple.change, "held_out": key.held_out}
    if key.aspect in LEVELS:
        scenes = zip(rendered, quadruple.scenes, strict=True)
        views = [View(pixels, *renderer.masks(scene, recipe.size)) for pixels, scene in scenes]
        tags["level"] = f"{measure_level(key.aspect, quadruple.scenes, views):g}"
    item = {"id": key.name, "images": names, "texts": quadruple.captions, "tags": tags, "cluster": key.name}
    item["provenance"] = _item_provenance(quadruple, recipe, renderer)
    # Through JSON, so that an item is the same whether it was just made or read back.
    return Item.model_validate_json(json.dumps(item)), files, rejected


# A vocabulary from a folder of scanned objects: the names of its assets in captions.
#
# Names come from a TOML file (`Folder_Name = "red coffee mug"`, or `Folder_Name = { noun = "red coffee mug", category =
# "mug" }`) or a CSV file with the columns folder, noun and, optionally, category. Without a file, an asset has its
# folder's name, in words, and its category is that of its `metadata.pbtxt`, or else its last word.

# As in `categories { first: "Shoe" }`.
_CATEGORY = re.compile(r'categories\s*\{\s*first:\s*"([^"\n]{1,80})"')
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class AssetVocabulary(NamedTuple):
    """The vocabulary's name, and the SHA-256 of each of its assets, by the asset's name."""

    name: str
    inputs: dict[str, str]


def folder_words(folder_name: str) -> str:
    """Return a folder's name in words: split at capitals and signs, without numbers and single letters.

    >>> folder_words("BIA_Porcelain_Ramekin_With_Glazed_Rim_35_45_oz_cup")
    'bia porcelain ramekin with glazed rim oz cup'
    """
    return " ".join(word.lower() for word in _WORDS.findall(folder_name) if len(word) > 1)


def read_names(path: Path) -> dict[str, tuple[str, str]]:
    """Read a names file: noun phrase and category (or "") by folder name."""
    if not path.exists():
        fix = 'write Folder_Name = "red coffee mug" for each asset (TOML), or a CSV of folder,noun'
        raise DataError(f"{path}: no such file; {fix}")
    names: dict[str, tuple[str, str]] = {}
    if path.suffix == ".csv":
        for line, row in read_csv(path):
            folder, noun = (row.get(column, "").strip() for column in ("folder", "noun"))
            if not folder or not noun:
                raise DataError(f"{path}:{line}: needs the columns folder and noun, got {row}")
            if folder in names:
                raise DataError(f"{path}:{line}: names the folder {folder!r} again; leave one of its rows")
            names[folder] = (noun, row.get("category", "").strip())
        return names
    for folder, value in read_toml(path).items():
        entry = value if isinstance(value, dict) else {"noun": value}
        phrase, category = entry.get("noun"), entry.get("category", "")
        has_known_keys = entry.keys() <= {"noun", "category"}
        if not (has_known_keys and isinstance(phrase, str) and phrase.strip() and isinstance(category, str)):
            raise DataError(f"{path}: field {folder!r}: needs a noun phrase, or noun and category; got {value!r}")
        names[folder] = (phrase, category)
    return names


def asset_vocabulary(folder: Path, names: Path | None, up: Up = "z") -> AssetVocabulary:
    """Read the assets that the file `names` lists, or all of them, and add their vocabulary to this process."""
    assets = find_assets(folder)
    entries = dict.fromkeys(assets, ("", "")) if names is None else read_names(names)
    nouns: list[Noun] = []
    inputs: dict[str, str] = {}
    for name, (phrase, category) in entries.items():
        asset = read_asset(folder, name, up)
        inputs[name] = asset.sha256
        words = " ".join((phrase or folder_words(name)).split())
        head = words.partition(" with ")[0].split()
        colour = next((word for word in head[:-1] if word in PALETTE), "")
        nouns.append(
            split_phrase(category or _read_category(folder / name) or head[-1], words, register(asset), colour)
        )
    twice = [phrase for phrase, count in Counter(noun.phrase() for noun in nouns).items() if count > 1]
    if twice:
        raise DataError(f"{names or folder}: two assets are called {twice[0]!r}; give each a different name")
    groups: dict[str, list[Noun]] = defaultdict(list)
    for noun in nouns:
        groups[noun.category].append(noun)
    if len(groups) < 2:
        raise DataError(f"{names or folder}: all assets are of one category ({', '.join(groups)}); scenes relate two")
    digest = hashlib.sha256(repr([(noun.phrase(), noun.category, noun.shape) for noun in nouns]).encode()).hexdigest()
    varied = {name: tuple(group) for name, group in groups.items() if len(group) > 1}
    vocabulary_name = f"assets-{digest[:12]}"
    add_vocabulary(Vocabulary(vocabulary_name, varied, tuple(nouns), tuple(nouns)))
    return AssetVocabulary(vocabulary_name, inputs)


def _read_category(folder: Path) -> str:
    """Return the category that an asset's metadata names, or ""."""
    path = folder / "metadata.pbtxt"
    if not path.is_file():
        return ""
    category = _CATEGORY.search(path.read_text(encoding="utf-8", errors="replace")[:100_000])
    return category[1].lower() if category else ""


#: The card's words about masks.
MASKS = (
    "masks/ITEM_IMAGE_THING.png: white where the thing is seen; an item's provenance lists them under masks, in the "
    "order of its things"
)


class Scenes:
    """Render pairs of scenes that differ in one attribute, count or location, or in the order of the same words.

    A candidate is an aspect and an item number. If the rendered masks do not show what a draw's captions say, the
    builder draws again, up to `attempts` times.

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
            fault = f"{vocabulary_name} holds nothing out; set it to 0"
            raise DataError(f"held_out_every = {options.held_out_every}: {fault}")
        shared = options.model_dump(include=set(Drawing.model_fields))
        self._masks = options.masks
        self._recipe = Recipe(seed=start.seed, vocabulary=vocabulary_name, **shared)

    def _read_assets(self, start: Start, options: Options) -> str:
        """Read the assets and return their vocabulary's name."""
        names = start.home / options.names if options.names else None
        name, self._inputs = asset_vocabulary(start.home / options.assets, names, options.up)
        if options.items.get("attribute") and not vocabulary(name).categories:
            fault = "no two assets share a category, so the attribute aspect has nothing to change"
            fix = "give them categories in `names`, or ask for no attribute items"
            raise DataError(f"{options.assets}: {fault}; {fix}")
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
        """Draw until the masks show what the captions say, and render both scenes."""
        key = Key(**candidate.data)
        try:
            item, images, redrawn = make_item(key, self._recipe, self._renderer)
        except NoDrawError:
            return Rejected("masks", f"none of {self._recipe.attempts} draws shows what its captions say")
        if self._masks:
            masks = [self._draw_masks(item, side) for side in (0, 1)]
            provenance = item.provenance | {"masks": [[*files] for files in masks]}
            item, images = item.model_copy(update={"provenance": provenance}), images | masks[0] | masks[1]
        return Made(item, images, tuple(redrawn))

    def _draw_masks(self, item: Item, side: int) -> dict[str, bytes]:
        """Return the masks of a picture's things, in the order of `things` in the provenance, by reference."""
        scene = scene_of_item(item, side).scene
        visible, _alone = self._renderer.masks(scene, self._recipe.size)
        files = {}
        for number in range(len(scene.things)):
            stream = io.BytesIO()
            Image.fromarray(np.where(visible == number, 255, 0).astype(np.uint8)).save(stream, "PNG", optimize=True)
            files[f"masks/{item.id}_{side}_{number}.png"] = stream.getvalue()
        return files
