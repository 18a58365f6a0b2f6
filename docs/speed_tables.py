"""The tables and the picture of docs/speed.md, from whichever of their records are kept.

python docs/speed_tables.py      # draws docs/speed.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "bench" / "records"
PICTURE = HERE / "speed.svg"

#: Tool of the record -> its name for a reader.
NAMES = {
    "tellapart": "tellapart",
    "tellapart-bfloat16": "tellapart, bfloat16",
    "loop": "open_clip's loop",
    "loop-bfloat16": "open_clip's loop, bfloat16",
    "clip-benchmark": "CLIP_benchmark",
    "mteb": "MTEB",
    "unibench": "UniBench",
}


def read_record(name: str) -> dict[str, Any] | None:
    """A record, or None where it is not kept."""
    file = RECORDS / f"{name}.json"
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def real_captions_table() -> str:
    """Processor seconds by tool, on published captions, with the picture and bfloat16's flips."""
    record = read_record("speed")
    if record is None:
        return "Not measured yet: no record of `bench/speed.py --annotations` is kept.\n"
    parts = []
    if PICTURE.is_file():
        parts.append("![Processor seconds by tool, and the gain of shared beginnings by set](speed.svg)")
    run = _choose_run(record)
    parts.append(
        f"**{run['model']}, {run['group']}**: {run['images']:,} distinct images and {run['texts']:,} distinct "
        f"texts; the model alone takes {run['forward_processor']:.1f} processor seconds"
    )
    base = run["tools"].get("tellapart", {}).get("cold_processor")
    rows = ["| tool | processor, s | x | wall, s | again, s |", "|---|--:|--:|--:|--:|"]
    for tool, took in sorted(run["tools"].items(), key=lambda each: each[1]["cold_processor"]):
        times = f"{took['cold_processor'] / base:.1f}" if base else ""
        seconds = f"{took['cold_processor']:.1f} | {times} | {took['cold']:.1f} | {took['warm']:.1f}"
        rows.append(f"| {NAMES[tool]} | {seconds} |")
    parts.append("\n".join(rows))
    for name, found in run.get("flips", {}).items():
        counts = ", ".join(f"{metric} {count}" for metric, count in found["flips"].items())
        parts.append(
            f"{name} in bfloat16, outcomes that flip of {found['items']:,}: {counts}; a score moves by at most "
            f"{found['largest_difference']:.2g}."
        )
    machine, versions = record["machine"], record["versions"]
    parts.append(
        f"{record['items']} items of each set, {record['runs'][0]['rounds']} round; {machine['processor']}, "
        f"{machine['cores']} cores; {', '.join(f'{name} {number}' for name, number in versions.items())}. "
        f"`{record['command']}`"
    )
    parts += [f"Left out: {NAMES.get(tool, tool)}, because {reason}" for tool, reason in record["left_out"].items()]
    return "\n\n".join(parts) + "\n"


def _choose_run(record: dict[str, Any]) -> dict[str, Any]:
    """The run that is shown in full: that of the sets whose captions repeat and begin alike most, or the first."""
    runs: list[dict[str, Any]] = record["runs"]
    return next((run for run in runs if run["group"] == "sugarcrepe+aro"), runs[0])


def all_shapes_table() -> str:
    """Processor seconds of each tool in tellapart's, by model and sets, with the share of the model alone."""
    record = read_record("speed")
    if record is None:
        return "Not measured yet: no record of `bench/speed.py --annotations` is kept.\n"
    heads = {
        **{tool: NAMES[tool] for tool in ("mteb", "clip-benchmark", "unibench")},
        "loop": "loop",
        "loop-bfloat16": "loop, bf16",
        "tellapart-bfloat16": "tellapart, bf16",
    }
    rows = [
        f"| {' | '.join(('model, sets', *heads.values(), 's', 'bare', 'flips'))} |",
        f"|---|{'--:|' * (len(heads) + 3)}",
    ]
    for run in record["runs"]:
        base = run["tools"]["tellapart"]["cold_processor"]
        times = [
            f"{run['tools'][tool]['cold_processor'] / base:.1f}" if tool in run["tools"] else "-" for tool in heads
        ]
        found = run.get("flips", {}).values()
        flips = f"{max(max(one['flips'].values()) for one in found)} of {record['items']}" if found else "-"
        seconds = f"{base:.1f} | {run['forward_processor']:.1f} | {flips}"
        rows.append(f"| {run['model']}, {run['group']} | {' | '.join(times)} | {seconds} |")
    return "\n".join(rows) + "\n"


def shared_beginnings_table() -> str:
    """Processor seconds of a loop over padded texts, and of texts whose beginnings are computed once."""
    record = read_record("shared_beginnings")
    assert record is not None
    rows = ["| captions | distinct | loop, s | shared, s | x |", "|---|--:|--:|--:|--:|"]
    for name, found in record["sets"].items():
        seconds = f"{found['loop_seconds']:.1f} | {found['shared_seconds']:.1f} | {found['times']:.2f}"
        rows.append(f"| {name} | {found['captions']:,} | {seconds} |")
    return "\n".join(rows) + "\n"


def growth_table() -> str:
    """Processor seconds and memory by the number of items, and how they grow."""
    record = read_record("growth")
    if record is None:
        return "Not measured yet: no record of `bench/growth.py` is kept.\n"
    rows = ["| items | from scores, s | MB | from vectors, s | MB |", "|--:|--:|--:|--:|--:|"]
    kinds = ("scores", "vectors")
    for size in sorted({int(size) for kind in kinds for size in record[kind]["sizes"]}):
        found = [record[kind]["sizes"].get(str(size)) for kind in kinds]
        cells = (f"{each['processor_seconds']:.1f} | {each['mb']:,}" if each else "- | -" for each in found)
        rows.append(f"| {size:,} | {' | '.join(cells)} |")
    grows = "; ".join(
        f"from {kind}, time by the power {record[kind]['exponents']['processor_seconds']} of the items, memory by "
        f"{record[kind]['exponents']['mb']}"
        for kind in kinds
    )
    return "\n".join(rows) + f"\n\nFitted: {grows}. `{record['command']}`\n"


def screened_table() -> str:
    """What it would cost to score items near a tie again in float32."""
    record = read_record("screened")
    if record is None:
        return "Not measured yet: no record of `bench/screened.py` is kept.\n"
    rows = ["| set | weights | flipped | near a tie | flips missed | price |", "|---|---|--:|--:|--:|--:|"]
    for name, kinds in record["sets"].items():
        for kind, found in kinds.items():
            flipped = f"{found['flipped']} of {found['items']}"
            price = f"{found['price_of_many']:.2f}" if kind == "bfloat16" else ""
            near = f"{100 * found['near_a_tie']:.0f}%"
            rows.append(f"| {name} | {kind} | {flipped} | {near} | {found['missed_flips']} | {price} |")
    return f"{conclude_screened(record)}\n\n" + "\n".join(rows) + "\n"


def conclude_screened(record: dict[str, Any]) -> str:
    """Whether scoring items near a tie again pays: less than half of float32's price on every set, and no flip."""
    found = {name: kinds["bfloat16"] for name, kinds in record["sets"].items()}
    dear = [name for name, one in found.items() if one["price_of_many"] >= 0.5]
    missed = [name for name, one in found.items() if one["missed_flips"]]
    towers = record["towers"]["bfloat16"]
    costs = f"In bfloat16 an image costs {towers['image']:.2f} of float32, a text {towers['text']:.2f}."
    if not dear and not missed:
        return f"{costs} It would pay on all {len(found)} sets."
    reasons = [f"it costs half of float32 or more on {', '.join(dear)}"] if dear else []
    reasons += [f"it misses flips on {', '.join(missed)}"] if missed else []
    return f"{costs} It does not pay: {', and '.join(reasons)}."


def draw_speed() -> Figure:
    """Processor seconds by tool with the bound, next to the gain of shared beginnings by set."""
    from matplotlib.figure import Figure

    record, shared = read_record("speed"), read_record("shared_beginnings")
    assert record is not None and shared is not None
    run = _choose_run(record)
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


def main() -> int:
    """Draw the picture."""
    from tellapart.report.plots.style import write_picture

    if read_record("speed") is None:
        print("no record of bench/speed.py --annotations: nothing to draw", file=sys.stderr)
        return 1
    write_picture(PICTURE, draw_speed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
