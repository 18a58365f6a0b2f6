"""Words that rules may exchange without a tagger: each has one reading where it appears, and rivals that exclude it.

Left out on purpose: words with another part of speech in captions ("orange", "glass", "watch", "park" after a verb),
words that name the same thing (couch and sofa, bicycle and bike), and kinds with kinds of them (food and pizza).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
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


_WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+")


def words(text: str) -> list[str]:
    """Return a text's words in lower case, without signs; "an" is "a", for the word after it decides between them.

    The letters after an apostrophe are a word: the owner in "a man's hat" can then be compared with a man.

    >>> words("An old man's well-worn hat, on a hook.")
    ['a', 'old', 'man', "'s", 'well-worn', 'hat', 'on', 'a', 'hook']
    """
    return ["a" if word == "an" else word for word in _WORD.findall(text.lower())]


def uniform(text: str) -> str:
    """Return a caption with a capital at its start, one blank between words, and a full stop at its end.

    A true caption written by many hands and a false one written by one machine differ in this; a blind model sees it.

    Source: BiVLC writes all captions in this form before they are compared.

    >>> uniform(" two dogs  on a bed"), uniform("Is it a dog?")
    ('Two dogs on a bed.', 'Is it a dog?')
    """
    plain = " ".join(text.split())
    ended = plain if plain.endswith((".", "!", "?")) else plain.rstrip(",;: ") + "."
    return ended[:1].upper() + ended[1:]


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OBJECTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "adult": ("man", "woman"),
        "child": ("boy", "girl"),
        "animal": (
            "dog", "cat", "horse", "cow", "elephant", "giraffe", "zebra", "bear", "bird", "goat", "rabbit", "monkey",
            "lion", "tiger", "pig",
        ),
        "vehicle": (
            "car", "truck", "bus", "train", "motorcycle", "bicycle", "boat", "airplane", "helicopter", "tractor",
        ),
        "furniture": ("chair", "table", "bed", "couch", "bench", "bookshelf"),
        "container": ("cup", "bowl", "plate", "bottle", "vase", "basket", "bucket"),
        "cutlery": ("fork", "knife", "spoon"),
        "food": ("pizza", "sandwich", "cake", "donut", "salad", "banana", "apple", "carrot", "cookie"),
        "clothing": ("shirt", "jacket", "hat", "tie", "skirt", "sweater", "scarf"),
        "device": (
            "laptop", "keyboard", "television", "camera", "clock", "lamp", "toaster", "microwave", "refrigerator",
        ),
        "room": ("kitchen", "bathroom", "bedroom"),
        "outdoors": ("beach", "forest", "desert"),
        "sport": ("frisbee", "kite", "surfboard", "skateboard", "snowboard", "racket"),
        "luggage": ("umbrella", "backpack", "suitcase", "handbag"),
        "building": ("house", "church", "barn", "bridge"),
        "plant": ("tree", "flower", "bush"),
    }
)  # fmt: skip
"""Things by kind, in the singular; two of a kind are never the same thing."""

PEOPLE = frozenset({"adult", "child"})
"""Kinds whose colour is not a matter of paint: no rule gives them another."""

COUNTED = frozenset({"vehicle", "furniture", "container", "cutlery", "clothing", "device", "sport", "luggage"})
"""Kinds of which one has a colour of its own that a caption may leave unsaid."""

COLOURS = ("red", "blue", "green", "yellow", "purple", "pink", "brown", "black", "white", "gray")

ATTRIBUTES: tuple[tuple[str, ...], ...] = (
    COLOURS,
    ("small", "large"),
    ("little", "big"),
    ("young", "old"),
    ("short", "tall"),
    ("empty", "full"),
    ("wooden", "metal", "plastic"),
    ("open", "closed"),
    ("wet", "dry"),
    ("clean", "dirty"),
    ("round", "square"),
)
"""Attributes that exclude one another."""

_OPPOSITES = (
    ("in front of", "behind"), ("on top of", "underneath"), ("above", "below"), ("inside", "outside"),
    ("to the left of", "to the right of"), ("on the left of", "on the right of"), ("with", "without"),
    ("pushing", "pulling"), ("throwing", "catching"),
)  # fmt: skip

RELATIONS: Mapping[str, str] = MappingProxyType(
    dict(_OPPOSITES)
    | {other: adjective for adjective, other in _OPPOSITES}
    | {"under": "on top of", "beneath": "on top of", "into": "out of", "entering": "leaving"}
)
"""Relations before a noun phrase, and what excludes them."""

ASYMMETRIC = frozenset(RELATIONS) - {"with", "without"} | {
    "on", "in", "riding", "holding", "carrying", "chasing", "feeding", "wearing", "following",
}  # fmt: skip
"""Between two things: turned round, the sentence says something else. "Next to" and "and" are not among them."""

POSTURES: tuple[tuple[str, ...], ...] = (("sitting", "standing", "lying"), ("sits", "stands", "lies"))
"""Postures that exclude one another; before a preposition only."""

BEFORE_NOUN = _split_words(
    "a an the this that these those his her their its my our your one two three four five six several some many both "
    "each another"
)
"""What a noun phrase begins with."""

PRONOUNS = _split_words("he she his her hers him himself herself")
"""Words that say which person is meant."""

_PREPOSITIONS = _split_words(
    "on in at by near next beside behind under underneath beneath above below over inside outside into onto with "
    "without from to of for through across around along against between among toward towards up down off during"
)
_AFTER_NOUN = _PREPOSITIONS | _split_words(
    "and or but while as that which who whose where when is are was were has have had can will sits stands lies rides "
    "holds looks walks runs eats plays"
)
_FUNCTION = (
    BEFORE_NOUN | PRONOUNS | _AFTER_NOUN | _split_words("not no some there here it they them be been being also other")
)
_NO_VERBS = _split_words("building ceiling wing ring king string evening morning clothing painting railing awning")
_IRREGULAR = {"man": "men", "woman": "women", "knife": "knives", "bookshelf": "bookshelves"}


def plural(noun: str) -> str:
    """Return the plural of one of `OBJECTS`.

    >>> [plural(noun) for noun in ("cat", "bus", "man", "bench")]
    ['cats', 'buses', 'men', 'benches']
    """
    return _IRREGULAR.get(noun) or noun + ("es" if noun.endswith(("s", "ch", "sh")) else "s")


def singular(word: str) -> str:
    """Return the singular of a noun in lower case; the endings decide on a word that this lexicon does not know.

    >>> [singular(word) for word in ("cats", "buses", "men", "women", "berries", "grass", "dog")]
    ['cat', 'bus', 'man', 'woman', 'berry', 'grass', 'dog']
    """
    singular_noun = _map_singulars().get(word)
    if singular_noun is not None:
        return singular_noun
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@cache
def _map_singulars() -> Mapping[str, str]:
    nouns = [noun for group in OBJECTS.values() for noun in group] + ["child", "person", "foot", "tooth"]
    irregular = {"children": "child", "people": "person", "feet": "foot", "teeth": "tooth", "policemen": "policeman"}
    return {noun: noun for noun in nouns} | {plural(noun): noun for noun in nouns} | irregular


def function_words() -> frozenset[str]:
    """Return the words that name no thing and no property: articles, numbers, prepositions, pronouns and their like.

    >>> {"the", "with", "and"} <= function_words(), "dog" in function_words()
    (True, False)
    """
    return _FUNCTION


def article(word: str) -> str:
    """Return the indefinite article before one of this lexicon's words.

    >>> article("umbrella"), article("dog")
    ('an', 'a')
    """
    return "an" if word[0] in "aeiou" else "a"


def follows_noun(word: str | None, *, preposition: bool = False) -> bool:
    """Return whether a lower-case word after a noun shows that the noun phrase ends there; None is the caption's end.

    With `preposition`, only a preposition counts.

    >>> follows_noun("on"), follows_noun("riding"), follows_noun("house"), follows_noun(None)
    (True, True, False, True)
    """
    if preposition:
        return word in _PREPOSITIONS
    if word is None or word in _AFTER_NOUN or word in {".", ",", ";"}:
        return True
    return word.endswith("ing") and len(word) > 5 and word not in _NO_VERBS
