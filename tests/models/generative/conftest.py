"""The tiny models of every family, saved when they are first asked for."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")

    class Folders(dict[str, Path]):
        def __missing__(self, family: str) -> Path:
            from tiny_generative import SAVERS

            from tellapart.models.huggingface.files import quiet

            with quiet():
                SAVERS[family](root / family)
            return self.setdefault(family, root / family)

    return Folders()
