"""Patches and words are those of the library's own passes, a run learns from them, and what has none is refused."""

from pathlib import Path

import numpy as np
import torch
from training_sets import architecture, config, logged

from facts import raises
from tellapart.errors import DataError, ModelError
from tellapart.training.encoders import open_dual, write_new_model
from tellapart.training.training_run import run_training

COMPACT = Path(__file__).parents[3] / "examples" / "demo_encoder" / "architecture"
TEXTS = ("a red square left of a blue one", "grey")


def opened(folder: Path, **changes):
    name = architecture(folder / "arch", **changes)
    return open_dual(write_new_model(Path(name.removeprefix("new:")), folder / "start", seed=3), "cpu")


def test_patches_and_words_are_the_librarys_last_states_projected(tmp_path):
    trainable = opened(tmp_path)
    trainable.add_local()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
    images = {"pixels": torch.stack([trainable.image(one)["pixels"] for one in pixels])}
    texts = trainable.tokens(TEXTS)
    with torch.no_grad():
        found, model = trainable.module.eval()(images, texts), trainable.module.model
        whole = torch.nn.functional.pad(texts["input_ids"], (0, 24 - texts["input_ids"].shape[1]))
        prepared = (images["pixels"].permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
        as_read = {"normalize_intermediates": True, "image_output_fmt": "NLC"}
        own = model.forward_intermediates(prepared, whole, **as_read)
        patches = own["image_intermediates"][-1] @ model.visual.proj
        words = own["text_intermediates"][-1] @ model.text_projection
    normalize = torch.nn.functional.normalize
    torch.testing.assert_close(found["patches"], patches, rtol=1e-4, atol=1e-6)  # of the lengths that the tower gives
    assert (found["patches"].norm(dim=-1) - 1).abs().max() > 0.01
    length = texts["input_ids"].shape[1]
    torch.testing.assert_close(found["words"], normalize(words, dim=-1)[:, :length], rtol=1e-4, atol=1e-6)
    ends = texts["input_ids"].argmax(-1).tolist()
    assert ends == [9, 2]
    assert found["real_words"].tolist() == [[0 < k <= end for k in range(length)] for end in ends]
    torch.testing.assert_close(found["words"][[0, 1], ends], found["texts"])  # the vector of a text is that of its end


def test_a_run_learns_to_tell_captions_apart_by_patches_and_words(tmp_path):
    loss, optimiser = {"name": "fsc-clip", "local": 1.0}, {"steps": 16, "learning_rate": 3e-3, "epsilon": 1e-8}
    settings = config(tmp_path, loss=loss, data={"negative_captions": 1}, optimiser=optimiser)
    run_training(settings, tmp_path, tmp_path / "run")
    steps = [line for line in logged(tmp_path / "run") if "local" in line]
    assert len(steps) == 16
    assert np.mean([line["local"] for line in steps[-4:]]) < np.mean([line["local"] for line in steps[:4]])


def test_what_has_no_patches_or_is_read_in_pieces_is_refused(tmp_path):
    averaged = {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8, "pool_type": "avg"}
    with raises(ModelError, "fsc-clip", "words", "model", "fsc-global"):
        opened(tmp_path / "averaged", vision_cfg=averaged).add_local()
    with raises(ModelError, "ViT", "open_clip"):
        open_dual(write_new_model(COMPACT, tmp_path / "compact", 0), "cpu").add_local()
    settings = config(tmp_path, loss={"name": "fsc-clip"}, batch={"micro": 4})
    with raises(DataError, "batch.micro", "loss", "'fsc-clip'", "words"):
        run_training(settings, tmp_path, tmp_path / "run")
