"""The builder `negatives`: hard negatives of real captions by rule, one image by two texts, after SugarCrepe's subsets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.negatives.captions_file import CaptionsFile, FalseCaption
from tellapart.builders.negatives.other_captions import contradiction
from tellapart.builders.negatives.rewrites import KINDS, rewrites
from tellapart.builders.negatives.wording import uniform

__all__ = ["Negatives"]


class Negatives:
    """Make false captions by swapping, replacing or adding an object, an attribute or a relation.

    A candidate is a caption with a kind of change; of all that the rules find and the image's other captions do not
    forbid, the item's own random number picks one. The captions file is as `CaptionsFile` reads it.

    Raises:
        DataError: the captions cannot be read, a row lacks a column, or an id stands twice.

    >>> import tempfile
    >>> from pathlib import Path
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
        """The recipe's `[options]`: paths relative to the recipe, the kinds of change, and what is done with the captions.

        Attributes:
            captions, images: the captions file and the folder of images.
            kinds: of change.
            other_captions: whether the other captions of an image forbid.
            uniform: whether both captions get a capital and a full stop.

        >>> len(Negatives.Options(captions="captions.csv", images="photos").kinds)
        7
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

        captions: str
        images: str
        kinds: list[
            Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]
        ] = Field(default_factory=lambda: list(KINDS), min_length=1)  # type: ignore[arg-type]
        other_captions: bool = True
        uniform: bool = False

    def __init__(self, start: Start) -> None:
        options: Negatives.Options = start.options
        self._seed, self._others, self._uniform = start.seed, options.other_captions, options.uniform
        self._kinds = tuple(dict.fromkeys(options.kinds))
        self._file = CaptionsFile(start.home / options.captions, start.home / options.images)

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says."""
        return {
            "title": "Captions and their hard negatives by rule",
            "description": "1x2 items: text 0 is the caption that was given, text 1 differs in one swapped, replaced or added "
            "object, attribute or relation. The rules read captions, not the picture: a replaced or added thing that no "
            "caption of the image names may be there, too, and a blind model may prefer the more usual sentence; look at "
            "them before you measure with them.",
            "licence": "that of the captions and images",
            "source": "made by tellapart's builder `negatives` from captions and images of the user",
            "citation": "Kinds of change after Hsieh et al., SugarCrepe, NeurIPS 2023; rules and word lists are tellapart's own",
        }

    @property
    def inputs(self) -> Mapping[str, str]:
        """The captions file with its SHA-256; each image's is in the provenance of its items."""
        return self._file.inputs

    @property
    def models(self) -> Mapping[str, str]:
        """No model has a part in it."""
        return {}

    def candidates(self) -> Sequence[Candidate]:
        """Return every caption with every kind of change, caption by caption."""
        return self._file.candidates(self._kinds)

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make one false caption, or say that no rule of the kind applies, or that other captions forbid all.

        Raises:
            DataError: the image is missing or its path leaves the folder.
        """
        kind, caption = candidate.data["kind"], candidate.data["caption"]
        found = rewrites(caption, kind)
        if not found:
            return Rejected(kind, "no rule applies to the caption")
        if self._others:
            faults = [contradiction(kind, caption, each.text, candidate.data["others"]) for each in found]
            found = [each for each, fault in zip(found, faults, strict=True) if fault is None]
            if not found:
                return Rejected("other-captions", faults[0] or "")
        # A number of the item's own: neither the order of work nor other images change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}".encode()).digest()
        chosen = found[int(np.random.default_rng(list(digest)).integers(len(found)))]
        true, false = (uniform(caption), uniform(chosen.text)) if self._uniform else (caption, chosen.text)
        return self._file.made(candidate, FalseCaption(true, false, {"change": chosen.change, "choices": len(found)}))
