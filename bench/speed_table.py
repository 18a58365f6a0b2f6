"""The record of `speed.py` as a table in markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEAD = "| tool | cold, s | x | of it the model alone | processor, s | warm, s | x |"


def markdown(record: Mapping[str, Any]) -> str:
    """Return the tables, and below them machine, versions, command and what was left out."""
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
