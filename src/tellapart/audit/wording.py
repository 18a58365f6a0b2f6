"""How an audit's numbers are written, the same in the terminal and on the card."""

from __future__ import annotations

from tellapart.audit.finding import Finding

__all__ = ["interval", "value"]


def value(finding: Finding) -> str:
    """Write a finding's number with its unit.

    >>> value(Finding(name="a", title="b", value=0.125, unit="share", n=8, threshold="", verdict="pass", says=""))
    '12.50 %'
    """
    if finding.unit == "items":
        return f"{finding.value:,.0f} items"
    return _number(finding, finding.value) + (" %" if finding.unit == "share" else f" {finding.unit}")


def interval(finding: Finding) -> str:
    """Write its interval; nothing where none can be had.

    >>> fields = {"name": "a", "title": "b", "value": 0.5, "unit": "share", "n": 8, "threshold": "", "says": ""}
    >>> interval(Finding(**fields, verdict="pass", low=0.25, high=0.75))
    '[25.00, 75.00]'
    """
    if finding.low is None or finding.high is None:
        return ""
    return f"[{_number(finding, finding.low)}, {_number(finding, finding.high)}]"


def _number(finding: Finding, number: float) -> str:
    # Without the sign of a zero that was rounded down to.
    return f"{100 * number if finding.unit == 'share' else number:.2f}".replace("-0.00", "0.00")
