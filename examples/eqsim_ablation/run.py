"""The whole ablation in pieces of minutes: what is next is done, and every piece is kept in the record.

python -m examples.eqsim_ablation.run --minutes 10     go on for ten minutes; safe to kill at any moment
python -m examples.eqsim_ablation.run --at-once 2      two stages side by side, each on a core of its own
python -m examples.eqsim_ablation.run --rows eqsim      this row and the first, before the others
python -m examples.eqsim_ablation.run --device cuda     the seeds of the plan's `gpu_seeds`, after the others' tuning
python -m examples.eqsim_ablation.run --list           what is done and what is not
python -m examples.eqsim_ablation.run --page           the pages and the findings' index, from the pieces so far
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from examples.eqsim_ablation.plan import HERE, Plan, read_plan
from examples.eqsim_ablation.stages import Stage, stage_environment, stages
from tellapart.data.atomic import take_lock


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.toml", help="of sets, start, rows and seeds")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--at-once", type=int, default=1, help="stages that are done side by side, a core each")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="these alone, and the first: eqsim,siglip")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="do the stages of this device")
    parser.add_argument("--list", action="store_true", help="list the stages")
    parser.add_argument("--page", action="store_true", help="write the page and its picture")
    args = parser.parse_args(arguments)
    plan = read_plan(args.plan, args.rows)
    if args.list:
        marks = ((("done" if stage.done(plan) else "    "), stage.name) for stage in stages(plan))
        sys.stdout.write("".join(f"{mark} {name}\n" for mark, name in marks))
    if args.page:
        from examples.eqsim_ablation.page import write_ablation  # they read much, which no stage needs
        from examples.findings.pages import index_page

        write_ablation(read_plan(args.plan))
        index_page()
    if args.list or args.page:
        return 0
    return go_on(plan, time.monotonic() + 60 * args.minutes, args.at_once, args.device)


def go_on(plan: Plan, until: float, at_once: int = 1, device: str = "cpu") -> int:
    """Do a device's stages in processes of their own, phase after phase, until all are done or the clock says so."""
    with stage_environment():
        for _, phase in groupby(stages(plan), key=lambda stage: stage.phase):
            left = [stage for stage in phase if stage.device == device and not stage.done(plan)]
            status = _perform_all(plan, left, until, at_once)
            if status is not None:
                return status
    return 0


def _perform_all(plan: Plan, left: list[Stage], until: float, at_once: int) -> int | None:
    """Do stages side by side; return the exit status where that ends the program, else None."""
    running: dict[Any, tuple[Stage, SpawnProcess]] = {}  # by sentinel
    try:
        while left or running:
            while left and len(running) < at_once:
                stage = left.pop(0)
                sys.stderr.write(f"{stage.name}\n")
                process = get_context("spawn").Process(target=_perform, args=(plan, stage))
                process.start()
                running[process.sentinel] = stage, process
            ended = wait(list(running), max(0.0, min(until - time.monotonic(), 1e6)))
            if not ended:
                names = ", ".join(stage.name for stage, _ in running.values())
                sys.stderr.write(f"{names}: stopped; the same command goes on with it\n")
                return 0
            for sentinel in ended:
                _, process = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    return 1
    finally:
        for _, process in running.values():
            with suppress(ProcessLookupError):  # it has no group yet: it has only just begun
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
            process.join()
    return None


def _perform(plan: Plan, stage: Stage) -> None:
    os.setpgrp()  # a group of its own, so that it can be killed with its workers
    plan.work.mkdir(parents=True, exist_ok=True)
    lock = take_lock(plan.work / f".{stage.name}.lock")
    if lock is None:
        raise SystemExit(f"{stage.name} is under way in another process; wait for it, or give another `work`")
    with lock:
        stage.perform(plan)


if __name__ == "__main__":
    raise SystemExit(main())
