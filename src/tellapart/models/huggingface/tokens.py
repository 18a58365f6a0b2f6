"""Texts to token batches whose shape depends on the text alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.torch_forward import bucket

__all__ = ["TokenReader", "check_tokenizer", "text_config"]


class TokenReader:
    """Tokenises texts, cuts what is too long, and says what length each is padded to.

    Args:
        tokenizer: of transformers.
        length: of the context, in tokens, with the special ones.
        whole: pad every text to the context; else to the next multiple of eight tokens.

    >>> class Letters:
    ...     def __call__(self, texts, **options):
    ...         return {"input_ids": [list(map(ord, text)) for text in texts]}
    >>> TokenReader(Letters(), 16).lengths(["a cup", "a red cup", "two cups", "a cup on a long, long table"])
    ([8, 16, 8, 16], [False, False, False, True])
    """

    def __init__(self, tokenizer: Any, length: int, *, whole: bool = False) -> None:
        self.length = length
        self._tokenizer = tokenizer
        self._whole = whole

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return what each text is padded to, in tokens, and whether it is longer than the context and loses its end.

        >>> TokenReader(None, 16).lengths([])
        ([], [])
        """
        if not texts:
            return [], []
        own = [len(tokens) for tokens in self._tokenizer(list(texts), verbose=False)["input_ids"]]
        padded = [self.length if self._whole else bucket(length, self.length) for length in own]
        return padded, [length > self.length for length in own]

    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts to tensors of `length` tokens, named as the tokenizer names them.

        >>> TokenReader(lambda texts, **options: {"input_ids": options["max_length"]}, 16).tokens(["a"], 16)
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


def text_config(config: Any) -> Any:
    """Return the part of a configuration that is of what reads texts.

    >>> from types import SimpleNamespace as Of
    >>> text_config(Of(text_config=Of(vocab_size=9))).vocab_size, text_config(Of(vocab_size=7)).vocab_size
    (9, 7)
    """
    return getattr(config, "qformer_config", None) or getattr(config, "text_config", None) or config


def check_tokenizer(name: str, config: Any, tokenizer: Any, *, side: str | None = "right") -> None:
    """Hold a tokenizer against the model that reads its tokens.

    Args:
        name: of the model, for the error.
        config: the model's configuration.
        tokenizer: of transformers.
        side: on which it must pad; None if that is all the same.

    Raises:
        ModelError: it knows tokens that the model does not, or pads otherwise than the model expects.

    >>> from types import SimpleNamespace as Of
    >>> check_tokenizer("m", Of(vocab_size=8), Of(vocab_size=9))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: m: its tokenizer knows 9 tokens and its text encoder 8: they are not of one model; ...
    """
    known = text_config(config).vocab_size
    if tokenizer.vocab_size > known:
        raise ModelError(
            f"{name}: its tokenizer knows {tokenizer.vocab_size} tokens and its text encoder {known}: they are not of one "
            "model; copy the tokenizer's files from the model that it was trained from"
        )
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{name}: its tokenizer has no token to pad with; set pad_token in tokenizer_config.json")
    if side is not None and tokenizer.padding_side != side:
        raise ModelError(
            f"{name}: its tokenizer pads on the {tokenizer.padding_side}, which moves every token to another position; set "
            f'"padding_side": "{side}" in tokenizer_config.json'
        )
