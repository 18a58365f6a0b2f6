"""Files of captions: JSONL, CSV, or lines of an id, a tab and a caption, as COCO-Counterfactuals' inputs are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import Any

from tellapart.catalog import nearest
from tellapart.data.images import check_reference
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.errors import DataError

__all__ = ["SourceCaption", "read_captions"]

_COLUMNS = ("caption", "id", "image", "cluster")


@dataclass(frozen=True, slots=True)
class SourceCaption:
    """A caption to start from.

    Attributes:
        id: unique in its file.
        text: runs of blanks in it are one, and those around it are gone.
        image: relative to the folder of images, or None.
        cluster: what must be resampled together.

    >>> SourceCaption("9_0", "a dog", None, "9").cluster
    '9'
    """

    id: str
    text: str
    image: str | None
    cluster: str


def read_captions(path: Path) -> list[SourceCaption]:
    """Read a file of captions.

    - `.jsonl`, `.csv`: `caption`; if there are any, `id` (else the row's number), `image` and `cluster`.
    - `.txt`: an id, a tab and a caption in each line; the id of the image up to the last `_`, then a number.

    Raises:
        DataError: the file cannot be read, a row lacks its caption, or an id stands twice.

    >>> file = getfixture("tmp_path") / "captions.txt"
    >>> _ = file.write_text("179765_0\\tA  black motorcycle \\n")
    >>> read_captions(file)
    [SourceCaption(id='179765_0', text='A black motorcycle', image=None, cluster='179765')]
    """
    found: dict[str, SourceCaption] = {}
    for where, row in _rows(path):
        text = row.get("caption")
        if not isinstance(text, str) or not text.strip():
            near = next((name for name in row if name not in _COLUMNS and nearest(name, ["caption"])), None)
            raise DataError(f"{where}: column 'caption' is missing or empty{f'; is it {near!r}?' if near else ''}")
        image = row.get("image")
        if image is not None:
            image = _reference(image, where)
        name = str(row.get("id", len(found) + 1))
        if name in found:
            raise DataError(f"{where}: id {name!r} stands twice; give every caption its own")
        found[name] = SourceCaption(name, " ".join(text.split()), image, str(row.get("cluster") or image or name))
    if not found:
        raise DataError(f"{path} lists no captions")
    return list(found.values())


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix == ".txt":
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read ({error})") from error
        for number, line in enumerate(lines, start=1):
            name, tab, caption = line.partition("\t")
            if not line.strip():
                continue
            if not tab:
                raise DataError(f"{path}:{number}: expected an id, a tab and a caption; got {line[:60]!r}")
            yield f"{path}:{number}", {"id": name, "caption": caption, "cluster": name.rpartition("_")[0]}
        return
    for number, row in read_csv(path) if path.suffix == ".csv" else read_jsonl(path):
        yield f"{path}:{number}", row


def _reference(image: Any, where: str) -> str:
    if not isinstance(image, str):
        raise DataError(f"{where}: column 'image': expected a path, got {image!r:.60}")
    try:
        check_reference(image)
    except DataError as error:
        raise DataError(f"{where}: column 'image': {error}") from error
    return normpath(image)
