"""A weighted sum of declared losses, as `[loss]` and its tables `[loss.also.NAME]` name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tellapart.errors import DataError, UnknownNameError
from tellapart.training.losses.batch import LossParts
from tellapart.training.losses.loss import DualLoss, FusionLoss, Loss, find_loss


@dataclass(frozen=True, slots=True)
class LossTerm:
    """One loss of a sum.

    Attributes:
        name: of the loss.
        loss: its declaration.
        options: as the loss takes them; None if it has none.
        factor: that its parts are multiplied by.
        reading: the matching head that gives its logits; None for the one that `reading` of the run names.

    >>> read_terms({"name": "itm", "also": {"eqsim": {"k": 4, "factor": 0.5}}})[1].factor
    0.5
    """

    name: str
    loss: Loss
    options: Any = None
    factor: float = 1.0
    reading: str | None = None


def read_terms(table: Mapping[str, Any], where: str = "[loss]") -> tuple[LossTerm, ...]:
    """Return the losses that a table names: the table's loss first, then those of `also`, which are added to it.

    A loss of matching may have any loss added to it, a contrastive one then taking the unimodal vectors; a contrastive
    loss may have contrastive ones.

    Args:
        table: the loss's `name`, its options, and `also`: name -> options, `factor` and `reading`.
        where: the place that an error names.

    Raises:
        DataError: a name is missing, a loss has no such option, or the losses cannot be added.
        UnknownNameError: no such loss.
        ModelError: an option is out of range.

    >>> [term.name for term in read_terms({"name": "itm", "also": {"eqsim": {}}})]
    ['itm', 'eqsim']
    """
    options = loss_options(table, where)
    terms = [LossTerm(str(table["name"]), find_loss(str(table["name"])), options)]
    also = table.get("also", {})
    if not isinstance(also, Mapping) or not all(isinstance(values, Mapping) for values in also.values()):
        raise DataError(f"{where}: 'also' holds a table for each loss: [loss.also.itc]")
    for name, values in also.items():
        place = f"{where}: also"
        own = {key: value for key, value in values.items() if key not in {"factor", "reading"}}
        options = loss_options({"name": name, **own}, place)
        loss, factor, reading = find_loss(name), values.get("factor", 1.0), values.get("reading")
        if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 <= factor < float("inf"):
            raise DataError(f"{place}.{name}: factor is {factor!r}; give a number that is not below 0")
        _check_term(terms[0], name, loss, reading, place)
        terms.append(LossTerm(name, loss, options, float(factor), reading))
    return tuple(terms)


def _check_term(first: LossTerm, name: str, loss: Loss, reading: object, place: str) -> None:
    matching = isinstance(first.loss, FusionLoss)
    if isinstance(loss, FusionLoss) and not matching:
        raise DataError(f"{place}.{name}: matches pairs, and {first.name!r} is contrastive; let [loss] name {name!r}")
    if name == first.name and reading is None:
        raise DataError(f"{place}.{name}: [loss] is that loss already")
    if reading is not None and not (isinstance(reading, str) and isinstance(loss, FusionLoss)):
        raise DataError(f"{place}.{name}: reading is {reading!r}; it names a matching head, of a loss that matches")
    if matching and isinstance(loss, DualLoss) and (loss.negative_captions or loss.negative_images == "mate"):
        raise DataError(f"{place}.{name}: needs false captions or counterparts, which no fusion encoder's step draws")


def loss_options(table: Mapping[str, Any], place: str = "[loss]") -> Any:
    """Return a loss's options as it takes them, or None if it takes none.

    Args:
        table: the loss's `name`, and options; `also` is left out.
        place: the place that an error names.

    Raises:
        DataError: the name is missing, or the loss has no such option.
        UnknownNameError: no such loss.
        ModelError: an option is out of range.

    >>> loss_options({"name": "eqsim", "k": 4}).k
    4
    """
    name = table.get("name")
    if not isinstance(name, str):
        raise DataError(f"{place}: key 'name' is missing; `tellapart ls losses` lists the losses")
    options = {key: value for key, value in table.items() if key not in {"name", "also"}}
    try:
        loss = find_loss(name)
    except UnknownNameError as error:
        raise UnknownNameError(f"{place}: {error}") from error
    return loss.read_options(options, f"{place}: {name!r}")


def sum_terms(terms: Sequence[LossTerm], parts: Sequence[LossParts]) -> LossParts:
    """Return the weighted sum of losses: the first one's parts by their names, the others' with the loss's before them.

    >>> import torch
    >>> terms = read_terms({"name": "itm", "also": {"itc": {"factor": 0.5}}})
    >>> one, two = ({"a": torch.tensor(value), "total": torch.tensor(value)} for value in (1.0, 4.0))
    >>> {name: part.item() for name, part in sum_terms(terms, [one, two]).items()}
    {'a': 1.0, 'itc.a': 2.0, 'total': 3.0}
    """
    summed = dict(parts[0])
    total = summed.pop("total") * terms[0].factor
    for term, more in zip(terms[1:], parts[1:], strict=True):
        total = total + term.factor * more["total"]
        summed |= {f"{term.name}.{name}": term.factor * part for name, part in more.items() if name != "total"}
    return {**summed, "total": total}
