"""Other captions of a drawn scene: paraphrases that are true, and minimal foils that are certainly false."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

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
)
from tellapart_render.captions.vocabulary import vocabulary
from tellapart_render.scenes.quadruple import Quadruple, rivals

__all__ = ["Foil", "foils", "truths"]

_CONVERSE: dict[Relation, Relation] = {"left": "right", "right": "left", "front": "behind", "behind": "front"}


@dataclass(frozen=True, slots=True)
class Foil:
    """A false caption and the kind of change that makes it false."""

    text: str
    kind: str


def _with_size(size: str, each: Noun) -> str:
    return f"{size} {each.phrase()}" if size else each.phrase()


def truths(quadruple: Quadruple, side: int) -> list[str]:
    """Return the captions that are true of one of the two scenes; the quadruple's caption comes first.

    Synonyms of the location and of the verb, the converse relation, the relation without sizes, both counting
    templates.

    >>> from tellapart_render.scenes.quadruple import Key, draw
    >>> quadruple = draw(Key("test", 0, "counting", 0))
    >>> truths(quadruple, 0)[0] == quadruple.captions[0], len(truths(quadruple, 0))
    (True, 4)
    """
    fact, nouns = quadruple.facts[side], quadruple.nouns[side]
    captions = [quadruple.captions[side]]
    if fact.relation is None and len(set(nouns)) > 1:
        groups = _count_groups(nouns)
        orders = (groups, groups[::-1])
        captions += [group_caption(o, p, existential=e) for o in orders for p in PLACES for e in (True, False)]
        return list(dict.fromkeys(captions))
    if fact.relation is None:
        captions += [count_caption(fact.count, nouns[0], p, existential=e) for p in PLACES for e in (True, False)]
        return list(dict.fromkeys(captions))
    first, second = nouns
    pairs = [(_with_size(quadruple.sizes[0], first), _with_size(quadruple.sizes[1], second))]
    if quadruple.sizes[0]:
        pairs.append((first.phrase(), second.phrase()))
    converse = _CONVERSE.get(fact.relation)
    for a, b in pairs:
        for verb in VERBS:
            captions += [relation_caption(a, verb, words, b) for words in LOCATIONS[fact.relation]]
            if converse is not None:
                captions += [relation_caption(b, verb, words, a) for words in LOCATIONS[converse]]
    return list(dict.fromkeys(captions))


def foils(quadruple: Quadruple, side: int) -> list[Foil]:
    """Return captions that are false of one of the two scenes, each one change away from its caption.

    If the quadruple shows no held-out pair, no foil names one.

    >>> from tellapart_render.scenes.quadruple import Key, draw
    >>> quadruple = draw(Key("test", 0, "location", 0))
    >>> {foil.kind for foil in foils(quadruple, 0)} >= {"location", "swap"}
    True
    """
    words = vocabulary(quadruple.key.vocabulary)
    pool = tuple(each for each in words.objects if quadruple.key.held_out == "yes" or not words.holds_out(each))
    alone = _count_foils if len(set(quadruple.nouns[side])) == 1 else _group_foils
    make = alone if quadruple.facts[side].relation is None else _pair_foils
    candidates = [Foil(quadruple.captions[1 - side], "pair"), *make(quadruple, side, pool)]
    true = set(truths(quadruple, side))
    unique = {foil.text: foil for foil in reversed(candidates) if foil.text not in true}
    return list(reversed(unique.values()))


def _count_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count, or another object of the category."""
    (each,), count = quadruple.nouns[side], quadruple.facts[side].count

    def say(number: int, noun: Noun) -> str:
        existential = quadruple.captions[side].startswith("There")
        return count_caption(number, noun, quadruple.place, existential=existential)

    return [
        *(Foil(say(n, each), "count") for n in COUNTS if n != count),
        *(Foil(say(count, rival), "object") for rival in rivals(each, pool)),
    ]


def _count_groups(nouns: tuple[Noun, ...]) -> list[tuple[int, Noun]]:
    return [(count, each) for each, count in Counter(nouns).items()]


def _group_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another count or another object in one of the groups, or with their objects swapped."""
    (first, one), (second, other) = _count_groups(quadruple.nouns[side])

    def say(a: tuple[int, Noun], b: tuple[int, Noun]) -> str:
        existential = quadruple.captions[side].startswith("There")
        return group_caption((a, b), quadruple.place, existential=existential)

    return [
        *(Foil(say((n, one), (second, other)), "count") for n in COUNTS[1:] if n != first),
        *(Foil(say((first, one), (n, other)), "count") for n in COUNTS[1:] if n != second),
        *(Foil(say((first, rival), (second, other)), "object") for rival in rivals(one, pool)),
        *(Foil(say((first, one), (second, rival)), "subject") for rival in rivals(other, pool)),
        Foil(say((first, other), (second, one)), "swap"),
    ]


def _pair_foils(quadruple: Quadruple, side: int, pool: tuple[Noun, ...]) -> list[Foil]:
    """Return captions with another object, subject, size or location; with both swapped, or only their colours."""
    first, second = quadruple.nouns[side]
    relation = quadruple.facts[side].relation
    words = quadruple.place.split("/")[-1 if side else 0]
    sizes, verb = quadruple.sizes, quadruple.verb

    def say(a: Noun, b: Noun, where: str = words, size: tuple[str, str] = sizes) -> str:
        return relation_caption(_with_size(size[0], a), verb, where, _with_size(size[1], b))

    result = [Foil(say(rival, second), "object") for rival in rivals(first, pool)]
    result += [Foil(say(first, rival), "subject") for rival in rivals(second, pool)]
    result += [Foil(say(first, second, other[0]), "location") for r, other in LOCATIONS.items() if r != relation]
    result.append(Foil(say(second, first, words, (sizes[1], sizes[0])), "swap"))
    if sizes[0]:
        opposite = {SIZES[0]: SIZES[1], SIZES[1]: SIZES[0]}
        result.append(Foil(say(first, second, words, (opposite[sizes[0]], sizes[1])), "size"))
        result.append(Foil(say(first, second, words, (sizes[0], opposite[sizes[1]])), "size"))
    crossed = [
        next((n for n in pool if n.shape == own.shape and n.colour == other.colour and n != own), None)
        for own, other in ((first, second), (second, first))
    ]
    if crossed[0] is not None and crossed[1] is not None:
        result.append(Foil(say(crossed[0], crossed[1]), "binding"))
    return result
