"""The geometry of score bars."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.report.charts import score_bar


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_bar_lies_within_0_and_100_and_spans_its_interval(low, value, high) -> None:
    low, value, high = sorted((low, value, high))
    drawn = ElementTree.fromstring(score_bar(value, low, high))  # noqa: S314  (made here)
    start, width = (float(drawn.find("rect").get(name)) for name in ("x", "width"))
    point = float(drawn.find("line[@class='point']").get("x1"))
    assert 0 <= start <= point <= start + width + 0.02 <= 100.04
    assert width == pytest.approx(100 * (high - low), abs=0.02)
