"""Captions that a model's context cuts, and items whose captions a model then cannot distinguish."""

from __future__ import annotations

from tellapart.auditing.finding import Finding, at_most
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.protocols import Bounded

#: The share of items that may lose the end of a caption.
_CUT = 0.01

#: Captions between two reports of progress.
_BLOCK = 256


def find_context(name: str) -> Bounded:
    """Return a model that shows its tokens, or, for a number, CLIP's tokenizer with a context of so many tokens."""
    if name.isdecimal():
        from tellapart.models.openclip.tokens import clip_tokens

        if int(name) < 3:
            raise ModelError(f"model={name!r}: a context holds at least 3 tokens, of which two are its start and end")
        return clip_tokens(int(name))
    model = find_model(name)
    if not isinstance(model, Bounded):
        raise ModelError(
            f"model={name!r} does not show its tokens: name a dual encoder of open_clip: or hf:, or a number of CLIP's "
            "tokens, such as 77"
        )
    return model


def lost_captions(model: Bounded, name: str, pairs: PairSet, progress: Progress | None = None) -> list[Finding]:
    """Return the share of items with a caption that a model cuts, and of those whose captions it reads as the same.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> class Letters:
    ...     def token_ids(self, texts):
    ...         return [[ord(letter) for letter in text[:4]] for text in texts]
    ...     def find_cut(self, texts):
    ...         return [len(text) > 4 for text in texts]
    >>> texts = [("cats", "dogs"), ("a cat", "a dog"), ("red a", "red b")]
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=pair) for k, pair in enumerate(texts))
    >>> [finding.items for finding in lost_captions(Letters(), "4", PairSet("s", items, Path(".")))]
    [('1', '2'), ('2',)]
    """
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    cut: dict[str, bool] = {}
    read: dict[str, tuple[int, ...]] = {}
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        cut |= zip(block, model.find_cut(block), strict=True)
        read |= zip(block, map(tuple, model.token_ids(block)), strict=True)
        if progress is not None:
            progress(f"captions read by {name}", len(cut), len(texts))
    context = f"{name} tokens" if name.isdecimal() else f"the context of {name}"
    lost = [any(cut[text] for text in item.texts) for item in pairs.items]
    same = [len({read[text] for text in item.texts}) < len({*item.texts}) for item in pairs.items]
    by_cut = sum(is_same and is_lost for is_same, is_lost in zip(same, lost, strict=True))
    return [
        at_most(
            _CUT,
            "context: cut",
            f"items with a caption longer than {context}",
            lost,
            pairs,
            f"{sum(cut.values()):,} of {len(texts):,} captions lose their end",
        ),
        at_most(
            0,
            "context: equal",
            f"items with different captions that are the same tokens within {context}",
            same,
            pairs,
            f"no model that reads so can solve them; {by_cut:,} by the cut",
        ),
    ]
