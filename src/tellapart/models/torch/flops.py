"""A count of the floating-point operations of a torch model."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["count_flops"]


def count_flops(compute: Callable[[], object]) -> int | None:
    """Count the operations of matrix products and convolutions in a call; a multiplication and an addition are two.

    Attention is computed by plain products meanwhile: torch's counter knows only some of its fused kernels, and none of
    those for CPUs.

    Returns:
        The count; None if torch did none of these, or is not loaded.

    >>> import torch
    >>> count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 5))
    60
    """
    torch = sys.modules.get("torch")  # a model that computes with torch has imported it
    if torch is None:
        compute()
        return None
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            compute()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return int(counter.get_total_flops()) or None
