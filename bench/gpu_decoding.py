"""JPEG files decoded on a GPU, for `gpu.py`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.models.torch.backend import import_torch


def measure_gpu_decoding(files: list[Path], pixels: list[np.ndarray]) -> dict[str, Any]:
    """Decode JPEG files on the GPU: files a second, and how far the pixels are from those that are promised."""
    torch = import_torch()
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    data = [read_file(str(file)) for file in files]
    decode_jpeg(data[:8], mode=ImageReadMode.RGB, device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    decoded = [picture for start in range(0, len(data), 64)
               for picture in decode_jpeg(data[start : start + 64], mode=ImageReadMode.RGB, device="cuda")]  # fmt: skip
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    apart = [
        np.abs(one.permute(1, 2, 0).cpu().numpy().astype(int) - other)
        for one, other in zip(decoded, pixels, strict=True)
    ]
    return {
        "images_per_second": round(len(data) / seconds, 2),
        "largest_difference": max(int(each.max()) for each in apart),
        "pictures_that_differ": sum(bool(each.any()) for each in apart),
        "pictures": len(apart),
    }
