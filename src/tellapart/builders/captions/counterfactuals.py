"""The builder `counterfactual-captions`: captions of images, each with one noun replaced, after COCO-Counterfactuals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.captions.rewriting import Counterfactual, counterfactual
from tellapart.builders.captions.sources import read_captions
from tellapart.builders.captions.stages import CaptionOptions, open_stages
from tellapart.data.images import resolve
from tellapart.data.item import Item
from tellapart.errors import DataError

__all__ = ["CounterfactualCaptions", "told"]


class CounterfactualCaptions:
    """Make the counterfactual of every caption, beside its image: one image by two texts, the true one first.

    Images for the counterfactuals are another builder's; it starts from the file that `write_caption_pairs` writes, which
    needs no images.

    Raises:
        DataError: the captions cannot be read, or one of them has no image.
        ModelError: a stage is not to be had.
        MissingDependencyError: a package is not installed.

    >>> from pathlib import Path
    >>> options = CaptionOptions(captions="gone.csv", images="photos", tagger="nltk:data", masked_lm="m", similarity="off",
    ...                          language_model="off")
    >>> CounterfactualCaptions(Start(options, 1, Path(".")))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.csv: cannot be read (No such file or directory)
    """

    Options = CaptionOptions

    def __init__(self, start: Start) -> None:
        self._options: CaptionOptions = start.options
        path = start.home / self._options.captions
        self._captions = read_captions(path)
        without = next((caption.id for caption in self._captions if caption.image is None), None)
        if self._options.images is None or without is not None:
            what = (
                "[options] images is not given" if without is None else f"caption {without!r} of {path} names no image"
            )
            raise DataError(
                f"a pair set needs images: {what}; give every caption its own, or write caption pairs alone with "
                "tellapart.builders.captions.pairs_file.write_caption_pairs"
            )
        self._images = start.home / self._options.images
        if not self._images.is_dir():
            raise DataError(f"{self._images} is no folder; name the folder of the captions' images in [options] images")
        self._digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._stages = open_stages(self._options, start.home)

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says."""
        return {
            "title": "Captions and their counterfactuals",
            "description": "1x2 items: text 0 is the caption that was given, text 1 has one noun replaced by one that a masked "
            "language model expects there, so that the sentence stays usual and close in meaning. No stage looks at the "
            "picture: what the new noun names may be there, too, and a kind of the old thing (girl for child) may be true; the "
            "option wordnet leaves the latter out. Have people look at them before you measure with them.",
            "licence": "that of the captions and images",
            "source": "made by tellapart's builder `counterfactual-captions` from captions and images of the user",
            "citation": "Method after Le et al., COCO-Counterfactuals, NeurIPS Datasets and Benchmarks 2023",
        }

    @property
    def inputs(self) -> Mapping[str, str]:
        """The captions file with its SHA-256; each image's is in the provenance of its items."""
        return {self._options.captions.rpartition("/")[2]: self._digest}

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage with its fingerprint."""
        return self._stages.models

    def candidates(self) -> Sequence[Candidate]:
        """Return the captions, in the file's order."""
        return [
            Candidate(one.id, {"caption": one.text, "image": one.image, "cluster": one.cluster})
            for one in self._captions
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make the counterfactual of one caption, or say which stage left nothing.

        Raises:
            DataError: the image is missing or its path leaves the folder.
            ModelError: a model cannot read the caption.
        """
        caption, reference = candidate.data["caption"], candidate.data["image"]
        data = resolve(self._images, reference).read_bytes()
        found = counterfactual(caption, self._stages, self._options)
        if isinstance(found, Rejected):
            return found
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(caption, found.text),
            tags={
                "type": "replace",
                "subset": "counterfactual",
                "noun": "plural" if found.tag == "NNS" else "singular",
            },
            cluster=candidate.data["cluster"],
            provenance={**told(found), "image_sha256": hashlib.sha256(data).hexdigest()},
        )
        return Made(item, {item.images[0]: data})


def told(found: Counterfactual) -> dict[str, JsonValue]:
    """Return what is kept of how a counterfactual came about; numbers to six digits.

    >>> told(Counterfactual("a dog", "cat", "dog", "NN", 0.51234567))
    {'change': 'cat -> dog', 'probability': 0.512346, 'choices': 1}
    """
    numbers = {"probability": found.probability, "similarity": found.similarity, "perplexity": found.perplexity}
    kept: dict[str, JsonValue] = {name: round(value, 6) for name, value in numbers.items() if value is not None}
    return {"change": f"{found.word} -> {found.new}", **kept, "choices": found.choices}
