"""The largest difference of each family to its authors' code: on their own state dicts, random and of tiny width.

    python bench/native_golden.py

The files are `../shared/data/native/NAME_tiny.safetensors`, and `CASES` in `tests/native/golden.py` says which
output a reading must equal. `bench/records/native_golden.json` keeps the differences; docs/models.md quotes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "bench" / "records" / "native_golden.json"


def main() -> None:
    """Compare every file in every reading, print and record."""
    sys.path.append(str(ROOT / "tests" / "native"))
    from golden import CASES, difference

    record = {name: {reading: difference(name, reading) for reading in case.scores} for name, case in CASES.items()}
    for name, found in record.items():
        print(name, *(f"{reading} {number:.1e}" for reading, number in found.items()))
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
