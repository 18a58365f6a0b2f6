"""The tiny models of every family, saved when they are first asked for."""

from pathlib import Path

import pytest


class Folders(dict[str, Path]):
    def __init__(self, root: Path) -> None:
        self.root = root

    def __missing__(self, family: str) -> Path:
        from tiny_generative import SAVERS

        from tellapart.models.huggingface.files import quiet

        with quiet():
            SAVERS[family](self.root / family)
        return self.setdefault(family, self.root / family)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return Folders(tmp_path_factory.mktemp("models"))
