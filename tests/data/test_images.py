"""Images become RGB pixels, the same from every format.

What is no plain picture is refused or treated as documented.
"""

import io
import struct
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image, ImageOps

from facts import check_facts, raises
from pictures import chunk, encoded, noise, plain, png
from tellapart.data.images import check_reference, decode, find_inside, orientation, pixel_hash, resolve
from tellapart.errors import DataError, TellapartWarning


def is_plain(pixels: np.ndarray) -> bool:
    return pixels.dtype == np.uint8 and pixels.flags.c_contiguous and pixels.flags.writeable


@given(npst.arrays(np.uint8, st.tuples(st.integers(1, 8), st.integers(1, 8), st.just(3))))
def test_the_same_pixels_come_out_of_every_lossless_format_with_one_hash(pixels):
    decoded = [decode(encoded(pixels, suffix), "a") for suffix in ("png", "webp", "npy")]
    assert all(np.array_equal(each, pixels) and is_plain(each) for each in decoded)
    assert len({pixel_hash(each) for each in decoded}) == 1


def test_a_jpeg_is_close_to_its_source_and_decodes_as_pillow_does():
    ramp = np.linspace(0, 255, 24 * 32 * 3).reshape(24, 32, 3).astype(np.uint8)
    data = encoded(ramp, "jpg", quality=95)
    decoded = decode(data, "a")
    np.testing.assert_array_equal(decoded, np.asarray(Image.open(io.BytesIO(data))))
    assert np.abs(decoded.astype(int) - ramp).mean() < 4 and is_plain(decoded)
    cyan = decode(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100), "a")
    assert cyan.shape == (8, 8, 3) and np.abs(cyan.astype(int) - [255, 0, 0]).max() <= 3


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_frames_are_bgr_in_every_version_and_both_orders(version, order):
    np.lib.format.write_array(stream := io.BytesIO(), np.array(noise()[:, :, ::-1], order=order), version=version)
    decoded = decode(stream.getvalue(), "a.npy")
    # As EqBen's own loader does it.
    np.testing.assert_array_equal(decoded, np.load(io.BytesIO(stream.getvalue()))[:, :, [2, 1, 0]])
    np.testing.assert_array_equal(decoded, noise())


def test_transparency_is_laid_on_white_by_its_degree_and_a_colour_marked_as_transparent_is_white():
    rgba = np.array([[[200, 100, 0, 0], [200, 100, 0, 255], [200, 100, 0, 51]]], np.uint8)
    degrees = [[255, 255, 255], [200, 100, 0], [244, 224, 204]]
    colour = Image.fromarray(np.array([[[1, 2, 3], [9, 9, 9]]], np.uint8))
    palette = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    palette.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    for data, expected in (
        (encoded(Image.fromarray(rgba)), degrees),
        (encoded(Image.fromarray(rgba), "WEBP", exact=True), degrees),
        (encoded(colour, transparency=(1, 2, 3)), [[255] * 3, [9] * 3]),
        (encoded(palette), [[10, 20, 30], [40, 50, 60], [70, 80, 90]]),
        (encoded(palette, transparency=1), [[10, 20, 30], [255] * 3, [70, 80, 90]]),
    ):
        assert decode(data, "a")[0].tolist() == expected
    assert decode(encoded(palette, transparency=b"\xff\x00\xff"), "a")[0, 1].tolist() == [255] * 3
    grey = Image.fromarray(np.array([[[10, 0], [10, 255], [10, 51]]], np.uint8), "LA")
    assert decode(encoded(grey), "a")[0, :, 0].tolist() == [255, 10, 206]
    marked = encoded(Image.fromarray(np.array([[7, 9]], np.uint8)), transparency=7)
    assert decode(marked, "a")[0, :, 0].tolist() == [255, 9]


def marked_png(data: bytes, *colour: int) -> bytes:
    """Return a PNG in which a colour, in the file's bits, is marked as transparent."""
    at = data.index(b"IDAT") - 4
    return data[:at] + chunk(b"tRNS", struct.pack(f">{len(colour)}H", *colour)) + data[at:]


def test_a_transparent_colour_is_given_in_the_bits_of_the_file():
    def read(row: bytes, width: int, depth: int, kind: int, *colour: int) -> np.ndarray:
        return decode(marked_png(png(width, 1, b"\0" + row, depth, kind), *colour), "a")[0]

    assert read(b"\x1b", 4, 2, 0, 1)[:, 0].tolist() == [0, 255, 170, 255]
    assert read(b"\x05", 2, 4, 0, 5)[:, 0].tolist() == [0, 255]
    deep = struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0x3400, 0x7800, 0xBC00)
    assert read(deep, 2, 16, 2, 0x1234, 0x5678, 0x9ABC).tolist() == [[255] * 3, [0x34, 0x78, 0xBC]]


def test_grey_and_black_and_white_have_three_equal_channels_and_of_sixteen_bits_the_upper_eight_are_kept():
    grey = Image.fromarray(np.array([[0, 7, 255]], np.uint8))
    deep = Image.fromarray(np.array([[0, 255, 256, 0x1234, 0x7FFF, 0xFFFF]], np.uint16))
    upper = [0, 0, 1, 0x12, 0x7F, 0xFF]
    for data, values in (
        (encoded(grey), [0, 7, 255]),
        (encoded(grey, "JPEG"), None),
        (encoded(grey.convert("1", dither=Image.Dither.NONE)), [0, 0, 255]),
        (encoded(deep), upper),
        # One grey is marked as transparent, by a chunk that not every Pillow can write.
        (marked_png(encoded(deep), 0x1234), [*upper[:3], 255, *upper[4:]]),
    ):
        pixels = decode(data, "a")
        assert (pixels == pixels[:, :, :1]).all() and pixels.shape[2] == 3
        assert values is None or pixels[0, :, 0].tolist() == values


def test_an_animated_picture_is_refused_and_of_a_multi_picture_jpeg_the_large_one_is_taken():
    one, other = (Image.fromarray(noise(seed=seed)) for seed in range(2))
    for form in ("PNG", "WEBP"):
        with raises(DataError, "a.png", "animated", "image"):
            decode(encoded(one, form, save_all=True, append_images=[other], duration=100), "a.png")
    # Telephones save such files: the photograph, then a preview.
    photograph, preview = Image.fromarray(noise(16, 16)), Image.fromarray(noise(4, 4))
    data = encoded(photograph, "MPO", save_all=True, append_images=[preview])
    np.testing.assert_array_equal(decode(data, "a"), decode(encoded(photograph, "JPEG"), "a"))


def test_a_setting_that_would_turn_missing_parts_grey_is_refused_and_other_limits_change_nothing(monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 40)  # fewer than the picture has, more than half
    for suffix in ("png", "webp"):
        np.testing.assert_array_equal(decode(encoded(noise(), suffix), "a"), noise())
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with raises(DataError, "LOAD_TRUNCATED_IMAGES", "False"):
        decode(encoded(noise()), "a.png")
    np.testing.assert_array_equal(decode(encoded(noise(), "npy"), "a.npy"), noise())


def test_threads_decode_without_touching_the_filters_of_warnings():
    files = [encoded(noise(seed=seed), suffix) for seed in range(20) for suffix in ("png", "jpg", "webp", "npy")]
    before = list(warnings.filters)
    alone = [pixel_hash(decode(data, "a")) for data in files]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda data: pixel_hash(decode(data, "a")), files))
    assert together == alone
    assert warnings.filters == before


def test_a_pixel_hash_tells_pixels_and_shapes_apart():
    pixels = noise()
    other = pixels.copy()
    other[3, 4, 1] ^= 1
    distinct = [pixels, other, pixels[:, :, ::-1], pixels[::-1], pixels.reshape(9, 6, 3), pixels[:5]]
    assert len({pixel_hash(each) for each in distinct}) == len(distinct)
    assert pixel_hash(np.asfortranarray(pixels)) == pixel_hash(pixels)


def test_a_reference_that_stays_inside_is_taken():
    for reference in (
        *("a.png", "images/a.JPG", "deep/er/a.jpeg", "..a.webp", "a..b/c.npy"),
        *("zw\u00f6lf \u3000.png", "a/../b.png", "clocks: two.png"),
    ):
        check_reference(reference)


#: References that cannot stand everywhere, by the facts of their refusal.
BAD_REFERENCES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("pair", "folder"): (
        *("../a.png", "images/../../a.png", "..", "/etc/a.png", "//host/share/a.png", "C:/a.png", "C:a.png"),
        r"\\host\share\a.png",
    ),
    ("slashes", "backslash"): (r"images\a.png",),
    ("holds a backslash",): (r"..\a.png",),
    ("image", "pair"): ("https://example.org/a.png",),
    ("is an address",): ("s3://bucket/a.png",),
    ("control",): ("images/a\0.png", "images/a\n.png"),
    ("image",): ("images/a.gif", "images/a", "images", "", ".png"),
    ("OSError",): ("a" * 5000 + ".png",),
    ("UnicodeEncodeError",): ("\ud800.png",),
}


@pytest.mark.parametrize("says", BAD_REFERENCES, ids=" ".join)
def test_a_reference_that_cannot_stand_everywhere_is_refused(tmp_path, says):
    for reference in BAD_REFERENCES[says]:
        with pytest.raises(DataError) as caught:
            resolve(tmp_path, reference)
        if "Error" in says[0]:  # the system cannot hold the name
            check_facts(str(caught.value), tmp_path, says)
        else:
            assert str(caught.value).startswith(repr(reference))
            check_facts(str(caught.value), says)


def find_one(root: Path, reference: str) -> Path:
    """Find an image as the reader of a set does, which has found another in each folder before."""
    find = partial(find_inside, root, folders={})
    assert find("inside.png") == find("inside.png") and find("inner/../inside.png").is_file()
    return find(reference)


@pytest.mark.parametrize("resolve", [resolve, find_one])
def test_links_are_followed_inside_the_folder_only(tmp_path, resolve):
    home = tmp_path / "set"
    (home / "inner").mkdir(parents=True)
    for path in (tmp_path / "outside.png", home / "inside.png"):
        path.write_bytes(encoded(noise()))
    for name, target in (
        *(("good.png", "inside.png"), ("leaves.png", tmp_path / "outside.png"), ("up", tmp_path)),
        *(("circle.png", "circle.png"), ("dangling.png", "gone.png"), ("../linked", home)),
    ):
        (home / name).symlink_to(target)
    assert resolve(home, "good.png") == (home / "inside.png").resolve()
    for reference, fact in (
        *(("leaves.png", "pair"), ("up/outside.png", "pair"), ("../outside.png", "pair")),
        *(("circle.png", ()), ("dangling.png", "image")),
    ):
        with raises(DataError, f"'{reference}'", fact):
            resolve(home, reference)
    assert resolve(tmp_path / "linked", "inside.png").is_file()


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        *((plain(size=(4, 4), form=kind), (kind, "save it as PNG")) for kind in ("GIF", "BMP", "TIFF")),
        (b"\n<!DOCTYPE html><title>404</title>", ("HTML", "save it as PNG")),
        (b"\0\0\0\x1cftypavif", ("AVIF", "save it as PNG")),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ("SVG", "save it as PNG")),
        *((encoded(noise(), form), ("decoded", "image")) for form in ("EPS", "PPM")),
        *((head, ("decoded", "image")) for head in (b"%!PS-Adobe-3.0 EPSF-3.0", b"RIFF1234WAVE")),
    ],
    ids=range(10),
)
def test_another_kind_of_file_is_named(data, facts):
    with raises(DataError, "a.png", facts):
        decode(data, "a.png")


def test_sixteen_bits_that_are_not_used_are_warned_of_once_a_folder(tmp_path):
    data = encoded(Image.fromarray((np.arange(64, dtype=np.uint16) * 63).reshape(8, 8)))
    with pytest.warns(TellapartWarning, match=r"a\.png.* 12 of 16 bits.* 16") as caught:
        decode(data, f"{tmp_path}/a.png")
        decode(data, f"{tmp_path}/b.png")
    assert len(caught) == 1


def block(value: int, order: str = "<", kind: str = "H", before: int = 0) -> bytes:
    """An EXIF block whose directory holds the orientation behind `before` other tags."""
    entries = b"".join(struct.pack(f"{order}HHIHH", 0x0100 + k, 3, 1, 9, 0) for k in range(before))
    value_bytes = struct.pack(f"{order}{kind}", value).ljust(4, b"\0")
    entries += struct.pack(f"{order}HHI", 0x0112, 3 if kind == "H" else 4, 1) + value_bytes
    head = b"II*\0" if order == "<" else b"MM\0*"
    return b"Exif\0\0" + head + struct.pack(f"{order}IH", 8, before + 1) + entries


@pytest.mark.parametrize(("order", "kind", "before"), [*product("<>", "HI", (0, 4))])
def test_every_orientation_is_read_in_both_byte_orders_and_both_sizes(order, kind, before):
    for value in range(1, 9):
        exif = block(value, order, kind, before)
        assert orientation(exif) == orientation(exif.removeprefix(b"Exif\0\0")) == value


@given(st.binary(max_size=200))
def test_no_bytes_whatever_stop_the_reading(junk):
    for head in (b"", b"Exif\0\0II*\0", b"MM\0*\0\0\0\x08"):
        assert 1 <= orientation(head + junk) <= 8


def test_a_block_cut_off_anywhere_and_an_orientation_that_does_not_exist_are_upright():
    whole = block(6, before=2)
    parts = [whole[:length] for length in range(len(whole))]
    assert {orientation(data) for data in (*parts, *map(block, (0, 9, 65535)))} == {1}


@pytest.mark.parametrize("suffix", ["png", "webp", "jpg"])
def test_pictures_are_turned_as_pillow_turns_them_and_a_damaged_block_changes_nothing(suffix):
    for value in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = value
        data = encoded(noise(), suffix, exif=exif)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        assert expected.shape == ((6, 9, 3) if value < 5 else (9, 6, 3))
        np.testing.assert_array_equal(decode(data, "a"), expected)
    intact = encoded(noise(), suffix)
    offset_beyond_the_end = b"Exif\0\0II*\0" + struct.pack("<IHHHII", 8, 1, 0x011A, 5, 1, 99999)
    for exif in (b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0nonsense", offset_beyond_the_end):
        np.testing.assert_array_equal(decode(encoded(noise(), suffix, exif=exif), "a"), decode(intact, "a"))
