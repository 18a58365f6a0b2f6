"""The ablation's page says what its record says, its program runs, and its smoke run survives being killed."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from examples.eqsim_ablation import run
from examples.eqsim_ablation.curves import drawing
from examples.eqsim_ablation.outcomes import group, paired, summarise
from examples.eqsim_ablation.page import DRAWING, PAGE, RECORD, page
from examples.eqsim_ablation.plan import HERE, SETS, fine_tuning, methods, pretraining
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.metrics.registry import METRICS
from tellapart.models.torch_backend import import_torch
from tellapart.train.config import ReportConfig, loss_options, read_config
from tellapart.train.losses.batch import Batch
from tellapart.train.losses.itc import itc
from tellapart.train.losses.negclip import negclip
from tellapart.train.rows import read_rows
from tellapart.train.training_run import run_training

torch = import_torch()

ROOT = Path(__file__).parents[2]
SMOKE = HERE / "smoke.toml"
RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))

outcomes = arrays(bool, (3, 6))


@pytest.mark.slow
def test_the_page_and_its_drawing_are_those_of_the_record() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(RECORDED)
    assert DRAWING.read_text(encoding="utf-8") == drawing(RECORDED["curves"])


def test_the_record_holds_every_row_with_at_least_five_seeds_and_no_path() -> None:
    seeds: dict[str, set[int]] = {}
    for one in RECORDED["runs"]:
        seeds.setdefault(one["method"], set()).add(one["seed"])
    assert set(seeds) == {row.name for row in methods()}
    assert {frozenset(found) for found in seeds.values()} == {frozenset(range(5))}
    assert "/" not in json.dumps({key: value for key, value in RECORDED.items() if key != "curves"})


def test_every_run_chose_its_weights_on_the_validation_scenes() -> None:
    for one in [RECORDED["start"], *RECORDED["runs"]]:
        values = dict(map(tuple, one["history"]))
        assert values[one["best_step"]] == max(values.values())


def test_every_row_and_the_start_are_configurations_of_the_same_steps_and_batches(tmp_path: Path) -> None:
    told = [fine_tuning(row, 1, tmp_path, "local-dir:start") for row in methods()]
    assert len({(one.optimiser.model_dump_json(), one.batch, one.model) for one in told}) == 1
    assert len({json.dumps(one.loss) + str(one.data.together) for one in told}) == len(told)
    for one in told:
        loss_options(one.loss)
    assert pretraining(tmp_path).loss == {"name": "itc"}
    assert read_config(HERE / "fine_tune.toml").optimiser == told[0].optimiser
    assert len({read_recipe_file(recipe).seed for recipe in SETS.values()}) == len(SETS)


@settings(max_examples=15)
@given(outcomes, outcomes)
def test_a_difference_lies_in_its_interval_and_turns_round_with_its_sides(ours: np.ndarray, theirs: np.ndarray) -> None:
    found, turned = paired(list(ours), list(theirs)), paired(list(theirs), list(ours))
    assert found.low - 1e-12 <= found.value <= found.high + 1e-12
    assert math.isclose(found.value, -turned.value, abs_tol=1e-12)
    assert paired(list(ours), list(ours)) == paired(list(theirs), list(theirs))
    assert not paired(list(ours), list(ours)).excludes_zero


def test_a_bootstrap_over_items_alone_has_the_textbook_width() -> None:
    ours = np.random.default_rng(1).random(400) < 0.7
    found = paired([ours], [np.zeros(400, bool)])
    error = math.sqrt(ours.mean() * (1 - ours.mean()) / 400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.05)


@given(arrays(np.float32, (11, 2, 2), elements=st.floats(-1, 1, width=32)))
def test_what_the_record_keeps_gives_the_group_score_back(scores: np.ndarray) -> None:
    expected = METRICS["group_score"].per_item(scores).astype(bool)
    assert group(summarise(scores), 11).tolist() == expected.tolist()


def test_with_the_items_together_negclip_on_these_pairs_is_contrast() -> None:
    """As methods.toml says of NegCLIP: an item's false captions are the batch's true ones, each counted twice."""
    generator = torch.Generator().manual_seed(0)

    def vectors() -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(8, 5, generator=generator), dim=1).requires_grad_()

    images, texts = vectors(), vectors()
    mates = texts.reshape(4, 2, 5).flip(1).reshape(8, 1, 5)
    batch = Batch(images, texts, torch.tensor(7.0), torch.arange(8))
    plain = itc(batch)["total"]
    harder = negclip(Batch(images, texts, torch.tensor(7.0), torch.arange(8), negative_texts=mates))["total"]
    assert float((harder - plain).detach()) == pytest.approx(math.log(2) / 2, abs=1e-5)
    for one in (images, texts):
        expected, found = (torch.autograd.grad(loss, one, retain_graph=True)[0] for loss in (plain, harder))
        torch.testing.assert_close(found, expected)


def test_the_smoke_scenes_are_training_scenes_of_all_aspects() -> None:
    pairs = read_pair_set(HERE / "smoke_scenes")
    recipe = read_recipe_file(SETS["train"])
    assert pairs.card["recipe"]["seed"] == recipe.seed
    assert [
        sum(item.tags["aspect"] == name for item in pairs.items) for name in ("attribute", "counting", "location")
    ] == [12] * 3
    assert {item.tags["held_out"] for item in pairs.items} == {"no"}


def weights(out: Path) -> bytes:
    return (out / "model" / "open_clip_model.safetensors").read_bytes()


@pytest.mark.slow
def test_killed_in_mid_run_the_smoke_run_goes_on_to_the_same_weights_and_log(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "tellapart", "train", "examples/eqsim_ablation/smoke.toml", "--out", str(killed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=-3, stderr=-3) as process:
        log = killed / "log.jsonl"
        until = time.monotonic() + 120
        while (not log.exists() or len(log.read_text().splitlines()) < 11) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert (killed / "checkpoints").exists()
    assert not (killed / "model").exists()
    config = read_config(SMOKE).model_copy(update={"report": ReportConfig()})  # a report changes no weights
    resumed = run_training(config, HERE, killed, resume=True)
    straight = run_training(config, HERE, whole)
    assert resumed.resumed
    assert resumed.state.history == straight.state.history
    assert log.read_text() == (whole / "log.jsonl").read_text()
    assert weights(killed) == weights(whole)


@pytest.mark.slow
def test_the_program_goes_on_where_it_was_and_prints_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = read_pair_set(HERE / "smoke_scenes")
    sets = {"train": range(1, 33), "validation": (0,), "test": (33, 34, 35)}
    for name, numbers in sets.items():
        items = [pairs.items[number] for number in numbers]
        images = {image: (pairs.root / image).read_bytes() for item in items for image in item.images}
        write_pair_set(tmp_path / "sets" / name, items, images, {})
    monkeypatch.setattr(run, "methods", lambda: [row for row in methods() if row.name in {"ft", "eqsim"}])
    arguments = [
        "--work",
        str(tmp_path),
        "--limit",
        "1",
        "--seeds",
        "2",
        "--test",
        f"folder:{tmp_path / 'sets' / 'test'}",
    ]
    printed = []
    for _ in range(2):
        with redirect_stdout(io.StringIO()) as out:
            run.main([*arguments, "--jobs", "1"])
        printed.append(out.getvalue().split("## Cost")[0])
        runs = sorted((tmp_path / "runs").iterdir())
        assert [folder.name for folder in runs] == [
            f"{row}-{seed}-first-1" for row in ("eqsim", "ft") for seed in (0, 1)
        ]
        assert all({path.name for path in folder.iterdir()} >= {"scores.npy", "log.jsonl"} for folder in runs)
    assert printed[0] == printed[1]
    assert printed[0].count("+ EqSim - FT") == 1
    assert len(read_rows(["sets/train"], tmp_path)) == 64
