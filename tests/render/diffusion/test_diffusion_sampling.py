"""What is drawn depends on its own seed alone; the builder `generated-images` has candidates and pairs."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

import numpy as np

from facts import raises
from pictures import encoded, noise
from sets import write_file
from tellapart import find_model, read_pair_set
from tellapart.annotate.surveys import deal, find_survey
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.images import decode
from tellapart.data.validation import validate
from tellapart.errors import DataError, MissingDependencyError, ModelError
from tellapart_render.diffusion import sampling
from tellapart_render.diffusion.candidates import GeneratedImages

CAPTIONS = ("a cat on a bed", "a dog on a bed")
DRAWS = [sampling.Draw(*facts) for facts in ((1, 7.5, 0.0), (2, 9.0, 0.5), (3, 12.0, 0.9), (4, 8.0, 0.3, 0.6))]

#: Of 256 levels. A batch of another size sums in another order, which moves float32's last bits and, through rounding,
#: a level.
LEVEL = 1


def gap(a, b) -> int:
    return int(np.abs(np.asarray(a).astype(int) - np.asarray(b)).max())


def test_a_pair_is_the_same_to_the_bit_among_others_and_has_the_side_asked_for(stable_diffusion):
    schedule = sampling.Schedule(steps=3, batch=3)
    alone = list(sampling.sample_pairs(stable_diffusion, CAPTIONS, DRAWS[:1], schedule))
    among = list(sampling.sample_pairs(stable_diffusion, CAPTIONS, DRAWS, schedule))
    assert len(alone) == 1
    assert np.array_equal(alone[0], among[0])
    ((first, _),) = sampling.sample_pairs(stable_diffusion, CAPTIONS, DRAWS[:1], sampling.Schedule(steps=1, side=48))
    assert first.shape == (48, 48, 3)
    (image,) = sampling.sample_images(stable_diffusion, "a cat", [1], sampling.Schedule(steps=1, side=48), 5.0)
    assert image.shape == (48, 48, 3)


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl", "pairs"])
def test_pictures_and_pairs_are_the_same_in_batches_of_one_and_of_three(name, request):
    pipeline = request.getfixturevalue("stable_diffusion" if name == "pairs" else name)
    one, three = (
        list(sampling.sample_pairs(pipeline, CAPTIONS, DRAWS, schedule))
        if name == "pairs"
        else list(sampling.sample_images(pipeline, "a cat", [5, 6, 7, 8], schedule, 5.0))
        for schedule in (sampling.Schedule(steps=5, batch=1), sampling.Schedule(steps=5, batch=3))
    )
    assert np.array(one).shape == ((4, 2, 32, 32, 3) if name == "pairs" else (4, 32, 32, 3))
    assert gap(one, three) <= LEVEL
    assert min(gap(a, b) for k, a in enumerate(one) for b in one[:k]) > 20  # while different seeds are far apart


def test_words_are_what_the_text_encoder_is_given_and_room_what_all_read(stable_diffusion, stable_diffusion_xl):
    tokenizer = stable_diffusion.tokenizer
    words = sampling.words_of(tokenizer, "a cat on an old bed.")
    assert len(words) == 6
    assert [token for word in words for token in word] == tokenizer("a cat on an old bed.").input_ids[1:-1]
    for pipeline in (stable_diffusion, stable_diffusion_xl):
        assert sampling.room_for(pipeline, "x" * 22)  # 24 tokens with begin and end
        assert not sampling.room_for(pipeline, "x" * 23)


def test_random_numbers_are_of_the_seed_the_item_and_the_draw():
    keys = [(1, "a", 0), (2, "a", 0), (1, "b", 0), (1, "a", 1)]
    assert len({int(sampling.random_numbers(*key).integers(2**62)) for key in keys}) == 4
    assert sampling.random_numbers(1, "a", 0).random() == sampling.random_numbers(1, "a", 0).random()


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def copied(folders, tmp_path):
    """Copy a pipeline, to be spoiled."""
    return lambda to="model": Path(shutil.copytree(folders / "sd", tmp_path / to))


def opened(folder: Path, **more):
    model = sampling.DiffusionModel(name=folder.name, **{"device": "cpu", **more})
    return sampling.open_checkpoint(model, folder.parent)


@pytest.mark.slow
def test_a_folder_is_known_by_its_files_and_not_by_its_place(copied):
    one, other = copied(to="one"), copied(to="other")
    first = opened(one)
    assert (first.kind, first.versions) == ("StableDiffusionPipeline", opened(other).versions)
    assert first.versions["torch"].endswith(", cpu, float32")
    config = one / "unet" / "config.json"
    config.write_text(config.read_text() + "\n")
    assert opened(one).revisions != opened(other).revisions


def weights(folder: Path) -> Path:
    return next((folder / "unet").glob("*.safetensors"))


def change_index(folder: Path, **changes: object) -> None:
    index = folder / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | changes))


KINDS = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda folder: weights(folder).rename(weights(folder).with_suffix(".bin")), "diffusion_pytorch_model.bin"),
        (lambda folder: change_index(folder, _class_name="FluxPipeline"), ("FluxPipeline", *KINDS)),
        (lambda folder: change_index(folder, unet=["my_unet", "UNet"]), ("my_unet", "run")),
        (lambda folder: change_index(folder, tokenizer_3=["diffusers", "X"]), ("tokenizer_3", "model_index.json")),
        (lambda folder: (folder / "model_index.json").unlink(), ("diffusers", "folder")),
        (lambda folder: weights(folder).write_bytes(b"not tensors"), ("StableDiffusionPipeline", "loaded")),
    ],
)
def test_a_folder_that_is_no_whole_pipeline_or_has_code_is_refused(copied, spoil, match):
    folder = copied()
    spoil(folder)
    with raises(ModelError, match):
        opened(folder).load()


def test_another_kind_of_pipeline_a_missing_variant_and_a_missing_diffusers_are_named(folders, monkeypatch):
    with raises(ModelError, "'fp16'", "revision"):
        opened(folders / "sd", variant="fp16").load()
    with raises(ModelError, "StableDiffusionXLPipeline", "StableDiffusionPipeline"):
        sampling.open_checkpoint(sampling.DiffusionModel(name="xl"), folders, ("StableDiffusionPipeline",))
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with raises(MissingDependencyError, '"tellapart[diffusion]"', "diffusers"):
        opened(folders / "sd")


@pytest.mark.parametrize("nested", [True, False])
def test_another_denoiser_takes_the_place_of_the_models_own(folders, copied, nested):
    import torch
    from safetensors.torch import load_file, save_file

    other = copied(to="dpo")
    save_file({name: tensor + 1 for name, tensor in load_file(weights(other)).items()}, weights(other))
    place = other if nested else other / "unet"
    models = [sampling.DiffusionModel(name=str(folders / "sd"), unet=u, device="cpu") for u in ("", place.name)]
    plain, replaced = (sampling.open_checkpoint(model, place.parent) for model in models)
    assert set(replaced.revisions) == {"pipeline", "unet"}
    own, others = (checkpoint.load() for checkpoint in (plain, replaced))
    torch.testing.assert_close(*(pipe.unet.state_dict()["conv_in.weight"] - k for k, pipe in enumerate((own, others))))
    assert own.safety_checker is None


def test_a_hub_id_is_read_from_the_hubs_cache_without_a_network(folders, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'hub'")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    model = sampling.DiffusionModel(name="someone/tiny-sd", revision=COMMIT)
    snapshot = tmp_path / "models--someone--tiny-sd" / "snapshots" / COMMIT
    with raises(ModelError, "someone/tiny-sd", "0123456789ab", "folder"):
        sampling.open_checkpoint(model, tmp_path)
    shutil.copytree(folders / "sd", snapshot)
    found = sampling.open_checkpoint(model, tmp_path)
    assert (found.revisions, found.load().unet.config.sample_size) == ({"pipeline": COMMIT}, 16)
    # What the cache holds in part would be fetched; where it cannot be, what is wrong is said.
    shutil.rmtree(snapshot / "vae")
    with raises(ModelError, "model_index.json"):
        sampling.open_checkpoint(model, tmp_path)


def test_a_hub_id_without_its_commit_is_refused(tmp_path):
    for revision in ("", "main", COMMIT[:12]):
        with raises(ModelError, "40", f"'{revision}'"):
            sampling.open_checkpoint(sampling.DiffusionModel(name="someone/tiny-sd", revision=revision), tmp_path)


def test_a_device_that_is_not_there_is_refused(folders):
    import torch

    gone = "mps" if torch.cuda.is_available() else "cuda"
    with raises(ModelError, f"'{gone}'", "GPU", "'cpu'"):
        opened(folders / "sd", device=gone)
    auto = opened(folders / "sd", device="auto").device
    assert auto == ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


# The builder `generated-images`: candidates that people choose among, and pairs beside a given or a drawn picture.

ROWS = "id,caption_0,caption_1,image_0,tag:type\n7_0,A cat.,A dog.,cat.png,swap\n7_1,A dog.,An old dog.,dog.png,add\n"


@pytest.fixture
def home(tmp_path, folders):
    for name in ("sd", "xl"):
        (tmp_path / name).symlink_to(folders / name)
    (tmp_path / "pairs.csv").write_text(ROWS)
    (tmp_path / "natural").mkdir()
    for k, name in enumerate(("cat", "dog")):
        (tmp_path / "natural" / f"{name}.png").write_bytes(encoded(noise(20, 30, seed=k)))
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


def recipe(home: Path, *more: str) -> Path:
    rows = ['captions = "pairs.csv"', 'images = "natural"', "steps = 2", *more]
    rows += ["[options.model]", 'name = "xl"', 'device = "cpu"', "[options.picture]", "side = 24", 'format = "jpeg"']
    head = ['name = "few"', 'builder = "generated-images"', "seed = 1", "[options]"]
    return write_file(home / "recipe.toml", "\n".join([*head, *rows]))


def test_candidates_of_each_false_caption_are_what_the_survey_takes(home):
    pairs = read_pair_set(build(recipe(home, "batch = 4"), home / "set").folder)
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


def test_a_given_picture_is_the_first_of_its_pair_and_both_can_be_drawn(home):
    built = build(recipe(home, 'layout = "pairs"', "count = 1"), home / "set")
    pairs = read_pair_set(built.folder)
    assert [item.texts for item in pairs.items] == [("A cat.", "A dog."), ("A dog.", "An old dog.")]
    assert pairs.items[0].images == ("images/7_0_0.png", "images/7_0_1.jpg")
    assert (built.folder / "images" / "7_0_0.png").read_bytes() == (home / "natural" / "cat.png").read_bytes()
    assert pairs.items[0].provenance["image"] == "cat.png"
    assert audit(pairs).items == 2
    pair = made(home, layout="pairs", positive="drawn", count=2)
    alone = [made(home, place, positive="drawn", count=2) for place in (0, 1)]
    assert [outcome.item.id for outcome in alone] == ["7_0-0", "7_0-1"]
    assert list(pair.images.values()) == [next(iter(outcome.images.values())) for outcome in alone]


def test_the_nearest_of_the_candidates_is_the_one_that_the_scorer_finds(home):
    nearest = made(home, layout="pairs", choose="nearest", scorer="demo-encoder", count=3)
    candidates = [decode(data, name) for name, data in made(home, count=3).images.items()]
    model = find_model("demo-encoder")
    scores = model.similarity(model.encode_images(candidates), model.encode_texts(["A dog."]))[:, 0]
    (told,), best = nearest.item.provenance["drawn"], int(scores.argmax())
    assert told["candidate"] == best
    np.testing.assert_allclose(told["cosines"], scores, atol=1e-5)
    assert np.array_equal(decode(nearest.images["images/7_0_1.png"], "chosen"), candidates[best])


@pytest.mark.slow
def test_a_picture_hangs_on_its_own_seed_and_prompt_alone(home):
    def pixels(**more):
        return np.array([decode(data, name) for name, data in made(home, **more).images.items()]).astype(int)

    four = pixels(batch=1)
    assert np.array_equal(four[:2], pixels(batch=1, count=2))
    # One level of 256, as in test_diffusion_sampling: float32 sums in another order.
    assert np.abs(four - pixels(batch=3)).max() <= 1
    for other in ({"seed": 2}, {"suffix": ""}, {"guidance": 9.0}):
        assert not np.array_equal(four, pixels(batch=1, **other)), other


def test_a_caption_without_its_full_stop_is_the_prompt_and_stable_diffusion_1_will_do(home):
    (home / "plain.csv").write_text(ROWS.replace(".,", ","))
    assert list(made(home).images.values()) == list(made(home, captions="plain.csv").images.values())
    assert len(made(home, model={"name": "sd", "device": "cpu"}).images) == 4


def test_a_caption_that_is_not_read_to_its_end_is_rejected(home):
    (home / "pairs.csv").write_text("id,caption_0,caption_1\n1,a cat,a cat of so many words that none reads them\n")
    found = builder(home)
    assert found.make(found.candidates()[0]) == Rejected("caption", "longer than the text encoder reads")


def test_options_that_cannot_be_are_refused_and_a_given_picture_that_is_not_there_is_named(home):
    for more, match in (
        ({"count": 1}, ("2", "candidates")),
        ({"layout": "pairs", "choose": "nearest"}, ("scorer", "needed")),
        ({"scorer": "demo-encoder"}, ("'demo-encoder'", "scorer")),
    ):
        with raises(DataError, match):
            builder(home, **more)
    (home / "natural" / "cat.png").unlink()
    with raises(DataError, "'cat.png'", "image"):
        made(home, layout="pairs")
    (home / "pairs.csv").write_text("id,caption_0,caption_1\n1,a cat,a dog\n")
    with raises(DataError, "1", "'image_0'", "'1'"):
        builder(home, layout="pairs")


def test_the_recipe_in_the_documents_has_the_defaults_of_the_paper():
    path = Path(__file__).parents[3] / "docs" / "recipes" / "generated-images.toml"
    found = validate(GeneratedImages.Options, read_recipe_file(path).options, path)
    defaults = GeneratedImages.Options(captions="c", model={"name": "m"})
    assert (found.suffix, found.guidance, found.count) == (defaults.suffix, defaults.guidance, defaults.count)
