"""Encoder-decoders that see: answers are as likely as to the library, and VQAScore with the end of the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises

pytest.importorskip("torch", reason="generative models need the extra 'models'")
pytest.importorskip("transformers", reason="generative models need the extra 'models'")

from tiny_generative import CLOSE, IMAGES, PAIRS, both, load, read_as, save_blip_2_t5, save_florence

from tellapart.errors import ModelError
from tellapart.models.generative.encoder_decoder import FORMATS, EncoderDecoderModel
from tellapart.models.huggingface.files import quiet
from tellapart.models.torch.backend import Runtime, import_torch

torch = import_torch()

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]

SAVERS: dict[str, Callable[[Path], None]] = {
    "blip-2": save_blip_2_t5,
    "instructblip": lambda folder: save_blip_2_t5(folder, "InstructBlip"),
    "florence2": save_florence,
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("encoder_decoder")
    with quiet():
        for family, saver in SAVERS.items():
            saver(root / family)
    return {family: root / family for family in SAVERS}


def library_logs(folder: Path, image: Any, prompt: str, answer: str) -> list[float]:
    """The log-probability of each token of the answer and of its end: one forward with the answer as labels."""
    model, processor = load(folder)
    prompt = FORMATS[model.config.model_type][0].format(prompt=prompt)
    inputs = processor(images=[Image.fromarray(image)], text=[prompt], return_tensors="pt")
    labels = processor.tokenizer(answer, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = model(**inputs, labels=labels).logits
    logs = logits[0].log_softmax(-1)[range(labels.shape[1]), labels[0]].tolist()
    return logs[1:] if labels[0, 0] == processor.tokenizer.bos_token_id else logs


@pytest.mark.parametrize("family", SAVERS)
def test_a_caption_is_as_likely_as_to_the_library(own: dict[str, Path], family: str) -> None:
    model = read_as("likelihood", own[family])
    logs = [library_logs(own[family], image, model.prompt.text, text) for image, text in PAIRS]
    np.testing.assert_allclose(model.log_likelihoods(*both(PAIRS)), [sum(each) for each in logs], rtol=CLOSE)
    mean = read_as("mean_likelihood", own[family]).log_likelihoods(*both(PAIRS))
    np.testing.assert_allclose(mean, [np.mean(each) for each in logs], rtol=CLOSE)
    alone = [model.log_likelihoods([image], [text])[0] for image, text in PAIRS[::-1]]
    np.testing.assert_array_equal(model.log_likelihoods(*both(PAIRS)), alone[::-1])
    assert len(set(alone)) == len(PAIRS)


@pytest.mark.parametrize("family", ["blip-2", "instructblip"])
def test_vqascore_with_the_end_of_yes_is_the_geometric_mean(own: dict[str, Path], family: str) -> None:
    with_end, plain = (read_as(reading, own[family]) for reading in ("vqa_end", "vqa"))
    pairs = PAIRS[:4]
    questions = [with_end.prompt.fill(text=text) for _, text in pairs]
    logs = [
        library_logs(own[family], image, question, "Yes") for (image, _), question in zip(pairs, questions, strict=True)
    ]
    ended, plainly = (np.log(scorer.score_pairs(*both(pairs))) for scorer in (with_end, plain))
    np.testing.assert_allclose(ended, [np.mean(each) for each in logs], rtol=CLOSE)
    np.testing.assert_allclose(plainly, [sum(each[:-1]) for each in logs], rtol=CLOSE)
    assert with_end.fingerprint != plain.fingerprint


def test_an_answer_is_the_library_s_greedy_one(own: dict[str, Path]) -> None:
    model, processor = load(own["blip-2"])
    text = "Question: what is it? Answer:"
    inputs = processor(images=[Image.fromarray(IMAGES[1])], text=[text], return_tensors="pt")
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=6, do_sample=False, num_beams=1)
    want = processor.tokenizer.decode(out[0], skip_special_tokens=True).strip()
    assert read_as("vqa", own["blip-2"]).answer([[IMAGES[1]]], ["what is it?"], max_new_tokens=6) == [want]


def test_what_it_cannot_read_is_refused(own: dict[str, Path], folders: Any) -> None:
    model = read_as("likelihood", own["florence2"])
    with raises(ModelError, "2", "one image", "chat"):
        model.answer([[IMAGES[0], IMAGES[1]]], ["what?"])
    with raises(ModelError, "256", "image", "prompt"):
        model.answer([[IMAGES[0]]], ["what? " * 200])
    with raises(ModelError, "'<image>'", "model"):
        model.log_likelihoods([IMAGES[0]], ["a <image>"])
    with raises(ModelError, "'likelihood'", "answers"):
        read_as("vqa", own["florence2"])
    with raises(ModelError, "format", "'llava'", "blip-2"):
        EncoderDecoderModel("x", *load(folders["llava"]), Runtime("cpu"))


def test_a_caption_beyond_the_context_is_cut_and_counted(own: dict[str, Path]) -> None:
    model = read_as("likelihood", own["florence2"])
    whole = "a red cup and " * 99
    values = model.log_likelihoods([IMAGES[0]] * 3, [whole, whole + "the cat", "a cat"])
    assert model.truncated == 2
    assert values[0] == values[1] != values[2]
