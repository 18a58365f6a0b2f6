"""The prefix `blip:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix(
    "blip",
    "BLIP, from its authors' file (model_base.pth, model_base_retrieval_coco.pth); readings differ",
    model_type="blip_original",
)
