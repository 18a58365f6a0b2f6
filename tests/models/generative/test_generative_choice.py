"""Which caption belongs to which image: prompts, the grammar of answers, and what the order alone gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.answers import (
    BothOrders,
    Chooser,
    pad_to_square,
    parse_box,
    parse_pairing,
    parse_verdict,
    side_by_side,
)
from tellapart.models.generative.prompts import Prompt
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.choice import PAIRING
from tellapart.tasks.task import Session

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 255, 0)}


@dataclass
class Person:
    """Sees colours; answers by its habit."""

    answers: str = "knowing"
    name: str = "person"
    fingerprint: str = "1"
    kind: str = "probability"
    batches: list[int] = field(default_factory=list)

    def choose(self, images: Sequence[tuple[Any, Any]], captions: Sequence[tuple[str, str]]) -> list[str]:
        self.batches.append(len(images))
        answers = []
        for pictures, colours in zip(images, captions, strict=True):
            seen = [next(name for name in colours if (picture[0, 0] == COLOURS[name]).all()) for picture in pictures]
            assert sorted(seen) == sorted(colours)
            right = "1;2" if seen == list(colours) else "2;1"
            answers.append({"knowing": right, "listing": "1;2"}.get(self.answers, "I cannot say."))
        return answers[:1] if self.answers == "few" else answers


@pytest.fixture
def pairs(tmp_path):
    for name, colour in COLOURS.items():
        Image.new("RGB", (4, 3), colour).save(tmp_path / f"{name}.png")
    names = [("red", "blue"), ("blue", "green"), ("green", "red")]
    items = [Item(id=f"{a}-{b}", images=(f"{a}.png", f"{b}.png"), texts=(a, b)) for a, b in names]
    return PairSet("colours", tuple(items), tmp_path)


def ask(model, pairs, **options) -> BothOrders:
    session = Session(pictures=pairs.read_bytes, store=EmbeddingStore(None), **options)
    return PAIRING.runner(model)(model, pairs, session)


@pytest.mark.parametrize(
    ("habit", "expected"),
    [("knowing", (1, 1, 1, 0, 0.5, 0)), ("listing", (1, 0, 0, 1, 1, 0)), ("silent", (0, 0, 0, 0, 0.5, 1))],
)
def test_who_repeats_the_list_looks_perfect_in_one_order_alone(pairs, habit, expected):
    names = [f"group_score_{order}" for order in ("in_order", "swapped", "both_orders")]
    names += ["pairing_bias", "followed_list", "unparseable"]
    values = ask(Person(habit), pairs).measure()
    assert {name: float(value.mean()) for name, value in values.items()} == dict(zip(names, expected, strict=True))


def test_answers_stay_with_their_items_for_any_batch_size(pairs):
    reports = []
    person = Person()
    both = ask(person, pairs, batch_size=2, progress=lambda *report: reports.append(report))
    assert (person.batches, reports) == ([2, 2, 1, 1], [("items", 2, 3), ("items", 3, 3)])
    whole = ask(Person(), pairs)
    assert (both.in_order, both.swapped) == (whole.in_order, whole.swapped)
    assert isinstance(person, Chooser)
    with raises(ModelError, "model", "'person'", "1", "3"):
        ask(Person("few"), pairs)
    (pairs.root / "blue.png").write_bytes(b"none")
    with raises(DataError, "item red-blue", "'images[1]'", "blue.png"):
        ask(Person(), pairs)


@given(st.lists(st.tuples(*[st.sampled_from(["1;2", "2;1", "?"])] * 2), min_size=1, max_size=8))
def test_right_in_both_orders_is_never_more_than_right_in_one(answers):
    both = BothOrders(tuple(first for first, _ in answers), tuple(second for _, second in answers))
    values = both.measure()
    assert all(len(own) == len(answers) for own in values.values())
    right = values["group_score_both_orders"]
    assert (right <= np.minimum(values["group_score_in_order"], values["group_score_swapped"])).all()
    assert (right + values["unparseable"] <= 1).all()


def test_images_side_by_side_and_a_square_keep_every_pixel():
    left, right = np.full((10, 20, 3), 200, np.uint8), np.full((30, 15, 3), 50, np.uint8)
    enlarged = np.full((30, 60, 3), 200, np.uint8)  # the lower one, in proportion
    for first, scaled in ((left, enlarged), (right, right)):
        np.testing.assert_array_equal(side_by_side(first, right), np.concatenate([scaled, right], axis=1))
    picture = np.random.default_rng(0).integers(0, 256, (10, 25, 3), dtype=np.uint8)
    square = np.full((25, 25, 3), 127, np.uint8)
    square[7:17] = picture
    np.testing.assert_array_equal(pad_to_square(picture), square)
    np.testing.assert_array_equal(pad_to_square(picture[:, :10]), picture[:, :10])


PAIRINGS = {
    (1, 2): [
        *("1;2", "1;2. That is, 1;2.", "1;2; 1;2", "Answer-1;2", "1;2 because caption 2 shows the right image"),
        "Caption 1 corresponds to the left image and caption 2 to the right image.",
    ],
    (2, 1): [
        *(" 2 ; 1 ", "#2;#1", '"2;1"', "2,1", "The answer is 2; 1.", "Caption 1: right. Caption 2: left."),
        "The left image is caption 2; the right one is Caption #1.",
        "index 2 for the left image; index 1 for the right image",
    ],
    None: [
        *("1;1", "1;2 or 2;1", "", "1", "11;2", "1;23", "0.1;2", "1;2.5", "Caption 1 is left."),
        *(
            "-1;2",
            "1; 2; 1",
            "1 ; 2 ; 1",
            "2;\n1;\n2",
            "3;  1;2",
            "#1 ; #2 ; #1",
            "Captions 1, 2 both fit.",
            "Caption 1 is not left, caption 2 is not right.",
        ),
        "Caption 1 isn\u2019t the left image's, and caption 2 is the right one's.",
        "Caption 1 is left and caption 1 is right.",
        "Caption 1 and caption 2 are left and right.",
        "Caption 1 is left, the right one is caption 2.",
        "Caption 3 is left and caption 1 is right.",
        "Neither the left nor the right image fits caption 1 or caption 2 better; caption 1 fits.",
    ],
}


@pytest.mark.parametrize(("answer", "pairing"), [(text, pair) for pair, texts in PAIRINGS.items() for text in texts])
def test_a_pairing_is_read_where_the_grammar_covers_it_alone(answer, pairing):
    assert parse_pairing(answer) == pairing


@given(st.text(alphabet="12;#. ", max_size=20))
def test_swapping_the_indices_of_an_answer_swaps_its_pairing(answer):
    read = parse_pairing(answer)
    assert parse_pairing(answer.translate({ord("1"): "2", ord("2"): "1"})) == (read and (read[1], read[0]))


VERDICTS = {
    True: ["True", "yes.", "The statement is true.", "1.", '{"why": "It is not blue", "answer": true}'],
    False: ["FALSE", "No, there is one dog.", "0.0", "**False**"],
    None: [
        *("True or false?", "It is not true", "That isn\N{RIGHT SINGLE QUOTATION MARK}t true", "Nothing", "", "untrue")
    ],
}


@pytest.mark.parametrize(("answer", "verdict"), [(text, told) for told, texts in VERDICTS.items() for text in texts])
def test_a_verdict_is_one_word_of_one_meaning(answer, verdict):
    assert parse_verdict(answer) is verdict


HALF = (50.0, 50.0, 150.0, 100.0)
BOXES = [
    ("[0.25, 0.5, 0.75, 1.0]", (1, 1), HALF),
    ("<|box_start|>(250,500),(750,1000)<|box_end|>", (1000, 1000), HALF),
    ('```json\n[{"bbox_2d": [10, 10, 30, 20], "label": "cup"}]\n```', (40, 20), HALF),
    ("(0, 0, 0.5, 0.5) and [0.1, 0.1, 0.2, 0.2]", (1, 1), (0.0, 0.0, 100.0, 50.0)),
    ("[-0.5, 0, 2, 1]", (1, 1), (0.0, 0.0, 200.0, 100.0)),
    (f"[0, 0, {'9' * 400}, 1]", (1, 1), (0.0, 0.0, 200.0, 100.0)),
    *((none, (1, 1), None) for none in ("[0.75, 0.5, 0.25, 1.0]", "[1.5, 0, 2, 1]", "[0.1, 0.2, 0.3]", "left")),
]


@pytest.mark.parametrize(("answer", "unit", "box"), BOXES)
def test_a_box_is_read_in_the_unit_of_its_family(answer, unit, box):
    assert parse_box(answer, unit, (200, 100)) == box


PROMPTS = [value for value in vars(prompts).values() if isinstance(value, Prompt)]


def test_the_wordings_of_the_papers_are_theirs_to_the_letter():
    assert prompts.VQASCORE.fill(text="a cat") == 'Does this figure show "a cat"? Please answer yes or no.'
    assert prompts.EQBEN_CHOICE.fill(first="a cat", second="a dog") == (
        "There are two images (left and right). Now you have two captions: caption 1: a cat; caption 2: a dog. Please "
        "indicate which caption corresponds to the left image and which caption corresponds to the right one. The "
        'answer should follow the format: "#index for the left image; #index for the right image". For example, "1;2" '
        "represents that caption 1 corresponds to image left."
    )
    asked = prompts.SUGARCREPE_CHOICE.fill(first="a cat", second="a dog")
    assert asked == "Which caption best describes the image?\n(1) a cat\n (2) a dog\nOutput (1) or (2)."


def test_labels_are_distinct_and_values_are_filled_in_unchanged():
    assert len({prompt.label for prompt in PROMPTS}) == len(PROMPTS) > 5
    for prompt in PROMPTS:
        values = {field: f"<{field}> {{0}} %s" for field in prompt.fields}
        assert all(value in prompt.fill(**values) for value in values.values()) and prompt.source
    with raises(ModelError, "vqascore/1", "prompt", "text"):
        prompts.VQASCORE.fill(caption="a cat")
