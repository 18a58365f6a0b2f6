"""Forged, shortened and mislabelled files: `make gates` tries them, and each is refused or read without its number."""

from __future__ import annotations

from pathlib import Path

import pytest

for _library in ("torch", "av", "h5py", "pyarrow", "safetensors", "fastapi", "huggingface_hub", "matplotlib"):
    pytest.importorskip(_library)

from attacks import try_attack  # noqa: E402
from false_inputs import FALSE_INPUTS  # noqa: E402

#: Tried by tests/evaluation/test_verified.py.
ELSEWHERE = {f"record with a forged number: {door}" for door in ("board", "push", "compare")}


@pytest.mark.parametrize("name", [name for name in FALSE_INPUTS if name not in ELSEWHERE])
def test_a_false_input_is_refused_or_read_without_its_number(name: str, tmp_path: Path) -> None:
    outcome, said = try_attack(FALSE_INPUTS[name], tmp_path)
    assert outcome == ("refused" if FALSE_INPUTS[name].facts else "read"), said
