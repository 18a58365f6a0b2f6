"""Probabilities of answers and captions are the library's own, pair by pair, whatever is asked beside them."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_generative as tiny
import torch
import transformers
from PIL import Image
from tiny_generative import CLOSE, IMAGES, LLAVA_CHAT, PAIRS, TEXTS, WRITERS, asked, both, direct, greedy, load, read_as
from tiny_models import changed, check_neighbours, edit

from facts import raises
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.errors import ModelError
from tellapart.models.generative import chat as generative_chat
from tellapart.models.generative.answers import Chooser, pad_to_square, side_by_side
from tellapart.models.generative.chat import ChatFormat
from tellapart.models.generative.prompts import EQBEN_CHOICE
from tellapart.models.generative.reader import PromptedAnswer
from tellapart.models.generative.readings import Answerer
from tellapart.models.huggingface.files import load_processor
from tellapart.models.protocols import Generator, PairScorer
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.choice import CHOICE
from tellapart.tasks.running import ask
from tellapart.tasks.task import Session

QUESTION = 'Does this figure show "{}"? Please answer yes or no.'
VIDEO = np.stack([np.roll(IMAGES[0], 5 * k, axis=1) for k in range(3)])
VIDEOS = [(VIDEO, PAIRS[0][1]), (VIDEO[::-1].copy(), PAIRS[0][1]), (VIDEO, PAIRS[1][1])]


@pytest.mark.few(4)
@pytest.mark.parametrize("pairs", [PAIRS, VIDEOS], ids=["pictures", "videos"])
@pytest.mark.parametrize("family", WRITERS)
def test_p_yes_is_that_of_the_library_pair_by_pair(folders, family, pairs):
    scorer = read_as("vqa", folders[family])
    model, processor = load(folders[family])
    values = scorer.score_pairs(*both(pairs))
    frames = 1 if pairs is PAIRS else 3  # are the images of one prompt
    want = [direct(model, processor, i, asked(processor, QUESTION.format(t), frames), "Yes", False) for i, t in pairs]
    assert isinstance(scorer, PairScorer) and scorer.takes_frames
    assert (scorer.kind, values.dtype) == ("probability", np.float32)
    np.testing.assert_allclose(values, np.exp(want), rtol=CLOSE)
    assert len(set(values.tolist())) == len(pairs)  # it looks at both, and at the order of frames
    if pairs is VIDEOS:
        whole, apart = (scorer.answer([asked], ["?"], max_new_tokens=4) for asked in ([VIDEO], list(VIDEO)))
        assert whole == apart


@pytest.mark.few(2)
@pytest.mark.parametrize("family", [*WRITERS, "mllama"])
def test_a_caption_and_its_end_are_as_likely_as_to_the_library(folders, family):
    scorer = read_as("likelihood", folders[family])
    want = [direct_caption(folders[family], *pair) for pair in PAIRS]
    assert isinstance(scorer, Generator)
    np.testing.assert_allclose(scorer.log_likelihoods(*both(PAIRS)), want, rtol=CLOSE)


@pytest.mark.parametrize(("mark", "listed"), [("<pad>", 1), ("", [2])])
def test_a_caption_ends_by_the_mark_of_a_turns_end(folders, tmp_path, mark, listed):
    """A tokenizer's end of a document may be another one, as Gemma's; BLIP-2's with OPT is a line's."""
    folder = changed(folders["llava"], tmp_path / "turns", "generation_config.json", eos_token_id=listed)
    (folder / "chat_template.jinja").write_text(LLAVA_CHAT.replace("c['text'] + ' '", f"c['text'] + '{mark} '"))
    model, processor = load(folder)
    prompt = asked(processor, "Describe this image in one sentence.")
    want = direct(model, processor, IMAGES[0], prompt, TEXTS[0] + "<pad>", False)
    read = read_as("likelihood", folder)
    np.testing.assert_allclose(read.log_likelihoods([IMAGES[0]], TEXTS[:1]), want, rtol=CLOSE)
    for reading, is_as_before in (("vqa", True), ("likelihood", False)):  # the end is no part of P(yes)
        scorer = read_as(reading, folder)
        scorer._reader.end = ""
        assert (type(scorer)(scorer._reader, reading).fingerprint == scorer.fingerprint) == is_as_before


def direct_caption(folder: Path, image, text: str) -> float:
    model, processor = load(folder)
    return direct(model, processor, image, asked(processor, "Describe this image in one sentence."), text, True)


@pytest.mark.slow
def test_blips_captioner_finds_a_caption_as_likely_as_the_library_does(folders):
    readings = [read_as(reading, folders["blip"]) for reading in ("likelihood", "mean_likelihood")]
    model, processor = load(folders["blip"])
    for (image, text), *ours in zip(PAIRS, *(read.log_likelihoods(*both(PAIRS)) for read in readings), strict=True):
        inputs = processor(images=Image.fromarray(image), text="a picture of " + text, return_tensors="pt")
        ids = inputs["input_ids"][0]
        ids[0] = model.config.text_config.bos_token_id
        with torch.no_grad():
            logs = model(**inputs).logits[0].log_softmax(-1)
        tokens = [float(logs[place - 1, ids[place]]) for place in range(4, len(ids))]
        np.testing.assert_allclose(ours, [sum(tokens), np.mean(tokens)], rtol=CLOSE)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", [*WRITERS, "blip"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_number_depends_on_batch_order_or_neighbours(folders, family, dtype):
    scorer = read_as("likelihood", folders[family], dtype=dtype)
    # Five texts of one length, so that a batch of texts is full and another begun.
    pairs = PAIRS + [(IMAGES[0], f"a {colour} cup") for colour in ("cat", "box", "dog", "two", "the")]
    values = check_neighbours(scorer.log_likelihoods, *both(pairs), sizes=(1, len(pairs)))
    assert values.dtype == np.float32 and np.isfinite(values).all()


def test_a_family_that_reads_everything_anew_gets_the_same_numbers(folders, monkeypatch):
    def read():
        scores = read_as("vqa", folders["llava_next"]).score_pairs(*both(PAIRS))
        return [*scores, *read_as("likelihood", folders["qwen2_vl"]).log_likelihoods(*both(PAIRS))]

    cached = read()
    monkeypatch.setattr(generative_chat, "_CACHES_IMAGE", frozenset())
    monkeypatch.setattr(generative_chat.ChatModel, "_can_cache", lambda self: False)
    np.testing.assert_allclose(cached, read(), rtol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["other numbers", "an error"])
def test_a_family_whose_cache_cannot_be_gone_on_from_reads_everything_anew(folders, monkeypatch, fault):
    right = read_as("likelihood", folders["gemma3"])
    go_on = generative_chat.ChatModel._go_on

    def wrong(self, *arguments):
        if fault == "an error":
            raise NotImplementedError("a state of another kind")
        return [value._replace(total=value.total * 1.01) for value in go_on(self, *arguments)]

    monkeypatch.setattr(generative_chat.ChatModel, "_go_on", wrong)
    model = read_as("likelihood", folders["gemma3"])
    want = [direct_caption(folders["gemma3"], *pair) for pair in PAIRS]
    np.testing.assert_allclose(model.log_likelihoods(*both(PAIRS)), want, rtol=CLOSE)
    assert model.fingerprint != right.fingerprint  # their last digits differ
    assert (right._reader.method, model._reader.method) == ("cached image", "")


def test_a_model_that_thinks_is_asked_without_a_thought(folders, tmp_path):
    reader = read_as("vqa", folders["qwen3_vl"])._reader
    assert reader.format.render_prompt(1, "why?").endswith("assistant\n<think>\n\n</think>\n\n")
    folder = Path(shutil.copytree(folders["qwen3_vl"], tmp_path / "asks"))
    template = (folder / "chat_template.jinja").read_text()
    asks = template.replace("<think>\n", "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}")
    (folder / "chat_template.jinja").write_text(asks)
    asking = read_as("vqa", folder)._reader
    assert asking.format.render_prompt(1, "why?") == reader.format.render_prompt(1, "why?")
    assert asking.method == reader.method == "cached image, no thinking"


def test_yes_over_no_is_the_share_of_yes_and_an_image_is_read_once_for_all_its_texts(folders, monkeypatch):
    share, encode, calls = read_as("yes_no", folders["llava"]), generative_chat.ChatModel._encode_prompt, []
    monkeypatch.setattr(
        generative_chat.ChatModel, "_encode_prompt", lambda self, *inputs: calls.append(inputs) or encode(self, *inputs)
    )
    values = share.score_pairs(*both(PAIRS[::-1] + PAIRS[:3]))
    assert len(calls) == len(IMAGES)
    model, processor = load(folders["llava"])
    for (image, text), value in zip(PAIRS[::-1], values[: len(PAIRS)], strict=True):
        prompt = asked(processor, QUESTION.format(text))
        yes, no = (np.exp(direct(model, processor, image, prompt, word, False)) for word in ("Yes", "No"))
        assert value == pytest.approx(yes / (yes + no), rel=1e-4)


@pytest.mark.parametrize("family", ["llava", "blip", "florence2"])
def test_a_text_beyond_the_context_is_cut_and_counted(folders, family):
    scorer = read_as("likelihood", folders[family])
    whole = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.log_likelihoods([IMAGES[0]] * 3, [whole, whole + " the cat", "a cat"])
    assert scorer.truncated == 2
    assert values[0] == values[1]  # what was cut off cannot matter
    assert values[0] != values[2]


def test_a_question_keeps_its_end_when_the_caption_in_it_is_cut(folders):
    scorer = read_as("vqa", folders["llava"])
    reader = scorer._reader
    long = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.score_pairs([IMAGES[0]] * 2, [long, long + " no"])
    assert scorer.truncated == 2
    assert values[0] == values[1]
    cut = reader.fit_text(long, PromptedAnswer(scorer.prompt.text, "Yes"), added=20)
    assert cut.rendered.endswith('"? Please answer yes or no. ASSISTANT:')
    assert reader.context - 24 <= len(cut.prompt) + len(cut.answer) <= reader.context - 20


#: A family's reading, what is asked of it, and the facts of the refusal.
REFUSED = [
    ("llava", "likelihood", lambda model: model.answer([IMAGES[:1]], ["why? " * 300]), ("512", "image", "prompt")),
    ("llava", "vqa", lambda model: model.answer([IMAGES[:1]], ["what is <image>?"]), ("model", "image")),
    ("llava", "vqa", lambda model: model.score_pairs(IMAGES[:1], ["a <image> of a cat"]), ("'<image>'", "model")),
    ("qwen2_vl", "vqa", lambda model: model.answer([[IMAGES[0]], [IMAGES[1]]], ["?"]), ("1", "2", "images")),
    ("qwen2_vl", "choice", lambda model: model.choose([IMAGES[:2]], [("a", "b"), ("c", "d")]), ("1", "2", "pairs")),
    ("blip", "likelihood", lambda model: model.answer([IMAGES[:1]], ["a cat " * 20]), ("24", "context")),
    ("blip", "likelihood", lambda model: model.answer([IMAGES[:2]], ["a picture of "]), ("2", "image")),
    ("blip", "likelihood", lambda model: model.task_prompt("vqa"), ("model", "type", "'blip'", "task", "'vqa'")),
    ("blip", "likelihood", lambda model: model.read_box("[0, 0, 1, 1]", IMAGES[0]), ("type", "'blip'", "means")),
    ("blip_vqa", "vqa", lambda model: model.answer([IMAGES[:2]], ["is it red?"]), ("2", "image")),
    ("blip_vqa", "vqa", lambda model: model.answer([IMAGES[:1]], ["is it red? " * 20]), ("48", "context")),
    ("blip_vqa", "vqa", lambda model: model.task_prompt("choice"), ("'choice'", "vqa")),
    ("blip_vqa", "likelihood", id, ("'vqa'", "answers")),
    ("blip", "vqa", id, ("BlipForConditionalGeneration", "answers", "questions")),
    ("blip", "choice", id, ("BlipForConditionalGeneration", "follows")),
    ("florence2", "likelihood", lambda model: model.answer([IMAGES[:2]], ["what?"]), ("2", "one image", "chat")),
    ("florence2", "likelihood", lambda model: model.answer([IMAGES[:1]], ["what? " * 200]), ("250", "image", "prompt")),
    ("florence2", "likelihood", lambda model: model.log_likelihoods(IMAGES[:1], ["a <image>"]), ("'<image>'", "model")),
    ("florence2", "vqa", id, ("'likelihood'", "answers")),
]


@pytest.mark.parametrize(("family", "reading", "ask", "facts"), REFUSED)
def test_what_a_model_cannot_read_or_answer_is_refused(folders, family, reading, ask, facts):
    with raises(ModelError, facts):
        ask(read_as(reading, folders[family]))


@pytest.mark.few(2)
@pytest.mark.parametrize("family", tiny.CHATS)
def test_an_answer_is_the_librarys_greedy_one_whatever_the_checkpoint_samples(folders, family, tmp_path):
    settings = {"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0, "top_k": 9}
    answerer = read_as("vqa", changed(folders[family], tmp_path / "s", "generation_config.json", **settings))
    model, processor = load(folders[family])
    questions = ["what is this?", "is the cup red? " * 3, "two cats?"]
    want = [greedy(model, processor, image, question, 6) for image, question in zip(IMAGES, questions, strict=True)]
    assert isinstance(answerer, Answerer)
    assert answerer.answer([[image] for image in IMAGES], questions, max_new_tokens=6) == want
    backwards = answerer.answer([[image] for image in IMAGES[::-1]], questions[::-1], max_new_tokens=6)
    assert backwards[::-1] == want


def test_two_images_may_be_asked_about_at_once(folders):
    answerer = read_as("vqa", folders["qwen2_vl"])
    prompt = answerer.task_prompt("nlvr2").fill(sentence="both show a cup")
    pair = answerer.answer([IMAGES[:2]], [prompt], max_new_tokens=8)
    assert pair != answerer.answer([IMAGES[1::-1]], [prompt], max_new_tokens=8)


def test_blips_captioner_writes_the_librarys_caption_without_its_beginning(folders):
    captioner = read_as("likelihood", folders["blip"])
    model, processor = load(folders["blip"])
    inputs = processor(images=Image.fromarray(IMAGES[1]), text="a picture of ", return_tensors="pt")
    out = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    assert processor.decode(out[0][:4]) == "[DEC] a picture of"
    prompt = captioner.task_prompt("caption").fill()
    want = processor.decode(out[0][4:], skip_special_tokens=True)
    assert want
    assert captioner.answer([[IMAGES[1]]], [prompt], max_new_tokens=6) == [want]


def test_blips_answerer_says_what_the_library_says_and_as_surely(folders):
    scorer = read_as("vqa", folders["blip_vqa"])
    model = transformers.BlipForQuestionAnswering.from_pretrained(folders["blip_vqa"]).eval()
    _, processor = load(folders["blip"])
    yes, want, answers = processor.tokenizer.convert_tokens_to_ids("yes"), [], []
    how = {"max_new_tokens": 4, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    for image, text in PAIRS:
        inputs = processor(images=Image.fromarray(image), text=QUESTION.format(text), return_tensors="pt")
        out = model.generate(**inputs, **how)
        want.append(float(out.logits[0][0].softmax(-1)[yes]))
        answers.append(processor.tokenizer.decode(out.sequences[0][1:], skip_special_tokens=True))
    np.testing.assert_allclose(check_neighbours(scorer.score_pairs, *both(PAIRS)), want, rtol=CLOSE)
    questions = [scorer.prompt.fill(text=text) for _, text in PAIRS]
    assert scorer.answer([[image] for image, _ in PAIRS], questions, max_new_tokens=4) == answers
    assert scorer.task_prompt("vqa").fill(question="is it red?") == "is it red?"
    scorer.score_pairs([IMAGES[0]] * 2, ["a red cup " * 20, "a red cup " * 30])
    assert scorer.truncated == 2


def test_boxes_are_read_as_each_family_writes_them(folders):
    picture = np.zeros((50, 200, 3), np.uint8)
    process = load(folders["qwen2_5_vl"])[1].image_processor
    _, *grid = process(Image.fromarray(picture), return_tensors="np")["image_grid_thw"][0]
    height, width = (int(side) * 4 for side in grid)
    assert (height, width) != picture.shape[:2]
    answers = {
        # LLaVA's authors pad a picture to a square: of a height of 200 the picture is 75 to 125.
        "llava": "[0.5, 0.375, 1, 0.625]",
        "qwen2_vl": "(500,0),(1000,1000)",
        "qwen2_5_vl": json.dumps([{"bbox_2d": [width // 2, 0, width, height]}]),
    }
    for family, answer in answers.items():
        model = read_as("vqa", folders[family])
        assert "a cup" in model.task_prompt("grounding").fill(text="a cup")
        assert model.read_box(answer, picture) == (100.0, 0.0, 200.0, 50.0)
        assert model.read_box("there is none", picture) is None
        assert model.box_picture(picture).shape == ((200, 200, 3) if family == "llava" else picture.shape)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_the_choice_shows_both_images_in_one_picture_and_asks_with_the_papers_prompt(folders, family):
    chooser = read_as("choice", folders[family])
    left, right = IMAGES[0], IMAGES[1]
    answers = chooser.choose([(left, right), (right, left)], [("a cat", "a cup"), ("a cup", "a cat")])
    whole = side_by_side(left, right)
    # LLaVA's processor would cut this picture to its middle; Qwen's takes it whole.
    picture = pad_to_square(whole) if family == "llava" else whole
    prompt = EQBEN_CHOICE.fill(first="a cat", second="a cup")
    assert answers[0] == read_as("vqa", folders[family]).answer([[picture]], [prompt], max_new_tokens=48)[0]
    assert answers[0] != answers[1]
    assert isinstance(chooser, Chooser)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_which_caption_fits_is_asked_in_both_orders_by_the_authors_prompt(folders, family, tmp_path):
    model, processor = load(folders[family])
    choices, want = [], []
    for k, image in enumerate(IMAGES[:2]):
        Image.fromarray(image).save(tmp_path / f"{k}.png")
        choices.append(Record(str(k), (f"{k}.png",), ("a red cup", "a blue box")))
        for first, second in (("a red cup", "a blue box"), ("a blue box", "a red cup")):
            question = f"Which caption best describes the image?\n(1) {first}\n (2) {second}\nOutput (1) or (2)."
            want.append(greedy(model, processor, image, question, 32))
    answerer = read_as("vqa", folders[family])
    run = CHOICE.runner(answerer)
    with EmbeddingStore(None) as store:
        session = Session(pictures=lambda name: (tmp_path / name).read_bytes(), store=store, batch_size=3)
        chosen = run(answerer, ChoiceSet("cups", tuple(choices)), session)
    assert [answer for both in chosen.words for answer in both] == want


@pytest.mark.few(2)
@pytest.mark.parametrize("family", WRITERS)
def test_captions_of_one_length_are_written_together_and_as_the_library_writes_them(folders, family):
    answerer = read_as("vqa", folders[family])
    model, processor = load(folders[family])
    caption = answerer.task_prompt("caption").text
    draw = np.random.default_rng(1)
    images = [draw.integers(0, 256, (20, 24, 3), dtype=np.uint8) for _ in range(5)] + [IMAGES[1]]
    want = [greedy(model, processor, image, caption, 9) for image in images]
    assert len(set(want)) > 1 or family == "gemma3"  # which repeats one token, whatever it sees
    rows = []
    hook = answerer._reader.model.register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    assert answerer.answer([[image] for image in images], [caption] * 6, max_new_tokens=9) == want
    assert set(rows) == {4}  # captions are written by fours
    rows.clear()
    mixed = answerer.answer([[images[0]], [images[1]]], ["what?", caption], max_new_tokens=9)
    assert mixed[1] == want[1]
    hook.remove()
    assert [answerer.answer([[image]], [caption], max_new_tokens=9)[0] for image in images] == want
    with raises(ModelError, "image", "prompt"):
        answerer.answer([[images[0]]], [caption], max_new_tokens=1 << 20)


def test_a_caption_ends_at_its_end_whatever_fills_it_up_beside_longer_ones(folders):
    answerer = read_as("vqa", folders["llava"])
    reader, caption = answerer._reader, answerer.task_prompt("caption").text
    draw = np.random.default_rng(1)
    images = [draw.integers(0, 256, (20, 24, 3), dtype=np.uint8) for _ in range(4)]
    settings, words = reader.model.generation_config, {}
    for image in images:
        inputs = reader._encode_prompt([image], reader.format.render_prompt(1, caption))
        out = reader.model.generate(**inputs, max_new_tokens=9)[0][inputs["input_ids"].shape[1] :]
        words |= dict.fromkeys(out.tolist())
    for end in [*words][:2]:  # a word of some captions ends these, and another one fills them up
        settings.eos_token_id = end
        settings.pad_token_id = next(word for word in words if word != end)
        alone = [reader.generate([image], caption, 9) for image in images]
        assert answerer.answer([[image] for image in images], [caption] * 4, max_new_tokens=9) == alone


def test_a_picture_that_the_processor_refuses_is_named_by_item_and_file(folders, tmp_path):
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.zeros((8, 3000, 3), np.uint8)).save(tmp_path / "long.png")
    item = Item(id="strip", images=("a.png", "long.png"), texts=("a cat", "a dog"))
    model = read_as("likelihood", folders["qwen2_vl"])
    with raises(ModelError, "strip", "'images[1]'", "long.png", "aspect ratio"):
        score(model, PairSet("strips", (item,), tmp_path), store=EmbeddingStore(None))
    with EmbeddingStore(None) as store, raises(ModelError, "record 2", "long.png", "aspect ratio"):
        session = Session(pictures=lambda name: (tmp_path / name).read_bytes(), store=store, batch_size=2)
        ask(read_as("vqa", folders["qwen2_vl"]), [("a.png",), ("long.png",)], ["what?", "what?"], session)


def test_families_without_a_template_are_prompted_as_they_were_trained(folders, tmp_path):
    tiny.save_llava(tmp_path / "bare", chat=None)
    prompted = [read_as("vqa", folder) for folder in (folders["llava"], tmp_path / "bare")]
    # The template writes one blank more, and what is read is another prompt.
    prompts = {model._reader.format.render_prompt(1, "is it?") for model in prompted}
    assert prompts == {"USER: <image>\nis it? ASSISTANT:"} and prompted[0].fingerprint != prompted[1].fingerprint
    config = SimpleNamespace(model_type="blip-2", get_text_config=SimpleNamespace)
    prompt = ChatFormat("m", SimpleNamespace(tokenizer=None), config).render_prompt(1, "is it?")
    assert prompt == "Question: is it? Answer:"
    shutil.copytree(folders["qwen2_vl"], tmp_path / "unknown")
    (tmp_path / "unknown/chat_template.jinja").unlink()
    with raises(ModelError, "format", "'qwen2_vl'", "chat_template"):
        read_as("vqa", tmp_path / "unknown")


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        (LLAVA_CHAT.replace("ASSISTANT", "BOT"), "USER: <image>\nis it? BOT:"),
        (
            "{% for m in messages %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% endfor %}",
            "[INST] <image>\nis it? [/INST]",
        ),
        ("{% for m in messages %}{{ m['content'] }} #{% endfor %}", "<image>\nis it? #"),
    ],
)
def test_a_template_of_the_tokenizer_alone_is_the_models(tmp_path, template, prompt):
    tiny.save_llava(tmp_path / "llava", chat=None)
    edit(tmp_path / "llava/tokenizer_config.json", chat_template=template)
    assert read_as("vqa", tmp_path / "llava")._reader.format.render_prompt(1, "is it?") == prompt


def test_a_template_or_processor_beside_an_adapter_is_the_one_it_was_trained_with(folders, tmp_path):
    adapter, base = tmp_path / "adapter", folders["llava"]
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    (adapter / "adapter_model.safetensors").touch()
    assert load_processor(str(adapter)).chat_template == LLAVA_CHAT
    (adapter / "tokenizer_config.json").write_text('{"chat_template": "texts alone"}')
    processor = load_processor(str(adapter))
    assert (processor.chat_template, processor.tokenizer.chat_template) == (LLAVA_CHAT, "texts alone")
    (adapter / "chat_template.jinja").write_text("of image and text")
    assert load_processor(str(adapter)).chat_template == "of image and text"
    trained = load_processor(str(base))
    trained.image_processor.size = {"shortest_edge": 32}
    trained.save_pretrained(adapter)
    assert load_processor(str(adapter)).image_processor.size["shortest_edge"] == 32


def test_a_setting_that_fails_after_the_weights_were_read_names_the_folder(folders, tmp_path):
    folder = changed(folders["llava"], tmp_path / "damaged", "config.json", image_token_index=-1)
    with raises(ModelError, str(folder), "config.json"):
        read_as("vqa", folder)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of PaliGemma's processor
def test_a_family_that_looks_ahead_in_its_answer_is_refused(tmp_path):
    words, images, config = tiny.paligemma()
    chat = "{% for c in messages[0]['content'] %}{{ '<image>' if c['type'] == 'image' else c['text'] }}{% endfor %}"
    processor = transformers.PaliGemmaProcessor(images, words, chat_template=chat)
    tiny.save(tmp_path, transformers.PaliGemmaForConditionalGeneration(config), processor)
    with raises(ModelError, "'paligemma'", "answer"):
        read_as("likelihood", tmp_path)


def fingerprint(folder: Path, reading: str = "vqa", **options) -> str:
    return str(read_as(reading, folder, **options).fingerprint)


def test_the_fingerprint_follows_what_is_computed_and_not_where_it_lies(folders, tmp_path):
    llava, words = folders["llava"], "qformer_tokenizer/tokenizer_config.json"  # of InstructBLIP
    copy, chatty = (shutil.copytree(llava, tmp_path / name) for name in ("copy", "chatty"))
    (chatty / "chat_template.jinja").write_text(LLAVA_CHAT.replace("'ASSISTANT:'", "'assistant:'"))
    others = [fingerprint(llava, dtype="bfloat16"), fingerprint(chatty), fingerprint(folders["llava_next"])]
    others += [fingerprint(llava, reading) for reading in ("yes_no", "likelihood", "mean_likelihood", "choice")]
    assert fingerprint(llava) == fingerprint(copy)
    assert len({fingerprint(llava), *others}) == len(others) + 1
    cased = changed(folders["instructblip"], tmp_path / "cased", words, do_lower_case=False)
    assert fingerprint(cased) != fingerprint(folders["instructblip"])


def test_a_fingerprint_and_a_method_tell_the_token_that_a_decoder_begins_with(folders, tmp_path):
    settings = "generation_config.json"
    folder = changed(folders["blip-2"], tmp_path / "blip-2", settings, decoder_start_token_id=1)
    assert fingerprint(folder) != fingerprint(folders["blip-2"])
    edit(folder / "config.json", lambda config: config["text_config"].pop("decoder_start_token_id", None))
    for token, method in ((1, "encoder and decoder, begins by token 1"), (0, "encoder and decoder")):
        edit(folder / settings, decoder_start_token_id=token)
        assert read_as("vqa", folder)._reader.method == method  # the token that pads is T5's usual
    folder, marks = shutil.copytree(folders["florence2"], tmp_path / "florence2"), []
    for token in (0, 5, None):  # the first is BART's usual
        edit(folder / settings, forced_bos_token_id=token)
        marks.append((read_as("likelihood", folder)._reader.method, fingerprint(folder, "likelihood")))
    assert [method.partition(", ")[2] for method, _ in marks] == ["", *(f"writes token {k} first" for k in (5, None))]
    assert len(set(marks)) == len({known for _, known in marks}) == 3
