"""The example that fine-tunes on COCO runs from end to end on a few pictures in COCO's own files, with one command."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from training_sets import architecture, config, toml

from facts import raises
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart.training.config import read_config
from tellapart.training.training_run import build_recipes, data_locations, find_sources

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
THINGS = ("dog", "cat", "horse", "bird", "car", "bus")
COLOURS = ("red", "green", "blue", "black", "white", "brown")


def coco(folder: Path, count: int = 24) -> Path:
    """COCO's files in small: captions of two coloured things, training pictures, and Karpathy's test pictures."""
    rng = np.random.default_rng(0)
    images, annotations, tested = [], [], []
    for k in range(count):
        split = "train2014" if k < count - 4 else "val2014"
        name = f"COCO_{split}_{k:012d}.jpg"
        (folder / split).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (4, 4, 3)).astype(np.uint8)
        Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC).save(folder / split / name)
        first, second = rng.choice(THINGS, 2, replace=False)
        one, other = rng.choice(COLOURS, 2, replace=False)
        captions = [f"A {one} {first} next to a {other} {second}."]
        captions += [f"The {other} {second} sits behind a {one} {first}."]
        if split == "val2014":
            tested.append({"image": f"{split}/{name}", "caption": captions})
            continue
        images.append({"id": k, "file_name": name, "width": 32, "height": 32})
        annotations += [{"id": 10 * k + n, "image_id": k, "caption": text} for n, text in enumerate(captions)]
    (folder / "annotations").mkdir()
    captions_file = {"info": {}, "images": images, "annotations": annotations, "licenses": []}
    (folder / "annotations" / "captions_train2014.json").write_text(json.dumps(captions_file), encoding="utf-8")
    (folder / "coco_test.json").write_text(json.dumps(tested), encoding="utf-8")
    return folder


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example in small: another start, fewer steps, and what is reported that this folder has."""
    monkeypatch.chdir(tmp_path)
    values = tomllib.loads((EXAMPLES / "negclip-coco.toml").read_text(encoding="utf-8"))
    values |= {"model": architecture(tmp_path / "arch"), "device": "cpu", "precision": "float32"}
    values["data"] |= {"share": 0.7}
    values["optimiser"] |= {"steps": 4, "warm_up": 1}
    values["batch"] |= {"size": 8, "micro": 4}
    values["validation"] |= {"every": 2}
    values["report"] |= {"benchmarks": ["coco-retrieval"], "alphas": []}
    path = tmp_path / "configuration" / "negclip-coco.toml"
    shutil.copytree(EXAMPLES / "recipes", path.parent / "recipes")
    path.write_text(toml(values), encoding="utf-8")
    return path


@pytest.mark.slow
def test_one_command_makes_negatives_trains_and_measures_before_and_after(command, example, tmp_path):
    data = coco(tmp_path / "coco")
    ran = command("train", str(example), "--data", str(data), "--json", "-q")
    record = json.loads((tmp_path / "runs" / "train-negclip-coco" / "record.json").read_text())
    assert ran.json
    # The negatives are of the training pictures alone, by the recipe beside the configuration.
    made = read_pair_set(tmp_path / "sets" / "coco-negatives")
    assert made.shape == (1, 2)
    assert {Path(item.images[0]).name for item in made.items} <= {path.name for path in (data / "train2014").iterdir()}
    assert len({item.tags["subset"] for item in made.items}) >= 3
    # What was measured is the gallery below --data, of the start and of what was trained.
    rows = {row["metric"]: row for row in record["comparison"]["rows"]}
    assert (rows["i2t_recall@1"]["n"], record["steps"]) == (4, 4)
    assert record["data"]["rows"] + record["data"]["validation"] == len(made.items)
    # Its set stays, and is not made again for another run.
    card = tmp_path / "sets" / "coco-negatives" / "card.json"
    written, settings = card.stat().st_mtime_ns, read_config(example)
    build_recipes(settings.data.model_copy(update={"folder": str(data)}), example.parent)
    assert card.stat().st_mtime_ns == written


def test_a_source_beside_the_configuration_comes_before_that_in_the_data(tmp_path):
    data = tmp_path / "data"
    (data / "more").mkdir(parents=True)
    sources = {"train": ["folder:train", "folder:more", "rows.jsonl"], "folder": str(data)}
    settings = config(tmp_path, data=sources)
    expected = ["folder:train", f"folder:{data / 'more'}", str(data / "rows.jsonl")]
    assert find_sources(settings.data, tmp_path) == expected
    assert settings.fingerprint() == config(tmp_path, data=sources | {"folder": None}).fingerprint()
    with raises(DataError, "data=", "data.folder"):
        data_locations(config(tmp_path, data={"folder": "nowhere"}).data, tmp_path)
