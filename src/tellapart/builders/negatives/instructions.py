"""Prompts for a language model: tellapart's words and examples for SugarCrepe's seven kinds of false caption."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tellapart.builders.negatives.chat import Message

#: The model's reply when no change of the kind can be made.
NONE = "NONE"


class Example(NamedTuple):
    """A caption with the right answer; no change and no false caption if none can be made."""

    caption: str
    change: str = ""
    false: str = ""

    @property
    def answer(self) -> str:
        """The answer in the form that the rules ask for."""
        return f"CHANGE: {self.change}\nCAPTION: {self.false}" if self.change else NONE


class ChangeTask(NamedTuple):
    """One kind of change: the task, how to note it, and examples."""

    what: str
    form: str
    examples: tuple[Example, ...]


_RULES = """\
You edit captions of photographs. You are given a true caption and write one that is false of the same photograph.
{what}
Change nothing else: every other word stays, in its place. The new caption is fluent English and describes a scene \
that could well be photographed, as likely as the true one. Do not deny anything ("no", "not"), and do not say the \
same in other words.
Answer with exactly two lines, the change as {form}, then the whole new caption:
CHANGE: {form}
CAPTION: the new caption
If the caption allows no such change, answer with the single word NONE."""

_REPLACE, _SWAP, _ADD = "OLD -> NEW", "ONE <-> OTHER", "+ NEW"


def _make_task(what: str, form: str, *examples: Example) -> ChangeTask:
    return ChangeTask(what, form, examples)


TASKS: Mapping[str, ChangeTask] = MappingProxyType(
    {
        "replace_obj": _make_task(
            "Replace one thing or being by another of a kind that would be seen in such a place; "
            "the two must not be the same thing under two names, nor the one a kind of the other.",
            _REPLACE,
            Example("A girl reads a magazine on the sofa.", "magazine -> letter",
                    "A girl reads a letter on the sofa."),
            Example("Three ducks swim across the pond at dusk", "ducks -> otters",
                    "Three otters swim across the pond at dusk"),
            Example("It is very windy today."),
        ),
        "replace_att": _make_task(
            "Replace one property of a thing (colour, size, material, state, age, number) by another that excludes it.",
            _REPLACE,
            Example("A striped towel hangs over a chair.", "striped -> plain", "A plain towel hangs over a chair."),
            Example("Four candles stand on the window sill.", "Four -> Six",
                    "Six candles stand on the window sill."),
            Example("A man is talking to a nurse."),
        ),
        "replace_rel": _make_task(
            "Replace one action, or one position of a thing to another, by one that excludes it; the things stay.",
            _REPLACE,
            Example("A boy climbs over the fence.", "climbs over -> leans on", "A boy leans on the fence."),
            Example("A basket under the table", "under -> on", "A basket on the table"),
            Example("A portrait of a goat."),
        ),
        "swap_obj": _make_task(
            "Exchange two things or beings of the caption with each other, so that the sentence says something else; "
            'only a verb may change its ending to agree. A list of equals ("a cup and a fork") says the same when '
            "exchanged: such a caption allows no change.",
            _SWAP,
            Example("A nurse watches while the patient writes.", "nurse <-> patient",
                    "A patient watches while the nurse writes."),
            Example("A kitten is hiding behind two puppies.", "A kitten <-> two puppies",
                    "Two puppies are hiding behind a kitten."),
            Example("A kettle and a pan."),
        ),
        "swap_att": _make_task(
            "Exchange the properties of two different things with each other, so that each gets the other's; the "
            "things stay in their places.",
            _SWAP,
            Example("A tall vase beside a narrow mirror.", "tall <-> narrow",
                    "A narrow vase beside a tall mirror."),
            Example("The boy in green hugs the boy in yellow.", "green <-> yellow",
                    "The boy in yellow hugs the boy in green."),
            Example("A rusty gate in a field."),
        ),
        "add_obj": _make_task(
            "Add one thing or being that the caption does not name and that would be seen in such a place, in a few "
            "words at one spot. Only a verb may change its ending to agree.",
            _ADD,
            Example("A farmer leads a mule.", "+ and a calf", "A farmer leads a mule and a calf."),
            Example("A kite is in the sky.", "+ and a balloon", "A kite and a balloon are in the sky."),
            Example("There is bread on the counter.", "+ and a jar of honey",
                    "There is bread and a jar of honey on the counter."),
            Example("What a sunny day!"),
        ),
        "add_att": _make_task(
            "Add one visible property (colour, size, material, state, age) to a thing that has none, in a word or two "
            "right before it.",
            _ADD,
            Example("A lamp stands beside a piano.", "+ crooked", "A crooked lamp stands beside a piano."),
            Example("Two men carry a mattress upstairs", "+ torn", "Two men carry a torn mattress upstairs"),
            Example("She is running."),
        ),
    }
)  # fmt: skip
"""The kinds of change by SugarCrepe's names."""


def conversation(kind: str, caption: str) -> list[Message]:
    """Return the conversation for one true caption: the rules, the examples as turns, and the caption.

    >>> [message.role for message in conversation("add_att", "A dog.")][-3:]
    ['user', 'assistant', 'user']
    """
    task = TASKS[kind]
    messages = [Message("system", _RULES.format(what=task.what, form=task.form))]
    for example in task.examples:
        messages += [Message("user", example.caption), Message("assistant", example.answer)]
    return [*messages, Message("user", " ".join(caption.split()))]
