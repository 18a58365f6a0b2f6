"""Scorers of a text alone, by name: its length, its plausibility, its grammar; and text models of transformers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import names
from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, ModelError, UnknownNameError, nearest
from tellapart.models.captions import ControlTokens
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import config_facts, load_tokenizer, load_weights, read_config
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import TextScorer
from tellapart.models.text.tinystories import TOKENIZER, TinyStories
from tellapart.models.torch import backend
from tellapart.models.torch.backend import Runtime, forward, import_torch, runtime
from tellapart.models.torch.likelihood import read_batches
from tellapart.models.torch.network import Tensor

ROWS = 4  # texts that a model reads together by default: about the nouns of a caption

#: Their positions begin behind the padding token's number: two rows of the table belong to no text.
_SHIFTED = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl")


@dataclass(frozen=True, slots=True, eq=False)
class TextModel:
    """Weights and tokenizer of one folder or hub id, in evaluation mode.

    `rows` texts are read together, filled up by copies: the last bits of a number depend on it and on the text alone.
    With `tokenizer_limit` texts are held to the tokenizer's maximum, too.
    """

    source: str
    model: Any
    tokenizer: Any
    runtime: Runtime
    rows: int = ROWS
    tokenizer_limit: bool = False

    @classmethod
    def load(
        cls,
        architecture: str,
        source: str,
        runtime: Runtime,
        *,
        unused: Sequence[str] = (),
        rows: int = ROWS,
        tokenizer_limit: bool = False,
    ) -> Self:
        """Load a class of transformers, none of its weights guessed; `unused` parts may be missing in its files."""
        tokenizer = load_tokenizer(source)
        model = load_weights(architecture, source, runtime, unused=unused)
        return cls(source, model, tokenizer, runtime, rows, tokenizer_limit)

    def fingerprint(self) -> str:
        """Return the model's class and a hash of weights, configuration, vocabulary, dtype and rows."""
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        facts = (config_facts(self.model.config), vocabulary, self.runtime.dtype, str(self.rows))
        return f"{type(self.model).__name__}:{backend.weights_fingerprint(self.model, *facts)[:16]}"

    def weights_digest(self) -> str:
        """Return the SHA-256 of weights, configuration and vocabulary, which `fingerprint` writes in another way."""
        vocabulary = repr(sorted(self.tokenizer.get_vocab().items()))
        return backend.weights_fingerprint(self.model, config_facts(self.model.config), vocabulary)

    @property
    def limit(self) -> int | None:
        """The longest text that the model reads, in tokens with the special ones; None if there is none."""
        config = self.model.config
        longest: int | None = getattr(config, "max_position_embeddings", None)
        if longest is not None and config.model_type in _SHIFTED:
            longest -= 2
        if not self.tokenizer_limit:
            return longest
        model_limit = int(self.tokenizer.model_max_length)
        return model_limit if longest is None else min(model_limit, longest)

    @property
    def padding(self) -> int:
        """The token behind a text: a classifier on a decoder finds the text's end by that of its configuration."""
        tokens = (getattr(self.model.config, "pad_token_id", None), self.tokenizer.pad_token_id)
        return next((token for token in tokens if token is not None and token >= 0), 0)

    def ids(
        self, texts: Sequence[str], *, least: int = 1, special: bool = True, masked: bool = False
    ) -> list[list[int]]:
        """Return the tokens of each text, with the special ones if wanted; `masked` texts hold some themselves."""
        if not texts:
            return []
        limit, control = self.limit, ControlTokens(self.tokenizer)
        options = {"padding": False, "truncation": False, "verbose": False} | ({} if masked else control.split)
        empty, *rows = self.tokenizer(["", *texts], add_special_tokens=special, **options)["input_ids"]
        if not masked:
            control.refuse(self.source, texts, rows, empty)
        for text, row in zip(texts, rows, strict=True):
            if len(row) < least or (limit is not None and len(row) > limit):
                most = "any number of" if limit is None else limit
                problem = f"{self.source} reads {least} to {most} tokens; {text[:60]!a} has {len(row)}"
                raise ModelError(f"{problem}: shorten the text, or leave it out")
        return rows

    def run(self, rows: Sequence[list[int]], compute: Callable[[dict[str, Any]], Iterable[Any]]) -> list[Any]:
        """Return what `compute` gives for each row, of the inputs `(row, length)` of rows that are read together."""
        limit, tensor, pad = self.limit, import_torch().tensor, self.padding

        def compute_batch(batch: Sequence[list[int]]) -> Iterable[Any]:
            gaps = [backend.bucket(len(row), limit) - len(row) for row in batch]
            padded = [row + [pad] * gap for row, gap in zip(batch, gaps, strict=True)]
            mask = [[1] * len(row) + [0] * gap for row, gap in zip(batch, gaps, strict=True)]
            inputs = {"input_ids": padded, "attention_mask": mask}
            with forward(self.source, self.model):
                return compute({name: tensor(rows, device=self.runtime.device) for name, rows in inputs.items()})

        return backend.run_grouped(rows, lambda row: backend.bucket(len(row), limit), self.rows, compute_batch)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextFunction:
    """A function from texts to scores, float32 `(n,)`, as a model."""

    name: str
    fingerprint: str
    score_texts: Callable[[Sequence[str]], NDArray[np.float32]]
    kind: ScoreKind = "similarity"


def load_likelihood(source: str, *, per_token: bool = False) -> TextFunction:
    """Load a causal model that reads a text after its mark for the beginning, or else for the end (GPT-2).

    A score is the text's log-likelihood in nats: the sum over its tokens or, `per_token`, the mean.
    """
    text_model = TextModel.load("AutoModelForCausalLM", source, runtime(ModelOptions()))
    begin, end = text_model.tokenizer.bos_token_id, text_model.tokenizer.eos_token_id
    if begin is None and end is None:
        raise ModelError(
            f"{source}: its tokenizer has no mark for the beginning or the end of a text, so the first word has no "
            "probability; name another causal model"
        )
    reduction = "mean" if per_token else "sum"
    score = partial(_score_causally, text_model, [end if begin is None else begin], per_token=per_token)
    fingerprint = f"tellapart:causal:1:{reduction}:{text_model.weights_digest()}"
    return TextFunction(f"{type(text_model.model).__name__}-{reduction}", fingerprint, score)


def load_perplexity(source: str, runtime: Runtime) -> TextFunction:
    """Load a causal model that predicts all tokens but the first, and scores the mean: minus the log of the perplexity.

    Source: the authors' code of Le et al., COCO-Counterfactuals, 2023, with GPT-2 large.
    """
    text_model = TextModel.load("AutoModelForCausalLM", source, runtime)
    return TextFunction(source, text_model.fingerprint(), partial(_score_causally, text_model, [], per_token=True))


def _score_causally(
    text_model: TextModel, begin: list[int], texts: Sequence[str], *, per_token: bool
) -> NDArray[np.float32]:
    """Return log-likelihoods of texts after `begin`, without which the first token is not predicted."""
    rows = text_model.ids(texts, least=1 if begin else 2, special=not begin)
    rows = [begin + row for row in rows]

    def predict(batch: list[list[int]]) -> Tensor:
        with forward(text_model.source, text_model.model):
            ids = import_torch().tensor(batch, device=text_model.runtime.device)
            return text_model.model(input_ids=ids).logits

    sums = read_batches([row[:-1] for row in rows], [row[1:] for row in rows], text_model.limit, predict)
    return np.array([total.total / (total.tokens if per_token else 1) for total in sums], np.float32)


def load_classifier(source: str, label: str) -> TextFunction:
    """Load a classifier from a folder or the hub: its log-odds of a label, or (empty) the only output of a regressor.

    Log-odds, not a probability: two texts that a sure model puts at 0.99999 and 0.999999 do not tie in float32.
    """
    read_config(source)
    architecture, place = "AutoModelForSequenceClassification", runtime(ModelOptions())
    # Another number of rows would change the last bits of scores.
    text_model = TextModel.load(architecture, source, place, rows=8, tokenizer_limit=True)
    labels = {name: column for column, name in text_model.model.config.id2label.items()}
    if not label and len(labels) > 1:
        raise ModelError(f"{source} has the labels {', '.join(labels)}; name the good one: classifier:...#LABEL")
    if label and label not in labels:
        raise ModelError(f"{source} has no label {label!r}; its labels are {', '.join(labels)}")
    column = int(labels[label]) if label else 0
    # A label's log-odds are its logit, if several labels may hold at once; else its logit less the others' together.
    is_multi_label = text_model.model.config.problem_type == "multi_label_classification"

    def compute(inputs: dict[str, Any]) -> Iterable[Any]:
        logits = text_model.model(**inputs).logits.float()
        own, others = logits[:, column], [k for k in range(logits.shape[1]) if k != column and not is_multi_label]
        return (own - logits[:, others].logsumexp(1) if others else own).cpu().numpy()

    def score(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array(text_model.run(text_model.ids(texts), compute), np.float32)

    kind = type(text_model.model).__name__
    changed = ":sigmoid" * is_multi_label + ":padding" * (
        text_model.padding != (text_model.tokenizer.pad_token_id or 0)
    )
    fingerprint = f"tellapart:classifier:1:{label or None}:{text_model.weights_digest()}{changed}"
    return TextFunction(f"{kind}-{label}" if label else kind, fingerprint, score, "logit")


def count_length(unit: Literal["words", "characters"]) -> TextFunction:
    """Return the scorer of a text's length: a blind model that needs no training."""

    def score(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([len(text.split() if unit == "words" else text) for text in texts], np.float32)

    return TextFunction(unit, f"tellapart:length:1:{unit}", score)


_ANSWER = re.compile(r"^(Found \d+ linkage|No complete linkages found)", re.MULTILINE)
#: No words left over, no guesses at spelling, no second try with looser rules. The time allows for a busy machine.
_OPTIONS = ("-null=0", "-spell=0", "-panic=0", "-islands-ok=0", "-graphics=0", "-verbosity=1", "-timeout=600")


def find_link_grammar() -> TextFunction:
    """Find the parser: 1 for a text of which it parses every word, else 0; a noun phrase is tried again after "I see".

    Source: Sleator and Temperley, Parsing English with a Link Grammar, 1991; the program is `link-parser` of the
    package link-grammar, with its English dictionaries.
    """
    program = shutil.which("link-parser")
    if program is None:
        raise ModelError(
            "link-grammar needs the program link-parser, which is not on the PATH; install it (Debian: "
            "link-grammar and link-grammar-dictionaries-en), or name another scorer"
        )

    def score(texts: Sequence[str]) -> NDArray[np.float32]:
        # One line each, that begins with a letter or digit; "!" would begin a command, "%" a comment.
        sentences = [re.sub(r"^\W+", "", " ".join(text.split())) for text in texts]
        scores = np.array(_parse_sentences(program, sentences), np.float32)
        rest = [place for place, sentence in enumerate(sentences) if sentence and not scores[place]]
        phrases = [f"I see {sentences[place][:1].lower()}{sentences[place][1:]}" for place in rest]
        scores[rest] = _parse_sentences(program, phrases)
        return scores

    output = _run_parser(program, "", "--version")
    version = re.search(r"link-grammar-[\w.]+", output)
    stated = version[0] if version else output.strip()[:60]
    return TextFunction("link-grammar", f"tellapart:link-grammar:1:{stated}", score)


def _parse_sentences(program: str, sentences: Sequence[str]) -> list[bool]:
    parsed = [False] * len(sentences)
    places = [place for place, sentence in enumerate(sentences) if sentence]  # it skips empty lines
    for first in range(0, len(places), 500):
        batch = places[first : first + 500]
        text = "".join(f"{sentences[place]}\n" for place in batch)
        answers = _ANSWER.findall(_run_parser(program, text, "en", *_OPTIONS))
        if len(answers) != len(batch):
            raise ModelError(
                f"{program} answered for {len(answers)} of {len(batch)} sentences; is its dictionary there?"
            )
        for place, answer in zip(batch, answers, strict=True):
            parsed[place] = answer.startswith("Found")
    return parsed


def _run_parser(program: str, text: str, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  (a program on the PATH, and no shell)
            [program, *arguments], input=text, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except OSError as error:
        raise ModelError(f"{program} cannot be run: {error.strerror}") from error
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(f"{program} failed with exit status {done.returncode}: {message:.200}")
    return done.stdout


def resolve_beside(path: str, home: Path) -> str:
    """Return a path relative to the folder `home` if something is there, else the path as written: perhaps a hub id."""
    local = home / Path(path).expanduser()
    return str(local) if local.exists() else path


#: Every form of a name, and what makes its scorer of the path and the label; the word before the colon decides. Scores
#: (the higher, the better) are counts, log-likelihoods in nats or means over the tokens, and outputs of classifiers.
SCORERS: Mapping[str, Callable[[str, str], TextScorer]] = MappingProxyType(
    {
        "words": lambda *_: count_length("words"),
        "characters": lambda *_: count_length("characters"),
        "tinystories:FILE": lambda path, _: TinyStories.load(Path(path)),
        "tinystories-per-token:FILE": lambda path, _: TinyStories.load(Path(path), per_token=True),
        "likelihood:FOLDER": lambda path, _: load_likelihood(path),
        "likelihood-per-token:FOLDER": lambda path, _: load_likelihood(path, per_token=True),
        "classifier:FOLDER": load_classifier,  # of one output: plausibility, acceptability
        "classifier:FOLDER#LABEL": load_classifier,  # log-odds of a label: CoLA's `acceptable`, say
        "link-grammar": lambda *_: find_link_grammar(),  # 1 if the parser can parse the sentence as a whole, else 0
    }
)


def file_states(path: str | Path) -> tuple[tuple[str, int, int, int], ...]:
    """Return name, inode, size and last change of a file and its tokenizer, or of all files in a folder.

    While these are equal, what was read from the files is still right. Empty if there is no file.
    """
    place = Path(path).absolute()
    files = sorted(place.rglob("*")) if place.is_dir() else [place, place.with_name(TOKENIZER)] if place.name else []
    states = ((str(file), file.stat()) for file in files if file.is_file())
    return tuple((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in states)


def find_text_scorer(name: str, home: Path) -> TextScorer:
    """Make the scorer of that name; it is kept, for it may hold a model, until its files change."""
    path = name.partition(":")[2].partition("#")[0]
    return _open_scorer(name, home, file_states(resolve_beside(path, home)) if path else ())


@lru_cache(maxsize=4)
def _open_scorer(name: str, home: Path, _states: tuple[Any, ...]) -> TextScorer:
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
    path, _, label = rest.partition("#") if word == "classifier" else (rest, "", "")
    return SCORERS[form](resolve_beside(path, home), label)


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
