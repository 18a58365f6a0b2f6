"""Differences of colours as people see them: CIE Lab and CIEDE2000."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ciede2000", "to_lab"]

_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))


def to_lab(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Convert sRGB uint8 `(n, 3)` to CIE L*a*b* under D65, float64 `(n, 3)`.

    >>> to_lab(np.array([[255, 255, 255], [255, 0, 0]], np.uint8))[1].round(1).tolist()
    [53.2, 80.1, 67.2]
    """
    srgb = pixels / 255.0
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ (np.array(_XYZ) / np.sum(_XYZ, axis=1, keepdims=True)).T
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def ciede2000(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the difference of two colours in L*a*b*, with all weights 1.

    Source: Sharma, Wu and Dalal (2005), *Color Research & Application* 30, 21-30.

    >>> round(ciede2000(np.array([50, 2.6772, -79.7751]), np.array([50, 0, -82.7485])), 4)
    2.0425
    """
    light, a, b = np.array([one, other], np.float64).T
    mean_chroma = np.hypot(a, b).mean()
    a = a * (1.5 - 0.5 * np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    chroma, hue = np.hypot(a, b), np.degrees(np.arctan2(b, a)) % 360
    grey = chroma.min() == 0
    turn = 0.0 if grey else (hue[1] - hue[0] + 180) % 360 - 180
    middle = hue.sum() if grey else (hue[0] + turn / 2) % 360
    delta_hue = 2 * np.sqrt(chroma.prod()) * np.sin(np.radians(turn / 2))
    bright, strong = light.mean(), chroma.mean()
    cosines = np.cos(np.radians([middle - 30, 2 * middle, 3 * middle + 6, 4 * middle - 63]))
    weight = 1 + np.array([-0.17, 0.24, 0.32, -0.20]) @ cosines
    by_light = (light[1] - light[0]) / (1 + 0.015 * (bright - 50) ** 2 / np.sqrt(20 + (bright - 50) ** 2))
    by_chroma = (chroma[1] - chroma[0]) / (1 + 0.045 * strong)
    by_hue = delta_hue / (1 + 0.015 * strong * weight)
    twist = np.sin(np.radians(60 * np.exp(-(((middle - 275) / 25) ** 2))))
    rotation = -2 * np.sqrt(strong**7 / (strong**7 + 25.0**7)) * twist
    return float(np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue))
