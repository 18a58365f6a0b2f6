"""Tiny dual encoders of transformers, saved and loaded once for each file of tests."""

import pytest
from tiny_models import FAMILIES, loaded


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a family's tiny model once."""
    folders = {}

    def make(family):
        if family not in folders:
            folders[family] = FAMILIES[family](tmp_path_factory.mktemp(family))
        return folders[family]

    return make


@pytest.fixture(scope="module")
def encoders(saved):
    """Load a family's tiny model once."""
    models = {}

    def make(family):
        if family not in models:
            models[family] = loaded(saved(family))
        return models[family]

    return make
