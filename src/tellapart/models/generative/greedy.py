"""Greedy texts written together: each prompt is read alone, and prompts of one length then go on in one batch.

Reading a prompt is bound by arithmetic, which a batch does not save; writing is bound by the weights, which a batch
reads once for all its rows. Batches have one fixed shape and no padding, so no answer depends on its neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.models.torch.backend import fixed_batches, import_torch, positions_by_key

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["ReadPrompt", "write_answers"]

#: Answers in one forward pass; part of a model's identity.
_ROWS = 4


@dataclass(frozen=True, slots=True, eq=False)
class ReadPrompt:
    """A prompt that was read.

    Attributes:
        cache: keys and values of one row.
        length: tokens read.
        shift: a token's position less its index; None if the model counts by itself.
        first: the first token of the answer.
    """

    cache: Any
    length: int
    shift: int | None
    first: int


def write_answers(
    model: PreTrainedModel, lengths: Sequence[int], read: Callable[[int], ReadPrompt], ends: Collection[int], most: int
) -> list[list[int]]:
    """Return the tokens of each answer, its end included.

    Args:
        model: of transformers, with a decoder.
        lengths: tokens of each prompt.
        read: reads the prompt of that place; of as many prompts as a batch has are keys and values held at once.
        ends: tokens after which an answer is over.
        most: tokens after which it is cut off.
    """
    answers: list[list[int]] = [[] for _ in lengths]
    for places in positions_by_key(lengths).values():
        for batch, real in fixed_batches(places, _ROWS):
            prompts = [read(place) for place in batch[:real]]
            prompts += prompts[-1:] * (_ROWS - real)
            written = _write_group(model, prompts, ends, most)
            for place, tokens in zip(batch[:real], written[:real], strict=True):
                answers[place] = tokens
    return answers


def _write_group(
    model: PreTrainedModel, prompts: Sequence[ReadPrompt], ends: Collection[int], most: int
) -> list[list[int]]:
    torch = import_torch()
    cache, length = _join_caches(prompts), prompts[0].length
    written = [[prompt.first] for prompt in prompts]
    while any(tokens[-1] not in ends for tokens in written) and len(written[0]) < most:
        ids = torch.tensor([tokens[-1:] for tokens in written], device=model.device)
        place = length + len(written[0]) - 1
        positions = torch.tensor([[place + (prompt.shift or 0)] for prompt in prompts], device=model.device)
        if prompts[0].shift is not None:
            positions = positions.expand(3, -1, -1)  # time, height and width are the same in a text
        out = model(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True)
        for tokens, token in zip(written, out.logits[:, -1].argmax(-1).tolist(), strict=True):
            tokens.append(tokens[-1] if tokens[-1] in ends else token)  # an answer that is over waits
    return [_until_end(tokens, ends) for tokens in written]


def _join_caches(prompts: Sequence[ReadPrompt]) -> object:
    """Return one cache of the rows of several."""
    torch = import_torch()
    joined = copy.deepcopy(prompts[0].cache)
    for index, layer in enumerate(joined.layers):
        layer.keys = torch.cat([prompt.cache.layers[index].keys for prompt in prompts])
        layer.values = torch.cat([prompt.cache.layers[index].values for prompt in prompts])
    return joined


def _until_end(tokens: Sequence[int], ends: Collection[int]) -> list[int]:
    last = next((index for index, token in enumerate(tokens) if token in ends), len(tokens))
    return list(tokens[: last + 1])
