"""The builder `prompt-to-prompt`: whole sets from captions, kept for a reason, and the same after `kill -9`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

import numpy as np

from facts import raises
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.data.validation import validate
from tellapart.errors import DataError
from tellapart_render.diffusion.prompt_to_prompt import PromptToPrompt

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


def recipe(home: Path, **more) -> Path:
    path = home / "recipe.toml"
    tables = {k: v for k, v in options(**more).items() if isinstance(v, dict)}
    plain = {k: v for k, v in options(**more).items() if k not in tables}
    lines = ['name = "few"\nbuilder = "prompt-to-prompt"\nseed = 1\n[options]']
    lines += [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for name, table in tables.items():
        lines += [f"[options.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines))
    return path


def test_a_set_is_built_and_audited(home):
    built = build(recipe(home), home / "set")
    pairs = read_pair_set(built.folder)
    assert [(item.id, item.cluster) for item in pairs.items] == [("7_0", "7"), ("7_1", "7")]
    assert pairs.shape == (2, 2)
    assert built.funnel.rejected == {
        ("caption", "both captions are the same"): 1,
        ("caption", "longer than the text encoder reads"): 1,
    }
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
    assert sorted(outcome.item.provenance["sample"] for outcome in kept) == [0, 1, 2, 3]
    (best,) = (o for o in (builder(home).make(c) for c in builder(home).candidates()[:1]))
    assert isinstance(best, Made)
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
    outcome = strict.make(strict.candidates()[0])
    assert isinstance(outcome, Made)
    assert outcome.redrawn == ("sample: directional",) * 2

    low = min(min(each["own"]) for each in found)
    none = builder(home, keep={**LAX, "caption_image": low + 1e-3, "image_image": 1.0, "rule": "paper"})
    assert none.make(none.candidates()[0]) == Rejected("image-image", "none of 4 samples passed")
    nowhere = builder(home, keep={**LAX, "caption_image": 1.0})
    assert nowhere.make(nowhere.candidates()[0]) == Rejected("caption-image", "none of 4 samples passed")


@pytest.mark.slow
def test_batches_move_no_pixel_by_more_than_a_level(home):
    one, three = (builder(home, batch=batch) for batch in (1, 3))
    for candidate in one.candidates()[:2]:
        sets = [made.make(candidate) for made in (one, three)]
        pictures = []
        for outcome in sets:
            assert isinstance(outcome, Made)
            pictures.append([decode(data, name).astype(int) for name, data in outcome.images.items()])
        # As in test_diffusion_sampling: float32 sums in another order.
        assert np.abs(np.array(pictures[0]) - np.array(pictures[1])).max() <= 1


def test_eq_sd_is_built_from_its_grammar(home):
    made = builder(home, captions="", eq_sd={"object": 8, "attribute": 8}, samples=1, steps=1)
    outcomes = [made.make(candidate) for candidate in made.candidates()]
    assert len(outcomes) == 16
    kept = [outcome for outcome in outcomes if isinstance(outcome, Made)]
    # The tiny text encoder reads 24 tokens, most of a letter each: only short captions fit.
    assert {o for o in outcomes if isinstance(o, Rejected)} == {
        Rejected("caption", "longer than the text encoder reads")
    }
    assert kept
    assert {outcome.item.tags["aspect"] for outcome in kept} <= {"object", "attribute"}
    assert made.inputs == {}
    assert "Figure 15" in str(made.about["source"])


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"captions": ""}, ("caption", "pairs")),
        ({"eq_sd": {"object": 1}}, ("caption", "pairs")),
        ({"self_fraction": [0.5, 1.5]},
         ("self_fraction", "[lowest, highest]", "0", "1", "[0.5, 1.5]")),
        ({"guidance": [9.0, 7.0]}, ("[lowest, highest]", "[9.0, 7.0]")),
        ({"keep": {"rule": "neither"}}, ("'keep.rule'", "input", "'code'", "'paper'", "'neither'")),
        ({"eq_sd": {"object": 0}}, ("'eq_sd.object'", "field")),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(home, more, match):
    with raises(DataError, match):
        builder(home, **more)


@pytest.mark.parametrize("name", ["prompt-to-prompt", "eq-sd"])
def test_the_recipes_in_the_documents_are_whole(name):
    path = Path(__file__).parents[3] / "docs" / "recipes" / f"{name}.toml"
    values = tomllib.loads(path.read_text())
    found = validate(PromptToPrompt.Options, values["options"], name)
    assert values["builder"] == "prompt-to-prompt"
    if name == "prompt-to-prompt":  # what the paper ran
        assert (found.samples, found.steps, found.keep) == (
            100,
            100,
            PromptToPrompt.Options.model_fields["keep"].get_default(call_default_factory=True),
        )
