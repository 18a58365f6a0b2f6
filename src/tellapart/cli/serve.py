"""The commands `tellapart serve` and `tellapart board export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.board_state import accept_command, backup_command, check_command, retry_command
from tellapart.cli.once import OnceCommand
from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text

# A command's docstring is its help; its examples are in the tests.


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
    from tellapart.board.submissions.new_board import board_new
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
        f"tokens for those who take part: tellapart board user NAME... --board {file}\n"
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
    from tellapart.board.submissions.administer import board_user

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


# Other modules import no command; their docstrings are their help.

board_app = typer.Typer(
    help="The board's records as a static site; its users; backups of its state.", no_args_is_help=True
)
board_app.command("new", cls=OnceCommand)(new_command)
board_app.command("user", cls=OnceCommand)(user_command)
board_app.command("backup", cls=OnceCommand)(backup_command)
board_app.command("check", cls=OnceCommand)(check_command)
board_app.command("accept", cls=OnceCommand)(accept_command)
board_app.command("retry", cls=OnceCommand)(retry_command)

Runs = Annotated[
    list[Path] | None,
    typer.Option("--runs", help="A folder of run folders; ./runs by default. Repeatable."),
]
BoardFile = Annotated[Path | None, typer.Option("--board", help="A board file (TOML).")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", help="sqlite:///FILE or postgresql://HOST/NAME; board.sqlite among the runs by default."
    ),
]


def serve_command(
    runs: Runs = None,
    board: BoardFile = None,
    *,
    host: Annotated[str, typer.Option("--host", help="0.0.0.0 for the whole network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any free one.")] = 8421,
    database: Database = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", help="A name under which browsers reach it; requests for another are refused. Repeatable."
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            "--proxy",
            help="Addresses of proxies whose X-Forwarded-For is believed, separated by commas; nobody's if not given.",
        ),
    ] = None,
    root_path: Annotated[
        str, typer.Option("--root-path", help="The path below which a proxy shows the board, such as /board.")
    ] = "",
) -> None:
    """Show runs in the browser: leaderboards, models, items, comparisons, the Pareto front.

    Example: `tellapart serve --runs runs`
    """
    from tellapart.board.serve import serve

    serve(
        runs,
        board,
        host=host,
        port=port,
        database=database,
        names=names or (),
        proxy=proxy,
        root_path=root_path,
        ready=lambda address: print_text(f"the board is at {address} (stop it with Ctrl-C)"),
        left_out=_print_left_out,
    )


@board_app.command("export", cls=OnceCommand)
def export_command(
    out: Annotated[Path, typer.Option("--out", help="The site's folder; made if it is not there.")],
    runs: Runs = None,
    board: BoardFile = None,
    database: Database = None,
    items: Annotated[
        int, typer.Option("--items", min=0, help="Items of a benchmark that get a page: those most models fail.")
    ] = 500,
    comparisons: Annotated[
        int,
        typer.Option("--comparisons", min=0, help="Models that are compared, each with each: the first page's best."),
    ] = 25,
    small: Annotated[
        bool, typer.Option("--small", help="Without data files, pages of a benchmark's parts, and bars.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the board as a static site: it opens from the disk, and any web server can hold it.

    Example: `tellapart board export --runs runs --out site`
    """
    from tellapart.board.serve import board_export

    pages = board_export(
        out,
        runs=runs,
        board=board,
        database=database,
        items=items,
        comparisons=comparisons,
        small=small,
        left_out=_print_left_out,
    )
    if as_json:
        print_json({"out": str(out), "pages": pages})
    else:
        print_text(f"{pages:,} pages; open {out / 'index.html'}")


def _print_left_out(problem: str) -> None:
    print_text(f"left out: {problem}", error=True)
