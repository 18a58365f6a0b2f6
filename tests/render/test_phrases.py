"""Paraphrases are true and foils are false, judged by an oracle that reads the caption and looks at the scene."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tellapart_render.captions.grammar import ASPECTS, HELD_OUT, LOCATIONS, PLACES, VERBS, WORDS, Noun
from tellapart_render.scenes.quadruple import Key, Quadruple, draw
from tellapart_render.scenes.scene import Scene, Thing
from tellapart_render.training_rows import foils, truths

RELATION = {words: relation for relation, group in LOCATIONS.items() for words in group}
SENTENCE = re.compile(
    r"The (small |large )?(?P<a>.+?) (?:{verbs}) (?P<where>{where}) the (small |large )?(?P<b>.+)\.".format(
        verbs="|".join(sorted(VERBS, key=len, reverse=True)), where="|".join(RELATION)
    )
)
PLURAL = {each.phrase(2): each for each in WORDS.values()} | WORDS
COUNT = re.compile(r"(?:There (?:is|are) )?(\d) (.+?) (?:(?:is|are) )?(?:{})\.".format("|".join(PLACES)))


def is_named(thing: Thing, phrase: str) -> bool:
    """Whether a phrase may be said of a thing: one of its names has all words of the phrase."""
    own = [each for each in WORDS.values() if (each.shape, each.colour) == (thing.shape, thing.colour)]
    return any(set(phrase.split()) <= set(each.phrase().split()) for each in own)


def fits_size(thing: Thing, word: str | None) -> bool:
    return word is None or (thing.size < 1.0) == (word.strip() == "small")


def seen_relations(one: Thing, other: Thing) -> set[str]:
    """The relation by the larger offset; what stands on something is beside nothing."""
    x, y, z = (a - b for a, b in zip(one.position, other.position, strict=True))
    if z > 0.001:
        return {"top"}
    if z < -0.001:
        return set()
    if abs(x) > abs(y):
        return {"right" if x > 0 else "left"}
    return {"behind" if y > 0 else "front"}


def holds(caption: str, scene: Scene) -> bool:
    """Whether a caption is true of a scene."""
    counted = COUNT.fullmatch(caption)
    if counted:
        groups = [group.split(" ", maxsplit=1) for group in f"{counted[1]} {counted[2]}".split(" and ")]
        seen = [sum(is_named(thing, PLURAL[name].phrase()) for thing in scene.things) for _, name in groups]
        return seen == [int(number) for number, _ in groups]
    match = SENTENCE.fullmatch(caption)
    assert match, caption
    size_a, a, where, size_b, b = match.groups()
    return any(
        is_named(one, a)
        and is_named(other, b)
        and fits_size(one, size_a)
        and fits_size(other, size_b)
        and RELATION[where] in seen_relations(one, other)
        for one, other in product(scene.things, scene.things)
        if one is not other
    )


@pytest.fixture(scope="module")
def quadruples() -> list[Quadruple]:
    return [
        draw(Key("test", 21, aspect, index, wording=wording, held_out=held))  # type: ignore[arg-type]
        for aspect in ASPECTS
        for index in range(20)
        for wording, held in (("minimal", "no"), ("minimal", "yes"), ("paper", "no"))
    ]


@pytest.mark.parametrize("aspect", ASPECTS)
def test_every_paraphrase_is_true_and_every_foil_false(aspect: str, quadruples: list[Quadruple]) -> None:
    for quadruple in quadruples:
        if quadruple.key.aspect != aspect:
            continue
        for side, scene in enumerate(quadruple.scenes):
            for text in truths(quadruple, side):
                assert holds(text, scene), text
            for foil in foils(quadruple, side):
                assert not holds(foil.text, scene), (foil, scene.things)


def test_the_own_caption_comes_first_and_the_other_sides_caption_is_a_foil(quadruples: list[Quadruple]) -> None:
    for quadruple in quadruples:
        for side in (0, 1):
            assert truths(quadruple, side)[0] == quadruple.captions[side]
            assert quadruple.captions[1 - side] in {foil.text for foil in foils(quadruple, side)}


def test_no_text_of_a_training_scene_names_a_held_out_pair(quadruples: list[Quadruple]) -> None:
    forbidden: list[Noun] = [each for each in WORDS.values() if (each.shape, each.colour) in HELD_OUT]
    for quadruple in (q for q in quadruples if q.key.held_out == "no"):
        for side in (0, 1):
            for text in (*truths(quadruple, side), *(foil.text for foil in foils(quadruple, side))):
                for each in forbidden:
                    # "green round plate" must not be found inside a longer name.
                    assert not re.search(
                        rf"\b(?:the|small|large|\d) (?:{each.phrase()}|{each.phrase(2)})\b", text.lower()
                    )


def test_all_kinds_of_foil_occur(quadruples: list[Quadruple]) -> None:
    kinds = {foil.kind for quadruple in quadruples for side in (0, 1) for foil in foils(quadruple, side)}
    assert kinds == {"pair", "count", "object", "subject", "location", "swap", "size", "binding"}


def test_texts_of_a_scene_do_not_repeat(quadruples: list[Quadruple]) -> None:
    for quadruple in quadruples:
        texts = truths(quadruple, 0) + [foil.text for foil in foils(quadruple, 0)]
        assert len(set(texts)) == len(texts)
