"""The input of fusion encoders' losses: matching logits of true pairs and of pairs crossed with negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch
from tellapart.training.losses.draws import best, draw
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.ranks import gather

if TYPE_CHECKING:
    from torch import Tensor


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

    true: Tensor
    wrong_texts: Tensor
    wrong_images: Tensor
    counterparts: Tensor | None
    image_ids: Tensor
    negative_text_ids: Tensor
    negative_image_ids: Tensor
    close: Tensor | None = None

    def __post_init__(self) -> None:
        if self.true.ndim != 1 or len(self.true) == 0 or self.wrong_texts.ndim != 2:
            raise ModelError(
                f"Matches(true=..., wrong_texts=...) have shapes {tuple(self.true.shape)} and "
                f"{tuple(self.wrong_texts.shape)}; expected (pairs,) and (pairs, negatives)"
            )
        b, m = len(self.true), self.wrong_texts.shape[1]
        for name, shape in (
            ("wrong_texts", (b, m)),
            ("wrong_images", (b, m)),
            ("counterparts", (b, m)),
            ("image_ids", (b,)),
            ("negative_text_ids", (b, m)),
            ("negative_image_ids", (b, m)),
            ("close", (b, m)),
        ):
            tensor: Tensor | None = getattr(self, name)
            if tensor is not None and tuple(tensor.shape) != shape:
                raise ModelError(f"Matches({name}=...) has shape {tuple(tensor.shape)}; expected {shape}")

    @property
    def has_wrong_text(self) -> Tensor:
        """Which wrong texts count, bool `(b, m)`: those of another image."""
        return (self.negative_text_ids >= 0) & (self.negative_text_ids != self.image_ids[:, None])

    @property
    def has_wrong_image(self) -> Tensor:
        """Which wrong images count, bool `(b, m)`: other images."""
        return (self.negative_image_ids >= 0) & (self.negative_image_ids != self.image_ids[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class NegativePairs:
    """The pairs of all ranks that each of this rank's pairs is crossed with; rank 0's pairs are counted first.

    Attributes:
        texts: int64 `(b, m)`: row `i` has the pairs whose texts are wrong for image `i`; -1 fills up.
        images: int64 `(b, m)`: row `i` has the pairs whose images are wrong for text `i`; -1 fills up.

    >>> import torch
    >>> other = torch.tensor([[1], [0]])  # two pairs, crossed with each other
    >>> NegativePairs(texts=other, images=other).texts.tolist()
    [[1], [0]]
    """

    texts: Tensor
    images: Tensor


def hard_negatives(batch: Batch, count: int = 1, *, shared: bool = False, hardest: bool = False) -> NegativePairs:
    """Draw hard negatives from the pairs of all ranks, by the softmax of their contrastive logits.

    The draws depend on `batch.step` and on the pair's number over all ranks, not on how many ranks there are. The
    caller gathers the encoded negatives and runs the fusion half on them.

    Args:
        batch: unit vectors; a text that is true of the image is never drawn, nor is an image that the text is true of.
        count: negatives a pair.
        shared: cross image `i` and text `i` with the same pairs, as EqSim needs: its four similarities then take no
            more passes through the model than matching does, for the fourth is another pair's true logit
            (`counterparts`).
        hardest: take the most similar ones and draw nothing.

    Source: ALBEF (Li et al. 2021), section 3.2; EqSim's released `hard_itm` for `shared`.

    >>> import torch
    >>> images = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> batch = Batch(images, images, torch.tensor(10.0), torch.tensor([4, 4, 5]))
    >>> hard_negatives(batch, hardest=True).texts.tolist()  # 0 and 1 show one image
    [[2], [2], [1]]
    """
    import torch

    pairs = gather_pairs(batch)

    def choose(rows: MatrixRows) -> Tensor:
        low = float("-inf")
        of_images = rows.logits_of_images().masked_fill(~rows.negative_texts, low)
        of_texts = rows.logits_of_texts().masked_fill(~rows.negative_images, low)
        sides = [of_images, of_texts]
        if shared:
            sides = [torch.maximum(*sides).masked_fill(~rows.negative, low)] * 2
        chosen = [
            best(logits, count) if hardest else draw(logits, count, 2 * batch.step + side * (not shared), rows.index)
            for side, logits in enumerate(sides)
        ]
        return torch.stack(chosen, dim=1)

    with torch.no_grad():
        texts, images = by_rows(pairs, choose).unbind(1)
    return NegativePairs(texts=texts, images=images)


def counterparts(true: Tensor, negatives: Tensor) -> Tensor:
    """Return the true logits of the negative pairs, `(b, m)`, with gradients to the ranks that they come from.

    Args:
        true: float `(b,)`, this rank's true logits.
        negatives: int64 `(b, m)`, pairs counted over all ranks; -1 gives an arbitrary logit, which no loss counts.

    >>> import torch
    >>> counterparts(torch.tensor([0.5, 2.0]), torch.tensor([[1], [0]])).tolist()
    [[2.0], [0.5]]
    """
    return gather(true)[negatives.clamp(min=0)]
