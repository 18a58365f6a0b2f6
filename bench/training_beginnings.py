"""A step of training with false captions: would captions and their false twins pay as trees with shared beginnings?

    python bench/training_beginnings.py --data ../shared/data [--out FILE]

The text tower is taken forward and back plainly, and by `TextTower.encode_shared`, on NegCLIP's published rows. Figures
are processor seconds, the median of several steps of ViT-B/32 with random weights on one thread.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from record import run_bench, time_call
from rivals import make_model
from typer import Option

from tellapart.data.fields import read_list
from tellapart.models.find import find_model
from tellapart.models.torch.backend import import_torch

PAIRS, STEPS = 32, 3


def measure(data: Annotated[Path, Option()]) -> dict[str, Any]:
    """Measure; `data` has negclip/valid_neg_clip.tsv."""
    torch = import_torch()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: Any = find_model(f"open_clip:ViT-B-32@{make_model('ViT-B-32')['file']}")
    towers = model.towers
    network = towers.module.requires_grad_(True)
    with (data / "negclip" / "valid_neg_clip.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file, delimiter="\t"), range(PAIRS * STEPS), strict=False)]
    found: dict[str, list[float]] = {"images": [], "texts": [], "texts, shared": [], "apart": [], "tokens": []}
    for start in range(0, len(rows), PAIRS):
        part = rows[start : start + PAIRS]
        texts = [row["title"] for row in part]
        texts += [read_list(row["neg_caption"], "neg_caption", "row")[0] for row in part]
        inputs = towers.reader.batch(texts)
        pictures = torch.randn(PAIRS, 3, 224, 224)
        found["images"].append(take_step(network, lambda pictures=pictures: network.encode_image(pictures))[0])
        plain, gradients = take_step(network, lambda inputs=inputs: towers.text(inputs))
        shared, others = take_step(network, lambda inputs=inputs: towers.shared.encode_shared(inputs, 2 * PAIRS))
        largest = max(float(each.abs().max()) for each in gradients.values())
        apart = max(float((gradients[name] - others[name]).abs().max()) for name in gradients)
        found["texts"].append(plain)
        found["texts, shared"].append(shared)
        found["apart"].append(apart / largest)
        found["tokens"].append(inputs["input_ids"].shape[1])
    seconds = {name: median(values) for name, values in found.items()}
    whole = seconds["images"] + seconds["texts"]
    return {
        "torch": torch.__version__,
        "pairs": PAIRS,
        "processor seconds": {name: round(seconds[name], 2) for name in ("images", "texts", "texts, shared")},
        "tokens of a text": int(seconds["tokens"]),
        "largest difference of gradients, over the largest": max(found["apart"]),
        "step saved": round((seconds["texts"] - seconds["texts, shared"]) / whole, 3),
    }


def take_step(network: Any, encode: Callable[[], Any]) -> tuple[float, dict[str, Any]]:
    """Return the processor seconds of a pass forward and back, and the gradients; every feature moves the loss."""
    network.zero_grad(set_to_none=True)

    def step() -> None:
        features = encode()
        (features * import_torch().linspace(-1, 1, features.numel()).view_as(features)).sum().backward()

    return time_call(step)[2], {
        name: each.grad.clone() for name, each in network.named_parameters() if each.grad is not None
    }


if __name__ == "__main__":
    run_bench(measure)
