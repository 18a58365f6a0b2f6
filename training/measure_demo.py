"""Measure the exported model on the demo pairs, and write the numbers into its record and its card.

Run `python -m training.measure_demo --model FOLDER` once, when training is done and nothing is left to choose; and
again only if the demo pairs themselves change.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tellapart.benchmarks.demo import DEMO_FOLDER
from tellapart.data.folder import read_pair_set
from training.folder import demo_scores, write_card, write_record

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.measure_demo", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder that the training wrote")
    parser.add_argument("--pairs", type=Path, default=DEMO_FOLDER, help="2x2 pair set to measure on")
    options = parser.parse_args(arguments)
    record = json.loads((options.model / "training_record.json").read_text(encoding="utf-8"))
    pairs = read_pair_set(options.pairs, "demo")
    record["demo"] = {
        "note": "measured when training was done; no choice was made on it",
        "pairs": pairs.fingerprint(),
        **demo_scores(options.model, pairs),
    }
    write_card(options.model, record)
    write_record(options.model, record)
    print(json.dumps(record["demo"]["by"], indent=1))


if __name__ == "__main__":
    main()
