"""The text of an answer without the thought that a reasoning model writes before it, and notes on its reading.

Every reader of answers calls `strip_thought` first. It knows the marks of thoughts from the models' templates and from
the servers that parse them: DeepSeek, Qwen, GLM, Kimi, Magistral, Seed, Command A, OpenThinker, Granite, Gemma 4, and
the channels of gpt-oss, with and without their control tokens.
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
#: The marks that open a thought, in the group `opens`, and those that close one.
_MARK = re.compile(
    rf"""(?P<opens> <{_TAGS}> | \[THINK\] | ◁think▷ | <\|begin_of_thought\|> | <\|START_THINKING\|> | <\|channel>thought
        | <\|channel\|>(?:analysis|commentary)[^<]*<\|message\|> | \A\s*(?-i:analysis(?=[A-Z]))
        | \AHere(?:'s|\ is)\ my\ thought\ process: )
    | </{_TAGS}> | \[/THINK\] | ◁/think▷ | <\|end_of_thought\|> | <\|END_THINKING\|> | <channel\|>
        | <\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|> | (?-i:assistantfinal)
        | Here(?:'s|\ is)\ my\ response: """,
    re.VERBOSE | re.IGNORECASE,
)
#: The mark that opens an answer's frame, which sets it apart from the words before it, and the mark that ends it.
_FRAME = re.compile(r"<(?:answer|conclusion)>|<\|(?:begin_of_(?:box|solution)|START_RESPONSE)\|>", re.IGNORECASE)
_END = re.compile(r"</(?:answer|conclusion)>|<\|(?:end_of_(?:box|solution)|END_RESPONSE|return|end)\|>", re.IGNORECASE)

_FENCE = re.compile(r"\s*```\w*\s(.*?)```\s*", re.DOTALL)
#: LaTeX's frame of a final answer; JSON reads an unescaped `\b` as a backspace.
_BOX = re.compile(r"(?:\\b|\x08)oxed\s*\{(\s*\\[a-z]+\s*\{)?(?P<content>[^{}]*)\}(?(1)\s*\})")
_MARKDOWN = re.compile(r"[*`~#>]+|(?<!\w)_+|_+(?!\w)")
#: Keys of a JSON answer, in lower case: the first of them that it has holds the answer.
_KEYS = ("answer", "final_answer", "prediction", "label", "output", "response", "result", "verdict")
_LABEL = re.compile(r"""\W*(yes|no|true|false)\W*|[\s"'(\[]*([01])(?:\.0*)?[\s"')\].,;:!]*""", re.IGNORECASE)
_TRUE = ("yes", "true", "1")
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*")
_PERCENT = 100

#: The name of the field for a model's answer: in a file that a user fills in, and in `columns=`.
PREDICTION = "prediction"


@dataclass
class Reading:
    """The facts of the reading of one file of answers, set by the function that reads it."""

    #: The field that the user names. Empty: the reader finds it. None: the same, without a look at the gold answers.
    named: str | None = ""
    #: The fields or arrays that were read; empty if the file's numbers have no names.
    fields_read: str = ""
    #: How many answers held a thought that was stripped, and how many of these do not end it and are now empty.
    stripped: int = 0
    cut: int = 0

    def expect_used(self, path: Path) -> None:
        """Refuse a field that the user names and the reader of the file did not read."""
        if self.named not in (None, "", self.fields_read):
            instead = f", which is read from {self.fields_read}" if self.fields_read else ""
            raise ScoreError(
                f"columns={{'{PREDICTION}': '{self.named}'}} has no effect on {quote(str(path), 200)}{instead}; "
                "leave it out"
            )

    def notes(self) -> tuple[str, ...]:
        """Return sentences on the thoughts, for the user."""
        counted = (
            (self.stripped, "with a thought, which is not read"),
            (self.cut, "without an end of the thought, empty; let the model write more tokens"),
        )
        return tuple(f"{count:,} answer{'s' * (count > 1)} {rest}" for count, rest in counted if count)


#: All readings outside of `watch_reading` share the default, since nobody asks for their facts.
_READING: ContextVar[Reading] = ContextVar("reading", default=Reading(named=None))  # noqa: B039  (shared on purpose)

current_reading = _READING.get


@contextmanager
def watch_reading(named: str | None = "") -> Iterator[Reading]:
    """Yield the facts of the reading in the block: the field that was read, and how many thoughts were stripped."""
    reading = Reading(named)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def strip_thought(answer: str) -> str:
    """Return an answer without its thought; empty if the thought does not end; as it is if there is none.

    The text before a closing mark without an opening one is a thought, too: a template that begins the thought itself
    leaves the opening mark out of the answer. If there is a frame (`<answer>`), its content is the answer.

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
    if frames := [*_FRAME.finditer(text)]:  # the last one holds the answer
        thought.append(text[: frames[-1].start()])
        text = text[frames[-1].end() :]
    if not start and not frames:
        return answer
    text = _END.split(text, maxsplit=1)[0].strip()
    if inside or any(map(str.strip, thought)):
        reading = current_reading()
        reading.stripped += 1
        reading.cut += inside and not text  # adds 1 if nothing is left
    return text


def plain_answer(answer: str) -> str:
    """Return an answer as `plain_text` does; if it has LaTeX's boxes, and all hold the same text, that is the answer.

    >>> plain_answer("The cup is red, so $\\\\boxed{\\\\text{B}}$."), plain_answer("**No**, `none`.")
    ('B', 'No, none.')
    """
    plain = plain_text(answer)
    boxed = {match["content"].strip() for match in _BOX.finditer(plain)} - {""}
    return boxed.pop() if len(boxed) == 1 else plain


def plain_text(answer: str) -> str:
    """Return an answer without Markdown's marks; of a JSON object, the value of its answer's key, or its only one.

    >>> plain_text("**No**, `none`."), plain_text('{"why": "It is no cup", "answer": "yes"}'), plain_text("_No_")
    ('No, none.', 'yes', 'No')
    """
    text, value = _read_json(answer)
    if isinstance(value, dict):
        only_key = next(iter(value)) if len(value) == 1 else None
        value = value.get(next((key for key in _KEYS if key in value), only_key))
    return _MARKDOWN.sub("", str(value) if isinstance(value, str | bool | int | float) else text)


def _read_json(answer: str) -> tuple[str, Any]:
    """Return an answer without a Markdown fence, and its JSON value, or None; keys are put into lower case."""
    fenced = _FENCE.fullmatch(answer)
    text = (fenced[1] if fenced else answer).strip()
    value: Any = None
    if text.startswith(("{", "[", '"')):
        with suppress(DataError):
            value = parse_json(text, "an answer")
    value = value[0] if isinstance(value, list) and len(value) == 1 else value  # a list of one answer is that answer
    if isinstance(value, dict):
        value = {str(key).lower(): field for key, field in value.items()}
    return text, value


def read_confidence(answer: str) -> float | None:
    """Return the `confidence` in a JSON answer as a number from 0 to 1; None if it has none. Above 1 it is in percent.

    >>> read_confidence('{"label": "yes", "confidence": 0.7}'), read_confidence('{"confidence": "73 %"}')
    (0.7, 0.73)
    """
    value = _read_json(answer)[1]
    stated = value.get("confidence") if isinstance(value, dict) else None
    match = _NUMBER.fullmatch(str(stated)) if isinstance(stated, str | int | float) else None
    if match is None or (number := float(match[1])) > _PERCENT:
        return None
    return number / _PERCENT if number > 1 or match[2] else number


def read_label(answer: str) -> bool | None:
    """Return the label of an answer that is a label alone, in any case and with marks around it; else None."""
    label = _LABEL.fullmatch(plain_answer(answer))
    return (label[1] or label[2]).lower() in _TRUE if label else None
