"""The input of dual encoders' losses, and the output of every loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

#: Scalars that are summed, by name, and their sum under `total`. Weights are in the parts already.
LossParts = dict[str, "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One rank's encoded pairs: image `i` and text `i` belong together. Every rank holds the same number of them.

    Attributes:
        images: float `(b, d)`, unit vectors.
        texts: float `(b, d)`, unit vectors.
        scale: scalar that cosines are multiplied by (the exponential of CLIP's `logit_scale`).
        image_ids: int64 `(b,)`, equal if two pairs show the same image, on any rank: the caption of an image is
            never a negative of that image.
        bias: scalar that SigLIP adds to its logits.
        negative_texts: float `(b, f, d)`, unit vectors of captions that are false of image `i`.
        has_negative: bool `(b, f)`, False if an image has fewer; all True if None.
        positive_texts: float `(b, p, d)`, unit vectors of further captions that are true of image `i`; the first means
            the same as the pair's text.
        units: float `(b, u, 2, d)`, unit vectors of parts of each caption, each with its foil, which is false of the
            image.
        patches: float `(b, p, d)`, vectors of the parts of each image, of any length.
        words: float `(b, 1 + f, w, d)`, unit vectors of the tokens of each text and its false captions.
        real_words: bool `(b, 1 + f, w)`, False if a token begins a text or fills it up.
        mates: the hard counterpart of each pair (another image and its caption), as many pairs as these.
        chunk: rows of the similarity matrix in memory at a time; all of them if None. Changes no number.
        step: seed of a loss that draws negatives; another number, other draws.
        text_ids: int64 `(b,)`, equal if two texts are the same to the text tower, on any rank: a text that some pair of
            all ranks joins with an image is never a negative of that image. None if no two are.
        negative_text_ids: int64 `(b, f)`, the same of `negative_texts`.
        positive_text_ids: int64 `(b, p)`, the same of `positive_texts`.
        unit_ids: int64 `(b, u, 2)`, the same of `units`.
        facts: int64 `(k, 2)`, further images and texts that are true of them, by id; as many on each rank.

    Raises:
        ModelError: a shape is none of the above, or chunk is below 1.

    >>> import torch
    >>> from tellapart.training.losses.itc import itc
    >>> batch = Batch(torch.eye(2), torch.eye(2), scale=torch.tensor(10.0), image_ids=torch.arange(2))
    >>> sorted(itc(batch))
    ['image_to_text', 'text_to_image', 'total']
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    image_ids: Tensor
    bias: Tensor | None = None
    negative_texts: Tensor | None = None
    has_negative: Tensor | None = None
    positive_texts: Tensor | None = None
    units: Tensor | None = None
    patches: Tensor | None = None
    words: Tensor | None = None
    real_words: Tensor | None = None
    mates: Batch | None = None
    chunk: int | None = None
    step: int = 0
    text_ids: Tensor | None = None
    negative_text_ids: Tensor | None = None
    positive_text_ids: Tensor | None = None
    unit_ids: Tensor | None = None
    facts: Tensor | None = None

    def __post_init__(self) -> None:
        if self.images.ndim != 2 or len(self.images) == 0:
            raise ModelError(f"Batch(images=...) has shape {tuple(self.images.shape)}; expected (pairs, dimensions)")
        b, d = self.images.shape
        _expect_shape("texts", self.texts, (b, d), "one unit vector for each image")
        _expect_shape("scale", self.scale, (), "one number for all pairs")
        _expect_shape("image_ids", self.image_ids, (b,), "the number of each pair's image")
        if self.negative_texts is not None:
            f = self.negative_texts.shape[1] if self.negative_texts.ndim == 3 else 1
            _expect_shape("negative_texts", self.negative_texts, (b, f, d), "the false captions of each image")
            if self.has_negative is not None:
                _expect_shape("has_negative", self.has_negative, (b, f), "which of negative_texts there are")
        if self.positive_texts is not None:
            p = self.positive_texts.shape[1] if self.positive_texts.ndim == 3 else 1
            _expect_shape(
                "positive_texts", self.positive_texts, (b, max(p, 1), d), "further true captions of each image"
            )
        if self.units is not None:
            u = self.units.shape[1] if self.units.ndim == 4 else 1
            _expect_shape("units", self.units, (b, max(u, 1), 2, d), "units of each caption, each with its foil")
        if self.patches is not None:
            p = self.patches.shape[1] if self.patches.ndim == 3 else 1
            _expect_shape("patches", self.patches, (b, max(p, 1), d), "the parts of each image")
        if self.words is not None:
            c, w = self.words.shape[1:3] if self.words.ndim == 4 else (1, 1)
            _expect_shape("words", self.words, (b, c, w, d), "the tokens of each text and its false captions")
            real = self.words[..., 0] if self.real_words is None else self.real_words
            _expect_shape("real_words", real, (b, c, w), "which tokens there are")
        if self.mates is not None:
            _expect_shape("mates.images", self.mates.images, (b, d), "one counterpart for each pair")
        for name, texts in (("", self.texts), ("negative_", self.negative_texts), ("positive_", self.positive_texts)):
            _expect_ids(f"{name}text_ids", getattr(self, f"{name}text_ids"), texts)
        _expect_ids("unit_ids", self.unit_ids, self.units)
        if self.chunk is not None and self.chunk < 1:
            raise ModelError(f"Batch(chunk={self.chunk}): a chunk has at least one row; None takes all rows at once")

    def true_pairs(self) -> Tensor | None:
        """Return the ids of each image with each text that this rank knows to be true of it, `(k, 2)`, of mates too.

        None if texts have no ids.

        >>> import torch
        >>> images, texts = torch.tensor([3, 4]), torch.tensor([7, 7])
        >>> Batch(torch.eye(2), torch.eye(2), torch.tensor(1.0), images, text_ids=texts).true_pairs().tolist()
        [[3, 7], [4, 7]]
        """
        import torch

        if self.text_ids is None:
            return None
        texts = [self.text_ids[:, None]]
        texts += [] if self.positive_text_ids is None else [self.positive_text_ids]
        texts += [] if self.unit_ids is None else [self.unit_ids[:, :, 0]]
        columns = torch.cat(texts, dim=1)
        pairs = torch.stack([self.image_ids[:, None].expand_as(columns), columns], dim=-1).flatten(0, 1)
        others = [self.facts, None if self.mates is None else self.mates.true_pairs()]
        return torch.cat([pairs, *(facts for facts in others if facts is not None)])


def _expect_ids(name: str, ids: Tensor | None, texts: Tensor | None) -> None:
    if ids is not None:
        _expect_shape(name, ids, () if texts is None else tuple(texts.shape[:-1]), "the number of each text's tokens")


def _expect_shape(name: str, tensor: Tensor, shape: tuple[int, ...], what: str) -> None:
    if tuple(tensor.shape) != shape:
        raise ModelError(f"Batch({name}=...) has shape {tuple(tensor.shape)}; expected {shape}: {what}")


def sum_parts(**parts: Tensor) -> LossParts:
    """Return scalar parts by name, and their sum under `total`.

    >>> import torch
    >>> {name: part.item() for name, part in sum_parts(itc=torch.tensor(1.0), v1=torch.tensor(0.5)).items()}
    {'itc': 1.0, 'v1': 0.5, 'total': 1.5}
    """
    values = list(parts.values())
    return {**parts, "total": sum(values[1:], start=values[0])}


def wide(tensor: Tensor) -> Tensor:
    """Return float32 for half precision, and any other tensor unchanged: losses compare in float32 at least.

    >>> import torch
    >>> wide(torch.zeros(1, dtype=torch.bfloat16)).dtype, wide(torch.zeros(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    import torch

    return tensor.float() if tensor.dtype in {torch.float16, torch.bfloat16} else tensor
