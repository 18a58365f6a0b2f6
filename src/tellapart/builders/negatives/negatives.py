"""The builder `negatives`: hard negatives of real captions by rule, after SugarCrepe's subsets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected
from tellapart.builders.negatives.false_captions import FalseCaptionBuilder, FalseCaptionOptions
from tellapart.builders.negatives.rewrites import explain_none, rewrites
from tellapart.builders.negatives.spelling import prefers_british
from tellapart.builders.negatives.wording import words


class Negatives(FalseCaptionBuilder[FalseCaptionOptions]):
    """Make false captions by swapping, replacing or adding an object, an attribute or a relation.

    Of all the changes that the rules find and that the image's other captions allow, the item's random number picks
    one.

    >>> from pathlib import Path
    >>> from tellapart.builders.builder import Start
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "captions.csv").write_text("image,caption\\na.png,a dog on a red bed\\n")
    >>> _ = (folder / "a.png").write_bytes(b"pixels")
    >>> options = Negatives.Options(captions="captions.csv", images=".", kinds=["swap_obj"])
    >>> builder = Negatives(Start(options, 1, folder))
    >>> (candidate,) = builder.candidates()
    >>> candidate.id, builder.make(candidate).item.texts[1]
    ('1-swap_obj', 'a bed on a red dog')
    """

    Options = FalseCaptionOptions

    about: Mapping[str, JsonValue] = {
        "title": "Captions and their hard negatives by rule",
        "description": "1x2 items: text 0 is the caption that was given, text 1 differs in one swapped, replaced or "
        "added object, attribute or relation. The rules read captions, not the picture: a replaced or added thing that "
        "no caption of the image names may be there, too, and a blind model may prefer the more usual sentence; look "
        "at them before you measure with them.",
        "licence": "that of the captions and images",
        "source": "made by tellapart's builder `negatives` from captions and images of the user",
        "citation": "Kinds of change after Hsieh et al., SugarCrepe, NeurIPS 2023; rules and word lists are "
        "tellapart's own",
    }
    models: Mapping[str, str] = {}

    @cached_property
    def _spells_british(self) -> bool:
        """The spelling of new words next to words of either spelling: otherwise the spelling would give them away."""
        return prefers_british(word for caption in self._captions for word in words(caption.text)) or False

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make one false caption, or return the reason: the rule lacks a word, or other captions forbid all changes."""
        kind = candidate.data["kind"]
        choices = rewrites(candidate.data["caption"], kind, british=self._spells_british)
        if not choices:
            return Rejected(kind, explain_none(candidate.data["caption"], kind))
        faults = [self._find_contradiction(candidate, choice.text) for choice in choices]
        choices = [choice for choice, fault in zip(choices, faults, strict=True) if fault is None]
        if not choices:
            return Rejected("other-captions", faults[0] or "")
        # The item's number: neither the order of work nor other images change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}".encode()).digest()
        chosen = choices[int(np.random.default_rng(list(digest)).integers(len(choices)))]
        return self._make_item(candidate, chosen.text, {"change": chosen.change, "choices": len(choices)})
