"""Checks that read the captions and not the images: blind models, plausibility, grammar, length and word order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.finding import MARGIN, MOST_EXAMPLES, Finding, at_most, excludes, mean_with_interval
from tellapart.benchmarks.sugarcrepe import same_words
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.protocols import Bounded, TextScorer
from tellapart.models.text.tinystories import TinyStories

#: The share of items that may lose the end of a caption.
_CUT = 0.01

#: Captions between two reports of progress.


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


#: How far apart mean log-likelihoods may lie, in nats per token: the perplexities then differ by a tenth.
_NATS = 0.1

#: How far apart mean grammar scores may lie, in standard deviations of all scores.
_DEVIATIONS = 0.1

#: How far apart mean lengths may lie, as a share of the mean length.
_SHARE_OF_LENGTH = 0.05

_LENGTHS: Mapping[str, Callable[[str], int]] = {"words": lambda text: len(text.split()), "characters": len}

#: Captions per call of the model; progress is reported after each call.
_BLOCK = 256

#: A name for a tag that separates items whose captions differ in word order alone.
_TAG = "bag_of_words"


def text_scores(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> NDArray[np.float32]:
    """Score every caption, each distinct one once: float32 `(item, text)`."""
    texts = [*dict.fromkeys(text for item in pairs.items for text in item.texts)]
    known: dict[str, float] = {}
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        scores = np.asarray(model.score_texts(block), np.float32)
        if scores.shape != (len(block),) or not np.isfinite(scores).all():
            raise ModelError(f"{model.name} gave {scores.shape} for {len(block)} texts, or numbers that are not finite")
        known |= zip(block, scores.tolist(), strict=True)
        if progress is not None:
            progress(f"captions read by {model.name}", len(known), len(texts))
    return np.array([[known[text] for text in item.texts] for item in pairs.items], np.float32)


def blind_accuracy(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return how often a blind model prefers the caption with index 0; a tie of k captions counts 1 / k.

    With one image, this is the model's accuracy. Above chance, the set can be solved in part without the images; below
    chance, the captions alone mislead. With two images, both captions are true and no blind model can solve an item;
    then the share shows whether the two captions come from different sources.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Blind
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a cat", "not a cat")) for k in range(40))
    >>> finding = blind_accuracy(Blind(), PairSet("s", items, Path(".")))
    >>> finding.value, finding.verdict
    (1.0, 'warn')
    """
    scores = text_scores(model, pairs, progress)
    top = scores == scores.max(axis=1, keepdims=True)
    chance = 1 / pairs.shape[1]
    mean = mean_with_interval(np.asarray(top[:, 0] / top.sum(axis=1), np.float64), pairs, bounds=(0.0, 1.0))
    differs = excludes(mean, chance)
    prefers = "no difference from chance" if not differs else "too often" if mean["value"] > chance else "too rarely"
    tied = int((top.sum(axis=1) > 1).sum())
    meaning = "its accuracy" if pairs.shape[0] == 1 else "both captions are true, so this solves no item"
    return Finding(
        name=f"blind: {model.name}",
        title=f"{model.name}, which sees no image, prefers {_first_caption(pairs)}",
        unit="share",
        threshold=f"within {100 * MARGIN:g} points of chance ({100 * chance:.1f} %), or an interval that holds chance",
        verdict="warn" if differs and abs(mean["value"] - chance) > MARGIN else "pass",
        says=f"{prefers} ({meaning}); {tied:,} items tied",
        **mean,
    )


def plausibility_gap(model: TinyStories, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return by how much caption 0 is more likely than the others, in nats per token, and both perplexities."""
    per_token = text_scores(TinyStories(model.checkpoint, per_token=True), pairs, progress).astype(np.float64)
    first, others = per_token[:, 0], per_token[:, 1:].mean(axis=1)
    perplexities = np.exp(-first.mean()), np.exp(-others.mean())
    return Finding(
        name=f"plausibility: {model.name}",
        title=f"log-likelihood per token of {_first_caption(pairs)}, less that of the others",
        unit="nats",
        threshold=f"within {_NATS} of 0, or an interval that holds 0",
        says=f"perplexity {perplexities[0]:.1f} against {perplexities[1]:.1f} under {model.name}",
        **_gap_fields(first - others, pairs, _NATS),
    )


def grammar_gap(model: TextScorer, pairs: PairSet, progress: Progress | None = None) -> Finding:
    """Return by how much caption 0 is more grammatical than the others, in standard deviations of all captions' scores.

    >>> from pathlib import Path
    >>> from tellapart.models.text.find import find_text_scorer
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a cat sits", "cat sits")) for k in range(40))
    >>> finding = grammar_gap(find_text_scorer("words", Path(".")), PairSet("s", items, Path(".")))
    >>> finding.value, finding.verdict, finding.says
    (2.0, 'warn', 'words: 3 on average against 2')
    """
    scores = text_scores(model, pairs, progress).astype(np.float64)
    first, others = scores[:, 0], scores[:, 1:].mean(axis=1)
    spread = float(scores.std()) or 1.0  # if all scores are equal, every gap is 0
    return Finding(
        name=f"grammar: {model.name}",
        title=f"grammar of {_first_caption(pairs)}, less that of the others",
        unit="deviations",
        threshold=f"within {_DEVIATIONS} standard deviations of 0, or an interval that holds 0",
        says=f"{model.name}: {first.mean():.4g} on average against {others.mean():.4g}",
        **_gap_fields((first - others) / spread, pairs, _DEVIATIONS),
    )


def length_gaps(pairs: PairSet) -> list[Finding]:
    """Return by how many words and characters caption 0 is longer than the mean of the item's other captions.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=("a big cat", "a cat")) for k in range(40))
    >>> [(finding.name, finding.value, finding.verdict) for finding in length_gaps(PairSet("s", items, Path(".")))]
    [('length: words', 1.0, 'warn'), ('length: characters', 4.0, 'warn')]
    """
    findings = []
    for unit, length in _LENGTHS.items():
        lengths = np.array([[length(text) for text in item.texts] for item in pairs.items], np.float64)
        first, others = lengths[:, 0], lengths[:, 1:].mean(axis=1)
        limit = _SHARE_OF_LENGTH * float(lengths.mean())
        allowed = f"within {limit:.2f} of 0 ({100 * _SHARE_OF_LENGTH:g} % of the mean)"
        fields: dict[str, Any] = {"unit": unit, **_gap_fields(first - others, pairs, limit)}
        findings.append(
            Finding(
                name=f"length: {unit}",
                title=f"{unit} of {_first_caption(pairs)}, less those of the others",
                threshold=f"{allowed}, or an interval that holds 0",
                says=f"{first.mean():.2f} against {others.mean():.2f} on average",
                **fields,
            )
        )
    return findings


def bag_of_words(pairs: PairSet) -> Finding:
    """Return the share of items that a model without word order cannot solve: all captions hold caption 0's words.

    A share of 0 or 1 is taken as a choice of the set's authors (Winoground has 1). Any other share means a mixture of
    two tasks, and passes only if a tag of all items separates them: no value of it holds both.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> texts = [("a dog sees a cat", "a cat sees a dog"), ("one cup", "two cups")]
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=pair) for k, pair in enumerate(texts))
    >>> finding = bag_of_words(PairSet("s", items, Path(".")))
    >>> finding.value, finding.verdict, finding.items
    (0.5, 'warn', ('0',))
    """
    same = [all(same_words(item.texts[0], text) for text in item.texts[1:]) for item in pairs.items]
    mean = mean_with_interval(np.array(same, np.float64), pairs)
    mixed = 0 < mean["value"] < 1 and not _separates_any_tag(pairs, same)
    says = "a model without word order cannot solve them" if mean["value"] else "none"
    if mixed:
        says = f"two tasks in one set: tag the items, with {_TAG!r} say, and report them apart"
    return Finding(
        name="bag of words",
        title="items whose captions hold the same words in another order",
        unit="share",
        threshold="0 %, 100 %, or a tag that separates them",
        verdict="warn" if mixed else "pass",
        says=says,
        items=tuple(pairs.items[k].id for k in np.flatnonzero(same)[:MOST_EXAMPLES]),
        **mean,
    )


def _separates_any_tag(pairs: PairSet, same: Sequence[bool]) -> bool:
    """Return whether some tag of all items has no value that items of both kinds share."""
    for name in set.intersection(*(set(item.tags) for item in pairs.items)):
        kinds: dict[bool, set[str]] = {False: set(), True: set()}
        for item, kind in zip(pairs.items, same, strict=True):
            kinds[kind].add(item.tags[name])
        if kinds[False].isdisjoint(kinds[True]):
            return True
    return False


def _gap_fields(gaps: NDArray[np.float64], pairs: PairSet, limit: float) -> dict[str, Any]:
    """Return fields of a finding: the mean gap between caption 0 and the others, and the verdict on that gap."""
    mean = mean_with_interval(gaps, pairs)
    return {**mean, "verdict": "warn" if excludes(mean, 0) and abs(mean["value"]) > limit else "pass"}


def _first_caption(pairs: PairSet) -> str:
    """Name the caption with index 0: the true one of a single image, else the first image's."""
    return "the true caption" if pairs.shape[0] == 1 else "the first caption"
