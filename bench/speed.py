"""Wall time and processor seconds of whole commands: tellapart, mteb, CLIP_benchmark, UniBench and open_clip's loop.

    python bench/speed.py --annotations DIR                                            # all, in three rounds
    python bench/speed.py --annotations DIR --items 40 --rounds 1 --record trial.json  # to see that it works
    python bench/speed.py --annotations DIR --tools tellapart --record trial.json      # this project alone

Every tool evaluates the same sets (`shapes.py`) with the same random model, from local files, in its own environment
(`rivals.py`, `drivers/`). Cold: the tool has seen neither model nor sets. Warm: the same command again; tellapart
measures again from its store, the others find their results, and a loop computes all. Tools take turns, and the median
of each number is recorded. The bound is the model alone (`drivers/forward_driver.py`).
"""

import statistics
import sys
import time
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import rivals
from record import circumstances, run_bench
from shapes import GROUPS, distinct, make_sets
from typer import Option

from tellapart.evaluation.run import compare_precisions
from tellapart.records.machine import versions
from tellapart.records.samples import read_samples

MODELS = ("ViT-B-32", "ViT-S-32")
_tell = partial(print, file=sys.stderr, flush=True)
Tool = StrEnum("Tool", {name: name for name in rivals.TOOLS})
Group = StrEnum("Group", {name: name for name in GROUPS})


def measure(
    annotations: Annotated[Path, Option(help="folder of published annotations: python ci/published_files.py DIR")],
    *,
    items: Annotated[int, Option(help="of each set")] = 300,
    rounds: Annotated[int, Option(help="of all tools in turn; medians are recorded")] = 3,
    models: Annotated[list[str], Option(help="architectures of open_clip")] = MODELS,  # type: ignore[assignment]
    tools: Annotated[list[Tool], Option()] = rivals.TOOLS,  # type: ignore[assignment]
    groups: Annotated[list[Group], Option(help="of sets")] = tuple(GROUPS),  # type: ignore[assignment]
    device: Literal["cpu", "cuda"] = "cpu",
    seconds: Annotated[float, Option(help="no group of sets starts after them")] = 1e9,
) -> dict[str, Any]:
    """Measure every architecture on every group of sets."""
    record = circumstances(device)
    record["command"] = record["command"].replace(str(annotations), "DIR")
    record["machine"]["device"] = device
    packages = ("tellapart", "torch", "open_clip_torch", "numpy", "pillow")
    record |= {"items": items, "versions": versions(packages), "left_out": {}, "runs": []}
    usable = _usable(tools, record)
    folder, work = (rivals.cache() / f"{kind}-{items}" for kind in ("sets", "work"))
    sets = make_sets(folder, items, annotations)
    began, cores = time.perf_counter(), record["machine"]["cores"]
    for architecture, group in product(models, groups):
        if time.perf_counter() - began > seconds:
            record["left_out"][f"{architecture} on {group}"] = f"{seconds:g} seconds were over"
            continue
        extra = dict(zip(("images", "texts"), distinct(sets, GROUPS[group]), strict=True))
        job = rivals.Job(folder, GROUPS[group], rivals.make_model(architecture), work, cores, device, extra)
        record["runs"].append(_measure(job, group, usable, record["left_out"], rounds))
    return record


def _usable(tools: list[str], record: dict[str, Any]) -> list[str]:
    """Return the tools that can be had; say of the others why not."""
    for tool in (tool for tool in tools if tool in rivals.RIVALS):
        try:
            record["versions"][tool] = rivals.environment(tool)[1]
        except rivals.UnusableError as error:
            _leave_out(tool, error, record["left_out"])
    return [tool for tool in tools if tool not in record["left_out"]]


def _measure(job: rivals.Job, group: str, tools: list[str], left_out: dict[str, str], rounds: int) -> dict[str, Any]:
    """Time the bound and every tool in each round, one after the other, so that a busy minute meets all of them."""
    forwards: list[tuple[float, float, float]] = []
    runs: dict[str, list[tuple[rivals.Run, rivals.Run]]] = {}
    for turn in range(1, rounds + 1):
        forwards.append(rivals.run_forward(job))
        _tell(f"{job.model['architecture']} on {group}, round {turn} of {rounds}: forward {forwards[-1][2]:.1f} s")
        for tool in tools:
            if tool in left_out:
                continue
            try:
                if tool in rivals.RIVALS:
                    rivals.prepare(tool, job)
                cold = rivals.run_tool(tool, job, warm=False)
                warm = cold if tool.startswith("loop") else rivals.run_tool(tool, job, warm=True)
            except rivals.UnusableError as error:
                _leave_out(tool, error, left_out)
                continue
            runs.setdefault(tool, []).append((cold, warm))
            _tell(
                f"  {tool}: cold {cold.seconds:.1f} s ({cold.processor:.1f} s of processors), warm {warm.seconds:.1f} "
                f"s, accuracy {cold.accuracy}"
            )
    images, texts, processor = (round(statistics.median(column), 2) for column in zip(*forwards, strict=True))
    return {
        "model": job.model["architecture"],
        "group": group,
        **{kind: len(samples) for kind, samples in job.extra.items()},
        "rounds": rounds,
        "tools": {tool: median_of(each) for tool, each in runs.items() if tool not in left_out},
        "forward": {"images": images, "texts": texts},
        "forward_processor": processor,
        "flips": _count_flips(job) if {"tellapart", "tellapart-bfloat16"} <= runs.keys() else {},
    }


def _count_flips(job: rivals.Job) -> dict[str, Any]:
    """Return by set how many outcomes of all items bfloat16 flipped, and how far a score moved."""
    found = {}
    for name in job.names:
        lower, exact = (
            list(read_samples(rivals.state_of(tool, job) / "cold", f"folder:{name}"))
            for tool in ("tellapart-bfloat16", "tellapart")
        )
        precision = compare_precisions(lower, exact, dtype="bfloat16")
        flips = {metric: each.flipped for metric, each in precision.flips.items()}
        found[name] = {"items": precision.items, "flips": flips, "largest_difference": precision.largest_difference}
    return found


def median_of(runs: list[tuple[rivals.Run, rivals.Run]]) -> dict[str, Any]:
    """Return the medians of pairs of a cold and a warm run, each by itself, and the accuracy that the first found."""
    colds, warms = zip(*runs, strict=True)
    found = [{name: round(value, 4) for name, value in run.accuracy.items()} for run in colds]
    if any(each != found[0] for each in found):
        _tell(f"  rounds differ in accuracy; the first is recorded: {found}")
    medians = {
        name + suffix: round(statistics.median(getattr(run, field) for run in side), 2)
        for suffix, field in (("", "seconds"), ("_processor", "processor"))
        for name, side in (("cold", colds), ("warm", warms))
    }
    return {**medians, "accuracy": found[0]}


def _leave_out(tool: str, error: rivals.UnusableError, left_out: dict[str, str]) -> None:
    left_out[tool] = str(error)
    _tell(f"left out: {error}")


if __name__ == "__main__":
    run_bench(measure, "speed", "--record")
