"""Captions of the scenes' grammar: equal meanings, true rewordings, mirror images, and the tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.grammar import LOCATIONS, PLACES, VERBS

__all__ = ["Wording", "draw_wording", "encode", "meaning", "mirror", "reword", "tokenizer_json"]

_SIDES: dict[str, tuple[str, ...]] = {"left": LOCATIONS["left"], "right": LOCATIONS["right"]}

_VERB = re.compile(r"\bis (?:located|placed)\b")
_SIDE = re.compile(r"\bon the (left|right)(?: side| hand)? of\b")
_COUNT_FIRST = re.compile(r"^(\d) (.+) (is|are) (?:in the scene|on the platform)\.$")
_THERE_FIRST = re.compile(r"^There (is|are) (\d) (.+) (?:in the scene|on the platform)\.$")
_CONVERSE = re.compile(r"^the (.+) is (on the right of|behind) the (.+)\.$")
_OPPOSITE = {"on the right of": "on the left of", "behind": "in front of"}
_SIZE = re.compile(r"\b(?:small|large) ")


def _parse_count(text: str) -> tuple[str, str, str] | None:
    """Return (count, objects, verb) of a counting caption."""
    if match := _COUNT_FIRST.match(text):
        return match[1], match[2], match[3]
    if match := _THERE_FIRST.match(text):
        return match[2], match[3], match[1]
    return None


def meaning(text: str) -> str:
    """Return a caption's canonical form: captions with the same form are true of the same images.

    Sizes are dropped: "the small mug" is true of an image wherever "the mug" is, so the two are never set
    against each other as true and false.

    >>> meaning("The small red mug is placed on the left hand of the large bowl.")
    'the red mug is on the left of the bowl.'
    >>> meaning("The bowl is behind the mug.")
    'the mug is in front of the bowl.'
    >>> meaning("2 red mugs are on the platform.") == meaning("There are 2 red mugs in the scene.")
    True
    """
    if counted := _parse_count(text):
        return f"count {counted[0]} {counted[1].lower()}"
    plain = _SIDE.sub(r"on the \1 of", _VERB.sub("is", _SIZE.sub("", text.lower())))
    plain = plain.replace("on the top of", "above")
    # "B is right of A" becomes "A is left of B".
    return _CONVERSE.sub(lambda match: f"the {match[3]} is {_OPPOSITE[match[2]]} the {match[1]}.", plain)


def mirror(text: str) -> str:
    """Return the caption that is true of the image flipped left to right.

    >>> mirror("The mug is on the left side of the bowl.")
    'The mug is on the right side of the bowl.'
    """
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda match: other[match[1]], text)


@dataclass(frozen=True)
class Wording:
    """One choice among the grammar's synonyms, applied to a caption and to everything it is compared with."""

    verb: int
    side: int
    there: bool
    place: int


def draw_wording(rng: np.random.Generator) -> Wording:
    """Draw a wording."""
    verb, side, there, place = (int(rng.integers(n)) for n in (len(VERBS), len(_SIDES["left"]), 2, len(PLACES)))
    return Wording(verb, side, bool(there), place)


def reword(text: str, wording: Wording) -> str:
    """Return the caption with the wording's synonyms; its meaning is unchanged.

    >>> reword("The mug is on the left of the bowl.", Wording(2, 1, False, 0))
    'The mug is placed on the left side of the bowl.'
    >>> reword("2 red mugs are on the platform.", Wording(0, 0, True, 0))
    'There are 2 red mugs in the scene.'
    """
    if counted := _parse_count(text):
        count, objects, verb = counted
        place = PLACES[wording.place]
        return f"There {verb} {count} {objects} {place}." if wording.there else f"{count} {objects} {verb} {place}."
    text = _SIDE.sub(lambda match: _SIDES[match[1]][wording.side], text)
    return re.sub(r"\bis\b(?: located| placed)?", VERBS[wording.verb], text, count=1)


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
