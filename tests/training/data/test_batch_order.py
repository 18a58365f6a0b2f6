"""Laws of the order: every row once an epoch, ranks partition a batch, and a step depends on seed and step alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import DataError
from tellapart.training.data.rows import BatchOrder, TrainingRow, TrainingRows, draw_choices, draw_units

SEEDS = st.integers(0, 2**31 - 1)


def rows(count: int, each: int = 1) -> TrainingRows:
    return TrainingRows(tuple(TrainingRow(Path(f"{n}.png"), f"caption {n}", item=n // each) for n in range(count)))


@given(st.integers(2, 60), st.integers(2, 20), SEEDS, st.integers(0, 3))
def test_an_epoch_takes_no_row_twice_and_leaves_less_than_a_batch(count: int, size: int, seed: int, epoch: int) -> None:
    if count < size:
        with raises(DataError, count, size, "rows"):
            BatchOrder(rows(count), size, seed)
        return
    order = BatchOrder(rows(count), size, seed)
    first = epoch * order.steps_per_epoch
    seen = [n for step in range(first, first + order.steps_per_epoch) for n in order.batch(step)]
    assert len(seen) == len(set(seen)) == count - count % size
    assert set(seen) <= set(range(count))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(8, 60), SEEDS, st.integers(0, 40))
def test_ranks_partition_the_batch_in_its_order(share: int, ranks: int, count: int, seed: int, step: int) -> None:
    order = BatchOrder(rows(max(count, 2 * share * ranks)), 2 * share * ranks, seed)
    parts = [order.batch(step, rank, ranks) for rank in range(ranks)]
    assert [n for part in parts for n in part] == order.batch(step)
    assert {len(part) for part in parts} == {2 * share}


@given(SEEDS, st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_a_step_is_the_same_whatever_was_asked_before(seed: int, steps: list[int]) -> None:
    order = BatchOrder(rows(30), 7, seed)
    for step in steps:
        assert order.batch(step) == BatchOrder(rows(30), 7, seed).batch(step)


@given(SEEDS, st.integers(1, 4), st.integers(0, 30))
def test_items_stay_together(seed: int, each: int, step: int) -> None:
    order = BatchOrder(rows(12 * each, each), 4 * each, seed, together=True)
    batch = order.batch(step)
    assert batch == [n for start in batch[::each] for n in range(start, start + each)]
    assert {n % each for n in batch[::each]} == {0}


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    order = BatchOrder(rows(40), 40, 1)
    assert len({tuple(order.batch(step)) for step in range(5)} | {tuple(BatchOrder(rows(40), 40, 2).batch(0))}) == 6


def test_items_of_several_sizes_cannot_stay_together() -> None:
    mixed = TrainingRows(tuple(TrainingRow(Path("a.png"), str(n), item=max(n - 1, 0)) for n in range(6)))
    with raises(DataError, "data.together", "1", "2", "4"):
        BatchOrder(mixed, 4, 0, together=True)


@given(st.integers(1, 20), st.integers(0, 25), SEEDS, st.integers(0, 1000), st.integers(0, 1000))
def test_choices_are_different_and_as_many_as_there_are(count: int, draws: int, seed: int, step: int, row: int) -> None:
    pool = [10 * k for k in range(count)]
    result = draw_choices(pool, draws, seed, step, row)
    assert len(result) == len(set(result)) == min(draws, count)
    assert set(result) <= set(pool)
    assert result == draw_choices(pool, draws, seed, step, row)
    assert (
        result[: draws - 1] == draw_choices(pool, max(draws - 1, 0), seed, step, row)[: max(draws - 1, 0)] or draws == 0
    )


def test_every_choice_comes_up_about_equally_often() -> None:
    counts = [0, 0, 0]
    for step in range(900):
        counts[draw_choices([0, 1, 2], 1, seed=3, step=step, row=8)[0]] += 1
    assert all(240 < count < 360 for count in counts)
    assert len({tuple(draw_choices(range(9), 9, 0, 0, row)) for row in range(50)}) > 45


def test_units_are_drawn_with_replacement_and_relations_alone_where_there_are_some() -> None:
    things = (("a cup", "a bowl"), ("a table", "a chair"))
    row = TrainingRow(Path("a.png"), "a cup on a table", units=things)
    drawn = [draw_units(row, 2, seed=1, step=step, number=4) for step in range(40)]
    assert drawn == [draw_units(row, 2, seed=1, step=step, number=4) for step in range(40)]
    assert {tuple(pair) for pair in drawn} == {(one, other) for one in things for other in things}
    relations = (("a cup on a table", "a cup under a table"), ("a cup on a table", "a table on a cup"))
    both = replace(row, units=(things[0], relations[0], things[1], relations[1]), relations=(1, 3))
    drawn = [draw_units(both, 2, seed=1, step=step, number=4) for step in range(40)]
    assert {unit for pair in drawn for unit in pair} == set(relations)
