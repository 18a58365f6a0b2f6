"""The record of item analysis on simulated systems: its intervals cover, its suspects keep their level."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "bench" / "records" / "items.json").read_text(encoding="utf-8"))
SETTINGS = {name: each for name, each in RECORD.items() if name.endswith("systems") and "families" in name}


def test_intervals_cover_and_suspects_keep_their_level():
    assert len(SETTINGS) == 4
    for found in SETTINGS.values():
        assert found["coverage of discrimination"] >= 0.92 and found["coverage of alpha"] >= 0.92
        assert found["items that do not discriminate with p <= 5%"] <= 0.065
        assert found["data sets with a suspect by Holm"] <= 0.05
        assert found["data sets with a group of items"] <= 0.08
    assert RECORD["Rasch, 55 systems"]["coverage of difficulty"] >= 0.92


def test_a_label_turned_round_is_found_if_there_are_systems_enough():
    reversed_found = "the best item with its label turned round is a suspect"
    assert SETTINGS["55 families of 1 to 1 systems"][reversed_found] >= 0.95
    assert (
        SETTINGS["15 families of 1 to 6 systems"][reversed_found]
        < SETTINGS["30 families of 1 to 3 systems"][reversed_found]
    )


def test_the_document_quotes_the_record():
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
