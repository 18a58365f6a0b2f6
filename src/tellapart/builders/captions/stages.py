"""The stages of `counterfactual-captions`: its options, and the taggers, models and WordNet that they name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.data.strict_json import decode_text, parse_json
from tellapart.errors import DataError, ModelError, require
from tellapart.models.huggingface.files import read_config
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import TextScorer
from tellapart.models.text.find import ROWS, TextModel, file_states, load_perplexity
from tellapart.models.text.tinystories import TinyStories
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.vectors import normalise

if TYPE_CHECKING:
    from nltk.tag.perceptron import PerceptronTagger
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer


# NLTK's tokenizer and perceptron tagger, from these files of one folder; no pickle is opened.
#
#     tokenizers/punkt_tab/english/            abbrev_types.txt collocations.tab ortho_context.tab sent_starters.txt
#     taggers/averaged_perceptron_tagger_eng/  averaged_perceptron_tagger_eng.{weights,tagdict,classes}.json
#
# `python -m nltk.downloader -d FOLDER punkt_tab averaged_perceptron_tagger_eng` fetches both.

NOUNS = frozenset({"NN", "NNS"})
"""Penn tags of the words that are replaced. Source: the authors' `counter_caption_generation_perplexity.py`."""

REPLACEMENTS = NOUNS | {"NNP"}
"""Penn tags of the words that may replace them. Source: the same."""

_PUNKT = "tokenizers/punkt_tab/english"
_TAGGER = "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng"
_TEXTS = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_TABLES = ("weights", "tagdict", "classes")


class Word(NamedTuple):
    """A word as the tokenizer writes it (it changes quotation marks), its Penn tag, and its span in the text."""

    text: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NltkTagger:
    """NLTK's `word_tokenize` and `pos_tag`, with the data of one folder."""

    splitter: PunktSentenceTokenizer
    tokenizer: NLTKWordTokenizer
    tagger: PerceptronTagger
    fingerprint: str

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder of NLTK data."""
        names = [f"{_PUNKT}/{name}" for name in _TEXTS] + [f"{_TAGGER}.{name}.json" for name in _TABLES]
        fetch = f"fetch it with: python -m nltk.downloader -d {str(folder)!r} punkt_tab averaged_perceptron_tagger_eng"
        files = {name: _read_file(folder / name, fetch) for name in names}
        digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files.values())).hexdigest()
        version = require("nltk", extra="captions").__version__
        try:
            texts = [files[f"{_PUNKT}/{name}"].decode() for name in _TEXTS]
            tables = [parse_json(decode_text(files[name], name), name) for name in names[len(_TEXTS) :]]
            splitter, tagger = _make_splitter(texts), _make_tagger(tables)
        except (DataError, ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"{folder}: NLTK's data are damaged ({error}); {fetch}") from error
        tokenizer = require("nltk.tokenize.destructive", extra="captions").NLTKWordTokenizer()
        return cls(splitter, tokenizer, tagger, f"nltk {version}:{digest[:16]}")

    def read(self, text: str) -> list[Word]:
        """Return a text's words: each sentence is split alone, as by `word_tokenize`, and all are tagged together."""
        words: list[str] = []
        spans: list[tuple[int, int]] = []
        for start, end in self.splitter.span_tokenize(text):
            sentence = text[start:end]
            words += self.tokenizer.tokenize(sentence)
            spans += [(start + left, start + right) for left, right in self.tokenizer.span_tokenize(sentence)]
        tags = [tag for _, tag in self.tagger.tag(words)]
        return [Word(word, tag, *span) for word, tag, span in zip(words, tags, spans, strict=True)]


def _make_splitter(texts: Sequence[str]) -> PunktSentenceTokenizer:
    """Return the splitter of sentences, from the texts of the files `_TEXTS`."""
    punkt = require("nltk.tokenize.punkt", extra="captions")
    abbreviations, collocations, contexts, starters = (text.splitlines() for text in texts)
    parameters = punkt.PunktParameters()
    parameters.abbrev_types = set(abbreviations)
    parameters.collocations = {tuple(line.split("\t")) for line in collocations}
    parameters.sent_starters = set(starters)
    for line in contexts:
        word, _, flags = line.rpartition("\t")
        parameters.ortho_context[word] = int(flags)
    splitter = punkt.PunktSentenceTokenizer()
    splitter._params = parameters  # as its loader does; the constructor takes a text to learn from
    return splitter


def _make_tagger(tables: Sequence[Any]) -> PerceptronTagger:
    """Return the tagger, from the tables `_TABLES`: weights, words that always have the same tag, and all tags."""
    weights, single, tags = tables
    tagger = require("nltk.tag.perceptron", extra="captions").PerceptronTagger(load=False)
    tagger.model.weights, tagger.tagdict = dict(weights), dict(single)
    tagger.classes = tagger.model.classes = set(tags)
    return tagger


#: Heads of other tasks in checkpoints of masked language models, by `model_type`.
_OTHER_HEADS = {"bert": ("bert.pooler", "cls.seq_relationship"), "roberta": ("roberta.pooler",)}


class SentenceGap(NamedTuple):
    """A sentence with one word taken out: the text before it and the text after it, blanks included."""

    before: str
    after: str


class Proposal(NamedTuple):
    """A word for a gap, with its probability there."""

    word: str
    probability: float


class MaskedLanguageModel:
    """A masked language model: the most probable tokens at the mask, without tokens that are no words.

    To test a token, its text is written into the gap: the tokenizer must read that very token there. So a piece that
    would join its neighbour ("##ing", or "s" without the blank before it) is dropped, as special tokens are. Dropped
    tokens are not replaced by less probable ones. A gap is padded to a length that depends on the gap alone, so its
    proposals depend on no other gap.
    """

    def __init__(self, text_model: TextModel) -> None:
        self._text_model, self._tokenizer = text_model, text_model.tokenizer
        if self._tokenizer.mask_token_id is None:
            raise ModelError(f"{text_model.source}: its tokenizer has no mask; name a model such as roberta-base")
        self.fingerprint = text_model.fingerprint()

    @classmethod
    def load(cls, source: str, runtime: Runtime, rows: int = ROWS) -> Self:
        """Load a folder or a hub id; every forward pass has `rows` rows."""
        heads = _OTHER_HEADS.get(read_config(source)["model_type"], ())
        return cls(TextModel.load("AutoModelForMaskedLM", source, runtime, unused=heads, rows=rows))

    def fill(self, gaps: Sequence[SentenceGap], choices: int) -> list[list[Proposal]]:
        """Return the most probable words of each gap, at most `choices`, the most probable first."""
        rows = self._token_rows(gaps)
        tops = self._text_model.run(rows, lambda inputs: self._best_tokens(inputs, choices))
        return [self._list_words(gap, row, *top) for gap, row, top in zip(gaps, rows, tops, strict=True)]

    def _token_rows(self, gaps: Sequence[SentenceGap]) -> list[list[int]]:
        mask = self._tokenizer.mask_token
        for gap in gaps:
            if mask in gap.before or mask in gap.after:
                raise ModelError(f"{self._text_model.source}: a caption holds {mask!r}, the model's gap; take it out")
        return self._text_model.ids([f"{gap.before}{mask}{gap.after}" for gap in gaps], masked=True)

    def _best_tokens(self, inputs: dict[str, Any], choices: int) -> list[tuple[list[int], list[float]]]:
        """Return the best tokens at each row's mask with their probabilities; among equals the lower id."""
        logits = self._text_model.model(**inputs).logits  # (row, token, vocabulary)
        masks = (inputs["input_ids"] == self._tokenizer.mask_token_id).int().argmax(1)
        probabilities = logits[import_torch().arange(len(masks)), masks].float().softmax(-1).cpu().numpy()
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :choices]
        return [(ids.tolist(), row[ids].tolist()) for ids, row in zip(best, probabilities, strict=True)]

    def _list_words(
        self, gap: SentenceGap, row: list[int], ids: Sequence[int], probabilities: Sequence[float]
    ) -> list[Proposal]:
        """Return the tokens that are words in a gap; `row` has the tokens of the sentence with the mask."""
        words = [str(self._tokenizer.decode([token])).strip() for token in ids]
        sentences = [f"{gap.before}{word}{gap.after}" for word in words]
        # No truncation: only a word of several tokens makes a sentence too long, and such a word is dropped.
        rows = self._tokenizer(sentences, padding=False, truncation=False, verbose=False)["input_ids"]
        mask, special = row.index(self._tokenizer.mask_token_id), set(self._tokenizer.all_special_ids)
        return [
            Proposal(word, probability)
            for word, probability, token, tokens in zip(words, probabilities, ids, rows, strict=True)
            if word and token not in special and tokens == [*row[:mask], token, *row[mask + 1 :]]
        ]


class MeanPooledEncoder:
    """An encoder of transformers whose token vectors are averaged, without padding, and scaled to length one.

    Source: Reimers and Gurevych, Sentence-BERT, EMNLP 2019 (mean pooling), as all-MiniLM-L6-v2 is used.
    """

    def __init__(self, text_model: TextModel) -> None:
        self._text_model, self.fingerprint = text_model, text_model.fingerprint()

    @classmethod
    def load(cls, source: str, runtime: Runtime, rows: int = ROWS) -> Self:
        """Load a folder or a hub id; every forward pass has `rows` rows."""
        return cls(TextModel.load("AutoModel", source, runtime, unused=("pooler",), rows=rows))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length one for each text: float32 `(text, dimension)`."""
        model = self._text_model.model

        def average(inputs: dict[str, Any]) -> NDArray[np.float32]:
            mask = inputs["attention_mask"]
            states = model(**inputs).last_hidden_state.float()  # (row, token, dimension)
            means: NDArray[np.float32] = ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).cpu().numpy()
            return means

        vectors = self._text_model.run(self._text_model.ids(texts), average)
        return normalise(np.array(vectors, np.float32).reshape(len(texts), int(model.config.hidden_size)))


# Relations of nouns in WordNet.
#
# A counterfactual whose new noun is a kind of the old one (girl for child) may still be true of the picture: 15 % of
# the errors that people found in COCO-Counterfactuals (Le et al., 2023, error analysis). The fields of a line, where
# `{...}...` is repeated:
#
#     data.noun     offset file pos count(hex) {word id}... count {pointer offset pos fields}... | gloss
#     index.noun    lemma pos senses pointers {pointer}... senses tagged {offset}...
#     noun.exc      plural singular      (irregular plurals; a folder may lack this file)
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
        lack = "name the folder of WordNet's files (index.noun and data.noun)"
        index, data = (_read_file(folder / name, lack) for name in ("index.noun", "data.noun"))
        try:
            irregular = (folder / "noun.exc").read_bytes()
        except FileNotFoundError:
            irregular = b""
        self.fingerprint = f"wordnet:{hashlib.sha256(index + data + irregular).hexdigest()[:16]}"
        self._index = _index_lines(index)
        self._data = _index_lines(data)
        self._irregular = {word: base for word, base, *_ in map(str.split, irregular.decode("utf-8").splitlines())}

    def senses(self, word: str) -> list[str]:
        """Return the synsets of a noun in singular or plural, the most frequent first; none for an unknown noun."""
        synsets: list[str] = []
        for lemma in self._list_lemmas(word.lower()):
            fields = self._index.get(lemma, "").split()
            if fields:
                synsets += fields[-int(fields[1]) :]  # the offsets at the end of the line, one for each sense
        return list(dict.fromkeys(synsets))

    def relation(self, word: str, other: str, senses: int | None = None) -> Relation | None:
        """Return whether `other` is a synonym of `word`, a kind of it (hyponym), or what it is a kind of (hypernym)."""
        of_word, of_other = self.senses(word)[:senses], self.senses(other)[:senses]
        if set(of_word) & set(of_other):
            return "synonym"
        if set(of_word) & self._list_ancestors(of_other):
            return "hyponym"
        return "hypernym" if set(of_other) & self._list_ancestors(of_word) else None

    def _list_lemmas(self, word: str) -> Iterator[str]:
        """Yield the forms that may be in the index: the noun itself, then singulars; no plural ends in "ss"."""
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
        first = 3 + 2 * int(fields[2], 16) + 1  # after file, part of speech, word count, words and ids, pointer count
        pointers = range(first, first + 4 * int(fields[first - 1]), 4)  # of 4 fields: symbol, offset, ...
        return [fields[pointer + 1] for pointer in pointers if fields[pointer] in _KIND_OF]


def _read_file(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}; {hint}") from error


def _index_lines(data: bytes) -> Mapping[str, str]:
    """Return lines by their first field, a lemma or an offset, without the licence, whose lines begin with a blank."""
    lines = (line.partition(" ") for line in data.decode("utf-8").splitlines() if not line.startswith(" "))
    return {key.replace("_", " "): rest for key, _, rest in lines}


Stage = TypeVar("Stage")

OFF = "off"  # the value of an option whose stage is left out

_TINY = "tinystories:"
_LOAD_TINY = partial(TinyStories.load, per_token=True)  # one object: for a new partial, `_open_once` would load again


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
        wordnet_senses: how many of a noun's senses count, the most frequent first; 0 for all.
        choices: how many words the masked language model proposes for a noun.
        minimum, maximum: the similarity must be above the minimum and not above the maximum.
        wording: `kept` replaces the word and leaves the rest of the caption unchanged; `rejoined` joins the tokenizer's
            words again, as the authors do, which changes quotation marks and contractions.
        device, dtype: of the models.
        rows: sentences in a forward pass of the masked language model and the encoder; a GPU suits more. The last bits
            of a number depend on it.
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


class Stages(NamedTuple):
    """The opened stages by the option's name; None for a stage that the recipe leaves out."""

    tagger: NltkTagger
    masked_lm: MaskedLanguageModel
    similarity: MeanPooledEncoder | None
    language_model: TextScorer | None
    wordnet: WordNet | None

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage's fingerprint."""
        return {name: stage.fingerprint for name, stage in self._asdict().items() if stage is not None}


def open_stages(options: CaptionOptions, home: Path) -> Stages:
    """Open the stages that a recipe names; a stage that this process has opened already is not read again."""
    kind, _, folder = options.tagger.partition(":")
    if kind != "nltk" or not folder:
        raise ModelError(f"no tagger {options.tagger!r}; name nltk:FOLDER of NLTK's data")
    place = runtime(ModelOptions(device=options.device, dtype=options.dtype))

    def open_at(load: Callable[..., Stage], name: str, *model_options: object) -> Stage:
        path = home / Path(name).expanduser()
        source: Path | str = path
        if model_options:  # a model of transformers: a folder, or an id of the hub
            source = str(path) if path.is_dir() else name
        opened: Stage = _open_once(load, source, *model_options, states=file_states(path))
        return opened

    # Small stages first: a missing file is reported before a large model is read.
    tagger = open_at(NltkTagger.load, folder)
    wordnet = None if options.wordnet == OFF else open_at(WordNet, options.wordnet)
    encoder = None
    if options.similarity != OFF:
        encoder = open_at(MeanPooledEncoder.load, options.similarity, place, options.rows)
    judge: TextScorer | None = None
    if options.language_model.startswith(_TINY):
        judge = open_at(_LOAD_TINY, options.language_model.removeprefix(_TINY))
    elif options.language_model != OFF:
        judge = open_at(load_perplexity, options.language_model, place)
    replacer = open_at(MaskedLanguageModel.load, options.masked_lm, place, options.rows)
    return Stages(tagger, replacer, encoder, judge, wordnet)


@lru_cache(maxsize=16)
def _open_once(load: Callable[..., Stage], *arguments: object, states: object) -> Stage:  # noqa: ARG001
    """Open a stage once; files that changed since are opened again."""
    return load(*arguments)
