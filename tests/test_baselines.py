"""The baselines in the documents are what the captions give when they are measured again."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import import_document
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.models.text.tinystories import Checkpoint, TinyStories, read_checkpoint

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
LANGUAGE_MODELS = (ROOT / "scratch" / "tinystories" / "llama2.data", DATA / "tinystories" / "llama2.data")
WRITTEN: dict[str, Any] = json.loads((ROOT / "docs" / "baselines.json").read_text(encoding="utf-8"))
baselines = import_document("baselines")
MEASURED = [name for name, record in WRITTEN["benchmarks"].items() if "models" in record]


def at_hand(name: str) -> Benchmark:
    one = next(one for one in baselines.pair_benchmarks(DATA) if one.name == name)
    if one.missing():
        pytest.skip(f"the published files of {name} are not in ../shared/data")
    return one


def test_every_benchmark_of_pairs_has_its_baselines_or_a_reason():
    assert set(WRITTEN["benchmarks"]) == {name for name in BENCHMARKS if find_benchmark(name).task == "pairs"}
    for record in WRITTEN["benchmarks"].values():
        assert ("models" in record) != ("not_measured" in record)
        assert list(record.get("models", WRITTEN["models"])) == WRITTEN["models"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED[::2])
def test_measured_again_the_baselines_are_those_written_down(name):
    again = baselines.baselines_of(at_hand(name), baselines.models(None))
    written = WRITTEN["benchmarks"][name]
    assert {"blind", "bag-of-words"} <= set(written["models"])
    kept = {model: written["models"][model] for model in again["models"]}
    assert json.loads(json.dumps(again)) == written | {"models": kept}


@pytest.fixture(scope="module")
def language_model() -> Checkpoint:
    path = next((path for path in LANGUAGE_MODELS if path.is_file()), None)
    if path is None:
        pytest.skip("no language model here: python ci/parts.py tinystories")
    return read_checkpoint(path)


@pytest.mark.slow
def test_the_language_model_is_the_one_that_was_measured_and_knows_english(language_model):
    for model in (TinyStories(language_model), TinyStories(language_model, per_token=True)):
        assert model.fingerprint == WRITTEN["benchmarks"]["sugarcrepe"]["models"][model.name]["fingerprint"]
    texts = ("A cat is sitting on the mat.", "A mat is sitting on the cat.", "Mat the on sitting is cat a.")
    read = [TinyStories(language_model).log_likelihoods(text).mean() for text in texts]
    assert read == pytest.approx([-4.4797, -6.1428, -10.5656], abs=0.01)


@pytest.mark.slow
def test_the_language_model_finds_again_what_is_written_down(language_model):
    pairs = at_hand("sugarcrepe").records()
    tag, part = "subset", "swap_obj"
    swapped = pairs.select([k for k, item in enumerate(pairs.items) if item.tags[tag] == part])
    for model in (baselines.ReadOnce(language_model), baselines.ReadOnce(language_model, per_token=True)):
        written = WRITTEN["benchmarks"]["sugarcrepe"]["models"][model.name]
        assert model.fingerprint == written["fingerprint"]
        again = baselines.measured(model, swapped)["choice_score"]["value"]
        # Two likelihoods may be closer than another machine's arithmetic: a few items can change sides.
        assert abs(again - written["by"][tag][part]["value"]) <= 2 / len(swapped)


def test_what_stands_in_brackets_is_the_share_with_ties_broken_at_random():
    for record in WRITTEN["benchmarks"].values():
        for model, numbers in record.get("models", {}).items():
            for metric, found in numbers.items():
                if isinstance(found, dict) and "value" in found:
                    assert found["low"] <= found["value"] <= found["high"], (model, metric)
                    assert found["value"] <= found["tie_neutral"] + 1e-6, (model, metric)
                    assert bool(found["ties"]) or found["value"] == found["tie_neutral"], (model, metric)
