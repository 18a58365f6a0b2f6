"""The prefix `vilbert:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("vilbert", "ViLBERT or 12-in-1, from its authors' file, on --regions (pretrained_model.bin)")
