"""A video is found by its id whatever its suffix, and one that is there twice is not guessed at."""

from __future__ import annotations

from pathlib import Path

from facts import raises
from tellapart.builders.video.footage import clip_files
from tellapart.errors import DataError


def test_videos_have_their_stems_their_names_and_kinetics_ids(tmp_path: Path) -> None:
    for name in (
        "a.mp4",
        "deep/b.webm",
        "-c_D_000010_000020.avi",
        "a.json",
        "a.srt",
        ".hidden.mp4",
        "e.mp4/000001.png",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    videos = clip_files(tmp_path)
    assert {name: videos[name].relative_to(tmp_path).as_posix() for name in videos} == {
        "a": "a.mp4",
        "a.mp4": "a.mp4",
        "b": "deep/b.webm",
        "b.webm": "deep/b.webm",
        "-c_D": "-c_D_000010_000020.avi",
        "-c_D_000010_000020": "-c_D_000010_000020.avi",
        "-c_D_000010_000020.avi": "-c_D_000010_000020.avi",
        "e.mp4": "e.mp4",
    }
    assert "f" not in videos


def test_a_name_of_two_files_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.webm", "b.mp4"):
        (tmp_path / name).write_bytes(b"")
    videos = clip_files(tmp_path)
    assert videos["a.webm"].name == "a.webm"
    assert videos["b"].name == "b.mp4"
    with raises(DataError, "'a'", "a.mp4", "a.webm"):
        videos["a"]
