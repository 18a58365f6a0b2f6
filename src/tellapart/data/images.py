"""Images from disk as RGB arrays: PNG, JPEG, WebP, and the BGR `.npy` frames that EqBen ships."""

from __future__ import annotations

import hashlib
import io
import math
import posixpath
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tellapart.data.exif import orientation, turned
from tellapart.errors import DataError

if TYPE_CHECKING:
    from PIL import Image, ImageFile

__all__ = ["IMAGE_SUFFIXES", "MAX_PIXELS", "check_reference", "decode", "pixel_hash", "resolve"]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".npy"})

#: More pixels than any benchmark image has; a file that claims more is refused before it is decompressed.
MAX_PIXELS = 64_000_000


def check_reference(reference: str) -> None:
    """Check that a reference can name an image of a pair set on any system, without looking at the disk.

    Raises:
        DataError: it is an address, is absolute, leaves the folder, holds a drive, a backslash or a control
            character, or has a suffix that is not an image's.

    >>> check_reference("https://example.org/cat.png")
    Traceback (most recent call last):
    tellapart.errors.DataError: 'https://example.org/cat.png' is an address; save the image in the pair set's folder and refer to the file
    """
    shown = f"{reference!r:.200}"
    if "://" in reference:
        raise DataError(f"{shown} is an address; save the image in the pair set's folder and refer to the file")
    first = posixpath.normpath(reference).partition("/")[0]  # empty where the path is absolute
    if first in {"", ".."} or PureWindowsPath(reference).drive:
        raise DataError(f"{shown} leaves the pair set's folder; images must lie inside it")
    if "\\" in reference:
        raise DataError(f"{shown} holds a backslash; write paths with forward slashes, which every system reads")
    if any(character < " " for character in reference):
        raise DataError(f"{shown} holds a control character, which file names cannot hold everywhere; rename the file")
    if PurePosixPath(reference).suffix.lower() not in IMAGE_SUFFIXES:
        raise DataError(f"{shown} is not an image this reads; use one of {', '.join(sorted(IMAGE_SUFFIXES))}")


def resolve(root: Path, reference: str) -> Path:
    """Return the path of an image inside `root`.

    Args:
        root: the pair set's folder.
        reference: a relative path, with forward slashes.

    Raises:
        DataError: as `check_reference`; or the reference leaves the folder through a link, or names no file.

    >>> resolve(Path("."), "../secret.png")
    Traceback (most recent call last):
    tellapart.errors.DataError: '../secret.png' leaves the pair set's folder; images must lie inside it
    """
    check_reference(reference)
    try:
        home = root.resolve()
        path = (home / reference).resolve()
        if not path.is_relative_to(home):
            raise DataError(
                f"{reference!r} leaves the pair set's folder through a link; images must lie inside it: copy the file"
            )
        if path.is_dir():
            raise DataError(f"{reference!r} in {root} is a folder, not an image")
        if not path.is_file():
            raise DataError(f"no image {reference!r} in {root}")
    except (OSError, RuntimeError, ValueError) as error:  # no permission, too long a name, links in a circle...
        raise DataError(f"{reference!r:.200} in {root} cannot be read ({type(error).__name__}: {error})") from error
    return path


def decode(data: bytes, where: str) -> NDArray[np.uint8]:
    """Decode an image file's bytes to RGB, uint8 `(height, width, 3)`; the format is told by the bytes, not by a name.

    A PNG, JPEG or WebP is turned upright by its EXIF orientation; transparency is laid on white; grey, palette and
    CMYK pictures are converted as Pillow does; of 16 bits the upper 8 are kept; colour profiles are not applied. An animated picture
    is refused, for no rule says which of its frames is meant. A `.npy` file is an EqBen frame: uint8
    `(height, width, 3)` in BGR order (its loader reads `np.load(path)[:, :, [2, 1, 0]]`); pickled arrays are refused.

    Raises:
        DataError: the bytes are truncated, animated, no image, or a decompression bomb.

    >>> decode(b"not an image", "images/a.png").shape
    Traceback (most recent call last):
    tellapart.errors.DataError: images/a.png: cannot be decoded as an image (cannot identify image file); is it complete?
    """
    if not data:
        raise DataError(f"{where}: is an empty file; copy it again")
    return _decode_npy(data, where) if data.startswith(b"\x93NUMPY") else _decode_picture(data, where)


def pixel_hash(pixels: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of decoded pixels and their shape: the same picture has the same hash in any file format.

    >>> pixel_hash(np.zeros((2, 2, 3), np.uint8)) == pixel_hash(np.zeros((1, 4, 3), np.uint8))
    False
    """
    digest = hashlib.sha256(f"{pixels.shape}".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def _decode_picture(data: bytes, where: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageFile

    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise DataError(
            f"{where}: is not decoded, because PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set: it would fill the missing part of "
            "a truncated image with grey; set it to False"
        )
    # A PNG says that it is animated before its first pixels; Pillow warns of some that say so wrongly.
    if data.startswith(b"\x89PNG") and b"acTL" in data.partition(b"IDAT")[0]:
        raise DataError(_animated(where))
    # Pillow raises errors of a dozen types on damaged files, some undocumented: each means that this is no image.
    try:
        opened = _opened(data)
        _check_size(opened.width, opened.height, where)
        if getattr(opened, "n_frames", 1) > 1:
            raise DataError(_animated(where))
        pixels = _rgb(opened)
        return turned(pixels, orientation(opened.info.get("exif", b"")))  # a PNG may hold it after the pixels
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # of WebP, before Pillow tells the size
        raise DataError(f"{where}: refused, {error}") from error
    except Exception as error:
        raise DataError(f"{where}: cannot be decoded as an image ({error}); is it complete?") from error


def _animated(where: str) -> str:
    return f"{where}: is animated; an item's image is one picture: save the frame that is meant"


@cache
def _formats() -> dict[bytes, type[ImageFile.ImageFile]]:
    from PIL import Image
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    class PlainJpeg(JpegImageFile):
        """A JPEG whose EXIF block Pillow does not look into: it would warn of damaged ones."""

        def getexif(self) -> Image.Exif:
            return Image.Exif()

    return {b"\x89PNG\r\n\x1a\n": PngImageFile, b"\xff\xd8\xff": PlainJpeg, b"RIFF": WebPImageFile}


def _opened(data: bytes) -> ImageFile.ImageFile:
    """Open the three formats of a pair set by their own classes.

    `Image.open` would depend on limits that other code sets, warn of sizes below ours, and reach plug-ins that run other
    programs (EPS).
    """
    for start, reader in _formats().items():
        if data.startswith(start):
            return reader(io.BytesIO(data))
    raise ValueError("cannot identify image file")


def _rgb(opened: Image.Image) -> NDArray[np.uint8]:
    from PIL import Image

    see_through = opened.info.get("transparency")
    if opened.mode.startswith("I"):  # Pillow's own conversion would clip the 16 bits at 255
        grey = np.array(opened).astype(np.uint16)
        if see_through is not None:
            grey[grey == see_through] = 0xFFFF
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    if opened.mode in {"RGBA", "LA", "PA"} or see_through is not None:
        ground = Image.new("RGBA", opened.size, "white")
        return np.array(Image.alpha_composite(ground, opened.convert("RGBA")).convert("RGB"))
    return np.array(opened.convert("RGB"))


def _decode_npy(data: bytes, where: str) -> NDArray[np.uint8]:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(stream)
    except Exception as error:  # as for pictures: numpy parses the header as Python, and raises what that raises
        raise DataError(f"{where}: cannot be read as a numpy array ({error}); is it complete?") from error
    if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3:
        raise DataError(f"{where}: expected a uint8 BGR array (height, width, 3); got {dtype} {shape}")
    _check_size(shape[1], shape[0], where)
    found = len(data) - stream.tell()
    if found != math.prod(shape):
        raise DataError(
            f"{where}: holds {found:,} bytes of pixels where its header {shape} says {math.prod(shape):,}; is it complete?"
        )
    flat = np.frombuffer(data, np.uint8, offset=stream.tell())
    return np.ascontiguousarray(flat.reshape(shape, order="F" if fortran else "C")[:, :, ::-1])


def _check_size(width: int, height: int, where: str) -> None:
    if width < 1 or height < 1:
        raise DataError(f"{where}: is empty, {width} by {height} pixels")
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{where}: refused, it unpacks to {width} by {height} pixels, more than {MAX_PIXELS:,}; "
            "a decompression bomb, or an image to be scaled down first"
        )
