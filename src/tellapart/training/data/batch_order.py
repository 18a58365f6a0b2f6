"""The order of rows, and the draws for each: functions of the seed and the step alone.

So a run that is stopped goes on with the same numbers, on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tellapart.errors import DataError
from tellapart.training.data.rows import TrainingRow, TrainingRows


@dataclass(frozen=True)
class BatchOrder:
    """The batches of a run: `size` pairs a step over all ranks; `together` keeps the rows of an item in one batch."""

    rows: TrainingRows
    size: int
    seed: int
    together: bool = False
    _permutations: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.together:
            sizes = {len(item) for item in self.rows.items}
            if len(sizes) > 1 or self.size % next(iter(sizes)):
                raise DataError(
                    f"data.together: items have {' and '.join(map(str, sorted(sizes)))} rows, and a batch {self.size} "
                    "pairs; items must be of one size that divides the batch"
                )
        if len(self.rows) < self.size:
            raise DataError(
                f"there are {len(self.rows)} rows to train on, and a batch takes {self.size} pairs; lower batch.size"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Full batches; the rows that are left over wait for the next permutation."""
        return len(self.rows) // self.size

    def batch(self, step: int, rank: int = 0, ranks: int = 1, *, parts: int = 1) -> list[int]:
        """Return the rows of a step, in order; on several ranks each gets an equal part of the same batch.

        With `parts`, a step's rows are cut into so many, which are numbered through all steps: part `p` of step `s` is
        `s * parts + p`.
        """
        step, part = divmod(step, parts)
        epoch, number = divmod(step, self.steps_per_epoch)
        size, share = self.size // parts, self.size // parts // ranks
        start = number * self.size + part * size + rank * share
        return self._permute_rows(epoch)[start : start + share]

    def _permute_rows(self, epoch: int) -> list[int]:
        if epoch not in self._permutations:
            self._permutations.clear()  # the run moves on: one epoch's is enough
            rng = np.random.default_rng([self.seed, epoch])
            units = self.rows.items if self.together else [(number,) for number in range(len(self.rows))]
            self._permutations[epoch] = [n for unit in rng.permutation(len(units)) for n in units[unit]]
        return self._permutations[epoch]


def draw_choices(pool: Sequence[int], count: int, seed: int, step: int, row: int) -> list[int]:
    """Draw `count` different entries of a pool, or all of it if it has fewer, by seed, step and row alone."""
    rng = np.random.default_rng([seed, step, row, 1])  # the 1 keeps these draws apart from the permutations
    return [pool[k] for k in rng.permutation(len(pool))[:count]]


def draw_units(row: TrainingRow, count: int, seed: int, step: int, number: int) -> list[tuple[str, str]]:
    """Draw units with their foils, with replacement, by seed, step and row alone; relations alone if there are some.

    Source: CS-CLIP (Kargi et al. 2026), `StructuredSampler` of its code with its released settings.
    """
    rng = np.random.default_rng([seed, step, number, 4])  # the 4 keeps these draws apart from all others
    pool = [row.units[k] for k in row.relations] or list(row.units)
    return [pool[k] for k in rng.integers(len(pool), size=count)]
