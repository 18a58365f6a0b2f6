"""The cost of each loss over plain contrast or matching: `python bench/losses.py [--batches 16] [--rounds 20]`.

The steps to compare take turns on the same batch; a ratio is the median over rounds of one round's ratio, with the 95 %
interval of that median.
"""

import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from record import command_line, run_bench
from scipy.stats import binom
from torch import Tensor, nn
from torch.nn.functional import normalize
from typer import Option

from tellapart.training.losses.loss import Batch, Matches, find_loss, gather, hard_negatives

#: Loss -> what it is compared with.
DUAL = dict.fromkeys(
    (
        *("itc", "siglip", "negclip", "trohn-img", "tripletclip", "ce-clip", "cs-clip", "fsc-clip", "fsc-global"),
        *("negbench", "clic", "hardneg", "cyclip", "eqsim", "eqsim-released"),
    ),
    "itc",
)
FUSION = {"itm": "itm", "eqsim-itm": "itm", "ranking": "ranking", "eqsim-ranking": "ranking"}
BATCHES = (16, 64)


#: Pixels of a patch, words of a text, and words that there are.
PATCH, WORDS, VOCABULARY = 16, 24, 4096


class Encoders(nn.Module):
    """A ViT, a text transformer, and cross-attention layers with a matching head on top of both."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        sizes = (width, width // 64 or 1, 4 * width, 0.0, "gelu")
        layer, crossed = (
            kind(*sizes, batch_first=True, norm_first=True)
            for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
        )
        self.patches, self.words = nn.Conv2d(3, width, PATCH, PATCH), nn.Embedding(VOCABULARY, width)
        self.image_layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.text_layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.fusion_layers, self.head = nn.TransformerDecoder(crossed, depth // 2), nn.Linear(width, 1)
        self.scale = nn.Parameter(torch.tensor(2.66))

    def image_tokens(self, images: Tensor) -> Tensor:
        """Encode images `(b, 3, h, w)` to `(b, tokens, width)`."""
        return self.image_layers(self.patches(images).flatten(2).mT)

    def text_tokens(self, texts: Tensor) -> Tensor:
        """Encode texts `(b, words)` to `(b, words, width)`."""
        return self.text_layers(self.words(texts))

    def match(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the matching logits `(b,)` of encoded images and texts."""
        return self.head(self.fusion_layers(texts, images).mean(1))[:, 0]


class Inputs(NamedTuple):
    """A batch before it is encoded; the second of each kind are mates, four false captions are of every image."""

    images: Tensor
    texts: Tensor
    mate_images: Tensor
    mate_texts: Tensor
    false_texts: Tensor


def draw_inputs(count: int, pixels: int, device: str) -> Inputs:
    """Return random inputs of `count` pairs."""
    generator = torch.Generator().manual_seed(count)
    images, mate_images = torch.randn(2, count, 3, pixels, pixels, generator=generator).to(device)
    texts = torch.randint(0, VOCABULARY, (6 * count, WORDS), generator=generator).to(device)
    return Inputs(images, texts[:count], mate_images, texts[count : 2 * count], texts[2 * count :])


def pool(tokens: Tensor) -> Tensor:
    """Return the unit vectors of encoded tokens."""
    return normalize(tokens.mean(1), dim=-1)


def encoded(model: Encoders, inputs: Inputs, name: str) -> tuple[Batch, Tensor, Tensor]:
    """Return the batch of unit vectors that a loss needs, and the tokens of images and texts."""
    images, texts = model.image_tokens(inputs.images), model.text_tokens(inputs.texts)
    count, scale, loss = len(inputs.images), model.scale.exp(), find_loss(name.removesuffix("-released"))
    ids = torch.arange(count, device=inputs.images.device)
    further: dict[str, Any] = {}
    if name == "siglip":
        further["bias"] = torch.tensor(-10.0, device=ids.device)
    if false := getattr(loss, "negative_captions", 0):
        wrong = model.text_tokens(inputs.false_texts[: false * count])
        further["negative_texts"] = pool(wrong).reshape(count, false, -1)
        if getattr(loss, "local", False):
            words = torch.cat([texts[:, None], wrong.unflatten(0, (count, false))], dim=1)
            real = torch.ones(words.shape[:3], dtype=torch.bool, device=ids.device)
            further |= {"patches": images, "words": normalize(words, dim=-1), "real_words": real}
    if getattr(loss, "joins", False):
        further["positive_texts"] = pool(model.text_tokens(inputs.false_texts[-3 * count :])).reshape(count, 3, -1)
    if units := getattr(loss, "units", 0):
        both = pool(model.text_tokens(inputs.false_texts[-2 * units * count :]))
        further["units"] = both.reshape(count, units, 2, -1)
    if getattr(loss, "negative_images", "none") == "mate":
        mates = (model.image_tokens(inputs.mate_images), model.text_tokens(inputs.mate_texts))
        further["mates"] = Batch(*map(pool, mates), scale, ids + count)
    return Batch(pool(images), pool(texts), scale, ids, **further), images, texts


def dual_step(model: Encoders, inputs: Inputs, name: str) -> Tensor:
    """Return a dual encoder's loss."""
    options = {"as_released": True} if name.endswith("-released") else {}
    return find_loss(name.removesuffix("-released"))(encoded(model, inputs, name)[0], **options)["total"]


def fusion_step(model: Encoders, inputs: Inputs, name: str, negatives: int) -> Tensor:
    """Return a fusion encoder's loss; negatives are drawn within the batch, and EqSim's from shared pairs."""
    batch, image_tokens, text_tokens = encoded(model, inputs, name)
    m = 1 if name.endswith("itm") else negatives
    found = hard_negatives(batch, m, shared=name.startswith("eqsim"))
    wrong_texts, wrong_images = found.texts.clamp(min=0).flatten(), found.images.clamp(min=0).flatten()
    asked = [(image_tokens, text_tokens), (image_tokens.repeat_interleave(m, 0), text_tokens[wrong_texts])]
    if name != "ranking":
        asked.append((image_tokens[wrong_images], text_tokens.repeat_interleave(m, 0)))
    logits = model.match(*(torch.cat(side) for side in zip(*asked, strict=True)))
    b = len(batch.images)
    true, crossed = logits[:b], logits[b:].reshape(len(asked) - 1, b, m)
    matches = Matches(
        true=true,
        wrong_texts=crossed[0],
        wrong_images=crossed[-1],
        counterparts=gather(true)[found.texts.clamp(min=0)],
        image_ids=batch.image_ids,
        negative_text_ids=found.texts,
        negative_image_ids=found.images,
    )
    return find_loss(name)(matches)["total"] + find_loss("itc")(batch)["total"]


def seconds(model: Encoders, step: Callable[[], Tensor], device: str) -> tuple[float, float]:
    """Return how long the forward pass took, and forward and backward together."""

    def now() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    model.zero_grad(set_to_none=True)
    started = now()
    total = step()
    forward = now()
    total.backward()
    return forward - started, now() - started


def median(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and its distribution-free interval (binomial, at least 95 % from six ratios on)."""
    ordered = sorted(ratios)
    low = max(int(binom.ppf(0.025, len(ordered), 0.5)) - 1, 0)
    return float(np.median(ordered)), ordered[low], ordered[-1 - low]


def compare_steps(
    steps: dict[str, Callable[[], Tensor]],
    against: dict[str, str],
    turns: tuple[int, int],
    model: Encoders,
    device: str,
) -> list[dict[str, Any]]:
    """Measure steps in so many turns after the warm-up ones; return rows of the record."""
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(sum(turns)):
        # The order turns too, so that no step always follows the same other one.
        names = list(steps)[turn % len(steps) :] + list(steps)[: turn % len(steps)]
        for name in names:
            measured = seconds(model, steps[name], device)
            if turn >= turns[0]:
                took[name].append(measured)
    found = []
    for name, measured in took.items():
        base, ratios = took[against[name]], []
        for part in (0, 1):
            interval = median([mine[part] / other[part] for mine, other in zip(measured, base, strict=True)])
            ratios.append([round(value, 4) for value in interval])
        both = np.median([whole for _, whole in measured])
        row = {"loss": name, "against": against[name], "milliseconds": round(1000 * both, 1)}
        found.append(row | {"forward": ratios[0], "forward_and_backward": ratios[1]})
    return found


def measure(
    *,
    batches: Annotated[list[int], Option()] = BATCHES,  # type: ignore[assignment]
    rounds: int = 20,
    warm_up: int = 2,
    width: int = 192,
    depth: int = 6,
    pixels: int = 112,
    negatives: Annotated[int, Option(help="of ranking; the paper's METER has 15")] = 3,
    threads: int = 1,
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure each loss on batches of each size."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Encoders(width, depth).to(device)
    rows: list[dict[str, Any]] = []
    for count in batches:
        inputs = draw_inputs(count, pixels, device)
        dual = {name: partial(dual_step, model, inputs, name) for name in DUAL}
        fusion = {name: partial(fusion_step, model, inputs, name, negatives) for name in FUSION}
        for steps, against in ((dual, DUAL), (fusion, FUSION)):
            rows += [{"batch": count} | row for row in compare_steps(steps, against, (warm_up, rounds), model, device)]
    where = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    how = (
        f"{rounds} rounds in turns, {where}, {threads} threads, torch {torch.__version__}; ViT of width {width} and "
        f"depth {depth} at {pixels} pixels; ranking with {negatives} negatives"
    )
    record = {"command": command_line(), "measured": f"{datetime.now(UTC):%Y-%m-%d}", "how": how, "rows": rows}
    return record | {"load": [round(load, 1) for load in os.getloadavg()]}


if __name__ == "__main__":
    run_bench(measure)
