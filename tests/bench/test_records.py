"""Records of simulations hold what their pages conclude, are what the code gives, and are what the documents quote."""

import json
import math
from pathlib import Path
from typing import Any

import anytime as bench
import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.diagnosis.psychometric import ThresholdSearch
from tellapart.stats.paired import evidence

ROOT = Path(__file__).parents[2]


def read_record(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "bench" / "records" / f"{name}.json").read_text(encoding="utf-8"))


def read_page(name: str) -> str:
    return " ".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split())


ITEMS, CURVES, LOOKS = read_record("items"), read_record("psychometric"), read_record("anytime")
SYSTEMS = {name: each for name, each in ITEMS.items() if name.endswith("systems") and "families" in name}
TURNED = "the best item with its label turned round is a suspect"


def test_intervals_of_items_cover_and_suspects_are_found_at_their_level():
    assert len(SYSTEMS) == 4
    for found in SYSTEMS.values():
        assert found["coverage of discrimination"] >= 0.92 and found["coverage of alpha"] >= 0.92
        assert found["items that do not discriminate with p <= 5%"] <= 0.065
        assert found["data sets with a suspect by Holm"] <= 0.05
        assert found["data sets with a group of items"] <= 0.08
    assert ITEMS["Rasch, 55 systems"]["coverage of difficulty"] >= 0.92
    many, some, few = (
        SYSTEMS[f"{families} systems"][TURNED]
        for families in ("55 families of 1 to 1", "30 families of 1 to 3", "15 families of 1 to 6")
    )
    assert many >= 0.95 and few < some


def test_the_page_on_items_quotes_the_record():
    def span(name: str) -> str:
        values = [100 * found[name] for found in SYSTEMS.values()]
        return f"{min(values):.1f} to {max(values):.1f}%"

    text = read_page("items")
    by_share = "the same, by the smaller of an item's shares of right and wrong"
    least = min(min(found[by_share].values()) for found in SYSTEMS.values())
    assert f"hold the truth in {span('coverage of discrimination')} of cases" in text
    assert f"those of reliability in {span('coverage of alpha')}." in text
    assert f"it is {100 * least:.1f}% at the least" in text
    assert f"{span('intervals that could be given')} of the items get an interval" in text
    assert f"in {span('items that do not discriminate with p <= 5%')} of cases" in text
    assert f"by Holm in {span('data sets with a suspect by Holm')}." in text
    shares = [100 * SYSTEMS[f"{name} systems"][TURNED] for name in ("20 families of 1 to 1", "15 families of 1 to 6")]
    assert f"in 20 systems in {shares[0]:.1f}% of cases, and in 15 families in {shares[1]:.1f}%" in text


def test_intervals_of_thresholds_cover_and_their_tests_keep_their_level():
    cells, faint = CURVES["cells"][:-3], CURVES["cells"][-3:]
    assert {tuple(cell["setting"]["thresholds"]) for cell in faint} == {(1.1, 1.1)}  # models near guessing
    assert min(cell["threshold"] for cell in faint) >= 0.84 and max(cell["alarms"] for cell in faint) <= 0.05
    assert len(cells) == 24 and {cell["setting"]["values"] for cell in cells} >= {3, 5, 10, 60, 400}
    assert min(min(cell["threshold"], cell["difference"]) for cell in cells) >= 0.92
    assert max(cell["alarms"] for cell in cells if "alarms" in cell) <= 0.05
    assert max(cell["fit"] for cell in cells) <= 0.065


def test_the_page_on_curves_quotes_both_records():
    text, summary, rows = read_page("curve"), CURVES["summary"], read_record("adaptive")["rows"]
    low, high, least, most = (
        100 * summary[f"{name}, {end}"] for name in ("threshold", "difference") for end in ("min", "max")
    )
    assert f"hold the truth in {low:.1f} to {high:.1f}% of cases" in text
    assert f"those of differences in {least:.1f} to {most:.1f}%" in text
    assert f"in at most {100 * summary['alarms, max']:.1f}% of cases" in text
    assert f"a fit p of 5% at most in up to {100 * summary['fit, max']:.1f}%" in text
    few, clustered, many = (f"{100 * cell['threshold']:.1f}%" for cell in CURVES["cells"][-3:])
    assert f"{few} of the intervals of 60 items" in text and f"{clustered} of 100 items in clusters of five" in text
    assert f"{many} of 400 items" in text
    for row in rows:
        if row["items"] == 150 and row["slope"] <= 100:
            assert f"{row['fixed']:,} ({row['ratio']:.1f} times) at {row['slope']:g}" in text
        if row["items"] == 60 and row["slope"] <= 40:
            assert row["ratio"] == 1
    covered = [100 * row["covered"] for row in rows]
    assert f"in {min(covered):.1f} to {max(covered):.1f}% of cases" in text


def test_chosen_levels_give_a_smaller_width_than_as_many_of_every_level():
    values, rng = np.linspace(0, 1, 32), np.random.default_rng(0)
    widths = {}
    for design in ("chosen", "fixed"):
        search = ThresholdSearch(values, guess=0.5)
        for k in range(100):
            level = search.choose(np.ones(32, np.bool_)) if design == "chosen" else 11 * k % 32
            search.add(level, float(values[level] > 0.6 or rng.random() < 0.5))
        interval = search.fitted().interval
        widths[design] = interval.high - interval.low
    assert widths["chosen"] < widths["fixed"]


def first_stops(seed: int, won: float, runs: int) -> NDArray[np.float64]:
    """Draw runs, and return the first look with enough evidence, infinite if none has it, `(run,)`."""
    rng = np.random.default_rng(seed)
    differs = rng.random((runs, LOOKS["looks"])) < LOOKS["discordant"]
    wins = rng.random(differs.shape) < won
    enough = evidence((differs & wins).cumsum(axis=1), (differs & ~wins).cumsum(axis=1)) >= math.log(20)
    return np.where(enough.any(axis=1), enough.argmax(axis=1) + 1.0, np.inf)


def test_the_record_of_looks_is_what_the_code_and_draws_give():
    alarms = bench.stop_probabilities(bench.anytime_rejects, LOOKS["looks"], LOOKS["discordant"], 0.5).sum()
    assert round(float(alarms), 4) == LOOKS["false alarms"] <= 0.05 < LOOKS["false alarms, fixed p at every look"]
    assert np.median(bench.width_ratios(10)) == pytest.approx(LOOKS["median width over the fixed interval"], abs=0.1)
    equal = first_stops(0, 0.5, 4000)
    assert np.isfinite(equal).mean() == pytest.approx(LOOKS["false alarms"], abs=0.006)
    better = first_stops(1, LOOKS["won"], 2000)
    assert np.isfinite(better).mean() == pytest.approx(LOOKS["power"], abs=0.015)
    assert np.median(better) == pytest.approx(LOOKS["median stop"], abs=10)
    stopped = better[np.isfinite(better)]
    assert np.median(stopped) == pytest.approx(LOOKS["median stop, of those that stop"], abs=10)


def test_the_page_on_comparisons_quotes_the_record_of_looks():
    part = read_page("compare").partition("## Looking while the runs grow")[2].partition(" ## ")[0]
    looks, width = LOOKS["looks"], LOOKS["median width over the fixed interval"]
    alarms, fixed, power = (
        100 * LOOKS[name] for name in ("false alarms", "false alarms, fixed p at every look", "power")
    )
    assert f"{looks} looks raise a false alarm in {alarms:.1f} % of runs; a fixed p does in {fixed:.0f} %" in part
    assert f"about {width:.1f} times as wide at {looks} items" in part
    assert f"in {power:.0f} % of runs of {looks} items, half of all by item {LOOKS['median stop']}" in part


def test_the_page_on_test_time_matching_concludes_what_the_record_holds():
    text = read_page("test_time_matching")
    for seed in read_record("matching_rounds")["seeds"]:
        assert seed["transductive"] == "demo"
        assert all(0 < each["right"] <= each["matched"] <= each["items"] == 400 for each in seed["rounds"])
        group, match = ({row["metric"]: row for row in seed["rows"]}[name] for name in ("group_score", "match_score"))
        assert f"matches {100 * match['a']:.2f} % of the demo's items and gets {100 * group['a']:.2f} %" in text
        assert group["low"] > 0 and match["low"] < 0 < match["high"]  # the gain is shown, and none of the match
        assert abs(group["b"] - group["a"] - group["difference"]) < 1e-9
        assert seed["rounds"][-1]["right"] < seed["rounds"][-1]["matched"]
