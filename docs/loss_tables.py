"""The tables of docs/losses.md: every loss as it is declared, and the cost of a step with it, from its record."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

from tellapart.catalog import LOSSES
from tellapart.training.config import TrainConfig, list_presets, merge_preset
from tellapart.training.losses.loss import DualLoss, find_loss

HERE = Path(__file__).resolve().parent


def losses_table() -> str:
    """Every loss as it is declared: its definition, the inputs that a step must give it, its options and its source."""
    rows = ["| loss | definition | needs | options | source |", "|---|---|---|---|---|"]
    for name in LOSSES:
        loss = find_loss(name)
        summary, _, rest = inspect.cleandoc(loss.function.__doc__ or "").partition("\n")
        source = " ".join(rest.partition("Source: ")[2].partition("\n\n")[0].split()).removesuffix(".")
        options = ", ".join(option(*one) for one in loss.options.model_json_schema().get("properties", {}).items())
        needs = dual_needs(loss) if isinstance(loss, DualLoss) else fusion_needs(loss)
        what = summary.removeprefix("Return ").removesuffix(".")
        rows.append(f"| `{name}` | {what} | {needs} | {options or 'none'} | {source or 'ours'} |")
    return "\n".join(rows) + "\n"


def option(name: str, schema: dict[str, Any]) -> str:
    """An option with its default, and its bounds if it is a number."""
    kinds = schema.get("anyOf", [schema])
    bounds = ["None"] if {"type": "null"} in kinds else []
    for kind in kinds:
        least, below = (f"{kind[key]:g}" if key in kind else "" for key in ("minimum", "exclusiveMaximum"))
        bounds += [f"at least {least}" + (f" and below {below}" if below else "")] if least else []
    text = schema.get("description") or " or ".join(bounds)
    return f"`{name} = {schema['default']!r}`" + (f" ({text})" if text else "")


def presets_table() -> str:
    """Every preset with its source, and in a second table each value that is not as released."""
    rows = ["| preset | loss | pairs | rate | epochs | weight decay | source |", "|---|---|--:|--:|--:|--:|---|"]
    ours: dict[tuple[str, str], list[str]] = {}
    for name, preset in list_presets().items():
        values = TrainConfig(**merge_preset(preset.values, NEEDED | UNKNOWN.get(name, {})))
        unknown = {key for table in UNKNOWN.get(name, {}).values() for key in table}
        batch, optimiser = values.batch, values.optimiser
        size = f"{batch.size:,}" if batch.accumulate == 1 else f"{batch.accumulate} x {batch.part}"
        rate = f"{optimiser.learning_rate:g}".replace("e-0", "e-")
        rows.append(
            f"| `{name}` | {loss_cell(values)} | {'unknown' if 'size' in unknown else size} | {rate} | "
            f"{'unknown' if 'epochs' in unknown else optimiser.epochs} | {optimiser.weight_decay:g} | {preset.source} |"
        )
        for entry in preset.ours.items():
            ours.setdefault(entry, []).append(f"`{name}`")
    rows += ["", "All values are as released but these, which are ours, because:", ""]
    rows += ["| of | preset | ours, because |", "|---|---|---|"]
    rows += [f"| {key} | {', '.join(presets)} | {reason} |" for (key, reason), presets in ours.items()]
    return "\n".join(rows) + "\n"


#: A configuration's part, and the parts that a paper leaves to it.
NEEDED: dict[str, Any] = {"name": "x", "model": "x", "data": {"train": ["x"]}}
UNKNOWN: dict[str, dict[str, Any]] = {"negbench": {"optimiser": {"epochs": 1}, "batch": {"size": 2}}}


def loss_cell(config: TrainConfig) -> str:
    """The losses of a configuration with the options that it sets."""
    cells = []
    for term in (config.loss, *({"name": name, **own} for name, own in config.loss.get("also", {}).items())):
        options = [f"{key} {value}" for key, value in term.items() if key not in {"name", "also"}]
        cells.append(", ".join((f"`{term['name']}`", *options)))
    return "; ".join(cells)


def dual_needs(loss: Any) -> str:
    """What a dual encoder's loss needs of a row beside image and caption."""
    images = {"none": "", "pairs": "hard images if there are some", "mate": "a hard counterpart"}
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
