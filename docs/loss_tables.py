"""The tables of docs/losses.md: every loss as it is declared, and what a step with it costs, from its record."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from tellapart.catalog import LOSSES
from tellapart.train.losses.loss import DualLoss, find_loss

HERE = Path(__file__).resolve().parent


def losses_table() -> str:
    """Every loss as it is declared: what it is, what a step must give it, its options and its source."""
    rows = ["| loss | what | needs | options | source |", "|---|---|---|---|---|"]
    for name in LOSSES:
        loss = find_loss(name)
        summary, _, rest = inspect.cleandoc(loss.function.__doc__ or "").partition("\n")
        source = " ".join(rest.partition("Source: ")[2].partition("\n\n")[0].split()).removesuffix(".")
        options = ", ".join(f"`{one.name} = {one.default!r}`" for one in (fields(loss.options) if loss.options else ()))
        needs = dual_needs(loss) if isinstance(loss, DualLoss) else fusion_needs(loss)
        what = summary.removeprefix("Return ").removesuffix(".")
        rows.append(f"| `{name}` | {what} | {needs} | {options or 'none'} | {source or 'ours'} |")
    return "\n".join(rows) + "\n"


def dual_needs(loss: Any) -> str:
    """What a dual encoder's loss needs of a row beside image and caption."""
    images = {"none": "", "pairs": "hard images where there are some", "mate": "a hard counterpart"}
    captions = f"{loss.negative_captions} false captions" if loss.negative_captions > 1 else "a false caption"
    needs = [
        captions if loss.negative_captions else "",
        "a unit and its foil" if loss.units else "",
        "patches and words" if loss.local else "",
        "joined pictures" if loss.joins else "",
    ]
    return ", ".join(filter(None, (*needs, images[loss.negative_images]))) or "pairs"


def fusion_needs(loss: Any) -> str:
    """What a fusion encoder's loss needs crossed."""
    crossed = f"a fusion encoder, {loss.negatives} crossed pair{'s' * (loss.negatives > 1)}"
    return crossed + (" and their counterparts" if loss.counterparts else "")


def loss_costs_table() -> str:
    """The last recorded measurement of a step with each loss."""
    found = json.loads((HERE.parent / "bench" / "records" / "losses.json").read_text(encoding="utf-8"))
    rows = ["| loss | pairs | step, ms | against | forward and backward, times |", "|---|--:|--:|---|---|"]
    for row in found["rows"]:
        middle, low, high = row["forward_and_backward"]
        ratio = "1" if row["loss"] == row["against"] else f"{middle:.2f} [{low:.2f}, {high:.2f}]"
        rows.append(f"| `{row['loss']}` | {row['batch']} | {row['milliseconds']:.0f} | `{row['against']}` | {ratio} |")
    load = " and ".join(f"{one:.0f}" for one in found["load"][:2])
    said = f"Measured on {found['measured']} by `{found['command']}`: {found['how']}; the machine's load was {load}."
    return "\n".join(rows) + f"\n\n{said}\n"
