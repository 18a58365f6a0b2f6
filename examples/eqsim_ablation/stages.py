"""The stages of the ablation, in order: each leaves a piece of the record, and can be killed and done again."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from examples.eqsim_ablation.pieces import measure
from examples.eqsim_ablation.plan import Method, Plan
from tellapart.benchmarks.find import load_pairs
from tellapart.builders.pipeline import build
from tellapart.data.atomic import atomic_file
from tellapart.data.rows import read_jsonl
from tellapart.errors import RunError, require
from tellapart.models.compact.dual_encoder import CONFIG, TOKENIZER, WEIGHTS
from tellapart.models.find import find_model
from tellapart.models.torch.backend import import_torch
from tellapart.records.machine import this_machine, versions
from tellapart.training.config import TrainConfig
from tellapart.training.data.duplicates import find_leaks, refuse_leaks
from tellapart.training.data.rows import read_rows
from tellapart.training.run_files import NOT_TERMS, replace_folder
from tellapart.training.training_run import run_training
from tellapart_render.training_rows import write_training_rows

#: The C library keeps memory, in large pages, in place of giving it back and clearing it again: a step takes
#: 8 % less time, measuring a third less, and every bit is the same.
_MEMORY = {"hugetlb": 1, "mmap_max": 0, "trim_threshold": 1 << 34, "top_pad": 1 << 28}


@contextmanager
def stage_environment() -> Iterator[None]:
    """Set memory and threads of the processes that are started inside: sums are the same on every machine of a kind."""
    memory = ":".join(f"glibc.malloc.{name}={value}" for name, value in _MEMORY.items())
    before = dict(os.environ)
    os.environ |= {"OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": memory, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its piece of the record, what makes it, a file that it needs; those of one `phase` are independent."""

    phase: str
    name: str
    work: Callable[[], dict[str, Any]]
    needs: Path | None = None
    device: str = "cpu"

    def done(self, plan: Plan) -> bool:
        """Whether its piece is in the record, and its files are here if later stages read them."""
        return plan.piece(self.name).exists() and (self.needs is None or self.needs.exists())

    def perform(self, plan: Plan) -> None:
        """Do it, or go on with it, and write its piece."""
        torch = import_torch()
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(self.device == "cuda")
        piece = self.work()
        plan.write(self.name, piece | facts(self.device) | piece)  # a set that is rendered again keeps its facts


def facts(device: str = "cpu") -> dict[str, Any]:
    """Return the machine and the versions that a piece was made with."""
    return {"machine": this_machine(device).model_dump(mode="json"), "versions": versions()}


def stages(plan: Plan) -> Iterator[Stage]:
    """Yield all stages in the order in which they are needed: some seeds of every row, then the others of all."""
    for name in (*plan.train, "tuning"):
        made = "ablation_rows.jsonl" if name in plan.train else "card.json"
        yield Stage("sets", f"set-{name}", partial(_make_set, plan, name), plan.work / "sets" / name / made)
    folder = None if plan.start.get("model") else plan.start_folder
    yield Stage("start", "start", partial(_start, plan), folder)
    base, few = plan.methods[0], min(plan.seeds_first or plan.seeds, plan.seeds)
    yield from _tuning_stages(plan, base)  # its learning rate is that of others
    for name in plan.tests:  # no stage before these reads the test sets
        card = plan.work / "sets" / name / "card.json"
        yield Stage("tests", f"set-{name}", partial(_make_set, plan, name), card)
    yield Stage("measure", "measured-start", partial(_measure_start, plan))
    for method in plan.in_order:
        if method is not base:
            yield from _tuning_stages(plan, method)
    for method, seed in product(plan.in_order, range(few)):
        yield _run_stage(plan, method, method, seed)
    for check in plan.checks:
        for (row, checked), seed in product(plan.checked_rows(check), range(check.seeds)):
            yield _run_stage(plan, checked, row, seed)
    for seed, method in product(range(few, plan.seeds), plan.in_order):
        yield _run_stage(plan, method, method, seed)
    first = replace(plan, tests=plan.tests[:1])  # some runs are made again, for squares of scores on the first set
    yield Stage("squares", "squares-start", partial(measure, first, plan.model))
    for seed, row in product(range(few), plan.in_order):
        if row.name in plan.first:
            yield Stage("squares", f"squares-{row.name}-{seed}", partial(_run, first, row, row, seed, "again"))


def _tuning_stages(plan: Plan, method: Method) -> Iterator[Stage]:
    phase = "first tuning" if method is plan.methods[0] else "tuning"
    for number in range(len(method.choices)):
        yield Stage(phase, f"tune-{method.name}-{number}", partial(_tune, plan, method, number))


def _run_stage(plan: Plan, method: Method, tuned: Method, seed: int) -> Stage:
    work = partial(_run, plan, method, tuned, seed)
    return Stage("runs", f"run-{method.name}-{seed}", work, device=plan.device(seed))


def chosen(plan: Plan, method: Method) -> float | None:
    """Return the value of a row's number that did best on the tuning set; None where nothing is tuned."""
    pieces = [plan.read(f"tune-{method.name}-{number}") for number in range(len(method.choices))]
    return max(pieces, key=lambda piece: piece["best"])["value"] if pieces else None


def _make_set(plan: Plan, name: str) -> dict[str, Any]:
    """Render a set, if it is not there, and write the rows of one that is trained on."""
    folder, began, there = plan.work / "sets" / name, time.process_time(), None
    if not (folder / "card.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        there = build(plan.sets[name], folder).resumed
    rendering = time.process_time() - began if there == 0 else None  # of a set that was rendered in one go
    if name in plan.train:
        if not (folder / "rows.jsonl").exists():
            write_training_rows(folder)
        add_units(folder)
    pairs, piece = load_pairs(f"folder:{folder}"), f"set-{name}"
    made = {"items": len(pairs), "cpu_seconds": rendering, "pairs": pairs.fingerprint()}
    if not plan.piece(piece).exists():
        return made
    if plan.read(piece)["pairs"] != made["pairs"]:
        raise RunError(
            f"{folder}: its pairs have the fingerprint {made['pairs']}, and {plan.piece(piece)} names "
            f"{plan.read(piece)['pairs']}: this machine or this version renders other pictures; delete the record's "
            "pieces to begin again"
        )
    return plan.read(piece)


def add_units(folder: Path) -> None:
    """Write a set's rows again, with units: where a false caption differs, two words on either side.

    Captions that name a place are left out: of two sides that differ in a count, half of them are true of both.
    """
    lines = []
    for _, row in read_jsonl(folder / "captions.jsonl"):
        units = (_differing(row["caption"].split(), false.split()) for false in row["negative_captions"])
        lines.append(json.dumps(row | {"units": [unit for unit in units if all(unit)]}) + "\n")
    with atomic_file(folder / "ablation_rows.jsonl") as draft:
        draft.write_text("".join(lines), encoding="utf-8")


def _differing(true: list[str], false: list[str], around: int = 2) -> tuple[str, str]:
    """Return the differing words of two captions with some of their neighbours."""
    shortest = min(len(true), len(false))
    first = next((k for k in range(shortest) if true[k] != false[k]), shortest)
    last = next((k for k in range(shortest - first) if true[-1 - k] != false[-1 - k]), shortest - first)
    begin, end = max(0, first - around), max(0, last - around)
    return " ".join(true[begin : len(true) - end]), " ".join(false[begin : len(false) - end])


def _start(plan: Plan) -> dict[str, Any]:
    """Train the start, if it is not a given folder, and keep it in the record."""
    _refuse_leaks(plan, ["tuning"])
    trained: dict[str, Any] = {}
    if not plan.start.get("model"):
        trained = _train(plan.starting(), plan.work / "start")
        _keep_start(plan.work / "start" / "model", plan.start_folder)
    piece = trained | {"fingerprint": find_model(plan.model).fingerprint}
    if plan.piece("start").exists() and plan.read("start")["fingerprint"] != piece["fingerprint"]:
        shutil.rmtree(plan.start_folder, ignore_errors=True)  # else it would be the start of the next call
        raise RunError(
            f"{plan.piece('start')} is of other weights than {plan.model}: delete the pieces of the old start "
            "(start.json, measured-start.json, tune-*.json, run-*.json), or bring its folder"
        )
    return piece


def _keep_start(model: Path, folder: Path) -> None:
    """Copy a model to the record, its matrices in half precision, which the rows then start from: half the bytes."""
    safetensors = require("safetensors.torch", extra="train")
    tensors = safetensors.load_file(model / WEIGHTS)
    with replace_folder(folder) as draft:
        draft.mkdir()
        for name in (CONFIG, TOKENIZER):
            shutil.copy(model / name, draft)
        halves = {name: value.half() if value.ndim > 1 else value for name, value in tensors.items()}
        safetensors.save_file(halves, draft / WEIGHTS)


def _measure_start(plan: Plan) -> dict[str, Any]:
    """Measure the start on the test sets, none of whose pictures may be trained on."""
    return {"alike": _refuse_leaks(plan, plan.tests), **measure(plan, plan.model)}


def _refuse_leaks(plan: Plan, names: Sequence[str]) -> int:
    """Refuse sets whose pictures are trained on; return how many look alike, as scenes of other draws may."""
    rows = read_rows([str(plan.work / "sets" / name / "ablation_rows.jsonl") for name in plan.train], Path())
    leaks = find_leaks(rows, [f"folder:{plan.work / 'sets' / name}" for name in names])
    refuse_leaks([replace(leak, alike=()) for leak in leaks])
    return sum(len(leak.alike) for leak in leaks)


def _train(config: TrainConfig, out: Path) -> dict[str, Any]:
    """Train, or go on; return the record's facts. Seconds of a run that was stopped are not known."""
    began = time.process_time()
    done = run_training(config, Path(), out, resume=(out / "run.json").exists())
    seconds = None if done.resumed else {"training": round(time.process_time() - began, 1)}
    history = [[step, round(value, 4)] for step, value in done.state.history]
    best = {"best_step": done.state.best_step, "best": round(done.state.best or 0.0, 6)}
    return {"steps": done.state.step, **best, "history": history, "terms": terms(out), "cpu_seconds": seconds}


def terms(out: Path) -> dict[str, float]:
    """Return the mean of each term of the loss over all steps, and the scale at the end."""
    steps = [line for _, line in read_jsonl(out / "log.jsonl") if "total" in line]
    names = [name for name in steps[0] if name not in {*NOT_TERMS, "total"}]
    return {name: round(fmean(line[name] for line in steps), 6) for name in names} | {"scale": steps[-1]["scale"]}


def _tune(plan: Plan, method: Method, number: int) -> dict[str, Any]:
    value, out = method.choices[number], plan.work / "runs" / f"tune-{method.name}-{number}"
    config = plan.fine_tuning(method, 0, value, _rate(plan, method))
    shorter = config.optimiser.model_copy(update={"steps": plan.tuning_steps})
    trained = _train(config.model_copy(update={"optimiser": shorter}), out)
    _delete_weights(out)
    return {"row": method.name, "value": value, **trained}


def _rate(plan: Plan, method: Method) -> float | None:
    """Return the learning rate that was best for the first row; None for rows that tune their own."""
    own = "optimiser.learning_rate" in method.tune or method is plan.methods[0]
    return None if own else chosen(plan, plan.methods[0])


def _run(plan: Plan, method: Method, tuned: Method, seed: int, folder: str = "runs") -> dict[str, Any]:
    """Fine-tune and measure a row with one seed and the number that was best for `tuned`."""
    out, value = plan.work / folder / f"{method.name}-{seed}", chosen(plan, tuned)
    trained = _train(plan.fine_tuning(method, seed, value, _rate(plan, tuned)), out)
    began = time.process_time()
    measured = measure(plan, f"compact:{out / 'model'}", plan.device(seed))
    if trained["cpu_seconds"] is not None:
        trained["cpu_seconds"]["measuring"] = round(time.process_time() - began, 1)
    _delete_weights(out)
    return {"row": method.name, "seed": seed, "value": value if method.tune else None, **trained, **measured}


def _delete_weights(out: Path) -> None:
    for folder in ("checkpoints", "best", "model"):
        shutil.rmtree(out / folder, ignore_errors=True)
