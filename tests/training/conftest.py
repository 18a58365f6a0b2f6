"""Makes what stands beside this file importable; one torch thread is enough, and two would change last bits."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tellapart.errors import import_torch

#: Nothing here runs without the extra `train`.
collect_ignore_glob = [] if find_spec("torch") and find_spec("accelerate") else ["*.py"]
if find_spec("torch"):
    import_torch()  # as the package does, before a file of tests imports it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a small run choose its weights by the pictures that it trains on, of which it warns."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:data.validation:tellapart.errors.TellapartWarning"))


@pytest.fixture(autouse=True)
def single_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
