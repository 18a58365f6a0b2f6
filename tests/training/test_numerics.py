"""bfloat16 and a compiled model say how far they move the first step; plain float32 says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training_sets import config, far, logged, weights

from facts import raises
from tellapart.errors import DataError
from tellapart.training.training_run import run_training

pytestmark = pytest.mark.slow


def run(folder: Path, name: str, **changes: Any) -> list[dict[str, float]]:
    run_training(config(folder, **changes), folder, folder / name)
    return logged(folder / name)


def test_what_bfloat16_moves_is_measured_and_logged_once(tmp_path: Path) -> None:
    plain, half = (run(tmp_path, one, precision=one, optimiser={"steps": 2}) for one in ("float32", "bfloat16"))
    assert not any("moved_loss" in line for line in [*plain, half[1]])
    assert 1e-5 < half[0]["moved_gradient"] < 0.1
    assert half[0]["moved_loss"] == pytest.approx(abs(half[0]["total"] / plain[0]["total"] - 1), rel=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, while it reads the code
def test_a_compiled_model_takes_the_same_step(tmp_path: Path) -> None:
    one = {"optimiser": {"steps": 1}}
    run(tmp_path, "plain", **one)
    (line,) = run(tmp_path, "compiled", compile="aot_eager", **one)
    assert line["moved_gradient"] < 1e-4 > line["moved_loss"]
    assert far(weights(tmp_path / "plain"), weights(tmp_path / "compiled")) < 2e-5
    with raises(DataError, "compile", "'aot_eager'"):
        run(tmp_path, "no", model="hf:none", loss={"name": "itm"}, compile="aot_eager")
