"""Low-rank updates alone are trained and kept; the written model has them merged, and is an ordinary one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_fusion import blip
from training_sets import config, logged, squares

from facts import raises
from tellapart.data.folder import read_pair_set
from tellapart.errors import ModelError
from tellapart.metrics.pairs import group_score
from tellapart.models.find import find_model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training.config import LoraConfig
from tellapart.training.encoders.load_start import open_dual
from tellapart.training.encoders.lora import add_updates, linear_layers, merge_updates, save_merged
from tellapart.training.training_run import run_training

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="LoRA needs the extra 'train'")

torch = import_torch()


def clip(folder: Path) -> str:
    import tiny_models

    torch.manual_seed(0)
    return f"hf:{tiny_models.clip(folder)}"


def _weights(folder: Path) -> dict[str, Any]:
    return read_state_dict(next(folder.glob("*.safetensors")))


@pytest.mark.slow
def test_updates_alone_are_trained_kept_and_merged_in_what_is_written(tmp_path: Path) -> None:
    settings = config(tmp_path, lora={"rank": 2, "alpha": 4.0}, data={"validation": "folder:train"})
    finished = run_training(settings, tmp_path, tmp_path / "run")
    kept = _weights(tmp_path / "run" / "best")
    learnt = {name for name in kept if ".lora_" in name}
    # Beside them the contrastive scale, and a mask that is no weight.
    assert {name.rpartition(".")[2] for name in kept.keys() - learnt} <= {"logit_scale", "attn_mask"}
    layers = {name.split(".lora_")[0] for name in learnt}
    assert {name.rpartition(".")[2] for name in layers} == {"c_fc", "c_proj"}
    before, after = _weights(tmp_path / "run" / "start"), _weights(tmp_path / "run" / "model")
    assert before.keys() == after.keys()
    for name, value in after.items():
        stem = f"model.{name.removesuffix('.weight')}"
        change = value - before[name]
        if stem in layers and name.endswith(".weight"):
            low = kept[f"{stem}.lora_B.default.weight"] @ kept[f"{stem}.lora_A.default.weight"]
            assert torch.allclose(change, 2.0 * low, atol=1e-6) and float(change.abs().max()) > 0, name
        elif name != "logit_scale":
            assert float(change.abs().max()) == 0, name
    # The model that was validated and the one that is written measure the same.
    pairs = read_pair_set(tmp_path / "train")
    again = score(find_model(finished.name), pairs, store=EmbeddingStore(None)).scores.values
    assert group_score(again).mean() == finished.state.best


def test_the_merged_model_computes_what_the_adapted_one_does_and_nothing_is_left_changed(tmp_path: Path) -> None:
    adapted = open_dual(clip(tmp_path / "clip"), "cpu")
    add_updates(adapted, LoraConfig(rank=3, dropout=0.5), 0)
    begun = find_model(f"hf:{tmp_path / 'clip'}").encode_texts(["a red cup"])
    adapted.module.eval()
    assert np.array_equal(adapted.model().encode_texts(["a red cup"]), begun)  # an update begins as nothing
    with torch.no_grad():
        for name, value in adapted.module.named_parameters():
            if ".lora_B." in name:
                value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name))) * 0.1)
    moved = adapted.model().encode_texts(["a red cup"])
    assert np.abs(moved - begun).max() > 1e-3
    names, bits = dict(adapted.module.named_parameters()).keys(), adapted.module.state_dict()
    kept = {name: value.clone() for name, value in bits.items()}
    saved = find_model(save_merged(adapted, tmp_path / "saved"))
    assert np.allclose(saved.encode_texts(["a red cup"]), moved, atol=1e-5)
    assert dict(adapted.module.named_parameters()).keys() == names
    assert all(torch.equal(value, kept[name]) for name, value in adapted.module.state_dict().items())
    with pytest.raises(ZeroDivisionError), merge_updates(adapted.module):
        raise ZeroDivisionError
    assert dict(adapted.module.named_parameters()).keys() == names


class Stopped(Exception):  # noqa: N818
    pass


def test_a_run_with_updates_and_dropout_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    settings = config(
        tmp_path, model=clip(tmp_path / "clip"), lora={"rank": 2, "dropout": 0.2, "targets": ["q_proj", "v_proj"]},
        validation={"every": 1},
    )  # fmt: skip

    def progress(stage: str, done: int, _total: int, _note: str = "") -> None:
        if (stage, done) == ("steps", 2):
            raise Stopped

    run_training(settings, tmp_path, tmp_path / "whole")
    with pytest.raises(Stopped):
        run_training(settings, tmp_path, tmp_path / "stopped", progress=progress)
    assert run_training(settings, tmp_path, tmp_path / "stopped", resume=True).resumed
    for name in ("log.jsonl", "model/model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()
    changed = {
        name
        for name, value in _weights(tmp_path / "whole" / "model").items()
        if not torch.equal(value, _weights(tmp_path / "clip")[name])
    }
    assert {name.split(".")[-2] for name in changed - {"logit_scale"}} == {"q_proj", "v_proj"}


@pytest.mark.slow
def test_what_lies_between_the_start_and_the_updates_is_a_mean_of_merged_weights(tmp_path: Path) -> None:
    name = f"folder:{squares(tmp_path / 'test', seed=5)}"
    settings = config(tmp_path, lora={"rank": 2}, report={"benchmarks": [name], "alphas": [0.0, 1.0]})
    result = run_training(settings, tmp_path, tmp_path / "run", allow_leak=True)
    assert result.sweep is not None and result.comparison is not None
    ends = {alpha: result.sweep.curve[alpha][0] for alpha in (0.0, 1.0)}
    scores = [
        (row.a, row.b) for row in result.comparison.rows if row.metric in {"text_score", "image_score", "group_score"}
    ]
    assert ends[1.0] == pytest.approx(float(np.mean([a for a, _ in scores])))
    assert ends[0.0] == pytest.approx(float(np.mean([b for _, b in scores])))


def test_a_fusion_encoder_is_adapted_too(tmp_path: Path) -> None:
    settings = config(tmp_path, model=blip(tmp_path / "blip"), loss={"name": "eqsim-itm"}, lora={"rank": 2})
    run_training(settings, tmp_path, tmp_path / "run")
    assert logged(tmp_path / "run")[0]["gradient_norm"] > 0
    before, after = _weights(tmp_path / "blip"), _weights(tmp_path / "run" / "model")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "itm_head.weight" in changed and all(name.endswith(".weight") and before[name].ndim == 2 for name in changed)


def test_targets_that_match_nothing_are_refused() -> None:
    block = torch.nn.TransformerEncoderLayer(8, 2)
    with raises(ModelError, "'out_proj'", "linear1", "linear2"):
        linear_layers(block, ["linear1", "out_proj"])
    with raises(ModelError, "model", "layer"):
        linear_layers(torch.nn.LayerNorm(2))
