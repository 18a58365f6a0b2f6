"""The builder `counterfactual-captions`: captions with one noun replaced, after COCO-Counterfactuals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start, about_set
from tellapart.builders.caption_files import ImageFolder, SourceCaption, file_digest, read_captions
from tellapart.builders.captions.stages import (
    NOUNS,
    REPLACEMENTS,
    CaptionOptions,
    SentenceGap,
    Stages,
    Word,
    open_stages,
)
from tellapart.builders.executor import ProcessExecutor
from tellapart.builders.journal import Journal, journal_of
from tellapart.builders.pipeline import decide, take_first
from tellapart.builders.recipe_file import fingerprint_facts, read_recipe_file
from tellapart.data.atomic import atomic_file
from tellapart.data.item import Item
from tellapart.data.progress import Progress
from tellapart.errors import DataError

# A counterfactual is a likely sentence with one noun replaced by a likely one. It is similar to its caption, not too
# similar.
#
# Source: Le et al., COCO-Counterfactuals, NeurIPS Datasets and Benchmarks 2023, section 3.1, and the authors'
# `counter_caption_generation_perplexity.py` (bounds, tags, number of choices).

#: Endings that transformers' clean-up of blanks joins to the word before them, in the order of that clean-up.
_ENDINGS = ("n't", "'m", "'s", "'ve", "'re")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A caption with its noun `word`, whose Penn tag is `tag`, replaced by `new`.

    `probability` is that of the new noun, by the masked language model; `similarity` the cosine of both captions;
    `perplexity` that of the new one. The last two are None if the recipe leaves their stages out. `choices` is the
    number of drafts from which the last stage chose.
    """

    text: str
    word: str
    new: str
    tag: str
    probability: float
    similarity: float | None = None
    perplexity: float | None = None
    choices: int = 1

    def to_record(self) -> dict[str, JsonValue]:
        """Return the change and its numbers, to six digits, for an item's provenance."""
        numbers = {"probability": self.probability, "similarity": self.similarity, "perplexity": self.perplexity}
        rounded: dict[str, JsonValue] = {name: round(value, 6) for name, value in numbers.items() if value is not None}
        return {"change": f"{self.word} -> {self.new}", **rounded, "choices": self.choices}


def replace_word(text: str, words: Sequence[Word], index: int, new: str, wording: Literal["kept", "rejoined"]) -> str:
    """Return a caption with one of its words replaced; `wording` is as in `CaptionOptions`."""
    if wording == "kept":
        word = words[index]
        # At a sentence's start the new word begins as the old one does; a model may know small letters only.
        fitting = new[:1].upper() + new[1:] if index == 0 and text[word.start].isupper() else new
        fitting = fitting.upper() if text.isupper() else fitting
        return text[: word.start] + fitting + text[word.end :]
    joined = " ".join([*(word.text for word in words[:index]), new, *(word.text for word in words[index + 1 :])])
    for mark in (".", "?", "!", ","):
        joined = joined.replace(f" {mark}", mark)
    joined = joined.replace(" ' ", "'")
    for ending in _ENDINGS:
        joined = joined.replace(f" {ending}", ending)
    return joined


def counterfactuals(texts: Sequence[str], stages: Stages, options: CaptionOptions) -> list[Counterfactual | Rejected]:
    """Return the counterfactual of each caption, or the stage that left none.

    A stage asks its model once for all captions. No number depends on another caption, so neither does the outcome.
    """
    cases = [_Case(text, stages.tagger.read(text)) for text in texts]
    for stage in (_find_nouns, _propose_drafts, _leave_out_related, _compare_drafts, _choose_most_usual):
        if remaining := [case for case in cases if case.rejected is None]:
            stage(remaining, stages, options)
    return [case.rejected or case.drafts[0] for case in cases]


@dataclass(slots=True, eq=False)
class _Case:
    """A caption between stages: its words, the indices of its nouns, its drafts that passed, or why none passed."""

    text: str
    words: Sequence[Word]
    nouns: list[int] = field(default_factory=list)
    drafts: list[Counterfactual] = field(default_factory=list)
    rejected: Rejected | None = None

    def keep(self, drafts: list[Counterfactual], step: str, reason: str) -> None:
        """Go on with these drafts; without any, the caption is rejected."""
        self.drafts = drafts
        if not drafts:
            self.rejected = Rejected(step, reason)


def _find_nouns(cases: Sequence[_Case], _stages: Stages, _options: CaptionOptions) -> None:
    for case in cases:
        case.nouns = [index for index, word in enumerate(case.words) if word.tag in NOUNS]
        if not case.nouns:
            case.rejected = Rejected("nouns", "the caption has no noun")


def _propose_drafts(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    """Draft captions with one noun replaced by a likely word that is a noun in its place; equal drafts are one."""
    gaps = [_make_gap(case.text, case.words, index, options.wording) for case in cases for index in case.nouns]
    proposals_by_gap = iter(stages.masked_lm.fill(gaps, options.choices))  # in the order of `gaps`
    for case in cases:
        drafts: dict[str, Counterfactual] = {}
        for index in case.nouns:
            old = case.words[index]
            for proposal in next(proposals_by_gap):
                if proposal.word.casefold() == old.text.casefold():
                    continue
                text = replace_word(case.text, case.words, index, proposal.word, options.wording)
                words = stages.tagger.read(text)
                if len(words) == len(case.words) and words[index].tag in REPLACEMENTS:
                    draft = Counterfactual(text, old.text, words[index].text, old.tag, proposal.probability)
                    drafts.setdefault(text, draft)
        case.keep(list(drafts.values()), "replacements", "no likely word is another noun in its place")


def _leave_out_related(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    if stages.wordnet is None:
        return
    senses, relation = options.wordnet_senses or None, stages.wordnet.relation
    for case in cases:
        drafts = [draft for draft in case.drafts if relation(draft.word, draft.new, senses) is None]
        case.keep(drafts, "wordnet", "every replacement names the same thing, a kind of it, or what it is a kind of")


def _compare_drafts(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    """Keep the drafts whose similarity to their caption lies in the range."""
    if stages.similarity is None:
        return
    texts = [[case.text, *(draft.text for draft in case.drafts)] for case in cases]
    vectors = stages.similarity.encode(list(chain.from_iterable(texts)))
    ends = np.cumsum([len(case_texts) for case_texts in texts])
    for case, case_vectors in zip(cases, np.split(vectors, ends[:-1]), strict=True):
        cosines = (case_vectors[1:] * case_vectors[0]).sum(axis=1, dtype=np.float32).tolist()
        compared = [replace(draft, similarity=cosine) for draft, cosine in zip(case.drafts, cosines, strict=True)]
        drafts = [draft for draft in compared if options.minimum < (draft.similarity or 0.0) <= options.maximum]
        case.keep(drafts, "similarity", f"none lies in ({options.minimum:g}, {options.maximum:g}]")


def _choose_most_usual(cases: Sequence[_Case], stages: Stages, _options: CaptionOptions) -> None:
    """Keep each caption's draft of the lowest perplexity, or without a language model the most probable draft.

    Of equal drafts the first one stays.
    """
    if stages.language_model is None:
        for case in cases:
            best = max(case.drafts, key=lambda draft: draft.probability)
            case.drafts = [replace(best, choices=len(case.drafts))]
        return
    scores = iter(stages.language_model.score_texts([draft.text for case in cases for draft in case.drafts]))
    for case in cases:
        log_likelihoods = [next(scores) for _ in case.drafts]  # per token
        number = int(np.argmax(log_likelihoods))
        perplexity = float(np.exp(-np.float64(log_likelihoods[number])))
        case.drafts = [replace(case.drafts[number], perplexity=perplexity, choices=len(case.drafts))]


def _make_gap(text: str, words: Sequence[Word], index: int, wording: Literal["kept", "rejoined"]) -> SentenceGap:
    if wording == "kept":
        return SentenceGap(text[: words[index].start], text[words[index].end :])
    before = "".join(f"{word.text} " for word in words[:index])
    return SentenceGap(before, "".join(f" {word.text}" for word in words[index + 1 :]))


class CounterfactualCaptions:
    """Make an item of every caption: its image, the caption, which is true, and the counterfactual.

    Images of the counterfactuals are made by other builders, from the file that `write_caption_pairs` writes.
    """

    Options = CaptionOptions

    about: Mapping[str, JsonValue] = about_set("counterfactual-captions")

    def __init__(self, start: Start) -> None:
        self._options: CaptionOptions = start.options
        path = start.home / self._options.captions
        self._captions = read_captions(path)
        lacking = [caption.id for caption in self._captions if caption.image is None]
        if self._options.images is None or lacking:
            lack = f"caption {lacking[0]!r} of {path} names no image" if lacking else "[options] images is not given"
            raise DataError(
                f"a pair set needs images: {lack}; give every caption an image, or write caption pairs alone with "
                "tellapart.builders.captions.counterfactuals.write_caption_pairs"
            )
        self._images = ImageFolder(start.home / self._options.images)
        self.source_of = self._images.source_of
        self.inputs: Mapping[str, str] = file_digest(path)
        self._stages = open_stages(self._options, start.home)

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage with its fingerprint."""
        return self._stages.models

    def candidates(self) -> Sequence[Candidate]:
        """Return the captions, in the file's order."""
        return [
            Candidate(caption.id, {"caption": caption.text, "image": caption.image, "cluster": caption.cluster})
            for caption in self._captions
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make the counterfactual of one caption, or name the stage that left nothing."""
        caption, reference, cluster = (candidate.data[key] for key in ("caption", "image", "cluster"))
        self._images.read(reference)  # a missing image is an error before the models work
        (rewriting,) = counterfactuals([caption], self._stages, self._options)
        if isinstance(rewriting, Rejected):
            return rewriting
        noun = "plural" if rewriting.tag == "NNS" else "singular"
        tags = {"type": "replace", "subset": "counterfactual", "noun": noun}
        images, texts, provenance = (f"images/{reference}",), (caption, rewriting.text), rewriting.to_record()
        item = Item(id=candidate.id, images=images, texts=texts, tags=tags, cluster=cluster, provenance=provenance)
        return self._images.complete(item, reference)


@dataclass(frozen=True, slots=True)
class PairsWritten:
    """A written file and its counts: pairs, rejections by step and reason, captions that an earlier call decided."""

    path: Path
    pairs: int
    rejected: dict[tuple[str, str], int]
    resumed: int


def write_caption_pairs(
    recipe: Path, out: Path, *,
    workers: int = 1, limit: int | None = None, block: int = 16, progress: Progress | None = None,
) -> PairsWritten:  # fmt: skip
    """Write a recipe's counterfactual captions as JSONL, from which builders of images start.

    The recipe's filters and selections are not applied. A call that was stopped continues from its journal.
    """
    content = read_recipe_file(recipe)
    if content.builder != "counterfactual-captions":
        raise DataError(f"{recipe}: the builder 'counterfactual-captions' makes caption pairs, not {content.builder!r}")
    options = CaptionOptions.model_validate(content.options)
    path = recipe.parent / options.captions
    if out.exists():
        raise DataError(f"{out} is there already; name another file, or delete it")
    captions = take_first(read_captions(path), limit)
    models = dict(open_stages(options, recipe.parent).models)
    facts = {"options": options.model_dump(mode="json"), **file_digest(path), "models": models}
    facts["version"] = metadata.version("tellapart")
    task = partial(_decide_captions, options=options, home=recipe.parent)
    with Journal(journal_of(out), fingerprint_facts(facts), facts) as journal:
        executor, report = ProcessExecutor(workers), progress or (lambda *_: None)
        journal.drop_damaged()
        outcomes, resumed = decide(journal, captions, executor, task, report, noun="captions", block=block)
        pairs = [outcome for outcome in outcomes.values() if not isinstance(outcome, Rejected)]
        rejected = Counter((lost.step, lost.reason) for lost in outcomes.values() if isinstance(lost, Rejected))
        if not pairs:
            reasons = ", ".join(f"{step}: {reason} {n}" for (step, reason), n in rejected.items())
            raise DataError(f"none of {len(outcomes)} captions has a counterfactual ({reasons}); nothing is written")
        with atomic_file(out) as draft:
            draft.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in pairs), "utf-8", newline="")
        journal.remove()
    return PairsWritten(out, len(pairs), dict(rejected), resumed)


def _decide_captions(
    captions: Sequence[SourceCaption], options: CaptionOptions, home: Path
) -> list[Rejected | dict[str, Any]]:
    """Return the row of each caption's pair, or its rejection."""
    decisions: list[Rejected | dict[str, Any]] = []
    rewritings = counterfactuals([caption.text for caption in captions], open_stages(options, home), options)
    for caption, rewriting in zip(captions, rewritings, strict=True):
        if isinstance(rewriting, Rejected):
            decisions.append(rewriting)
        else:
            pair = {"id": caption.id, "caption_0": caption.text, "caption_1": rewriting.text}
            decisions.append(pair | {"cluster": caption.cluster} | rewriting.to_record())
    return decisions
