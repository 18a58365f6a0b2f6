"""Scorers of a text alone, by name: its length, its plausibility, its grammar.

They are blind models: builders select false captions by them, and audits measure with them how much captions give away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import names, nearest
from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, ModelError, UnknownNameError
from tellapart.models.find import find_model
from tellapart.models.protocols import TextScorer
from tellapart.models.text.causal_likelihood import CausalLikelihood
from tellapart.models.text.classifier import TextClassifier
from tellapart.models.text.link_grammar import LinkGrammar
from tellapart.models.text.tinystories import TinyStories


@dataclass(frozen=True, slots=True)
class Length:
    """A text's length: a blind model that needs no training."""

    name: Literal["words", "characters"]
    kind: ClassVar[ScoreKind] = "similarity"

    @property
    def fingerprint(self) -> str:
        """The unit, and the version of this scorer."""
        return f"tellapart:length:1:{self.name}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's length, float32 `(n,)`."""
        return np.array([len(text.split()) if self.name == "words" else len(text) for text in texts], np.float32)


def resolve_beside(path: str, home: Path) -> str:
    """Return a path relative to the folder `home` if something is there, else the path as written: perhaps a hub id."""
    local = home / Path(path).expanduser()
    return str(local) if local.exists() else path


class ScorerForm(NamedTuple):
    """One form of a text scorer's name.

    Attributes:
        meaning: of a score; the higher, the better.
        make: makes the scorer, given the part behind the colon and the folder that a path is relative to.
    """

    meaning: str
    make: Callable[[str, Path], TextScorer]


def _load_tinystories(path: str, home: Path, *, per_token: bool = False) -> TextScorer:
    return TinyStories.load(Path(resolve_beside(path, home)), per_token=per_token)


def _load_likelihood(path: str, home: Path, *, per_token: bool = False) -> TextScorer:
    return CausalLikelihood.from_mark(resolve_beside(path, home), per_token=per_token)


def _load_classifier(path: str, home: Path) -> TextScorer:
    folder, _, label = path.partition("#")
    return TextClassifier.load(resolve_beside(folder, home), label or None)


#: Every form of a name; the word before the colon decides which scorer is made.
SCORERS: Mapping[str, ScorerForm] = MappingProxyType(
    {
        "words": ScorerForm("how many words", lambda *_: Length("words")),
        "characters": ScorerForm("how many characters", lambda *_: Length("characters")),
        "tinystories:FILE": ScorerForm("log-likelihood in nats under a checkpoint of llama2.c", _load_tinystories),
        "tinystories-per-token:FILE": ScorerForm(
            "its mean over the pieces", partial(_load_tinystories, per_token=True)
        ),
        "likelihood:FOLDER": ScorerForm(
            "log-likelihood in nats under a causal model of transformers", _load_likelihood
        ),
        "likelihood-per-token:FOLDER": ScorerForm(
            "its mean over the tokens", partial(_load_likelihood, per_token=True)
        ),
        "classifier:FOLDER": ScorerForm(
            "the output of a sequence regressor of transformers (plausibility, acceptability)", _load_classifier
        ),
        "classifier:FOLDER#LABEL": ScorerForm(
            "log-odds of one label of a sequence classifier of transformers (CoLA's `acceptable`)", _load_classifier
        ),
        "link-grammar": ScorerForm(
            "1 if the Link Grammar parser (`link-parser` on the PATH) can parse the whole sentence, else 0",
            lambda *_: LinkGrammar.find(),
        ),
    }
)


@lru_cache(maxsize=4)
def find_text_scorer(name: str, home: Path) -> TextScorer:
    """Make the scorer of that name; it is kept, for it may hold a model.

    >>> find_text_scorer("words", Path(".")).score_texts(["two dogs"])
    array([2.], dtype=float32)
    """
    word, _, rest = name.partition(":")
    form = next((form for form in SCORERS if form.partition(":")[0] == word), None)
    if form is None:
        return _find_model(name)
    if ":" not in form and rest:
        raise ModelError(f"text scorer {word!r} takes no path; got {name!r}")
    if ":" in form and not rest:
        raise ModelError(f"text scorer {name!r} names no model; write {form}")
    return SCORERS[form].make(rest, home)


def _find_model(name: str) -> TextScorer:
    word, models = name.partition(":")[0], names("model")
    if name not in models and f"{word}:" not in names("prefix"):
        hint = nearest(word, [*(form.partition(":")[0] for form in SCORERS), *models]) or ";"
        raise UnknownNameError(
            f"no text scorer {word!r}{hint} the scorers are {', '.join(SCORERS)}, and models that read texts alone, "
            "such as blind"
        )
    model = find_model(name)
    if not isinstance(model, TextScorer):
        raise ModelError(f"{name} reads more than texts; name blind, or one of {', '.join(SCORERS)}")
    return model


def score_captions(scorer: TextScorer, items: Sequence[Item]) -> NDArray[np.float64]:
    """Score both captions of items of one image by two texts, each distinct caption once: float64 `(n, 2)`."""
    for item in items:
        if item.shape != (1, 2):
            raise DataError(
                f"item {item.id!r} has {item.shape[0]} images by {item.shape[1]} texts; a true and a false caption can "
                "be compared where one image has two texts"
            )
    texts = sorted({text for item in items for text in item.texts})
    by_text = dict(zip(texts, scorer.score_texts(texts).tolist(), strict=True)) if texts else {}
    scores = np.array([[by_text[text] for text in item.texts] for item in items], np.float64).reshape(-1, 2)
    if not np.isfinite(scores).all():
        raise ModelError(f"{scorer.name} gave scores that are not finite")
    return scores
