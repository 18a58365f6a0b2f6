"""Pictures within a budget."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.errors import DataError
from tellapart.report.image_sources import KEEP_BYTES, album, data_uri


def picture(kind: str, size: tuple[int, int] = (40, 20), noise: bool = False) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8) if noise else None
    made = Image.new("RGB", size, "teal") if pixels is None else Image.fromarray(pixels)
    target = io.BytesIO()
    made.save(target, kind)
    return target.getvalue()


def unpacked(uri: str) -> tuple[str, bytes]:
    head, data = uri.split(",")
    found = re.fullmatch(r"data:image/(\w+);base64", head)
    assert found
    return found[1], base64.b64decode(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_small_web_image_goes_in_as_it_is(kind) -> None:
    assert unpacked(data_uri(picture(kind), "a")) == (kind.lower(), picture(kind))


def test_a_large_image_is_scaled_down_to_320_pixels_in_its_proportions() -> None:
    large = picture("PNG", (800, 400), noise=True)
    assert len(large) > KEEP_BYTES
    kind, data = unpacked(data_uri(large, "a.png"))
    opened = Image.open(io.BytesIO(data))
    assert (kind, opened.format, opened.size) == ("jpeg", "JPEG", (320, 160))


def test_a_frame_of_eqben_becomes_a_picture_in_its_true_colours() -> None:
    frame = np.zeros((16, 16, 3), np.uint8)
    frame[:, :, 2] = 255  # BGR: red
    target = io.BytesIO()
    np.save(target, frame)
    _, data = unpacked(data_uri(target.getvalue(), "a.npy"))
    red, green, blue = Image.open(io.BytesIO(data)).convert("RGB").getpixel((8, 8))
    assert red > 240 and green < 15 and blue < 15


def test_the_budget_holds_whole_items_in_the_order_given() -> None:
    each = len(data_uri(picture("PNG"), "a"))
    items = [["w0", "w1"], ["x0", "x1"], ["y0", "y1"]]
    made = album(items, lambda name: picture("PNG"), budget=5 * each)
    assert list(made.index) == ["w0", "w1", "x0", "x1"]
    assert made.left_out == 1
    assert made.size <= 5 * each


def test_an_image_shared_by_items_is_embedded_once() -> None:
    reads: list[str] = []

    def read(name: str) -> bytes:
        reads.append(name)
        return picture("PNG")

    made = album([["a", "b"], ["b", "c"]], read, budget=10**6)
    assert sorted(reads) == ["a", "b", "c"]
    assert len(made.uris) == 3


def test_no_further_block_is_read_once_the_budget_is_used_up() -> None:
    reads: list[str] = []

    def read(name: str) -> bytes:
        reads.append(name)
        return picture("PNG")

    assert album([[str(k)] for k in range(500)], read, budget=10).left_out == 500
    assert len(reads) <= 32


def test_a_broken_image_is_counted_and_costs_no_other() -> None:
    def read(name: str) -> bytes:
        if name == "gone":
            raise DataError("no image 'gone'")
        return picture("PNG", (800, 400), noise=True)[: 60_000 if name == "cut" else None]

    made = album([["gone", "a"], ["cut"], ["b"]], read, budget=10**6)
    assert made.unreadable == ("gone", "cut")
    assert list(made.index) == ["a", "b"]
    assert made.left_out == 0


def test_bytes_that_are_no_image_are_refused_by_name() -> None:
    with raises(DataError, "a.svg", "SVG", "PNG"):
        data_uri(b"<svg onload=alert(1)>", "a.svg")
