"""The ablation's page says what its record says, and its test holds its level."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from examples.eqsim_ablation.crossed import Components, compare_crossed, components
from examples.eqsim_ablation.page import DESIGN, PAGE, PICTURE, design_page, page, write_ablation
from examples.eqsim_ablation.plan import HERE, Plan, read_plan
from examples.eqsim_ablation.results import Compared, draw_differences, reason_shares
from examples.eqsim_ablation.stages import facts

from test_findings import measure_overhang

PLAN = read_plan(HERE / "plan.toml")


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
    assert np.std(means) == pytest.approx(spread.error(6, 400), rel=0.1)


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
