"""However an annotation file is damaged: the pairs as published, or one clear error, never another benchmark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.item import Item
from tellapart.errors import DataError

Published = Callable[[str], Path]

#: Benchmark, folder of its published files, and the file that is damaged.
FILES = [
    ("valse", "valse", "coreference-hard.json"),
    ("sugarcrepe", "sugarcrepe/data", "swap_obj.json"),
    ("bivlc", "bivlc", "BiVLC_CLIP_COCO.csv"),
    ("coco-counterfactuals", "coco_counterfactuals", "metadata.jsonl"),
]


@pytest.fixture(params=FILES, ids=lambda each: each[0])
def damaged(request: pytest.FixtureRequest, published: Published, tmp_path: Path) -> tuple[str, Path, tuple[Item, ...]]:
    """Copy a benchmark's files; return its name, the file to damage, and its items before."""
    name, folder, file = request.param
    top, _, below = folder.partition("/")
    source = published(top) / below
    for path in [source / file, *source.glob("*.json")]:
        if path.stat().st_size < 2_000_000:
            shutil.copy(path, tmp_path)
    shutil.copy(source / file, tmp_path)
    return name, tmp_path / file, find_benchmark(name, Locations(tmp_path)).records().items


def outcome(name: str, path: Path) -> tuple[Item, ...] | str:
    try:
        return find_benchmark(name, Locations(path.parent)).records().items
    except DataError as error:
        return str(error)


def check(name: str, path: Path, before: tuple[Item, ...], *, harmless: bool = False) -> None:
    found = outcome(name, path)
    if isinstance(found, str):
        assert path.name in found or str(path.parent) in found
        assert len(found) < 600
    elif not harmless:
        assert sorted(found, key=lambda item: item.id) == sorted(before, key=lambda item: item.id)


FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@FEW
@given(share=st.floats(0, 1))
def test_a_file_that_was_cut_anywhere(damaged: tuple[str, Path, tuple[Item, ...]], share: float) -> None:
    name, path, before = damaged
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[: int(share * len(whole))])
        check(name, path, before)
    finally:
        path.write_bytes(whole)


@pytest.mark.slow
@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_a_file_whose_lines_were_shuffled(damaged: tuple[str, Path, tuple[Item, ...]], seed: int) -> None:
    name, path, before = damaged
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    try:
        path.write_bytes(b"".join(lines[k] for k in np.random.default_rng(seed).permutation(len(lines))))
        check(name, path, before)
    finally:
        path.write_bytes(whole)


@pytest.mark.slow
@FEW
@given(places=st.lists(st.floats(0, 0.9999), min_size=1, max_size=4), byte=st.integers(0, 255))
def test_a_file_with_wrong_bytes(damaged: tuple[str, Path, tuple[Item, ...]], places: list[float], byte: int) -> None:
    name, path, before = damaged
    whole = path.read_bytes()
    spoilt = bytearray(whole)
    for place in places:
        spoilt[int(place * len(whole))] = byte
    try:
        path.write_bytes(spoilt)
        check(name, path, before, harmless=True)  # a letter of a caption may be another: nothing can tell
    finally:
        path.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["reversed", "shuffled"])
def test_rows_in_another_order_are_the_same_items(published: Published, tmp_path: Path, rows: str) -> None:
    source = published("sugarcrepe") / "data"
    before = find_benchmark("sugarcrepe", Locations(source)).records()
    for path in source.glob("*.json"):
        found = list(json.loads(path.read_text()).items())
        (tmp_path / path.name).write_text(
            json.dumps(dict(found[::-1] if rows == "reversed" else found[1::2] + found[::2]))
        )
    after = find_benchmark("sugarcrepe", Locations(tmp_path)).records()
    assert {item.id: item for item in after.items} == {item.id: item for item in before.items}
    assert after.fingerprint(str) == before.fingerprint(str)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"3", b"\xff\xfe", b'{"a": NaN', b"[" * 100_000])
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("valse", "existence.json"),
        ("sugarcrepe", "add_att.json"),
        ("eqben", "eqbensd.json"),
        ("eqben", "ann_json_finegrained_random.json"),
        ("eqben", "all_select.json"),
        ("aro-relation", "visual_genome_relation.json"),
        ("aro-coco-order", "coco_order.json"),
        ("coco-counterfactuals", "metadata.jsonl"),
        ("bivlc", "BiVLC_x.csv"),
        ("bivlc", "test-00000-of-00001.parquet"),
        ("winoground", "examples.jsonl"),
    ],
)
def test_a_file_that_holds_something_else_is_one_error(tmp_path: Path, name: str, file: str, content: bytes) -> None:
    if file.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    benchmark = find_benchmark(name, Locations(tmp_path))
    for needed in benchmark.files:
        if "|" not in needed:
            (tmp_path / needed).write_bytes(content)
    (tmp_path / file).write_bytes(content)
    with raises(DataError, str(tmp_path)):
        benchmark.records()
