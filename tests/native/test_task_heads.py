"""Task heads of ALBEF, X-VLM, METER and FIBER: formulas in float64, laws, shapes at published size, and runs of VLUE.

No output of the authors' code for these heads was there to compare with, but X-VLM's boxes of a pre-trained file.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_heads as tiny
import torch
from golden import build
from tiny_files import SETTINGS, albef_state, draw, linear

from facts import raises
from sets import write_file
from tellapart.errors import ModelError
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model
from tellapart.models.huggingface.inputs import leave_out_end
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import AnswerChooser, BoxFinder, PairScorer
from tellapart.records.samples import read_samples
from tellapart_native.heads.other_tasks import FusionAnswers, FusionHeat

pytestmark = pytest.mark.slow


PICTURES = [tiny.picture(k) for k in range(3)]
QUESTIONS = ["what is a cup", "red", "two dogs on the bowl"]
TEXT = "text_encoder.encoder.layer"


def states(model, image, text: str) -> tuple[Any, Any]:
    """An image's tokens, float64, and the ids of a text."""
    tokens = model.encoder.encode_images([image])[0].tensors[0].double().numpy()
    return tokens, model.encoder.preparation.texts.tokenizer(text)["input_ids"]


def question_of(plain: tiny.PlainBert, image, ids: list[int], depth: int, fusion: int):
    """The text's states behind so many layers; those from `fusion` on read the image, or two in turn."""
    images = image if isinstance(image, tuple) else (image, image)
    x = plain.embed("text_encoder.embeddings", ids)
    for k in range(depth):
        x = plain.layer(f"{TEXT}.{k}", x, images[k % 2] if k >= fusion else None)
    return x


def load(folder: Path, family: str, state: dict[str, Any], reading: str | None = None, **settings):
    return find_model(f"{family}:{tiny.save(folder, family, state, **settings)}", ModelOptions(reading=reading))


def test_answers_are_ranked_by_the_formula(tmp_path):
    state = tiny.albef_vqa()
    model = load(tmp_path, "albef", state)
    assert isinstance(model, AnswerChooser)
    plain = tiny.PlainBert(state)
    tokenizer = model.encoder.preparation.texts.tokenizer
    for image, question in zip(PICTURES, QUESTIONS, strict=True):
        tokens, ids = states(model, image, question)
        assert (ids[0], ids[-1] != 3) == (2, True)  # [CLS] first, and no [SEP]
        source = question_of(plain, tokens, ids, 4, 2)
        numbers = []
        for answer in tiny.ANSWERS:
            row = [2, *tokenizer(answer, add_special_tokens=False)["input_ids"], 3]
            x = plain.embed("text_decoder.bert.embeddings", row)
            for k in range(2):
                x = plain.layer(f"text_decoder.bert.encoder.layer.{k}", x, source, causal=True)
            logs = np.log(tiny.softmax(plain.words("text_decoder.cls.predictions", x)))
            each = [logs[k, row[k + 1]] for k in range(len(row) - 1)]
            numbers.append(sum(each) + each[0])
        (ours,) = model.outputs([image], [question])
        np.testing.assert_allclose(ours, numbers, atol=1e-4)
        assert np.ptp(numbers) > 0.1
        assert model.choose_answers([image], [question]) == [tiny.ANSWERS[int(np.argmax(numbers))]]


def test_only_the_answers_with_the_likeliest_first_tokens_are_read_to_their_end(tmp_path, monkeypatch):
    model = load(tmp_path, "albef", tiny.albef_vqa())
    (whole,) = model.outputs(PICTURES[:1], QUESTIONS[:1])
    monkeypatch.setattr("tellapart_native.heads.answers._RANKED", 2)
    (some,) = find_model(f"albef:{tmp_path / 'head.pth'}").outputs(PICTURES[:1], QUESTIONS[:1])
    kept = np.isfinite(some)
    assert kept.sum() == 2
    np.testing.assert_allclose(some[kept], whole[kept], atol=1e-5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, ("answer_list.json", "vqa_dict.json", "ViLT")),
        (["red", "red"], ("answer_list.json", "'red'")),
        (["red", 2], ("answer_list.json", "object")),
        ({"0": "red", "2": "cup"}, ("0", "1", "keys")),
        (["red " * 80], ("82", "64", "answer")),
    ],
)
def test_a_list_of_answers_that_does_not_do(tmp_path, content, said):
    file = tiny.save(tmp_path, "albef", tiny.albef_vqa())
    (tmp_path / "answer_list.json").unlink()
    if content is not None:
        write_file(tmp_path / "answer_list.json", content)
    with raises(ModelError, said):
        find_model(f"albef:{file}")


def test_a_list_of_answers_may_be_numbered_and_its_order_changes_no_answer(tmp_path):
    model = load(tmp_path, "albef", tiny.albef_vqa())
    write_file(tmp_path / "answer_list.json", {str(k): tiny.ANSWERS[k] for k in reversed(range(len(tiny.ANSWERS)))})
    assert find_model(f"albef:{tmp_path / 'head.pth'}").fingerprint == model.fingerprint
    together = model.outputs(PICTURES, QUESTIONS)
    write_file(tmp_path / "answer_list.json", tiny.ANSWERS[::-1])
    reversed_ = find_model(f"albef:{tmp_path / 'head.pth'}")
    assert isinstance(reversed_, FusionAnswers) and reversed_.fingerprint != model.fingerprint
    assert reversed_.choose_answers(PICTURES, QUESTIONS) == model.choose_answers(PICTURES, QUESTIONS)
    np.testing.assert_array_equal(together, [other[::-1] for other in reversed_.outputs(PICTURES, QUESTIONS)])


def test_a_tokenizer_that_always_ends_a_text_is_refused():
    with raises(ModelError, "SimpleNamespace", "text", "token"):
        leave_out_end(SimpleNamespace(cls_token=None))


def relu_head(plain: tiny.PlainBert, x):
    return plain.linear("cls_head.2", np.maximum(plain.linear("cls_head.0", x), 0))


def head_of(plain: tiny.PlainBert, name: str, x):
    x = plain.norm(f"{name}.1", plain.linear(f"{name}.0", x), 1e-5)
    return plain.linear(f"{name}.3", tiny.gelu(x))


@pytest.mark.parametrize(
    ("family", "make", "head"),
    [("albef", tiny.albef_nlvr2, relu_head), ("xvlm", tiny.xvlm_nlvr2, lambda plain, x: head_of(plain, "cls_head", x))],
)
def test_two_images_are_judged_by_the_formula(tmp_path, family, make, head):
    state = make()
    model, plain = load(tmp_path, family, state), tiny.PlainBert(state)
    seen = []
    for pair in (PICTURES[:2], PICTURES[1::-1]):
        (one, ids), (other, _) = (states(model, image, QUESTIONS[0]) for image in pair)
        logits = head(plain, question_of(plain, (one, other), ids, 6, 2)[0])
        (ours,) = model.judge(pair[:1], pair[1:], QUESTIONS[:1])
        np.testing.assert_allclose(ours, tiny.softmax(logits)[1], atol=1e-5)
        seen.append(ours)
    assert abs(seen[0] - seen[1]) > 1e-4  # the images' order matters
    with raises(ModelError, "2", "1", "2"):
        model.judge(PICTURES[:1], PICTURES[:2], QUESTIONS[:2])


@pytest.mark.parametrize("layer", [2, 3])
def test_heat_is_attention_times_what_it_adds_to_the_match(tmp_path, layer):
    state = {name: tensor for name, tensor in albef_state().items() if tensor.ndim and "queue" not in name}
    model = load(tmp_path, "albef", state, "grad_cam", gradcam_layer=layer)
    assert isinstance(model, BoxFinder)
    plain = tiny.PlainBert(state)
    image, ids = states(model, PICTURES[0], QUESTIONS[0])
    x = question_of(plain, image, ids, layer, 2)
    name = f"{TEXT}.{layer}"
    own = plain.attend(f"{name}.attention", x, x, plain.shares(f"{name}.attention", x, x))
    shares = plain.shares(f"{name}.crossattention", own, image)

    def match(changed):
        y = plain.layer(name, x, image, shares=changed)
        for k in range(layer + 1, 4):
            y = plain.layer(f"{TEXT}.{k}", y, image)
        return float(plain.linear("itm_head", y[0])[1])

    gradient = np.zeros_like(shares)
    for place in np.ndindex(shares.shape):
        (step := np.zeros_like(shares))[place] = 1e-4
        gradient[place] = (match(shares + step) - match(shares - step)) / 2e-4
    expected = (shares * gradient.clip(0))[..., 1:].mean((0, 1)).reshape(2, 2)
    assert expected.max() > 1e-3
    (ours,) = model.outputs(PICTURES[:1], QUESTIONS[:1])
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-6)


def test_grad_cam_reads_block_8_of_twelve_and_its_layer_is_never_guessed(tmp_path):
    heads = linear("vision_proj", 16, 32) | linear("text_proj", 16, 32) | linear("itm_head", 2, 32)
    family, module = build("albef", draw(tiny.albef_text(12, 6) | heads), SETTINGS)
    assert family.readings["grad_cam"].halves(module).layer == 8
    file = tiny.save(tmp_path, "albef", albef_state())
    with raises(ModelError, "4", "2", "gradcam_layer", "None"):
        find_model(f"albef:{file}", ModelOptions(reading="grad_cam"))
    assert isinstance(find_model(f"albef:{file}"), PairScorer)


def test_boxes_are_candidates_or_rectangles_of_cells(tmp_path):
    model = load(tmp_path, "albef", albef_state(), "grad_cam", gradcam_layer=3)
    assert isinstance(model, FusionHeat)
    proposals = ((0.0, 0.0, 20.0, 20.0), (25.0, 20.0, 25.0, 20.0), (0.0, 0.0, 50.0, 40.0))
    one, other = model.find_boxes(PICTURES[:2], QUESTIONS[:2], [proposals, ()])
    assert one in proposals
    assert {other[0], other[2]} <= {0.0, 25.0, 50.0}  # the picture has two cells across, of 25 pixels each
    assert {other[1], other[3]} <= {0.0, 20.0, 40.0}
    # A candidate more that is not chosen changes nothing, nor does their order.
    assert model.find_boxes(PICTURES[:1], QUESTIONS[:1], [proposals[::-1]]) == [one]


def test_a_file_has_the_reading_of_its_task_and_pairs_of_layers_share_keys_and_values():
    for state, reading in ((tiny.albef_vqa(), "vqa"), (tiny.albef_nlvr2(), "nlvr2")):
        family, module = build("albef", state, SETTINGS)
        assert [name for name, one in family.readings.items() if one.needs in module.state_dict()] == [reading]
        assert module.config.context == 64  # every position: questions and sentences are read whole
    layers = [layer.crossattention.self for layer in module.text_encoder.encoder.layer[2:5]]
    assert layers[0].key is layers[1].key and layers[0].query is not layers[1].query
    assert layers[1].value is not layers[2].value


def test_xvlm_finds_boxes_by_the_formula(tmp_path):
    state = tiny.xvlm_boxes()
    model = load(tmp_path, "xvlm", state)
    plain = tiny.PlainBert({name.replace("text_encoder.bert.", "text_encoder."): one for name, one in state.items()})
    for pixels, phrase in zip(PICTURES, QUESTIONS, strict=True):
        image, ids = states(model, pixels, phrase)
        logits = head_of(plain, "bbox_head", question_of(plain, image, ids, 4, 2)[0])
        x, y, width, height = (1 / (1 + np.exp(-logits))) * (50, 40, 50, 40)
        found = model.find_boxes([pixels], [phrase], [((0.0, 0.0, 5.0, 5.0),)])
        np.testing.assert_allclose(found, [(x - width / 2, y - height / 2, width, height)], atol=1e-3)


def pool(model, image, text):
    """The two poolers' outputs of METER or FIBER, float64."""
    with torch.inference_mode():
        both = model.encoder.halves.pool_states(*(tuple(t[None] for t in tensors) for tensors in (image, text)))
    return both[0].double().numpy()


@pytest.mark.parametrize(("family", "make"), [("meter", tiny.meter_head), ("fiber", tiny.fiber_head)])
def test_an_answer_is_the_class_with_the_greatest_logit(tmp_path, family, make):
    state = make("vqa")
    model, plain = load(tmp_path, family, state), tiny.PlainBert(state)
    for pixels, question in zip(PICTURES, QUESTIONS, strict=True):
        image, text = model.image_states([pixels])[0], model.text_states([question])[0]
        logits = head_of(plain, "vqa_classifier", pool(model, image.tensors, text.tensors))
        np.testing.assert_allclose(model.outputs([pixels], [question])[0], logits, atol=1e-4)
        assert model.choose_answers([pixels], [question]) == [tiny.ANSWERS[int(logits.argmax())]]
    write_file(tmp_path / "answer_list.json", tiny.ANSWERS[1:])
    with raises(ModelError, "answer_list.json", "4", "5"):
        find_model(f"{family}:{tmp_path / 'head.pth'}")


@pytest.mark.parametrize(("family", "make"), [("meter", tiny.meter_head), ("fiber", tiny.fiber_head)])
def test_both_images_passes_are_classified_together(tmp_path, family, make):
    state = make("nlvr2")
    model, plain = load(tmp_path, family, state), tiny.PlainBert(state)
    text = model.text_states(QUESTIONS[:1])[0]
    types = state.get("token_type_embeddings.weight", torch.zeros(3, 1))  # FIBER has none
    seen = []
    for pair in (PICTURES[:2], PICTURES[1::-1]):
        pooled = []
        for place, image in enumerate(model.image_states(pair)):  # METER marks their tokens by the types 1 and 2
            pooled.append(pool(model, (image.tensors[0] + types[1 + place],), text.tensors))
        logits = head_of(plain, "nlvr2_classifier", np.concatenate(pooled))
        (ours,) = model.judge(pair[:1], pair[1:], QUESTIONS[:1])
        np.testing.assert_allclose(ours, tiny.softmax(logits)[1], atol=1e-5)
        seen.append(ours)
    assert abs(seen[0] - seen[1]) > 1e-4


@pytest.mark.parametrize(
    ("family", "task", "benchmark", "state", "options"),
    [
        ("albef", "vqa", "vlue-vqa", tiny.albef_vqa, []),
        ("albef", "nlvr2", "vlue-nlvr2", tiny.albef_nlvr2, []),
        ("albef", "refcoco+", "vlue-grounding", albef_state, ["--reading", "grad_cam"]),
        ("xvlm", "refcoco+", "vlue-grounding", tiny.xvlm_boxes, []),
        ("meter", "nlvr2", "vlue-nlvr2", lambda: tiny.meter_head("nlvr2"), []),
        ("fiber", "vqa", "vlue-vqa", lambda: tiny.fiber_head("vqa"), []),
    ],
)
def test_vlue_is_run_from_a_file(tmp_path, command, family, task, benchmark, state, options):
    extra = {"gradcam_layer": 2} if options else {}
    file = tiny.save(tmp_path / "model", family, state(), **extra)
    data = tiny.write_task(tmp_path / "data", task)
    outputs = []
    for size in ("1", "32") if family == "albef" else ("32",):
        out = tmp_path / size
        arguments = ["-m", f"{family}:{file}", "-b", benchmark, "--data", data, "--images", data, *options]
        command("run", *arguments, "--no-cache", "--batch-size", size, "--out", out, code=0)
        assert list(read_result(out).benchmarks) == [benchmark]
        outputs.append([sample.output for sample in read_samples(out, benchmark) if sample.output is not None])
    assert outputs[0] == outputs[-1] and len(outputs[0]) >= 6
    assert task != "vqa" or {one for one in outputs[0] if isinstance(one, str)} <= set(tiny.ANSWERS)
