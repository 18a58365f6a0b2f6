"""A new board file for a set of pairs, with limits that fit its size."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from tellapart.board.submissions.hidden import BENCHMARK_NAME, HiddenBenchmark
from tellapart.board.submissions.rounding import allowed_submissions, in_points
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart.records.run_folder import write_text_file
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import headline, main_metric

#: Steps of rounding, the finest first. Coarser ones leave so few numbers that models with many errors have the same.
_STEPS = (0.01, 0.02, 0.05, 0.1)
_USEFUL = 0.05
_A_DAY, _MOST_FILES, _PUBLIC, _LARGEST_SHARE = (
    HiddenBenchmark.model_fields[name].default for name in ("daily", "total", "public_share", "largest_share")
)
_ENOUGH_FILES = 10
#: The public part may be smaller than its share by so much, for clusters are not split.
_LEAST = 0.9


class FittedLimits(NamedTuple):
    """The step to which numbers are rounded, and how many files of a user count.

    >>> FittedLimits(0.02, 13).total
    13
    """

    step: float
    total: int


def fit_limits(items: int, shape: tuple[int, int]) -> FittedLimits | None:
    """Return the finest step that leaves a user ten files or more, at most twenty; None if no step leaves one.

    If none leaves ten, it is 0.05 and as many files as may be; 0.1 if 0.05 leaves none.

    >>> fit_limits(4000, (2, 2)), fit_limits(60, (2, 2)), fit_limits(3, (2, 2))
    (FittedLimits(step=0.01, total=20), FittedLimits(step=0.05, total=3), None)
    """
    public = int(_LEAST * _PUBLIC * items)
    for step in _STEPS:
        allowed = allowed_submissions(public, shape, step, _LARGEST_SHARE)
        if allowed >= (_ENOUGH_FILES if step < _USEFUL else 1):
            return FittedLimits(step, min(_MOST_FILES, allowed))
    return None


def board_new(folder: PathGiven, pairs: PathGiven, *, name: str | None = None, title: str | None = None) -> Path:
    """Write a board file for a set of pairs whose labels are hidden, with limits that fit its size.

    Args:
        folder: of the board; made if it is missing.
        pairs: the pair set's folder.
        name: of the hidden benchmark; the set's if None.
        title: of the board; the name if None.

    Returns:
        The board file.

    Raises:
        DataError: the folder has a board file, the pairs cannot be read or are too few, or the name cannot be used.

    >>> import tellapart as ta
    >>> ta.board_new(getfixture("tmp_path") / "board", "examples/eqsim_ablation/smoke_scenes", name="scenes").name
    'board.toml'
    """
    folder, pairs = as_path(folder, "folder"), as_path(pairs, "pairs")
    file = folder / "board.toml"
    if file.exists():
        raise DataError(f"{file} is there already: name another folder, or edit it")
    pair_set = read_pair_set(pairs)
    slug = name or re.sub(r"[^a-z0-9]+", "-", pair_set.name.lower()).strip("-")
    if not re.match(BENCHMARK_NAME, slug):
        raise DataError(f"name={slug!r}: a benchmark's name has small letters, digits and hyphens; give name=")
    limits = fit_limits(len(pair_set), pair_set.shape)
    if limits is None:
        least = next(n for n in itertools.count(len(pair_set)) if fit_limits(n, pair_set.shape))
        raise DataError(
            f"{pairs}: {len(pair_set)} pairs are too few: one file's number, rounded to {in_points(_STEPS[-1])}, could "
            f"reveal over half of the public labels; from {least} pairs on, a board can hide them"
        )
    metrics = {
        metric.name for metric in PAIRS.metrics_for(pair_set.shape, pair_set.true) if "similarity" in metric.kinds
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror}; name another folder") from error
    write_text_file(
        file,
        f"""[board]
title = {json.dumps(title or slug)}

[submissions]
state = "state" # the server's secret, its database and the files that were sent; made at the first start

[[hidden]]
name = "{slug}"
pairs = {json.dumps(_path_from(folder, pairs))}
metrics = ["{main_metric(headline(metrics))}"]
public_share = {_PUBLIC} # of the items: their numbers are published at once, the others' after closing
step = {limits.step} # numbers are rounded to {in_points(limits.step)}
daily = {min(_A_DAY, limits.total)} # files of a user that count, and in all:
total = {limits.total} # more, or a finer step, could reveal over half of the public labels of {len(pair_set)} pairs
# closes = 2030-12-31T12:00:00Z # publishes the private numbers; without it POST /admin/hidden/{slug}/close does
""",
    )
    return file


def _path_from(folder: Path, pairs: Path) -> str:
    """Return a path as a file in the folder names it."""
    target, base = pairs.expanduser().resolve(), folder.resolve()
    is_near = target.is_relative_to(base.parent) and not pairs.expanduser().is_absolute()
    return Path(os.path.relpath(target, base)).as_posix() if is_near else str(target)
