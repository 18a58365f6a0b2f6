"""Tables of metrics: over all items, by tag, and the unweighted mean of a tag's values."""

import numpy as np
import pytest

from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import tabulate


def test_a_tag_of_one_value_has_no_macro_mean():
    right = PerItem(name="accuracy", strict=np.array([1.0, 0.0, 1.0, 1.0]), chance=0.5, binary=True)
    tags = [{"type": kind, "set": "all"} for kind in ("swap", "swap", "swap", "add")]
    table = tabulate([right], list("abcd"), tags)
    assert set(table.by) == {"set", "type"} and set(table.macro) == {"type"}
    assert table.macro["type"].metrics["accuracy"].value == pytest.approx((2 / 3 + 1) / 2)


def test_the_macro_mean_of_a_ratio_is_over_the_ratios_of_the_values():
    # Components: hits and claims; three components would hide a mistake of axes, as would as many items as components.
    strict = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    ratio = PerItem(name="precision", strict=strict, binary=True, reduce=lambda means: means[..., 0] / means[..., 1])
    table = tabulate([ratio], list("abcde"), [{"kind": kind} for kind in ("x", "x", "x", "y", "y")])
    assert {name: part.metrics["precision"].value for name, part in table.by["kind"].items()} == {"x": 0.5, "y": 0.5}
    assert table.macro["kind"].metrics["precision"].value == pytest.approx(0.5)
    assert table.metrics["precision"].value == pytest.approx(0.5)


def test_a_part_of_items_that_depend_on_each_other_is_measured_again():
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


def test_a_macro_mean_of_components_lays_out_each_values_items():
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


def test_a_mean_of_items_in_clusters_says_how_many_independent_items_it_is_worth():
    right = np.array([1.0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0])
    one = PerItem(name="accuracy", strict=right, binary=True)
    pairs = PerItem(name="least", strict=np.stack([right, right], axis=1), reduce=lambda means: means.min(axis=-1))
    tags = [{"kind": kind} for kind in "xxxxyyyyxxyy"]
    table = tabulate([one, pairs], list("aaaabbbbcccc"), tags)
    assert table.metrics["accuracy"].effective == pytest.approx(3.2727, abs=1e-3)
    assert table.metrics["least"].effective is None
    assert table.macro["kind"].metrics["accuracy"].effective is None
    alone = tabulate([one], list("abcdefghijkl"), tags).metrics["accuracy"]
    assert (alone.effective, alone.reason) == (None, None)
    few = tabulate([PerItem(name="depth", strict=right)], list("aaaabbbbcccc"), tags).metrics["depth"]
    assert few.low is None and few.reason is not None and "3 clusters" in few.reason


@pytest.mark.parametrize("groups", ["aaaaaa", "aabbbb"])
def test_a_mean_over_its_groups_stands_beside_means_over_items(groups):
    right = np.array([1.0, 1, 1, 0, 0, 0])
    grouped = PerItem(name="by_group", strict=right, binary=True, groups=groups)
    table = tabulate([grouped, PerItem(name="accuracy", strict=right, binary=True)], list("uvwxyz"), [{}] * 6)
    assert table.metrics["by_group"].value == pytest.approx(
        np.mean([right[[g == own for g in groups]].mean() for own in {*groups}])
    )
    assert table.metrics["accuracy"].value == 0.5
    assert tabulate([grouped], list("uvwxyz"), [{}] * 6).metrics == {"by_group": table.metrics["by_group"]}


def test_a_tag_of_more_than_64_values_is_no_breakdown_and_draws_start_from_0():
    one = PerItem(name="depth", strict=np.random.default_rng(0).normal(size=130))
    tags = [{"name": str(k % 65), "part": str(k % 64)} for k in range(130)]
    table = tabulate([one], list(map(str, range(130))), tags)
    assert set(table.by) == {"part"}
    assert table.metrics == tabulate([one], list(map(str, range(130))), [{}] * 130, seed=0).metrics


def test_progress_counts_the_items_of_every_average():
    one = PerItem(name="depth", strict=np.random.default_rng(0).normal(size=60))
    seen: list[tuple[str, int, int]] = []
    tags = [{"kind": "ab"[k % 2]} for k in range(60)]
    tabulate([one], list(map(str, range(60))), tags, progress=lambda *state: seen.append(state))
    assert seen == [("intervals", done, 180) for done in (0, 60, 90, 120)]
