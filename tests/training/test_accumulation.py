"""A step in parts: each has its own matrix, and gradients are the parts' mean, however the run is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training_sets import config, far, logged, weights

from facts import raises
from tellapart.errors import DataError
from tellapart.models.torch.backend import import_torch
from tellapart.training.data.rows import BatchOrder, read_rows
from tellapart.training.encoders.load_start import draw_start
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.steps import DualStep
from tellapart.training.training_run import run_training

torch = import_torch()
EQSIM = {"name": "eqsim", "variant": "v2-all", "normalise": "none", "alpha": 0.0}


def gradients(steps: DualStep, numbers: list[int], part: int) -> tuple[dict[str, float], dict[str, Any]]:
    steps.module.zero_grad()
    drawn = steps.draw(numbers, part)
    found = steps.backward(drawn, [steps.trainable.image(steps.rows.pixels(n)) for n in drawn.rows], part)
    grads = {name: p.grad.clone() for name, p in steps.module.named_parameters() if p.grad is not None}
    return {name: float(value) for name, value in found.items()}, grads


@pytest.mark.slow
def test_the_gradient_is_the_mean_of_the_parts_gradients(tmp_path: Path) -> None:
    settings = config(
        tmp_path, loss=EQSIM, batch={"size": 12, "accumulate": 3}, optimiser={"steps": 1, "warm_up": 0},
    )  # fmt: skip
    run_training(settings, tmp_path, tmp_path / "run")
    _, trainable = draw_start(
        f"new:{tmp_path / 'arch'}", settings, tmp_path / "start", RankGroup(open_accelerator(settings.device))
    )
    trainable.module.train()
    rows = read_rows(["folder:train"], tmp_path)
    steps = DualStep(settings, trainable, rows, open_accelerator(settings.device), trainable.module)
    order = BatchOrder(rows, 12, 0)
    parts = [order.batch(part, parts=3) for part in range(3)]
    assert [len(part) for part in parts] == [4, 4, 4] and [*parts[0], *parts[1], *parts[2]] == order.batch(0)
    found = [gradients(steps, part, number) for number, part in enumerate(parts)]
    line = logged(tmp_path / "run")[0]
    for name in found[0][0]:
        assert line[name] == pytest.approx(sum(losses[name] for losses, _ in found) / 3, rel=1e-6)
    mean = {name: sum(grads[name] for _, grads in found) / 3 for name in found[0][1]}
    assert line["gradient_norm"] == pytest.approx(
        float(torch.stack([g.norm() for g in mean.values()]).norm()), rel=1e-5
    )
    # One matrix of all twelve is another loss.
    whole, _ = gradients(steps, order.batch(0), 0)
    assert whole["itc"] > line["itc"] + 0.3


@pytest.mark.slow
def test_a_part_may_be_cut_into_pieces_which_change_no_number(tmp_path: Path) -> None:
    kept = [{"size": 12, "accumulate": 3, **micro} for micro in ({}, {"micro": 3})]
    for name, batch in zip(("whole", "cut"), kept, strict=True):
        run_training(config(tmp_path, loss=EQSIM, batch=batch, optimiser={"steps": 2}), tmp_path, tmp_path / name)
    assert far(weights(tmp_path / "whole"), weights(tmp_path / "cut")) < 2e-5


def test_parts_must_be_equal_and_hold_two_pairs(tmp_path: Path) -> None:
    for size, count in ((8, 3), (8, 8)):
        with raises(ValueError, f"accumulate = {count}", "8"):
            config(tmp_path, batch={"size": size, "accumulate": count})
    with raises(DataError, "2", "1", "batch.size", "batch.accumulate"):
        from tellapart.training.steps import matching_settings

        fusion = config(tmp_path, loss={"name": "itm"}, matching={"negatives": 2}, batch={"size": 8, "accumulate": 4})
        matching_settings(fusion, read_rows(["folder:train"], tmp_path))
