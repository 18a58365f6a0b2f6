"""What is drawn depends on its own seed: not on how many are drawn, nor beyond a level of 256 on the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

from tellapart_render.diffusion.sampling import (
    Draw,
    Schedule,
    random_numbers,
    room_for,
    sample_images,
    sample_pairs,
    words_of,
)

CAPTIONS = ("a cat on a bed", "a dog on a bed")
DRAWS = [Draw(1, 7.5, 0.0), Draw(2, 9.0, 0.5), Draw(3, 12.0, 0.9), Draw(4, 8.0, 0.3, 0.6)]

#: Of 256 levels. A batch of another size sums in another order, which moves float32's last bits and, through rounding,
#: a level.
LEVEL = 1


def gap(a: Any, b: Any) -> int:
    return int(np.abs(np.asarray(a).astype(int) - np.asarray(b)).max())


def test_pairs_are_the_same_in_batches_of_one_and_of_three(stable_diffusion: Any) -> None:
    one, three = (
        list(sample_pairs(stable_diffusion, CAPTIONS, DRAWS, Schedule(steps=5, batch=batch))) for batch in (1, 3)
    )
    assert len(one) == len(three) == 4
    assert gap(one, three) <= LEVEL
    assert min(gap(a, b) for k, a in enumerate(one) for b in one[:k]) > 20  # while different seeds are far apart


def test_a_pair_is_the_same_to_the_bit_however_many_are_drawn(stable_diffusion: Any) -> None:
    schedule = Schedule(steps=3, batch=3)
    alone = list(sample_pairs(stable_diffusion, CAPTIONS, DRAWS[:1], schedule))
    among = list(sample_pairs(stable_diffusion, CAPTIONS, DRAWS, schedule))
    assert len(alone) == 1
    assert np.array_equal(alone[0], among[0])


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl"])
def test_pictures_are_the_same_in_batches_of_one_and_of_three(name: str, request: pytest.FixtureRequest) -> None:
    pipeline = request.getfixturevalue(name)
    one, three = (
        list(sample_images(pipeline, "a cat", [5, 6, 7, 8], Schedule(steps=3, batch=batch), 5.0)) for batch in (1, 3)
    )
    assert np.array(one).shape == (4, 32, 32, 3)
    assert gap(one, three) <= LEVEL
    assert min(gap(a, b) for k, a in enumerate(one) for b in one[:k]) > 20


def test_pictures_have_the_side_that_is_asked_for(stable_diffusion: Any) -> None:
    ((first, _),) = sample_pairs(stable_diffusion, CAPTIONS, DRAWS[:1], Schedule(steps=1, side=48))
    assert first.shape == (48, 48, 3)
    (image,) = sample_images(stable_diffusion, "a cat", [1], Schedule(steps=1, side=48), 5.0)
    assert image.shape == (48, 48, 3)


def test_words_are_what_the_text_encoder_is_given(stable_diffusion: Any) -> None:
    tokenizer = stable_diffusion.tokenizer
    words = words_of(tokenizer, "a cat on an old bed.")
    assert len(words) == 6
    assert [token for word in words for token in word] == tokenizer("a cat on an old bed.").input_ids[1:-1]


def test_room_is_what_every_text_encoder_reads(stable_diffusion: Any, stable_diffusion_xl: Any) -> None:
    for pipeline in (stable_diffusion, stable_diffusion_xl):
        fits, too_long = "x" * 22, "x" * 23  # 24 tokens with begin and end
        assert room_for(pipeline, fits)
        assert not room_for(pipeline, too_long)


def test_random_numbers_are_of_the_seed_the_item_and_the_draw() -> None:
    keys = [(1, "a", 0), (2, "a", 0), (1, "b", 0), (1, "a", 1)]
    assert len({int(random_numbers(*key).integers(2**62)) for key in keys}) == 4
    assert random_numbers(1, "a", 0).random() == random_numbers(1, "a", 0).random()
