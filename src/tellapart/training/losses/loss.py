"""Losses as declarations: a function, its options, the inputs that a training step must give it, and its presets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from tellapart.catalog import load, nearest
from tellapart.errors import DataError, ModelError
from tellapart.training.losses.batch import LossParts
from tellapart.training.losses.preset import Preset

if TYPE_CHECKING:
    from tellapart.training.losses.batch import Batch
    from tellapart.training.losses.matches import Matches


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of either family; calling it calls its function.

    Attributes:
        function: takes a `Batch` (`DualLoss`) or `Matches` (`FusionLoss`), then its options if it has any; returns
            scalar parts by name, and their sum as `total`.
        options: the dataclass of its options, each with a default (`LossOptions` has bounds, too); None if it has none.
        presets: names of `preset` in a configuration, and their values.
        idle_reason: why a term may be 0 at every step, and what to do, in words; empty if none is known.
        revision: counts up when the numbers of the same options change: a run that was stopped before is then another.

    >>> find_loss("eqsim").read_options({"k": 4}, "[loss]").k
    4
    """

    function: Callable[..., LossParts]
    options: type[Any] | None = None
    presets: Mapping[str, Preset] = field(default_factory=dict, kw_only=True, compare=False)
    idle_reason: str = field(default="", kw_only=True, compare=False)
    revision: int = field(default=1, kw_only=True)

    def __call__(self, inputs: Batch | Matches, options: object = None) -> LossParts:
        """Return the parts of the loss of a `Batch` or of `Matches`, with options or the defaults."""
        return self.function(inputs) if options is None else self.function(inputs, options)

    def read_options(self, values: Mapping[str, Any], place: str) -> Any:
        """Return the options with some values set; None if the loss has none.

        Raises:
            DataError: the loss has no such option, or a value has the wrong type.
            ModelError: a value is out of range.
        """
        known = [] if self.options is None else [one.name for one in fields(self.options)]
        for key in values:
            if key not in known:
                listed = f"its options are {', '.join(known)}" if known else "it has none"
                raise DataError(f"{place} has no option {key!r}{nearest(key, known) or ';'} {listed}")
        try:
            return None if self.options is None else self.options(**values)
        except TypeError as wrong:
            raise DataError(f"{place}: an option has the wrong type: {wrong}") from wrong
        except ModelError as wrong:
            raise ModelError(f"{place}: {wrong}") from wrong


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

    >>> find_loss("negclip").negative_captions, find_loss("trohn-img").negative_images
    (1, 'mate')
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

    >>> find_loss("ranking").negatives, find_loss("eqsim-itm").counterparts
    (15, True)
    """

    negatives: int = 1
    wrong_images: bool = True
    counterparts: bool = False


def find_loss(name: str) -> Loss:
    """Return a loss of the catalogue, or of another package's entry point `tellapart.losses`.

    Raises:
        UnknownNameError: no such loss.
        DataError: the entry point names something else.

    >>> import torch
    >>> from tellapart.training.losses.batch import Batch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4))
    >>> round(find_loss("itc")(batch)["total"].item(), 4)  # the logarithm of 4
    1.3863
    """
    loss = load("loss", name)
    return loss if isinstance(loss, Loss) else declare(name, loss)


def declare(name: str, function: Callable[..., LossParts]) -> Loss:
    """Declare a plain function: `batch` as its first parameter makes a `DualLoss`, `matches` a `FusionLoss`.

    A second parameter, `options`, must have a dataclass as its default. Of negatives, a dual encoder's loss then gets
    as the configuration asks; a fusion encoder's gets every logit, with one negative a pair.

    Raises:
        DataError: the function's parameters are others.

    >>> def scaled(batch):
    ...     return {"total": batch.scale * 2}
    >>> declare("scaled", scaled).negative_captions
    0
    """
    parameters = list(inspect.signature(function).parameters.values()) if inspect.isfunction(function) else []
    match [parameter.name for parameter in parameters]:
        case ["batch" | "matches"]:
            options = None
        case ["batch" | "matches", "options"] if is_dataclass(parameters[1].default):
            options = type(parameters[1].default)
        case _:
            raise DataError(
                f"loss {name!r} is {function!r}, from which no loss can be declared; let its entry point name "
                "DualLoss(function) if the function takes a Batch, FusionLoss(function) if it takes Matches (both of "
                "tellapart.training.losses.loss), or a function (batch) or (matches), with options=Options() if it has "
                "any"
            )
    if parameters[0].name == "batch":
        return DualLoss(function, options)
    return FusionLoss(function, options, counterparts=True)
