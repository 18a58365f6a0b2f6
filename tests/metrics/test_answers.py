"""Exact answers, labels that are strings, and groups that must be right as a whole."""

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
    label_accuracy,
    read_stated,
    soft_accuracy,
)


def test_an_exact_answer_is_stripped_and_nothing_else():
    gold = ["yes", "2", " red", "no"]
    assert exact_match([" yes\n", "two", "red", "No"], gold).tolist() == [1, 0, 1, 0]


def test_the_label_false_is_not_true():
    predictions: list[bool | str] = ["False", "False", True, False, np.True_]
    assert label_accuracy(predictions, ["False", "True", "True", "False", "True"]).tolist() == [1, 0, 1, 1, 1]


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


WORDS = st.sampled_from(["yes", "no", "2", "two", "The dog", "dont", "a-b", "3.5", "x, y"])


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


@given(st.lists(WORDS, min_size=10, max_size=10), WORDS, st.permutations(range(10)))
def test_the_order_of_people_changes_nothing(people, own, order):
    for variant in ("official", "xvlm"):
        moved = [people[k] for k in order]
        assert soft_accuracy([own], [people], variant) == soft_accuracy([own], [moved], variant)


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


def test_values_come_one_a_question_in_order():
    values = soft_accuracy(["yes", "no"], [["yes"] * 10, ["yes"] * 9 + ["no"]])
    np.testing.assert_allclose(values, [1.0, 0.3], atol=1e-15)


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


def test_of_several_answers_in_braces_the_last_is_stated():
    assert read_stated("{3}, no: {4}") == "4"
