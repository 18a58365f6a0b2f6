"""Texts to token batches whose shape depends on the text alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["TokenReader", "bucket"]

#: Lengths are rounded up to a multiple of this.
_STEP = 8


def bucket(length: int, limit: int) -> int:
    """Round a number of tokens up to a multiple of 8, and no further than the context.

    >>> [bucket(length, 77) for length in (1, 8, 9, 77, 300)]
    [8, 8, 16, 77, 77]
    """
    return min(-(-length // _STEP) * _STEP, limit)


class TokenReader:
    """Tokenises texts, cuts what is too long, and sorts them by the length that they are padded to.

    Args:
        tokenizer: of transformers.
        length: of the context, in tokens, with the special ones.
        whole: pad every text to the context.

    Attributes:
        truncated: how many texts so far were longer than the context and lost their end.

    >>> class Letters:
    ...     def __call__(self, texts, **options):
    ...         return {"input_ids": [list(map(ord, text)) for text in texts]}
    >>> reader = TokenReader(Letters(), 16, whole=False)
    >>> reader.groups(["a cup", "a red cup", "two cups", "a cup on a long, long table"]), reader.truncated
    ({8: [0, 2], 16: [1, 3]}, 1)
    """

    def __init__(self, tokenizer: Any, length: int, *, whole: bool) -> None:
        self.truncated = 0
        self.length = length
        self._tokenizer = tokenizer
        self._whole = whole

    def groups(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Return the positions of the texts by the length that they are padded to; count the cut ones.

        >>> TokenReader(None, 16, whole=False).groups([])
        {}
        """
        if not texts:
            return {}
        lengths = [len(tokens) for tokens in self._tokenizer(list(texts), verbose=False)["input_ids"]]
        self.truncated += sum(length > self.length for length in lengths)
        found: dict[int, list[int]] = {}
        for position, length in enumerate(lengths):
            found.setdefault(self.length if self._whole else bucket(length, self.length), []).append(position)
        return found

    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts to tensors of `length` tokens, named as the tokenizer names them.

        >>> TokenReader(lambda texts, **options: {"input_ids": options["max_length"]}, 16, whole=True).tokens(["a"], 16)
        {'input_ids': 16}
        """
        return dict(
            self._tokenizer(
                list(texts),
                padding="max_length",
                truncation=True,
                max_length=length,
                return_tensors="pt",
                verbose=False,
            )
        )
