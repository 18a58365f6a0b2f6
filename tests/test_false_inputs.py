"""Forged, shortened and mislabelled files: `make gates` tries them, and each is refused or read without its number."""

from __future__ import annotations

from pathlib import Path

import pytest

for _library in ("torch", "h5py", "pyarrow", "safetensors", "fastapi", "matplotlib"):
    pytest.importorskip(_library)

from attacks import try_attack  # noqa: E402
from false_inputs import FALSE_INPUTS  # noqa: E402


@pytest.mark.parametrize("name", FALSE_INPUTS)
def test_a_false_input_is_refused_or_read_without_its_number(name: str, tmp_path: Path) -> None:
    attack = FALSE_INPUTS[name]
    assert try_attack(attack, tmp_path)[0] == ("refused" if attack.facts else "read")
