"""Show runs on the board: in the browser, or as a static site."""

from __future__ import annotations

import re
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.board.records import BoardSettings, as_board_file, read_settings
from tellapart.data.arguments import PathGiven, as_names, as_path, as_paths
from tellapart.errors import RunError, TellapartWarning, quote, require
from tellapart.records.zipped import unpacked

if TYPE_CHECKING:
    from tellapart.board.records import Board
    from tellapart.board.submissions.service import Submissions


def serve(
    runs: PathGiven | Sequence[PathGiven] | None = None,
    board: PathGiven | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8421,
    names: str | Sequence[str] = (),
    proxy: str | None = None,
    root_path: str = "",
    ready: Callable[[str], object] | None = None,
    left_out: Callable[[str], None] | None = None,
) -> None:
    """Show runs in the browser until it is interrupted: leaderboards, models, items, comparisons, the Pareto front.

    Args:
        runs: folders of run folders, or zip archives; ./runs if neither they nor a board file name one.
        board: a board file (TOML).
        host: an address of this machine; 0.0.0.0 for the network.
        port: 0 for any free one.
        names: names under which browsers reach it; requests for another are refused.
        proxy: addresses of proxies whose X-Forwarded-For is believed, separated by commas; nobody's if not given.
        root_path: the path below which a proxy shows the board, such as /board; it may take the path off or not.
        ready: called with the address when the board answers there.
        left_out: called with a sentence for each run that cannot be read; a warning if not given.

    Raises:
        TellapartError: a folder or the board file cannot be read, or the address is taken.

    `ta.serve("runs", port=8421, ready=print)` prints the address, and returns when it is interrupted.

    >>> import tellapart as ta
    >>> try:
    ...     ta.serve("no-runs", port=0)
    ... except ta.TellapartError as error:
    ...     print(error)
    no-runs is not a folder; `tellapart run --out no-runs/mine` makes a first run in it
    """
    require("fastapi", extra="board")
    uvicorn = require("uvicorn", extra="board")
    from tellapart.board.app import BACKLOG, LOOPBACK, BoardAddress, Connection, create_app
    from tellapart.board.records import watch

    root = root_path.rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]+)*", root, re.ASCII):
        raise RunError(f"root_path={quote(root_path)}: write a path as browsers have it after the host, such as /board")
    report = left_out or _warn_of_problem
    with (
        _bind_address(host, port) as listening,
        _open_board(runs, board, report) as (shown, submissions),
        watch(shown, report) as age,
    ):
        local = {host if ":" not in host else f"[{host}]", *LOOPBACK}
        app = create_app(shown, submissions, age)
        # Any web page's name can be made to lead to this machine (DNS rebinding): it could then read a private board.
        allowed = {*local, *as_names(names)} if names or local <= {*LOOPBACK} else {"*"}
        app.add_middleware(BoardAddress, names=allowed, root=root)
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            http=Connection,
            backlog=BACKLOG,
            ws="none",
            proxy_headers=proxy is not None,
            forwarded_allow_ips=proxy or "",
            timeout_graceful_shutdown=10,
        )
        if ready is not None:
            ready(f"http://{host}:{listening.getsockname()[1]}{root}/")
        with suppress(KeyboardInterrupt):  # which the server raises again when it has ended
            uvicorn.Server(config).run(sockets=[listening])


def board_export(
    out: PathGiven,
    *,
    runs: PathGiven | Sequence[PathGiven] | None = None,
    board: PathGiven | None = None,
    items: int = 500,
    comparisons: int = 25,
    small: bool = False,
    left_out: Callable[[str], None] | None = None,
) -> int:
    """Write the board as a static site, which opens from the disk; return how many pages it has.

    Args:
        out: the site's folder.
        runs, board, left_out: as of `serve`.
        items: how many items of a benchmark get a page: those that most models fail.
        comparisons: how many models are compared, each with each: the first page's best.
        small: without data files, pages of a benchmark's parts, and bars.

    Raises:
        TellapartError: a folder or the board file cannot be read, or the site cannot be written.

    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path")
    >>> _ = ta.evaluate("oracle", "demo", limit=5, out=folder / "runs" / "oracle")
    >>> ta.board_export(folder / "site", runs=folder / "runs", items=0, comparisons=0) > 5
    True
    """
    require("fastapi", extra="board")
    from tellapart.board.rendering import StaticSite

    with _open_board(runs, board, left_out or _warn_of_problem, measuring=False) as (shown, submissions):
        hidden = None if submissions is None else submissions.content
        most = {"most_items": items, "most_compared": comparisons}
        return StaticSite(shown.tables, as_path(out, "out"), hidden=hidden, small=small, **most).write()


def _bind_address(host: str, port: int) -> socket.socket:
    """Bind the address, before records are read: a used address is an error at once, and early readers wait."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Connections inherit this. Without it an answer waits 40 ms until the reader acknowledges its first part.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        why = f"cannot serve at {host}:{port}: {error.strerror or error}"
        raise RunError(f"{why}; name another host= or port=") from error


@contextmanager
def _open_board(
    runs: PathGiven | Sequence[PathGiven] | None,
    board: PathGiven | None,
    report: Callable[[str], None],
    *,
    measuring: bool = True,
) -> Iterator[tuple[Board, Submissions | None]]:
    """Read the settings and the files that they name; yield the board, and its hidden benchmarks if it has some."""
    from tellapart.board.records import Board
    from tellapart.board.submissions.service import open_submissions

    file = None if board is None else as_board_file(board)
    with open_submissions(file, measuring=measuring) as submissions:
        settings = read_settings(file) if file is not None else BoardSettings()
        named = () if runs is None else tuple(as_paths(runs, "runs"))
        with unpacked(named or settings.runs or ((Path("runs"),) if file is None else ())) as folders:
            if missing := [folder for folder in folders if not folder.is_dir()]:
                advice = f"`tellapart run --out {missing[0]}/mine` makes a first run in it"
                raise RunError(f"{missing[0]} is not a folder; {advice}")
            settings = settings.model_copy(update={"runs": tuple(folders)})
            shown = Board(settings) if submissions is None else Board(settings, submissions.results)
            shown.read_in(report)
            yield shown, submissions


def _warn_of_problem(problem: str) -> None:
    warnings.warn(f"left out: {problem}", TellapartWarning, stacklevel=3)
