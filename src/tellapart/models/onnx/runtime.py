"""Importing ONNX Runtime without its telemetry."""

from __future__ import annotations

import os
from types import ModuleType

_SWITCH = "ORT_DISABLE_TELEMETRY"


def import_onnxruntime() -> ModuleType:
    """Import ONNX Runtime; in this process it sends nothing and stores no identifier of the machine.

    From version 1.29 its builds for Linux and macOS send facts of the process, the session and the model, unless this
    variable is set before the library is first imported (onnxruntime, pull request 27379). It is read once. On Windows
    the library has a switch that works from then on.
    """
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        import onnxruntime
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before
    onnxruntime.disable_telemetry_events()
    module: ModuleType = onnxruntime
    return module
