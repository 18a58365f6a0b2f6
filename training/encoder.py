"""The small dual encoder: a residual CNN that keeps space, and a two-layer text transformer."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["DualEncoder", "ImageTower", "Shape", "TextTower", "frozen_for_export"]


@dataclass(frozen=True)
class Shape:
    """Sizes of both towers.

    Attributes:
        image_size: height and width of the input, pixels; a multiple of 16.
        channels: of the feature maps at strides 2, 4, 8 and 16.
        image_layers: transformer layers over the last feature map's positions.
        text_width: channels of the text transformer.
        text_layers: its layers.
        heads: attention heads in both towers.
        queries: attention-pooling queries over the last feature map.
        vocabulary: tokens, [PAD] = 0 included.
        context_length: tokens in a text, padding included.
        dimension: of the shared space.
        objects: kinds of objects that the training-only head names where they stand.
    """

    vocabulary: int
    image_size: int = 112
    channels: tuple[int, int, int, int] = (24, 48, 96, 160)
    image_layers: int = 2
    text_width: int = 128
    text_layers: int = 2
    heads: int = 4
    queries: int = 4
    context_length: int = 32
    dimension: int = 192
    objects: int = 77

    @property
    def positions(self) -> int:
        """Positions of the last feature map."""
        return (self.image_size // 16) ** 2


class _ConvNorm(nn.Module):
    """A 3x3 convolution and its batch norm, which `fold` merges."""

    def __init__(self, width_in: int, width_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(width_out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(x))
        return out

    def fold(self) -> None:
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()


class _Stage(nn.Module):
    """Halve the resolution, then one residual block."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.down = _ConvNorm(width_in, width_out, stride=2)
        self.first = _ConvNorm(width_out, width_out)
        self.second = _ConvNorm(width_out, width_out)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.down(x))
        return functional.relu(x + self.second(functional.relu(self.first(x))))


class _Attention(nn.Module):
    """A pre-norm transformer layer, written out so that it exports to plain ONNX operators."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Mix tokens `x` (batch, tokens, width); `bias` (batch, 1, 1, tokens) is added to the logits."""
        n, tokens, width = x.shape
        parts = self.query_key_value(self.before_attention(x))
        parts = parts.reshape(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        logits = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        if bias is not None:
            logits = logits + bias
        mixed = (logits.softmax(-1) @ value).transpose(1, 2).reshape(n, tokens, width)
        x = x + self.mix(mixed)
        out: Tensor = x + self.mlp(self.before_mlp(x))
        return out


class ImageTower(nn.Module):
    """Normalised RGB `(n, 3, size, size)` to unit vectors `(n, dimension)`, float32."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.channels[-1]
        self.stem = _ConvNorm(3, shape.channels[0], stride=2)
        pairs = zip(shape.channels[:-1], shape.channels[1:], strict=True)
        self.stages = nn.Sequential(*(_Stage(a, b) for a, b in pairs))
        self.position = nn.Parameter(torch.randn(shape.positions, width) * 0.2)
        self.layers = nn.ModuleList(_Attention(width, shape.heads) for _ in range(shape.image_layers))
        self.norm = nn.LayerNorm(width)
        self.attend = nn.Linear(width, shape.queries)
        # The plain mean keeps amounts (how many), which attention, being an average over what it looks at, forgets.
        pooled = (shape.queries + 1) * width
        self.head = nn.Sequential(nn.Linear(pooled, 2 * width), nn.GELU(), nn.Linear(2 * width, shape.dimension))

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode a batch."""
        return self.pooled(self.tokens(pixels))

    def tokens(self, pixels: Tensor) -> Tensor:
        """Return the last feature map's positions, row by row: float32 `(n, positions, channels)`."""
        x: Tensor = self.stages(functional.relu(self.stem(pixels)))
        return x.flatten(2).transpose(1, 2) + self.position

    def pooled(self, tokens: Tensor) -> Tensor:
        """Turn the positions' `tokens` into one unit vector an image."""
        for layer in self.layers:
            tokens = layer(tokens)
        tokens = self.norm(tokens)
        attended = self.attend(tokens).softmax(1).transpose(1, 2) @ tokens  # (n, queries, width)
        pooled = torch.cat([attended.flatten(1), tokens.mean(1)], dim=1)
        return functional.normalize(self.head(pooled), dim=-1)


class TextTower(nn.Module):
    """Token ids int64 `(n, context_length)`, 0 is padding, to unit vectors `(n, dimension)`, float32."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.text_width
        self.word = nn.Embedding(shape.vocabulary, width)
        nn.init.normal_(self.word.weight, std=0.05)
        self.position = nn.Parameter(torch.randn(shape.context_length, width) * 0.05)
        self.layers = nn.ModuleList(_Attention(width, shape.heads) for _ in range(shape.text_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(2 * width, shape.dimension)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode a batch."""
        real = (ids != 0).float()
        bias = (real - 1.0)[:, None, None, :] * 1e4
        tokens = self.word(ids) + self.position[: ids.shape[1]]
        for layer in self.layers:
            tokens = layer(tokens, bias)
        tokens = self.norm(tokens)
        weight = real[:, :, None]
        mean = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        return functional.normalize(self.head(torch.cat([tokens[:, 0], mean], dim=1)), dim=-1)


class DualEncoder(nn.Module):
    """Both towers, the learned temperature, and a head that training alone uses.

    `whereabouts` names, at each position of the image tower, the object whose centre is there, or none: it teaches
    the tower what stands where long before captions would, and is not exported.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.image = ImageTower(shape)
        self.text = TextTower(shape)
        self.whereabouts = nn.Linear(shape.channels[-1], shape.objects + 1)
        self.log_scale = nn.Parameter(torch.tensor(math.log(14.0)))

    def scale(self) -> Tensor:
        """The factor on cosines in the loss: a scalar, at most 60."""
        return self.log_scale.clamp(max=math.log(60.0)).exp()


def frozen_for_export(model: DualEncoder) -> DualEncoder:
    """Return a copy in evaluation mode, batch norms folded, weights rounded to float16 values (held in float32).

    What is exported is exactly this copy, so what is validated is what is shipped.
    """
    frozen = copy.deepcopy(model).eval()
    for part in frozen.modules():
        if isinstance(part, _ConvNorm):
            part.fold()
    with torch.no_grad():
        for weight in frozen.parameters():
            weight.copy_(weight.half().float())
            weight.requires_grad_(False)
    return frozen
