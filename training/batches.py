"""From quadruples to augmented tensors: flips with swapped words, rewordings, crops and light."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tellapart.builders.rendered.wordings import draw_synonyms, meaning, mirror, reword
from training.captions import encode
from training.quadruples import Quadruples

__all__ = ["MEAN", "STD", "TextBatch", "augment", "normalise", "shuffled_batches", "text_batch"]

#: Channel means and deviations of the input, in [0, 1]; the loader's config.json carries the same numbers.
MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)

#: The share of images whose own caption is replaced by a paraphrase.
PARAPHRASED = 0.25


@dataclass(frozen=True)
class TextBatch:
    """Texts of a batch of `q` quadruples; distinct texts are encoded once.

    Attributes:
        ids: int64 `(distinct, length)`, tokens of the distinct texts.
        true: int64 `(2q,)`, rows of `ids`.
        foils: int64 `(2q, f)`, rows of `ids`; 0 where `has_foil` is False.
        has_foil: bool `(2q, f)`.
        meanings: int64 `(2q,)`, equal for captions with the same meaning.
    """

    ids: Tensor
    true: Tensor
    foils: Tensor
    has_foil: Tensor
    meanings: Tensor


def normalise(images: NDArray[np.uint8]) -> Tensor:
    """Return float32 `(n, 3, size, size)` from uint8 `(n, size, size, 3)`."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255.0
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    return ((pixels - mean) / std).contiguous(memory_format=torch.channels_last)


def augment(
    images: NDArray[np.uint8], places: NDArray[np.float32], flip: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return normalised images after flips, small crops and shifts, and mild changes of light; and their places.

    Colours carry meaning here, so hue is left alone: gain within 15 %, channels within 4 %.

    Args:
        images: uint8 `(n, size, size, 3)`.
        places: float32 `(n, 5, 3)`, as in `Quadruples`; they move with the pixels.
        flip: bool `(n,)`, the images to mirror left to right.
        rng: draws the rest.
    """
    n = len(images)
    scale = rng.uniform(0.88, 1.06, n)
    shift = rng.uniform(-0.07, 0.07, (n, 2))
    affine = np.zeros((n, 2, 3), np.float32)
    affine[:, 0, 0] = np.where(flip, -scale, scale)
    affine[:, 1, 1] = scale
    affine[:, :, 2] = shift
    grid = functional.affine_grid(torch.from_numpy(affine), [n, 3, *images.shape[1:3]], align_corners=False)
    pixels = functional.grid_sample(normalise(images), grid, padding_mode="reflection", align_corners=False)
    gain = rng.uniform(0.85, 1.15, (n, 1)) * rng.uniform(0.96, 1.04, (n, 3))
    offset = rng.uniform(-0.15, 0.15, (n, 1))
    light = torch.from_numpy(np.stack([gain, np.broadcast_to(offset, (n, 3))]).astype(np.float32))
    pixels = pixels * light[0][:, :, None, None] + light[1][:, :, None, None]
    # The grid says where each new pixel comes from; places go the other way.
    moved = places.copy()
    moved[:, :, 1:] = (places[:, :, 1:] - shift[:, None, :]) / affine[:, [0, 1], [0, 1]][:, None, :]
    return pixels.contiguous(memory_format=torch.channels_last), torch.from_numpy(moved)


def text_batch(
    batch: Quadruples, flip: NDArray[np.bool_], foils: int, tokenizer: Any, rng: np.random.Generator
) -> TextBatch:
    """Return the batch's captions, reworded as one wording for each quadruple, with up to `foils` false ones an image.

    Args:
        batch: `q` quadruples.
        flip: bool `(q,)`, the quadruples whose captions are mirrored with the images.
        foils: false captions drawn for an image, beside its mate's.
        tokenizer: of `captions.tokenizer_json`.
        rng: draws wordings and foils.
    """
    row: dict[str, int] = {}
    true: list[int] = []
    meanings: list[str] = []
    chosen = np.zeros((2 * len(batch), foils), np.int64)
    has_foil = np.zeros(chosen.shape, bool)
    for k in range(len(batch)):
        wording = draw_synonyms(rng)
        for side in (0, 1):
            texts = [_true_caption(batch, k, side, rng), *_draw_foils(batch.foils[k][side], foils, rng)]
            texts = [reword(mirror(text) if flip[k] else text, wording) for text in texts]
            rows = [row.setdefault(text, len(row)) for text in texts]
            true.append(rows[0])
            meanings.append(meaning(texts[0]))
            chosen[2 * k + side, : len(rows) - 1] = rows[1:]
            has_foil[2 * k + side, : len(rows) - 1] = True
    ids = encode(tokenizer, list(row))
    ids = ids[:, : int((ids != 0).sum(1).max())]
    numbers = {text: index for index, text in enumerate(dict.fromkeys(meanings))}
    return TextBatch(
        ids=torch.from_numpy(np.ascontiguousarray(ids)),
        true=torch.tensor(true),
        foils=torch.from_numpy(chosen),
        has_foil=torch.from_numpy(has_foil),
        meanings=torch.tensor([numbers[text] for text in meanings]),
    )


def _true_caption(batch: Quadruples, k: int, side: int, rng: np.random.Generator) -> str:
    """Return the image's own caption, or sometimes a paraphrase."""
    others = batch.paraphrases[k][side]
    if others and rng.random() < PARAPHRASED:
        return others[int(rng.integers(len(others)))]
    return batch.texts[k][side]


def _draw_foils(groups: tuple[tuple[str, ...], ...], count: int, rng: np.random.Generator) -> list[str]:
    """Return a foil of each of up to `count` kinds, so that rich kinds (other objects) do not crowd out the rest."""
    kinds = rng.permutation(len(groups))[:count]
    return [groups[int(kind)][int(rng.integers(len(groups[int(kind)])))] for kind in kinds]


def shuffled_batches(count: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield rows of full batches, epoch after epoch, without end; each epoch is shuffled anew.

    >>> [rows.tolist() for rows, _ in zip(shuffled_batches(2, 2, np.random.default_rng(0)), "ab")]
    [[0, 1], [0, 1]]
    """
    size = min(size, count)
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
