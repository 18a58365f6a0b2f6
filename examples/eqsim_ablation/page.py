"""The pages of the ablation: what it found and how far that reaches; its design, its power and its complete pieces."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from examples.eqsim_ablation import power, results
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Method, Plan
from examples.eqsim_ablation.results import Compared, Results
from examples.findings.frame import FOLDER, render_page, write_pages_text
from tellapart.data.rows import read_object
from tellapart.report.plots.style import write_picture

#: The page of what was found, its picture, and the page of the design.
PAGE = FOLDER / "eqsim-ablation.md"
PICTURE = PAGE.with_suffix(".svg")
DESIGN = FOLDER.parent / "ablation_design.md"

#: Rows of EqSim in other forms, or of one of its parts.
_FORMS = ("eqsim-released", "eqsim-cosines", "v1-all", "v2-all", "v2-close")

#: Rows of the runs from another start: name -> title.
_FROM_ANOTHER = {
    "ft": "FT",
    "hardneg": "HardNeg",
    "v1-all": "EqSim v1-all (softmax)",
    "v2-all": "EqSim v2-all (softmax)",
    "eqsim": "EqSim (softmax)",
}


def write_ablation(plan: Plan) -> None:
    """Write the page, its picture, and the page of the design."""
    PAGE.write_text(page(plan), encoding="utf-8")
    DESIGN.write_text(design_page(plan), encoding="utf-8")
    found = Results(plan)
    if found.compared:
        write_picture(PICTURE, partial(results.draw_differences, found.plan, [*found.compared, *found.gains]))


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    found = Results(plan)
    known = {each.method.name: each for each in found.compared}
    forms = [known[name] for name in _FORMS if name in known]
    values: dict[str, Any] = {"found": found, "plan": found.plan, "base": found.base, "picture": PICTURE.name}
    values |= {"known": known, "forms": forms, "fewest": results.FEWEST, "kept": results.KEPT}
    values |= {"checks": {each.check.name: each for each in found.checked if each.gain}}
    values |= {"ranked": sorted(found.compared, key=lambda each: -abs(each.overall.value))}
    values |= {"smallest": _smallest_weights(found, forms), "there": _from_another_start(plan)}
    values |= {"scores": [*results.list_scores(found)] if any(found.runs.values()) else []}
    values |= {"aspects": [*results.list_aspects(found)] if found.compared else [], "object_change": _object_change}
    return write_pages_text([render_page(HERE / "templates", "finding", values)])


def _smallest_weights(found: Results, forms: Sequence[Compared]) -> list[float]:
    """Return the regulariser in percent of contrast, of the forms for which tuning chose the smallest weight."""
    shares = []
    for row in (each.method for each in forms):
        runs = found.runs[row.name]
        if row.tune == ("loss.beta",) and runs[0]["value"] == min(row.choices):
            terms = [run["terms"] for run in runs]
            shares.append(100 * fmean((term["v1"] + term["v2"]) / term["itc"] for term in terms))
    return shares


def _object_change(runs: results.Runs, pair: Compared) -> str:
    """Return how a row's accuracy on `demo-objects` differs, in points; the interval is over seeds."""
    ours, theirs = (
        {run["seed"]: run["kept"]["demo-objects"] for run in runs[row.name]} for row in (pair.method, pair.base)
    )
    seeds = [seed for seed in ours if seed in theirs]
    return results.write_by_seed(*([of[seed] for seed in seeds] for of in (ours, theirs)))


def design_page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    found = Results(plan)
    values: dict[str, Any] = {"plan": plan, "base": plan.methods[0], "machines": _count_machines(plan)}
    values |= {name: plan.read(name) if plan.piece(name).exists() else None for name in ("power", "units")}
    values |= {name: getattr(power, name) for name in ("CAUTION", "GPU_STEP", "POWER", "GOAL")}
    values |= {"stages": _list_pieces(plan), "missing": [row.title for row in plan.methods if not found.runs[row.name]]}
    values |= {"devices": _compare_devices(plan, found.runs), "twice": _made_twice(plan)}
    squares, changed = results.list_squares(found.plan)
    values |= {"squares": squares, "changed": changed, "reasons": results.list_reasons(found)}
    values |= {"terms": list(_list_terms(plan, found.runs)), "there": _from_another_start(plan)}
    return write_pages_text([render_page(HERE / "templates", "design", values)])


def _list_pieces(plan: Plan) -> dict[str, list[bool]]:
    """Return for each kind of pieces whether they are there."""
    checks = [(row.name, check.seeds) for check in plan.checks for _, row in plan.checked_rows(check)]
    pieces = {
        "sets": [f"set-{name}" for name in plan.sets],
        "start": ["start"],
        "start, measured": ["measured-start"],
        "tuning": [f"tune-{row.name}-{number}" for row in plan.methods for number in range(len(row.choices))],
        "runs": [f"run-{row.name}-{seed}" for row in plan.methods for seed in range(plan.seeds)],
        "runs of checks": [f"run-{name}-{seed}" for name, seeds in checks for seed in range(seeds)],
    }
    return {kind: [plan.piece(name).exists() for name in names] for kind, names in pieces.items()}


def _count_machines(plan: Plan) -> list[list[str]]:
    """Return a row of counts for each processor, or accelerator: the pieces that it made, by their kind."""
    counts = []
    for pattern in ("set-*", "*start", "tune-*", "run-*", "squares-*"):
        names = [path.stem for path in plan.record.glob(f"{pattern}.json")]
        machines = [plan.read(name)["machine"] for name in names if pattern == "squares-*" or name != "squares-start"]
        counts.append(Counter(str(machine.get("accelerator") or machine["processor"]) for machine in machines))
    return [[name, *(f"{count[name]}" for count in counts)] for name in sorted(set().union(*counts))]


def _compare_devices(plan: Plan, runs: results.Runs) -> list[tuple[str, float, float, float]]:
    """Return title and difference from the first row in points: over seeds on a CPU, on a GPU, and how far apart."""
    shares = {name: {run["seed"]: 100 * _share(plan, run) for run in mine} for name, mine in runs.items()}
    base, found = shares[plan.methods[0].name], []
    for row in plan.methods[1:]:
        gains: dict[str, list[float]] = {"cpu": [], "cuda": []}
        for seed in shares[row.name].keys() & base:
            gains[plan.device(seed)].append(shares[row.name][seed] - base[seed])
        if all(gains.values()):
            cpu, cuda = map(fmean, gains.values())
            found.append((row.title, cpu, cuda, abs(cuda - cpu)))
    return found


def _made_twice(plan: Plan) -> list[tuple[float, float]]:
    """Return the shares of outcomes that differ and the points of runs made on a GPU less those of the same seed."""
    there = sorted((plan.record.parent / "gpu_seed").glob("run-*.json"))
    both = [(read_object(path), plan.read(path.stem)) for path in there if plan.piece(path.stem).exists()]
    changed = [
        fmean(float((right_items(one, test) != right_items(other, test)).mean()) for test in plan.tests)
        for one, other in both
    ]
    moved = [100 * (_share(plan, one) - _share(plan, other)) for one, other in both]
    return list(zip(changed, moved, strict=True))


def _share(plan: Plan, run: Mapping[str, Any]) -> float:
    """Return a run's group score over the items of all test sets."""
    return float(results.outcomes(plan, [run]).mean())


def _list_terms(plan: Plan, runs: results.Runs) -> Iterator[list[str]]:
    """Yield how large each term of each row's loss was, and the scale at the end."""
    for row in plan.methods:
        if mine := [run["terms"] for run in runs[row.name]]:
            means = {name: fmean(terms[name] for terms in mine) for name in mine[0]}
            scale = means.pop("scale")
            yield [row.title, ", ".join(f"{name} {mean:.2g}" for name, mean in means.items()), f"{scale:.1f}"]


def _from_another_start(plan: Plan) -> Results:
    """Return the runs of five rows from a start that was trained with other losses."""
    rows = tuple(Method(name, title, "", {}) for name, title in _FROM_ANOTHER.items())
    return Results(replace(plan, record=HERE / "negclip_start", methods=rows, contrasts=(), checks=()))
