"""Lets `import torchvision` pass where its C++ library was linked for another torch, by declaring its two schemas."""

import importlib.util
import sys
from pathlib import Path

#: Holds the schemas: torch forgets them when this object is collected.
DECLARED = []


class Finder:
    """Steps in before torchvision is first imported, once."""

    def find_spec(self, name, _path=None, _target=None):
        """Declare the schemas, and leave the finding to others."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare()


def declare():
    """Load the library, or declare what it would have declared."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    for library in Path(spec.submodule_search_locations[0]).glob("_C*"):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            continue
        return
    fragment = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        fragment.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    DECLARED.append(fragment)


sys.meta_path.insert(0, Finder())
