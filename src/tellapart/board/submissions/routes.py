"""Routes of hidden benchmarks: the list, leaderboards, uploads, submissions, sessions and administration.

Every address gives a page to a browser, and JSON to a program or with `?format=json`. A program sends its token in the
header `Authorization: Bearer TOKEN`. A browser signs in with the same token and gets a session; forms of the session
carry a key. Administration needs a token, so that no page of another site can do it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import shutil
import sqlite3
import unicodedata
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import anyio
from disarm import skeleton_key
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from tellapart.board.rendering import ServerLinks, render
from tellapart.board.submissions.accounts import COOKIE, Account, RefusedError, Role, network
from tellapart.board.submissions.service import Receipt, Submissions, Upload
from tellapart.catalog import REFERENCES
from tellapart.errors import plain

#: The answer if the disk is full, or another process has locked the database.
_UNABLE = RefusedError(503, "the server cannot do this now; nothing was changed, try again later")


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a refusal, or a busy or full disk anywhere on the board, with `{"detail": why}` or with a page."""
    if not isinstance(error, RefusedError):
        logging.getLogger(__name__).warning("%s", plain(f"{request.url.path}: {error}"))
    refused = error if isinstance(error, RefusedError) else _UNABLE
    headers = {"Cache-Control": "no-store", **({"WWW-Authenticate": "Bearer"} if refused.status == 401 else {})}
    if wants_page(request):
        text = render("refused", ServerLinks(request.scope["root_path"]), refused=refused)
        return HTMLResponse(text, refused.status, headers)
    return JSONResponse({"detail": str(refused)}, refused.status, headers)


def wants_page(request: Request) -> bool:
    """Return whether the request is a browser's, without `?format=json`."""
    return request.query_params.get("format") != "json" and "text/html" in request.headers.get("accept", "")


def page(request: Request, board: Submissions, template: str, data: Mapping[str, Any]) -> Response:
    """Answer with a page or with JSON, as the request wants."""
    headers = {"Cache-Control": "no-store", "Vary": "Accept, Authorization, Cookie"}
    if not wants_page(request):
        return JSONResponse(dict(data), headers=headers)
    cookie = request.cookies.get(COOKIE, "")
    account = board.accounts.of_session(cookie)
    key, again = board.accounts.form_key(cookie) if account else "", "again" in request.query_params
    session = {"account": account, "key": key, "again": again, "files_left": board.files_left}
    text = render(template, ServerLinks(request.scope["root_path"]), **data, **session)
    return HTMLResponse(text, headers=headers)


_SMALL = 8192  # the most bytes of a form without a file
_SOON = 10  # seconds within which such a form must come


class RequestAuth:
    """The authentication of one request."""

    def __init__(self, request: Request, board: Submissions) -> None:
        self.request, self.board = request, board
        self.address = f"address {network(request.client.host) if request.client else ''}"

    @property
    def is_browser(self) -> bool:
        """Whether the request has no token, so that only a session can authenticate it."""
        return "authorization" not in self.request.headers

    def count(self) -> None:
        """Count a request that needs no account: by the session's token, or else by the address."""
        account = self._of_session()
        self.board.requests.spend(f"token {account.token}" if account else self.address)

    def account(self, role: Role, *, by_token: bool = False) -> Account:
        """Return the account of the request, and count the request."""
        if self.is_browser and not by_token:
            account = self._of_session()
            if account is None:
                raise RefusedError(401, "sign in first; a program sends its token: Authorization: Bearer TOKEN")
        else:
            scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise RefusedError(401, "send your token: Authorization: Bearer TOKEN")
            account = self.board.accounts.of_token(token.strip(), self.count_guess)
        self.board.requests.spend(f"token {account.token}")
        if not account.may(role):
            raise RefusedError(403, f"this takes a token of the role {role}; {account.user} is a {account.role}")
        return account

    def _of_session(self) -> Account | None:
        return self.board.accounts.of_session(self.request.cookies.get(COOKIE, ""))

    def count_guess(self, user: str, *, by_address: bool = True) -> None:
        """Count a wrong token by the address, and by the account at which it guesses, from any address.

        Good tokens are not counted, so that nobody can lock another user out.
        """
        if by_address:
            self.board.sign_ins.spend(self.address)
        if user:
            self.board.sign_ins.spend(f"account {user}")

    def check_site(self) -> None:
        """Refuse a form that comes from another site, by the browser's header."""
        headers = self.request.headers
        # Our own pages send `null` under `Referrer-Policy: no-referrer`; the form's key guards the request then.
        origin, host = headers.get("origin", "null"), headers.get("host", "")
        elsewhere = origin != "null" and urlsplit(origin).netloc != host
        if elsewhere or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(403, "this form was sent from another site")

    async def small_form(self) -> dict[str, str]:
        """Read a form without files from this site; every address may send a few a minute."""
        self.check_site()
        self.board.sign_ins.spend(self.address)
        try:
            with anyio.fail_after(_SOON):
                body = await _cap_body(self.request, _SMALL, f"this form takes up to {_SMALL} bytes").body()
        except (TimeoutError, ClientDisconnect) as error:
            raise RefusedError(408, "the form did not come whole") from error
        try:
            return dict(parse_qsl(body.decode("ascii"), max_num_fields=8))
        except ValueError as error:
            raise RefusedError(422, "the body is no form") from error


#: Protocol of a benchmark -> endings of the files that it takes.
_SUFFIXES = {
    "scores": (".npz", ".csv", ".jsonl"),
    "answers": (".jsonl", ".csv", ".json"),
    "predictions": (".jsonl", ".csv", ".json"),
}
_FORM = 16_384  # the most bytes of a form besides its file
_MOST = "at most {:,} are taken: send what the task file asks for, and nothing else"
_PIECE = 1 << 16
_NAME = 80  # characters of a file's name
_GRACE, _SLOWEST = 30, 1 << 16  # an upload has 30 seconds, and one more for every 65,536 bytes that are allowed
_INVISIBLE = "\u115f\u1160\u17b4\u17b5\u2028\u2029\u2800\u3164\uffa0"  # no control characters, and yet invisible
_ALIKE = str.maketrans("i543", "lsae")  # letters and digits that look alike, beyond Unicode's table
_ARTICLES = {"a", "an", "the"}
_PEOPLE = ("human", "humans", "people", "annotator", "annotators", "volunteers", "crowdworkers", "turkers", "mturk")
#: Scripts that one word may combine, as Japanese, Korean and Chinese do.
_JOINED = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "LATIN"}


async def receive(request: Request, board: Submissions, name: str, model: str, file: str) -> Receipt:
    """Take a file into the queue, or find the same one that was sent before."""
    auth = RequestAuth(request, board)
    account = await run_in_threadpool(auth.account, "submitter")
    header = request.headers.get("content-length", "")
    length = int(header[:18]) if header.isascii() and header.isdigit() else 0
    await run_in_threadpool(board.queue.check_allowed, account, name, range(max(0, length - _FORM), length + 1))
    if auth.is_browser:
        auth.check_site()
    limit, suffixes = board.settings.upload_bytes, _SUFFIXES[board.queue.benchmark(name).benchmark.protocol]
    if length > limit + _FORM:
        raise RefusedError(413, f"the file has {length:,} bytes; {_MOST.format(limit)}")
    with board.uploads.hold(account.user) as others:
        if shutil.disk_usage(board.queue.folder).free < (1 + others) * limit + board.settings.spare_bytes:
            why = "the server's disk is too full to take a file now; nothing was counted, try again later"
            raise RefusedError(507, why)
        try:
            with anyio.fail_after(_GRACE + limit / _SLOWEST):
                model, file, upload = await _read_body(auth, suffixes, model, file)
        except (OSError, ClientDisconnect) as error:
            number = getattr(error, "errno", None)
            if number is None:  # a fault of the disk has one, its timeout, too; `fail_after`'s has none
                raise RefusedError(408, "the file did not come whole, or too slowly; nothing was counted") from error
            # Of the queue's disk, or the temporary one, where the form's parser keeps large files.
            why = f"the server cannot keep the file now ({os.strerror(number)}); nothing was counted, try again later"
            raise RefusedError(507, why) from error
        return await run_in_threadpool(board.queue.take, account, name, model, file, upload)


async def _read_body(auth: RequestAuth, suffixes: tuple[str, ...], model: str, file: str) -> tuple[str, str, Upload]:
    """Return the model's name, the file's, and the file."""
    request, board = auth.request, auth.board
    limit, path = board.settings.upload_bytes, board.queue.folder / f"{secrets.token_hex(8)}.part"

    async def pieces(part: UploadFile) -> AsyncIterator[bytes]:
        while piece := await part.read(_PIECE):
            yield piece

    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        if "charset" in kind.lower():  # no browser names one, and some of Python's codecs are unsafe for such input
            raise RefusedError(422, "the form names a charset; send it as UTF-8")
        why = f"the form has more than {limit + _FORM:,} bytes; at most that are taken"
        async with _cap_body(request, limit + _FORM, why).form(max_files=1, max_fields=4, max_part_size=_FORM) as form:
            fields = {key: value for key, value in form.items() if isinstance(value, str)}
            if auth.is_browser:
                board.accounts.check_form(request.cookies.get(COOKIE, ""), fields.get("key", ""))
            part = form.get("file")
            if not isinstance(part, UploadFile):
                raise RefusedError(422, "the form has no file in its field file; choose one (curl: -F file=@FILE)")
            model = check_model_name(fields.get("model", model))  # curl -F: the address may name it
            file = _check_file_name(part.filename or file, suffixes)
            return model, file, await write_upload(pieces(part), path, limit)
    if auth.is_browser:  # a session needs a form with its key
        raise RefusedError(401, "send your token: Authorization: Bearer TOKEN; or use the board's form")
    model, file = check_model_name(model), _check_file_name(file, suffixes)
    stream: AsyncIterator[bytes] = request.stream()
    if kind.startswith("application/x-www-form-urlencoded") and not file.endswith(".json"):
        stream = _refuse_spoiled(stream)
    return model, file, await write_upload(stream, path, limit)


async def _refuse_spoiled(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass a body on, and refuse it at its end if it has no line end and no zero byte: `curl -d` removes both."""
    size, complete = 0, False
    async for piece in stream:
        size, complete = size + len(piece), complete or b"\n" in piece or b"\0" in piece
        yield piece
    if size and not complete:
        raise RefusedError(
            422,
            "the file came without its line ends, as curl's -d sends it; send it with --data-binary @FILE; a file that "
            "has none is no table and no npz file",
        )


def _cap_body(request: Request, most: int, why: str) -> Request:
    """Return the request with a body that is refused beyond `most` bytes, since its reader would store all of it."""
    size = 0

    async def receive_counted() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > most:
            raise RefusedError(413, why)
        return message

    return Request(request.scope, receive_counted)


def check_model_name(name: str) -> str:
    """Return a model's name as it is shown: one line of visible letters, without a special meaning on the board."""
    plain = unicodedata.normalize("NFC", name).strip()
    if not plain:
        raise RefusedError(422, "model: name it: ?model=NAME in the address, or the field of the form")
    if len(plain) > 100:
        raise RefusedError(422, f"model: give a name of up to 100 characters; got {len(plain)}")
    # Cc, Cf, Cs, Co, Cn: nothing to see, or able to turn the page's text around; Zl, Zp: another line.
    if hidden := [letter for letter in plain if unicodedata.category(letter)[0] == "C" or letter in _INVISIBLE]:
        raise RefusedError(422, f"model: {hidden[0]!a} cannot be shown in a name; leave it out")
    if not any(letter.isalnum() for letter in plain):
        raise RefusedError(422, f"model: {plain!a} has no letter and no digit; give a name that people can say")
    if word := _find_reserved(plain):
        part, stands = ("a word of it", "people") if word in _PEOPLE else ("it", "a reference model")
        why = f"{part} is, or looks like, {word!r}, which stands for {stands} on a board"
        raise RefusedError(422, f"model: {plain!a}: {why}; name the model without it")
    folded = unicodedata.normalize("NFKC", plain).casefold()
    for word in re.findall(r"[^\W\d_]+", folded):
        scripts = {re.split("[ -]", unicodedata.name(letter, ""))[0] for letter in word}
        if len(scripts) > 1 and not scripts <= _JOINED:
            listed = " and ".join(sorted(scripts)).lower()
            raise RefusedError(422, f"model: {word!a} has letters of two scripts, {listed}; write a word in one script")
    return plain


def _find_reserved(name: str) -> str:
    """Return the word for people in a name, or the reference model that the name looks like; else an empty text."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)  # HumanExperts, CLIPHuman: two words
    outside = re.sub(r"\(.*?\)", "", name)
    # Digits are read in two ways: as the letters that they look like, and as gaps between words. `joined` has all runs
    # of neighbouring words, joined: `crowdworkers` of `my crowd workers`.
    joined = {
        "".join(words[start:end])
        for words in map(_words_of, (parted, re.sub(r"\d", " ", parted)))
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    }
    bare = {
        "".join(word for word in words if word not in left_out)
        for words in map(_words_of, (outside, re.sub(r"\d", " ", outside)))
        for left_out in ((), _ARTICLES)
    }
    people = (word for word in _PEOPLE if "".join(_words_of(word)) in joined)
    return next(chain(people, (model for model in REFERENCES if "".join(_words_of(model)) in bare)), "")


def _words_of(name: str) -> list[str]:
    """Return the words of a name, each letter and digit as the small Latin letter that it looks like (UTS 39)."""
    shape = unicodedata.normalize("NFKD", skeleton_key(name, digit_policy="tr39")).translate(_ALIKE)
    bare = "".join(letter for letter in shape if unicodedata.category(letter)[0] != "M")
    return re.findall(r"[^\W\d_]+", bare.replace("rn", "m").replace("cl", "d"))


def _check_file_name(name: str, suffixes: tuple[str, ...]) -> str:
    """Return a file's name for its sender: short and printable, without folders; its ending must be allowed."""
    path = PurePosixPath(name.replace("\\", "/"))
    suffix = path.suffix.lower()
    if not name:
        raise RefusedError(422, f"file: add &file=NAME to the address, with the ending {' or '.join(suffixes)}")
    if suffix not in suffixes:
        raise RefusedError(422, f"file {name!r:.80}: send a file that ends in {', '.join(suffixes)}")
    stem = "".join(letter for letter in path.stem if letter.isprintable())
    return (stem[: _NAME - len(suffix)] or "file") + suffix


async def write_upload(stream: AsyncIterator[bytes], path: Path, most: int) -> Upload:
    """Write a stream to a new file."""
    digest, size, file = hashlib.sha256(), 0, path.open("xb")
    try:
        async for piece in stream:
            size += len(piece)
            if size > most:
                raise RefusedError(413, f"the file has more bytes; {_MOST.format(most)}")
            digest.update(piece)
            await run_in_threadpool(file.write, piece)  # a busy disk must not block other requests
        await run_in_threadpool(file.flush)
        await run_in_threadpool(os.fsync, file.fileno())
        if not size:
            raise RefusedError(422, "the file is empty; send the scores as the request's body")
    except BaseException:  # also if the sender disconnects
        path.unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):  # a full disk does not take the last bytes; the file is refused already
            file.close()
    return Upload(path, size, digest.hexdigest())


_BODY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_Format = Annotated[str | None, Query(alias="format", description="`json` for JSON in a browser, too.")]
_Again = Annotated[str | None, Query(alias="again", description="Anything: the page says that the file came again.")]
_REFUSED = {401: "no valid token", 403: "not allowed", 404: "not there", 408: "too slow", 409: "closed"}
_REFUSED |= {413: "too large", 429: "too often", 503: "not now", 507: "no room"}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": f"refused: {why}"} for status, why in _REFUSED.items()
}


def add_routes(app: FastAPI, submissions: Submissions) -> None:
    """Add the routes of hidden benchmarks to an application; `submissions.start()` measures the files."""
    router = APIRouter(tags=["hidden benchmarks"], responses=_REFUSALS)
    for add in (_add_reading, _add_sending, _add_sessions, _add_administration):
        add(router, submissions)
    app.include_router(router)
    for refusal in (RefusedError, sqlite3.OperationalError):
        app.add_exception_handler(refusal, _refuse)


def _add_reading(router: APIRouter, board: Submissions) -> None:
    @router.get("/hidden")
    def hidden(request: Request, _format: _Format = None) -> Response:
        """List the hidden benchmarks: limits, and how much of the labels the numbers give away."""
        RequestAuth(request, board).count()
        return page(request, board, "hidden", board.content(root=request.scope["root_path"]))

    @router.get("/hidden/{name}")
    def leaderboard(request: Request, name: str, _format: _Format = None) -> Response:
        """Show the leaderboard, once the benchmark is closed with private numbers and changes of rank."""
        RequestAuth(request, board).count()
        return page(request, board, "standings", board.content(name, request.scope["root_path"]))

    @router.get("/hidden/{name}/task.zip")
    def task(request: Request, name: str) -> FileResponse:
        """Send the task file: ids, images and texts, without labels. Needs a reader's token."""
        RequestAuth(request, board).account("reader")
        return FileResponse(
            board.queue.benchmark(name).task_file,
            filename=f"{name}.zip",
            media_type="application/zip",
            headers={"Cache-Control": "private, no-store"},  # a cookie may have opened it: no proxy may store it
        )

    @router.get("/submissions")
    def sent(request: Request, _format: _Format = None) -> Response:
        """List your submissions."""
        account = RequestAuth(request, board).account("reader")
        return page(request, board, "sent", {"submissions": board.sent(account), "left": board.files_left(account)})

    @router.get("/submissions/{submission}")
    def one(request: Request, submission: str, _format: _Format = None, _again: _Again = None) -> Response:
        """Show a submission's state and numbers."""
        account = RequestAuth(request, board).account("reader")
        return page(request, board, "submission", {"submission": board.view(submission, account)})


def _add_sending(router: APIRouter, board: Submissions) -> None:
    @router.post(
        "/hidden/{name}/submissions",
        status_code=202,
        openapi_extra={"requestBody": {"required": True, "content": _BODY}},
    )
    async def send(
        request: Request,
        name: str,
        model: Annotated[str, Query(description="The model's name on the board.")] = "",
        file: Annotated[str, Query(description="The file's name; its ending gives the format.")] = "",
    ) -> Response:
        """Send a file of scores or answers as the request's body, or as a form; it is measured in its turn.

        The same bytes sent again are answered with 200, the first one's state and its model's name, and do not count.
        """
        receipt = await receive(request, board, name, model, file)
        address = str(request.url_for("one", submission=receipt.id).path)
        if RequestAuth(request, board).is_browser:
            return RedirectResponse(f"{address}?again=1" if receipt.again else address, 303)
        content = {"id": receipt.id, "state": receipt.state, "model": receipt.model, "at": address}
        status = 200 if receipt.again else 202
        return JSONResponse({**content, "again": receipt.again}, status, {"Location": address})


def _add_sessions(router: APIRouter, board: Submissions) -> None:
    @router.get("/sign-in")
    def sign_in_page(request: Request, _format: _Format = None) -> Response:
        """Show the form that takes a token; a browser that is signed in sees its files."""
        RequestAuth(request, board).count()
        # Pages of the leaderboard are the same for everybody, and link to this one.
        if wants_page(request) and board.accounts.of_session(request.cookies.get(COOKIE, "")):
            return RedirectResponse(request.url_for("sent").path, 303, headers={"Cache-Control": "no-store"})
        return page(request, board, "sign_in", {})

    @router.post("/sign-in", status_code=303)
    async def sign_in(request: Request) -> Response:
        """Begin a browser session."""
        auth = RequestAuth(request, board)
        form, count = await auth.small_form(), partial(auth.count_guess, by_address=False)  # the form was counted
        cookie = await run_in_threadpool(
            board.accounts.sign_in, form.get("token", ""), hours=board.settings.session_hours, before_refusal=count
        )
        answer = RedirectResponse(request.url_for("sent").path, 303)
        seconds = int(board.settings.session_hours * 3600)
        secure = board.settings.secure_cookies or request.url.scheme == "https"
        path = f"{request.scope['root_path']}/"
        answer.set_cookie(COOKIE, cookie, max_age=seconds, path=path, httponly=True, samesite="strict", secure=secure)
        return answer

    @router.post("/sign-out", status_code=303)
    async def sign_out(request: Request) -> Response:
        """End a browser session."""
        cookie, form = request.cookies.get(COOKIE, ""), await RequestAuth(request, board).small_form()
        board.accounts.check_form(cookie, form.get("key", ""))
        await run_in_threadpool(board.accounts.sign_out, cookie)
        answer = RedirectResponse(request.url_for("hidden").path, 303)
        answer.delete_cookie(COOKIE, f"{request.scope['root_path']}/")
        return answer


def _add_administration(router: APIRouter, board: Submissions) -> None:
    def admin(request: Request) -> str:
        """Return the admin whose token the request has."""
        return RequestAuth(request, board).account("admin", by_token=True).user

    @router.post("/admin/users", status_code=201)
    def add_user(request: Request, name: str, role: str) -> JSONResponse:
        """Add a user."""
        board.accounts.add(name, role, by=admin(request))  # type: ignore[arg-type]  # checked there
        return JSONResponse({"name": name, "role": role}, 201)

    @router.post("/admin/tokens", status_code=201)
    def issue(request: Request, user: str, days: Annotated[float, Query(gt=0, le=3660)] = 365) -> JSONResponse:
        """Make a token for a user; only this answer has it."""
        id_, token = board.accounts.issue(user, days=days, by=admin(request))
        return JSONResponse({"id": id_, "token": token}, 201, {"Cache-Control": "no-store"})

    @router.post("/admin/tokens/{token}/revoke")
    def revoke(request: Request, token: str) -> JSONResponse:
        """Revoke a token, by its id."""
        board.accounts.revoke(token, by=admin(request))
        return JSONResponse({"revoked": token})

    @router.post("/admin/hidden/{name}/close")
    def close(request: Request, name: str) -> JSONResponse:
        """Close a benchmark for good: private numbers are published, and no file is taken any more."""
        board.close(name, by=admin(request))
        return JSONResponse({"closed": name})

    @router.get("/admin/log")
    def log(request: Request, after: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> JSONResponse:
        """Read the log of actions and their users."""
        admin(request)
        return JSONResponse({"entries": board.log(after)}, headers={"Cache-Control": "no-store"})
