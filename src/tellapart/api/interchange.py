"""Items for systems elsewhere, and losses out of domain: the functions of `tellapart export` and `gap`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellapart.benchmarks.arguments import locations, refuse_columns, refuse_idle
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.given import BenchmarkGiven, as_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.arguments import PathGiven, as_path
from tellapart.evaluation.export import Exported
from tellapart.evaluation.export import export as write_template
from tellapart.evaluation.gap import Gaps
from tellapart.evaluation.gap import gaps as measure_gaps
from tellapart.records.zipped import run_folders

__all__ = ["export", "gap"]


def export(
    benchmark: BenchmarkGiven,
    to: PathGiven,
    *,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Exported:
    """Write the items that a system elsewhere scores or answers: a benchmark's pairs, or a task's records.

    Raises:
        TellapartError: no such benchmark, or the file cannot be written.

    >>> import tellapart as ta
    >>> template = getfixture("tmp_path") / "pairs.csv"
    >>> ta.export("demo", template).rows
    1600
    >>> template.read_text().splitlines()[0]
    'id,image,text,score,image_file,caption'
    """
    refuse_columns(columns, (benchmark,))
    place = refuse_idle((benchmark,), locations(data, images, outside_images, columns))
    if isinstance(benchmark, str):
        return write_template(find_benchmark(open_benchmark(benchmark), place), as_path(to, "to"))
    return write_template(as_benchmark(benchmark, place), as_path(to, "to"))


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
