"""Minimal pairs while a model trains: in transformers' Trainer, and in open_clip's loop."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="a probe needs torch, of the extra 'models'")

from plain_towers import PREPARED, Towers

import tellapart as ta
from facts import raises
from scripts import run_python
from tellapart.errors import ModelError, RunError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
#: Clients that the environment of the tests lacks; after it on the path, so that none of its own packages is hidden.
TRACKERS = Path(__file__).parents[2] / "scratch" / "trackers"


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("transformers")
    from tellapart.models.torch.backend import import_torch

    import_torch()
    import transformers

    return transformers


@pytest.fixture
def trained(tmp_path, made_set, transformers):
    """What a Trainer of a tiny CLIP on pairs of noise needs."""
    import tiny_models
    import torch
    from PIL import Image

    folder, pairs = tiny_models.clip(tmp_path / "clip"), ta.load_pairs(made_set())
    processor = transformers.CLIPProcessor.from_pretrained(folder)
    config = transformers.CLIPConfig.from_pretrained(folder)
    config.vision_config.attention_dropout = 0.1
    options = {"return_tensors": "pt", "padding": "max_length", "truncation": True}
    read = [
        processor(text=[text], images=[Image.fromarray(pairs.pixels(image))], **options)
        for item in pairs.items
        for image, text in zip(item.images, item.texts, strict=True)
    ]
    rows = [{key: value[0] for key, value in each.items()} for each in read]

    def train(probe, *, watch: bool = False, seed: int = 0, also=(), **options):
        torch.manual_seed(seed)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), max_steps=5, per_device_train_batch_size=4, logging_steps=2, use_cpu=True,
            disable_tqdm=True, learning_rate=1e-2, **{"report_to": [], "save_strategy": "no", **options},
        )  # fmt: skip
        trainer = transformers.Trainer(
            transformers.CLIPModel.from_pretrained(folder, config=config), arguments, train_dataset=rows,
            eval_dataset=rows[:4],
            data_collator=lambda rows: {"return_loss": True} | {k: torch.stack([r[k] for r in rows]) for k in rows[0]},
            callbacks=[*also, *([] if watch or probe is None else [probe])], processing_class=processor,
        )  # fmt: skip
        if watch:
            assert probe.watch(trainer) is probe
        trainer.train()
        return trainer

    train.pairs, train.tmp_path = pairs, tmp_path
    return train


def test_a_trainer_measures_pairs_and_its_log_holds_them(trained, transformers):
    probe = ta.PairProbe(trained.pairs, every=2)
    assert isinstance(probe, transformers.TrainerCallback)
    trainer = trained(probe, report_to=["tensorboard"])
    assert list(probe.history) == [0, 2, 4, 5]
    value = probe.history[5]["group_score"]
    assert (value.n, round(value.chance, 4)) == (12, 0.1667)
    assert value.low is not None
    logged = [row for row in trainer.state.log_history if "pairs/group_score" in row]
    assert [row["step"] for row in logged] == [0, 2, 4, 5]
    assert [row["pairs/text_score"] for row in logged] == [v["text_score"].value for v in probe.history.values()]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(trained.tmp_path / "out" / "runs" / "pairs")).Reload()
    assert ([event.step for event in events.Scalars("pairs/group_score")], len(probe.table())) == ([0, 2, 4, 5], 16)
    # The scores are those of the model as it is.
    now, then = probe.measure(trainer.model), probe.history[5]
    assert {name: one.value for name, one in now.items()} == {name: one.value for name, one in then.items()}


def test_watching_logs_where_the_trainer_logs_and_moves_no_weight(trained):
    import torch

    seen: list[dict[str, Any]] = []
    probe = ta.PairProbe(trained.pairs, every=1, log=lambda step, numbers: seen.append({"step": step, **numbers}))
    trainer, plain = trained(probe, watch=True), trained(None)
    logged = [row["step"] for row in trainer.state.log_history if "pairs/group_score" in row]
    assert logged == [row["step"] for row in seen] == [0, 1, 2, 3, 4, 5]
    assert json.dumps(seen)
    weights = zip(trainer.model.state_dict().values(), plain.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)  # dropout and all
    assert trainer.model.training


@pytest.mark.parametrize("watch", [False, True])
def test_weights_that_a_trainer_loads_in_the_end_are_those_of_their_step(watch, trained, transformers):
    class FirstIsBest(transformers.TrainerCallback):
        def on_evaluate(self, _args, state, _control, *, metrics, **_given):
            metrics["eval_loss"] = float(state.global_step)  # which rises

    best = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    probe = ta.PairProbe(trained.pairs, every=4)
    trainer = trained(probe, watch=watch, also=[FirstIsBest()], load_best_model_at_end=True, **best)
    assert trainer.state.best_global_step == 1
    assert list(probe.history) == [0, 4, 1]  # and no 5, whose weights are gone
    assert [row["step"] for row in trainer.state.log_history if "pairs/group_score" in row] == [0, 4, 1]
    assert {name: one.value for name, one in probe.measure(trainer.model).items()} == {
        name: one.value for name, one in probe.history[1].items()
    }


def test_a_second_training_leaves_no_number_of_the_first(trained):
    probe = ta.PairProbe(trained.pairs, every=2)
    trained(probe)
    trainer = trained(probe, seed=1)
    assert (list(probe.history), probe.measure(trainer.model)) == ([0, 2, 4, 5], probe.history[5])


def test_in_open_clips_loop_a_step_measures_what_a_run_measures(tmp_path, made_set, transformers):
    import torch

    open_clip = pytest.importorskip("open_clip")
    torch.manual_seed(0)
    model = open_clip.CLIP(
        embed_dim=8,
        vision_cfg={"layers": 1, "width": 16, "head_width": 8, "image_size": 16, "patch_size": 8},
        text_cfg={"layers": 1, "width": 16, "heads": 2, "context_length": 24, "vocab_size": 49408},
    )
    preprocess = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(size=16), is_train=False)
    tokenizer, pairs = open_clip.SimpleTokenizer(context_length=24), ta.load_pairs(made_set())
    probe = ta.PairProbe(pairs, every=3, preprocess=preprocess, tokenizer=tokenizer, batch_size=5)
    optimiser, steps = torch.optim.SGD(model.parameters(), lr=0.1), []
    model.train()
    for step in range(1, 8):
        images, texts = torch.randn(4, 3, 16, 16), tokenizer(["a red cup", "two bowls", "a cat", "left"])
        loss = -(model.encode_image(images, normalize=True) * model.encode_text(texts, normalize=True)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if probe.step(model, step):
            steps.append(step)
        assert model.training
    assert steps == list(probe.history) == [3, 6]
    probe.end(model)
    assert list(probe.history) == [3, 6, 7]

    def cosine(images: list[Any], texts: list[str]):
        with torch.no_grad():
            one = model.encode_image(torch.stack([preprocess(image) for image in images]), normalize=True)
            return one @ model.encode_text(tokenizer(texts), normalize=True).T

    cosine.fingerprint, cosine.batched = "now", True
    model.eval()
    run = ta.evaluate(cosine, pairs, cache=False)
    assert probe.measure(model)["text_score"].value == run.value("text_score")
    assert np.isfinite(run.items().scores).all()


@pytest.fixture
def towers_probe(made_set):
    return lambda **options: ta.PairProbe(made_set(n=10), **PREPARED, **options)


@pytest.mark.parametrize(("steps", "every", "rows"), [(10, 5, [0, 5, 10]), (10, 4, [0, 4, 8, 10]), (0, 5, [0])])
def test_a_loop_has_a_row_before_its_first_step_and_one_after_its_last(towers_probe, steps, every, rows):
    import torch

    model, probe, seen = Towers(), towers_probe(every=every), []
    for step, batch in probe.follow(model, range(steps)):
        seen.append((step, batch, sorted(probe.history)))
        with torch.no_grad():
            model.visual[0].weight.add_(torch.randn_like(model.visual[0].weight))
    assert list(probe.history) == rows
    assert [(step, batch) for step, batch, _ in seen] == [(k + 1, k) for k in range(steps)]
    assert all(known == [row for row in rows if row < step] for step, _, known in seen)
    if steps == 10 and every == 5:  # goes on where it was
        assert [step for step, _ in probe.follow(model, "ab")] == [11, 12]
        assert list(probe.history) == [*rows, 12]


def test_pictures_are_prepared_for_each_model_in_its_way(made_set):
    def prepared(sign: int):
        return PREPARED | {"preprocess": lambda image: sign * PREPARED["preprocess"](image)}

    models = [ta.model(Towers(), **prepared(sign)) for sign in (1, -1)]
    probe = ta.PairProbe(made_set(n=10), limit=None)
    for model in (*models, models[0]):
        held = probe._open_model(model)
        assert (probe._score_vectors(held) == ta.PairProbe(probe.pairs)._score_vectors(held)).all()


def test_a_table_is_in_percent_and_has_ties_and_the_limit(towers_probe):
    probe = towers_probe(limit=6)
    probe.begin(Constant())
    frame = probe.table()
    assert frame["ties"] == [6] * 4 and frame["n"] == [6] * 4
    shown = repr(frame)
    assert "percent of 6 of 10 items" in shown and "ties" in shown
    row = next(line for line in shown.splitlines() if line.lstrip().startswith("0 "))
    assert row.split()[1] == "0.00" and row.split()[-1] == "6"
    assert "25.00" in shown and "16.67" in shown  # chance


class Constant(Towers):
    def encode_image(self, images):
        return super().encode_image(images) * 0 + 1

    def encode_text(self, tokens):
        return super().encode_text(tokens) * 0 + 1


def test_a_matching_head_is_measured_too(tmp_path, made_set, transformers):
    import tiny_models

    folder, pairs = tiny_models.blip(tmp_path), ta.load_pairs(made_set(n=4))
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder)
    probe = ta.PairProbe(pairs, processor=transformers.AutoProcessor.from_pretrained(folder))
    run = ta.evaluate(f"hf:{folder}", pairs, cache=False)
    assert probe.measure(model)["text_score"].value == run.value("text_score")


def test_trackers_of_other_loops_get_the_numbers(towers_probe, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "board")) as writer:
        probe = towers_probe(every=2, log=writer)
        for _ in probe.follow(Towers(), range(4)):
            pass
    events = EventAccumulator(str(tmp_path / "board")).Reload()
    assert [event.step for event in events.Scalars("pairs/image_score")] == [0, 2, 4]
    expected = [values["image_score"].value for values in probe.history.values()]
    assert [event.value for event in events.Scalars("pairs/image_score")] == pytest.approx(expected)


#: A tracker's client starts services that outlive a test: it runs in a process of its own.
TRACKED = """
import sys, {client}
import tellapart as ta
from plain_towers import PREPARED, Towers
{begin}
probe = ta.PairProbe(sys.argv[1], **PREPARED, every=2, log={log})
for _ in probe.follow(Towers(), range(4)):
    pass
{finish}
assert read == probe.history[4]["text_score"].value, read
"""
CLIENTS = {
    "wandb": {
        "begin": "run = wandb.init(mode='offline', dir=sys.argv[2], project='pairs')",
        "log": "run",
        "finish": "read = run.summary['pairs/text_score']; run.finish()",
    },
    "trackio": {
        "begin": "trackio.init(project='pairs', embed=False)",
        "log": "trackio",
        "finish": "trackio.finish(); from trackio.sqlite_storage import SQLiteStorage; "
        "(read,) = [row['pairs/text_score'] for row in SQLiteStorage.get_logs('pairs', "
        "trackio.Api().runs('pairs')[0].name) if row['step'] == 4]",
    },
}


def find_tracker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client be imported, or skip."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(TRACKERS)])
    if find_spec(name) is None:
        pytest.skip(f"no {name} here: python ci/parts.py trackers")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_client_of_a_tracker_gets_the_numbers(client, made_set, tmp_path, monkeypatch):
    find_tracker(client, monkeypatch)
    script = TRACKED.format(client=client, **CLIENTS[client])
    places = {"TRACKIO_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "WANDB_SILENT": "true"}
    paths = os.pathsep.join(path for path in sys.path if path)
    run_python("-c", script, made_set(n=10), tmp_path, env={**os.environ, **places, "PYTHONPATH": paths})


def test_a_trainer_of_lightning_measures_pairs_and_its_loggers_get_them(towers_probe, tmp_path, monkeypatch):
    find_tracker("lightning", monkeypatch)
    import lightning.pytorch as lightning
    import torch
    from lightning.pytorch.loggers import CSVLogger

    class Training(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Towers()

        def training_step(self, batch, _batch_idx: int):
            return -self.model.encode_image(batch[0]).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    probe = towers_probe(every=2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(20, 3, 4, 4)), batch_size=4)
    module = Training()
    options = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    options |= {"accelerator": "cpu", "callbacks": [probe.for_lightning()], "log_every_n_steps": 1}
    trainer = lightning.Trainer(max_epochs=1, logger=CSVLogger(tmp_path), **options)
    trainer.fit(module, loader)
    assert list(probe.history) == [0, 2, 4, 5]
    trained = probe.history
    lightning.Trainer(max_steps=3, logger=False, **options).fit(Training(), loader)
    assert list(probe.history) == [0, 2, 3]
    assert probe.history[0] is not trained[0]  # of the second training
    assert "pairs/group_score" in next(tmp_path.rglob("metrics.csv")).read_text().splitlines()[0]


def test_what_a_probe_cannot_measure_is_said(made_set):
    import torch

    pairs = ta.load_pairs(made_set(n=2))
    with raises(ModelError, "Linear", "get_image_features", "encode_image"):
        ta.PairProbe(pairs).measure(torch.nn.Linear(2, 2))
    with raises(ModelError, "Towers", "processor=", "preprocess="):
        ta.PairProbe(pairs).measure(Towers())
    probe = ta.PairProbe(pairs, preprocess=lambda image: torch.zeros(3), tokenizer=lambda texts: torch.zeros(9))
    with raises(ModelError, "Linear", "get_image_features"):
        probe.measure(torch.nn.Linear(2, 2))
    for options, facts in (
        ({"preprocess": len}, ("preprocess", "tokenizer")), ({"every": 0}, ("every=0", "1", "steps")),
        ({"batch_size": 0}, ("batch_size=0", "1", "images")), ({"log": 7}, ("SummaryWriter", "W&B", "run")),
    ):  # fmt: skip
        with raises(RunError, facts):
            ta.PairProbe(pairs, **options)
