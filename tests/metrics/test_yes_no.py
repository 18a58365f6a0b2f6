"""What an answer in words says, of two options."""

from __future__ import annotations

import pytest

from tellapart.metrics.yes_no import OPTIONS, read_answer, read_strictly


@pytest.mark.parametrize(
    ("answer", "options", "read", "strictly"),
    [
        ("Yes", "yes", "yes", "yes"),
        (" NO. ", "yes", "no", "no"),
        ("There is no yes here", "yes", "no", None),
        ("yesterday", "yes", None, None),
        ("", "yes", None, None),
        ("(B)", "a", "b", "b"),
        ("A red cup", "a", "a", None),  # the article is read as the option, as in the original
        ("Option B.", "a", "b", None),
        ("The second", "first", "second", None),
        ("First", "second", "first", "first"),
    ],
)
def test_what_an_answer_says(answer: str, options: str, read: str | None, strictly: str | None) -> None:
    assert read_answer(answer, OPTIONS[options]) == read
    assert read_strictly(answer, OPTIONS[options]) == strictly


def test_every_gold_answer_has_the_two_options_it_is_one_of() -> None:
    assert all(gold in both and OPTIONS[both[0]] == OPTIONS[both[1]] == both for gold, both in OPTIONS.items())
