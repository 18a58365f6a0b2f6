"""SugarCrepe asked in words, as its authors asked GPT-4V: which of two captions fits, in both orders."""

from __future__ import annotations

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.sugarcrepe import SUGARCREPE
from tellapart.data.choices import Choice, ChoiceSet

__all__ = ["SUGARCREPE_CHOICE"]


def _load(place: Locations) -> ChoiceSet:
    items = SUGARCREPE.load(place).items
    choices = (Choice(item.id, item.images[0], item.texts[0], item.texts[1], item.tags) for item in items)
    return ChoiceSet("sugarcrepe", tuple(choices))


SUGARCREPE_CHOICE = Benchmark(
    name="sugarcrepe-choice",
    title="SugarCrepe in words: which of two captions fits, asked in both orders",
    items=SUGARCREPE.items,
    task="choice",
    source=SUGARCREPE.source,
    licence=SUGARCREPE.licence,
    citation=SUGARCREPE.citation,
    files=SUGARCREPE.files,
    images=SUGARCREPE.images,
    cluster=SUGARCREPE.cluster,
    usual=("val2017", "images"),
    load=_load,
)
