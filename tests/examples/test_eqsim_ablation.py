"""The ablation's design and pages are those of its record; its program runs, is killed and goes on."""

import json
import multiprocessing
import re
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from examples.eqsim_ablation.crossed import Components, compare_crossed, components
from examples.eqsim_ablation.page import DESIGN, PAGE, PICTURE, design_page, page, write_ablation
from examples.eqsim_ablation.pieces import retrieval, right_items
from examples.eqsim_ablation.plan import HERE, Plan, read_plan
from examples.eqsim_ablation.power import GOAL, detectable, pilot_spread
from examples.eqsim_ablation.results import Compared, draw_differences, reason_shares
from examples.eqsim_ablation.run import go_on, main
from examples.eqsim_ablation.stages import Stage, add_units, chosen, facts, stages, terms
from safetensors.torch import load_file

from facts import check_facts, raises
from tellapart.benchmarks.minimal_pairs import DEMO_FOLDER
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.data.rows import read_object
from tellapart.errors import DataError, RunError
from tellapart.models.find import find_model
from tellapart.models.scoring.score import Embeddings
from tellapart.training.encoders import write_new_model
from tellapart.training.training_run import run_training
from tellapart_render.training_rows import write_training_rows
from test_findings import measure_overhang

PLAN = read_plan(HERE / "plan.toml")


#: Scenes of a few pixels: some of the training set are the tuning set's to the pixel.
ALIKE = pytest.mark.filterwarnings("ignore:data.validation")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch) -> None:
    """Give the processes of the stages one thread; the program sets the same for all that it starts."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_the_plan_is_a_design_that_sees_two_points():
    power, spread = PLAN.read("power"), pilot_spread()[0]
    design = power["chosen"]
    assert max(design["careful"], design["holm"]) <= GOAL
    assert (PLAN.seeds, sum(map(PLAN.items, PLAN.tests))) == (design["seeds"], design["items"])
    for name in ("items", "seeds", "rest"):
        assert power["variance"][name] == pytest.approx(getattr(spread, name), rel=1e-3)
    again = detectable(spread, 3, 2010, (0.05, 0.05 / power["tests"]))
    assert [round(value, 4) for value in again] == [power["table"][0][name] for name in ("alone", "holm", "wrong")]


def test_every_row_sees_as_many_pictures_and_its_number_changes_its_configuration():
    more = {"siglip": 4, "trohn-text": 4, "ft-apart": 5}  # whose best value was the last of three, and of four
    for method in PLAN.methods:
        config = PLAN.fine_tuning(method, 1)
        config.loss_terms()
        sides = 1 if config.data.negative_images == "none" else 2
        assert config.batch.size * sides == 64
        assert config.optimiser.steps == PLAN.steps
        tried = {PLAN.fine_tuning(method, 1, value).fingerprint() for value in method.choices}
        assert len(tried) == len(method.choices) == more.get(method.name, 3)
    assert PLAN.fine_tuning(PLAN.row("hardneg"), 0, 3.0, 1e-4).optimiser.learning_rate == 1e-4
    assert PLAN.starting().optimiser.steps == PLAN.start["steps"]


def test_no_set_shares_its_draws_and_each_test_set_is_of_its_kind():
    recipes = {name: read_recipe_file(path) for name, path in PLAN.sets.items()}
    demo = json.loads((DEMO_FOLDER / "card.json").read_text())["recipe"]["seed"]
    assert len({demo, *(recipe.seed for recipe in recipes.values())}) == len(recipes) + 1
    assert [name for name, recipe in recipes.items() if recipe.options.get("held_out_every")] == ["held-out"]
    assert [name for name, recipe in recipes.items() if recipe.options.get("unseen")] == ["unseen-setting"]
    assert min(PLAN.items(name) for name in PLAN.tests) >= 2000


def test_aspects_are_the_blocks_of_a_sets_recipe():
    found = PLAN.aspects("tuning")
    assert found.tolist() == ["attribute"] * 200 + ["counting"] * 200 + ["location"] * 200
    assert read_recipe_file(PLAN.sets["tuning"]).options["items"] == {
        "attribute": 200,
        "counting": 200,
        "location": 200,
    }


def test_units_are_the_words_that_differ_with_two_on_either_side(tmp_path):
    false = ["The red mug is behind the small hat.", "3 red mugs."]
    row = {"image": "a.png", "caption": "The red mug is on the small hat.", "negative_captions": false}
    (tmp_path / "captions.jsonl").write_text(json.dumps(row) + "\n")
    add_units(tmp_path)
    units = json.loads((tmp_path / "ablation_rows.jsonl").read_text())["units"]
    assert units == [["mug is on the small", "mug is behind the small"], [row["caption"], false[1]]]


def test_retrieval_takes_a_picture_of_the_same_words_for_right_and_a_tie_for_wrong():
    pairs = read_pair_set(HERE / "smoke_scenes").select([0, 1])
    one = np.eye(4, dtype=np.float32).reshape(2, 2, 4)
    assert set(retrieval(Embeddings(one, one, {}), pairs).values()) == {1.0}
    assert set(retrieval(Embeddings(np.ones_like(one), one, {}), pairs).values()) == {0.0}
    same = replace(pairs, items=tuple(item.model_copy(update={"texts": ("a", "a")}) for item in pairs.items))
    assert set(retrieval(Embeddings(np.ones_like(one), one, {}), same).values()) == {1.0}


def test_the_smoke_scenes_are_training_scenes_of_all_aspects():
    pairs = read_pair_set(HERE / "smoke_scenes")
    recipe = read_recipe_file(PLAN.sets["scenes_1"])
    assert pairs.card["recipe"]["seed"] == recipe.seed
    assert [
        sum(item.tags["aspect"] == name for item in pairs.items) for name in ("attribute", "counting", "location")
    ] == [12] * 3
    assert {item.tags["held_out"] for item in pairs.items} == {"no"}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A plan of two rows, one seed and two steps, whose sets are there."""
    home = tmp_path_factory.mktemp("small")
    for name in ("scenes_1", "tuning", "seen"):
        shutil.copytree(HERE / "smoke_scenes", home / "work" / "sets" / name)
    text = (HERE / "plan.toml").read_text()
    changes = {
        'work = "runs/eqsim_ablation"': f'work = "{home / "work"}"\nrows = ["ft", "siglip"]',
        'train = ["scenes_1", "scenes_2", "scenes_3"]': 'train = ["scenes_1"]',
        'tests = ["seen", "held-out", "unseen-setting"]': 'tests = ["seen"]',
        "gpu_seeds = [6, 7, 8]": "gpu_seeds = []",
        "seeds = 12": "seeds = 1",
        "seeds = 4": "seeds = 1",
        'rows = ["ft", "eqsim", "hardneg"]': 'rows = ["ft", "siglip"]',
        "tuning_steps = 300": "tuning_steps = 1",
        "= 900": "= 4",
        "steps = 160": "steps = 2",
        "steps = 300": "steps = 2",
        "../demo_encoder": str(HERE.parent / "demo_encoder"),
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (home / "plan.toml").write_text(text)
    rows = re.sub(r"choices = \[1e-4, .*", "choices = [1e-3]", (HERE / "methods.toml").read_text())
    (home / "methods.toml").write_text(rows)
    for name in ("tuning_scenes", "seen_scenes", "held_out_scenes", "unseen_setting_scenes"):
        shutil.copy(HERE / f"{name}.toml", home)
    return home / "plan.toml"


@ALIKE
@pytest.mark.slow
def test_every_row_takes_a_step_and_names_its_terms(tmp_path):
    plan = replace(PLAN, work=tmp_path, train=("scenes_1",), start={"model": f"compact:{tmp_path / 'start'}"})
    for name in ("scenes_1", "tuning"):
        shutil.copytree(HERE / "smoke_scenes", tmp_path / "sets" / name)
    write_training_rows(tmp_path / "sets" / "scenes_1")
    add_units(tmp_path / "sets" / "scenes_1")
    write_new_model(HERE.parent / "demo_encoder" / "architecture", tmp_path / "start", seed=0)
    for method in plan.methods[::3]:  # their losses have tests of their own
        out = tmp_path / method.name
        config = plan.fine_tuning(method, 0, method.choices[0])
        small = config.model_copy(update={"batch": config.batch.model_copy(update={"size": 8})})
        run_training(small, Path(), out, limit=1)
        first = json.loads((out / "log.jsonl").read_text().splitlines()[0])
        assert first["total"] > 0, method.name
        assert {"scale"} < set(terms(out)), method.name


def test_some_rows_are_run_before_others_and_the_first_with_them():
    assert [row.name for row in read_plan(HERE / "plan.toml", ["eqsim", "siglip"]).methods] == ["ft", "eqsim", "siglip"]
    with raises(DataError, "plan.toml", "'eqism'", "negbench"):
        read_plan(HERE / "plan.toml", ["eqism"])


def test_rows_come_before_seeds_and_sets_when_they_are_needed(tmp_path):
    plan = replace(PLAN, record=tmp_path)
    names = [stage.name for stage in stages(plan)]
    runs = [name.removeprefix("run-").rpartition("-")[0] for name in names if name.startswith("run-")]
    assert list(dict.fromkeys(runs))[:3] == ["ft", "hardneg", "eqsim"]
    early = runs[: len(plan.methods) * plan.seeds_first]
    assert {runs.count(row.name) for row in plan.methods} == {plan.seeds}
    assert {early.count(row.name) for row in plan.methods} == {plan.seeds_first}
    assert names.index("start") < names.index("tune-ft-0") < names.index("set-seen") < names.index("run-ft-0")
    assert names.index("measured-start") < names.index("tune-hardneg-0") < names.index("run-ft-0")


def test_some_rows_are_checked_with_more_steps_and_at_another_rate(tmp_path):
    plan = replace(PLAN, record=tmp_path)
    faster, longer = plan.checks
    names = [stage.name for stage in stages(plan)]
    expected = [f"run-{row}-faster-{seed}" for row in ("ft", "negclip", "eqsim", "cs-clip") for seed in range(4)]
    expected += [f"run-{row}-longer-{seed}" for row in ("ft", "hardneg", "eqsim") for seed in range(4)]
    assert [name for name in names if name in expected] == expected
    config = plan.fine_tuning(longer.change(plan.row("eqsim")), 3, 0.04, 3e-4)
    assert (config.optimiser.steps, config.validation.every, config.loss["alpha"]) == (900, 900, 0.04)
    row = faster.change(plan.row("negclip"))  # its rate is the check's, and not the tuned one
    assert plan.fine_tuning(row, 3, 3e-4).optimiser.learning_rate == 1e-3
    row = faster.change(plan.row("eqsim"))  # it keeps its tuned weight, and does not take FT's rate
    config = plan.fine_tuning(row, 3, 0.04, 3e-4)
    assert (config.optimiser.learning_rate, config.loss["alpha"]) == (1e-3, 0.04)


def test_some_seeds_are_run_on_a_gpu_of_every_row(tmp_path):
    plan = replace(PLAN, record=tmp_path)
    runs = [stage.name for stage in stages(plan) if stage.device == "cuda"]
    assert sorted(runs) == sorted(f"run-{row.name}-{seed}" for row in plan.methods for seed in plan.gpu_seeds)
    assert [plan.fine_tuning(plan.methods[0], seed).device for seed in (0, plan.gpu_seeds[0])] == ["cpu", "cuda"]
    for piece in map(read_object, PLAN.record.glob("run-*.json")):
        assert (piece["machine"]["accelerator"] is not None) == (PLAN.device(piece["seed"]) == "cuda")


def test_a_set_that_is_rendered_again_keeps_its_piece_and_must_be_the_records(tmp_path):
    plan = replace(PLAN, record=tmp_path / "record", work=tmp_path, tests=("seen",))
    shutil.copytree(HERE / "smoke_scenes", tmp_path / "sets" / "seen")
    stage = next(stage for stage in stages(plan) if stage.name == "set-seen")
    stage.perform(plan)
    piece = plan.read("set-seen") | {"cpu_seconds": 9.5, "machine": {"processor": "another"}}
    plan.write("set-seen", piece)
    stage.perform(plan)
    assert plan.read("set-seen") == piece
    plan.write("set-seen", piece | {"pairs": "0" * 64})
    with pytest.raises(RunError, match=r"set-seen\.json"):
        stage.perform(plan)


@ALIKE
@pytest.mark.slow
def test_every_stage_leaves_a_piece_and_the_page_says_what_is_there(small, monkeypatch, capsys):
    plan = read_plan(small)
    assert "**No row was run yet**" in design_page(plan)
    for stage in stages(plan):
        if stage.name == "start":  # the three sets are one here
            with raises(DataError, "72", "images"):
                stage.work()
            monkeypatch.setattr("examples.eqsim_ablation.stages.refuse_leaks", lambda _: None)
        stage.perform(plan)
    assert main(["--plan", str(small), "--list"]) == 0
    assert capsys.readouterr().out.count("done") == sum(1 for _ in stages(plan)) == 14
    assert go_on(plan, time.monotonic()) == 0  # nothing is left, or the first stage would be killed
    assert chosen(plan, plan.methods[0]) == 1e-3
    piece = plan.read("run-siglip-0")
    assert right_items(piece, "seen").mean() == pytest.approx(piece["sets"]["seen"]["group_score"], abs=1e-6)
    assert set(piece["kept"]) == {"i2t_recall@1", "t2i_recall@1", "demo-objects"}
    assert "| runs | 2 of 2 |" in design_page(plan)
    text = page(plan)
    assert "No row has 4 seeds yet." in text
    assert not (plan.work / "runs" / "siglip-0" / "model").exists()
    assert find_model(plan.model).fingerprint == plan.read("start")["fingerprint"]
    assert plan.read("run-ft-longer-0")["steps"] == 4
    assert "| SigLIP (900 steps) | 1 | " in text
    assert "| runs of checks | 3 of 3 |" in design_page(plan)
    assert plan.read("run-ft-faster-0")["value"] is None
    # Another machine has the record alone, and nothing of the start is trained there.
    shutil.rmtree(plan.work / "start")
    assert all(stage.done(plan) for stage in stages(plan) if stage.phase == "start")
    halves = {tensor.dtype for tensor in load_file(plan.start_folder / "model.safetensors").values() if tensor.ndim > 1}
    assert halves == {torch.float16}


@pytest.mark.slow
def test_stages_are_killed_when_time_is_up_and_left_to_the_next_call(small, tmp_path, capfd):
    plan = replace(read_plan(small), record=tmp_path)
    assert go_on(plan, time.monotonic() + 0.2, at_once=2) == 0
    check_facts(capfd.readouterr().err, "set-scenes_1")
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []


@pytest.fixture
def pretended(tmp_path, monkeypatch) -> Path:
    """A folder in which stages of three phases leave a file with when they began and ended; `c` fails."""

    def stage(phase: str, name: str) -> Stage:
        return Stage(phase, name, partial(pretend, tmp_path, name))

    named = [("one", "a"), ("one", "b"), ("two", "c"), ("three", "d")]
    monkeypatch.setattr("examples.eqsim_ablation.run.stages", lambda _: [stage(*each) for each in named])
    return tmp_path


def pretend(folder: Path, name: str) -> dict[str, float]:
    began = time.monotonic()
    if name == "c" and not (folder / "mended").exists():
        raise SystemExit(1)
    (folder / f"{name}.began").touch()
    other = folder / f"{'b' if name == 'a' else 'a'}.began"
    while not other.exists() and time.monotonic() < began + 60:  # a process may take its time to start
        time.sleep(0.02)
    return {"began": began, "ended": time.monotonic()}


@pytest.mark.slow
def test_stages_of_a_phase_are_done_side_by_side_and_none_after_one_that_failed(pretended):
    plan = replace(PLAN, record=pretended / "record", work=pretended / "work")
    assert go_on(plan, time.monotonic() + 300, at_once=2) == 1
    a, b = plan.read("a"), plan.read("b")
    assert max(a["began"], b["began"]) < min(a["ended"], b["ended"])
    assert {path.stem for path in plan.record.iterdir()} == {"a", "b"}
    (pretended / "mended").touch()
    assert go_on(plan, time.monotonic() + 300, at_once=2) == 0
    assert plan.read("c")["ended"] < plan.read("d")["began"]
    assert plan.read("a") == a, "what is done is not done again"


def test_the_pages_are_those_of_the_record_and_the_design_says_its_power_first():
    assert PAGE.read_text(encoding="utf-8") == page(PLAN)
    text = design_page(PLAN)
    assert DESIGN.read_text(encoding="utf-8") == text
    assert text.index("## Power, before any result") < text.index("## Design") < text.index("## Complete pieces")


def simulated(rng: np.random.Generator, spread: Components, seeds: int, items: int) -> np.ndarray:
    """Right minus right of two rows, each 0 or 1: seeds are better or worse as a whole, and so are items."""
    sides = rng.random((2, seeds, items)) < (
        0.5
        + rng.standard_normal((2, seeds, 1)) * (spread.seeds / 2) ** 0.5
        + rng.uniform(-1, 1, (2, 1, items)) * (1.5 * spread.items) ** 0.5
    )
    return sides[0].astype(float) - sides[1]


def test_outcomes_without_a_difference_are_told_apart_one_time_in_twenty():
    rng, spread = np.random.default_rng(0), Components(0.02, 0.0004, 0.5)
    drawn = [simulated(rng, spread, 4, 1500) for _ in range(400)]
    found = [compare_crossed(one) for one in drawn]
    assert 0.02 < np.mean([one.p < 0.05 for one in found]) < 0.08
    # Items alone would find three times as many: seeds differ, too.
    of_items = [one.mean(0).std(ddof=1) / 1500**0.5 for one in drawn]
    assert np.mean([abs(one.value) > 1.96 * error for one, error in zip(found, of_items, strict=True)]) > 0.12


def test_variances_are_found_again_and_make_the_error():
    rng, spread = np.random.default_rng(1), Components(0.02, 0.0004, 0.48)
    found = [components(simulated(rng, spread, 6, 1500)) for _ in range(200)]
    assert np.mean([one.seeds for one in found]) == pytest.approx(spread.seeds, rel=0.25)
    assert np.mean([one.items for one in found]) == pytest.approx(spread.items, rel=0.25)
    means = [simulated(rng, spread, 6, 400).mean() for _ in range(600)]
    error = (spread.items / 400 + spread.seeds / 6 + spread.rest / (6 * 400)) ** 0.5
    assert np.std(means) == pytest.approx(error, rel=0.1)


def made_up(name: str, gain: float) -> Compared:
    """A row whose difference from the first is `gain`, with a standard error of 0.2 points."""
    noise = np.random.default_rng(5).normal(0, 0.1, (6, 500))
    verdict = compare_crossed(noise - noise.mean() + gain)
    sets, aspects = dict.fromkeys(PLAN.tests, verdict), dict.fromkeys(("attribute", "location"), verdict)
    return Compared(PLAN.row(name), PLAN.methods[0], 6, verdict, sets, aspects, float(verdict.p))


def made_piece(row: str, seed: int, share: float) -> dict[str, Any]:
    """A run's piece: so many of all items are right, drawn by the seed."""
    rng, sets = np.random.default_rng(seed), {}
    for name in PLAN.tests:
        items = PLAN.items(name)
        right = rng.random(items) < share
        packed = np.packbits(right).tobytes().hex()
        sets[name] = {"right": packed, "items": items, "group_score": float(right.mean())}
        sets[name] |= {"text_score": sets[name]["group_score"] + 0.2, "image_score": sets[name]["group_score"] + 0.1}
    kept = {"i2t_recall@1": 0.5, "t2i_recall@1": 0.5, "demo-objects": 0.5}
    run = {"row": row, "seed": seed, "value": 0.5, "best": 0.75, "terms": {"itc": 1.5, "v1": 0.0001, "scale": 14.0}}
    return {**run, "sets": sets, "kept": kept, **facts()}


@pytest.fixture
def finished(tmp_path) -> Plan:
    """A plan whose record is complete, of runs that are made up: HardNeg is right more often, EqSim less."""
    plan = replace(PLAN, record=tmp_path / "record", seeds=5)
    shares = {"hardneg": 0.56, "eqsim": 0.44}
    plan.write("measured-start", made_piece("start", 99, 0.3))
    checked = [row for check in plan.checks for _, row in plan.checked_rows(check)]
    for row in (*plan.methods, *checked):
        for seed in range(plan.seeds):
            plan.write(f"run-{row.name}-{seed}", made_piece(row.name, seed, shares.get(row.name, 0.5)))
    return plan


def test_lost_items_are_parted_as_far_as_three_scores_go(finished):
    piece = finished.read("run-eqsim-0")
    for name, (both, caption, picture) in zip(finished.tests, ((5, 1, 2), (4, 3, 0), (2, 2, 4)), strict=True):
        # Of ten items, so many are right, lost to the caption's prior and lost to the picture's.
        scores = {"group_score": both, "image_score": both + caption, "text_score": both + picture}
        piece["sets"][name] = {"items": 10, **{score: count / 10 for score, count in scores.items()}}
    assert reason_shares(finished, piece) == pytest.approx([11 / 30, 6 / 30, 6 / 30, 7 / 30])
    table = design_page(finished).partition("## Why items fail")[2].partition("\n## ")[0]
    (start,) = re.findall(r"^\| start, percent \| (\S+) \| 10\.0 \| 20\.0 \| (\S+) \|$", table, re.MULTILINE)
    assert float(start[0]) + float(start[1]) == pytest.approx(70)
    (eqsim,) = re.findall(r"^\| EqSim \| (-\d\.\d) \[-.*\] \| 0\.0 \| 0\.0 \|", table, re.MULTILINE)
    assert -8 < float(eqsim) < -4  # 44 and 50 percent of the items were drawn to be right


def test_the_picture_is_that_of_the_record_and_all_names_are_in_it(tmp_path, monkeypatch):
    for name, path in (("PAGE", PAGE), ("PICTURE", PICTURE), ("DESIGN", DESIGN)):
        monkeypatch.setattr(f"examples.eqsim_ablation.page.{name}", tmp_path / path.name)
    write_ablation(PLAN)
    for path in (PAGE, DESIGN):
        assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
    drawn = tmp_path / PICTURE.name
    assert [path.read_bytes() for path in (drawn,) if path.exists()] == [
        path.read_bytes() for path in (PICTURE,) if path.exists()
    ]
    rows = [made_up(row.name, 0.01) for row in PLAN.methods[1:]]
    assert measure_overhang(partial(draw_differences, PLAN, rows), tmp_path) <= 0


def test_with_seeds_alike_the_interval_is_that_of_the_items():
    ours = np.tile(np.random.default_rng(1).random(400) < 0.7, (3, 1)).astype(float)
    found = compare_crossed(ours)
    error = np.sqrt(ours[0].var(ddof=1) / 400)
    assert found.half() == pytest.approx(1.966 * error, rel=1e-3)
    assert compare_crossed(np.zeros((3, 9))).p == 1.0
