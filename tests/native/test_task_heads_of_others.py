"""Task heads of X-VLM, METER and FIBER: formulas in float64, laws, shapes at published size, and runs of VLUE.

No output of the authors' code for these heads was there to compare with, but X-VLM's boxes of a pre-trained file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import build_published, needs_golden, published
from test_task_heads import PICTURES, QUESTIONS, load, question_of, states
from tiny_files import albef_state
from tiny_heads import (
    ANSWERS,
    PlainBert,
    albef_nlvr2,
    albef_vqa,
    fiber_head,
    gelu,
    meter_head,
    save,
    write_task,
    xvlm_boxes,
    xvlm_nlvr2,
    xvlm_vqa,
)
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import ModelError
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model
from tellapart.models.torch.backend import import_torch
from tellapart.records.samples import read_samples
from tellapart_native.prefix import find_family

pytestmark = pytest.mark.slow

torch = import_torch()


def head_of(plain: PlainBert, name: str, x: Any) -> Any:
    x = plain.norm(f"{name}.1", plain.linear(f"{name}.0", x), 1e-5)
    return plain.linear(f"{name}.3", gelu(x))


def true_of(logits: Any) -> float:
    return float(1 / (1 + np.exp(logits[0] - logits[1])))


def test_xvlm_judges_two_images_by_the_formula(tmp_path: Path) -> None:
    state = xvlm_nlvr2()
    model, plain = load(tmp_path, "xvlm", state), PlainBert(state)
    seen = []
    for pair in (PICTURES[:2], PICTURES[1::-1]):
        (one, ids), (other, _) = (states(model, picture, QUESTIONS[0]) for picture in pair)
        x = plain.embed("text_encoder.embeddings", ids)
        for k in range(6):
            x = plain.layer(f"text_encoder.encoder.layer.{k}", x, (one, other)[k % 2] if k >= 2 else None)
        (ours,) = model.judge(pair[:1], pair[1:], QUESTIONS[:1])
        np.testing.assert_allclose(ours, true_of(head_of(plain, "cls_head", x[0])), atol=1e-5)
        seen.append(ours)
    assert abs(seen[0] - seen[1]) > 1e-4


def test_xvlm_ranks_answers_on_an_encoder_wider_than_its_text(tmp_path: Path) -> None:
    model = load(tmp_path, "xvlm", xvlm_vqa())
    together = model.outputs(PICTURES, QUESTIONS)
    assert [len(numbers) for numbers in together] == [len(ANSWERS)] * 3
    np.testing.assert_array_equal(model.outputs(PICTURES[2:], QUESTIONS[2:])[0], together[2])
    assert max(abs(together[0] - together[1])) > 1e-2


def test_xvlm_finds_boxes_by_the_formula(tmp_path: Path) -> None:
    state = xvlm_boxes()
    model = load(tmp_path, "xvlm", state)
    plain = PlainBert({name.replace("text_encoder.bert.", "text_encoder."): one for name, one in state.items()})
    for picture, phrase in zip(PICTURES, QUESTIONS, strict=True):
        image, ids = states(model, picture, phrase)
        logits = head_of(plain, "bbox_head", question_of(plain, image, ids, 4, 2)[0])
        x, y, width, height = (1 / (1 + np.exp(-logits))) * (50, 40, 50, 40)
        found = model.find_boxes([picture], [phrase], [((0.0, 0.0, 5.0, 5.0),)])
        np.testing.assert_allclose(found, [(x - width / 2, y - height / 2, width, height)], atol=1e-3)


@pytest.mark.parametrize(("family", "make"), [("meter", meter_head), ("fiber", fiber_head)])
def test_an_answer_is_the_class_with_the_greatest_logit(tmp_path: Path, family: str, make: Any) -> None:
    state = make("vqa")
    model, plain = load(tmp_path, family, state), PlainBert(state)
    halves = model.encoder._halves
    for picture, question in zip(PICTURES, QUESTIONS, strict=True):
        image, text = model.image_states([picture])[0], model.text_states([question])[0]
        with torch.inference_mode():
            pooled = halves.pool_states(*(tuple(t[None] for t in one.tensors) for one in (image, text)))
        logits = head_of(plain, "vqa_classifier", pooled[0].double().numpy())
        np.testing.assert_allclose(model.outputs([picture], [question])[0], logits, atol=1e-4)
        assert model.choose_answers([picture], [question]) == [ANSWERS[int(logits.argmax())]]
    (tmp_path / "answer_list.json").write_text(json.dumps(ANSWERS[1:]))
    with raises(ModelError, "answer_list.json", "4", "5"):
        find_model(f"{family}:{tmp_path / 'head.pth'}")


@pytest.mark.parametrize(("family", "make"), [("meter", meter_head), ("fiber", fiber_head)])
def test_both_images_passes_are_classified_together(tmp_path: Path, family: str, make: Any) -> None:
    state = make("nlvr2")
    model, plain = load(tmp_path, family, state), PlainBert(state)
    halves = model.encoder._halves
    text = model.text_states(QUESTIONS[:1])[0]
    seen = []
    for pair in (PICTURES[:2], PICTURES[1::-1]):
        pooled = []
        for place, image in enumerate(model.image_states(pair)):
            # METER marks image tokens by the types 1 and 2; FIBER has no types.
            types = state.get("token_type_embeddings.weight")
            tokens = image.tensors[0] if types is None else image.tensors[0] + types[1 + place]
            with torch.inference_mode():
                pooled.append(
                    halves.pool_states((tokens[None],), tuple(t[None] for t in text.tensors))[0].double().numpy()
                )
        logits = head_of(plain, "nlvr2_classifier", np.concatenate(pooled))
        (ours,) = model.judge(pair[:1], pair[1:], QUESTIONS[:1])
        np.testing.assert_allclose(ours, true_of(logits), atol=1e-5)
        seen.append(ours)
    assert abs(seen[0] - seen[1]) > 1e-4


@pytest.mark.parametrize(
    ("family", "task", "benchmark", "state", "options"),
    [
        ("albef", "vqa", "vlue-vqa", albef_vqa, []),
        ("albef", "nlvr2", "vlue-nlvr2", albef_nlvr2, []),
        ("albef", "refcoco+", "vlue-grounding", albef_state, ["--reading", "grad_cam"]),
        ("xvlm", "refcoco+", "vlue-grounding", xvlm_boxes, []),
        ("meter", "nlvr2", "vlue-nlvr2", lambda: meter_head("nlvr2"), []),
        ("fiber", "vqa", "vlue-vqa", lambda: fiber_head("vqa"), []),
    ],
)
def test_vlue_is_run_from_a_file(
    tmp_path: Path, family: str, task: str, benchmark: str, state: Any, options: list[str]
) -> None:
    extra = {"gradcam_layer": 2} if options else {}
    file = save(tmp_path / "model", family, state(), **extra)
    data = write_task(tmp_path / "data", task)
    outputs = []
    for size in ("1", "32") if family == "albef" else ("32",):
        out = tmp_path / size
        arguments = ["run", "-m", f"{family}:{file}", "-b", benchmark, "--data", str(data), "--images", str(data)]
        arguments += ["--no-cache", "--batch-size", size, "--out", str(out), "--json", *options]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert list(read_result(out).benchmarks) == [benchmark]
        outputs.append([sample.output for sample in read_samples(out, benchmark) if sample.output is not None])
    assert outputs[0] == outputs[-1] and len(outputs[0]) >= 6
    assert task != "vqa" or {one for one in outputs[0] if isinstance(one, str)} <= set(ANSWERS)


@needs_golden
@pytest.mark.parametrize("family", ["meter", "fiber"])
def test_published_files_of_the_tasks_are_read_by_their_heads(family: str) -> None:
    files = {task: keys["keys"] for name, keys in published(family) for task in ("vqa", "nlvr2") if task in name}
    for task, keys in files.items():
        module = build_published(family, keys)
        readings = find_family(family).readings
        assert next(name for name, one in readings.items() if one.needs in module.state_dict()) == task
        shapes = [tuple(getattr(module, f"{task}_classifier")[k].weight.shape) for k in (0, 1, 3)]
        assert shapes == [(1536, {"vqa": 1536, "nlvr2": 3072}[task]), (1536,), ({"vqa": 3129, "nlvr2": 2}[task], 1536)]
    assert sorted(files) == ["nlvr2", "vqa"]
