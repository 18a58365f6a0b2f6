"""The record of item analysis on simulated systems: its intervals cover, its suspects keep their level."""

from __future__ import annotations

import json
from pathlib import Path

RECORD = json.loads((Path(__file__).parents[2] / "bench" / "records" / "items.json").read_text(encoding="utf-8"))
SETTINGS = {name: each for name, each in RECORD.items() if name.endswith("systems") and "families" in name}


def test_intervals_cover_and_suspects_keep_their_level() -> None:
    assert len(SETTINGS) == 4
    for found in SETTINGS.values():
        assert found["coverage of discrimination"] >= 0.92 and found["coverage of alpha"] >= 0.92
        assert found["items that do not discriminate with p <= 5%"] <= 0.065
        assert found["data sets with a suspect by Holm"] <= 0.05
        assert found["data sets with a group of items"] <= 0.08
    assert RECORD["Rasch, 55 systems"]["coverage of difficulty"] >= 0.92


def test_a_label_turned_round_is_found_if_there_are_systems_enough() -> None:
    reversed_found = "the best item with its label turned round is a suspect"
    assert SETTINGS["55 families of 1 to 1 systems"][reversed_found] >= 0.95
    assert (
        SETTINGS["15 families of 1 to 6 systems"][reversed_found]
        < SETTINGS["30 families of 1 to 3 systems"][reversed_found]
    )
