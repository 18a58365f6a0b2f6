"""The commands `tellapart serve` and `tellapart board export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.board_state import accept_command, backup_command, check_command, retry_command
from tellapart.cli.board_user import new_command, user_command
from tellapart.cli.once import OnceCommand
from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text

# Other modules import no command; their docstrings are their help.
__all__ = ["board_app"]

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
    from tellapart.api.board import serve

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
    from tellapart.api.board import board_export

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
