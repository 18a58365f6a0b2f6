"""How many hidden labels of 2x2 items a user learns who sends files for that alone.

An item is guessed as published, swapped, or tied, which is always wrong; a label counts when the numbers leave no
other. `search` looks for the guess at which the number first rises, then takes one label a file; `sums` keeps all
labels that fit, and sends the file whose number is the most uncertain: for small sets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import RECORDS, run_bench  # noqa: F401  (its test reads the record there)
from scipy.stats import entropy

from tellapart.board.submissions.hidden import first_step, middle_index, rise_chances
from tellapart.board.submissions.worker import round_to

#: Files that are drawn for the next one, and lists of labels on which they are compared.
_DRAWN, _COMPARED = 200, 3000


@dataclass
class HiddenLabels:
    """The labels of a public part, 1 as published and -1 swapped, and the number of a file of guesses 1, -1 or 0."""

    items: int
    step: float
    rng: np.random.Generator
    labels: NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = self.rng.choice(np.array([-1, 1], np.int8), self.items)

    def measure(self, guesses: NDArray[np.int8]) -> float:
        """Return the rounded share of items that are guessed rightly."""
        return round_to(int((guesses == self.labels[: len(guesses)]).sum()) / self.items, self.step)


def search(hidden: HiddenLabels) -> Iterator[int]:
    """Yield how many labels are certain after each file; the first item whose guess raises the number is one."""
    first = first_step(hidden.items, hidden.step)
    chances = rise_chances(hidden.items, hidden.step) if first > 1 else [1.0]
    totals, start, end = [0.0, *accumulate(chances)], 0, len(chances)
    while end - start > 1:  # the number rises with guess `first + start` at the earliest
        middle = middle_index(totals, start, end)
        risen = hidden.measure(np.ones(first + middle - 1, np.int8)) > 0
        start, end = (start, middle) if risen else (middle, end)
        if end - start > 1:
            yield 0
    if start == len(chances) - 1 > 0:  # it never rises
        return
    base, certain = first + start - 1, int(first > 1)
    if certain and hidden.labels[base] != 1:
        raise AssertionError(f"item {base} is said to be right, and is not")
    if certain:
        yield certain
    for place in range(base + certain, hidden.items):  # `base` guesses are one right item short of the step
        guesses = np.zeros(hidden.items, np.int8)
        guesses[:base], guesses[place] = 1, 1
        if (hidden.measure(guesses) > 0) != (hidden.labels[place] == 1):
            raise AssertionError(f"the label of item {place} is said wrongly")
        certain += 1
        yield certain


def learn_sums(hidden: HiddenLabels, places: int) -> Iterator[int]:
    """Yield how many of the first items' labels are certain after each file; their 2^places lists are kept."""
    fit = 2 * (np.arange(2**places)[:, None] >> np.arange(places) & 1).astype(np.int8) - 1
    numbers = np.array([round_to(right / hidden.items, hidden.step) for right in range(places + 1)])
    guesses = np.ones(places, np.int8)
    while True:
        fit = fit[numbers[(fit == guesses).sum(axis=1)] == hidden.measure(guesses)]
        same = (fit == fit[0]).all(axis=0)
        if (fit[0] != hidden.labels[:places])[same].any():
            raise AssertionError("a label is said wrongly")
        yield int(same.sum())
        some = hidden.rng.choice(fit, min(len(fit), _COMPARED), replace=False)
        drawn = hidden.rng.integers(-1, 2, (_DRAWN, places), np.int8)
        drawn[::2] |= 1  # without ties, sums spread further
        guesses = max(drawn, key=lambda file: _count_bits(numbers[(some == file).sum(axis=1)]))


def _count_bits(numbers: NDArray[np.float64]) -> float:
    return float(entropy(np.unique(numbers, return_counts=True)[1], base=2))


def attack(items: int, step: float, files: int, runs: int, places: int = 0) -> dict[str, Any]:
    """Carry an attack out many times: `learn_sums` over some places, or `search`."""
    learnt = []
    for seed in range(runs):
        hidden = HiddenLabels(items, step, np.random.default_rng(seed))
        counts = list(islice(learn_sums(hidden, places) if places else search(hidden), files))
        learnt.append([*counts, *[counts[-1] if counts else 0] * (files - len(counts))])
    certain = np.array(learnt)
    first = np.where(certain.any(axis=1), (certain > 0).argmax(axis=1) + 1, files)
    return {
        "runs": runs,
        "files": files,
        "first_label_after": round(float(first.mean()), 2),
        "within_7": round(float((first < 8).mean()), 3),
        "labels": round(float(certain[:, -1].mean()), 1),
        **({"places": places} if places else {}),
    }


def measure(runs: int = 2000) -> dict[str, Any]:
    """Attack two boards, the sums in a hundredth of the runs."""
    return {
        "4000 items, step 0.01": {"search": attack(4000, 0.01, 20, runs)},
        "150 items, step 0.02": {
            "search": attack(150, 0.02, 13, runs),
            "sums": attack(150, 0.02, 13, max(1, runs // 100), places=20),
        },
    }


if __name__ == "__main__":
    run_bench(measure, "label_attack")
