"""Memory and time of a set of 250,000 items, and of a gallery of 5,000 images by 25,000 captions.

    python bench/large.py --items 2000 --images 200 --record trial.json    # to see that it works

A run again has every score in its store. Beside the gallery stands the product of its vectors alone.
"""

import json
import random
import resource
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from record import command_line, run_bench, run_python, time_call
from typer import Option

PICTURES, DIMENSIONS, CAPTIONS = 500, 512, 5


def measure(
    items: int = 250_000, images: int = 5_000, only_rank: Annotated[bool, Option("--rank")] = False
) -> dict[str, Any] | None:
    """Measure a run and a gallery; `only_rank` ranks a gallery in this process, and prints its numbers alone."""
    if only_rank:
        print(json.dumps(rank(images)))
        return None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_set(folder / "set", items)
        command = ["-m", "tellapart", "run", "-m", "demo-encoder", "-b", f"folder:{folder / 'set'}", "--json"]
        command += ["--cache", folder / "store", "--out"]
        run, again = (run_python(*command, folder / out)[0] for out in ("run", "again"))
    usage, found = run_python(Path(__file__).resolve(), "--rank", "--images", images)
    return {
        "command": command_line(),
        "run": {"items": items} | run,
        "again": {"items": items} | again,
        "gallery": {"images": images, "captions": CAPTIONS * images} | usage | json.loads(found),
    }


def make_set(folder: Path, items: int) -> None:
    """Write so many 2x2 items: the pictures are drawn from a few, the texts are all different."""
    folder.mkdir(parents=True)
    from PIL import Image

    draw, chosen = np.random.default_rng(0), random.Random(0)
    for k in range(PICTURES):
        Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    words = ["a", "the", "red", "blue", "cup", "cat", "mat", "on", "under", "two", "three"]
    with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for k in range(items):
            images = [f"{each}.png" for each in chosen.sample(range(PICTURES), 2)]
            texts = [f"{k} {' '.join(chosen.choices(words, k=length))}" for length in (6, 7)]
            file.write(json.dumps({"id": str(k), "images": images, "texts": texts}) + "\n")


def rank(images: int) -> dict[str, Any]:
    """Rank a gallery of random vectors both ways, and multiply them."""
    from tellapart.metrics.retrieval import embeddings_both_ways

    draw = np.random.default_rng(0)
    pictures = draw.standard_normal((images, DIMENSIONS), dtype=np.float32)
    captions = np.repeat(pictures, CAPTIONS, axis=0)
    captions += draw.standard_normal(captions.shape, dtype=np.float32)
    pairs = np.stack([np.repeat(np.arange(images), CAPTIONS), np.arange(len(captions))], axis=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recall, ranked, _ = time_call(lambda: embeddings_both_ways(pictures, captions, pairs).mean_recall())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parts = range(0, images, 100)
    alone = time_call(lambda: [(pictures[start : start + 100] @ captions.T).size for start in parts])[1]
    return {
        "rank_seconds": round(ranked, 2),
        "rank_mb": round((after - before) / 1024),
        "product_seconds": round(alone, 2),
        "mean_recall": recall,
    }


if __name__ == "__main__":
    run_bench(measure, "large", "--record")
