"""Two hidden benchmarks of one board share no item: a label private in one would be public in the other."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from facts import raises
from tellapart.board.submissions.hidden import HiddenBenchmark, HiddenSettings, SubmissionSettings
from tellapart.board.submissions.service import Submissions
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError

MakeSet = Callable[..., Path]


def settings(folder: Path, *hidden: dict[str, Any]) -> HiddenSettings:
    return HiddenSettings(
        submissions=SubmissionSettings(state=folder / "state", spare_bytes=0),
        hidden=tuple(HiddenBenchmark(**{"largest_share": 1000.0, **one}) for one in hidden),
    )


def again(source: Path, target: Path, *, kept: int) -> Path:
    """Write the last items of a set under other names, in another order and as other files of the same pixels."""
    found, images, items = read_pair_set(source), {}, []
    for k, item in reversed([*enumerate(found.items)][-kept:]):
        names = tuple(f"images/shot{k}{side}.webp" for side in range(len(item.images)))
        for name, reference in zip(names, item.images, strict=True):
            stream = io.BytesIO()
            Image.open(io.BytesIO(found.read_bytes(reference))).save(stream, "WEBP", lossless=True)
            images[name] = stream.getvalue()
        items.append(Item(id=f"x{k}", images=names, texts=tuple(f"{text.upper()} !" for text in item.texts)))
    write_pair_set(target, items, images, {"title": "Other", "licence": "CC0"})
    return target


@pytest.mark.parametrize("protocol", ["scores", "answers"])
def test_a_second_benchmark_of_one_set_is_refused(tmp_path: Path, made_set: MakeSet, protocol: str) -> None:
    pairs = made_set("clocks", n=24)
    first, second = {"name": "clocks", "pairs": pairs}, {"name": "watches", "pairs": pairs, "protocol": protocol}
    with raises(DataError, "'watches'", "24 of its 24", "'clocks'", str(tmp_path / "state" / "hidden" / "clocks")):
        Submissions(settings(tmp_path, first, second))
    assert [path.name for path in (tmp_path / "state" / "hidden").iterdir()] == ["clocks"]  # no draft is left
    assert Submissions(settings(tmp_path, first)).prepared.keys() == {"clocks"}
    with raises(DataError, "'watches'", "'clocks'"):  # renamed: files of the old name gave numbers of another split
        Submissions(settings(tmp_path, second))


def test_some_items_under_other_names_are_refused_too(tmp_path: Path, made_set: MakeSet) -> None:
    pairs = made_set("clocks", n=24)
    other = again(pairs, tmp_path / "other", kept=9)
    with raises(DataError, "'other'", "9 of its 9"):
        Submissions(settings(tmp_path, {"name": "clocks", "pairs": pairs}, {"name": "other", "pairs": other}))


def test_sets_that_share_captions_or_pictures_alone_are_taken(tmp_path: Path, made_set: MakeSet) -> None:
    pairs = made_set("clocks", n=24)
    found = read_pair_set(pairs)
    items = [
        Item(id=item.id, images=item.images, texts=tuple(f"no {text}" for text in item.texts)) for item in found.items
    ]
    images = {reference: found.read_bytes(reference) for item in items for reference in item.images}
    write_pair_set(tmp_path / "other", items, images, {"title": "Other", "licence": "CC0"})
    hidden = [{"name": name, "pairs": folder} for name, folder in (("clocks", pairs), ("other", tmp_path / "other"))]
    assert len(Submissions(settings(tmp_path, *hidden)).prepared) == 2
