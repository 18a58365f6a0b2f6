"""The commands `tellapart board backup`, `check` and `accept`: the state of a board's hidden benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.errors import DataError

if TYPE_CHECKING:
    from tellapart.board.submissions.hidden import HiddenSettings

__all__ = ["read_hidden_settings"]

BoardFile = Annotated[Path, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")]


def backup_command(
    target: Annotated[Path, typer.Argument(metavar="DEST", help="The backup's folder; made if it is not there.")],
    board: BoardFile,
    as_json: Json = False,
) -> None:
    """Copy the state of a board's hidden benchmarks: accounts, files, truths, the secret. The board may be running."""
    from tellapart.board.submissions.backup import back_up

    manifest = back_up(read_hidden_settings(board).submissions.state, target)
    size = sum(file.bytes for file in manifest.files.values())
    if as_json:
        return print_json({"to": str(target), "files": len(manifest.files), "bytes": size})
    return typer.echo(
        f"{len(manifest.files):,} files, {size:,} bytes in {target}; it holds the secret: keep it private"
    )


def check_command(
    backup: Annotated[Path | None, typer.Argument(help="A backup's folder, instead of a board's state.")] = None,
    board: Annotated[
        Path | None, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the state of a board's hidden benchmarks, or a backup of it: one line a problem, and exit status 1."""
    from tellapart.board.submissions.backup import check_backup, check_state

    if (backup is None) == (board is None):
        raise DataError("name either a backup's folder or --board FILE, to say what is checked")
    if backup is not None:
        place, problems = backup, list(check_backup(backup))
    else:
        assert board is not None  # noqa: S101  (as was checked)
        place = read_hidden_settings(board).submissions.state
        problems = list(check_state(place)) if place.is_dir() else [f"there is no {place}: this board was never served"]
    if as_json:
        print_json({"checked": str(place), "problems": problems})
    else:
        for problem in problems:
            typer.echo(problem)
        if not problems:
            typer.echo(f"{place}: everything is there, and as it was written")
    if problems:
        raise typer.Exit(1)


def accept_command(board: BoardFile, as_json: Json = False) -> None:
    """Take the state as it is after a part was lost or replaced, so that the board starts again."""
    from tellapart.board.submissions.service import Submissions

    submissions = Submissions(read_hidden_settings(board), accept=True)
    counters = submissions.database.counters()
    if as_json:
        return print_json({"state": str(submissions.state), **counters})
    listed = ", ".join(f"{number:,} {name}" for name, number in counters.items())
    return typer.echo(f"{submissions.state} is taken as it is: {listed}. Tokens of another secret are void")


def read_hidden_settings(board: Path) -> HiddenSettings:
    """Read a board file that has hidden benchmarks.

    Raises:
        DataError: it has none, or is invalid.
    """
    from tellapart.board.submissions.hidden import read_hidden

    settings = read_hidden(board)
    if settings is None:
        raise DataError(f"{board} has no hidden benchmarks; add a table [[hidden]] to it")
    return settings
