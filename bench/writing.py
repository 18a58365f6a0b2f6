"""A chat model of random weights: tokens of captions a second beside the library's `generate`, and texts' likelihoods.

They take turns, and a figure is the median of the rounds. The library writes one by one, as tellapart does where every
image has a prompt of its own, and all at once.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from gpu import make_writer
from record import run_bench, time_call

from tellapart.models.torch.backend import import_torch

CAPTIONS = (
    "a dog chases a cat across the lawn",
    "a cat chases a dog across the lawn",
    "two dogs chase a cat across the lawn",
    "a dog chases two cats across the lawn",
)


def measure(writer: str = "writer-small", prompts: int = 8, tokens: int = 24, rounds: int = 3) -> dict[str, Any]:
    """Measure; the writers are those of `gpu.toml`."""
    torch = import_torch()
    model, module, _ = make_writer(writer, "cpu", "float32")
    module.generation_config.eos_token_id = 1 << 30  # so that no answer ends early
    draw = np.random.default_rng(0)
    images = [[draw.integers(0, 256, (224, 224, 3), dtype=np.uint8)] for _ in range(prompts)]
    reader = model._reader
    prompt = reader.tasks["caption"].text

    def alone() -> None:
        for image in images:
            reader.generate(image, prompt, tokens)

    def at_once() -> None:
        rows = [reader._encode_prompt(image, reader.format.render_prompt(1, prompt)) for image in images]
        with torch.inference_mode():
            module.generate(**{name: torch.cat([row[name] for row in rows]) for name in rows[0]}, max_new_tokens=tokens)

    unread = iter(draw.integers(0, 256, (3 * rounds, 224, 224, 3), dtype=np.uint8))

    def likelihoods(texts: Sequence[str]) -> None:
        image = next(unread)
        model.log_likelihoods([image] * len(texts), texts)

    def library() -> None:
        row = reader._encode_prompt([next(unread)], reader.format.render_prompt(1, model.prompt.text) + CAPTIONS[0])
        with torch.inference_mode():
            module(**row).logits.log_softmax(-1)

    ours = partial(model.answer, images, [prompt] * prompts, max_new_tokens=tokens)
    ways: dict[str, Callable[[], Any]] = {"generate": alone, "generate, all at once": at_once, "tellapart": ours}
    ways["likelihood of 1, the library"] = library
    ways |= {f"likelihood of {n}": partial(likelihoods, CAPTIONS[:n]) for n in (1, 4)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            taken[name].append(time_call(run)[1:])
    written = prompts * tokens
    record: dict[str, Any] = {"writer": writer, "prompts": prompts, "tokens": tokens}
    record |= {"threads": torch.get_num_threads(), "parameters": sum(p.numel() for p in module.parameters())}
    for name, pairs in taken.items():
        wall, processor = (statistics.median(each) for each in zip(*pairs, strict=True))
        speed = {} if name.startswith("likelihood") else {"tokens_per_second": written / wall}
        record[name] = speed | {"seconds": wall, "processor_seconds": processor}
    return record


if __name__ == "__main__":
    run_bench(measure, "writing")
