"""Probabilities of answers and captions are the library's own, pair by pair, whatever is asked beside them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.generative import chat as generative_chat
from tellapart.models.generative.reader import PromptedAnswer
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.protocols import Generator, PairScorer
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="generative models need the extra 'models'")
pytest.importorskip("transformers", reason="generative models need the extra 'models'")

from tiny_generative import CLOSE, IMAGES, PAIRS, WRITERS, asked, both, direct, load, read_as

torch = import_torch()
transformers = import_transformers()

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.few(2)
@pytest.mark.parametrize("family", WRITERS)
def test_p_yes_is_that_of_the_library_pair_by_pair(folders: Any, family: str) -> None:
    scorer = read_as("vqa", folders[family])
    model, processor = load(folders[family])
    values = scorer.score_pairs(*both(PAIRS))
    question = 'Does this figure show "{}"? Please answer yes or no.'
    want = [direct(model, processor, i, asked(processor, question.format(t)), "Yes", False) for i, t in PAIRS]
    assert isinstance(scorer, PairScorer)
    assert scorer.kind == "probability"
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, np.exp(want), rtol=CLOSE)
    assert len(set(values.tolist())) == len(PAIRS)  # it looks at both


@pytest.mark.parametrize("family", WRITERS)
def test_a_videos_frames_are_the_images_of_one_prompt(folders: Any, family: str) -> None:
    scorer = read_as("vqa", folders[family])
    model, processor = load(folders[family])
    video = np.stack([np.roll(IMAGES[0], 5 * k, axis=1) for k in range(3)])
    videos = [(video, PAIRS[0][1]), (video[::-1].copy(), PAIRS[0][1]), (video, PAIRS[1][1])]
    values = scorer.score_pairs(*both(videos))
    question = 'Does this figure show "{}"? Please answer yes or no.'
    want = [direct(model, processor, v, asked(processor, question.format(t), 3), "Yes", False) for v, t in videos]
    np.testing.assert_allclose(values, np.exp(want), rtol=CLOSE)
    assert len(set(values.tolist())) == 3  # the order of the frames counts
    assert scorer.takes_frames
    assert scorer.answer([[video]], ["?"], max_new_tokens=4) == scorer.answer([list(video)], ["?"], max_new_tokens=4)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", WRITERS)
def test_a_caption_and_its_end_are_as_likely_as_to_the_library(folders: Any, family: str) -> None:
    scorer = read_as("likelihood", folders[family])
    model, processor = load(folders[family])
    prompt = asked(processor, "Describe this image in one sentence.")
    values = scorer.log_likelihoods(*both(PAIRS))
    want = [direct(model, processor, image, prompt, text, True) for image, text in PAIRS]
    assert isinstance(scorer, Generator)
    np.testing.assert_allclose(values, want, rtol=CLOSE)


def blip_direct(folder: Path, image: Any, text: str) -> tuple[float, int]:
    model, processor = load(folder)
    inputs = processor(images=Image.fromarray(image), text="a picture of " + text, return_tensors="pt")
    ids = inputs["input_ids"][0]
    ids[0] = model.config.text_config.bos_token_id
    with torch.no_grad():
        logs = model(**inputs).logits[0].log_softmax(-1)
    return sum(float(logs[place - 1, ids[place]]) for place in range(4, len(ids))), len(ids) - 4


@pytest.mark.slow
def test_blips_captioner_finds_a_caption_as_likely_as_the_library_does(folders: Any) -> None:
    values = read_as("likelihood", folders["blip"]).log_likelihoods(*both(PAIRS))
    mean = read_as("mean_likelihood", folders["blip"]).log_likelihoods(*both(PAIRS))
    sums, tokens = np.transpose([blip_direct(folders["blip"], *pair) for pair in PAIRS])
    np.testing.assert_allclose(values, sums, rtol=CLOSE)
    np.testing.assert_allclose(mean, sums / tokens, rtol=CLOSE)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", [*WRITERS, "blip"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_number_depends_on_batch_order_or_neighbours(folders: Any, family: str, dtype: str) -> None:
    scorer = read_as("likelihood", folders[family], dtype=dtype)
    # Five texts of one length, so that a batch of texts is full and another begun.
    pairs = PAIRS + [(IMAGES[0], f"a {colour} cup") for colour in ("cat", "box", "dog", "two", "the")]
    together = scorer.log_likelihoods(*both(pairs))
    alone = np.concatenate([scorer.log_likelihoods([image], [text]) for image, text in pairs])
    mixed = np.random.default_rng(1).permutation(len(pairs))
    shuffled = scorer.log_likelihoods(*both([pairs[k] for k in mixed]))
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[mixed], shuffled)


def test_a_family_that_reads_everything_anew_gets_the_same_numbers(
    folders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = read_as("vqa", folders["llava_next"]).score_pairs(*both(PAIRS))
    cached_logs = read_as("likelihood", folders["qwen2_vl"]).log_likelihoods(*both(PAIRS))
    monkeypatch.setattr(generative_chat, "_CACHES_IMAGE", frozenset())
    monkeypatch.setattr(generative_chat.ChatModel, "_can_cache", lambda self: False)
    anew = read_as("vqa", folders["llava_next"]).score_pairs(*both(PAIRS))
    anew_logs = read_as("likelihood", folders["qwen2_vl"]).log_likelihoods(*both(PAIRS))
    np.testing.assert_allclose(cached, anew, rtol=CLOSE)
    np.testing.assert_allclose(cached_logs, anew_logs, rtol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["other numbers", "an error"])
def test_a_family_whose_cache_cannot_be_gone_on_from_reads_everything_anew(
    folders: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    right = read_as("likelihood", folders["gemma3"])
    go_on = generative_chat.ChatModel._go_on

    def wrong(self: Any, *arguments: Any) -> Any:
        if fault == "an error":
            raise NotImplementedError("a state of another kind")
        return [value._replace(total=value.total * 1.01) for value in go_on(self, *arguments)]

    monkeypatch.setattr(generative_chat.ChatModel, "_go_on", wrong)
    model = read_as("likelihood", folders["gemma3"])
    np.testing.assert_allclose(
        model.log_likelihoods(*both(PAIRS)), [direct_caption(folders["gemma3"], *pair) for pair in PAIRS], rtol=CLOSE
    )
    assert model.fingerprint != right.fingerprint  # their last digits differ
    assert (right._reader.method, model._reader.method) == ("cached image", "")


def direct_caption(folder: Path, image: Any, text: str) -> float:
    model, processor = load(folder)
    return direct(model, processor, image, asked(processor, "Describe this image in one sentence."), text, True)


def test_a_model_that_thinks_is_asked_without_a_thought(folders: Any, tmp_path: Path) -> None:
    reader = read_as("vqa", folders["qwen3_vl"])._reader
    assert reader.format.render_prompt(1, "why?").endswith("assistant\n<think>\n\n</think>\n\n")
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "asks"))
    template = (folder / "chat_template.jinja").read_text()
    asks = template.replace("<think>\n", "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}")
    (folder / "chat_template.jinja").write_text(asks)
    asking = read_as("vqa", folder)._reader
    assert asking.format.render_prompt(1, "why?") == reader.format.render_prompt(1, "why?")
    assert asking.method == reader.method == "cached image, no thinking"


def test_an_image_is_read_once_however_many_texts_are_asked_about(
    folders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = read_as("yes_no", folders["llava"])
    calls: list[Any] = []
    encode = generative_chat.ChatModel._encode_prompt
    monkeypatch.setattr(
        generative_chat.ChatModel, "_encode_prompt", lambda self, *inputs: calls.append(inputs) or encode(self, *inputs)
    )
    scorer.score_pairs(*both(PAIRS[::-1] + PAIRS[:3]))
    assert len(calls) == len(IMAGES)


def test_yes_over_no_is_the_share_of_yes(folders: Any) -> None:
    share = read_as("yes_no", folders["llava"])
    model, processor = load(folders["llava"])
    values = share.score_pairs(*both(PAIRS))
    question = 'Does this figure show "{}"? Please answer yes or no.'
    for (image, text), value in zip(PAIRS, values, strict=True):
        prompt = asked(processor, question.format(text))
        yes, no = (np.exp(direct(model, processor, image, prompt, word, False)) for word in ("Yes", "No"))
        assert value == pytest.approx(yes / (yes + no), rel=1e-4)


@pytest.mark.parametrize("family", ["llava", "blip"])
def test_a_text_beyond_the_context_is_cut_and_counted(folders: Any, family: str) -> None:
    scorer = read_as("likelihood", folders[family])
    whole = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.log_likelihoods([IMAGES[0]] * 3, [whole, whole + " the cat", "a cat"])
    assert scorer.truncated == 2
    assert values[0] == values[1]  # what was cut off cannot matter
    assert values[0] != values[2]


def test_a_question_keeps_its_end_when_the_caption_in_it_is_cut(folders: Any) -> None:
    scorer = read_as("vqa", folders["llava"])
    form, context = scorer._reader.format, scorer._reader.format.context
    long = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.score_pairs([IMAGES[0]] * 2, [long, long + " no"])
    assert scorer.truncated == 2
    assert values[0] == values[1]
    cut = form.fit_text(long, lambda text: PromptedAnswer(scorer.prompt.fill(text=text), "Yes"), added=20)
    assert cut.rendered.endswith('"? Please answer yes or no. ASSISTANT:')
    assert context - 20 - 4 <= len(cut.prompt) + len(cut.answer) <= context - 20


def test_a_prompt_that_fills_the_context_alone_is_refused(folders: Any) -> None:
    model = read_as("likelihood", folders["llava"])
    with raises(ModelError, "512", "image", "prompt"):
        model.answer([[IMAGES[0]]], ["why? " * 300])
    captioner = read_as("likelihood", folders["blip"])
    with raises(ModelError, "24", "context"):
        captioner.answer([[IMAGES[0]]], ["a cat " * 20])


def test_a_caption_that_holds_the_mark_for_an_image_is_refused(folders: Any) -> None:
    scorer = read_as("vqa", folders["llava"])
    with raises(ModelError, "'<image>'", "model"):
        scorer.score_pairs([IMAGES[0]], ["a <image> of a cat"])
    with raises(ModelError, "model", "image"):
        scorer.answer([[IMAGES[0]]], ["what is <image>?"])
