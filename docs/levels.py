"""The table and the picture of docs/levels.md, from the record docs/levels.json.

python docs/levels.py             # draws docs/levels.svg again; `docs/generate.py` writes the table
python docs/levels.py --run DIR   # first the record, from a run on the set of docs/recipes/levels.toml
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from speed_tables import fill_table
from typer import Option

from tellapart.diagnosis.curve import Curves, measure_curves
from tellapart.diagnosis.item_analysis import ItemOutcomes, outcomes_of, read_systems
from tellapart.records.result import Sample
from tellapart.report.diagnoses import draw_thresholds, write_threshold
from tellapart.report.measured import gather
from tellapart.report.plots.style import write_picture
from tellapart_render.scenes.quadruple import LEVELS

HERE = Path(__file__).resolve().parent
RECORD, PICTURE = HERE / "levels.json", HERE / "levels.svg"
#: Of the group score of two pictures and two captions.
CHANCE = 1 / 6
#: Aspects whose larger levels are harder.
HARDER = ("distractors", "hidden")


def make_record(run: Path) -> dict[str, Any]:
    """Return each aspect's levels, and for each model 1 for the items that it gets by group score, else 0."""
    systems = gather([run])
    outcomes = outcomes_of(*read_systems(systems), "group_score")
    (benchmark,) = systems[0].result.benchmarks.values()
    record: dict[str, Any] = {
        "command": "python docs/levels.py --run DIR",
        "set": outcomes.benchmark,
        "items": len(outcomes.items),
        "fingerprint": benchmark.fingerprint,
        "aspects": {},
    }
    for aspect, graded in LEVELS.items():
        rows = [row for row, item in enumerate(outcomes.items) if item.tags["aspect"] == aspect]
        record["aspects"][aspect] = {
            "unit": graded.unit,
            "levels": " ".join(outcomes.items[row].tags["level"] for row in rows),
            "right": {
                model: "".join(str(int(value)) for value in outcomes.values[rows, column])
                for column, model in enumerate(outcomes.systems)
            },
        }
    return record


def fit() -> Curves:
    """Fit each model's curve of each aspect of the record, as `tellapart curve --over level --by aspect` does.

    Which levels are harder is known without the models: it is the direction of the curves.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    models = tuple(record["aspects"]["colour"]["right"])
    items, values = dict[str, list[Sample]](), dict[str, list[list[float]]]()
    for aspect, found in record["aspects"].items():
        direction = "falling" if aspect in HARDER else "rising"
        for number, level in enumerate(found["levels"].split()):
            tags = {"aspect": f"{aspect}, {found['unit']}", "level": level}
            name = f"{aspect}-{number:03d}"
            items.setdefault(direction, []).append(Sample(id=name, cluster=name, tags=tags, outcomes={}))
            values.setdefault(direction, []).append([float(right[number]) for right in found["right"].values()])
    parts = []
    for direction in items:
        right = np.array(values[direction])
        outcomes = ItemOutcomes(record["set"], "group_score", models, tuple(items[direction]), right)
        parts.append(measure_curves(outcomes, "level", by="aspect", direction=direction, chances={None: CHANCE}))
    # A level of all aspects together has no unit.
    rows = [row for part in parts for row in part.curves if row.subset is not None]
    rows.sort(key=lambda row: str(row.subset))
    return parts[0].model_copy(update={"curves": tuple(rows), "n": sum(part.n for part in parts)})


def levels_table() -> str:
    """Return the thresholds: a row an aspect, a column a model."""
    return fill_table("levels", found=fit(), write_threshold=write_threshold, half=(1 + CHANCE) / 2)


def main(run: Annotated[Path | None, Option(help="a run folder of all models")] = None) -> None:
    """Write the record of a run if one is named, then the page's picture."""
    if run is not None:
        RECORD.write_text(json.dumps(make_record(run), indent=1) + "\n", encoding="utf-8")
    write_picture(PICTURE, lambda: draw_thresholds(fit()))


if __name__ == "__main__":
    typer.run(main)
