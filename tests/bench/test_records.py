"""Records of simulations: they hold their goals, are what the code gives, and are what the documents quote."""

from __future__ import annotations

import json
import math
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from bench.matching_rounds import BEGIN, END, PAGE, RECORD, section
from numpy.typing import NDArray

from tellapart.diagnosis.psychometric import ThresholdSearch
from tellapart.stats.paired import evidence

ROOT = Path(__file__).parents[2]
ADAPTIVE = json.loads((ROOT / "bench" / "records" / "adaptive.json").read_text(encoding="utf-8"))["rows"]


def test_the_document_quotes_chosen_items() -> None:
    text = " ".join((ROOT / "docs" / "curve.md").read_text(encoding="utf-8").split())
    for row in ADAPTIVE:
        if row["items"] == 150 and row["slope"] <= 100:
            assert f"{row['fixed']:,} ({row['ratio']:.1f} times) at {row['slope']:g}" in text
        if row["items"] == 60 and row["slope"] <= 40:
            assert row["ratio"] == 1
    covered = [100 * row["covered"] for row in ADAPTIVE]
    assert f"in {min(covered):.1f} to {max(covered):.1f}% of cases" in text


def test_chosen_levels_give_a_smaller_width_than_as_many_of_every_level() -> None:
    values, rng = np.linspace(0, 1, 32), np.random.default_rng(0)
    widths = {}
    for design in ("chosen", "fixed"):
        search = ThresholdSearch(values, guess=0.5)
        for k in range(100):
            level = search.choose(np.ones(32, np.bool_)) if design == "chosen" else 11 * k % 32
            search.add(level, float(values[level] > 0.6 or rng.random() < 0.5))
        interval = search.fitted().interval
        assert interval.low is not None and interval.high is not None
        widths[design] = interval.high - interval.low
    assert widths["chosen"] < widths["fixed"]


ANYTIME = json.loads((ROOT / "bench" / "records" / "anytime.json").read_text(encoding="utf-8"))
LOOKS = ANYTIME["looks"]


def first_stops(seed: int, won: float, runs: int) -> NDArray[np.float64]:
    """Draw runs, and return the first look with enough evidence, infinite if none has it, `(run,)`."""
    rng = np.random.default_rng(seed)
    differs = rng.random((runs, LOOKS)) < ANYTIME["discordant"]
    wins = rng.random((runs, LOOKS)) < won
    enough = evidence((differs & wins).cumsum(axis=1), (differs & ~wins).cumsum(axis=1)) >= math.log(20)
    return np.where(enough.any(axis=1), enough.argmax(axis=1) + 1.0, np.inf)


def test_draws_agree_with_the_probabilities_that_were_counted_out() -> None:
    equal = first_stops(0, 0.5, 4000)
    assert np.isfinite(equal).mean() == pytest.approx(ANYTIME["false alarms"], abs=0.006)
    better = first_stops(1, ANYTIME["won"], 2000)
    assert np.isfinite(better).mean() == pytest.approx(ANYTIME["power"], abs=0.015)
    assert np.median(better) == pytest.approx(ANYTIME["median stop"], abs=10)
    stopped = better[np.isfinite(better)]
    assert np.median(stopped) == pytest.approx(ANYTIME["median stop, of those that stop"], abs=10)


def test_the_record_of_looks_is_what_the_code_gives() -> None:
    bench = run_path(str(ROOT / "bench" / "anytime.py"))
    alarms = bench["stop_probabilities"](bench["anytime_rejects"], LOOKS, ANYTIME["discordant"], 0.5).sum()
    assert round(float(alarms), 4) == ANYTIME["false alarms"] <= 0.05 < ANYTIME["false alarms, fixed p at every look"]
    assert np.median(bench["width_ratios"](10)) == pytest.approx(
        ANYTIME["median width over the fixed interval"], abs=0.1
    )


def test_the_document_quotes_looks() -> None:
    text = " ".join((ROOT / "docs" / "compare.md").read_text(encoding="utf-8").split())
    part = text.partition("## Looking while the runs grow")[2].partition(" ## ")[0]
    alarms, fixed, power = (
        100 * ANYTIME[name] for name in ("false alarms", "false alarms, fixed p at every look", "power")
    )
    assert f"{LOOKS} looks raise a false alarm in {alarms:.1f} % of runs; a fixed p does in {fixed:.0f} %" in part
    assert f"about {ANYTIME['median width over the fixed interval']:.1f} times as wide at {LOOKS} items" in part
    assert f"in {power:.0f} % of runs of {LOOKS} items, half of all by item {ANYTIME['median stop']}" in part


PSYCHOMETRIC = json.loads((ROOT / "bench" / "records" / "psychometric.json").read_text(encoding="utf-8"))
CELLS, SUMMARY = PSYCHOMETRIC["cells"], PSYCHOMETRIC["summary"]


def test_psychometric_intervals_cover_and_tests_keep_their_level() -> None:
    assert len(CELLS) == 24 and {cell["setting"]["values"] for cell in CELLS} >= {3, 5, 10, 60, 400}
    assert min(min(cell["threshold"], cell["difference"]) for cell in CELLS) >= 0.92
    assert max(cell["alarms"] for cell in CELLS if "alarms" in cell) <= 0.05
    assert max(cell["fit"] for cell in CELLS) <= 0.065


def test_the_document_quotes_psychometric_functions() -> None:
    text = " ".join((ROOT / "docs" / "curve.md").read_text(encoding="utf-8").split())
    low, high, least, most = (
        100 * SUMMARY[f"{name}, {end}"] for name in ("threshold", "difference") for end in ("min", "max")
    )
    assert f"hold the truth in {low:.1f} to {high:.1f}% of cases" in text
    assert f"those of differences in {least:.1f} to {most:.1f}%" in text
    assert f"in at most {100 * SUMMARY['alarms, max']:.1f}% of cases" in text
    assert f"a fit p of 5% at most in up to {100 * SUMMARY['fit, max']:.1f}%" in text


ITEMS = json.loads((ROOT / "bench" / "records" / "items.json").read_text(encoding="utf-8"))
SETTINGS = {name: each for name, each in ITEMS.items() if name.endswith("systems") and "families" in name}


def test_item_intervals_cover_and_suspects_keep_their_level() -> None:
    assert len(SETTINGS) == 4
    for found in SETTINGS.values():
        assert found["coverage of discrimination"] >= 0.92 and found["coverage of alpha"] >= 0.92
        assert found["items that do not discriminate with p <= 5%"] <= 0.065
        assert found["data sets with a suspect by Holm"] <= 0.05
        assert found["data sets with a group of items"] <= 0.08
    assert ITEMS["Rasch, 55 systems"]["coverage of difficulty"] >= 0.92


def test_a_label_turned_round_is_found_if_there_are_systems_enough() -> None:
    reversed_found = "the best item with its label turned round is a suspect"
    assert SETTINGS["55 families of 1 to 1 systems"][reversed_found] >= 0.95
    assert (
        SETTINGS["15 families of 1 to 6 systems"][reversed_found]
        < SETTINGS["30 families of 1 to 3 systems"][reversed_found]
    )


def test_the_document_quotes_items() -> None:
    text = " ".join((ROOT / "docs" / "items.md").read_text(encoding="utf-8").split())
    turned = "the best item with its label turned round is a suspect"
    by_share = "the same, by the smaller of an item's shares of right and wrong"
    least = min(min(found[by_share].values()) for found in SETTINGS.values())
    assert f"hold the truth in {percent_range('coverage of discrimination')} of cases" in text
    assert f"those of reliability in {percent_range('coverage of alpha')}." in text
    assert f"it is {100 * least:.1f}% at the least" in text
    assert f"{percent_range('intervals that could be given')} of the items get an interval" in text
    assert f"in {percent_range('items that do not discriminate with p <= 5%')} of cases" in text
    assert f"by Holm in {percent_range('data sets with a suspect by Holm')}." in text
    shares = [100 * SETTINGS[f"{name} systems"][turned] for name in ("20 families of 1 to 1", "15 families of 1 to 6")]
    assert f"in 20 systems in {shares[0]:.1f}% of cases, and in 15 families in {shares[1]:.1f}%" in text


def percent_range(name: str) -> str:
    values = [100 * found[name] for found in SETTINGS.values()]
    return f"{min(values):.1f} to {max(values):.1f}%"


TABLE = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_section_is_that_of_the_record() -> None:
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0] == f"\n{section(TABLE)}\n"


def test_items_are_marked_counted_and_moved_as_the_page_concludes() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for seed in TABLE["seeds"]:
        assert seed["transductive"] == "demo"
        assert all(0 < each["right"] <= each["matched"] <= each["items"] == 400 for each in seed["rounds"])
        group, match = ({row["metric"]: row for row in seed["rows"]}[name] for name in ("group_score", "match_score"))
        assert f"matches {100 * match['a']:.2f} % of the demo's items and gets {100 * group['a']:.2f} %" in text
        assert group["low"] > 0 and match["low"] < 0 < match["high"]  # the gain is shown, and none of the match
        assert abs(group["b"] - group["a"] - group["difference"]) < 1e-9
        assert seed["rounds"][-1]["right"] < seed["rounds"][-1]["matched"]
