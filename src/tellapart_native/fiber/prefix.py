"""The prefix `fiber:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix(
    "fiber", "FIBER, from its authors' file or EqSim's (fiber_pretrain.ckpt, fiber_f30k_irtr_itm.ckpt)"
)
