"""Training rows of rendered scenes: each picture and its mirror image, with true captions and false ones.

`python -m tellapart_render.training_rows SET ...` writes `rows.jsonl`, `captions.jsonl` and the folder `mirrored` into
each folder that `tellapart build` made with the builder `scenes`; `tellapart train` reads the files. The grammar of
the scenes makes the captions, so false ones are known to be false, and no caption names a combination of object and
colour that is held out. In `rows.jsonl`, every second pair of rows names an object's place in the picture instead
(`draw_whereabouts`); `captions.jsonl` has only rows with the grammar's captions.
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
from itertools import product
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

# Parts of the grammar's captions, such as "The mug is located on the left side of the bowl." and "2 mugs are in the
# scene."
_VERB = re.compile(r"\bis (?:located|placed)\b")
_SIDE = re.compile(r"\bon the (left|right)(?: side| hand)? of\b")
_COUNT_FIRST = re.compile(r"^(\d) (.+) (is|are) (?:in the scene|on the platform)\.$")
_THERE_FIRST = re.compile(r"^There (is|are) (\d) (.+) (?:in the scene|on the platform)\.$")
_NEXT_GROUP = re.compile(r" and (?=\d)")
# Captions that `meaning` turns around, so that each relation has one form: "B is behind A" to "A is in front of B".
_RELATION = re.compile(r"^the (.+) is (on the right of|behind) the (.+)\.$")
_OPPOSITE = {"on the right of": "on the left of", "behind": "in front of"}
_SIZE = re.compile(r"\b(?:small|large) ")


def _parse_count(text: str) -> tuple[str, str, str] | None:
    """Return count, objects and verb of a counting caption, such as ("2", "mugs", "are"); else None."""
    if match := _COUNT_FIRST.match(text):
        return match[1], match[2], match[3]
    if match := _THERE_FIRST.match(text):
        return match[2], match[3], match[1]
    return None


def meaning(text: str) -> str:
    """Return a caption's canonical form: captions with the same form are true of the same images.

    Sizes are dropped: an image that shows "the small mug" also shows "the mug", so neither caption may serve as a false
    one of the other's image.

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
    return _RELATION.sub(lambda match: f"the {match[3]} is {_OPPOSITE[match[2]]} the {match[1]}.", plain)


def mirror(text: str) -> str:
    """Return the caption that is true of the image flipped left to right."""
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda match: other[match[1]], text)


@dataclass(frozen=True, slots=True)
class SynonymChoice:
    """A choice among the grammar's synonyms: a caption and its false captions are worded by the same choice.

    `verb`, `side` and `place` are indices of `VERBS`, of the phrases for left or right, and of `PLACES`; `there` is
    whether a counting caption begins with "There are".
    """

    verb: int
    side: int
    there: bool
    place: int


def draw_synonyms(rng: np.random.Generator) -> SynonymChoice:
    """Draw a choice, all equally likely."""
    verb, side, there, place = (int(rng.integers(n)) for n in (len(VERBS), len(_SIDES["left"]), 2, len(PLACES)))
    return SynonymChoice(verb, side, bool(there), place)


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


def _with_size(size: str, noun: Noun) -> str:
    return f"{size} {noun.phrase()}" if size else noun.phrase()


def truths(quadruple: Quadruple, side: int) -> list[str]:
    """Return captions that are true of one of the two scenes; the quadruple's caption comes first.

    The others have synonyms of location and verb, the converse relation, no sizes, or the other counting template.
    """
    fact, nouns = quadruple.facts[side], quadruple.nouns[side]
    captions = [quadruple.captions[side]]
    if fact.relation is None and len(set(nouns)) > 1:
        groups = _count_groups(nouns)
        orders = (groups, groups[::-1])
        for order, place, existential in product(orders, PLACES, (True, False)):
            captions.append(group_caption(order, place, existential=existential))
        return list(dict.fromkeys(captions))
    if fact.relation is None:
        for place, existential in product(PLACES, (True, False)):
            captions.append(count_caption(fact.count, nouns[0], place, existential=existential))
        return list(dict.fromkeys(captions))
    thing, subject = nouns
    phrases = [(_with_size(quadruple.sizes[0], thing), _with_size(quadruple.sizes[1], subject))]
    if quadruple.sizes[0]:
        phrases.append((thing.phrase(), subject.phrase()))
    converse = _CONVERSE.get(fact.relation)
    for (thing_phrase, subject_phrase), verb in product(phrases, VERBS):
        captions += [relation_caption(thing_phrase, verb, words, subject_phrase) for words in LOCATIONS[fact.relation]]
        if converse is not None:
            captions += [relation_caption(subject_phrase, verb, words, thing_phrase) for words in LOCATIONS[converse]]
    return list(dict.fromkeys(captions))


def foils(quadruple: Quadruple, side: int) -> list[Foil]:
    """Return captions that are false of one of the two scenes; each has one change of the scene's caption.

    If the quadruple shows no held-out pair, no foil names one.
    """
    words = vocabulary(quadruple.key.vocabulary)
    pool = tuple(noun for noun in words.objects if quadruple.key.held_out == "yes" or not words.holds_out(noun))
    if quadruple.facts[side].relation is not None:
        make = _pair_foils
    else:
        make = _count_foils if len(set(quadruple.nouns[side])) == 1 else _group_foils
    unique: dict[str, Foil] = {}  # by text
    for foil in (Foil(quadruple.captions[1 - side], "pair"), *make(quadruple, side, pool)):
        # A repeated text has its first kind and its last position: the draws of shipped rows depend on the order.
        unique[foil.text] = unique.pop(foil.text, foil)
    true = set(truths(quadruple, side))
    return [foil for foil in unique.values() if foil.text not in true]


def _count_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count, or another object of the category."""
    noun, count = quadruple.nouns[side][0], quadruple.facts[side].count

    def say(number: int, noun: Noun) -> str:
        existential = quadruple.captions[side].startswith("There")
        return count_caption(number, noun, quadruple.place, existential=existential)

    return [
        *(Foil(say(other, noun), "count") for other in COUNTS if other != count),
        *(Foil(say(count, rival), "object") for rival in rivals(noun, pool)),
    ]


def _count_groups(nouns: tuple[Noun, ...]) -> list[tuple[int, Noun]]:
    """Return the number of each object, in the order of the scene's things."""
    return [(count, noun) for noun, count in Counter(nouns).items()]


def _group_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count or another object in one of the groups, or with their objects swapped."""
    (count, noun), (other_count, other) = _count_groups(quadruple.nouns[side])

    def say(first: tuple[int, Noun], second: tuple[int, Noun]) -> str:
        existential = quadruple.captions[side].startswith("There")
        return group_caption((first, second), quadruple.place, existential=existential)

    return [
        *(Foil(say((number, noun), (other_count, other)), "count") for number in COUNTS[1:] if number != count),
        *(Foil(say((count, noun), (number, other)), "count") for number in COUNTS[1:] if number != other_count),
        *(Foil(say((count, rival), (other_count, other)), "object") for rival in rivals(noun, pool)),
        *(Foil(say((count, noun), (other_count, rival)), "subject") for rival in rivals(other, pool)),
        Foil(say((count, other), (other_count, noun)), "swap"),
    ]


def _pair_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another object, subject, size or location; with both swapped, or only their colours."""
    thing, subject = quadruple.nouns[side]
    relation = quadruple.facts[side].relation
    location = quadruple.place.split("/")[-1 if side else 0]  # "A/B" if the sides have two locations
    (size, subject_size), verb = quadruple.sizes, quadruple.verb

    def say(first: Noun, second: Noun, words: str = location, sizes: tuple[str, str] = quadruple.sizes) -> str:
        return relation_caption(_with_size(sizes[0], first), verb, words, _with_size(sizes[1], second))

    result = [Foil(say(rival, subject), "object") for rival in rivals(thing, pool)]
    result += [Foil(say(thing, rival), "subject") for rival in rivals(subject, pool)]
    result += [Foil(say(thing, subject, words[0]), "location") for r, words in LOCATIONS.items() if r != relation]
    result.append(Foil(say(subject, thing, location, (subject_size, size)), "swap"))
    if size:
        opposite = {SIZES[0]: SIZES[1], SIZES[1]: SIZES[0]}
        result.append(Foil(say(thing, subject, location, (opposite[size], subject_size)), "size"))
        result.append(Foil(say(thing, subject, location, (size, opposite[subject_size])), "size"))
    recoloured, recoloured_subject = _recolour(thing, subject.colour, pool), _recolour(subject, thing.colour, pool)
    if recoloured is not None and recoloured_subject is not None:
        result.append(Foil(say(recoloured, recoloured_subject), "binding"))
    return result


def _recolour(noun: Noun, colour: str, pool: tuple[Noun, ...]) -> Noun | None:
    """Return the noun of the same shape and another colour, if the pool has it."""
    return next(
        (other for other in pool if other.shape == noun.shape and other.colour == colour and other != noun), None
    )


# Captions that name an object's place in a picture, as a cell of a grid: `red coffee mug 2 3.`
#
# Trained on the grammar's captions alone, an encoder learns colours at once, but neither places nor counts: it cannot
# learn which of two objects is "left" before it can recognise them. These captions show it where one object is.

#: Columns and rows of the grid; the vocabulary's numbers go as far.
GRID = 5

#: A noun phrase, and the column and the row of the middle of the object's outline, from 1, rightwards and downwards.
Whereabouts = tuple[str, int, int]

#: The most false captions of a place.
_MOST_FALSE = 7


def draw_whereabouts(quadruple: Quadruple, flip: bool, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each side, a caption of one object's place, and captions that are false of both pictures.

    If possible, the object is drawn from those that the other side does not show in the same place.
    """
    sides = [_list_places(quadruple, side, flip) for side in (0, 1)]
    occupied = {*sides[0], *sides[1]}
    names = sorted({name for name, _, _ in occupied})
    for side in (0, 1):
        places = [place for place in sides[side] if place not in sides[1 - side]] or sides[side]
        true = places[int(rng.integers(len(places)))]
        false = dict.fromkeys(place for place in _draw_neighbours(true, names, rng) if place not in occupied)
        yield say_whereabouts(true), [say_whereabouts(place) for place in false][:_MOST_FALSE]


def say_whereabouts(place: Whereabouts) -> str:
    """Return the caption of an object's place.

    >>> say_whereabouts(("red coffee mug", 2, 3))
    'red coffee mug 2 3.'
    """
    return "{} {} {}.".format(*place)


def _list_places(quadruple: Quadruple, side: int, flip: bool) -> list[Whereabouts]:
    """Return the places of a scene's things, in the picture or in its mirror image (`flip`)."""
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
    for _ in range(5 * _MOST_FALSE):  # many of them are occupied or drawn twice
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

#: The share of rows whose caption is another one of `truths` than the scene's caption.
_PARAPHRASED = 0.25

#: The most false captions of each kind of change: those with another object are many, and would crowd out the others.
_MOST_OF_A_KIND = 2


def write_training_rows(folder: Path) -> int:
    """Write `rows.jsonl`, `captions.jsonl` and `mirrored/` into the folder of a set; return the number of rows."""
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
    """Draw an item's quadruple again, from its key; refuse a set whose captions differ from those drawn now."""
    if "level" in item.tags:
        raise DataError(f"{folder}: {item.id}: aspect {item.tags['aspect']!r} is graded, and has no training rows")
    aspect, index, attempt = item.tags["aspect"], int(item.id.rpartition("-")[2]), item.provenance.get("attempt")
    names = (options.wording, item.tags["held_out"], options.vocabulary)
    rules = tuple(options.unseen), tuple(options.exchange)
    key = Key("demo", seed, aspect, index, attempt, *names, *rules)  # type: ignore[arg-type]
    quadruple = draw(key)
    if quadruple.captions != item.texts:
        fault = f"the grammar now draws {quadruple.captions[0]!r}, the set has {item.texts[0]!r}"
        raise DataError(f"{folder}: {item.id}: {fault}; build the set again")
    return quadruple


def _mirror_picture(folder: Path, reference: str, pixels: NDArray[np.uint8]) -> str:
    """Write a picture's mirror image, without loss, and return its path relative to the folder."""
    from PIL import Image

    path = folder / "mirrored" / Path(reference).name
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, ::-1]).save(buffer, "WEBP", lossless=True)
    path.write_bytes(buffer.getvalue())
    return path.relative_to(folder).as_posix()


def _make_rows(captions: Iterator[tuple[str, list[str]]], images: Sequence[str], cluster: str) -> list[dict[str, Any]]:
    """Return the rows of both sides, from their true and false captions."""
    return [
        {"image": image, "caption": caption, "negative_captions": false, "cluster": cluster}
        for image, (caption, false) in zip(images, captions, strict=True)
    ]


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows; rows 2k and 2k + 1 are the two sides, and name each other by number as `negative_images`."""
    with atomic_file(path) as draft:
        lines = (json.dumps({**row, "negative_images": [number ^ 1]}) + "\n" for number, row in enumerate(rows))
        draft.write_text("".join(lines), encoding="utf-8")


def _draw_captions(quadruple: Quadruple, flip: bool, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each side, a true caption and false ones; both sides have the same synonyms."""
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
    """Yield a few false captions of each kind, none that is true of the other side: its caption is in the batch."""
    other_meanings = {meaning(text) for text in truths(quadruple, 1 - side)}
    by_kind: dict[str, list[str]] = {}
    for foil in foils(quadruple, side):
        if meaning(foil.text) not in other_meanings:
            by_kind.setdefault(foil.kind, []).append(foil.text)
    for texts in by_kind.values():
        yield from (texts[int(k)] for k in rng.permutation(len(texts))[:_MOST_OF_A_KIND])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the rows of sets from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart_render.training_rows", description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET", help="a folder that `tellapart build` made")
    for folder in parser.parse_args(arguments).sets:
        sys.stderr.write(f"{folder / 'rows.jsonl'}: {write_training_rows(folder)} rows\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
