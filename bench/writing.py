"""A chat model of random weights: tokens of captions a second beside the library's `generate`, and texts' likelihoods.

    python bench/writing.py

Both write captions of so many tokens to pictures of one size; they take turns, and a figure is the median of the
rounds. The library's `generate` writes one by one, as tellapart does where every image has a prompt of its own, and
all at once. Likelihoods are of one caption and of four, for pictures that were not read before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_models import CHATS, make_writer

from tellapart.models.torch.backend import import_torch

ROOT = Path(__file__).resolve().parents[1]

CAPTIONS = (
    "a dog chases a cat across the lawn",
    "a cat chases a dog across the lawn",
    "two dogs chase a cat across the lawn",
    "a dog chases two cats across the lawn",
)


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", choices=CHATS, default="writer-small")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "records" / "writing.json")
    options = parser.parse_args()
    torch = import_torch()
    writer, module, _ = make_writer(options.writer, "cpu", "float32")
    module.generation_config.eos_token_id = 1 << 30  # so that no answer ends early
    draw = np.random.default_rng(0)
    images = [[draw.integers(0, 256, (224, 224, 3), dtype=np.uint8)] for _ in range(options.prompts)]
    reader = writer._reader
    prompts = [reader.tasks["caption"].text] * options.prompts

    def alone() -> None:
        for own, prompt in zip(images, prompts, strict=True):
            reader.generate(own, prompt, options.tokens)

    def at_once() -> None:
        rows = [
            reader._encode_prompt(own, reader.format.render_prompt(1, prompt))
            for own, prompt in zip(images, prompts, strict=True)
        ]
        with torch.inference_mode():
            module.generate(
                **{name: torch.cat([row[name] for row in rows]) for name in rows[0]}, max_new_tokens=options.tokens
            )

    def ours() -> None:
        writer.answer(images, prompts, max_new_tokens=options.tokens)

    unread = iter(draw.integers(0, 256, (3 * options.rounds, 224, 224, 3), dtype=np.uint8))

    def likelihoods(texts: Sequence[str]) -> None:
        image = next(unread)
        writer.log_likelihoods([image] * len(texts), texts)

    def library() -> None:
        row = reader._encode_prompt([next(unread)], reader.format.render_prompt(1, writer.prompt.text) + CAPTIONS[0])
        with torch.inference_mode():
            module(**row).logits.log_softmax(-1)

    ways: dict[str, Callable[[], None]] = {"generate": alone, "generate, all at once": at_once, "tellapart": ours}
    ways["likelihood of 1, the library"] = library
    ways |= {f"likelihood of {n}": partial(likelihoods, CAPTIONS[:n]) for n in (1, 4)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, run in ways.items():
            taken[name].append(timed(run))
    written = options.prompts * options.tokens
    record: dict[str, Any] = {"writer": options.writer, "prompts": options.prompts, "tokens": options.tokens}
    record |= {"threads": torch.get_num_threads(), "parameters": sum(p.numel() for p in module.parameters())}
    for name, pairs in taken.items():
        wall, processor = (statistics.median(each) for each in zip(*pairs, strict=True))
        speed = {} if name.startswith("likelihood") else {"tokens_per_second": written / wall}
        record[name] = speed | {"seconds": wall, "processor_seconds": processor}
        print(name, *(f"{value:.2f} {unit}" for unit, value in record[name].items()))
    options.out.write_text(json.dumps(record, indent=1) + "\n")


def timed(run: Callable[[], None]) -> tuple[float, float]:
    """Return the wall and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main()
