"""The prefix `ofa:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("ofa", "OFA, from its authors' file (caption_base_best.pt, ofa_base.pt)")
