"""Tables of metrics: over all items, by tag, and the unweighted mean of a tag's values."""

from __future__ import annotations

import numpy as np
import pytest

from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import tabulate


def test_a_tag_of_one_value_has_no_macro_mean() -> None:
    right = PerItem(name="accuracy", strict=np.array([1.0, 0.0, 1.0, 1.0]), chance=0.5, binary=True)
    tags = [{"type": kind, "set": "all"} for kind in ("swap", "swap", "swap", "add")]
    table = tabulate([right], list("abcd"), tags)
    assert set(table.by) == {"set", "type"} and set(table.macro) == {"type"}
    assert table.macro["type"].metrics["accuracy"].value == pytest.approx((2 / 3 + 1) / 2)


def test_the_macro_mean_of_a_ratio_is_over_the_ratios_of_the_values() -> None:
    # Components: hits and claims; three components would hide a mistake of axes, as would as many items as components.
    strict = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    ratio = PerItem(name="precision", strict=strict, binary=True, reduce=lambda means: means[..., 0] / means[..., 1])
    table = tabulate([ratio], list("abcde"), [{"kind": kind} for kind in ("x", "x", "x", "y", "y")])
    assert {name: part.metrics["precision"].value for name, part in table.by["kind"].items()} == {"x": 0.5, "y": 0.5}
    assert table.macro["kind"].metrics["precision"].value == pytest.approx(0.5)
    assert table.metrics["precision"].value == pytest.approx(0.5)
