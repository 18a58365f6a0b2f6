"""The machine that this process runs on: processor, cores, versions, memory. Nothing names the host."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tellapart.records.timing_record import Machine

#: Libraries whose versions may change a model's numbers.
_LIBRARIES = (
    *("numpy", "pillow", "onnxruntime", "tokenizers", "torch", "transformers", "open_clip_torch"),
    *("torchvision", "timm", "sentence-transformers", "av"),
)


def this_machine(device: str) -> Machine:
    """Describe the machine; the accelerator is named only if `device` is `cuda`."""
    torch = sys.modules.get("torch")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processor = _read_field(Path("/proc/cpuinfo"), "model name")
    return Machine(
        processor=processor or platform.processor() or platform.machine(),
        cores=cores,
        system=f"{platform.system()} {platform.machine()}",
        accelerator=str(torch.cuda.get_device_name()) if device == "cuda" and torch is not None else None,
        torch_threads=None if torch is None else int(torch.get_num_threads()),
    )


def _read_field(path: Path, field: str) -> str:
    """Return a field of a file under Linux's `/proc`; empty on other systems, and without that field."""
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == field:
                return value.strip()
    return ""


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions(packages: Sequence[str] = ("tellapart", *_LIBRARIES)) -> dict[str, str]:
    """Return the versions of Python and of packages that can change numbers, if they are installed."""
    installed = {name: release for name in packages if (release := _version(name)) is not None}
    return {"python": platform.python_version(), **installed}


def resident_memory(*, peak: bool = False) -> int | None:
    """Return the bytes of memory that this process holds, or with `peak` the most that it has held; None on Windows.

    Systems other than Linux report the peak only, and it is returned for both.
    """
    # Not `ru_maxrss`, which a process inherits from the one that started it.
    if kilobytes := _read_field(Path("/proc/self/status"), "VmHWM" if peak else "VmRSS"):
        return int(kilobytes.split()[0]) * 1024
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_device_peak() -> None:
    """Reset torch's peak of allocated device memory, so that `device_peak` covers only the code after this call."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def device_peak(device: str) -> int | None:
    """Return the most memory that torch has held on a CUDA device, in bytes; None on another device."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" and torch is not None else None
