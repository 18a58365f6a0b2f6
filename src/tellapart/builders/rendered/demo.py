"""Build the rendered pair set that ships with tellapart, or any other from a recipe.

`python -m tellapart.builders.rendered.demo --recipe recipe.toml --out DIR --workers N`. Every item depends on the recipe and its own
number alone. Finished items are kept beside the folder until all are there, so that a second call goes on where the
first one stopped; the folder itself appears whole or not at all.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.grammar import COUNTS, LOCATIONS, PLACES, SIZES, VERBS
from tellapart.builders.rendered.quadruple import Key, Quadruple, draw
from tellapart.builders.rendered.recipe import Recipe, read_recipe
from tellapart.builders.rendered.renderers import MITSUBA, Renderer
from tellapart.builders.rendered.verify import MIN_AREA, MIN_SHARE, check
from tellapart.builders.rendered.vocabulary import DEMO, vocabulary
from tellapart.builders.rendered.workers import spread
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError, require

__all__ = ["ABOUT", "LEFT_OUT", "accepted", "build", "build_item", "encode", "main", "make_item", "pictures"]

LEFT_OUT: tuple[str, ...] = (
    "categories Shoe and Storage",
    "toy animals (turtle, dog, shark, elephant, eagle, bull)",
    "footwear, gloves, scissors, hammer, backpack, gaming mouse, gameboy, pink damask bath towel",
)
"""What Figure 14 names and the demo's vocabulary lacks; `vocabulary = "figure-14"` has all of it."""

ABOUT: dict[str, str] = {
    "title": "Rendered scenes that differ in one attribute, count or location",
    "description": "2x2 minimal pairs after EqBen's Eq-Kubric: both captions differ in the changed phrase alone, both "
    "pictures share camera, light, floor and all other objects. Checked against the renderer's object masks.",
    "licence": "Apache-2.0",
    "citation": "Templates and vocabulary after Wang et al., Equivariant Similarity for Vision-Language Foundation Models "
    "(EqBen), ICCV 2023, Figure 14",
}
"""What every rendered set's card says."""


def accepted(key: Key, recipe: Recipe, renderer: Renderer = MITSUBA) -> tuple[Quadruple, list[str]]:
    """Return the first draw that its own masks confirm, and why the earlier ones were rejected.

    Raises:
        DataError: every attempt failed; the message counts the reasons.
        MissingDependencyError: Mitsuba is not installed.

    >>> recipe = Recipe(name="few", seed=3, size=48, items={"location": 1})
    >>> quadruple, rejected = accepted(recipe.item_keys()[0], recipe)
    >>> quadruple.key.attempt == len(rejected)
    True
    """
    rejected: list[str] = []
    for attempt in range(recipe.attempts):
        quadruple = draw(replace(key, attempt=attempt))
        reason = check(quadruple, recipe.size, renderer.masks)
        if reason is None:
            return quadruple, rejected
        rejected.append(reason)
    raise DataError(
        f"{key.name}: none of {recipe.attempts} draws shows what its captions say ({dict(Counter(rejected))}); "
        "change the recipe's seed or raise its attempts"
    )


def pictures(quadruple: Quadruple, recipe: Recipe, renderer: Renderer = MITSUBA) -> list[NDArray[np.uint8]]:
    """Render both pictures of a quadruple: sRGB uint8 `(size, size, 3)` each.

    Raises:
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> recipe = Recipe(name="few", seed=3, size=32, samples=1, items={"location": 1})
    >>> [picture.shape for picture in pictures(draw(recipe.item_keys()[0]), recipe)]
    [(32, 32, 3), (32, 32, 3)]
    """
    return [renderer.render(scene, recipe.settings(quadruple.key)) for scene in quadruple.scenes]


def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """Encode a picture as WebP.

    >>> encode(np.zeros((8, 8, 3), dtype=np.uint8), 80)[8:12]
    b'WEBP'
    """
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", quality=quality, method=6)
    return buffer.getvalue()


def _described(quadruple: Quadruple, recipe: Recipe, renderer: Renderer) -> dict[str, Any]:
    """Return an item's provenance: what both scenes share once, and each scene's things (`Scene.to_record`)."""
    first, second = (scene.to_record() for scene in quadruple.scenes)
    return {
        "recipe": recipe.fingerprint,
        "seed": [quadruple.key.seed, quadruple.key.index, quadruple.key.attempt],
        "camera": first["camera"],
        "light": first["light"],
        "ground": first["ground"],
        "things": [first["things"], second["things"]],
        "renderer": ", ".join(f"{name} {version}" for name, version in renderer.versions.items()),
    }


def make_item(key: Key, recipe: Recipe, renderer: Renderer = MITSUBA) -> tuple[Item, dict[str, bytes], list[str]]:
    """Draw, check and render one item; return it, its pictures by reference, and its rejected draws' reasons.

    Raises:
        DataError: no draw was accepted.
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> recipe = Recipe(name="few", seed=3, size=40, samples=1, items={"counting": 1})
    >>> item, files, _ = make_item(recipe.item_keys()[0], recipe)
    >>> item.images == tuple(files), item.id
    (True, 'counting-000')
    """
    quadruple, rejected = accepted(key, recipe, renderer)
    names = [f"images/{key.name}_{side}.webp" for side in (0, 1)]
    drawn = zip(names, pictures(quadruple, recipe, renderer), strict=True)
    files = {name: encode(pixels, recipe.quality) for name, pixels in drawn}
    item = {
        "id": key.name,
        "images": names,
        "texts": quadruple.captions,
        "tags": {"aspect": key.aspect, "change": quadruple.change, "held_out": key.held_out},
        "cluster": key.name,
        "provenance": _described(quadruple, recipe, renderer),
    }
    # Through JSON, so that an item is the same whether it was just made or read back.
    return Item.model_validate_json(json.dumps(item)), files, rejected


def build_item(key: Key, recipe: Recipe, work: Path) -> list[str]:
    """Draw, check and render one item into a work folder, unless it is there; return its rejected draws' reasons.

    Raises:
        DataError: no draw was accepted.
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> import tempfile
    >>> recipe = Recipe(name="few", seed=3, size=40, samples=1, items={"counting": 1})
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     _ = build_item(recipe.item_keys()[0], recipe, Path(scratch))
    ...     sorted(path.name for path in Path(scratch).iterdir())
    ['counting-000.json', 'counting-000_0.webp', 'counting-000_1.webp']
    """
    done = work / f"{key.name}.json"
    if done.exists():
        rejected: list[str] = json.loads(done.read_text())["rejected"]
        return rejected
    item, files, rejected = make_item(key, recipe)
    for name, data in files.items():
        (work / Path(name).name).write_bytes(data)
    # The record comes last and by a rename: where it stands, the pictures are whole.
    draft = done.with_suffix(".part")
    draft.write_text(json.dumps({"item": item.model_dump(), "rejected": rejected}))
    draft.rename(done)
    return rejected


def build(recipe: Recipe, out: Path, *, workers: int = 1, notes: dict[str, str] | None = None) -> None:
    """Render a whole pair set into a new folder.

    Args:
        recipe: what to draw.
        out: the folder; must not exist, or be empty.
        workers: processes; the result does not depend on it.
        notes: more fields for `card.json`, such as what was found when the set was rendered twice.

    Raises:
        DataError: the folder holds something, or an item could not be drawn.
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> import tempfile
    >>> recipe = Recipe(name="few", seed=3, size=40, samples=1, items={"counting": 1})
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     build(recipe, Path(scratch) / "few")
    ...     sorted(path.name for path in (Path(scratch) / "few").iterdir())
    ['card.json', 'images', 'pairs.jsonl', 'recipe.toml']
    """
    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out} exists already; build a pair set in a new folder")
    require("mitsuba", extra="render")
    require("pyoidn", extra="render")
    work = out.with_name(f".{out.name}-{recipe.fingerprint}")
    work.mkdir(parents=True, exist_ok=True)
    keys = recipe.item_keys()
    funnel: Counter[str] = Counter(drawn=len(keys), accepted=len(keys))
    task = partial(build_item, recipe=recipe, work=work)
    for rejected in spread(task, keys, workers, recipe.name):
        funnel.update(f"rejected: {reason}" for reason in rejected)
        funnel["drawn"] += len(rejected)
    items = [
        Item.model_validate_json(json.dumps(json.loads((work / f"{k.name}.json").read_text())["item"])) for k in keys
    ]
    files = {name: (work / Path(name).name).read_bytes() for item in items for name in item.images}
    write_pair_set(out, items, files, _card(recipe, items, funnel, files.values()) | (notes or {}))
    (out / "recipe.toml").write_text(_toml(recipe), encoding="utf-8")
    shutil.rmtree(work)


def _card(recipe: Recipe, items: Sequence[Item], funnel: Counter[str], files: Iterable[bytes]) -> dict[str, Any]:
    """Return what the set says of itself."""
    words = vocabulary(recipe.vocabulary)
    return {
        "name": recipe.name,
        "title": ABOUT["title"],
        "description": ABOUT["description"],
        "licence": ABOUT["licence"],
        "source": "made by tellapart.builders.rendered.demo from recipe.toml; no foreign meshes or pictures",
        "citation": ABOUT["citation"],
        "recipe": recipe.values(),
        "recipe_fingerprint": recipe.fingerprint,
        "counts": {
            tag: dict(sorted(Counter(item.tags[tag] for item in items).items()))
            for tag in ("aspect", "change", "held_out")
        },
        "bytes": sum(len(data) for data in files),
        "funnel": dict(sorted(funnel.items())),
        "checks": {
            "smallest_visible_share_of_picture": MIN_AREA,
            "smallest_visible_share_of_object": MIN_SHARE,
            "masks": "1 ray a pixel, box filter, shape_index; left and right by mask centroids, front and behind by "
            "camera depth, on top by geometry, count by visible objects, nothing cut off by the border",
        },
        "grammar": {
            "from_figure_14": sorted(each.phrase() for each in words.objects if each.listed),
            "added": sorted(each.phrase() for each in words.objects if not each.listed),
            "left_out": list(LEFT_OUT if words is DEMO else ()),
            "held_out_from_training": sorted(each.phrase() for each in words.objects if words.holds_out(each)),
            "verbs": list(VERBS),
            "locations": [words for group in LOCATIONS.values() for words in group],
            "sizes": list(SIZES),
            "counts": list(COUNTS if recipe.wording == "paper" else COUNTS[1:]),
            "places": list(PLACES),
        },
        "versions": {name: metadata.version(name) for name in ("mitsuba", "pyoidn", "numpy", "pillow")},
    }


def _toml(recipe: Recipe) -> str:
    """Write a recipe as TOML: its values are numbers, plain strings and one table."""
    lines = ["# Regenerate with: python -m tellapart.builders.rendered.demo --recipe recipe.toml --out DIR --workers N"]
    values = recipe.values()
    table = values.pop("items")
    lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    lines += ["", "[items]", *(f"{key} = {value}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a pair set from the command line; returns the exit status.

    Raises:
        DataError: the recipe is not valid, the folder holds something, or an item could not be drawn.

    >>> main(["--recipe", "missing.toml", "--out", "unused"])
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: no such recipe; name a TOML file with the keys name, seed, size, samples, depth, quality, wording, held_out_every, attempts, items, vocabulary
    """
    parser = argparse.ArgumentParser(prog="python -m tellapart.builders.rendered.demo", description=__doc__)
    parser.add_argument("--recipe", type=Path, required=True, help="a TOML file")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--note", action="append", default=[], metavar="KEY=TEXT", help="one more field of card.json")
    chosen = parser.parse_args(arguments)
    notes = dict(note.split("=", 1) for note in chosen.note)
    build(read_recipe(chosen.recipe), chosen.out, workers=chosen.workers, notes=notes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
