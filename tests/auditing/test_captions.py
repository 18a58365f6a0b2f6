"""What captions give away: planted leaks are found, fair sets pass."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.auditing.audit import Options, audit, tag_balance, tag_counts
from tellapart.auditing.captions import bag_of_words, blind_accuracy, length_gaps, plausibility_gap, text_scores
from tellapart.auditing.pictures import caption_duplicates
from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.reference import Blind, Constant
from tellapart.models.text.find import find_text_scorer
from tellapart.models.text.tinystories import TinyStories


@pytest.mark.parametrize(
    ("texts", "value", "verdict", "says"),
    [
        ([(f"cat {k}", f"not cat {k} at all") for k in range(100)], 1.0, "warn", "too often (its accuracy)"),
        ([(f"a cat {k}", f"a cat on a mat {k}")[:: 1 if k % 2 else -1] for k in range(100)], 0.5, "pass", ""),
        ([(f"a very long cat {k}", f"cat {k}") for k in range(100)], 0.0, "warn", "too rarely"),
    ],
)
def test_a_set_is_as_hard_without_its_pictures_as_the_length_of_captions_tells(captioned, texts, value, verdict, says):
    finding = blind_accuracy(Blind(), captioned(texts))
    assert (finding.value, finding.verdict, finding.n) == (value, verdict, 100)
    assert says in finding.says
    if value == 1:
        assert finding.low == pytest.approx(0.963, abs=1e-3)
    if verdict == "pass":
        assert [gap.verdict for gap in length_gaps(captioned(texts))] == ["pass", "pass"]
    of_two = blind_accuracy(Blind(), captioned(texts, images=2))
    assert of_two.title.endswith("prefers the first caption") and "both captions are true" in of_two.says


@pytest.mark.parametrize("captions", [2, 5])
def test_a_model_that_ties_gets_chance_whatever_the_number_of_captions(captioned, captions):
    finding = blind_accuracy(Constant(), captioned([[f"{k} {n}" for n in range(captions)] for k in range(30)]))
    assert finding.value == pytest.approx(1 / captions)
    assert finding.verdict == "pass"
    assert "30 items tied" in finding.says


def test_lengths_are_those_of_the_true_caption_less_the_mean_of_the_others(captioned):
    words, characters = length_gaps(captioned([("aa bb cc", "aa", "aa bb cc dd ee")] * 25))
    assert (words.value, characters.value) == (3 - (1 + 5) / 2, 8 - (2 + 14) / 2)
    words, characters = length_gaps(captioned([("aa bb cc", "aa bb")] * 25))
    assert (words.value, words.verdict, characters.value, characters.verdict) == (1.0, "warn", 3.0, "warn")
    assert words.threshold.startswith("within 0.12 of 0")  # 5 % of 2.5 words


def test_a_mixture_of_reordered_and_other_captions_is_warned_of_unless_a_tag_tells_them_apart(captioned):
    texts = [("a dog bites a man", "a man bites a dog"), ("one cup", "two cups"), ("A cup, red", "red a cup")]
    finding = bag_of_words(captioned(texts))
    assert (finding.value, finding.verdict, finding.items) == (pytest.approx(2 / 3), "warn", ("0", "2"))
    kinds = [{"bag_of_words": kind} for kind in ("same", "differs", "same")]
    assert bag_of_words(captioned(texts, tags=kinds)).verdict == "pass"
    shared = [{"aspect": value} for value in ("order", "order", "places")]
    assert bag_of_words(captioned(texts, tags=shared)).verdict == "warn"
    assert bag_of_words(captioned([texts[0], texts[2]])).verdict == "pass"


def test_captions_that_appear_twice_are_found_within_an_item_and_across_clusters(captioned):
    texts = [("a", "b"), ("b", "a"), ("c", "c"), ("d", "e")]
    twice, shared = caption_duplicates(captioned(texts))
    assert (twice.items, twice.verdict) == (("2",), "warn")
    assert (shared.items, shared.value, shared.verdict) == (("0", "1"), 0.5, "warn")
    _, shared = caption_duplicates(captioned(texts, cluster=["x", "x", "y", "z"]))
    assert (shared.items, shared.verdict) == ((), "pass")


def test_a_tag_whose_rarest_value_has_few_items_is_warned_of(captioned):
    tags = [{"type": "swap" if k < 30 else "add", "id": str(k)} for k in range(100)]
    pairs = captioned([("a", "b")] * 100, tags=tags)
    (finding,) = tag_balance(pairs)  # an identifier is no breakdown
    assert (finding.name, finding.value, finding.verdict) == ("tag: type", 30.0, "pass")
    assert "evenness 0.88" in finding.says  # -(0.3 ln 0.3 + 0.7 ln 0.7) / ln 2
    assert tag_counts(pairs) == {"type": {"add": 70, "swap": 30}}
    assert tag_balance(captioned([("a", "b")] * 3, tags=[{"t": "x"}, {"t": "x"}, {"t": "y"}]))[0].verdict == "warn"


@pytest.mark.slow
def test_a_named_language_model_is_asked_which_caption_is_likelier(captioned, loves_z):
    pairs = captioned([(f"zzzz {k}", f"aaaa {k}") for k in range(30)])
    model = find_text_scorer(f"tinystories:{loves_z}", Path())
    assert isinstance(model, TinyStories)
    assert blind_accuracy(model, pairs).value == 1.0
    gap = plausibility_gap(model, pairs)
    likely = [[model.log_likelihoods(text).mean() for text in item.texts] for item in pairs.items]
    direct = np.mean([first - second for first, second in likely])
    assert gap.value == pytest.approx(direct, abs=1e-6)
    assert gap.value > 1 and gap.verdict == "warn"
    record = audit(pairs, Options(pictures=False, text_model=f"tinystories:{loves_z}"))
    names = ["blind: blind", f"blind: {model.name}", f"plausibility: {model.name}"]
    assert [finding.name for finding in record.findings[:3]] == names
    assert "plausibility" not in [each.name for each in record.not_done]


def test_checks_that_were_not_made_are_listed(captioned):
    record = audit(captioned([("a", "b c")] * 3), Options(pictures=False))
    names = {"bindings", "grammar", "plausibility", "pictures", "leak", "detectable", "context", "order: truth first"}
    assert {each.name for each in record.not_done} == names
    assert (record.images, record.fingerprint, record.changes) == (None, None, [])


def test_items_of_one_caption_have_none_to_prefer(captioned):
    record = audit(captioned([("a",), ("b",)], images=2), Options(pictures=False))
    assert [finding.name for finding in record.findings] == ["captions: shared", "captions: scripts", "sides: torn"]
    assert "blind, length, plausibility, grammar" in [each.name for each in record.not_done]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("oracle", ModelError, ("oracle", "blind", "words")),
        ("tinystories:", ModelError, ("'tinystories:'", "model", "tinystories:FILE")),
        ("tinystories:gone.bin", ModelError, ("gone.bin", "No such file or directory")),
        ("blint", UnknownNameError, ("'blint'", "'blind'")),
    ],
)
def test_a_text_model_that_is_none_is_an_error(name, error, message):
    with raises(error, message):
        find_text_scorer(name, Path())


@pytest.mark.parametrize("name", ["blind", "characters"])
def test_both_options_take_a_model_of_the_catalogue_and_a_text_scorer(captioned, name):
    done = audit(captioned([("a", "b c")] * 3), Options(pictures=False, text_model=name, grammar_model=name))
    assert {f"blind: {name}", f"grammar: {name}"} <= {finding.name for finding in done.findings}


def test_a_text_model_whose_output_is_not_one_number_a_text_is_an_error(captioned):
    class Broken(Constant):
        def score_texts(self, texts):
            return np.full(len(texts), np.nan, np.float32)

    with raises(ModelError, "(2,)", "2"):
        text_scores(Broken(), captioned([("a", "b")]))


@pytest.mark.slow
def test_a_caption_that_is_better_english_is_found(captioned):
    pairs = captioned([(f"a cat and {n} dogs sit on the mat", f"cat and {n} dogs sit mat") for n in range(30)])
    record = audit(pairs, Options(pictures=False, grammar_model="words"))
    gap = next(finding for finding in record.findings if finding.name == "grammar: words")
    # Nine words against six, so all scores are one deviation from their mean: two deviations between them.
    assert gap.value == pytest.approx(2.0) and gap.verdict == "warn" and gap.unit == "deviations"
    assert "grammar" not in [each.name for each in record.not_done]
    equal = captioned([(f"{n} cats", f"{n} dogs") for n in range(30)])
    alike = audit(equal, Options(pictures=False, grammar_model="words"))
    assert next(finding for finding in alike.findings if finding.name == "grammar: words").verdict == "pass"


def test_an_unknown_model_of_grammar_is_refused(captioned):
    with raises(UnknownNameError, "'link-grammar'"):
        audit(captioned([("a", "b c")] * 3), Options(pictures=False, grammar_model="link-gramar"))


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("link-parser") is None, reason="the Link Grammar parser (link-parser) is not installed"
)
def test_a_parser_tells_scrambled_captions(captioned):
    cat = ("A cat is sitting on the mat.", "Mat the on sitting is cat a.")
    pairs = captioned([cat, ("Two dogs run.", "Two dogs runs.")] * 12)
    record = audit(pairs, Options(pictures=False, grammar_model="link-grammar"))
    gap = next(finding for finding in record.findings if finding.name.startswith("grammar"))
    assert gap.verdict == "warn" and gap.value > 1


def test_captions_are_scored_block_by_block_with_the_same_numbers(captioned, monkeypatch):
    pairs = captioned([(f"cat {k}", f"dog number {k}") for k in range(5)])
    told: list[tuple[str, int, int]] = []
    whole = text_scores(Blind(), pairs)
    monkeypatch.setattr("tellapart.auditing.captions._BLOCK", 4)
    assert np.array_equal(text_scores(Blind(), pairs, lambda *at: told.append(at)), whole)
    assert told == [("captions read by blind", done, 10) for done in (4, 8, 10)]
