"""tellapart: can a vision-language model tell two almost identical image-text pairs apart?

>>> import tellapart
>>> scores = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]]  # (item, image, text)
>>> tellapart.group_score(scores)  # a tie is never right
array([1., 0.])
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

__version__ = "1.0.0rc1"

#: Name -> the module that has it, loaded on first use: `import tellapart` stays light. The list is the stub beside
#: this file, for type checkers and editors too.
_WHERE: dict[str, str] = {
    name: module
    for module, name in re.findall(
        r"^from (tellapart\S*\.\S+) import (?:\(\s+)?(\w+)",
        Path(__file__).with_suffix(".pyi").read_text("utf-8"),
        re.MULTILINE,
    )
}

__all__ = ["__version__", "metrics", *sorted(_WHERE)]  # noqa: PLE0604  (the names are the strings of the table)


def __getattr__(name: str) -> object:
    if name == "metrics":
        return importlib.import_module("tellapart.metrics")
    if name not in _WHERE:
        raise AttributeError(f"module 'tellapart' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
