"""What `ls benchmarks` lists of each, and its filters; a value that no benchmark has is refused."""

import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import UnknownNameError


def names(**wanted: str) -> set[str]:
    return {row["name"] for row in ta.ls("benchmarks", **wanted)}


def test_each_filter_keeps_the_benchmarks_of_its_value():
    assert names(task="ratings") == {"tifa", "genai-bench", "seetrue"}
    assert names(task="ratings", year="2023") == {"tifa", "seetrue"}
    assert names(language="sw") == {"marvl-sw"}
    films = names(media="videos")
    assert {"vinoground", "camerabench", "gebc-val"} < films and not films & {"demo", "winoground"}
    assert names(language="unknown") < names()


def test_a_row_has_what_a_reader_chooses_by():
    (row,) = ta.ls("benchmarks", language="ta")
    assert (row["media"], row["languages"], row["year"], row["items"]) == ("images", ("ta",), 2021, 1242)
    assert (row["tie_rule"], row["licence"]) == ("wrong", "CC BY 4.0") and "iglue" in row["source"]


def test_the_command_has_the_same_and_shows_what_nobody_stated(command):
    assert {row["name"] for row in command("ls", "benchmarks", "--media", "videos", "--json").json} == names(
        media="videos"
    )
    shown = command("ls", "benchmarks", "--task", "ratings")
    assert "genai-bench" in shown.out and "unknown" in shown.out and "winoground" not in shown.out


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        ({"media": "sounds"}, ("media='sounds'", "images, videos")),
        ({"year": "1999"}, ("year='1999'", "2023")),
        ({"task": "rating"}, ("task='rating'", "ratings", "pairs")),
        ({"language": "ar"}, ("language='ar'", "sw", "unknown")),
    ],
)
def test_a_value_that_none_has_is_refused_with_those_there_are(wanted, facts):
    with raises(UnknownNameError, *facts):
        ta.ls("benchmarks", **wanted)
