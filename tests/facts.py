"""The facts of an error's message, which tests check in place of its sentence.

A fact is a path, a line, a field, a value, a name, an option: it stays when the sentence around it is mended.

    with raises(DataError, "'a'", "[image, text]", path="pairs.jsonl", line=3, field="texts"):
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

Raised = TypeVar("Raised", bound=BaseException)
Fact = object | Iterable[object]
"""One fact, or a tuple or list of several. What is not text is taken as `str` writes it."""


@contextmanager
def raises(
    kind: type[Raised] | tuple[type[Raised], ...], *facts: Fact,
    path: object = None, line: int | None = None, field: str | None = None, got: object = None,
) -> Iterator[pytest.ExceptionInfo[Raised]]:  # fmt: skip
    """Expect an error whose message holds all facts, in any order.

    Args:
        kind: the error, or several of which it is one.
        facts: what the message holds as tokens: "3" is not in "30", and "a.png" not in "aa.png". A fact that is given
            twice must occur twice.
        path: the file, or the end of its path; read from the error's attribute, or from the message where that is None.
        line: as `path`, the number of the line.
        field: as `path`, the field, key or column, which a message holds in quotes.
        got: as `path`, the refused value, which a message holds as its `repr`.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error, text = caught.value, list(_flatten(facts))
    attributes = {"path": (path, str), "line": (line, str), "field": (field, repr), "got": (got, repr)}
    for name, (wanted, write) in attributes.items():
        held, written = getattr(error, name, None), write(wanted)
        if wanted is None:
            continue
        if held is None:
            text.append(written)
        elif name == "path":
            assert held == written or held.endswith(f"/{written}"), f"path {held!r}, not {written!r}: {error}"
        else:
            assert held == wanted, f"{name} {held!r}, not {wanted!r}: {error}"
    assert text or (path, line, field, got) != (None,) * 4, "an error without any fact is pytest.raises"
    check_facts(str(error), *text)


def check_facts(message: str, *facts: Fact) -> None:
    """Fail if a message lacks a fact."""
    missing = find_missing(message, *facts)
    assert not missing, f"the message lacks {', '.join(map(repr, missing))}: {message}"


def find_missing(message: str, *facts: Fact) -> list[str]:
    """Return the facts that a message does not hold, or not as often as they are given."""
    wanted = Counter(_flatten(facts))
    assert "" not in wanted, "an empty fact is in every message"
    return [fact for fact, times in wanted.items() if len(_token(fact).findall(message)) < times]


def _flatten(facts: Iterable[Fact]) -> Iterator[str]:
    for fact in facts:
        if isinstance(fact, tuple | list):
            yield from _flatten(fact)
        else:
            yield str(fact)


def _token(fact: str) -> re.Pattern[str]:
    """Match a fact that is not a part of a longer word or number."""
    before = r"(?<![\w-])(?<!\d[.,])" if fact[:1].isdigit() else r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)(?![.,]\d)" if fact[-1:].isdigit() else r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    # A message may wrap its lines, as the command line does.
    return re.compile(before + r"\s+".join(map(re.escape, fact.split())) + after)
