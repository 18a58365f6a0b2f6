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
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.atomic import atomic_file
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.data.validation import validate
from tellapart.errors import DataError
from tellapart_render.captions.grammar import (
    COUNTS,
    LOCATIONS,
    PLACES,
    SIZES,
    VERBS,
    Noun,
    Relation,
    count_caption,
    group_caption,
    relation_caption,
    vocabulary,
)
from tellapart_render.scenes.quadruple import Key, Quadruple, draw, rivals
from tellapart_render.scenes.scene import corners, project
from tellapart_render.scenes_builder import Scenes

_SIDES: dict[str, tuple[str, ...]] = {"left": LOCATIONS["left"], "right": LOCATIONS["right"]}

_VERB = re.compile(r"\bis (?:located|placed)\b")
_SIDE = re.compile(r"\bon the (left|right)(?: side| hand)? of\b")
_COUNT_FIRST = re.compile(r"^(\d) (.+) (is|are) (?:in the scene|on the platform)\.$")
_THERE_FIRST = re.compile(r"^There (is|are) (\d) (.+) (?:in the scene|on the platform)\.$")
_NEXT_GROUP = re.compile(r" and (?=\d)")
# A caption that `meaning` turns around, so that each relation has one form: "B is behind A", "A is in front of B".
_RELATION = re.compile(r"^the (.+) is (on the right of|behind) the (.+)\.$")
_OPPOSITE = {"on the right of": "on the left of", "behind": "in front of"}
_SIZE = re.compile(r"\b(?:small|large) ")


def _parse_count(text: str) -> tuple[str, str, str] | None:
    """Return (count, objects, verb) of a counting caption."""
    if match := _COUNT_FIRST.match(text):
        return match[1], match[2], match[3]
    if match := _THERE_FIRST.match(text):
        return match[2], match[3], match[1]
    return None


def meaning(text: str) -> str:
    """Return a caption's canonical form: captions with the same form are true of the same images.

    Sizes are dropped: an image that shows "the small mug" also shows "the mug", so the one must not serve as the false
    caption of the other.

    >>> meaning("The small red mug is placed on the left hand of the large bowl.")
    'the red mug is on the left of the bowl.'
    >>> meaning("The bowl is behind the mug.")
    'the mug is in front of the bowl.'
    >>> meaning("2 red mugs are on the platform.") == meaning("There are 2 red mugs in the scene.")
    True
    >>> meaning("3 bowls and 2 red mugs are on the platform.")
    'count 2 red mugs and 3 bowls'
    """
    if counted := _parse_count(text):
        groups = _NEXT_GROUP.split(f"{counted[0]} {counted[1].lower()}")
        return f"count {' and '.join(sorted(groups))}"
    plain = _SIDE.sub(r"on the \1 of", _VERB.sub("is", _SIZE.sub("", text.lower())))
    plain = plain.replace("on the top of", "above")
    # "B is right of A" becomes "A is left of B".
    return _RELATION.sub(lambda match: f"the {match[3]} is {_OPPOSITE[match[2]]} the {match[1]}.", plain)


def mirror(text: str) -> str:
    """Return the caption that is true of the image flipped left to right."""
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda match: other[match[1]], text)


@dataclass(frozen=True, slots=True)
class SynonymChoice:
    """One choice among the grammar's synonyms, applied alike to a caption and to those that it is compared with.

    `verb`, `side` and `place` are indexes in `VERBS`, in the phrases for left or right, and in `PLACES`; `there` is
    whether a counting caption begins with "There are".
    """

    verb: int
    side: int
    there: bool
    place: int


def draw_synonyms(rng: np.random.Generator) -> SynonymChoice:
    """Draw a choice, all equally likely."""
    verb, side, direction, place = (int(rng.integers(n)) for n in (len(VERBS), len(_SIDES["left"]), 2, len(PLACES)))
    return SynonymChoice(verb, side, bool(direction), place)


def reword(text: str, choice: SynonymChoice) -> str:
    """Return the caption with those synonyms; its meaning is unchanged."""
    if counted := _parse_count(text):
        count, objects, verb = counted
        place = PLACES[choice.place]
        return f"There {verb} {count} {objects} {place}." if choice.there else f"{count} {objects} {verb} {place}."
    text = _SIDE.sub(lambda match: _SIDES[match[1]][choice.side], text)
    return re.sub(r"\bis\b(?: located| placed)?", VERBS[choice.verb], text, count=1)


_CONVERSE: dict[Relation, Relation] = {"left": "right", "right": "left", "front": "behind", "behind": "front"}


@dataclass(frozen=True, slots=True)
class Foil:
    """A false caption and the kind of change that makes it false."""

    text: str
    kind: str


def _with_size(size: str, each: Noun) -> str:
    return f"{size} {each.phrase()}" if size else each.phrase()


def truths(quadruple: Quadruple, side: int) -> list[str]:
    """Return the captions that are true of one of the two scenes; the quadruple's caption comes first.

    Synonyms of the location and of the verb, the converse relation, the relation without sizes, both counting
    templates.
    """
    fact, nouns = quadruple.facts[side], quadruple.nouns[side]
    captions = [quadruple.captions[side]]
    if fact.relation is None and len(set(nouns)) > 1:
        groups = _count_groups(nouns)
        orders = (groups, groups[::-1])
        captions += [group_caption(o, p, existential=e) for o in orders for p in PLACES for e in (True, False)]
        return list(dict.fromkeys(captions))
    if fact.relation is None:
        captions += [count_caption(fact.count, nouns[0], p, existential=e) for p in PLACES for e in (True, False)]
        return list(dict.fromkeys(captions))
    first, second = nouns
    pairs = [(_with_size(quadruple.sizes[0], first), _with_size(quadruple.sizes[1], second))]
    if quadruple.sizes[0]:
        pairs.append((first.phrase(), second.phrase()))
    converse = _CONVERSE.get(fact.relation)
    for a, b in pairs:
        for verb in VERBS:
            captions += [relation_caption(a, verb, words, b) for words in LOCATIONS[fact.relation]]
            if converse is not None:
                captions += [relation_caption(b, verb, words, a) for words in LOCATIONS[converse]]
    return list(dict.fromkeys(captions))


def foils(quadruple: Quadruple, side: int) -> list[Foil]:
    """Return captions that are false of one of the two scenes, each one change away from its caption.

    If the quadruple shows no held-out pair, no foil names one.
    """
    words = vocabulary(quadruple.key.vocabulary)
    pool = tuple(noun for noun in words.objects if quadruple.key.held_out == "yes" or not words.holds_out(noun))
    alone = _count_foils if len(set(quadruple.nouns[side])) == 1 else _group_foils
    make = alone if quadruple.facts[side].relation is None else _pair_foils
    candidates = [Foil(quadruple.captions[1 - side], "pair"), *make(quadruple, side, pool)]
    true = set(truths(quadruple, side))
    unique = {foil.text: foil for foil in reversed(candidates) if foil.text not in true}
    return list(reversed(unique.values()))


def _count_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count, or another object of the category."""
    (each,), count = quadruple.nouns[side], quadruple.facts[side].count

    def say(number: int, noun: Noun) -> str:
        existential = quadruple.captions[side].startswith("There")
        return count_caption(number, noun, quadruple.place, existential=existential)

    return [
        *(Foil(say(n, each), "count") for n in COUNTS if n != count),
        *(Foil(say(count, rival), "object") for rival in rivals(each, pool)),
    ]


def _count_groups(nouns: tuple[Noun, ...]) -> list[tuple[int, Noun]]:
    return [(count, noun) for noun, count in Counter(nouns).items()]


def _group_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count or another object in one of the groups, or with their objects swapped."""
    (first, first_count), (second, other) = _count_groups(quadruple.nouns[side])

    def say(a: tuple[int, Noun], b: tuple[int, Noun]) -> str:
        existential = quadruple.captions[side].startswith("There")
        return group_caption((a, b), quadruple.place, existential=existential)

    return [
        *(Foil(say((n, first_count), (second, other)), "count") for n in COUNTS[1:] if n != first),
        *(Foil(say((first, first_count), (n, other)), "count") for n in COUNTS[1:] if n != second),
        *(Foil(say((first, rival), (second, other)), "object") for rival in rivals(first_count, pool)),
        *(Foil(say((first, first_count), (second, rival)), "subject") for rival in rivals(other, pool)),
        Foil(say((first, other), (second, first_count)), "swap"),
    ]


def _pair_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another object, subject, size or location; with both swapped, or only their colours."""
    first, second = quadruple.nouns[side]
    relation = quadruple.facts[side].relation
    words = quadruple.place.split("/")[-1 if side else 0]
    sizes, verb = quadruple.sizes, quadruple.verb

    def say(a: Noun, b: Noun, place: str = words, size: tuple[str, str] = sizes) -> str:
        return relation_caption(_with_size(size[0], a), verb, place, _with_size(size[1], b))

    result = [Foil(say(rival, second), "object") for rival in rivals(first, pool)]
    result += [Foil(say(first, rival), "subject") for rival in rivals(second, pool)]
    result += [Foil(say(first, second, other[0]), "location") for r, other in LOCATIONS.items() if r != relation]
    result.append(Foil(say(second, first, words, (sizes[1], sizes[0])), "swap"))
    if sizes[0]:
        opposite = {SIZES[0]: SIZES[1], SIZES[1]: SIZES[0]}
        result.append(Foil(say(first, second, words, (opposite[sizes[0]], sizes[1])), "size"))
        result.append(Foil(say(first, second, words, (sizes[0], opposite[sizes[1]])), "size"))
    crossed = [
        next((n for n in pool if n.shape == ours.shape and n.colour == other.colour and n != ours), None)
        for ours, other in ((first, second), (second, first))
    ]
    if crossed[0] is not None and crossed[1] is not None:
        result.append(Foil(say(crossed[0], crossed[1]), "binding"))
    return result


# Captions that name an object's place in a picture, as cells of a grid: `red coffee mug 2 3.`
#
# Trained on the grammar's captions alone, an encoder learns colours at once, and neither places nor counts: nothing
# shows it which of two objects is the "left" one before it knows them apart. These captions do.

#: Columns and rows of the grid; the vocabulary's numbers go as far.
GRID = 5

#: A noun phrase, and the column and the row of the middle of the object's outline, from 1, rightwards and downwards.
Whereabouts = tuple[str, int, int]

_FALSE = 7


def draw_whereabouts(quadruple: Quadruple, flip: bool, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each side, a caption of one object's place, and captions that are false of both pictures.

    The object is one that the other side does not show there, if there is such a one.
    """
    sides = [_list_places(quadruple, side, flip) for side in (0, 1)]
    occupied = set(sides[0]) | set(sides[1])
    for side in (0, 1):
        free = [place for place in sides[side] if place not in sides[1 - side]] or sides[side]
        true = free[int(rng.integers(len(free)))]
        false = [
            false
            for false in _draw_neighbours(true, sorted({name for name, _, _ in occupied}), rng)
            if false not in occupied
        ]
        yield say_whereabouts(true), [say_whereabouts(place) for place in dict.fromkeys(false)][:_FALSE]


def say_whereabouts(place: Whereabouts) -> str:
    """Return the caption of an object's place.

    >>> say_whereabouts(("red coffee mug", 2, 3))
    'red coffee mug 2 3.'
    """
    return "{} {} {}.".format(*place)


def _list_places(quadruple: Quadruple, side: int, flip: bool) -> list[Whereabouts]:
    scene, nouns = quadruple.scenes[side], quadruple.nouns[side]
    places = []
    for number, thing in enumerate(scene.things):
        outline = project(corners(thing), scene.camera)[:, :2]
        right, up = (outline.min(axis=0) + outline.max(axis=0)) / 2  # from -1 to 1 within the picture
        column, row = (int(np.clip((at + 1) / 2 * GRID, 0, GRID - 1)) + 1 for at in (-right if flip else right, -up))
        places.append((nouns[number if len(nouns) > 1 else 0].phrase(), column, row))
    return places


def _draw_neighbours(true: Whereabouts, names: list[str], rng: np.random.Generator) -> Iterator[Whereabouts]:
    """Yield drawn places of the same object, near and far, and other objects' names at its place."""
    name, column, row = true
    for _ in range(5 * _FALSE):
        match int(rng.integers(3)):
            case 0:
                near = np.clip(np.array([column, row]) + rng.integers(-2, 3, 2), 1, GRID)
                yield name, int(near[0]), int(near[1])
            case 1 if len(names) > 1:
                yield names[int(rng.integers(len(names)))], column, row
            case _:
                yield name, int(rng.integers(1, GRID + 1)), int(rng.integers(1, GRID + 1))


#: Wordings of each picture, and of its mirror image.
_WORDINGS = 3

#: The share of rows whose caption is a paraphrase (the converse, or without sizes) in place of the scene's caption.
_PARAPHRASED = 0.25

#: False captions of each kind of change: of objects there are many, and they must not crowd out the rest.
_OF_A_KIND = 2


def write_training_rows(folder: Path) -> int:
    """Write `rows.jsonl`, `captions.jsonl` and `mirrored/` into the folder of a set of scenes; return how many rows."""
    pairs = read_pair_set(folder)
    recipe = pairs.card.get("recipe")
    if not isinstance(recipe, Mapping) or recipe.get("builder") != "scenes":
        raise DataError(f"{folder}: its card.json names no recipe of the builder 'scenes'; build the set first")
    options = validate(Scenes.Options, recipe.get("options"), f"{folder / 'card.json'}: options of 'recipe'")
    (folder / "mirrored").mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    grammar_rows: list[dict[str, Any]] = []
    for item in pairs.items:
        quadruple = _draw_again(item, int(recipe["seed"]), options, folder)
        mirrored = [_mirror_picture(folder, reference, pairs.pixels(reference)) for reference in item.images]
        for images, flip in ((item.images, False), (mirrored, True)):
            for wording in range(_WORDINGS):
                rng = np.random.default_rng([quadruple.key.index, flip, wording])
                captions = _make_rows(_draw_captions(quadruple, flip, rng), images, item.cluster)
                grammar_rows += captions
                rows += [*captions, *_make_rows(draw_whereabouts(quadruple, flip, rng), images, item.cluster)]
    _write_rows(folder / "rows.jsonl", rows)
    _write_rows(folder / "captions.jsonl", grammar_rows)
    return len(rows)


def _draw_again(item: Item, seed: int, options: Scenes.Options, folder: Path) -> Quadruple:
    """Return the quadruple that an item shows, from the numbers that it was drawn by."""
    if "level" in item.tags:
        raise DataError(f"{folder}: {item.id}: aspect {item.tags['aspect']!r} is graded, and has no training rows")
    aspect, index, attempt = item.tags["aspect"], int(item.id.rpartition("-")[2]), item.provenance.get("attempt")
    names = (options.wording, item.tags["held_out"], options.vocabulary)
    rules = tuple(options.unseen), tuple(options.exchange)
    key = Key("demo", seed, aspect, index, attempt, *names, *rules)  # type: ignore[arg-type]
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
        truth, *others = truths(quadruple, side)
        if others and rng.random() < _PARAPHRASED:
            truth = others[int(rng.integers(len(others)))]
        false = dict.fromkeys(say(text) for text in _draw_foils(quadruple, side, rng))
        yield say(truth), list(false)


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
