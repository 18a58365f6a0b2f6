"""The prefix `vlt5:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("vlt5", "VL-T5, from its authors' file, on --regions (VLT5/Epoch30.pth)")
