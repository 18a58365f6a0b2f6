"""The ablation's page says what its record says, and its test holds its level."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.eqsim_ablation.answer import answer, eqsim_answer, small_terms
from examples.eqsim_ablation.crossed import Components, compare_crossed, components
from examples.eqsim_ablation.design_page import DESIGN, design_page
from examples.eqsim_ablation.page import PAGE, PICTURE, page, write_ablation
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Plan, read_plan
from examples.eqsim_ablation.results import Compared, draw_differences, reason_shares
from examples.eqsim_ablation.stages import facts, stages

from tellapart.data.rows import read_object
from test_findings import measure_overhang

PLAN = read_plan(HERE / "plan.toml")


def test_the_pages_are_those_of_the_record_and_the_design_says_its_power_first() -> None:
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


def test_outcomes_without_a_difference_are_told_apart_one_time_in_twenty() -> None:
    rng, spread = np.random.default_rng(0), Components(0.02, 0.0004, 0.5)
    drawn = [simulated(rng, spread, 4, 1500) for _ in range(400)]
    found = [compare_crossed(one) for one in drawn]
    assert 0.02 < np.mean([one.p < 0.05 for one in found]) < 0.08
    # Items alone would find three times as many: seeds differ, too.
    of_items = [one.mean(0).std(ddof=1) / 1500**0.5 for one in drawn]
    assert np.mean([abs(one.value) > 1.96 * error for one, error in zip(found, of_items, strict=True)]) > 0.12


def test_variances_are_found_again_and_make_the_error() -> None:
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
def finished(tmp_path: Path) -> Plan:
    """A plan whose record is complete, of runs that are made up: HardNeg is right more often, EqSim less."""
    plan = replace(PLAN, record=tmp_path / "record", seeds=5)
    shares = {"hardneg": 0.56, "eqsim": 0.44}
    plan.write("measured-start", made_piece("start", 99, 0.3))
    checked = [row for check in plan.checks for _, row in plan.checked_rows(check)]
    for row in (*plan.methods, *checked):
        for seed in range(plan.seeds):
            plan.write(f"run-{row.name}-{seed}", made_piece(row.name, seed, shares.get(row.name, 0.5)))
    return plan


def test_the_answer_names_every_row_with_its_distance_or_says_that_none_is_shown() -> None:
    rows = [made_up("eqsim", -0.03), made_up("hardneg", 0.03), made_up("siglip", 0.002), made_up("negclip", 0.09)]
    text = answer(PLAN, rows)
    assert re.search(
        r"Of 4 rows against FT, .*\n\n- 2 right on more pairs: NegCLIP \+9\.0 \[\+8\.\d, \+9\.\d\] and ", text
    )
    assert re.search(r" and HardNeg \+3\.0 .*\.\n- 1 right on fewer pairs: EqSim -3\.0 \[-3\.\d, -2\.\d\]\.\n", text)
    assert re.search(
        r"- 1 with no difference shown after Holm's correction: SigLIP \+0\.2 \[-0\.\d, \+0\.\d\]\.$", text
    )
    alone = answer(PLAN, [made_up("siglip", 0.0)])
    assert alone.startswith("Of 1 row against FT, ")
    assert alone.endswith("\n- 1 whose whole interval is within 0.5 points: SigLIP.")
    assert "so nothing is compared" in answer(PLAN, [])
    apart = answer(PLAN, rows, {"negclip": 0.001})
    assert "\n- 1 right on more pairs: HardNeg" in apart
    assert re.search(r"\n- 1 at another learning rate, to which tuning led: NegCLIP \+9\.0 \[.*\]\.$", apart)


def test_the_answer_begins_with_eqsim_beside_the_papers_gain() -> None:
    rows = [made_up("eqsim", -0.03), made_up("v1-all", 0.0), made_up("eqsim-released", 0.02)]
    text = eqsim_answer(PLAN, rows)
    start = r"^On a small encoder and rendered scenes, EqSim is worse than plain fine-tuning \(FT\): -3\.0 \["
    assert re.search(rf"{start}.*The paper, with FIBER, reports \+2\.7 ", text)
    assert re.search(r"For 1 of 2 other forms and parts of it, .*\. EqSim \(as released\) has \+2\.0 \[", text)
    assert "No part of EqSim gains" not in text  # one does
    alone = eqsim_answer(PLAN, rows[:2])
    assert "For 1 of 1 other forms and parts of it, the whole interval lies within half a point. " in alone
    assert "No part of EqSim gains" in alone
    assert eqsim_answer(PLAN, []) == ""


def test_terms_that_are_too_small_to_teach_are_named() -> None:
    rows = [made_up("eqsim", -0.03), made_up("v1-all", 0.0), made_up("eqsim-released", 0.02)]
    eqsim = [made_piece("eqsim", seed, 0.5) for seed in range(2)]
    least = [piece | {"value": 0.2, "terms": {"itc": 1.0, "v1": 0.02, "v2": 0.003}} for piece in eqsim]
    text = small_terms(PLAN, rows, {"eqsim": eqsim, "v1-all": least, "eqsim-released": eqsim})
    assert re.search(r"^For 1 other forms, .* is 2\.3 to 2\.3 % of the contrastive loss", text)  # v1 of EqSim is 0.0001
    nothing = [piece | {"terms": piece["terms"] | {"v1": 0.0, "v2": 0.03}} for piece in eqsim]
    assert re.search(r"v1 stays below 1e-6 .* a term of 0\.03\.", small_terms(PLAN, rows, {"eqsim": nothing}))
    assert small_terms(PLAN, [], {}) == ""


def test_the_page_of_a_complete_record_has_every_row_in_every_table(finished: Plan) -> None:
    text = page(finished)
    said = " ".join(text.split())
    assert re.search(r"\*\*Answer\.\*\* On .*EqSim is worse than .*: -[56]\.\d .* Of 17 rows against FT, ", said)
    assert re.search(r"- 1 right on more pairs: HardNeg \+\d\.\d .* - 1 right on fewer pairs: EqSim -\d", said)
    assert len(text.splitlines()) <= 200  # the limit of a page that is not reference
    titles = ("Scores", "Differences from FT", "By aspect", "Terms of the losses")
    parts = {
        title: f"{text}\n{design_page(finished)}".partition(f"## {title}\n")[2].partition("\n## ")[0]
        for title in titles
    }
    for row in finished.methods[1:]:
        assert [title for title in titles if f"\n| {row.title} | " not in parts[title]] == []
    assert re.search(r"\| HardNeg \| 5 \| \+[56]\.\d ", parts["Differences from FT"])
    assert "< 0.0001" in parts["Differences from FT"]
    assert re.search(r"\| EqSim \| HardNeg \| 5 \| -1[12]\.\d ", text)
    assert re.search(
        r"number of steps\?\*\* .* Against FT: FT \(900 steps\) [+-]?\d.* "
        r"Against FT \(900 steps\): HardNeg \(900 steps\) .*; EqSim \(900 steps\) ",
        said,
    )
    assert re.search(r"Against FT: FT \(rate 0\.001\) [+-]?\d", said)
    assert re.search(r"Against FT \(rate 0\.001\): NegCLIP \(rate 0\.001\) .*; TROHN-Text [+-]?\d", said)


def test_the_answer_has_the_checks_and_the_page_ends_with_three_sentences_of_advice(finished: Plan) -> None:
    rates = {"run-ft": 0.1, "run-siglip": 0.9}  # FT's own, and another
    for seed in range(finished.seeds):
        for name, share in (("ft-faster", 0.54), ("ft", 0.5), ("siglip", 0.53), ("eqsim-faster", 0.6)):
            row, piece = name.removesuffix("-faster"), f"run-{name}-{seed}"
            finished.write(piece, made_piece(row, seed, share) | {"value": rates.get(f"run-{name}", 0.1)})
    for row in ("negclip", "trohn-text", "ft-apart", "tripletclip"):
        for seed in range(finished.seeds):
            finished.write(f"run-{row}-{seed}", made_piece(row, seed, 0.5) | {"value": 0.1})
    said = " ".join(page(finished).split())
    assert re.search(r"- 1 at another learning rate, .*: SigLIP \(rate 0\.9\) \+[23]\.\d \[", said)
    assert re.search(r"\| SigLIP \(rate 0\.9\) \| 5 \|", said)
    assert re.search(
        r"gain in .*: over FT \(rate 0\.001\), .*EqSim \(rate 0\.001\) \+[567]\.\d .*; over FT \(900 steps\), ", said
    )
    assert re.search(
        r"Against FT \(rate 0\.001\): .*EqSim \(rate 0\.001\) \+[567]\.\d .*SigLIP \(rate 0\.9\) -[01]\.\d ", said
    )
    assert re.search(r"At the same rate, .*: NegCLIP \(rate 0\.001\) .* against TROHN-Text, over 5 seeds, p ", said)
    assert "over these 5 seeds, 0.750 against 0.750." in said
    ends = said.partition("## Advice ")[2]
    assert re.findall(r"(\d)\. [A-Z]", ends)[:3] == ["1", "2", "3"]
    assert re.search(r"rate 0\.001 gave FT \+[34]\.\d .* and 900 steps in place of 300 \+?\d\.\d ", ends)
    assert re.search(r"the best loss at FT's rate, HardNeg, gave \+[56]\.\d", ends)
    # All runs that are made up have the same accuracy.
    assert "in points, by 0.0 [0.0, 0.0] with rate 0.001, 0.0 [0.0, 0.0] with 900 steps and " in ends
    finished.piece("run-eqsim-3").unlink()
    finished.piece("run-eqsim-4").unlink()
    assert "## Advice" not in page(finished)  # EqSim is not compared


def test_the_page_says_that_another_start_gave_another_answer() -> None:
    runs = [read_object(path) for path in sorted((HERE / "negclip_start").glob("run-hardneg-*.json"))]
    base = [read_object(path) for path in sorted((HERE / "negclip_start").glob("run-ft-*.json"))]
    shares = [
        np.mean([np.concatenate([right_items(run, name) for name in PLAN.tests]).mean() for run in each])
        for each in (runs, base)
    ]
    said = " ".join(page(PLAN).split())
    assert f"HardNeg had {100 * (shares[0] - shares[1]):+.1f} [" in said
    assert "EqSim (softmax) had -1.3 [" in said


def test_lost_items_are_parted_as_far_as_three_scores_go(finished: Plan) -> None:
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


def test_rows_of_too_few_seeds_are_not_compared(finished: Plan) -> None:
    for seed in range(2, finished.seeds):
        finished.piece(f"run-siglip-{seed}").unlink()
    text = page(finished)
    assert "Of 16 rows against FT" in text
    assert "Answer so far, of 87 of 90 runs." in text
    assert "| SigLIP | 2 | 0.5 | 50." in text


def test_the_picture_is_that_of_the_record_and_all_names_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_run_is_made_again_where_the_first_was_made_on_another_processor(finished: Plan) -> None:
    plan, piece = finished, finished.read("run-ft-0")
    assert "again" not in [stage.name for stage in stages(plan)]
    plan.write("run-ft-0", piece | {"machine": {"processor": "another"}})
    assert [stage.name for stage in stages(plan) if stage.name == "again"] == ["again"]
    changed = {name: one | {"right": "00" * (one["items"] // 8 + 1)} for name, one in piece["sets"].items()}
    plan.write("again", piece | {"sets": changed})
    right = sum(int(right_items(piece, name).sum()) for name in plan.tests)
    text = " ".join(design_page(plan).split())
    assert f"made on another and again on {piece['machine']['processor']}," in text
    assert f"{right} of 6,030 outcomes differ." in text


def test_the_design_says_what_the_device_changes(finished: Plan) -> None:
    plan = replace(finished, gpu_seeds=(3, 4))
    for seed in plan.gpu_seeds:
        plan.write(f"run-hardneg-{seed}", made_piece("hardneg", seed, 0.6))
    text = " ".join(design_page(plan).split())
    assert re.search(r"Seeds 3 and 4 of every row are run on a GPU", text)
    found = re.search(r"average over 17 rows, and at most by (\d\.\d) \(HardNeg: \+(\d+\.\d) and \+(\d\.\d)\)", text)
    assert found is not None
    most, on_gpu, without = map(float, found.groups())
    assert on_gpu == pytest.approx(10, abs=1)
    assert most == pytest.approx(on_gpu - without, abs=0.11)
    twice = plan.record.parent / "gpu_seed"
    twice.mkdir()
    (twice / "run-ft-0.json").write_bytes(plan.piece("run-ft-0").read_bytes())
    text = " ".join(design_page(plan).split())
    assert "1 of the runs were made on both" in text
    assert "0.0 % of a run's outcomes differ, and its group score is 0.0 points from the other's" in text


def test_with_seeds_alike_the_interval_is_that_of_the_items() -> None:
    ours = np.tile(np.random.default_rng(1).random(400) < 0.7, (3, 1)).astype(float)
    found = compare_crossed(ours)
    error = np.sqrt(ours[0].var(ddof=1) / 400)
    assert found.half() == pytest.approx(1.966 * error, rel=1e-3)
    assert compare_crossed(np.zeros((3, 9))).p == 1.0
