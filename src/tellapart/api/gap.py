"""Losses out of domain: the function of `tellapart gap`."""

from __future__ import annotations

from collections.abc import Sequence

from tellapart.data.arguments import PathGiven
from tellapart.evaluation.gap import Gaps
from tellapart.evaluation.gap import gaps as measure_gaps
from tellapart.records.zipped import run_folders

__all__ = ["gap"]


def gap(runs: Sequence[PathGiven]) -> Gaps:
    """Return the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Raises:
        RunError: a folder is not a run, or none measured both sides.

    >>> import json
    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> records = [{"sentence": "Two dogs.", "images": ["a.png", "b.png"], "label": "True"}] * 4
    >>> for file, right in (("nlvr2_test.json", 3), ("nlvr2_vlue_test.json", 2)):
    ...     predictions = [{"id": k, "prediction": k < right} for k in range(4)]
    ...     _ = (folder / file).write_text(json.dumps(records))
    ...     _ = (folder / f"mine_{file}").write_text(json.dumps(predictions))
    >>> files = {"nlvr2": folder / "mine_nlvr2_test.json", "vlue-nlvr2": folder / "mine_nlvr2_vlue_test.json"}
    >>> row = ta.gap([ta.score(None, files, name="mine", data=folder)]).rows[0]
    >>> row.task, row.in_domain, row.out_of_domain, row.gap
    ('nlvr2: accuracy', 0.75, 0.5, 0.25)
    """
    with run_folders(runs, "runs") as folders:
        return measure_gaps(folders)
