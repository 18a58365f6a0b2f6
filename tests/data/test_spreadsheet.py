"""No spreadsheet runs what a stranger named, wherever it splits the file; numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.data.rows import spreadsheet_cell

FORMULA = tuple("=+-@＝＋－＠")


@given(st.text(st.sampled_from([*FORMULA, *' a1;,\t\r\n\0"|('])))
def test_no_part_of_a_text_begins_a_formula_wherever_a_program_splits_the_file(text: str) -> None:
    target = io.StringIO()
    csv.writer(target).writerow(["a", spreadsheet_cell(text)])
    (row,) = csv.reader(io.StringIO(target.getvalue(), newline=""))
    for part in (row[1], *re.split(r"[;\t\r\n]", target.getvalue())):
        assert not part.strip(' "').startswith(FORMULA)
    if "'" not in text:
        assert row[1].replace("'", "") == text


@given(st.text(st.characters(categories=("L", "N"))))
def test_a_name_of_letters_and_digits_stays_as_it_is(text: str) -> None:
    assert spreadsheet_cell(text) == text


@pytest.mark.parametrize("number", [-1.5, 0.0, 1e-300, -3, None])
def test_a_number_stays_a_number(number: float | None) -> None:
    assert spreadsheet_cell(number) is number


@pytest.mark.parametrize("text", ["\tx", "\rx", "\nx", "\0x", "  =1", "=1", "-1", "@SUM(1)"])
def test_an_apostrophe_comes_first(text: str) -> None:
    assert str(spreadsheet_cell(text)).startswith("'")
