"""Captions to their counterfactuals: nouns, likely words for each, nouns among them, not too close, and the most usual sentence.

Source: Le et al., COCO-Counterfactuals, NeurIPS Datasets and Benchmarks 2023, section 3.1, and the authors'
`counter_caption_generation_perplexity.py` (bounds, tags, number of choices).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tellapart.builders.builder import Rejected
from tellapart.builders.captions.replacing import Gap
from tellapart.builders.captions.similarity import cosines
from tellapart.builders.captions.stages import CaptionOptions, Stages
from tellapart.builders.captions.tagging import NOUNS, REPLACEMENTS, Word

__all__ = ["Counterfactual", "counterfactual", "counterfactuals", "replaced"]

#: What transformers' clean-up of blanks joins again after tokens were joined by one; in this order.
_CLEANED = ("n't", "'m", "'s", "'ve", "'re")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A caption with one noun replaced.

    Attributes:
        text: the new caption.
        word: the noun that stood there.
        new: the one that stands there now.
        tag: Penn tag of the old one.
        probability: of the new word in its place, by the masked language model.
        similarity: cosine of both captions, or None where that stage is left out.
        perplexity: of the new caption, or None where that stage is left out.
        choices: from how many it was chosen.

    >>> Counterfactual("a dog", "cat", "dog", "NN", 0.5).choices
    1
    """

    text: str
    word: str
    new: str
    tag: str
    probability: float
    similarity: float | None = None
    perplexity: float | None = None
    choices: int = 1


def replaced(text: str, words: Sequence[Word], place: int, new: str, wording: Literal["kept", "rejoined"]) -> str:
    """Return a caption with the word at one place replaced.

    Args:
        text: the caption.
        words: of it, by the tagger.
        place: which of them.
        new: what stands there instead.
        wording: `kept` or `rejoined`, as in `CaptionOptions`.

    >>> words = [Word("They", "PRP", 0, 4), Word("'ll", "MD", 4, 7), Word("race", "NN", 8, 12), Word(".", ".", 12, 13)]
    >>> replaced("They'll race.", words, 2, "run", "kept"), replaced("They'll race.", words, 2, "run", "rejoined")
    ("They'll run.", "They 'll run.")
    """
    if wording == "kept":
        word = words[place]
        # Where a sentence begins the new word begins as the old one does; a model may know small letters only.
        fitting = new[:1].upper() + new[1:] if place == 0 and text[word.start].isupper() else new
        return text[: word.start] + fitting + text[word.end :]
    joined = " ".join([*(word.text for word in words[:place]), new, *(word.text for word in words[place + 1 :])])
    for mark in (".", "?", "!", ","):
        joined = joined.replace(f" {mark}", mark)
    joined = joined.replace(" ' ", "'")
    for end in _CLEANED:
        joined = joined.replace(f" {end}", end)
    return joined


def counterfactual(text: str, stages: Stages, options: CaptionOptions) -> Counterfactual | Rejected:
    """Make the counterfactual of one caption, or say which stage left nothing; as `counterfactuals`.

    Raises:
        ModelError: a model cannot read the caption.

    >>> class Tags:
    ...     def read(self, text): return [Word(text, "UH", 0, len(text))]
    >>> class Nothing:
    ...     def fill(self, gaps, choices): return []
    >>> counterfactual("hello", Stages(Tags(), Nothing(), None, None, None), CaptionOptions(
    ...     captions="-", tagger="-", masked_lm="-", similarity="off", language_model="off"))
    Rejected(step='nouns', reason='the caption has no noun')
    """
    return counterfactuals([text], stages, options)[0]


def counterfactuals(texts: Sequence[str], stages: Stages, options: CaptionOptions) -> list[Counterfactual | Rejected]:
    """Make the counterfactuals of captions, or say of each which stage left nothing.

    All gaps of all captions are filled in one call, and all sentences compared and judged in one each. No number depends on
    another caption, so neither does the answer.

    Args:
        texts: captions.
        stages: who does the work.
        options: how many choices, which range, which wording.

    Raises:
        ModelError: a model cannot read a caption.

    >>> counterfactuals([], Stages(None, None, None, None, None), None)
    []
    """
    if not texts:
        return []
    cases = [_Case(text, stages.tagger.read(text)) for text in texts]
    for stage in (_find_nouns, _propose, _leave_out_related, _compare):
        stage([case for case in cases if case.rejected is None], stages, options)
    left = [case for case in cases if case.rejected is None]
    chosen = dict(zip(map(id, left), _most_usual(left, stages), strict=True))
    return [case.rejected or chosen[id(case)] for case in cases]


@dataclass(slots=True, eq=False)
class _Case:
    """A caption on its way: its words, the places of its nouns, the drafts that are left, and why none is."""

    text: str
    words: Sequence[Word]
    places: list[int] = field(default_factory=list)
    drafts: list[Counterfactual] = field(default_factory=list)
    rejected: Rejected | None = None

    def keep(self, drafts: list[Counterfactual], step: str, reason: str) -> None:
        """Go on with these drafts; without any, the case is closed."""
        self.drafts = drafts
        if not drafts:
            self.rejected = Rejected(step, reason)


def _find_nouns(cases: Sequence[_Case], _stages: Stages, _options: CaptionOptions) -> None:
    for case in cases:
        case.places = [place for place, word in enumerate(case.words) if word.tag in NOUNS]
        if not case.places:
            case.rejected = Rejected("nouns", "the caption has no noun")


def _propose(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    """Draft the captions with one noun replaced by a likely word that is a noun there, none twice."""
    gaps = [_gap(case.text, case.words, place, options.wording) for case in cases for place in case.places]
    filled = iter(stages.replacer.fill(gaps, options.choices))
    for case in cases:
        found: dict[str, Counterfactual] = {}
        for place in case.places:
            old = case.words[place]
            for proposal in next(filled):
                if proposal.word.casefold() == old.text.casefold():
                    continue
                new = replaced(case.text, case.words, place, proposal.word, options.wording)
                read = stages.tagger.read(new)
                if len(read) == len(case.words) and read[place].tag in REPLACEMENTS:
                    draft = Counterfactual(new, old.text, read[place].text, old.tag, proposal.probability)
                    found.setdefault(new, draft)
        case.keep(list(found.values()), "replacements", "no likely word is another noun in its place")


def _leave_out_related(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    if stages.wordnet is None:
        return
    senses, related = options.wordnet_senses or None, stages.wordnet.relation
    for case in cases:
        drafts = [draft for draft in case.drafts if related(draft.word, draft.new, senses) is None]
        case.keep(drafts, "wordnet", "every replacement names the same thing, a kind of it, or what it is a kind of")


def _compare(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    """Keep the drafts whose similarity to their caption lies in the range."""
    if stages.encoder is None:
        return
    vectors = stages.encoder.encode([text for case in cases for text in (case.text, *(d.text for d in case.drafts))])
    start = 0
    for case in cases:
        own = vectors[start : start + 1 + len(case.drafts)]
        start += len(own)
        values = cosines(own[0], own[1:]).tolist()
        compared = [replace(draft, similarity=value) for draft, value in zip(case.drafts, values, strict=True)]
        drafts = [draft for draft in compared if options.minimum < (draft.similarity or 0.0) <= options.maximum]
        case.keep(drafts, "similarity", f"none lies in ({options.minimum:g}, {options.maximum:g}]")


def _most_usual(cases: Sequence[_Case], stages: Stages) -> list[Counterfactual]:
    """Return of each the draft of the lowest perplexity, without a language model the most probable; of equals the first."""
    if stages.language_model is None:
        chosen = [max(case.drafts, key=lambda draft: draft.probability) for case in cases]
        return [replace(best, choices=len(case.drafts)) for best, case in zip(chosen, cases, strict=True)]
    scores = stages.language_model.score_texts([draft.text for case in cases for draft in case.drafts])
    found, start = [], 0
    for case in cases:
        own = scores[start : start + len(case.drafts)]
        start += len(own)
        best = int(np.argmax(own))
        perplexity = float(np.exp(-own[best].astype(np.float64)))
        found.append(replace(case.drafts[best], perplexity=perplexity, choices=len(own)))
    return found


def _gap(text: str, words: Sequence[Word], place: int, wording: Literal["kept", "rejoined"]) -> Gap:
    if wording == "kept":
        return Gap(text[: words[place].start], text[words[place].end :])
    before = "".join(f"{word.text} " for word in words[:place])
    return Gap(before, "".join(f" {word.text}" for word in words[place + 1 :]))
