"""The tables of the benches' records, from whichever are kept, and the picture of docs/speed.md.

python docs/speed_tables.py      # draws docs/speed.svg
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from tellapart.report.numbers import points
from tellapart.report.plots.style import write_picture

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for `examples`, of which the other files here take the form of pages, too
from examples.clip_zoo_board.build import build  # noqa: E402
from examples.findings.frame import make_table, read_fields, render_page, write_pages_text  # noqa: E402

__all__ = ["RECORD_TABLES", "build", "fill_table", "make_table", "read_fields", "record_table", "write_pages_text"]

HERE, RECORDS = ROOT / "docs", ROOT / "bench" / "records"
PICTURE = HERE / "speed.svg"

_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NAMES, RECORD_TABLES = _DECLARED["names"], _DECLARED["records"]


def record_table(name: str) -> str:
    """A table of what was last measured, if its record is kept."""
    found = read_record(RECORD_TABLES[name])
    if found is None:
        return f"Not measured yet: no record of `bench/{RECORD_TABLES[name]}.py` is kept.\n"
    values = {"record": found, "names": NAMES, "picture": PICTURE.is_file(), "write_change": points}
    return fill_table(name.replace("-", "_"), **values)


def fill_table(name: str, **values: Any) -> str:
    """Fill the template of a table."""
    return render_page(HERE / "templates", name, values).strip("\n") + "\n"


def read_record(name: str) -> dict[str, Any] | None:
    """A record, or None where it is not kept."""
    file = RECORDS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def draw_speed() -> Any:
    """Processor seconds by tool with the bound, next to the gain of shared beginnings by set."""

    from matplotlib.figure import Figure

    record, shared = read_record("speed"), read_record("shared_beginnings")
    assert record is not None and shared is not None
    # The sets whose captions repeat and begin alike most.
    run = next((run for run in record["runs"] if run["group"] == "sugarcrepe+aro"), record["runs"][0])
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    tools = sorted(run["tools"], key=lambda tool: -run["tools"][tool]["cold_processor"])
    seconds = [run["tools"][tool]["cold_processor"] for tool in tools]
    colours = ["#0072b2" if tool.startswith("tellapart") else "#999999" for tool in tools]
    left.bar_label(left.barh([NAMES[tool] for tool in tools], seconds, color=colours), fmt="%.0f", padding=3)
    left.axvline(run["forward_processor"], color="#d55e00", linestyle="--", label="the model alone, float32")
    left.set_xlabel("processor seconds")
    left.set_title(f"{run['model']}, {run['group']}, {record['items']} items each", fontsize=10)
    left.margins(x=0.12)
    left.legend(frameon=False, fontsize=8)
    sets = list(shared["sets"])[::-1]
    times = [shared["sets"][name]["times"] for name in sets]
    right.bar_label(right.barh(sets, times, color="#0072b2"), fmt="%.1f", padding=3)
    right.axvline(1, color="#999999", linewidth=1)
    right.set_xlabel("times fewer, shared beginnings")
    right.margins(x=0.15)
    return figure


if __name__ == "__main__":
    write_picture(PICTURE, draw_speed)
