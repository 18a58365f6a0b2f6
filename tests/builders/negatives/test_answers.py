"""A reply passes if it has the form, to the letter, and its caption is the true one with exactly the noted change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.builders.builder import Rejected
from tellapart.builders.negatives.language_negatives import NONE, TASKS, RewriteReply, check, conversation, parse
from tellapart.builders.negatives.lexicon import uniform, words
from tellapart.builders.negatives.negatives import KINDS, rewrites
from tellapart.builders.pipeline import Funnel

SUGARCREPE = Path(__file__).parents[4] / "shared/data/sugarcrepe/data"


def reason(outcome: RewriteReply | Rejected | None) -> str:
    assert isinstance(outcome, Rejected), outcome
    return f"{outcome.step}: {outcome.reason}"


def test_every_example_that_the_model_is_shown_passes_its_own_checks() -> None:
    assert tuple(TASKS) == KINDS
    for kind, task in TASKS.items():
        shown = [message.content for message in conversation(kind, "A dog.")]
        assert task.form in shown[0]
        for example in task.examples:
            assert example.answer in shown
            found = parse(example.answer, kind)
            if example.answer == NONE:
                assert reason(found) == "model: no such change, it says"
            else:
                assert isinstance(found, RewriteReply)
                assert check(kind, example.caption, found) is None
        assert sum(example.answer == NONE for example in task.examples) == 1


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "parse: empty"),
        ("NONE.", "model: no such change, it says"),
        ("A cat on a bed.", "parse: not of the form"),
        ("Sure!\nCHANGE: dog -> cat\nCAPTION: A cat.", "parse: not of the form"),
        ("CHANGE: dog -> cat\nCAPTION: A cat.\nI hope this helps.", "parse: not of the form"),
        ("CAPTION: A cat.\nCHANGE: dog -> cat", "parse: not of the form"),
        ("change: dog -> cat\ncaption: A cat.", "parse: not of the form"),
        ("CHANGE: dog, cat\nCAPTION: A cat.", "parse: the change is not noted in its form"),
        ("CHANGE: dog <-> cat\nCAPTION: A cat.", "parse: the change is not noted in its form"),
        ("CHANGE: dog -> cat -> cow\nCAPTION: A cow.", "parse: the change is not noted in its form"),
        ("CHANGE: dog -> !\nCAPTION: A !.", "parse: the change is not noted in its form"),
    ],
)
def test_a_reply_of_another_form_is_rejected(reply: str, why: str) -> None:
    assert reason(parse(reply, "replace_obj")) == why


@pytest.mark.parametrize(
    "reply",
    [
        "<think>CHANGE: dog -> owl\nCAPTION: An owl.</think>\nCHANGE: dog -> cat\nCAPTION: A cat.",
        "It is a dog, so a cat.</think>CHANGE: dog -> cat\nCAPTION: A cat.",
        "```\nCHANGE: dog -> cat\nCAPTION: A cat.\n```",
        "<think></think>\n```text\nCHANGE: dog -> cat\n\nCAPTION: A cat.\n```\n",
    ],
)
def test_neither_a_thought_nor_a_fence_is_part_of_a_reply(reply: str) -> None:
    assert parse(reply, "replace_obj") == RewriteReply(("dog", "cat"), "A cat.")


def test_a_refused_reply_is_kept_and_one_of_each_reason_is_shown() -> None:
    funnel = Funnel()
    for reply in ("Sure!\nHere.", "Sure! Another.", "CHANGE: dog\nCAPTION: A cat.", ""):
        outcome = parse(reply, "replace_obj")
        assert isinstance(outcome, Rejected)
        funnel.count(outcome)
    shown = {reason: number for step, reason, number in funnel.rows() if step == "rejected by parse"}
    assert shown == {
        "not of the form, such as 'Sure!\\nHere.'": 2,
        "the change is not noted in its form, such as 'CHANGE: dog\\nCAPTION: A cat.'": 1,
        "empty": 1,
    }
    # The card of a set holds numbers alone.
    assert funnel.to_record()["rejected"] == {
        "parse: empty": 1,
        "parse: not of the form": 2,
        "parse: the change is not noted in its form": 1,
    }


def test_blanks_around_lines_and_blank_lines_do_not_count() -> None:
    assert parse("\n CHANGE: + red \r\n\n CAPTION: A red car. \n", "add_att") == RewriteReply(("red",), "A red car.")


@pytest.mark.parametrize(
    ("kind", "caption", "change", "false"),
    [
        ("replace_obj", "A dog on a bed", ("dog", "owl"), "An owl on a bed."),
        ("replace_obj", "A man holds his hat.", ("man", "woman"), "A woman holds her hat."),
        ("replace_rel", "Men look on.", ("look on", "walk away"), "Men walk away."),
        ("swap_obj", "A man is waving at two men.", ("A man", "two men"), "Two men are waving at a man."),
        ("swap_obj", "A boy near a woman's head.", ("boy", "woman"), "A woman near a boy's head."),
        ("swap_att", "A red cup, a blue bowl", ("red", "blue"), "A blue cup, a red bowl"),
        ("add_obj", "A dog is here.", ("and a cat",), "A dog and a cat are here."),
        ("add_att", "A dog sits.", ("old",), "An old dog sits."),
    ],
)
def test_the_change_that_was_noted_is_found(kind: str, caption: str, change: tuple[str, ...], false: str) -> None:
    assert check(kind, caption, RewriteReply(change, false)) is None


@pytest.mark.parametrize(
    ("kind", "caption", "change", "false", "why"),
    [
        ("replace_obj", "A dog.", ("dog", "cat"), "a Dog", "the caption itself"),
        ("replace_obj", "A dog on a bed.", ("dog", "cat"), "A cat on a big bed.", "another change than the one noted"),
        ("replace_obj", "A dog on a bed.", ("cow", "cat"), "A cat on a bed.", "another change than the one noted"),
        ("replace_obj", "A dog sits.", ("dog", "no dog"), "No dog sits.", "denies"),
        ("replace_rel", "A dog.", ("dog", "b c d e f g h"), "A b c d e f g h.", "a phrase of more than 6 words"),
        ("swap_obj", "A dog on a bed.", ("dog", "bed"), "A dog on a dog.", "another change than the one noted"),
        ("swap_obj", "A dog on a bed.", ("dog", "cat"), "A cat on a bed.", "another change than the one noted"),
        ("add_obj", "A dog on a bed.", ("and a cat",), "A dog and a cat.", "another change than the one noted"),
        ("add_att", "A dog sits.", ("old",), "An old cat sits.", "another change than the one noted"),
    ],
)
def test_any_other_caption_is_rejected(kind: str, caption: str, change: tuple[str, ...], false: str, why: str) -> None:
    assert reason(check(kind, caption, RewriteReply(change, false))) == f"check: {why}"


WORDS = st.sampled_from(
    ["a", "the", "red", "blue", "big", "dog", "cat", "cup", "bed", "two", "on", "behind", "sits", "is", "man"]
)


@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), st.sampled_from(KINDS))
def test_whatever_a_rule_changes_passes_as_an_answer(caption: str, kind: str) -> None:
    for each in rewrites(caption, kind):
        change = " ".join(each.change.split()[:2]) if kind == "add_att" else each.change  # its noun is noted, too
        answer = parse(f"CHANGE: {change}\nCAPTION: {each.text}", kind)
        assert isinstance(answer, RewriteReply)
        assert check(kind, caption, answer) is None


@given(
    st.lists(WORDS, min_size=1, max_size=10),
    st.lists(WORDS, min_size=1, max_size=10),
    st.sampled_from(KINDS),
    st.data(),
)
def test_an_answer_that_passes_is_never_the_caption_and_shares_all_but_the_phrases(
    before: list[str], after: list[str], kind: str, data: st.DataObject
) -> None:
    phrases = tuple(" ".join(data.draw(st.lists(WORDS, min_size=1, max_size=3))) for _ in range(1 + (kind[0] != "a")))
    if check(kind, " ".join(before), RewriteReply(phrases, " ".join(after))) is None:
        one, other = words(" ".join(before)), words(" ".join(after))
        assert one != other
        grown = {"add": len(words(phrases[0])), "swap": 0}.get(kind.partition("_")[0])
        assert len(other) - len(one) == (len(words(phrases[1])) - len(words(phrases[0])) if grown is None else grown)


@given(st.text(alphabet="aB .,?\n!:;", min_size=1).filter(lambda text: any(c.isalpha() for c in text)))
def test_one_form_of_a_caption_is_kept_by_another_round(text: str) -> None:
    once = uniform(text)
    assert uniform(once) == once
    assert once[-1] in ".!?"
    assert words(once) == words(text)


@pytest.mark.skipif(not SUGARCREPE.is_dir(), reason="needs SugarCrepe's captions in ../shared/data")
def test_most_of_sugarcrepe_s_replacements_are_one_phrase_for_another() -> None:
    # 0.93 to 0.97 of them are, as the paper's templates ask; the check would be wrong if it refused those.
    for kind in ("replace_obj", "replace_att", "replace_rel"):
        rows = json.loads((SUGARCREPE / f"{kind}.json").read_text()).values()
        good = 0
        for row in rows:
            one, other = words(row["caption"]), words(row["negative_caption"])
            start = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
            end = next(
                (k for k, (a, b) in enumerate(zip(one[start:][::-1], other[start:][::-1], strict=False)) if a != b),
                min(len(one), len(other)) - start,
            )
            phrases = " ".join(one[start : len(one) - end]), " ".join(other[start : len(other) - end])
            good += all(phrases) and check(kind, row["caption"], RewriteReply(phrases, row["negative_caption"])) is None
        assert good / len(rows) > 0.9
