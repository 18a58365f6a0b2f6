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


def test_a_part_of_items_that_depend_on_each_other_is_measured_again() -> None:
    values = np.array([1.0, 2.0, 6.0, 7.0, 9.0])

    def among(mask: np.ndarray) -> PerItem | None:
        own = values[mask]
        if len(own) < 2:
            return None
        return PerItem(
            name="rise", strict=own - own.min(), chance=float(len(own)), touched=own == own.max(), among=among
        )

    whole = among(np.ones(5, dtype=bool))
    assert whole is not None
    table = tabulate([whole], list("aabbc"), [{"kind": kind} for kind in "xxyyz"])
    assert (table.metrics["rise"].value, table.metrics["rise"].chance, table.metrics["rise"].ties) == (4.0, 5.0, 1)
    of_kind = {name: part.metrics["rise"].value for name, part in table.by["kind"].items() if part.metrics}
    assert of_kind == {"x": 0.5, "y": 0.5}  # not 0.5 and 5.5, the means of their values among all
    assert "rise" not in table.macro["kind"].metrics  # it is not defined for z
    fewer = among(np.ones(5, dtype=bool))
    assert fewer is not None
    four = tabulate([fewer], list("aabbc"), [{"kind": kind} for kind in "xxyyy"]).macro["kind"].metrics["rise"]
    assert (four.value, four.chance, four.n, four.clusters, four.ties) == (
        pytest.approx((0.5 + 4 / 3) / 2),
        2.5,
        5,
        3,
        2,
    )
    assert four.tie_neutral is None


def test_a_macro_mean_of_components_lays_out_each_values_items() -> None:
    strict = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 4.0], [1.0, 4.0]])
    one = PerItem(
        name="ratio",
        strict=strict,
        neutral=strict * 2,
        official=strict * 3,
        reduce=lambda means: means[..., 0] / means[..., 1],
    )
    table = tabulate([one], list("abcd"), [{"kind": kind} for kind in "xyxy"])
    assert table.by["kind"]["x"].metrics["ratio"].value == pytest.approx(1.0)
    assert table.macro["kind"].metrics["ratio"].value == pytest.approx((1.0 + 4 / 6) / 2)
    assert table.macro["kind"].metrics["ratio"].ties == 4
