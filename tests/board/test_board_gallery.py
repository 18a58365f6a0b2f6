"""The retrieval gallery: what a model finds first, with its pictures, on the server and in the static site."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from boards import files_of, open_board
from tellapart.board.app import create_app
from tellapart.board.records import Board
from tellapart.board.rendering import StaticSite
from tellapart.board.views.items import QUERIES, gallery_page
from tellapart.records.samples import read_samples, write_samples

HERE = "/benchmarks/coco-retrieval/gallery/mine"


@pytest.fixture
def scores(gallery) -> np.ndarray:
    with np.load(gallery / "mine.npz") as file:
        return file["scores"]


@pytest.fixture
def client(gallery_board) -> TestClient:
    return TestClient(create_app(gallery_board))


def test_a_caption_has_its_five_images_ties_in_gallery_order_and_the_true_one_marked(client):
    found = client.get(f"{HERE}?format=json").json()
    assert (found["side"], found["page"], found["pages"], len(found["queries"])) == ("t2i", 1, 3, QUERIES)
    first = found["queries"][0]
    assert (first["texts"], first["rank"]) == (["caption 0 a <b>"], 3)
    assert [(one["title"], one["images"], one["score"], one["true"]) for one in first["first"]] == [
        ("5", ["5.png"], 9, False), ("7", ["7.png"], 9, False), ("0", ["0.png"], 5, True), ("1", ["1.png"], -1, False),
        ("2", ["2.png"], -2, False),
    ]  # fmt: skip
    assert [link["args"]["side"] for link in found["sides"] if not link["current"]] == ["i2t"]


def test_every_query_of_every_page_has_what_a_full_sort_of_the_scores_gives_and_only_one_side_is_items(client, scores):
    for side, own in (("t2i", scores.T), ("i2t", scores)):
        pages = client.get(f"{HERE}/{side}/pages/1?format=json").json()["pages"]
        found = [
            query
            for page in range(1, pages + 1)
            for query in client.get(f"{HERE}/{side}/pages/{page}?format=json").json()["queries"]
        ]
        order = np.argsort(-own, axis=1, kind="stable")
        assert [[int(one["title"]) for one in query["first"]] for query in found] == order[:, :5].tolist()
        for row, query in enumerate(found):
            true = {row // 2} if side == "t2i" else {2 * row, 2 * row + 1}
            assert {int(one["title"]) for one in query["first"] if one["true"]} == true & set(order[row, :5].tolist())
            assert query["rank"] == 1 + min(order[row].tolist().index(one) for one in true)
    listed = [client.get(f"/benchmarks/coco-retrieval/items/pages/{page}?format=json").json() for page in (1, 2)]
    assert (listed[0]["benchmark"]["n"], listed[0]["total"]) == (48, 72)  # 24 images, two captions each
    assert [item["failed"] for page in listed for item in page["items"]].count(None) == 48


def test_the_page_shows_pictures_that_are_there_and_is_linked_from_the_models_page(client):
    assert f'href="{HERE}"' in client.get("/models/mine").text
    text = client.get(HERE).text
    assert "caption 0 a &lt;b&gt;" in text and "caption 0 a <b>" not in text
    address = "/benchmarks/coco-retrieval/items/5/pictures/0"
    assert f'<img src="{address}" alt="at rank 1, not true"' in text
    sent = client.get(address)
    assert sent.status_code == 200
    assert Image.open(io.BytesIO(sent.content)).convert("RGB").getpixel((3, 3))[0] == pytest.approx(50, abs=6)
    assert client.get("/benchmarks/coco-retrieval/items/24?format=json").json()["made"][0]["said"] == "rank 3"
    assert 'alt="the image of the query"' in client.get(f"{HERE}/i2t/pages/1").text
    rows = list(csv.reader(io.StringIO(client.get(f"{HERE}?format=csv").text)))
    assert len(rows) == 1 + 5 * QUERIES
    assert rows[3] == ["caption 0", "caption 0 a <b>", "3", "3", "0.png", "5.0", "yes"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"{HERE}/t2i/pages/4", "has pages 1 to 3 of captions to images; there is no page 4"),
        (f"{HERE}/i2t/pages/0", "has pages 1 to 2 of images to captions; there is no page 0"),
        (f"{HERE}/up/pages/1", "no direction 'up'; there are t2i and i2t"),
        ("/benchmarks/coco-retrieval/gallery/other", "this board has no model 'other'"),
        ("/benchmarks/other/gallery/mine", "this board has no benchmark 'other'"),
    ],
)
def test_what_is_not_there_is_said(client, address, said):
    found = client.get(f"{address}?format=json")
    assert found.status_code == 404
    assert said in found.json()["detail"]


def test_a_record_that_keeps_ranks_alone_is_read_and_has_no_gallery(gallery, tmp_path):
    old = tmp_path / "runs" / "mine"
    old.mkdir(parents=True)
    record = json.loads((gallery / "runs" / "mine" / "results.json").read_text())
    del record["benchmarks"]["coco-retrieval"]["samples"], record["sha256"]
    (old / "results.json").write_text(json.dumps(record))
    samples = read_samples(gallery / "runs" / "mine", "coco-retrieval")
    ranks = [replace(sample, output=dict(sample.output)["rank"]) for sample in samples]
    write_samples(old, "coco-retrieval", ranks)
    problems: list[str] = []
    client, _ = open_board(tmp_path / "runs", problems.append)
    assert problems == []
    page = client.get("/models/mine")
    assert page.status_code == 200 and "Retrieval gallery" not in page.text
    item = client.get("/benchmarks/coco-retrieval/items/0?format=json").json()
    assert item["made"][0]["said"].isdigit()  # a bare rank
    found = client.get(f"{HERE}?format=json")
    assert found.status_code == 404
    assert "does not list the entries ranked first; measure it again" in found.json()["detail"]


def test_the_static_site_has_the_first_pages_with_their_pictures(gallery_board: Board, tmp_path: Path) -> None:
    StaticSite(gallery_board.tables, tmp_path, most_items=QUERIES + 1).write()
    gallery = tmp_path / HERE.lstrip("/")
    for side in ("t2i", "i2t"):
        assert sorted(path.name for path in (gallery / side / "pages").iterdir()) == ["1", "2"]
    assert json.loads((gallery / "data.json").read_text())["queries"][0]["rank"] == 3
    targets = [target for page in gallery.rglob("index.html") for target in files_of(page)]
    assert sum(target.parent.name == "pictures" for target in targets) > 5 * QUERIES


def test_a_gallery_whose_equal_captions_are_one_entry_has_pages_of_its_rows(command, tmp_path):
    name = "coco-counterfactuals-test"
    rows = "".join(f"synthetic-images-for-original-captions/{k}_0.jpg,caption {k % 5}\n" for k in range(6))
    (tmp_path / "test-coco-cfs.csv").write_text("image_path,caption\n" + rows)
    ids = np.array([str(k) for k in range(6)])
    np.savez("s.npz", image_ids=ids, caption_ids=ids, scores=np.eye(6, dtype=np.float32)[:, [0, 1, 2, 3, 4, 0]])
    command("score", name, "--scores", "s.npz", "--data", tmp_path, "--out", tmp_path / "runs" / "mine", code=0)
    _, opened = open_board(tmp_path / "runs")
    ranks = [(query["texts"], query["rank"]) for query in gallery_page(opened.tables, name, "s").queries]
    assert ranks[-2:] == [(("caption 4",), 1), (("caption 0",), 6)]
