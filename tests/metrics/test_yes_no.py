"""What an answer in words says, of two options."""

import time

import numpy as np
import pytest

from tellapart.metrics.yes_no import (
    OPTIONS,
    YES_SHARES,
    read_answer,
    read_as_pope,
    read_as_tempcompass,
    read_no,
    read_strictly,
    yes_table,
)


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
        ("True", "yes", "yes", "yes"),
        ("false.", "yes", "no", "no"),
        ("1.", "yes", "yes", "yes"),
        ("0.0", "yes", "no", "no"),
        ("1", "a", None, None),  # a label is no letter
        ('{"why": "There is no doubt", "answer": "yes"}', "yes", "yes", "yes"),
        ('{"answer": "B"}', "a", "b", "b"),
        ("_No_, there is none", "yes", "no", None),
        ("**(B)**", "a", "b", "b"),
    ],
)
def test_what_an_answer_says(answer, options, read, strictly):
    assert read_answer(answer, OPTIONS[options]) == read
    assert read_strictly(answer, OPTIONS[options]) == strictly


def test_every_gold_answer_has_the_two_options_it_is_one_of():
    assert all(gold in both and OPTIONS[both[0]] == OPTIONS[both[1]] == both for gold, both in OPTIONS.items())


@pytest.mark.parametrize(
    ("answer", "ours", "theirs"),
    [
        ("No, there is none.", "no", "no"),
        ("no, none", "no", "no"),
        ("It is not there", "no", "no"),
        ("There is none, nothing", "yes", "yes"),
        ("", "yes", "yes"),
        ("Yes. There is no dog", "yes", "yes"),  # the first sentence alone
        ("**No**", "no", "yes"),
        ("NO!", "no", "yes"),  # the script reads three words as they stand
        ("There is no\ndog", "no", "yes"),  # its words end at blanks alone
        ('{"answer": "no"}', "no", "yes"),
        ('```json\n{"answer": "No."}\n```', "no", "yes"),
        ("False", "no", "yes"),
        ("0.", "no", "yes"),
        ("**Yes**", "yes", "yes"),
    ],
)
def test_popes_rule_is_read_through_marks_and_its_script_beside_it(answer, ours, theirs):
    assert (read_no(answer), read_as_pope(answer)) == (ours, theirs)


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("Yes, it does", "yes"),
        ("NO", "no"),
        ("Nothing falls", "no"),
        ("</s>yes", "yes"),
        ("It is: yes", None),
        ("", None),
    ],
)
def test_an_answer_is_read_as_tempcompass_reads_it(answer, read):
    assert read_as_tempcompass(answer) == read


def test_precision_recall_and_f1_are_those_of_a_count_by_hand():
    answers, gold = ["yes"] * 5 + ["no"] * 7, ["yes"] * 3 + ["no"] * 2 + ["yes"] * 6 + ["no"]
    table = yes_table(answers, gold)
    assert table.sum(axis=0).tolist() == [3, 5, 9] and table.dtype == np.float64
    means = np.stack([table.mean(axis=0), np.zeros(3)])
    shares = {name: share(means).tolist() for name, share in YES_SHARES.items()}
    assert shares["precision"] == [pytest.approx(3 / 5), 0]
    assert shares["recall"] == [pytest.approx(3 / 9), 0]
    assert shares["f1"] == [pytest.approx(2 * (3 / 5) * (3 / 9) / (3 / 5 + 3 / 9)), 0]


def test_a_long_answer_of_marks_alone_is_read_soon():
    started = time.process_time()
    assert read_strictly("y" + "[" * 100_000 + "es", OPTIONS["yes"]) is None
    assert time.process_time() - started < 5  # it was minutes, which grew with the square
