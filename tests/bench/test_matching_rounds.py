"""What the page of test-time matching concludes is in its record, of which its tables are made."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "test_time_matching.md"
TABLE = json.loads((ROOT / "bench" / "records" / "matching_rounds.json").read_text(encoding="utf-8"))


def test_items_are_marked_counted_and_moved_as_the_page_concludes():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for seed in TABLE["seeds"]:
        assert seed["transductive"] == "demo"
        assert all(0 < each["right"] <= each["matched"] <= each["items"] == 400 for each in seed["rounds"])
        group, match = ({row["metric"]: row for row in seed["rows"]}[name] for name in ("group_score", "match_score"))
        assert f"matches {100 * match['a']:.2f} % of the demo's items and gets {100 * group['a']:.2f} %" in text
        assert group["low"] > 0 and match["low"] < 0 < match["high"]  # the gain is shown, and none of the match
        assert abs(group["b"] - group["a"] - group["difference"]) < 1e-9
        assert seed["rounds"][-1]["right"] < seed["rounds"][-1]["matched"]
