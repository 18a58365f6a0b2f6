"""Prepared pictures: bounded, and made again where they are damaged."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import check_facts
from tellapart.models.store.embedding_store import PreparedPictures, kept_preparations
from tellapart.models.store.row_file import RowFile, Space

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


def picture(value: int) -> NDArray[np.uint8]:
    return np.full((4, 5, 3), value, np.uint8)


def names(path: Path) -> list[str]:
    return [each.name for each in kept_preparations(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prepared.sqlite"


def test_a_picture_comes_back_as_it_was_and_may_be_written_into(path: Path) -> None:
    PreparedPictures(path, "crop").put(A, picture(3))
    kept = PreparedPictures(path, "crop").get(A)
    assert kept is not None and (kept == picture(3)).all() and kept.flags.writeable
    assert PreparedPictures(path, "another crop").get(A) is None


def test_the_preprocessing_longest_unused_goes_first_and_the_own_one_never(path: Path) -> None:
    for name in ("old", "new"):
        PreparedPictures(path, name, limit=120).put(A, picture(1))
    assert names(path) == ["new", "old"]
    own = PreparedPictures(path, "own", limit=120)
    own.put(A, picture(1))
    assert names(path) == ["own", "new"]
    for content in (B, C):
        own.put(content, picture(2))
    assert names(path) == ["own"]
    assert own.get(A) is not None and own.get(B) is not None
    assert own.get(C) is None  # there is room for two
    assert kept_preparations(path)[0].bytes == 120


def test_a_full_file_is_not_counted_again_for_every_picture(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Path | None] = []
    list_spaces = RowFile.spaces

    def count_spaces(file: RowFile) -> list[Space]:
        counted.append(file.path)
        return list_spaces(file)

    monkeypatch.setattr(RowFile, "spaces", count_spaces)
    full = PreparedPictures(path, "crop", limit=120)
    for number in range(100):
        full.put(f"{number:064x}", picture(number))
    assert [full.get(f"{number:064x}") is not None for number in range(4)] == [True, True, False, False]
    assert counted == [path] * 2  # of the first picture, and of the first without room


def test_a_preprocessing_that_another_process_deleted_begins_again(path: Path) -> None:
    crop = PreparedPictures(path, "crop", limit=120)
    crop.put(A, picture(1))
    PreparedPictures(path, "other", limit=60).put(A, picture(2))
    assert names(path) == ["other"]
    crop.put(B, picture(3))
    assert sorted(names(path)) == ["crop", "other"]  # what no preprocessing has would never be counted or deleted
    assert crop.get(A) is None and crop.get(B) is not None


def test_a_damaged_picture_is_deleted_and_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = PreparedPictures(path, "crop")
    kept.put(A, picture(1))
    kept.put(B, picture(1))
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE entry SET value = zeroblob(68)")
        file.commit()
    assert kept.get(A) is None and kept.get(B) is None
    assert len(caplog.records) == 1
    check_facts(caplog.text, "damaged", "aaaaaaaaaaaa")
    kept.put(A, picture(1))
    assert kept.get(A) is not None


def test_a_file_that_cannot_be_used_is_said_once_and_a_new_one_is_begun(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = b"no database" * 999
    path.write_bytes(before)
    kept = PreparedPictures(path, "crop")
    for _ in range(2):
        kept.put(A, picture(1))
        assert kept.get(A) is not None
    assert len(caplog.records) == 1
    check_facts(caplog.text, str(path), f"{path}.damaged-1")
    assert Path(f"{path}.damaged-1").read_bytes() == before
    assert names(path) == ["crop"]


def test_a_folder_that_cannot_be_written_costs_the_pictures_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    kept = PreparedPictures(tmp_path / "file" / "prepared.sqlite", "crop")
    kept.put(A, picture(1))
    assert kept.get(A) is None
    assert len(caplog.records) == 1
    check_facts(caplog.text, "tellapart cache prune --prepared")
