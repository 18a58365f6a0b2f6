"""The prefix `uniter:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix(
    "uniter", "UNITER, from its authors' file, on --regions (uniter-base.pt, or your fine-tuned one)"
)
