"""The prefix `meter:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("meter", "METER, from its authors' file (meter_clip16_288_roberta_pretrain.ckpt)")
