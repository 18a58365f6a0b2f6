"""The state of hidden benchmarks: its database, accounts in it (users, tokens, sessions), and limits on requests.

A token is `tap_<id>_<secret>` with 256 random bits. The database holds an HMAC of the secret under the server's key,
and neither is of use without the other. A slow hash would add nothing, since the secret cannot be guessed. Digests are
compared in constant time, and for an unknown id a digest is compared, too. A token or session that has once expired
stays invalid, even if the server's clock goes back.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import math
import os
import re
import secrets
import sqlite3
import tempfile
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

from pydantic import BaseModel, NonNegativeInt

from tellapart.board.submissions.prepared import keyed_hash
from tellapart.data.atomic import atomic_file, sync_folder, use_write_ahead_log
from tellapart.data.rows import read_object, read_toml
from tellapart.data.validation import validate
from tellapart.errors import StoreError, TellapartError

# Without the secret every token is void, with an emptied or older database limits and closings are forgotten, and with
# another truth every number changes. None of this looks like an error by itself. So the database holds marks: the
# secret's fingerprint and the digests of the prepared files. `marker.json` next to it holds the fingerprint and the
# database's counters. If they disagree, the board does not start.
#
# Every change of the database is one transaction with `BEGIN IMMEDIATE`: of two files sent at the same moment only one
# can be the last that a limit allows.

_SCHEMA = 3
_TABLES = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8").split("\n\n")

#: The states of a submission that is not finished.
UNDER_WAY = ("received", "validated", "measuring")

_QUERIES = read_toml(Path(__file__).with_name("queries.toml"))


class Database:
    """The database; each use opens a connection, so threads and processes can share the file.

    One more connection stays open and idle. While it does, SQLite keeps its log files next to the database: a request
    does not wait until they are created, and reading still works when the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)  # SQLite would create it, and its log files, readable by everybody
            path.chmod(0o600)
            with self._open_connection() as connection:
                use_write_ahead_log(connection)
            with self.change() as connection:
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
                version = connection.execute("PRAGMA user_version").fetchone()[0]
            idle = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, idle.close)
            idle.execute("PRAGMA user_version").fetchone()  # the first query opens the files
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path} cannot be used as the board's database: {error}") from error
        if version != _SCHEMA:
            raise StoreError(f"{path} {_describe_version(version)}")

    @contextmanager
    def _open_connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")  # a submission that was confirmed survives a power cut
            yield connection

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which is committed unless an exception leaves the block."""
        with self._open_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back unless a full disk did already
                yield connection

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose reads all see the same state, and which blocks nobody."""
        with self._open_connection() as connection:
            connection.execute("BEGIN")
            yield connection

    def all(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._open_connection() as connection:
            return connection.execute(query, values).fetchall()

    def one(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        return next(iter(self.all(query, *values)), None)

    def counters(self) -> dict[str, int]:
        """Return the database's counters, which only grow."""
        with self.look() as connection:
            return read_counters(connection)

    @staticmethod
    def log(connection: sqlite3.Connection, at: float, who: str, what: str, about: Mapping[str, Any]) -> None:
        """Add an entry to the log, in the same transaction as the change that it records."""
        values = (at, who, what, json.dumps(about))
        connection.execute("INSERT INTO log (at, who, what, about) VALUES (?, ?, ?, ?)", values)


def read_counters(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the counters of an open database; empty if it has no tables."""
    queries = _QUERIES["counters"] if _read_schema(connection) else {}
    return {name: int(connection.execute(query).fetchone()[0]) for name, query in queries.items()}


def read_marks(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the marks that tie an open database to its files; none if it has no tables."""
    return dict(map(tuple, connection.execute("SELECT * FROM mark") if _read_schema(connection) else ()))


def describe_damage(connection: sqlite3.Connection) -> str:
    """Return the first fault of an open database, in words; an empty text if it is intact, or has no tables yet."""
    schema = _read_schema(connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema and version != _SCHEMA:
        return f"it {_describe_version(version)}"
    with closing(sqlite3.connect(":memory:")) as empty:
        for statement in _TABLES:
            empty.execute(statement)
        expected = _read_schema(empty)
    if schema and (changed := [name for name, statement in expected.items() if schema.get(name) != statement]):
        return f"its {changed[0]!r} is {'changed' if changed[0] in schema else 'gone'}"
    first = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if first == "ok" else " ".join(first.split())


def _describe_version(version: int) -> str:
    remedy = "use the tellapart that wrote it, or another state folder"
    return f"has version {version}, and this tellapart reads {_SCHEMA}; {remedy}"


def _read_schema(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the statements that made an open database's tables, indices and triggers."""
    return dict(map(tuple, connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")))


#: Files of the state's folder, and the size of a secret.
SECRET, DATABASE, MARKER = "secret", "submissions.sqlite", "marker.json"
SECRET_BYTES = 32

#: What to do about a loss.
REMEDY = (
    "restore the state from a backup (`tellapart board backup` makes them), or, if this is what you want, take it as "
    "it is with `tellapart board accept`"
)


class Marker(BaseModel, frozen=True, extra="forbid"):
    """The content of `marker.json`: the secret's fingerprint, and the database's counters when it was written."""

    secret: str
    counters: dict[str, NonNegativeInt]


class State:
    """The folder of a board's state: its secret and its database, which are made if the folder is new."""

    @staticmethod
    def exists(folder: Path) -> bool:
        """Return whether a board was ever served from this folder."""
        return any((folder / name).exists() for name in (DATABASE, MARKER))

    @staticmethod
    @contextmanager
    def usable(folder: Path) -> Iterator[None]:
        """Add the remedy to an error of the database that is raised within the block."""
        try:
            yield
        except sqlite3.Error as error:
            why = f"{folder / DATABASE} cannot be used as the board's database: {error}"
            raise StoreError(f"{why}; {REMEDY}") from error

    def __init__(self, folder: Path, *, accept: bool = False) -> None:
        if not accept and (loss := next(find_losses(folder), None)):
            raise StoreError(f"{loss}; {REMEDY}")
        self.folder, self.secret, self.database = folder, _read_secret(folder), Database(folder / DATABASE)
        with self.database.change() as rows:
            if accept:
                rows.execute("DELETE FROM mark")
                Database.log(rows, time.time(), "command line", "state accepted", {})
            rows.execute("INSERT OR IGNORE INTO mark VALUES ('secret', ?)", (_secret_fingerprint(self.secret),))
        self._noted = self.database.counters()  # as `marker.json` has them
        if accept or not (folder / MARKER).is_file():
            write_marker(folder, self.secret, self._noted)

    def note_counters(self) -> None:
        """Write the database's counters next to it if they have grown."""
        counters = self.database.counters()
        if counters != self._noted:
            with suppress(StoreError):  # of a full disk: they are noted later
                write_marker(self.folder, self.secret, counters)
                self._noted = counters

    def mark(self, files: Mapping[Path, str]) -> None:
        """Mark files of the benchmarks' folders with their digests; refuse one whose mark is another."""
        with self.database.change() as rows:
            marks = read_marks(rows)
            for path, digest in files.items():
                name = f"{path.parent.name}/{path.name}"
                if marks.get(name, digest) != digest:
                    raise StoreError(f"{path} is not the file that was prepared; {REMEDY}")
                rows.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", (name, digest))


def write_marker(state: Path, secret: bytes, counters: Mapping[str, int]) -> None:
    """Write `marker.json`."""
    marker = Marker(secret=_secret_fingerprint(secret), counters=dict(counters))
    try:
        with atomic_file(state / MARKER) as draft:  # synced, or a power cut could leave an empty one: no start
            draft.write_text(marker.model_dump_json(), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{state / MARKER} cannot be written: {error}") from error


def find_losses(state: Path, *, at_rest: bool = False) -> Iterator[str]:
    """Yield, in a line each, the lost, replaced or damaged parts of the state; nothing for a folder that is new."""
    marker = None
    try:
        # The marker is read before the database: its counters may have grown since, and are never smaller.
        marker = validate(Marker, read_object(path), str(path)) if (path := state / MARKER).exists() else None
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
            counters, marks = read_counters(rows), read_marks(rows)
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
    for name, least in marker.counters.items() if counters and marker else ():
        if (count := counters.get(name, 0)) < least:
            yield f"{database} is older than {MARKER} beside it: its {name} were {least:,}, and are {count:,}"
            break


@contextmanager
def look_into(database: Path, *, at_rest: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection that only reads; `at_rest`: nobody writes, as in a backup."""
    if not database.is_file():
        raise FileNotFoundError(f"there is no {database}")
    # Not mode=ro: after a power cut the log of changes must be taken in first, which writes.
    uri = f"{database.absolute().as_uri()}?{'immutable=1' if at_rest else 'mode=rw'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)) as rows:
        rows.execute("PRAGMA query_only = ON")
        rows.row_factory = sqlite3.Row
        yield rows


def _secret_fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint").hex()[:32]


def _read_secret(state: Path) -> bytes:
    """Return the server's secret, the key of every shuffle, token and session; make it if it is missing."""
    path = state / SECRET
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():  # it is on the disk before it gets its name, and only one of several processes names it
            number, draft = tempfile.mkstemp(prefix=".secret-", dir=state)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(secrets.token_bytes(SECRET_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):
                    path.hardlink_to(draft)
                sync_folder(state)  # or the next start after a power cut makes another, under which no token is good
            finally:
                Path(draft).unlink()
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


class RefusedError(TellapartError):
    """A refused request: nothing was changed, and nothing was counted.

    Attributes:
        status: of HTTP: 401 no valid token, 403 not allowed, 404 not found, 408 too slow, 409 closed, 413 too large,
            422 invalid, 429 too often, 503 busy, 507 no room on the disk.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_MOST = 10_000  # buckets; the one unused for longest is dropped first, and is full again by then


def network(host: str) -> str:
    """Return the part of an address that belongs to one sender: all of IPv4, the first 64 bits of IPv6."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.IPv6Network((address, 64), strict=False))


class RateLimit:
    """A limit on requests a minute of each sender; all of a minute's may come at once."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self.a_minute, self.clock = a_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # sender -> (requests left, at this time)
        self._lock = Lock()

    def spend(self, sender: str) -> None:
        """Count one request."""
        with self._lock:
            now, a_second = self.clock(), self.a_minute / 60
            tokens, at = self._buckets.pop(sender, (float(self.a_minute), now))
            tokens = min(float(self.a_minute), tokens + (now - at) * a_second)
            self._buckets[sender] = (tokens - 1 if tokens >= 1 else tokens, now)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / a_second)
            raise RefusedError(429, f"more than {self.a_minute} requests a minute; try again in {wait} s")


class UploadLimit:
    """A limit on uploads at the same time: an upload takes a connection, memory and room on the disk."""

    def __init__(self, *, each: int = 2, most: int = 8) -> None:
        self.each, self.most = each, most
        self._uploads: Counter[str] = Counter()
        self._lock = Lock()

    @contextmanager
    def hold(self, user: str) -> Iterator[int]:
        """Count an upload of a user while the block lasts; yield how many other uploads there are."""
        with self._lock:
            others = self._uploads.total()
            if self._uploads[user] >= self.each:
                raise RefusedError(429, f"{user} is sending as many as may come, {self.each}; wait until one has come")
            if others >= self.most:
                raise RefusedError(503, "too many files are being sent at this moment; nothing was counted, try again")
            self._uploads[user] += 1
        try:
            yield others
        finally:
            with self._lock:
                self._uploads[user] -= 1
                self._uploads += Counter()  # drops users without an upload


#: The cookie of a browser's session.
COOKIE = "tellapart_session"

#: A user's role; each includes those before it.
Role = Literal["reader", "submitter", "admin"]

_ROLES: tuple[str, ...] = get_args(Role)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DAY = 86_400  # seconds
_SERVER = "server"  # the log's name for actions without a user


@dataclass(frozen=True, slots=True)
class Account:
    """The user of a request."""

    user: str
    role: Role
    token: str  # the id of the token

    def may(self, role: Role) -> bool:
        """Return whether the account's role includes this one."""
        return _ROLES.index(self.role) >= _ROLES.index(role)


class Accounts:
    """Users, tokens and sessions."""

    def __init__(self, database: Database, key: bytes, clock: Callable[[], float]) -> None:
        self.database, self.key, self.clock = database, key, clock

    def add(self, name: str, role: Role, *, by: str) -> None:
        """Add a user."""
        if not _NAME.fullmatch(name):
            raise RefusedError(422, f"user {name!r:.80}: up to 63 letters, digits and . _ -, first a letter or a digit")
        if name.lower() == _SERVER:
            raise RefusedError(422, f"user {name!r}: the log calls the server itself so; use another name")
        if role not in _ROLES:
            raise RefusedError(422, f"role {role!r:.80}: use one of {', '.join(_ROLES)}")
        with self.database.change() as rows:
            try:
                rows.execute("INSERT INTO user VALUES (?, ?, ?)", (name, role, self.clock()))
            except sqlite3.IntegrityError:
                raise RefusedError(409, f"user {name!r} is there already") from None
            self.database.log(rows, self.clock(), by, "user added", {"user": name, "role": role})

    def role(self, user: str) -> str:
        """Return a user's role."""
        row = self.database.one("SELECT role FROM user WHERE name = ?", user)
        if row is None:
            raise RefusedError(404, f"no user {user!r:.80}")
        return str(row["role"])

    def issue(self, user: str, *, days: float, by: str) -> tuple[str, str]:
        """Make a token for a user; return its id, by which it is revoked, and the token, which nothing shows again."""
        if not 0 < days <= 3660:
            raise RefusedError(422, f"a token is good for more than 0 and up to 3660 days; got {days:g}")
        id_, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), self.clock()
        row = (id_, user, keyed_hash(self.key, "token", secret), now, now + days * DAY)
        with self.database.change() as rows:
            try:
                rows.execute("INSERT INTO token VALUES (?, ?, ?, ?, ?, NULL)", row)
            except sqlite3.IntegrityError:
                raise RefusedError(404, f"no user {user!r:.80}") from None
            self.database.log(rows, now, by, "token issued", {"user": user, "token": id_})
        return id_, f"tap_{id_}_{secret}"

    def revoke(self, id_: str, *, by: str) -> None:
        """Revoke a token, and end its sessions."""
        with self.database.change() as rows:
            now = self.clock()
            revoked = rows.execute("UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, id_))
            if not revoked.rowcount:
                raise RefusedError(404, f"no token {id_!r:.80} that is still good")
            rows.execute("DELETE FROM session WHERE token = ?", (id_,))
            self.database.log(rows, now, by, "token revoked", {"token": id_})

    def of_token(self, token: str, before_refusal: Callable[[str], None] = lambda _user: None) -> Account:
        """Return the account of a token; `before_refusal` is called with its user, or an empty name."""
        id_, _, secret = token.removeprefix("tap_").partition("_")
        row = self.database.one("SELECT token.*, role FROM token JOIN user ON name = user WHERE id = ?", id_)
        digest = keyed_hash(self.key, "token", secret.encode("utf-8", "replace").decode())
        right = hmac.compare_digest(digest, row["digest"] if row else keyed_hash(self.key, "nobody's"))
        if row is not None and right and row["revoked"] is None and self.clock() < row["expires"]:
            return Account(row["user"], row["role"], row["id"])
        before_refusal(row["user"] if row is not None else "")
        if row is not None:  # a stolen, old or mistyped token is logged; unknown ids would only fill the log
            why = "wrong secret" if not right else "revoked" if row["revoked"] is not None else "expired"
            with self.database.change() as rows:
                if why == "expired":  # for good, even if the clock is set back
                    rows.execute("UPDATE token SET revoked = expires WHERE id = ? AND revoked IS NULL", (id_,))
                self.database.log(rows, self.clock(), row["user"], "token refused", {"token": id_, "why": why})
        raise RefusedError(401, "this token is mistyped, expired or revoked; ask an admin of the board for another")

    def sign_in(self, token: str, *, hours: float, before_refusal: Callable[[str], None] = lambda _user: None) -> str:
        """Begin a browser session; return its cookie. `before_refusal` as of `of_token`."""
        account, cookie = self.of_token(token, before_refusal), secrets.token_urlsafe(32)
        with self.database.change() as rows:
            now = self.clock()
            rows.execute("DELETE FROM session WHERE expires < ?", (now,))
            digest = keyed_hash(self.key, "session", cookie)
            rows.execute("INSERT INTO session VALUES (?, ?, ?)", (digest, account.token, now + hours * 3600))
            self.database.log(rows, now, account.user, "signed in", {"token": account.token})
        return cookie

    def of_session(self, cookie: str) -> Account | None:
        """Return the account of a session; None without a cookie, or if the session or its token has expired."""
        if not cookie:
            return None
        now, digest = self.clock(), keyed_hash(self.key, "session", cookie)
        row = self.database.one(_QUERIES["find_session"], now, digest)
        if row is None:
            return None
        if not row["good"]:  # ended for good, even if the clock is set back
            with suppress(sqlite3.OperationalError), self.database.change() as rows:
                rows.execute("DELETE FROM session WHERE digest = ?", (digest,))
            return None
        return Account(row["user"], row["role"], row["id"])

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        with self.database.change() as rows:
            rows.execute("DELETE FROM session WHERE digest = ?", (keyed_hash(self.key, "session", cookie),))

    def form_key(self, cookie: str) -> str:
        """Return the key that a form of this session must carry, so that no other site can send one."""
        return keyed_hash(self.key, "form", cookie).hex()

    def check_form(self, cookie: str, key: str) -> None:
        """Refuse a form that is not from this session's pages."""
        if not hmac.compare_digest(self.form_key(cookie).encode(), key.encode("utf-8", "replace")):
            raise RefusedError(403, "this form is not from the board's own page, or the session is over; load it again")
