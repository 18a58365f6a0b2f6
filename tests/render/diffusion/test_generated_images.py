"""The builder `generated-images`: candidates that people choose among, and pairs beside a given or a drawn picture."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

import numpy as np
from PIL import Image

from facts import raises
from tellapart.annotate.surveys import deal, find_survey
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.data.validation import validate
from tellapart.errors import DataError
from tellapart.models.find import find_model
from tellapart_render.diffusion.candidates import GeneratedImages

CAPTIONS = (
    "id,caption_0,caption_1,image_0,tag:type\n7_0,A cat.,A dog.,cat.png,swap\n7_1,A dog.,An old dog.,dog.png,add\n"
)


@pytest.fixture
def home(tmp_path, folders):
    for name in ("sd", "xl"):
        (tmp_path / name).symlink_to(folders / name)
    (tmp_path / "pairs.csv").write_text(CAPTIONS)
    (tmp_path / "natural").mkdir()
    for k, name in enumerate(("cat", "dog")):
        noise = np.random.default_rng(k).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "natural" / f"{name}.png")
    return tmp_path


def options(**more) -> dict[str, Any]:
    few = {"captions": "pairs.csv", "images": "natural", "steps": 2, "picture": {"format": "png"}}
    return {**few, "model": {"name": "xl", "device": "cpu"}, **more}


def builder(home: Path, seed: int = 1, **more: Any) -> GeneratedImages:
    return GeneratedImages(Start(validate(GeneratedImages.Options, options(**more), "here"), seed, home))


def made(home: Path, place: int = 0, seed: int = 1, **more) -> Made:
    found = builder(home, seed, **more)
    outcome = found.make(found.candidates()[place])
    assert isinstance(outcome, Made)
    return outcome


RECIPE = """name = "few"
builder = "generated-images"
seed = 1
[options]
captions = "pairs.csv"
images = "natural"
steps = 2
{more}
[options.model]
name = "xl"
device = "cpu"
[options.picture]
side = 24
format = "jpeg"
"""


def test_candidates_of_each_false_caption_are_what_the_survey_takes(home):
    path = home / "recipe.toml"
    path.write_text(RECIPE.format(more="batch = 4"))
    pairs = read_pair_set(build(path, home / "set").folder)
    assert pairs.shape == (4, 1)
    assert [(i.id, i.texts, i.cluster, i.tags) for i in pairs.items] == [
        ("7_0-1", ("A dog.",), "7", {"type": "swap"}),
        ("7_1-1", ("An old dog.",), "7", {"type": "add"}),
    ]
    units = deal(find_survey("best-image"), pairs, ("ann",)).units
    assert [(unit.item, len(unit.options), unit.truth) for unit in units] == [("7_0-1", 4, ""), ("7_1-1", 4, "")]
    assert audit(pairs).images == 8
    assert decode((home / "set" / pairs.items[0].images[0]).read_bytes(), "a").shape == (24, 24, 3)
    assert len(set(pairs.items[0].provenance["noise_seeds"])) == 4


def test_a_given_picture_is_the_first_of_its_pair_byte_for_byte(home):
    path = home / "recipe.toml"
    path.write_text(RECIPE.format(more='layout = "pairs"\ncount = 1'))
    built = build(path, home / "set")
    pairs = read_pair_set(built.folder)
    assert [item.texts for item in pairs.items] == [("A cat.", "A dog."), ("A dog.", "An old dog.")]
    assert pairs.items[0].images == ("images/7_0_0.png", "images/7_0_1.jpg")
    assert (built.folder / "images" / "7_0_0.png").read_bytes() == (home / "natural" / "cat.png").read_bytes()
    assert pairs.items[0].provenance["image"] == "cat.png"
    assert audit(pairs).items == 2


def test_both_pictures_can_be_drawn_and_are_the_candidates_of_their_captions(home):
    pair = made(home, layout="pairs", positive="drawn", count=2)
    alone = [made(home, place, positive="drawn", count=2) for place in (0, 1)]
    assert [outcome.item.id for outcome in alone] == ["7_0-0", "7_0-1"]
    firsts = [next(iter(outcome.images.values())) for outcome in alone]
    assert list(pair.images.values()) == firsts


def test_the_nearest_of_the_candidates_is_the_one_that_the_scorer_finds(home):
    nearest = made(home, layout="pairs", choose="nearest", scorer="demo-encoder", count=3)
    candidates = [decode(data, name) for name, data in made(home, count=3).images.items()]
    model = find_model("demo-encoder")
    scores = model.similarity(model.encode_images(candidates), model.encode_texts(["A dog."]))[:, 0]
    (told,) = nearest.item.provenance["drawn"]
    assert told["candidate"] == int(scores.argmax())
    np.testing.assert_allclose(told["cosines"], scores, atol=1e-5)
    chosen = decode(nearest.images["images/7_0_1.png"], "chosen")
    assert np.array_equal(chosen, candidates[int(scores.argmax())])


@pytest.mark.slow
def test_a_picture_hangs_on_its_own_seed_and_prompt_alone(home):
    def pixels(**more):
        return np.array([decode(data, name) for name, data in made(home, **more).images.items()]).astype(int)

    four = pixels(batch=1)
    assert np.array_equal(four[:2], pixels(batch=1, count=2))
    # One level of 256, as in test_diffusion_sampling: float32 sums in another order.
    assert np.abs(four - pixels(batch=3)).max() <= 1
    assert not np.array_equal(four, pixels(batch=1, seed=2))
    assert not np.array_equal(four, pixels(batch=1, suffix=""))
    assert not np.array_equal(four, pixels(batch=1, guidance=9.0))


def test_a_caption_without_its_full_stop_is_the_prompt(home):
    plain = home / "plain.csv"
    plain.write_text(CAPTIONS.replace(".,", ","))
    assert list(made(home).images.values()) == list(made(home, captions="plain.csv").images.values())


def test_stable_diffusion_1_will_do_as_well(home):
    assert len(made(home, model={"name": "sd", "device": "cpu"}).images) == 4


def test_a_caption_that_is_not_read_to_its_end_is_rejected(home):
    (home / "pairs.csv").write_text("id,caption_0,caption_1\n1,a cat,a cat of so many words that none reads them\n")
    found = builder(home)
    assert found.make(found.candidates()[0]) == Rejected("caption", "longer than the text encoder reads")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"count": 1}, ("2", "candidates")),
        ({"layout": "pairs", "choose": "nearest"}, ("scorer", "needed")),
        ({"scorer": "demo-encoder"}, ("'demo-encoder'", "scorer")),
    ],
)
def test_options_that_cannot_be_are_refused(home, more, match):
    with raises(DataError, match):
        builder(home, **more)


def test_a_given_picture_that_is_not_there_is_named(home):
    (home / "natural" / "cat.png").unlink()
    with raises(DataError, "'cat.png'", "image"):
        made(home, layout="pairs")
    (home / "pairs.csv").write_text("id,caption_0,caption_1\n1,a cat,a dog\n")
    with raises(DataError, "1", "'image_0'", "'1'"):
        builder(home, layout="pairs")


def test_the_recipe_in_the_documents_is_whole():
    path = Path(__file__).parents[3] / "docs" / "recipes" / "generated-images.toml"
    values = tomllib.loads(path.read_text())
    found = validate(GeneratedImages.Options, values["options"], "generated-images")
    assert values["builder"] == "generated-images"
    defaults = GeneratedImages.Options(captions="c", model={"name": "m"})
    assert (found.suffix, found.guidance, found.count) == (defaults.suffix, defaults.guidance, defaults.count)
