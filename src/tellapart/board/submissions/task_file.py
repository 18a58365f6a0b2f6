"""The task file: an archive of `items.jsonl`, `images/` and `README.txt`, without labels, and always the same bytes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.hidden_records import HiddenRecords
from tellapart.board.submissions.reencode import reencode
from tellapart.board.submissions.shuffled import HiddenPairs
from tellapart.errors import DataError
from tellapart.tasks.registry import TASKS

__all__ = ["write_task"]

_ZIPPED = (1980, 1, 1, 0, 0, 0)  # the earliest time stamp of a zip file, so that its bytes are always the same

_PAIRS = """{title}

items.jsonl: one item a line, with its id, images (files in this archive) and texts. Which of them belong together is
not told.

{send}
"""
_SEND = {
    "scores": """Send one score of every image with every text of every item, higher for a better match, as one of
- .npz: arrays `ids` (strings, n) and `scores` (numbers, n x {images} x {texts}: item, image, text);
- .csv: a header `id,image,text,score`, then a row a pair; image and text count from 0 in the order of items.jsonl;
- .jsonl: {{"label": "ID_c1_i0", "score": 0.5}} a line: text 1, image 0.""",
    "answers": """Ask which text belongs to which image, twice: with the texts in the order of items.jsonl, and swapped.
Send the answers (1;2 or 2;1: the text of the first image, then of the second) as .jsonl, .csv or .json rows with
`id` (ID/1, then ID/2 for the swapped order) and `prediction`.""",
}
_TASK = """{title}

The task: {task}.
items.jsonl: one {noun} a line, with its id, what is shown (images are files in this archive) and an empty `prediction`.

Send .jsonl, .csv or .json rows with `id` and `prediction`, one for every id; items.jsonl with its predictions filled in
is such a file.
{send}
"""


def write_task(
    path: Path,
    benchmark: HiddenBenchmark,
    hidden: HiddenPairs | HiddenRecords,
    pixels: Callable[[str], NDArray[np.uint8]],
) -> None:
    """Write the archive.

    Args:
        path: of a new file.
        benchmark: its settings.
        hidden: its items or records.
        pixels: reads an image by the benchmark's own reference, RGB, uint8 `(height, width, 3)`.

    Raises:
        DataError: an image is missing, cannot be decoded, or has not the size that its labels refer to.
    """
    about, rows = _of_records(benchmark, hidden) if isinstance(hidden, HiddenRecords) else _of_pairs(benchmark, hidden)
    sizes = hidden.sizes() if isinstance(hidden, HiddenRecords) else {}
    listing = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("README.txt", about), ("items.jsonl", listing)):
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), data, zipfile.ZIP_DEFLATED)
        for name in sorted(hidden.sources):
            image = pixels(hidden.sources[name])
            height, width = image.shape[:2]
            if (width, height) != sizes.get(name, (width, height)):
                raise DataError(
                    f"hidden benchmark {benchmark.name!r}: image {hidden.sources[name]!r} has {width} x {height} pixels"
                    f" and boxes of one with {sizes[name][0]} x {sizes[name][1]}; name the images that the boxes were "
                    "drawn in"
                )
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), reencode(image, Path(name).suffix))


def _of_pairs(benchmark: HiddenBenchmark, hidden: HiddenPairs) -> tuple[str, list[object]]:
    images, texts = hidden.items[0].shape
    send = _SEND[benchmark.protocol].format(images=images, texts=texts)
    rows: list[object] = [{"id": one.id, "images": one.images, "texts": one.texts} for one in hidden.bare()]
    return _PAIRS.format(title=benchmark.title or benchmark.name, send=send), rows


def _of_records(benchmark: HiddenBenchmark, hidden: HiddenRecords) -> tuple[str, list[object]]:
    task = TASKS[hidden.task]
    about = _TASK.format(title=benchmark.title or benchmark.name, task=task.title, noun=task.noun, send=hidden.how.send)
    return about, list(hidden.template_rows())
