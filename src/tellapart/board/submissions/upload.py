"""What is sent, written to the disk as it comes: never more than a cap, and nothing left of what is cut off."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi.concurrency import run_in_threadpool

from tellapart.board.submissions.refused import RefusedError

__all__ = ["SUFFIXES", "Upload", "check_room", "check_size", "receive"]

#: Of the files that are taken, by a benchmark's protocol.
SUFFIXES = {
    "scores": (".npz", ".csv", ".jsonl"),
    "answers": (".jsonl", ".csv", ".json"),
    "predictions": (".jsonl", ".csv", ".json"),
}


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that has come whole.

    >>> Upload(Path("a.part"), 3, "0").bytes
    3
    """

    path: Path
    bytes: int
    sha256: str


def check_size(declared: str | None, most: int) -> None:
    """Refuse, before anything is read, what says that it is too large.

    Args:
        declared: the request's `Content-Length`, if it has one.
        most: bytes.

    Raises:
        RefusedError: it is too large.

    >>> check_size("2147483648", 1000)
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: the file has 2,147,483,648 bytes; at most 1,000 are taken
    """
    if declared is not None and declared.isdigit() and int(declared[:19]) > most:
        raise RefusedError(413, f"the file has {int(declared[:19]):,} bytes; at most {most:,} are taken")


def check_room(folder: Path, needed: int) -> None:
    """Refuse where the disk has not enough room left.

    Raises:
        RefusedError: it has not.

    >>> check_room(Path("."), 1 << 80)
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: the server's disk is too full to take a file now; nothing was counted, try again later
    """
    if shutil.disk_usage(folder).free < needed:
        raise RefusedError(
            507, "the server's disk is too full to take a file now; nothing was counted, try again later"
        )


async def receive(stream: AsyncIterator[bytes], path: Path, most: int) -> Upload:
    """Write a stream to a new file.

    Args:
        stream: the file's bytes, in pieces.
        path: must not be there; is not there afterwards if this raises, whatever the reason.
        most: bytes.

    Raises:
        RefusedError: it is longer, empty, or the disk does not take it.

    >>> import asyncio
    >>> async def pieces():
    ...     for _ in range(3): yield b"abc"
    >>> asyncio.run(receive(pieces(), Path("never kept"), 8))
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: the file has more than 8 bytes; at most 8 are taken
    >>> Path("never kept").exists()
    False
    """
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("xb", buffering=0) as file:
            async for piece in stream:
                size += len(piece)
                if size > most:
                    raise RefusedError(413, f"the file has more than {most:,} bytes; at most {most:,} are taken")
                digest.update(piece)
                await run_in_threadpool(_write, file, piece)  # a busy disk makes nobody else wait
            await run_in_threadpool(os.fsync, file.fileno())
        if not size:
            raise RefusedError(422, "the file is empty; send the scores as the request's body")
    except OSError as error:
        path.unlink(missing_ok=True)
        raise RefusedError(
            507, f"the server cannot keep the file now ({error.strerror}); nothing was counted, try again later"
        ) from error
    except BaseException:  # the sender went away, too
        path.unlink(missing_ok=True)
        raise
    return Upload(path, size, digest.hexdigest())


def _write(file: BinaryIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:  # a file without a buffer may take a part only
        view = view[file.write(view) :]
