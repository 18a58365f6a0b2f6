"""The commands `tellapart board new` and `board user`: a board file for a set, and its users, on the server itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text

# A command's docstring is its help; its examples are in the tests.
__all__: list[str] = []


def new_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The board's folder; made if it is not there.")],
    pairs: Annotated[Path, typer.Option("--pairs", help="The pair set's folder.")],
    name: Annotated[str | None, typer.Option("--name", help="Of the hidden benchmark; the set's if not given.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Of the board; the name if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Write a board file for a set of pairs whose labels are hidden, with limits that fit its size.

    Example: `tellapart board new board --pairs my_pairs`
    """
    from tellapart.api.board import board_new
    from tellapart.board.submissions.rounding import in_points
    from tellapart.data.rows import read_toml

    file = board_new(folder, pairs, name=name, title=title)
    hidden = read_toml(file)["hidden"][0]
    if as_json:
        return print_json({"board": str(file), "step": hidden["step"], "total": hidden["total"]})
    return print_text(
        f"{file}: numbers are rounded to {in_points(hidden['step'])}; files of a user that count: {hidden['total']}\n"
        "more files or finer numbers could reveal over half of the public labels; more pairs allow both\n"
        "private numbers are published when it closes: set `closes` in the file, or close it as an admin\n"
        f"serve it: tellapart serve --board {file}"
    )


def user_command(
    name: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Letters, digits, dots, underscores and hyphens.")
    ],
    board: Annotated[Path, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")],
    role: Annotated[str, typer.Option("--role", help="reader, submitter or admin.")] = "submitter",
    days: Annotated[float, typer.Option("--days", help="Days until the token expires.")] = 365,
    as_json: Json = False,
) -> None:
    """Add users to a board with hidden benchmarks and print their tokens; an existing user gets another token.

    Example: `tellapart board user ann bob --board board.toml`
    """
    from tellapart.api.board import board_user

    rows: list[dict[str, str]] = []
    try:
        for user in dict.fromkeys(name):
            issued = board_user(user, board, role=role, days=days)
            rows.append({"user": user, "role": role, "token_id": issued.token_id, "token": issued.token})
            if not as_json:
                print_text(f"token {issued.token_id} of {user}, shown this once: {issued.token}")
    finally:  # a token is shown once: a later name that is refused must not lose those before it
        if as_json and rows:
            print_json(rows if len(name) > 1 else rows[0])
