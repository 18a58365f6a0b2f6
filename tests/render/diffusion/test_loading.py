"""Pipelines come from safetensors at one revision, offline where they can, and nothing of theirs is run."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import raises

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

from tellapart.errors import MissingDependencyError, ModelError
from tellapart_render.diffusion.sampling import DiffusionModel, open_checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def copied(folders: Path, tmp_path: Path) -> Callable[..., Path]:
    """Copy a pipeline, to be spoiled."""

    def copy(name: str = "sd", to: str = "model") -> Path:
        return Path(shutil.copytree(folders / name, tmp_path / to))

    return copy


def opened(folder: Path, **more: Any) -> Any:
    return open_checkpoint(DiffusionModel(name=folder.name, **{"device": "cpu", **more}), folder.parent)


@pytest.mark.slow
def test_a_folder_is_known_by_its_files_and_not_by_its_place(copied: Callable[..., Path]) -> None:
    one, other = copied(to="one"), copied(to="other")
    first = opened(one)
    assert first.kind == "StableDiffusionPipeline"
    assert first.versions == opened(other).versions
    assert first.versions["torch"].endswith(", cpu, float32")
    config = one / "unet" / "config.json"
    config.write_text(config.read_text() + "\n")
    assert opened(one).revisions != opened(other).revisions


def test_weights_in_pickles_alone_are_refused(copied: Callable[..., Path]) -> None:
    folder = copied()
    weights = next((folder / "unet").glob("*.safetensors"))
    weights.rename(weights.with_suffix(".bin"))
    with raises(ModelError, "diffusion_pytorch_model.bin"):
        opened(folder)


def test_a_variant_that_is_not_there_is_refused(copied: Callable[..., Path]) -> None:
    with raises(ModelError, "'fp16'", "revision"):
        opened(copied(), variant="fp16")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"_class_name": "FluxPipeline"},
         ("FluxPipeline", "StableDiffusionPipeline", "StableDiffusionXLPipeline")),
        ({"unet": ["my_unet", "UNet"]}, ("my_unet", "run")),
        ({"tokenizer_3": ["transformers", "CLIPTokenizer"]}, ("tokenizer_3", "model_index.json")),
    ],
)  # fmt: skip
def test_a_pipeline_of_another_kind_or_with_code_is_refused(
    copied: Callable[..., Path], change: dict[str, Any], match: str | tuple[str, ...]
) -> None:
    folder = copied()
    index = folder / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | change))
    with raises(ModelError, match):
        opened(folder)


def test_prompt_to_prompts_kind_can_be_asked_for(folders: Path) -> None:
    with raises(ModelError, "StableDiffusionXLPipeline", "StableDiffusionPipeline"):
        open_checkpoint(DiffusionModel(name="xl"), folders, ("StableDiffusionPipeline",))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with raises(ModelError, "diffusers", "folder"):
        opened(tmp_path / "model")


def test_damaged_weights_are_named(copied: Callable[..., Path]) -> None:
    folder = copied()
    next((folder / "unet").glob("*.safetensors")).write_bytes(b"not tensors")
    with raises(ModelError, "StableDiffusionPipeline", "loaded"):
        opened(folder).load()


@pytest.mark.parametrize("nested", [True, False])
def test_another_denoiser_takes_the_place_of_the_models_own(
    folders: Path, copied: Callable[..., Path], nested: bool
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    other = copied(to="dpo") / "unet"
    path = next(other.glob("*.safetensors"))
    save_file({name: tensor + 1 for name, tensor in load_file(path).items()}, path)
    place = other.parent if nested else other
    plain, replaced = (
        open_checkpoint(DiffusionModel(name=str(folders / "sd"), unet=unet, device="cpu"), place.parent)
        for unet in ("", place.name)
    )
    assert set(replaced.revisions) == {"pipeline", "unet"}
    pipelines = [checkpoint.load() for checkpoint in (plain, replaced)]
    weights = [pipeline.unet.state_dict()["conv_in.weight"] for pipeline in pipelines]
    torch.testing.assert_close(weights[1], weights[0] + 1)
    assert pipelines[0].safety_checker is None


def test_a_hub_id_is_read_from_the_hubs_cache_without_a_network(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'hub'")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    name = "someone/tiny-sd"
    with raises(ModelError, name, "0123456789ab", "folder"):
        open_checkpoint(DiffusionModel(name=name, revision=COMMIT), tmp_path)
    shutil.copytree(folders / "sd", tmp_path / "models--someone--tiny-sd" / "snapshots" / COMMIT)
    found = open_checkpoint(DiffusionModel(name=name, revision=COMMIT), tmp_path)
    assert found.revisions == {"pipeline": COMMIT}
    assert found.load().unet.config.sample_size == 16
    # What the cache holds in part would be fetched; where it cannot be, what is wrong is said.
    shutil.rmtree(tmp_path / "models--someone--tiny-sd" / "snapshots" / COMMIT / "vae")
    with raises(ModelError, "model_index.json"):
        open_checkpoint(DiffusionModel(name=name, revision=COMMIT), tmp_path)


@pytest.mark.parametrize("revision", ["", "main", COMMIT[:12]])
def test_a_hub_id_without_its_commit_is_refused(tmp_path: Path, revision: str) -> None:
    with raises(ModelError, "40", f"'{revision}'"):
        open_checkpoint(DiffusionModel(name="someone/tiny-sd", revision=revision), tmp_path)


def test_without_diffusers_the_line_that_installs_it_is_said(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with raises(MissingDependencyError, '"tellapart[diffusion]"', "diffusers"):
        opened(folders / "sd")


def test_a_device_that_is_not_there_is_refused(folders: Path) -> None:
    import torch

    gone = "mps" if torch.cuda.is_available() else "cuda"
    with raises(ModelError, f"'{gone}'", "GPU", "'cpu'"):
        opened(folders / "sd", device=gone)
    auto = opened(folders / "sd", device="auto").device
    assert auto == ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
