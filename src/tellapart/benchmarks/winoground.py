"""Winoground: 400 items of two images and two captions that hold the same words in another order.

Its pairs are gated and may not be redistributed, so this project carries none: scores made elsewhere are measured
(`tellapart score winoground --scores FILE`). Its items are numbered 0 to 399 in every score file.
"""

from __future__ import annotations

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.pairset import Outline

__all__ = ["WINOGROUND"]

_ITEMS = 400
_IDS = tuple(str(number) for number in range(_ITEMS))

WINOGROUND = Benchmark(
    name="winoground",
    title="Winoground: the same words in another order",
    items=_ITEMS,
    shape=(2, 2),
    source="https://huggingface.co/datasets/facebook/winoground",
    licence="META IMAGES RESEARCH LICENSE: gated, no redistribution",
    citation="Thrush et al., Winoground: Probing Vision and Language Models for Visio-Linguistic Compositionality, CVPR 2022",
    load=None,
    outline=lambda: Outline(_IDS, (2, 2), _IDS, ({},) * _ITEMS),
)
