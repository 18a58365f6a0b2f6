"""Build the rendered pair set that ships with tellapart, or any other from a recipe.

`python -m tellapart_render.demo --recipe recipe.toml --out DIR --workers N`. Every item depends on the
recipe and its number alone. Finished items are kept next to the folder until all are there, so that a second call
continues after the last finished item; the folder itself is written atomically.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.executor import Lost, ProcessExecutor
from tellapart.data.atomic import atomic_file
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError, require
from tellapart_render.captions.grammar import ASPECTS, COUNTS, LOCATIONS, PLACES, SIZES, VERBS
from tellapart_render.captions.vocabulary import DEMO, vocabulary
from tellapart_render.meshes.objects import shape
from tellapart_render.recipe import Recipe, read_recipe
from tellapart_render.renderers.mitsuba import MITSUBA
from tellapart_render.renderers.mitsuba import masks as mitsuba_masks
from tellapart_render.renderers.renderer import Renderer
from tellapart_render.scenes.levels import LEVELS, View, draw_level, measure_level
from tellapart_render.scenes.quadruple import Fact, Key, Quadruple, draw
from tellapart_render.scenes.scene import Scene, project

Masks = Callable[[Scene, int], tuple[NDArray[np.int16], list[int]]]

MIN_AREA = 0.008
"""Smallest visible part of an object, as a share of the picture."""
MIN_SHARE = 0.5
"""Smallest visible part of an object, as a share of what it would fill alone."""
MIN_OFFSET = 0.08
"""Smallest horizontal distance of mask centroids for left and right, as a share of the picture's width."""
MAX_SLANT = 0.6
"""Largest offset across a relation's axis, as a share of the offset along it."""

REASONS = ("too small", "occluded", "cut off", "wrong count", "wrong side", "wrong depth", "not on top")


def draw_accepted(key: Key, attempts: int, size: int, masks: Masks = mitsuba_masks) -> tuple[Quadruple, list[str]]:
    """Return a key's first draw that its masks confirm, and the reasons for which the earlier ones were rejected.

    >>> quadruple, rejected = draw_accepted(Key("test", 0, "location", 1), 60, 48)
    >>> quadruple.key.attempt == len(rejected)
    True
    """
    rejected: list[str] = []
    for attempt in range(attempts):
        quadruple = (draw if key.aspect in ASPECTS else draw_level)(replace(key, attempt=attempt))
        reason = check(quadruple, size, masks)
        if reason is None:
            return quadruple, rejected
        rejected.append(reason)
    raise DataError(
        f"{key.name}: none of {attempts} draws shows its captions' content ({dict(Counter(rejected))}); "
        "change the seed or raise the attempts"
    )


def check(quadruple: Quadruple, size: int, masks: Masks = mitsuba_masks) -> str | None:
    """Render both scenes' masks at `size` pixels, by the renderer that draws them, and return the first fault, or
    None.
    """
    pairs = zip(quadruple.scenes, quadruple.facts, strict=True)
    faults = (find_fault(scene, fact, *masks(scene, size)) for scene, fact in pairs)
    return next((fault for fault in faults if fault is not None), None)


def find_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16], alone: list[int]) -> str | None:
    """Return the reason why a scene does not show a fact, or None."""
    area = [int((visible == k).sum()) for k in range(len(scene.things))]
    if min(area) < fact.slack * MIN_AREA * visible.size:
        return "too small"
    if any(part < fact.slack * MIN_SHARE * lone for part, lone in zip(area, alone, strict=True)):
        return "occluded"
    border = np.concatenate([visible[0], visible[-1], visible[:, 0], visible[:, -1]])
    if (border >= 0).any():
        return "cut off"
    if len(area) != fact.count:
        return "wrong count"
    return None if fact.relation is None else _relation_fault(scene, fact, visible)


def _relation_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16]) -> str | None:
    """Check thing 0 against thing 1: sides by centroid, depth by the camera, top by geometry."""
    thing, subject = scene.things[:2]
    shift = np.subtract(thing.position, subject.position)
    if fact.relation == "top":
        top = shape(subject.shape).top
        resting = top is not None and abs(shift[2] - top.height * subject.size) < 1e-3
        return None if resting and float(np.hypot(shift[0], shift[1])) < 1e-3 else "not on top"
    if abs(shift[2]) > 1e-3:
        return "not on top"
    if fact.relation in ("left", "right"):
        columns = [float(np.nonzero(visible == k)[1].mean()) for k in (0, 1)]
        offset = (columns[0] - columns[1]) / visible.shape[1] * (1.0 if fact.relation == "right" else -1.0)
        return None if offset >= MIN_OFFSET and abs(shift[1]) <= MAX_SLANT * abs(shift[0]) else "wrong side"
    depth = project(np.array([thing.position, subject.position]), scene.camera)[:, 2]
    nearer = (depth[1] - depth[0]) * (1.0 if fact.relation == "front" else -1.0)
    return None if nearer > 0 and abs(shift[0]) <= MAX_SLANT * abs(shift[1]) else "wrong depth"


Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(task: Callable[[Job], Result], jobs: Sequence[Job], workers: int, title: str) -> Iterator[Result]:
    """Yield `task(job)` for every job, in the order in which they finish; a counter runs if there is a terminal."""
    for done, (job, result) in enumerate(ProcessExecutor(workers).perform(task, jobs), start=1):
        if isinstance(result, Lost):
            raise DataError(f"{title}: {job}: {result}; run it again, with fewer workers if memory is short")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{title}: {done}/{len(jobs)}" + ("\n" if done == len(jobs) else ""))
            sys.stderr.flush()
        yield result


LEFT_OUT: tuple[str, ...] = (
    "categories Shoe and Storage",
    "toy animals (turtle, dog, shark, elephant, eagle, bull)",
    "footwear, gloves, scissors, hammer, backpack, gaming mouse, gameboy, pink damask bath towel",
)
"""Objects of Figure 14 that the demo's vocabulary lacks; `vocabulary = "figure-14"` has them all."""

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
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", quality=quality, method=6)
    return buffer.getvalue()


def _item_provenance(quadruple: Quadruple, recipe: Recipe, renderer: Renderer) -> dict[str, Any]:
    """Return an item's provenance: the parts that both scenes share, and each scene's things (`Scene.to_record`)."""
    first, second = (scene.to_record() for scene in quadruple.scenes)
    return {
        "recipe": recipe.fingerprint,
        "seed": [quadruple.key.seed, quadruple.key.index, quadruple.key.attempt],
        **{name: first[name] for name in ("camera", "light", "ground")},
        "things": [first["things"], second["things"]],
        "renderer": ", ".join(f"{name} {version}" for name, version in renderer.versions.items()),
    }


def make_item(key: Key, recipe: Recipe, renderer: Renderer = MITSUBA) -> tuple[Item, dict[str, bytes], list[str]]:
    """Draw, check and render one item; return it, its pictures by reference, and its rejected draws' reasons."""
    quadruple, rejected = draw_accepted(key, recipe.attempts, recipe.size, renderer.masks)
    names = [f"images/{key.name}_{side}.webp" for side in (0, 1)]
    rendered = pictures(quadruple, recipe, renderer)
    files = {name: encode(pixels, recipe.quality) for name, pixels in zip(names, rendered, strict=True)}
    tags = {"aspect": key.aspect, "change": quadruple.change, "held_out": key.held_out}
    if key.aspect in LEVELS:
        masks = (renderer.masks(scene, recipe.size) for scene in quadruple.scenes)
        views = [View(pixels, *mask) for pixels, mask in zip(rendered, masks, strict=True)]
        tags["level"] = f"{measure_level(key.aspect, quadruple.scenes, views):g}"
    item = {
        "id": key.name,
        "images": names,
        "texts": quadruple.captions,
        "tags": tags,
        "cluster": key.name,
        "provenance": _item_provenance(quadruple, recipe, renderer),
    }
    # Through JSON, so that an item is the same whether it was just made or read back.
    return Item.model_validate_json(json.dumps(item)), files, rejected


def build_item(key: Key, recipe: Recipe, work: Path) -> list[str]:
    """Draw, check and render one item into a work folder, unless it is there; return its rejected draws' reasons."""
    done = work / f"{key.name}.json"
    if done.exists():
        rejected: list[str] = json.loads(done.read_text())["rejected"]
        return rejected
    item, files, rejected = make_item(key, recipe)
    for name, data in files.items():
        (work / Path(name).name).write_bytes(data)
    # The record comes last: if it exists, the pictures are complete.
    with atomic_file(done) as draft:
        draft.write_text(json.dumps({"item": item.model_dump(), "rejected": rejected}))
    return rejected


def build(recipe: Recipe, out: Path, *, workers: int = 1, notes: dict[str, str] | None = None) -> None:
    """Render all of a pair set into a new folder.

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
    for rejected in run_jobs(task, keys, workers, recipe.name):
        funnel.update(f"rejected: {reason}" for reason in rejected)
        funnel["drawn"] += len(rejected)
    items = [
        Item.model_validate_json(json.dumps(json.loads((work / f"{k.name}.json").read_text())["item"])) for k in keys
    ]
    files = {name: (work / Path(name).name).read_bytes() for item in items for name in item.images}
    write_pair_set(out, items, files, _make_card(recipe, items, funnel, files.values()) | (notes or {}))
    (out / "recipe.toml").write_text(_write_toml(recipe), encoding="utf-8")
    shutil.rmtree(work)


def _make_card(recipe: Recipe, items: Sequence[Item], funnel: Counter[str], files: Iterable[bytes]) -> dict[str, Any]:
    """Return the set's card."""
    words = vocabulary(recipe.vocabulary)
    return {
        "name": recipe.name,
        **{name: ABOUT[name] for name in ("title", "description", "licence")},
        "source": "made by tellapart_render.demo from recipe.toml; no foreign meshes or pictures",
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
            "from_figure_14": sorted(noun.phrase() for noun in words.objects if noun.listed),
            "added": sorted(noun.phrase() for noun in words.objects if not noun.listed),
            "left_out": list(LEFT_OUT if words is DEMO else ()),
            "held_out_from_training": sorted(noun.phrase() for noun in words.objects if words.holds_out(noun)),
            "verbs": list(VERBS),
            "locations": [words for group in LOCATIONS.values() for words in group],
            "sizes": list(SIZES),
            "counts": list(COUNTS if recipe.wording == "paper" else COUNTS[1:]),
            "places": list(PLACES),
        },
        "versions": {name: metadata.version(name) for name in ("mitsuba", "pyoidn", "numpy", "pillow")},
    }


def _write_toml(recipe: Recipe) -> str:
    """Write a recipe as TOML: its values are numbers, plain strings and one table."""
    lines = ["# Regenerate with: python -m tellapart_render.demo --recipe recipe.toml --out DIR --workers N"]
    values = recipe.values()
    table = values.pop("items")
    lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    lines += ["", "[items]", *(f"{key} = {value}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a pair set from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart_render.demo", description=__doc__)
    parser.add_argument("--recipe", type=Path, required=True, help="a TOML file")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--note", action="append", default=[], metavar="KEY=TEXT", help="one more field of card.json")
    options = parser.parse_args(arguments)
    notes = dict(note.split("=", 1) for note in options.note)
    build(read_recipe(options.recipe), options.out, workers=options.workers, notes=notes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
