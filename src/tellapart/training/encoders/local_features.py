"""Local features of a dual encoder, by patch and by word: its towers' last states, projected as the pooled ones are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class LocalTower:
    """Places of a tower's tokens, before one vector is made of them.

    Attributes:
        norm: the last module that gives a state for every token, `(n, tokens, width)`.
        project: takes such states to `(n, tokens, d)`.
    """

    norm: nn.Module
    project: Callable[[Any], Any]


class LocalFeatures:
    """Keeps the states that two towers' last norms give, from when it is made."""

    def __init__(self, images: LocalTower, texts: LocalTower, words: Callable[[Any], Any]) -> None:
        self._towers, self._words = (images, texts), words
        self._states: dict[int, Tensor] = {}
        for side, tower in enumerate(self._towers):
            tower.norm.register_forward_hook(
                lambda _module, _inputs, states, side=side: self._keep_states(side, states)
            )

    def _keep_states(self, side: int, states: Tensor) -> None:
        self._states[side] = states

    def read(self, ids: Tensor) -> tuple[Any, Any, Any]:
        """Return the towers' last outputs: patches, words, and a mask of real words.

        Returns:
            Patches as their tower projects them, float32 `(n, patches, d)`; words as unit vectors, float32
            `(m, length, d)`; bool `(m, length)`.
        """
        patches, words = (tower.project(self._states.pop(side)).float() for side, tower in enumerate(self._towers))
        return patches[:, 1:], import_torch().nn.functional.normalize(words, dim=-1), self._words(ids)
