"""What captions give away: planted leaks, scripts, torn pairs, cuts and bindings are found, and fair sets pass."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

import tellapart as ta
from facts import raises
from published import NEEDS_NLTK_DATA, NLTK_DATA
from tellapart import Item, PairSet
from tellapart.auditing import captions
from tellapart.auditing.audit import Options, audit, tag_balance, tag_counts
from tellapart.auditing.captions import (
    bag_of_words,
    blind_accuracy,
    find_in_corpus,
    length_gaps,
    list_bindings,
    open_tagger,
    plausibility_gap,
    seen_bindings,
    text_scores,
)
from tellapart.auditing.card import html, make_card, markdown
from tellapart.auditing.finding import Finding
from tellapart.auditing.pictures import caption_duplicates
from tellapart.builders.captions.stages import NltkTagger
from tellapart.errors import DataError, ModelError, RunError
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
    assert (finding.value, finding.verdict) == (pytest.approx(1 / captions), "pass")
    assert "30 items tied" in finding.says
    single = blind_accuracy(Blind(), captioned([("x y", "y x")]))
    assert single.says.startswith("no difference from chance")


def test_lengths_are_those_of_the_true_caption_less_the_mean_of_the_others(captioned):
    words, characters = length_gaps(captioned([("aa bb cc", "aa", "aa bb cc dd ee")] * 25))
    assert (words.value, characters.value) == (3 - (1 + 5) / 2, 8 - (2 + 14) / 2)
    words, characters = length_gaps(captioned([("aa bb cc", "aa bb")] * 25))
    assert (words.value, words.verdict, characters.value, characters.verdict) == (1.0, "warn", 3.0, "warn")
    assert words.threshold.startswith("within 0.12 of 0")  # 5 % of 2.5 words
    words, _ = length_gaps(captioned([("aa bb", "bb aa")] * 25))
    assert (words.value, words.low, words.verdict) == (0, None, "pass")  # 0 is no share here
    words, _ = length_gaps(captioned([("aa bb", "bb aa"), ("aa bb", "aa")] * 20))
    assert words.low < 0.4 and words.method == "bootstrap"


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
    likely = np.array([[model.log_likelihoods(text).mean() for text in item.texts] for item in pairs.items])
    assert gap.value == pytest.approx(-np.diff(likely).mean(), abs=1e-6)
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
    record = audit(captioned([("a",), ("b",)], images=2), Options(pictures=False))
    assert [finding.name for finding in record.findings] == ["captions: shared", "captions: scripts", "sides: torn"]
    assert "blind, length, plausibility, grammar" in [each.name for each in record.not_done]


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


def grammar_gap(pairs: PairSet, model: str) -> Finding:
    record = audit(pairs, Options(pictures=False, grammar_model=model))
    assert "grammar" not in [each.name for each in record.not_done]
    return next(finding for finding in record.findings if finding.name.startswith("grammar"))


@pytest.mark.slow
def test_a_caption_that_is_better_english_is_found(captioned):
    pairs = captioned([(f"a cat and {n} dogs sit on the mat", f"cat and {n} dogs sit mat") for n in range(30)])
    gap = grammar_gap(pairs, "words")
    # Nine words against six, so all scores are one deviation from their mean: two deviations between them.
    assert (gap.name, gap.value, gap.verdict, gap.unit) == ("grammar: words", pytest.approx(2), "warn", "deviations")
    assert grammar_gap(captioned([(f"{n} cats", f"{n} dogs") for n in range(30)]), "words").verdict == "pass"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("link-parser") is None, reason="the parser link-parser is not installed")
def test_a_parser_tells_scrambled_captions(captioned):
    cat = ("A cat is sitting on the mat.", "Mat the on sitting is cat a.")
    gap = grammar_gap(captioned([cat, ("Two dogs run.", "Two dogs runs.")] * 12), "link-grammar")
    assert gap.verdict == "warn" and gap.value > 1


def test_captions_are_scored_block_by_block_with_the_same_numbers(captioned, monkeypatch):
    pairs = captioned([(f"cat {k}", f"dog number {k}") for k in range(5)])
    told: list[tuple[str, int, int]] = []
    whole = text_scores(Blind(), pairs)
    monkeypatch.setattr("tellapart.auditing.captions._BLOCK", 4)
    assert np.array_equal(text_scores(Blind(), pairs, lambda *at: told.append(at)), whole)
    assert told == [("captions read by blind", done, 10) for done in (4, 8, 10)]


def named(ids: list[str], images: list[tuple[str, ...]] | None = None, texts: tuple[str, ...] = ("x", "y")) -> PairSet:
    shown = images or [("0.png",)] * len(ids)
    items = tuple(Item(id=id_, images=own, texts=texts) for id_, own in zip(ids, shown, strict=True))
    return PairSet("named", items, Path())


def test_untranslated_captions_are_found_by_their_scripts_and_a_few_names_pass(captioned):
    scripts = {
        "two cats": {"LATIN"},
        "قطتان": {"ARABIC"},
        "два кота": {"CYRILLIC"},
        "猫のカフェ 고양이": {"CJK"},  # written together
        "இரண்டு பூனைகள்": {"TAMIL"},
        "一件T恤 x 3": {"CJK"},  # single letters are labels and shapes
        "ｔｗｏ ｃａｔｓ": {"LATIN"},  # wide letters are the same letters
        "قطتان and a dog": {"ARABIC", "LATIN"},
    }
    assert {text: captions.list_scripts(text) for text in scripts} == scripts
    pairs = captioned([("قطتان", "كلب") if k % 3 else ("قطتان", "a dog") for k in range(90)])
    finding = captions.mixed_scripts(pairs)
    assert (finding.value, finding.verdict, finding.items[:2]) == (30 / 90, "warn", ("0", "3"))
    assert "arabic" in finding.says and "latin" in finding.says
    few = captioned([("две девочки", "торт" if k else "торт Peeps") for k in range(90)])
    assert (captions.mixed_scripts(few).value, captions.mixed_scripts(few).verdict) == (1 / 90, "pass")


@given(st.integers(0, 30), st.integers(1, 30), st.integers(2, 6))
@example(1, 4, 2)
def test_the_probability_of_first_places_is_the_binomials(first, others, entries):
    n, about = first + others, {"images": ("0.png",), "texts": tuple(map(str, range(entries)))}
    items = (Item(id=str(k), true=(int(k >= first),), **about) for k in range(n))
    finding = captions.truth_first(PairSet("s", tuple(items), Path()))
    chances = binom.pmf(range(n + 1), n, 1 / entries)
    p = min(1, sum(each for each in chances if each <= chances[first] * (1 + 1e-7)))
    assert finding.value == first / n
    # A sum in another order may lie on the other side of a half that is rounded.
    assert any(f"p = {p * (1 + near):.2g}" in finding.says for near in (-1e-9, 0, 1e-9))
    assert (finding.verdict == "warn") is bool(p < 0.01)


def test_truths_that_always_stand_first_are_found_and_two_of_three_are_not(captioned):
    pairs = captioned([("a", "b", "c", "d")] * 5914, true=[(0,)] * 5914)
    finding = captions.truth_first(pairs)
    assert (finding.value, finding.verdict) == (1.0, "warn") and "5,914 of 5,914" in finding.says
    assert "p < 1e-300" in finding.says
    assert captions.truth_first(captioned([("a", "b")] * 40)) is None  # by the form the first is true: nothing is named
    pairs = captioned([("a", "b", "c")] * 30, true=[(0, 1)] * 10 + [(0, 2)] * 10 + [(1, 2)] * 10)
    finding = captions.truth_first(pairs)
    assert (finding.verdict, finding.value) == ("pass", 20 / 30)


def test_torn_sides_are_found_by_empty_captions_and_ids(captioned):
    assert captions.torn_sides(captioned([("a cat", "a dog"), ("a cat", "nan"), (" ", "a dog")])).items == ("1", "2")
    assert captions.torn_sides(captioned([("a cat", "a nan is bread")])).verdict == "pass"
    ids = [f"{k}_{side}" for k in range(30) for side in ("pos", "neg")]
    assert captions.torn_sides(named([id_ for id_ in ids if id_ != "7_neg"])).items == ("7_pos",)
    # Subsets are no families, and neither are numbers.
    for whole in (ids, [f"swap/{k}" for k in range(30)] + ["replace/0"], [*map(str, range(30))]):
        assert captions.torn_sides(named(whole)).value == 0


def test_pictures_of_two_items_are_found_by_their_names_if_these_follow_a_rule():
    ids = [*map(str, range(40))]
    for form in ("{k}_{side}.png", "set/{k}/{side}.jpg", "ex_{k}_img_{side}.png"):
        images = [tuple(form.format(k=k, side=side) for side in (0, 1)) for k in range(40)]
        assert captions.torn_sides(named(ids, images)).value == 0, form
        images[3], images[4] = (images[3][0], images[4][1]), (images[4][0], images[3][1])
        found = captions.torn_sides(named(ids, images))
        assert (found.items, found.verdict) == (("3", "4"), "warn"), form
    for form in ("{n}.jpg", "train/{n}.jpg", "{n}_{n}.jpg"):
        images = [(form.format(n=17 * k), form.format(n=17 * k + 5)) for k in range(40)]
        assert captions.torn_sides(named(ids, images)).value == 0, form


class Words:
    """Reads three words of a text, in small letters."""

    def token_ids(self, texts: list[str]) -> list[list[int]]:
        return [[hash(word) for word in text.lower().split()[:3]] for text in texts]

    def find_cut(self, texts: list[str]) -> list[bool]:
        return [len(text.split()) > 3 for text in texts]


@given(st.lists(st.tuples(st.text("ab ", min_size=1), st.text("abA ", min_size=1)), min_size=1, max_size=6))
def test_cut_captions_are_those_that_lose_words_and_equal_ones_cannot_be_solved(rows):
    items = tuple(Item(id=str(k), images=("0.png",), texts=row) for k, row in enumerate(rows))
    cut, equal = captions.lost_captions(Words(), "words", PairSet("s", items, Path()))
    assert list(cut.items) == [str(k) for k, row in enumerate(rows) if any(len(text.split()) > 3 for text in row)]
    read = [[text.lower().split()[:3] for text in row] for row in rows]
    same = [str(k) for k, (a, b) in enumerate(read) if a == b and rows[k][0] != rows[k][1]]
    assert list(equal.items) == same and (equal.verdict == "warn") is bool(same)


@pytest.mark.slow
def test_clips_tokens_count_their_start_and_end(captioned):
    pytest.importorskip("torch", reason="CLIP's tokenizer needs the extra 'models'")
    tokens = captions.find_context("5")
    texts = ["a cat sits", "a cat sits there", "a cat sits here", "a Cat  sits"]
    assert tokens.find_cut(texts) == [False, True, True, False]
    cut, equal = captions.lost_captions(tokens, "5", captioned([texts[:2], texts[1:3], texts[::3]]))
    assert (cut.items, cut.value, equal.items) == (("0", "1"), 2 / 3, ("0", "1", "2"))
    assert "2 of 4 captions" in cut.says and "2 by the cut" in equal.says


def test_every_one_of_several_true_captions_is_looked_at(captioned, monkeypatch):
    monkeypatch.setattr("tellapart.auditing.audit.find_context", lambda _name: Words())
    texts = [("a b c", "A b c d", "x"), ("a", "два слова", "xx yy"), ("a", "b", "b"), ("a", "a", "c")]
    texts.append(("e f", "E f", "g"))
    ours, theirs = captioned(texts, true=[(0, 1)] * 5), captioned([("xx", "два слова"), ("b", "yy")])
    record = audit(ours, Options(pictures=False, model="words", against=theirs))
    found = {finding.name: finding.items for finding in record.findings}
    assert found["captions: twice in an item"] == ("2",)  # two equal true ones leave the item solvable
    assert (found["captions: scripts"], found["leak: captions"]) == (("1",), ("1", "2"))
    assert (found["context: cut"], found["context: equal"]) == (("0",), ())
    others = captioned([("a", "b", "c"), ("a", "d", "c")], true=[(0, 1)] * 2)
    assert next(each.value for each in audit(others, Options(pictures=False)).findings if "shared" in each.name) == 0


def test_a_context_and_a_corpus_without_what_they_need_are_refused():
    for find, name, *facts in (
        (captions.find_context, "constant", "'constant'", "open_clip:", "77"),
        (captions.find_context, "2", "'2'", "3 tokens"),
        (open_tagger, "spacy:en", "spacy:en", "nltk:FOLDER"),
    ):
        with raises(ModelError, *facts):
            find(name)
    with raises(RunError, "corpus=", "tagger=", "nltk:FOLDER"):
        ta.audit("demo", corpus="captions.txt", read_images=False)


def test_the_findings_are_in_the_record_and_on_both_cards(captioned, monkeypatch):
    monkeypatch.setattr("tellapart.auditing.audit.find_context", lambda _name: Words())
    pairs = captioned([("one", "два слова", "one two six ten", "one two six two")] * 30, true=[(1,)] * 30)
    record = audit(pairs, Options(pictures=False, model="words"))
    by_name = {finding.name: finding for finding in record.findings}
    names = ["captions: scripts", "order: truth first", "context: cut", "context: equal"]
    assert [by_name[name].verdict for name in names] == ["warn"] * 4 and by_name["sides: torn"].verdict == "pass"
    card = make_card(pairs, record)
    for name in (*names, "sides: torn"):
        assert by_name[name].title in html(card) and by_name[name].title in markdown(card)


@pytest.fixture(scope="module")
def tagger() -> NltkTagger:
    return open_tagger(f"nltk:{NLTK_DATA}")


@NEEDS_NLTK_DATA
def test_bindings_are_attributes_and_relations(tagger):
    bindings = {
        "a red car and a blue sky": {("red", "car"), ("blue", "sky")},
        "the car is red": {("red", "car")},
        "the horse is eating the grass": {("hors", "eat", "grass")},
        "the door is to the left of the bus": {("door", "to left of", "bu")},
        "men in front of a large wooden table": {("men", "in front of", "tabl"), ("larg", "tabl"), ("wooden", "tabl")},
        "an old man kisses a young man": {("old", "man"), ("man", "kiss", "man"), ("young", "man")},
        "there are three clocks": set(),
    }
    assert {caption: list_bindings(tagger.read(caption)) for caption in bindings} == bindings


@NEEDS_NLTK_DATA
def test_a_binding_is_in_a_corpus_that_holds_its_caption_and_not_where_its_words_stand_apart(tagger):
    for caption in ("a man in a red T-shirt", "a black-and-white photo of a dog", "a big 747 plane"):
        wanted = list_bindings(tagger.read(caption))
        assert wanted and find_in_corpus(wanted, [caption.upper(), caption], tagger) == wanted
    wanted = {("red", "car"), ("blue", "sky"), ("hors", "eat", "grass")}
    corpus = ["a red sky over a blue car", "Red cars in the rain", "grass and a horse", "a horse eats grass"]
    assert find_in_corpus(wanted, corpus, tagger) == {("red", "car"), ("hors", "eat", "grass")}


@NEEDS_NLTK_DATA
def test_true_captions_whose_bindings_alone_were_seen_are_warned_of(captioned, tagger, tmp_path):
    pairs = captioned([("a red car under a blue sky", "a blue car under a red sky")] * 30)
    corpus = tmp_path / "captions.txt"
    for text, expected, says in (
        ("a red car is parked\n7\ta blue sky\na car under a sky\n", (1.0, "warn", {"seen"}), "100.0 % of true"),
        ("a red car is parked\n", (0.0, "pass", {"partly"}), "0.0 % of false"),
    ):
        corpus.write_text(text)
        finding, classes = seen_bindings(pairs, corpus, tagger)
        assert (finding.value, finding.verdict, {*classes.values()}) == expected and says in finding.says
    corpus.write_text("\n")
    with raises(DataError, "captions.txt"):
        seen_bindings(pairs, corpus, tagger)


@NEEDS_NLTK_DATA
def test_an_audit_writes_the_classes_of_items(tmp_path):
    corpus = tmp_path / "captions.jsonl"
    row = {"id": 1, "image": "https://example.com/1", "caption": "a red cube left of a blue sphere"}
    corpus.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    audited = ta.audit("demo", corpus=corpus, tagger=f"nltk:{NLTK_DATA}", read_images=False, to=tmp_path / "audit")
    rows = [json.loads(line) for line in (tmp_path / "audit" / "bindings.jsonl").read_text().splitlines()]
    assert {row["id"]: row["bindings"] for row in rows} == audited.record.bindings
    assert len(rows) == 400 and {row["bindings"] for row in rows} <= {"seen", "partly", "unseen", "none"}
