"""The prefix `vilt:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix(
    "vilt", "ViLT, from its authors' file (vilt_200k_mlm_itm.ckpt, vilt_irtr_coco.ckpt)", model_type="vilt_original"
)
