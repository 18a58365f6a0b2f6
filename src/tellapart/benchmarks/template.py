"""The list of (image, text) pairs that a system elsewhere is to score, in the formats that scores are read from."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tellapart.data.atomic import atomic_file
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

__all__ = ["write_lines", "write_template"]

_COLUMNS = ("id", "image", "text", "score", "image_file", "caption")


def write_template(pairs: PairSet, path: Path) -> int:
    """Write every pair to be scored, all of the file or nothing, and return their number.

    - `.csv`: columns `id,image,text,score,image_file,caption`, `score` empty;
    - `.jsonl`: `{"label": "ID_c1_i0", "score": null, "image": ..., "caption": ...}` a line.

    With every score filled in, `tellapart score` reads the file.

    Args:
        pairs: whose pairs; images are named as in its files.
        path: a `.csv` or `.jsonl` file that is not there yet.

    Raises:
        DataError: another suffix, the file is there already, or it cannot be written.

    >>> from tellapart.data.item import Item
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> write_template(pairs, Path("pairs.txt"))
    Traceback (most recent call last):
    tellapart.errors.DataError: pairs.txt: templates are written to .csv or .jsonl files; got '.txt'
    """
    writers = {".csv": _csv_lines, ".jsonl": _jsonl_lines}
    if path.suffix not in writers:
        raise DataError(f"{path}: templates are written to .csv or .jsonl files; got {path.suffix!r}")
    write_lines(path, writers[path.suffix](pairs))
    return len(pairs) * pairs.shape[0] * pairs.shape[1]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file that is not there yet, all of its lines or nothing.

    Raises:
        DataError: the file is there already, or it cannot be written.

    >>> write_lines(Path("/proc/no/such"), [])
    Traceback (most recent call last):
    tellapart.errors.DataError: /proc/no/such cannot be written (No such file or directory)
    """
    if path.exists():
        raise DataError(f"{path} exists already, perhaps with scores in it; name another file")
    try:
        with atomic_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(lines)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error


def _rows(pairs: PairSet) -> Iterator[tuple[str, int, int, str, str]]:
    for item in pairs.items:
        for i, image in enumerate(item.images):
            for t, text in enumerate(item.texts):
                yield item.id, i, t, image, text


def _csv_lines(pairs: PairSet) -> Iterator[str]:
    def line(row: tuple[object, ...]) -> str:
        stream = io.StringIO(newline="")
        csv.writer(stream).writerow(row)
        return stream.getvalue()

    yield line(_COLUMNS)
    for name, image, text, image_file, caption in _rows(pairs):
        yield line((name, image, text, "", image_file, caption))


def _jsonl_lines(pairs: PairSet) -> Iterator[str]:
    for name, image, text, image_file, caption in _rows(pairs):
        row = {"label": f"{name}_c{text}_i{image}", "score": None, "image": image_file, "caption": caption}
        yield json.dumps(row, ensure_ascii=False) + "\n"
