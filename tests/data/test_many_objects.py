"""The collector is paused while many objects are made, and never left off."""

from __future__ import annotations

import gc

import pytest

from tellapart.data.many_objects import collector_paused


def test_the_collector_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), collector_paused():
        assert not gc.isenabled()
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_pause_within_a_pause_and_one_of_a_caller_stay_paused() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_function_may_be_decorated() -> None:
    @collector_paused()
    def enabled() -> bool:
        return gc.isenabled()

    assert [enabled(), enabled(), gc.isenabled()] == [False, False, True]
