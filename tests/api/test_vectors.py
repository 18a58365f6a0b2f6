"""Vectors of another system: arrays and files, with ids and in order; what does not fit is named by its row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tellapart as ta
from facts import raises
from tellapart.cli.main import app
from tellapart.errors import ScoreError, TellapartError


@pytest.fixture
def pairs(made_set) -> ta.PairSet:
    return ta.load_pairs(made_set(n=5))


@pytest.fixture
def made(pairs) -> dict[str, Any]:
    """Distinct images and texts with their vectors, and the cosines of the items."""
    rng = np.random.default_rng(0)
    ids = {
        side: list(dict.fromkeys(each for item in pairs.items for each in getattr(item, side)))
        for side in ("images", "texts")
    }
    vectors = {side: rng.normal(size=(len(names), 6)).astype(np.float32) for side, names in ids.items()}
    unit = {side: each / np.linalg.norm(each, axis=1, keepdims=True) for side, each in vectors.items()}
    cosines = [
        unit["images"][[ids["images"].index(name) for name in item.images]]
        @ unit["texts"][[ids["texts"].index(text) for text in item.texts]].T
        for item in pairs.items
    ]
    return {"ids": ids, "vectors": vectors, "unit": unit, "scores": np.array(cosines)}


def write(folder: Path, form: str, made: dict[str, Any], order=slice(None)) -> None:
    folder.mkdir(exist_ok=True)
    for side in ("images", "texts"):
        names = np.array(made["ids"][side])[order]
        vectors = made["vectors"][side][order]
        path = folder / f"{side}.{form}"
        if form == "npz":
            np.savez(path, ids=names, vectors=vectors)
        elif form == "npy":
            np.save(path, vectors)
            path.with_suffix(".txt").write_text("\n".join(names) + "\n")
        elif form == "parquet":
            pyarrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({"id": names.tolist(), "vector": list(vectors)}), path)
        else:
            numpy = pytest.importorskip("safetensors.numpy")
            numpy.save_file({"vectors": np.ascontiguousarray(vectors)}, path, {"ids": json.dumps(names.tolist())})


def test_arrays_in_order_and_with_ids_give_the_cosines(pairs, made):
    images, texts = made["vectors"]["images"], made["vectors"]["texts"]
    ids = made["ids"]
    slots = {side: [ids[side].index(each) for item in pairs.items for each in getattr(item, side)] for side in ids}
    per_slot = images[slots["images"]], texts[slots["texts"]]
    calls = [
        ta.score_vectors(images, texts, pairs),
        ta.score_vectors(images.tolist(), texts, pairs),
        ta.score_vectors(*per_slot, pairs),
        ta.score_vectors(*(each.reshape(5, 2, 6) for each in per_slot), pairs),
        ta.score_vectors(images[::-1], texts[::-1], pairs, image_ids=ids["images"][::-1], text_ids=ids["texts"][::-1]),
    ]
    for run in calls:
        assert np.allclose(run.items().scores, made["scores"], atol=1e-6)
    notes = calls[0].result().benchmarks["folder:set"].notes
    low = np.linalg.norm(images, axis=1).min()
    assert ["images" in notes[0], "texts" in notes[1], f"{low:.4g}" in notes[0]] == [True] * 3
    assert (
        ta.score_vectors(made["unit"]["images"], made["unit"]["texts"], pairs).result().benchmarks["folder:set"].notes
        == ()
    )
    assert calls[0].result().model.fingerprint == calls[1].result().model.fingerprint


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["npz", "npy", "parquet", "safetensors"])
def test_files_with_ids_give_the_same_in_python_and_on_the_command_line(form, pairs, made, tmp_path):
    write(tmp_path / "v", form, made, slice(None, None, -1))
    run = ta.score_vectors(tmp_path / "v" / f"images.{form}", str(tmp_path / "v" / f"texts.{form}"), pairs)
    assert np.allclose(run.items().scores, made["scores"], atol=1e-6)
    words = ["run", "-m", f"vectors:{tmp_path / 'v'}", "-b", f"folder:{pairs.root}", "--out", str(tmp_path / "r")]
    done = CliRunner().invoke(app, [*words, "--no-cache", "--quiet"])
    assert done.exit_code == 0, done.output
    again = ta.open_run(tmp_path / "r")
    assert again.items().scores.tobytes() == run.items().scores.tobytes()
    assert again.result().model.fingerprint == run.result().model.fingerprint


def test_what_does_not_fit_is_named_by_its_row(pairs, made):
    images, texts, ids = made["vectors"]["images"], made["vectors"]["texts"], made["ids"]
    with raises(ScoreError, "images", "9 rows", "10", "image_ids="):
        ta.score_vectors(images[:9], texts, pairs)
    with raises(ScoreError, "images=", "6", "texts=", "5"):
        ta.score_vectors(images, texts[:, :5], pairs)
    for value, problem in ((np.nan, "not finite"), (np.inf, "not finite"), (0, "length zero")):
        spoilt = images.copy()
        spoilt[7] = value
        with raises(ScoreError, "images", "row 7", ids["images"][7], problem):
            ta.score_vectors(spoilt, texts, pairs)
    with raises(ScoreError, "row 2", "'gone.png'", "set"):
        ta.score_vectors(images, texts, pairs, image_ids=[*ids["images"][:2], "gone.png", *ids["images"][3:]])
    with raises(ScoreError, "9", "10"):
        ta.score_vectors(images, texts, pairs, image_ids=ids["images"][:9])
    with raises(ScoreError, "rows 0 and 1", ids["images"][0]):
        ta.score_vectors(images, texts, pairs, image_ids=[ids["images"][0], *ids["images"][:9]])
    with raises(ScoreError, ids["texts"][-1], "item-4"):
        ta.score_vectors(images, texts[:-1], pairs, text_ids=ids["texts"][:-1])
    with raises(ScoreError, "pixels", "(2, 4, 4, 3)"):
        ta.score_vectors(np.zeros((2, 4, 4, 3)), texts, pairs)
    with raises(ScoreError, "(n, dimensions)", "['a.png']"):
        ta.score_vectors(["a.png"], texts, pairs)
    with raises(ScoreError, "images", "x.npz", "vectors:FOLDER"):
        np.savez(pairs.root / "x.npz", ids=ids["images"], vectors=images)
        ta.score(f"folder:{pairs.root}", pairs.root / "x.npz")
    with raises(ScoreError, str(pairs.root), "vectors:FOLDER"):
        ta.score(f"folder:{pairs.root}", pairs.root)
    with raises(ScoreError, "(600, 256)", "score_vectors", "vectors:DIR"):
        path = pairs.root / "x.npy"
        np.save(path, np.zeros((600, 256)))
        ta.score(f"folder:{pairs.root}", path)


def test_a_folder_without_ids_or_vectors_is_refused_with_the_line_to_write(tmp_path):
    with raises(TellapartError, "vectors:gone", "images", "texts", ".npz"):
        ta.evaluate("vectors:gone", "demo")
    for side in ("images", "texts"):
        np.save(tmp_path / f"{side}.npy", np.ones((3, 2)))
    with raises(ScoreError, "images.npy", "images.txt", "np.savez"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")
    np.savez(tmp_path / "images.npz", ids=["a"])
    with raises(ScoreError, "images.npz", "`vectors`"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")


def test_columns_of_parquet_have_two_names_and_others_are_listed(made, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for names, side in ((("ids", "vectors"), "images"), (("path", "embedding"), "texts")):
        columns = dict(zip(names, (made["ids"][side], list(made["vectors"][side])), strict=True))
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{side}.parquet")
    with raises(ScoreError, "texts.parquet", "path", "embedding", "'vector'", "'id'"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")
