"""Free text is read by a stated grammar; what it does not cover is nothing, never a guess."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.generative.answers_grammar import parse_box, parse_pairing, parse_verdict


@pytest.mark.parametrize(
    ("answer", "pairing"),
    [
        ("1;2", (1, 2)),
        (" 2 ; 1 ", (2, 1)),
        ("#2;#1", (2, 1)),
        ('"2;1"', (2, 1)),
        ("2,1", (2, 1)),
        ("The answer is 2; 1.", (2, 1)),
        ("1;2 because caption 2 shows the right image", (1, 2)),
        ("1;2. That is, 1;2.", (1, 2)),
        ("Caption 1 corresponds to the left image and caption 2 to the right image.", (1, 2)),
        ("Caption 1: right. Caption 2: left.", (2, 1)),
        ("The left image is caption 2; the right one is Caption #1.", (2, 1)),
        ("index 2 for the left image; index 1 for the right image", (2, 1)),
        ("1;1", None),
        ("1;2 or 2;1", None),
        ("", None),
        ("1", None),
        ("Captions 1, 2 both fit.", None),
        ("11;2", None),
        ("1;23", None),
        ("0.1;2", None),
        ("1;2.5", None),
        ("Caption 1 is left.", None),
        ("Caption 1 is left and caption 1 is right.", None),
        ("Caption 1 and caption 2 are left and right.", None),
        ("Caption 1 is left, the right one is caption 2.", None),
        ("Caption 3 is left and caption 1 is right.", None),
        ("Neither the left nor the right image fits caption 1 or caption 2 better; caption 1 fits.", None),
    ],
)
def test_a_pairing_is_read_where_the_grammar_covers_it_alone(answer: str, pairing: tuple[int, int] | None) -> None:
    assert parse_pairing(answer) == pairing


@given(st.text(alphabet="12;#. ", max_size=20))
def test_swapping_the_indices_of_an_answer_swaps_its_pairing(answer: str) -> None:
    read = parse_pairing(answer)
    assert parse_pairing(answer.translate({ord("1"): "2", ord("2"): "1"})) == (read and (read[1], read[0]))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("True", True),
        ("yes.", True),
        ("FALSE", False),
        ("No, there is one dog.", False),
        ("The statement is true.", True),
        ("True or false?", None),
        ("It is not true", None),
        ("That isn\N{RIGHT SINGLE QUOTATION MARK}t true", None),
        ("Nothing", None),
        ("", None),
        ("untrue", None),
        ("1.", True),
        ("0.0", False),
        ("**False**", False),
        ('{"why": "It is not blue", "answer": true}', True),
    ],
)
def test_a_verdict_is_one_word_of_one_meaning(answer: str, verdict: bool | None) -> None:
    assert parse_verdict(answer) is verdict


@pytest.mark.parametrize(
    ("answer", "convention", "resized", "box"),
    [
        ("[0.25, 0.5, 0.75, 1.0]", "unit", None, (50.0, 50.0, 150.0, 100.0)),
        ("<|box_start|>(250,500),(750,1000)<|box_end|>", "thousandths", None, (50.0, 50.0, 150.0, 100.0)),
        (
            '```json\n[{"bbox_2d": [10, 10, 30, 20], "label": "cup"}]\n```',
            "pixels",
            (40, 20),
            (50.0, 50.0, 150.0, 100.0),
        ),
        ("(0, 0, 0.5, 0.5) and [0.1, 0.1, 0.2, 0.2]", "unit", None, (0.0, 0.0, 100.0, 50.0)),
        ("[-0.5, 0, 2, 1]", "unit", None, (0.0, 0.0, 200.0, 100.0)),
        ("[0.75, 0.5, 0.25, 1.0]", "unit", None, None),
        ("[1.5, 0, 2, 1]", "unit", None, None),
        ("[0.1, 0.2, 0.3]", "unit", None, None),
        ("on the left", "unit", None, None),
        (f"[0, 0, {'9' * 400}, 1]", "unit", None, (0.0, 0.0, 200.0, 100.0)),
    ],
)
def test_a_box_is_read_in_the_convention_of_its_family(
    answer: str, convention: str, resized: tuple[int, int] | None, box: tuple[float, ...] | None
) -> None:
    assert parse_box(answer, convention, (200, 100), resized) == box


def test_pixels_need_the_size_that_the_model_reads() -> None:
    with raises(ModelError, "size", "resized"):
        parse_box("[0, 0, 1, 1]", "pixels", (10, 10))


def test_an_unknown_convention_is_refused() -> None:
    with raises(ModelError, "'percent'", "box"):
        parse_box("[0, 0, 1, 1]", "percent", (10, 10))
