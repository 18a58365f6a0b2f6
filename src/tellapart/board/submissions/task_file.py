"""The task file: an archive of `items.jsonl`, `images/` and `README.txt`, without labels, and always the same bytes.

A format, a time stamp, a quantisation table or a thumbnail would separate an edited image from its original photograph.
So all images of a benchmark are encoded again, in one format with one setting: as PNG if every source is lossless
(rendered scenes, EqBen's frames), else as JPEG of quality 95 without chroma subsampling, since photographs as PNG would
be several times as large. The losses of JPEG in a source remain.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.hidden_items import HiddenPairs, HiddenRecords
from tellapart.data.images import pixel_hash
from tellapart.errors import DataError
from tellapart.tasks.registry import TASKS

__all__ = ["reencode", "suffix_for", "write_task"]

_ZIPPED = (1980, 1, 1, 0, 0, 0)  # the earliest time stamp of a zip file, so that its bytes are always the same

_PAIRS = """{title}

items.jsonl: one item a line, with its id, images (files in this archive) and texts. {untold}

{send}
{how}"""
_SEND = {
    "scores": """Send one score of every image with every text of every item, higher for a better match, as one of
- .npz: arrays `ids` (strings, n) and `scores` (numbers, n x {images} x {texts}: item, image, text);
- .csv: a header `id,image,text,score`, then a row a pair; image and text count from 0 in the order of items.jsonl;
- .jsonl: {{"label": "ID_c1_i0", "score": 0.5}} a line: text 1, image 0.""",
    "answers": """Ask which text belongs to which image, twice: with the texts in the order of items.jsonl, and swapped.
Send the answers (1;2 or 2;1: the text of the first image, then of the second) as .jsonl, .csv or .json rows with
`id` (ID/1, then ID/2 for the swapped order) and `prediction`.""",
}
#: With tellapart itself, which reads pairs of a folder.
_SCORE = """
With tellapart, rename items.jsonl to pairs.jsonl, and score this folder in Python:

    import numpy as np, tellapart as ta
    items = ta.evaluate("MODEL", "folder:FOLDER").items()
    np.savez("scores.npz", ids=items["id"], scores=items.scores)

Ignore the numbers that it prints: they take text k for image k's, and here the order of the texts is drawn.
"""
_UPLOAD = """
Send the file with your token, to the address of the board; the answer's `at` is the address of its number:

    curl -H "Authorization: Bearer TOKEN" --data-binary @{file} "BOARD/hidden/{name}/submissions?model=MINE&file={file}"
    curl -H "Authorization: Bearer TOKEN" "BOARD/submissions"
"""
_FILES = {"scores": "scores.npz", "answers": "answers.jsonl", "predictions": "items.jsonl"}
_TASK = """{title}

The task: {task}.
items.jsonl: one {noun} a line, with its id, what is shown (images are files in this archive) and an empty `prediction`.

Send .jsonl, .csv or .json rows with `id` and `prediction`, one for every id; items.jsonl with its predictions filled in
is such a file.
{send}
{how}"""


def write_task(
    path: Path,
    benchmark: HiddenBenchmark,
    hidden: HiddenPairs | HiddenRecords,
    pixels: Callable[[str], NDArray[np.uint8]],
) -> dict[str, str]:
    """Write the archive; return the hash of each image's pixels by its published name.

    Args:
        path: of a new file.
        benchmark: its settings.
        hidden: its items or records.
        pixels: reads an image by the benchmark's reference, RGB, uint8 `(height, width, 3)`.

    Raises:
        DataError: an image is missing, cannot be decoded, or has not the size that its labels refer to.
    """
    hashes: dict[str, str] = {}
    sizes = hidden.sizes() if isinstance(hidden, HiddenRecords) else {}
    listing = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in hidden.template_rows())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("README.txt", _readme_text(benchmark, hidden)), ("items.jsonl", listing)):
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
            hashes[name] = pixel_hash(image)
    return hashes


def _readme_text(benchmark: HiddenBenchmark, hidden: HiddenPairs | HiddenRecords) -> str:
    title = benchmark.title or benchmark.name
    how = _SCORE * (benchmark.protocol == "scores") + _UPLOAD.format(
        name=benchmark.name, file=_FILES[benchmark.protocol]
    )
    if isinstance(hidden, HiddenRecords):
        task = TASKS[hidden.task]
        return _TASK.format(title=title, task=task.title, noun=task.noun, send=hidden.how.send, how=how)
    images, texts = hidden.shape
    untold = "Which of them belong together is\nnot told."
    if hidden.true > 1:
        untold = f"Of each item {hidden.true} of the texts are true;\nwhich of them is not told."
    send = _SEND[benchmark.protocol].format(images=images, texts=texts)
    return _PAIRS.format(title=title, untold=untold, send=send, how=how)


def suffix_for(files: Iterable[bytes]) -> str:
    """Return the suffix of all images of a benchmark: `.png`, or `.jpg` if one of them is lossy already.

    Args:
        files: the source images; none is read after the first lossy one.

    >>> suffix_for([b"\\x89PNG...", b"\\xff\\xd8\\xff..."])
    '.jpg'
    """
    return ".png" if all(map(_is_lossless, files)) else ".jpg"


def _is_lossless(data: bytes) -> bool:
    return data.startswith((b"\x89PNG", b"\x93NUMPY")) or (data.startswith(b"RIFF") and data[12:16] == b"VP8L")


def reencode(pixels: NDArray[np.uint8], suffix: str) -> bytes:
    """Return an image file without metadata: the same bytes for the same pixels.

    Args:
        pixels: RGB, uint8 `(height, width, 3)`.
        suffix: as `suffix_for` returns it.

    >>> reencode(np.zeros((2, 2, 3), np.uint8), ".png")[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    stream, image = io.BytesIO(), Image.fromarray(pixels)
    if suffix == ".png":
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=95, subsampling=0)
    return stream.getvalue()
