"""The commands `tellapart serve` and `tellapart board export`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellapart.cli.board_state import accept_command, backup_command, check_command
from tellapart.cli.board_user import user_command
from tellapart.cli.once import OnceCommand
from tellapart.cli.options import Json, print_json
from tellapart.errors import RunError, require

if TYPE_CHECKING:
    from tellapart.board.settings import BoardSettings
    from tellapart.board.store import Store
    from tellapart.board.submissions.service import Submissions

# Other modules import no command; their docstrings are their help.
__all__ = ["board_app"]

board_app = typer.Typer(
    help="The board's records as a static site; its users; backups of its state.", no_args_is_help=True
)
board_app.command("user", cls=OnceCommand)(user_command)
board_app.command("backup", cls=OnceCommand)(backup_command)
board_app.command("check", cls=OnceCommand)(check_command)
board_app.command("accept", cls=OnceCommand)(accept_command)

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
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name", help="A name under which browsers reach it; requests for another are refused. Repeatable."
        ),
    ] = None,
    proxy: Annotated[
        str, typer.Option("--proxy", help="Addresses of proxies whose X-Forwarded-For is trusted, separated by commas.")
    ] = "127.0.0.1",
) -> None:
    """Show runs in the browser: leaderboards, models, items, comparisons, the Pareto front."""
    require("fastapi", extra="board")
    uvicorn = require("uvicorn", extra="board")
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from tellapart.board.app import create_app
    from tellapart.board.connections import BACKLOG, Connection
    from tellapart.board.headers import LOOPBACK
    from tellapart.board.submissions.service import open_submissions
    from tellapart.board.watch import Watch

    with (
        _listen(host, port) as listening,
        open_submissions(board) as submissions,
        _open_board(runs, board, database, submissions) as (settings, store),
        Watch(store, settings, _warn) as watch,
    ):
        own = {host if ":" not in host else f"[{host}]", *LOOPBACK}
        app = create_app(settings, store, submissions, age=lambda: watch.age)
        # Any page can point its own name at this machine (DNS rebinding), and would read a board served to it alone.
        names = {*own, *(name or ())} if name or own <= {*LOOPBACK} else {"*"}
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=sorted(names), www_redirect=False)
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            http=Connection,
            backlog=BACKLOG,
            ws="none",
            forwarded_allow_ips=proxy,
            timeout_graceful_shutdown=10,
        )
        typer.echo(f"the board is at http://{host}:{listening.getsockname()[1]}/ (stop it with Ctrl-C)")
        with suppress(KeyboardInterrupt):  # which the server raises again when it has ended
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Bind the address before anything is read in: one that is taken is an error at once, and early readers wait."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RunError(
            f"cannot serve at {host}:{port}: {error.strerror or error}; name another --host or --port"
        ) from error


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
    as_json: Json = False,
) -> None:
    """Write the board as a static site: it opens from the disk, and any web server can hold it."""
    require("fastapi", extra="board")
    from tellapart.board.export import export_site
    from tellapart.board.submissions.service import open_submissions

    with (
        open_submissions(board, measuring=False) as submissions,
        _open_board(runs, board, database, submissions) as (settings, store),
    ):
        pages = export_site(store, settings, out, submissions=submissions, most_items=items, most_compared=comparisons)
    if as_json:
        print_json({"out": str(out), "pages": pages})
    else:
        typer.echo(f"{pages:,} pages; open {out / 'index.html'}")


@contextmanager
def _open_board(
    runs: list[Path] | None, board: Path | None, database: str | None, submissions: Submissions | None
) -> Iterator[tuple[BoardSettings, Store]]:
    """Read the settings, open the database, and read in what is new."""
    require("sqlmodel", extra="board")
    from tellapart.board.records import read_in
    from tellapart.board.settings import BoardSettings, read_settings
    from tellapart.board.store import Store, database_url

    settings = read_settings(board) if board is not None else BoardSettings()
    folders = tuple(runs or ()) or settings.runs or ((Path("runs"),) if board is None else ())
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"{folder} is not a folder; `tellapart run --out {folder}/mine` makes a first run in it")
    hidden = () if submissions is None else (submissions.records,)
    settings = settings.model_copy(update={"runs": (*folders, *hidden)})
    beside = folders[0] if folders else board.parent if board is not None else Path()
    with Store(database_url(database or settings.database, beside, (*settings.runs, *settings.imported))) as store:
        read_in(store, settings, _warn)
        yield settings, store


def _warn(problem: str) -> None:
    typer.echo(f"left out: {problem}", err=True)
