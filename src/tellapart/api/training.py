"""Training runs that are done, as `train` returns and `tellapart show` prints them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tellapart.data.arguments import PathGiven, as_path
from tellapart.errors import RunError
from tellapart.training.dry_run.plan import DryRun
from tellapart.training.record import RECORD, TrainRecord, read_record
from tellapart.training.report.page import PAGE, write_training_report
from tellapart.training.report.results import print_seeds, print_trained, seeds_json, trained_json
from tellapart.training.run_files import OWNER
from tellapart.training.seeds import read_seeds

__all__ = ["Trained", "open_training"]


class Trained:
    """A training run, or several that differ in their seed alone.

    Attributes:
        folder: of the run.
        records: of the run, one a seed; none in other ranks than the first.
        seeds: whether several seeds were asked for.
        against: the records of another configuration's seeds, if it was compared with them.
        plan: of a dry run, which leaves no record.
    """

    def __init__(
        self,
        folder: Path,
        records: Sequence[TrainRecord],
        *,
        seeds: bool,
        against: Sequence[TrainRecord] | None = None,
        plan: DryRun | None = None,
    ) -> None:
        self.plan = plan
        self.folder, self.records, self.seeds = folder, tuple(records), seeds
        self.against = None if against is None else list(against)

    @property
    def record(self) -> TrainRecord:
        """The first seed's record."""
        return self.records[0]

    @property
    def passed(self) -> bool:
        """Whether a dry run found no problem; a run that is done has none."""
        return self.plan is None or self.plan.passed

    def to_json(self) -> Any:
        """Return the JSON of `tellapart train --json`."""
        if self.plan is not None:
            return self.plan.to_json()
        if self.seeds:
            return seeds_json(self.records, self.against)
        return trained_json(self.record, self.folder / PAGE)

    def show(self) -> None:
        """Print it as `tellapart train` does."""
        if self.plan is not None:
            self.plan.show()
        elif self.seeds:
            print_seeds(self.records, self.against)
        else:
            print_trained(self.record, self.folder / PAGE)

    def __repr__(self) -> str:
        with redirect_stdout(io.StringIO()) as text:
            self.show()
        return text.getvalue().strip()


def open_training(folder: PathGiven, *, outside_images: bool = False) -> Trained | None:
    """Open a folder that `train` wrote, and write its page again; None if it is not one.

    >>> open_training(getfixture("tmp_path")) is None
    True
    """
    path = as_path(folder, "folder")
    if (path / RECORD).is_file():
        record = read_record(path)
        write_training_report(path, record, outside=outside_images)
        return Trained(path, (record,), seeds=False)
    if any(path.glob(f"seed-*/{RECORD}")):
        return Trained(path, read_seeds(path), seeds=True)
    if (path / OWNER).is_file():
        raise RunError(
            f"training in {path} has not ended: {PAGE} there has its curves; if stopped, go on with --resume"
        )
    return None
