"""The cost of a whole training step with each loss: `python bench/training_cost.py [--rounds 9] [--record FILE]`.

The steps are those of `tellapart train`, from prepared images and texts to AdamW's update, on one encoder: an open_clip
model for losses of dual encoders, a BLIP for those of fusion encoders. Losses take turns on the same batches; a ratio
is the median over rounds of one round's CPU seconds over those of the plain loss. EqSim's paper says 1.026 (dual) and
1.95 (fusion).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.torch.backend import import_torch
from tellapart.training.config import TrainConfig
from tellapart.training.data.pictures import ImageLoader
from tellapart.training.data.rows import TrainingRows, read_rows
from tellapart.training.encoders.load_start import open_dual, open_fusion, write_new_model
from tellapart.training.encoders.trainable import picture_side
from tellapart.training.ranks import open_accelerator
from tellapart.training.steps import DualStep, FusionStep

#: Loss -> what it is compared with; `@3` takes three negatives a pair. NegCLIP and TROHN-Img are as published: both
#: encode each pair's hard counterpart too, and NegCLIP a false caption of all.
DUAL = dict.fromkeys(("itc", "siglip", "hardneg", "cyclip", "eqsim", "negclip", "trohn-img"), "itc")
FUSION = {"itm": "itm", "eqsim-itm": "itm", "ranking@3": "ranking@3", "eqsim-ranking@3": "ranking@3"}

# fmt: off
WORDS = [
    "red", "green", "blue", "grey", "round", "square", "big", "small", "cup", "bowl", "cat", "dog", "left", "right",
    "of", "on", "under", "two", "three", "a", "the",
]
# fmt: on
TOWER = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 3, "intermediate_size": 768}


def write_rows(folder: Path, count: int) -> TrainingRows:
    """Write noise pictures with captions, a false caption and a counterpart each."""
    rng = np.random.default_rng(0)
    lines = []
    for k in range(count):
        Image.fromarray(rng.integers(0, 256, (128, 128, 3)).astype(np.uint8)).save(folder / f"{k}.png")
        caption, false = (" ".join(rng.choice(WORDS, 12)) for _ in range(2))
        fields = {
            "image": f"{k}.png",
            "caption": caption,
            "negative_captions": [false],
            "negative_images": [(k + 1) % count],
        }
        lines.append(json.dumps(fields) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    return read_rows(["rows.jsonl"], folder)


def dual_folder(folder: Path) -> Path:
    """Describe a small ViT and text transformer of open_clip."""
    folder.mkdir()
    text = {"context_length": 32, "vocab_size": 49408, "width": 192, "heads": 3, "layers": 6}
    vision = {"image_size": 112, "layers": 6, "width": 192, "patch_size": 16, "head_width": 64}
    config = {
        "model_cfg": {"embed_dim": 128, "vision_cfg": vision, "text_cfg": text, "init_logit_bias": -10.0},
        "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3},
    }
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def fusion_folder(folder: Path) -> Path:
    """Write a small BLIP with weights that nobody trained."""
    library = import_transformers()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = library.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=32)
    ends = {"vocab_size": 64, "max_position_embeddings": 32, "pad_token_id": 0, "sep_token_id": 3, "bos_token_id": 2}
    config = library.BlipConfig(
        text_config=TOWER | ends | {"encoder_hidden_size": 192},
        vision_config=TOWER | {"image_size": 112, "patch_size": 16},
        projection_dim=128,
        image_text_hidden_size=128,
    )
    images = library.BlipImageProcessorPil(size={"height": 112, "width": 112})
    with quiet():
        library.BlipForImageTextRetrieval(config).save_pretrained(folder)
        library.BlipProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def steps_of(
    kind: Any, encoder: Any, rows: TrainingRows, losses: dict[str, str], size: int
) -> dict[str, Callable[[int], None]]:
    """Return for each loss what takes its step of that number."""
    torch = import_torch()
    optimiser = torch.optim.AdamW(encoder.module.parameters(), lr=1e-5, foreach=False)
    images = ImageLoader(rows, encoder.image, keep=True, threads=2, side=picture_side(encoder))

    def make_step(config: TrainConfig) -> Callable[[int], None]:
        accelerator = open_accelerator(config.device)
        steps = kind(config, encoder, rows, accelerator, encoder.module)

        def take(step: int) -> None:
            drawn = steps.draw([(step * size + k) % len(rows) for k in range(size)], step)
            optimiser.zero_grad(set_to_none=True)
            steps.backward(drawn, [image.result() for image in images.read(drawn.rows, step)], step)
            optimiser.step()

        return take

    callables = {}
    for name in losses:
        loss, _, count = name.partition("@")
        values: dict[str, Any] = {"name": "cost", "model": "m", "data": {"train": ["rows.jsonl"], "keep_images": True}}
        values |= {"loss": {"name": loss}, "batch": {"size": size}, "optimiser": {"learning_rate": 1e-5, "steps": 1}}
        values |= {"matching": {"negatives": int(count or 1)}} if kind is FusionStep else {}
        callables[name] = make_step(TrainConfig(**values))
    return callables


def measure(
    steps: dict[str, Callable[[int], None]], against: dict[str, str], rounds: int
) -> dict[str, dict[str, float]]:
    """Let the losses take turns; return CPU seconds a step and the ratio to the plain loss, medians over rounds."""
    took: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(-1, rounds):
        # The order turns too, so that no loss always follows the same other one; the first round warms up.
        names = list(steps)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.process_time()
            steps[name](max(turn, 0))
            if turn >= 0:
                took[name].append(time.process_time() - started)
    results = {}
    for name, seconds in took.items():
        ratios = sorted(own / other for own, other in zip(seconds, took[against[name]], strict=True))
        results[name] = {
            "seconds": round(float(np.median(seconds)), 4),
            "ratio": round(float(np.median(ratios)), 4),
            "lowest": round(ratios[0], 4),
            "highest": round(ratios[-1], 4),
        }
        print(
            f"| {name} | {against[name]} | {results[name]['seconds']:.3f} | {results[name]['ratio']:.3f} |", flush=True
        )
    return results


def main() -> None:
    """Measure, print a table, and write the record if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dual", type=int, default=64, help="pairs of a dual encoder's step")
    parser.add_argument("--fusion", type=int, default=16, help="pairs of a fusion encoder's step")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    torch = import_torch()
    torch.set_num_threads(1)
    before = os.getloadavg()[0]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = write_rows(folder, 2 * args.dual)
        print("| loss | against | CPU s a step | ratio |\n|---|---|---|---|")
        name = write_new_model(dual_folder(folder / "arch"), folder / "dual", 0)
        dual = measure(steps_of(DualStep, open_dual(name, "cpu"), rows, DUAL, args.dual), DUAL, args.rounds)
        torch.manual_seed(0)
        encoder = open_fusion(f"hf:{fusion_folder(folder / 'blip')}", "cpu")
        fusion = measure(steps_of(FusionStep, encoder, rows, FUSION, args.fusion), FUSION, args.rounds)
    record = {
        "command": f"python bench/training_cost.py --rounds {args.rounds} --dual {args.dual} --fusion {args.fusion}",
        "machine": {"cpu": platform.processor() or platform.machine(), "threads": 1, "torch": torch.__version__},
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "rounds": args.rounds,
        "model": "width 192, 6 layers a tower, 112 pixels, patches of 16",
        "dual": {"batch": args.dual, "losses": dual},
        "fusion": {"batch": args.fusion, "losses": fusion},
    }
    if args.record:
        args.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
