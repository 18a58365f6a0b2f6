"""Rules that make a false caption of a true one: swap, replace or add an object, an attribute or a relation.

A rule changes words of the lexicon alone, where their neighbours leave no doubt about their meaning, and corrects the
article before them. It reads the caption, not the picture: a replaced or added thing may happen to be there, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, get_args

from tellapart.builders.negatives.lexicon import (
    ASYMMETRIC,
    ATTRIBUTES,
    BEFORE_NOUN,
    COLOURS,
    COUNTED,
    OBJECTS,
    PEOPLE,
    POSTURES,
    PRONOUNS,
    RELATIONS,
    article,
    follows_noun,
    plural,
)

__all__ = ["KINDS", "Kind", "Rewrite", "rewrites"]

Kind = Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""SugarCrepe's seven subsets, by its names."""

_TOKEN = re.compile(r"\w+(?:'\w+)?|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A false caption, and the change that made it, such as "dog -> cat"."""

    text: str
    change: str


@dataclass(frozen=True, slots=True)
class _Noun:
    index: int  # among the words
    kind: str
    singular: str
    many: bool

    def form(self, singular: str) -> str:
        return plural(singular) if self.many else singular


@dataclass(frozen=True, slots=True)
class _Caption:
    text: str
    words: tuple[str, ...]  # in lower case
    spans: tuple[tuple[int, int], ...]
    nouns: tuple[_Noun, ...]

    def word(self, index: int) -> str | None:
        return self.words[index] if 0 <= index < len(self.words) else None

    def edit(self, edits: Mapping[tuple[int, int], str]) -> str:
        """Return the text with ranges of words replaced, and with the right article before each."""
        with_articles = dict(edits)
        for (first, _), new in edits.items():
            if first > 0 and self.words[first - 1] in {"a", "an"}:
                with_articles[first - 1, first] = article(new)
        text = self.text
        for (first, last), new in sorted(with_articles.items(), reverse=True):
            start, end = self.spans[first][0], self.spans[last - 1][1]
            fitting = new[0].upper() + new[1:] if text[start].isupper() else new
            text = text[:start] + fitting + text[end:]
        return text


@cache
def _objects() -> dict[str, tuple[str, str, bool]]:
    """Return every form of an object: kind, singular, whether it is a plural."""
    nouns = [(kind, noun) for kind, group in OBJECTS.items() for noun in group]
    singulars = {noun: (kind, noun, False) for kind, noun in nouns}
    return singulars | {plural(noun): (kind, noun, True) for kind, noun in nouns}


@cache
def _attributes() -> dict[str, tuple[str, ...]]:
    return {word: group for group in ATTRIBUTES for word in group}


def _read(text: str) -> _Caption:
    matches = list(_TOKEN.finditer(text))
    words = tuple(match[0].lower() for match in matches)
    nouns = []
    for index, word in enumerate(words):
        if word not in _objects():
            continue
        kind, singular, many = _objects()[word]
        before = words[index - 1] if index else None
        known = before in BEFORE_NOUN or before in _attributes()
        # Only a plural needs no word before it: "dogs on a bed", "a group of dogs".
        bare = many and (before is None or follows_noun(before, preposition=True))
        if (known or bare) and follows_noun(words[index + 1] if index + 1 < len(words) else None):
            nouns.append(_Noun(index, kind, singular, many))
    return _Caption(text, words, tuple(match.span() for match in matches), tuple(nouns))


def _replace_obj(caption: _Caption) -> Iterator[Rewrite]:
    named = {noun.singular for noun in caption.nouns}
    # "A woman with her dog": the pronoun would have to change, too.
    free = not PRONOUNS.intersection(caption.words)
    for noun in caption.nouns:
        for rival in OBJECTS[noun.kind] if free or noun.kind not in PEOPLE else ():
            if rival not in named and rival not in caption.words and plural(rival) not in caption.words:
                new = noun.form(rival)
                yield Rewrite(
                    caption.edit({(noun.index, noun.index + 1): new}), f"{caption.words[noun.index]} -> {new}"
                )


def _attributes_of(caption: _Caption) -> Iterator[tuple[str, _Noun]]:
    """Yield every attribute with the object right after it; a person's colour is none."""
    for noun in caption.nouns:
        before = caption.word(noun.index - 1)
        if before in _attributes() and not (noun.kind in PEOPLE and before in COLOURS):
            # "black and white dog", "dark red car": the colour is not one word.
            ahead = caption.word(noun.index - 2)
            if ahead is None or ahead in BEFORE_NOUN or follows_noun(ahead, preposition=True):
                yield before, noun


def _replace_att(caption: _Caption) -> Iterator[Rewrite]:
    for attribute, noun in _attributes_of(caption):
        for rival in _attributes()[attribute]:
            if rival not in caption.words:
                edits = {(noun.index - 1, noun.index): rival}
                yield Rewrite(caption.edit(edits), f"{attribute} -> {rival}")


def _replace_rel(caption: _Caption) -> Iterator[Rewrite]:
    for first, last, phrase in _phrases(caption, frozenset(RELATIONS)):
        # "filled with", "made out of": the word belongs to the verb before it.
        belongs = first > 0 and (caption.words[first - 1].endswith("ed") or caption.words[first - 1] in {"made", "up"})
        if caption.word(last) in BEFORE_NOUN and not belongs:
            yield Rewrite(caption.edit({(first, last): RELATIONS[phrase]}), f"{phrase} -> {RELATIONS[phrase]}")
    for index, word in enumerate(caption.words):
        for group in POSTURES:
            if word in group and follows_noun(caption.word(index + 1), preposition=True):
                # "Standing up" and "lying down" say the posture twice.
                if caption.word(index + 1) in {"up", "down"}:
                    continue
                for rival in group:
                    if rival != word:
                        yield Rewrite(caption.edit({(index, index + 1): rival}), f"{word} -> {rival}")


def _phrases(caption: _Caption, known: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the known phrases with their ranges of words; the longest at each start, none inside another."""
    start = 0
    while start < len(caption.words):
        for length in (4, 3, 2, 1):
            phrase = " ".join(caption.words[start : start + length])
            if phrase in known and start + length <= len(caption.words):
                yield start, start + length, phrase
                start += length
                break
        else:
            start += 1


def _swap_obj(caption: _Caption) -> Iterator[Rewrite]:
    for one, other in pairwise(caption.nouns):
        between = caption.words[one.index + 1 : other.index]
        related = any(one.index < first < other.index for first, _, _ in _phrases(caption, ASYMMETRIC))
        if one.singular == other.singular or one.many != other.many or not related:
            continue
        if {"and", "or", ",", ";", ".", "while", "but"} & set(between):
            continue
        names = caption.words[one.index], caption.words[other.index]
        edits = {(one.index, one.index + 1): names[1], (other.index, other.index + 1): names[0]}
        yield Rewrite(caption.edit(edits), f"{names[0]} <-> {names[1]}")


def _swap_att(caption: _Caption) -> Iterator[Rewrite]:
    pairs = list(_attributes_of(caption))
    for k, (attribute, noun) in enumerate(pairs):
        for other_attribute, other in pairs[k + 1 :]:
            exclusive = other_attribute in _attributes()[attribute] and other_attribute != attribute
            # Of two people a colour is no attribute, and of two cups "a red and a blue one" is the same either way.
            if not exclusive or noun.singular == other.singular:
                continue
            if {noun.kind, other.kind} & PEOPLE and attribute in COLOURS:
                continue
            edits = {(noun.index - 1, noun.index): other_attribute, (other.index - 1, other.index): attribute}
            yield Rewrite(caption.edit(edits), f"{attribute} <-> {other_attribute}")


def _add_obj(caption: _Caption) -> Iterator[Rewrite]:
    """At the end, where no verb has to agree with the sum."""
    end = len(caption.words) - (1 if caption.words and caption.words[-1] == "." else 0)
    for noun in caption.nouns:
        if noun.index + 1 != end or noun.many or caption.word(noun.index - 1) not in {"a", "an"}:
            continue
        for rival in OBJECTS[noun.kind]:
            if rival not in caption.words and plural(rival) not in caption.words:
                addition = f"and {article(rival)} {rival}"
                edits = {(noun.index, noun.index + 1): f"{caption.words[noun.index]} {addition}"}
                yield Rewrite(caption.edit(edits), f"+ {addition}")


def _add_att(caption: _Caption) -> Iterator[Rewrite]:
    for noun in caption.nouns:
        if noun.kind in COUNTED and caption.word(noun.index - 1) in BEFORE_NOUN:
            for colour in COLOURS:
                if colour not in caption.words:
                    word = caption.words[noun.index]
                    edits = {(noun.index, noun.index + 1): f"{colour} {word}"}
                    yield Rewrite(caption.edit(edits), f"+ {colour} {word}")


_RULES: Mapping[str, Callable[[_Caption], Iterator[Rewrite]]] = MappingProxyType(
    dict(zip(KINDS, (_replace_obj, _replace_att, _replace_rel, _swap_obj, _swap_att, _add_obj, _add_att), strict=True))
)


def rewrites(text: str, kind: str) -> list[Rewrite]:
    """Return every false caption that the rules of one kind make of a true one, in a fixed order, none twice.

    >>> [each.text for each in rewrites("A dog sitting on a red couch.", "swap_obj")]
    ['A couch sitting on a red dog.']
    >>> [each.change for each in rewrites("A dog sitting on a red couch.", "replace_rel")]
    ['sitting -> standing', 'sitting -> lying']
    """
    by_text = {rewrite.text: rewrite for rewrite in _RULES[kind](_read(text)) if rewrite.text != text}
    return list(by_text.values())
