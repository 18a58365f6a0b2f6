"""What test-time matching does to the half-trained encoder on the demo: the section of docs/test_time_matching.md.

tellapart train examples/training/test_time_matching.toml --seeds 3 --out runs/matching
python bench/matching_rounds.py runs/matching
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from record import run_bench

from tellapart.report.numbers import points
from tellapart.training.record import TrainRecord
from tellapart.training.train import over_seeds, read_seeds

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # for `examples`
PAGE = ROOT / "docs" / "test_time_matching.md"
BEGIN, END = "<!-- made by bench/matching_rounds.py -->\n", "<!-- end -->"

_ROW = {"metric", "a", "b", "difference", "low", "high", "p_holm", "n"}


def write_section(seeds: Path) -> dict[str, Any]:
    """Write the page's section, of the folder that `tellapart train --seeds` wrote; return the record."""
    records = read_seeds(seeds)
    table = {
        "seeds": [list_facts(record) for record in records],
        "over_seeds": [asdict(r) for r in over_seeds(records)],
    }
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{section(table)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return table | {"machine": records[0].machine.model_dump(mode="json"), "versions": records[0].versions}


def list_facts(record: TrainRecord) -> dict[str, Any]:
    """Return what the record keeps of a seed."""
    why = record.why.rows
    return {
        "seed": record.config["seed"],
        "transductive": record.transductive,
        "rounds": [each.model_dump(exclude={"start"}) for each in record.rounds],
        "rows": [row.model_dump(include=_ROW) for row in record.comparison.rows],
        "moved": [row.model_dump(include={"what", "difference", "low", "high"}) for row in record.why.differences],
        "reasons": {row.model: {name: each.value for name, each in (row.reasons | row.shares).items()} for row in why},
    }


def section(table: Mapping[str, Any]) -> str:
    """Return the section's tables in markdown."""
    from examples.findings.frame import render_page

    def change(row: Mapping[str, Any]) -> str:
        return points(row["difference"], row["low"], row["high"])

    return render_page(ROOT / "docs" / "templates", "matching_rounds", {"record": table, "change": change})


if __name__ == "__main__":
    run_bench(write_section, "matching_rounds")
