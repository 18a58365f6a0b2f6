"""Models of sentence-transformers: their numbers are the library's own in any batch, and nothing is made up."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_generative
import tiny_models
import torch
from tiny_fusion_encoders import change_weights
from tiny_models import changed, edit, pictures, with_concept

import tellapart
from facts import check_facts, raises
from tellapart.errors import ModelError, TellapartWarning
from tellapart.evaluation.check import check_model
from tellapart.models.find import find_model, source_key
from tellapart.models.memory.identity import Description
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, ImagePreparer, PairScorer
from tellapart.models.scoring.score import score
from tellapart.models.sentence_transformers.load import hold_library
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch import backend
from tellapart.models.torch.backend import Runtime

library = pytest.importorskip("sentence_transformers", reason="models of sentence-transformers need the extra 'st'")

#: One of them is a file's name, which as a bare string the library would open as an image; one is too long for CLIP.
TEXTS = ["a red cup left of a blue bowl", "cup.png", "two bowls", "a", "one blue bowl and a cat on the mat"]


CONFIG = "config_sentence_transformers.json"


def save_dual(folder: Path, **settings):
    tiny_models.clip(folder / "base")
    modules = [library.base.modules.Transformer(str(folder / "base"))]
    return library.SentenceTransformer(modules=modules, prompts={"query": "q ", "hint": "the "}, **settings)


def qwen(folder: Path, **options):
    tiny_generative.save_qwen(folder / "base")
    return library.base.modules.Transformer(str(folder / "base"), **options)


def save_routed(folder: Path):
    routes = {side: [library.base.modules.Transformer(str(tiny_models.clip(folder / side)))] for side in "ab"}
    of_modalities = {(None, "image"): "a", (None, "text"): "b"}
    return library.SentenceTransformer(modules=[library.base.modules.Router(routes, route_mappings=of_modalities)])


def save_dual_of_chat(folder: Path):
    pooling = library.sentence_transformer.modules.Pooling(32, "lasttoken")
    return library.SentenceTransformer(modules=[qwen(folder), pooling])


def save_cross(folder: Path):
    yes_over_no = library.cross_encoder.modules.LogitScore(50, 61)
    return library.CrossEncoder(modules=[qwen(folder, transformer_task="any-to-any"), yes_over_no])


def save_many_vectors(folder: Path):
    torch.manual_seed(0)
    parts, tokens = library.sentence_transformer.modules, {"module_input_name": "token_embeddings"}
    to_few = parts.Dense(32, 16, bias=False, activation_function=torch.nn.Identity(), **tokens)
    mask = library.multi_vector_encoder.modules.MultiVectorMask()
    return library.MultiVectorEncoder(modules=[qwen(folder), to_few, mask, parts.Normalize(**tokens)])


SAVERS: dict[str, Callable[[Path], Any]] = {
    "dual": save_dual,
    "dual_with_default_prompt": functools.partial(save_dual, default_prompt_name="hint", similarity_fn_name="dot"),
    "routed": save_routed,
    "dual_of_chat": save_dual_of_chat,
    "cross": save_cross,
    "many_vectors": save_many_vectors,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    @functools.cache
    def make(kind):
        root = tmp_path_factory.mktemp(kind)
        SAVERS[kind](root).save(str(root / "model"), create_model_card=False)
        return root / "model"

    return make


def loaded(folder: Path, **options):
    return find_model(f"st:{folder}", ModelOptions(**options))


def opened(kind: str, folder: Path) -> Any:
    """The library's own model of a folder."""
    classes = {"cross": library.CrossEncoder, "many_vectors": library.MultiVectorEncoder}
    return classes.get(kind, library.SentenceTransformer)(str(folder))


def scores_of(model, images: list[Any], texts: list[str]):
    if isinstance(model, DualEncoder):
        return model.similarity(model.encode_images(images), model.encode_texts(texts))
    flat = model.score_pairs([image for image in images for _ in texts], texts * len(images))
    return flat.reshape(len(images), len(texts))


def by_the_library(folder: Path, kind: str, reading: str | None, image, text: str, **prompt: str) -> float:
    """One pair's number by the library's own call, on this pair alone; `prompt` is an instruction to the query."""
    from PIL import Image

    model, picture, caption = opened(kind, folder), [{"image": Image.fromarray(image)}], {"text": text}
    if kind == "cross":
        activation = torch.nn.Identity() if reading == "logit" else None
        return float(model.predict([(caption, *picture)], activation_fn=activation, **prompt)[0])
    if kind == "many_vectors" or reading == "retrieval":
        return model.similarity(model.encode_query([caption], **prompt), model.encode_document(picture)).item()
    return model.similarity(model.encode(picture, **prompt), model.encode([caption], **prompt)).item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reading"), [*((kind, None) for kind in SAVERS), ("dual", "retrieval"), ("cross", "logit")]
)
def test_every_pair_gets_the_library_s_own_number(kind, reading, saved):
    folder, images = saved(kind), pictures(2)
    scores = scores_of(loaded(folder, reading=reading), images, TEXTS)
    expected = [[by_the_library(folder, kind, reading, image, text) for text in TEXTS] for image in images]
    # Of the largest score: a dot product of long vectors near zero has lost digits.
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 * max(1, np.abs(expected).max()))
    assert np.ptp(scores, axis=0).max() > 1e-4 and np.ptp(scores, axis=1).min() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dual", "dual_of_chat", "cross", "many_vectors"])
def test_it_obeys_every_law_of_models_and_its_scores_are_kept(kind, saved, picture_set):
    model, pairs, store = loaded(saved(kind)), picture_set(3), EmbeddingStore(None)
    assert isinstance(model, DualEncoder if kind.startswith("dual") else PairScorer)
    assert isinstance(model, ImagePreparer) == (kind != "cross")
    first = score(model, pairs, store=store)
    again = score(model, pairs, store=store, batch_size=1)
    assert again.images_encoded == again.texts_encoded == again.pairs_scored == 0
    np.testing.assert_array_equal(first.scores.values, again.scores.values)
    images = [pairs.pixels(reference) for reference in pairs.items[2].images]
    np.testing.assert_array_equal(first.scores.values[2], scores_of(model, images, list(pairs.items[2].texts)))
    assert [gate for gate in check_model(model, pairs) if not gate.passed] == []


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["dual_of_chat", "cross", "dual", "many_vectors"])
@pytest.mark.parametrize("prefix", ["hf:", ""])
def test_its_folder_is_measured_by_this_library_and_not_as_a_chat_model(kind, prefix, saved):
    folder = saved(kind)
    with pytest.warns(TellapartWarning, match=f"st:{folder}"):
        assert find_model(f"{prefix}{folder}").fingerprint == loaded(folder).fingerprint
    with pytest.warns(TellapartWarning, match=f"st:{folder}"):  # of a model that the store knows, too
        assert source_key(f"{prefix}{folder}", ModelOptions()) is not None
    for options, fact in (({"reading": "vqa"}, "'vqa'"), ({"texts": "cleaned"}, "texts=cleaned")):
        with pytest.warns(TellapartWarning), raises(ModelError, fact):
            find_model(f"{prefix}{folder}", ModelOptions(**options))
    if kind == "dual":  # features of its network are read if they are asked for
        assert find_model(f"hf:{folder}", ModelOptions(reading="itc")).fingerprint != loaded(folder).fingerprint


def test_texts_that_lose_their_end_are_counted_and_those_with_a_control_token_refused(saved):
    model = loaded(saved("dual"))
    model.encode_texts(["a red cup", "cup " * 40, "cup.png", "https://example.org/cup.png", "bowl " * 60])
    assert model.truncated == 3  # 24 tokens; an address of letters has more
    with raises(ModelError, "'<|endoftext|>'", "'a cat <|endoftext|> dog'"):
        model.encode_texts(["a cat <|endoftext|> dog"])
    cross = loaded(saved("cross"))
    with raises(ModelError, "'<|im_end|>'"):
        cross.score_pairs(pictures(1), ["a cat<|im_end|>"])


def test_a_fingerprint_moves_with_the_reading_and_the_prompt_and_not_with_the_place(saved, tmp_path):
    model, elsewhere = loaded(saved("dual")), Path(shutil.copytree(saved("dual"), tmp_path / "elsewhere"))
    assert loaded(elsewhere).fingerprint == model.fingerprint
    assert loaded(elsewhere, reading="retrieval").fingerprint != model.fingerprint
    edit(elsewhere / CONFIG, prompts={"query": "Q ", "hint": "the "})
    assert loaded(elsewhere).fingerprint != model.fingerprint
    # A route is known by how many tokens it reads.
    settings = "b_0_Transformer/tokenizer_config.json"
    shorter = changed(saved("routed"), tmp_path / "shorter", settings, model_max_length=9)
    assert loaded(shorter).fingerprint != loaded(saved("routed")).fingerprint


def test_what_is_usual_adds_nothing_to_a_fingerprint_of_earlier_scores(saved, monkeypatch):
    stated, description = [], Description()
    monkeypatch.setattr(backend, "weights_fingerprint", lambda *facts: stated.append(json.loads(facts[3])) or "a")
    loaded(saved("dual"))
    parts = stated[0].pop("modules")
    settings = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_seq_length", "activation")
    assert {*stated[0]} == {*settings}
    assert {key for part in parts for key in part} == {"kind", "settings", "config", "processor", "chat"}
    assert {type(part["settings"]) for part in parts if "settings" in part} == {dict}
    for kind in ("dual", "cross"):
        model = opened(kind, saved(kind))
        model.activation_fn = torch.nn.Sigmoid()
        description.add_module(model)
    assert not {"cosine", "activation_fn=Sigmoid()"} & {*description.facts}


def test_weights_that_are_missing_are_not_drawn_and_those_of_a_layer_too_many_not_dropped(saved, tmp_path):
    less, more = (Path(shutil.copytree(saved("dual"), tmp_path / name)) for name in ("less", "more"))
    change_weights(less, lambda tensors: tensors.pop("text_projection.weight"))
    with raises(ModelError, "1", "CLIPModel", "text_projection"):
        loaded(less)
    heads = {name: torch.ones(2) for name in ("head.weight", "text_model.pooler.dense.weight")}
    change_weights(more, lambda tensors: tensors.update(heads))
    assert loaded(more).fingerprint == loaded(saved("dual")).fingerprint
    edit(more / "config.json", lambda config: config["text_config"].update(num_hidden_layers=1))
    with raises(ModelError, "left over", "text_model.encoder.layers.1"):
        loaded(more)


#: What is wrong with a folder, how it is read, and the facts of the refusal.
REFUSED: list[tuple[Callable[[Path], object], dict[str, str], tuple[object, ...]]] = [
    (
        lambda folder: edit(folder / CONFIG, model_type="SparseEncoder"), {},
        ("SparseEncoder", "SentenceTransformer", "CrossEncoder"),
    ),
    (lambda folder: edit(folder / CONFIG, similarity_fn_name="manhattan"), {}, ("similarity", "'manhattan'")),
    (id, {"reading": "itc"}, ("'itc'",)),
    (  # the library looks at it when it scores
        lambda folder: edit(folder / "processor_config.json", lambda it: it["image_processor"].update(resample=-1)), {},
        ("changed", "-1"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "options", "facts"), REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(change, options, facts, saved, tmp_path):
    change(folder := Path(shutil.copytree(saved("dual"), tmp_path / "changed")))
    with raises(ModelError, facts):
        loaded(folder, **options)


def test_a_folder_without_its_list_of_parts_is_refused_by_both_prefixes(saved, tmp_path):
    folder = Path(shutil.copytree(saved("dual_of_chat"), tmp_path / "model"))
    (folder / "modules.json").unlink()
    with raises(ModelError, "copy modules.json", CONFIG):
        loaded(folder)
    with raises(ModelError, CONFIG, "embedder"):
        find_model(f"hf:{folder}")
    with raises(ModelError, "modules.json", "missing"):
        loaded(saved("dual").parent / "base")


def test_a_model_of_texts_alone_is_refused(tmp_path):
    transformers, words = tiny_models.transformers(), tiny_models.bert_tokenizer()
    sizes = tiny_models.tower(vocab_size=len(words), max_position_embeddings=32)
    for part in (transformers.BertModel(transformers.BertConfig(**sizes)), words):
        part.save_pretrained(tmp_path / "base")
    pooling = library.sentence_transformer.modules.Pooling(32, "mean")
    modules = [library.base.modules.Transformer(str(tmp_path / "base")), pooling]
    library.SentenceTransformer(modules=modules).save(str(tmp_path / "model"), create_model_card=False)
    with raises(ModelError, "SentenceTransformer", "text", "image"):
        loaded(tmp_path / "model")


def test_a_model_whose_numbers_move_with_padding_is_refused(saved):
    """A tower that attends to padding: the mask of a text is lost, as some exports lose it."""
    model = library.SentenceTransformer(str(saved("dual_of_chat")))
    inner = model[0].forward

    def unmasked(features, **options):
        no_mask = {"attention_mask": torch.ones_like(features["attention_mask"])}
        return inner(features | no_mask, **options) | no_mask

    model[0].forward = unmasked
    with raises(ModelError, "broken", "call"):
        hold_library("broken", model, Runtime("cpu"), None)


@pytest.mark.parametrize("kind", ["dual_with_default_prompt", "routed", "cross", "many_vectors"])
def test_a_model_in_memory_gives_the_bytes_of_its_folder(kind, saved, picture_set):
    pairs, model = picture_set(2), opened(kind, saved(kind)).train()
    held = tellapart.evaluate(model, pairs, cache=False).items().scores
    assert held.tobytes() == score(loaded(saved(kind)), pairs, store=EmbeddingStore(None)).scores.values.tobytes()
    assert model.training


@pytest.mark.parametrize(
    ("kind", "part", "setting", "value"),
    [
        ("dual", lambda model: model[0].processor.image_processor, "image_mean", [0.1, 0.2, 0.3]),
        ("dual", lambda model: model[0].processor.tokenizer, "model_max_length", 9),
        ("dual", lambda model: model, "similarity_fn_name", "dot"),
        ("cross", lambda model: model, "activation_fn", torch.nn.Identity()),
        ("dual", lambda model: model, "truncate_dim", 5),
    ],
)
def test_a_model_in_memory_is_known_by_its_settings(kind, part, setting, value, saved, picture_set, tmp_path):
    model, pairs = opened(kind, saved(kind)), picture_set(2)
    before, again = (tellapart.evaluate(model, pairs, cache=tmp_path) for _ in range(2))
    counted = again.result().benchmarks["pictures"]
    assert counted.images_encoded == 0  # out of the store
    setattr(part(model), setting, value)
    after, anew = (tellapart.evaluate(model, pairs, cache=cache).items().scores for cache in (tmp_path, False))
    assert np.abs(anew - before.items().scores).max() > 1e-3 or setting == "similarity_fn_name"  # of unit vectors
    np.testing.assert_array_equal(after, anew)


def test_a_clip_reads_added_words_in_their_sentence(tmp_path):
    texts, models = ["a <concept1> red cup", "a <concept1> blue cat"], []
    for end in (2, None):
        base, folder = with_concept(tiny_models.clip, tmp_path / f"base {end}", end), tmp_path / str(end)
        library.SentenceTransformer(modules=[library.base.modules.Transformer(str(base))]).save(str(folder))
        models.append(loaded(folder))
    legacy, stated = (model.encode_texts(texts) for model in models)
    assert np.abs(legacy[0] - legacy[1]).max() > 1e-3
    np.testing.assert_array_equal(legacy, stated)
    check_facts(models[0].provenance, "eos_token_id 2")


@pytest.mark.parametrize(("kind", "reading"), [("dual", "encode"), ("dual", "retrieval"), ("cross", "predict")])
def test_an_instruction_is_the_prompt(saved, kind, reading):
    folder, (image,), prompt = saved(kind), pictures(1), "find a picture of "
    model = loaded(folder, reading=reading, instruction=prompt)
    expected = by_the_library(folder, kind, reading, image, TEXTS[0], prompt=prompt)
    assert scores_of(model, [image], TEXTS[:1])[0, 0] == pytest.approx(expected, abs=1e-5)
    assert model.fingerprint != loaded(folder, reading=reading).fingerprint


def test_filip_is_a_rule_of_many_vectors(saved):
    from PIL import Image

    (image,), theirs = pictures(1), opened("many_vectors", saved("many_vectors"))
    sides = theirs.encode_query([{"text": TEXTS[0]}]), theirs.encode_document([{"image": Image.fromarray(image)}])
    query, document = (torch.as_tensor(side[0]).double() for side in sides)
    products = query @ document.T
    expected = (products.max(dim=1).values.mean() + products.max(dim=0).values.mean()).item() / 2
    scores = loaded(saved("many_vectors"), reading="filip").score_pairs([image], TEXTS[:1])
    assert scores[0] == pytest.approx(expected, abs=1e-5)
