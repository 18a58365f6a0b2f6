"""Rewordings and mirror images keep the truth of captions."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tellapart_render.captions.grammar import (
    LOCATIONS,
    OBJECTS,
    PLACES,
    SIZES,
    VERBS,
    Noun,
    count_caption,
    relation_caption,
)
from tellapart_render.training_rows import SynonymChoice, draw_synonyms, meaning, mirror, reword

nouns = st.sampled_from(OBJECTS)
wordings = st.integers(0, 10_000).map(lambda seed: draw_synonyms(np.random.default_rng(seed)))
locations = st.sampled_from([(relation, form) for relation, forms in LOCATIONS.items() for form in forms])


@given(nouns, nouns, st.sampled_from(VERBS), locations, wordings)
def test_rewording_a_relation_keeps_its_meaning(
    first: Noun, second: Noun, verb: str, location: tuple[str, str], wording: SynonymChoice
) -> None:
    text = relation_caption(first.phrase(), verb, location[1], second.phrase())
    assert meaning(reword(text, wording)) == meaning(text)


@given(nouns, nouns, locations, locations)
def test_two_relations_mean_the_same_only_if_their_locations_are_synonyms(
    first: Noun, second: Noun, one: tuple[str, str], other: tuple[str, str]
) -> None:
    assume(first != second)
    meanings = [meaning(relation_caption(first.phrase(), "is", form, second.phrase())) for _, form in (one, other)]
    assert (meanings[0] == meanings[1]) == (one[0] == other[0])


@given(nouns, nouns, locations)
def test_mirroring_swaps_left_and_right_and_nothing_else(first: Noun, second: Noun, location: tuple[str, str]) -> None:
    text = relation_caption(first.phrase(), "is", location[1], second.phrase())
    assume(first != second)
    assert mirror(mirror(text)) == text
    assert (meaning(mirror(text)) == meaning(text)) == (location[0] not in {"left", "right"})


@given(nouns, nouns, locations)
def test_a_relation_and_its_converse_mean_the_same(first: Noun, second: Noun, location: tuple[str, str]) -> None:
    assume(first != second)
    converse = {"left": "right", "right": "left", "front": "behind", "behind": "front"}.get(location[0])
    assume(converse is not None)
    texts = [relation_caption(first.phrase(), "is", location[1], second.phrase())]
    texts += [relation_caption(second.phrase(), "is", form, first.phrase()) for form in LOCATIONS[converse]]
    assert len({meaning(text) for text in texts}) == 1


@given(nouns, st.integers(1, 5), st.sampled_from(PLACES), st.booleans(), wordings)
def test_rewording_a_count_keeps_number_and_object(
    each: Noun, count: int, place: str, existential: bool, wording: SynonymChoice
) -> None:
    text = count_caption(count, each, place, existential=existential)
    again = reword(text, wording)
    assert meaning(again) == meaning(text)
    assert again in {
        count_caption(count, each, where, existential=there) for where in PLACES for there in (True, False)
    }


@given(nouns, st.integers(1, 5), st.integers(1, 5))
def test_counts_mean_the_same_only_if_they_are_equal(each: Noun, one: int, other: int) -> None:
    meanings = [meaning(count_caption(count, each, "in the scene", existential=True)) for count in (one, other)]
    assert (meanings[0] == meanings[1]) == (one == other)


@given(nouns, nouns, st.sampled_from(SIZES), st.sampled_from(SIZES), locations)
def test_size_words_do_not_change_the_meaning(
    first: Noun, second: Noun, small: str, large: str, location: tuple[str, str]
) -> None:
    sized = relation_caption(f"{small} {first.phrase()}", "is", location[1], f"{large} {second.phrase()}")
    assert meaning(sized) == meaning(relation_caption(first.phrase(), "is", location[1], second.phrase()))
