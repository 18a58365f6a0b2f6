"""The prefix `xvlm:`."""

from __future__ import annotations

from tellapart_native.prefix import declare_prefix

PREFIX = declare_prefix("xvlm", "X-VLM, from its authors' file (.th or .pth), pre-trained or fine-tuned")
