"""Dual encoders of transformers: their numbers are the library's own in any batch, and no file is guessed."""

import dataclasses
import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
import torch
from numpy.typing import NDArray
from tiny_models import FAMILIES, TEXTS, check_neighbours, clip, clip_legacy, loaded, pictures, with_concept

import tellapart as ta
from facts import check_facts, raises
from tellapart.errors import ModelError
from tellapart.evaluation.verified import read_result
from tellapart.models.huggingface import dual_encoder
from tellapart.models.huggingface.dual_encoder import find_towers, make_dual
from tellapart.models.huggingface.files import load_processor
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, ImagePreparer, Sized, StackedSimilarity
from tellapart.models.torch.backend import runtime
from tellapart.training.encoders import open_dual


@functools.cache
def the_library_s(folder: Path) -> tuple[Any, Any, Any]:
    """Model, image processor and tokenizer as transformers loads them."""
    t = tiny.transformers()
    config = json.loads((folder / "config.json").read_text())
    images = t.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = getattr(t, config["architectures"][0]).from_pretrained(folder).eval()
    return model, images, t.AutoTokenizer.from_pretrained(folder)


def by_the_library(folder: Path, image: NDArray[np.uint8], text: str) -> float:
    """One pair's cosine as transformers itself gives it: one forward of the whole model on this pair alone."""
    from PIL import Image

    model, images, tokenizer = the_library_s(folder)
    kind = type(model).__name__
    padding = "max_length" if kind in {"SiglipModel", "Siglip2Model"} else False
    limit = 18 if kind in {"AltCLIPModel", "VisionTextDualEncoderModel"} else tokenizer.model_max_length
    tokens = tokenizer([text], truncation=True, max_length=limit, padding=padding, return_tensors="pt")
    if kind == "Aimv2Model":  # reads a text without padding in both directions
        tokens = tokenizer.pad(tokens, padding="max_length", max_length=32, return_tensors="pt")
    if kind.startswith("Blip"):
        tokens.pop("token_type_ids")
    picture = images(Image.fromarray(image), input_data_format="channels_last", return_tensors="pt")
    parts = {"BlipForImageTextRetrieval": "use_itm_head", "FlavaForPreTraining": "return_loss"}
    options = {parts[kind]: False} if kind in parts else {}
    with torch.no_grad():
        outputs = model(**tokens, **picture, **options)
        match kind:
            case "FlavaModel":
                a = model.image_projection(outputs.image_embeddings[:, 0])
                number = torch.cosine_similarity(a, model.text_projection(outputs.text_embeddings[:, 0]))
            case "BridgeTowerForContrastiveLearning":
                number = outputs.image_embeds @ outputs.text_embeds.T
            case "BlipForImageTextRetrieval":
                number = outputs.itm_score
            case "Blip2ForImageTextRetrieval":
                number = outputs.logits_per_image
            case "AlignModel":
                number = outputs.logits_per_image * model.temperature
            case "FlavaForPreTraining":
                number = outputs.contrastive_logits_per_image / model.flava.logit_scale.exp()
            case _:
                number = (outputs.logits_per_image - getattr(model, "logit_bias", 0)) / model.logit_scale.exp()
    return number.item()


@pytest.mark.few(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_pair_gets_the_library_s_own_number(family, saved, encoders):
    model, images = encoders(family), pictures()
    if family == "siglip":  # by default its authors' rule, which tests/models/test_caption_rules.py holds
        model = loaded(saved(family), texts="library")
    scores = model.similarity(model.encode_images(images), model.encode_texts(TEXTS))
    expected = [[by_the_library(saved(family), image, text) for text in TEXTS] for image in images]
    # Another shape of batch, another order of summation: float32's last digits.
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-6)
    # The weights are drawn so that inputs differ: equal numbers would prove nothing.
    assert min(np.ptp(scores, axis=0).min(), np.ptp(scores, axis=1).min()) > 1e-3


@pytest.mark.parametrize("family", ["altclip", "flava", "blip"])
def test_padding_is_hidden_where_the_tokenizer_names_no_mask(family, encoders, saved, tmp_path):
    names = {"model_input_names": ["input_ids"]}
    folder = tiny.changed(saved(family), tmp_path / "unmasked", "tokenizer_config.json", **names)
    texts = encoders(family).encode_texts(TEXTS)
    np.testing.assert_allclose(loaded(folder).encode_texts(TEXTS), texts, rtol=0, atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_vector_depends_on_its_own_image_or_text_alone_bit_for_bit(family, encoders):
    model, images = encoders(family), pictures(11)
    check_neighbours(model.encode_texts, [*TEXTS, *(f"bowl {k}" for k in range(9))])
    vectors = check_neighbours(model.encode_images, images)
    prepared = [model.prepare_image(image) for image in images[:3]]
    np.testing.assert_array_equal(model.encode_images([*prepared, *images[3:]]), vectors)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_to_a_bucket_says_what_padding_to_the_whole_context_says(family, encoders, monkeypatch):
    model = encoders(family)
    lengths = set(model.towers.reader.lengths(TEXTS)[0])
    if family.startswith("siglip"):  # trained on padding: they get all of it, and read both ways
        assert lengths == {16} and not model.shares_beginnings
        return
    assert len(lengths) > 1
    truncated, padded = model.truncated, model.encode_texts(TEXTS)
    assert model.truncated == truncated + sum(model.find_cut(TEXTS)) > truncated
    monkeypatch.setattr(model.towers.reader, "whole", True)
    assert len(set(model.towers.reader.lengths(TEXTS)[0])) == 1
    np.testing.assert_allclose(padded, model.encode_texts(TEXTS), rtol=0, atol=2e-6)


def test_a_model_of_no_row_in_the_table_is_tested_and_gives_the_library_s_own_numbers(tmp_path):
    """TIPS v2: no special tokens, a processor that pads every text whole, and no processor of images in Pillow."""
    from PIL import Image

    t, folder = tiny.transformers(), tiny.tipsv2(tmp_path)
    model, images, texts = loaded(folder), pictures(3), ["a red cup", "one bowl, two", "red"]
    its, processor = t.Tipsv2Model.from_pretrained(folder).eval(), t.AutoProcessor.from_pretrained(folder)
    opened = [Image.fromarray(image) for image in images]
    whole = processor(images=opened, text=texts, padding="max_length", return_tensors="pt")
    with torch.no_grad():
        expected = (its(**whole).logits_per_image * its.temperature).numpy()
    scores = model.similarity(model.encode_images(images), model.encode_texts(texts))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-6)
    assert len(set(model.towers.reader.lengths(texts)[0])) > 1  # not padded whole: padding moves nothing
    with raises(ModelError, "1", "1", "vectors"):
        model.encode_texts([""])


class Neighbourly(tiny.transformers().CLIPModel):
    """A model that may misbehave in each of the ways that the self-test looks for."""

    fault = ""

    def get_text_features(self, input_ids, attention_mask, **_):
        if self.fault == "padding moves text vectors":
            attention_mask = torch.ones_like(attention_mask)
        states = self.text_model(input_ids, attention_mask).last_hidden_state
        if self.fault == "batching moves text vectors":
            states = states + states.mean(dim=0)
        vectors = self.text_projection(states.mean(dim=1))
        return SimpleNamespace(pooler_output=vectors * 0 + 1 if self.fault == "gives three texts" else vectors)


@pytest.mark.parametrize("fault", ["padding moves text vectors", "batching moves text vectors", "gives three texts"])
def test_a_model_whose_vectors_are_not_its_samples_own_is_refused(fault, saved, monkeypatch):
    monkeypatch.setattr(Neighbourly, "fault", fault)
    folder, where = saved("clip"), runtime(ModelOptions())
    form = find_towers("GroupViTModel")  # of no row of the table
    assert not form.tested
    with raises(ModelError, fault):
        make_dual("odd", Neighbourly.from_pretrained(folder).eval(), load_processor(str(folder)), form, where)


def test_a_processor_that_pads_every_text_whole_is_followed_where_padding_counts(saved):
    folder, where = saved("siglip"), runtime(ModelOptions())
    model = loaded(folder)
    form, processor = find_towers("SiglipModel"), load_processor(str(folder))
    assert form is not None
    form = dataclasses.replace(form, whole=False, tested=False)
    with raises(ModelError, "SiglipModel", "padding", "text vectors"):
        make_dual("other", model.towers.module, processor, form, where)
    processor.text_kwargs = {"padding": "max_length"}
    other = make_dual("other", model.towers.module, processor, form, where)
    np.testing.assert_array_equal(other.encode_texts(TEXTS), model.encode_texts(TEXTS))


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_every_protocol_that_scoring_makes_use_of(family, encoders, saved):
    model = encoders(family)
    for protocol in (DualEncoder, ImagePreparer, Sized, StackedSimilarity):
        assert isinstance(model, protocol)
    assert model.name == str(saved(family))
    images, texts = model.encode_images(pictures(4)), model.encode_texts(TEXTS[:6])
    assert images.dtype == texts.dtype == np.float32
    stacked = model.similarities(images.reshape(2, 2, -1), texts.reshape(2, 3, -1))
    for item in range(2):
        alone = model.similarity(images[2 * item : 2 * item + 2], texts[3 * item : 3 * item + 3])
        np.testing.assert_array_equal(stacked[item], alone)


def test_an_image_of_several_vectors_scores_the_largest_of_their_cosines(encoders):
    model = encoders("blip_2")
    images, texts = model.encode_images(pictures(2)), model.encode_texts(TEXTS[:3])
    queries, dimensions = 4, tiny.DIMENSIONS
    assert (images.shape, texts.shape) == ((2, queries * dimensions), (3, dimensions))
    each = images.reshape(2, queries, dimensions) @ texts.T
    np.testing.assert_allclose(model.similarity(images, texts), each.max(axis=1), rtol=0, atol=1e-6)
    assert (each.argmax(axis=1) != 0).any()


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_another_dtype_is_near_and_has_another_fingerprint(family, dtype, saved, encoders):
    exact, model = encoders(family), loaded(saved(family), dtype=dtype)
    assert model.fingerprint != exact.fingerprint
    images, texts = pictures(3), TEXTS[:4]
    scores = model.similarity(model.encode_images(images), model.encode_texts(texts))
    expected = exact.similarity(exact.encode_images(images), exact.encode_texts(texts))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.15 if dtype == "bfloat16" else 0.03)
    assert (scores != expected).any()


ADDED = ["a <concept1> red cup", "a <concept1> blue cat"]

PLAIN = ["a red cup left of a blue bowl", "two bowls"]


@pytest.mark.parametrize("make", [clip, tiny.groupvit])
def test_added_words_are_read_in_their_sentence(make, encoders, tmp_path):
    legacy, stated = (loaded(with_concept(make, tmp_path / str(end), end)) for end in (2, None))
    one, other = legacy.encode_texts(ADDED)
    assert np.abs(one - other).max() > 1e-3  # by transformers' rule both are read at <concept1>, and are equal
    np.testing.assert_array_equal(legacy.encode_texts(ADDED + PLAIN), stated.encode_texts(ADDED + PLAIN))
    check_facts(legacy.provenance, "2", str(legacy.token_ids(["a"])[0][2]))
    without = encoders("clip_legacy")  # it states 2, too
    assert not stated.provenance and not without.provenance
    np.testing.assert_array_equal(without.encode_texts(PLAIN), encoders("clip").encode_texts(PLAIN))


def test_training_reads_them_there_too_saves_the_rule_and_leaves_a_callers_model(tmp_path):
    folder = with_concept(clip, tmp_path / "model", 2)
    vectors, started = loaded(folder).encode_texts(ADDED), open_dual(str(folder), "cpu")
    np.testing.assert_array_equal(started.model().encode_texts(ADDED), vectors)
    saved = Path(started.save(tmp_path / "saved").removeprefix("hf:"))
    assert json.loads((saved / "config.json").read_text())["text_config"]["eos_token_id"] != 2
    np.testing.assert_array_equal(loaded(saved).encode_texts(ADDED), vectors)
    ta.run(f"hf:{folder}", "demo", limit=4, out=tmp_path / "run", cache=tmp_path / "store.sqlite")
    measured = read_result(tmp_path / "run")
    assert measured.model.provenance in measured.benchmarks["demo"].notes
    check_facts(str(measured.model.provenance), "eos_token_id 2")
    t = tiny.transformers()
    model, processor = t.CLIPModel.from_pretrained(folder).eval(), t.AutoProcessor.from_pretrained(folder)
    with raises(ModelError, processor.tokenizer.eos_token_id, "eos_token_id"):
        ta.model(model, processor=processor)
    assert model.config.text_config.eos_token_id == 2


def test_a_tower_without_a_rule_to_set_is_refused_and_two_is_no_rule_of_others(tmp_path):
    t, tokenizer = tiny.transformers(), tiny.clip_tokenizer()
    end = tokenizer.eos_token_id
    text = tiny.tower(vocab_size=len(tokenizer) + 1, max_position_embeddings=24, eos_token_id=end)
    config = t.OwlViTConfig(text_config=text, vision_config=tiny.vision(), projection_dim=24)
    tokenizer.add_tokens(["<concept1>"])
    t.OwlViTModel(config).save_pretrained(tmp_path)
    images = t.OwlViTImageProcessor(size={"height": 32, "width": 32})
    t.OwlViTProcessor(images, tokenizer).save_pretrained(tmp_path)
    with raises(ModelError, str(tokenizer.eos_token_id), str(len(tokenizer) - 1)):
        loaded(tmp_path)
    # MetaCLIP 2 looks for the very token: of another tokenizer's texts it would read the first one.
    folder = tiny.metaclip_2(tmp_path / "other")
    assert len(loaded(folder).encode_images(pictures(2))) == 2
    tokenizer = tiny.transformers().AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = tokenizer.mask_token
    tokenizer.save_pretrained(folder)
    with raises(ModelError, "2", str(tokenizer.eos_token_id)):
        loaded(folder)


CAPTIONS = [
    *TEXTS,
    *(f"a {colour} cup {place}" for colour in ("red", "blue") for place in ("", "left", "left of", "right")),
    "a",
    "a red cup",
    "a red cup <|endoftext|> left",
    "a red cup left of a blue bowl and of another",
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("make", [clip, clip_legacy])
def test_captions_have_the_bytes_of_the_plain_pass_in_any_company(make, dtype, tmp_path, monkeypatch):
    model = loaded(make(tmp_path / "model"), dtype=dtype)
    assert model.shares_beginnings
    shared = check_neighbours(model.encode_texts, CAPTIONS, sizes=(1, 5, len(CAPTIONS)))
    monkeypatch.setattr(dual_encoder.SharedTexts, "shares", False)
    assert np.array_equal(model.encode_texts(CAPTIONS), shared) and np.ptp(shared) > 0.1


def add_adapter(model) -> None:
    peft = pytest.importorskip("peft")
    options = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    peft.inject_adapter_in_model(options, model)
    model.eval()


def hook_layer(model) -> None:
    model.text_model.encoder.layers[0].mlp.register_forward_hook(lambda _module, _inputs, output: output * 2)


@pytest.mark.parametrize(
    ("change", "moves"),
    [(hook_layer, True), (lambda model: model.set_attn_implementation("eager"), False), (add_adapter, True)],
)
def test_a_tower_that_was_changed_is_computed_plainly_with_its_change(change, moves, tmp_path):
    model = loaded(clip(tmp_path / "model"))
    before = model.encode_texts(CAPTIONS)
    change(model.towers.module)
    assert not model.shares_beginnings
    assert np.allclose(model.encode_texts(CAPTIONS), before, atol=1e-6) is not moves
