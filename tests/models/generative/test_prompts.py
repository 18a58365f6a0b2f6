"""Prompts are constants with a version, so that a result shows the wording."""

from __future__ import annotations

import pytest

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt

PROMPTS = [value for value in vars(prompts).values() if isinstance(value, Prompt)]


def test_no_two_prompts_share_a_label() -> None:
    assert len({prompt.label for prompt in PROMPTS}) == len(PROMPTS) > 5


def test_the_wordings_of_the_papers_are_theirs_to_the_letter() -> None:
    assert prompts.VQASCORE.fill(text="a cat") == 'Does this figure show "a cat"? Please answer yes or no.'
    text = prompts.EQBEN_CHOICE.fill(first="a cat", second="a dog")
    assert text == (
        "There are two images (left and right). Now you have two captions: caption 1: a cat; caption 2: a dog. Please "
        "indicate which caption corresponds to the left image and which caption corresponds to the right one. The "
        'answer should follow the format: "#index for the left image; #index for the right image". For example, "1;2" '
        "represents that caption 1 corresponds to image left."
    )

    asked = prompts.SUGARCREPE_CHOICE.fill(first="a cat", second="a dog")
    assert asked == "Which caption best describes the image?\n(1) a cat\n (2) a dog\nOutput (1) or (2)."


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.label)
def test_values_are_filled_in_unchanged(prompt: Prompt) -> None:
    values = {field: f"<{field}> {{0}} %s" for field in prompt.fields}
    filled = prompt.fill(**values)
    assert all(value in filled for value in values.values())
    assert prompt.source


def test_a_wrong_field_is_refused() -> None:
    with raises(ModelError, "vqascore/1", "prompt", "text"):
        prompts.VQASCORE.fill(caption="a cat")
