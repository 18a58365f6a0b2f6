"""Render training quadruples into shards: same generator as the demo, other seeds, no held-out pair.

`python -m tellapart.builders.rendered.training_scenes --out DIR --quadruples N --workers W` writes, for each shard,
pixels `shard-00000.npy` (uint8 `(n, 2, size, size, 3)`) and records `shard-00000.jsonl`, one line for each row. The
records are renamed into place last: a shard whose `.jsonl` exists is complete, so shards can be read while others are
rendered, and a second call with the same arguments goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.builders.rendered.grammar import ASPECTS, Aspect
from tellapart.builders.rendered.mitsuba import render
from tellapart.builders.rendered.phrases import foils, truths
from tellapart.builders.rendered.quadruple import Key, Quadruple, Wording
from tellapart.builders.rendered.renderer import Settings
from tellapart.builders.rendered.verify import draw_accepted
from tellapart.builders.rendered.workers import run_jobs
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError

__all__ = ["Plan", "main", "record", "write_shard"]

MAX_ATTEMPTS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """Shards to render: their folder, how many quadruples, how they are drawn, and how pictures are made.

    `aspects` are dealt in turn; naming one twice makes it twice as frequent. With `held_out`, quadruples are of the
    test stream and show held-out pairs of shape and colour; without, they are of the training stream and show none.
    """

    out: Path
    quadruples: int
    seed: int = 1
    aspects: tuple[Aspect, ...] = ASPECTS
    size: int = 112
    samples: int = 4
    depth: int = 5
    rows: int = 64
    held_out: bool = False

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.quadruples // self.rows)

    def key(self, number: int) -> Key:
        """Return the key of a quadruple's first attempt.

        Every fourth training quadruple uses the paper's looser wording, which alone lets a count be 1.
        """
        aspect = self.aspects[number % len(self.aspects)]
        if self.held_out:
            return Key("test", self.seed, aspect, number, held_out="yes")
        wording: Wording = "paper" if (number // len(self.aspects)) % 4 == 3 else "minimal"
        return Key("train", self.seed, aspect, number, wording=wording)


def record(quadruple: Quadruple, row: int) -> dict[str, Any]:
    """Return a shard's line: id, row in the shard's pixels, aspect, change, and for both sides captions and foils.

    `sides[k].captions` are all true of picture k (its own caption first), `sides[k].foils` all false.
    """
    return {
        "id": f"{quadruple.key.stream}-{quadruple.key.seed}-{quadruple.key.index:06d}",
        "row": row,
        "aspect": quadruple.key.aspect,
        "change": quadruple.change,
        "sides": [
            {
                "captions": truths(quadruple, side),
                "foils": [asdict(foil) for foil in foils(quadruple, side)],
                "objects": [each.phrase() for each in quadruple.nouns[side]],
                "relation": quadruple.facts[side].relation,
                "count": quadruple.facts[side].count,
            }
            for side in (0, 1)
        ],
        "key": asdict(quadruple.key),
    }


def write_shard(plan: Plan, shard: int) -> Counter[str]:
    """Render one shard unless it is there; return how many draws were accepted and rejected, by reason.

    Raises:
        DataError: a quadruple could not be drawn.
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_shard(Plan(Path(scratch), 1, size=48, samples=1), 0)["accepted"]
    1
    """
    funnel: Counter[str] = Counter()
    lines = plan.out / f"shard-{shard:05d}.jsonl"
    if lines.exists():
        return funnel
    numbers = range(shard * plan.rows, min((shard + 1) * plan.rows, plan.quadruples))
    pixels = np.empty((len(numbers), 2, plan.size, plan.size, 3), dtype=np.uint8)
    records = []
    for row, number in enumerate(numbers):
        quadruple, rejected = draw_accepted(plan.key(number), MAX_ATTEMPTS, plan.size)
        funnel.update(["accepted", *rejected])
        settings = Settings(plan.size, plan.samples, plan.depth, seed=number)
        for side in (0, 1):
            pixels[row, side] = render(quadruple.scenes[side], settings)
        records.append(json.dumps(record(quadruple, row)))
    with atomic_file(lines.with_suffix(".npy")) as draft, draft.open("wb") as file:
        np.save(file, pixels)
    with atomic_file(lines) as draft:
        draft.write_bytes(("\n".join(records) + "\n").encode())
    return funnel


def main(arguments: Sequence[str] | None = None) -> int:
    """Render training shards from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart.builders.rendered.training_scenes", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quadruples", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--aspects", default=",".join(ASPECTS), help="dealt in turn; repeat one to have more of it")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--samples", type=int, default=4)
    options = parser.parse_args(arguments)
    aspects = tuple(options.aspects.split(","))
    unknown = set(aspects) - set(ASPECTS)
    if unknown:
        raise DataError(f"--aspects {options.aspects}: no such aspect {sorted(unknown)}; use {', '.join(ASPECTS)}")
    plan = Plan(options.out, options.quadruples, options.seed, aspects, options.size, options.samples)
    if plan.shards == 0:
        return 0
    plan.out.mkdir(parents=True, exist_ok=True)
    total: Counter[str] = Counter()
    for funnel in run_jobs(partial(write_shard, plan), range(plan.shards), options.workers, "shards"):
        total += funnel
    sys.stderr.write(f"{plan.out}: {plan.shards} shards; drawn in this call: {dict(sorted(total.items()))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
