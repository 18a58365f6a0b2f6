"""Vocabularies of objects that scenes show: the demo's, Figure 14's full list, or those of a folder of assets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tellapart.errors import UnknownNameError
from tellapart_render.captions.grammar import CATEGORIES, HELD_OUT, OBJECTS, SINGLES, Noun, family


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Objects by the aspect that draws them.

    Attributes:
        name: used by keys and recipes.
        categories: the sets from which the attribute aspect takes an object and its rival.
        located: objects that the location aspect relates.
        objects: all of them; any can be counted, or be the attribute aspect's subject.
        held_out: pairs of shape and colour that training scenes never show.
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
