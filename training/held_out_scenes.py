"""Render validation quadruples that show held-out objects, as the demo does, from their own random stream.

`python -m training.held_out_scenes --out DIR --quadruples N` writes shards as
`tellapart.builders.rendered.training_scenes` does, at the demo's size and samples. They show how training carries over
to colours that an object was never seen in, without a look at the demo.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tellapart.builders.rendered.renderer import Settings
from tellapart.builders.rendered.training_scenes import Plan, write_shard

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.held_out_scenes", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quadruples", type=int, default=96)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--size", type=int, default=Settings().size)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    demo = Settings(options.size)
    plan = Plan(
        options.out,
        options.quadruples,
        options.seed,
        size=demo.size,
        samples=demo.samples,
        depth=demo.depth,
        rows=32,
        held_out=True,
    )
    for shard in range(plan.shards):
        write_shard(plan, shard)


if __name__ == "__main__":
    main()
