"""The text of an answer, without the thought that a reasoning model writes before it, and notes of its reader.

Every reader of answers reads what `strip_thought` leaves. The marks of thoughts are those of the models' templates and
of the servers that take them apart: DeepSeek, Qwen, GLM, Kimi, Magistral, Seed, Command A, OpenThinker, Granite,
Gemma 4, and the channels of gpt-oss, with and without their control tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.data.strict_json import parse_json
from tellapart.errors import DataError, ScoreError, quote

_TAGS = r"(?:seed:)?(?:think|thinking|thoughts?|reason|reasoning)"
_MARK = re.compile(
    rf"""(?P<opens> <{_TAGS}> | \[THINK\] | ◁think▷ | <\|begin_of_thought\|> | <\|START_THINKING\|> | <\|channel>thought
        | <\|channel\|>(?:analysis|commentary)[^<]*<\|message\|> | \A\s*(?-i:analysis(?=[A-Z]))
        | \AHere(?:'s|\ is)\ my\ thought\ process: )
    | </{_TAGS}> | \[/THINK\] | ◁/think▷ | <\|end_of_thought\|> | <\|END_THINKING\|> | <channel\|>
        | <\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|> | (?-i:assistantfinal)
        | Here(?:'s|\ is)\ my\ response: """,
    re.VERBOSE | re.IGNORECASE,
)
#: The marks around an answer that stands apart from the words before it.
_FRAME = re.compile(r"<(?:answer|conclusion)>|<\|(?:begin_of_(?:box|solution)|START_RESPONSE)\|>", re.IGNORECASE)
_END = re.compile(r"</(?:answer|conclusion)>|<\|(?:end_of_(?:box|solution)|END_RESPONSE|return|end)\|>", re.IGNORECASE)

_FENCE = re.compile(r"\s*```\w*\s(.*?)```\s*", re.DOTALL)
_MARKDOWN = re.compile(r"[*`~#>]+|(?<!\w)_+|_+(?!\w)")
_KEYS = ("answer", "final_answer", "prediction", "label", "output", "response", "result", "verdict")
_LABEL = re.compile(r"""\W*(yes|no|true|false)\W*|[\s"'(\[]*([01])(?:\.0*)?[\s"')\].,;:!]*""", re.IGNORECASE)
_TRUE = ("yes", "true", "1")
_NUMBER, _PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*"), 100


#: The name of the field in a file that is filled in, and among the names of columns.
PREDICTION = "prediction"


@dataclass
class Reading:
    """The facts of one reading, which its readers state."""

    #: The field, by the user; empty if the reader finds it; None if it does, and the gold answers are hidden from it.
    named: str | None = ""
    #: The fields or arrays that were read; empty if the file's numbers have no names.
    stated: str = ""
    #: How many answers held a thought that was stripped, and how many of these end inside it: nothing is left.
    stripped: int = 0
    cut: int = 0

    def expect_used(self, path: Path) -> None:
        """Refuse a name that the reader of a file did not take."""
        if self.named not in (None, "", self.stated):
            fixed = f", which is read from {self.stated}" if self.stated else ""
            raise ScoreError(
                f"columns={{'{PREDICTION}': '{self.named}'}} has no effect on {quote(str(path), 200)}{fixed}; "
                "leave it out"
            )

    def notes(self) -> tuple[str, ...]:
        """Return sentences on the thoughts, for the user."""
        counted = (
            (self.stripped, "with a thought, which is not read"),
            (self.cut, "without an end of the thought, empty; let the model write more tokens"),
        )
        return tuple(f"{count:,} answer{'s' * (count > 1)} {rest}" for count, rest in counted if count)


#: Of readings that nobody watches one is enough: no gold answer is looked for, and nobody asks for the facts.
_READING: ContextVar[Reading] = ContextVar("reading", default=Reading(named=None))  # noqa: B039  (of nobody)

current_reading = _READING.get


@contextmanager
def watch_reading(named: str | None = "") -> Iterator[Reading]:
    """Watch which field the readers take, and how many thoughts are stripped."""
    reading = Reading(named)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def strip_thought(answer: str) -> str:
    """Return an answer without its thought; empty if the thought does not end; as it is if there is none.

    What stands before a closing mark without an opening one is a thought, too: a template that begins the thought
    itself swallows the opening mark. If the answer has a frame (`<answer>`), its content is the answer.

    >>> strip_thought("There is none, I think.</think> Yes."), strip_thought("<think></think>Yes"), strip_thought(" a ")
    ('Yes.', 'Yes', ' a ')
    """
    words: list[str] = []
    thought: list[str] = []
    start, inside = 0, False
    for mark in _MARK.finditer(answer):  # one pass: a file may hold any number of marks
        before, opens = answer[start : mark.start()], mark["opens"] is not None
        if inside:
            thought.append(before)
        elif opens:
            words.append(before)
        else:
            thought += [*words, before]
            words = []
        start, inside = mark.end(), opens
    (thought if inside else words).append(answer[start:])
    text = "".join(words)
    for frame in [*_FRAME.finditer(text)][-1:]:
        thought.append(text[: frame.start()])
        start, text = start or frame.end(), text[frame.end() :]
    if not start:
        return answer
    text = _END.split(text, maxsplit=1)[0].strip()
    if inside or any(map(str.strip, thought)):
        reading = current_reading()
        reading.stripped += 1
        reading.cut += inside and not text
    return text


def plain_answer(answer: str) -> str:
    """Return an answer without Markdown's marks; of JSON, the value of its `answer` or of its only key.

    >>> plain_answer("**No**, `none`."), plain_answer('{"why": "It is no cup", "answer": "yes"}'), plain_answer("_No_")
    ('No, none.', 'yes', 'No')
    """
    text, value = _read_json(answer)
    if isinstance(value, dict):
        alone = next(iter(value.values())) if len(value) == 1 else text
        value = next((value[key] for key in _KEYS if key in value), alone)
    text = value if isinstance(value, str) else str(value) if isinstance(value, bool | int | float) else text
    return _MARKDOWN.sub("", text)


def _read_json(answer: str) -> tuple[str, Any]:
    """Return an answer without a fence, and the value that it is in JSON; keys are in lower case, one entry alone."""
    fenced = _FENCE.fullmatch(answer)
    text = (fenced[1] if fenced else answer).strip()
    value: Any = None
    if text.startswith(("{", "[", '"')):
        with suppress(DataError):
            value = parse_json(text, "an answer")
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return text, {str(key).lower(): field for key, field in value.items()} if isinstance(value, dict) else value


def read_confidence(answer: str) -> float | None:
    """Return the `confidence` that an answer in JSON states, from 0 to 1, or else as percent; None if there is none.

    >>> read_confidence('{"label": "yes", "confidence": 0.7}'), read_confidence('{"confidence": "73 %"}')
    (0.7, 0.73)
    """
    value = _read_json(answer)[1]
    stated = value.get("confidence") if isinstance(value, dict) else None
    number = _NUMBER.fullmatch(str(stated)) if isinstance(stated, str | int | float) else None
    if number is None or float(number[1]) > _PERCENT:
        return None
    return float(number[1]) / (_PERCENT if float(number[1]) > 1 or number[2] else 1)


def read_label(answer: str) -> bool | None:
    """Return the label that an answer is, in any case, marks around it aside; None if it is anything else."""
    label = _LABEL.fullmatch(plain_answer(answer))
    return (label[1] or label[2]).lower() in _TRUE if label else None
