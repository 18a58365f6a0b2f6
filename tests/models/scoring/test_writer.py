from __future__ import annotations

import threading
import time

import pytest

from facts import raises
from tellapart.errors import StoreError
from tellapart.models.scoring.compute import Writer


def test_writes_happen_in_order_and_at_most_one_behind() -> None:
    done: list[int] = []
    gate = threading.Event()

    def slow() -> None:
        gate.wait(10)
        done.append(0)

    with Writer() as writer:
        writer.write_later(slow)
        assert done == []  # the caller went on
        threading.Timer(0.05, gate.set).start()
        writer.write_later(lambda: done.append(1))
        assert done[0] == 0  # the first is done before the second is begun
    assert done == [0, 1]


def test_a_failed_write_is_raised_by_the_next_call_and_by_the_end_of_the_block() -> None:
    def fail() -> None:
        raise StoreError("the disk is full")

    with Writer() as writer:
        writer.write_later(fail)
        with raises(StoreError, "the disk is full", "disk"):
            writer.write_later(lambda: None)
        writer.write_later(fail)
        with raises(StoreError, "the disk is full", "disk"):
            writer.settle_writes()
        writer.settle_writes()  # said once
    with raises(StoreError, "the disk is full", "disk"), Writer() as writer:
        writer.write_later(fail)


def test_an_error_in_the_block_is_not_hidden_and_the_last_write_is_finished() -> None:
    done = []

    def slow() -> None:
        time.sleep(0.05)
        done.append("written")
        raise StoreError("too late")

    with pytest.raises(KeyboardInterrupt), Writer() as writer:
        writer.write_later(slow)
        raise KeyboardInterrupt
    assert done == ["written"]
