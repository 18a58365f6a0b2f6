"""The modules of a compact dual encoder: a residual CNN that keeps space, and a text transformer over whole words.

Attention is written out, so that both towers export to plain ONNX operators.
"""

from __future__ import annotations

import math

from tellapart.models.compact.dual_encoder import CompactConfig
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.network import Network, Tensor

torch = import_torch()
nn = torch.nn


def build_encoder(config: CompactConfig, vocabulary: int) -> Network:
    """Build the module, with weights drawn from torch's generator: towers `visual` and `text`, and `logit_scale`."""
    model = nn.Module()
    model.visual = ImageTower(config)
    model.text = TextTower(config, vocabulary)
    model.logit_scale = torch.nn.Parameter(torch.tensor(math.log(14.0)))
    return model.to(memory_format=torch.channels_last)  # twice as fast on a CPU


def fold_norms(tower: Network) -> None:
    """Merge each batch norm of a tower in evaluation mode into the convolution before it."""
    fuse = torch.nn.utils.fusion.fuse_conv_bn_eval
    for part in tower.modules():
        if isinstance(part, torch.nn.Sequential) and len(part) == 2 and isinstance(part[1], torch.nn.BatchNorm2d):
            part[0], part[1] = fuse(part[0], part[1]), torch.nn.Identity()


def _make_convolution(width_in: int, width_out: int, stride: int = 1) -> Network:
    return nn.Sequential(nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False), nn.BatchNorm2d(width_out))


class Stage(nn.Module):  # type: ignore[misc, name-defined]
    """Halve the resolution, then one residual block."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.down = _make_convolution(width_in, width_out, stride=2)
        self.first = _make_convolution(width_out, width_out)
        self.second = _make_convolution(width_out, width_out)

    def forward(self, x: Tensor) -> Tensor:
        """Take a map `(n, width_in, height, width)` to half its sides and `width_out` channels."""
        x = torch.relu(self.down(x))
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    """A pre-norm transformer layer."""

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
        return x + self.mlp(self.before_mlp(x))


class ImageTower(nn.Module):  # type: ignore[misc, name-defined]
    """The convolutions, layers over the last map's positions, and attention pooling."""

    def __init__(self, config: CompactConfig) -> None:
        super().__init__()
        width = config.channels[-1]
        self.stem = _make_convolution(3, config.channels[0], stride=2)
        pairs = zip(config.channels[:-1], config.channels[1:], strict=True)
        self.stages = nn.Sequential(*(Stage(a, b) for a, b in pairs))
        self.position = nn.Parameter(torch.randn((config.image_size // 16) ** 2, width) * 0.2)
        self.layers = nn.ModuleList(Layer(width, config.heads) for _ in range(config.image_layers))
        self.norm = nn.LayerNorm(width)
        self.attend = nn.Linear(width, config.queries)
        # The plain mean keeps amounts (how many), which attention, an average, forgets.
        pooled = (config.queries + 1) * width
        self.head = nn.Sequential(nn.Linear(pooled, 2 * width), nn.GELU(), nn.Linear(2 * width, config.dimensions))

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode normalised RGB `(n, 3, size, size)` to unit vectors `(n, dimensions)`, float32."""
        x = self.stages(torch.relu(self.stem(pixels)))
        tokens = x.flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            tokens = layer(tokens)
        tokens = self.norm(tokens)
        attended = self.attend(tokens).softmax(1).transpose(1, 2) @ tokens  # (n, queries, width)
        pooled = torch.cat([attended.flatten(1), tokens.mean(1)], dim=1)
        return nn.functional.normalize(self.head(pooled), dim=-1)


class TextTower(nn.Module):  # type: ignore[misc, name-defined]
    """Layers over words and their places; the first token and the mean of all are read."""

    def __init__(self, config: CompactConfig, vocabulary: int) -> None:
        super().__init__()
        width = config.text_width
        self.word = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.word.weight, std=0.05)
        self.position = nn.Parameter(torch.randn(config.context_length, width) * 0.05)
        self.layers = nn.ModuleList(Layer(width, config.heads) for _ in range(config.text_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(2 * width, config.dimensions)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode token ids int64 `(n, length)`, 0 is padding, to unit vectors `(n, dimensions)`, float32."""
        real = (ids != 0).float()
        bias = (real - 1.0)[:, None, None, :] * 1e4
        tokens = self.word(ids) + self.position[: ids.shape[1]]
        for layer in self.layers:
            tokens = layer(tokens, bias)
        tokens = self.norm(tokens)
        weight = real[:, :, None]
        mean = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        return nn.functional.normalize(self.head(torch.cat([tokens[:, 0], mean], dim=1)), dim=-1)
