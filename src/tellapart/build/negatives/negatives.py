"""The builder `negatives`: hard negatives of real captions by rule, one image by two texts, after SugarCrepe's subsets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.build.builder import Candidate, Made, Rejected, Start
from tellapart.build.negatives.rewrites import KINDS, rewrites
from tellapart.catalog import nearest
from tellapart.data.images import check_reference, resolve
from tellapart.data.item import Item
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.errors import DataError

__all__ = ["Negatives"]

_COLUMNS = ("image", "caption", "id")


class Negatives:
    """Make false captions by swapping, replacing or adding an object, an attribute or a relation.

    A candidate is a caption with a kind of change; of all that the rules find, the item's own random number picks one. The
    captions file is JSONL or CSV with the columns `image` (relative to the folder of images), `caption` and, if there is one,
    `id`; other columns are left alone.

    Raises:
        DataError: the captions cannot be read, a row lacks a column, or an id stands twice.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "captions.csv").write_text("image,caption\\na.png,a dog on a red bed\\n")
    ...     options = Negatives.Options(captions="captions.csv", images=".", kinds=["swap_obj"])
    ...     _ = (Path(folder) / "a.png").write_bytes(b"pixels")
    ...     builder = Negatives(Start(options, 1, Path(folder)))
    ...     (candidate,) = builder.candidates()
    ...     candidate.id, builder.make(candidate).item.texts[1]
    ('1-swap_obj', 'a bed on a red dog')
    """

    class Options(BaseModel):
        """The recipe's `[options]`: paths relative to the recipe, and the kinds of change.

        >>> len(Negatives.Options(captions="captions.csv", images="photos").kinds)
        7
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

        captions: str
        images: str
        kinds: list[
            Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]
        ] = Field(default_factory=lambda: list(KINDS), min_length=1)  # type: ignore[arg-type]

    def __init__(self, start: Start) -> None:
        options: Negatives.Options = start.options
        self._seed = start.seed
        self._kinds = tuple(dict.fromkeys(options.kinds))
        self._captions = start.home / options.captions
        self._images = start.home / options.images
        if not self._images.is_dir():
            raise DataError(f"{self._images} is no folder; name the folder of the captions' images in [options] images")
        self._rows = _rows(self._captions)
        self._digest = hashlib.sha256(self._captions.read_bytes()).hexdigest()

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says."""
        return {
            "title": "Captions and their hard negatives by rule",
            "description": "1x2 items: text 0 is the caption that was given, text 1 differs in one swapped, replaced or added "
            "object, attribute or relation. The rules read the caption, not the picture: a replaced or added thing may be "
            "there, too, and a blind model may prefer the more usual sentence; look at them before you measure with them.",
            "licence": "that of the captions and images",
            "source": "made by tellapart's builder `negatives` from captions and images of the user",
            "citation": "Kinds of change after Hsieh et al., SugarCrepe, NeurIPS 2023; rules and word lists are tellapart's own",
        }

    @property
    def inputs(self) -> Mapping[str, str]:
        """The captions file with its SHA-256; each image's is in the provenance of its items."""
        return {self._captions.name: self._digest}

    @property
    def models(self) -> Mapping[str, str]:
        """No model has a part in it."""
        return {}

    def candidates(self) -> Sequence[Candidate]:
        """Return every caption with every kind of change, caption by caption."""
        return [
            Candidate(f"{name}-{kind}", {**row, "kind": kind})
            for name, row in self._rows.items()
            for kind in self._kinds
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make one false caption, or say that no rule of the kind applies.

        Raises:
            DataError: the image is missing or its path leaves the folder.
        """
        kind, caption = candidate.data["kind"], candidate.data["caption"]
        found = rewrites(caption, kind)
        if not found:
            return Rejected(kind, "no rule applies to the caption")
        # A number of the item's own: neither the order of work nor other captions change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}".encode()).digest()
        chosen = found[int(np.random.default_rng(list(digest)).integers(len(found)))]
        reference = normpath(candidate.data["image"])
        data = resolve(self._images, reference).read_bytes()
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(caption, chosen.text),
            tags={"type": kind.partition("_")[0], "subset": kind},
            cluster=reference,
            provenance={
                "change": chosen.change,
                "image_sha256": hashlib.sha256(data).hexdigest(),
                "choices": len(found),
            },
        )
        return Made(item, {item.images[0]: data})


def _rows(path: Path) -> dict[str, dict[str, str]]:
    """Read the captions: id -> image and caption."""
    found: dict[str, dict[str, str]] = {}
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
        found[name] = {"image": row["image"], "caption": row["caption"]}
    if not found:
        raise DataError(f"{path} lists no captions")
    return found
