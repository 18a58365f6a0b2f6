"""A weighted sum of declared losses, as `[loss]` and its tables `[loss.also.NAME]` name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tellapart.errors import DataError, UnknownNameError
from tellapart.training.losses.batch import LossParts
from tellapart.training.losses.loss import DualLoss, FusionLoss, Loss, find_loss


@dataclass(frozen=True, slots=True)
class LossTerm:
    """One loss of a sum, with all of its options, and a factor that its parts are multiplied by.

    `reading` is the matching head that gives its logits; None for the one that `reading` of the run names.
    """

    name: str
    loss: Loss
    options: Mapping[str, Any] = field(default_factory=dict)
    factor: float = 1.0
    reading: str | None = None


def read_terms(table: Mapping[str, Any], where: str = "[loss]") -> tuple[LossTerm, ...]:
    """Return the losses that a table names: the table's loss first, then those of `also`, which are added to it.

    A loss of matching may have any loss added to it, a contrastive one then taking the unimodal vectors; a contrastive
    loss may have contrastive ones.
    """
    options, also = dict(table), table.get("also", {})
    if not isinstance(name := options.pop("name", None), str):
        raise DataError(f"{where}: key 'name' is missing; `tellapart ls losses` lists the losses")
    options.pop("also", None)
    terms = [_read_term(name, options, where)]
    if not isinstance(also, Mapping) or not all(isinstance(values, Mapping) for values in also.values()):
        raise DataError(f"{where}: 'also' holds a table for each loss: [loss.also.itc]")
    for added, values in also.items():
        options = dict(values)
        factor, reading = options.pop("factor", 1.0), options.pop("reading", None)
        term = _read_term(added, options, f"{where}: also", factor, reading)
        _check_term(terms[0], term, f"{where}: also.{added}")
        terms.append(term)
    return tuple(terms)


def _read_term(name: str, options: Mapping[str, Any], place: str, factor: Any = 1.0, reading: Any = None) -> LossTerm:
    try:
        loss = find_loss(name)
    except UnknownNameError as error:
        raise UnknownNameError(f"{place}: {error}") from error
    return LossTerm(name, loss, loss.read_options(options, f"{place}: {name!r}"), factor, reading)


def _check_term(first: LossTerm, term: LossTerm, place: str) -> None:
    matching, loss, reading = isinstance(first.loss, FusionLoss), term.loss, term.reading
    if not isinstance(term.factor, int | float) or isinstance(term.factor, bool) or not 0 <= term.factor < float("inf"):
        raise DataError(f"{place}: factor is {term.factor!r}; give a number that is not below 0")
    if isinstance(loss, FusionLoss) and not matching:
        raise DataError(f"{place}: matches pairs, and {first.name!r} is contrastive; let [loss] name {term.name!r}")
    if term.name == first.name and reading is None:
        raise DataError(f"{place}: [loss] is that loss already")
    if reading is not None and not (isinstance(reading, str) and isinstance(loss, FusionLoss)):
        raise DataError(f"{place}: reading is {reading!r}; it names a matching head, of a loss that matches")
    if matching and isinstance(loss, DualLoss) and (loss.negative_captions or loss.negative_images == "mate"):
        raise DataError(f"{place}: needs false captions or counterparts, which no fusion encoder's step draws")


def sum_terms(terms: Sequence[LossTerm], parts: Sequence[LossParts]) -> LossParts:
    """Return the weighted sum of losses: the first one's parts by name, the others' after the loss's name."""
    summed = dict(parts[0])
    total = summed.pop("total")
    for term, more in zip(terms[1:], parts[1:], strict=True):
        total = total + term.factor * more["total"]
        summed |= {f"{term.name}.{name}": term.factor * part for name, part in more.items() if name != "total"}
    return {**summed, "total": total}
