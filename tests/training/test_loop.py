"""A run's numbers are those of a plain loop, in any pieces or precision, however often it is killed."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from training_sets import architecture, check_resumed, config, far, logged, made_steps, moved, near, squares, weights

from facts import raises
from sets import write_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, ModelError, RunError
from tellapart.evaluation.verified import read_result
from tellapart.metrics.pairs import group_score
from tellapart.models.find import find_model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training import encoders, loop
from tellapart.training.data.rows import BatchOrder, read_rows
from tellapart.training.encoders import open_dual, write_new_model
from tellapart.training.loop import TrainingRanks, rate
from tellapart.training.record import read_record, write_progress
from tellapart.training.run_files import RunFiles
from tellapart.training.steps import DualStep, matching_settings
from tellapart.training.training_run import run_training


@pytest.mark.parametrize("duplicates", ["masked", "negatives"])
def test_a_run_equals_a_plain_loop_of_torch(tmp_path, duplicates):
    run_training(config(tmp_path, data={"duplicates": duplicates}), tmp_path, tmp_path / "run")
    # The same in the plainest way: the whole batch, cross-entropy both ways, AdamW in two groups, the schedule.
    model = open_dual(f"local-dir:{tmp_path / 'run' / 'start'}", "cpu")
    named = [p for _, p in model.module.named_parameters()]
    groups = [
        {"params": [p for p in named if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in named if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-2)
    pairs = read_pair_set(tmp_path / "train")
    rows = [(item.images[k], item.texts[k]) for item in pairs.items for k in (0, 1)]
    orders = [np.random.default_rng([0, epoch]).permutation(24) for epoch in (0, 1)]
    for step in range(4):
        chosen = orders[step // 3][step % 3 * 8 : step % 3 * 8 + 8]
        images = torch.stack([model.image(pairs.pixels(rows[n][0]))["pixels"] for n in chosen])
        encoded = model.module({"pixels": images}, model.tokens([rows[n][1] for n in chosen]))
        logits = encoded["scale"] * encoded["images"] @ encoded["texts"].T
        if duplicates == "masked":  # a caption is in the batch several times: these are not each other's negatives
            texts = [rows[n][1] for n in chosen]
            alike = torch.tensor([[one == other for other in texts] for one in texts]) & ~torch.eye(8, dtype=torch.bool)
            logits = logits.masked_fill(alike, float("-inf"))
        same = torch.nn.functional.cross_entropy
        loss = (same(logits, torch.arange(8)) + same(logits.T, torch.arange(8))) / 2
        line = [one for one in logged(tmp_path / "run") if "total" in one][step]
        assert loss.item() == pytest.approx(line["total"], rel=1e-5)
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * rate(step, 4, 1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    trained = weights(tmp_path / "run")
    for name, value in model.module.model.state_dict().items():
        assert torch.allclose(value, trained[name], atol=2e-6), name


def test_biases_norms_and_the_scale_are_decayed_where_everything_is(tmp_path):
    decay = {"weight_decay": 0.5, "learning_rate": 1e-2}
    both = [config(tmp_path, optimiser=decay | {"steps": 1, "decayed": decayed}) for decayed in ("matrices", "all")]
    for name, settings in zip(("matrices", "all"), both, strict=True):
        run_training(settings, tmp_path, tmp_path / name)
    start = read_state_dict(tmp_path / "all" / "start" / "open_clip_model.safetensors")
    plain, decayed = weights(tmp_path / "matrices"), weights(tmp_path / "all")
    trained = [name for name, value in start.items() if value.is_floating_point() and "attn_mask" not in name]
    assert any(start[name].ndim < 2 for name in trained)
    for name in trained:  # the same gradient moved both; decay takes rate x decay of the weights at the start
        less = 1e-2 * 0.5 * start[name] if start[name].ndim < 2 else torch.zeros(())
        torch.testing.assert_close(plain[name] - decayed[name], less.expand_as(start[name]), rtol=1e-3, atol=1e-6)
    assert "logit_scale" in trained


EQSIM = {"name": "eqsim", "variant": "v2-all", "normalise": "none", "alpha": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "batch"),
    [
        *(({"name": name}, {}) for name in ("eqsim", "trohn-img", "siglip", "cyclip", "ce-clip")),
        (EQSIM, {"size": 12, "accumulate": 3}),
    ],
    ids=str,
)
def test_every_loss_trains_and_a_gradient_cache_changes_no_number(tmp_path, loss, batch):
    seed = 2**31 - 1  # the highest
    settings = config(tmp_path, loss=loss, batch=batch, seed=seed)
    if loss["name"] == "siglip":
        architecture(tmp_path / "arch", init_logit_bias=-10.0)
    run_training(settings, tmp_path, tmp_path / "whole")
    cut = {**batch, "micro": 3, "chunk": 2}
    run_training(config(tmp_path, loss=loss, batch=cut, seed=seed), tmp_path, tmp_path / "cached")
    near(tmp_path / "whole", tmp_path / "cached")
    assert moved(tmp_path / "whole") == {name for name in weights(tmp_path / "whole") if "attn_mask" not in name}


def write_units(folder: Path, name_unit: Callable[[int, str], list[list[str]]]) -> None:
    """Write rows of the training set with units of each row, by its number and caption."""
    rows = [
        {"image": f"train/{item.images[k]}", "caption": item.texts[k], "negative_captions": [item.texts[1 - k]]}
        | {"negative_images": [2 * number + 1 - k], "units": name_unit(2 * number + k, item.texts[k])}
        for number, item in enumerate(read_pair_set(folder / "train").items)
        for k in (0, 1)
    ]
    write_file(folder / "units.jsonl", rows)


@pytest.mark.parametrize(("images", "drawn_of"), [("pairs", [0, 2, 1, 3]), ("mate", [0, 2])])
def test_every_pair_of_a_batch_has_its_units_and_a_mate_has_none(tmp_path, images, drawn_of):
    settings = config(tmp_path, loss={"name": "cs-clip"}, data={"train": ["units.jsonl"], "negative_images": images})
    write_units(tmp_path, lambda number, _: [[f"unit {number}", "foil"]])
    step = made_steps(settings, tmp_path, "units.jsonl")
    assert step.draw([0, 2], 0).texts["units"][:, 0, 0].tolist() == [f"unit {number}" for number in drawn_of]


def test_a_step_of_added_losses_draws_what_any_of_them_needs(tmp_path):
    settings = config(tmp_path, loss={"name": "negclip", "also": {"ce-clip": {}, "trohn-img": {}}})
    steps = made_steps(settings, tmp_path)
    drawn = steps.draw([0, 2], 0)
    assert (drawn.rows, drawn.texts["negative_texts"].shape) == ([0, 2, 1, 3], (4, 4))
    assert {"ce-clip.rank", "trohn-img.image_to_text"} <= gradients(steps, [0, 2], 0)[0].keys()
    for added, facts in (("clic", ["itc + clic", "hard counterparts"]), ("cs-clip", ["itc + cs-clip", "units"])):
        sums = config(tmp_path, loss={"name": "itc", "also": {added: {}}}, data={"negative_images": "pairs"})
        with raises(DataError, *facts):
            made_steps(sums, tmp_path)


def test_a_bias_that_no_loss_reads_has_a_gradient_that_several_ranks_wait_for(tmp_path):
    architecture(tmp_path / "biased", init_logit_bias=-10.0)
    steps = made_steps(config(tmp_path, model="new:biased"), tmp_path)
    found = gradients(steps, [0, 2], 0)[1]
    assert found.keys() == dict(steps.module.named_parameters()).keys() and found["model.logit_bias"] == 0


@pytest.mark.slow
def test_units_are_drawn_with_their_foils_and_a_gradient_cache_changes_no_number(tmp_path):
    data = {"train": ["units.jsonl"], "negative_images": "none"}
    settings = config(tmp_path, loss={"name": "cs-clip"}, data=data, optimiser={"steps": 2})
    write_units(tmp_path, lambda number, text: [[text[: 10 + n], f"{number}, {n}"] for n in range(3)])
    run_training(settings, tmp_path, tmp_path / "whole")
    cached = settings.model_copy(update={"batch": settings.batch.model_copy(update={"micro": 3, "chunk": 2})})
    run_training(cached, tmp_path, tmp_path / "cached")
    near(tmp_path / "whole", tmp_path / "cached")
    assert all(line["units"] > 0.1 for line in logged(tmp_path / "whole") if "total" in line)
    # What is drawn is two units of the row, with replacement, each with its own foil, others in another step.
    step = made_steps(settings, tmp_path, "units.jsonl")
    drawn = [step.draw([5, 0], number) for number in range(12)]
    pairs = [[tuple(pair) for pair in one.texts["units"].reshape(-1, 2)] for one in drawn]
    assert {pair for one in pairs for pair in one[:2]} == set(step.rows.rows[5].units)
    assert {pair for one in pairs for pair in one[2:]} == set(step.rows.rows[0].units)
    assert {one[0] == one[1] for one in pairs} == {True, False}
    texts = torch.arange(12.0)[:, None]  # two captions, two false ones, and two units of each with their foils
    words = [f"cat {number}" for number in range(11)] + ["cat 4"]  # the last foil has the tokens of the first unit
    written = np.array(words, object)
    parts, cuts = drawn[0].texts, np.cumsum([part.size for part in drawn[0].texts.values()])[:-1]
    named = {key: each.reshape(parts[key].shape) for key, each in zip(parts, np.split(written, cuts), strict=True)}
    encoded = {"images": torch.zeros(2, 1), "texts": texts, "scale": torch.tensor(1.0)}
    batch = step._make_batch(replace(drawn[0], texts=named, every_text=words), encoded, 0)
    assert batch.unit_ids[1, 1, 1] == batch.unit_ids[0, 0, 0] and len(batch.unit_ids.unique()) == 7
    assert batch.units[..., 0].tolist() == [[[4, 5], [6, 7]], [[8, 9], [10, 11]]]
    with raises(DataError, "loss", "'cs-clip'", "0"):
        run_training(config(tmp_path, loss={"name": "cs-clip"}), tmp_path, tmp_path / "none")


@pytest.mark.slow
def test_training_on_a_few_pairs_learns_them(tmp_path):
    optimiser = {"learning_rate": 3e-3, "steps": 200, "epsilon": 1e-8, "weight_decay": 0.0, "warm_up": 10}
    data = {"validation": "folder:train", "together": True, "keep_images": True}
    settings = config(tmp_path, data=data, optimiser=optimiser, batch={"size": 24}, validation={"every": 100})
    finished = run_training(settings, tmp_path, tmp_path / "run")
    losses = [one["total"] for one in logged(tmp_path / "run") if "total" in one]
    assert losses[-1] < losses[0] / 2  # captions that stand twice keep it from zero
    assert finished.state.best is not None and finished.state.best > 0.5
    # The written model is the one that the validation set chose, and anyone may measure it.
    pairs = read_pair_set(tmp_path / "train")
    scores = score(find_model(finished.name), pairs, store=EmbeddingStore(None)).scores
    assert group_score(scores.values).mean() == finished.state.best


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 5])
def test_a_run_that_stops_anywhere_goes_on_to_the_same_bytes(tmp_path, last):
    settings = config(tmp_path, loss={"name": "negclip"}, optimiser={"steps": 6}, data={"validation": "folder:train"})
    check_resumed(settings, tmp_path, last)


@pytest.mark.slow
def test_a_resumed_run_refuses_best_weights_and_checkpoints_that_are_not_its_own(tmp_path):
    settings, best = config(tmp_path, optimiser={"steps": 2}), Path("best") / "weights.safetensors"
    for seed in (0, 1):
        run_training(settings.model_copy(update={"seed": seed}), tmp_path, tmp_path / f"seed-{seed}")
    shutil.copy(tmp_path / "seed-1" / best, tmp_path / "seed-0" / best)
    with raises(RunError, "seed-0/best/weights.safetensors", "SHA-256"):
        run_training(settings, tmp_path, tmp_path / "seed-0", resume=True)
    shutil.copytree(tmp_path / "seed-1" / "checkpoints", tmp_path / "seed-0" / "checkpoints", dirs_exist_ok=True)
    with raises(RunError, "seed-0/checkpoints/step-00000002", "run", "delete"):
        run_training(settings, tmp_path, tmp_path / "seed-0", resume=True)


@pytest.mark.slow
def test_the_scale_stays_below_its_limit_and_is_free_without_one(tmp_path):
    bound, free = (
        [line["scale"] for line in lines_of(tmp_path, f"{most}", optimiser={"max_scale": most}) if "scale" in line]
        for most in (12.0, None)
    )
    assert bound == pytest.approx([12.0, 11.99, 11.99, 11.99], abs=0.01) and min(free) > 12


@pytest.mark.slow
def test_other_data_or_options_are_another_run(tmp_path):
    settings = config(tmp_path, data={"validation": f"folder:{squares(tmp_path / 'chosen', 4, seed=9)}"})
    run_training(settings, tmp_path, tmp_path / "chosen-run")
    with raises(RunError, "chosen-run", "validation.every"):
        run_training(settings.changed(validation={"every": 1}), tmp_path, tmp_path / "chosen-run", resume=True)
    shutil.rmtree(tmp_path / "chosen")
    squares(tmp_path / "chosen", 4, seed=10)
    with raises(RunError, "chosen-run", "validation_items"):
        run_training(settings, tmp_path, tmp_path / "chosen-run", resume=True)
    run_training(config(tmp_path), tmp_path, tmp_path / "run")
    with raises(RunError, "run", "seed 0 -> 1", "model", "out="):
        run_training(config(tmp_path, seed=1), tmp_path, tmp_path / "run", resume=True)
    squares(tmp_path / "other", seed=3)
    with raises(RunError, "run", "another"):
        run_training(config(tmp_path, data={"train": ["folder:other"]}), tmp_path, tmp_path / "run", resume=True)
    with raises(RunError, "folder", "train"):
        run_training(config(tmp_path), tmp_path, tmp_path / "train")


def test_a_run_that_diverges_names_the_batch_and_overwrites_nothing(tmp_path):
    settings = config(tmp_path, optimiser={"learning_rate": 1e30, "steps": 6}, validation={"every": 1})
    rows = BatchOrder(read_rows(["folder:train"], tmp_path), 8, 0).batch(1)
    with raises(RunError, "nan", "step 2", ", ".join(f"{row} ({row // 2}_{row % 2}.png)" for row in rows)):
        run_training(settings, tmp_path, tmp_path / "run")
    assert [line["step"] for line in logged(tmp_path / "run")] == [1]
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000001"]
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.slow
def test_pictures_of_a_reported_benchmark_are_refused(tmp_path):
    name = f"folder:{squares(tmp_path / 'test', seed=0)}"  # the same squares as the training set
    settings = config(tmp_path, report={"benchmarks": [name]})
    with raises(DataError, "24", "0_0.png", "0_1.png", "allow_leak=True"):
        run_training(settings, tmp_path, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    finished = run_training(settings, tmp_path, tmp_path / "run", allow_leak=True)
    assert finished.record.comparison.a.endswith("start")


@pytest.mark.slow
def test_the_start_is_opened_once(tmp_path, monkeypatch):
    opened, really = [], encoders.open_dual
    monkeypatch.setattr(encoders, "open_dual", lambda name, device: opened.append(name) or really(name, device))
    benchmark = f"folder:{squares(tmp_path / 'test', count=4, seed=5)}"
    settings = config(tmp_path, report={"benchmarks": [benchmark], "alphas": [0.0]}, optimiser={"steps": 1})
    drawn = write_new_model(tmp_path / "arch", tmp_path / "drawn", 0)
    run_training(settings.model_copy(update={"model": drawn}), tmp_path, tmp_path / "run", allow_leak=True)
    assert opened == [drawn]


def test_what_others_told_accelerate_is_kept_and_said(tmp_path):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        theirs = Accelerator(cpu=True, mixed_precision="bf16")
        with raises(RunError, "device", "precision"):
            run_training(config(tmp_path), tmp_path, tmp_path / "run")
        assert theirs.mixed_precision == "bf16" and not (tmp_path / "run").exists()
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.slow
def test_what_was_gained_and_what_lies_between_is_measured(tmp_path):
    names = [f"folder:{squares(tmp_path / 'test', seed=5)}", "demo-objects"]
    settings = config(tmp_path, report={"benchmarks": names, "alphas": [0.0, 0.5, 1.0]})
    result = run_training(settings, tmp_path, tmp_path / "run", allow_leak=True)
    record = result.record
    assert {row.benchmark for row in record.comparison.rows} == {"folder:test", "demo-objects"}
    assert all(row.low is not None and row.low <= row.difference <= row.high for row in record.comparison.rows)
    assert list(record.sweep.curve) == [0.0, 0.5, 1.0]
    # The ends of the sweep are the start and the trained model themselves, and are not computed again.
    swept = [read_result(tmp_path / f"run/wise/alpha-{alpha:.2f}/report").benchmarks for alpha in record.sweep.curve]
    assert [sum(measured.images_encoded for measured in each.values()) > 0 for each in swept] == [False, True, False]
    group = next(row for row in record.comparison.rows if row.metric == "group_score")
    assert record.comparison.b == result.name and group.b >= 0
    kept = tmp_path / "run" / "wise" / f"alpha-{record.sweep.best:.2f}" / "model"
    assert kept.is_dir() and len(list((tmp_path / "run" / "wise").glob("*/model"))) == 1
    # A set and alphas that are reported no more leave no trace in what is measured anew; the folders keep them.
    fewer = config(tmp_path, report={"benchmarks": names[:1], "alphas": [0.25, 0.5]})
    again = run_training(fewer, tmp_path, tmp_path / "run", resume=True, allow_leak=True).record
    assert {row.benchmark for row in again.comparison.rows} == {*again.sweep.benchmarks} == {"folder:test"}
    swept = sorted(path.name for path in (tmp_path / "run" / "wise").glob("alpha-*"))
    assert swept == ["alpha-0.00", "alpha-0.25", "alpha-0.50", "alpha-1.00"] and again.sweep.curve.keys() == {0.25, 0.5}
    assert read_result(RunFiles(tmp_path / "run").report).benchmarks.keys() == {"folder:test", "demo-objects"}


def test_a_clip_of_transformers_trains_and_loads_again(tmp_path):
    import tiny_models

    folder = tiny_models.clip(tmp_path / "clip")
    finished = run_training(config(tmp_path, model=f"hf:{folder}"), tmp_path, tmp_path / "run")
    trained, begun = find_model(finished.name), find_model(f"hf:{folder}")
    assert np.abs(trained.encode_texts(["a red square"]) - begun.encode_texts(["a red square"])).max() > 1e-4
    drawn = find_model(run_training(config(tmp_path, model=f"new:{folder}"), tmp_path, tmp_path / "fresh").name)
    assert len({drawn.fingerprint, trained.fingerprint, begun.fingerprint}) == 3


@pytest.mark.parametrize("family", ["siglip", "siglip2_naflex"])
def test_a_siglip_of_transformers_trains_with_its_bias_and_pieces_change_no_number(family, tmp_path):
    import tiny_models

    (tmp_path / "start").mkdir()  # of sentencepiece's files
    folder, trained = tiny_models.FAMILIES[family](tmp_path / "start"), list[dict[str, Any]]()
    for name, batch in (("whole", {"size": 8}), ("pieces", {"size": 8, "micro": 3})):
        settings = config(tmp_path, model=f"hf:{folder}", loss={"name": "siglip"}, batch=batch)
        saved = run_training(settings, tmp_path, tmp_path / name).name
        trained.append(read_state_dict(Path(saved.removeprefix("hf:")) / "model.safetensors"))
    begun = read_state_dict(folder / "model.safetensors")
    assert all((trained[0][name] != begun[name]).any() for name in ("logit_scale", "logit_bias"))
    for name, tensor in trained[0].items():
        torch.testing.assert_close(tensor, trained[1][name], rtol=1e-4, atol=1e-6)


def test_what_has_no_gradients_cannot_be_trained(tmp_path):
    with raises(ModelError, "constant"):
        run_training(config(tmp_path, model="constant"), tmp_path, tmp_path / "run")
    with raises(ModelError, "open_clip_config.json", "folder"):
        run_training(config(tmp_path, model="new:train"), tmp_path, tmp_path / "run")
    with raises(DataError, "reading", "'itm'", "'itc'"):  # else it would end when the trained model is measured
        run_training(config(tmp_path, reading="itm"), tmp_path, tmp_path / "run")


@pytest.mark.slow
def test_a_run_stops_when_nothing_is_better_beyond_doubt_and_goes_on_to_the_same_end(tmp_path):
    still, chosen = {"learning_rate": 1e-12, "steps": 9}, f"folder:{squares(tmp_path / 'valid', 6, seed=9)}"
    patient = {"every": 2, "patience": 2}
    settings = config(tmp_path, data={"validation": chosen}, optimiser=still, validation=patient)
    finished = run_training(settings, tmp_path, tmp_path / "run")
    # The first measurement is what the others are compared with; nothing moves at this rate.
    assert [step for step, _ in finished.state.history] == [2, 4, 6]
    assert (finished.state.stopped, finished.state.step, read_record(tmp_path / "run").steps) == (True, 6, 6)
    check_resumed(settings, tmp_path, last=5)
    assert run_training(settings, tmp_path, tmp_path / "stopped", resume=True).state == finished.state
    # A run that has stopped takes no further step.
    assert run_training(settings, tmp_path, tmp_path / "run", resume=True).state == finished.state


def test_a_rank_that_is_not_told_enough_does_not_train_alone_and_an_empty_variable_is_none(monkeypatch):
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    with raises(RunError, "RANK='1'", "WORLD_SIZE='2'", "LOCAL_RANK", "torchrun"):
        TrainingRanks("cpu")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")
    assert TrainingRanks("cpu").of == 1


def test_a_run_of_minutes_has_its_steps_planned_once(tmp_path):
    minutes = {"steps": None, "minutes": 0.02, "warm_up": 0}
    done = run_training(config(tmp_path, optimiser=minutes), tmp_path, tmp_path / "run", show=write_progress)
    steps = json.loads((tmp_path / "run" / "run.json").read_text())["steps"]
    assert done.state.step == steps and not (tmp_path / "run" / "tried").exists()
    # The timed steps left no trace: a run of as many steps, named, has the same weights.
    run_training(config(tmp_path, optimiser={"steps": steps, "warm_up": 0}), tmp_path, tmp_path / "named")
    assert far(weights(tmp_path / "run"), weights(tmp_path / "named")) == 0
    page = (tmp_path / "run" / "report.html").read_text()  # nothing took the place of the last one
    assert f"step {steps} of {steps}" in page and 'http-equiv="refresh"' in page and page.count("<figure") >= 2


@pytest.mark.parametrize(("pace", "measuring"), [(0.1, 30.0), (0.02, 1.0), (2.0, 20.0)])  # long runs, a short one
def test_the_steps_of_so_many_minutes_fit_with_all_their_measurements(tmp_path, monkeypatch, pace, measuring):
    def time_steps(training: Any, *_steps: Any, every: int) -> tuple[list[float], float]:
        training.files.folder.mkdir(parents=True)
        return [pace] * every, measuring

    monkeypatch.setattr(loop, "time_steps", time_steps)
    settings = config(tmp_path, optimiser={"steps": None, "minutes": 60, "warm_up": 0}, validation={"every": None})
    parts: dict[str, Any] = {"trainable": SimpleNamespace(module=torch.nn.Linear(1, 1)), "ranks": SimpleNamespace(of=1)}
    files = RunFiles(tmp_path / "run")
    steps = loop.fit_steps(loop.Training(settings, rows=None, files=files, validation=None, **parts))
    seconds = steps * pace + math.ceil(steps / settings.validation.interval(steps)) * measuring
    assert 3600 - pace - measuring <= seconds <= 3600 + measuring


def lines_of(folder: Path, name: str, **changes) -> list[dict[str, float]]:
    run_training(config(folder, **changes), folder, folder / name)
    return logged(folder / name)


@pytest.mark.slow
def test_what_bfloat16_moves_is_measured_and_logged_once(tmp_path):
    plain, half, again = (
        lines_of(tmp_path, name, precision=precision, optimiser={"steps": 2})
        for name, precision in (("plain", "float32"), ("half", "bfloat16"), ("again", "float32"))
    )
    assert plain == again  # runs of one process may differ in precision
    assert [line["total"] for line in half] == pytest.approx([line["total"] for line in plain], rel=0.02)
    assert not any("moved_loss" in line for line in [*plain, half[1]])
    assert 1e-5 < half[0]["moved_gradient"] < 0.1
    assert half[0]["moved_loss"] == pytest.approx(abs(half[0]["total"] / plain[0]["total"] - 1), rel=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, while it reads the code
def test_a_compiled_model_takes_the_same_step(tmp_path):
    one = {"optimiser": {"steps": 1}}
    lines_of(tmp_path, "plain", **one)
    (line,) = lines_of(tmp_path, "compiled", compile="aot_eager", **one)
    assert line["moved_gradient"] < 1e-4 > line["moved_loss"]
    assert far(weights(tmp_path / "plain"), weights(tmp_path / "compiled")) < 2e-5
    with raises(DataError, "compile", "'aot_eager'"):
        lines_of(tmp_path, "no", model="hf:none", loss={"name": "itm"}, compile="aot_eager")


def gradients(steps: DualStep, numbers: list[int], part: int) -> tuple[dict[str, float], dict[str, Any]]:
    steps.module.zero_grad()
    drawn = steps.draw(numbers, part)
    found = steps.backward(drawn, [steps.trainable.image(steps.rows.pixels(n)) for n in drawn.rows], part)
    grads = {name: p.grad.clone() for name, p in steps.module.named_parameters() if p.grad is not None}
    return {name: float(value) for name, value in found.items()}, grads


@pytest.mark.slow
def test_the_gradient_is_the_mean_of_the_parts_gradients(tmp_path):
    once = {"steps": 1, "warm_up": 0}
    settings = config(tmp_path, loss=EQSIM, batch={"size": 12, "accumulate": 3}, optimiser=once)
    run_training(settings, tmp_path, tmp_path / "run")
    steps = made_steps(settings, tmp_path)
    steps.module.train()
    order = BatchOrder(steps.rows, 12, 0)
    parts = [order.batch(part, parts=3) for part in range(3)]
    assert [len(part) for part in parts] == [4, 4, 4] and [*parts[0], *parts[1], *parts[2]] == order.batch(0)
    found = [gradients(steps, part, number) for number, part in enumerate(parts)]
    line = logged(tmp_path / "run")[0]
    for name in found[0][0]:
        assert line[name] == pytest.approx(sum(losses[name] for losses, _ in found) / 3, rel=1e-6)
    mean = {name: sum(grads[name] for _, grads in found) / 3 for name in found[0][1]}
    length = float(torch.stack([gradient.norm() for gradient in mean.values()]).norm())
    assert line["gradient_norm"] == pytest.approx(length, rel=1e-5)
    # One matrix of all twelve is another loss.
    whole, _ = gradients(steps, order.batch(0), 0)
    assert whole["itc"] > line["itc"] + 0.3


def test_parts_must_be_equal_and_hold_two_pairs(tmp_path):
    for size, count in ((8, 3), (8, 8)):
        with raises(ValueError, f"accumulate = {count}", "8"):
            config(tmp_path, batch={"size": size, "accumulate": count})
    with raises(DataError, "2", "1", "batch.size", "batch.accumulate"):
        fusion = config(tmp_path, loss={"name": "itm"}, matching={"negatives": 2}, batch={"size": 8, "accumulate": 4})
        matching_settings(fusion, read_rows(["folder:train"], tmp_path))
    with raises(DataError, "data.together", "2", "3", "batch.accumulate"):  # a part has its matrix, and items of two
        torn = config(tmp_path, data={"together": True}, batch={"size": 12, "accumulate": 4})
        run_training(torn, tmp_path, tmp_path / "run")


def test_a_process_that_has_trained_on_the_cpu_says_so_when_it_is_to_train_on_a_gpu(monkeypatch):
    TrainingRanks("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with raises(RunError, "'cuda'", "not available"):
        TrainingRanks("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with raises(RunError, "'cuda'", "'cpu'", "another"):
        TrainingRanks("cuda")
