"""The check of an error's facts finds them, and fails where one is missing."""

import re

import pytest

from facts import check_facts, find_missing, raises
from tellapart.errors import DataError, ModelError

MESSAGE = "data/pairs.jsonl:12: field 'texts': expected 2 texts, got 3 in item-30; run tellapart ls --all"
FACTS = (
    "pairs.jsonl", "data/pairs.jsonl:12", "'texts'", "2", "3", "item-30", "--all", "tellapart ls", 12, "2 texts, got 3",
)  # fmt: skip


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_of_the_message_is_found(fact):
    assert find_missing(MESSAGE, fact) == []
    check_facts(MESSAGE, fact)


@pytest.mark.parametrize(
    "fact", ["airs.jsonl", "pairs.json", "'text'", "1", "30", "item-3", "--al", "tem", "tellapart l", "Texts", "0"]
)
def test_a_part_of_a_word_or_a_number_is_no_fact(fact):
    assert find_missing(MESSAGE, fact) == [fact]
    with pytest.raises(AssertionError, match=re.escape(repr(fact))):
        check_facts(MESSAGE, fact)


@pytest.mark.parametrize(
    ("number", "written"), [("3", "3.5"), ("5", "3.5"), ("1", "1,000"), ("000", "1,000"), ("2", "-2")]
)
def test_a_part_of_a_written_number_is_no_fact(number, written):
    assert find_missing(f"got {written}; expected another", number) == [number]
    assert find_missing(f"got {written}.", written) == []


def test_facts_are_wanted_in_any_order_as_often_as_given_and_across_lines():
    assert find_missing(MESSAGE, ("item-30", "'texts'"), "2") == []
    assert find_missing(MESSAGE, ("'texts'", "'images'"), "4") == ["'images'", "4"]
    assert find_missing("2 images and 2 texts", "2", "2") == []
    assert find_missing("2 images and 3 texts", "2", "2") == ["2"]
    assert find_missing("run tellapart\n  ls", "tellapart ls") == []


def fail(error: Exception) -> None:
    raise error


def test_the_errors_attributes_are_compared_where_it_has_them():
    error = DataError("wrong", path="data/pairs.jsonl:12", field="texts", got=3)
    with raises(DataError, path="pairs.jsonl", line=12, field="texts", got=3) as caught:
        fail(error)
    assert caught.value is error
    for wrong in ({"path": "airs.jsonl"}, {"line": 1}, {"field": "text"}, {"got": 30}):
        with pytest.raises(AssertionError, match=next(iter(wrong))), raises(DataError, **wrong):
            fail(error)


def test_the_message_is_read_where_the_error_has_no_attributes():
    with raises(DataError, path="pairs.jsonl", line=12, field="texts", got=3):
        fail(DataError(MESSAGE))
    for wrong in ({"path": "airs.jsonl"}, {"line": 1}, {"field": "text"}, {"got": "3"}):
        with pytest.raises(AssertionError, match="lacks"), raises(DataError, **wrong):
            fail(DataError(MESSAGE))


def test_an_error_of_another_kind_none_and_no_fact_fail():
    with pytest.raises(ModelError), raises(DataError, "3"):
        fail(ModelError(MESSAGE))
    with pytest.raises(pytest.fail.Exception), raises(DataError, "3"):
        pass
    for nothing in ((), ("",), ((),)):
        with pytest.raises(AssertionError, match="fact"), raises(DataError, *nothing):
            fail(DataError(MESSAGE))
