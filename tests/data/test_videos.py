"""Frames of films are taken by the clock: gaps and varying rates do not move them, and a constant rate counts them."""

import struct
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from pictures import film
from tellapart.data.video import sample_frames
from tellapart.errors import DataError

av = pytest.importorskip("av", reason="needs the video extra: av")

#: Of 25 a second: the sixth frame stays on the screen for 11 ticks.
GAPS = [0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 20]


def greys(path: Path, ticks: list[int], rate: int = 25) -> bytes:
    """Write a film whose frame `k` has the grey 10 + 12 k, and is shown from a tick on."""
    return film(path, [np.full((32, 32, 3), 10 + 12 * k, np.uint8) for k in range(len(ticks))], rate=rate, ticks=ticks)


def numbers(data: bytes, count: int) -> list[int]:
    """The frames that were taken, by their greys."""
    return [round((float(frame.mean()) - 10) / 12) for frame in sample_frames(data, "fall.avi", count)]


@pytest.mark.parametrize("suffix", ["avi", "mkv", "mp4", "mov"])
def test_frames_are_those_on_the_screen_at_evenly_spread_times_even_if_the_first_comes_late(suffix, tmp_path):
    data = greys(tmp_path / f"fall.{suffix}", GAPS)
    assert numbers(data, 1) == [5]  # tick 10
    assert numbers(data, 3) == [0, 5, 10]
    assert numbers(data, 5) == [0, 5, 5, 5, 10]  # ticks 0, 5, 10, 15, 20
    assert numbers(data, 21) == [0, 1, 2, 3, 4, *[5] * 11, 6, 7, 8, 9, 10]
    if suffix != "avi":
        assert numbers(greys(tmp_path / f"late.{suffix}", [tick + 125 for tick in GAPS]), 5) == [0, 5, 5, 5, 10]


@pytest.mark.parametrize("rate", [24, 30, 60])
@pytest.mark.parametrize("suffix", ["avi", "mkv", "mp4", "mov"])
def test_at_a_constant_rate_frames_are_counted_however_times_are_rounded(suffix, rate, tmp_path):
    data = greys(tmp_path / f"fall.{suffix}", [*range(12)], rate)
    for count in (2, 3, 5, 7, 8, 12, 23):  # 23: every second number is a half
        assert numbers(data, count) == [int(11 * k / (count - 1) + 0.5) for k in range(count)]
    assert numbers(data, 1) == [6]


def lengthened(data: bytes, chunks: int) -> bytes:
    """Append chunks without a byte to an AVI file's one stream, as programs do for frames that they dropped."""
    body, index = data.index(b"movi") + 4, data.index(b"idx1")
    entries = data[index + 8 : index + 8 + struct.unpack("<I", data[index + 4 : index + 8])[0]]
    entries += b"".join(struct.pack("<4sIII", b"00dc", 0, index - body + 4 + 8 * k, 0) for k in range(chunks))
    head = bytearray(data[:body])
    head[body - 8 : body - 4] = struct.pack("<I", index - body + 4 + 8 * chunks)
    for place in (data.index(b"avih") + 24, data.index(b"strh") + 40):  # both count the frames
        head[place : place + 4] = struct.pack("<I", struct.unpack("<I", head[place : place + 4])[0] + chunks)
    whole = bytes(head) + data[body:index] + b"00dc\0\0\0\0" * chunks + b"idx1" + struct.pack("<I", len(entries))
    whole += entries
    return whole[:4] + struct.pack("<I", len(whole) - 8) + whole[8:]


def test_an_avi_whose_last_chunks_are_empty_is_whole_and_one_with_gaps_that_ends_early_is_refused(tmp_path):
    data = lengthened(greys(tmp_path / "fall.avi", [*range(11)]), 10)
    with av.open(str(tmp_path / "fall.avi")) as plain:
        assert plain.streams.video[0].frames == 11
    assert numbers(data, 3) == [0, 5, 10]
    data = greys(tmp_path / "fall.avi", GAPS)
    for size in (data.index(b"idx1") - 100, data.index(b"idx1"), data.index(b"idx1") + 6, len(data) - 200):
        with raises(DataError, "fall.avi", "get the video again"):
            sample_frames(data[:size], "fall.avi", 4)
