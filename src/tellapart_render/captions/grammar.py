"""The words of Eq-Kubric: templates, verbs, locations, sizes and counts; and the objects of the shipped demo.

After EqBen (Wang et al., 2023), Figure 14. `listed` marks the figure's objects; the rest are colours added so that
colour and thing can be distinguished, and held out one from the other. The demo's objects never change, since its
pictures and the model trained on them ship; the figure's full list is in `vocabulary`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tellapart.errors import UnknownNameError

Aspect = Literal[
    "attribute", "counting", "location", "order",
    "count", "colour", "size", "distance", "angle", "height", "hidden", "extent", "distractors",
]  # fmt: skip
Relation = Literal["left", "right", "front", "behind", "top"]

ASPECTS: tuple[Aspect, ...] = ("attribute", "counting", "location", "order")
#: Aspects whose items differ by more or by less, or show their difference better or worse: `scenes.levels`.
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
    """An object that captions can name: attribute words, head noun, the words after it; and how it is drawn."""

    category: str
    attribute: str
    head: str
    tail: str
    shape: str
    colour: str
    listed: bool

    def phrase(self, count: int = 1) -> str:
        """Return the noun phrase without article or number.

        >>> Noun("box", "white gift", "box", "with red straps", "gift box", "", True).phrase(2)
        'white gift boxes with red straps'
        """
        head = self.head if count == 1 or self.plural else _pluralise_head(self.head)
        return " ".join(word for word in (self.attribute, head, self.tail) if word)

    @property
    def plural(self) -> bool:
        """Whether the name is a plural though it names one thing (gloves, scissors); such things are not counted."""
        return self.head.endswith("s") and not self.head.endswith("ss")

    def implies(self, other: Noun) -> bool:
        """Return whether everything that this phrase names may also be called by the other one."""
        return set(other.phrase().split()) <= set(self.phrase().split())

    @property
    def held_out(self) -> bool:
        """Whether training scenes never show this shape in this colour (a rule of the `demo` vocabulary)."""
        return (self.shape, self.colour) in HELD_OUT


def _pluralise_head(head: str) -> str:
    """Return a head noun's plural."""
    if head.endswith("mouse"):
        return head[: -len("mouse")] + "mice"
    return head + ("es" if head.endswith(("x", "s", "sh", "ch")) else "s")


def family(category: str, words: str, shape: str, listed: str, added: str = "") -> Iterator[Noun]:
    """Yield one noun for each colour, those that the figure lists first; `words` is `{colour} between HEAD`.

    >>> [each.phrase() for each in family("hat", "{colour} hat", "hat", "black", "red")]
    ['black hat', 'red hat']
    """
    *between, head = words.split()
    for colour in (*listed.split(), *added.split()):
        attribute = " ".join(word.format(colour=colour) for word in between)
        yield Noun(category, attribute, head, "", shape, colour, colour in listed.split())


CATEGORIES: dict[str, tuple[Noun, ...]] = {
    category: tuple(member for row in rows for member in family(category, *row))
    for category, rows in {
        # words, shape, colours that the figure lists, colours added
        "towel": (
            ("{colour} stripe towel", "stripe towel", "blue red green", "yellow"),
            ("{colour} wash towel", "wash towel", "grey", "pink blue"),
        ),
        "hat": (("{colour} hat", "hat", "black grey brown", "red blue"),),
        "plate": (
            ("{colour} square saucer plate", "square plate", "green red yellow", "blue white"),
            ("{colour} round plate", "round plate", "green brown blue", "red yellow"),
        ),
        "plant container": (("{colour} plant container", "plant container", "blue yellow red", "green white"),),
        "bottle": (
            ("{colour} drug bottle", "drug bottle", "yellow red blue white", "green"),
            ("{colour} bottle", "bottle", "purple", "red green blue"),
        ),
        "bowl": (
            ("{colour} bowl", "bowl", "yellow brown blue white", "red green"),
            ("{colour} dog bowl", "dog bowl", "grey pink", "green"),
            ("{colour} plastic dog bowl", "dog bowl", "blue", ""),
        ),
        "coffee mug": (("{colour} coffee mug", "mug", "red", "blue green yellow white black"),),
        "porcelain teapot": (("{colour} porcelain teapot", "teapot", "white", "blue green red"),),
        "frypan": (("{colour} frypan", "frypan", "black", "red green"),),
        "sofa": (("{colour} doll house wooden sofa", "sofa", "purple", "red blue green"),),
        "refrigerator": (("{colour} doll house wooden refrigerator", "refrigerator", "green", "white red blue"),),
    }.items()
}

SINGLES: tuple[Noun, ...] = (
    Noun("ramekin", "white ramekin", "porcelain", "", "ramekin", "white", True),
    Noun("gift box", "white gift", "box", "with red straps", "gift box", "", True),
    Noun("alarm clock", "vintage metal alarm", "clock", "", "alarm clock", "", True),
    Noun("milk frother", "stainless steel milk", "frother", "", "milk frother", "", True),
    Noun("toaster", "stainless steel", "toaster", "", "toaster", "", True),
    Noun("pressure cooker", "black power pressure", "cooker", "", "pressure cooker", "black", True),
    Noun("laptop", "black", "laptop", "", "laptop", "", True),
    Noun("keyboard", "black", "keyboard", "", "keyboard", "", True),
    Noun("school bus", "school bus", "toy", "", "school bus", "yellow", True),
    Noun("basket", "fabric", "basket", "", "basket", "", True),
)

OBJECTS: tuple[Noun, ...] = (*(member for group in CATEGORIES.values() for member in group), *SINGLES)

# About a quarter of the (shape, colour) pairs; every shape and every colour stays in training without them.
HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    {
        ("mug", "yellow"), ("mug", "black"), ("teapot", "blue"), ("bowl", "yellow"), ("bowl", "red"),
        ("dog bowl", "grey"), ("square plate", "yellow"), ("round plate", "green"), ("round plate", "brown"),
        ("plant container", "blue"), ("hat", "red"), ("stripe towel", "green"), ("wash towel", "blue"),
        ("drug bottle", "blue"), ("bottle", "green"), ("sofa", "red"), ("refrigerator", "white"),
    }
)  # fmt: skip

WORDS: dict[str, Noun] = {noun.phrase(): noun for noun in OBJECTS}


def noun(phrase: str) -> Noun:
    """Return the object of a caption's noun phrase."""
    if phrase not in WORDS:
        raise UnknownNameError(f"noun({phrase!r}): no such object; the objects are {', '.join(sorted(WORDS))}")
    return WORDS[phrase]


def relation_caption(object_phrase: str, verb: str, location: str, subject_phrase: str) -> str:
    """Fill the template of the location and attribute aspects; a size word goes in front of the phrases."""
    return f"The {object_phrase} {verb} {location} the {subject_phrase}."


def count_caption(count: int, each: Noun, place: str, *, existential: bool) -> str:
    """Fill one of the two counting templates.

    >>> count_caption(2, noun("red coffee mug"), "in the scene", existential=True)
    'There are 2 red coffee mugs in the scene.'
    >>> count_caption(1, noun("red coffee mug"), "on the platform", existential=False)
    '1 red coffee mug is on the platform.'
    """
    verb = "is" if count == 1 else "are"
    phrase = each.phrase(count)
    return f"There {verb} {count} {phrase} {place}." if existential else f"{count} {phrase} {verb} {place}."


def group_caption(groups: Sequence[tuple[int, Noun]], place: str, *, existential: bool) -> str:
    """Fill one of the two counting templates with groups of two things or more.

    >>> group_caption([(2, noun("red coffee mug")), (3, noun("blue bowl"))], "in the scene", existential=False)
    '2 red coffee mugs and 3 blue bowls are in the scene.'
    """
    phrase = " and ".join(f"{count} {members.phrase(count)}" for count, members in groups)
    return f"There are {phrase} {place}." if existential else f"{phrase} are {place}."
