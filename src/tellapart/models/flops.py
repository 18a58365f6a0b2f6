"""How many floating-point operations a torch model does."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["count_flops"]


def count_flops(compute: Callable[[], object]) -> int | None:
    """Count what torch does during a call: matrix products and convolutions, a multiplication and an addition being two.

    Attention is computed by plain products meanwhile: its fused kernels are one operation each, of which torch's counter
    knows some and overlooks the others, those of CPUs among them.

    Returns:
        The count; None where torch did nothing of the kind, or is not there.

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
