"""A damaged row of the store is made again, and said once; a damaged file is replaced and gives the same numbers."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import check_facts
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.store.shard import Shard

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def fill(path: Path) -> None:
    with EmbeddingStore(path) as store:
        store.put_vectors("m", {A: np.ones(2, np.float32)})
        store.put_pair_scores("m", {(A, B): np.float32(1)})
        store.put_pixel_hashes({A: B})
        store.put_model("k", {"name": "m"})


def change(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()


def read(store: EmbeddingStore) -> list[Any]:
    """All that `fill` wrote, as far as it is there."""
    return [
        {key: vector.tolist() for key, vector in store.vectors("m", [A]).items()},
        store.pair_scores("m", [(A, B)]),
        store.pixel_hashes([A]),
        store.model_of("k"),
    ]


WHOLE = [{A: [1.0, 1.0]}, {(A, B): np.float32(1)}, {A: B}, {"name": "m"}]


@pytest.mark.parametrize(
    ("statement", "table", "what"),
    [
        ("value = x'0000803f0000813f'", 0, "vectors of m"),
        ("value = x'0000803f'", 0, "vectors of m"),
        ("value = 'text'", 0, "vectors of m"),
        ("value = 3", 0, "vectors of m"),
        ("checksum = checksum + 1", 0, "vectors of m"),
        ("checksum = 'text'", 0, "vectors of m"),
        ("value = x'0000003f'", 1, "scores of m"),
        ("value = x'0000807f'", 1, "scores of m"),
        (f"value = x'{C}'", 2, "pictures"),
        ('value = CAST(\'{"name": "n"}\' AS BLOB)', 3, "models"),
        ("value = x'ff'", 3, "models"),
    ],
)
def test_a_damaged_row_counts_as_never_stored_and_is_said_once(
    path: Path, statement: str, table: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(path)
    change(path, f"UPDATE entry SET {statement} WHERE space = {table + 1}")
    with EmbeddingStore(path) as store:
        assert store.missing_vectors("m", [A]) == ([A] if table == 0 else [])
        expected = [*WHOLE[:table], None if table == 3 else {}, *WHOLE[table + 1 :]]
        assert read(store) == expected
        change(path, "UPDATE entry SET value = x'00' WHERE space = 3")  # more damage is not said again
        read(store)
    assert len(caplog.messages) == 1
    check_facts(caplog.text, str(path), b"k".hex() if table == 3 else A[:12], what)
    caplog.clear()
    fill(path)
    with EmbeddingStore(path) as store:
        assert read(store) == WHOLE
    assert caplog.messages == []


def test_a_vector_filed_under_another_key_or_another_model_is_damage(path: Path) -> None:
    fill(path)
    with EmbeddingStore(path) as store:
        store.put_vectors("n", {C: np.zeros(2, np.float32)})
    change(path, f"UPDATE entry SET key = x'{B}' WHERE key = x'{A}' AND space = 1")
    change(path, "UPDATE entry SET space = 1 WHERE space = 5")
    with EmbeddingStore(path) as store:
        assert store.vectors("m", [A, B, C]) == {}


def test_a_rank_takes_its_own_number_for_one_that_is_damaged_in_the_store(path: Path, tmp_path: Path) -> None:
    fill(path)
    change(path, "UPDATE entry SET value = x'0000003f' WHERE space = 2")
    with EmbeddingStore(path) as main, Shard(tmp_path / "shard.sqlite", main) as shard:
        assert shard.pair_scores("m", [(A, B)]) == {}
        shard.put_pair_scores("m", {(A, B): np.float32(1)})
        main.merge(tmp_path / "shard.sqlite")
        assert main.pair_scores("m", [(A, B)]) == {(A, B): np.float32(1)}


def test_zero_below_nothing_is_no_damage(path: Path) -> None:
    with EmbeddingStore(path) as store:
        store.put_pair_scores("m", {(A, B): np.float32(-0.0)})
        assert store.pair_scores("m", [(A, B)]) == {(A, B): 0.0}


@pytest.mark.few(2)
@pytest.mark.parametrize("new_model", ["histogram", "fusion"], indirect=True)
@pytest.mark.parametrize("vectors_alone", [True, False])
def test_random_bytes_in_the_file_never_give_other_numbers(
    new_model: Any, vectors_alone: bool, picture_set: Any, tmp_path: Path
) -> None:
    pairset, path = picture_set(40), tmp_path / "store.sqlite"
    with EmbeddingStore(path) as store:
        right = score(new_model(), pairset, store=store).scores.values
        if vectors_alone:
            store.delete([space.name for space in store.spaces() if space.name.startswith("scores of ")])
    whole, replaced = path.read_bytes(), 0
    for seed in range(25):
        draw, data = random.Random(seed), bytearray(whole)
        for _ in range(40):
            data[draw.randrange(len(data))] = draw.randrange(256)
        damaged = tmp_path / f"{seed}.sqlite"
        damaged.write_bytes(data)
        with EmbeddingStore(damaged) as store:
            for _ in range(2):
                np.testing.assert_array_equal(score(new_model(), pairset, store=store).scores.values, right)
            replaced += Path(f"{damaged}.damaged-1").exists()
    assert 0 < replaced < 25
