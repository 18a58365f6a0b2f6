"""Training rows of rendered scenes: each picture and its mirror image, reworded captions, and captions that are false.

`python -m tellapart.builders.rendered.training_rows SET ...` writes `rows.jsonl` and the folder `mirrored` into each
folder that `tellapart build` made with the builder `scenes`; `tellapart train` reads the file. The grammar knows which
captions are false of a picture, and names no held-out combination where none is shown: a rule that swaps words does
neither.
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

from tellapart.builders.rendered.phrases import foils, truths
from tellapart.builders.rendered.quadruple import Key, Quadruple, draw
from tellapart.builders.rendered.wordings import draw_synonyms, meaning, mirror, reword
from tellapart.data.atomic import atomic_file
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError

__all__ = ["main", "write_training_rows"]

#: Wordings of each picture, and of its mirror image.
_WORDINGS = 3

#: The share of rows whose caption is a paraphrase (the converse, or without sizes) in place of the scene's own.
_PARAPHRASED = 0.25

#: False captions of each kind of change: of objects there are many, and they must not crowd out the rest.
_OF_A_KIND = 2


def write_training_rows(folder: Path) -> int:
    """Write `rows.jsonl` and `mirrored/` into the folder of a set of scenes; return how many rows.

    Raises:
        DataError: the folder is no set that the builder `scenes` made with this version's grammar.
    """
    pairs = read_pair_set(folder)
    recipe = pairs.card.get("recipe")
    options = recipe.get("options") if isinstance(recipe, Mapping) else None
    if not isinstance(recipe, Mapping) or recipe.get("builder") != "scenes" or not isinstance(options, Mapping):
        raise DataError(f"{folder}: its card.json names no recipe of the builder 'scenes'; build the set first")
    (folder / "mirrored").mkdir(exist_ok=True)
    lines: list[str] = []
    for item in pairs.items:
        quadruple = _draw_again(item, int(recipe["seed"]), options, folder)
        mirrored = [_mirror_picture(folder, reference, pairs.pixels(reference)) for reference in item.images]
        for images, flip in ((item.images, False), (mirrored, True)):
            for wording in range(_WORDINGS):
                rows = _rows(quadruple, images, flip, np.random.default_rng([quadruple.key.index, flip, wording]))
                for side, row in enumerate(rows):
                    row |= {"cluster": item.cluster, "negative_images": [len(lines) + (1, -1)[side]]}
                    lines.append(json.dumps(row) + "\n")
    with atomic_file(folder / "rows.jsonl") as draft:
        draft.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _draw_again(item: Item, seed: int, options: Mapping[str, Any], folder: Path) -> Quadruple:
    """Return the quadruple that an item shows, from the numbers that it was drawn by."""
    aspect, index, attempt = item.tags["aspect"], int(item.id.rpartition("-")[2]), item.provenance.get("attempt")
    held_out, wording = item.tags["held_out"], options.get("wording", "minimal")
    words = options.get("vocabulary", "demo")  # older sets name none, and are of the demo's
    unseen = tuple(options.get("unseen", ()))
    key = Key("demo", seed, aspect, index, attempt, wording, held_out, words, unseen)  # type: ignore[arg-type]
    quadruple = draw(key)
    if quadruple.captions != item.texts:
        raise DataError(
            f"{folder}: {item.id}: the grammar now draws {quadruple.captions[0]!r}, the set says {item.texts[0]!r}; "
            "build the set anew"
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


def _rows(quadruple: Quadruple, images: Sequence[str], flip: bool, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return a row for each side, both in the same words, but for the references to each other."""
    choice = draw_synonyms(rng)

    def say(text: str) -> str:
        return reword(mirror(text) if flip else text, choice)

    rows = []
    for side in (0, 1):
        own, *others = truths(quadruple, side)
        if others and rng.random() < _PARAPHRASED:
            own = others[int(rng.integers(len(others)))]
        false = dict.fromkeys(say(text) for text in _draw_foils(quadruple, side, rng))
        rows.append({"image": images[side], "caption": say(own), "negative_captions": list(false)})
    return rows


def _draw_foils(quadruple: Quadruple, side: int, rng: np.random.Generator) -> Iterator[str]:
    """Yield a few false captions of each kind; none that is true of the mate, whose own caption is in the batch."""
    of_mate = {meaning(text) for text in truths(quadruple, 1 - side)}
    kinds: dict[str, list[str]] = {}
    for foil in foils(quadruple, side):
        if meaning(foil.text) not in of_mate:
            kinds.setdefault(foil.kind, []).append(foil.text)
    for texts in kinds.values():
        yield from (texts[int(k)] for k in rng.permutation(len(texts))[:_OF_A_KIND])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the rows of sets from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart.builders.rendered.training_rows", description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET", help="a folder that `tellapart build` made")
    for folder in parser.parse_args(arguments).sets:
        sys.stderr.write(f"{folder / 'rows.jsonl'}: {write_training_rows(folder)} rows\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
