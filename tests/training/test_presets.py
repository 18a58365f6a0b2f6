"""Every preset is a whole configuration once a model and data are named, and says what its paper says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from training_sets import toml

from facts import raises
from tellapart.errors import DataError
from tellapart.training.config import DataConfig, TrainConfig, find_preset, list_presets, merge_preset, read_config


def settings(folder: Path, preset: str, **more: Any) -> TrainConfig:
    path = folder / "run.toml"
    values = {"name": "run", "model": "new:arch", "preset": preset, "data": {"train": ["a.jsonl"]}} | more
    path.write_text(toml(values), encoding="utf-8")
    return read_config(path)


#: Table -> its keys.
TABLES = {
    name: kind.model_fields
    for name, field in TrainConfig.model_fields.items()
    for kind in (field.annotation, *get_args(field.annotation))
    if isinstance(kind, type) and issubclass(kind, BaseModel)
}

#: What no paper says, and a configuration must.
UNKNOWN: dict[str, dict[str, Any]] = {"negbench": {"optimiser": {"epochs": 1}, "batch": {"size": 8}}}


@pytest.mark.parametrize("preset", list_presets())
def test_every_preset_needs_a_model_and_data_alone(tmp_path: Path, preset: str) -> None:
    if preset in UNKNOWN:
        with raises(DataError, "epochs", "steps", path="run.toml"):
            settings(tmp_path, preset)
    result = settings(tmp_path, preset, **UNKNOWN.get(preset, {}))
    assert result.data.train == ["a.jsonl"]
    assert result.optimiser.epochs is not None
    result.loss_terms()


def test_the_presets_say_what_the_papers_say(tmp_path: Path) -> None:
    # EqSim, appendix C: margin and weight of the released command, k = 8; FIBER's fine-tuning on Flickr30K.
    eqsim = settings(tmp_path, "eqsim-f30k")
    options = eqsim.loss_terms()[0].options
    assert (options["alpha"], options["beta"], options["k"]) == (0.1, 0.5, 8)
    assert (eqsim.batch.size, eqsim.optimiser.epochs, eqsim.optimiser.learning_rate) == (1024, 10, 2e-5)
    assert eqsim.optimiser.warm_up == round(0.1 * 10 * (29_000 * 5 // 1024))
    assert (eqsim.batch.accumulate, eqsim.batch.part) == (16, 64)  # 8 pairs on each of 8 GPUs, 16 times
    fiber, meter = settings(tmp_path, "eqsim-fiber-f30k"), settings(tmp_path, "eqsim-meter-f30k")
    itm, on_contrast = fiber.loss_terms()
    assert (itm.name, on_contrast.name, on_contrast.options["as_released"]) == ("itm", "eqsim", True)
    assert (on_contrast.options["alpha"], on_contrast.options["beta"], on_contrast.factor) == (0.1, 0.5, 1.0)
    assert (fiber.batch.part, fiber.image_size, fiber.data.augment, fiber.reading) == (64, 288, "fiber", "itm")
    assert fiber.optimiser.groups == dict.fromkeys(("*cross_modal*", "*i2t*", "*t2i*", "*itm_score*"), 5.0)
    ranking, itm = meter.loss_terms()
    assert (ranking.name, itm.name, itm.reading, itm.factor) == ("eqsim-ranking", "itm", "itm", 1.0)
    assert (meter.batch.size, meter.optimiser.learning_rate, meter.image_size) == (512, 5e-6, 288)
    assert meter.optimiser.warm_up == round(0.1 * 10 * (29_000 * 5 // 512))
    assert meter.matching is not None and (meter.matching.negatives, meter.matching.close) == (15, 8)
    # BiVLC, appendix: the same optimiser for both; the negatives come on top of 200 pairs.
    for preset, images in (("trohn-text", "none"), ("trohn-img", "mate")):
        bivlc = settings(tmp_path, preset)
        assert (bivlc.batch.size, bivlc.optimiser.learning_rate, bivlc.optimiser.warm_up) == (200, 1e-6, 50)
        assert (bivlc.optimiser.weight_decay, bivlc.optimiser.max_scale) == (0.1, None)
        assert bivlc.data.negative_images == images
    # No scale is clamped by TripletCLIP, CS-CLIP and CLIC; TripletCLIP decays everything, by its script or its README.
    for preset, rate, epochs in (("tripletclip", 5e-4, 10), ("tripletclip-paper", 5e-5, 30)):
        triplet = settings(tmp_path, preset).optimiser
        assert (triplet.learning_rate, triplet.epochs, triplet.decayed, triplet.max_scale) == (
            rate,
            epochs,
            "all",
            None,
        )
    assert settings(tmp_path, "cs-clip").optimiser.max_scale is None
    assert settings(tmp_path, "clic").optimiser.max_scale is None
    assert settings(tmp_path, "cs-clip").loss_terms()[0].options["foils"] == "own"
    assert settings(tmp_path, "fsc-clip").loss_terms()[0].options["unit_patches"] is False
    # The released commands of TripletCLIP, CE-CLIP (two GPUs of 256) and FSC-CLIP; what NegBench says at all.
    for preset, rate, size, decay, epochs in (
        ("tripletclip", 5e-4, 1024, 0.5, 10),
        ("ce-clip", 5e-6, 512, 0.1, 10),
        ("cs-clip", 5e-6, 1024, 0.01, 25),
        ("fsc-clip", 5e-6, 256, 0.1, 5),
        ("fsc-global", 5e-6, 256, 0.1, 5),
    ):
        found = settings(tmp_path, preset)
        assert (found.optimiser.learning_rate, found.batch.size) == (rate, size)
        assert (found.optimiser.weight_decay, found.optimiser.epochs) == (decay, epochs)
    clic = settings(tmp_path, "clic")
    assert (clic.optimiser.learning_rate, clic.batch.size, clic.optimiser.tower) == (1e-6, 4 * 200, "text")
    assert clic.optimiser.warm_up == round(0.2 * 1_000_000 / clic.batch.size)
    published = {"weight": 0.5, "gamma": 2.0, "smoothing": 0.02}
    assert settings(tmp_path, "fsc-global").loss == {"name": "fsc-global", **published}
    assert settings(tmp_path, "fsc-clip").loss == {"name": "fsc-clip", "local": 0.2, **published}
    asked = settings(tmp_path, "negbench", **UNKNOWN["negbench"])
    assert (asked.optimiser.learning_rate, asked.loss["contrast"], asked.loss["choice"]) == (1e-8, 0.99, 0.01)
    # COCO-Counterfactuals, appendix B.4: 8,705 of 17,410 and 25 %; all and 75 %; all and all.
    takes = [settings(tmp_path, f"coco-cf-{size}").data.take for size in ("base", "medium", "all")]
    assert takes == [[0.5, 0.25], [1.0, 0.75], [1.0, 1.0]]
    counterfactuals = settings(tmp_path, "coco-cf-all")
    assert (counterfactuals.seed, counterfactuals.batch.size, counterfactuals.data.share) == (107, 128, 0.8)
    assert (counterfactuals.optimiser.learning_rate, counterfactuals.optimiser.weight_decay) == (5e-7, 0.001)
    assert counterfactuals.optimiser.decay == "linear"


def test_a_preset_names_its_source_and_a_reason_for_each_value_that_is_not_released() -> None:
    keys = {f"{table}.{key}" for table, fields in TABLES.items() for key in fields}
    for name, preset in list_presets().items():
        assert preset.source and preset.values.get("preset") is None, name
        for of, reason in preset.ours.items():
            assert "." not in of or of in keys or of.startswith("loss."), of
            assert len(reason.split()) > 3, (name, of)
    assert "a row without a false caption" in find_preset("cs-clip").ours
    assert {"data.join", "words that change places"} <= find_preset("clic").ours.keys()


def test_presets_take_duplicates_for_negatives_as_the_released_code_and_the_file_may_mask_them(tmp_path: Path) -> None:
    for name in list_presets():
        assert settings(tmp_path, name, **UNKNOWN.get(name, {})).data.duplicates == "negatives", name
    assert settings(tmp_path, "negclip", data={"train": ["a"], "duplicates": "masked"}).data.duplicates == "masked"
    assert DataConfig(train=["a"]).duplicates == "masked"


def test_the_file_has_the_last_word(tmp_path: Path) -> None:
    result = settings(tmp_path, "negclip", optimiser={"steps": 3, "weight_decay": 0.0}, batch={"size": 16})
    assert (result.optimiser.steps, result.optimiser.epochs, result.optimiser.weight_decay) == (3, None, 0.0)
    assert (result.optimiser.learning_rate, result.batch.size) == (1e-6, 16)
    other = settings(tmp_path, "eqsim-f30k", loss={"name": "itc"})
    assert other.loss == {"name": "itc"}
    assert settings(tmp_path, "eqsim-f30k", loss={"alpha": 0.04}).loss["k"] == 8
    changed = settings(tmp_path, "eqsim-fiber-f30k", loss={"also.eqsim.alpha": 0.04}).loss_terms()[1].options
    assert (changed["alpha"], changed["k"], changed["as_released"]) == (0.04, 8, True)


def test_merging_changes_no_preset() -> None:
    before = copy.deepcopy(find_preset("negclip").values)
    merge_preset(find_preset("negclip").values, {"optimiser": {"steps": 1}, "batch": {"size": 2}, "seed": 9})
    assert before == find_preset("negclip").values


def test_steps_and_epochs_together_are_still_refused(tmp_path: Path) -> None:
    with raises(DataError, "epochs", "steps"):
        settings(tmp_path, "negclip", optimiser={"steps": 3, "epochs": 3})
