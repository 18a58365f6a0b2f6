"""Names of open_clip's models: tags, bare files, the hub; which activation and preprocessing each stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="torch is not installed (the models extra)")

from tiny_openclip import CLIP, PREPROCESSING, library_vectors, pictures, saved_folder, tagged

torch = import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_tag_is_loaded_with_its_own_preprocessing(
    open_clip: Any, checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    squash = {"file": str(checkpoints("tiny")), "mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    tagged(open_clip, monkeypatch, "tiny", mine=squash)
    model = find_model("open_clip:tiny/mine")
    images, _ = library_vectors(open_clip, "tiny", Path("mine"))
    np.testing.assert_allclose(model.encode_images(pictures()), images, atol=1e-5)
    assert find_model("open_clip:tiny/MINE").fingerprint == model.fingerprint


def test_a_tag_of_the_other_activation_is_refused_with_the_architecture_that_fits(
    open_clip: Any, checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"openai": {"file": str(checkpoints("tiny")), "quick_gelu": True}}
    tagged(open_clip, monkeypatch, "tiny", laion={"file": str(checkpoints("tiny"))}, **tags)
    tagged(open_clip, monkeypatch, "tiny-quickgelu", **tags)
    with raises(ModelError, "QuickGELU", "tiny", "GELU", "'open_clip:tiny-quickgelu/openai'"):
        find_model("open_clip:tiny/openai")
    with raises(UnknownNameError, "'laion'", "'tiny-quickgelu'", "'open_clip:tiny/laion'"):
        find_model("open_clip:tiny-quickgelu/laion")
    assert find_model("open_clip:tiny-quickgelu/openai").activation == "QuickGELU"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open_clip:ViT-B-23/openai", ("'ViT-B-23'", "'ViT-B-32'")),
        ("open_clip:ViT-B-23@a.pt", ("'ViT-B-23'", "'ViT-B-32'")),
        ("open_clip:ours@a.pt", ("'ours'", "local-dir:FOLDER", "open_clip_config.json")),
        ("open_clip:ViT-B-32/laion2b_s34b", ("'laion2b_s34b'", "'ViT-B-32'", "'laion2b_s34b_b79k'")),
        ("open_clip:ViT-B-32/zzz", ("'zzz'", "'ViT-B-32'", "laion400m_e31")),
        ("open_clip:ViT-S-32/openai", ("'openai'", "'ViT-S-32'")),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, message: Any) -> None:
    with raises(UnknownNameError, message):
        find_model(name)


@pytest.mark.parametrize("name", ["open_clip:ViT-B-32", "open_clip:ViT-B/32"])
def test_an_architecture_without_weights_is_answered_with_its_tags(name: str) -> None:
    with raises(ModelError, "open_clip:ViT-B-32/TAG", "laion400m_e31"):
        find_model(name)


def _trained(run: Path, checkpoint: Path, **settings: Any) -> Path:
    """A checkpoint where open_clip's trainer leaves it."""
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "epoch_5.pt").write_bytes(checkpoint.read_bytes())
    (run / "params.txt").write_text("".join(f"{key}: {value}\n" for key, value in sorted(settings.items())))
    return run / "checkpoints" / "epoch_5.pt"


@pytest.mark.few(2)
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
    checkpoints: Any, tmp_path: Path, settings: Any, activation: str | None
) -> None:
    file = _trained(tmp_path / "run", checkpoints("tiny"), **settings)
    right, wrong = ("tiny-quickgelu", "tiny-gelu") if activation == "QuickGELU" else ("tiny-gelu", "tiny-quickgelu")
    assert find_model(f"open_clip:{right}@{file}").activation == (activation or "GELU")
    if activation is None:
        assert find_model(f"open_clip:{wrong}@{file}").activation == "QuickGELU"
        with raises(ModelError, "GELU", "QuickGELU", "nothing"):
            find_model(f"open_clip:tiny@{file}")
        return
    with raises(ModelError, "params.txt", activation, "open_clip:tiny"):
        find_model(f"open_clip:{wrong}@{file}")
    if activation == "GELU":
        assert find_model(f"open_clip:tiny@{file}").activation == "GELU"


def test_a_configuration_beside_the_file_decides_activation_and_preprocessing(checkpoints: Any, tmp_path: Path) -> None:
    stated = PREPROCESSING | {"mean": [0.1, 0.2, 0.3]}
    folder = saved_folder(tmp_path, checkpoints("tiny"), model_cfg=CLIP | {"quick_gelu": True}, preprocess_cfg=stated)
    file = folder / "open_clip_pytorch_model.bin"
    with raises(ModelError, "open_clip_config.json", "QuickGELU", "tiny-quickgelu@"):
        find_model(f"open_clip:tiny@{file}")
    model = find_model(f"open_clip:tiny-quickgelu@{file}")
    assert model.fingerprint == find_model(f"local-dir:{folder}").fingerprint


def test_a_fine_tune_has_activation_and_preprocessing_of_the_tag_it_came_from(
    open_clip: Any, checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagged(open_clip, monkeypatch, "tiny", a={}, b={"mean": (0.5,) * 3, "resize_mode": "squash"})
    file = checkpoints("tiny")
    with raises(ModelError, "2", f"open_clip:tiny-gelu/a@{file}"):
        find_model(f"open_clip:tiny-gelu@{file}")
    models = [find_model(f"open_clip:tiny/{tag}@{file}") for tag in "ab"]
    assert models[0].fingerprint != models[1].fingerprint
    assert find_model(f"open_clip:tiny-gelu/a@{file}").fingerprint == models[0].fingerprint


def test_an_architecture_whose_published_weights_agree_lends_its_preprocessing_to_a_file(
    open_clip: Any, checkpoints: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    tagged(open_clip, monkeypatch, "tiny", a=half, b=half, openai={"quick_gelu": True})
    file = checkpoints("tiny")
    images, _ = library_vectors(
        open_clip, "tiny", file, image_mean=half["mean"], image_std=half["std"], image_resize_mode="squash"
    )
    vectors = find_model(f"open_clip:tiny-gelu@{file}").encode_images(pictures())
    np.testing.assert_allclose(vectors, images, atol=1e-5)


def test_openais_own_state_dict_must_have_quickgelu(checkpoints: Any, tmp_path: Path) -> None:
    state = torch.load(checkpoints("tiny"), weights_only=True)
    numbers = {"input_resolution": 32, "context_length": 77, "vocab_size": 49408}
    torch.save(state | {key: torch.tensor(value) for key, value in numbers.items()}, tmp_path / "openai.pt")
    with raises(ModelError, "OpenAI", "QuickGELU", "weights"):
        find_model(f"open_clip:tiny-gelu@{tmp_path / 'openai.pt'}")
    assert find_model(f"open_clip:tiny-quickgelu@{tmp_path / 'openai.pt'}").activation == "QuickGELU"


@pytest.mark.slow
def test_another_reading_is_refused(checkpoints: Any) -> None:
    name = f"open_clip:tiny-gelu@{checkpoints('tiny')}"
    with raises(ModelError, "'itm'", "open_clip", "'itc'"):
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


def test_a_hub_model_in_the_cache_is_loaded_offline(hub: Any, checkpoints: Any, tmp_path: Path) -> None:
    local = find_model(f"local-dir:{saved_folder(tmp_path / 'a', checkpoints('tiny'))}")
    hub("org/repo", tmp_path / "a")
    model = find_model("hf-hub:org/repo")
    assert (model.name, model.fingerprint) == ("hf-hub:org/repo", local.fingerprint)


def test_a_published_model_in_the_cache_is_loaded_offline(
    hub: Any, open_clip: Any, checkpoints: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagged(open_clip, monkeypatch, "tiny", whole={"hf_hub": "org/whole/"}, part={"hf_hub": "org/part/weights.bin"})
    hub("org/whole", saved_folder(tmp_path / "a", checkpoints("tiny")))
    hub("org/part", saved_folder(tmp_path / "b", checkpoints("tiny"), file="weights.bin"))
    assert find_model("open_clip:tiny/whole").fingerprint == find_model("open_clip:tiny/part").fingerprint


@pytest.mark.parametrize("name", ["hf-hub:org/absent", "open_clip:ViT-B-32/laion2b_s34b_b79k"])
def test_what_is_not_in_the_cache_is_not_fetched_offline(hub: Any, name: str) -> None:
    with raises(ModelError, "HF_HUB_OFFLINE", "hub") as caught:
        find_model(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("GatedRepoError", ("https://huggingface.co/org/repo", "log")),
        ("RepositoryNotFoundError", ("org/repo", "hub")),
        ("RemoteEntryNotFoundError", ("org/repo", "open_clip_config.json", "model", "open_clip")),
        ("HfHubHTTPError", ("org/repo", "hub", "line")),
    ],
)
def test_what_the_hub_refuses_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, failure: str, message: Any) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    def refuse(*_: Any) -> None:
        kind = getattr(errors, failure)
        error = kind.__new__(kind)  # its own constructor wants a response of the hub's
        error.args = ("a first line\na second",)
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with raises(ModelError, message):
        find_model("hf-hub:org/repo")
