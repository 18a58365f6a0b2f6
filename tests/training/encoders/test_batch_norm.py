"""Batch normalisation: no number depends on the pieces or the ranks that a batch is cut into."""

from pathlib import Path
from typing import Any

import pytest
import torch
from training_sets import RESNET, architecture, config, far, logged, made_steps, moved, weights

from facts import raises
from tellapart.errors import DataError, ModelError
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training.encoders import add_dropout, digest_new_model, settle_norms
from tellapart.training.steps import DualStep
from tellapart.training.training_run import run_training


def run(folder: Path, name: str, **changes) -> tuple[dict[str, float], dict[str, Any]]:
    """Train a small ResNet; return the first line of its log, and the trained tensors."""
    values = {"model": architecture(folder / "resnet", **RESNET), "optimiser": {"steps": 2}} | changes
    run_training(config(folder, **values), folder, folder / name)
    return logged(folder / name)[0], weights(folder / name)


def statistics(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tensors.items() if "running_" in name}


def test_a_batch_in_pieces_is_refused_unless_statistics_are_frozen(tmp_path):
    with raises(DataError, "batch.micro = 2", "batch_norm", "model.visual.bn1"):
        run(tmp_path, "cut", batch={"micro": 2})
    run(tmp_path, "whole", precision="bfloat16")
    start = f"local-dir:{tmp_path / 'whole' / 'start'}"
    with raises(DataError, "batch.micro = 8", "batch_norm"):
        run(tmp_path, "again", model=start, batch={"micro": 8})
    # What was refused has left the folder to the mended configuration.
    cut, after = run(tmp_path, "again", model=start, batch={"micro": 2}, batch_norm="frozen")
    whole, weighed = run(tmp_path, "frozen", model=start, batch_norm="frozen")
    assert cut["total"] == pytest.approx(whole["total"], rel=1e-5)
    assert far(after, weighed) < 2e-5
    begun = read_state_dict(next((tmp_path / "whole" / "start").glob("*.safetensors")))
    before = statistics(begun)
    assert before and far(statistics(after), before) == far(statistics(weighed), before) == 0
    assert far(after, begun) > 1e-4
    # One batch a step, also where a step in float32 is compared with it.
    assert {int(value) for name, value in weights(tmp_path / "whole").items() if "num_batches" in name} == {2}


@pytest.mark.slow
def test_low_rank_updates_leave_statistics_as_they_are(tmp_path):
    pytest.importorskip("peft")
    run(tmp_path, "run", lora={"rank": 2}, batch={"micro": 2})
    changed = moved(tmp_path / "run")
    assert changed and not any(".bn" in name for name in changed)


@pytest.mark.parametrize(
    ("layer", "settings", "facts"),
    [
        (torch.nn.BatchNorm1d(2, track_running_stats=False), {"batch_norm": "frozen"}, ("batch_norm", "0")),
        (torch.nn.BatchNorm1d(2, track_running_stats=False), {"batch": {"micro": 2}}, ("batch.micro", "0")),
        (torch.nn.SyncBatchNorm(2), {"batch": {"micro": 2}}, ("batch.micro", "0")),
        (torch.nn.InstanceNorm1d(2, track_running_stats=True), {"batch": {"micro": 2}}, ("batch.micro", "0")),
        (torch.nn.InstanceNorm1d(2), {"batch_norm": "frozen"}, ("batch_norm",)),
        (torch.nn.LayerNorm(2), {"batch_norm": "frozen"}, ("batch_norm",)),
    ],
)
def test_what_reads_statistics_of_a_batch_is_found(layer, settings, facts, tmp_path):
    module = torch.nn.Sequential(layer)
    with raises(DataError, *facts):
        settle_norms(module, config(tmp_path, **settings), 1)
    settle_norms(torch.nn.Sequential(torch.nn.LayerNorm(2), torch.nn.InstanceNorm1d(2)), config(tmp_path), 2)
    settle_norms(torch.nn.Sequential(torch.nn.BatchNorm1d(2)), config(tmp_path), 1)
    with raises(DataError, "2 ranks", "batch_norm"):
        settle_norms(torch.nn.Sequential(torch.nn.BatchNorm1d(2)), config(tmp_path), 2)


class Watched(DualStep):
    """Keeps the vectors of each pass."""

    def _encode_piece(self, *arguments) -> dict[str, torch.Tensor]:
        self.passes.append(encoded := super()._encode_piece(*arguments))
        return encoded


def test_both_passes_of_a_gradient_cache_lose_the_same_outputs(tmp_path, monkeypatch):
    settings = config(tmp_path, batch={"micro": 3}, dropout={"model.transformer": 0.3, "model.visual": 0.3})
    steps = made_steps(settings, tmp_path, kind=Watched)
    trainable, steps.passes = steps.trainable, []
    add_dropout(trainable.module.train(), settings.dropout)
    drawn = steps.draw(list(range(8)), 0)

    def gradients() -> dict[str, torch.Tensor]:
        trainable.module.zero_grad()
        steps.backward(drawn, [trainable.image(steps.rows.pixels(n)) for n in drawn.rows], 0)
        return {name: tensor.grad for name, tensor in trainable.module.named_parameters() if tensor.grad is not None}

    with torch.utils.checkpoint.set_checkpoint_early_stop(False):  # else a second pass ends before it returns
        gradients()
    first, second = steps.passes[:3], steps.passes[:2:-1]
    assert len(second) == 3
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(one[side], other[side]) for side in ("images", "texts"))
    assert any((one["images"] == 0).any() for one in first)
    cached = gradients()  # as in training
    monkeypatch.setattr("tellapart.training.steps.recompute", lambda encode, *piece, **_: encode(*piece))
    assert far(cached, gradients()) < 1e-5 * max(float(tensor.abs().max()) for tensor in cached.values())


def test_a_folder_of_an_architecture_that_is_not_there_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "arch").mkdir()
    with raises(ModelError, "new:", "is not there", "did you mean 'arch'"):
        digest_new_model(tmp_path / "arhc")


def test_a_dropout_that_would_change_nothing_is_refused_and_an_attention_keeps_its_weights():
    attention = torch.nn.MultiheadAttention(8, 2)
    part, states = torch.nn.ModuleDict({"attn": attention, "layers": torch.nn.ModuleList()}), torch.ones(3, 1, 8)
    for pattern in ("*out_proj", "layers"):  # its weights are read, and a list is never called
        with raises(DataError, f"'{pattern}'", "attn.out_proj" if "proj" in pattern else pattern):
            add_dropout(part, {pattern: 0.5})
    add_dropout(part, {"attn": 1.0})
    output, attended = attention(states, states, states)
    assert not output.any() and attended.sum().item() == pytest.approx(3)
