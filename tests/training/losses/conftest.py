"""Makes the reference losses beside this file importable, and one torch thread is enough for them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

#: Nothing here runs without the extra `train`.
collect_ignore_glob = [] if find_spec("torch") else ["*.py"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
