"""Forged, shortened and mislabelled files: `make gates` tries them, and each is refused or read without its number."""

from __future__ import annotations

from pathlib import Path

import pytest

for _library in ("torch", "av", "h5py", "pyarrow", "safetensors", "fastapi", "huggingface_hub", "matplotlib"):
    pytest.importorskip(_library)

from attacks import try_attack  # noqa: E402
from false_inputs import FALSE_INPUTS, describe_outcome, split_name  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "false_inputs.md"


def test_the_table_of_the_documents_has_each_input_with_what_comes_of_it() -> None:
    """Each outcome is the one that the test below asks for: so the table is what trying them gives."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- table: false-inputs -->")[2].partition("<!-- end -->")[0]
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in table.strip().splitlines()[2:]]
    assert rows == [(*split_name(name), describe_outcome(name, attack_outcome(name))) for name in FALSE_INPUTS]


def attack_outcome(name: str) -> str:
    return "refused" if FALSE_INPUTS[name].facts else "read"


#: Doors that tests/evaluation/test_verified.py tries, too.
SLOW = {f"record with a forged number: {door}" for door in ("board", "push", "compare")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FALSE_INPUTS]
)
def test_a_false_input_is_refused_or_read_without_its_number(name: str, tmp_path: Path) -> None:
    outcome, said = try_attack(FALSE_INPUTS[name], tmp_path)
    assert outcome == attack_outcome(name), said
