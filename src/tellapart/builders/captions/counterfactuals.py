"""The builder `counterfactual-captions`: captions with one noun replaced, after COCO-Counterfactuals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
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
from tellapart.builders.pipeline import decide
from tellapart.builders.recipe_file import fingerprint_facts, read_recipe_file
from tellapart.data.atomic import atomic_file
from tellapart.data.item import Item
from tellapart.data.progress import Progress
from tellapart.errors import DataError

# Counterfactuals of captions: one noun replaced by a likely one, neither too close nor too far, in a usual sentence.
#
# Source: Le et al., COCO-Counterfactuals, NeurIPS Datasets and Benchmarks 2023, section 3.1, and the authors'
# `counter_caption_generation_perplexity.py` (bounds, tags, number of choices).

#: Endings that transformers' clean-up of blanks joins to the word before them; in this order.
_ENDINGS = ("n't", "'m", "'s", "'ve", "'re")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A caption in which `new` stands for the noun `word`, of this Penn tag, chosen from so many.

    `probability` is that of the new noun in its place, by the masked language model; `similarity` the cosine of both
    captions, `perplexity` the new caption's: None if their stages are left out.
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
    """Make the counterfactuals of captions, or name for each the stage that left nothing.

    All gaps of all captions are filled in one call, and all sentences compared and judged in one each. No number
    depends on another caption, so neither does the answer.
    """
    if not texts:
        return []
    cases = [_Case(text, stages.tagger.read(text)) for text in texts]
    for stage in (_find_nouns, _propose_drafts, _leave_out_related, _compare_drafts, _choose_most_usual):
        stage([case for case in cases if case.rejected is None], stages, options)
    return [case.rejected or case.drafts[0] for case in cases]


@dataclass(slots=True, eq=False)
class _Case:
    """A caption between stages: its words, the positions of its nouns, the drafts that are left, or why none is."""

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
    """Draft the captions with one noun replaced by a likely word that is a noun there, none twice."""
    gaps = [_make_gap(case.text, case.words, index, options.wording) for case in cases for index in case.nouns]
    filled = iter(stages.masked_lm.fill(gaps, options.choices))
    for case in cases:
        drafts: dict[str, Counterfactual] = {}
        for index in case.nouns:
            old = case.words[index]
            for proposal in next(filled):
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
    senses, related = options.wordnet_senses or None, stages.wordnet.relation
    for case in cases:
        drafts = [draft for draft in case.drafts if related(draft.word, draft.new, senses) is None]
        case.keep(drafts, "wordnet", "every replacement names the same thing, a kind of it, or what it is a kind of")


def _compare_drafts(cases: Sequence[_Case], stages: Stages, options: CaptionOptions) -> None:
    """Keep the drafts whose similarity to their caption lies in the range."""
    if stages.similarity is None:
        return
    vectors = stages.similarity.encode([text for case in cases for text in (case.text, *(d.text for d in case.drafts))])
    start = 0
    for case in cases:
        draft_vectors = vectors[start : start + 1 + len(case.drafts)]
        start += len(draft_vectors)
        values = (draft_vectors[1:] * draft_vectors[0]).sum(axis=1, dtype=np.float32).tolist()  # cosines
        compared = [replace(draft, similarity=value) for draft, value in zip(case.drafts, values, strict=True)]
        drafts = [draft for draft in compared if options.minimum < (draft.similarity or 0.0) <= options.maximum]
        case.keep(drafts, "similarity", f"none lies in ({options.minimum:g}, {options.maximum:g}]")


def _choose_most_usual(cases: Sequence[_Case], stages: Stages, _options: CaptionOptions) -> None:
    """Keep each caption's draft of the lowest perplexity, without a language model the most probable.

    Of equal drafts the first one wins.
    """
    texts = [draft.text for case in cases for draft in case.drafts]
    scores = None if stages.language_model is None else iter(stages.language_model.score_texts(texts))
    for case in cases:
        choices = len(case.drafts)
        if scores is None:
            best = max(case.drafts, key=lambda draft: draft.probability)
        else:
            draft_scores = [next(scores) for _ in case.drafts]
            number = int(np.argmax(draft_scores))
            best = replace(case.drafts[number], perplexity=float(np.exp(-np.float64(draft_scores[number]))))
        case.drafts = [replace(best, choices=choices)]


def _make_gap(text: str, words: Sequence[Word], index: int, wording: Literal["kept", "rejoined"]) -> SentenceGap:
    if wording == "kept":
        return SentenceGap(text[: words[index].start], text[words[index].end :])
    before = "".join(f"{word.text} " for word in words[:index])
    return SentenceGap(before, "".join(f" {word.text}" for word in words[index + 1 :]))


class CounterfactualCaptions:
    """Make the counterfactual of every caption, with its image: one image by two texts, the true one first.

    Images for the counterfactuals are another builder's; it starts from the file that `write_caption_pairs` writes,
    which needs no images.
    """

    Options = CaptionOptions

    about: Mapping[str, JsonValue] = about_set("counterfactual-captions")

    def __init__(self, start: Start) -> None:
        self._options: CaptionOptions = start.options
        path = start.home / self._options.captions
        self._captions = read_captions(path)
        without = next((caption.id for caption in self._captions if caption.image is None), None)
        if self._options.images is None or without is not None:
            lack = (
                "[options] images is not given" if without is None else f"caption {without!r} of {path} names no image"
            )
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
        item = Item(
            id=candidate.id,
            images=(f"images/{reference}",),
            texts=(caption, rewriting.text),
            tags={"type": "replace", "subset": "counterfactual", "noun": noun},
            cluster=cluster,
            provenance=rewriting.to_record(),
        )
        return self._images.complete(item, reference)


# Caption pairs without images: a JSONL file that the builders of images start from.
#
# Each line holds `id`, `caption_0`, `caption_1`, `cluster` and how the pair was made. Until the file is finished, every
# decided caption is in a journal beside it; the same call goes on after a Ctrl-C or a `kill -9`.


@dataclass(frozen=True, slots=True)
class PairsWritten:
    """A written file, its pairs, the rejected captions by step and reason, and how many an earlier call had decided."""

    path: Path
    pairs: int
    rejected: dict[tuple[str, str], int]
    resumed: int


def write_caption_pairs(
    recipe: Path, out: Path, *,
    workers: int = 1, limit: int | None = None, block: int = 16, progress: Progress | None = None,
) -> PairsWritten:  # fmt: skip
    """Write a recipe's counterfactual captions as JSONL; filters and selections are left to the builder of images."""
    content = read_recipe_file(recipe)
    if content.builder != "counterfactual-captions":
        fault = f"are made by the builder 'counterfactual-captions', not {content.builder!r}"
        raise DataError(f"{recipe}: caption pairs {fault}")
    options = CaptionOptions.model_validate(content.options)  # which are checked already
    path = recipe.parent / options.captions
    if out.exists():
        raise DataError(f"{out} is there already; name another file, or delete it")
    captions = read_captions(path)[:limit]
    models = dict(open_stages(options, recipe.parent).models)
    facts = {"options": options.model_dump(mode="json"), **file_digest(path), "models": models}
    facts["version"] = metadata.version("tellapart")
    task = partial(_decide_captions, options=options, home=recipe.parent)
    with Journal(journal_of(out), fingerprint_facts(facts), facts) as journal:
        executor, report = ProcessExecutor(workers), progress or (lambda *_: None)
        journal.drop_damaged()
        outcomes, resumed = decide(journal, captions, executor, task, report, noun="captions", block=block)
        rejections = [outcome for outcome in outcomes.values() if isinstance(outcome, Rejected)]
        rejected = Counter((outcome.step, outcome.reason) for outcome in rejections)
        pairs = [outcome for outcome in outcomes.values() if not isinstance(outcome, Rejected)]
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
    """Return the pair of each caption as a row, or its rejection."""
    decisions: list[Rejected | dict[str, Any]] = []
    rewritings = counterfactuals([caption.text for caption in captions], open_stages(options, home), options)
    for caption, rewriting in zip(captions, rewritings, strict=True):
        if isinstance(rewriting, Rejected):
            decisions.append(rewriting)
        else:
            pair = {"id": caption.id, "caption_0": caption.text, "caption_1": rewriting.text}
            decisions.append(pair | {"cluster": caption.cluster} | rewriting.to_record())
    return decisions
