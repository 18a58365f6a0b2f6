"""Two towers made one model, and weights between two models: on tiny random models of the real library."""

import sys

import numpy as np
import pytest
import tiny_models
from examples.convert import interpolate, two_towers
from safetensors.torch import load_file

from facts import raises
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.protocols import DualEncoder
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()


@pytest.mark.slow
def test_two_towers_make_the_model_that_they_were_taken_from(tmp_path):
    whole = tiny_models.clip(tmp_path / "whole")
    with quiet():
        for tower, kind in (("text", "CLIPTextModelWithProjection"), ("image", "CLIPVisionModelWithProjection")):
            part = getattr(transformers, kind).from_pretrained(whole, projection_dim=tiny_models.DIMENSIONS)
            part.save_pretrained(tmp_path / tower)
        two_towers.join(tmp_path / "text", tmp_path / "image", whole, tmp_path / "joined")
    models = [find_model(f"hf:{folder}") for folder in (whole, tmp_path / "joined")]
    images, texts = tiny_models.pictures(2), tiny_models.TEXTS
    scores = []
    for model in models:
        assert isinstance(model, DualEncoder)
        scores.append(model.similarity(model.encode_images(images), model.encode_texts(texts)))
    np.testing.assert_array_equal(*scores)


def test_towers_of_two_spaces_are_refused(tmp_path):
    whole = tiny_models.clip(tmp_path / "whole")
    with quiet():
        text = transformers.CLIPTextModelWithProjection.from_pretrained(whole, projection_dim=24)
        text.save_pretrained(tmp_path / "text")
        vision = transformers.CLIPVisionConfig(**tiny_models.vision(), projection_dim=8)
        transformers.CLIPVisionModelWithProjection(vision).save_pretrained(tmp_path / "image")
    with raises(SystemExit, "24", "8"):
        two_towers.join(tmp_path / "text", tmp_path / "image", whole, tmp_path / "joined")


def test_the_patch_lies_between_the_two_models(tmp_path, monkeypatch):
    base, tuned = ({"w": torch.full((2, 3), float(k)), "steps": torch.tensor(k)} for k in (1, 2))
    torch.save(base, tmp_path / "base.pt")
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in tuned.items()}}, tmp_path / "t.pt"
    )
    names = [str(tmp_path / name) for name in ("base.pt", "t.pt", "out.safetensors")]
    monkeypatch.setattr(sys, "argv", ["interpolate.py", *names])
    interpolate.main()
    mixed = load_file(names[2])
    np.testing.assert_allclose(mixed["w"], 1.6, rtol=1e-6)
    assert mixed["steps"] == 1
    torch.save({"w": torch.zeros(2, 4), "steps": torch.tensor(0)}, tmp_path / "wide.pt")
    with raises(SystemExit, "wide.pt", "1", "shape"):
        interpolate.interpolate(tmp_path / "base.pt", tmp_path / "wide.pt", tmp_path / "no", 0.6)
    with raises(SystemExit, "--share", "2", "0", "1"):
        interpolate.interpolate(tmp_path / "base.pt", tmp_path / "t.pt", tmp_path / "no", 2)
