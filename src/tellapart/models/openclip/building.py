"""Building open_clip's modules: in quiet, and without random numbers that nothing uses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@contextmanager
def quiet_open_clip() -> Iterator[None]:
    """Keep open_clip from logging that the weights are random (they are loaded next) and from setting up logging."""
    root, silent = logging.getLogger(), logging.NullHandler()
    disabled = root.manager.disable
    root.addHandler(silent)
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.removeHandler(silent)


def without_initialisation() -> AbstractContextManager[object]:
    """Skip the random initialisation of weights: half of the time that building a ViT-B/32 takes."""
    torch = import_torch()
    random = {torch.Tensor.uniform_, torch.Tensor.normal_}  # attention draws by these without asking a mode first

    class Uninitialised(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__module__", None) == "torch.nn.init" or func in random:
                return args[0] if args else kwargs["tensor"]
            return func(*args, **(kwargs or {}))

    return Uninitialised()
