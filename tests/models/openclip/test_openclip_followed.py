"""The checkpoints of open_clip's training are followed as its training writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tellapart as ta
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="torch is not installed (the models extra)")

torch = import_torch()


def test_a_checkpoint_of_open_clips_training_gets_the_scores_of_its_weights(
    open_clip: Any, checkpoints: Callable[[str], Path], made_set: Callable[..., Path], tmp_path: Path
) -> None:
    weights = torch.load(checkpoints("tiny"), weights_only=True)
    folder = tmp_path / "logs" / "checkpoints"
    folder.mkdir(parents=True)
    (tmp_path / "logs" / "params.txt").write_text("lr: 0.1\nmodel: tiny\nforce_quick_gelu: False\n")
    content = {"epoch": 1, "name": "run", "state_dict": {f"module.{name}": value for name, value in weights.items()}}
    torch.save(content, folder / "epoch_1.pt")
    (folder / "epoch_2.pt").write_bytes((folder / "epoch_1.pt").read_bytes()[:-500])
    torch.save(content, folder / "epoch_3.pt")
    pairs, left_out = ta.load_pairs(made_set()), []
    run = ta.evaluate(
        benchmarks=pairs,
        follow=folder,
        every=0.01,
        until=2,
        cache=False,
        out=tmp_path / "run",
        left_out=left_out.append,
    )
    assert run.models == ["epoch_1", "epoch_3"]
    assert [line.partition(":")[0] for line in left_out] == [str(folder / "epoch_2.pt")]
    plain = ta.evaluate(f"open_clip:tiny-gelu@{checkpoints('tiny')}", pairs, cache=False)
    assert [one.scores for one in plain.items().samples] == [one.scores for one in run.items().samples]
