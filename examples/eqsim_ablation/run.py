"""The whole ablation: render, pre-train, fine-tune every row with every seed, measure, write the record and the page.

    python -m examples.eqsim_ablation.run                       all of it; stopped, it goes on where it was
    python -m examples.eqsim_ablation.run --limit 4 --seeds 2   a quick look: few steps, the page is printed
    python -m examples.eqsim_ablation.run --page                the page alone, from the record

Weights are chosen on the validation scenes; the test pairs (`demo`) are measured once a run, after it. Pictures that
are shared by training, validation and test are refused.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.cost import costs
from examples.eqsim_ablation.curves import curves, drawing
from examples.eqsim_ablation.outcomes import summarise
from examples.eqsim_ablation.page import DRAWING, PAGE, RECORD, page
from examples.eqsim_ablation.plan import SETS, Method, fine_tuning, methods, pretraining
from tellapart.benchmarks.find import load_pairs
from tellapart.catalog import DEFAULT_MODEL
from tellapart.models.find import find_model
from tellapart.models.scoring import score
from tellapart.models.store import EmbeddingStore
from tellapart.models.torch_backend import import_torch
from tellapart.train.config import TrainConfig
from tellapart.train.leaks import find_leaks, refuse_leaks
from tellapart.train.rows import TrainingRows, read_rows
from tellapart.train.training_run import run_training

__all__ = ["Place", "main"]

#: Rows whose deviations are drawn, beside the start's.
_DRAWN = ("ft", "cyclip", "eqsim", "eqsim-cosines")

#: Rows whose cost is measured.
_TIMED = ("ft", "eqsim", "cyclip")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = _parser().parse_args(arguments)
    if args.page:
        _write(json.loads(RECORD.read_text(encoding="utf-8")))
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes to come: sums are then the same on every machine of a kind
    _one_thread()
    work: Path = args.work
    rows = _render(work, args.test, args.jobs)
    name = _train(pretraining(work), work / _folder("pretrain", args.limit), args.limit)
    runs = [(method, seed) for seed in range(args.seeds) for method in methods()]
    _run_all(runs, Place(work, name, args.test, args.limit), args.jobs)
    record = _record(runs, Place(work, name, args.test, args.limit), rows)
    if args.limit is None:
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        _write(record)
    else:
        sys.stdout.write(page(record))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/eqsim_ablation"), help="folder of sets and runs")
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, help="steps a run")
    parser.add_argument("--test", default="demo", help="the test pairs")
    parser.add_argument("--page", action="store_true", help="write the page again from the record")
    return parser


def _one_thread() -> None:
    import_torch().set_num_threads(1)


def _render(work: Path, test: str, jobs: int) -> TrainingRows:
    """Render the sets that are not there, and refuse pictures that two of training, validation and test share."""
    for name, recipe in SETS.items():
        if not (work / "sets" / name).exists():
            from tellapart.builders.pipeline import build

            build(recipe, work / "sets" / name, workers=jobs)
    rows = read_rows(["sets/train"], work)
    refuse_leaks(find_leaks(rows, [test, f"folder:{work / 'sets' / 'validation'}"]))
    refuse_leaks(find_leaks(read_rows(["sets/validation"], work), [test]))
    return rows


def _folder(name: str, limit: int | None) -> str:
    return name if limit is None else f"{name}-first-{limit}"


def _train(config: TrainConfig, out: Path, limit: int | None) -> str:
    """Train, go on, or skip a finished run; return the model's name."""
    if not (out / "history.json").exists():
        begin = time.process_time()
        done = run_training(config, Path(), out, resume=out.exists(), limit=limit)
        history = {
            "best_step": done.state.best_step,
            "history": [[step, round(value, 4)] for step, value in done.state.history],
            "seconds": None if done.resumed else round(time.process_time() - begin, 1),
        }
        (out / "history.json").write_text(json.dumps(history), encoding="utf-8")
    return f"local-dir:{out / 'model'}"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders, start and test pairs of the runs.

    Attributes:
        work: the folder of sets and runs.
        start: name of the common start.
        test: name of the test pairs.
        limit: steps a run, if not all.

    >>> Place(Path("work"), "local-dir:start", "demo", None).of(methods()[0], 3).name
    'ft-3'
    """

    work: Path
    start: str
    test: str
    limit: int | None

    def of(self, method: Method, seed: int) -> Path:
        """Return the folder of a run.

        >>> Place(Path("work"), "local-dir:start", "demo", 4).of(methods()[0], 3)
        PosixPath('work/runs/ft-3-first-4')
        """
        return self.work / "runs" / _folder(f"{method.name}-{seed}", self.limit)


def _run_all(runs: Iterable[tuple[Method, int]], place: Place, jobs: int) -> None:
    """Do every run that is not done, some at a time."""
    missing = [(method, seed) for method, seed in runs if not (place.of(method, seed) / "scores.npy").exists()]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        futures = [pool.submit(_run_one, method, seed, place) for method, seed in missing]
        for number, done in enumerate(as_completed(futures), start=1):
            sys.stderr.write(f"{number}/{len(futures)} {done.result()}\n")


def _run_one(method: Method, seed: int, place: Place) -> str:
    """Do one run, keep its log and its scores, and delete its weights."""
    out = place.of(method, seed)
    config = fine_tuning(method, seed, place.work, place.start)
    scores = _scores(_train(config, out, place.limit), place.test)
    draft = out / "draft.npy"
    np.save(draft, scores)
    draft.rename(out / "scores.npy")
    for folder in ("checkpoints", "best", "model"):
        shutil.rmtree(out / folder, ignore_errors=True)
    return out.name


def _scores(name: str, test: str) -> NDArray[np.float32]:
    """Return a model's scores of the test pairs, float32 `(item, 2, 2)`."""
    return score(find_model(name), load_pairs(test), store=EmbeddingStore(None)).scores.values


def _record(runs: Sequence[tuple[Method, int]], place: Place, rows: TrainingRows) -> dict[str, Any]:
    """Gather the outcomes of all runs, without any path of this machine."""
    before, bundled = _scores(place.start, place.test), _scores(DEFAULT_MODEL, place.test)
    outcomes, drawn = [], {"start": [before]}
    for method, seed in runs:
        out = place.of(method, seed)
        scores = np.load(out / "scores.npy", allow_pickle=False)
        history = json.loads((out / "history.json").read_text(encoding="utf-8"))
        outcome = {"method": method.name, "seed": seed, **summarise(scores), **history, "parts": _parts(out)}
        outcomes.append(outcome)
        if method.name in _DRAWN:
            drawn.setdefault(method.title, []).append(scores)
    timed = {method.name: method.loss for method, _ in runs if method.name in _TIMED}
    start = place.work / _folder("pretrain", place.limit) / "history.json"
    return {
        "about": {
            "packages": {package: version(package) for package in ("tellapart", "torch", "open_clip_torch")},
            "python": platform.python_version(),
            "machine": platform.machine(),
            "threads": 1,
        },
        "test": place.test,
        "train": {"pairs": len(rows), "items": len(rows.items), "sha256": rows.fingerprint},
        "start": summarise(before) | json.loads(start.read_text(encoding="utf-8")),
        "bundled": summarise(bundled),
        "runs": outcomes,
        "curves": curves(drawn),
        "costs": costs(place.start, rows, timed, rounds=5 if place.limit is None else 1),
    }


def _parts(out: Path) -> dict[str, list[float]]:
    """Return the mean of every part of the loss over the first and over the last quarter of the steps."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    steps: list[Mapping[str, float]] = [line for line in lines if "total" in line]
    quarter = max(1, len(steps) // 4)
    names = [name for name in steps[0] if name not in {"step", "gradient_norm", "learning_rate", "scale"}]
    return {
        name: [float(f"{np.mean([line[name] for line in some]):.4g}") for some in (steps[:quarter], steps[-quarter:])]
        for name in names
    }


def _write(record: Mapping[str, Any]) -> None:
    PAGE.write_text(page(record), encoding="utf-8")
    DRAWING.write_text(drawing(record["curves"]), encoding="utf-8")


if __name__ == "__main__":
    main()
