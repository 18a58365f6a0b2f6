"""Texts and pictures that are the same: by the tokens that a text tower reads, and by the pixels of a picture."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tellapart.models.protocols import Bounded
from tellapart.training.data.rows import TrainingRows

#: Texts that are tokenised at a time, and whose numbers are kept.
_BLOCK, _KEPT = 4096, 1 << 22


class TextIds:
    """A number for each text: the same for texts of the same tokens within the context, in every process."""

    def __init__(self, reader: Bounded) -> None:
        self._reader = reader
        self._numbers: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the number of each text, of 64 bits with a sign."""
        new = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        numbers: dict[str, int] = {}
        for start in range(0, len(new), _BLOCK):
            block = new[start : start + _BLOCK]
            numbers |= zip(block, map(_hash_tokens, self._reader.token_ids(block)), strict=True)
        if len(self._numbers) < _KEPT:
            self._numbers |= numbers
        return [numbers[text] if text in numbers else self._numbers[text] for text in texts]


def _hash_tokens(ids: Sequence[int]) -> int:
    digest = hashlib.sha256(np.asarray(ids, np.int64).tobytes()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How much of some rows is the same to a model.

    Rows count whose caption is that of another picture, or whose picture is in a file of another name. `foils` are
    false captions that are true of their picture, `merged` rows whose caption is another row's after the cut alone.
    `counterparts` are hard ones that show their row's picture in another file. `caption` and `picture` are the most
    frequent ones, `middle` is the median of captions of a picture.
    """

    captions: int
    pictures: int
    foils: int
    cut: int
    texts: int
    merged: int
    caption: tuple[str, int]
    picture: tuple[str, int]
    middle: int
    counterparts: int = 0

    def to_log(self) -> dict[str, float]:
        """Return the counts that are not 0, for the log's first line."""
        counts = {"rows_same_caption": self.captions, "rows_same_picture": self.pictures, "texts_cut": self.cut}
        return {name: float(count) for name, count in counts.items() if count}

    def describe(self) -> str:
        """Return the counts in words; empty if all are 0."""
        counts = (
            (self.captions, "row shares its caption's", "rows share their captions'", " tokens with another picture"),
            (self.pictures, "row shows", "rows show", " a picture that another file also holds"),
            (self.foils, "false caption is", "false captions are", " true of the picture"),
            (self.counterparts, "hard counterpart shows", "hard counterparts show", " the row's own picture"),
            (self.cut, f"of {self.texts:,} texts loses", f"of {self.texts:,} texts lose", " the end"),
        )
        return ", ".join(
            f"{count:,} {single if count == 1 else plural}{rest}" for count, single, plural, rest in counts if count
        )


def count_duplicates(rows: TrainingRows, reader: Bounded) -> Duplicates:
    """Count texts and pictures that are the same."""
    texts = list(dict.fromkeys(text for row in rows.rows for text in (row.caption, *row.negatives)))
    numbers = dict(zip(texts, (ids := TextIds(reader))(texts), strict=True))
    captions, pictures = [numbers[row.caption] for row in rows.rows], rows.image_ids.tolist()
    cut = {text for k in range(0, len(texts), _BLOCK) for text, lost in _cut_of(reader, texts[k : k + _BLOCK]) if lost}
    showing: dict[int, set[int]] = {}  # the pictures of each caption, and the captions and files of each picture
    of_picture: dict[int, set[int]] = {}
    files: dict[int, set[Path]] = {}
    written: dict[int, set[str]] = {}
    for row, caption, picture in zip(rows.rows, captions, pictures, strict=True):
        showing.setdefault(caption, set()).add(picture)
        of_picture.setdefault(picture, set()).add(caption)
        files.setdefault(picture, set()).add(row.image)
        written.setdefault(caption, set()).add(row.caption)
    foils = sum(
        numbers[foil] in true
        for row, picture in zip(rows.rows, pictures, strict=True)
        for true in [of_picture[picture].union(ids(row.positives))]
        for foil in row.negatives
    )
    widest = max(captions, key=lambda caption: len(showing[caption]))
    fullest = max(pictures, key=lambda picture: len(of_picture[picture]))
    return Duplicates(
        captions=sum(len(showing[caption]) > 1 for caption in captions),
        pictures=sum(len(files[picture]) > 1 for picture in pictures),
        foils=foils,
        cut=len(cut),
        texts=len(texts),
        merged=sum(len(written[c]) > 1 and row.caption in cut for row, c in zip(rows.rows, captions, strict=True)),
        caption=(rows.rows[captions.index(widest)].caption, len(showing[widest])),
        picture=(rows.rows[pictures.index(fullest)].image.name, len(of_picture[fullest])),
        middle=int(np.median(list(map(len, of_picture.values())))),
        counterparts=sum(len(row.counterparts) for row in rows.rows) - sum(map(len, rows.counterparts)),
    )


def _cut_of(reader: Bounded, texts: Sequence[str]) -> zip[tuple[str, bool]]:
    return zip(texts, reader.find_cut(texts), strict=True)
