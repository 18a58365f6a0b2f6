"""Contrast, and a calibrated one among an image's captions, by pooled vectors and by patches and words (FSC-CLIP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts, sum_parts, wide
from tellapart.training.losses.fsc_global import FSC_COCO, FSC_OURS, FscGlobal, focal_choice, fsc_global
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.own_choices import own_choices
from tellapart.training.losses.preset import Preset

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class FscClip(LossOptions):
    """Options of `fsc_clip`.

    Attributes:
        weight: of the contrast among an image's captions.
        local: of the same by patches and words; the paper's 0.2 is for ViT-B/32, and 0.5 for B/16 and L/14.
        gamma: how much less a caption counts that the model is sure of; 0 for plain cross-entropy.
        smoothing: share of the label that is spread evenly over the image's captions, false ones as well.
        unit_patches: patches are made unit vectors first; in the released code a longer one counts more.

    Raises:
        ModelError: a number lies outside of its bounds.

    >>> FscClip(local=0.5)
    FscClip(weight=0.5, local=0.5, gamma=2.0, smoothing=0.02, unit_patches=False)
    """

    weight: float = number(0.5)
    local: float = number(0.2)
    gamma: float = number(2.0, least=1.0, also=(0,))
    smoothing: float = number(0.02, below=1.0)
    unit_patches: bool = False

    def whole(self) -> FscGlobal:
        """Return the options of the half that reads pooled vectors."""
        return FscGlobal(self.weight, self.gamma, self.smoothing)


_DEFAULT = FscClip()


def fsc_clip(batch: Batch, options: FscClip = _DEFAULT) -> LossParts:
    """Return `fsc_global`, and as part `local` the same choice among captions by the image's patches and their words.

    Raises:
        ModelError: the batch has no false captions, or no patches and words.

    Source: FSC-CLIP (Oh et al. 2024), section 3.2 and 3.3, with the weights of its code.

    >>> import torch
    >>> false = torch.eye(2).flip(0)[:, None]
    >>> words = torch.stack([torch.eye(2), torch.eye(2).flip(0)], dim=1)[:, :, None]  # one word a caption
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(3.0), torch.arange(2), negative_texts=false,
    ...     patches=torch.eye(2)[:, None], words=words, real_words=torch.ones(2, 2, 1, dtype=torch.bool))
    >>> parts = fsc_clip(batch, FscClip(weight=1.0, local=1.0))
    >>> parts["local"].item() == parts["choice"].item()  # one patch and one word say what the whole says
    True
    """
    logits, there = local_logits(batch, unit_patches=options.unit_patches), own_choices(batch, "fsc-clip")[1]
    parts = fsc_global(batch, options.whole())
    choice = focal_choice(logits, there, options.gamma, options.smoothing)
    return sum_parts(itc=parts["itc"], choice=parts["choice"], local=options.local * choice)


def local_logits(batch: Batch, *, unit_patches: bool = False) -> Tensor:
    """Return how well an image's patches fit the words of each of its captions, float `(b, 1 + f)`.

    A word looks at the patches: their dot products with it, from 0 for the lowest to 1 for the highest, are their
    shares in a mean patch (these have no gradient). Its logit is `scale` times its cosine with that mean, and a
    caption's is the logarithm of the sum of its words' exponentials.

    Args:
        batch: with patches and words.
        unit_patches: make patches unit vectors first.

    Raises:
        ModelError: the batch has no patches and words.

    >>> import torch
    >>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])  # of one caption, and one patch for both
    >>> batch = Batch(torch.eye(2)[:1], torch.eye(2)[:1], torch.tensor(2.0), torch.arange(1), words=words,
    ...     patches=torch.eye(2)[:1, None], real_words=torch.tensor([[[True, False]]]))
    >>> local_logits(batch).tolist()
    [[2.0]]
    """
    import torch
    from torch.nn.functional import normalize

    if batch.patches is None or batch.words is None or batch.real_words is None:
        raise ModelError(
            "fsc-clip needs patches and words: give Batch(patches=...) (pairs, patches, dimensions), Batch(words=...) "
            "(pairs, captions, words, dimensions) and Batch(real_words=...)"
        )
    with torch.autocast(batch.images.device.type, enabled=False):
        patches, words = wide(batch.patches), wide(batch.words)
        patches = normalize(patches, dim=-1) if unit_patches else patches
        products = torch.einsum("bcwd,bpd->bcwp", words, patches).detach()
        lowest, highest = products.aminmax(dim=-1, keepdim=True)
        # If all patches are alike, each has the same share.
        shares = torch.where(highest > lowest, (products - lowest) / (highest - lowest), 1.0)
        shares = shares / shares.sum(-1, keepdim=True)
        looked_at = normalize(torch.einsum("bcwp,bpd->bcwd", shares, patches), dim=-1)
        logits = wide(batch.scale) * (looked_at * words).sum(-1)
    return logits.masked_fill(~batch.real_words, float("-inf")).logsumexp(-1)


_FSC_CLIP = Preset(
    {**FSC_COCO, "loss": {"name": "fsc-clip", "weight": 0.5, "local": 0.2, "gamma": 2.0, "smoothing": 0.02}},
    source="FSC-CLIP's command on COCO, ViT-B/32 (B/16 and L/14: local 0.5)",
    ours=FSC_OURS,
)

FSC_CLIP = DualLoss(fsc_clip, FscClip, negative_captions=3, local=True, revision=2, presets={"fsc-clip": _FSC_CLIP})
