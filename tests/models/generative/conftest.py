"""The tiny models of every family, saved once."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from tiny_generative import SAVERS

    from tellapart.models.huggingface.files import quiet

    root = tmp_path_factory.mktemp("models")
    with quiet():
        for family, saver in SAVERS.items():
            saver(root / family)
    return {family: root / family for family in SAVERS}
