"""Prompt-to-Prompt does what its papers say: maps are shared when and where they are to be, and nothing else moves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

pytest.importorskip("torch", reason="attention is torch's: the extra 'diffusion'")
pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

import torch

from tellapart.errors import ModelError
from tellapart_render.diffusion.sampling import (
    Draw,
    Schedule,
    Sharing,
    quiet_diffusion,
    sample_pairs,
    sharing_attention,
    token_map,
)

CAT, DOG, LONGER = "a cat on a bed", "a dog on a bed", "a cat on an old bed"
FEW = Schedule(steps=5)
NOT_SHARED = Draw(seed=1, guidance=7.5, self_fraction=0.0)
SENTENCES = st.lists(st.lists(st.integers(10, 30), min_size=1, max_size=3), min_size=1, max_size=6)


def drawn(pipeline, captions: tuple[str, str], draw: Draw, schedule: Schedule = FEW) -> tuple[Any, Any]:
    ((first, second),) = sample_pairs(pipeline, captions, [draw], schedule)
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["euler-ancestral", "ddim"])
def test_a_pair_that_shares_nothing_is_two_pictures_of_the_library_from_one_noise(stable_diffusion, sampler):
    import diffusers

    name = {"euler-ancestral": "EulerAncestralDiscreteScheduler", "ddim": "DDIMScheduler"}[sampler]
    ours = drawn(stable_diffusion, (CAT, DOG), NOT_SHARED, Schedule(steps=5, sampler=sampler))
    before = stable_diffusion.scheduler
    with quiet_diffusion():
        stable_diffusion.scheduler = getattr(diffusers, name).from_config(before.config, timestep_spacing="linspace")
        theirs = [
            stable_diffusion(
                caption,
                num_inference_steps=5,
                guidance_scale=7.5,
                generator=torch.Generator().manual_seed(1),
                output_type="np",
            ).images[0]
            for caption in (CAT, DOG)
        ]
    stable_diffusion.scheduler = before
    for one, other in zip(ours, theirs, strict=True):
        assert one.std() > 10  # a picture, not one colour
        # One level of 256: the batch of two sums in another order than the library's batch of one.
        assert np.abs(one.astype(int) - (other * 255).round().astype(int)).max() <= 1
    assert np.abs(ours[0].astype(int) - ours[1]).max() > 10


@pytest.mark.parametrize("captions", [(CAT, DOG), (CAT, LONGER)], ids=["replace", "refine"])
@pytest.mark.parametrize("fractions", [(0.9, 0.0), (0.0, 1.0), (0.5, 0.5)], ids=["self", "cross", "both"])
def test_sharing_changes_the_second_picture_and_not_a_bit_of_the_first(stable_diffusion, captions, fractions):
    apart = drawn(stable_diffusion, captions, NOT_SHARED)
    shared = drawn(stable_diffusion, captions, Draw(1, 7.5, *fractions))
    assert np.array_equal(apart[0], shared[0])
    assert not np.array_equal(apart[1], shared[1])


@pytest.mark.parametrize("fractions", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.2)])
def test_the_same_caption_twice_gives_the_same_picture_twice(stable_diffusion, fractions):
    first, second = drawn(stable_diffusion, (CAT, CAT), Draw(3, 9.0, *fractions))
    assert np.array_equal(first, second)


@given(p=st.floats(0, 1), steps=st.integers(2, 200))
def test_self_attention_is_shared_at_the_steps_of_instruct_pix2pix(p, steps):
    sharing = Sharing(steps, [p], [0.0], token_map([[5]], [[6]], 4))
    sigmas = steps + 1  # its schedule has one noise level more than steps
    for step in range(steps):
        sharing.begin(step)
        assert sharing.of_self.tolist() == [p > step / (sigmas - 2)]


def test_sharing_queries_and_keys_is_copying_the_maps():
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (torch.randn(8, 2, 9, 4, generator=generator) for _ in range(3))
    sharing = Sharing(5, [0.9, 0.0], [0.0, 0.0], token_map([[5]], [[6]], 4))
    shared_queries, shared_keys = sharing.share_self(queries, keys)
    ours = torch.nn.functional.scaled_dot_product_attention(shared_queries, shared_keys, values)

    maps = (queries @ keys.transpose(-1, -2) / 2).softmax(-1)  # width 4: scaled by its root
    for first, second in ((0, 1), (4, 5)):  # of pair 0, without and with its caption; pair 1 shares nothing
        maps[second] = maps[first]
    torch.testing.assert_close(ours, maps @ values)


def test_shared_cross_attention_is_the_mix_that_hertz_writes():
    tokens = token_map([[5], [6]], [[5], [9], [6]], 7)
    maps = torch.rand(8, 2, 9, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    sharing = Sharing(4, [0.0, 0.0], [0.0, 0.5], tokens)
    found = sharing.share_cross(maps)
    mixed = torch.einsum("hpw,wn->hpn", maps[6], torch.tensor(tokens.source))
    share = torch.tensor(tokens.share)
    torch.testing.assert_close(found[7], mixed * share + maps[7] * (1 - share))
    assert torch.equal(found[:7], maps[:7])  # no other picture, and nothing without a caption


@given(SENTENCES, SENTENCES)
def test_every_token_of_the_second_caption_knows_whose_maps_it_takes(first, second):
    found = token_map(first, second, 24)
    one, two = ([token for word in words for token in word] for words in (first, second))
    assert found.rule == ("replace" if len(first) == len(second) else "refine")
    inside = slice(1, len(two) + 1)
    if found.rule == "refine":
        for j, token in enumerate(two, start=1):
            takes = np.flatnonzero(found.source[:, j])
            assert found.share[j] == len(takes)
            assert all(one[i - 1] == token for i in takes)
        assert (np.diff([np.argmax(found.source[:, j]) for j in range(1, len(two) + 1) if found.share[j]]) > 0).all()
    else:
        assert (found.share == 1).all()
        uneven = [a for a, b in zip(first, second, strict=True) if len(a) != len(b)]
        # What a pixel gives to a word stays the same, whatever its number of tokens.
        np.testing.assert_allclose(found.source[1 : len(one) + 1, inside].sum(axis=1), 1, rtol=1e-6)
        if not uneven:
            assert np.array_equal(found.source[:, inside].argmax(axis=0), np.arange(len(two)) + 1)
    assert found.source[len(one) + 1, len(two) + 1] == 1  # the end of the text takes the end's


def test_the_same_caption_maps_to_itself():
    found = token_map([[5], [6, 7]], [[5], [6, 7]], 8)
    assert np.array_equal(found.source, np.eye(8))


def test_a_caption_that_does_not_fit_is_refused():
    with raises(ValueError, "3", "2"):
        token_map([[5]], [[6, 7, 8]], 4)


def test_a_denoiser_has_its_own_attention_back_even_after_an_error(stable_diffusion):
    before = stable_diffusion.unet.attn_processors
    sharing = Sharing(5, [0.5], [0.5], token_map([[5]], [[6]], 24))
    with pytest.raises(KeyError), sharing_attention(stable_diffusion.unet, sharing):
        assert stable_diffusion.unet.attn_processors != before
        raise KeyError
    assert stable_diffusion.unet.attn_processors == before


def test_attention_of_another_kind_is_refused(stable_diffusion):
    sharing = Sharing(1, [0.0], [0.0], token_map([], [], 4))
    with (
        raises(ModelError, "mid_block.attentions.0", "Stable", "Diffusion", "1", "2"),
        sharing_attention(stable_diffusion.vae.decoder, sharing),
    ):
        pass
