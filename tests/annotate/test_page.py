"""An annotator's page: one file with all it shows and nothing it should not, and the file of answers that it saves."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.annotate import folder as study_folder
from tellapart.annotate.page import page_picture
from tellapart.annotate.presentation import ImageFile
from tellapart.annotate.surveys import SURVEYS
from tellapart.errors import DataError

SHAPES = {"best-image": (4, 1), "statement": (2, 1), "caption": (1, 2), "box": (1, 2)}


def content(at: Any, annotator: str = "ann") -> dict[str, Any]:
    text = (at.folder / "pages" / f"{annotator}.html").read_text()
    found = re.search(r'<script type="application/json" id="survey-data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("survey", [name for name, survey in SURVEYS.items() if not survey.after])
def test_a_page_has_its_annotator_s_tasks_and_every_field(desk, survey) -> None:
    at = desk(survey, shape=SHAPES.get(survey, (2, 2)), n=4)
    for annotator in ("ann", "bob"):
        page = content(at, annotator)
        own = [task for task in at.study.tasks if task.annotator == annotator]
        assert [task["id"] for task in page["tasks"]] == [task.id for task in own]
        for (_, view), task in zip(at.seen(annotator), page["tasks"], strict=True):
            shown = {name: value for name, value in view.items() if name not in {"study", "task"}}
            parts = [*task["images"], *task["texts"], *task["options"]]
            assert len(parts) == len(shown)
            assert [part for part in parts if isinstance(part, str)] == [
                text for name, text in shown.items() if text in task["texts"] + task["options"]
            ]
        names = [field["name"] for field in page["fields"]]
        header = (at.folder / "sheets" / f"{annotator}.csv").read_text().splitlines()[0].split(",")
        assert header[-1 - len(names) : -1] == names


def test_a_page_tells_neither_what_is_right_nor_the_names_of_items_and_files(desk) -> None:
    at = desk("i2t", n=8)
    text = (at.folder / "pages" / "ann.html").read_text()
    page = content(at)
    assert set(page["tasks"][0]) == {"id", "images", "texts", "options"}
    assert "item-" not in text
    assert "images/" not in text
    # The true caption comes first as often as not, and pictures are numbered as they are shown.
    first = [at.study.unit_of[task.unit].truth == str(task.order[0]) for task in at.study.tasks]
    assert 0 < sum(first) < len(first)
    shown = [index for task in page["tasks"] for index in task["images"]]
    assert list(dict.fromkeys(shown)) == list(range(len(page["pictures"])))


def test_a_page_is_one_file_and_takes_no_text_for_markup(desk, made_set) -> None:
    nasty = """</script><img src=x onerror="alert(1)">{{ 7 * 7 }}"""
    folder = made_set("1x2-2", n=2, shape=(1, 2))
    listing = folder / "pairs.jsonl"
    rows = [json.loads(line) for line in listing.read_text().splitlines()]
    for row in rows:
        row["texts"][0] = nasty + row["id"]
    listing.write_text("".join(json.dumps(row) + "\n" for row in rows))
    at = desk("i2t", n=2, shape=(1, 2))
    text = (at.folder / "pages" / "ann.html").read_text()
    assert not re.search(r"(src|href)=\"(?!data:|#)|<link|@import|url\(", text)
    assert text.count("</script>") == 2
    assert "<img src=x" not in text
    assert nasty in html.unescape(str(content(at)["tasks"]))


def noise(width: int, height: int) -> ImageFile:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return ImageFile("a.png", "image/png", stream.getvalue())


@pytest.mark.slow
def test_large_pictures_are_scaled_down_and_small_ones_are_left_alone() -> None:
    small, large, long = (page_picture(noise(*size)) for size in ((100, 50), (3000, 1500), (300, 400)))
    assert (small.size, large.size, long.size) == (None, (3000, 1500), (300, 400))
    assert base64.b64decode(small.uri.removeprefix("data:image/png;base64,")) == noise(100, 50).data
    embedded = Image.open(io.BytesIO(base64.b64decode(large.uri.removeprefix("data:image/jpeg;base64,"))))
    assert embedded.size == (1024, 512)
    assert len(large.uri) < 700_000 < len(noise(3000, 1500).data)  # noise: nothing compresses worse


def test_pages_that_would_be_too_large_are_left_out_and_said(command, made_set, monkeypatch) -> None:
    made_set("set", n=3)
    monkeypatch.setattr(study_folder, "_LARGEST_PAGE", 1000)
    assert "pages: none" in command("annotate", "export", "i2t", "folder:set", "--to", "a").out
    assert command("annotate", "export", "i2t", "folder:set", "--to", "b", "--json").json["pages"] is None
    monkeypatch.setattr(study_folder, "_LARGEST_PAGE", 10_000)
    ran = command("annotate", "export", "i2t", "folder:set", "--to", "c")
    assert "pages: c/pages/NAME.html (0.0 MB at most), to open in a browser, offline" in ran.out


def saved(at: Any, **changes: Any) -> dict[str, Any]:
    rows = [{"task": task.id, "values": {"caption": "A"}} for task in at.study.tasks]
    file = {"tellapart_answers": 1, "study": at.study.token, "annotator": "ann", "answers": rows}
    return file | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tellapart_answers": 2}, ("a.json", "1", "`tellapart_answers`", "2")),
        ({"study": None}, ("text", "study")),
        ({"study": "feed"}, ("a.json", "0", "task", "ann-00001", "'feed'")),
        ({"answers": {}}, ("text", "study")),
        ({"answers": ["x"]}, ("a.json", "0", "'x'")),
        ({"answers": [{"task": 7}]}, ("0", "answer")),
        ({"answers": [{"task": "ann-00001", "skipped": "no"}]}, ("task", "values")),
        (
            {"answers": [{"task": "ann-00001", "skipped": True, "values": {"caption": "A"}}]},
            ("0", "task", "ann-00001", "skipped"),
        ),
        ({"answers": [{"task": "ann-00001", "values": {"caption": "C"}}]}, ("'caption'", "'C'")),
        ({"answers": [{"task": "ann-00001"}]}, ("0", "task", "ann-00001", "'caption'")),
        ({"answers": []}, ("2", "2", "answer")),
    ],
)
def test_a_wrong_file_of_answers_is_named(desk, tmp_path, changes, message) -> None:
    at = desk("i2t", shape=(1, 2), n=2, annotators=("ann",))
    (tmp_path / "a.json").write_text(json.dumps(saved(at, **changes)))
    with raises(DataError, message):
        at.imported(tmp_path / "a.json")


def test_files_of_pages_sheets_and_label_studio_come_together(desk, knows, tmp_path) -> None:
    at = desk("i2t", shape=(1, 2), n=3)
    person = knows(at)
    replies = {data["task"]: person("ann", view) for data, view in at.seen("ann")}
    rows = [{"task": task, "values": values} for task, values in replies.items()]
    (tmp_path / "ann.answers.json").write_text(json.dumps(saved(at, answers=rows)))
    assert at.imported(tmp_path / "ann.answers.json", at.sheets(person)[1]) == at.imported(at.export(person))
