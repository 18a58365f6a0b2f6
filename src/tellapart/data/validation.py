"""Validation of tables with pydantic, its errors in one line, and the keys in which two tables differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tellapart.data.scores import join_names
from tellapart.errors import DataError, first_line, nearest, quote, shorten

__all__ = ["Problem", "find_problems", "first_problem", "list_problems", "validate"]


#: Characters of a value that a message shows.
_SHOWN = 24


def describe_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the keys that differ, a table's after its name and a dot, with both values; empty if none do."""
    before, after = dict(_flatten(then)), dict(_flatten(now))
    keys = [key for key in before | after if before.get(key) != after.get(key)]
    return join_names([f"{key} {_show(before.get(key))} -> {_show(after.get(key))}" for key in keys])


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def _show(value: object) -> str:
    text = "unset" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


Model = TypeVar("Model", bound=BaseModel)

#: Words for problems that pydantic describes in terms of Python and not of the file.
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "unexpected_keyword_argument": "is unknown",
    "string_type": "expected a string",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
}


class Problem(NamedTuple):
    """A problem of a validation."""

    #: Its place, such as `captions[1]` or `box.left`; empty for the table or object itself.
    field: str
    #: Pydantic's name of the problem.
    kind: str
    #: The problem, as a clause.
    message: str
    #: ", got ..." with the value; empty if there is none.
    value: str

    def __str__(self) -> str:
        return f"field {self.field!r}: {self.message}{self.value}" if self.field else self.message


def list_problems(error: ValidationError) -> list[Problem]:
    """Return the problems of a validation, in the order of the model's fields."""
    return [_describe_problem(details["type"], details) for details in error.errors(include_url=False)]


def first_problem(error: Exception) -> str:
    """Return the problem in one line: a validation's first problem, or another error's first line."""
    return str(list_problems(error)[0]) if isinstance(error, ValidationError) else first_line(error)


def _describe_problem(kind: str, details: ErrorDetails) -> Problem:
    value, message = details["input"], shorten(details["msg"].removeprefix("Value error, "), 400)
    parts = [part for part in details["loc"] if part != "[key]"]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in parts).lstrip(".")
    is_empty = kind in {"too_short", "string_too_short"} and not value
    message = "is empty" if is_empty else _WORDS.get(kind, message[:1].lower() + message[1:])
    got = "" if kind == "missing" else f", got {quote(value)}"
    if kind in {"list_type", "tuple_type"} and isinstance(value, dict):
        got = f", got one object; in TOML write [[{field}]], with two brackets"
    return Problem(field, kind, message, got)


def validate(model: type[Model], values: object, place: str, sources: Mapping[str, str] | None = None) -> Model:
    """Return a row, a table or an object of a file as its model; an unknown field is answered with the nearest one.

    `sources` names the columns that fields come from, for messages.

    Raises:
        DataError: a field is unknown or missing, or a value is of another type or out of range; the message begins with
            `place`.

    >>> class Recipe(BaseModel):
    ...     builder: str
    >>> validate(Recipe, {"bilder": "scenes"}, "recipe.toml")
    Traceback (most recent call last):
    tellapart.errors.DataError: recipe.toml: field 'bilder': is unknown; did you mean 'builder'? the fields are builder
    """
    if unknown := _list_unknown(model, values):
        raise _fault(unknown[0], place)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = list_problems(error)[0]
        column = (sources or {}).get(problem.field, problem.field)
        raise _fault(problem._replace(field=column), place) from error


def find_problems(model: type[BaseModel], values: Mapping[str, object], place: str) -> list[DataError]:
    """Return an error for every problem of a table, of which `validate` raises the first.

    A misspelt field is one problem, not a missing one as well.
    """
    problems = _list_unknown(model, values)
    meant = " ".join(problem.message for problem in problems)
    try:
        model.model_validate({field: value for field, value in values.items() if field in model.model_fields})
    except ValidationError as error:
        problems += [problem for problem in list_problems(error) if not _is_misspelt(problem, meant)]
    return [_fault(problem, place) for problem in problems]


def _is_misspelt(problem: Problem, meant: str) -> bool:
    """Return whether a problem is of a field that is missing because it is misspelt."""
    lacking = problem.field if problem.kind == "missing" else "" if problem.field else problem.message
    return any(repr(word) in meant for word in lacking.split())


def _list_unknown(model: type[BaseModel], values: object) -> list[Problem]:
    """Return a problem for each field that a model does not have, or for what is no object."""
    names = model.model_fields
    if not isinstance(values, Mapping):
        listed = ", ".join(field.alias or name for name, field in names.items())
        return [Problem("", "", f"expected an object with {listed}; got {quote(values)}", "")]
    if values.keys() <= names.keys() or model.model_config.get("extra") == "ignore":
        return []
    hints = ((field, nearest(field, names) or ";") for field in values if field not in names)
    listed = f"the fields are {', '.join(names) or 'none'}"
    return [
        Problem(shorten(field), "", f"{'' if field else 'a field without a name '}is unknown{hint} {listed}", "")
        for field, hint in hints
    ]


def _fault(problem: Problem, place: str) -> DataError:
    return DataError(f"{place}: {problem}" if place else f"{problem}", path=place or None, field=problem.field or None)
