"""Decoding of images to upright RGB arrays: PNG, JPEG, WebP, and the BGR `.npy` frames that EqBen ships."""

from __future__ import annotations

import hashlib
import io
import math
import os
import posixpath
import stat
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.strict_binary import read_header
from tellapart.data.whole_pictures import load_whole
from tellapart.errors import DataError, TellapartWarning, quote

if TYPE_CHECKING:
    from PIL import Image, ImageFile

__all__ = ["IMAGE_SUFFIXES", "check_reference", "decode", "file_format", "pixel_hash", "resolve"]

_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II*\0": "little", b"MM\0*": "big"}
#: Folders of which a dark picture was warned of.
_DARK_FOLDERS: set[str] = set()

#: First bytes, without blanks and in small letters, of files that bear an image's name -> what they are.
_OTHER_KINDS = {
    b"gif8": "a GIF",
    b"bm": "a BMP",
    b"ii*\0": "a TIFF",
    b"mm\0*": "a TIFF",
    b"%pdf": "a PDF",
    b"<svg": "an SVG",
    b"<?xml": "XML",
    b"<!doctype": "a page of HTML (an error of a download?)",
    b"<html": "a page of HTML (an error of a download?)",
}

#: The tag of the orientation, and the bytes of the types SHORT and LONG.
_ORIENTATION, _SIZES = 0x0112, {3: 2, 4: 4}


def orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, that an EXIF block gives; 1, upright, if it gives none or is damaged.

    Pillow's reader warns of damaged blocks, and a warning can only be silenced for the process with all its threads.

    Source: EXIF 2.32, sections 4.5.2 (header), 4.6.2 (directory), 4.6.4 A (tag 274).
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = _ORDERS.get(tiff[:4])
    if order is None:
        return 1

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)

    start = number(4, 4) + 2
    end = min(start + 12 * number(start - 2, 2), len(tiff) - 11)
    tags = (entry for entry in range(start, end, 12) if number(entry, 2) == _ORIENTATION)
    value = next((number(entry + 8, _SIZES.get(number(entry + 2, 2), 0)) for entry in tags), 1)
    return value if 1 <= value <= 8 else 1


IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".npy"})

#: Videos in an image's place, for `tellapart.data.video`.
VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".m4v", ".webm", ".mkv", ".avi"})

#: More pixels than any benchmark image has; a file that claims more is refused before it is decompressed.
MAX_PIXELS = 64_000_000

_ANIMATED = "is animated; an item's image is one picture: save the frame that is meant"


def leaves(reference: str) -> bool:
    """Return whether a reference leaves the folder that it is relative to: by an absolute path, a drive or `..`."""
    first = posixpath.normpath(reference).partition("/")[0]  # empty if the path is absolute
    return first in {"", ".."} or bool(PureWindowsPath(reference).drive)


def check_reference(reference: str, *, outside: bool = False) -> None:
    """Check that a reference can name an image of a pair set on any system, without looking at the disk.

    >>> check_reference("../cat.png")
    Traceback (most recent call last):
    tellapart.errors.DataError: '../cat.png' leaves the pair set's folder; images must lie inside it
    """
    problem = ""
    if "://" in reference:
        problem = "is an address; save the image in the pair set's folder and refer to the file"
    elif not outside and leaves(reference):
        problem = "leaves the pair set's folder; images must lie inside it"
        if Path(reference).is_absolute():
            problem = "is absolute; write the image's path relative to the pair set's folder"
    elif "\\" in reference:
        problem = "holds a backslash; write paths with forward slashes, which every system reads"
    elif min(reference, default=" ") < " ":
        problem = "holds a control character, which file names cannot hold everywhere; rename the file"
    elif PurePosixPath(reference).suffix.lower() not in IMAGE_SUFFIXES | VIDEO_SUFFIXES:
        images, videos = (", ".join(sorted(suffixes)) for suffixes in (IMAGE_SUFFIXES, VIDEO_SUFFIXES))
        problem = f"is not an image this reads; use one of {images}, or of a video {videos}"
    if problem:
        raise DataError(f"{quote(reference, 200)} {problem}")


def resolve(root: Path, reference: str, *, outside: bool = False) -> Path:
    """Return the path of an image inside `root`; with `outside` it, or a link, may leave the folder.

    Raises:
        DataError: as `check_reference`; or the reference leaves the folder through a link, or names no file.
    """
    check_reference(reference, outside=outside)
    mode = 0
    try:  # one path is made, and the file asked once: this runs for every image
        home = os.path.realpath(root)
        path = Path(os.path.realpath(Path(home, reference)))
        is_inside = path.is_relative_to(home)
        with suppress(FileNotFoundError, NotADirectoryError):
            mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # no permission, too long a name, links in a circle...
        fault = f"cannot be read ({type(error).__name__}: {error})"
        raise DataError(f"{quote(reference, 200)} in {root} {fault}") from error
    if not outside and not is_inside:
        raise DataError(f"{reference!r} leaves the pair set's folder through a link; copy the file into it")
    if not stat.S_ISREG(mode):
        is_folder = stat.S_ISDIR(mode)
        raise DataError(
            f"{reference!r} in {root} is a folder, not an image" if is_folder else f"no image {reference!r} in {root}"
        )
    return path


def find_inside(root: Path, reference: str, folders: dict[str, Path | None]) -> Path:
    """Return what `resolve` does, of one of many images; `folders` has each inner folder with its links followed."""
    check_reference(reference)
    folder, _, name = reference.rpartition("/")
    with suppress(OSError, ValueError):
        if folder not in folders:
            home, real = os.path.realpath(root), Path(os.path.realpath(root / folder))
            folders[folder] = real if real.is_relative_to(home) else None
        if name and (inside := folders[folder]) and stat.S_ISREG((path := inside / name).lstat().st_mode):
            return path
    return resolve(root, reference)  # a link, or the reason why there is no image


def decode(data: bytes, place: str) -> NDArray[np.uint8]:
    """Decode an image file's bytes to RGB, uint8 `(height, width, 3)`; the bytes, not the name, give the format.

    A PNG, JPEG or WebP is turned upright by its EXIF orientation; transparency is laid on white; grey, palette and
    CMYK pictures are converted as Pillow does; of 16 bits the upper 8 are kept; colour profiles are not applied. An
    animated picture is refused, for no rule selects one of its frames. A `.npy` file is an EqBen frame: uint8
    `(height, width, 3)` in BGR order (its loader reads `np.load(path)[:, :, [2, 1, 0]]`); pickled arrays are refused.

    Raises:
        DataError: the bytes are truncated, animated, no image, or a decompression bomb.

    >>> decode(Path("examples/eqsim_ablation/smoke_scenes/images/attribute-000_0.webp").read_bytes(), "a.webp").shape
    (96, 96, 3)
    """
    if not data:
        raise DataError(f"{place}: is an empty file; copy it again")
    return _decode_npy(data, place) if data.startswith(b"\x93NUMPY") else _decode_picture(data, place)


def pixel_hash(pixels: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of decoded pixels and their shape: the same picture has the same hash in any file format."""
    digest = hashlib.sha256(f"{pixels.shape}".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def _decode_picture(data: bytes, place: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageFile, ImageOps

    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise DataError(
            f"{place}: is not decoded, because PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set: it would fill the missing "
            "part of a truncated image with grey; set it to False"
        )
    # A PNG is marked as animated before its first pixels; Pillow warns of some that are marked so wrongly.
    if data.startswith(b"\x89PNG") and b"acTL" in data.partition(b"IDAT")[0]:
        raise DataError(f"{place}: {_ANIMATED}")
    # Pillow raises errors of a dozen types on damaged files, some undocumented: each means that this is not an image.
    try:
        picture = _open_picture(data, place)
        _check_size(picture.width, picture.height, place)
        if getattr(picture, "n_frames", 1) > 1:
            raise DataError(f"{place}: {_ANIMATED}")
        load_whole(picture, data)
        _scale_transparent(picture, data)
        pixels = _rgb_pixels(picture, place)
        turn = orientation(picture.info.get("exif", b""))  # a PNG may hold it after the pixels
        if turn == 1:
            return pixels
        turned = Image.fromarray(pixels)
        turned.getexif()[_ORIENTATION] = turn
        return np.array(ImageOps.exif_transpose(turned))
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # of WebP, before Pillow knows the size
        raise DataError(f"{place}: refused, {error}") from error
    except Exception as error:
        raise DataError(f"{place}: cannot be decoded as an image ({error}); is it complete?") from error


@cache
def _known_formats() -> dict[bytes, type[ImageFile.ImageFile]]:
    from PIL import Image
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    class PlainJpeg(JpegImageFile):
        """A JPEG whose EXIF block Pillow does not look into, as it would warn of damaged ones."""

        def getexif(self) -> Image.Exif:
            return Image.Exif()

    return {b"\x89PNG\r\n\x1a\n": PngImageFile, b"\xff\xd8\xff": PlainJpeg, b"RIFF": WebPImageFile}


def file_format(data: bytes) -> str:
    """Return the format of a picture's bytes: PNG, JPEG or WEBP, and `other` for a frame of numpy or a film."""
    return str(next((kind.format for start, kind in _known_formats().items() if data.startswith(start)), "other"))


def _open_picture(data: bytes, place: str) -> ImageFile.ImageFile:
    """Open the three formats of a pair set by their classes.

    `Image.open` would depend on limits that other code sets, warn of sizes below ours, and reach plug-ins that run
    other programs (EPS).
    """
    reader = next((reader for start, reader in _known_formats().items() if data.startswith(start)), None)
    if reader is not None:
        return reader(io.BytesIO(data))
    start = data[:64].lstrip().lower()
    film = "AVIF, HEIC or a film" if b"ftyp" in start[4:8] else ""
    if kind := next((kind for begin, kind in _OTHER_KINDS.items() if start.startswith(begin)), film):
        raise DataError(f"{place}: is {kind}, whatever its name says; save it as PNG, JPEG or WebP")
    raise ValueError("cannot identify image file")


def _scale_transparent(picture: Image.Image, data: bytes) -> None:
    """Bring a PNG's transparent colour, which Pillow leaves in the file's bits, to the 8 bits of its pixels."""
    marked, depth = picture.info.get("transparency"), data[24]
    if not marked or picture.format != "PNG":
        return
    if picture.mode == "L":
        picture.info["transparency"] = marked * 255 // ((1 << depth) - 1)
    elif picture.mode == "RGB" and depth == 16:
        picture.info["transparency"] = tuple(number >> 8 for number in marked)


def _rgb_pixels(picture: Image.Image, place: str) -> NDArray[np.uint8]:
    from PIL import Image

    transparent = picture.info.get("transparency")
    if picture.mode.startswith("I"):  # Pillow's conversion would clip the 16 bits at 255
        grey = np.array(picture).astype(np.uint16)
        if transparent is not None:
            grey[grey == transparent] = 0xFFFF
        folder, bits = posixpath.dirname(place), int(grey.max()).bit_length()
        if 8 < bits < 13 and folder not in _DARK_FOLDERS:  # warned of once for each folder
            _DARK_FOLDERS.add(folder)
            facts = f"its numbers fill {bits} of 16 bits, and the upper 8 are read: it is nearly black"
            warnings.warn(f"{place}: {facts}; multiply them by {1 << 16 - bits}", TellapartWarning, stacklevel=2)
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    if picture.mode in {"RGBA", "LA", "PA"} or transparent is not None:
        ground = Image.new("RGBA", picture.size, "white")
        return np.array(Image.alpha_composite(ground, picture.convert("RGBA")).convert("RGB"))
    return np.array(picture if picture.mode == "RGB" else picture.convert("RGB"))  # convert copies an RGB picture


def _decode_npy(data: bytes, place: str) -> NDArray[np.uint8]:
    stream = io.BytesIO(data)
    try:
        shape, fortran, dtype = read_header(stream)
    except Exception as error:  # as for pictures: numpy parses the header as Python, with that parser's errors
        raise DataError(f"{place}: cannot be read as a numpy array ({error}); is it complete?") from error
    if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3:
        raise DataError(f"{place}: expected a uint8 BGR array (height, width, 3); got {dtype} {shape}")
    _check_size(shape[1], shape[0], place)
    size, stated = len(data) - stream.tell(), math.prod(shape)
    if size != stated:
        fault = f"holds {size:,} bytes of pixels where its header {shape} says {stated:,}"
        raise DataError(f"{place}: {fault}; is it complete?")
    flat = np.frombuffer(data, np.uint8, offset=stream.tell())
    return np.ascontiguousarray(flat.reshape(shape, order="F" if fortran else "C")[:, :, ::-1])


def _check_size(width: int, height: int, place: str) -> None:
    if width < 1 or height < 1:
        raise DataError(f"{place}: is empty, {width} by {height} pixels")
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{place}: refused, it unpacks to {width} by {height} pixels, more than {MAX_PIXELS:,}; "
            "a decompression bomb, or an image to be scaled down first"
        )
