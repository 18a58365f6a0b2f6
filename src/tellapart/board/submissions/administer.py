"""Administer a board with hidden benchmarks: its users, backups and checks of its state, and files that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tellapart.board.settings import as_board_file
from tellapart.board.submissions.hidden import HiddenSettings, read_hidden
from tellapart.board.submissions.refused import RefusedError
from tellapart.data.arguments import PathGiven, as_names, as_path
from tellapart.errors import DataError, RunError, quote


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
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> ta.board_user("ann", board).role
    'submitter'
    """
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
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board)
    >>> ta.board_backup(board.parent / "backup", board).files > 0
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
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board), ta.board_backup(board.parent / "backup", board)
    >>> ta.board_check(board.parent / "backup").problems, ta.board_check(board=board).problems
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
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> _ = ta.board_user("ann", board)
    >>> ta.board_accept(board).state.name
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
    >>> board = ta.board_new(getfixture("tmp_path"), "examples/eqsim_ablation/smoke_scenes")
    >>> ta.board_retry(board)
    ()
    """
    from tellapart.board.submissions.service import Submissions

    try:
        return tuple(Submissions(_read_hidden(board)).queue.retry(as_names(files, "files")))
    except RefusedError as error:
        raise RunError(f"files={quote(files)}: {error}") from error


def _read_hidden(board: PathGiven | None) -> HiddenSettings:

    path = as_board_file(board)
    settings = read_hidden(path)
    if settings is None:
        raise DataError(f"{path} has no hidden benchmarks; add a table [[hidden]] to it")
    return settings
