"""Options that would do nothing: one check, and one sentence that names the option, its value and the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tellapart.errors import RunError, TellapartError


def expect_used(call: str, reason: str, error: type[TellapartError] = RunError, **given: tuple[object, object]) -> None:
    """Refuse options of a call that do nothing.

    >>> try:
    ...     expect_used("mine", "without scorer=MODEL", hard=(3, 8), reading=(None, None))
    ... except RunError as error:
    ...     print(error)
    mine: hard=3 has no effect without scorer=MODEL; leave it out
    """
    for name, (value, default) in given.items():
        if value != default:
            raise error(f"{call}: {name}={value} has no effect {reason}; leave it out")


def expect_kind(kind: str, uses: Mapping[str, Collection[str]], given: Mapping[str, tuple[object, object]]) -> None:
    """Refuse options that a kind does not use, by a table of option -> the kinds that use it; others all kinds use.

    >>> try:
    ...     expect_kind("bars", {"item": ("matrix",)}, {"item": ("3", None), "sort": ("text_score", None)})
    ... except RunError as error:
    ...     print(error)
    bars: item=3 has no effect on bars, but on matrix; leave it out
    """
    for name, values in given.items():
        if name in uses and kind not in uses[name]:
            expect_used(kind, f"on {kind}, but on {', '.join(uses[name])}", RunError, **{name: values})
