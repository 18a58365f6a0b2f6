"""Minimal pairs while a model trains: in transformers' Trainer, and in open_clip's loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import ModelError, RunError

pytest.importorskip("torch", reason="a probe needs torch, of the extra 'models'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def transformers() -> Any:
    pytest.importorskip("transformers")
    from tellapart.models.torch.backend import import_torch

    import_torch()
    import transformers

    return transformers


@pytest.fixture
def trained(tmp_path: Path, made_set: Any, transformers: Any) -> Any:
    """What a Trainer of a tiny CLIP on pairs of noise needs."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789 "]
    vocabulary = {token: k for k, token in enumerate([*letters, *(f"{a}</w>" for a in letters), "<s>", "<e>"])}
    specials = {"bos_token": "<s>", "eos_token": "<e>", "unk_token": "<e>", "pad_token": "<e>"}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=24, **specials)
    images = CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    tower = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    ids = {"bos_token_id": vocabulary["<s>"], "eos_token_id": vocabulary["<e>"]}
    model = CLIPModel(
        CLIPConfig(
            text_config={**tower, "vocab_size": len(vocabulary), "max_position_embeddings": 24, **ids},
            vision_config={**tower, "image_size": 16, "patch_size": 8, "attention_dropout": 0.1},
            projection_dim=8,
        )
    )
    processor = CLIPProcessor(images, tokenizer)
    pairs = ta.load_pairs(made_set())
    from PIL import Image

    rows = [
        {
            **{key: value[0] for key, value in processor(
                text=[item.texts[side]], images=[Image.fromarray(pairs.pixels(item.images[side]))],
                return_tensors="pt", padding="max_length", truncation=True,
            ).items()},
        }
        for item in pairs.items
        for side in (0, 1)
    ]  # fmt: skip

    def train(probe: Any, *, watch: bool = False, seed: int = 0, **options: Any) -> Any:
        torch.manual_seed(seed)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), max_steps=5, per_device_train_batch_size=4, logging_steps=2, use_cpu=True,
            save_strategy="no", disable_tqdm=True, learning_rate=1e-2, **{"report_to": [], **options},
        )  # fmt: skip
        import copy

        trainer = transformers.Trainer(
            copy.deepcopy(model),
            arguments,
            train_dataset=rows,
            data_collator=lambda rows: {"return_loss": True} | {k: torch.stack([r[k] for r in rows]) for k in rows[0]},
            callbacks=[] if watch or probe is None else [probe],
            processing_class=processor,
        )
        if watch:
            assert probe.watch(trainer) is probe
        trainer.train()
        return trainer

    train.pairs, train.tmp_path = pairs, tmp_path  # type: ignore[attr-defined]
    return train


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_measures_pairs_and_its_log_holds_them(trained: Any, transformers: Any) -> None:
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
    assert [event.step for event in events.Scalars("pairs/group_score")] == [0, 2, 4, 5]
    assert len(probe.table()) == 12
    # The scores are those of the model as it is.
    assert {name: v.value for name, v in probe.measure(trainer.model).items()} == {
        name: v.value for name, v in probe.history[5].items()
    }


@pytest.mark.filterwarnings("ignore")
def test_watching_logs_where_the_trainer_logs_and_moves_no_weight(trained: Any) -> None:
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


@pytest.mark.filterwarnings("ignore")
def test_in_open_clips_loop_a_step_measures_what_a_run_measures(
    tmp_path: Path, made_set: Any, transformers: Any
) -> None:
    import torch

    open_clip = pytest.importorskip("open_clip")
    torch.manual_seed(0)
    model = open_clip.CLIP(
        embed_dim=8,
        vision_cfg={"layers": 1, "width": 16, "head_width": 8, "image_size": 16, "patch_size": 8},
        text_cfg={"layers": 1, "width": 16, "heads": 2, "context_length": 24, "vocab_size": 49408},
    )
    preprocess = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(size=16), is_train=False)
    tokenizer = open_clip.SimpleTokenizer(context_length=24)
    pairs = ta.load_pairs(made_set())
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

    def cosine(images: list[Any], texts: list[str]) -> Any:
        with torch.no_grad():
            one = model.encode_image(torch.stack([preprocess(image) for image in images]), normalize=True)
            return one @ model.encode_text(tokenizer(texts), normalize=True).T

    cosine.fingerprint, cosine.batched = "now", True  # type: ignore[attr-defined]
    model.eval()
    run = ta.evaluate(cosine, pairs, cache=False)
    assert probe.measure(model)["text_score"].value == run.value("text_score")
    assert np.isfinite(run.items().scores).all()


def test_what_a_probe_cannot_measure_is_said(made_set: Any) -> None:
    import torch

    pairs = ta.load_pairs(made_set(n=2))
    with raises(ModelError, "processor=", "images", "texts"):
        ta.PairProbe(pairs).measure(torch.nn.Linear(2, 2))
    probe = ta.PairProbe(pairs, preprocess=lambda image: torch.zeros(3), tokenizer=lambda texts: torch.zeros(9))
    with raises(ModelError, "Linear", "get_image_features"):
        probe.measure(torch.nn.Linear(2, 2))
    with raises(RunError, "preprocess", "tokenizer"):
        ta.PairProbe(pairs, preprocess=lambda image: image)
    with raises(RunError, "every=0", "1", "steps"):
        ta.PairProbe(pairs, every=0)
    with raises(RunError, "SummaryWriter", "W&B", "run"):
        ta.PairProbe(pairs, log=7)
