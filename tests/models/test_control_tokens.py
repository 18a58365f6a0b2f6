"""A caption is text: its words become no ends, masks, pictures or turns, by the tokenizer of any family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
from tiny_files import PICTURES, save_family
from tiny_generative import IMAGES, MARKS, QWEN_CHAT, QWEN_MARKS, SAVERS, read_as
from tiny_generative import tokenizer as chat_tokenizer

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.captions import ControlTokens, refuse_known_marks
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import tokenizer_facts
from tellapart.models.huggingface.inputs import TokenReader
from tellapart.models.openclip.tokens import Tokens, clip_tokens
from tellapart.models.text.find import TextModel
from tellapart.models.torch.backend import Runtime

#: Tokenizers of the tiny models; whether control tokens can be read as text. Unigram's vocabulary lists them as words.
TOKENIZERS: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "clip": (lambda _: tiny.clip_tokenizer(), True),
    "bert": (lambda _: tiny.bert_tokenizer(), True),
    "roberta": (lambda _: tiny.roberta_tokenizer(), True),
    "siglip": (tiny.siglip_tokenizer, True),
    "siglip2": (lambda _: tiny.siglip2_tokenizer(), True),
    "xlm_roberta": (lambda _: tiny.xlm_roberta_tokenizer(), False),
}
CAPTIONS = [*tiny.TEXTS, "a < b, [sic] | c", "MASK SEP s unk", "2 > 1 </b>"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_control_token_in_a_caption_is_read_as_text_or_refused(kind, tmp_path):
    make, reads = TOKENIZERS[kind]
    tokenizer = make(tmp_path)
    reader, control = TokenReader(tokenizer, 64, whole=True), ControlTokens(tokenizer)
    assert control.names
    for mark in control.names.values():
        text = f"a cup {mark} red"
        if not reads:
            with raises(ModelError, repr(text), repr(mark)):
                reader.lengths([text])
            continue
        reader.lengths([text])
        ids = tokenizer(text, **control.split)["input_ids"]
        assert reader.tokens([text], 64)["input_ids"][0].tolist()[: len(ids)] == ids
        assert len(ids) > len(tokenizer("a cup red")["input_ids"]) + 1
        inside, ends = ([each for each in row if each in control.names] for row in (ids, tokenizer("")["input_ids"]))
        assert inside == ends


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ordinary_captions_have_the_library_s_ids_and_added_words_stay_words(kind, tmp_path):
    tokenizer = TOKENIZERS[kind][0](tmp_path)
    want = tokenizer(CAPTIONS, padding="max_length", truncation=True, max_length=24)["input_ids"]
    reader = TokenReader(tokenizer, 24, whole=True)
    assert reader.tokens(CAPTIONS, 24)["input_ids"].tolist() == want
    assert reader.lengths(CAPTIONS)[1] == [len(row) > 24 for row in tokenizer(CAPTIONS, verbose=False)["input_ids"]]
    tokenizer.add_tokens(["<concept>"])
    row = TokenReader(tokenizer, 24).tokens(["a <concept> cup"], 24)["input_ids"][0].tolist()
    assert tokenizer.convert_tokens_to_ids("<concept>") in row
    mark = next(iter(ControlTokens(tokenizer).names.values()))
    if not tokenizer.is_fast:  # it cannot tell them apart
        with raises(ModelError, repr(mark)):
            TokenReader(tokenizer, 24).lengths([f"a <concept> {mark} cup"])


def test_the_rule_is_part_of_a_fingerprint(tmp_path):
    """Vectors that were stored under the earlier rule are not served."""
    assert '"captions": "control tokens in texts are text"' in tokenizer_facts(tiny.clip_tokenizer())
    assert clip_tokens(77).facts["captions"]
    model = tiny.loaded(tiny.clip(tmp_path))
    whole, cut = model.encode_texts(["a cat <|endoftext|> dog", "a cat"])
    assert np.abs(whole - cut).max() > 1e-3


@pytest.mark.parametrize("mark", ["<start_of_text>", "<end_of_text>", "<END_OF_TEXT>", "&lt;end_of_text&gt;"])
def test_open_clip_s_marks_are_refused_and_openai_s_are_text(mark):
    tokens = clip_tokens(77)
    for read in (tokens.lengths, tokens.token_ids):
        with raises(ModelError, repr(f"a {mark} cat")):
            read(["a dog", f"a {mark} cat"])
    library = __import__("open_clip").get_tokenizer("ViT-B-32")
    plain = [*CAPTIONS, "a <|endoftext|> cat", "start_of_text", "<end of text>"]
    assert tokens.token_ids(plain) == library(plain).tolist()


def test_a_tokenizer_of_transformers_in_open_clip_reads_them_as_text(tmp_path):
    from open_clip.tokenizer import HFTokenizer

    def library_of(tokenizer):
        folder = tmp_path / type(tokenizer).__name__
        tokenizer.save_pretrained(folder)
        return HFTokenizer(str(folder), context_length=16)

    library = library_of(tiny.bert_tokenizer())
    tokens = Tokens(library)
    assert tokens.token_ids(CAPTIONS) == library(CAPTIONS).tolist()
    row = tokens.token_ids(["a [SEP] b"])[0]
    assert row.count(library.tokenizer.sep_token_id) == 1
    with raises(ModelError, "'</s>'"):
        Tokens(library_of(tiny.xlm_roberta_tokenizer())).lengths(["a </s> b"])


@pytest.mark.parametrize("family", ["albef", "vilt"])
def test_a_model_in_its_authors_file_reads_them_as_text(family, tmp_path):
    model = find_model(save_family(tmp_path / "model", family))
    texts = ["a red [SEP] cup", "a red", "a red cup"]
    assert len(set(model.score_pairs(PICTURES[:1] * 3, texts).tolist())) == 3
    marked, _ = model.token_ids(["a [SEP] cup", "a cup"])
    assert [3 in row for row in (marked, _)] == [family == "vilt"] * 2  # ALBEF's texts have no end
    assert marked.count(3) <= 1


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "blip-2", "instructblip"])
def test_models_that_answer_refuse_them(family, tmp_path):
    SAVERS[family](tmp_path)
    model = read_as("vqa", tmp_path)
    marks = {"llava": MARKS, "qwen2_vl": QWEN_MARKS}.get(family)
    if marks is None:
        processor = model._reader.processor
        tokenizers = [processor.tokenizer, getattr(processor, "qformer_tokenizer", processor.tokenizer)]
        marks = {mark for tokenizer in tokenizers for mark in ControlTokens(tokenizer).names.values()}
    for mark in marks:
        text = f"a cup {mark} red"
        with raises(ModelError, repr(mark), tmp_path):
            model.score_pairs(IMAGES[:1], [text])
        with raises(ModelError, repr(mark)):
            model.answer([IMAGES[:1]], [text])
    assert np.isfinite(model.score_pairs(IMAGES[:1], ["a < b | c > [d]"])).all()


def test_known_marks_and_tokens_that_a_template_writes_are_control_tokens():
    words = chat_tokenizer(QWEN_MARKS, "pad_token _ eos_token")
    words.add_tokens(["<think>", "<concept>"])
    control = ControlTokens(words, f"{QWEN_CHAT}<think>")
    with raises(ModelError, "'<think>'", "m"):
        control.refuse_in_prompt("m", "a <think> cup")
    control.refuse_in_prompt("m", "a <concept> cup")
    for mark in ("<|im_end|>", "<|video_pad|>", "</s>", "<s>", "<start_of_turn>", "[INST]", "<image>", "</think>"):
        with raises(ModelError, repr(mark), "m"):
            refuse_known_marks("m", ["a cat", f"a {mark} cat"])
    refuse_known_marks("m", [*CAPTIONS, "<b>bold</b>", "x <- y -> z", "[1]", "a<b>c", "<person>"])


@pytest.mark.parametrize(("family", "reading"), [("blip", "likelihood"), ("blip_vqa", "vqa")])
def test_blip_s_decoders_read_them_as_text(family, reading, tmp_path):
    SAVERS[family](tmp_path)
    model = read_as(reading, tmp_path)
    read = model.log_likelihoods if hasattr(model, "log_likelihoods") else model.score_pairs
    assert len(set(read(IMAGES[:1] * 2, ["a cat [SEP]", "a cat"]).tolist())) == 2
    (control,) = model._reader._control
    assert not set(control.read_ids("m", "a [SEP] [MASK] cat")) & set(control.names)


def test_a_tokenizer_of_the_tokenizers_library_reads_them_as_text_or_refuses():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: k for k, word in enumerate(["[PAD]", "[CLS]", "[UNK]", "a", "cat", "[", "]", "CLS", "PAD"])}
    for split, reads in ((pre_tokenizers.BertPreTokenizer(), True), (pre_tokenizers.WhitespaceSplit(), False)):
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106
        tokenizer.pre_tokenizer = split
        tokenizer.add_special_tokens(["[PAD]", "[CLS]", "[UNK]"])
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
        tokenizer.enable_padding(length=8)
        control = ControlTokens(tokenizer)
        encoded = control.encode("m", ["a cat", "a dog"])
        assert [row.ids for row in encoded] == [[1, 3, 4, *[0] * 5], [1, 3, 2, *[0] * 5]]
        if reads:
            assert control.encode("m", ["a [CLS] cat"])[0].ids == [1, 3, 5, 7, 6, 4, 0, 0]
        else:
            with raises(ModelError, "'[CLS]'", "'a [CLS] cat'", "m"):
                control.encode("m", ["a cat", "a [CLS] cat"])


def test_a_language_model_reads_them_as_text(tmp_path):
    transformers = tiny.transformers()
    words = tiny.roberta_tokenizer()
    words.save_pretrained(tmp_path)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": len(words), "n_positions": 64}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
    model = TextModel.load("GPT2LMHeadModel", str(tmp_path), Runtime("cpu"))
    marked, ordinary = model.ids(["a </s> cup", "a red cup"], special=False)
    assert words.eos_token_id not in marked
    assert ordinary == words("a red cup", add_special_tokens=False)["input_ids"]
    assert words.mask_token_id in model.ids(["a <mask> cup"], masked=True)[0]
