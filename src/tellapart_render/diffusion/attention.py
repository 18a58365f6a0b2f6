"""Prompt-to-Prompt: two captions are drawn side by side, and the second picture takes attention maps from the first.

Self-attention maps hold a picture's layout; cross-attention maps hold each word's place. Both are shared by attention
processors of diffusers, for a part of the steps.

Source: Hertz et al., Prompt-to-Prompt (arXiv 2208.01626), whose released code maps words (replace) or aligned tokens
(refine); Brooks et al., instruct-pix2pix, whose code shares self-attention alone, with and without the caption, in a
random part of the steps. The code here is tellapart's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ModelError
from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import Attention
    from torch import Tensor

__all__ = ["Sharing", "TokenMap", "sharing_attention", "token_map"]


@dataclass(frozen=True, slots=True)
class TokenMap:
    """The cross-attention maps of the first caption that each token of the second one takes.

    Attributes:
        rule: `replace` if the captions have as many words, `refine` if they do not.
        source: float32 `(length, length)`; column `j` weighs the first caption's maps for token `j` of the second.
        share: float32 `(length,)`: 1 if the mix is taken, 0 if the token keeps its map.
    """

    rule: Literal["replace", "refine"]
    source: NDArray[np.float32]
    share: NDArray[np.float32]


def token_map(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], length: int) -> TokenMap:
    """Map the tokens of one caption to those of another.

    With as many words on both sides, a word takes the maps of the word in its position: token by token, or their sum in
    equal parts if the words have different numbers of tokens (replace); so a pixel's attention to a word does not
    change. Else the tokens that both have in the same order take the other's maps, and new ones keep theirs
    (refine). The end of the text and the padding after it are aligned at the end.

    Args:
        first, second: the token ids of each word of a caption, without those of begin and end.
        length: tokens that the text encoder reads, begin and end included.

    Raises:
        ValueError: a caption does not fit.

    >>> token_map([[5], [6]], [[5], [7, 8]], 6).source[2, 2:4]  # both tokens look where 6 did, with half its weight
    array([0.5, 0.5], dtype=float32)
    >>> token_map([[5], [6]], [[5], [9], [6]], 6).share  # the new word alone keeps its own map
    array([1., 1., 0., 1., 1., 1.], dtype=float32)
    """
    counts = [sum(map(len, words)) for words in (first, second)]
    if max(counts) > length - 2:
        raise ValueError(f"a caption has {max(counts)} tokens; {length - 2} fit")
    source, share = np.zeros((length, length), np.float32), np.ones(length, np.float32)
    source[0, 0] = 1  # the begin
    if len(first) == len(second):
        rule: Literal["replace", "refine"] = "replace"
        starts = [1, 1]
        for words in zip(first, second, strict=True):
            here, there = (slice(start, start + len(word)) for start, word in zip(starts, words, strict=True))
            alike = len(words[0]) == len(words[1])
            source[here, there] = np.eye(len(words[0])) if alike else 1 / max(len(words[1]), 1)
            starts = [here.stop, there.stop]
    else:
        rule = "refine"
        flat = [[token for word in words for token in word] for words in (first, second)]
        share[1 : counts[1] + 1] = 0
        for i, j, size in SequenceMatcher(None, flat[0], flat[1], autojunk=False).get_matching_blocks():
            source[np.arange(i, i + size) + 1, np.arange(j, j + size) + 1] = 1
            share[j + 1 : j + 1 + size] = 1
    for j in range(counts[1] + 1, length):
        source[min(j - counts[1] + counts[0], length - 1), j] = 1
    return TokenMap(rule, source, share)


class Sharing:
    """The pairs that share attention maps at the present step; the attention processors ask it.

    A batch holds `n` pairs without their captions, then the same with them: `(2, n, 2)` pictures, of which the last
    axis is first and second. In each, the first never takes anything from the second.

    Args:
        steps: of the full schedule.
        self_fraction: of each pair, the part of the steps in which self-attention is shared.
        cross_fraction: the same of cross-attention.
        tokens: how cross-attention maps go from one caption to the other.

    """

    def __init__(
        self, steps: int, self_fraction: Sequence[float], cross_fraction: Sequence[float], tokens: TokenMap
    ) -> None:
        self._steps = steps
        self._fractions = (np.asarray(self_fraction), np.asarray(cross_fraction))
        self._tokens = tokens
        self.begin(0)

    def begin(self, step: int) -> None:
        """Go to a step, counted from 0.

        Self-attention is shared while `p > step / (steps - 1)`, as in instruct-pix2pix (its `len(sigmas) - 2`), so p =
        1 leaves out the last step; cross-attention in the first `int(p * steps)` steps, as in Hertz et al.
        """
        own, cross = self._fractions
        self.of_self: NDArray[np.bool_] = own > step / max(self._steps - 1, 1)
        self.of_cross: NDArray[np.bool_] = step < (cross * self._steps).astype(int)

    def share_self(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Give the second pictures the queries and keys of the first.

        A map is made of queries and keys alone, so this equals copying the map, which is never made: memory-saving
        attention can be used. Tensors are `(2 * n * 2, heads, length, width)`.

        >>> torch = import_torch()
        >>> sharing = Sharing(2, [0.9], [0.0], token_map([[5]], [[6]], 4))
        >>> queries, _ = sharing.share_self(torch.arange(4.0).reshape(4, 1, 1, 1), torch.zeros(4, 1, 1, 1))
        >>> queries.flatten().tolist()
        [0.0, 0.0, 2.0, 2.0]
        """
        if not self.of_self.any():
            return queries, keys
        shared = []
        for tensor in (queries, keys):
            pairs = tensor.clone().view(2, len(self.of_self), 2, *tensor.shape[1:])
            pairs[:, self.of_self, 1] = pairs[:, self.of_self, 0]
            shared.append(pairs.view(tensor.shape))
        return shared[0], shared[1]

    def share_cross(self, maps: Tensor) -> Tensor:
        """Give the second pictures' words the maps of the first one's, where the caption is read.

        Maps are `(2 * n * 2, heads, pixels, tokens)`.
        """
        torch = import_torch()
        source, share = (torch.as_tensor(a).to(maps) for a in (self._tokens.source, self._tokens.share))
        pairs = maps.clone().view(2, len(self.of_cross), 2, *maps.shape[1:])
        own = pairs[1, self.of_cross, 1]
        pairs[1, self.of_cross, 1] = (pairs[1, self.of_cross, 0] @ source) * share + own * (1 - share)
        return pairs.view(maps.shape)


class _Processor:
    """Attention as diffusers computes it, with shared maps."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        *_: object,
        **__: object,
    ) -> Tensor:
        attention = import_torch().nn.functional.scaled_dot_product_attention
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states

        def by_head(states: Tensor) -> Tensor:  # (batch, length, heads * width) -> (batch, heads, length, width)
            return states.view(*states.shape[:2], attn.heads, -1).transpose(1, 2)

        queries = by_head(attn.to_q(hidden_states))
        keys, values = by_head(attn.to_k(context)), by_head(attn.to_v(context))
        if attn.upcast_attention:
            queries, keys, values = queries.float(), keys.float(), values.float()
        if encoder_hidden_states is None:
            queries, keys = self._sharing.share_self(queries, keys)
        if encoder_hidden_states is None or not self._sharing.of_cross.any():
            mixed = attention(queries, keys, values, scale=attn.scale)
        else:
            maps = (queries @ keys.transpose(-1, -2) * attn.scale).softmax(dim=-1)
            mixed = self._sharing.share_cross(maps) @ values
        states = mixed.transpose(1, 2).reshape(*hidden_states.shape[:2], -1).to(hidden_states.dtype)
        out: Tensor = attn.to_out[1](attn.to_out[0](states)) / attn.rescale_output_factor
        return out


@contextmanager
def sharing_attention(unet: UNet2DConditionModel, sharing: Sharing) -> Iterator[None]:
    """Have a denoiser's attention share maps within this context.

    Raises:
        ModelError: an attention layer is none of Stable Diffusion's plain ones.
    """
    for name, layer in unet.named_modules():
        if hasattr(layer, "processor") and any(
            getattr(layer, part, None) is not None for part in ("group_norm", "spatial_norm", "norm_q", "add_k_proj")
        ):
            raise ModelError(f"attention layer {name} is none of Stable Diffusion 1 or 2; Prompt-to-Prompt takes those")
    before = unet.attn_processors
    unet.set_attn_processor(_Processor(sharing))
    try:
        yield
    finally:
        unet.set_attn_processor(dict(before))
