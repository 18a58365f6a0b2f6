"""Selections see all items, leave some out, and are counted; the fingerprint covers the files that they read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import check_facts, raises
from tellapart import catalog
from tellapart.auditing.audit import audit
from tellapart.builders.pipeline import build
from tellapart.builders.selections import Distinct, PerCluster, Sample, Selection
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError, RunError

CAPTIONS = """image,caption
a.png,a dog on a red bed
a.png,a cat on a blue chair
b.png,a dog on a red bed
b.png,a small bowl on a red table
"""


class Named(Selection):
    """Leave out the ids that a file beside the recipe names."""

    path: str

    def inputs(self, home: Path) -> dict[str, str]:
        return {self.path: (home / self.path).read_text()}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:
        return dict.fromkeys((home / self.path).read_text().split(), f"named, of {len(items)}")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Write a recipe of swapped captions of two pictures, whose selections may be `Named`, too."""
    from PIL import Image

    more = {**catalog.SELECTIONS, "named": f"{__name__}:Named"}
    monkeypatch.setitem(catalog._BUILT_IN, "selection", more)
    catalog._shipped.cache_clear()
    for shade, name in enumerate(("a.png", "b.png")):
        Image.new("RGB", (24, 24), (200 * shade, 90, 40)).save(tmp_path / name)
    (tmp_path / "captions.csv").write_text(CAPTIONS)
    (tmp_path / "named.txt").write_text("")

    def write(chosen: str = "") -> Path:
        path = tmp_path / "recipe.toml"
        path.write_text(
            'name = "few"\nbuilder = "negatives"\n[options]\ncaptions = "captions.csv"\nimages = "."\n'
            f'kinds = ["swap_obj"]\nother_captions = false\n{chosen}'
        )
        return path

    yield write
    catalog._shipped.cache_clear()


def test_selections_work_in_order_and_are_counted_by_name(recipe: Callable[..., Path], tmp_path: Path) -> None:
    whole = read_pair_set(build(recipe(), tmp_path / "whole").folder)
    assert len(whole) == 4
    (tmp_path / "named.txt").write_text(whole.items[0].id)
    named, cluster = (
        '[[selections]]\nname = "named"\npath = "named.txt"\n',
        '[[selections]]\nname = "per_cluster"\nmaximum = 1\n',
    )
    built = build(recipe(named + cluster), tmp_path / "one", workers=2)
    # The first item is gone before the first of its cluster is looked for.
    assert [item.id for item in read_pair_set(built.folder).items] == [whole.items[1].id, whole.items[2].id]
    assert built.funnel.rows()[1:] == [
        ("rejected by named", "named, of 4", 1),
        ("rejected by per_cluster", "more than 1 of one cluster", 1),
        ("items", "", 2),
    ]
    card = json.loads((built.folder / "card.json").read_text())
    assert card["inputs"]["selections[0]: named.txt"] == whole.items[0].id
    assert card["recipe"]["selections"][1] == {"name": "per_cluster", "maximum": 1}
    assert len(list((built.folder / "images").iterdir())) == 2  # no picture of what was left out
    other = read_pair_set(build(recipe(cluster + named), tmp_path / "two").folder)
    assert [item.id for item in other.items] == [whole.items[2].id]
    assert audit(other).items == 1


def test_what_a_selection_reads_is_part_of_the_fingerprint(recipe: Callable[..., Path], tmp_path: Path) -> None:
    path = recipe('[[selections]]\nname = "named"\npath = "named.txt"\n')
    build(path, tmp_path / "set")
    (tmp_path / "named.txt").write_text("other")
    with raises(DataError, "pair set", "another"):
        build(path, tmp_path / "set")
    with raises(DataError, "selection", "'named'", "'other'"):
        build(path, tmp_path / "new")
    (tmp_path / "named.txt").write_text("")
    with raises(RunError, ".new.journal", "recipe"):
        build(path, tmp_path / "new")


def test_nothing_is_written_when_nothing_is_left(recipe: Callable[..., Path], tmp_path: Path) -> None:
    whole = read_pair_set(build(recipe(), tmp_path / "whole").folder)
    (tmp_path / "named.txt").write_text(" ".join(item.id for item in whole.items))
    with raises(DataError, "4", "4", "4"):
        build(recipe('[[selections]]\nname = "named"\npath = "named.txt"\n'), tmp_path / "set")
    assert not (tmp_path / "set").exists()


ITEMS = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("pq")), max_size=12).map(
    lambda drawn: [
        Item(id=str(k), images=(f"{k}.png",), texts=(text, "no"), cluster=cluster)
        for k, (text, cluster) in enumerate(drawn)
    ]
)


@given(ITEMS, st.integers(1, 4))
def test_after_per_cluster_no_cluster_has_more_and_none_has_less_than_it_could(items: list[Item], maximum: int) -> None:
    left_out = PerCluster(maximum=maximum).left_out(items, seed=0, home=Path())
    before = Counter(item.cluster for item in items)
    after = Counter(item.cluster for item in items if item.id not in left_out)
    assert after == Counter({cluster: min(count, maximum) for cluster, count in before.items()})


@given(ITEMS)
def test_after_distinct_every_pair_of_captions_stands_once(items: list[Item]) -> None:
    left_out = Distinct().left_out(items, seed=0, home=Path())
    left = [item.texts for item in items if item.id not in left_out]
    assert len(left) == len(set(left))
    assert set(left) == {item.texts for item in items}
    assert Distinct(images=True).left_out(items, seed=0, home=Path()) == {}


def _items_of(kinds: Mapping[str, int]) -> list[Item]:
    return [
        Item(id=f"{kind}{k}", images=("a.png",), texts=("x", "y"), tags={"kind": kind})
        for kind, count in kinds.items()
        for k in range(count)
    ]


def test_a_sample_has_so_many_items_balanced_over_a_tag_whatever_their_order(caplog: pytest.LogCaptureFixture) -> None:
    items, sample = _items_of({"a": 40, "b": 9, "c": 2}), Sample(number=12, balance="kind")
    left_out = sample.left_out(items, seed=3, home=Path())
    assert Counter(item.tags["kind"] for item in items if item.id not in left_out) == {"a": 5, "b": 5, "c": 2}
    check_facts(caplog.text, "kind", "c (2)")
    assert sample.left_out(items[::-1], seed=3, home=Path()) == left_out
    assert sample.left_out(items, seed=4, home=Path()) != left_out
    assert len(Sample(number=7).left_out(items, seed=3, home=Path())) == 51 - 7
    caplog.clear()
    assert Sample(number=60).left_out(items, seed=3, home=Path()) == {}
    check_facts(caplog.text, "60", "51")
    with raises(DataError, "'a0'", "'type'", "'kind'"):
        Sample(number=2, balance="type").left_out(items, seed=3, home=Path())


def test_a_selection_that_takes_away_a_tags_value_is_named_with_the_values(
    recipe: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = recipe('[[selections]]\nname = "named"\npath = "named.txt"\n')
    path.write_text(path.read_text().replace('"swap_obj"', '"swap_obj", "replace_obj"'))
    whole = read_pair_set(build(path, tmp_path / "whole").folder)
    tag = next(tag for tag in whole.items[0].tags if 1 < len({item.tags[tag] for item in whole.items}) < len(whole))
    value = whole.items[0].tags[tag]
    gone = [item.id for item in whole.items if item.tags[tag] == value]
    (tmp_path / "named.txt").write_text("\n".join(gone))
    assert "leaves no item" not in caplog.text
    build(path, tmp_path / "less")
    check_facts(caplog.text, "selections[0] (named)", tag, value)
