"""The command `tellapart board user`: add a board's users, the first admin included, on the server itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.board_state import read_hidden_settings
from tellapart.cli.options import Json, print_json
from tellapart.errors import DataError

# A command's docstring is its help; its examples are in the tests.
__all__: list[str] = []


def user_command(
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, underscores and hyphens.")],
    board: Annotated[Path, typer.Option("--board", help="The board file (TOML), with hidden benchmarks.")],
    role: Annotated[str, typer.Option("--role", help="reader, submitter or admin.")] = "submitter",
    days: Annotated[float, typer.Option("--days", help="Days until the token expires.")] = 365,
    as_json: Json = False,
) -> None:
    """Add a user to a board with hidden benchmarks and print a token; an existing user gets another token."""
    from tellapart.board.submissions.refused import RefusedError
    from tellapart.board.submissions.service import Submissions

    submissions = Submissions(read_hidden_settings(board))
    accounts = submissions.accounts
    try:
        accounts.add(name, role, by="command line")  # type: ignore[arg-type]  # checked there
    except RefusedError as refused:
        if refused.status != 409:
            raise
        if (current := accounts.role(name)) != role:  # or the token would allow more, or less, than `--role` says
            raise DataError(
                f"{name} has the role {current}, not {role}; name --role {current}, or another user"
            ) from refused
    id_, token = accounts.issue(name, days=days, by="command line")
    submissions.note_counters()
    if as_json:
        return print_json({"user": name, "role": role, "token_id": id_, "token": token})
    return typer.echo(f"token {id_} of {name}, shown this once: {token}")
