"""A file on its way in: who sends it is known before a byte is read, and caps of size and time hold for forms, too."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any

import anyio
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.auth import Asking
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.service import Submissions, checked_model
from tellapart.board.submissions.upload import SUFFIXES, Upload, check_room, check_size, receive

__all__ = ["received"]

_FORM = 16_384  # bytes of a form beside its file
_PIECE = 1 << 16
_NAME = 80  # characters of a file's name that are kept
_GRACE, _SLOWEST = 30, 1 << 16  # seconds, and bytes a second after them: whoever is slower holds a place for nothing


async def received(request: Request, board: Submissions, name: str, model: str, file: str) -> str:
    """Take a file into the queue; return its id.

    Args:
        request: a file as its body, with a token; or a browser's form with `model`, `file` and the session's `key`.
        board: where it goes.
        name: the hidden benchmark's.
        model, file: names, where the body is the file.

    Raises:
        RefusedError: whatever is wrong; nothing is kept, and nothing counted.

    >>> received.__name__
    'received'
    """
    asking = Asking(request, board)
    account = await run_in_threadpool(asking.account, "submitter")
    await run_in_threadpool(board.check_allowed, account, name)
    if asking.browser:
        asking.check_site()
    most = board.settings.upload_bytes
    check_size(request.headers.get("content-length"), most + _FORM)
    with board.slots.hold(account.user) as others:
        check_room(board.queue.folder, (1 + others) * most + board.settings.spare_bytes)
        try:
            with anyio.fail_after(_GRACE + most / _SLOWEST):
                model, file, upload = await _come(
                    asking, SUFFIXES[board.benchmark(name).benchmark.protocol], model, file
                )
        except (TimeoutError, ClientDisconnect) as error:
            raise RefusedError(408, "the file did not come whole, or too slowly; nothing was counted") from error
        except OSError as error:  # the form's parser keeps large files in the system's folder for such
            raise RefusedError(
                507, f"the server cannot keep the file now ({error.strerror}); nothing was counted"
            ) from error
        return await run_in_threadpool(board.queue.take, account, name, model, file, upload)


async def _come(asking: Asking, suffixes: tuple[str, ...], model: str, file: str) -> tuple[str, str, Upload]:
    """Receive a file; return the model's name, the file's, and the file."""
    request, board = asking.request, asking.board
    most, path = board.settings.upload_bytes, board.queue.folder / f"{secrets.token_hex(8)}.part"
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        if "charset" in kind.lower():  # no browser names one, and not all of Python's are fit for what strangers send
            raise RefusedError(422, "the form names a charset; send it as UTF-8")
        async with _capped(request, most + _FORM).form(max_files=1, max_fields=4, max_part_size=_FORM) as form:
            given = {key: value for key, value in form.items() if isinstance(value, str)}
            if asking.browser:
                board.accounts.check_form(request.cookies.get(COOKIE, ""), given.get("key", ""))
            sent = form.get("file")
            if not isinstance(sent, UploadFile):
                raise RefusedError(422, "the form has no file; choose one")
            model, file = checked_model(given.get("model", "")), _checked_file(sent.filename or "", suffixes)
            return model, file, await receive(_pieces(sent), path, most)
    if asking.browser:  # a session alone must show that the form is its own
        raise RefusedError(401, "send your token: Authorization: Bearer TOKEN; or use the board's form")
    model, file = checked_model(model), _checked_file(file, suffixes)
    return model, file, await receive(request.stream(), path, most)


def _checked_file(name: str, suffixes: tuple[str, ...]) -> str:
    """Return a file's name as its sender is shown it: no folder, short, all of it to be seen; its ending is one of these."""
    own = PurePosixPath(name.replace("\\", "/"))
    suffix = own.suffix.lower()
    if suffix not in suffixes:
        raise RefusedError(422, f"file {name!r:.80}: send a file that ends in {', '.join(suffixes)}")
    stem = "".join(letter for letter in own.stem if letter.isprintable())
    return (stem[: _NAME - len(suffix)] or "file") + suffix


async def _pieces(sent: UploadFile) -> AsyncIterator[bytes]:
    while piece := await sent.read(_PIECE):
        yield piece


def _capped(request: Request, most: int) -> Request:
    """Return the request with a body that is refused once it grows beyond a cap: a form's parser keeps whatever comes."""
    size = 0

    async def receive_counted() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > most:
            raise RefusedError(413, f"the form has more than {most:,} bytes; at most that are taken")
        return message

    return Request(request.scope, receive_counted)
