"""The steps of a call, counted: work that does not depend on a clock, for tests of what an attacker could time."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(call: Callable[[], object]) -> Counter[tuple[Any, ...]]:
    """Count the lines that run in a call, and the functions of C that it calls."""
    found: Counter[tuple[Any, ...]] = Counter()

    def line(frame: FrameType, event: str, _about: object) -> Any:
        found[frame.f_code.co_filename, frame.f_lineno, event] += 1
        return line

    def profile(_frame: FrameType, event: str, about: Any) -> None:
        if event == "c_call":
            found[about.__qualname__, event] += 1

    before = sys.gettrace(), sys.getprofile()
    gc.disable()
    sys.setprofile(profile)
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        gc.enable()
    return found
