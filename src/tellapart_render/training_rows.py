"""Training rows of rendered scenes: each picture and its mirror image, with true captions and false ones.

`python -m tellapart_render.training_rows SET ...` writes `rows.jsonl`, `captions.jsonl` and the folder
`mirrored` into each folder that `tellapart build` made with the builder `scenes`; `tellapart train` reads the files.
The grammar knows which captions are false of a picture, and names no held-out combination if none is shown: a rule
that swaps words does neither. Every second pair of rows names an object's place (`whereabouts`); `captions.jsonl` has
the grammar's alone.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.atomic import atomic_file
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart_render.captions.wordings import draw_synonyms, meaning, mirror, reword
from tellapart_render.scenes.phrases import foils, truths
from tellapart_render.scenes.quadruple import Key, Quadruple, draw
from tellapart_render.scenes.whereabouts import draw_whereabouts

__all__ = ["main", "write_training_rows"]

#: Wordings of each picture, and of its mirror image.
_WORDINGS = 3

#: The share of rows whose caption is a paraphrase (the converse, or without sizes) in place of the scene's caption.
_PARAPHRASED = 0.25

#: False captions of each kind of change: of objects there are many, and they must not crowd out the rest.
_OF_A_KIND = 2


def write_training_rows(folder: Path) -> int:
    """Write `rows.jsonl`, `captions.jsonl` and `mirrored/` into the folder of a set of scenes; return how many rows.

    Raises:
        DataError: the folder is not a set that the builder `scenes` made with this version's grammar.
    """
    pairs = read_pair_set(folder)
    recipe = pairs.card.get("recipe")
    options = recipe.get("options") if isinstance(recipe, Mapping) else None
    if not isinstance(recipe, Mapping) or recipe.get("builder") != "scenes" or not isinstance(options, Mapping):
        raise DataError(f"{folder}: its card.json names no recipe of the builder 'scenes'; build the set first")
    (folder / "mirrored").mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    own: list[dict[str, Any]] = []
    for item in pairs.items:
        quadruple = _draw_again(item, int(recipe["seed"]), options, folder)
        mirrored = [_mirror_picture(folder, reference, pairs.pixels(reference)) for reference in item.images]
        for images, flip in ((item.images, False), (mirrored, True)):
            for wording in range(_WORDINGS):
                rng = np.random.default_rng([quadruple.key.index, flip, wording])
                captions = _make_rows(_draw_captions(quadruple, flip, rng), images, item.cluster)
                own += captions
                rows += [*captions, *_make_rows(draw_whereabouts(quadruple, flip, rng), images, item.cluster)]
    _write_rows(folder / "rows.jsonl", rows)
    _write_rows(folder / "captions.jsonl", own)
    return len(rows)


def _draw_again(item: Item, seed: int, options: Mapping[str, Any], folder: Path) -> Quadruple:
    """Return the quadruple that an item shows, from the numbers that it was drawn by."""
    if "level" in item.tags:
        raise DataError(f"{folder}: {item.id}: aspect {item.tags['aspect']!r} is graded, and has no training rows")
    aspect, index, attempt = item.tags["aspect"], int(item.id.rpartition("-")[2]), item.provenance.get("attempt")
    held_out, wording = item.tags["held_out"], options.get("wording", "minimal")
    words = options.get("vocabulary", "demo")  # older sets name none, and are of the demo's
    chosen = tuple(options.get("unseen", ())), tuple(options.get("exchange", ()))
    key = Key("demo", seed, aspect, index, attempt, wording, held_out, words, *chosen)  # type: ignore[arg-type]
    quadruple = draw(key)
    if quadruple.captions != item.texts:
        raise DataError(
            f"{folder}: {item.id}: the grammar now draws {quadruple.captions[0]!r}, the set has {item.texts[0]!r}; "
            "build the set again"
        )
    return quadruple


def _mirror_picture(folder: Path, reference: str, pixels: NDArray[np.uint8]) -> str:
    """Write a picture's mirror image, without loss, and return its path from the folder."""
    from PIL import Image

    path = folder / "mirrored" / Path(reference).name
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, ::-1]).save(buffer, "WEBP", lossless=True)
    path.write_bytes(buffer.getvalue())
    return path.relative_to(folder).as_posix()


def _make_rows(captions: Iterator[tuple[str, list[str]]], images: Sequence[str], cluster: str) -> list[dict[str, Any]]:
    """Return the rows of both sides."""
    return [
        {"image": image, "caption": caption, "negative_captions": false, "cluster": cluster}
        for image, (caption, false) in zip(images, captions, strict=True)
    ]


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, two and two each other's counterparts."""
    with atomic_file(path) as draft:
        lines = (json.dumps({**row, "negative_images": [number ^ 1]}) + "\n" for number, row in enumerate(rows))
        draft.write_text("".join(lines), encoding="utf-8")


def _draw_captions(quadruple: Quadruple, flip: bool, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each side, a true caption and false ones, both sides in the same words."""
    choice = draw_synonyms(rng)

    def say(text: str) -> str:
        return reword(mirror(text) if flip else text, choice)

    for side in (0, 1):
        own, *others = truths(quadruple, side)
        if others and rng.random() < _PARAPHRASED:
            own = others[int(rng.integers(len(others)))]
        false = dict.fromkeys(say(text) for text in _draw_foils(quadruple, side, rng))
        yield say(own), list(false)


def _draw_foils(quadruple: Quadruple, side: int, rng: np.random.Generator) -> Iterator[str]:
    """Yield a few false captions of each kind; none that is true of the mate, whose caption is in the batch."""
    of_mate = {meaning(text) for text in truths(quadruple, 1 - side)}
    kinds: dict[str, list[str]] = {}
    for foil in foils(quadruple, side):
        if meaning(foil.text) not in of_mate:
            kinds.setdefault(foil.kind, []).append(foil.text)
    for texts in kinds.values():
        yield from (texts[int(k)] for k in rng.permutation(len(texts))[:_OF_A_KIND])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the rows of sets from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart_render.training_rows", description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET", help="a folder that `tellapart build` made")
    for folder in parser.parse_args(arguments).sets:
        sys.stderr.write(f"{folder / 'rows.jsonl'}: {write_training_rows(folder)} rows\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
