"""Other words for captions of the scenes' grammar: synonyms, one form for equal meanings, and mirror images."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tellapart_render.captions.grammar import LOCATIONS, PLACES, VERBS

_SIDES: dict[str, tuple[str, ...]] = {"left": LOCATIONS["left"], "right": LOCATIONS["right"]}

_VERB = re.compile(r"\bis (?:located|placed)\b")
_SIDE = re.compile(r"\bon the (left|right)(?: side| hand)? of\b")
_COUNT_FIRST = re.compile(r"^(\d) (.+) (is|are) (?:in the scene|on the platform)\.$")
_THERE_FIRST = re.compile(r"^There (is|are) (\d) (.+) (?:in the scene|on the platform)\.$")
_NEXT_GROUP = re.compile(r" and (?=\d)")
# A caption that `meaning` turns around, so that each relation has one form: "B is behind A", "A is in front of B".
_CONVERSE = re.compile(r"^the (.+) is (on the right of|behind) the (.+)\.$")
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
    return _CONVERSE.sub(lambda match: f"the {match[3]} is {_OPPOSITE[match[2]]} the {match[1]}.", plain)


def mirror(text: str) -> str:
    """Return the caption that is true of the image flipped left to right.

    >>> mirror("The mug is on the left side of the bowl.")
    'The mug is on the right side of the bowl.'
    """
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda match: other[match[1]], text)


@dataclass(frozen=True, slots=True)
class SynonymChoice:
    """One choice among the grammar's synonyms, applied alike to a caption and to those that it is compared with.

    Attributes:
        verb: index in the grammar's `VERBS`.
        side: index of the phrase for left or right in `LOCATIONS`.
        there: whether a counting caption begins with "There are".
        place: index in `PLACES`, the end of a counting caption.
    """

    verb: int
    side: int
    there: bool
    place: int


def draw_synonyms(rng: np.random.Generator) -> SynonymChoice:
    """Draw a choice, all equally likely.

    >>> draw_synonyms(np.random.default_rng(0))
    SynonymChoice(verb=2, side=1, there=True, place=0)
    """
    verb, side, there, place = (int(rng.integers(n)) for n in (len(VERBS), len(_SIDES["left"]), 2, len(PLACES)))
    return SynonymChoice(verb, side, bool(there), place)


def reword(text: str, choice: SynonymChoice) -> str:
    """Return the caption with those synonyms; its meaning is unchanged.

    >>> reword("The mug is on the left of the bowl.", SynonymChoice(2, 1, False, 0))
    'The mug is placed on the left side of the bowl.'
    >>> reword("2 red mugs are on the platform.", SynonymChoice(0, 0, True, 0))
    'There are 2 red mugs in the scene.'
    """
    if counted := _parse_count(text):
        count, objects, verb = counted
        place = PLACES[choice.place]
        return f"There {verb} {count} {objects} {place}." if choice.there else f"{count} {objects} {verb} {place}."
    text = _SIDE.sub(lambda match: _SIDES[match[1]][choice.side], text)
    return re.sub(r"\bis\b(?: located| placed)?", VERBS[choice.verb], text, count=1)
