"""The words of captions of rendered scenes: templates, verbs, locations, sizes and counts; and the objects they name.

After EqBen (Wang et al., 2023), Figure 14. `listed` marks objects of the figure; the demo has them in other colours,
too, so that training can leave out combinations of object and colour. The demo's objects never change, since its
pictures and the model trained on them ship; the vocabulary `FIGURE_14` has all objects of the figure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

from tellapart.errors import UnknownNameError

Aspect = Literal[
    "attribute", "counting", "location", "order",
    "count", "colour", "size", "distance", "angle", "height", "hidden", "extent", "distractors",
]  # fmt: skip
Relation = Literal["left", "right", "front", "behind", "top"]

ASPECTS: tuple[Aspect, ...] = ("attribute", "counting", "location", "order")
#: Aspects whose items differ by a small or large step, or show their difference better or worse.
GRADED: tuple[Aspect, ...] = get_args(Aspect)[len(ASPECTS) :]
VERBS: tuple[str, ...] = ("is", "is located", "is placed")
LOCATIONS: dict[Relation, tuple[str, ...]] = {
    "front": ("in front of",),
    "behind": ("behind",),
    "left": ("on the left of", "on the left side of", "on the left hand of"),
    "right": ("on the right of", "on the right side of", "on the right hand of"),
    "top": ("on the top of", "above"),
}
SIZES: tuple[str, ...] = ("small", "large")
COUNTS: tuple[int, ...] = (1, 2, 3, 4, 5)
PLACES: tuple[str, ...] = ("in the scene", "on the platform")


@dataclass(frozen=True, slots=True)
class Noun:
    """An object that captions can name, as "red coffee mug": attribute words, head noun, the words after it.

    `shape` and `colour` are how the object is drawn.
    """

    category: str
    attribute: str
    head: str
    tail: str
    shape: str
    colour: str
    listed: bool

    def phrase(self, count: int = 1) -> str:
        """Return the noun phrase without article or number."""
        head = self.head if count == 1 or self.plural else _pluralise_head(self.head)
        return " ".join(word for word in (self.attribute, head, self.tail) if word)

    @property
    def plural(self) -> bool:
        """Whether the name is a plural though it names one thing (gloves, scissors); such things are not counted."""
        return self.head.endswith("s") and not self.head.endswith(_SINGULAR_ENDS)

    def implies(self, other: Noun) -> bool:
        """Return whether everything that this phrase names may also be called by the other phrase."""
        return set(other.phrase().split()) <= set(self.phrase().split())

    @property
    def held_out(self) -> bool:
        """Whether training scenes never show this shape in this colour (a rule of the `demo` vocabulary)."""
        return (self.shape, self.colour) in HELD_OUT


#: Ends of singular nouns in -s: glass, octopus, tennis; and whole nouns.
_SINGULAR_ENDS = ("ss", "us", "is", "lens", "canvas", "atlas", "triceratops")

#: Ends of nouns whose plural follows no rule, such as the names of scanned objects have; the first that fits is taken.
_PLURALS = {
    "mouse": "mice", "knife": "knives", "shelf": "shelves", "loaf": "loaves", "leaf": "leaves", "foot": "feet",
    "tooth": "teeth", "mongoose": "mongooses", "goose": "geese", "sheep": "sheep", "child": "children",
    "human": "humans", "ottoman": "ottomans", "talisman": "talismans", "man": "men", "potato": "potatoes",
    "tomato": "tomatoes", "hero": "heroes", "wolf": "wolves", "calf": "calves",
}  # fmt: skip


def _pluralise_head(head: str) -> str:
    """Return a head noun's plural."""
    for ending, plural in _PLURALS.items():
        if head.endswith(ending):
            return head.removesuffix(ending) + plural
    if re.search("[^aeiou]y$", head):
        return head[:-1] + "ies"
    return head + ("es" if head.endswith(("x", "s", "sh", "ch")) else "s")


def split_phrase(category: str, phrase: str, shape: str, colour: str, *, listed: bool = False) -> Noun:
    """Split a phrase into attribute words, head and the words after `with`."""
    body, _, tail = phrase.partition(" with ")
    *attribute, head = body.split()
    return Noun(category, " ".join(attribute), head, f"with {tail}" if tail else "", shape, colour, listed)


def read_rows(rows: Sequence[Sequence[str]]) -> tuple[Noun, ...]:
    """Return the objects of rows of `vocabularies.toml`, one for each colour, those of the figure first.

    A row has category, phrase, shape, and optionally the figure's colours and the added ones.

    >>> [noun.phrase() for noun in read_rows([["hat", "{colour} hat", "hat", "black", "red"]])]
    ['black hat', 'red hat']
    """
    nouns = []
    for row in rows:
        category, phrase, shape, listed, added = (*row, "", "")[:5]  # a row may end before its colours
        for colour in (*listed.split(), *added.split()) or ("",):
            words = phrase.format(colour=colour)
            nouns.append(split_phrase(category, words, shape, colour, listed=colour not in added.split()))
    return tuple(nouns)


_FILE = tomllib.loads(files("tellapart_render.captions").joinpath("vocabularies.toml").read_text(encoding="utf-8"))
_DEMO, _FIGURE = _FILE["demo"], _FILE["figure-14"]

OBJECTS = read_rows(_DEMO["objects"])

#: Objects of which there are several in other colours.
CATEGORIES: dict[str, tuple[Noun, ...]] = {
    name: tuple(noun for noun in OBJECTS if noun.category == name)
    for name in dict.fromkeys(row[0] for row in _DEMO["objects"] if "{colour}" in row[1])
}

HELD_OUT = frozenset((shape, colour) for shape, colours in _DEMO["held_out"].items() for colour in colours.split())

WORDS: dict[str, Noun] = {noun.phrase(): noun for noun in OBJECTS}


def noun(phrase: str) -> Noun:
    """Return the object of a caption's noun phrase."""
    if phrase not in WORDS:
        raise UnknownNameError(f"noun({phrase!r}): no such object; the objects are {', '.join(sorted(WORDS))}")
    return WORDS[phrase]


def relation_caption(object_phrase: str, verb: str, location: str, subject_phrase: str) -> str:
    """Fill the template of the location and attribute aspects; a size word goes in front of the phrases."""
    return f"The {object_phrase} {verb} {location} the {subject_phrase}."


def count_caption(count: int, noun: Noun, place: str, *, existential: bool) -> str:
    """Fill one of the two counting templates; the `existential` one begins with "There"."""
    verb = "is" if count == 1 else "are"
    phrase = noun.phrase(count)
    return f"There {verb} {count} {phrase} {place}." if existential else f"{count} {phrase} {verb} {place}."


def group_caption(groups: Sequence[tuple[int, Noun]], place: str, *, existential: bool) -> str:
    """Fill one of the two counting templates with groups, each of two things or more.

    >>> group_caption([(2, noun("red coffee mug")), (3, noun("blue bowl"))], "in the scene", existential=False)
    '2 red coffee mugs and 3 blue bowls are in the scene.'
    """
    phrase = " and ".join(f"{count} {noun.phrase(count)}" for count, noun in groups)
    return f"There are {phrase} {place}." if existential else f"{phrase} are {place}."


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The objects that scenes show; keys and recipes call a vocabulary by its name.

    The attribute aspect takes an object and its rival from one of the `categories`, the location aspect takes two of
    the `located`; any of the `objects` can be counted, or be the attribute aspect's subject. Training scenes never show
    the pairs of shape and colour in `held_out`.
    """

    name: str
    categories: dict[str, tuple[Noun, ...]]
    located: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    held_out: frozenset[tuple[str, str]] = frozenset()

    def holds_out(self, noun: Noun) -> bool:
        """Return whether training scenes never show an object."""
        return (noun.shape, noun.colour) in self.held_out


DEMO = Vocabulary("demo", CATEGORIES, OBJECTS, OBJECTS, HELD_OUT)
"""The objects of the shipped demo set and of the training scenes."""


_FIGURE_CATEGORIES = {
    name: read_rows(rows)
    or tuple(noun for noun in CATEGORIES[name] if noun.listed and noun.phrase() != "white drug bottle")
    for name, rows in _FIGURE["categories"].items()
}
_FIGURE_LOCATED = tuple(WORDS[row] if isinstance(row, str) else read_rows([row])[0] for row in _FIGURE["located"])

FIGURE_14 = Vocabulary(
    "figure-14",
    _FIGURE_CATEGORIES,
    _FIGURE_LOCATED,
    tuple(dict.fromkeys((*(member for group in _FIGURE_CATEGORIES.values() for member in group), *_FIGURE_LOCATED))),
)
"""Figure 14 word for word. Any object may be counted (Figure 16 counts school bus toys, of the location row)."""

_VOCABULARIES: dict[str, Vocabulary] = {shipped.name: shipped for shipped in (DEMO, FIGURE_14)}


def vocabulary(name: str) -> Vocabulary:
    """Return the vocabulary of that name."""
    if name not in _VOCABULARIES:
        choices = f"{', '.join(_VOCABULARIES)}, and those of assets that were read"
        raise UnknownNameError(f"vocabulary({name!r}): no such vocabulary; there are {choices}")
    return _VOCABULARIES[name]


def add_vocabulary(added: Vocabulary) -> None:
    """Make a vocabulary known in this process; its name must determine its content, so that it never changes."""
    if _VOCABULARIES.setdefault(added.name, added) != added:
        raise ValueError(f"add_vocabulary: another vocabulary is called {added.name!r}; name this one by its content")
