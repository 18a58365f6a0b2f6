"""British and American spelling of the words that captions use: the lexicon holds one form of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_PAIRS = """
grey/gray greyish/grayish colour/color coloured/colored colourful/colorful colouring/coloring centre/center
multicoloured/multicolored discoloured/discolored centred/centered theatre/theater metre/meter litre/liter fibre/fiber
favourite/favorite harbour/harbor neighbour/neighbor neighbourhood/neighborhood armour/armor armoured/armored
flavour/flavor flavoured/flavored vapour/vapor jewellery/jewelry pyjama/pajama tyre/tire kerb/curb aeroplane/airplane
moustache/mustache aluminium/aluminum plough/plow cosy/cozy licence/license travelling/traveling traveller/traveler
labelled/labeled chequered/checkered storey/story cheque/check mould/mold mouldy/moldy programme/program yoghurt/yogurt
woollen/woolen marvellous/marvelous organised/organized panelled/paneled draught/draft
"""

#: British -> American.
_BRITISH = dict(pair.split("/") for pair in _PAIRS.split())

#: Two spellings of one thing in either country.
_EITHER = {"doughnut": "donut", "racquet": "racket", "omelette": "omelet"}

#: American forms that are British words, too: a car's tyre, and whoever tires of it. They point to no country.
_SHARED = {"meter", "tire", "curb", "license", "story", "check", "mold", "program", "draft"}


def _with_plurals(pairs: Mapping[str, str]) -> dict[str, str]:
    return {**pairs, **{f"{spelling}s": f"{other}s" for spelling, other in pairs.items()}}


_TO_LEXICAL: Mapping[str, str] = MappingProxyType(_with_plurals({**_BRITISH, **_EITHER}))
_FROM_BRITISH: Mapping[str, str] = MappingProxyType(_with_plurals(_BRITISH))
_TO_BRITISH: Mapping[str, str] = MappingProxyType({theirs: ours for ours, theirs in _FROM_BRITISH.items()})
_AMERICAN = frozenset(_with_plurals({word: word for word in {*_BRITISH.values()} - _SHARED}))


def to_lexical(word: str) -> str:
    """Return a lower-case word in the one spelling that words are compared in; parts between hyphens are words.

    >>> [to_lexical(word) for word in ("grey", "doughnuts", "grey-haired", "dog")]
    ['gray', 'donuts', 'gray-haired', 'dog']
    """
    return "-".join(_TO_LEXICAL.get(part, part) for part in word.split("-"))


def to_british(word: str) -> str:
    """Return a lower-case word of the lexicon in British spelling.

    >>> to_british("gray"), to_british("airplanes"), to_british("dog")
    ('grey', 'aeroplanes', 'dog')
    """
    return _TO_BRITISH.get(word, word)


def prefers_british(words: Iterable[str]) -> bool | None:
    """Return whether lower-case words have more British than American spellings; None if they have as many.

    >>> prefers_british(["a", "grey", "cat"]), prefers_british(["gray"]), prefers_british(["a", "cat"])
    (True, False, None)
    """
    ours = theirs = 0
    for word in words:
        ours += word in _FROM_BRITISH
        theirs += word in _AMERICAN
    return None if ours == theirs else ours > theirs
