"""Frames of videos: by time and number, and of real footage."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from sets import write_file
from tellapart.builders.builder import Made, Start
from tellapart.builders.video.footage import EndOfVideoError, clip_files, read_frame_at, read_frame_number
from tellapart.builders.video.timestamped import TimestampedCaptions
from tellapart.data.images import decode
from tellapart.errors import DataError

# The frame is the one on the screen at that time, whatever the codec, the container, the key frames or the clock.

STEADY = list(range(0, 4000, 40))
SHIFTED = [time + 720 for time in STEADY]
UNEVEN = list(accumulate([300] + [(40, 70, 20, 130)[k % 4] for k in range(59)]))
X265 = "log-level=none:keyint=12:bframes=3:open-gop=1:pools=1"

VIDEOS: dict[str, tuple[Sequence[int], dict[str, str]]] = {
    "b-frames.mp4": (STEADY, {"bf": "3", "g": "25", "b-pyramid": "normal"}),
    "one-key-frame.mp4": (STEADY, {"bf": "2", "g": "1000", "sc_threshold": "0"}),
    "begins-late.mkv": (SHIFTED, {"bf": "3", "g": "20"}),
    "uneven.mp4": (UNEVEN, {"bf": "3", "g": "12"}),
    "uneven.mkv": (UNEVEN, {"bf": "3", "g": "12"}),
    "transport.ts": (SHIFTED, {"bf": "2", "g": "20"}),
    "sparse.ts": (range(0, 30_000, 1000), {"bf": "0", "g": "1000"}),  # nothing can be decoded but from the beginning
    "open-groups.mp4": (STEADY, {"bf": "3", "g": "15", "x264-params": "open-gop=1"}),
    "hevc.mp4": (STEADY[:60], {"codec": "libx265", "x265-params": X265}),
    "vp9.webm": (STEADY[:40], {"codec": "libvpx-vp9", "cpu-used": "8", "deadline": "realtime"}),
    "lossless.mkv": (UNEVEN[:40], {"codec": "ffv1"}),
}


@pytest.fixture(scope="module")
def videos(tmp_path_factory, film):
    folder = tmp_path_factory.mktemp("videos")
    return {name: film(folder / name, times, **options) for name, (times, options) in VIDEOS.items()}


@pytest.mark.parametrize("name", VIDEOS)
def test_every_frame_is_found_at_its_first_moment_and_in_its_middle(videos, numbered, name):
    times = [time - VIDEOS[name][0][0] for time in VIDEOS[name][0]]
    for number, (time, following) in [*list(enumerate(pairwise(times)))[::5], (len(times) - 2, times[-2:])]:
        for asked in (time, (time + following) / 2):
            frame = read_frame_at(videos[name], asked / 1000)
            assert numbered(frame.pixels) == number
            assert frame.time == pytest.approx(time / 1000, abs=6e-4)


@settings(max_examples=40)
@given(st.sampled_from(["b-frames.mp4", "uneven.mkv", "begins-late.mkv"]), st.floats(0, 1))
def test_any_moment_shows_the_last_frame_that_began(videos, numbered, name, share):
    times = [time - VIDEOS[name][0][0] for time in VIDEOS[name][0]]
    asked = share * times[-1]
    # A container rounds to a millisecond, we by a half.
    began = {bisect_right(times, asked + slack) - 1 for slack in (0.0, 1.6)}
    assert numbered(read_frame_at(videos[name], asked / 1000).pixels) in began


@pytest.mark.parametrize("name", ["b-frames.mp4", "uneven.mp4"])
def test_numbers_count_frames_from_one(videos, numbered, name):
    assert [numbered(read_frame_number(videos[name], n).pixels) for n in (1, 2, 30, 60)] == [0, 1, 29, 59]
    last = len(VIDEOS[name][0])
    with raises(EndOfVideoError, name, last, f"{last + 1}"):
        read_frame_number(videos[name], last + 1)
    with raises(DataError, "0", "1", "frames"):
        read_frame_number(videos[name], 0)


def test_a_rounded_time_is_of_the_frame_that_it_was_rounded_from_and_after_the_last_there_is_none(videos, numbered):
    path = videos["b-frames.mp4"]
    assert [numbered(read_frame_at(path, seconds).pixels) for seconds in (0.0396, 0.039, 3.995)] == [1, 0, 99]
    with raises(EndOfVideoError, "b-frames.mp4", "4.000", "4.500"):
        read_frame_at(path, 4.5)
    for wrong in (-1.0, float("nan"), float("inf")):
        with raises(DataError, "0", "seconds"):
            read_frame_at(path, wrong)


def test_a_turned_video_is_turned_upright(videos, numbered, tmp_path):
    """A telephone held upright stores rows as columns and a matrix in the track's header that turns them back."""
    data = videos["b-frames.mp4"].read_bytes()
    place = data.index(b"tkhd") + 4 + 40
    one, w = 1 << 16, 1 << 30
    assert np.frombuffer(data, ">i4", 9, place).tolist() == [one, 0, 0, 0, one, 0, 0, 0, w]
    path = tmp_path / "turned.mp4"
    path.write_bytes(data[:place] + np.array([0, one, 0, -one, 0, 0, 0, 0, w], ">i4").tobytes() + data[place + 36 :])
    upright = read_frame_at(path, 2.0).pixels
    assert upright.shape == (64, 48, 3)
    assert numbered(np.rot90(upright)) == 50  # a quarter clockwise: back by a quarter the other way


def test_what_is_no_whole_video_or_is_of_no_known_format_is_named(videos, tmp_path, film):
    whole = videos["b-frames.mp4"].read_bytes()
    for name, data in {"text.mp4": b"not a video" * 50, "cut.mp4": whole[: len(whole) // 2], "empty.mp4": b""}.items():
        (tmp_path / name).write_bytes(data)
        with raises(DataError, name, "decoded", "complete"):
            read_frame_at(tmp_path / name, 0.0)
    with raises(DataError, "gone.mp4", "No such file or directory", "decoded"):
        read_frame_number(tmp_path / "gone.mp4", 1)
    (tmp_path / "odd.mp4").write_bytes(whole.replace(b"avc1", b"zzzz"))
    with raises(DataError, "odd.mp4", "format", "FFmpeg"):
        read_frame_at(tmp_path / "odd.mp4", 0.0)
    path = film(tmp_path / "raw.h264", STEADY[:20], bf="2")
    with raises(DataError, "raw.h264", "frames"):
        read_frame_at(path, 0.2)


def test_damage_anywhere_gives_a_frame_or_an_error_that_names_the_file(videos, tmp_path):
    whole = videos["uneven.mp4"].read_bytes()
    header = whole.index(b"moov")
    rng = np.random.default_rng(1)
    path, errors = tmp_path / "damaged.mp4", 0
    for k in range(80):
        data = bytearray(whole)
        for place in rng.integers(header if k % 2 else 0, len(data), 6):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            assert read_frame_at(path, 2.0).pixels.dtype == np.uint8
        except DataError as error:
            errors += 1
            assert str(error).startswith(f"{path}: ")
    assert 10 < errors < 80


def test_a_title_in_an_old_encoding_is_no_harm(film, numbered, tmp_path):
    data = film(tmp_path / "a.mkv", STEADY[:20]).read_bytes()
    assert data.count(b"Lavf")
    (tmp_path / "b.mkv").write_bytes(data.replace(b"Lavf", b"L\xe4vf"))
    assert numbered(read_frame_at(tmp_path / "b.mkv", 0.4).pixels) == 10


def test_a_file_with_sound_alone_holds_no_video(tmp_path):
    import av

    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with raises(DataError, "sound.wav", "video"):
        read_frame_at(path, 0.0)


def test_videos_have_their_stems_their_names_and_kinetics_ids(tmp_path):
    kinetics = "-c_D_000010_000020.avi"
    others = ("a.json", "a.srt", ".hidden.mp4", "e.mp4/000001.png", "f.mp4", "f.webm")
    for name in ("a.mp4", "deep/b.webm", kinetics, *others):
        write_file(tmp_path / name, b"")
    videos = clip_files(tmp_path).items()
    found = {name: sorted(path.relative_to(tmp_path).as_posix() for path in paths) for name, paths in videos}
    assert found == {
        "a": ["a.mp4"], "a.mp4": ["a.mp4"], "b": ["deep/b.webm"], "b.webm": ["deep/b.webm"], "e.mp4": ["e.mp4"],
        "f": ["f.mp4", "f.webm"], "f.mp4": ["f.mp4"], "f.webm": ["f.webm"],
        **{name: [kinetics] for name in ("-c_D", "-c_D_000010_000020", kinetics)},
    }  # fmt: skip


# The builders of captioned frames on real films: `python ci/parts.py real-footage` fetches them.

av = pytest.importorskip("av", reason="needs the video extra: av")

FOOTAGE = Path(__file__).parents[3] / "scratch" / "real-footage"

#: Film, seconds, what its frame shows: looked at one by one.
SEEN = [
    ("bigbuckbunny.mp4", 0.0, "a grey rabbit lies in its burrow"),
    ("bigbuckbunny.mp4", 2.1, "a grey rabbit stretches its arms above its head"),
    ("bikes.mp4", 6.0, "a street behind an iron fence"),
    ("bikes.mp4", 8.0, "a man walks past a bicycle at a wall"),
    ("carphone_pristine.mp4", 0.0, "a man in a car looks ahead"),
    ("carphone_pristine.mp4", 3.9, "a man in a car opens his mouth wide"),
]


@pytest.fixture
def films():
    if not (FOOTAGE / SEEN[0][0]).exists():
        pytest.skip("real films are fetched by python ci/parts.py real-footage")
    return FOOTAGE


@pytest.mark.slow
def test_the_frames_of_real_films_are_those_on_the_screen_at_that_time(films, tmp_path):
    rows = [{"video": film, "time": time, "caption": caption} for film, time, caption in SEEN]
    write_file(tmp_path / "captions.jsonl", rows)
    options = TimestampedCaptions.Options(captions="captions.jsonl", videos=str(films))
    builder = TimestampedCaptions(Start(options, 1, tmp_path))
    for key, (first, second) in zip(builder.candidates(), zip(SEEN[::2], SEEN[1::2], strict=True), strict=True):
        made = builder.make(key)
        assert isinstance(made, Made)
        assert made.item.texts == (first[2], second[2])
        for reference, (film, time, _) in zip(made.item.images, (first, second), strict=True):
            assert np.array_equal(decode(made.images[reference], reference), shown(films / film, time))


def shown(path: Path, seconds: float) -> np.ndarray:
    """Return the last frame that begins by then, by a walk from the film's first one."""
    last, start = None, 0.0
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            start = frame.time if last is None else start
            if frame.time - start > seconds + 1e-6:
                break
            last = frame
        return last.to_ndarray(format="rgb24")
