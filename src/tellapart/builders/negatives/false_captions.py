"""The common part of the builders of false captions: options, candidates, and items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.benchmarks.minimal_pairs import same_words
from tellapart.builders.builder import Candidate, Made, Start
from tellapart.builders.caption_files import ImageFolder, file_digest, read_captions
from tellapart.builders.negatives.lexicon import function_words, singular
from tellapart.builders.negatives.rewrites import KINDS, Kind
from tellapart.builders.negatives.spelling import to_lexical
from tellapart.builders.negatives.wording import uniform, words
from tellapart.data.item import Item

#: Kinds that bring in a thing or a property, which another caption may name.
_BRINGS_IN = frozenset({"replace_obj", "replace_att", "add_obj", "add_att"})


class FalseCaptionOptions(BaseModel):
    """The recipe's `[options]`.

    Attributes:
        captions: JSONL or CSV with the columns `image`, `caption` and, if there is one, `id`, or COCO's JSON,
            relative to the recipe.
            Rows of the same image are captions of one another's picture (COCO has five).
        images: the folder that the column `image` is relative to.
        kinds: of change.
        other_captions: whether the other captions of an image rule out false captions that they support.
        uniform: whether both captions get a capital and a full stop.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    captions: str
    images: str
    kinds: list[Kind] = Field(default_factory=lambda: list(KINDS), min_length=1)
    other_captions: bool = True
    uniform: bool = False


Options = TypeVar("Options", bound=FalseCaptionOptions)


class FalseCaptionBuilder(Generic[Options]):
    """A builder whose candidates are captions, each with a kind of change."""

    def __init__(self, start: Start) -> None:
        self._options: Options = start.options
        self._seed, self._home, self._insecure = start.seed, start.home, start.insecure
        self._images = ImageFolder(start.home / self._options.images)
        path = start.home / self._options.captions
        self._captions = read_captions(path, with_images=True)
        self.inputs: Mapping[str, str] = file_digest(path)

    def candidates(self) -> Sequence[Candidate]:
        """Return every caption with every kind of change, caption by caption."""
        by_image: dict[str | None, list[tuple[str, str]]] = {}
        for caption in self._captions:
            by_image.setdefault(caption.image, []).append((caption.id, caption.raw))
        candidates = []
        for caption in self._captions:
            others = tuple(text for name, text in by_image[caption.image] if name != caption.id)
            data: dict[str, Any] = {"caption": caption.raw, "image": caption.image, "others": others}
            kinds = dict.fromkeys(self._options.kinds)
            candidates += [Candidate(f"{caption.id}-{kind}", {"kind": kind, **data}) for kind in kinds]
        return candidates

    def _find_contradiction(self, candidate: Candidate, false: str) -> str | None:
        """Return why the image's other captions rule out a false caption, or None."""
        kind, true, others = (candidate.data[key] for key in ("kind", "caption", "others"))
        return contradiction(kind, true, false, others) if self._options.other_captions else None

    def _make_item(self, candidate: Candidate, false: str, provenance: dict[str, JsonValue]) -> Made:
        """Return the item of a candidate and its false caption, resampled by image."""
        kind, true, reference = (candidate.data[key] for key in ("kind", "caption", "image"))
        if self._options.uniform:
            true, false = uniform(true), uniform(false)
        # As SugarCrepe's items have it: the audit asks for it, since a mixture of both is two tasks.
        order = "same" if same_words(true, false) else "differs"
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(true, false),
            tags={"type": kind.partition("_")[0], "subset": kind, "bag_of_words": order},
            cluster=reference,
            provenance=provenance,
        )
        return self._images.complete(item, reference)


def contradiction(kind: str, true: str, false: str, others: Sequence[str]) -> str | None:
    """Return why the other captions of an image rule out a false caption of it, or None.

    A new thing or property that one of them names may well be in the picture. A swap and another relation bring in
    neither, so only an equal caption rules them out. The test is of words, in British or American spelling: a property
    that another caption gives to another thing counts, too, and a synonym does not.

    >>> contradiction("add_obj", "A dog.", "A dog and a cat.", ["Two cats and a dog lie on a bed."])
    'names what another caption names'
    >>> contradiction("add_obj", "A dog.", "A dog and a cow.", ["Two cats and a dog lie on a bed."]) is None
    True
    """
    ours, theirs = _words_to_compare(false), [_words_to_compare(other) for other in others]
    if ours in theirs:
        return "is another caption"
    if kind not in _BRINGS_IN:
        return None
    brought = Counter(ours) - Counter(_words_to_compare(true))
    nouns = {singular(word) for other in theirs for word in other}
    if any(singular(word) in nouns for word in brought if word not in function_words()):
        return "names what another caption names"
    return None


def _words_to_compare(text: str) -> list[str]:
    return [to_lexical(word) for word in words(text)]
