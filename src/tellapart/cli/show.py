"""The command `tellapart show`, which also ends `run` and `score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Bundle, Json, Outside, print_json

__all__ = ["show_command", "show_run"]


def show_command(
    run: Annotated[Path, typer.Argument(help="A run folder, or the folder of a training run or of its seeds.")],
    bundle: Bundle = False,
    outside: Outside = False,
    as_json: Json = False,
) -> None:
    """Print a run's tables again, and make its report anew."""
    if _show_training(run, outside=outside, as_json=as_json):
        return
    show_run(run, bundle=bundle, outside=outside, as_json=as_json)


def show_run(folder: Path, *, bundle: bool = False, outside: bool = False, as_json: bool = False) -> None:
    """Make a run's report, and print its records: as tables, or as one object with all of them."""
    from tellapart.records.run_folder import find_runs, read_result
    from tellapart.report.show import print_runs, write_run_report

    report = write_run_report(folder, bundle=bundle, outside=outside)
    if as_json:
        runs = [read_result(each).model_dump(mode="json", by_alias=True) for each in find_runs(folder)]
        answer = [
            {"benchmark": each.name, "metric": each.metric, "sentences": each.sentences} for each in report.conclusions
        ]
        path = None if report.path is None else str(report.path)
        about = {"out": str(folder), "report": path, "warnings": report.warnings, "answer": answer}
        print_json({**about, "runs": runs})
    else:
        print_runs(folder, report)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _show_training(folder: Path, *, outside: bool, as_json: bool) -> bool:
    """Show a folder that `tellapart train` wrote; return whether it is one."""
    from tellapart.report.training import print_seeds, print_trained, seeds_json, trained_json
    from tellapart.report.training_page import write_training_report
    from tellapart.train.record import RECORD, read_record
    from tellapart.train.seeds import read_seeds

    if (folder / RECORD).is_file():
        record = read_record(folder)
        shown = record, write_training_report(folder, record, outside=outside)
        print_json(trained_json(*shown)) if as_json else print_trained(*shown)
    elif any(folder.glob(f"seed-*/{RECORD}")):
        seeds = read_seeds(folder)
        print_json(seeds_json(seeds, None)) if as_json else print_seeds(seeds)
    else:
        return False
    return True
