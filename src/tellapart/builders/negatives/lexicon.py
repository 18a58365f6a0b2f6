"""The lexicon of the rules that make false captions: words that a rule may exchange without a tagger, and their forms.

Each word has one meaning in captions, and rivals that exclude it. Left out are words with another part of speech
("orange", "glass", "watch", "park" after a verb), words of which two name the same thing (couch and sofa, bicycle and
bike), and general words beside special ones (food and pizza).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tellapart.data.rows import read_toml

_WORDS: dict[str, Any] = read_toml(Path(__file__).with_name("lexicon.toml"))

#: British -> American.
_BRITISH = dict(pair.split("/") for pair in _WORDS["spellings"].split())


def _with_plurals(pairs: Mapping[str, str]) -> dict[str, str]:
    return {**pairs, **{f"{spelling}s": f"{other}s" for spelling, other in pairs.items()}}


_TO_LEXICAL: Mapping[str, str] = MappingProxyType(_with_plurals({**_BRITISH, **_WORDS["either"]}))
_FROM_BRITISH: Mapping[str, str] = MappingProxyType(_with_plurals(_BRITISH))
_TO_BRITISH: Mapping[str, str] = MappingProxyType({american: british for british, american in _FROM_BRITISH.items()})
_AMERICAN = frozenset(_with_plurals({word: word for word in {*_BRITISH.values()} - {*_WORDS["shared"].split()}}))


def to_lexical(word: str) -> str:
    """Return a lower-case word in the spelling in which words are compared; parts between hyphens count as words."""
    return "-".join(_TO_LEXICAL.get(part, part) for part in word.split("-"))


def to_british(word: str) -> str:
    """Return a lower-case word of the lexicon in British spelling."""
    return _TO_BRITISH.get(word, word)


def prefers_british(words: Iterable[str]) -> bool | None:
    """Return whether lower-case words have more British than American spellings; None if they have as many."""
    british = american = 0
    for word in words:
        british += word in _FROM_BRITISH
        american += word in _AMERICAN
    return None if british == american else british > american


#: A word, with its parts between hyphens, or an apostrophe and the letters after it: "a-frame", "'s".
_WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+")


def words(text: str) -> list[str]:
    """Return a text's words in lower case, without signs; "an" becomes "a", as both are one word in two forms.

    An apostrophe and its letters are a word: "a man's hat" then has the word "man".
    """
    return ["a" if word == "an" else word for word in _WORD.findall(text.lower())]


def uniform(text: str) -> str:
    """Return a caption with a capital at its start, one blank between words, and a full stop at its end.

    Otherwise people's true captions and a machine's false ones differ in this, and a blind model can part them.

    Source: BiVLC writes all captions in this form before they are compared.
    """
    plain = " ".join(text.split())
    ended = plain if plain.endswith((".", "!", "?")) else plain.rstrip(",;: ") + "."
    return ended[:1].upper() + ended[1:]


def _words_under(*keys: str) -> frozenset[str]:
    return frozenset(word for key in keys for word in _WORDS[key].split())


OBJECTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {kind: tuple(nouns.split()) for kind, nouns in _WORDS["objects"].items()}
)
"""Things by kind, in the singular; two words of a kind never name the same thing."""

PEOPLE, COUNTED = _words_under("people"), _words_under("counted")
"""Kinds whose colour no rule changes; kinds to which a rule may add a colour, as captions need not name it."""

COLOURS: tuple[str, ...] = tuple(_WORDS["colours"].split())

ATTRIBUTES: tuple[tuple[str, ...], ...] = (COLOURS, *(tuple(group.split()) for group in _WORDS["attributes"]))
"""Groups of attributes that exclude one another."""

RELATIONS: Mapping[str, str] = MappingProxyType(
    {first: second for pair in _WORDS["opposites"] for first, second in (pair, pair[::-1])} | _WORDS["one_way"]
)
"""By relation before a noun phrase: a relation that excludes it."""

ASYMMETRIC = frozenset(RELATIONS) - {"with", "without"} | _words_under("asymmetric")
"""Relations that are not symmetric: if the two things are exchanged, the sentence has another meaning."""

_DENIAL = re.compile(rf"\b(?:{'|'.join(_WORDS['denials'].split())})\b|n['’]t\b", re.IGNORECASE)

_POSED = _words_under("posed").union(*(OBJECTS[kind] for kind in (*PEOPLE, "animal")))

POSTURES: tuple[tuple[str, ...], ...] = tuple(tuple(group.split()) for group in _WORDS["postures"])
"""Groups of postures that exclude one another, if a preposition follows."""

BEFORE_NOUN, PRONOUNS = _words_under("before_noun"), _words_under("pronouns")
"""Articles, owners and numbers, with which a noun phrase begins; pronouns of a person."""

_PREPOSITIONS = _words_under("prepositions")
_AFTER_NOUN = _words_under("prepositions", "after_noun")

FUNCTION_WORDS = BEFORE_NOUN | PRONOUNS | _AFTER_NOUN | _words_under("function")
"""Words that name no thing and no property: articles, numbers, prepositions, pronouns and their like."""

_NO_VERBS = _words_under("no_verbs")


def plural(noun: str) -> str:
    """Return the plural of one of `OBJECTS`."""
    return _WORDS["plurals"].get(noun) or noun + ("es" if noun.endswith(("s", "ch", "sh")) else "s")


def singular(word: str) -> str:
    """Return the singular of a noun in lower case, by its ending if the lexicon lacks the noun."""
    singular_noun = _map_singulars().get(word)
    if singular_noun is not None:
        return singular_noun
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def denied_from(text: str) -> int:
    """Return the index of a text's first denial, else its length: what follows may change, and the text stays true."""
    denial = _DENIAL.search(text)
    return denial.start() if denial else len(text)


def has_posture(word: str | None) -> bool:
    """Return whether a lower-case word names a person or an animal, who has one posture at a time."""
    return word is not None and singular(word) in _POSED


@cache
def _map_singulars() -> Mapping[str, str]:
    nouns = [noun for group in OBJECTS.values() for noun in group] + ["child", "person", "foot", "tooth"]
    singulars: dict[str, str] = _WORDS["singulars"]
    return {noun: noun for noun in nouns} | {plural(noun): noun for noun in nouns} | singulars


def article(word: str) -> str:
    """Return the indefinite article before one of this lexicon's words."""
    return "an" if word[0] in "aeiou" else "a"


def follows_noun(word: str | None, *, preposition: bool = False) -> bool:
    """Return whether a lower-case word after a noun shows that the noun ends its phrase; None is the caption's end.

    With `preposition`, only a preposition shows it.
    """
    if preposition:
        return word in _PREPOSITIONS
    if word is None or word in _AFTER_NOUN or word in {".", ",", ";"}:
        return True
    return word.endswith("ing") and len(word) > 5 and word not in _NO_VERBS
