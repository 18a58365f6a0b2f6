"""The page of the ablation's design: what could be seen before any run, the rows, and which pieces are complete."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from examples.eqsim_ablation import results
from examples.eqsim_ablation.answer import name_rates, other_rates
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Method, Plan
from examples.eqsim_ablation.power import CAUTION, GOAL, GPU_STEP, POWER
from examples.findings.frame import FOLDER, join_words, write_pages_text
from tellapart.data.rows import read_object

#: The page that is made of the plan and of the record.
DESIGN = FOLDER.parent / "ablation_design.md"


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
    found, unit = plan.read("power"), plan.read("units")
    variance = found["variance"]
    names = ("alone", "holm", "careful", "careful_holm")
    lines = ["| seeds | items | one test | of all | one, thrice the variance | of all | false alarms | core | GPU |"]
    lines.append("|" + "--:|" * 9)
    for row in found["table"]:
        cells = [f"{row['seeds']}", f"{row['items']:,}", *(f"{100 * row[name]:.1f}" for name in names)]
        cells += [f"{100 * row['wrong']:.1f} %", f"{row['cpu_hours']:.0f} h", f"{row['gpu_hours']:.1f} h"]
        lines.append(f"| {' | '.join(cells)} |")
    constants = {"CAUTION": CAUTION, "GPU_STEP": GPU_STEP, "POWER": POWER, "GOAL": GOAL}
    values = {"found": found, "unit": unit, "variance": variance, "table": "\n".join(lines)}
    return results.render("power", **constants, **values, design=found["chosen"])


def _complete(plan: Plan, runs: results.Runs) -> str:
    """Write which pieces are complete and which are missing."""

    def have(names: Sequence[str]) -> str:
        return f"{sum(plan.piece(name).exists() for name in names)} of {len(names)}"

    tuned = [f"tune-{row.name}-{number}" for row in plan.methods for number in range(len(row.choices))]
    lines = ["| stage | done |", "|---|---|"]
    lines += [f"| sets | {have([f'set-{name}' for name in plan.sets])} |", f"| start | {have(['start'])} |"]
    lines[-1] += f"\n| start, measured | {have(['measured-start'])} |\n| tuning | {have(tuned)} |"
    lines += [f"| runs | {sum(map(len, runs.values()))} of {len(plan.methods) * plan.seeds} |"]
    checks = [(row.name, check.seeds) for check in plan.checks for _, row in plan.checked_rows(check)]
    lines += [f"| runs of checks | {have([f'run-{name}-{seed}' for name, seeds in checks for seed in range(seeds)])} |"]
    text = "## Complete pieces\n\n" + "\n".join(lines)
    missing = [method.title for method in plan.methods if not runs[method.name]]
    if len(missing) == len(plan.methods):
        return text + "\n\n**No row was run yet**: results will stand below this line, and there are none."
    return text + (f"\n\nNot run yet: {'; '.join(missing)}." if missing else "")


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
    changed = [
        fmean(float((right_items(one, name) != right_items(other, name)).mean()) for name in plan.tests)
        for one, other in both
    ]
    moved = [100 * (_share(plan, one) - _share(plan, other)) for one, other in both]
    return [
        f"{len(both)} of the runs were made on both, with the same seed: {100 * fmean(changed):.1f} % of a run's "
        f"outcomes differ, and its group score is {fmean(map(abs, moved)):.1f} points from the other's "
        f"({fmean(moved):+.1f} with the sign)."
    ]


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
    before, after = (
        join_words([f"{100 * run['sets'][name]['group_score']:.1f}" for name in plan.tests]) for run in (one, other)
    )
    return (
        f" {base.title}'s first run, made on {one['machine']['processor']} and again on "
        f"{other['machine']['processor']}, has group scores of {before}, and {after}: {changed} of "
        f"{sum(map(plan.items, plan.tests)):,} outcomes differ."
    )


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
