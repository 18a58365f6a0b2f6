"""The state of hidden benchmarks on the disk: the secret, the database, and the marks by which a loss is noticed.

Without its secret every token is void; with an emptied or older database limits and closings are forgotten, and
with another truth every number changes. None of this looks like an error by itself, so files that belong together are
marked in both places: the database holds the secret's fingerprint and the digests of the prepared files, and
`marker.json` next to it the fingerprint and the database's counters, which only grow. A start finds them in agreement,
or stops.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from tellapart.board.submissions.database import Database, describe_damage
from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.data.atomic import atomic_file, sync_folder
from tellapart.data.rows import read_object
from tellapart.data.validation import validate_table
from tellapart.errors import StoreError, TellapartError

SECRET, DATABASE, MARKER = "secret", "submissions.sqlite", "marker.json"
"""Files of the state's folder."""

REMEDY = (
    "restore the state from a backup (`tellapart board backup` makes them), or, if this is what you want, take it as "
    "it is with `tellapart board accept`"
)
"""What to do about a loss."""

SECRET_BYTES = 32
"""The size of a secret."""


class Marker(BaseModel):
    """The content of `marker.json`: the secret's fingerprint, and the database's counters when it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: str
    counters: dict[str, NonNegativeInt]


def open_state(state: Path, *, accept: bool = False) -> tuple[bytes, Database]:
    """Return the secret and the database; make them if the folder is new."""
    if not accept and (loss := next(find_losses(state), None)):
        raise StoreError(f"{loss}; {REMEDY}")
    secret = _read_secret(state)
    database = Database(state / DATABASE)
    with database.change() as rows:
        if accept:
            rows.execute("DELETE FROM mark")
            Database.log(rows, time.time(), "command line", "state accepted", {})
        rows.execute("INSERT OR IGNORE INTO mark VALUES ('secret', ?)", (_secret_fingerprint(secret),))
    if accept or not (state / MARKER).is_file():
        write_marker(state, secret, database.counters())
    return secret, database


def write_marker(state: Path, secret: bytes, counters: Mapping[str, int]) -> None:
    """Write `marker.json`."""
    marker = Marker(secret=_secret_fingerprint(secret), counters=dict(counters))
    try:
        with atomic_file(state / MARKER) as draft, draft.open("w", encoding="utf-8") as file:
            file.write(marker.model_dump_json())
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty one, which stops the next start
    except OSError as error:
        raise StoreError(f"{state / MARKER} cannot be written: {error}") from error


def find_losses(state: Path, *, at_rest: bool = False) -> Iterator[str]:
    """Yield, in a line each, the lost, replaced or damaged parts of the state; nothing for a folder that is new."""
    marker = None
    try:
        marker = _read_marker(state / MARKER)  # before the database, whose counters only grow
    except TellapartError as error:
        yield str(error)
    database, secret = state / DATABASE, state / SECRET
    used = (state / MARKER).exists() or any(state.glob("hidden/*/truth.json"))
    counters: dict[str, int] = {}
    marks: dict[str, str] = {}
    try:
        with look_into(database, at_rest=at_rest) as rows:
            if damage := describe_damage(rows):
                yield f"{database} is damaged: {damage}"
                return
            counters, marks = Database.read_counters(rows), Database.read_marks(rows)
    except (sqlite3.Error, OSError) as error:
        # A file that was missing may exist now, made by another server that starts at the same time.
        if not isinstance(error, FileNotFoundError) and database.exists():
            yield f"{database} cannot be used as the board's database: {error}"
            return
    if used and not counters:
        gone = "is empty" if database.exists() else "is gone"
        yield f"{database} {gone}, and with it every account, limit and closing"
    if (used or counters) and not secret.exists():
        yield f"{secret} is gone: every token is void without it, and no task could be made again"
    elif secret.exists() and secret.stat().st_size == SECRET_BYTES:
        fingerprint = _secret_fingerprint(secret.read_bytes())
        if marks.get("secret", fingerprint) != fingerprint:
            yield f"{secret} is not the one that the database and the tokens were made with"
        elif marker and marker.secret != fingerprint:
            yield f"{state / MARKER} was not written with this secret: one of the two is of another state"
    if counters and marker:
        for name, least in marker.counters.items():
            if (count := counters.get(name, 0)) < least:
                yield f"{database} is older than {MARKER} beside it: its {name} were {least:,}, and are {count:,}"
                break


@contextlib.contextmanager
def look_into(database: Path, *, at_rest: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection that only reads."""
    if not database.is_file():
        raise FileNotFoundError(f"there is no {database}")
    # Not mode=ro: after a power cut the log of changes must be taken in first, which writes.
    uri = f"{database.absolute().as_uri()}?{'immutable=1' if at_rest else 'mode=rw'}"
    rows = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
    try:
        rows.execute("PRAGMA query_only = ON")
        rows.row_factory = sqlite3.Row
        yield rows
    finally:
        rows.close()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _secret_fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint").hex()[:32]


def _read_marker(path: Path) -> Marker | None:
    return validate_table(Marker, read_object(path), str(path)) if path.exists() else None


def _read_secret(state: Path) -> bytes:
    """Return the server's secret, the key of every shuffle, token and session; make it if it is missing."""
    path = state / SECRET
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
        foreign = [folder for folder in (state, path) if folder.stat().st_uid != os.geteuid()]
        open_to_others = path.stat().st_mode & 0o077 or state.stat().st_mode & 0o022
    except OSError as error:
        raise StoreError(f"{state} cannot hold the server's state: {error}; look at [submissions] state") from error
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{path} is not the secret that this server made; restore it, or no file can be measured")
    if foreign:
        raise StoreError(f"{foreign[0]} belongs to another user, who could read or change it; use a folder of your own")
    if open_to_others:
        raise StoreError(f"others can read {path} or write to {state}: chmod 700 {state}; chmod 600 {path}")
    return secret


def _make_secret(path: Path) -> None:
    """Write a new secret atomically: on the disk before it has its name, and by one of several processes."""
    number, draft = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        sync_folder(path.parent)  # or the next start after a power cut makes another, under which no token is good
    finally:
        Path(draft).unlink()
