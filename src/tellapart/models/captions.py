"""How captions are read: control tokens of a tokenizer, and SigLIP's rule of letters and punctuation.

A caption is text, and its words do not become ends, masks, pictures or turns.

Tokenizers turn `</s>`, `[MASK]` or `<|im_end|>` in a text into the token of that name. Libraries can be asked to read
special tokens as text, which a vocabulary that lists them among its words (Unigram's) undoes; so ids are looked at,
too. Words that a user added (`<concept1>`) are no special tokens, and stay one token each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tellapart.errors import ModelError, quote

#: Names of control tokens in chat models' and CLIP's vocabularies, for tokenizers that nobody here can ask.
_KNOWN = re.compile(
    r"<\|[^\s|<>]{1,40}\|>|</?(s|bos|eos|pad|mask|think|image|video)>|<(start|end)_of_\w{1,20}>|\[/?(INST|IMG)\]"
)


class ControlTokens:
    """The special tokens of a tokenizer: their texts by id, without the mark of unknown words."""

    def __init__(self, tokenizer: Any, template: str = "") -> None:
        self._tokenizer = tokenizer
        listed = getattr(tokenizer, "get_added_tokens_decoder", None)
        added = listed() if listed is not None else getattr(tokenizer, "added_tokens_decoder", {})
        self._words = any(not token.special for token in added.values())
        control = {
            number: token.content
            for number, token in added.items()
            if token.special or (token.content in template and token.content.startswith("<"))
        }
        roles = Counter(map(str, getattr(tokenizer, "special_tokens_map", {}).values()))
        unknown = getattr(tokenizer, "unk_token", None) or getattr(getattr(tokenizer, "model", None), "unk_token", None)
        self.names = {number: name for number, name in control.items() if name != unknown or roles[name] > 1}

    @property
    def facts(self) -> str:
        """The rules by which captions are read, as part of a fingerprint; empty if captions are read without them."""
        rules = ["control tokens in texts are text"] if self.names else []
        if getattr(self._tokenizer, "truncation_side", "right") == "left":
            rules.append("long texts lose their beginning")  # of nearly all tokenizers their end
        return "; ".join(rules)

    @property
    def split(self) -> dict[str, bool]:
        """The option by which a tokenizer of transformers reads control tokens as text, and keeps added words whole."""
        splits = bool(getattr(self._tokenizer, "is_fast", False)) or not self._words
        return {"split_special_tokens": splits} if self.names else {}

    def refuse(self, source: str, texts: Sequence[str], rows: Iterable[Sequence[int]], empty: Sequence[int]) -> None:
        """Refuse texts whose ids hold more control tokens than those of an empty text."""
        for text, row in zip(texts, rows, strict=True):
            if self.names.keys().isdisjoint(row):  # as of nearly every text
                continue
            frame = Counter(token for token in empty if token in self.names)
            more = Counter(token for token in row if token in self.names) - frame
            if more:
                raise refusal(source, text, self.names[next(iter(more))])

    def refuse_in_prompt(self, source: str, text: str) -> None:
        """Refuse a text with control tokens for a prompt, whose own control tokens must be read as such."""
        self.refuse(source, [text], [self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]], ())

    def read_ids(self, source: str, text: str) -> list[int]:
        """Return the ids of a text without those that begin and end it, by a tokenizer of transformers."""
        ids = list(self._tokenizer(text, add_special_tokens=False, verbose=False, **self.split)["input_ids"])
        self.refuse(source, [text], [ids], ())
        return ids

    def encode(self, source: str, texts: Sequence[str]) -> list[Any]:
        """Return the encodings of texts by a tokenizer of the tokenizers library."""
        self._tokenizer.encode_special_tokens = True
        encodings: list[Any] = self._tokenizer.encode_batch(list(texts))
        for text, row in zip(texts, encodings, strict=True):
            ids = [number for number, mark in zip(row.ids, row.special_tokens_mask, strict=True) if not mark]
            self.refuse(source, [text], [ids], ())
        return encodings


def list_control_tokens(processor: Any, template: str = "") -> list[ControlTokens]:
    """Return the control tokens of the tokenizers that read a prompt: a processor's, InstructBLIP's second too."""
    tokenizers = (processor.tokenizer, getattr(processor, "qformer_tokenizer", None))
    return [ControlTokens(tokenizer, template) for tokenizer in tokenizers if tokenizer is not None]


def refuse_known_marks(source: str, texts: Iterable[str]) -> None:
    """Refuse texts with a name of a control token, for a tokenizer that cannot be asked: a server's, a caller's."""
    for text in texts:
        if mark := _KNOWN.search(text):
            raise refusal(source, text, mark[0])


def refusal(source: str, text: str, mark: str) -> ModelError:
    """Return the error for a text with a control token."""
    return ModelError(
        f"{source}: the text {quote(text)} holds {quote(mark)}, a control token of the model, which its tokenizer does "
        "not read as text here; take it out of the text"
    )


#: The names of the two rules for SigLIP, for records. SigLIP and SigLIP 2 were trained on captions in lower case with
#: their punctuation. Libraries strip it (open_clip, transformers' tokenizer of SigLIP) or keep capitals (a folder of
#: SigLIP 2 whose tokenizer is called Gemma's), and the same weights then give other scores.
AS_AUTHORS = "lower case, punctuation kept, as the authors of SigLIP"
AS_LIBRARY = "as the library's tokenizer has them"


def lower_case(text: str) -> str:
    """Return a caption as the authors of SigLIP read it.

    Source: big_vision, `pp/ops_text.py` (`lower`), and SigLIP2_demo.ipynb.
    """
    return text.lower()


def caption_rule(siglip: bool, tokenizer: Any, texts: str = "raw") -> tuple[str, Callable[[str], str] | None]:
    """Return a rule's name for records and the function that changes a caption; the tokenizer is made to follow it."""
    if texts != "raw" and not (siglip and texts == "library"):
        raise ModelError(
            f"texts={texts} has no effect on this model: its library reads captions as its authors do; 'library' is "
            "for SigLIP, 'cleaned' for models in their authors' files"
        )
    if not siglip:
        return "", None
    if texts == "library":
        return AS_LIBRARY, None
    # Captions come in lower case then, and keep their punctuation.
    if hasattr(tokenizer, "clean_fn"):  # open_clip's
        tokenizer.clean_fn = lower_case
    inner = getattr(tokenizer, "tokenizer", tokenizer)
    if hasattr(inner, "remove_punctuation"):  # transformers' of SigLIP
        inner.remove_punctuation = str
    return AS_AUTHORS, lower_case
