"""A file on its way in: who sends it is known before a byte is read, and the cap holds for forms, too."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.asking import Asking
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.service import Submissions, checked_model
from tellapart.board.submissions.upload import SUFFIXES, check_room, check_size, receive

__all__ = ["received"]

_FORM = 16_384  # bytes of a form beside its file
_PIECE = 1 << 16


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
    most = board.settings.upload_bytes
    check_size(request.headers.get("content-length"), most + _FORM)
    check_room(board.queue.folder, most + board.settings.spare_bytes)
    suffixes = SUFFIXES[board.benchmark(name).benchmark.protocol]
    path = board.queue.folder / f"{secrets.token_hex(8)}.part"
    try:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            async with _capped(request, most + _FORM).form(max_files=1, max_fields=4, max_part_size=_FORM) as form:
                given = {key: value for key, value in form.items() if isinstance(value, str)}
                _check_form(asking, given.get("key", ""))
                sent = form.get("file")
                if not isinstance(sent, UploadFile):
                    raise RefusedError(422, "the form has no file; choose one")
                model, suffix = checked_model(given.get("model", "")), _suffix(sent.filename or "", suffixes)
                upload = await receive(_pieces(sent), path, most)
        elif asking.browser:  # a session alone must show that the form is its own
            raise RefusedError(401, "send your token: Authorization: Bearer TOKEN; or use the board's form")
        else:
            model, suffix = checked_model(model), _suffix(file, suffixes)
            upload = await receive(request.stream(), path, most)
    except ClientDisconnect as error:
        raise RefusedError(422, "the file did not come whole") from error
    except OSError as error:  # the form's parser keeps large files in the system's folder for such
        raise RefusedError(
            507, f"the server cannot keep the file now ({error.strerror}); nothing was counted"
        ) from error
    return await run_in_threadpool(board.queue.take, account, name, model, suffix, upload)


def _check_form(asking: Asking, key: str) -> None:
    if asking.browser:
        asking.check_site()
        asking.board.accounts.check_form(asking.request.cookies.get(COOKIE, ""), key)


def _suffix(name: str, suffixes: tuple[str, ...]) -> str:
    """Return a file name's ending; nothing else of the name is used."""
    suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if suffix not in suffixes:
        raise RefusedError(422, f"file {name!r:.80}: send a file that ends in {', '.join(suffixes)}")
    return suffix


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
