"""Options of losses: dataclasses whose fields have defaults and bounds, checked on construction."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from tellapart.catalog import nearest
from tellapart.errors import ModelError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a number.

    Attributes:
        least: the lowest value.
        below: the limit that values stay under; None for no limit.
        also: single values outside of the range that are allowed as well.
        whole: whether values are integers.

    >>> str(Bounds(least=1.0, also=(0,))), str(Bounds(below=1.0))
    ('0 or at least 1', 'at least 0 and below 1')
    """

    least: float = 0.0
    below: float | None = None
    also: tuple[float | None, ...] = ()
    whole: bool = False

    def __str__(self) -> str:
        also = "".join(f"{value} or " for value in self.also)
        return f"{also}at least {self.least:g}" + ("" if self.below is None else f" and below {self.below:g}")

    def holds(self, value: float | None) -> bool:
        """Return whether a value lies in the range.

        Raises:
            TypeError: it is not a number.

        >>> Bounds(below=1.0).holds(1.0)
        False
        """
        if value in self.also:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")
        if self.whole and not isinstance(value, int):
            return False
        return self.least <= value < (float("inf") if self.below is None else self.below)


def number(
    default: float | None, *, least: float = 0.0, below: float | None = None, also: tuple[float | None, ...] = ()
) -> Any:
    """Return a field of `LossOptions` that holds a number, with its bounds.

    >>> @dataclass(frozen=True)
    ... class Weight(LossOptions):
    ...     weight: float = number(0.5)
    >>> Weight()
    Weight(weight=0.5)
    >>> Weight(weight=-1.0)
    Traceback (most recent call last):
    tellapart.errors.ModelError: Weight(weight=-1.0): weight must be at least 0, a finite number
    """
    return field(default=default, metadata={"bounds": Bounds(least, below, also, isinstance(default, int))})


def one_of(default: str, known: tuple[str, ...]) -> Any:
    """Return a field of `LossOptions` that holds one of several words.

    >>> @dataclass(frozen=True)
    ... class Side(LossOptions):
    ...     side: str = one_of("left", ("left", "right"))
    >>> Side()
    Side(side='left')
    """
    return field(default=default, metadata={"known": known})


@dataclass(frozen=True, slots=True)
class LossOptions:
    """The options of a loss, each with a default.

    Raises:
        ModelError: a number lies outside of its field's bounds.
        UnknownNameError: a word is not one of those that its field allows.
        TypeError: a field of numbers gets another value.

    >>> from tellapart.training.losses.cs_clip import CsClip
    >>> {name: str(bounds) for name, bounds in CsClip.bounds().items()}
    {'weight': 'at least 0'}
    """

    def __post_init__(self) -> None:
        for name, bounds in self.bounds().items():
            value = getattr(self, name)
            if not bounds.holds(value):
                raise ModelError(
                    f"{type(self).__name__}({name}={value!r}): {name} must be {bounds}, "
                    f"a {'whole' if bounds.whole else 'finite'} number"
                )
        for one in fields(self):
            value, known = getattr(self, one.name), one.metadata.get("known")
            if known is not None and value not in known:
                hint = nearest(str(value), known)
                raise UnknownNameError(
                    f"{type(self).__name__}({one.name}={value!r}) is unknown{hint}; use one of {', '.join(known)}"
                )

    @classmethod
    def bounds(cls) -> dict[str, Bounds]:
        """Return the bounds of each field that holds a number.

        >>> LossOptions.bounds()
        {}
        """
        return {one.name: one.metadata["bounds"] for one in fields(cls) if "bounds" in one.metadata}
