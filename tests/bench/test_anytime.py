"""The record of tests that hold at every look: it is what the code gives, what draws give, and what docs quote."""

import json
import math
from pathlib import Path

import anytime as bench
import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.stats.paired import evidence

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "bench" / "records" / "anytime.json").read_text(encoding="utf-8"))
LOOKS = RECORD["looks"]


def first_stops(seed: int, won: float, runs: int) -> NDArray[np.float64]:
    """Draw runs, and return the first look with enough evidence, infinite if none has it, `(run,)`."""
    rng = np.random.default_rng(seed)
    differs = rng.random((runs, LOOKS)) < RECORD["discordant"]
    wins = rng.random((runs, LOOKS)) < won
    enough = evidence((differs & wins).cumsum(axis=1), (differs & ~wins).cumsum(axis=1)) >= math.log(20)
    return np.where(enough.any(axis=1), enough.argmax(axis=1) + 1.0, np.inf)


def test_draws_agree_with_the_probabilities_that_were_counted_out():
    equal = first_stops(0, 0.5, 4000)
    assert np.isfinite(equal).mean() == pytest.approx(RECORD["false alarms"], abs=0.006)
    better = first_stops(1, RECORD["won"], 2000)
    assert np.isfinite(better).mean() == pytest.approx(RECORD["power"], abs=0.015)
    assert np.median(better) == pytest.approx(RECORD["median stop"], abs=10)
    stopped = better[np.isfinite(better)]
    assert np.median(stopped) == pytest.approx(RECORD["median stop, of those that stop"], abs=10)


def test_the_record_is_what_the_code_gives():
    alarms = bench.stop_probabilities(bench.anytime_rejects, LOOKS, RECORD["discordant"], 0.5).sum()
    assert round(float(alarms), 4) == RECORD["false alarms"] <= 0.05 < RECORD["false alarms, fixed p at every look"]
    assert np.median(bench.width_ratios(10)) == pytest.approx(RECORD["median width over the fixed interval"], abs=0.1)


def test_the_document_quotes_the_record():
    text = " ".join((ROOT / "docs" / "compare.md").read_text(encoding="utf-8").split())
    part = text.partition("## Looking while the runs grow")[2].partition(" ## ")[0]
    alarms, fixed, power = (
        100 * RECORD[name] for name in ("false alarms", "false alarms, fixed p at every look", "power")
    )
    assert f"{LOOKS} looks raise a false alarm in {alarms:.1f} % of runs; a fixed p does in {fixed:.0f} %" in part
    assert f"about {RECORD['median width over the fixed interval']:.1f} times as wide at {LOOKS} items" in part
    assert f"in {power:.0f} % of runs of {LOOKS} items, half of all by item {RECORD['median stop']}" in part
