"""The prefix `albef:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("albef", "ALBEF, from its authors' file (mscoco.pth, flickr30k.pth, ALBEF.pth)")
