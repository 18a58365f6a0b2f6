"""Words of a caption with their part of speech: NLTK's tokenizer and perceptron tagger, read from JSON and text alone.

A folder of NLTK data is read directly: no pickle of it is opened, and NLTK's search paths play no part.

    tokenizers/punkt_tab/english/            abbrev_types.txt collocations.tab ortho_context.tab sent_starters.txt
    taggers/averaged_perceptron_tagger_eng/  averaged_perceptron_tagger_eng.{weights,tagdict,classes}.json

`python -m nltk.downloader -d FOLDER punkt_tab averaged_perceptron_tagger_eng` fetches both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tellapart.data.strict_json import decode_text, parse_json
from tellapart.errors import DataError, ModelError, require

if TYPE_CHECKING:
    from nltk.tag.perceptron import PerceptronTagger
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer

NOUNS = frozenset({"NN", "NNS"})
"""Penn tags of the words that are replaced. Source: the authors' `counter_caption_generation_perplexity.py`."""

REPLACEMENTS = NOUNS | {"NNP"}
"""Penn tags of the words that may replace them. Source: the same."""

_PUNKT = "tokenizers/punkt_tab/english"
_TAGGER = "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng"
_TEXTS = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_TABLES = ("weights", "tagdict", "classes")


class Word(NamedTuple):
    """A word as the tokenizer writes it (quotation marks change), its Penn tag, and its span in the text."""

    text: str
    tag: str
    start: int
    end: int


class NltkTagger:
    """NLTK's `word_tokenize` and `pos_tag`, with the data of one folder."""

    def __init__(
        self, sentences: PunktSentenceTokenizer, words: NLTKWordTokenizer, tagger: PerceptronTagger, fingerprint: str
    ) -> None:
        self._sentences, self._words, self._tagger = sentences, words, tagger
        self.fingerprint = fingerprint

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder of NLTK data."""
        names = [f"{_PUNKT}/{name}" for name in _TEXTS] + [f"{_TAGGER}.{name}.json" for name in _TABLES]
        files = {name: _read_file(folder, name) for name in names}
        digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files.values())).hexdigest()
        version = require("nltk", extra="captions").__version__
        try:
            texts = [files[f"{_PUNKT}/{name}"].decode() for name in _TEXTS]
            tables = [_read_table(files, name) for name in _TABLES]
            sentences, tagger = _make_splitter(texts), _make_tagger(tables)
        except (DataError, ValueError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{folder} does not hold NLTK's data of punkt_tab and averaged_perceptron_tagger_eng ({error}); "
                "fetch them again"
            ) from error
        words = require("nltk.tokenize.destructive", extra="captions").NLTKWordTokenizer()
        return cls(sentences, words, tagger, f"nltk {version}:{digest[:16]}")

    def read(self, text: str) -> list[Word]:
        """Return the words of a text, in their order: split by sentence, as `word_tokenize` does, and tagged as one."""
        words: list[str] = []
        spans: list[tuple[int, int]] = []
        for start, end in self._sentences.span_tokenize(text):
            sentence = text[start:end]
            words += self._words.tokenize(sentence)
            spans += [(start + one, start + other) for one, other in self._words.span_tokenize(sentence)]
        tags = [tag for _, tag in self._tagger.tag(words)]
        return [Word(word, tag, *span) for word, tag, span in zip(words, tags, spans, strict=True)]


def _read_file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise ModelError(
            f"{folder / name}: {error.strerror or error}; fetch it with: python -m nltk.downloader -d {str(folder)!r} "
            "punkt_tab averaged_perceptron_tagger_eng"
        ) from error


def _make_splitter(texts: Sequence[str]) -> PunktSentenceTokenizer:
    """Return the splitter of sentences, from the texts of its four files."""
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
    """Return the tagger, from its weights, its words with one tag alone, and its tags."""
    weights, single, tags = tables
    tagger = require("nltk.tag.perceptron", extra="captions").PerceptronTagger(load=False)
    tagger.model.weights, tagger.tagdict = dict(weights), dict(single)
    tagger.classes = tagger.model.classes = set(tags)
    return tagger


def _read_table(files: Mapping[str, bytes], name: str) -> Any:
    file = f"{_TAGGER}.{name}.json"
    return parse_json(decode_text(files[file], file), file)
