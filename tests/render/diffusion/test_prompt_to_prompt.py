"""Prompt-to-Prompt: how attention is shared, and whole sets from captions, kept for a reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from sets import write_file

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

import torch

from tellapart.auditing.audit import audit
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.data.validation import validate
from tellapart.errors import DataError, ModelError
from tellapart_render.diffusion import sampling
from tellapart_render.diffusion.image_filters import Keep
from tellapart_render.diffusion.prompt_to_prompt import PromptToPrompt
from tellapart_render.diffusion.sampling import Draw, Schedule, Sharing, sample_pairs, token_map

CAPTIONS = """id,caption_0,caption_1
7_0,a cat on a bed,a dog on a bed
7_1,a cat,a cat and a dog
9_0,a cat,a cat
9_1,a dog,a dog of so many words that none reads them all
"""

#: Random weights draw nothing that a scorer knows, so these let most pairs through, and `strict` few.
LAX = {"caption_image": -1.0, "image_image": -1.0, "directional": -1.0}


@pytest.fixture
def home(tmp_path, folders):
    (tmp_path / "sd").symlink_to(folders / "sd")
    (tmp_path / "pairs.csv").write_text(CAPTIONS)
    return tmp_path


def options(**more) -> dict[str, Any]:
    few = {"captions": "pairs.csv", "scorer": "demo-encoder", "samples": 4, "steps": 3, "keep": LAX}
    return {**few, "model": {"name": "sd", "device": "cpu"}, **more}


def builder(home: Path, **more: Any) -> PromptToPrompt:
    return PromptToPrompt(Start(validate(PromptToPrompt.Options, options(**more), "here"), 1, home))


def recipe(home: Path) -> Path:
    """Write the options: TOML's inline tables hold those of a table."""
    lines = ['name = "few"', 'builder = "prompt-to-prompt"', "seed = 1", "[options]"]
    for key, value in options().items():
        rows = [f"{name} = {json.dumps(part)}" for name, part in value.items()] if isinstance(value, dict) else []
        lines.append(f"{key} = {{ {', '.join(rows)} }}" if rows else f"{key} = {json.dumps(value)}")
    return write_file(home / "recipe.toml", "\n".join(lines))


def test_a_set_is_built_and_audited(home):
    built = build(recipe(home), home / "set")
    pairs = read_pair_set(built.folder)
    assert [(item.id, item.cluster) for item in pairs.items] == [("7_0", "7"), ("7_1", "7")]
    assert pairs.shape == (2, 2)
    reasons = ("both captions are the same", "longer than the text encoder reads")
    assert built.funnel.rejected == {("caption", reason): 1 for reason in reasons}
    told = pairs.items[0].provenance
    assert set(told["models"]) == {"pipeline", "diffusers", "torch", "scorer"}
    assert 0.1 <= told["self_fraction"] <= 0.9
    assert 7.5 <= told["guidance"] <= 15
    assert (told["steps"], told["sampler"], told["cross_fraction"]) == (3, "euler-ancestral", 0.0)
    assert "no safety checker has run" in str(pairs.card["description"])
    found = audit(pairs)
    assert (found.items, found.images) == (2, 4)
    assert found.changes[0].change.share > 0


@pytest.mark.slow
def test_the_sample_with_the_highest_direction_is_kept_and_ranks_go_down(home):
    made = builder(home, keep={**LAX, "best": 5})
    outcomes = [made.make(candidate) for candidate in made.candidates() if candidate.data["pair"] == "7_0"]
    kept = [outcome for outcome in outcomes if isinstance(outcome, Made)]
    assert [outcome.item.id for outcome in kept] == ["7_0-0", "7_0-1", "7_0-2", "7_0-3"]
    assert outcomes[4] == Rejected("best", "fewer samples passed than are wanted")
    directions = [outcome.item.provenance["similarity"]["directional"] for outcome in kept]
    assert directions == sorted(directions, reverse=True)
    assert {outcome.item.provenance["sample"] for outcome in kept} == {0, 1, 2, 3}
    best = builder(home).make(builder(home).candidates()[0])
    assert list(best.images.values()) == list(kept[0].images.values())
    # A rank by itself, in another process say, is the same.
    again = builder(home, keep={**LAX, "best": 5})
    assert again.make(again.candidates()[2]) == kept[2]


@pytest.mark.slow
def test_what_a_filter_rejects_is_counted_under_it(home):
    lax = builder(home, keep={**LAX, "best": 4})
    every = [lax.make(candidate) for candidate in lax.candidates()[:4]]
    found = [outcome.item.provenance["similarity"] for outcome in every if isinstance(outcome, Made)]
    directions = sorted(each["directional"] for each in found)
    between = (directions[1] + directions[2]) / 2
    strict = builder(home, keep={**LAX, "directional": between})
    assert strict.make(strict.candidates()[0]).redrawn == ("sample: directional",) * 2
    low = min(min(each["own"]) for each in found)
    none = builder(home, keep={**LAX, "caption_image": low + 1e-3, "image_image": 1.0, "rule": "paper"})
    assert none.make(none.candidates()[0]) == Rejected("image-image", "none of 4 samples passed")
    nowhere = builder(home, keep={**LAX, "caption_image": 1.0})
    assert nowhere.make(nowhere.candidates()[0]) == Rejected("caption-image", "none of 4 samples passed")


def test_eq_sd_is_built_from_its_grammar(home):
    made = builder(home, captions="", eq_sd={"object": 8, "attribute": 8}, samples=1, steps=1)
    outcomes = [made.make(candidate) for candidate in made.candidates()]
    assert len(outcomes) == 16
    kept = [outcome for outcome in outcomes if isinstance(outcome, Made)]
    # The tiny text encoder reads 24 tokens, most of a letter each: only short captions fit.
    too_long = Rejected("caption", "longer than the text encoder reads")
    assert {outcome for outcome in outcomes if isinstance(outcome, Rejected)} == {too_long}
    assert kept and {outcome.item.tags["aspect"] for outcome in kept} <= {"object", "attribute"}
    assert made.inputs == {} and "Figure 15" in str(made.about["source"])


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"captions": ""}, ("caption", "pairs")),
        ({"eq_sd": {"object": 1}}, ("caption", "pairs")),
        ({"self_fraction": [0.5, 1.5]}, ("self_fraction", "[lowest, highest]", "0", "1", "[0.5, 1.5]")),
        ({"guidance": [9.0, 7.0]}, ("[lowest, highest]", "[9.0, 7.0]")),
        ({"keep": {"rule": "neither"}}, ("'keep.rule'", "input", "'code'", "'paper'", "'neither'")),
        ({"eq_sd": {"object": 0}}, ("'eq_sd.object'", "field")),
    ],
)
def test_options_that_cannot_be_are_refused(home, more, match):
    with raises(DataError, match):
        builder(home, **more)


def test_the_recipe_in_the_documents_is_what_the_paper_ran():
    path = Path(__file__).parents[3] / "docs" / "recipes" / "prompt-to-prompt.toml"
    found = validate(PromptToPrompt.Options, read_recipe_file(path).options, path)
    assert (found.samples, found.steps, found.keep) == (100, 100, Keep())


# Prompt-to-Prompt does what its papers say: maps are shared when and where they are to be, and nothing else moves.

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

    scheduler = {"euler-ancestral": diffusers.EulerAncestralDiscreteScheduler, "ddim": diffusers.DDIMScheduler}[sampler]
    ours = drawn(stable_diffusion, (CAT, DOG), NOT_SHARED, Schedule(steps=5, sampler=sampler))
    before = stable_diffusion.scheduler
    with sampling.quiet_diffusion():
        stable_diffusion.scheduler = scheduler.from_config(before.config, timestep_spacing="linspace")
        how = {"num_inference_steps": 5, "guidance_scale": 7.5, "output_type": "np"}
        noises = [torch.Generator().manual_seed(1) for _ in range(2)]
        both = zip((CAT, DOG), noises, strict=True)
        theirs = [stable_diffusion(caption, generator=noise, **how).images[0] for caption, noise in both]
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
    assert np.array_equal(*drawn(stable_diffusion, (CAT, CAT), Draw(3, 9.0, *fractions)))


@given(p=st.floats(0, 1), steps=st.integers(2, 200))
def test_self_attention_is_shared_at_the_steps_of_instruct_pix2pix(p, steps):
    sharing = Sharing(steps, [p], [0.0], token_map([[5]], [[6]], 4))
    sigmas = steps + 1  # its schedule has one noise level more than steps
    for step in range(steps):
        sharing.begin(step)
        assert sharing.shares_self.tolist() == [p > step / (sigmas - 2)]


def test_sharing_copies_self_attention_and_mixes_cross_attention_as_hertz_writes():
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (torch.randn(8, 2, 9, 4, generator=generator) for _ in range(3))
    sharing = Sharing(5, [0.9, 0.0], [0.0, 0.0], token_map([[5]], [[6]], 4))
    shared_queries, shared_keys = sharing.share_self(queries, keys)
    ours = torch.nn.functional.scaled_dot_product_attention(shared_queries, shared_keys, values)

    maps = (queries @ keys.transpose(-1, -2) / 2).softmax(-1)  # width 4: scaled by its root
    for first, second in ((0, 1), (4, 5)):  # of pair 0, without and with its caption; pair 1 shares nothing
        maps[second] = maps[first]
    torch.testing.assert_close(ours, maps @ values)
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


def test_the_same_caption_maps_to_itself_and_one_that_does_not_fit_is_refused():
    found = token_map([[5], [6, 7]], [[5], [6, 7]], 8)
    assert np.array_equal(found.source, np.eye(8))
    with raises(ValueError, "3", "2"):
        token_map([[5]], [[6, 7, 8]], 4)


def test_a_denoiser_has_its_attention_back_after_an_error_and_another_kind_is_refused(stable_diffusion):
    before = stable_diffusion.unet.attn_processors
    sharing = Sharing(5, [0.5], [0.5], token_map([[5]], [[6]], 24))
    with pytest.raises(KeyError), sampling.sharing_attention(stable_diffusion.unet, sharing):
        assert stable_diffusion.unet.attn_processors != before
        raise KeyError
    assert stable_diffusion.unet.attn_processors == before
    sharing = Sharing(1, [0.0], [0.0], token_map([], [], 4))
    with (
        raises(ModelError, "mid_block.attentions.0", "Stable", "Diffusion", "1", "2"),
        sampling.sharing_attention(stable_diffusion.vae.decoder, sharing),
    ):
        pass
