"""Shapes follow from the sample alone, and a forward pass that fails is one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.torch.backend import bucket, forward, positions_by_key


@given(st.integers(0, 10_000), st.integers(1, 64), st.none() | st.integers(1, 600))
def test_a_bucket_is_the_next_multiple_or_the_limit(length: int, step: int, limit: int | None) -> None:
    up = bucket(length, limit, step=step)
    if limit is None or up < limit:
        assert up % step == 0 and length <= up < length + step
    else:
        assert up == limit <= length + step


@given(st.lists(st.sampled_from("abc")))
def test_every_position_is_in_the_group_of_its_key_in_order(keys: list[str]) -> None:
    groups = positions_by_key(keys)
    assert sorted(position for own in groups.values() for position in own) == list(range(len(keys)))
    assert all(own == sorted(own) and {keys[k] for k in own} == {key} for key, own in groups.items())
    assert list(groups) == list(dict.fromkeys(keys))


def test_a_model_that_fails_is_named_and_one_that_fills_the_memory_is_left_to_the_caller() -> None:
    torch = pytest.importorskip("torch", reason="forward passes need the extra 'models'")
    model = torch.nn.Linear(3, 1)
    with (
        raises(ModelError, "m", "Linear", "mat1", "mat2"),
        forward("m", model),
    ):
        model(torch.ones(2, 2))
    with pytest.raises(torch.cuda.OutOfMemoryError), forward("m", model):
        raise torch.cuda.OutOfMemoryError("full")
    with forward("m", model):
        assert not model(torch.ones(2, 3)).requires_grad
