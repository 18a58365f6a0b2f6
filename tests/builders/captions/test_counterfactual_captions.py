"""Counterfactual captions: their stages, as pair sets and as files of pairs, and the released ones."""

import csv
import json
import os
import pickle
import runpy
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import check_facts, raises
from published import NEEDS_NLTK_DATA, NLTK_DATA, published
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Rejected
from tellapart.builders.caption_files import read_caption_pairs, read_captions
from tellapart.builders.captions import counterfactuals as rewriting
from tellapart.builders.captions.counterfactuals import (
    CounterfactualCaptions,
    counterfactuals,
    replace_word,
    write_caption_pairs,
)
from tellapart.builders.captions.stages import (
    CaptionOptions,
    MaskedLanguageModel,
    MeanPooledEncoder,
    NltkTagger,
    SentenceGap,
    Stages,
    Word,
    WordNet,
    open_stages,
)
from tellapart.builders.executor import Lost
from tellapart.builders.journal import count_decided, journal_of
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, ModelError, RunError
from tellapart.models.text.find import TextModel, load_perplexity
from tellapart.models.torch.backend import Runtime

# Every stage against an independent reference, and no answer of one depends on what it is asked beside it.

CPU = Runtime("cpu")
OFF = {"similarity": "off", "language_model": "off"}
TEXTS = ["a dog sits on the table.", "two cats", "a man rides a horse, a dog with two cats on a table"]
TEXTS += ["the men with a poodle", "cat"]


def test_the_tagger_divides_tags_and_places_words_as_nltk_does_with_its_own_loader(parts):
    from nltk.tag.perceptron import PerceptronTagger
    from nltk.tokenize import NLTKWordTokenizer

    read = NltkTagger.load(parts / "nltk").read('The dog "sits" on a table. The men, two dogs aren\'t black.')
    divided = "The dog `` sits '' on a table . The men , two dogs are n't black ."
    assert " ".join(word.text for word in read) == divided
    assert [word.tag for word in read if word.tag.startswith("NN")] == ["NN", "NN", "NNS", "NNS"]
    assert NLTKWordTokenizer().tokenize("aren't black.") == ["are", "n't", "black", "."]
    theirs = PerceptronTagger.decode_json_obj(({"bias": {"JJ": 1.0, "NN": -1.0}}, {"dog": "NN"}, ["JJ", "NN"]))
    assert theirs.tag(["dog", "black"]) == [("dog", "NN"), ("black", "JJ")]
    text = 'A "dog" sits. Two cats aren\'t on it.'
    for word in NltkTagger.load(parts / "nltk").read(text):
        written = text[word.start : word.end]
        assert written == word.text or (written, word.text) in {('"', "``"), ('"', "''")}


def test_a_missing_or_broken_file_of_the_tagger_is_named(tmp_path, parts):
    with raises(ModelError, "abbrev_types.txt", "No such file or directory"):
        NltkTagger.load(tmp_path)
    shutil.copytree(parts / "nltk", tmp_path / "nltk")
    broken = tmp_path / "nltk/taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.weights.json"
    broken.write_text("{")
    with raises(ModelError, "NLTK", "punkt_tab", "averaged_perceptron_tagger_eng"):
        NltkTagger.load(tmp_path / "nltk")


def test_gaps_are_filled_as_the_librarys_own_pipeline_fills_them(parts):
    from transformers import pipeline

    own = MaskedLanguageModel.load(str(parts / "masked"), CPU)
    gaps = [SentenceGap("a ", " sits on the table."), SentenceGap("two ", ""), SentenceGap("", " with a poodle")]
    theirs = pipeline("fill-mask", model=str(parts / "masked"), device=-1)
    for gap, found in zip(gaps, own.fill(gaps, 24), strict=True):
        expected = {each["token_str"]: each["score"] for each in theirs(f"{gap.before}[MASK]{gap.after}", top_k=24)}
        assert len(found) >= 15  # marks and pieces are no words
        assert not {proposal.word for proposal in found} & {"##s", "[CLS]", "[MASK]"}
        assert [p.probability for p in found] == sorted((p.probability for p in found), reverse=True)
        assert [p.probability for p in found] == pytest.approx([expected[p.word] for p in found], rel=1e-4)


def test_a_byte_pair_piece_without_its_blank_is_no_word_and_roberta_reads_two_less(parts, tmp_path):
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(["a dog sits on the table", "two dogs on a table"] * 20, 320, special_tokens=special)
    trained.save_model(str(tmp_path))
    mask = transformers.AddedToken("<mask>", lstrip=True, special=True)  # roberta-base's takes the blank before it
    files = [str(tmp_path / name) for name in ("vocab.json", "merges.txt")]
    tokenizer = transformers.RobertaTokenizer(*files, mask_token=mask)
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
    # The word with its blank, not the piece without it.
    assert [p.probability for p in found] == pytest.approx([expected[f" {p.word}"] for p in found], rel=1e-4)
    (full,) = own.fill([SentenceGap("a dog on a table on a table on a table on the ", "")], 320)  # 16 tokens
    assert "dog" in {proposal.word for proposal in full}
    with raises(ModelError, "1", "16", "tokens"):
        own.fill([SentenceGap("a dog on a table on a table on a table on the table on a ", "")], 1)


@pytest.mark.slow
def test_no_stages_answer_depends_on_the_texts_beside_it(parts):
    masked = MaskedLanguageModel.load(str(parts / "masked"), CPU)
    gaps = [*(SentenceGap(text[: text.rindex(" ") + 1], "") for text in TEXTS[:4]), SentenceGap("", " sits")]
    assert masked.fill(gaps, 5) == [masked.fill([gap], 5)[0] for gap in gaps]
    encoder = MeanPooledEncoder.load(str(parts / "encoder"), CPU)
    for answer in (encoder.encode, load_perplexity(str(parts / "causal"), CPU).score_texts):
        alone = np.concatenate([answer([text]) for text in TEXTS[:4]])
        np.testing.assert_array_equal(answer(TEXTS[:4]), alone)
    assert encoder.encode([]).shape == (0, 32)


def test_similarity_is_the_cosine_of_the_tokens_mean_in_float64(parts):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(parts / "encoder").eval().double()
    tokenizer = AutoTokenizer.from_pretrained(parts / "encoder")
    with torch.inference_mode():
        states = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in TEXTS]
    vectors = [of_text.mean(0).numpy() for of_text in states]
    expected = [float(vectors[0] @ other / np.linalg.norm(vectors[0]) / np.linalg.norm(other)) for other in vectors[1:]]
    unit = MeanPooledEncoder.load(str(parts / "encoder"), CPU).encode(TEXTS)
    np.testing.assert_allclose((unit[1:] * unit[0]).sum(axis=1), expected, atol=2e-6)


def test_perplexity_is_the_librarys_own_loss(parts):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(parts / "causal").eval()
    tokenizer = AutoTokenizer.from_pretrained(parts / "causal")
    expected = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.inference_mode():
            expected.append(-model(input_ids=ids, labels=ids).loss.item())
    np.testing.assert_allclose(load_perplexity(str(parts / "causal"), CPU).score_texts(TEXTS), expected, rtol=2e-6)


def test_what_a_model_cannot_read_is_an_error_that_names_it(parts):
    encoder = MeanPooledEncoder.load(str(parts / "encoder"), CPU)
    masked = MaskedLanguageModel.load(str(parts / "masked"), CPU)
    with raises(ModelError, "1", "32", "42"):
        encoder.encode(["dog " * 40])
    with raises(ModelError, "'[MASK]'", "model"):
        masked.fill([SentenceGap("a [MASK] and a ", "")], 3)
    loaded = TextModel.load("AutoModelForMaskedLM", str(parts / "masked"), CPU)
    loaded.tokenizer.mask_token = None
    with raises(ModelError, "model", "tokenizer"):
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
def test_nouns_are_related_as_wordnet_says(parts, word, other, senses, relation):
    assert WordNet(parts / "wordnet").relation(word, other, senses) == relation


def test_a_model_that_changed_on_the_disk_is_read_anew(parts, tmp_path):
    for name in ("nltk", "masked", "wordnet"):
        shutil.copytree(parts / name, tmp_path / name)
    options = CaptionOptions(captions="-", tagger="nltk:nltk", masked_lm="masked", wordnet="wordnet", **OFF)
    first = open_stages(options, tmp_path)
    assert open_stages(options, tmp_path).masked_lm is first.masked_lm
    with (tmp_path / "wordnet/noun.exc").open("a") as file:
        file.write("mice mouse\n")
    os.utime(tmp_path / "wordnet/noun.exc", ns=(1, 10**19 // 5))
    again = open_stages(options, tmp_path)
    assert {part for part in first.models if again.models[part] != first.models[part]} == {"wordnet"}
    assert set(first.models) == {"tagger", "masked_lm", "wordnet"}


def test_a_folder_without_wordnet_and_a_tagger_of_another_kind_are_refused(tmp_path):
    with raises(ModelError, "index.noun", "No such file or directory", "WordNet"):
        WordNet(tmp_path)
    options = CaptionOptions(captions="-", tagger="spacy:x", masked_lm="m", **OFF)
    with raises(ModelError, "'spacy:x'", "nltk:FOLDER"):
        open_stages(options, tmp_path)


# Counterfactual captions: stage by stage, as files of pairs, and the released ones.

# The builder end to end with small real models: its changes, its rejections, and the same bytes always.

NOUNS = {"dog", "dogs", "cat", "cats", "poodle", "man", "men", "horse", "table"}


def words(text: str) -> list[str]:
    return text.lower().replace(",", " ,").replace(".", " .").split()


def counterfactual(text: str, stages: Stages, options: CaptionOptions) -> Any:
    return counterfactuals([text], stages, options)[0]


def opened(recipe: Path) -> tuple[Stages, CaptionOptions]:
    options = CaptionOptions.model_validate(read_recipe_file(recipe).options)
    return open_stages(options, recipe.parent), options


def test_each_caption_of_a_built_set_differs_from_its_own_in_one_noun_and_it_is_audited(recipe, tmp_path):
    built = build(recipe(), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert pairs.shape == (1, 2)
    assert {item.cluster for item in pairs.items} == {"a.png", "b.png", "c.png"}
    assert built.funnel.rejected == {("nouns", "the caption has no noun"): 1}
    for item in pairs.items:
        changed = [(a, b) for a, b in zip(*map(words, item.texts), strict=True) if a != b]
        assert len(changed) == 1 and set(changed[0]) <= NOUNS
        assert item.provenance["change"].lower() == " -> ".join(changed[0])
        assert -1 < item.provenance["similarity"] <= 0.999
        assert item.texts[0][0].isupper() == item.texts[1][0].isupper()
        assert set(item.provenance["models"]) == {"tagger", "masked_lm", "similarity", "language_model"}
    assert {item.tags["noun"] for item in pairs.items} == {"singular", "plural"}
    report = audit(pairs)
    assert report.items == 5
    assert {finding.verdict for finding in report.findings} <= {"pass", "warn", "info"}


@pytest.mark.parametrize(
    ("changed", "step"), [({"minimum": 0.99999, "maximum": 1.0}, "similarity"), ({"choices": 1}, "replacements")]
)
def test_a_stage_that_leaves_nothing_is_named(recipe, changed, step):
    stages, options = opened(recipe(**changed))
    found = [counterfactual(text, stages, options) for text in ("a dog sits", "the cats", "a man with a horse")]
    assert step in {each.step for each in found if isinstance(each, Rejected)}


def test_the_chosen_caption_is_the_most_usual_of_all_that_pass(recipe):
    stages, options = opened(recipe())
    wide = options.model_copy(update={"choices": 24})
    found, best = (counterfactual("A dog sits on the table.", stages, how) for how in (options, wide))
    assert found.choices > 3 and options.choices == 10
    # Every other noun in either place, judged by hand: none that the stages let through is more usual.
    texts = [f"A {noun} sits on the table." for noun in ("cat", "horse", "man", "poodle")]
    own, *others = np.exp(-stages.language_model.score_texts([found.text, *texts]).astype(float))
    assert found.perplexity == pytest.approx(own, rel=1e-6)
    assert best.perplexity <= min(found.perplexity, *others) * (1 + 1e-6)


def test_without_a_language_model_the_most_probable_word_stays(recipe):
    stages, options = opened(recipe(**OFF))
    found = counterfactual("a cat", stages, options)
    likely = next(p for p in stages.masked_lm.fill([SentenceGap("a ", "")], 10)[0] if p.word in NOUNS - {"cat"})
    assert (found.new, found.probability) == (likely.word, likely.probability)
    assert found.perplexity is None and found.similarity is None


def test_wordnet_leaves_out_what_may_still_be_true(recipe, parts):
    plain = recipe("plain", choices=24, **OFF)
    strict = recipe("strict", choices=24, wordnet=str(parts / "wordnet"), **OFF)
    before, after = (counterfactual("a poodle", *opened(path)) for path in (plain, strict))
    assert after.choices == before.choices - 2  # dog, dogs: a poodle is one
    assert after.new not in {"dog", "dogs"}


def test_rejoined_words_are_the_authors_own(recipe):
    found = counterfactual('The "dog" , sits .', *opened(recipe(language_model="off", wording="rejoined")))
    assert found.text == f"The `` {found.new} '', sits."


def test_a_caption_in_capitals_gets_a_word_in_capitals():
    assert replace_word("A DOG.", [Word("A", "DT", 0, 1), Word("DOG", "NN", 2, 5)], 1, "cat", "kept") == "A CAT."


@pytest.mark.slow
def test_caption_pairs_need_no_images_and_agree_with_the_set(recipe, tmp_path):
    path = recipe()
    built = build(path, tmp_path / "set")
    written = write_caption_pairs(path, tmp_path / "pairs.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    facts = [tuple(row[field] for field in ("id", "caption_0", "caption_1", "cluster")) for row in rows]
    assert facts == [(item.id, *item.texts, item.cluster) for item in read_pair_set(built.folder).items]
    assert (written.pairs, len(rows), written.rejected) == (5, 5, {("nouns", "the caption has no noun"): 1})
    assert [p.name for p in tmp_path.glob(".pairs*")] == []
    with raises(DataError, "pairs.jsonl", "delete"):
        write_caption_pairs(path, tmp_path / "pairs.jsonl")


def write_some(recipe: Path, out: Path, captions: int) -> None:
    """Write pairs up to a Ctrl-C after so many captions."""

    def stop(_stage: str, done: int, _total: int) -> None:
        if done == captions:
            raise KeyboardInterrupt

    out.unlink(missing_ok=True)
    with pytest.raises(KeyboardInterrupt):
        write_caption_pairs(recipe, out, block=1, progress=stop)


@pytest.mark.slow
def test_pairs_that_were_stopped_go_on_to_the_same_file(recipe, tmp_path):
    path, out = recipe(), tmp_path / "pairs.jsonl"
    write_caption_pairs(path, out)
    whole = out.read_bytes()
    for decided in (1, 4, 6):
        write_some(path, out, decided)
        assert count_decided(journal_of(out)) == decided and not out.exists()
        assert write_caption_pairs(path, out).resumed == decided
        assert out.read_bytes() == whole
    write_some(path, out, 1)
    with raises(RunError, "recipe", "inputs", "options"):
        write_caption_pairs(recipe("other", language_model="off"), out)


@pytest.mark.slow
def test_a_damaged_row_of_the_journal_is_decided_again_and_said_once(recipe, tmp_path, caplog):
    path, out = recipe(), tmp_path / "pairs.jsonl"
    write_caption_pairs(path, out)
    whole = out.read_bytes()
    write_some(path, out, 6)
    with closing(sqlite3.connect(journal_of(out))) as journal, journal:
        journal.execute("UPDATE outcome SET told = replace(told, 'caption_1', 'caption_2') WHERE id = 'a_0'")
    assert write_caption_pairs(path, out).resumed == 5
    assert out.read_bytes() == whole
    (message,) = caplog.messages
    check_facts(message, journal_of(out), "damaged", "a_0")


class Backwards:
    """A crew that answers in another order, and whose task went through a pickle, as that of processes does."""

    def __init__(self, workers: int) -> None:
        assert workers == 3

    def perform(self, task: Callable[[Any], Any], jobs: Sequence[Any]) -> Generator[tuple[Any, Any], None, None]:
        task = pickle.loads(pickle.dumps(task))  # noqa: S301
        for job in reversed(jobs):
            yield job, task(job)


@pytest.mark.slow
def test_neither_workers_nor_blocks_nor_their_order_change_the_pairs(recipe, tmp_path, monkeypatch):
    path = recipe()
    write_caption_pairs(path, tmp_path / "one.jsonl")
    monkeypatch.setattr(rewriting, "ProcessExecutor", Backwards)
    write_caption_pairs(path, tmp_path / "three.jsonl", workers=3, block=2)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "three.jsonl").read_bytes()


def test_a_worker_that_dies_is_named_with_its_caption(recipe, tmp_path, monkeypatch):
    def perform(self, task, jobs):
        yield jobs[0], Lost("exit code -9")

    monkeypatch.setattr(Backwards, "perform", perform)
    monkeypatch.setattr(rewriting, "ProcessExecutor", Backwards)
    with raises(RunError, "a_0", "exit", "-9"):
        write_caption_pairs(recipe(), tmp_path / "pairs.jsonl", workers=3)


def test_pairs_of_which_none_is_left_are_not_written_and_an_empty_range_is_refused(recipe, tmp_path):
    path = recipe(minimum=0.99999, maximum=1.0)
    with raises(DataError, "6", "similarity", "captions"):
        write_caption_pairs(path, tmp_path / "pairs.jsonl")
    assert not (tmp_path / "pairs.jsonl").exists()
    path.write_text(path.read_text().replace("0.99999", "1.0"))
    with raises(DataError, "similarity", "minimum 1.0", "maximum 1.0"):
        read_recipe_file(path)
    path.write_text('name = "few"\nbuilder = "scenes"\n[options.items]\ncounting = 1\n')
    with raises(DataError, "builder", "'counterfactual-captions'", "'scenes'"):
        write_caption_pairs(path, tmp_path / "pairs.jsonl")


def test_a_set_without_images_says_how_to_have_the_captions_alone(recipe, tmp_path):
    path = recipe()
    captions = path.with_name("captions.jsonl")
    captions.write_text(captions.read_text().replace('"a_1", "image": "a.png", ', '"a_1", '))
    with raises(DataError, "'a_1'", "write_caption_pairs"):
        build(path, tmp_path / "set")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "1_0 a dog\n", ("a.txt:1", "1", "id")),
        ("a.txt", "1_0\ta dog\n1_0\ta cat\n", ("a.txt:2", "id", "'1_0'")),
        ("a.jsonl", '{"captions": "a dog"}\n', ("a.jsonl:1", "'caption'", "'captions'")),
        ("a.jsonl", '{"caption": "a dog", "image": "../a.png"}\n', ("a.jsonl:1", "'image'")),
        ("a.jsonl", '{"caption": "a dog", "image": 3}\n', ("'image'", "3")),
        ("a.csv", "image,caption\na.png,\n", ("a.csv:2", "'caption'")),
        ("a.csv", "caption\n", ("a.csv", "captions")),
    ],
)
def test_a_file_that_is_no_captions_is_refused_by_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with raises(DataError, message):
        read_captions(tmp_path / name)


def test_rows_of_jsonl_are_those_of_csv(tmp_path):
    def read_both(read: Callable[[Path], Any], rows: list[dict[str, Any]]) -> Any:
        (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            (table := csv.DictWriter(file, rows[0])).writeheader()
            table.writerows(rows)
        first, second = (read(tmp_path / f"rows{suffix}") for suffix in (".jsonl", ".csv"))
        assert first == second
        return first

    captions = [{"caption": "a cup", "image": None, "cluster": 7}]
    captions += [{"caption": "a cat", "image": "a.png", "cluster": " "}]
    assert [(one.image, one.cluster) for one in read_both(read_captions, captions)] == [(None, "7"), ("a.png", "a.png")]
    pair = {"id": "007_1", "caption_0": "a cup", "caption_1": "a cat", "cluster": " ", "tag:size": "1.50"}
    (first,) = read_both(read_caption_pairs, [pair]).values()
    assert (first.id, first.cluster, first.tags) == ("007_1", "007", {"size": "1.50"})


def test_the_example_recipe_is_one(tmp_path):
    example = Path(__file__).parents[3] / "docs/recipes/counterfactual-captions.toml"
    options = CounterfactualCaptions.Options.model_validate(read_recipe_file(example).options)
    assert (options.choices, options.minimum, options.maximum) == (10, 0.8, 0.91)


# The authors' own counterfactuals: checks without a model, and with the tagger where its data are available.

ROOT = Path(__file__).parents[3]
PAIRS = "generated_sim_0.8_0.91.txt"


def test_the_authors_inputs_are_read_and_their_blanks_are_one():
    captions = read_captions(published("coco_counterfactuals", "input_cap_val_2017.txt"))
    assert len(captions) == 25_014
    assert (captions[0].id, captions[0].cluster) == ("179765_0", "179765")
    assert len({caption.cluster for caption in captions}) == 5_000
    assert not [caption for caption in captions if caption.text != " ".join(caption.text.split())]
    names = {line.partition("\t")[0] for line in published("coco_counterfactuals", PAIRS).read_text().splitlines()}
    assert len(names) == 24_508
    assert names < {caption.id for caption in captions}


def test_the_record_of_agreement_adds_up():
    record = json.loads((ROOT / "docs/counterfactual_agreement.json").read_text())
    words = record["words"]
    assert words["one_word"] + words.get("not_one_word", 0) == words["pairs"] == 24_508
    assert record["inputs"]["captions"] - record["inputs"]["without_counterfactual"] == 24_508
    assert words["noun_before_and_after"] <= min(words["noun_before"], words["noun_after"])
    for counts in (record["wordnet"]["first_sense"], record["wordnet"]["all_senses"]):
        assert sum(counts.values()) == words["one_word"]
    assert record["similarity"]["inside"] / record["similarity"]["pairs"] > 0.99
    assert record["choice"]["same_choice"] > record["choice"]["same_choice_expected_by_chance"]


@NEEDS_NLTK_DATA
@pytest.mark.slow
def test_the_published_tagger_knows_nouns_and_says_what_is_recorded():
    pytest.importorskip("nltk", reason="needs the extra 'captions': nltk")
    tagger = NltkTagger.load(NLTK_DATA)
    words = tagger.read("Two dogs sit on Mr. Smith's red sofa. They are asleep.")
    tagged = "Two/CD dogs/NNS sit/VBP on/IN Mr./NNP Smith/NNP 's/POS red/JJ sofa/NN ./. They/PRP are/VBP asleep/JJ ./."
    assert " ".join(f"{word.text}/{word.tag}" for word in words) == tagged
    program = runpy.run_path(str(ROOT / "docs/counterfactual_agreement.py"))
    rows = program["read"](published("coco_counterfactuals", PAIRS))[:600]
    pairs, counts = program["align"](rows, tagger)
    expected = Counter(one_word=600, noun_before=600, noun_after=600, noun_before_and_after=600, same_text_rejoined=600)
    assert counts == dict(expected) | {"pairs": 600, "same_text_kept": 598}
    assert len(pairs) == 600
