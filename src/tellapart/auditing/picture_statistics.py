"""Statistics of a picture's file and pixels that show how it was made rather than its content."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILE_STATISTICS", "PIXEL_STATISTICS", "file_statistics", "pixel_statistics"]

_FORMATS = ("JPEG", "PNG", "WEBP")

FILE_STATISTICS = ("width", "height", "bytes a pixel", "JPEG quantisation", *_FORMATS)

PIXEL_STATISTICS = (
    *("brightness", "contrast", "saturation", "clipped pixels", "sharpness", "noise"),
    *("JPEG blocks", "spectrum slope", "high frequencies"),
)

#: The side of the square, about the centre, whose spectrum is taken.
_SQUARE = 256

#: Added before a logarithm, in squared levels: flat pictures have finite numbers.
_FLOOR = 1e-3


def file_statistics(data: bytes, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return `FILE_STATISTICS` of a file's bytes and its decoded pixels: float64 `(7,)`.

    Sizes and bytes are logarithms; the quantisation is the mean of the JPEG tables, 0 elsewhere; formats are 0 or 1.

    >>> from PIL import Image
    >>> stream = io.BytesIO()
    >>> Image.new("RGB", (8, 4)).save(stream, "PNG")
    >>> statistics = dict(zip(FILE_STATISTICS, file_statistics(stream.getvalue(), np.zeros((4, 8, 3), np.uint8))))
    >>> statistics["PNG"], statistics["JPEG"], round(float(np.exp(statistics["width"])))
    (np.float64(1.0), np.float64(0.0), 8)
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as picture:
            kind, tables = picture.format, getattr(picture, "quantization", None) or {}
    except UnidentifiedImageError:  # a frame of numpy, or a video
        kind, tables = None, {}
    quantisation = float(np.mean([np.mean(table) for table in tables.values()])) if tables else 0.0
    height, width = pixels.shape[-3:-1]
    sizes = [math.log(width), math.log(height), math.log(len(data) / (width * height))]
    return np.array([*sizes, quantisation, *(kind == each for each in _FORMATS)], np.float64)


def pixel_statistics(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return `PIXEL_STATISTICS` of an RGB picture, uint8 `(height, width, 3)`: float64 `(9,)`; of a video, their means.

    - sharpness, noise: logarithm of the mean squared response to the 3x3 Laplacian, and of the median one to its
      diagonal mask; compression and blur lower both, generators' decoders leave other traces.
    - JPEG blocks: logarithm of the mean step across the borders of 8 by 8 blocks over that elsewhere.
    - spectrum slope, high frequencies: of the radial power spectrum's logarithm on that of the frequency, and the
      logarithm of the share of power above a quarter of the sampling rate.

    Sources: Immerkaer (1996), Computer Vision and Image Understanding 64, 300-302 (noise); Wang, Sheikh & Bovik (2002),
    ICIP (blocks); Durall, Keuper & Keuper (2020), CVPR (spectra of generated pictures).

    >>> statistics = dict(zip(PIXEL_STATISTICS, pixel_statistics(np.full((32, 32, 3), 255, np.uint8))))
    >>> statistics["brightness"], statistics["clipped pixels"], statistics["JPEG blocks"]
    (np.float64(255.0), np.float64(1.0), np.float64(0.0))
    """
    if pixels.ndim == 4:
        return np.asarray(np.mean([pixel_statistics(frame) for frame in pixels], axis=0))
    grey = pixels.mean(axis=2, dtype=np.float64)
    saturation = (pixels.max(axis=2).astype(np.int16) - pixels.min(axis=2)).mean()
    clipped = ((pixels == 0) | (pixels == 255)).mean()
    slope, high = _spectrum_statistics(grey)
    return np.array(
        [grey.mean(), grey.std(), saturation, clipped, *_residual_statistics(grey), _block_ratio(grey), slope, high],
        np.float64,
    )


def _residual_statistics(grey: NDArray[np.float64]) -> tuple[float, float]:
    """Return sharpness and noise; those of a flat picture if it is too small for a mask."""
    if min(grey.shape) < 3:
        return math.log(_FLOOR), math.log(_FLOOR)
    straight = grey[1:-1, :-2] + grey[1:-1, 2:] + grey[:-2, 1:-1] + grey[2:, 1:-1] - 4 * grey[1:-1, 1:-1]
    # Noise: blind to edges and to slopes of brightness.
    across = grey[:-2, :-2] - 2 * grey[:-2, 1:-1] + grey[:-2, 2:]
    below = grey[2:, :-2] - 2 * grey[2:, 1:-1] + grey[2:, 2:]
    middle = grey[1:-1, :-2] - 2 * grey[1:-1, 1:-1] + grey[1:-1, 2:]
    diagonal = across - 2 * middle + below
    return math.log((straight**2).mean() + _FLOOR), math.log(float(np.median(diagonal**2)) + _FLOOR)


def _block_ratio(grey: NDArray[np.float64]) -> float:
    ratios = []
    for axis in (0, 1):
        steps = np.abs(np.diff(grey, axis=axis)).mean(axis=1 - axis)
        border = np.arange(len(steps)) % 8 == 7
        if border.any():
            ratios.append(math.log((steps[border].mean() + _FLOOR) / (steps[~border].mean() + _FLOOR)))
    return float(np.mean(ratios)) if ratios else 0.0


def _spectrum_statistics(grey: NDArray[np.float64]) -> tuple[float, float]:
    side = min(_SQUARE, *grey.shape)
    if side < 8:
        return 0.0, 0.0
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    window = np.hanning(side)
    square = grey[top : top + side, left : left + side]
    power = np.abs(np.fft.rfft2((square - square.mean()) * window[:, None] * window[None, :])) ** 2
    radius = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    rings = np.minimum((radius * side).round().astype(np.int64), side // 2 + 1)
    counts = np.bincount(rings.ravel())
    mean = np.bincount(rings.ravel(), power.ravel())[1 : side // 2] / counts[1 : side // 2]
    slope = float(np.polyfit(np.log(np.arange(1, side // 2)), np.log(mean + _FLOOR), 1)[0])
    return slope, math.log((power[radius > 0.25].sum() + _FLOOR) / (power.sum() + _FLOOR))
