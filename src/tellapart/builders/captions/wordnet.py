"""Relations of nouns in WordNet, read from its files: the same thing, a kind of the other, or neither.

A counterfactual whose new noun is a kind of the old one (girl for child) may still be true of the picture: 15 % of the
errors that people found in COCO-Counterfactuals, whose authors leave an ontology to future work (Le et al., 2023, error
analysis).

    data.noun    offset file pos count(hex) {word id}... count {pointer offset pos fields}... | gloss
    index.noun   lemma pos senses pointers {pointer}... senses tagged {offset}...
    noun.exc     plural singular       (irregular ones; a folder may lack it)

Source: wndb(5WN) and morphy(7WN) of WordNet 3.0 (Miller, WordNet, CACM 1995).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from tellapart.errors import ModelError

__all__ = ["Relation", "WordNet"]

Relation = Literal["synonym", "hyponym", "hypernym"]

#: Endings of plurals, and of their singulars (morphy's rules of detachment).
_ENDINGS = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
)  # fmt: skip

_KIND_OF = frozenset({"@", "@i"})  # a kind of, an instance of


class WordNet:
    """The nouns of a folder of WordNet's files.

    Raises:
        ModelError: a file cannot be read.
    """

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

        Args:
            word, other: nouns.
            senses: of each, only so many of the most frequent; all if not given. A rare sense (dog: a fellow) makes a
                dog a kind of person.

        >>> files = getfixture("tmp_path")
        >>> _ = (files / "index.noun").write_text("dog n 1 1 @ 1 0 00000001  \\nanimal n 1 0 1 0 00000002  \\n")
        >>> _ = (files / "data.noun").write_text(
        ...     "00000001 05 n 01 dog 0 001 @ 00000002 n 0000 | barks\\n00000002 03 n 01 animal 0 000 | lives\\n")
        >>> WordNet(files).relation("animals", "dog"), WordNet(files).relation("dog", "animals")
        ('hyponym', 'hypernym')
        """
        one, two = self.senses(word)[:senses], self.senses(other)[:senses]
        if set(one) & set(two):
            return "synonym"
        if set(one) & self._list_ancestors(two):
            return "hyponym"
        return "hypernym" if set(two) & self._list_ancestors(one) else None

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
        ends = range(pointers + 1, pointers + 1 + 4 * int(fields[pointers]), 4)
        return [fields[at + 1] for at in ends if fields[at] in _KIND_OF]


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
