"""The command `tellapart show`, which also ends `run` and `score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json

__all__ = ["show_command", "show_run"]


def show_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    as_json: Json = False,
) -> None:
    """Print a run's tables again, and make its report anew."""
    show_run(run, as_json=as_json)


def show_run(folder: Path, *, as_json: bool = False) -> None:
    """Make a run's report, and print its records: as tables, or as one object with all of them."""
    from tellapart.records.run_folder import find_runs, read_result
    from tellapart.report.show import print_runs, write_run_report

    report = write_run_report(folder)
    if as_json:
        runs = [read_result(each).model_dump(mode="json", by_alias=True) for each in find_runs(folder)]
        answer = [
            {"benchmark": each.name, "metric": each.metric, "sentences": each.sentences} for each in report.conclusions
        ]
        path = None if report.path is None else str(report.path)
        print_json({"out": str(folder), "report": path, "answer": answer, "runs": runs})
    else:
        print_runs(folder, report)
