"""Grammatical or not: a sentence that the Link Grammar parser, an external program, can parse completely."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError

_ANSWER = re.compile(r"^(Found \d+ linkage|No complete linkages found)", re.MULTILINE)
#: No words left over, no guesses at spelling, no second try with looser rules. The time allows for a busy machine.
_OPTIONS = ("-null=0", "-spell=0", "-panic=0", "-islands-ok=0", "-graphics=0", "-verbosity=1", "-timeout=600")
_AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class LinkGrammar:
    """1 for a text of which the parser parses every word, else 0.

    Many captions are noun phrases ("A man on a horse") and no sentences: a text that fails is tried again after
    "I see".

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
        output = self._run_parser(["--version"], "")
        version = re.search(r"link-grammar-[\w.]+", output)
        return f"tellapart:link-grammar:1:{version[0] if version else output.strip()[:60]}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 1 for each text with a complete parse, else 0: float32 `(n,)`."""
        sentences = [_single_line(text) for text in texts]
        scores = np.array(self._parse_sentences(sentences), np.float32)
        rest = [position for position, sentence in enumerate(sentences) if sentence and not scores[position]]
        phrases = [sentences[position] for position in rest]
        scores[rest] = self._parse_sentences([f"I see {phrase[:1].lower()}{phrase[1:]}" for phrase in phrases])
        return scores

    def _parse_sentences(self, sentences: Sequence[str]) -> list[bool]:
        parsed = [False] * len(sentences)
        lines = [position for position, sentence in enumerate(sentences) if sentence]  # it skips empty lines
        for first in range(0, len(lines), _AT_ONCE):
            batch = lines[first : first + _AT_ONCE]
            output = self._run_parser(["en", *_OPTIONS], "".join(f"{sentences[position]}\n" for position in batch))
            answers = _ANSWER.findall(output)
            if len(answers) != len(batch):
                raise ModelError(
                    f"{self.program} answered for {len(answers)} of {len(batch)} sentences; is its dictionary there?"
                )
            for position, answer in zip(batch, answers, strict=True):
                parsed[position] = answer.startswith("Found")
        return parsed

    def _run_parser(self, arguments: Sequence[str], text: str) -> str:
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


def _single_line(text: str) -> str:
    """Return a text in one line that begins with a letter or digit; "!" would begin a command, "%" a comment."""
    return re.sub(r"^\W+", "", " ".join(text.split()))
