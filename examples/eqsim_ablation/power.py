"""What the ablation could see, before it is run: the detectable difference by seeds and items, and what each costs.

    python -m examples.eqsim_ablation.power --measure    time a step, an item and a picture: record/units.json
    python -m examples.eqsim_ablation.power              choose seeds and items: record/power.json

The pilot (pilot.json) says how a difference of group score varies over items and over seeds. Matrices of differences
with that variance are drawn, and go through the test that the page makes of the results.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from examples.eqsim_ablation.crossed import Components, compare_crossed, components
from examples.eqsim_ablation.pieces import unpack_items
from examples.eqsim_ablation.plan import HERE, Plan, read_plan
from examples.eqsim_ablation.stages import add_units, facts, stage_environment
from tellapart.benchmarks.find import load_pairs
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.rows import read_object
from tellapart.models.find import find_model
from tellapart.models.scoring.score import embeddings
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch
from tellapart.training.training_run import run_training
from tellapart_render.scenes_builder import Recipe, make_item
from tellapart_render.training_rows import write_training_rows

#: Points of group score, as a share, that are to be seen, and how often.
GOAL, POWER = 0.02, 0.8

#: How much more than in the pilot a difference may vary: longer training, and a start farther from the floor.
CAUTION = 3

_SEEDS, _ITEMS = (3, 5, 8, 12, 16), (2010, 6030)

#: Simulated experiments of each design.
_DRAWS = 400

#: Seconds of a step on a GPU: assumed, not measured. The towers (2.1 million weights) leave one idle between some
#: thousand small kernels, which take about 10 microseconds each to launch.
GPU_STEP = 0.02


def detectable(spread: Components, seeds: int, items: int, levels: Sequence[float], draws: int = _DRAWS) -> list[float]:
    """Return the smallest difference that is seen at each level, and how often the first level sees one without any.

    >>> small, wrong = detectable(Components(0.02, 0.0, 0.2), 5, 500, [0.05], draws=200)
    >>> 0.02 < small < 0.05, wrong < 0.12
    (True, True)
    """
    rng = np.random.default_rng([seeds, items])
    surplus, wrong = [], 0
    for _ in range(draws):
        drawn = rng.standard_normal((seeds, items), np.float32) * np.float32(spread.rest**0.5)
        drawn += rng.standard_normal((1, items), np.float32) * np.float32(spread.items**0.5)
        drawn += rng.standard_normal((seeds, 1), np.float32) * np.float32(spread.seeds**0.5)
        found = compare_crossed(drawn.astype(np.float64))
        # A true difference moves the mean and leaves the error as it is.
        surplus.append([float(found.half(level) - found.value) for level in levels])
        wrong += bool(found.p < levels[0])
    return [float(value) for value in np.quantile(surplus, POWER, axis=0)] + [wrong / draws]


def statement(plan: Plan) -> dict[str, Any]:
    """Return what `record/power.json` holds: the pilot's variance, the table of designs, and the one that is chosen."""
    spread, group = pilot_spread()
    cautious = Components(*(CAUTION * value for value in spread))
    tests, table = len(plan.methods) - 1, []
    for seeds in _SEEDS:
        for items in _ITEMS:
            alone, holm, wrong = detectable(spread, seeds, items, (0.05, 0.05 / tests))
            careful, careful_holm, _ = detectable(cautious, seeds, items, (0.05, 0.05 / tests))
            seen = {"alone": alone, "holm": holm, "wrong": wrong, "careful": careful, "careful_holm": careful_holm}
            row = {"seeds": seeds, "items": items, **{name: round(value, 4) for name, value in seen.items()}}
            table.append(row | _cost(plan, seeds, items))
    enough = [row for row in table if max(row["holm"], row["careful"]) <= GOAL and row["items"] >= 6000]
    return {
        "group": round(group, 4),
        "variance": {name: float(f"{value:.4g}") for name, value in spread._asdict().items()},
        "tests": tests,
        "draws": _DRAWS,
        "table": table,
        "chosen": min(enough, key=lambda row: row["cpu_hours"]) if enough else None,
    }


def pilot_spread() -> tuple[Components, float]:
    """Return the mean variance of the differences of all pairs of the pilot's rows, and their mean group score.

    >>> spread, group = pilot_spread()
    >>> round(spread.seeds, 5), round(group, 3)
    (0.00013, 0.379)
    """
    pilot = read_object(HERE / "pilot.json")
    right = [
        np.array([unpack_items(packed, pilot["items"]) for packed in seeds], float) for seeds in pilot["rows"].values()
    ]
    found = [components(one - other) for one, other in combinations(right, 2)]
    means = (max(0.0, fmean(part)) for part in zip(*found, strict=True))
    return Components(*means), float(np.mean([values.mean() for values in right]))


def _cost(plan: Plan, seeds: int, items: int) -> dict[str, float]:
    """Return the hours of one processor core that a design takes, and of a GPU as an estimate."""
    unit, tuning = plan.read("units"), sum(len(method.choices) for method in plan.methods)
    runs = seeds * len(plan.methods)
    steps = plan.start.get("steps", 0) + tuning * plan.tuning_steps + runs * plan.steps
    measuring = runs * items * unit["measured_item"]
    measuring += plan.items("tuning") * (tuning + runs) * unit["validated_item"]
    rendered = items + sum(plan.items(name) for name in plan.sets if name not in plan.tests)
    rendering = rendered * unit["rendered_item"]
    return {
        "steps": steps,
        "cpu_hours": round((steps * unit["step"] + measuring + rendering) / 3600, 1),
        "rendering_hours": round(rendering / 3600, 1),
        "gpu_hours": round(steps * GPU_STEP / 3600, 1),
    }


def units(plan: Plan) -> dict[str, Any]:
    """Time one thread: seconds of the processor for a step, for measuring an item, and for rendering one."""
    import_torch().set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "smoke_scenes"
        shutil.copytree(HERE / "smoke_scenes", folder)
        write_training_rows(folder)
        add_units(folder)
        steps = [_time_step(plan, method, folder) for method in (plan.methods[0], plan.row("ce-clip"))]
        model, pairs = find_model(f"compact:{folder / plan.methods[0].name / 'model'}"), load_pairs(f"folder:{folder}")
        measured, validated = (_time_item(model, pairs, bfloat16) for bfloat16 in (True, False))
    recipe = read_recipe_file(plan.sets[plan.tests[0]])
    drawn = Recipe(seed=recipe.seed, **recipe.options)
    keys = drawn.item_keys()[:: plan.items(plan.tests[0]) // 6]
    make_item(keys[0], drawn)  # loads the renderer
    began = time.process_time()
    for key in keys:
        make_item(key, drawn)
    rendered = (time.process_time() - began) / len(keys)
    found = {"step": fmean(steps), "measured_item": measured, "validated_item": validated, "rendered_item": rendered}
    return {name: round(seconds, 4) for name, seconds in found.items()} | facts()


def _time_item(model: Any, pairs: Any, bfloat16: bool) -> float:
    """Return the processor's seconds of one of a set's items; a first pass, which is slower, is left out."""
    torch = import_torch()
    for _ in range(2):
        began = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            embeddings(model, pairs, store=EmbeddingStore(None))
        seconds = time.process_time() - began
    return seconds / len(pairs)


def _time_step(plan: Plan, method: Any, folder: Path) -> float:
    """Return the median of the processor's seconds of a few steps of a row, its first ones left out."""
    times: list[float] = []
    architecture = HERE.parent / "demo_encoder" / "architecture"
    data = {"train": [str(folder / "ablation_rows.jsonl")], "validation": None}
    config = plan.fine_tuning(method, 0)
    changed = config.model_copy(update={"model": f"new:{architecture}", "data": config.data.model_copy(update=data)})
    run_training(
        changed, Path(), folder / method.name, limit=8, progress=lambda *_, **__: times.append(time.process_time())
    )
    return median(np.diff(times)[2:-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    parser.add_argument("--measure", action="store_true", help="time a step, an item and a picture here")
    args = parser.parse_args()
    plan = read_plan(args.plan)
    if args.measure:
        with stage_environment(), ProcessPoolExecutor(1, get_context("spawn")) as fresh:
            plan.write("units", fresh.submit(units, plan).result())
    else:
        plan.write("power", statement(plan))
