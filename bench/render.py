"""Images per core-minute of the builder `scenes`, at the size and samples of the shipped demo.

CPU seconds of this process and its workers count, not wall time: other work on the machine does not change the figure.
"""

import json
import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path

from record import run_bench

from tellapart.builders.pipeline import build
from tellapart_render.captions.grammar import ASPECTS

PAIRS_OF_THE_PAPER = 2000


def measured(aspect: str, pairs: int, workers: int, folder: Path) -> dict[str, float]:
    """Build pairs of one aspect and return what they cost."""
    recipe = folder / f"{aspect}.toml"
    recipe.write_text(
        f'name = "{aspect}"\nbuilder = "scenes"\nseed = 11\n'
        f"[options]\nsize = 160\nsamples = 8\n[options.items]\n{aspect} = {pairs}\n"
    )
    before = sum(os.times()[:4])  # of this process, and of its children that have ended
    build(recipe, folder / aspect, workers=workers)
    seconds = sum(os.times()[:4]) - before
    card = json.loads((folder / aspect / "card.json").read_text())
    return {
        "pairs": pairs,
        "cpu_seconds": round(seconds, 1),
        "cpu_seconds_per_image": round(seconds / (2 * pairs), 2),
        "images_per_core_minute": round(60 * 2 * pairs / seconds, 1),
        "redrawn": sum(card["funnel"]["redrawn"].values()),
    }


def measure(pairs: int = 20, workers: int = 2) -> dict[str, object]:
    """Measure every aspect."""
    with tempfile.TemporaryDirectory() as folder:
        aspects = {each: measured(each, pairs, workers, Path(folder)) for each in ASPECTS}
    per_pair = sum(each["cpu_seconds"] / each["pairs"] for each in aspects.values())
    return {
        "what": "pairs of the builder scenes, 160 px, 8 samples, depth 6, vocabulary figure-14, masks and rejected "
        "draws included",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "workers": workers},
        "versions": {name: metadata.version(name) for name in ("mitsuba", "pyoidn", "numpy")},
        "aspects": aspects,
        "extrapolated_hours_on_two_cores_for_2000_pairs_of_each_aspect": round(
            PAIRS_OF_THE_PAPER * per_pair / 2 / 3600, 2
        ),
    }


if __name__ == "__main__":
    run_bench(measure, "render")
