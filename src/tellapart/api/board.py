"""The board: the functions of `tellapart serve` and `tellapart board`."""

from __future__ import annotations

import re
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.arguments import PathGiven, as_names, as_path, as_paths
from tellapart.errors import DataError, RunError, TellapartWarning, quote, require
from tellapart.records.zipped import unpacked

if TYPE_CHECKING:
    from tellapart.board.settings import BoardSettings
    from tellapart.board.store import Store
    from tellapart.board.submissions.hidden import HiddenSettings
    from tellapart.board.submissions.service import Submissions

__all__ = [
    "AcceptedState",
    "BackedUp",
    "BoardToken",
    "CheckedState",
    "board_accept",
    "board_backup",
    "board_check",
    "board_export",
    "board_new",
    "board_retry",
    "board_user",
    "serve",
]


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup of a board's hidden benchmarks: its folder, its files and their bytes."""

    to: Path
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckedState:
    """A state or a backup that was checked: its folder, and a line for each problem."""

    checked: Path
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AcceptedState:
    """A board's state that was accepted after a part of it was lost or replaced, with its counters (name -> number)."""

    state: Path
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class BoardToken:
    """A token of a board's user. The board keeps its hash alone."""

    user: str
    role: str
    token_id: str
    token: str


def serve(
    runs: PathGiven | Sequence[PathGiven] | None = None,
    board: PathGiven | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8421,
    database: str | None = None,
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
        database: sqlite:///FILE or postgresql://HOST/NAME; board.sqlite among the runs if not given.
        names: under which browsers reach it; requests for another are refused.
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
    from tellapart.board.app import create_app
    from tellapart.board.connections import BACKLOG, Connection
    from tellapart.board.headers import LOOPBACK, BoardAddress
    from tellapart.board.submissions.service import open_submissions
    from tellapart.board.watch import Watch

    root = root_path.rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]+)*", root, re.ASCII):
        raise RunError(f"root_path={quote(root_path)}: write a path as browsers have it after the host, such as /board")
    report = left_out or _warn_left
    file = None if board is None else _as_board_file(board)
    with (
        _bind_address(host, port) as listening,
        open_submissions(file) as submissions,
        _open_board(runs, file, database, submissions, report) as (settings, store),
        Watch(store, settings, report) as watch,
    ):
        local = {host if ":" not in host else f"[{host}]", *LOOPBACK}
        app = create_app(settings, store, submissions, age=lambda: watch.age)
        # Any page can point its name at this machine (DNS rebinding), and would read a board served to it alone.
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
    database: str | None = None,
    items: int = 500,
    comparisons: int = 25,
    small: bool = False,
    left_out: Callable[[str], None] | None = None,
) -> int:
    """Write the board as a static site, which opens from the disk; return how many pages it has.

    Args:
        out: the site's folder.
        runs, board, database, left_out: as of `serve`.
        items: of a benchmark, that get a page: those that most models fail.
        comparisons: models that are compared, each with each: the first page's best.
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
    from tellapart.board.export import export_site
    from tellapart.board.submissions.service import open_submissions

    file = None if board is None else _as_board_file(board)
    with (
        open_submissions(file, measuring=False) as submissions,
        _open_board(runs, file, database, submissions, left_out or _warn_left) as (settings, store),
    ):
        most = {"most_items": items, "most_compared": comparisons}
        return export_site(store, settings, as_path(out, "out"), submissions=submissions, small=small, **most)


def board_new(folder: PathGiven, pairs: PathGiven, *, name: str | None = None, title: str | None = None) -> Path:
    """Write a board file for a set of pairs whose labels are hidden, with limits that fit its size.

    Args:
        folder: of the board; made if it is missing.
        pairs: the pair set's folder.
        name: of the hidden benchmark; the set's if None.
        title: of the board; the name if None.

    Returns:
        The board file.

    Raises:
        DataError: the folder has a board file, the pairs cannot be read or are too few, or the name cannot be used.

    >>> import tellapart as ta
    >>> pairs = Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> ta.board_new(getfixture("tmp_path") / "board", pairs, name="scenes").name
    'board.toml'
    """
    from tellapart.board.submissions.new_board import write_board

    return write_board(as_path(folder, "folder"), as_path(pairs, "pairs"), name=name, title=title)


def board_user(name: str, board: PathGiven, *, role: str = "submitter", days: float = 365) -> BoardToken:
    """Add a user to a board with hidden benchmarks; an existing one gets another token.

    Args:
        name: letters, digits, dots, underscores and hyphens.
        board: the board file (TOML).
        role: reader, submitter or admin.
        days: until the token expires.

    Raises:
        TellapartError: the file has no hidden benchmarks, or the user has another role.

    >>> import tellapart as ta
    >>> folder, pairs = getfixture("tmp_path"), Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> file = folder / "board.toml"
    >>> _ = file.write_text(f'[[hidden]]\\nname = "scenes"\\npairs = "{pairs}"\\ntotal = 1\\nstep = 0.5\\n')
    >>> ta.board_user("ann", file).role
    'submitter'
    """
    from tellapart.board.submissions.refused import RefusedError
    from tellapart.board.submissions.service import Submissions

    submissions = Submissions(_read_hidden(board))
    accounts = submissions.accounts
    try:
        accounts.add(name, role, by="command line")  # type: ignore[arg-type]  # checked there
    except RefusedError as refused:
        if refused.status != 409:
            raise
        if (current := accounts.role(name)) != role:  # or the token would allow more, or less, than `role` names
            raise DataError(
                f"{name} has the role {current}, not {role}; name role={current}, or another user"
            ) from refused
    token_id, token = accounts.issue(name, days=days, by="command line")
    submissions.note_counters()
    return BoardToken(name, role, token_id, token)


def board_backup(target: PathGiven, board: PathGiven) -> BackedUp:
    """Copy the state of a board's hidden benchmarks: accounts, files, truths, the secret. The board may be running.

    Args:
        target: the backup's folder: a new one, or an empty one.
        board: the board file (TOML).

    Raises:
        DataError: the file has no hidden benchmarks, or the folder holds something.

    >>> import tellapart as ta
    >>> folder, pairs = getfixture("tmp_path"), Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> file = folder / "board.toml"
    >>> _ = file.write_text(f'[[hidden]]\\nname = "scenes"\\npairs = "{pairs}"\\ntotal = 1\\nstep = 0.5\\n')
    >>> _ = ta.board_user("ann", file)
    >>> ta.board_backup(folder / "backup", file).files > 0
    True
    """
    from tellapart.board.submissions.backup import back_up

    to = as_path(target, "target")
    manifest = back_up(_read_hidden(board).submissions.state, to)
    return BackedUp(to, len(manifest.files), sum(file.bytes for file in manifest.files.values()))


def board_check(backup: PathGiven | None = None, *, board: PathGiven | None = None) -> CheckedState:
    """Check the state of a board's hidden benchmarks, or a backup of it.

    Args:
        backup: a backup's folder, instead of a board's state.
        board: the board file (TOML).

    Raises:
        DataError: neither or both are named, or the file has no hidden benchmarks.

    >>> import tellapart as ta
    >>> folder, pairs = getfixture("tmp_path"), Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> file = folder / "board.toml"
    >>> _ = file.write_text(f'[[hidden]]\\nname = "scenes"\\npairs = "{pairs}"\\ntotal = 1\\nstep = 0.5\\n')
    >>> _ = ta.board_user("ann", file), ta.board_backup(folder / "backup", file)
    >>> ta.board_check(folder / "backup").problems, ta.board_check(board=file).problems
    ((), ())
    """
    from tellapart.board.submissions.backup import check_backup, check_state

    if (backup is None) == (board is None):
        raise DataError("name either a backup's folder or board=FILE, to check one of them")
    if backup is not None:
        place = as_path(backup, "backup")
        return CheckedState(place, tuple(check_backup(place)))
    place = _read_hidden(board).submissions.state
    if not place.is_dir():
        return CheckedState(place, (f"there is no {place}: this board was never served",))
    return CheckedState(place, tuple(check_state(place)))


def board_accept(board: PathGiven) -> AcceptedState:
    """Take the state as it is after a part was lost or replaced, so that the board starts again.

    Raises:
        DataError: the board file has no hidden benchmarks.

    >>> import tellapart as ta
    >>> folder, pairs = getfixture("tmp_path"), Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> file = folder / "board.toml"
    >>> _ = file.write_text(f'[[hidden]]\\nname = "scenes"\\npairs = "{pairs}"\\ntotal = 1\\nstep = 0.5\\n')
    >>> _ = ta.board_user("ann", file)
    >>> ta.board_accept(file).state.name
    'state'
    """
    from tellapart.board.submissions.service import Submissions

    submissions = Submissions(_read_hidden(board), accept=True)
    return AcceptedState(submissions.state, dict(submissions.database.counters()))


def board_retry(board: PathGiven, files: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Measure files again that failed through no fault of theirs; the board may be running.

    Args:
        board: a board file (TOML).
        files: ids of submissions; all that failed if none is named.

    Returns:
        The ids of the files that wait again.

    Raises:
        DataError: the board file has no hidden benchmarks.
        RunError: an id is not that of a failed file that is still on the server.

    >>> import tellapart as ta
    >>> folder, pairs = getfixture("tmp_path"), Path("examples/eqsim_ablation/smoke_scenes").absolute()
    >>> file = folder / "board.toml"
    >>> _ = file.write_text(f'[[hidden]]\\nname = "scenes"\\npairs = "{pairs}"\\ntotal = 1\\nstep = 0.5\\n')
    >>> ta.board_retry(file)
    ()
    """
    from tellapart.board.submissions.refused import RefusedError
    from tellapart.board.submissions.service import Submissions

    try:
        return tuple(Submissions(_read_hidden(board)).queue.retry(as_names(files, "files")))
    except RefusedError as error:
        raise RunError(f"files={quote(files)}: {error}") from error


def _as_board_file(board: PathGiven | None) -> Path:
    path = as_path(board, "board")
    if path.is_dir():
        raise DataError(f"board={path} is a folder; name the board file, such as {path / 'board.toml'}", path=path)
    return path


def _read_hidden(board: PathGiven | None) -> HiddenSettings:
    from tellapart.board.submissions.hidden import read_hidden

    path = _as_board_file(board)
    settings = read_hidden(path)
    if settings is None:
        raise DataError(f"{path} has no hidden benchmarks; add a table [[hidden]] to it")
    return settings


def _bind_address(host: str, port: int) -> socket.socket:
    """Bind the address before anything is read in: one that is taken is an error at once, and early readers wait."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RunError(
            f"cannot serve at {host}:{port}: {error.strerror or error}; name another host= or port="
        ) from error


@contextmanager
def _open_board(
    runs: PathGiven | Sequence[PathGiven] | None,
    board: Path | None,
    database: str | None,
    submissions: Submissions | None,
    report: Callable[[str], None],
) -> Iterator[tuple[BoardSettings, Store]]:
    """Read the settings, open the database, and read in new folders."""
    require("sqlmodel", extra="board")
    from tellapart.board.records import read_in
    from tellapart.board.settings import BoardSettings, read_settings
    from tellapart.board.store import Store, database_url

    settings = read_settings(board) if board is not None else BoardSettings()
    named = () if runs is None else tuple(as_paths(runs, "runs"))
    given = named or settings.runs or ((Path("runs"),) if board is None else ())
    with unpacked(given) as folders:
        for folder in folders:
            if not folder.is_dir():
                raise RunError(f"{folder} is not a folder; `tellapart run --out {folder}/mine` makes a first run in it")
        hidden = () if submissions is None else (submissions.records,)
        settings = settings.model_copy(update={"runs": (*folders, *hidden)})
        # The database of an archive goes with it: its folder has another name the next time.
        first = next((new for new, old in zip(folders, given, strict=True) if new != old), next(iter(folders), None))
        beside = first or (board.parent if board is not None else Path())
        with Store(database_url(database or settings.database, beside, (*settings.runs, *settings.imported))) as store:
            read_in(store, settings, report)
            yield settings, store


def _warn_left(problem: str) -> None:
    warnings.warn(f"left out: {problem}", TellapartWarning, stacklevel=3)
