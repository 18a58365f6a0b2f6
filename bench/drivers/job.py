"""What every driver does: it reads its job, a file of JSON, and carries out the action that is named."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Job = dict[str, Any]

#: Holds torchvision's schemas: torch forgets them when this object is collected.
DECLARED: list[Any] = []


def carry_out(**actions: Callable[[Job], None]) -> None:
    """Carry out an action in the tool's folder: the program's arguments are its name and the file of the job."""
    action, file = sys.argv[1:]
    job = json.loads(Path(file).read_text())
    os.chdir(job["home"])
    if importlib.util.find_spec("tellapart") is None:  # a tool's environment
        declare_operators()
    actions[action](job)


def declare_operators() -> None:
    """Declare what torchvision's import asks for where its C++ library is linked for another torch."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    library = next(Path(spec.origin).parent.glob("_C*"), None) if spec and spec.origin else None
    with suppress(OSError):
        if library:
            torch.ops.load_library(str(library))
        return
    DECLARED.append(torch.library.Library("torchvision", "FRAGMENT"))
    for operator in ("nms", "qnms"):
        DECLARED[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
