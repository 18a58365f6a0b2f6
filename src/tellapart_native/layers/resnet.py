"""A ResNet's first stages with frozen norms, under torchvision's names: OFA reads images by them."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart_native.family import Layout
from tellapart_native.module import nn


class _Norm(nn.Module):
    """A batch norm by the statistics in the file."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width)), eps
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.empty(width))

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            states, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class _Bottleneck(nn.Module):
    """Three convolutions around the states; the one in the middle has the stride (ResNet V1.5)."""

    def __init__(self, layout: Layout, prefix: str, into: int, stride: int, eps: float) -> None:
        super().__init__()
        width, first = into, prefix.endswith(".0")
        for k, steps in ((1, 1), (2, stride), (3, 1)):
            out, _, size, _ = layout.shape_of(f"{prefix}.conv{k}.weight")
            setattr(self, f"conv{k}", nn.Conv2d(width, out, size, steps, size // 2, bias=False))
            setattr(self, f"bn{k}", _Norm(out, eps))
            width = out
        shortcut = nn.Sequential(nn.Conv2d(into, width, 1, stride, bias=False), _Norm(width, eps)) if first else None
        self.downsample, self.width = shortcut, width

    def forward(self, states: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(states)).relu())).relu()
        shortcut = states if self.downsample is None else self.downsample(states)
        return (self.bn3(self.conv3(inner)) + shortcut).relu()


class Resnet(nn.Module):
    """The stem and three stages: a grid whose sides are a 16th of the picture's."""

    def __init__(self, layout: Layout, prefix: str, eps: float) -> None:
        super().__init__()
        out, _, size, _ = layout.shape_of(f"{prefix}.conv1.weight")
        self.conv1, self.bn1 = nn.Conv2d(3, out, size, 2, size // 2, bias=False), _Norm(out, eps)
        for stage in (1, 2, 3):
            name = f"{prefix}.layer{stage}"
            first = 1 if stage == 1 else 2
            blocks: list[_Bottleneck] = []
            for k in range(layout.count_parts(f"{name}.{{}}.")):
                blocks.append(_Bottleneck(layout, f"{name}.{k}", out, first if k == 0 else 1, eps))
                out = blocks[-1].width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.width = out

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Read float `(batch, 3, h, w)`: `(batch, width, h / 16, w / 16)`."""
        states = nn.functional.max_pool2d(self.bn1(self.conv1(pixel_values)).relu(), 3, 2, 1)
        return self.layer3(self.layer2(self.layer1(states)))
