"""How captions are changed before a tokenizer reads them, if a library does it otherwise than a model's authors.

SigLIP and SigLIP 2 were trained on captions in lower case with their punctuation. Libraries strip the punctuation
(open_clip, transformers' tokenizer of SigLIP) or keep capitals (a folder of SigLIP 2 whose tokenizer is called
Gemma's), and the same weights then give other scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellapart.errors import ModelError

#: The names of the two rules, for records.
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
