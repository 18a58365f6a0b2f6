"""Two implementations of the same weights: the first step at which they differ, and its cause.

Libraries read one checkpoint differently: another case or punctuation of captions, another resize, another activation,
context or precision. The steps are compared in the order in which a model takes them.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.data.atomic import atomic_file
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import RunError
from tellapart.models.protocols import DualEncoder, Model, Pixels, Transparent
from tellapart.models.scoring.frames import list_frames
from tellapart.models.scoring.score import Scored, score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.paired import paired, paired_difference
from tellapart.tasks.pairs import ListedPairs, measure_pairs
from tellapart.tasks.registry import headline

#: Differences up to these are rounding: of a pixel's float, of an angle in radians, of a score. An image's angle and a
#: text's change their cosine by their sum at most: vectors within rounding have cosines within it.
_ROUNDING = {"pixels": 1e-6, "vectors": 5e-6, "scores": 1e-5}

#: Images and texts of the set that are looked at before the scores, evenly spread.
_IMAGES, _TEXTS, _SHOWN = 32, 256, 10


class ParityStep(BaseModel, frozen=True):
    """One step of two models, compared.

    Attributes:
        step: `tokens`, `pixels`, `vectors` or `scores`.
        compared: how many texts, images, vectors or scores.
        differ: how many differ by more than rounding.
        largest: the largest difference: of a pixel, of an angle in radians, of a score; None of tokens, and of pixels
            in other shapes.
        cause: the likely cause, in words; empty if none is known.
        examples: of tokens: the first texts that differ, each with both models' ids.
        unseen: why the step could not be compared; empty if it was.
    """

    step: str
    compared: int = 0
    differ: int = 0
    largest: float | None = None
    cause: str = ""
    examples: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    unseen: str = ""


class ParityOutcome(BaseModel, frozen=True):
    """One metric through both doors, and the items whose outcome differs.

    Attributes:
        metric: a headline of the benchmark.
        items: all of them.
        flipped: those whose outcome differs.
        a, b: the metric of each model.
        low, high: the paired interval of `b - a`; None if there is none.
    """

    metric: str
    items: int
    flipped: int
    a: float
    b: float
    low: float | None
    high: float | None

    @property
    def share(self) -> float:
        """The share of items whose outcome differs."""
        return self.flipped / self.items


class Parity(BaseModel, frozen=True):
    """Two models compared, step by step.

    Attributes:
        a, b: their names.
        benchmark: the set.
        steps: in the order in which a model takes them.
        outcomes: of each headline metric.
    """

    a: str
    b: str
    benchmark: str
    steps: tuple[ParityStep, ...]
    outcomes: tuple[ParityOutcome, ...]

    @property
    def first(self) -> ParityStep | None:
        """The first step at which the models part; None if no step differs."""
        return next((step for step in self.steps if step.differ), None)

    @property
    def flipped(self) -> float:
        """The largest share of items whose outcome differs, of all headline metrics."""
        return max(outcome.share for outcome in self.outcomes)


def compare_doors(
    a: Model, b: Model, pairs: PairSet, *, picture: Path | None = None, progress: Progress | None = None
) -> Parity:
    """Compare two models that should be equal, on the images and texts of a pair set."""
    if a.kind != b.kind:
        raise RunError(f"{a.name} puts out a {a.kind} and {b.name} a {b.kind}: both must have one kind")
    texts = _spread(list(dict.fromkeys(text for item in pairs.items for text in item.texts)), _TEXTS)
    references = _spread(list(dict.fromkeys(image for item in pairs.items for image in item.images)), _IMAGES)
    images = [frame for reference in references for frame in list_frames(pairs.pixels(reference))]
    steps = []
    hidden = [model.name for model in (a, b) if not isinstance(model, Transparent)]
    if isinstance(a, Transparent) and isinstance(b, Transparent):
        steps += [_compare_tokens(a, b, texts), _compare_pixels(a, b, images, picture)]
    elif picture is not None:
        raise RunError(f"picture={picture}: {hidden[0]} does not show its pixels; leave picture= out")
    else:
        steps += [ParityStep(step=step, unseen=f"{hidden[0]} does not show it") for step in ("tokens", "pixels")]
    if isinstance(a, DualEncoder) and isinstance(b, DualEncoder):
        steps.append(_compare_vectors(a, b, images, texts))
    else:
        steps.append(ParityStep(step="vectors", unseen="not both are dual encoders"))
    scored = [score(model, pairs, store=EmbeddingStore(None), progress=progress) for model in (a, b)]
    first, second = (side.scores.values for side in scored)
    apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
    cause = _find_trait_cause(a, b) if steps[-1].unseen else ""
    steps.append(_count_differences("scores", apart.ravel(), cause))
    return Parity(a=a.name, b=b.name, benchmark=pairs.name, steps=tuple(steps), outcomes=_count_flips(pairs, scored))


def _spread(values: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many values, evenly spread."""
    return [values[k] for k in np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))]


def _count_differences(step: str, apart: NDArray[np.float64], cause: str = "") -> ParityStep:
    differ, largest = int((~(apart <= _ROUNDING[step])).sum()), float(apart.max())
    shown = largest if np.isfinite(largest) else None
    return ParityStep(step=step, compared=apart.size, differ=differ, largest=shown, cause=cause if differ else "")


def _compare_tokens(a: Transparent, b: Transparent, texts: Sequence[str]) -> ParityStep:
    ids = [[_cut_padding(row) for row in model.token_ids(texts)] for model in (a, b)]
    apart = [k for k in range(len(texts)) if ids[0][k] != ids[1][k]]
    causes = Counter(_find_token_cause(a, b, texts[k], ids[0][k], ids[1][k]) for k in apart)
    return ParityStep(
        step="tokens",
        compared=len(texts),
        differ=len(apart),
        cause=causes.most_common(1)[0][0] if causes else "",
        examples=tuple((texts[k], tuple(ids[0][k]), tuple(ids[1][k])) for k in apart[:_SHOWN]),
    )


def _cut_padding(ids: Sequence[int]) -> list[int]:
    """Return token ids without their padding: zeros, or repeats of the last token (as of SigLIP)."""
    end = len(ids)
    while end > 1 and ids[end - 1] == ids[end - 2]:
        end -= 1
    return list(ids[: end - 1] if end > 1 and ids[end - 1] == 0 else ids[:end])


def _find_token_cause(a: Transparent, b: Transparent, text: str, of_a: list[int], of_b: list[int]) -> str:
    """Return the change of a text that one model's tokens do not notice, in words."""
    shorter, longer = sorted((of_a, of_b), key=len)
    if len(shorter) > 2 and shorter[:-1] == longer[: len(shorter) - 1]:
        name = "A" if shorter is of_a else "B"
        return f"context: {name} reads {len(shorter)} tokens of a text, the other {len(longer)}"
    bare = text.translate(str.maketrans("", "", string.punctuation))
    for name, changed in (("case", text.lower()), ("punctuation", bare), ("case and punctuation", bare.lower())):
        same = [_cut_padding(model.token_ids([changed])[0]) == ids for model, ids in ((a, of_a), (b, of_b))]
        if changed != text and same[0] != same[1]:
            return f"{name}: {'A leaves it out, B' if same[0] else 'B leaves it out, A'} keeps it"
    return "another tokenizer"


def _compare_pixels(a: Transparent, b: Transparent, images: Sequence[Pixels], picture: Path | None) -> ParityStep:
    apart, cause = [], ""
    for image in images:
        first, second = a.input_pixels(image), b.input_pixels(image)
        if first.shape != second.shape:
            cause = f"shape: A reads {first.shape}, B {second.shape}"
            apart.append(float("inf"))
            continue
        apart.append(float(np.abs(first.astype(np.float64) - second).max()))
        if apart[-1] > _ROUNDING["pixels"] and not cause:
            cause = _find_pixel_cause(image, first, second)
    if picture is not None:
        worst = images[int(np.argmax(apart))]
        _draw_pixels(picture, a.input_pixels(worst), b.input_pixels(worst))
    return _count_differences("pixels", np.array(apart), cause)


def _draw_pixels(picture: Path, first: NDArray[np.float32], second: NDArray[np.float32]) -> None:
    """Write two preparations of one image, and their difference from none to the largest, from left to right."""
    from PIL import Image

    if first.shape != second.shape or first.ndim != 3:
        raise RunError(f"picture={picture}: A reads {first.shape} and B {second.shape}, which is not one image's size")
    apart = np.abs(first - second)
    low, high = min(first.min(), second.min()), max(first.max(), second.max())
    panels = [(panel - low) / max(high - low, 1e-12) for panel in (first, second)] + [apart / max(apart.max(), 1e-12)]
    row = np.concatenate([(255 * panel).astype(np.uint8).transpose(1, 2, 0) for panel in panels], axis=1)
    with atomic_file(picture) as draft:
        Image.fromarray(row).save(draft, "PNG")


def _find_pixel_cause(image: Pixels, first: NDArray[np.float32], second: NDArray[np.float32]) -> str:
    """Return the resizes that come nearest to two preparations of one image, in words."""
    if first.ndim != 3:
        return "another preparation"
    resizes = [min(_RESIZES, key=partial(_misfit, pixels, image)) for pixels in (first, second)]
    if resizes[0] == resizes[1]:
        return f"both resize by {resizes[0]}: mean and deviation, or the crop"
    # The words of a resize in which the two part, the most telling first.
    parted = next(k for k in (0, 1, 3) if resizes[0].split()[k] != resizes[1].split()[k])
    word = {0: "interpolation", 1: "antialias", 3: "crop"}[parted]
    return f"{word}: A is nearest to {resizes[0]}, B to {resizes[1]}"


def _misfit(pixels: NDArray[np.float32], image: Pixels, name: str) -> float:
    """Return how far a preparation is from a resize, whatever mean and deviation were taken out."""
    resized = _RESIZES[name](image, pixels.shape[1:])
    left = 0.0
    for channel in range(3):
        values, plain = pixels[channel].ravel().astype(np.float64), resized[..., channel].ravel()
        slope, offset = np.polyfit(plain, values, 1)
        left += float(np.square(values - slope * plain - offset).sum() / max(slope * slope, 1e-12))
    return left


def _resize(image: Pixels, shape: Sequence[int], mode: str, *, antialias: bool, squash: bool) -> NDArray[np.float64]:
    """Resize an image by Pillow, or, where that would smooth and is not to, by torch."""
    height, width = image.shape[:2]
    scale = max(shape[0] / height, shape[1] / width)
    size = (shape[0], shape[1]) if squash else (round(height * scale), round(width * scale))
    if antialias or mode == "nearest":
        from PIL import Image

        resized = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling[mode.upper()]))
    else:
        from tellapart.models.torch.backend import import_torch

        torch = import_torch()
        tensor = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
        pixels = torch.nn.functional.interpolate(tensor, size=size, mode=mode, antialias=False, align_corners=False)
        resized = pixels.clamp(0, 255).round()[0].permute(1, 2, 0).numpy()
    top, left = ((size[axis] - shape[axis]) // 2 for axis in (0, 1))
    return resized[top : top + shape[0], left : left + shape[1]].astype(np.float64)


_RESIZES = {
    f"{mode} {'with' if antialias else 'without'} antialias, {'squashed' if squash else 'cropped'}": partial(
        _resize, mode=mode, antialias=antialias, squash=squash
    )
    for mode, smoothing in (
        *(("bicubic", (True, False)), ("bilinear", (True, False)), ("nearest", (False,))),
        *((mode, (True,)) for mode in ("lanczos", "hamming", "box")),
    )
    for antialias in smoothing
    for squash in (False, True)
}


def _compare_vectors(a: DualEncoder, b: DualEncoder, images: Sequence[Pixels], texts: Sequence[str]) -> ParityStep:
    apart: list[NDArray[np.float64]] = []
    for name, inputs in (("encode_images", images), ("encode_texts", texts)):
        first, second = (np.asarray(getattr(model, name)(inputs), np.float64) for model in (a, b))
        if first.shape != second.shape:
            cause = f"shape: A gives {first.shape[1:]}, B {second.shape[1:]}"
            return ParityStep(step="vectors", compared=len(inputs), differ=len(inputs), cause=cause)
        units = [rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-300) for rows in (first, second)]
        # Of the chord: a small angle is lost in its cosine, which is 1 to the square of it.
        apart.append(2 * np.arcsin(np.linalg.norm(units[0] - units[1], axis=1).clip(max=2) / 2))
    return _count_differences("vectors", np.concatenate(apart), _find_trait_cause(a, b))


def _find_trait_cause(a: Model, b: Model) -> str:
    """Return the traits in which two models differ, in words; without any, what is left."""
    if not (isinstance(a, Transparent) and isinstance(b, Transparent)):
        return ""
    shared = [name for name in a.traits if a.traits[name] and b.traits.get(name) and name != "texts"]
    differ = [name for name in shared if a.traits[name] != b.traits[name]]
    if not differ:
        return "weights, pooling or a step that no trait names"
    return "; ".join(f"{name}: {a.traits[name]} in A, {b.traits[name]} in B" for name in differ)


def _count_flips(pairs: PairSet, scored: Sequence[Scored]) -> tuple[ParityOutcome, ...]:
    """Count the items whose outcome differs, for each headline metric."""
    outline = pairs.outline
    measured = [
        {value.name: value for units in measure_pairs(ListedPairs(outline), scores) for value in units.values}
        for scores in scored
    ]
    outcomes = []
    for name in headline(measured[0]):
        first, second = measured[0][name], measured[1][name]
        a, b = first.strict, second.strict
        if first.reduce is None:
            tested = paired(a, b, outline.clusters)
            difference, flipped = tested.difference, tested.only_a + tested.only_b
        else:  # of several values of an item, as `min_pc_pf`
            difference = paired_difference(b, a, outline.clusters, binary=False, reduce=first.reduce)
            flipped = int((a != b).any(axis=1).sum())
            a, b = (first.reduce(values.mean(axis=0)) for values in (a, b))
        outcomes.append(
            ParityOutcome(
                metric=name,
                items=len(first.strict),
                flipped=flipped,
                a=float(a.mean()),
                b=float(b.mean()),
                low=difference.low,
                high=difference.high,
            )
        )
    return tuple(outcomes)
