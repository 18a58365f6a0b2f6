"""Images from disk as RGB arrays: PNG, JPEG, WebP, and the BGR `.npy` frames that EqBen ships."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError

__all__ = ["IMAGE_SUFFIXES", "MAX_PIXELS", "decode", "pixel_hash", "resolve"]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".npy"})

#: More pixels than any benchmark image has; a file that claims more is refused before it is decompressed.
MAX_PIXELS = 64_000_000


def resolve(root: Path, reference: str) -> Path:
    """Return the path of an image inside `root`.

    Args:
        root: the pair set's folder.
        reference: a relative path, with forward slashes.

    Raises:
        DataError: the reference is absolute, leaves the folder (also through a link), has a suffix that is not an
            image's, or names no file.

    >>> resolve(Path("."), "../secret.png")
    Traceback (most recent call last):
    tellapart.errors.DataError: '../secret.png' leaves the pair set's folder; images must lie inside it
    """
    home = root.resolve()
    path = (home / reference).resolve()
    if not path.is_relative_to(home):
        raise DataError(f"{reference!r} leaves the pair set's folder; images must lie inside it")
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        known = ", ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"{reference!r} is not an image this reads; use one of {known}")
    if not path.is_file():
        raise DataError(f"no image {reference!r} in {root}")
    return path


def decode(data: bytes, where: str) -> NDArray[np.uint8]:
    """Decode an image file's bytes to RGB, uint8 `(height, width, 3)`.

    A PNG, JPEG or WebP is turned upright by its EXIF orientation, and transparency is laid on white. A `.npy` file is
    an EqBen frame: uint8 `(height, width, 3)` in BGR order (FACTS: `np.load(p)[:, :, [2, 1, 0]]`); pickled arrays are
    refused.

    Raises:
        DataError: the bytes are truncated, no image, or a decompression bomb.

    >>> decode(b"not an image", "images/a.png").shape
    Traceback (most recent call last):
    tellapart.errors.DataError: images/a.png: cannot be decoded as an image (cannot identify image file); is it complete?
    """
    return _decode_npy(data, where) if data[:6] == b"\x93NUMPY" else _decode_picture(data, where)


def _decode_picture(data: bytes, where: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        # Only the three formats of a pair set: no plug-in that runs another program (EPS) is ever reached.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own, lower limit follows
            opened = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP"))
        _check_size(opened.width, opened.height, where)
        upright = ImageOps.exif_transpose(opened)
        if upright.mode in {"RGBA", "LA", "PA"} or "transparency" in upright.info:
            layered = upright.convert("RGBA")
            ground = Image.new("RGBA", layered.size, "white")
            upright = Image.alpha_composite(ground, layered)
        return np.asarray(upright.convert("RGB"))
    except UnidentifiedImageError as error:
        raise DataError(
            f"{where}: cannot be decoded as an image (cannot identify image file); is it complete?"
        ) from error
    except Image.DecompressionBombError as error:
        raise DataError(f"{where}: refused, it unpacks to more than {MAX_PIXELS:,} pixels") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{where}: cannot be decoded as an image ({error}); is it complete?") from error


def _decode_npy(data: bytes, where: str) -> NDArray[np.uint8]:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
        if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3:
            raise DataError(f"{where}: expected a uint8 BGR array (height, width, 3); got {dtype} {shape}")
        _check_size(shape[1], shape[0], where)
        frame = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{where}: cannot be read as a numpy array ({error}); is it complete?") from error
    return np.ascontiguousarray(frame[:, :, ::-1])


def _check_size(width: int, height: int, where: str) -> None:
    if width < 1 or height < 1:
        raise DataError(f"{where}: is empty, {width} by {height} pixels")
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{where}: refused, it unpacks to {width} by {height} pixels, more than {MAX_PIXELS:,}; "
            "a decompression bomb, or an image to be scaled down first"
        )


def pixel_hash(pixels: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of decoded pixels and their shape: the same picture has the same hash in any file format.

    >>> pixel_hash(np.zeros((2, 2, 3), np.uint8)) == pixel_hash(np.zeros((1, 4, 3), np.uint8))
    False
    """
    digest = hashlib.sha256(f"{pixels.shape}".encode())
    digest.update(np.ascontiguousarray(pixels).tobytes())
    return digest.hexdigest()
