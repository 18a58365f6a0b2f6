"""Yes or no, A or B: the meaning of an answer in words, as the benchmarks' code reads it and strictly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import plain_answer, read_label
from tellapart.stats.combined import RatioOfCounts

_YES_NO = ("yes", "no")
OPTIONS = {gold: both for both in (_YES_NO, ("a", "b"), ("first", "second")) for gold in both}
"""Gold answer -> the two answers that are possible."""


def read_answer(answer: str, options: tuple[str, str]) -> str | None:
    """Return the option that an answer names as a word, the first of them if it names both; None if neither.

    Case does not count. For A and B the article "a" is read as the option, as in the original. Before that, marks of
    Markdown and JSON are taken off, and for yes and no a label alone (true or false, 1 or 0) is one of the two.

    Source: NaturalBench (Li et al. 2024), `extract_answer` of its example.py, which MMVP and others use, too.

    >>> [read_answer(answer, ("yes", "no")) for answer in ("Yes, it is.", "There is no yes.", "Nothing", "False.")]
    ['yes', 'no', None, 'no']
    """
    if options == _YES_NO and (label := read_label(answer)) is not None:
        return _YES_NO[not label]
    answer = plain_answer(answer)
    places = {option: re.search(rf"\b{option}\b", answer, re.IGNORECASE) for option in options}
    starts = {option: match.start() for option, match in places.items() if match}
    return min(starts, key=starts.__getitem__) if starts else None


def read_strictly(answer: str, options: tuple[str, str]) -> str | None:
    """Return the option that an answer is, marks at its ends and case aside; None for anything else.

    >>> [read_strictly(answer, ("a", "b")) for answer in ("(B).", "a", "A red cup", "B: yes")]
    ['b', 'a', None, None]
    """
    if options == _YES_NO and (label := read_label(answer)) is not None:
        return _YES_NO[not label]
    # Not `\W+$`, which takes minutes on a long answer of marks alone.
    bare = re.search(r"\w(?:.*\w)?", plain_answer(answer), re.DOTALL)
    return bare[0].lower() if bare and bare[0].lower() in options else None


def read_as_pope(answer: str) -> str:
    """Return `no` if the first sentence of an answer has the word No, no or not, else `yes`, whatever else it contains.

    Source: POPE (Li et al. 2023), its evaluate.py.

    >>> [read_as_pope(answer) for answer in ("No, there is none.", "It is not. Yes", "None", "")]
    ['no', 'no', 'yes', 'yes']
    """
    words = answer.partition(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "not", "no"} & {*words} else "yes"


def read_no(answer: str) -> str:
    """Return `no` if the first sentence of an answer has the word no or not, else `yes`: POPE's rule.

    Unlike its script, this reads the words in any case, and through the marks of Markdown and JSON; a label alone
    (false, 0) is read, too.

    >>> [read_no(answer) for answer in ("**No**", '{"answer": "no"}', "No!", "0", "It is. Not there", "maybe")]
    ['no', 'no', 'no', 'no', 'yes', 'yes']
    """
    label = read_label(answer)
    words = re.findall(r"\w+", plain_answer(answer).partition(".")[0].lower())
    return _YES_NO[not label if label is not None else not {"no", "not"}.isdisjoint(words)]


def read_as_tempcompass(answer: str) -> str | None:
    """Return the option that an answer begins with, in any case; None if it begins with neither, which a model reads.

    Source: TempCompass (Liu et al. 2024), `extract_pred` of its eval_yes_no.py.

    >>> [read_as_tempcompass(answer) for answer in ("Yes, it is", "nothing falls", " no", "It does: yes")]
    ['yes', 'no', None, None]
    """
    answer = answer.replace("</s>", "").lower()
    return next((option for option in _YES_NO if answer.startswith(option)), None)


def read_as_mvp(answer: str) -> str | None:
    """Return the second letter A or B that ends a word of an answer, the first if there is one only; None if none.

    "The answer is a: B" is B, and so is "Banana, b"; an answer of a sentence may be read otherwise than it was meant.

    Source: Minimal Video Pairs (Krojer et al. 2025), `extract_pred` of its tasks/mvp/utils.py.

    >>> [read_as_mvp(answer) for answer in ("B", "A, not B", "A panda: (B)", "No")]
    ['b', 'b', 'a', None]
    """
    letters = re.findall(r"[ab]\b", answer.lower())
    return (letters[1] if len(letters) > 1 else letters[0]) if letters else None


READERS: Mapping[str, Callable[[str], str | None]] = MappingProxyType(
    {"mvp": read_as_mvp, "tempcompass": read_as_tempcompass}
)
"""Benchmark -> how its authors read an answer, where they do it otherwise than `read_answer`."""


def yes_table(answers: Sequence[str], gold: Sequence[str]) -> NDArray[np.float64]:
    """Return whether yes was answered rightly, was answered, and is the right answer: 0 or 1, float64 `(question, 3)`.

    >>> table = yes_table(["yes", "yes", "no"], ["yes", "no", "yes"])
    >>> {name: float(share(table.mean(axis=0))) for name, share in YES_SHARES.items()}
    {'precision': 0.5, 'recall': 0.5, 'f1': 0.5}
    """
    said, is_yes = (np.array([word == "yes" for word in column]) for column in (answers, gold))
    return np.stack([said & is_yes, said, is_yes], axis=1).astype(np.float64)


#: The metrics of means of `yes_table`, `(...)` of `(..., 3)`.
YES_SHARES: Mapping[str, RatioOfCounts] = MappingProxyType(
    {"precision": RatioOfCounts(1), "recall": RatioOfCounts(2), "f1": RatioOfCounts(1, 2)}
)
