"""The caption cleaners of the families' retrieval code; by default captions are read as they are."""

from __future__ import annotations

import re
import string


def clean_like_albef(caption: str, words: int = 30) -> str:
    """Clean a caption as ALBEF's and X-VLM's data sets do: lower case, no punctuation, at most 30 words.

    >>> clean_like_albef("A man's dog -- black/white -- sits, <person> too!")
    'a mans dog black white sits person too'
    """
    caption = re.sub(r"([,.'!?\"()*#:;~])", "", caption.lower()).replace("-", " ").replace("/", " ")
    return _cut_caption(caption.replace("<person>", "person"), words)


def clean_like_blip(caption: str, words: int = 30) -> str:
    """Clean a caption as BLIP's data sets do: lower case, some punctuation to blanks, at most 30 words.

    >>> clean_like_blip("A man's dog, black/white - sits. <person> too!")
    "a man's dog, black/white - sits <person> too"
    """
    return _cut_caption(re.sub(r"([.!\"()*#:;~])", " ", caption.lower()), words)


def clean_like_ofa(caption: str, words: int = 20) -> str:
    """Clean a caption as OFA's captioning does: no punctuation, at most 20 words; letters stay as they are.

    >>> clean_like_ofa("A man's dog -- black/white.")
    'A mans dog blackwhite'
    """
    return " ".join(caption.translate(str.maketrans("", "", string.punctuation)).split()[:words])


def clean_like_ofa_matching(caption: str) -> str:
    """Clean a caption as OFA's matching does: lower case, no punctuation at the start; most other punctuation stays.

    >>> clean_like_ofa_matching("...A man's dog, black/white - sits. <person> too!")
    "a man's dog, black white sits. person too!"
    """
    caption = caption.lower().lstrip(",.!?*#:;~").replace("-", " ").replace("/", " ")
    return _cut_caption(caption.replace("<person>", "person"), None)


def _cut_caption(caption: str, words: int | None) -> str:
    """Squeeze blanks, strip the ends, and keep the first words."""
    caption = re.sub(r"\s{2,}", " ", caption).rstrip("\n").strip(" ")
    return " ".join(caption.split(" ")[:words])
