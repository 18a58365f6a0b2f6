"""The caller's modules during a measurement: in evaluation mode, without gradients, and afterwards as they were."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import CellType
from typing import Any

import numpy as np

from tellapart.models.torch.network import Network


@contextmanager
def at_rest(modules: Sequence[Network], gradients: bool = False) -> Iterator[None]:
    """Measure the caller's modules in evaluation mode, and without gradients unless they are asked for.

    The mode of each part and the random states are restored at the end, after an error and an interruption, too.
    Without torch, random states alone are kept.

    >>> import random
    >>> state = random.getstate()
    >>> with at_rest([]):
    ...     _ = random.random()
    >>> random.getstate() == state
    True
    """
    torch = sys.modules.get("torch")
    modes = [(part, part.training) for module in modules for part in module.modules()]
    moved = [module for module in modules if any(part.training for part in module.modules())]
    tops = [(module, module.training) for module in moved]
    # Some kernels differ, in a last bit, for parameters that are trained, even where no gradient is taken.
    trained = (
        [] if gradients else [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    )
    with keep_random_state(), nullcontext() if torch is None or gradients else torch.inference_mode():
        try:
            for module in moved:
                module.eval()
            for parameter in trained:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)
            # By the module's method first, which may undo what its `eval` did (loralib merges weights there).
            for module, was in tops:
                module.train(was)
            for part, was in modes:
                part.training = was


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the random states of Python, numpy and torch at the end.

    >>> np.random.seed(0)
    >>> with keep_random_state():
    ...     first = np.random.rand()
    >>> bool(np.random.rand() == first)
    True
    """
    python, numpy, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    on_cpu = None if torch is None else torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None and on_cpu is not None:
            torch.set_rng_state(on_cpu)
        if torch is not None and on_gpu is not None:
            torch.cuda.set_rng_state_all(on_gpu)


def modules_of(thing: object) -> list[Any]:
    """Return the torch modules that an object or a function uses: itself, or those that it holds or names.

    An object holds its attributes; a function its object (of a method), what its closure keeps, and globals that it
    names.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    if isinstance(thing, torch.nn.Module):
        return [thing]
    inner: Any = thing.func if isinstance(thing, partial) else thing
    held = [getattr(inner, "__self__", None)]
    code = getattr(inner, "__code__", None)
    if code is None:
        held += [*getattr(inner, "__dict__", {}).values()]
    else:
        cells = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or () if cell != CellType()]
        held += [*cells, *(inner.__globals__[name] for name in code.co_names if name in inner.__globals__)]
    modules = [entry for entry in held if isinstance(entry, torch.nn.Module)]
    return list({id(module): module for module in modules}.values())
