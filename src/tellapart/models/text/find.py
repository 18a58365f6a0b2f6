"""Scorers of a text alone, by name: its length, its plausibility, its grammar."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import names
from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, ModelError, UnknownNameError, nearest
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import read_config
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import TextScorer
from tellapart.models.text.text_model import CausalLikelihood, TextModel
from tellapart.models.text.tinystories import TinyStories
from tellapart.models.torch.backend import forward, runtime

_ANSWER = re.compile(r"^(Found \d+ linkage|No complete linkages found)", re.MULTILINE)
#: No words left over, no guesses at spelling, no second try with looser rules. The time allows for a busy machine.
_OPTIONS = ("-null=0", "-spell=0", "-panic=0", "-islands-ok=0", "-graphics=0", "-verbosity=1", "-timeout=600")


@dataclass(frozen=True, eq=False)
class LinkGrammar:
    """1 for a text of which the parser parses every word, else 0; a noun phrase is tried again after "I see".

    Source: Sleator and Temperley, Parsing English with a Link Grammar, 1991; the program is `link-parser` of the
    package link-grammar, with its English dictionaries.
    """

    program: str
    kind: ClassVar[ScoreKind] = "similarity"
    name: ClassVar[str] = "link-grammar"

    @classmethod
    def find(cls) -> Self:
        """Find the program on the PATH."""
        program = shutil.which("link-parser")
        if program is None:
            raise ModelError(
                "link-grammar needs the program link-parser, which is not on the PATH; install it (Debian: "
                "link-grammar and link-grammar-dictionaries-en), or name another scorer"
            )
        return cls(program)

    @cached_property
    def fingerprint(self) -> str:
        """Of the program's version."""
        output = self._run_parser("", "--version")
        version = re.search(r"link-grammar-[\w.]+", output)
        return f"tellapart:link-grammar:1:{version[0] if version else output.strip()[:60]}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 1 for each text with a complete parse, else 0: float32 `(n,)`."""
        # One line each, that begins with a letter or digit; "!" would begin a command, "%" a comment.
        sentences = [re.sub(r"^\W+", "", " ".join(text.split())) for text in texts]
        scores = np.array(self._parse_sentences(sentences), np.float32)
        rest = [place for place, sentence in enumerate(sentences) if sentence and not scores[place]]
        phrases = [f"I see {sentences[place][:1].lower()}{sentences[place][1:]}" for place in rest]
        scores[rest] = self._parse_sentences(phrases)
        return scores

    def _parse_sentences(self, sentences: Sequence[str]) -> list[bool]:
        parsed = [False] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence]  # it skips empty lines
        for first in range(0, len(places), 500):
            batch = places[first : first + 500]
            answers = _ANSWER.findall(self._run_parser("".join(f"{sentences[k]}\n" for k in batch), "en", *_OPTIONS))
            if len(answers) != len(batch):
                raise ModelError(
                    f"{self.program} answered for {len(answers)} of {len(batch)} sentences; is its dictionary there?"
                )
            for place, answer in zip(batch, answers, strict=True):
                parsed[place] = answer.startswith("Found")
        return parsed

    def _run_parser(self, text: str, *arguments: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603  (the program that `find` found, and no shell)
                [self.program, *arguments], input=text, capture_output=True, text=True, encoding="utf-8", check=False
            )
        except OSError as error:
            raise ModelError(f"{self.program} cannot be run: {error.strerror}") from error
        if done.returncode:
            message = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ModelError(f"{self.program} failed with exit status {done.returncode}: {message:.200}")
        return done.stdout


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextClassifier:
    """The log-odds of one label, a column of the outputs, or the only output of a regressor.

    Log-odds, not a probability: two texts that a sure model puts at 0.99999 and 0.999999 do not tie in float32.
    """

    text_model: TextModel
    name: str
    fingerprint: str
    column: int
    kind: ClassVar[ScoreKind] = "logit"

    @classmethod
    def load(cls, source: str, label: str | None) -> Self:
        """Load a classifier from a folder or the hub; the label is None for a model with one output."""
        read_config(source)
        kind, place = "AutoModelForSequenceClassification", runtime(ModelOptions())
        loaded = TextModel.load(kind, source, place, rows=8, tokenizer_limit=True)  # 8: its last bits depend on it
        labels = {name: column for column, name in loaded.model.config.id2label.items()}
        if label is None and len(labels) > 1:
            raise ModelError(f"{source} has the labels {', '.join(labels)}; name the good one: classifier:...#LABEL")
        if label is not None and label not in labels:
            raise ModelError(f"{source} has no label {label!r}; its labels are {', '.join(labels)}")
        kind = type(loaded.model).__name__
        fingerprint = f"tellapart:classifier:1:{label}:{loaded.weights_digest()}"
        return cls(loaded, f"{kind}-{label}" if label else kind, fingerprint, int(labels[label]) if label else 0)

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return each text's log-odds or output, float32 `(n,)`."""
        rows = self.text_model.ids(texts)
        scores, model = np.zeros(len(rows), np.float32), self.text_model.model
        for places, inputs in self.text_model.batches(rows):
            with forward(self.name, model):
                logits = model(**inputs).logits.float()
                numbers, others = logits[:, self.column], [k for k in range(logits.shape[1]) if k != self.column]
                if others:
                    numbers = numbers - logits[:, others].logsumexp(1)
            scores[places] = np.asarray(numbers.cpu(), np.float32)[: len(places)]
        return scores


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


def _load_causal(path: str, home: Path, *, per_token: bool = False) -> TextScorer:
    return CausalLikelihood.from_mark(resolve_beside(path, home), per_token=per_token)


def _load_stories(path: str, home: Path, *, per_token: bool = False) -> TextScorer:
    return TinyStories.load(Path(resolve_beside(path, home)), per_token=per_token)


def _load_classifier(path: str, home: Path) -> TextScorer:
    folder, _, label = path.partition("#")
    return TextClassifier.load(resolve_beside(folder, home), label or None)


class ScorerForm(NamedTuple):
    """What a text scorer's score means (the higher, the better), and how it is made.

    `make` gets the part of its name behind the colon, and the folder that a path is relative to.
    """

    meaning: str
    make: Callable[[str, Path], TextScorer]


_REGRESSOR = "the output of a sequence regressor of transformers (plausibility, acceptability)"
_LABEL = "log-odds of one label of a sequence classifier of transformers (CoLA's `acceptable`)"
_PARSED = "1 if the Link Grammar parser (`link-parser` on the PATH) can parse the whole sentence, else 0"
_CAUSAL = "log-likelihood in nats under a causal model of transformers"

#: Every form of a name; the word before the colon decides which scorer is made.
SCORERS: Mapping[str, ScorerForm] = MappingProxyType(
    {
        "words": ScorerForm("how many words", lambda *_: Length("words")),
        "characters": ScorerForm("how many characters", lambda *_: Length("characters")),
        "tinystories:FILE": ScorerForm("log-likelihood in nats under a checkpoint of llama2.c", _load_stories),
        "tinystories-per-token:FILE": ScorerForm("its mean over the pieces", partial(_load_stories, per_token=True)),
        "likelihood:FOLDER": ScorerForm(_CAUSAL, _load_causal),
        "likelihood-per-token:FOLDER": ScorerForm("its mean over the tokens", partial(_load_causal, per_token=True)),
        "classifier:FOLDER": ScorerForm(_REGRESSOR, _load_classifier),
        "classifier:FOLDER#LABEL": ScorerForm(_LABEL, _load_classifier),
        "link-grammar": ScorerForm(_PARSED, lambda *_: LinkGrammar.find()),
    }
)


@lru_cache(maxsize=4)
def find_text_scorer(name: str, home: Path) -> TextScorer:
    """Make the scorer of that name; it is kept, for it may hold a model."""
    word, _, rest = name.partition(":")
    form = next((form for form in SCORERS if form.partition(":")[0] == word), None)
    if form is None:
        models = names("model")
        if name not in models and f"{word}:" not in names("prefix"):
            hint = nearest(word, [*(form.partition(":")[0] for form in SCORERS), *models]) or ";"
            raise UnknownNameError(
                f"no text scorer {word!r}{hint} the scorers are {', '.join(SCORERS)}, and models that read texts "
                "alone, such as blind"
            )
        model = find_model(name)
        if not isinstance(model, TextScorer):
            raise ModelError(f"{name} reads more than texts; name blind, or one of {', '.join(SCORERS)}")
        return model
    if ":" not in form and rest:
        raise ModelError(f"text scorer {word!r} takes no path; got {name!r}")
    if ":" in form and not rest:
        raise ModelError(f"text scorer {name!r} names no model; write {form}")
    return SCORERS[form].make(rest, home)


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
