"""The board of published checkpoints, and its page on whether benchmarks agree."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from examples.clip_zoo_board.build import build, names_of
from fastapi.testclient import TestClient
from scipy import stats

from facts import raises
from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import read_settings
from tellapart.board.store import Store
from tellapart.records.imported import Imported, read_imported

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "clip_zoo_board"
RESULTS = ROOT.parent / "shared" / "data" / "vl_compo" / "individual_results.csv"


@pytest.fixture(scope="module")
def shipped() -> Imported:
    return read_imported(EXAMPLE / "records.toml")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    if not RESULTS.is_file():
        pytest.skip("vl_compo's results are not beside this checkout")
    with RESULTS.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_shipped_record_holds_twelve_checkpoints_with_their_published_numbers(shipped: Imported) -> None:
    assert len(shipped.models) == 12
    clip = next(model for model in shipped.models if model.name == "ViT-B-32 openai")
    assert clip.scores["winoground"]["group_score"] == pytest.approx(35 / 400)
    assert clip.scores["whatsup-a"]["individual_score"] == pytest.approx(126 / 412)
    assert clip.scores["mmvp-vlm"]["image_score"] == pytest.approx(21 / 135)
    assert clip.by["subset"]["kubric_location"]["eqben"]["group_score"] == pytest.approx(0.01)
    assert shipped.items["sugarcrepe"] == 7511
    assert "vl_compo" in shipped.source


def test_the_shipped_record_is_what_the_script_writes(rows: list[dict[str, str]], shipped: Imported) -> None:
    written = build(rows, [model.name for model in shipped.models])
    assert written == (EXAMPLE / "records.toml").read_text(encoding="utf-8")
    assert len(set(names_of(rows))) == 202
    with raises(SystemExit, "'ViT-X'", "checkpoint"):
        build(rows, ["ViT-X"])


@pytest.mark.slow
def test_the_page_has_scipys_correlations_and_every_benchmark(shipped: Imported) -> None:
    settings = read_settings(EXAMPLE / "board.toml")
    with Store("sqlite://") as store:
        read_in(store, settings, pytest.fail)
        client = TestClient(create_app(settings, store))
        page = client.get("/benchmarks/agree?format=json").json()
        html = client.get("/benchmarks/agree").text
    assert page["models"] == 12
    names = [line["title"] for line in page["lines"]]
    left_out = page["left_out"]
    assert {*names, *left_out} == set(shipped.items) | set(shipped.models[0].scores)
    for a, b in (("imagenet", "winoground"), ("aro-relation", "coco-retrieval")):
        metric = {"winoground": "group_score", "aro-relation": "macro_choice_score", "imagenet": "top1_accuracy"}
        own = [[model.scores[name][metric.get(name, "i2t_recall@1")] for model in shipped.models] for name in (a, b)]
        line = page["lines"][names.index(a)]
        assert line["correlations"][names.index(b)] == pytest.approx(stats.spearmanr(*own).statistic)
    assert all(f">{name}</" in html for name in names)
    assert "Do benchmarks agree?" in html


def test_a_board_with_too_few_models_says_so(settings, store) -> None:
    page = TestClient(create_app(settings, store)).get("/benchmarks/agree").text
    assert "No two benchmarks share five models yet" in page
