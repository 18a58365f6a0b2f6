"""A file of captions and the folder of their images: what the builders of false captions start from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath

from tellapart.builders.builder import Candidate, Made
from tellapart.catalog import nearest
from tellapart.data.images import check_reference, resolve
from tellapart.data.item import Item
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.errors import DataError

__all__ = ["Caption", "CaptionsFile", "FalseCaption"]

_COLUMNS = ("image", "caption", "id")


@dataclass(frozen=True, slots=True)
class Caption:
    """A true caption, its image, and what else is said of that image.

    Attributes:
        image: relative to the folder of images, in its shortest form.
        text: the caption.
        others: the other captions of the same image, in the file's order.

    >>> Caption("a.png", "a dog", ("a dog on a bed",)).others
    ('a dog on a bed',)
    """

    image: str
    text: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FalseCaption:
    """What a builder made of a caption: both texts as they go into the set, and how the false one came about.

    >>> FalseCaption("A dog.", "A cat.", {"change": "dog -> cat"}).provenance["change"]
    'dog -> cat'
    """

    true: str
    false: str
    provenance: Mapping[str, str | int]


class CaptionsFile:
    """Captions by id, read from JSONL or CSV with the columns `image`, `caption` and, if there is one, `id`.

    Rows of the same image are captions of one another's picture (COCO has five). Other columns are left alone.

    Args:
        path: the file.
        images: the folder that the column `image` is relative to.

    Raises:
        DataError: the file cannot be read, a row lacks a column, an id stands twice, or there is no such folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "captions.csv").write_text("image,caption\\na.png,a dog\\na.png,a dog on a bed\\n")
    ...     CaptionsFile(Path(folder) / "captions.csv", Path(folder)).captions["1"].others
    ('a dog on a bed',)
    """

    def __init__(self, path: Path, images: Path) -> None:
        if not images.is_dir():
            raise DataError(f"{images} is no folder; name the folder of the captions' images in [options] images")
        self._images = images
        rows = _rows(path)
        said: dict[str, list[str]] = {}
        for name, (image, _) in rows.items():
            said.setdefault(image, []).append(name)
        self.captions: Mapping[str, Caption] = {
            name: Caption(image, text, tuple(rows[other][1] for other in said[image] if other != name))
            for name, (image, text) in rows.items()
        }
        self.inputs: Mapping[str, str] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}

    def candidates(self, kinds: tuple[str, ...]) -> list[Candidate]:
        """Return every caption with every kind of change, caption by caption.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "captions.csv").write_text("image,caption\\na.png,a dog\\n")
        ...     [one.id for one in CaptionsFile(Path(folder) / "captions.csv", Path(folder)).candidates(("add_obj",))]
        ['1-add_obj']
        """
        return [
            Candidate(
                f"{name}-{kind}",
                {"kind": kind, "caption": caption.text, "image": caption.image, "others": caption.others},
            )
            for name, caption in self.captions.items()
            for kind in kinds
        ]

    def made(self, candidate: Candidate, made: FalseCaption) -> Made:
        """Return the item of a candidate and its false caption: one image by two texts, resampled by image.

        Raises:
            DataError: the image is missing or its path leaves the folder.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, text in (("captions.csv", "image,caption\\na.png,a dog\\n"), ("a.png", "pixels")):
        ...         _ = (Path(folder) / name).write_text(text)
        ...     file = CaptionsFile(Path(folder) / "captions.csv", Path(folder))
        ...     (candidate,) = file.candidates(("replace_obj",))
        ...     file.made(candidate, FalseCaption("a dog", "a cat", {})).item.tags
        {'type': 'replace', 'subset': 'replace_obj'}
        """
        kind, reference = candidate.data["kind"], candidate.data["image"]
        data = resolve(self._images, reference).read_bytes()
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(made.true, made.false),
            tags={"type": kind.partition("_")[0], "subset": kind},
            cluster=reference,
            provenance={**made.provenance, "image_sha256": hashlib.sha256(data).hexdigest()},
        )
        return Made(item, {item.images[0]: data})


def _rows(path: Path) -> dict[str, tuple[str, str]]:
    """Read the captions: id -> image and caption."""
    found: dict[str, tuple[str, str]] = {}
    for number, (line, row) in enumerate(read_csv(path) if path.suffix == ".csv" else read_jsonl(path), start=1):
        where = f"{path}:{line}"
        for column in ("image", "caption"):
            if not isinstance(row.get(column), str) or not row[column].strip():
                near = next((name for name in row if nearest(name, [column])), None)
                hint = f"; is it {near!r}?" if near and near not in _COLUMNS else ""
                raise DataError(f"{where}: column {column!r} is missing or empty{hint}")
        try:
            check_reference(row["image"])
        except DataError as error:
            raise DataError(f"{where}: column 'image': {error}") from error
        name = str(row.get("id", number))
        if name in found:
            raise DataError(f"{where}: id {name!r} stands twice; give every caption its own")
        found[name] = (normpath(row["image"]), row["caption"])
    if not found:
        raise DataError(f"{path} lists no captions")
    return found
