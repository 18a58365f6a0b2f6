"""The tokenizer of the scenes' captions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["encode", "tokenizer_json"]


def tokenizer_json(texts: Iterable[str], context_length: int) -> str:
    """Return a Hugging Face `tokenizers` file: lower-cased whole words and punctuation, `[CLS]` first.

    Padding is 0, unknown words are 1; a longer text is cut to `context_length` tokens.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    words = sorted({piece for text in texts for piece, _ in split.pre_tokenize_str(text.lower())})
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = split
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    tokenizer.enable_truncation(context_length)
    tokenizer.enable_padding(length=context_length, pad_id=0, pad_token="[PAD]")  # noqa: S106
    return json.dumps(json.loads(tokenizer.to_str()), indent=1)


def encode(tokenizer: Any, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return token ids `(texts, context_length)`, 0 where padded."""
    return np.array([encoding.ids for encoding in tokenizer.encode_batch(list(texts))], dtype=np.int64)
