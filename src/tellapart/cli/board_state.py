"""The commands `tellapart board backup`, `check`, `accept` and `retry`: the state of a board's hidden benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text

# `tellapart board` registers these commands; their docstrings are the help texts.

BoardFile = Annotated[Path, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")]


def backup_command(
    target: Annotated[Path, typer.Argument(metavar="DEST", help="The backup's folder; made if it is not there.")],
    board: BoardFile,
    as_json: Json = False,
) -> None:
    """Copy the state of a board's hidden benchmarks: accounts, files, truths, the secret. The board may be running.

    Example: `tellapart board backup backups/today --board board.toml`
    """
    from tellapart.board.submissions.administer import board_backup

    done = board_backup(target, board)
    if as_json:
        return print_json({"to": str(target), "files": done.files, "bytes": done.bytes})
    return print_text(f"{done.files:,} files, {done.bytes:,} bytes in {target}; it holds the secret: keep it private")


def check_command(
    backup: Annotated[Path | None, typer.Argument(help="A backup's folder, instead of a board's state.")] = None,
    board: Annotated[
        Path | None, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the state of a board's hidden benchmarks, or a backup of it. A problem is a line, and the exit status is 1.

    Example: `tellapart board check --board board.toml`
    """
    from tellapart.board.submissions.administer import board_check

    report = board_check(backup, board=board)
    place, problems = report.checked, report.problems
    if as_json:
        print_json({"checked": str(place), "problems": list(problems)})
    else:
        for problem in problems:
            print_text(problem)
        if not problems:
            print_text(f"{place}: everything is there, and as it was written")
    if problems:
        raise typer.Exit(1)


def retry_command(
    board: BoardFile,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Submissions; all that failed if none is named.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure files again that failed because the server stopped too often. The board may be running.

    Example: `tellapart board retry --board board.toml`
    """
    from tellapart.board.submissions.administer import board_retry

    again = board_retry(board, files)
    if as_json:
        return print_json({"files": list(again)})
    return print_text(f"{len(again):,} files wait again: {', '.join(again)}" if again else "no file failed")


def accept_command(board: BoardFile, as_json: Json = False) -> None:
    """Accept the present state after a part of it was lost or replaced, so that the board can start again.

    Example: `tellapart board accept --board board.toml`
    """
    from tellapart.board.submissions.administer import board_accept

    accepted = board_accept(board)
    if as_json:
        return print_json({"state": str(accepted.state), **accepted.counters})
    listed = ", ".join(f"{number:,} {name}" for name, number in accepted.counters.items())
    return print_text(f"{accepted.state} is accepted: {listed}. Tokens of another secret are void")
