"""The builder `counterfactual-captions`: captions with one noun replaced, after COCO-Counterfactuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.caption_files import ImageFolder, file_digest, read_captions
from tellapart.builders.captions.rewriting import counterfactuals
from tellapart.builders.captions.stages import CaptionOptions, open_stages
from tellapart.data.item import Item
from tellapart.errors import DataError


class CounterfactualCaptions:
    """Make the counterfactual of every caption, with its image: one image by two texts, the true one first.

    Images for the counterfactuals are another builder's; it starts from the file that `write_caption_pairs` writes,
    which needs no images.
    """

    Options = CaptionOptions

    about: Mapping[str, JsonValue] = {
        "title": "Captions and their counterfactuals",
        "description": "1x2 items: text 0 is the caption that was given, text 1 has one noun replaced by one that a "
        "masked language model expects there, so that the sentence stays usual and close in meaning. No stage looks at "
        "the picture: what the new noun names may be there, too, and a kind of the old thing (girl for child) may be "
        "true; the option wordnet leaves the latter out. Have people look at them before you measure with them.",
        "licence": "that of the captions and images",
        "source": "made by tellapart's builder `counterfactual-captions` from captions and images of the user",
        "citation": "Method after Le et al., COCO-Counterfactuals, NeurIPS Datasets and Benchmarks 2023",
    }

    def __init__(self, start: Start) -> None:
        self._options: CaptionOptions = start.options
        path = start.home / self._options.captions
        self._captions = read_captions(path)
        without = next((caption.id for caption in self._captions if caption.image is None), None)
        if self._options.images is None or without is not None:
            lack = (
                "[options] images is not given" if without is None else f"caption {without!r} of {path} names no image"
            )
            raise DataError(
                f"a pair set needs images: {lack}; give every caption an image, or write caption pairs alone with "
                "tellapart.builders.captions.pairs_file.write_caption_pairs"
            )
        self._images = ImageFolder(start.home / self._options.images)
        self.inputs: Mapping[str, str] = file_digest(path)
        self._stages = open_stages(self._options, start.home)

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage with its fingerprint."""
        return self._stages.models

    def candidates(self) -> Sequence[Candidate]:
        """Return the captions, in the file's order."""
        return [
            Candidate(caption.id, {"caption": caption.text, "image": caption.image, "cluster": caption.cluster})
            for caption in self._captions
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make the counterfactual of one caption, or name the stage that left nothing."""
        caption, reference, cluster = (candidate.data[key] for key in ("caption", "image", "cluster"))
        self._images.read(reference)  # a missing image is an error before the models work
        (rewriting,) = counterfactuals([caption], self._stages, self._options)
        if isinstance(rewriting, Rejected):
            return rewriting
        noun = "plural" if rewriting.tag == "NNS" else "singular"
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(caption, rewriting.text),
            tags={"type": "replace", "subset": "counterfactual", "noun": noun},
            cluster=cluster,
            provenance=rewriting.to_record(),
        )
        return self._images.complete(item, reference)
