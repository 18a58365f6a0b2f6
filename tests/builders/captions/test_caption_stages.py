"""Every stage against an independent reference, and no answer of one depends on what it is asked beside it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.builders.captions.stages import (
    CaptionOptions,
    MaskedLanguageModel,
    MeanPooledEncoder,
    NltkTagger,
    SentenceGap,
    WordNet,
    cosines,
    open_stages,
)
from tellapart.errors import ModelError
from tellapart.models.text.text_model import CausalLikelihood, TextModel
from tellapart.models.torch.backend import Runtime

CPU = Runtime("cpu")
TEXTS = [
    "a dog sits on the table.",
    "two cats",
    "a man rides a horse, a dog with two cats on a table",
    "the men with a poodle",
    "cat",
]


def test_the_tagger_divides_and_tags_as_nltk_does_with_its_own_loader(parts: Path) -> None:
    from nltk.tag.perceptron import PerceptronTagger
    from nltk.tokenize import NLTKWordTokenizer

    read = NltkTagger.load(parts / "nltk").read('The dog "sits" on a table. The men, two dogs aren\'t black.')
    assert [word.text for word in read] == [
        "The", "dog", "``", "sits", "''", "on", "a", "table", ".", "The", "men", ",", "two", "dogs", "are", "n't",
        "black", ".",
    ]  # fmt: skip
    assert [word.tag for word in read if word.tag.startswith("NN")] == ["NN", "NN", "NNS", "NNS"]
    assert NLTKWordTokenizer().tokenize("aren't black.") == ["are", "n't", "black", "."]
    weights, single, tags = {"bias": {"JJ": 1.0, "NN": -1.0}}, {"dog": "NN"}, ["JJ", "NN"]
    theirs = PerceptronTagger.decode_json_obj((weights, single, tags))
    assert theirs.tag(["dog", "black"]) == [("dog", "NN"), ("black", "JJ")]


def test_a_word_stands_where_the_tagger_says_even_if_it_is_written_otherwise(parts: Path) -> None:
    text = 'A "dog" sits. Two cats aren\'t on it.'
    for word in NltkTagger.load(parts / "nltk").read(text):
        written = text[word.start : word.end]
        assert written == word.text or (written, word.text) in {('"', "``"), ('"', "''")}


def test_a_missing_or_broken_file_of_the_tagger_is_named(tmp_path: Path, parts: Path) -> None:
    import shutil

    with raises(ModelError, "abbrev_types.txt", "No such file or directory"):
        NltkTagger.load(tmp_path)
    shutil.copytree(parts / "nltk", tmp_path / "nltk")
    broken = tmp_path / "nltk/taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.weights.json"
    broken.write_text("{")
    with raises(ModelError, "NLTK", "punkt_tab", "averaged_perceptron_tagger_eng"):
        NltkTagger.load(tmp_path / "nltk")


def test_gaps_are_filled_as_the_librarys_own_pipeline_fills_them(parts: Path) -> None:
    from transformers import pipeline

    own = MaskedLanguageModel.load(str(parts / "masked"), CPU)
    gaps = [SentenceGap("a ", " sits on the table."), SentenceGap("two ", ""), SentenceGap("", " with a poodle")]
    theirs = pipeline("fill-mask", model=str(parts / "masked"), device=-1)
    for gap, found in zip(gaps, own.fill(gaps, 24), strict=True):
        expected = {each["token_str"]: each["score"] for each in theirs(f"{gap.before}[MASK]{gap.after}", top_k=24)}
        assert len(found) >= 15  # marks and pieces are no words
        assert not {proposal.word for proposal in found} & {"##s", "[CLS]", "[MASK]"}
        assert [p.probability for p in found] == sorted((p.probability for p in found), reverse=True)
        for proposal in found:
            assert proposal.probability == pytest.approx(expected[proposal.word], rel=1e-4)


def test_a_byte_pair_piece_without_its_blank_is_no_word_and_roberta_reads_two_less(parts: Path, tmp_path: Path) -> None:
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(["a dog sits on the table", "two dogs on a table"] * 20, 320, special_tokens=special)
    trained.save_model(str(tmp_path))
    mask = transformers.AddedToken(
        "<mask>", lstrip=True, special=True
    )  # as roberta-base has it: it takes the blank before it
    files = {"vocab": str(tmp_path / "vocab.json"), "merges": str(tmp_path / "merges.txt")}
    tokenizer = transformers.RobertaTokenizer(**files, mask_token=mask)
    tokenizer.save_pretrained(tmp_path / "model")
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=18, initializer_range=0.5, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        type_vocab_size=1,
    )  # fmt: skip
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path / "model")
    own = MaskedLanguageModel.load(str(tmp_path / "model"), CPU)
    theirs = transformers.pipeline("fill-mask", model=str(tmp_path / "model"), device=-1)
    (found,) = own.fill([SentenceGap("a ", " on the table")], len(tokenizer))
    expected = {each["token_str"]: each["score"] for each in theirs("a <mask> on the table", top_k=len(tokenizer))}
    assert {"dog", "dogs", "sits"} <= {proposal.word for proposal in found}
    for proposal in found:  # the word with its blank, not the piece without it
        assert proposal.probability == pytest.approx(expected[f" {proposal.word}"], rel=1e-4)
    (full,) = own.fill([SentenceGap("a dog on a table on a table on a table on the ", "")], 320)  # 16 tokens
    assert "dog" in {proposal.word for proposal in full}
    with raises(ModelError, "1", "16", "tokens"):
        own.fill([SentenceGap("a dog on a table on a table on a table on the table on a ", "")], 1)


@pytest.mark.slow
def test_no_stages_answer_depends_on_the_texts_beside_it(parts: Path) -> None:
    masked = MaskedLanguageModel.load(str(parts / "masked"), CPU)
    gaps = [
        SentenceGap(text[: text.rindex(" ") + 1], "") if " " in text else SentenceGap("", " sits") for text in TEXTS
    ]
    assert masked.fill(gaps, 5) == [masked.fill([gap], 5)[0] for gap in gaps]
    encoder = MeanPooledEncoder.load(str(parts / "encoder"), CPU)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(encoder.encode(TEXTS), alone)
    judge = CausalLikelihood.from_second_token(str(parts / "causal"), CPU)
    each = np.concatenate([judge.score_texts([text]) for text in TEXTS[:4]])
    np.testing.assert_array_equal(judge.score_texts(TEXTS[:4]), each)
    assert encoder.encode([]).shape == (0, 32)


def test_similarity_is_the_cosine_of_the_tokens_mean_in_float64(parts: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = (
        AutoModel.from_pretrained(parts / "encoder").eval().double(),
        AutoTokenizer.from_pretrained(parts / "encoder"),
    )
    vectors = []
    for text in TEXTS:
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        vectors.append(states.mean(0).numpy())
    expected = [float(vectors[0] @ other / np.linalg.norm(vectors[0]) / np.linalg.norm(other)) for other in vectors[1:]]
    unit = MeanPooledEncoder.load(str(parts / "encoder"), CPU).encode(TEXTS)
    found = cosines(unit[0], unit[1:])
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_perplexity_is_the_librarys_own_loss(parts: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(parts / "causal").eval(),
        AutoTokenizer.from_pretrained(parts / "causal"),
    )
    expected = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.inference_mode():
            expected.append(-model(input_ids=ids, labels=ids).loss.item())
    np.testing.assert_allclose(
        CausalLikelihood.from_second_token(str(parts / "causal"), CPU).score_texts(TEXTS), expected, rtol=2e-6
    )


def test_what_a_model_cannot_read_is_an_error_that_names_it(parts: Path) -> None:
    encoder, masked = (
        MeanPooledEncoder.load(str(parts / "encoder"), CPU),
        MaskedLanguageModel.load(str(parts / "masked"), CPU),
    )
    with raises(ModelError, "1", "32", "42"):
        encoder.encode(["dog " * 40])
    with raises(ModelError, "'[MASK]'", "model"):
        masked.fill([SentenceGap("a [MASK] and a ", "")], 3)
    with raises(ModelError, "model", "tokenizer"):
        _without_mask(parts)


def _without_mask(parts: Path) -> None:
    loaded = TextModel.load("AutoModelForMaskedLM", str(parts / "masked"), CPU)
    loaded.tokenizer.mask_token = None
    MaskedLanguageModel(loaded)


@pytest.mark.parametrize(
    ("word", "other", "senses", "relation"),
    [
        ("dog", "cat", None, None),
        ("dog", "dogs", None, "synonym"),
        ("animal", "poodles", None, "hyponym"),
        ("Poodle", "animal", None, "hypernym"),
        ("men", "dog", None, "hyponym"),  # a fellow
        ("men", "dog", 1, None),
        ("dog", "unheard", None, None),
        ("domestic dog", "dog", None, "synonym"),
    ],
)
def test_nouns_are_related_as_wordnet_says(
    parts: Path, word: str, other: str, senses: int | None, relation: str | None
) -> None:
    assert WordNet(parts / "wordnet").relation(word, other, senses) == relation


def test_a_model_that_changed_on_the_disk_is_read_anew(parts: Path, tmp_path: Path) -> None:
    import shutil

    for name in ("nltk", "masked", "wordnet"):
        shutil.copytree(parts / name, tmp_path / name)
    options = CaptionOptions(
        captions="-", tagger="nltk:nltk", masked_lm="masked", similarity="off", language_model="off", wordnet="wordnet"
    )
    first = open_stages(options, tmp_path)
    assert open_stages(options, tmp_path).replacer is first.replacer
    with (tmp_path / "wordnet/noun.exc").open("a") as file:
        file.write("mice mouse\n")
    os.utime(tmp_path / "wordnet/noun.exc", ns=(1, 10**19 // 5))
    again = open_stages(options, tmp_path)
    assert again.models["wordnet"] != first.models["wordnet"]
    assert again.models["masked_lm"] == first.models["masked_lm"]
    assert set(first.models) == {"tagger", "masked_lm", "wordnet"}


def test_a_folder_without_wordnet_says_what_it_must_be(tmp_path: Path) -> None:
    with raises(ModelError, "index.noun", "No such file or directory", "WordNet"):
        WordNet(tmp_path)


def test_a_tagger_of_another_kind_is_refused(tmp_path: Path) -> None:
    options = CaptionOptions(captions="-", tagger="spacy:x", masked_lm="m", similarity="off", language_model="off")
    with raises(ModelError, "'spacy:x'", "nltk:FOLDER"):
        open_stages(options, tmp_path)
