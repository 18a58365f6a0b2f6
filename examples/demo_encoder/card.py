"""The model card of the bundled encoder, from its training record."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

_CARD = """\
# demo-encoder

{training}

It is here so that a fresh installation can measure a real, if small, model without a network. It knows the objects,
colours, counts and places of the `demo` scenes and nothing else: never use it as a general model.

Scores (%, strict rule, 95 % interval; chance is 25, 25 and 16.7). `demo` took no part in training or in the choice of
weights, which the validation and final scenes made; its scenes have other seeds, and items with `held_out: yes` show an
object in a colour that no training scene showed it in. All objects of the held-out scenes are such ones.

| items | n | text | image | group |
|---|---|---|---|---|
{table}

Limits: whole-word vocabulary (any other word is `[UNK]`), pictures of one to six objects in a bare room. What it makes
of size words ("small", "large") is not measured: nothing in `demo` turns on them.

Stages with their commands and seconds, configuration, validation scores, versions and hashes: `training_record.json`.

Licence: Apache-2.0, as the rest of tellapart. Trained on this project's own renders only.
"""


_TRAINING = """\
A dual encoder of {parameters:,} parameters (a residual CNN with two attention layers on its last feature map; a
two-layer text transformer over whole words; weights stored as float16), trained from nothing by `tellapart train` on
{rows:,} rows over {images:,} pictures of rendered scenes, half of them mirrored: runs of {steps} steps, together
{minutes:.0f} minutes on {machines}. `make encoder` makes it again. The loss is NegCLIP's, with each picture's mate in
the batch, and the choice among its own captions. In the first run half of the captions say which object is in which
cell of a grid; the others, and all of the later runs, are the grammar's. The third run adds scenes whose captions have
the same words in two orders, and the fourth more of those whose numbers change places. {note}
"""


def write_card(record: Mapping[str, Any]) -> str:
    """Return the card's Markdown, from a record as `training_record.json` holds it."""
    runs = list(record["runs"].values())
    *first, last = (f"{run['steps']:,}" for run in runs)
    training = _TRAINING.format(
        parameters=record["parameters"],
        rows=sum(run["data"]["rows"] for run in runs),
        images=max(run["data"]["images"] for run in runs),
        steps=f"{', '.join(first)} and {last}",
        minutes=sum(record["stages"][name]["seconds"] for name in record["runs"]) / 60,
        machines=" and ".join(dict.fromkeys(run["machine"]["processor"] for run in runs)),
        note=record.get("note", ""),
    )
    return _CARD.format(training=textwrap.fill(training, 120), table="\n".join(_table(record["scores"])))


def _table(scores: Mapping[str, Any]) -> Iterator[str]:
    for name, result in scores.items():
        yield _row(name.replace("_", " "), result["metrics"])
        for tag, parts in result["by"].items():
            if len(parts) > 1:
                yield from (_row(f"{name.replace('_', ' ')}, {tag}: {value}", part) for value, part in parts.items())


def _row(name: str, metrics: Mapping[str, Any]) -> str:
    cells = [
        f"{100 * value['value']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
        for value in metrics.values()
    ]
    return f"| {name} | {next(iter(metrics.values()))['n']} | {' | '.join(cells)} |"
