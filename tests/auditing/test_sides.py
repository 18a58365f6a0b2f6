"""Mixed scripts, the place of the truth, torn pairs and cut captions: planted ones are found, fair sets pass."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from facts import raises
from tellapart.auditing import captions
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.card import html, make_card, markdown
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import ModelError


def named(ids: list[str], images: list[tuple[str, ...]] | None = None, texts: tuple[str, ...] = ("x", "y")) -> PairSet:
    shown = images or [("0.png",)] * len(ids)
    items = tuple(Item(id=id_, images=own, texts=texts) for id_, own in zip(ids, shown, strict=True))
    return PairSet("named", items, Path())


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("two cats", {"LATIN"}),
        ("قطتان", {"ARABIC"}),
        ("два кота", {"CYRILLIC"}),
        ("猫のカフェ 고양이", {"CJK"}),  # written together
        ("இரண்டு பூனைகள்", {"TAMIL"}),
        ("一件T恤 x 3", {"CJK"}),  # single letters are labels and shapes
        ("ｔｗｏ ｃａｔｓ", {"LATIN"}),  # wide letters are the same letters
        ("قطتان and a dog", {"ARABIC", "LATIN"}),
    ],
)
def test_a_texts_scripts(text, scripts):
    assert captions.list_scripts(text) == scripts


def test_untranslated_captions_are_found_and_a_few_names_pass(captioned):
    pairs = captioned([("قطتان", "كلب") if k % 3 else ("قطتان", "a dog") for k in range(90)])
    finding = captions.mixed_scripts(pairs)
    assert (finding.value, finding.verdict, finding.items[:2]) == (30 / 90, "warn", ("0", "3"))
    assert "arabic" in finding.says and "latin" in finding.says
    few = captioned([("две девочки", "торт" if k else "торт Peeps") for k in range(90)])
    assert (captions.mixed_scripts(few).value, captions.mixed_scripts(few).verdict) == (1 / 90, "pass")


@given(st.integers(0, 30), st.integers(1, 30), st.integers(2, 6))
@example(1, 4, 2)
def test_the_probability_of_first_places_is_the_binomials(first, others, entries):
    truths = [(0,)] * first + [(1,)] * others
    items = tuple(
        Item(id=str(k), images=("0.png",), texts=tuple(map(str, range(entries))), true=true)
        for k, true in enumerate(truths)
    )
    finding = captions.truth_first(PairSet("s", items, Path()))
    chances = binom.pmf(range(len(items) + 1), len(items), 1 / entries)
    p = min(1, sum(each for each in chances if each <= chances[first] * (1 + 1e-7)))
    assert finding.value == first / len(items)
    # A sum in another order may lie on the other side of a half that is rounded.
    assert any(f"p = {p * (1 + near):.2g}" in finding.says for near in (-1e-9, 0, 1e-9))
    assert (finding.verdict == "warn") is bool(p < 0.01)


def test_a_truth_that_always_stands_first_is_found_also_beyond_the_least_float(captioned):
    pairs = captioned([("a", "b", "c", "d")] * 5914, true=[(0,)] * 5914)
    finding = captions.truth_first(pairs)
    assert (finding.value, finding.verdict) == (1.0, "warn") and "5,914 of 5,914" in finding.says
    assert "p < 1e-300" in finding.says
    assert captions.truth_first(captioned([("a", "b")] * 40)) is None  # by the form the first is true: nothing is named


def test_two_true_texts_stand_first_twice_as_often_at_random(captioned):
    pairs = captioned([("a", "b", "c")] * 30, true=[(0, 1)] * 10 + [(0, 2)] * 10 + [(1, 2)] * 10)
    finding = captions.truth_first(pairs)
    assert finding is not None and (finding.verdict, finding.value) == ("pass", 20 / 30)


def test_a_missing_side_is_found(captioned):
    assert captions.torn_sides(captioned([("a cat", "a dog"), ("a cat", "nan"), (" ", "a dog")])).items == ("1", "2")
    assert captions.torn_sides(captioned([("a cat", "a nan is bread")])).verdict == "pass"


@pytest.mark.parametrize("form", ["{k}_{side}.png", "set/{k}/{side}.jpg", "ex_{k}_img_{side}.png"])
def test_pictures_of_two_items_are_found_by_their_names(form):
    images = [tuple(form.format(k=k, side=side) for side in (0, 1)) for k in range(40)]
    assert captions.torn_sides(named([*map(str, range(40))], images)).value == 0
    images[3], images[4] = (images[3][0], images[4][1]), (images[4][0], images[3][1])
    found = captions.torn_sides(named([*map(str, range(40))], images))
    assert (found.items, found.verdict) == (("3", "4"), "warn")


@pytest.mark.parametrize("form", ["{n}.jpg", "train/{n}.jpg", "{n}_{n}.jpg"])
def test_names_that_follow_no_rule_show_nothing(form):
    images = [(form.format(n=17 * k), form.format(n=17 * k + 5)) for k in range(40)]
    assert captions.torn_sides(named([*map(str, range(40))], images)).value == 0


def test_an_id_whose_other_half_is_lost_is_found():
    ids = [f"{k}_{side}" for k in range(30) for side in ("pos", "neg")]
    assert captions.torn_sides(named(ids)).value == 0
    assert captions.torn_sides(named([id_ for id_ in ids if id_ != "7_neg"])).items == ("7_pos",)
    # Subsets are no families, and neither are numbers.
    assert captions.torn_sides(named([f"swap/{k}" for k in range(30)] + ["replace/0"])).value == 0
    assert captions.torn_sides(named([*map(str, range(30))])).value == 0


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
    long = [str(k) for k, row in enumerate(rows) if any(len(text.split()) > 3 for text in row)]
    assert list(cut.items) == long
    same = [
        str(k)
        for k, row in enumerate(rows)
        if row[0] != row[1] and row[0].lower().split()[:3] == row[1].lower().split()[:3]
    ]
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


def test_a_model_without_tokens_and_a_context_of_no_words_are_refused():
    with raises(ModelError, "'constant'", "open_clip:", "77"):
        captions.find_context("constant")
    with raises(ModelError, "'2'", "3 tokens"):
        captions.find_context("2")


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
    plain = audit(captioned([("a", "b")] * 3), Options(pictures=False))
    assert {"context", "order: truth first"} <= {each.name for each in plain.not_done}
