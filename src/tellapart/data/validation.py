"""Validation of tables with pydantic, its errors in one line, and the keys in which two tables differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tellapart.data.scores import join_names
from tellapart.errors import DataError, first_line, nearest, quote, shorten

__all__ = ["Problem", "find_problems", "first_problem", "validate_table"]


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

_NOWHERE: Mapping[str, str] = MappingProxyType({})

#: Words for problems that pydantic describes in terms of Python and not of the file.
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "missing": "is missing",
        "extra_forbidden": "is unknown",
        "unexpected_keyword_argument": "is unknown",
        "string_type": "expected a string",
        "list_type": "expected a list",
        "tuple_type": "expected a list",
        "dict_type": "expected an object",
        "model_type": "expected an object",
    }
)


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

    @classmethod
    def first(cls, error: ValidationError) -> Self:
        """Return the first problem of an error."""
        return cls.every(error)[0]

    @classmethod
    def every(cls, error: ValidationError) -> list[Self]:
        """Return all problems of an error."""
        return [cls._read_details(problem) for problem in error.errors(include_url=False)]

    @classmethod
    def _read_details(cls, problem: ErrorDetails) -> Self:
        parts = [part for part in problem["loc"] if part != "[key]"]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in parts).lstrip(".")
        empty = problem["type"] in {"too_short", "string_too_short"} and not problem["input"]
        own = shorten(problem["msg"].removeprefix("Value error, "), 400)
        message = "is empty" if empty else _WORDS.get(problem["type"], own[:1].lower() + own[1:])
        value = "" if problem["type"] == "missing" else f", got {quote(problem['input'])}"
        if problem["type"] in {"list_type", "tuple_type"} and isinstance(problem["input"], dict):
            value = f", got one object; in TOML write [[{field}]], with two brackets"
        return cls(field, problem["type"], message, value)

    def __str__(self) -> str:
        return f"field {self.field!r}: {self.message}{self.value}" if self.field else self.message


def make_model(
    model: type[Model], fields: Mapping[str, Any], place: str, sources: Mapping[str, str] = _NOWHERE
) -> Model:
    """Return fields of a row as their model; `sources` names the columns that fields come from, for messages."""
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        problem = Problem.first(error)
        problem = problem._replace(field=sources.get(problem.field, problem.field))
        at = f"{place}: " if place else ""
        raise DataError(f"{at}{problem}", path=place or None, field=problem.field or None) from error


def first_problem(error: Exception) -> str:
    """Return the problem in one line: a validation's first problem, or another error's first line."""
    return str(Problem.first(error)) if isinstance(error, ValidationError) else first_line(error)


def validate_table(model: type[Model], values: object, place: str) -> Model:
    """Return a table of a TOML file as its model; an unknown key is answered with the nearest known one.

    Raises:
        DataError: a key is unknown or missing, or a value is out of range; the message begins with `place`.

    >>> class Recipe(BaseModel):
    ...     builder: str
    >>> validate_table(Recipe, {"bilder": "scenes"}, "recipe.toml")
    Traceback (most recent call last):
    tellapart.errors.DataError: recipe.toml: unknown key 'bilder'; did you mean 'builder'? the keys are builder
    """
    for key in values if isinstance(values, Mapping) else ():
        if key not in model.model_fields:
            raise _unknown_key(model, key, place)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _wrong_value(Problem.first(error), place) from error


def find_problems(model: type[BaseModel], values: Mapping[str, object], place: str) -> list[DataError]:
    """Return an error for every problem of a table, of which `validate_table` raises the first.

    A misspelt key is one problem, not a missing key as well.
    """
    unknown = [key for key in values if key not in model.model_fields]
    faults = [_unknown_key(model, key, place) for key in unknown]
    meant = " ".join(nearest(key, model.model_fields) for key in unknown)
    try:
        model.model_validate({key: value for key, value in values.items() if key in model.model_fields})
    except ValidationError as error:
        faults += [_wrong_value(fault, place) for fault in Problem.every(error) if not _lacks_key(fault, meant)]
    return faults


def _lacks_key(problem: Problem, meant: str) -> bool:
    """Return whether a problem is of a key that is missing because it is misspelt."""
    lacking = problem.field if problem.kind == "missing" else "" if problem.field else problem.message
    return any(repr(word) in meant for word in lacking.split())


def _unknown_key(model: type[BaseModel], key: str, place: str) -> DataError:
    hint = nearest(key, model.model_fields) or ";"
    field_names = ", ".join(model.model_fields)
    return DataError(f"{place}: unknown key {quote(key)}{hint} the keys are {field_names}", path=place, field=key)


def _wrong_value(problem: Problem, place: str) -> DataError:
    key, _, message, value = problem
    # A problem without a key is one of the table itself.
    text = f"key {key!r}: {message}{value}" if key else message
    return DataError(f"{place}: {text}", path=place, field=key or None)
