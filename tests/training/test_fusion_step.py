"""A fusion encoder's run equals a plain loop over the library's own model, however it is cut."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")

import numpy as np
import torch
from tiny_fusion import MODELS, blip, vilt
from training_sets import architecture, check_resumed, config, far, logged, near, squares, table, weights

from facts import raises
from sets import write_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, ModelError
from tellapart.metrics.pairs import group_score
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training.data.rows import TrainingRows, read_rows
from tellapart.training.encoders import open_fusion
from tellapart.training.loop import TrainingRanks
from tellapart.training.steps import FusionStep
from tellapart.training.training_run import run_training


def run(folder: Path, out: str, model: str = "blip", **changes) -> tuple[Any, dict[str, Any]]:
    """Train a tiny model on squares; what came of it, and its weights."""
    name = f"hf:{folder / model}" if (folder / model).is_dir() else MODELS[model](folder / model)
    settings = config(folder, model=name, **{"loss": {"name": "itm"}, "reading": "itm"} | changes)
    return run_training(settings, folder, folder / out), weights(folder / out)


def _rows(folder: Path) -> list[tuple[Any, str]]:
    pairs = read_pair_set(folder / "train")
    return [(pairs.pixels(item.images[k]), item.texts[k]) for item in pairs.items for k in (0, 1)]


def test_matching_with_the_hardest_negatives_equals_a_plain_loop_of_the_library(tmp_path):
    _, trained = run(tmp_path, "run", matching={"hardest": True}, data={"duplicates": "negatives"})
    encoder = open_fusion(f"hf:{tmp_path / 'blip'}", "cpu")
    model, rows = encoder.module.model, _rows(tmp_path)
    named = list(model.parameters())
    groups = [
        {"params": [p for p in named if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in named if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-2)
    orders = [np.random.default_rng([0, epoch]).permutation(24) for epoch in (0, 1)]
    entropy, own = torch.nn.functional.cross_entropy, torch.arange(8)
    for step in range(4):
        chosen = [rows[n] for n in orders[step // 3][step % 3 * 8 : step % 3 * 8 + 8]]
        images = torch.stack([encoder.image(pixels)["pixel_values"] for pixels, _ in chosen])
        tokens = encoder.tokens([text for _, text in chosen])

        def read(i, t, head, images=images, tokens=tokens):
            of_text = {name: tokens[name][t] for name in ("input_ids", "attention_mask")}
            return model(pixel_values=images[i], use_itm_head=head, **of_text)[0]

        logits = read(own, own, False) / 0.07
        itc = (entropy(logits, own) + entropy(logits.T, own)) / 2
        with torch.no_grad():
            crossed = logits - torch.eye(8) * 1e9
        texts, pictures = crossed.argmax(1), crossed.argmax(0)
        heads = torch.cat([read(own, own, True), read(own, texts, True), read(pictures, own, True)])
        loss = itc + entropy(heads, torch.cat([torch.ones(8), torch.zeros(16)]).long())
        line = [one for one in logged(tmp_path / "run") if "total" in one][step]
        assert loss.item() == pytest.approx(line["total"], rel=1e-4)
        assert itc.item() == pytest.approx(line["itc"], rel=1e-4)
        for group in optimiser.param_groups:
            group["lr"] = line["learning_rate"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = {name: value for name, value in model.state_dict().items() if name in trained}
    assert far(after, {name: trained[name] for name in after}) < 2e-5


@pytest.mark.few(2)
@pytest.mark.parametrize("model", ["blip", "vilt"])
@pytest.mark.parametrize("loss", ["itm", "ranking", "eqsim-itm", "eqsim-ranking"])
def test_every_loss_trains_every_family_and_pieces_change_no_number(tmp_path, model, loss):
    regular = {"alpha": 0.0} if "eqsim" in loss else {}
    settings = {"loss": {"name": loss, **regular}, "matching": {"negatives": 2}, "optimiser": {"steps": 2}}
    _, whole = run(tmp_path, "whole", model, **settings)
    run(tmp_path, "cut", model, **settings, batch={"micro": 5})
    near(tmp_path / "whole", tmp_path / "cut")
    assert not regular or logged(tmp_path / "whole")[0]["v2"] > 0
    begun = read_state_dict(tmp_path / model / "model.safetensors")
    still = {name for name in whole if float((whole[name] - begun[name]).abs().max()) == 0}
    # Keys' biases move no softmax, nor does the bias of scores that are ranked; nothing else may be left untrained.
    idle = ("key.bias", "position_ids", *(["rank_output.bias"] if loss == "ranking" else []))
    assert not {name for name in still if not any(part in name for part in idle)}


@pytest.mark.parametrize("model", ["blip", "vilt"])
@pytest.mark.parametrize("source", ["batch", "rows"])
def test_eqsim_takes_the_four_similarities_of_the_pairs_it_names(tmp_path, model, source):
    _, _ = run(
        tmp_path, "run", model, loss={"name": "eqsim-itm", "alpha": 0.0, "variant": "v2-all"}, reading="itm_logit",
        matching={"source": source, "contrast": False}, optimiser={"steps": 1}, data={"together": True},
        batch={"size": 2},
    )  # fmt: skip
    # A batch of one quadruple: whatever is drawn, the other pair is the negative.
    pairs = read_pair_set(tmp_path / "train").select([np.random.default_rng([0, 0]).permutation(12)[0]])
    scorer = find_model(f"hf:{tmp_path / model}", ModelOptions(reading="itm_logit"))
    logits = torch.from_numpy(score(scorer, pairs, store=EmbeddingStore(None)).scores.values[0].astype(np.float64))
    s = logits.sigmoid()
    # What another text costs the one image it costs the other, and what another image costs the one text.
    v2 = (s[0, 0] - s[0, 1]) - (s[1, 1] - s[1, 0]), (s[0, 0] - s[1, 0]) - (s[1, 1] - s[0, 1])
    expected, softplus = 0.5 * float(v2[0].square() + v2[1].square()), torch.nn.functional.softplus
    itm = (softplus(-logits.diagonal()).mean() + softplus(torch.stack([logits[0, 1], logits[1, 0]])).mean() * 2) / 3
    line = logged(tmp_path / "run")[0]
    assert "itc" not in line
    assert line["itm"] == pytest.approx(float(itm), rel=1e-4)
    assert line["v2"] == pytest.approx(expected, rel=1e-4) and expected > 0


def test_mined_negatives_are_the_rows_own_and_their_first_are_close(tmp_path):
    table(tmp_path)
    rows = read_rows(["folder:train"], tmp_path)
    others = [tuple((n + k) % 24 for k in (2, 5, 9)) for n in range(24)]
    mined = TrainingRows(tuple(replace(row, counterparts=own) for row, own in zip(rows.rows, others, strict=True)))
    settings = config(
        tmp_path, model=blip(tmp_path / "blip"), loss={"name": "eqsim-ranking"},
        matching={"source": "rows", "negatives": 3, "close": 1},
    )  # fmt: skip
    encoder, accelerator = open_fusion(settings.model, "cpu"), TrainingRanks(settings.device).accelerator
    steps = FusionStep(settings, encoder, mined, accelerator, encoder.module)
    drawn = steps.draw([3, 8, 5], 0)
    assert drawn.rows[:3] == [3, 8, 5] and len(set(drawn.rows)) == len(drawn.rows)
    assert drawn == steps.draw([3, 8, 5], 0) != steps.draw([3, 8, 5], 1)
    assert drawn.negatives is not None and drawn.close is not None
    for own, places, close in zip([3, 8, 5], drawn.negatives, drawn.close, strict=True):
        numbers = [drawn.rows[place] for place in places]
        assert set(numbers) == {(own + k) % 24 for k in (2, 5, 9)}
        assert [number == (own + 2) % 24 for number in numbers] == close
    parts = steps.backward(drawn, [encoder.image(mined.pixels(number)) for number in drawn.rows], 0)
    assert sorted(parts) == ["itc", "rank", "total", "v1", "v2"]


@pytest.mark.slow
def test_a_fusion_encoder_learns_its_pairs_and_is_measured_by_its_matching_head(tmp_path):
    finished, _ = run(
        tmp_path, "run", data={"validation": "folder:train", "together": True, "keep_images": True},
        optimiser={"learning_rate": 1e-2, "steps": 100, "epsilon": 1e-8}, batch={"size": 24},
        matching={"source": "rows", "contrast": False}, validation={"every": 50},
    )  # fmt: skip
    lines = [one for one in logged(tmp_path / "run") if "total" in one]
    assert lines[0]["total"] > 0.6 > 0.3 > lines[-1]["total"]
    pairs = read_pair_set(tmp_path / "train")
    assert finished.state.best is not None and finished.state.best > 0.5
    model = find_model(finished.name, ModelOptions(reading="itm"))
    assert group_score(score(model, pairs, store=EmbeddingStore(None)).scores.values).mean() == finished.state.best


@pytest.mark.slow
@pytest.mark.parametrize("source", ["batch", "rows"])
def test_a_run_that_stops_goes_on_to_the_same_bytes(tmp_path, source):
    values = {"loss": {"name": "eqsim-itm"}, "matching": {"source": source}, "validation": {"every": 1}}
    check_resumed(config(tmp_path, model=blip(tmp_path / "blip"), optimiser={"steps": 3}, **values), tmp_path)


def test_a_model_and_a_loss_that_do_not_fit_are_refused(tmp_path):
    itc = config(tmp_path, model=vilt(tmp_path / "vilt"))
    with raises(ModelError, "ViltForImageAndTextRetrieval", "loss"):
        run_training(itc, tmp_path, tmp_path / "run")
    with raises(ModelError, "demo-encoder", "loss", "BLIP", "ViLT"):
        run_training(config(tmp_path, model="demo-encoder", loss={"name": "itm"}), tmp_path, tmp_path / "run")
    with raises(DataError, "[matching]", "'itc'"):
        run_training(config(tmp_path, model="hf:vilt", matching={}), tmp_path, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"negative_captions": 1}}, ("data.negative_captions", "pairs")),
        ({"data": {"join": "always"}}, (".join", "pairs")),
        ({"batch": {"size": 8, "chunk": 2}}, ("batch.chunk", "loss", "'itm'")),
        ({"matching": {"negatives": 8}}, ("8", "7", "pairs")),
        ({"matching": {"source": "rows", "negatives": 2}}, ("0", "1", "row")),
    ],
)
def test_what_a_step_cannot_cross_is_said(tmp_path, changes, said):
    with raises(DataError, said):
        run(tmp_path, "run", **changes)


def test_the_hardest_need_towers_and_close_ones_need_mined_rows(tmp_path):
    with raises(ModelError, "matching.hardest", "model"):
        run(tmp_path, "run", "vilt", matching={"hardest": True})
    with raises(ValueError, "close", "mined"):
        config(tmp_path, matching={"close": 1})
    with raises(ValueError, "hardest", "mined"):
        config(tmp_path, matching={"source": "rows", "hardest": True})


@pytest.mark.parametrize("source", ["rows", "batch"])
def test_a_pair_whose_text_is_true_of_the_image_is_no_negative(tmp_path, source):
    squares(tmp_path / "train", 4)
    architecture(tmp_path / "arch")
    files = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "train" / "images").iterdir())[:4]
    # Pictures 0 and 1 have one caption; picture 3 has that of 2 as well, in a row that is in no batch with them.
    texts = [(0, "a square", 1), (1, "a square", 0), (2, "two squares", 3), (3, "a pair", 2), (3, "two squares", 2)]
    rows = [{"image": files[k], "caption": text, "negative_images": [other]} for k, text, other in texts]
    write_file(tmp_path / "rows.jsonl", rows)
    parts = {}
    for duplicates in ("masked", "negatives"):
        settings = config(
            tmp_path, model=blip(tmp_path / f"blip-{duplicates}"), loss={"name": "itm"}, reading="itm",
            data={"train": ["rows.jsonl"], "duplicates": duplicates}, batch={"size": 2},
            matching={"source": source, "contrast": False},
        )  # fmt: skip
        encoder, training = open_fusion(settings.model, "cpu"), read_rows(["rows.jsonl"], tmp_path)
        steps = FusionStep(settings, encoder, training, TrainingRanks("cpu").accelerator, encoder.module)
        for numbers in ([0, 1], [2, 3]):
            drawn = steps.draw(numbers, 0)
            images = [encoder.image(training.pixels(number)) for number in drawn.rows]
            parts[duplicates, numbers[0]] = steps.backward(drawn, images, 0)
    assert parts["masked", 0]["wrong_text"] == parts["masked", 0]["wrong_image"] == 0
    assert parts["negatives", 0]["wrong_text"] > 0.1 and parts["negatives", 0]["wrong_image"] > 0.1
    # Mined pairs are looked up in all rows, in whatever batch: picture 3's text is not true of picture 2, 2's is of 3.
    mined = source == "rows"
    for part in ("wrong_text", "wrong_image"):
        masked, released = (parts[duplicates, 2][part] for duplicates in ("masked", "negatives"))
        assert masked > 0.05
        assert (abs(masked - released) > 1e-9) == mined
