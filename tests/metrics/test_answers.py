"""Answers in words: exact, of several people, of groups, of two options, and in both orders."""

import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from steps import steps_of
from tellapart.errors import MetricError
from tellapart.metrics.answers import (
    clean_punctuation,
    clean_words,
    exact_match,
    group_accuracy,
    is_stated,
    label_accuracy,
    read_stated,
    soft_accuracy,
)
from tellapart.metrics.order_bias import order_bias
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


def test_an_exact_answer_is_stripped_and_the_label_false_is_not_true():
    gold = ["yes", "2", " red", "no"]
    assert exact_match([" yes\n", "two", "red", "No"], gold).tolist() == [1, 0, 1, 0]
    assert read_stated("{3}, no: {4}") == "4"
    assert is_stated(r"\boxed{4 cm}", "4 cm") and is_stated(r"\boxed{\text{no cup}}", "no cup")
    # A CSV file has 2.0 for a number of a column with decimals, where JSON and parquet have 2.
    # A sign belongs to its number; a dash between two does not.
    assert [is_stated(answer, "-5") for answer in ("-5", "It is -5.", "{-5.0}", "5", "3-5")] == [True] * 3 + [False] * 2
    assert not is_stated("-5", "5") and is_stated("Negative", "negative") and is_stated("- 5", "5")
    assert is_stated("-0.0", "0") and is_stated("\u22125", "-5")
    assert is_stated("two", "2.0") and is_stated("{10.00}", "10") and not is_stated("2.5", "2")
    predictions: list[bool | str] = ["False", "False", True, False, np.True_]
    assert label_accuracy(predictions, ["False", "True", "True", "False", "True"]).tolist() == [1, 0, 1, 1, 1]
    values = soft_accuracy(["yes", "no"], [["yes"] * 10, ["yes"] * 9 + ["no"]])
    np.testing.assert_allclose(values, [1.0, 0.3], atol=1e-15)


@pytest.mark.parametrize("wrong", ["true", "yes", "", 1, None, 0.0])
def test_what_is_no_label_raises(wrong):
    with raises(MetricError, "1", "1", "'True'", "'False'"):
        label_accuracy(["True", wrong], ["True", "False"])
    with raises(MetricError, "0", "label"):
        label_accuracy([True], [wrong])


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=8))
def test_a_group_is_right_if_all_of_it_is(groups):
    flat = [right for group in groups for right in group]
    rows = iter(range(len(flat)))
    indexes = [[next(rows) for _ in group] for group in groups]
    assert group_accuracy(flat, indexes).tolist() == [float(all(group)) for group in groups]


@pytest.mark.parametrize(("agree", "value"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (9, 1.0), (10, 1.0)])
def test_of_ten_people_each_of_the_first_three_who_agree_adds_three_tenths(agree, value):
    people = ["cat"] * agree + [f"animal {k}" for k in range(10 - agree)]
    for variant in ("official", "xvlm"):
        assert soft_accuracy(["cat"], [people], variant)[0] == pytest.approx(value, abs=1e-15)


@given(st.integers(2, 12), st.data())
def test_the_value_is_the_mean_over_the_ways_of_leaving_one_person_out(n, data):
    people = data.draw(st.lists(st.sampled_from(["cat", "dog", "cow"]), min_size=n, max_size=n))
    total = Fraction(0)
    for left_out in range(n):
        others = people[:left_out] + people[left_out + 1 :]
        total += min(Fraction(1), Fraction(others.count("cat"), 3))
    assert soft_accuracy(["cat"], [people])[0] == pytest.approx(float(total / n), abs=1e-15)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("t-shirt", "t shirt"),  # no space beside a hyphen anywhere: it becomes one
        ("t-shirt - red", "tshirt  red"),  # a space beside any hyphen: all hyphens vanish
        ("red/white, blue", "red white blue"),  # each mark is judged by itself
        ("1,000-2", "10002"),  # a comma between digits: every mark vanishes
        ("yes.", "yes"),
        ("3.5", "3.5"),
        ("v.2", "v.2"),  # only what follows the point counts
        ("5. floor", "5 floor"),  # meant to be spared after a digit, but is not
        ("u.s.a.", "usa"),
        ("what?!", "what  "),
        ("it's 5:30", "it's 5:30"),  # apostrophe and colon stay
        (
            '(a) [b] {c} "d" <e> f_g h=i j+k l\\m n@o `p`',
            " a b c d e f g h i j k l m n o p",
        ),  # only "(" has no space beside it
        ("." * 40, "." * 8),  # only 32 points are removed
    ],
)
def test_punctuation_goes_as_in_the_script(text, cleaned):
    assert clean_punctuation(text) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("None", "0"),
        ("zero One TWO three four five six seven eight nine ten eleven", "0 1 2 3 4 5 6 7 8 9 10 eleven"),
        ("A man and an apple on the table", "man and apple on table"),
        ("the", ""),
        ("dont wont isnt", "don't won't isn't"),
        ("couldntve", "couldntve"),  # two apostrophes are missing: not in the table
        ("couldnt've couldn'tve", "couldn't've couldn't've"),
        ("yall'd've y'alld've y'all'dve", "y'all'd've y'all'd've y'all'd've"),
        ("ow's'at 'ows'at 'ow'sat", "'ow's'at 'ow's'at 'ow's'at"),
        ("somebody'd", "somebodyd"),  # the table has this one the wrong way round
        ("Ive Im", "ive im"),  # the table's entries with a capital are never reached
        ("  two\tdogs \n", "2 dogs"),
    ],
)
def test_words_change_as_in_the_script(text, cleaned):
    assert clean_words(text) == cleaned


@pytest.mark.parametrize(
    ("own", "people", "official", "xvlm"),
    [
        # All people say the same: the official script compares as it stands, the fork cleans the prediction.
        ("Yes.", ["yes"] * 10, 0.0, 1.0),
        ("yes", ["yes"] * 10, 1.0, 1.0),
        ("two", ["two"] * 10, 1.0, 0.0),
        ("the dog", ["the dog"] * 10, 1.0, 0.0),
        ("t-shirt", ["t-shirt"] * 10, 1.0, 0.0),
        (" yes\n", ["yes"] * 10, 1.0, 1.0),
        ("yes", ["yes "] * 10, 1.0, 0.0),
        # They differ: the official script cleans people's words too, the fork only their punctuation.
        ("2", ["two"] * 4 + ["3"] * 6, 1.0, 0.0),
        ("two", ["2"] * 4 + ["3"] * 6, 1.0, 1.0),
        ("the dog", ["the dog"] * 4 + ["dog"] * 3 + ["cat"] * 3, 1.0, 0.9),
        ("t-shirt", ["t-shirt"] * 2 + ["t shirt"] + ["shirt"] * 7, 0.9, 0.9),
        ("tshirt", ["t-shirt"] * 9 + ["shirt"], 0.0, 0.0),
        ("dont know", ["don't know"] * 4 + ["yes"] * 6, 1.0, 1.0),
        ("Dog", ["Dog"] * 4 + ["cat"] * 6, 1.0, 0.0),
    ],
)
def test_the_two_scripts_differ_where_they_do(own, people, official, xvlm):
    assert soft_accuracy([own], [people])[0] == pytest.approx(official, abs=1e-15)
    assert soft_accuracy([own], [people], "xvlm")[0] == pytest.approx(xvlm, abs=1e-15)


@pytest.mark.parametrize("variant", ["official", "xvlm"])
def test_a_prediction_costs_as_much_whether_people_agree_or_not(variant):
    """Else whoever times the measuring of a long answer would learn whether the hidden answers differ."""
    extra = []
    for people in (["red"] * 10, ["red"] * 9 + ["blue"]):
        short, long = (
            steps_of(partial(soft_accuracy, [said], [people], variant)) for said in ("dark", "the dark, dark red one")
        )
        extra.append(long - short)
    assert extra[0] == extra[1] != {}  # the words of the longer one


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


def test_every_gold_answer_has_its_two_options_and_a_long_answer_of_marks_is_read_soon():
    assert all(gold in both and OPTIONS[both[0]] == OPTIONS[both[1]] == both for gold, both in OPTIONS.items())
    started = time.process_time()
    assert read_strictly("y" + "[" * 100_000 + "es", OPTIONS["yes"]) is None
    assert time.process_time() - started < 5  # it was minutes, which grew with the square


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
    assert (shares["precision"], shares["recall"]) == ([pytest.approx(3 / 5), 0], [pytest.approx(3 / 9), 0])
    assert shares["f1"] == [pytest.approx(2 * (3 / 5) * (3 / 9) / (3 / 5 + 3 / 9)), 0]


@pytest.mark.parametrize(
    ("first", "second", "difference", "both", "chose_first"),
    [
        (1, 1, 0, 1, 0.5),  # follows the captions
        (-1, -1, 0, 0, 0.5),  # follows them, the wrong one
        (1, -1, 1, 0, 1.0),  # takes the first place
        (-1, 1, -1, 0, 0.0),  # takes the second place
        (0, 0, 0, 0, 0.5),  # takes none
        (1, 0, 1, 0, 0.75),
        (0, 1, -1, 0, 0.25),
        (-1, 0, 0, 0, 0.25),
        (0, -1, 0, 0, 0.75),
    ],
)
def test_each_pair_of_answers(first, second, difference, both, chose_first):
    found = order_bias([first], [second])
    assert (found.difference[0], found.both[0], found.chose_first[0]) == (difference, both, chose_first)


def test_a_bias_is_said_with_the_side_that_it_leans_to():
    first, second = [1, 1, 1, -1], [1, -1, -1, -1]
    [lean], [turned] = (
        order_bias(first, second).notes("order_bias", "A", "B"),
        order_bias(second, first).notes("x", "A", "B"),
    )
    assert lean == "order_bias +50.00 leans to A: 75.00% of 4 items are right if it is true, 25.00% if not"
    assert turned == "x -50.00 leans to B: 75.00% of 4 items are right if it is true, 25.00% if not"
    assert order_bias(first, first).notes("x", "A", "B") == ()
