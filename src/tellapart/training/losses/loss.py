"""Losses as functions whose keyword parameters are their options; `@loss` declares what a training step must give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, create_model

from tellapart.catalog import load
from tellapart.data.fields import field_fault
from tellapart.data.validation import validate
from tellapart.errors import DataError, UnknownNameError
from tellapart.training.losses.batch import Batch, LossParts, Matches

Function = TypeVar("Function", bound=Callable[..., LossParts])


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of either family; calling it calls its function, which returns scalar parts and their sum, `total`.

    `idle_reason` is why a term may be 0 at every step, and what to do; empty if no reason is known.
    """

    function: Callable[..., LossParts]
    idle_reason: str = field(default="", kw_only=True, compare=False)

    def __call__(self, inputs: Batch | Matches, **options: Any) -> LossParts:
        """Return the parts of the loss, with options or the defaults."""
        return self.function(inputs, **options)

    @property
    def options(self) -> type[BaseModel]:
        """The table of its options, which pydantic reads from the function's signature."""
        return _options_table(self.function)

    def read_options(self, values: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return all options, with some values set; an error begins with the place."""
        return dict(validate(self.options, values, place))


@dataclass(frozen=True, slots=True)
class DualLoss(Loss):
    """A loss of dual encoders: its function takes a `Batch`.

    Attributes:
        negative_captions: false captions that it was published with, for each image.
        negative_images: use of each row's hard counterpart: `none`; `pairs`, more pairs of the batch, where the rows
            have counterparts; `mate`, the row's `Batch.mates`, which the function cannot do without.
        units: units of each caption in `Batch.units`, each with its foil; every row then needs one.
        local: whether it reads `Batch.patches` and `Batch.words`: the model must have both.
        joins: whether its pictures are two rows' joined (`data.join`), with captions that name both.
        bias: whether it reads `Batch.bias`: a model that has none then gets one.
    """

    negative_captions: int = 0
    negative_images: Literal["none", "pairs", "mate"] = "none"
    units: int = 0
    local: bool = False
    joins: bool = False
    bias: bool = False


@dataclass(frozen=True, slots=True)
class FusionLoss(Loss):
    """A loss of fusion encoders: its function takes `Matches`.

    Attributes:
        negatives: pairs that each pair is crossed with, if the configuration gives no number.
        wrong_images: whether the function reads `Matches.wrong_images`; if not, no image is crossed with a wrong text's
            image.
        counterparts: whether it reads `Matches.counterparts`; a pair's wrong text and image then come from one pair.
    """

    negatives: int = 1
    wrong_images: bool = True
    counterparts: bool = False


def loss(**needs: Any) -> Callable[[Function], Function]:
    """Declare a function as a loss, and what it needs: fields of `DualLoss` if it takes `batch`, else of `FusionLoss`.

    The function is called as before. Its options are its keyword-only parameters, with types that pydantic checks.

    >>> @loss(negative_captions=2)
    ... def scaled(batch, *, weight: float = 2.0):
    ...     return {"total": batch.scale * weight}
    """

    def declare(function: Function) -> Function:
        _family(function.__name__, function)(function, **needs)
        vars(function)["needs"] = needs
        return function

    return declare


def find_loss(name: str) -> Loss:
    """Return a loss of the catalogue, or of another package's entry point `tellapart.losses`.

    A function without `@loss` gets no negatives but those that the configuration asks for, if it takes `batch`; every
    logit, with one negative a pair, if it takes `matches`.

    >>> find_loss("negclip").negative_captions, find_loss("eqsim").read_options({"k": 4}, "[loss]")["k"]
    (1, 4)
    """
    target = load("loss", name)
    if isinstance(target, Loss):
        return target
    family = _family(name, target)
    return family(target, **vars(target).get("needs", {"counterparts": True} if family is FusionLoss else {}))


def _family(name: str, function: object) -> type[DualLoss | FusionLoss]:
    """Return the family of a function by its parameters."""
    parameters = list(inspect.signature(function).parameters.values()) if inspect.isfunction(function) else []
    first = parameters[0].name if parameters else ""
    if first not in {"batch", "matches"} or any(one.kind is not one.KEYWORD_ONLY for one in parameters[1:]):
        raise DataError(
            f"loss {name!r} is {function!r}, from which no loss can be declared; let its entry point name a function "
            "(batch) that takes a Batch, or (matches) that takes Matches (both of tellapart.training.losses.batch), "
            "with its options after a star: (batch, *, weight: float = 0.5)"
        )
    return DualLoss if first == "batch" else FusionLoss


@cache
def _options_table(function: Callable[..., LossParts]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (Any if parameter.annotation is parameter.empty else parameter.annotation, default)
    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model(function.__name__, __config__=strict, __module__=function.__module__, **fields)


@dataclass(frozen=True, slots=True)
class LossTerm:
    """A loss of a sum with its options, its factor, and the matching head that gives its logits, if not the run's."""

    name: str
    loss: Loss
    options: Mapping[str, Any] = field(default_factory=dict)
    factor: float = 1.0
    reading: str | None = None


def read_terms(table: Mapping[str, Any], where: str = "[loss]") -> tuple[LossTerm, ...]:
    """Return the losses that a table names: the table's loss first, then those of `also`, which are added to it."""

    def read_term(
        name: str, options: Mapping[str, Any], place: str, factor: Any = 1.0, reading: Any = None
    ) -> LossTerm:
        try:
            loss = find_loss(name)
        except UnknownNameError as error:
            raise UnknownNameError(f"{place}: {error}") from error
        return LossTerm(name, loss, loss.read_options(options, f"{place}: {name!r}"), factor, reading)

    if not isinstance(name := table.get("name"), str):
        raise field_fault(where, "name", "is missing; `tellapart ls losses` lists the losses")
    also = table.get("also", {})
    terms = [read_term(name, {key: value for key, value in table.items() if key not in {"name", "also"}}, where)]
    if not isinstance(also, Mapping) or not all(isinstance(values, Mapping) for values in also.values()):
        raise DataError(f"{where}: 'also' holds a table for each loss: [loss.also.itc]")
    for added, values in also.items():
        options = dict(values)
        term = read_term(added, options, f"{where}: also", options.pop("factor", 1.0), options.pop("reading", None))
        place, loss, factor, reading = f"{where}: also.{added}", term.loss, term.factor, term.reading
        matching = isinstance(terms[0].loss, FusionLoss)
        if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 <= factor < float("inf"):
            raise DataError(f"{place}: factor is {factor!r}; give a number that is not below 0")
        if isinstance(loss, FusionLoss) and not matching:
            raise DataError(f"{place}: matches pairs, and {name!r} is contrastive; let [loss] name {added!r}")
        if added == name and reading is None:
            raise DataError(f"{place}: [loss] is that loss already")
        if reading is not None and not (isinstance(reading, str) and isinstance(loss, FusionLoss)):
            raise DataError(f"{place}: reading is {reading!r}; it names a matching head, of a loss that matches")
        if matching and isinstance(loss, DualLoss) and (loss.negative_captions or loss.negative_images == "mate"):
            raise DataError(f"{place}: needs false captions or counterparts, which no fusion encoder's step draws")
        terms.append(term)
    return tuple(terms)


def sum_terms(terms: Sequence[LossTerm], inputs: Sequence[Any]) -> LossParts:
    """Return the sum of losses, each of its `Batch` or `Matches`; added ones' parts are named after the loss."""
    parts = [term.loss(arguments, **term.options) for term, arguments in zip(terms, inputs, strict=True)]
    summed = dict(parts[0])
    total = summed.pop("total")
    for term, more in zip(terms[1:], parts[1:], strict=True):
        total = total + term.factor * more["total"]
        summed |= {f"{term.name}.{name}": term.factor * part for name, part in more.items() if name != "total"}
    return {**summed, "total": total}
