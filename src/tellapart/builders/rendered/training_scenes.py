"""Render training quadruples into shards: same generator as the demo, other seeds, no held-out pair.

`python -m tellapart.builders.rendered.training_scenes --out DIR --quadruples N --workers W` writes, for each shard, pixels
`shard-00000.npy` (uint8 `(n, 2, size, size, 3)`) and records `shard-00000.jsonl`, one line for each row. The records
are renamed into place last: a shard whose `.jsonl` exists is whole, so shards can be read while others are rendered,
and a second call with the same arguments goes on where the first one stopped.
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
from tellapart.builders.rendered.phrases import foils, truths
from tellapart.builders.rendered.quadruple import Key, Quadruple, draw
from tellapart.builders.rendered.render import Settings, render
from tellapart.builders.rendered.verify import check
from tellapart.builders.rendered.workers import spread
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError

__all__ = ["Plan", "main", "record", "training_quadruple", "write_shard"]

MAX_ATTEMPTS = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """What to render: a folder, how many quadruples, how they are drawn, and how pictures are made.

    `aspects` are dealt in turn; naming one twice makes it twice as frequent.

    >>> Plan(Path("out"), 100).shards
    2
    """

    out: Path
    quadruples: int
    seed: int = 1
    aspects: tuple[Aspect, ...] = ASPECTS
    size: int = 112
    samples: int = 4
    depth: int = 5
    rows: int = 64

    @property
    def shards(self) -> int:
        """Number of shards.

        >>> Plan(Path("out"), 64).shards
        1
        """
        return -(-self.quadruples // self.rows)


def training_quadruple(plan: Plan, number: int, funnel: Counter[str]) -> Quadruple:
    """Return the first accepted draw of the training stream for a number, counting what was rejected.

    Every fourth one uses the paper's looser wording, which alone lets a count be 1.

    Raises:
        DataError: no draw was accepted.
        MissingDependencyError: Mitsuba is not installed.

    >>> training_quadruple(Plan(Path("out"), 10, size=48), 3, Counter()).key.index
    3
    """
    aspect = plan.aspects[number % len(plan.aspects)]
    wording = "paper" if (number // len(plan.aspects)) % 4 == 3 else "minimal"
    for attempt in range(MAX_ATTEMPTS):
        quadruple = draw(Key("train", plan.seed, aspect, number, attempt, wording, "no"))  # type: ignore[arg-type]
        reason = check(quadruple, plan.size)
        funnel[reason or "accepted"] += 1
        if reason is None:
            return quadruple
    raise DataError(
        f"training_quadruple({number}): no draw of {MAX_ATTEMPTS} was accepted: {dict(funnel)}; change the seed"
    )


def record(quadruple: Quadruple, row: int) -> dict[str, Any]:
    """Return a shard's line: id, row in the shard's pixels, aspect, change, and for both sides captions and foils.

    `sides[k].captions` are all true of picture k (its own caption first), `sides[k].foils` all false.

    >>> sorted(record(draw(Key("test", 0, "counting", 0)), 0))
    ['aspect', 'change', 'id', 'key', 'row', 'sides']
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
        quadruple = training_quadruple(plan, number, funnel)
        settings = Settings(plan.size, plan.samples, plan.depth, seed=number)
        for side in (0, 1):
            pixels[row, side] = render(quadruple.scenes[side], settings)
        records.append(json.dumps(record(quadruple, row)))
    for path, write in (
        (plan.out / f"shard-{shard:05d}.npy", lambda f: np.save(f, pixels)),
        (lines, lambda f: f.write(("\n".join(records) + "\n").encode())),
    ):
        with atomic_file(path) as draft, draft.open("wb") as file:
            write(file)
    return funnel


def main(arguments: Sequence[str] | None = None) -> int:
    """Render training shards from the command line; returns the exit status.

    >>> main(["--out", "unused", "--quadruples", "0"])
    0
    """
    parser = argparse.ArgumentParser(prog="python -m tellapart.builders.rendered.training_scenes", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quadruples", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--aspects", default=",".join(ASPECTS), help="dealt in turn; repeat one to have more of it")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--samples", type=int, default=4)
    chosen = parser.parse_args(arguments)
    aspects = tuple(chosen.aspects.split(","))
    unknown = set(aspects) - set(ASPECTS)
    if unknown:
        raise DataError(f"--aspects {chosen.aspects}: no such aspect {sorted(unknown)}; use {', '.join(ASPECTS)}")
    plan = Plan(chosen.out, chosen.quadruples, chosen.seed, aspects, chosen.size, chosen.samples)
    if plan.shards == 0:
        return 0
    plan.out.mkdir(parents=True, exist_ok=True)
    total: Counter[str] = Counter()
    for funnel in spread(partial(write_shard, plan), range(plan.shards), chosen.workers, "shards"):
        total += funnel
    sys.stderr.write(f"{plan.out}: {plan.shards} shards; drawn in this call: {dict(sorted(total.items()))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
