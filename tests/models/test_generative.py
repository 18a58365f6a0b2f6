"""Tiny models of each family, saved and loaded; every number is compared with the library's own forward, pair by pair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tellapart.errors import ModelError
from tellapart.models import generative_chat
from tellapart.models.find import ModelOptions, find_model
from tellapart.models.generative import (
    Answerer,
    Generative,
    load_likelihood,
    load_mean_likelihood,
    load_yes,
    load_yes_over_no,
)
from tellapart.models.generative_choice import Chooser, load_choice, side_by_side, squared
from tellapart.models.generative_text import Asked
from tellapart.models.huggingface_files import import_transformers, load_processor
from tellapart.models.prompts import EQBEN_CHOICE
from tellapart.models.protocols import Generator, PairScorer
from tellapart.models.torch_backend import import_torch

pytest.importorskip("torch", reason="generative models need the extra 'models'")
pytest.importorskip("transformers", reason="generative models need the extra 'models'")

torch = import_torch()
transformers = import_transformers()

#: Float32 rounding of another order of summation, on log-probabilities of a few hundred nats at most.
CLOSE = 2e-5

MARKS = ["<s>", "</s>", "<pad>", "<image>"]
QWEN_MARKS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
LLAVA_CHAT = (
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}"
    "{% for c in m['content'] if c['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}"
    "{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CLIP_SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
VISION = CLIP_SIZE | {"image_size": 16, "patch_size": 4, "initializer_range": 0.5}
LANGUAGE = CLIP_SIZE | {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
SQUARE = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}


TEXTS = ["a red cup", "a cat and two dog on the blue box and a red cup", "a cat"]
DRAW = np.random.default_rng(0)
IMAGES = [DRAW.integers(0, 256, shape, dtype=np.uint8) for shape in ((20, 24, 3), (24, 60, 3), (50, 16, 3))]
PAIRS = [(image, text) for image in IMAGES for text in TEXTS]


def tokenizer(marks: list[str], roles: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(
        ["USER: is this a cat ? ASSISTANT: Yes No", 'Does this figure show "a red cup"?'] * 3, trainer
    )
    special = {role: mark for role, mark in zip(roles.split(), marks, strict=False) if role != "_"}
    rest = [mark for mark in marks if mark not in special.values()]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, additional_special_tokens=rest, **special)


def save_llava(folder: Path, kind: str = "Llava", chat: str | None = LLAVA_CHAT, **extra: Any) -> None:
    words = tokenizer(MARKS, "bos_token eos_token pad_token")
    language = LANGUAGE | {"model_type": "llama", "vocab_size": len(words), "max_position_embeddings": 512}
    config = getattr(transformers, f"{kind}Config")(
        vision_config=VISION | {"model_type": "clip_vision_model"},
        text_config=language,
        image_token_id=3,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        **extra,
    )
    images = transformers.CLIPImageProcessor(**SQUARE)
    if kind == "LlavaNext":
        images = transformers.LlavaNextImageProcessor(**SQUARE, **extra)
    processor = getattr(transformers, f"{kind}Processor")(
        images,
        words,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=chat,
    )
    save(folder, getattr(transformers, f"{kind}ForConditionalGeneration")(config), processor)


def save_qwen(folder: Path, kind: str = "Qwen2VL") -> None:
    words = tokenizer(QWEN_MARKS, "pad_token _ eos_token")
    vision = {"depth": 2, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2, "initializer_range": 0.5}
    if kind == "Qwen2VL":
        vision |= {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2}
    else:
        vision |= {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 64, "window_size": 16}
        vision |= {"fullatt_block_indexes": [1]}
    rotary = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    language = CLIP_SIZE | {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    language |= {
        "vocab_size": len(words),
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rope_parameters": rotary,
    }
    name = {"Qwen2VL": "Qwen2VL", "Qwen2_5VL": "Qwen2_5_VL"}[kind]
    ids = words.convert_tokens_to_ids
    config = getattr(transformers, f"{name}Config")(
        text_config=language,
        vision_config=vision,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    cuts = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    images = transformers.Qwen2VLImageProcessor(**cuts, min_pixels=64, max_pixels=1024)
    videos = transformers.Qwen2VLVideoProcessor(**cuts)
    processor = getattr(transformers, f"{name}Processor")(images, words, videos, chat_template=QWEN_CHAT)
    save(folder, getattr(transformers, f"{name}ForConditionalGeneration")(config), processor)


def save_blip(folder: Path, kind: str = "BlipForConditionalGeneration") -> None:
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[DEC]",
        "a",
        "picture",
        "of",
        *TEXTS[1].split(),
        "red",
        "cup",
    ]
    words = [*dict.fromkeys(words)]
    language = CLIP_SIZE | {"vocab_size": len(words), "encoder_hidden_size": 32}
    language |= {"max_position_embeddings": 48 if kind.endswith("QuestionAnswering") else 24}
    language |= {"bos_token_id": 5, "sep_token_id": 3, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.5}
    config = transformers.BlipConfig(text_config=language, vision_config=VISION)
    bert = transformers.BertTokenizer(vocab={word: place for place, word in enumerate(words)}, do_lower_case=True)
    images = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    save(folder, getattr(transformers, kind)(config), transformers.BlipProcessor(images, bert))


def save(folder: Path, model: Any, processor: Any) -> None:
    torch.manual_seed(0)
    model.init_weights()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


SAVERS: dict[str, Callable[[Path], None]] = {
    "llava": save_llava,
    "llava_next": lambda folder: save_llava(folder, "LlavaNext", image_grid_pinpoints=[[16, 32], [32, 16]]),
    "qwen2_vl": save_qwen,
    "qwen2_5_vl": lambda folder: save_qwen(folder, "Qwen2_5VL"),
    "blip": save_blip,
    "blip_vqa": lambda folder: save_blip(folder, "BlipForQuestionAnswering"),
}
CHATS = [family for family in SAVERS if "blip" not in family]


@pytest.fixture(scope="module", autouse=True)
def _one_quiet_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    yield
    transformers.utils.logging.enable_progress_bar()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, _one_quiet_thread: None) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    for family, saver in SAVERS.items():
        saver(root / family)
    return {family: root / family for family in SAVERS}


def both(pairs: list[tuple[Any, str]]) -> tuple[list[Any], list[str]]:
    return [image for image, _ in pairs], [text for _, text in pairs]


def load(folder: Path) -> tuple[Any, Any]:
    """The library's own model and processor; images by Pillow, as everywhere here."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return transformers.AutoModelForImageTextToText.from_pretrained(folder).eval(), processor


def asked(processor: Any, prompt: str) -> str:
    content = [{"type": "image"}, {"type": "text", "text": prompt}]
    return str(processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True))


def direct(model: Any, processor: Any, image: Any, prompt: str, answer: str, end: bool) -> float:
    """Log P(answer | image, prompt) by one forward over everything, as the library's documentation has it."""
    blank = "" if prompt.endswith("\n") else " "
    mark = processor.tokenizer.eos_token if end else ""
    inputs = processor(images=Image.fromarray(image), text=prompt + blank + answer + mark, return_tensors="pt")
    length = len(processor.tokenizer(blank + answer + mark, add_special_tokens=False).input_ids)
    with torch.no_grad():
        logs = model(**inputs).logits[0].log_softmax(-1)
    ids = inputs["input_ids"][0]
    places = range(len(ids) - length, len(ids))
    return sum(float(logs[place - 1, ids[place]]) for place in places)


@pytest.mark.parametrize("family", CHATS)
def test_p_yes_is_that_of_the_library_pair_by_pair(folders: dict[str, Path], family: str) -> None:
    scorer = load_yes(str(folders[family]), ModelOptions())
    model, processor = load(folders[family])
    got = scorer.score_pairs(*both(PAIRS))
    question = 'Does this figure show "{}"? Please answer yes or no.'
    want = [direct(model, processor, i, asked(processor, question.format(t)), "Yes", False) for i, t in PAIRS]
    assert isinstance(scorer, PairScorer)
    assert scorer.kind == "probability"
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.exp(want), rtol=CLOSE)
    assert len(set(got.tolist())) == len(PAIRS)  # it looks at both


@pytest.mark.parametrize("family", CHATS)
def test_a_caption_and_its_end_are_as_likely_as_to_the_library(folders: dict[str, Path], family: str) -> None:
    scorer = load_likelihood(str(folders[family]), ModelOptions())
    model, processor = load(folders[family])
    prompt = asked(processor, "Describe this image in one sentence.")
    got = scorer.log_likelihoods(*both(PAIRS))
    want = [direct(model, processor, image, prompt, text, True) for image, text in PAIRS]
    assert isinstance(scorer, Generator)
    np.testing.assert_allclose(got, want, rtol=CLOSE)


def blip_direct(folder: Path, image: Any, text: str) -> tuple[float, int]:
    model, processor = load(folder)
    inputs = processor(images=Image.fromarray(image), text="a picture of " + text, return_tensors="pt")
    ids = inputs["input_ids"][0]
    ids[0] = model.config.text_config.bos_token_id
    with torch.no_grad():
        logs = model(**inputs).logits[0].log_softmax(-1)
    return sum(float(logs[place - 1, ids[place]]) for place in range(4, len(ids))), len(ids) - 4


def test_blips_captioner_finds_a_caption_as_likely_as_the_library_does(folders: dict[str, Path]) -> None:
    got = load_likelihood(str(folders["blip"]), ModelOptions()).log_likelihoods(*both(PAIRS))
    mean = load_mean_likelihood(str(folders["blip"]), ModelOptions()).log_likelihoods(*both(PAIRS))
    sums, tokens = np.transpose([blip_direct(folders["blip"], *pair) for pair in PAIRS])
    np.testing.assert_allclose(got, sums, rtol=CLOSE)
    np.testing.assert_allclose(mean, sums / tokens, rtol=CLOSE)


@pytest.mark.parametrize("family", [*CHATS, "blip"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_number_depends_on_batch_order_or_neighbours(folders: dict[str, Path], family: str, dtype: str) -> None:
    scorer = load_likelihood(str(folders[family]), ModelOptions(dtype=dtype))
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
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = load_yes(str(folders["llava_next"]), ModelOptions()).score_pairs(*both(PAIRS))
    kept_logs = load_likelihood(str(folders["qwen2_vl"]), ModelOptions()).log_likelihoods(*both(PAIRS))
    monkeypatch.setattr(generative_chat, "_KEEPS_IMAGE", frozenset())
    anew = load_yes(str(folders["llava_next"]), ModelOptions()).score_pairs(*both(PAIRS))
    anew_logs = load_likelihood(str(folders["qwen2_vl"]), ModelOptions()).log_likelihoods(*both(PAIRS))
    np.testing.assert_allclose(kept, anew, rtol=CLOSE)
    np.testing.assert_allclose(kept_logs, anew_logs, rtol=CLOSE)


def test_an_image_is_read_once_however_many_texts_are_asked_about(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = load_yes_over_no(str(folders["llava"]), ModelOptions())
    seen: list[Any] = []
    encode = generative_chat.ChatModel._encode
    monkeypatch.setattr(
        generative_chat.ChatModel, "_encode", lambda self, *given: seen.append(given) or encode(self, *given)
    )
    scorer.score_pairs(*both(PAIRS[::-1] + PAIRS[:3]))
    assert len(seen) == len(IMAGES)


def test_yes_over_no_is_the_share_of_yes(folders: dict[str, Path]) -> None:
    share = load_yes_over_no(str(folders["llava"]), ModelOptions())
    model, processor = load(folders["llava"])
    got = share.score_pairs(*both(PAIRS))
    question = 'Does this figure show "{}"? Please answer yes or no.'
    for (image, text), value in zip(PAIRS, got, strict=True):
        prompt = asked(processor, question.format(text))
        yes, no = (np.exp(direct(model, processor, image, prompt, word, False)) for word in ("Yes", "No"))
        assert value == pytest.approx(yes / (yes + no), rel=1e-4)


@pytest.mark.parametrize("family", ["llava", "blip"])
def test_a_text_beyond_the_context_is_cut_and_counted(folders: dict[str, Path], family: str) -> None:
    scorer = load_likelihood(str(folders[family]), ModelOptions())
    whole = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.log_likelihoods([IMAGES[0]] * 3, [whole, whole + " the cat", "a cat"])
    assert scorer.truncated == 2
    assert values[0] == values[1]  # what was cut off cannot matter
    assert values[0] != values[2]


def test_a_question_keeps_its_end_when_the_caption_in_it_is_cut(folders: dict[str, Path]) -> None:
    scorer = load_yes(str(folders["llava"]), ModelOptions())
    form, context = scorer._reader.format, scorer._reader.format.context
    long = " ".join(["a", "red", "cup", "and"] * 99)
    values = scorer.score_pairs([IMAGES[0]] * 2, [long, long + " no"])
    assert scorer.truncated == 2
    assert values[0] == values[1]
    cut = form.fit(long, lambda text: Asked(scorer.prompt.fill(text=text), "Yes"), added=20)
    assert cut.rendered.endswith('"? Please answer yes or no. ASSISTANT:')
    assert context - 20 - 4 <= len(cut.prompt) + len(cut.answer) <= context - 20


def test_a_prompt_that_fills_the_context_alone_is_refused(folders: dict[str, Path]) -> None:
    model = load_likelihood(str(folders["llava"]), ModelOptions())
    with pytest.raises(ModelError, match=r"image, prompt and answer take \d+ tokens and its context holds 512"):
        model.answer([[IMAGES[0]]], ["why? " * 300])
    captioner = load_likelihood(str(folders["blip"]), ModelOptions())
    with pytest.raises(ModelError, match="its context holds 24"):
        captioner.answer([[IMAGES[0]]], ["a cat " * 20])


def test_a_caption_that_holds_the_mark_for_an_image_is_refused(folders: dict[str, Path]) -> None:
    scorer = load_yes(str(folders["llava"]), ModelOptions())
    with pytest.raises(ModelError, match=r"holds '<image>', the model's mark for an image"):
        scorer.score_pairs([IMAGES[0]], ["a <image> of a cat"])
    with pytest.raises(ModelError, match="the model's mark for an image"):
        scorer.answer([[IMAGES[0]]], ["what is <image>?"])


@pytest.mark.parametrize("family", CHATS)
def test_an_answer_is_the_librarys_greedy_one_whatever_the_checkpoint_samples(
    folders: dict[str, Path], family: str, tmp_path: Path
) -> None:
    shutil.copytree(folders[family], tmp_path / "sampling")
    settings = json.loads((tmp_path / "sampling/generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0, "top_k": 9}
    (tmp_path / "sampling/generation_config.json").write_text(json.dumps(settings))
    answerer = load_yes(str(tmp_path / "sampling"), ModelOptions())
    model, processor = load(folders[family])
    questions = ["what is this?", "is the cup red? " * 3, "two cats?"]
    want = []
    for image, question in zip(IMAGES, questions, strict=True):
        inputs = processor(images=Image.fromarray(image), text=asked(processor, question), return_tensors="pt")
        out = model.generate(**inputs, max_new_tokens=6, do_sample=False)[0][inputs["input_ids"].shape[1] :]
        want.append(processor.tokenizer.decode(out, skip_special_tokens=True).strip())
    assert isinstance(answerer, Answerer)
    assert answerer.answer([[image] for image in IMAGES], questions, max_new_tokens=6) == want
    backwards = answerer.answer([[image] for image in IMAGES[::-1]], questions[::-1], max_new_tokens=6)
    assert backwards[::-1] == want


def test_two_images_may_be_asked_about_at_once(folders: dict[str, Path]) -> None:
    answerer = load_yes(str(folders["qwen2_vl"]), ModelOptions())
    prompt = answerer.task_prompt("nlvr2").fill(sentence="both show a cup")
    pair = answerer.answer([IMAGES[:2]], [prompt], max_new_tokens=8)
    assert pair != answerer.answer([IMAGES[1::-1]], [prompt], max_new_tokens=8)
    with pytest.raises(ModelError, match="1 prompts and images for 2; give one list for each"):
        answerer.answer([[IMAGES[0]], [IMAGES[1]]], [prompt])


def test_blips_captioner_writes_the_librarys_caption_without_its_beginning(folders: dict[str, Path]) -> None:
    captioner = load_likelihood(str(folders["blip"]), ModelOptions())
    model, processor = load(folders["blip"])
    inputs = processor(images=Image.fromarray(IMAGES[1]), text="a picture of ", return_tensors="pt")
    out = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    assert processor.decode(out[0][:4]) == "[DEC] a picture of"
    prompt = captioner.task_prompt("caption").fill()
    want = processor.decode(out[0][4:], skip_special_tokens=True)
    assert want
    assert captioner.answer([[IMAGES[1]]], [prompt], max_new_tokens=6) == [want]
    with pytest.raises(ModelError, match="reads one image at a time; 2 were given"):
        captioner.answer([IMAGES[:2]], [prompt])
    with pytest.raises(ModelError, match="a model of type 'blip', has no task 'vqa'; it has caption"):
        captioner.task_prompt("vqa")
    with pytest.raises(ModelError, match="what a model of type 'blip' means by the numbers of a box is not known"):
        captioner.read_box("[0, 0, 1, 1]", IMAGES[0])


def test_blips_answerer_says_what_the_library_says_and_as_surely(folders: dict[str, Path]) -> None:
    source = str(folders["blip_vqa"])
    scorer = load_yes(source, ModelOptions())
    model = transformers.BlipForQuestionAnswering.from_pretrained(source).eval()
    _, processor = load(folders["blip"])
    want, said = [], []
    for image, text in PAIRS:
        question = f'Does this figure show "{text}"? Please answer yes or no.'
        inputs = processor(images=Image.fromarray(image), text=question, return_tensors="pt")
        out = model.generate(
            **inputs, max_new_tokens=4, do_sample=False, output_logits=True, return_dict_in_generate=True
        )
        yes = processor.tokenizer.convert_tokens_to_ids("yes")
        want.append(float(out.logits[0][0].softmax(-1)[yes]))
        said.append(processor.tokenizer.decode(out.sequences[0][1:], skip_special_tokens=True))
    got = scorer.score_pairs(*both(PAIRS))
    np.testing.assert_allclose(got, want, rtol=CLOSE)
    alone = [scorer.score_pairs([image], [text])[0] for image, text in PAIRS[::-1]]
    np.testing.assert_array_equal(alone[::-1], got)
    questions = [scorer.prompt.fill(text=text) for _, text in PAIRS]
    assert scorer.answer([[image] for image, _ in PAIRS], questions, max_new_tokens=4) == said
    assert scorer.task_prompt("vqa").fill(question="is it red?") == "is it red?"
    scorer.score_pairs([IMAGES[0]] * 2, ["a red cup " * 20, "a red cup " * 30])
    assert scorer.truncated == 2
    with pytest.raises(ModelError, match="reads one image at a time; 2 were given"):
        scorer.answer([IMAGES[:2]], ["is it red?"])
    with pytest.raises(ModelError, match="its context holds 48"):
        scorer.answer([[IMAGES[0]]], ["is it red? " * 20])
    with pytest.raises(ModelError, match="answers questions and writes no captions; score it by the reading 'vqa'"):
        load_likelihood(source, ModelOptions())


@pytest.mark.parametrize("reading", ["vqa", "yes_no", "likelihood", "mean_likelihood", "choice", None])
def test_a_folder_is_found_by_its_name_and_read_as_asked(folders: dict[str, Path], reading: str | None) -> None:
    model = find_model(str(folders["qwen2_vl"]), ModelOptions(reading=reading))
    loaders = {"yes_no": load_yes_over_no, "likelihood": load_likelihood, "mean_likelihood": load_mean_likelihood}
    wanted = (loaders | {"choice": load_choice}).get(reading or "", load_yes)(model.name, ModelOptions())
    assert type(model) is type(wanted) and model.fingerprint == wanted.fingerprint
    assert model.name == str(folders["qwen2_vl"])


@pytest.mark.parametrize("family", list(SAVERS))
def test_pictures_are_prepared_by_pillow(folders: dict[str, Path], family: str) -> None:
    processor = load_processor(str(folders[family]))
    assert type(processor.image_processor).__name__.endswith("Pil")


def test_a_tokenizer_without_its_vocabulary_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["blip"], tmp_path / "mute")
    (tmp_path / "mute/tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"mute has no vocabulary: expected tokenizer.json, or vocab.txt; copy it"):
        load_likelihood(str(tmp_path / "mute"), ModelOptions())


def test_blips_captioner_is_not_asked_questions(folders: dict[str, Path]) -> None:
    with pytest.raises(
        ModelError, match="ForConditionalGeneration, answers no questions; score it by the reading 'like"
    ):
        load_yes(str(folders["blip"]), ModelOptions())
    with pytest.raises(ModelError, match="a BlipForConditionalGeneration, follows no instructions"):
        load_choice(str(folders["blip"]), ModelOptions())


def test_boxes_are_read_as_each_family_writes_them(folders: dict[str, Path]) -> None:
    picture = np.zeros((50, 200, 3), np.uint8)
    boxes = {"llava": "[0.5, 0, 1, 1]", "qwen2_vl": "(500,0),(1000,1000)"}
    for family, answer in boxes.items():
        model = load_yes(str(folders[family]), ModelOptions())
        assert "a cup" in model.task_prompt("grounding").fill(text="a cup")
        assert model.read_box(answer, picture) == (100.0, 0.0, 200.0, 50.0)
    model = load_yes(str(folders["qwen2_5_vl"]), ModelOptions())
    grid = load(folders["qwen2_5_vl"])[1].image_processor(Image.fromarray(picture), return_tensors="np")[
        "image_grid_thw"
    ]
    height, width = (int(side) * 4 for side in grid[0][1:])
    assert (height, width) != picture.shape[:2]
    answer = json.dumps([{"bbox_2d": [width // 2, 0, width, height]}])
    assert model.read_box(answer, picture) == (100.0, 0.0, 200.0, 50.0)
    assert model.read_box("there is none", picture) is None


def test_a_known_family_without_a_template_is_prompted_as_it_was_trained(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    save_llava(tmp_path / "bare", chat=None)
    with_template = load_yes(str(folders["llava"]), ModelOptions())
    without = load_yes(str(tmp_path / "bare"), ModelOptions())
    assert without._reader.format.render(1, "is it?") == "USER: <image>\nis it? ASSISTANT:"
    # The template writes one blank more, and what is read is another prompt.
    assert with_template._reader.format.render(1, "is it?") == "USER: <image>\nis it? ASSISTANT:"
    assert without.fingerprint != with_template.fingerprint


def test_another_family_without_a_template_is_an_error_that_says_what_to_add(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders["qwen2_vl"], tmp_path / "bare")
    (tmp_path / "bare/chat_template.jinja").unlink()
    with pytest.raises(ModelError, match=r"no prompt format is known for the family 'qwen2_vl'; add the chat_template"):
        load_yes(str(tmp_path / "bare"), ModelOptions())


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of PaliGemma's processor
def test_a_family_that_looks_ahead_in_its_answer_is_refused(tmp_path: Path) -> None:
    words = tokenizer(MARKS, "bos_token eos_token pad_token")
    images = transformers.SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 16
    chat = "{% for c in messages[0]['content'] %}{{ '<image>' if c['type'] == 'image' else c['text'] }}{% endfor %}"
    processor = transformers.PaliGemmaProcessor(images, words, chat_template=chat)
    language = LANGUAGE | {"model_type": "gemma", "vocab_size": len(words), "num_key_value_heads": 1, "head_dim": 8}
    config = transformers.PaliGemmaConfig(
        vision_config=VISION | {"model_type": "siglip_vision_model", "projection_dim": 32},
        text_config=language | {"max_position_embeddings": 256},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )
    save(tmp_path, transformers.PaliGemmaForConditionalGeneration(config), processor)
    with pytest.raises(ModelError, match=r"the family 'paligemma' looks ahead in its own answer"):
        load_likelihood(str(tmp_path), ModelOptions())


def test_an_encoder_decoder_language_model_is_refused(tmp_path: Path) -> None:
    words = tokenizer(MARKS, "bos_token eos_token pad_token")
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    language = {"model_type": "t5", "vocab_size": len(words), "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1}
    config = transformers.Blip2Config(
        vision_config=size | {"image_size": 16, "patch_size": 4},
        qformer_config=size | {"vocab_size": 20, "encoder_hidden_size": 32},
        text_config=language | {"num_heads": 4, "decoder_start_token_id": 0},
        num_query_tokens=4,
        image_token_index=3,
    )
    images = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    processor = transformers.Blip2Processor(images, words, num_query_tokens=4)
    save(tmp_path, transformers.Blip2ForConditionalGeneration(config), processor)
    with pytest.raises(ModelError, match=r"its language model \(t5\) is an encoder and a decoder"):
        load_yes(str(tmp_path), ModelOptions())


def test_weights_that_do_not_fit_and_a_missing_processor_are_errors(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["llava"], tmp_path / "more")
    config = json.loads((tmp_path / "more/config.json").read_text())
    config["text_config"]["num_hidden_layers"] += 1
    (tmp_path / "more/config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"\d+ missing"):
        load_yes(str(tmp_path / "more"), ModelOptions())
    shutil.copytree(folders["llava"], tmp_path / "mute")
    for name in ("processor_config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "mute" / name).unlink()
    with pytest.raises(ModelError, match=r"mute has no processor that can be read \("):
        load_yes(str(tmp_path / "mute"), ModelOptions())


def test_the_fingerprint_follows_what_is_computed_and_not_where_it_lies(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    def of(folder: Path, loader: Callable[..., Generative] = load_yes, **options: Any) -> str:
        return loader(str(folder), ModelOptions(**options)).fingerprint

    shutil.copytree(folders["llava"], tmp_path / "copy")
    shutil.copytree(folders["llava"], tmp_path / "chatty")
    (tmp_path / "chatty/chat_template.jinja").write_text(LLAVA_CHAT.replace("'ASSISTANT:'", "'assistant:'"))
    own = of(folders["llava"])
    others = [of(folders["llava"], dtype="bfloat16"), of(tmp_path / "chatty"), of(folders["llava_next"])]
    loaders = (load_yes_over_no, load_likelihood, load_mean_likelihood, load_choice)
    others += [of(folders["llava"], loader) for loader in loaders]
    assert own == of(tmp_path / "copy")
    assert len({own, *others}) == len(others) + 1


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_the_choice_shows_both_images_in_one_picture_and_asks_with_the_papers_prompt(
    folders: dict[str, Path], family: str
) -> None:
    chooser = load_choice(str(folders[family]), ModelOptions())
    left, right = IMAGES[0], IMAGES[1]
    got = chooser.choose([(left, right), (right, left)], [("a cat", "a cup"), ("a cup", "a cat")])
    whole = side_by_side(left, right)
    # LLaVA's processor would cut this picture to its middle; Qwen's takes it as it is.
    shown = squared(whole) if family == "llava" else whole
    prompt = EQBEN_CHOICE.fill(first="a cat", second="a cup")
    assert got[0] == load_yes(str(folders[family]), ModelOptions()).answer([[shown]], [prompt], max_new_tokens=48)[0]
    assert got[0] != got[1]
    assert isinstance(chooser, Chooser)
    with pytest.raises(ModelError, match="1 pairs of images and 2 of captions; give as many"):
        chooser.choose([(left, right)], [("a", "b"), ("c", "d")])
