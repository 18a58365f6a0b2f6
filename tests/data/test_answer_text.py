"""The thought before an answer, and the marks around it."""

import pytest

from tellapart.data.answer_text import plain_answer, read_label, strip_thought, watch_reading

IDEA = "Is it there? Yes or no. I think no."


#: How thoughts are held around an answer of "Yes"; a template that begins the thought swallows the first mark.
HELD = [
    "<think>{}</think>Yes",
    "<think>\n{}\n</think>\n\nYes",
    *(f"<{mark}>{{}}</{mark}>Yes" for mark in ("thinking", "thought", "reasoning", "seed:think")),
    "<THINK>{}</THINK> Yes",
    "[THINK]{}[/THINK]Yes",
    "◁think▷{}◁/think▷Yes",
    "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>",
    "<|begin_of_thought|>{}<|end_of_thought|><|begin_of_solution|>Yes<|end_of_solution|>",
    "<|channel>thought\n{}<channel|>Yes",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>Yes",
    "analysis{}assistantfinalYes",
    "Here is my thought process: {} Here is my response: Yes",
    "{}</think>Yes",
    "<think>{0}</think>No, wait.<think>{0}</think></think>Yes",
    "<think>The mark <think> begins it. {}</think>Yes",
    "<think>{}</think><answer>Yes</answer>",
    "<think>{}</think>I say <|begin_of_box|>Yes<|end_of_box|>",
    "{} <answer>\nYes\n</answer>",
    "{} <answer>Yes",
    "<think>{}</think>Yes<think>{}",
]
#: Thoughts that do not end.
CUT = ["<think>{}", "<think>{}</think><think>{}", "[THINK]{}", "<|channel>thought\n{}", "analysis{}"]
CUT += ["<|channel|>analysis<|message|>{}", "<|begin_of_thought|>{}"]


@pytest.mark.parametrize(("held", "answer"), [*((held, "Yes") for held in HELD), *((held, "") for held in CUT)])
def test_a_thought_is_no_part_of_the_answer_and_one_that_does_not_end_leaves_none(held, answer):
    with watch_reading() as thoughts:
        assert strip_thought(held.format(IDEA, IDEA)) == answer == strip_thought(answer)
    cut = answer == ""
    assert (thoughts.stripped, thoughts.cut) == (1, cut)
    assert not cut or len(thoughts.notes()) == 2


@pytest.mark.parametrize("held", ["", " no ", "A man thinks. <b>No</b>", "analysis of a cup", "<thinker>", "I reason"])
def test_an_answer_without_a_thought_stays_as_it_is(held):
    with watch_reading() as thoughts:
        assert strip_thought(held) == held
        assert strip_thought("<think>\n\n</think>\n\nNo") == "No"  # nothing was thought
    assert (thoughts.stripped, thoughts.cut, thoughts.notes()) == (0, 0, ())


def test_nobody_counts_outside_of_a_count_and_the_inner_one_counts_alone():
    strip_thought(f"<think>{IDEA}</think>Yes")
    with watch_reading() as outer:
        with watch_reading() as inner:
            strip_thought(f"<think>{IDEA}</think>Yes")
        strip_thought("Yes")
    assert (outer.stripped, inner.stripped) == (0, 1)


def test_a_text_of_marks_alone_is_read_in_one_pass():
    for text in ("<think>", "</think>", "<answer>"):
        assert strip_thought(text * 200_000) == ""
    assert strip_thought("<|channel|>analysis" * 200_000 + "</think>") == ""
    assert strip_thought("a</think>" * 200_000 + "No") == "No"


#: Texts that are read as a label, or as none.
LABELS: dict[bool | None, tuple[str, ...]] = {
    True: ("True", "`Yes`!", "1.", "(1)", '{"why": "there is no cup", "answer": "True"}', '"yes"'),
    False: (
        *("FALSE.", "**No**", "_no_", "0.0", '{"answer": "no"}', '```json\n{"answer": false}\n```'),
        "[0]",
    ),
    None: (
        *("-1", ".1", "0.5", "10", "", "No cup", "yes no", '{"a": 1, "b": 0}', '{"answer": ["no"]}'),
        *('{"answer": "no", "answer": "yes"}', "[" * 100_000),
    ),
}


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_read_through_marks_and_anything_else_is_none(label):
    assert [held for held in LABELS[label] if read_label(held) is not label] == []


def test_marks_within_words_stay():
    assert plain_answer("a snake_case name, *so*") == "a snake_case name, so"
