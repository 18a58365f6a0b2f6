"""The checkpoints of open_clip's training are followed as its training writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_openclip import ARCHITECTURES

import tellapart as ta
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="torch is not installed (the models extra)")

torch = import_torch()


def test_a_checkpoint_of_open_clips_training_gets_the_scores_of_its_weights(
    open_clip: Any, checkpoints: Any, made_set: Any, tmp_path: Path
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


@pytest.mark.slow
def test_twenty_kills_while_weights_are_loaded_lose_none_and_measure_none_twice(
    checkpoints: Any, made_set: Any, tmp_path: Path
) -> None:
    architectures = tmp_path / "architectures"
    architectures.mkdir()
    (architectures / "tiny.json").write_text(json.dumps(ARCHITECTURES["tiny"]))
    script = Path(__file__).with_name("killed_in_load.py")
    given = (architectures, checkpoints("tiny"), f"folder:{made_set(n=4)}", tmp_path / "followed")
    done = subprocess.run([sys.executable, script, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads((tmp_path / "followed" / "told.json").read_text())
    parts = " ".join(told).split("killed")
    in_load = sum(part.split()[-2:-1] == ["load"] for part in parts[:-1])
    assert len(parts) == 21 and in_load >= 5, told  # killed between the start and the end of reading a file
    names = [line.removeprefix("measured ") for line in told if line.startswith("measured ")]
    runs = [tmp_path / "followed" / "run", *(tmp_path / "followed" / "run" / "beside").iterdir()]
    results = {json.loads((run / "results.json").read_bytes())["model"]["name"]: run for run in runs}
    assert results.keys() == {f"epoch_{step}" for step in range(1, 41)}
    assert len(names) == len(set(names)) and set(names) <= results.keys()
    for name in results:  # once it was measured it is not read again
        if f"measured {name}" in told:
            assert f"load {name}" not in told[told.index(f"measured {name}") :]
    assert [row["step"] for row in ta.open_run(runs[0]).to_json()["checkpoints"]] == list(range(1, 41))
