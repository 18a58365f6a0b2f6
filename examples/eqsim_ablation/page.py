"""The pages of the ablation: what it found and how far that reaches; its design, its power and its complete pieces."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from examples.eqsim_ablation import results
from examples.eqsim_ablation.answer import advice, answer, name_rates, other_rates
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Method, Plan
from examples.eqsim_ablation.power import CAUTION, GOAL, GPU_STEP, POWER
from examples.findings.frame import FOLDER, join_words, write_pages_text
from tellapart.data.rows import read_object
from tellapart.report.plots.style import write_picture

#: The page of what was found, its picture, and the page of the design.
PAGE = FOLDER / "eqsim-ablation.md"
PICTURE = PAGE.with_suffix(".svg")
DESIGN = FOLDER.parent / "ablation_design.md"


def write_ablation(plan: Plan) -> None:
    """Write the page, its picture, and the page of the design."""
    PAGE.write_text(page(plan), encoding="utf-8")
    DESIGN.write_text(design_page(plan), encoding="utf-8")
    runs = results.runs_of(plan, plan.methods)
    plan = name_rates(plan, other_rates(plan, runs))
    if compared := results.against_first(plan, runs):
        gains = [each.gain for each in results.check_rows(plan, runs) if each.gain is not None]
        write_picture(PICTURE, partial(results.draw_differences, plan, [*compared, *gains]))


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = results.runs_of(plan, plan.methods)
    rates = other_rates(plan, runs)
    plan = name_rates(plan, rates)
    compared, checked = results.against_first(plan, runs), results.check_rows(plan, runs)
    blocks = [results.render("introduction"), answer(plan, runs, compared, checked, rates)]
    if compared:
        alt = f"Differences from {plan.methods[0].title}, of the rows and of the checks' changes, with 95 % intervals"
        blocks.append(f"![{alt}]({PICTURE.name})")
    if any(runs.values()):
        known = {row.name for row in plan.methods}
        pairs = [(plan.row(one), plan.row(other)) for one, other in plan.contrasts if {one, other} <= known]
        gains = [each.gain for each in checked if each.gain is not None]
        rows = [*plan.methods, *(row for each in checked for row in each.rows)]
        every = {name: done for each in checked for name, done in each.runs.items()} | dict(runs)
        blocks += [results.scores_table(plan, every, rows), results.differences_table(plan, compared)]
        again = results.pairs_at_one_rate(plan, checked, pairs)
        blocks += [
            results.aspects_table(plan, runs, compared, gains),
            results.contrasts_table(results.compare_rows(plan, runs, pairs), again),
        ]
        blocks += [results.checks_text(checked)]
    blocks += [results.render("setting"), differences_there(plan), advice(plan, compared, checked, rates)]
    blocks += [f"**Next:** [Its design and its power](../{DESIGN.name})"]
    return write_pages_text(filter(None, blocks))


def design_page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = results.runs_of(plan, plan.methods)
    blocks = [
        results.render("design"),
        _power(plan),
        results.render("rows", plan=plan),
        _complete(plan, runs),
        *_machines(plan, runs),
    ]
    if any(runs.values()):
        named = name_rates(plan, other_rates(plan, runs))
        blocks += filter(
            None, [results.terms_table(plan, runs), results.reasons_table(named, runs), results.squares_table(named)]
        )
    return write_pages_text([*blocks, earlier_ablations(plan), "**Next:** [All findings](findings.md)"])


def _power(plan: Plan) -> str:
    """Write the effects that the design can see."""
    if not plan.piece("power").exists():
        return "## Power, before any result\n\nNot computed yet: `python -m examples.eqsim_ablation.power`."
    found, constants = plan.read("power"), {"CAUTION": CAUTION, "GPU_STEP": GPU_STEP, "POWER": POWER, "GOAL": GOAL}
    variance, design = found["variance"], found["chosen"]
    return results.render("power", found=found, unit=plan.read("units"), variance=variance, design=design, **constants)


def _complete(plan: Plan, runs: results.Runs) -> str:
    """Write which pieces are complete and which are missing."""
    checks = [(row.name, check.seeds) for check in plan.checks for _, row in plan.checked_rows(check)]
    pieces = {
        "sets": [f"set-{name}" for name in plan.sets],
        "start": ["start"],
        "start, measured": ["measured-start"],
        "tuning": [f"tune-{row.name}-{number}" for row in plan.methods for number in range(len(row.choices))],
        "runs": [f"run-{row.name}-{seed}" for row in plan.methods for seed in range(plan.seeds)],
        "runs of checks": [f"run-{name}-{seed}" for name, seeds in checks for seed in range(seeds)],
    }
    stages = {stage: [plan.piece(name).exists() for name in names] for stage, names in pieces.items()}
    missing = [method.title for method in plan.methods if not runs[method.name]]
    return results.render("complete", plan=plan, stages=stages, missing=missing)


def _machines(plan: Plan, runs: results.Runs) -> list[str]:
    """Say which processors made the pieces, and what that changes."""
    kinds = {"sets": "set-*", "start": "*start", "tuning": "tune-*", "runs and checks": "run-*", "again": "squares-*"}
    found = {
        kind: Counter(
            _machine(plan.read(path.stem))
            for path in plan.record.glob(f"{pattern}.json")
            if path.stem.startswith("squares-") == (kind == "again")
        )
        for kind, pattern in kinds.items()
    }
    lines = [f"| processor | {' | '.join(kinds)} |", "|---|" + "--:|" * len(kinds)]
    names = sorted(set().union(*found.values()))
    lines += [f"| {name} | {' | '.join(str(found[kind][name]) for kind in kinds)} |" for name in names]
    return ["\n".join(lines), results.render("machines") + _again(plan), *_devices(plan, runs)] if names else []


def _machine(piece: Mapping[str, Any]) -> str:
    """Return the processor, or the accelerator, that made a piece."""
    return str(piece["machine"].get("accelerator") or piece["machine"]["processor"])


def _devices(plan: Plan, runs: results.Runs) -> list[str]:
    """Compare the rows' differences from the first on the seeds of each device, and runs that both have made."""
    shares = {name: {run["seed"]: 100 * _share(plan, run) for run in mine} for name, mine in runs.items()}
    base, found = shares[plan.methods[0].name], dict[str, dict[str, float]]()
    for row in plan.methods[1:]:
        gains: dict[str, list[float]] = {"cpu": [], "cuda": []}
        for seed, share in shares[row.name].items():
            if seed in base:
                gains[plan.device(seed)].append(share - base[seed])
        if all(gains.values()):
            found[row.title] = {device: fmean(values) for device, values in gains.items()}
    if not found:
        return []
    apart = {title: abs(one["cuda"] - one["cpu"]) for title, one in found.items()}
    most = max(apart, key=lambda title: apart[title])
    seeds, mean = join_words([str(seed) for seed in plan.gpu_seeds]), fmean(apart.values())
    text = results.render("devices", plan=plan, seeds=seeds, mean=mean, found=found, largest=apart[most], most=most)
    return [text, *_made_twice(plan)]


def _made_twice(plan: Plan) -> list[str]:
    """Compare runs that were made on a GPU and, with the same seed, without one."""
    there = sorted((plan.record.parent / "gpu_seed").glob("run-*.json"))
    both = [(read_object(path), plan.read(path.stem)) for path in there if plan.piece(path.stem).exists()]
    if not both:
        return []
    changed = fmean(
        float((right_items(one, k) != right_items(other, k)).mean()) for one, other in both for k in plan.tests
    )
    moved = [100 * (_share(plan, one) - _share(plan, other)) for one, other in both]
    return [results.render("made_twice", changed=changed, moved=moved, distance=fmean(map(abs, moved)))]


def _share(plan: Plan, run: Mapping[str, Any]) -> float:
    """Return a run's group score over the items of all test sets."""
    return float(np.concatenate([right_items(run, name) for name in plan.tests]).mean())


def _again(plan: Plan) -> str:
    """Compare the first row's first run with the same run on another processor, if there is one."""
    if not plan.piece("again").exists():
        return ""
    base = plan.methods[0]
    one, other = plan.read(f"run-{base.name}-0"), plan.read("again")
    changed = sum(int((right_items(one, name) != right_items(other, name)).sum()) for name in plan.tests)
    items = sum(map(plan.items, plan.tests))
    return " " + results.render("again", plan=plan, base=base, one=one, other=other, changed=changed, items=items)


#: Rows of the runs from another start: name -> title.
_FROM_ANOTHER = {
    "ft": "FT",
    "hardneg": "HardNeg",
    "v1-all": "EqSim v1-all (softmax)",
    "v2-all": "EqSim v2-all (softmax)",
    "eqsim": "EqSim (softmax)",
}


def earlier_ablations(plan: Plan) -> str:
    """Write what came before this ablation, and why it was begun anew."""
    runs, compared = _runs_there(plan)
    if not compared:  # a plan of other test sets
        return results.render("earlier")
    rows = [
        [one.method.title, f"{one.seeds}", *map(results.write_difference, (*one.aspects.values(), one.overall))]
        for one in compared
    ]
    table = results.numbers_table(["", "seeds", *compared[0].aspects, "all"], rows)
    return (
        results.render("earlier")
        + "\n\n"
        + results.render("another_start", runs=runs, count=sum(map(len, runs.values())), table=table)
    )


def differences_there(plan: Plan) -> str:
    """Write how far the answer hangs on the start: the differences from another one that are not small."""
    runs, compared = _runs_there(plan)
    far = [f"{each.method.title} had {each.difference}" for each in compared if not each.is_small]
    if not far:
        return ""
    return results.render("there", runs=runs, plan=plan, far=join_words(far), base=compared[0].base)


def _runs_there(plan: Plan) -> tuple[results.Runs, list[results.Compared]]:
    """Return the runs of five rows from a start that was trained with other losses, and their differences."""
    rows = tuple(Method(name, title, "", {}) for name, title in _FROM_ANOTHER.items())
    other = replace(plan, record=HERE / "negclip_start", methods=rows)
    runs = results.runs_of(other, rows)
    return runs, results.against_first(other, runs)
