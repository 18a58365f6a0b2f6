"""Strict reading of a language model's reply: two lines of one form, and a caption with exactly the noted change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tellapart.builders.builder import Rejected
from tellapart.builders.negatives.instructions import NONE
from tellapart.builders.negatives.wording import words
from tellapart.data.answer_text import strip_thought

__all__ = ["RewriteReply", "check", "parse"]

_FORM = re.compile(r"CHANGE: (?P<change>[^\n]+)\nCAPTION: (?P<caption>[^\n]+)")
_FENCE = re.compile(r"```\w*")
_SIGNS = {"replace": " -> ", "swap": " <-> "}
#: Words of a phrase that is replaced, swapped or added; more is another sentence.
_LONGEST = 6
_DENIALS = frozenset({"no", "not", "never", "none", "nothing", "nobody"})
#: Words that may change in addition, so that the sentence agrees with the change; verbs in -s, too. No more than so
#: many.
_AGREEING = frozenset(
    {
        ("is", "are"),
        ("was", "were"),
        ("has", "have"),
        ("his", "her"),
        ("his", "their"),
        ("her", "their"),
        ("its", "their"),
    }
    | {("its", "his"), ("its", "her"), ("he", "she"), ("him", "her"), ("himself", "herself")}
)
_MOST_AGREEING = 2


class RewriteReply(NamedTuple):
    """The phrases of the change, as the model noted them, and the false caption."""

    phrases: tuple[str, ...]
    caption: str

    def change(self, kind: str) -> str:
        """Return the change as the model is asked to note it.

        >>> RewriteReply(("dog", "cat"), "A cat.").change("replace_obj")
        'dog -> cat'
        """
        sign = _SIGNS.get(kind.partition("_")[0])
        return sign.join(self.phrases) if sign else f"+ {self.phrases[0]}"


def parse(reply: str, kind: str) -> RewriteReply | Rejected:
    """Read a reply; one that is not of the form, to the letter, is rejected at the step `parse`.

    Args:
        reply: the model's text; a thought before it, a code fence around it, and blanks around lines do not count.
        kind: one of SugarCrepe's seven; decides how the change is noted.

    >>> parse("CHANGE: dog -> cat\\nCAPTION: A cat.", "replace_obj")
    RewriteReply(phrases=('dog', 'cat'), caption='A cat.')
    >>> parse("Sure! Here is one: A cat.", "replace_obj").reason
    'not of the form'
    """
    stripped = (line.strip() for line in strip_thought(reply).splitlines())
    plain = "\n".join(line for line in stripped if line and not _FENCE.fullmatch(line))
    if plain.rstrip(".") == NONE:
        return Rejected("model", "no such change, it says")
    lines = _FORM.fullmatch(plain)
    if lines is None:
        return Rejected("parse", "not of the form", reply) if plain else Rejected("parse", "empty")
    change, sign = lines["change"].strip(), _SIGNS.get(kind.partition("_")[0])
    phrases = tuple(change.split(sign)) if sign else (change.removeprefix("+ "),)
    noted = len(phrases) == 2 if sign else change.startswith("+ ")
    # A swap's sign holds the other's.
    if not noted or not all(words(phrase) for phrase in phrases) or any(">" in phrase for phrase in phrases):
        return Rejected("parse", "the change is not noted in its form", reply)
    return RewriteReply(tuple(phrase.strip() for phrase in phrases), lines["caption"].strip())


def check(kind: str, true: str, reply: RewriteReply) -> Rejected | None:
    """Reject a reply whose caption is not the true one with exactly the change that it notes, at the step `check`.

    Words are compared without case and signs; "a" and "an" are one. Two verbs or pronouns may change, too, to agree.

    >>> check("replace_obj", "A dog on a bed.", RewriteReply(("dog", "owl"), "An owl on a bed.")) is None
    True
    >>> check("replace_obj", "A dog on a bed.", RewriteReply(("dog", "owl"), "An owl on a rug.")).reason
    'another change than the one noted'
    """
    before, after = words(true), words(reply.caption)
    phrases = [words(phrase) for phrase in reply.phrases]
    if before == after:
        return Rejected("check", "the caption itself")
    if max(map(len, phrases)) > _LONGEST:
        return Rejected("check", f"a phrase of more than {_LONGEST} words")
    way = kind.partition("_")[0]
    if way != "swap" and _DENIALS & set(phrases[-1]):
        return Rejected("check", "denies")
    if way == "swap":
        rewritten = _list_swaps(before, *phrases)
    else:
        rewritten = (
            _list_replacements(before, *phrases) if way == "replace" else _list_replacements(before, [], phrases[0])
        )
    fits = any(_texts_agree(after, text) for text in rewritten)
    return None if fits else Rejected("check", "another change than the one noted")


def _find_places(text: Sequence[str], phrase: Sequence[str]) -> Iterator[int]:
    return (k for k in range(len(text) - len(phrase) + 1) if list(text[k : k + len(phrase)]) == list(phrase))


def _list_replacements(text: list[str], old: list[str], new: list[str]) -> Iterator[list[str]]:
    """Yield the text with each one of a phrase's places given to another; an empty phrase is everywhere."""
    return (text[:k] + new + text[k + len(old) :] for k in _find_places(text, old))


def _list_swaps(text: list[str], one: list[str], other: list[str]) -> Iterator[list[str]]:
    """Yield the text with each two places of two phrases exchanged."""
    spans = [(k, k + len(one), other) for k in _find_places(text, one)]
    spans += [(k, k + len(other), one) for k in _find_places(text, other)]
    for (start, stop, new), (start2, stop2, new2) in combinations(sorted(spans, key=lambda span: span[:2]), 2):
        if stop <= start2 and new != new2:
            yield text[:start] + new + text[stop:start2] + new2 + text[stop2:]


def _texts_agree(text: list[str], other: list[str]) -> bool:
    """Return whether two texts are the same but for a few words that agree with another number or person."""
    if len(text) != len(other):
        return False
    apart = [pair for pair in zip(text, other, strict=True) if pair[0] != pair[1]]
    return len(apart) <= _MOST_AGREEING and all(_words_agree(*pair) for pair in apart)


def _words_agree(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    return (word, other) in _AGREEING or (other, word) in _AGREEING or long in {f"{short}s", f"{short}es"}
