"""The stages of `counterfactual-captions`: its options, and the taggers, models and WordNet that they name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.builders.captions.replacing import MaskedLanguageModel
from tellapart.builders.captions.similarity import MeanPooledEncoder
from tellapart.builders.captions.tagging import NltkTagger
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import TextScorer
from tellapart.models.text.text_model import ROWS, CausalLikelihood
from tellapart.models.text.tinystories import TinyStories
from tellapart.models.torch.backend import runtime

# Relations of nouns in WordNet, read from its files: the same thing, a kind of the other, or neither.
#
# A counterfactual whose new noun is a kind of the old one (girl for child) may still be true of the picture: 15 % of
# the errors that people found in COCO-Counterfactuals, whose authors leave an ontology to future work (Le et al.,
# 2023, error analysis).
#
# data.noun    offset file pos count(hex) {word id}... count {pointer offset pos fields}... | gloss index.noun   lemma
# pos senses pointers {pointer}... senses tagged {offset}... noun.exc     plural singular       (irregular ones; a
# folder may lack it)
#
# Source: wndb(5WN) and morphy(7WN) of WordNet 3.0 (Miller, WordNet, CACM 1995).

Relation = Literal["synonym", "hyponym", "hypernym"]

#: Endings of plurals, and of their singulars (morphy's rules of detachment).
_ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
)  # fmt: skip

_KIND_OF = frozenset({"@", "@i"})  # a kind of, an instance of


class WordNet:
    """The nouns of a folder of WordNet's files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index, data = (_read_file(folder / name) for name in ("index.noun", "data.noun"))
        try:
            irregular = (folder / "noun.exc").read_bytes()
        except FileNotFoundError:
            irregular = b""
        self.fingerprint = f"wordnet:{hashlib.sha256(index + data + irregular).hexdigest()[:16]}"
        self._index = _index_lines(index)
        self._data = _index_lines(data)
        self._irregular = {word: base for word, base, *_ in map(str.split, irregular.decode("utf-8").splitlines())}

    def senses(self, word: str) -> list[str]:
        """Return the synsets of a noun in singular or plural, the most frequent first; none if it is not known."""
        synsets: list[str] = []
        for lemma in self._list_lemmas(word.lower()):
            fields = self._index.get(lemma, "").split()
            if fields:
                synsets += fields[-int(fields[1]) :]
        return list(dict.fromkeys(synsets))

    def relation(self, word: str, other: str, senses: int | None = None) -> Relation | None:
        """Return how `other` is related to `word`: another name of it, a kind of it, or the kind that it belongs to.

        >>> files = getfixture("tmp_path")
        >>> _ = (files / "index.noun").write_text("dog n 1 1 @ 1 0 00000001  \\nanimal n 1 0 1 0 00000002  \\n")
        >>> _ = (files / "data.noun").write_text(
        ...     "00000001 05 n 01 dog 0 001 @ 00000002 n 0000 | barks\\n00000002 03 n 01 animal 0 000 | lives\\n")
        >>> WordNet(files).relation("animals", "dog"), WordNet(files).relation("dog", "animals")
        ('hyponym', 'hypernym')
        """
        senses_of_word, two = self.senses(word)[:senses], self.senses(other)[:senses]
        if set(senses_of_word) & set(two):
            return "synonym"
        if set(senses_of_word) & self._list_ancestors(two):
            return "hyponym"
        return "hypernym" if set(two) & self._list_ancestors(senses_of_word) else None

    def _list_lemmas(self, word: str) -> Iterator[str]:
        """Yield the forms that may be in the index: the noun itself, the irregular, the regular ones."""
        yield word
        if word in self._irregular:
            yield self._irregular[word]
            return
        for ending, singular in _ENDINGS:
            if word.endswith(ending) and len(word) > len(ending) and not word.endswith("ss"):
                yield word.removesuffix(ending) + singular

    def _list_ancestors(self, synsets: Sequence[str]) -> set[str]:
        ancestors: set[str] = set()
        waiting = list(synsets)
        while waiting:
            for parent in self._list_parents(waiting.pop()):
                if parent not in ancestors:
                    ancestors.add(parent)
                    waiting.append(parent)
        return ancestors

    def _list_parents(self, synset: str) -> list[str]:
        fields = self._data[synset].partition(" | ")[0].split()
        pointers = 3 + 2 * int(fields[2], 16)  # after file, part of speech, count, and a word and an id for each word
        offsets = range(pointers + 1, pointers + 1 + 4 * int(fields[pointers]), 4)
        return [fields[at + 1] for at in offsets if fields[at] in _KIND_OF]


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: {error.strerror or error}; name the folder of WordNet's files (index.noun and data.noun)"
        ) from error


def _index_lines(data: bytes) -> Mapping[str, str]:
    """Return the lines by their first field, a lemma or an offset; those of the licence begin with a blank."""
    lines = (line.partition(" ") for line in data.decode("utf-8").splitlines() if not line.startswith(" "))
    return {key.replace("_", " "): rest for key, _, rest in lines}


Stage = TypeVar("Stage")

OFF = "off"  # the name of a stage that is left out

_TINY = "tinystories:"


class CaptionOptions(BaseModel):
    """The recipe's `[options]`. Paths are relative to the recipe; a model is a folder or a hub id.

    Attributes:
        captions: a file of captions (`caption_files.read_captions`).
        images: the folder that their column `image` is relative to; only a pair set needs it.
        tagger: `nltk:FOLDER`.
        masked_lm: a masked language model of transformers.
        similarity: an encoder of transformers whose tokens are averaged (all-MiniLM-L6-v2), or `off`.
        language_model: a causal language model of transformers, `tinystories:PATH`, or `off`, which chooses the most
            probable word.
        wordnet: the folder of WordNet's files, or `off`.
        wordnet_senses: of each noun, only so many of the most frequent; 0 is all of them.
        choices: of the masked language model for each noun.
        minimum, maximum: the similarity must be above the first and not above the second.
        wording: `kept` replaces the word and leaves the rest of the caption unchanged; `rejoined` joins the tokenizer's
            words again, as the authors do, which changes quotation marks and contractions.
        device, dtype: of the models.
        rows: sentences that the masked language model and the encoder read together; more of them suit a GPU. The last
            bits of a number depend on it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    captions: str
    images: str | None = None
    tagger: str
    masked_lm: str
    similarity: str
    language_model: str
    wordnet: str = OFF
    wordnet_senses: int = Field(default=0, ge=0)
    choices: int = Field(default=10, ge=1, le=1000)
    minimum: float = Field(default=0.8, ge=-1, le=1)
    maximum: float = Field(default=0.91, ge=-1, le=1)
    wording: Literal["kept", "rejoined"] = "kept"
    device: str = "cpu"
    dtype: str = "float32"
    rows: int = Field(default=ROWS, ge=1, le=1024)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError(f"no similarity lies above minimum {self.minimum} and not above maximum {self.maximum}")
        return self


@dataclass(frozen=True, slots=True)
class Stages:
    """The opened stages; None for one that the recipe leaves out."""

    tagger: NltkTagger
    replacer: MaskedLanguageModel
    encoder: MeanPooledEncoder | None
    language_model: TextScorer | None
    wordnet: WordNet | None

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage's fingerprint, by the option's name."""
        stages: Mapping[str, Any] = {
            "tagger": self.tagger,
            "masked_lm": self.replacer,
            "similarity": self.encoder,
            "language_model": self.language_model,
            "wordnet": self.wordnet,
        }
        return {name: stage.fingerprint for name, stage in stages.items() if stage is not None}


def open_stages(options: CaptionOptions, home: Path) -> Stages:
    """Open the stages that a recipe names; one that is open already in this process is not read again."""
    kind, _, folder = options.tagger.partition(":")
    if kind != "nltk" or not folder:
        raise ModelError(f"no tagger {options.tagger!r}; name nltk:FOLDER of NLTK's data")
    place = runtime(ModelOptions(device=options.device, dtype=options.dtype))

    def model(load: Callable[..., Stage], name: str, *more: int) -> Stage:
        path = home / Path(name).expanduser()
        opened: Stage = _open_once(load, str(path) if path.is_dir() else name, place, *more, stamp=_last_change(path))
        return opened

    def file(load: Callable[[Path], Stage], name: str) -> Stage:
        path = home / Path(name).expanduser()
        opened: Stage = _open_once(load, path, stamp=_last_change(path))
        return opened

    # The small ones first: a missing file is reported before a large model is read.
    tagger = file(NltkTagger.load, folder)
    wordnet = None if options.wordnet == OFF else file(WordNet, options.wordnet)
    encoder = None if options.similarity == OFF else model(MeanPooledEncoder.load, options.similarity, options.rows)
    judge: TextScorer | None = None
    if options.language_model.startswith(_TINY):
        judge = file(_load_tinystories, options.language_model.removeprefix(_TINY))
    elif options.language_model != OFF:
        judge = model(CausalLikelihood.from_second_token, options.language_model)
    replacer = model(MaskedLanguageModel.load, options.masked_lm, options.rows)
    return Stages(tagger, replacer, encoder, judge, wordnet)


@lru_cache(maxsize=16)
def _open_once(load: Callable[..., Stage], *arguments: object, stamp: int) -> Stage:  # noqa: ARG001
    """Open a stage once; files that changed since are opened again."""
    return load(*arguments)


def _load_tinystories(path: Path) -> TinyStories:
    return TinyStories.load(path, per_token=True)


def _last_change(path: Path) -> int:
    """Return when a file, or the newest of a folder, was last written, in nanoseconds; 0 if there is none."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)
