"""The record of `speed.py` as a table in markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEAD = "| tool | cold, s | x | of it the model alone | processor, s | warm, s | x |"


def markdown(record: Mapping[str, Any]) -> str:
    """Return the tables, and below them machine, versions, command and what was left out.

    >>> runs = [{"model": "tiny", "group": "aro", "images": 2, "texts": 9, "image_slots": 10, "text_slots": 10,
    ...     "forward": {"images": 1.0, "texts": 0.8},
    ...     "tools": {"tellapart": {"cold": 2.0, "cold_processor": 3.8, "warm": 0.5},
    ...               "mteb": {"cold": 10.0, "cold_processor": 19.0, "warm": 4.0}}}]
    >>> shown = markdown({"runs": runs, "items": 10, "machine": {"processor": "p", "cores": 2, "device": "cpu"},
    ...     "versions": {"torch": "2"}, "command": "c", "date": "d", "left_out": {"unibench": "no network"}})
    >>> print(shown.splitlines()[4])
    | mteb | 10.0 | 5.0 | 18 % | 19 | 4.0 | 8.0 |
    """
    parts = [_table(run) for run in record["runs"]]
    machine = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    where = f"{machine['processor']}, {machine['cores']} cores, {machine.get('gpu', machine['device'])}"
    parts.append(f"{record['items']} items of each set; {where}; {record['date']}; {versions}. `{record['command']}`")
    parts += [record["note"]] if record.get("note") else []
    parts += [f"Left out: {tool}, because {reason}" for tool, reason in record["left_out"].items()]
    return "\n\n".join(parts)


def _table(run: Mapping[str, Any]) -> str:
    forward = sum(run["forward"].values())
    ours = run["tools"].get("tellapart")
    title = (
        f"**{run['model']}, {run['group']}**: {run['images']} distinct images of {run['image_slots']}, {run['texts']} "
        "distinct "
        f"texts of {run['text_slots']}; the model alone: {forward:.1f} s"
    )
    lines = [title, "", _HEAD, "|---|---|---|---|---|---|---|"]
    for tool, took in sorted(run["tools"].items(), key=lambda entry: -entry[1]["cold"]):
        ratios = [f"{took[key] / ours[key]:.1f}" if ours else "" for key in ("cold", "warm")]
        share = f"{100 * forward / took['cold']:.0f} %"
        cold = f"{took['cold']:.1f} | {ratios[0]} | {share} | {took['cold_processor']:.0f}"
        lines.append(f"| {tool} | {cold} | {took['warm']:.1f} | {ratios[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
