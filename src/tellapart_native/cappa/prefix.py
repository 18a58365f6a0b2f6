"""The prefix `cappa:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("cappa", "experimental: Open CapPa, from a file that examples/convert/cappa.py made")
