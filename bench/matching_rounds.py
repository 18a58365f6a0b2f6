"""What test-time matching does to the half-trained encoder on the demo: the tables of docs/test_time_matching.md.

tellapart train examples/training/test_time_matching.toml --seeds 3 --out runs/matching
python bench/matching_rounds.py runs/matching
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from record import run_bench

from tellapart.training.record import TrainRecord
from tellapart.training.train import over_seeds, read_seeds

_ROW = {"metric", "a", "b", "difference", "low", "high", "p_holm", "n"}


def gather_rounds(seeds: Path) -> dict[str, Any]:
    """Return the record of the folder that `tellapart train --seeds` wrote."""
    records = read_seeds(seeds)
    return {
        "seeds": [list_facts(record) for record in records],
        "over_seeds": [asdict(row) for row in over_seeds(records)],
        "machine": records[0].machine.model_dump(mode="json"),
        "versions": records[0].versions,
    }


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


if __name__ == "__main__":
    run_bench(gather_rounds, "matching_rounds")
