"""Score bars of HTML pages."""

from __future__ import annotations

from markupsafe import Markup

# Score bars


def score_bar(value: float, low: float | None = None, high: float | None = None, chance: float | None = None) -> Markup:
    """Draw a fraction, its interval and chance on a bar from 0 to 100."""
    parts = [
        '<svg class="bar" viewBox="-3 0 106 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<line class="track" x1="0" x2="100" y1="6" y2="6"/>'
    ]
    if low is not None and high is not None:
        start, end = _percent_inside(low), _percent_inside(high)
        parts.append(f'<rect class="range" x="{start:g}" y="3.5" width="{end - start:.4g}" height="5"/>')
    if chance is not None:
        x = f"{_percent_inside(chance):g}"
        parts.append(f'<line class="chance" x1="{x}" x2="{x}" y1="0" y2="12"/>')
    x = f"{_percent_inside(value):g}"
    parts.append(f'<line class="point" x1="{x}" x2="{x}" y1="1.5" y2="10.5"/></svg>')
    return Markup("".join(parts))  # noqa: S704  (numbers only)


def _percent_inside(fraction: float) -> float:
    return round(100 * min(1.0, max(0.0, fraction)), 2)
