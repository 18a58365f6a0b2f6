"""Scorers of a text alone, by name: how plausible, how grammatical, how long. A blind model, to select false captions by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import nearest
from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, ModelError, UnknownNameError
from tellapart.models.protocols import TextScorer

__all__ = ["SCORERS", "Length", "beside", "find_text_scorer", "score_captions"]

#: How scorers are named, and what each number is; the higher, the better.
SCORERS: Mapping[str, str] = MappingProxyType(
    {
        "words": "how many words",
        "characters": "how many characters",
        "tinystories:FILE": "log-likelihood in nats under a checkpoint of llama2.c",
        "tinystories-per-token:FILE": "its mean over the pieces",
        "likelihood:FOLDER": "log-likelihood in nats under a causal model of transformers",
        "likelihood-per-token:FOLDER": "its mean over the tokens",
        "classifier:FOLDER": "what a sequence regressor of transformers returns (plausibility, acceptability)",
        "classifier:FOLDER#LABEL": "log-odds of one label of a sequence classifier of transformers (CoLA's `acceptable`)",
        "link-grammar": "1 if the Link Grammar parser (`link-parser` on the PATH) can parse the whole sentence, else 0",
    }
)


@dataclass(frozen=True, slots=True)
class Length:
    """A text's length: what a blind model needs no training for.

    >>> Length("words").score_texts(["two dogs", "a"]).tolist()
    [2.0, 1.0]
    """

    unit: Literal["words", "characters"]
    kind: ClassVar[ScoreKind] = "similarity"

    @property
    def name(self) -> str:
        """The unit."""
        return self.unit

    @property
    def fingerprint(self) -> str:
        """Of the unit."""
        return f"tellapart:length:1:{self.unit}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's length, float32 `(n,)`."""
        return np.array([len(text.split()) if self.unit == "words" else len(text) for text in texts], np.float32)


@lru_cache(maxsize=4)
def find_text_scorer(name: str, home: Path) -> TextScorer:
    """Make the scorer of that name; it is kept, for it may hold a model.

    Args:
        name: of one of the forms in `SCORERS`.
        home: the folder that a path in it is relative to.

    Raises:
        UnknownNameError: no such scorer.
        ModelError: its files are not what they must be, or its program is not on the PATH.
        MissingDependencyError: torch or transformers is not installed.

    >>> find_text_scorer("words", Path(".")).name
    'words'
    >>> find_text_scorer("tinystory:model.bin", Path("."))
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no text scorer 'tinystory'; did you mean 'tinystories'? the scorers are words, characters, tinystories:FILE, tinystories-per-token:FILE, likelihood:FOLDER, likelihood-per-token:FOLDER, classifier:FOLDER, classifier:FOLDER#LABEL, link-grammar
    """
    form, _, place = name.partition(":")
    known = list(dict.fromkeys(key.partition(":")[0] for key in SCORERS))
    if form not in known:
        hint = nearest(form, known) or ";"
        raise UnknownNameError(f"no text scorer {form!r}{hint} the scorers are {', '.join(SCORERS)}")
    if form in _PLAIN:
        if place:
            raise ModelError(f"text scorer {form!r} takes no path; got {name!r}")
        return _PLAIN[form]()
    if not place:
        raise ModelError(f"text scorer {name!r} names no model; write {next(key for key in SCORERS if form in key)}")
    return _LOADERS[form](place, home)


def score_captions(scorer: TextScorer, items: Sequence[Item]) -> NDArray[np.float64]:
    """Score both captions of items of one image by two texts, each distinct caption once: float64 `(n, 2)`.

    Raises:
        DataError: an item is not of one image by two texts, so that nobody can say which text is false.
        ModelError: the scorer gave a number that is not finite.

    >>> score_captions(Length("words"), [Item(id="a", images=("a.png",), texts=("a dog", "a big dog"))]).tolist()
    [[2.0, 3.0]]
    """
    for item in items:
        if item.shape != (1, 2):
            raise DataError(
                f"item {item.id!r} has {item.shape[0]} images by {item.shape[1]} texts; a true and a false caption can be "
                "compared where one image has two texts"
            )
    texts = sorted({text for item in items for text in item.texts})
    scores = dict(zip(texts, scorer.score_texts(texts).tolist(), strict=True)) if texts else {}
    found = np.array([[scores[text] for text in item.texts] for item in items], np.float64).reshape(-1, 2)
    if not np.isfinite(found).all():
        raise ModelError(f"{scorer.name} gave scores that are not finite")
    return found


def beside(place: str, home: Path) -> str:
    """Return a path relative to the recipe's folder if something is there, else what was written: perhaps a hub id.

    >>> beside("org/model", Path("nowhere"))
    'org/model'
    """
    path = home / Path(place).expanduser()
    return str(path) if path.exists() else place


def _tinystories(place: str, home: Path, *, per_token: bool) -> TextScorer:
    from tellapart.models.text.tinystories import TinyStories

    return TinyStories.load(Path(beside(place, home)), per_token=per_token)


def _likelihood(place: str, home: Path, *, per_token: bool) -> TextScorer:
    from tellapart.models.text.causal_likelihood import CausalLikelihood

    return CausalLikelihood.from_mark(beside(place, home), per_token=per_token)


def _classifier(place: str, home: Path) -> TextScorer:
    from tellapart.models.text.classifier import TextClassifier

    folder, _, label = place.partition("#")
    return TextClassifier.load(beside(folder, home), label or None)


def _link_grammar() -> TextScorer:
    from tellapart.models.text.link_grammar import LinkGrammar

    return LinkGrammar.find()


_PLAIN: Mapping[str, Callable[[], TextScorer]] = MappingProxyType(
    {"words": lambda: Length("words"), "characters": lambda: Length("characters"), "link-grammar": _link_grammar}
)
_LOADERS: Mapping[str, Callable[[str, Path], TextScorer]] = MappingProxyType(
    {
        "tinystories": lambda place, home: _tinystories(place, home, per_token=False),
        "tinystories-per-token": lambda place, home: _tinystories(place, home, per_token=True),
        "likelihood": lambda place, home: _likelihood(place, home, per_token=False),
        "likelihood-per-token": lambda place, home: _likelihood(place, home, per_token=True),
        "classifier": _classifier,
    }
)
