"""The inputs of losses: a `Batch` of vectors for dual encoders, `Matches` for fusion encoders; and their output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, get_origin, get_type_hints

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch

#: Scalars that are summed, by name, and their sum under `total`. Weights are in the parts already.
LossParts = dict[str, "Tensor"]

#: Axes by their letters. The size of an axis is that of the first tensor that has it.
_AXES = {"b": "pairs", "d": "dimensions", "n": "negatives", "p": "true captions", "u": "units", "2": "unit and foil"}
_AXES |= {"q": "patches", "c": "captions", "w": "words"}


@cache
def _shapes(inputs: type) -> dict[str, str]:
    """Return the axes of each tensor of a class of inputs."""
    hints = get_type_hints(inputs, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


def _check_shapes(inputs: Batch | Matches) -> None:
    sizes = {"2": 2}
    kind: type = type(inputs)
    for name, axes in _shapes(kind).items():
        tensor: Tensor | None = getattr(inputs, name)
        if tensor is None:
            continue
        shape = tuple(tensor.shape)
        if len(shape) == len(axes):
            sizes = {axis: max(size, 1) for axis, size in zip(axes, shape, strict=True)} | sizes
        expected = tuple(sizes.get(axis, 1) for axis in axes)
        if shape != expected:
            place, named = f"{kind.__name__}({name}=...)", ", ".join(_AXES[axis] for axis in axes)
            raise ModelError(f"{place} has shape {shape}; expected ({named}), which is {expected} here")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One rank's encoded pairs: image `i` and text `i` belong together. Every rank holds the same number of them.

    All vectors but those of patches are unit vectors. Ids are equal if two images, or two texts as the tower reads
    them, are the same, on any rank: a text that some pair of all ranks joins with an image is never its negative.

    Attributes:
        images: float `(b, d)`.
        texts: float `(b, d)`.
        scale: scalar that cosines are multiplied by (the exponential of CLIP's `logit_scale`).
        image_ids: int64 `(b,)`.
        bias: scalar that SigLIP adds to its logits.
        negative_texts: float `(b, f, d)`, of captions that are false of image `i`.
        has_negative: bool `(b, f)`, False if an image has fewer; all True if None.
        positive_texts: float `(b, p, d)`, of further true captions; the first means the same as the pair's text.
        units: float `(b, u, 2, d)`, of parts of each caption, each with its foil, which is false of the image.
        patches: float `(b, p, d)`, of the parts of each image, of any length.
        words: float `(b, 1 + f, w, d)`, of the tokens of each text and its false captions.
        real_words: bool `(b, 1 + f, w)`, False if a token begins a text or fills it up.
        mates: the hard counterpart of each pair (another image and its caption), as many pairs as these.
        chunk: rows of the similarity matrix in memory at a time; all of them if None. Changes no number.
        step: seed of a loss that draws negatives; another number, other draws.
        text_ids, negative_text_ids, positive_text_ids, unit_ids: int64, of each text; None if no two are the same.
        facts: int64 `(k, 2)`, further images and texts that are true of them, by id; as many on each rank.

    Raises:
        ModelError: a shape is none of the above, or chunk is below 1; later, a loss needs what is None.

    >>> import torch
    >>> from tellapart.training.losses.contrast import itc
    >>> batch = Batch(torch.eye(2), torch.eye(2), scale=torch.tensor(10.0), image_ids=torch.arange(2))
    >>> sorted(itc(batch))
    ['image_to_text', 'text_to_image', 'total']
    """

    images: Annotated[Tensor, "bd"]
    texts: Annotated[Tensor, "bd"]
    scale: Annotated[Tensor, ""]
    image_ids: Annotated[Tensor, "b"]
    bias: Tensor | None = None
    negative_texts: Annotated[Tensor | None, "bnd"] = None
    has_negative: Annotated[Tensor | None, "bn"] = None
    positive_texts: Annotated[Tensor | None, "bpd"] = None
    units: Annotated[Tensor | None, "bu2d"] = None
    patches: Annotated[Tensor | None, "bqd"] = None
    words: Annotated[Tensor | None, "bcwd"] = None
    real_words: Annotated[Tensor | None, "bcw"] = None
    mates: Batch | None = None
    chunk: int | None = None
    step: int = 0
    text_ids: Annotated[Tensor | None, "b"] = None
    negative_text_ids: Annotated[Tensor | None, "bn"] = None
    positive_text_ids: Annotated[Tensor | None, "bp"] = None
    unit_ids: Annotated[Tensor | None, "bu2"] = None
    facts: Tensor | None = None

    def __post_init__(self) -> None:
        _check_shapes(self)
        if self.mates is not None and self.mates.images.shape != self.images.shape:
            shapes = tuple(self.mates.images.shape), tuple(self.images.shape)
            raise ModelError(f"Batch(mates.images=...) has shape {shapes[0]}; expected {shapes[1]}: one for each pair")
        if self.chunk is not None and self.chunk < 1:
            raise ModelError(f"Batch(chunk={self.chunk}): a chunk has at least one row; None takes all rows at once")

    def need(self, name: str, loss: str) -> Tensor:
        """Return a field that a loss needs; an error names both, and the field's axes."""
        tensor: Tensor | None = getattr(self, name)
        if tensor is None:
            axes = ", ".join(_AXES[axis] for axis in _shapes(Batch).get(name, ""))
            raise ModelError(f"{loss} needs Batch({name}=...){axes and f' ({axes})'}, which this batch lacks")
        return tensor

    def true_pairs(self) -> Tensor | None:
        """Return ids `(k, 2)` of images and texts that this rank knows to be true of them; None if texts have none."""
        if self.text_ids is None:
            return None
        texts = [self.text_ids[:, None]]
        texts += [] if self.positive_text_ids is None else [self.positive_text_ids]
        texts += [] if self.unit_ids is None else [self.unit_ids[:, :, 0]]
        columns = torch.cat(texts, dim=1)
        pairs = torch.stack([self.image_ids[:, None].expand_as(columns), columns], dim=-1).flatten(0, 1)
        others = [self.facts, None if self.mates is None else self.mates.true_pairs()]
        return torch.cat([pairs, *(facts for facts in others if facts is not None)])


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """One rank's matching logits; pair `i` is crossed with `m` negative pairs. Every rank holds equally many pairs.

    A logit is the head's logit of "matched" less that of "not matched", if it has two.

    Attributes:
        true: float `(b,)`, of image `i` with text `i`.
        wrong_texts: float `(b, m)`, of image `i` with the text of its negative `j`.
        wrong_images: float `(b, m)`, of the image of negative `j` with text `i`.
        counterparts: float `(b, m)`, of the image of negative `j` with its text; EqSim needs it.
        image_ids: int64 `(b,)`, the image of each pair.
        negative_text_ids: int64 `(b, m)`, the image that each wrong text belongs to, or the pair's if the text is true
            of that; -1 if the negative is missing.
        negative_image_ids: int64 `(b, m)`, the number of each wrong image, or the pair's if its text is true of the
            wrong one; -1 if the negative is missing. A negative of the pair's image counts nowhere.
        close: bool `(b, m)`, which negatives are hard; if None, those that the logits themselves find most similar.

    Raises:
        ModelError: a shape is none of the above.

    >>> import torch
    >>> zeros, ids = torch.zeros(1, 3), torch.tensor([[1, 0, -1]])  # the second negative is of the pair's own image
    >>> Matches(torch.zeros(1), zeros, zeros, None, torch.tensor([0]), ids, ids).has_wrong_text.tolist()
    [[True, False, False]]
    """

    true: Annotated[Tensor, "b"]
    wrong_texts: Annotated[Tensor, "bn"]
    wrong_images: Annotated[Tensor, "bn"]
    counterparts: Annotated[Tensor | None, "bn"]
    image_ids: Annotated[Tensor, "b"]
    negative_text_ids: Annotated[Tensor, "bn"]
    negative_image_ids: Annotated[Tensor, "bn"]
    close: Annotated[Tensor | None, "bn"] = None

    def __post_init__(self) -> None:
        _check_shapes(self)

    @property
    def has_wrong_text(self) -> Tensor:
        """Which wrong texts count, bool `(b, m)`: those of another image."""
        return (self.negative_text_ids >= 0) & (self.negative_text_ids != self.image_ids[:, None])

    @property
    def has_wrong_image(self) -> Tensor:
        """Which wrong images count, bool `(b, m)`: other images."""
        return (self.negative_image_ids >= 0) & (self.negative_image_ids != self.image_ids[:, None])


def sum_parts(**parts: Tensor) -> LossParts:
    """Return scalar parts by name, and their sum under `total`."""
    first, *others = parts.values()
    return {**parts, "total": sum(others, start=first)}


def wide(tensor: Tensor) -> Tensor:
    """Return float32 for half precision, and any other tensor unchanged: losses compare in float32 at least."""
    return tensor.float() if tensor.dtype in {torch.float16, torch.bfloat16} else tensor
