"""The examples lie beside the package, not in it; one torch thread is enough, and two would change last bits."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

#: Nothing here runs without the extras `models` and `train`.
collect_ignore_glob = [] if all(map(find_spec, ("torch", "accelerate", "open_clip"))) else ["*.py"]


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
