"""The collector is paused while many objects are made, and never left off."""

import gc

import pytest

from tellapart.data.many_objects import collector_paused


def test_the_collector_is_on_after_an_error_and_stays_off_within_a_callers_pause():
    with pytest.raises(ValueError, match="broken"), collector_paused():
        assert not gc.isenabled()
        raise ValueError("broken")
    assert gc.isenabled()
    with collector_paused():
        collector_paused()(gc.isenabled)()
        assert not gc.isenabled()
    assert [collector_paused()(gc.isenabled)(), gc.isenabled()] == [False, True]
