"""An item takes what the format says; a pair set holds one shape, names lines, and has a fingerprint of its content."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from facts import raises
from pictures import encoded, noise
from sets import put, record
from tellapart.data.folder import read_pair_set
from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet
from tellapart.errors import DataError


def hash_of(reference: str) -> str:
    """Stands for the hash of an image's pixels."""
    return reference.rpartition("/")[2]


Content = tuple[str, tuple[str, ...], tuple[str, ...]]


def made(*contents: Content) -> PairSet:
    return PairSet("s", tuple(Item(id=i, images=images, texts=texts) for i, images, texts in contents), Path())


letters = st.text("ab12\0", min_size=1, max_size=3)
contents = st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
    lambda shape: st.lists(
        st.tuples(letters, st.tuples(*[letters] * shape[0]), st.tuples(*[letters] * shape[1])),
        min_size=1,
        max_size=3,
        unique_by=lambda content: content[0],
    )
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", ("h",), ("xy", "z"))], [("a", ("h",), ("x", "yz"))]),
        ([("a1", ("h",), ("x",))], [("a", ("1h",), ("x",))]),
        ([("a", ("h", "3", "x"), ("y",))], [("a", ("h",), ("x", "1", "y"))]),
        ([("a", ("h", "x"), ("y",))], [("a", ("h",), ("x", "y"))]),
        ([("a", ("h",), ("x", "1", "g"))], [("a", ("h",), ("x",)), ("1", ("g",), ("x",))]),
        ([("a", ("h",), ("x\0y", "z"))], [("a", ("h",), ("x", "y\0z"))]),
        ([("a", ("h",), ("x",)), ("b", ("h",), ("y",))], [("a", ("h",), ("y",)), ("b", ("h",), ("x",))]),
        ([("a", ("h", "g"), ("x", "y"))], [("a", ("g", "h"), ("x", "y"))]),
        ([("a", ("h", "g"), ("x", "y"))], [("a", ("h", "g"), ("y", "x"))]),
        ([("a", ("h",), ("\u00e9",))], [("a", ("h",), ("e\u0301",))]),
        ([("a", ("h",), ("x",))], [("a", ("h",), ("x ",))]),
    ],
)
def test_content_that_reads_alike_when_run_together_has_another_fingerprint(one, other):
    assert made(*one).fingerprint(hash_of) != made(*other).fingerprint(hash_of)


@given(contents, st.randoms())
def test_the_order_of_the_items_changes_no_fingerprint(content, chance):
    shuffled = chance.sample(content, len(content))
    assume(shuffled != content)
    assert made(*shuffled).fingerprint(hash_of) == made(*content).fingerprint(hash_of)


def test_a_fingerprint_is_of_pixels_not_of_files_names_tags_or_places(tmp_path):
    prints = set()
    for suffix in ("png", "webp", "npy"):
        references = [f"{suffix}/{k}.{suffix}" for k in range(2)]
        images = {reference: encoded(noise(seed=k), suffix) for k, reference in enumerate(references)}
        row = record(images=references, tags={"format": suffix}, cluster=suffix, provenance={"by": suffix})
        pairs = read_pair_set(put(tmp_path / suffix, [row], images=images))
        known = {reference: pixel_hash(pairs.pixels(reference)) for reference in references}
        prints |= {pairs.fingerprint(), pairs.fingerprint(known.__getitem__)}
    assert len(prints) == 1
    changed = noise(seed=1)
    changed[0, 0, 0] ^= 1
    images = {"images/0.png": encoded(noise(seed=0)), "images/1.png": encoded(changed)}
    assert read_pair_set(put(tmp_path / "changed", [record()], images=images)).fingerprint() not in prints


def test_selecting_keeps_order_card_and_lines(folder):
    pairs = read_pair_set(folder([record(id=name) for name in "abc"]))
    chosen = pairs.select([2, 0])
    assert [item.id for item in chosen.items] == ["c", "a"]
    assert (chosen.card, chosen.lines, chosen.root, chosen.name) == (pairs.card, pairs.lines, pairs.root, pairs.name)
    with raises(DataError, "items"):
        pairs.select([])


def test_an_outline_carries_what_measuring_needs_and_selects_alike():
    items = tuple(
        Item(id=name, images=("0.png",), texts=("x", "y"), cluster=cluster, tags={"type": name.upper()})
        for name, cluster in (("a", "v"), ("b", ""), ("c", "v"))
    )
    pairs, tags = PairSet("s", items, Path()), tuple({"type": letter} for letter in "ABC")
    assert pairs.outline == Outline(("a", "b", "c"), (1, 2), ("v", "b", "v"), tags)
    assert pairs.outline.select([2, 1]) == pairs.select([2, 1]).outline


def test_a_missing_damaged_or_unreadable_image_is_named_by_line_and_field(folder, monkeypatch):
    rows = [record(), record(id="b", images=["images/1.png", "images/2.png"])]
    home = folder(rows, images={f"images/{k}.png": b"" for k in range(3)})
    pairs = read_pair_set(home)
    at = (f"{home}/pairs.jsonl:2", "'images[1]'")
    with raises(DataError, at, "images/2.png", "empty"):
        pairs.pixels("images/2.png")
    with raises(DataError, f"{home}/pairs.jsonl:1", "'images[1]'", "images/1.png"):
        pairs.fingerprint(lambda reference: reference if reference == "images/0.png" else str(pairs.pixels(reference)))
    (home / "images/2.png").unlink()
    with raises(DataError, at, "'images/2.png'", home):
        pairs.pixels("images/2.png")
    assert pairs.where("other.png") == "clocks: other.png"
    with raises(DataError, at, "image"):
        replace(pairs, name="renamed").read_bytes("images/2.png")

    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with raises(DataError, f"{home}/pairs.jsonl:1", "'images[0]'", "Permission denied"):
        pairs.read_bytes("images/0.png")


GOOD: dict[str, Any] = {"id": "a", "images": ["0.png"], "texts": ["x", "y"]}


def test_an_item_takes_lists_for_tuples_stands_for_itself_has_no_empty_tag_and_cannot_be_changed():
    item = Item.model_validate(GOOD)
    assert (item.images, item.texts, item.cluster) == (("0.png",), ("x", "y"), "a")
    assert Item(**GOOD, cluster=" ").cluster == "a"  # as a spreadsheet's cell without content: no cluster of them all
    changed = Item(**GOOD, cluster="video-7", tags={"kind": "", "side": " ", "type": "swap"})
    assert (changed.cluster, changed.tags) == ("video-7", {"type": "swap"})
    with pytest.raises(ValidationError, match="frozen"):
        item.id = "b"
    for changes, place in (({"texts": ("a \ud800 cat",)}, "texts.0"), ({"provenance": {"s": object()}}, "provenance")):
        with pytest.raises(ValidationError) as caught:
            Item(**{**GOOD, **changes})
        places = [".".join(map(str, problem["loc"])) for problem in caught.value.errors()]
        assert any(each.startswith(place) for each in places), places


def test_the_links_of_a_folder_are_followed_once_for_all_of_its_images(tmp_path, monkeypatch):
    names, followed, follow = [f"{k}.png" for k in range(4)], [], os.path.realpath
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    pairs = PairSet("set", (Item(id="a", images=tuple(names), texts=("a", "b", "c", "d")),), tmp_path)
    monkeypatch.setattr("os.path.realpath", lambda path: (followed.append(path), follow(path))[1])
    assert [pairs.read_bytes(name).decode() for name in names] == names
    assert followed == [tmp_path, tmp_path]
