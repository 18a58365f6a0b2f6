"""Tiny dual encoders of transformers, saved and loaded once for each file of tests."""

import functools

import pytest
from tiny_models import FAMILIES, loaded


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a family's tiny model once."""
    return functools.cache(lambda family: FAMILIES[family](tmp_path_factory.mktemp(family)))


@pytest.fixture(scope="module")
def encoders(saved):
    """Load a family's tiny model once."""
    return functools.cache(lambda family: loaded(saved(family)))
