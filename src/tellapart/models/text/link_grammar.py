"""Whether a sentence is grammatical: the Link Grammar parser, a program of its own, finds a complete parse or it does not."""

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

__all__ = ["LinkGrammar"]

_SAID = re.compile(r"^(Found \d+ linkage|No complete linkages found)", re.MULTILINE)
#: No words left over, no guesses at spelling, no second try with looser rules. The time is there for the machine's load.
_OPTIONS = ("-null=0", "-spell=0", "-panic=0", "-islands-ok=0", "-graphics=0", "-verbosity=1", "-timeout=600")
_AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class LinkGrammar:
    """1 for a text that the parser can parse whole, else 0.

    Many captions are noun phrases ("A man on a horse"), which it takes for no sentence: so one that it cannot parse is
    tried again after "I see".

    Source: Sleator and Temperley, Parsing English with a Link Grammar, 1991; the program is `link-parser` of the
    package link-grammar, with its English dictionaries.

    Attributes:
        program: its path.

    >>> LinkGrammar("/usr/bin/link-parser").kind
    'similarity'
    """

    program: str
    kind: ClassVar[ScoreKind] = "similarity"
    name: ClassVar[str] = "link-grammar"

    @classmethod
    def find(cls) -> Self:
        """Find the program on the PATH.

        Raises:
            ModelError: it is not there.
        """
        program = shutil.which("link-parser")
        if program is None:
            raise ModelError(
                "link-grammar needs the program link-parser, which is not on the PATH; install it (Debian: link-grammar and "
                "link-grammar-dictionaries-en), or name another scorer"
            )
        return cls(program)

    @cached_property
    def fingerprint(self) -> str:
        """Of the program's version."""
        said = self._run(["--version"], "")
        version = re.search(r"link-grammar-[\w.]+", said)
        return f"tellapart:link-grammar:1:{version[0] if version else said.strip()[:60]}"

    def score_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 1 for each text with a complete parse, else 0: float32 `(n,)`.

        Raises:
            ModelError: the program fails, or does not answer for every text.
        """
        sentences = [_line(text) for text in texts]
        whole = self._parses(sentences)
        left = [place for place, parsed in enumerate(whole) if not parsed and sentences[place]]
        for place, parsed in zip(
            left, self._parses([f"I see {_lowered(sentences[place])}" for place in left]), strict=True
        ):
            whole[place] = parsed
        return np.array(whole, np.float32)

    def _parses(self, sentences: Sequence[str]) -> list[bool]:
        asked = [place for place, sentence in enumerate(sentences) if sentence]  # it passes over an empty line
        found = [False] * len(sentences)
        for first in range(0, len(asked), _AT_ONCE):
            some = asked[first : first + _AT_ONCE]
            said = _SAID.findall(self._run(["en", *_OPTIONS], "".join(f"{sentences[place]}\n" for place in some)))
            if len(said) != len(some):
                raise ModelError(
                    f"{self.program} answered for {len(said)} of {len(some)} sentences; is its dictionary there?"
                )
            for place, answer in zip(some, said, strict=True):
                found[place] = answer.startswith("Found")
        return found

    def _run(self, arguments: Sequence[str], given: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603  (the program that `find` found, and no shell)
                [self.program, *arguments], input=given, capture_output=True, text=True, encoding="utf-8", check=False
            )
        except OSError as error:
            raise ModelError(f"{self.program} cannot be run: {error.strerror}") from error
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ModelError(f"{self.program} failed with exit status {done.returncode}: {said:.200}")
        return done.stdout


def _line(text: str) -> str:
    """Return a text in one line that begins with a letter or digit; "!" would begin a command, "%" a comment."""
    return re.sub(r"^\W+", "", " ".join(text.split()))


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
