"""Render validation quadruples that show held-out objects, as the demo does, from a stream of their own.

`python -m training.held_out_scenes --out DIR --quadruples N` writes shards as `tellapart.builders.rendered.training_scenes` does,
at the demo's size and samples. They say how training carries over to colours that an object was never seen in,
without a look at the demo.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tellapart.builders.rendered.grammar import ASPECTS
from tellapart.builders.rendered.quadruple import Key, Quadruple, draw
from tellapart.builders.rendered.render import Settings, render
from tellapart.builders.rendered.training_scenes import record
from tellapart.builders.rendered.verify import check
from tellapart.errors import DataError

__all__ = ["held_out_quadruple", "main"]

MAX_ATTEMPTS = 60
ROWS = 32


def held_out_quadruple(seed: int, number: int, size: int) -> Quadruple:
    """Return the first accepted draw of the test stream for a number; aspects are dealt in turn.

    Raises:
        DataError: no draw was accepted.

    >>> any(noun.held_out for noun in held_out_quadruple(3, 0, 48).nouns[0] + held_out_quadruple(3, 0, 48).nouns[1])
    True
    """
    aspect = ASPECTS[number % len(ASPECTS)]
    for attempt in range(MAX_ATTEMPTS):
        quadruple = draw(Key("test", seed, aspect, number, attempt, "minimal", "yes"))
        if check(quadruple, size) is None:
            return quadruple
    raise DataError(f"held_out_quadruple({seed}, {number}): no draw of {MAX_ATTEMPTS} was accepted; change the seed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    >>> main([])
    Traceback (most recent call last):
    SystemExit: 2
    """
    parser = argparse.ArgumentParser(prog="python -m training.held_out_scenes", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quadruples", type=int, default=96)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--size", type=int, default=Settings().size)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for shard, start in enumerate(range(0, options.quadruples, ROWS)):
        numbers = range(start, min(start + ROWS, options.quadruples))
        drawn = [held_out_quadruple(options.seed, number, options.size) for number in numbers]
        pixels = [
            [render(scene, Settings(size=options.size, seed=number)) for scene in quadruple.scenes]
            for number, quadruple in zip(numbers, drawn, strict=True)
        ]
        np.save(options.out / f"shard-{shard:05d}.npy", np.array(pixels, np.uint8))
        lines = [json.dumps(record(quadruple, row)) for row, quadruple in enumerate(drawn)]
        (options.out / f"shard-{shard:05d}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
