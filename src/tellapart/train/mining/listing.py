"""Rows of training, written as the file that training reads."""

from __future__ import annotations

import json
from pathlib import Path

from tellapart.errors import DataError
from tellapart.records.run_folder import write_whole
from tellapart.train.rows import Rows

__all__ = ["images_root", "write_rows"]


def images_root(source: str, images: Path | None) -> Path:
    """Return the folder that the image paths of a source are relative to, as `tellapart.train.rows.read_rows` has it.

    >>> images_root("sets/rows.jsonl", None).as_posix(), images_root("sets/rows.jsonl", Path("photos")).as_posix()
    ('sets', 'photos')
    """
    path = Path(source.removeprefix("folder:")).expanduser()
    if path.is_dir():
        return path
    return path.parent if images is None else images.expanduser()


def write_rows(path: Path, rows: Rows, root: Path) -> None:
    """Write one JSON object a row: `image`, `caption`, `cluster`, `negative_captions`, `negative_images` (row numbers).

    Args:
        path: the file, which is written whole or not at all.
        rows: in this order; `counterparts` are numbers among them.
        root: the folder that image paths are written relative to.

    Raises:
        DataError: an image lies elsewhere.
        RunError: the file cannot be written.

    >>> from tellapart.train.rows import Row
    >>> write_rows(Path("rows.jsonl"), Rows((Row(Path("/photos/a.png"), "a cat"),)), Path("/pictures"))
    Traceback (most recent call last):
    tellapart.errors.DataError: training row 0: /photos/a.png lies outside of /pictures, which paths are to be relative to
    """
    home = root.resolve()
    lines = []
    for number, row in enumerate(rows.rows):
        if not row.image.is_relative_to(home):
            raise DataError(
                f"training row {number}: {row.image} lies outside of {home}, which paths are to be relative to"
            )
        told = {
            "image": row.image.relative_to(home).as_posix(),
            "caption": row.caption,
            "cluster": row.cluster,
            "negative_captions": row.negatives,
            "negative_images": row.counterparts,
        }
        lines.append(json.dumps(told, ensure_ascii=False) + "\n")
    write_whole(path, "".join(lines))
