"""The embedded benchmark: 400 rendered minimal pairs, so that a run needs no file and no network.

Three aspects of EqBen's Eq-Kubric (attribute, counting, location) and a fourth, order, whose captions have the same
words: two objects change places, colours or numbers. 100 items each, made by this project's scene generator;
`demo_pairs/recipe.toml` regenerates them and `demo_pairs/card.json` records how.
"""

from __future__ import annotations

from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.folder import read_pair_set

DEMO_FOLDER = Path(__file__).parent / "demo_pairs"


DEMO = Benchmark(
    name="demo",
    title="Rendered scenes that differ in one attribute, count or location, or in the order of words",
    items=400,
    shape=(2, 2),
    source="embedded; made by tellapart's scene generator",
    licence="Apache-2.0",
    citation="templates and vocabulary after Wang et al., Equivariant Similarity for Vision-Language Foundation "
    "Models (EqBen), ICCV 2023, Fig. 14",
    load=lambda _place: read_pair_set(DEMO_FOLDER, "demo"),
)
