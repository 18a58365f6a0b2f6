"""EqSim on FIBER and METER: the presets' sums are those of their losses, and tiny runs learn and resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_sets import check_resumed, logged, toml, weights

from facts import raises
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder
from tellapart.training.config import TrainConfig, read_config
from tellapart.training.data.rows import BatchOrder, TrainingRows, read_rows
from tellapart.training.encoders import open_fusion
from tellapart.training.losses.eqsim import drawn_negatives
from tellapart.training.losses.loss import Batch, gather_pairs, hard_negatives
from tellapart.training.training_run import run_training

pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")

import reference_losses as reference
from tiny_native import released_eqsim

pytestmark = pytest.mark.slow
PARTS = {
    "fiber": {"true", "wrong_text", "wrong_image", "eqsim.itc", "eqsim.v1", "eqsim.v2"},
    "meter": {"rank", "v1", "v2", "itm.true", "itm.wrong_text", "itm.wrong_image"},
}
#: Of the contrastive logits, where FIBER's file names none and in the tiny one.
SCALE = 1 / 0.07


def settings(folder: Path, family: str, **changes) -> TrainConfig:
    folder.mkdir(exist_ok=True)
    values = released_eqsim(folder, family)
    for key, value in changes.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    (folder / "run.toml").write_text(toml(values), encoding="utf-8")
    return read_config(folder / "run.toml")


FAMILIES = pytest.mark.parametrize("family", ["fiber", "meter"])


@FAMILIES
def test_a_run_of_the_preset_learns(tmp_path, family):
    more = {"steps": 40, "learning_rate": 1e-3, "epsilon": 1e-8}
    made = settings(tmp_path, family, optimiser=more, data={"augment": "none"}, validation={"every": 100})
    run_training(made, tmp_path, tmp_path / "run")
    lines = [line for line in logged(tmp_path / "run") if "total" in line]
    assert np.mean([line["total"] for line in lines[-8:]]) < 0.9 * np.mean([line["total"] for line in lines[:8]])
    assert lines[0]["total"] == pytest.approx(sum(v for k, v in lines[0].items() if k in PARTS[family]), rel=1e-5)


@FAMILIES
@pytest.mark.filterwarnings("ignore:data.augment:tellapart.errors.TellapartWarning")
def test_a_run_of_the_preset_goes_on_to_the_same_bytes(tmp_path, family):
    made = settings(tmp_path, family, dropout={'"*.output.dense"': 0.1})  # as published; augmented, too
    check_resumed(made, tmp_path)
    run_training(settings(tmp_path / "other", family), tmp_path / "other", tmp_path / "plain")
    assert logged(tmp_path / "plain")[0]["total"] != logged(tmp_path / "whole")[0]["total"]


def read_by_fusion(model: str, reading: str, rows: TrainingRows) -> tuple[Any, Any, Any]:
    """Return a fusion model in one reading, and the eight rows' images and captions as it reads them."""
    opened = open_fusion(model, "cpu", reading)
    fusion = opened.module
    images = fusion.images([opened.image(rows.pixels(n)) for n in range(8)])
    return fusion, images, fusion.texts(opened.tokens([row.caption for row in rows.rows]))


@pytest.mark.parametrize("released", [True, False])
def test_fibers_first_step_has_eqsims_formula_on_the_contrastive_matrix_of_each_part(tmp_path, released):
    options = {"alpha": 0.0, "k": 2} | ({} if released else {"as_released": False, "variant": "v2-all", "factor": 0.5})
    changed = {f"also.eqsim.{name}": value for name, value in options.items()}
    made = settings(tmp_path, "fiber", data={"augment": "none"}, loss=changed)
    run_training(made, tmp_path, tmp_path / "run")
    line, sums = logged(tmp_path / "run")[0], dict.fromkeys(("itc", "v1", "v2"), 0.0)
    model = find_model(made.model, ModelOptions(reading="itc"))
    assert isinstance(model, DualEncoder)
    rows = read_rows(made.data.train, tmp_path)
    for part in range(2):  # of the first step
        numbers = BatchOrder(rows, 8, 0).batch(part, parts=2)
        images = torch.as_tensor(model.encode_images([rows.pixels(n) for n in numbers]))
        texts = torch.as_tensor(model.encode_texts([rows.rows[n].caption for n in numbers]))
        cosines = (images.double() @ texts.double().T).numpy()
        if released:
            pairs = gather_pairs(Batch(images, texts, torch.tensor(SCALE), torch.arange(4), step=part))
            found = reference.eqsim_released(SCALE * cosines, drawn_negatives(pairs, 2, part).tolist(), 0.5, 0.0)
        else:
            same = rows.image_ids[numbers][:, None] == rows.image_ids[numbers][None, :]
            values = {"alpha": 0.0, "beta": 0.5, "k": 2, "variant": "v2-all", "normalise": "batch"}
            found = reference.eqsim(cosines, SCALE, same, **values)
        sums = {name: value + found[name] / 2 for name, value in sums.items()}
    for name, value in sums.items():
        assert line[f"eqsim.{name}"] == pytest.approx((1.0 if released else 0.5) * value, rel=1e-3, abs=1e-7)
    assert sums["v2"] > 0


def test_fibers_matching_is_the_authors_cross_entropy_of_three_labelled_pairs_each(tmp_path):
    made = settings(tmp_path, "fiber", data={"augment": "none"})
    run_training(made, tmp_path, tmp_path / "run")
    line, rows = logged(tmp_path / "run")[0], read_rows(made.data.train, tmp_path)
    fusion, images, texts = read_by_fusion(made.model, "itm", rows)
    entropies = []
    with torch.no_grad():
        vectors = fusion.vectors(images, texts)
        for part in range(2):  # of the first step
            mine = torch.tensor(BatchOrder(rows, 8, 0).batch(part, parts=2))
            ids = torch.as_tensor(rows.image_ids)[mine]
            batch = Batch(*(side[mine] for side in vectors), torch.tensor(SCALE), ids, step=part)
            wrong = hard_negatives(batch, 1)
            # A true pair, a wrong image and a wrong text, one after another as in the authors' `objectives.py`.
            first = torch.cat([mine, mine[wrong.images[:, 0]], mine])
            second = torch.cat([mine, mine, mine[wrong.texts[:, 0]]])
            joined = fusion.join(tuple(each[first] for each in images), tuple(each[second] for each in texts)).flatten()
            two_way = torch.stack([torch.zeros_like(joined), joined], dim=1).double()
            labels = torch.cat([torch.ones(len(mine)), torch.zeros(2 * len(mine))]).long()
            entropies.append(torch.nn.functional.cross_entropy(two_way, labels).item())
    found = sum(line[name] for name in ("true", "wrong_text", "wrong_image"))
    assert found == pytest.approx(np.mean(entropies), rel=1e-4)


def test_meters_first_step_is_the_papers_formula_on_the_same_pairs(tmp_path):
    made = settings(tmp_path, "meter", data={"augment": "none"}, loss={"alpha": 0.0})
    run_training(made, tmp_path, tmp_path / "run")
    line, rows = logged(tmp_path / "run")[0], read_rows(made.data.train, tmp_path)
    fusion, images, texts = read_by_fusion(made.model, "rank", rows)
    first, second = (each.flatten() for each in torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij"))
    with torch.no_grad():
        joined = fusion.join(tuple(each[first] for each in images), tuple(each[second] for each in texts))
    score = joined.reshape(8, 8).double().numpy()  # of image i with text j
    sums = dict.fromkeys(("rank", "v1", "v2"), 0.0)
    for part in range(2):
        mine = BatchOrder(rows, 8, 0).batch(part, parts=2)
        others = np.array([rows.rows[n].counterparts for n in mine])  # all three are drawn, in any order
        true, every = score[mine, mine], np.ones(others.shape, bool)
        crossed = score[np.array(mine)[:, None], others], score[others, np.array(mine)[:, None]]
        found = reference.eqsim_matching(
            true, *crossed, score[others, others], every, every, alpha=0.0, beta=0.5, variant="eqsim"
        ) | reference.ranking(true, crossed[0], every)
        sums = {name: value + found[name] / 2 for name, value in sums.items()}
    for name, value in sums.items():
        assert line[name] == pytest.approx(value, rel=1e-3, abs=1e-7)
    assert sums["v2"] > 0


@FAMILIES
def test_two_heads_read_one_pass_and_a_frozen_one_stays(tmp_path, family):
    made = settings(tmp_path, family, data={"augment": "none"})
    rows = read_rows(made.data.train, tmp_path)

    def logits(reading, *also):
        opened = open_fusion(made.model, "cpu", reading, also=also)
        fusion = opened.module
        images = fusion.images([opened.image(rows.pixels(n)) for n in range(4)])
        return fusion.join(images, fusion.texts(opened.tokens([row.caption for row in rows.rows[:4]]))).detach()

    both, rank, itm = logits("rank", "itm"), logits("rank"), logits("itm")
    assert both.shape == (4, 2)
    torch.testing.assert_close(both, torch.cat([rank, itm], dim=1), rtol=1e-5, atol=1e-6)
    with raises(ModelError, "'vqa'"):
        logits("rank", "vqa")
    if family == "meter":
        run_training(made, tmp_path, tmp_path / "run")
        before, after = open_fusion(made.model, "cpu", "rank").module.model.state_dict(), weights(tmp_path / "run")
        moved = {name for name, value in after.items() if float((value - before[name]).abs().max()) > 0}
        assert "rank_output.weight" in moved and "itm_score.fc.weight" not in moved


def test_a_contrastive_loss_needs_towers_and_dropout_a_part(tmp_path):
    with raises(ModelError, "loss.also.itc", "loss", "model"):
        run_training(settings(tmp_path, "meter", loss={"also.itc.factor": 1.0}), tmp_path, tmp_path / "run")
    with raises(DataError, "model", "'*norm9*'", "model"):
        run_training(settings(tmp_path / "other", "meter", dropout={'"*norm9*"': 0.1}), tmp_path, tmp_path / "else")
