"""Dual encoders of open_clip: equal to open_clip's own forward, held to their weights, the same for any batch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.find import ModelOptions, find_model
from tellapart.models.openclip import OpenClipEncoder
from tellapart.models.openclip_text import TextTower
from tellapart.models.scoring import score
from tellapart.models.store import EmbeddingStore
from tellapart.models.torch_backend import import_torch

pytest.importorskip("torch", reason="torch is not installed (the models extra)")
torch = import_torch()

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
PREPROCESSING = {"mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "shortest"}

VISION = {"image_size": 32, "layers": 2, "width": 48, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
CLIP = {"embed_dim": 24, "vision_cfg": VISION, "text_cfg": TEXT}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tiny": CLIP,
    "tiny-quickgelu": CLIP | {"quick_gelu": True},
    "tiny-wide": CLIP | {"vision_cfg": VISION | {"width": 64}},
    "tiny-40": CLIP | {"vision_cfg": VISION | {"image_size": 40}},
    # As SigLIP: not causal, pooled at the last place, images squashed, a bias.
    "tiny-bidirectional": CLIP
    | {
        "custom_text": True,
        "init_logit_bias": -10,
        "text_cfg": TEXT | {"context_length": 16, "no_causal_mask": True, "pool_type": "last", "proj_bias": True},
    },
    "tiny-custom": CLIP | {"custom_text": True, "text_cfg": TEXT | {"pool_type": "eos", "eos_id": 49407}},
    "tiny-coca": CLIP
    | {
        "custom_text": True,
        "vision_cfg": VISION | {"attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True},
        "text_cfg": TEXT | {"context_length": 76, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
}

TEXTS = [
    "a red cup left of a blue bowl",
    "a blue cup left of a red bowl",
    "two bowls",
    "",
    "!? !!!",
    "a cat, asleep on the mat beside the red door of a small house, while two dogs run",
    "one blue bowl and " * 30,
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def open_clip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """open_clip, with the tiny architectures among its own and without the hub."""
    import open_clip
    from open_clip import factory

    folder = tmp_path_factory.mktemp("architectures")
    for name, config in ARCHITECTURES.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    configs = dict(factory._MODEL_CONFIGS)
    open_clip.add_model_config(folder)
    yield open_clip
    factory._MODEL_CONFIG_PATHS.remove(folder)
    factory._MODEL_CONFIGS.clear()
    factory._MODEL_CONFIGS.update(configs)


@pytest.fixture(scope="module")
def checkpoints(open_clip: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make a checkpoint of random weights of an architecture, large enough that every step shows."""
    made: dict[str, Path] = {}

    def make(architecture: str) -> Path:
        if architecture not in made:
            torch.manual_seed(len(made))
            model = open_clip.create_model(architecture)
            state = {key: value * 4 if value.ndim > 1 else value for key, value in model.state_dict().items()}
            made[architecture] = tmp_path_factory.mktemp("weights") / f"{architecture}.pt"
            torch.save(state, made[architecture])
        return made[architecture]

    return make


def pictures() -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in ((40, 56), (64, 33), (32, 32), (50, 3))]


def named(architecture: str) -> str:
    """The name of an architecture that says which activation it has, as a bare file needs."""
    return "tiny-gelu" if architecture == "tiny" else architecture


def library_vectors(open_clip: Any, architecture: str, file: Path, **options: Any) -> tuple[Any, Any]:
    """Vectors of images and texts by open_clip alone, one at a time."""
    from PIL import Image

    model, _, transform = open_clip.create_model_and_transforms(architecture, str(file), **options)
    tokenizer = open_clip.get_tokenizer(architecture)
    with torch.inference_mode():
        images = [model.eval().encode_image(transform(Image.fromarray(picture))[None]) for picture in pictures()]
        texts = [model.encode_text(tokenizer([text])) for text in TEXTS]
    unit = torch.nn.functional.normalize
    return unit(torch.cat(images), dim=-1).numpy(), unit(torch.cat(texts), dim=-1).numpy()


@pytest.mark.parametrize("architecture", ["tiny", "tiny-quickgelu", "tiny-bidirectional", "tiny-custom", "tiny-coca"])
def test_scores_are_open_clips_own_pair_by_pair(
    open_clip: Any, checkpoints: Callable[[str], Path], architecture: str
) -> None:
    file = checkpoints(architecture)
    model = find_model(f"open_clip:{named(architecture)}@{file}")
    assert isinstance(model, OpenClipEncoder)
    images, texts = library_vectors(open_clip, architecture, file)
    found = model.similarity(model.encode_images(pictures()), model.encode_texts(TEXTS))
    assert found.dtype == np.float32
    # Batches of one shape and texts of another length sum in another order: rounding, no more.
    np.testing.assert_allclose(found, images @ texts.T, atol=1e-5)
    assert np.ptp(found) > 0.1  # the comparison could fail


def test_the_activation_is_that_of_the_name_and_moves_the_scores(checkpoints: Callable[[str], Path]) -> None:
    file = checkpoints("tiny")
    quick, plain = (find_model(f"open_clip:{name}@{file}") for name in ("tiny-quickgelu", "tiny-gelu"))
    assert (quick.activation, plain.activation) == ("QuickGELU", "GELU")
    assert np.abs(quick.encode_texts(TEXTS) - plain.encode_texts(TEXTS)).max() > 1e-3
    assert quick.fingerprint != plain.fingerprint


@pytest.mark.parametrize("architecture", ["tiny", "tiny-bidirectional"])
def test_no_bit_changes_with_the_batch_the_order_or_the_neighbours(
    checkpoints: Callable[[str], Path], architecture: str
) -> None:
    model = find_model(f"open_clip:{named(architecture)}@{checkpoints(architecture)}")
    images, texts = model.encode_images(pictures()), model.encode_texts(TEXTS)
    rng = np.random.default_rng(1)
    for _ in range(4):
        some = rng.permutation(len(TEXTS))[: rng.integers(1, 8)].tolist() * 3
        assert np.array_equal(model.encode_texts([TEXTS[k] for k in some]), texts[some])
        some = rng.permutation(4)[: rng.integers(1, 5)].tolist() * 7
        assert np.array_equal(model.encode_images([pictures()[k] for k in some]), images[some])


def test_a_run_has_the_same_scores_for_any_batch_size(
    checkpoints: Callable[[str], Path], picture_set: Callable[..., Any]
) -> None:
    pairs = picture_set(9)
    model = find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    runs = [score(model, pairs, store=EmbeddingStore(None), batch_size=size).scores.values for size in (None, 1, 7)]
    assert all(np.array_equal(runs[0], run) for run in runs[1:])


def test_items_scored_together_have_the_bits_of_items_scored_apart(checkpoints: Callable[[str], Path]) -> None:
    model = find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    images, texts = model.encode_images(pictures()).reshape(2, 2, -1), model.encode_texts(TEXTS[:6]).reshape(2, 3, -1)
    apart = np.stack([model.similarity(*sides) for sides in zip(images, texts, strict=True)])
    assert np.array_equal(model.similarities(images, texts), apart)


def test_nothing_in_gives_nothing_out(checkpoints: Callable[[str], Path]) -> None:
    model = find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    assert model.encode_images([]).shape == model.encode_texts([]).shape == (0, 24)


@pytest.mark.parametrize("architecture", ["tiny", "tiny-custom"])
def test_a_short_text_is_padded_to_a_bucket_and_means_the_same(
    open_clip: Any, checkpoints: Callable[[str], Path], architecture: str
) -> None:
    model = open_clip.create_model(architecture, str(checkpoints(architecture))).eval()
    tower, ids = TextTower(model), open_clip.get_tokenizer(architecture)(TEXTS)
    lengths = tower.lengths(ids)
    # Start, end and 8, 8, 2, 0, 3, 20 tokens, and one that is too long.
    assert lengths == [16, 16, 8, 8, 8, 24, 77]
    with torch.inference_mode():
        whole = model.encode_text(ids)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(
                tower.encode(ids[row : row + 1, :length]), whole[row : row + 1], rtol=1e-5, atol=1e-5
            )


def test_what_stands_behind_the_end_of_a_text_does_not_move_it(
    open_clip: Any, checkpoints: Callable[[str], Path]
) -> None:
    model = open_clip.create_model("tiny", str(checkpoints("tiny"))).eval()
    ids = open_clip.get_tokenizer("tiny")(TEXTS[:1])
    other = ids.clone()
    other[0, 12:] = 500
    with torch.inference_mode():
        assert torch.equal(model.encode_text(ids), model.encode_text(other))


@pytest.mark.parametrize("architecture", ["tiny-bidirectional", "tiny-coca"])
def test_a_tower_that_sees_its_padding_gets_the_whole_context(
    open_clip: Any, checkpoints: Callable[[str], Path], architecture: str
) -> None:
    model = open_clip.create_model(architecture, str(checkpoints(architecture))).eval()
    tower, ids = TextTower(model), open_clip.get_tokenizer(architecture)(TEXTS)
    assert not tower.shortens
    assert set(tower.lengths(ids)) == {ids.shape[1]}


def test_texts_that_lose_their_end_are_counted(checkpoints: Callable[[str], Path]) -> None:
    model = find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    model.encode_texts(TEXTS)
    assert model.truncated == 1
    fits = " ".join(["cat"] * 75)  # with start and end 77 tokens
    model.encode_texts([fits, f"{fits} cat"])
    assert model.truncated == 2


@pytest.mark.parametrize("mode", ["shortest", "squash", "longest"])
def test_images_are_prepared_bit_for_bit_as_by_open_clips_own_transform(
    open_clip: Any, checkpoints: Callable[[str], Path], tmp_path: Path, mode: str
) -> None:
    from PIL import Image

    stated = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bilinear", "resize_mode": mode}
    model = find_model(f"local-dir:{_folder(tmp_path, checkpoints('tiny'), preprocess_cfg=stated)}")
    transform = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(size=32, **stated), is_train=False
    )
    given: list[Any] = []
    model._model.encode_image = lambda pixels: (given.append(pixels), torch.ones(len(pixels), 24))[1]
    model.encode_images(pictures())
    expected = torch.stack([transform(Image.fromarray(picture)) for picture in pictures()])
    assert torch.equal(given[0][:4], expected)


def test_prepared_images_and_pixels_have_the_same_vectors(checkpoints: Callable[[str], Path]) -> None:
    model = find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    prepared = [model.prepare_image(picture) for picture in pictures()]
    assert {tuple(image.shape) for image in prepared} == {(32, 32, 3)}
    assert np.array_equal(model.encode_images([prepared[0], *pictures()[1:]]), model.encode_images(pictures()))


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_half_precision_is_near_float32_and_filed_apart(
    checkpoints: Callable[[str], Path], dtype: str, tolerance: float
) -> None:
    name = f"open_clip:tiny-gelu@{checkpoints('tiny')}"
    exact, half = find_model(name), find_model(name, ModelOptions(dtype=dtype))
    scores = [model.similarity(model.encode_images(pictures()), model.encode_texts(TEXTS)) for model in (exact, half)]
    difference = np.abs(scores[0] - scores[1]).max()
    assert 0 < difference < tolerance
    assert scores[1].dtype == np.float32
    assert exact.fingerprint != half.fingerprint


def _folder(
    path: Path, checkpoint: Path, *, file: str = "open_clip_pytorch_model.bin", model_cfg: Any = CLIP, **config: Any
) -> Path:
    """A folder as open_clip saves it."""
    path.mkdir(exist_ok=True)
    (path / file).write_bytes(checkpoint.read_bytes())
    config.setdefault("preprocess_cfg", PREPROCESSING)
    (path / "open_clip_config.json").write_text(json.dumps({"model_cfg": model_cfg} | config))
    return path


def test_one_set_of_weights_has_one_fingerprint_wherever_it_lies(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    file = checkpoints("tiny")
    state = torch.load(file, weights_only=True)
    torch.save(
        {"epoch": 5, "name": "run", "state_dict": {f"module.{key}": value for key, value in state.items()}},
        tmp_path / "epoch_5.pt",
    )
    save_file(state, tmp_path / "a.safetensors")
    folders = [_folder(tmp_path / name, file) for name in ("one", "two")]
    names = [f"open_clip:tiny-gelu@{path}" for path in (file, tmp_path / "epoch_5.pt", tmp_path / "a.safetensors")]
    models = [find_model(name) for name in (*names, *(f"local-dir:{folder}" for folder in folders))]
    assert len({model.fingerprint for model in models}) == 1
    assert [model.name for model in models[:3]] == names


def test_the_fingerprint_changes_with_preprocessing_and_with_what_no_weight_shows(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    file = checkpoints("tiny")
    one_head = CLIP | {"text_cfg": TEXT | {"heads": 1}}
    folders = [
        _folder(tmp_path / "a", file),
        _folder(tmp_path / "b", file, preprocess_cfg=PREPROCESSING | {"interpolation": "bilinear"}),
        _folder(tmp_path / "c", file, model_cfg=one_head),
        _folder(tmp_path / "d", file, model_cfg=CLIP | {"quick_gelu": True}),
        _folder(
            tmp_path / "e", file, model_cfg=CLIP | {"text_cfg": TEXT | {"tokenizer_kwargs": {"clean": "canonicalize"}}}
        ),
    ]
    assert len({find_model(f"local-dir:{folder}").fingerprint for folder in folders}) == len(folders)


def test_a_folders_preferred_file_is_taken_and_one_of_several_is_not_guessed(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "a", checkpoints("tiny"), file="first.pt")
    assert find_model(f"local-dir:{folder}").activation == "GELU"
    _folder(folder, checkpoints("tiny"), file="second.pt")
    with pytest.raises(ModelError, match=r"expected open_clip_model.safetensors in .* it has first.pt, second.pt"):
        find_model(f"local-dir:{folder}")
    _folder(folder, checkpoints("tiny"))
    assert find_model(f"local-dir:{folder}").activation == "GELU"


def _tag(open_clip: Any, monkeypatch: pytest.MonkeyPatch, architecture: str, **tags: dict[str, Any]) -> None:
    table = open_clip.pretrained._PRETRAINED
    monkeypatch.setitem(table, architecture, {tag: PREPROCESSING | config for tag, config in tags.items()})


def test_a_tag_is_loaded_with_its_own_preprocessing(
    open_clip: Any, checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    squash = {"file": str(checkpoints("tiny")), "mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    _tag(open_clip, monkeypatch, "tiny", mine=squash)
    model = find_model("open_clip:tiny/mine")
    images, _ = library_vectors(open_clip, "tiny", Path("mine"))
    np.testing.assert_allclose(model.encode_images(pictures()), images, atol=1e-5)
    assert find_model("open_clip:tiny/MINE").fingerprint == model.fingerprint


def test_a_tag_of_the_other_activation_is_refused_with_the_architecture_that_fits(
    open_clip: Any, checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"openai": {"file": str(checkpoints("tiny")), "quick_gelu": True}}
    _tag(open_clip, monkeypatch, "tiny", laion={"file": str(checkpoints("tiny"))}, **tags)
    _tag(open_clip, monkeypatch, "tiny-quickgelu", **tags)
    message = "trained with QuickGELU, and tiny computes with GELU; did you mean 'open_clip:tiny-quickgelu/openai'"
    with pytest.raises(ModelError, match=message):
        find_model("open_clip:tiny/openai")
    with pytest.raises(
        UnknownNameError, match="no weights 'laion' of 'tiny-quickgelu'; did you mean 'open_clip:tiny/laion'"
    ):
        find_model("open_clip:tiny-quickgelu/laion")
    assert find_model("open_clip:tiny-quickgelu/openai").activation == "QuickGELU"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open_clip:ViT-B-23/openai", "no architecture 'ViT-B-23'; did you mean 'ViT-B-32'"),
        ("open_clip:ViT-B-23@a.pt", "no architecture 'ViT-B-23'; did you mean 'ViT-B-32'"),
        (
            "open_clip:ViT-B-32/laion2b_s34b",
            "no weights 'laion2b_s34b' of 'ViT-B-32'; did you mean 'laion2b_s34b_b79k'",
        ),
        ("open_clip:ViT-B-32/zzz", "no weights 'zzz' of 'ViT-B-32'; it has openai, laion400m_e31, "),
        ("open_clip:ViT-S-32/openai", "no weights 'openai' of 'ViT-S-32'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        find_model(name)


@pytest.mark.parametrize("name", ["open_clip:ViT-B-32", "open_clip:ViT-B/32"])
def test_an_architecture_without_weights_is_answered_with_its_tags(name: str) -> None:
    with pytest.raises(ModelError, match=r"names no weights; write open_clip:ViT-B-32/TAG .* a tag .openai, laion400m"):
        find_model(name)


def test_openais_weights_under_the_plain_name_are_refused_before_anything_is_fetched() -> None:
    with pytest.raises(ModelError, match="did you mean 'open_clip:ViT-B-32-quickgelu/openai'"):
        find_model("open_clip:ViT-B-32/openai")


def test_a_bare_file_of_an_architecture_with_two_activations_must_say_which(
    open_clip: Any, checkpoints: Callable[[str], Path]
) -> None:
    file = checkpoints("tiny")
    message = f"nothing says whether .* write open_clip:tiny-quickgelu@{file} .* or open_clip:tiny-gelu@{file}"
    with pytest.raises(ModelError, match=message):
        find_model(f"open_clip:tiny@{file}")


def _trained(run: Path, checkpoint: Path, **settings: Any) -> Path:
    """A checkpoint where open_clip's trainer leaves it."""
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "epoch_5.pt").write_bytes(checkpoint.read_bytes())
    (run / "params.txt").write_text("".join(f"{key}: {value}\n" for key, value in sorted(settings.items())))
    return run / "checkpoints" / "epoch_5.pt"


@pytest.mark.parametrize(
    ("settings", "activation"),
    [
        ({"model": "tiny", "pretrained": "", "force_quick_gelu": False}, "GELU"),
        ({"model": "tiny", "pretrained": "laion2b_s34b_b79k", "force_quick_gelu": False}, "GELU"),
        ({"model": "tiny", "pretrained": "", "force_quick_gelu": True}, "QuickGELU"),
        ({"model": "tiny-quickgelu", "pretrained": "openai", "force_quick_gelu": False}, "QuickGELU"),
        # open_clip 2 switched to QuickGELU here, open_clip 3 does not.
        ({"model": "tiny", "pretrained": "openai", "force_quick_gelu": False}, None),
        ({"model": "another", "pretrained": "", "force_quick_gelu": False}, None),
    ],
)
def test_what_open_clips_trainer_wrote_decides_the_activation(
    checkpoints: Callable[[str], Path], tmp_path: Path, settings: dict[str, Any], activation: str | None
) -> None:
    file = _trained(tmp_path / "run", checkpoints("tiny"), **settings)
    right, wrong = ("tiny-quickgelu", "tiny-gelu") if activation == "QuickGELU" else ("tiny-gelu", "tiny-quickgelu")
    assert find_model(f"open_clip:{right}@{file}").activation == (activation or "GELU")
    if activation is None:
        assert find_model(f"open_clip:{wrong}@{file}").activation == "QuickGELU"
        with pytest.raises(ModelError, match="nothing says whether this file was trained with GELU or QuickGELU"):
            find_model(f"open_clip:tiny@{file}")
        return
    with pytest.raises(
        ModelError, match=rf"params.txt beside the file says {activation}, .* did you mean 'open_clip:tiny"
    ):
        find_model(f"open_clip:{wrong}@{file}")
    if activation == "GELU":
        assert find_model(f"open_clip:tiny@{file}").activation == "GELU"


def test_a_configuration_beside_the_file_decides_activation_and_preprocessing(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    stated = PREPROCESSING | {"mean": [0.1, 0.2, 0.3]}
    folder = _folder(tmp_path, checkpoints("tiny"), model_cfg=CLIP | {"quick_gelu": True}, preprocess_cfg=stated)
    file = folder / "open_clip_pytorch_model.bin"
    with pytest.raises(ModelError, match=r"open_clip_config.json beside the file says QuickGELU.*tiny-quickgelu@"):
        find_model(f"open_clip:tiny@{file}")
    model = find_model(f"open_clip:tiny-quickgelu@{file}")
    assert model.fingerprint == find_model(f"local-dir:{folder}").fingerprint


def test_a_fine_tune_has_activation_and_preprocessing_of_the_tag_it_came_from(
    open_clip: Any, checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _tag(open_clip, monkeypatch, "tiny", a={}, b={"mean": (0.5,) * 3, "resize_mode": "squash"})
    file = checkpoints("tiny")
    with pytest.raises(ModelError, match=rf"published with 2 kinds of preprocessing .* open_clip:tiny-gelu/a@{file}"):
        find_model(f"open_clip:tiny-gelu@{file}")
    models = [find_model(f"open_clip:tiny/{tag}@{file}") for tag in "ab"]
    assert models[0].fingerprint != models[1].fingerprint
    assert find_model(f"open_clip:tiny-gelu/a@{file}").fingerprint == models[0].fingerprint


def test_an_architecture_whose_published_weights_agree_lends_its_preprocessing_to_a_file(
    open_clip: Any, checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    _tag(open_clip, monkeypatch, "tiny", a=half, b=half, openai={"quick_gelu": True})
    file = checkpoints("tiny")
    images, _ = library_vectors(
        open_clip, "tiny", file, image_mean=half["mean"], image_std=half["std"], image_resize_mode="squash"
    )
    found = find_model(f"open_clip:tiny-gelu@{file}").encode_images(pictures())
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_openais_own_state_dict_must_have_quickgelu(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True)
    numbers = {"input_resolution": 32, "context_length": 77, "vocab_size": 49408}
    torch.save(state | {key: torch.tensor(value) for key, value in numbers.items()}, tmp_path / "openai.pt")
    with pytest.raises(ModelError, match="OpenAI's own weights, trained with QuickGELU; use tiny-quickgelu"):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'openai.pt'}")
    assert find_model(f"open_clip:tiny-quickgelu@{tmp_path / 'openai.pt'}").activation == "QuickGELU"


def _spoilt(path: Path, checkpoint: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    state = torch.load(checkpoint, weights_only=True)
    change(state)
    torch.save(state, path / "spoilt.pt")
    return path / "spoilt.pt"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("ln_final.bias"), r"1 missing \(ln_final.bias\)"),
        (lambda state: [state.pop(key) for key in list(state)[:5]], r"5 missing \(.*, .*, .* and 2 more\)"),
        (lambda state: state.update(head=torch.ones(2)), r"1 unexpected \(head\)"),
        (
            lambda state: state.update(positional_embedding=torch.ones(64, 32)),
            r"1 of another shape \(positional_embedding \(64, 32\), not \(77, 32\)\)",
        ),
        (lambda state: state["ln_final.bias"].fill_(float("nan")), "holds NaN or infinity, first in ln_final.bias"),
        (lambda state: state.update({"vision_model.a": torch.ones(1)}), "is a checkpoint of transformers"),
    ],
)
def test_a_checkpoint_that_does_not_fit_names_what_is_wrong(
    checkpoints: Callable[[str], Path], tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    file = _spoilt(tmp_path, checkpoints("tiny"), change)
    with pytest.raises(ModelError, match=message) as caught:
        find_model(f"open_clip:tiny-gelu@{file}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("other", ["tiny-wide", "tiny-40"])
def test_a_checkpoint_of_another_architecture_is_answered_with_that_one(
    checkpoints: Callable[[str], Path], other: str
) -> None:
    with pytest.raises(ModelError, match=f"does not fit tiny: .* of another shape .*; did you mean '{other}'"):
        find_model(f"open_clip:tiny-gelu@{checkpoints(other)}")


def test_a_missing_bias_is_not_filled_in(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    file = _spoilt(tmp_path, checkpoints("tiny-bidirectional"), lambda state: state.pop("logit_bias"))
    with pytest.raises(ModelError, match=r"1 missing \(logit_bias\)"):
        find_model(f"open_clip:tiny-bidirectional@{file}")


def test_names_and_shapes_that_open_clip_itself_renames_are_read(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    def as_older_versions_did(state: dict[str, Any]) -> None:
        for key in [key for key in state if key.startswith("text.")]:
            state[key.removeprefix("text.")] = state.pop(key)
        state["logit_scale"] = state["logit_scale"].reshape(1)

    file = _spoilt(tmp_path, checkpoints("tiny-custom"), as_older_versions_did)
    models = [find_model(f"open_clip:tiny-custom@{path}") for path in (file, checkpoints("tiny-custom"))]
    assert models[0].fingerprint == models[1].fingerprint


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_cfg": None}, "has no 'model_cfg'"),
        ({"preprocess_cfg": {"mean": MEAN}}, "says nothing of std, interpolation, resize_mode; add"),
        (
            {"preprocess_cfg": PREPROCESSING | {"size": 224}},
            r"makes images of \(224, 224\) pixels, .* takes \(32, 32\)",
        ),
        ({"preprocess_cfg": PREPROCESSING | {"resize_mode": "crop"}}, "open_clip cannot build it"),
        ({"model_cfg": CLIP | {"wings": 2}}, "open_clip cannot build it: .*wings"),
        (
            {"model_cfg": CLIP | {"text_cfg": TEXT | {"vocab_size": 500}}},
            r"token_embedding.weight \(49408, 32\), not \(500, 32\)",
        ),
        (
            {"model_cfg": CLIP | {"text_cfg": TEXT | {"tokenizer_kwargs": {"reduction_mask": "random"}}}},
            "leaves out words of long texts at random",
        ),
        (
            {"model_cfg": CLIP | {"text_cfg": TEXT | {"tokenizer_kwargs": {"additional_special_tokens": ["<x>"]}}}},
            "its tokenizer has 49409 entries, its token embeddings 49408 rows",
        ),
        (
            {"model_cfg": CLIP | {"text_cfg": TEXT | {"pool_type": "eos", "eos_id": 2}}},
            "its text tower pools at token 2, its tokenizer ends texts with 49407",
        ),
        (
            {"model_cfg": CLIP | {"text_cfg": TEXT | {"hf_tokenizer_name": "x"}}},
            "its tokenizer cannot be loaded: .*; open_clip takes it from the hub: load",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_in_one_line(
    checkpoints: Callable[[str], Path], tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    folder = _folder(tmp_path / "model", checkpoints("tiny"), **config)
    with pytest.raises(ModelError, match=message) as caught:
        find_model(f"local-dir:{folder}")
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_configuration_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no open_clip_config.json"):
        find_model(f"local-dir:{tmp_path}")
    (tmp_path / "open_clip_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"open_clip_config.json cannot be read"):
        find_model(f"local-dir:{tmp_path}")
    with pytest.raises(ModelError, match=r"gone.pt is no file; name a checkpoint file"):
        find_model(f"open_clip:ViT-B-32-quickgelu@{tmp_path / 'gone.pt'}")


def test_another_reading_is_refused(checkpoints: Callable[[str], Path]) -> None:
    name = f"open_clip:tiny-gelu@{checkpoints('tiny')}"
    with pytest.raises(ModelError, match="has no reading 'itm'; a dual encoder of open_clip has one, 'itc'"):
        find_model(name, ModelOptions(reading="itm"))
    assert find_model(name, ModelOptions(reading="itc")).kind == "similarity"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], None]:
    """An offline hub, whose cache is filled from folders."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def put(repository: str, folder: Path) -> None:
        place = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text("0" * 40)
        (place / "snapshots").mkdir()
        folder.rename(place / "snapshots" / ("0" * 40))

    return put


def test_a_hub_model_in_the_cache_is_loaded_offline(
    hub: Callable[[str, Path], None], checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    local = find_model(f"local-dir:{_folder(tmp_path / 'a', checkpoints('tiny'))}")
    hub("org/repo", tmp_path / "a")
    model = find_model("hf-hub:org/repo")
    assert (model.name, model.fingerprint) == ("hf-hub:org/repo", local.fingerprint)


def test_a_published_model_in_the_cache_is_loaded_offline(
    hub: Callable[[str, Path], None],
    open_clip: Any,
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _tag(open_clip, monkeypatch, "tiny", whole={"hf_hub": "org/whole/"}, part={"hf_hub": "org/part/weights.bin"})
    hub("org/whole", _folder(tmp_path / "a", checkpoints("tiny")))
    hub("org/part", _folder(tmp_path / "b", checkpoints("tiny"), file="weights.bin"))
    assert find_model("open_clip:tiny/whole").fingerprint == find_model("open_clip:tiny/part").fingerprint


@pytest.mark.parametrize("name", ["hf-hub:org/absent", "open_clip:ViT-B-32/laion2b_s34b_b79k"])
def test_what_is_not_in_the_cache_is_not_fetched_offline(hub: Callable[[str, Path], None], name: str) -> None:
    with pytest.raises(ModelError, match="is not in the hub's cache, and HF_HUB_OFFLINE is set; fetch it") as caught:
        find_model(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("GatedRepoError", "is gated: accept its conditions on https://huggingface.co/org/repo, then log in"),
        ("RepositoryNotFoundError", "the hub has no org/repo that you may read"),
        ("RemoteEntryNotFoundError", "org/repo has no open_clip_config.json; is it a model of open_clip"),
        ("HfHubHTTPError", "org/repo cannot be fetched from the hub: a first line$"),
    ],
)
def test_what_the_hub_refuses_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, failure: str, message: str) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    def refuse(*_: Any) -> None:
        kind = getattr(errors, failure)
        error = kind.__new__(kind)  # its own constructor wants a response of the hub's
        error.args = ("a first line\na second",)
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(ModelError, match=message):
        find_model("hf-hub:org/repo")


def test_what_is_no_hub_id_is_told(hub: Callable[[str, Path], None]) -> None:
    with pytest.raises(ModelError, match="'a/b/c' is no id of the hub; expected OWNER/NAME"):
        find_model("hf-hub:a/b/c")


@pytest.fixture(scope="module")
def transformers_folder(open_clip: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A model whose text tower and tokenizer are of transformers, as open_clip saves it."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("with-transformers")
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *sorted({word for text in TEXTS for word in text.split()})]
    unknown = {"unk_token": "[UNK]"}
    backend = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, **unknown))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", **unknown}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.BertConfig(vocab_size=len(words), **shape).save_pretrained(folder)
    text = {
        "hf_model_name": str(folder),
        "hf_tokenizer_name": "its own",
        "context_length": 24,
        "hf_proj_type": "linear",
    }
    config = {"embed_dim": 24, "vision_cfg": VISION, "text_cfg": text | {"hf_pooler_type": "mean_pooler"}}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESSING}))
    torch.manual_seed(0)
    torch.save(
        open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False).state_dict(),
        folder / "open_clip_pytorch_model.bin",
    )
    return folder, config


def test_a_text_tower_and_a_tokenizer_of_transformers_score_as_by_open_clip(
    open_clip: Any, transformers_folder: tuple[Path, Any]
) -> None:
    name = f"local-dir:{transformers_folder[0]}"
    model = find_model(name)
    library, tokenizer = open_clip.create_model(name).eval(), open_clip.get_tokenizer(name)
    with torch.inference_mode():
        expected = [library.encode_text(tokenizer([text]), normalize=True)[0].numpy() for text in TEXTS]
    np.testing.assert_allclose(model.encode_texts(TEXTS), expected, atol=1e-5)
    assert model.truncated == 1
    assert model.encode_texts([]).shape == (0, 24)
    assert model.activation == "GELU"


def test_a_tokenizer_with_more_entries_than_embeddings_is_refused(
    open_clip: Any, transformers_folder: tuple[Path, dict[str, Any]], checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    text = TEXT | {"vocab_size": 5, "hf_tokenizer_name": "its own", "pool_type": "last"}
    for file in transformers_folder[0].glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    file = _spoilt(
        tmp_path, checkpoints("tiny"), lambda state: state.update({"token_embedding.weight": torch.ones(5, 32)})
    )
    folder = _folder(tmp_path, file, model_cfg=CLIP | {"text_cfg": text})
    with pytest.raises(ModelError, match=r"its tokenizer has \d+ entries, its token embeddings 5 rows"):
        find_model(f"local-dir:{folder}")


def test_loading_leaves_the_users_logging_as_it_was(checkpoints: Callable[[str], Path]) -> None:
    import logging

    root = logging.getLogger()
    before = list(root.handlers), root.manager.disable
    find_model(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    assert (list(root.handlers), root.manager.disable) == before
