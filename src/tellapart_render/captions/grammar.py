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
#: Aspects whose items differ by more or by less, or show their difference better or worse.
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
        """Return the noun phrase without article or number."""
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
    """Fill one of the two counting templates."""
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


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Objects by the aspect that draws them; its name is that of keys and recipes.

    The attribute aspect takes an object and its rival from one of the `categories`, the location aspect two of the
    `located`; any of the `objects` can be counted, or be the attribute aspect's subject. Training scenes never show the
    pairs of shape and colour that are `held_out`.
    """

    name: str
    categories: dict[str, tuple[Noun, ...]]
    located: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    held_out: frozenset[tuple[str, str]] = frozenset()

    def holds_out(self, each: Noun) -> bool:
        """Return whether an object is kept from training scenes."""
        return (each.shape, each.colour) in self.held_out


DEMO = Vocabulary("demo", CATEGORIES, OBJECTS, OBJECTS, HELD_OUT)
"""The objects of the shipped demo set and of the training scenes."""


def _keep_listed(nouns: tuple[Noun, ...]) -> Iterator[Noun]:
    """Yield the nouns that the figure names."""
    return (noun for noun in nouns if noun.listed)


def _make_noun(category: str, attribute: str, head: str, shape: str, colour: str = "") -> Noun:
    return Noun(category, attribute, head, "", shape, colour, True)


_FIGURE_CATEGORIES: dict[str, tuple[Noun, ...]] = {
    **{name: tuple(_keep_listed(CATEGORIES[name])) for name in ("towel", "hat", "plate", "plant container")},
    "storage": (
        _make_noun("storage", "metallic mobile device", "storage", "device storage", "metallic"),
        *family("storage", "{colour} mobile device storage", "device storage", "white"),
        _make_noun("storage", "blue and white mobile device", "storage", "two-tone device storage", "blue"),
    ),
    "shoe": (
        *family("shoe", "{colour} shoe", "shoe", "brown green black pink yellow blue red"),
        *family("shoe", "{colour} running shoe", "running shoe", "white purple"),
    ),
    # The location row's white drug bottle is not in the category's list.
    "bottle": tuple(noun for noun in _keep_listed(CATEGORIES["bottle"]) if noun.phrase() != "white drug bottle"),
    "bowl": tuple(_keep_listed(CATEGORIES["bowl"])),
}

_FIGURE_LOCATED: tuple[Noun, ...] = (
    _make_noun("animal", "green turtle", "toy", "turtle", "green"),
    _make_noun("animal", "white animal dog", "toy", "dog", "white"),
    *(n for n in SINGLES if n.head in {"cooker", "porcelain", "keyboard", "box", "clock", "frother", "laptop"}),
    _make_noun("animal", "great white shark", "model", "shark"),
    _make_noun("bath towel", "pink damask bath", "towel", "bath towel", "pink"),
    *_keep_listed(CATEGORIES["porcelain teapot"]),
    _make_noun("animal", "grey elephant", "toy", "elephant", "grey"),
    _make_noun("bird", "bald eagle", "toy", "eagle"),
    _make_noun("animal", "brown", "bull", "bull", "brown"),
    Noun("gloves", "blue", "gloves", "", "gloves", "blue", True),
    next(noun for noun in CATEGORIES["hat"] if noun.colour == "brown"),
    _make_noun("gaming mouse", "white gaming", "mouse", "gaming mouse", "white"),
    _make_noun("footwear", "black", "boot", "boot", "black"),
    Noun("scissors", "red", "scissors", "", "scissors", "red", True),
    *_keep_listed(CATEGORIES["frypan"]),
    *_keep_listed(CATEGORIES["coffee mug"]),
    *_keep_listed(CATEGORIES["sofa"]),
    _make_noun("footwear", "black", "sneaker", "sneaker", "black"),
    _make_noun("footwear", "white canvas", "shoe", "canvas shoe", "white"),
    _make_noun("gameboy", "black and red", "gameboy", "game console", "black"),
    _make_noun("backpack", "blue and black", "backpack", "backpack", "blue"),
    _make_noun("footwear", "red high", "heel", "high heel", "red"),
    *(single for single in SINGLES if single.head in {"toaster", "basket"} or single.category == "school bus"),
    next(noun for noun in CATEGORIES["bottle"] if noun.phrase() == "white drug bottle"),
    _make_noun("hammer", "black and yellow", "hammer", "hammer", "yellow"),
    *_keep_listed(CATEGORIES["refrigerator"]),
)

FIGURE_14 = Vocabulary(
    "figure-14",
    _FIGURE_CATEGORIES,
    _FIGURE_LOCATED,
    tuple(dict.fromkeys((*(member for group in _FIGURE_CATEGORIES.values() for member in group), *_FIGURE_LOCATED))),
)
"""Figure 14 word for word: 8 categories, 34 objects of the location row. Any of them may be counted (Figure 16
counts school bus toys, of the location row)."""

_VOCABULARIES: dict[str, Vocabulary] = {vocabulary_name.name: vocabulary_name for vocabulary_name in (DEMO, FIGURE_14)}


def vocabulary(name: str) -> Vocabulary:
    """Return the vocabulary of that name."""
    if name not in _VOCABULARIES:
        vocabulary_names = f"{', '.join(_VOCABULARIES)}, and those of assets that were read"
        raise UnknownNameError(f"vocabulary({name!r}): no such vocabulary; there are {vocabulary_names}")
    return _VOCABULARIES[name]


def add_vocabulary(added: Vocabulary) -> None:
    """Make a vocabulary known in this process; its name must determine its content, so that it never changes."""
    if _VOCABULARIES.setdefault(added.name, added) != added:
        raise ValueError(f"add_vocabulary: another vocabulary is called {added.name!r}; name this one by its content")
