"""Low-rank updates alone are trained and kept; the written model has them merged, and is an ordinary one."""

import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_fusion import blip
from training_sets import architecture, check_resumed, config, logged, squares

from facts import raises
from tellapart.data.folder import read_pair_set
from tellapart.errors import ModelError, TellapartWarning
from tellapart.metrics.pairs import group_score
from tellapart.models.find import find_model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.checkpoint import read_checkpoint
from tellapart.training import encoders
from tellapart.training.config import LoraConfig
from tellapart.training.encoders import (
    add_updates,
    count_updated,
    find_linear_layers,
    merge_updates,
    open_dual,
    prepare_start,
    save_merged,
)
from tellapart.training.training_run import run_training

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="LoRA needs the extra 'train'")


def clip(folder: Path) -> str:
    import tiny_models

    torch.manual_seed(0)
    return f"hf:{tiny_models.clip(folder)}"


def _weights(folder: Path) -> dict[str, Any]:
    return read_checkpoint(next(folder.glob("*.safetensors"))).saved


@pytest.mark.slow
def test_updates_alone_are_trained_kept_and_merged_in_what_is_written(tmp_path):
    settings = config(tmp_path, lora={"rank": 2, "alpha": 4.0}, data={"validation": "folder:train"})
    finished = run_training(settings, tmp_path, tmp_path / "run")
    kept = _weights(tmp_path / "run" / "best")
    learnt = {name for name in kept if ".lora_" in name}
    # Beside them the contrastive scale, and a mask that is no weight.
    assert {name.rpartition(".")[2] for name in kept.keys() - learnt} <= {"logit_scale", "attn_mask"}
    cut = re.compile(r"\.default|\.parametrizations|(?<=t)\.0(?=\.)")
    matrices = {cut.sub("", name): kept[name] for name in learnt}
    before, after = _weights(tmp_path / "run" / "start"), _weights(tmp_path / "run" / "model")
    assert before.keys() == after.keys()
    changed = set()
    for name, value in after.items():
        change = value - before[name]
        for stem in (name, name.removesuffix(".weight")):
            a, b = (f"model.{stem}.lora_{half}.weight" for half in "AB")
            if a in matrices:
                # Of an attention, too, the update is added once.
                assert torch.allclose(change, 2.0 * matrices[b] @ matrices[a], atol=1e-6), name
                assert float(change.abs().max()) > 0, name
                changed.add(name)
        if name not in {*changed, "logit_scale"}:
            assert float(change.abs().max()) == 0, name
    # Of one block in each tower: packed projections, the attention's last one, and the MLP.
    assert len(changed) == len(learnt) // 2 == 8
    block = "transformer.resblocks.0.attn"
    assert {f"visual.{block}.in_proj_weight", f"{block}.out_proj.weight"} <= changed
    layers = ("attn.in_proj", "attn.out_proj", "mlp.c_fc", "mlp.c_proj")
    for tower in ("model.transformer.resblocks.*", "model.visual.transformer.resblocks.*"):
        for text in (finished.record.updated, (tmp_path / "run" / "model" / "README.md").read_text()):
            assert all(f"{tower}.{layer} (1)" in text for layer in layers)
    assert [line.get("lora_layers") for line in logged(tmp_path / "run")][:2] == [8, None]
    # The model that was validated and the one that is written measure the same.
    pairs = read_pair_set(tmp_path / "train")
    again = score(find_model(finished.name), pairs, store=EmbeddingStore(None)).scores.values
    assert group_score(again).mean() == finished.state.best


def test_the_merged_model_computes_what_the_adapted_one_does_and_nothing_is_left_changed(tmp_path):
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


class Holder:
    """A module to be adapted, of no family."""

    log_scale = staticmethod(lambda: None)

    def __init__(self, module) -> None:
        self.module = module


SIZES = [({}, {"in_proj", "out_proj"}), ({"kdim": 6, "vdim": 4}, {"q_proj", "k_proj", "v_proj", "out_proj"})]


@pytest.mark.parametrize(("sizes", "layers"), SIZES)
def test_an_attention_is_updated_as_one_whose_weights_hold_the_updates(sizes, layers):
    make = partial(torch.nn.MultiheadAttention, 8, 2, **sizes)
    torch.manual_seed(1)
    attention = make().eval()
    inputs = [torch.randn(3, 2, width) for width in (8, attention.kdim, attention.vdim)]
    begun, bits = attention(*inputs)[0], {name: value.clone() for name, value in attention.state_dict().items()}
    add_updates(Holder(attention), LoraConfig(rank=2, alpha=6.0), 0)
    assert set(count_updated(attention)) == layers
    assert torch.equal(attention(*inputs)[0], begun)
    learnt = {name: value for name, value in attention.named_parameters() if value.requires_grad}
    assert len(learnt) == 2 * len(layers) and all(".lora_" in name for name in learnt)
    with torch.no_grad():
        for name, value in learnt.items():
            value.add_(torch.randn(value.shape) * (0.3 if ".lora_B." in name else 0))
    moved = attention(*inputs)[0]
    moved.sum().backward()
    assert all(value.grad is not None and bool(value.grad.any()) for value in learnt.values())
    plain = make().eval()
    with merge_updates(attention):
        plain.load_state_dict(attention.state_dict())
        assert torch.allclose(plain(*inputs)[0], moved, atol=1e-6)
        assert torch.allclose(attention(*inputs)[0], moved, atol=1e-6)
    b, a = (learnt[f"out_proj.parametrizations.weight.0.lora_{half}.weight"] for half in "BA")
    assert torch.allclose(plain.out_proj.weight - bits["out_proj.weight"], 3.0 * b @ a, atol=1e-6)
    assert torch.equal(attention(*inputs)[0], moved)
    state = {name: value for name, value in attention.state_dict().items() if "lora_" not in name}
    frozen = {re.sub(r"parametrizations\.|\.original$", "", name): value for name, value in state.items()}
    assert frozen.keys() == bits.keys() and all(torch.equal(value, bits[name]) for name, value in frozen.items())


class Unread(torch.nn.Module):
    """Calls one of three layers, and reads another one's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.read, self.left = (torch.nn.Linear(2, 2) for _ in range(3))

    def forward(self, x):
        return self.called(x) @ self.read.weight


def test_layers_that_no_gradient_reaches_are_found():
    add_updates(Holder(module := Unread()), LoraConfig(rank=1), 0)
    assert set(count_updated(module)) == {"called", "read", "left"}
    module(torch.ones(1, 2)).sum().backward()
    assert set(count_updated(module, idle=True)) == {"read", "left"}


def test_a_run_names_layers_that_no_gradient_reaches(tmp_path, monkeypatch):
    find = encoders.find_model

    def with_another(*arguments):
        dual = find(*arguments)
        dual.towers.module.left = torch.nn.Linear(2, 2)
        return dual

    monkeypatch.setattr(encoders, "find_model", with_another)
    with pytest.warns(TellapartWarning, match=r"model\.left"):
        run_training(config(tmp_path, lora={"rank": 2}, optimiser={"steps": 1}), tmp_path, tmp_path / "run")


def test_other_parametrisations_of_a_model_stay_as_they_are():
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with merge_updates(torch.nn.Sequential(layer)):
        assert layer.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_dropout_before_a_projection_inside_an_attention_and_targets_that_match_nothing_are_refused():
    with raises(ModelError, "lora.dropout", "self_attn.out_proj", "lora.targets"):
        add_updates(Holder(torch.nn.TransformerEncoderLayer(8, 2)), LoraConfig(rank=2, dropout=0.1), 0)
    only = LoraConfig(rank=2, dropout=0.1, targets=["linear1"])
    add_updates(Holder(block := torch.nn.TransformerEncoderLayer(8, 2)), only, 0)
    assert count_updated(block) == {"linear1": 1}
    block = torch.nn.TransformerEncoderLayer(8, 2)
    with raises(ModelError, "'q_proj'", "linear1", "linear2", "in_proj"):
        find_linear_layers(block, ["linear1", "q_proj"])
    with raises(ModelError, "model", "layer"):
        find_linear_layers(torch.nn.LayerNorm(2))


def test_a_tower_that_is_left_as_it_is_has_no_updates(tmp_path):
    adapted = open_dual(clip(tmp_path / "clip"), "cpu")
    prepare_start(config(tmp_path, lora={"rank": 2}, optimiser={"tower": "text"}), adapted, 1)
    assert count_updated(adapted.module) and not any("vis" in name for name in count_updated(adapted.module))
    only = config(tmp_path, lora={"rank": 2, "targets": ["visual_projection"]}, optimiser={"tower": "text"})
    with raises(ModelError, "lora.targets", "'visual_projection'", "text_projection"):
        prepare_start(only, open_dual(clip(tmp_path / "again"), "cpu"), 1)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "lora", "layers"),
    [
        (architecture, {"rank": 2, "targets": ["attn.in_proj", "out_proj"]}, {"in_proj_weight", "out_proj.weight"}),
        (clip, {"rank": 2, "dropout": 0.2, "targets": ["q_proj", "v_proj"]}, {"q_proj.weight", "v_proj.weight"}),
    ],
)
def test_a_run_with_updates_goes_on_to_the_same_bytes(make, lora, layers, tmp_path):
    settings = config(tmp_path, model=make(tmp_path / "start"), lora=lora, validation={"every": 1})
    check_resumed(settings, tmp_path)
    (file,) = (tmp_path / "whole" / "model").glob("*.safetensors")
    drawn = tmp_path / "whole" / "start"
    before, after = _weights(drawn if drawn.exists() else tmp_path / "start"), _weights(file.parent)
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])} - {"logit_scale"}
    assert all(any(name.endswith(f".{layer}") for layer in layers) for name in changed)
    assert len({layer for layer in layers if any(name.endswith(layer) for name in changed)}) == len(layers)


@pytest.mark.slow
def test_what_lies_between_the_start_and_the_updates_is_a_mean_of_merged_weights(tmp_path):
    name = f"folder:{squares(tmp_path / 'test', seed=5)}"
    settings = config(tmp_path, lora={"rank": 2}, report={"benchmarks": [name], "alphas": [0.0, 1.0]})
    record = run_training(settings, tmp_path, tmp_path / "run", allow_leak=True).record
    metrics = {"text_score", "image_score", "group_score", "match_score"}
    rows = [row for row in record.comparison.rows if row.metric in metrics]
    for alpha, side in ((0.0, "a"), (1.0, "b")):
        assert record.sweep.curve[alpha][0] == pytest.approx(float(np.mean([getattr(row, side) for row in rows])))


def test_a_fusion_encoder_is_adapted_too(tmp_path):
    settings = config(tmp_path, model=blip(tmp_path / "blip"), loss={"name": "eqsim-itm"}, lora={"rank": 2})
    run_training(settings, tmp_path, tmp_path / "run")
    assert logged(tmp_path / "run")[0]["gradient_norm"] > 0
    before, after = _weights(tmp_path / "blip"), _weights(tmp_path / "run" / "model")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "itm_head.weight" in changed and all(name.endswith(".weight") and before[name].ndim == 2 for name in changed)
