"""Rules change what they say they change, keep to good English, and leave alone what they cannot be sure of."""

import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart.auditing.audit import Options, audit
from tellapart.builders.builder import Made
from tellapart.builders.negatives import lexicon
from tellapart.builders.negatives.lexicon import ATTRIBUTES, OBJECTS, RELATIONS, plural
from tellapart.builders.negatives.negatives import KINDS, Negatives, contradiction, explain_none, rewrites
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import RecipeFile, open_builder
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError


def texts(text: str, kind: str) -> list[str]:
    return [each.text for each in rewrites(text, kind)]


@pytest.mark.parametrize(
    ("kind", "caption", "false"),
    [
        ("swap_obj", "A man riding a horse.", "A horse riding a man."),
        ("swap_obj", "A dog sits on top of a car.", "A car sits on top of a dog."),
        ("swap_obj", "An elephant in front of a train", "A train in front of an elephant"),
        ("swap_obj", "Dogs on beds", "Beds on dogs"),
        ("swap_att", "a red cup and a blue bowl", "a blue cup and a red bowl"),
        ("swap_att", "an old man with a young dog", "a young man with an old dog"),
        ("replace_obj", "A boy with a hat", "A girl with a hat"),
        ("replace_obj", "two knives on a plate", "two forks on a plate"),
        ("replace_obj", "a car.", "a bus."),
        ("replace_att", "a red car", "a purple car"),
        ("replace_att", "An empty plate.", "A full plate."),
        ("replace_rel", "a dog in front of the house", "a dog behind the house"),
        ("replace_rel", "A dog to the left of a cat", "A dog to the right of a cat"),
        ("replace_rel", "a man with a hat", "a man without a hat"),
        ("replace_rel", "A woman standing in a field", "A woman lying in a field"),
        ("add_obj", "a man on a horse.", "a man on a horse and an elephant."),
        ("add_att", "A dog in an umbrella", "A dog in a red umbrella"),
    ],
)
def test_a_rule_makes_this_false_caption(kind, caption, false):
    assert false in texts(caption, kind)


@pytest.mark.parametrize(
    ("kind", "caption"),
    [
        ("swap_obj", "a cat and a dog"),  # the same the other way round
        ("swap_obj", "a cat next to a dog"),
        ("swap_obj", "a man and two dogs"),
        ("swap_obj", "a dog on two beds"),  # the verb would have to change
        ("swap_obj", "a dog on a rug and a cat in a box"),
        ("swap_att", "a red cup and a red bowl"),
        ("swap_att", "a red cup and a blue cup"),  # the same the other way round
        ("swap_att", "a white man and a black dog"),
        ("replace_obj", "a hot dog on the counter"),
        ("replace_obj", "a dog house"),
        ("replace_obj", "a car's window"),
        ("replace_obj", "a woman looks at herself"),
        ("replace_obj", "a car-shaped phone"),
        ("replace_att", "a white man"),
        ("replace_att", "a black and white dog"),
        ("replace_rel", "a sandwich filled with the ham"),
        ("replace_rel", "a house made out of the wood"),
        ("replace_rel", "a man standing up in a boat"),
        ("add_obj", "a dog is here"),
        ("add_obj", "two dogs"),
        ("add_att", "a red car"),
        ("add_att", "a man"),
        ("swap_obj", ""),
    ],
)
def test_a_rule_leaves_alone_what_it_cannot_be_sure_of(kind, caption):
    assert texts(caption, kind) == []


@pytest.mark.parametrize(
    ("kind", "caption", "why"),
    [
        ("replace_obj", "nothing that is known", "it names none that the lexicon knows; needs a known object after an"),
        ("replace_obj", "a hot dog on the counter", "the words beside its objects leave doubt; needs a known object"),
        ("replace_obj", "a woman looks at herself", "a pronoun would have to change with its person; needs"),
        ("replace_obj", "a man on a woman", "it names every other of the kind, too; needs"),
        ("replace_att", "a dog on a bed", "no known attribute stands before its objects; needs a known attribute"),
        ("replace_att", "a white man", "its colour is a person's; needs"),
        ("replace_att", "a black and white dog", "its attribute is part of several words; needs"),
        ("replace_att", "a small cup on a large bed", "it names every attribute that excludes it, too; needs"),
        ("replace_rel", "a dog next to a cat", "it has neither; needs a relation with an opposite (in front of"),
        ("replace_rel", "a sandwich filled with the ham", "its relation belongs to the verb before it; needs"),
        ("replace_rel", "a dog with spots", "no article or number follows its relation; needs"),
        ("replace_rel", "a man standing up in a boat", "no preposition of place follows its posture; needs"),
        ("swap_obj", "a dog", "it has one object only; needs two known objects, related one way (a dog on a bed)"),
        ("swap_obj", "a dog on a dog", "its objects are the same; needs"),
        ("swap_obj", "a dog on two beds", "one of its objects is several; needs"),
        ("swap_obj", "a cat next to a dog", "no such relation stands between its objects; needs"),
        ("swap_obj", "a dog on a rug and a cat in a box", "a conjunction or a comma parts its objects; needs"),
        ("swap_att", "a red cup on a table", "it has one attribute only; needs two known objects with attributes"),
        ("swap_att", "a red cup and a red bowl", "its attributes do not exclude each other; needs"),
        ("swap_att", "a red cup and a blue cup", "both attributes are of the same object; needs"),
        ("add_obj", "a dog is here", "it ends in another word; needs a known object after 'a' or 'an' at the end"),
        ("add_obj", "a man on the bed.", "no 'a' or 'an' stands right before its last word; needs"),
        ("add_att", "a dog", "its objects are of other kinds; needs a known object of any colour, with none yet"),
        ("add_att", "a small car", "no article or number stands right before it; needs"),
    ],
)
def test_a_rule_that_makes_nothing_says_what_it_needs_and_what_came_closest(kind, caption, why):
    assert texts(caption, kind) == []
    assert explain_none(caption, kind).startswith(why)


@pytest.mark.parametrize(
    ("kind", "caption", "false"),
    [
        ("replace_obj", "A grey cat on a bed", "A grey dog on a bed"),
        ("replace_att", "a grey car", "a red car"),
        ("replace_att", "a red car near the town centre", "a grey car near the town centre"),
        ("replace_obj", "an aeroplane in bright colours", "a train in bright colours"),
        ("replace_obj", "a car in bright colours", "an aeroplane in bright colours"),
        ("replace_obj", "a car in bright colors", "an airplane in bright colors"),
        ("replace_obj", "two doughnuts on a plate", "two carrots on a plate"),
        ("replace_obj", "a frisbee and a racquet", "a kite and a racquet"),
        ("swap_att", "a grey cup and a red bowl", "a red cup and a grey bowl"),
        ("swap_obj", "a dog in an aeroplane", "an aeroplane in a dog"),
        ("add_att", "A dog in a coloured basket and a car", "A dog in a coloured basket and a grey car"),
    ],
)
def test_british_words_are_known_and_answered_in_british_spelling(kind, caption, false):
    assert false in texts(caption, kind)


def test_no_spelling_is_a_change_of_the_other():
    assert "gray" not in " ".join(texts("a grey car", "replace_att"))
    assert "grey" not in " ".join(texts("a gray car", "replace_att"))
    assert not any("racket" in text for text in texts("a kite and a racquet", "replace_obj"))


def test_a_caption_whose_words_do_not_tell_is_spelled_as_most_of_the_file(recipe, tmp_path):
    """A word that stands in false captions alone gives them away."""

    def colours(*others):
        path = tmp_path / "captions.csv"
        rows = [*(f"a.png,{text}" for text in others), *("sub/b.png,a cup on a red table" for _ in range(40))]
        path.write_text("image,caption\n" + "\n".join(rows) + "\n")
        options = {"captions": "captions.csv", "images": "photos", "kinds": ["replace_att"], "other_captions": False}
        builder = open_builder(RecipeFile(name="few", builder="negatives", options=options), tmp_path)
        made = [builder.make(candidate) for candidate in builder.candidates()]
        return {outcome.item.texts[1].split()[-2] for outcome in made if isinstance(outcome, Made)}

    british, american = colours("the town centre", "a theatre"), colours("the town center", "gray skies")
    assert {"grey", "blue"} <= british
    assert "gray" not in british
    assert {"gray", "blue"} <= american
    assert "grey" not in american


NOUNS = st.sampled_from([noun for group in OBJECTS.values() for noun in group])
WORDS = st.one_of(
    NOUNS,
    NOUNS.map(plural),
    st.sampled_from([word for group in ATTRIBUTES for word in group]),
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from(
        ["a", "an", "The", "two", "on", "and", "sitting", "is", "riding", ".", ",", "hot", "O'Hara's", "é"]
    ),
)


@given(st.lists(WORDS, max_size=14).map(" ".join), st.sampled_from(KINDS))
def test_no_rule_returns_the_caption_itself_or_one_twice_or_breaks_on_any_words(caption, kind):
    found = texts(caption, kind)
    assert caption not in found
    assert len(found) == len(set(found))
    for text in found:
        before, after = Counter(caption.lower().split()), Counter(text.lower().split())
        for articles in (before, after):
            for word in ("a", "an"):
                articles.pop(word, None)
        if kind.startswith("swap"):
            assert before == after
        elif kind.startswith("add"):
            assert before < after


def test_no_word_stands_in_two_groups():
    for groups in (OBJECTS.values(), ATTRIBUTES):
        words = [word for group in groups for word in group]
        assert len(words) == len(set(words))
    for relation, other in RELATIONS.items():
        assert relation != other


CAPTIONS = [
    ("a.png", "A man riding a horse."),
    ("sub/b.png", "a red cup and a blue bowl on a table"),
    ("a.png", "nothing that is known"),
]


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    for k, name in enumerate(("a.png", "sub/b.png")):
        Image.new("RGB", (4, 4), (k, 0, 0)).save(tmp_path / "photos" / name)
    rows = [json.dumps({"image": image, "caption": caption}) for image, caption in CAPTIONS]
    (tmp_path / "captions.jsonl").write_text("\n".join(rows) + "\n")
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "few"\nbuilder = "negatives"\nseed = 5\n[options]\ncaptions = "captions.jsonl"\nimages = "photos"\n'
    )
    return path


def test_captions_and_images_become_a_pair_set(recipe, tmp_path):
    built = build(recipe, tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert pairs.shape == (1, 2)
    assert built.funnel.candidates == 21
    assert sum(built.funnel.rejected.values()) == 21 - len(pairs)
    assert all("; needs a" in why or "; needs two" in why for _, why in built.funnel.rejected)
    by_id = {item.id: item for item in pairs.items}
    swapped = by_id["1-swap_obj"]
    assert swapped.texts == ("A man riding a horse.", "A horse riding a man.")
    assert (swapped.tags, swapped.cluster) == ({"type": "swap", "subset": "swap_obj", "bag_of_words": "same"}, "a.png")
    assert swapped.provenance["change"] == "man <-> horse"
    assert by_id["2-swap_att"].images == ("images/sub/b.png",)
    assert pairs.read_bytes("images/sub/b.png") == (tmp_path / "photos" / "sub" / "b.png").read_bytes()
    assert list(json.loads((built.folder / "card.json").read_text())["inputs"]) == ["captions.jsonl"]


def test_the_audit_finds_the_tag_that_it_asks_for(recipe, tmp_path):
    pairs = read_pair_set(build(recipe, tmp_path / "set").folder)
    kinds = {item.tags["subset"].partition("_")[0] == "swap": item.tags["bag_of_words"] for item in pairs.items}
    assert kinds == {True: "same", False: "differs"}
    (finding,) = (each for each in audit(pairs, Options(pictures=False)).findings if each.name == "bag of words")
    assert 0 < finding.value < 1
    assert finding.verdict == "pass"


def test_another_seed_picks_other_words_and_other_captions_forbid_some(recipe, tmp_path):
    def made(out):
        return {item.id: item.texts for item in read_pair_set(build(recipe, tmp_path / out).folder).items}

    first, whole = made("first"), recipe.read_text()
    recipe.write_text(whole.replace("seed = 5", "seed = 6"))
    assert made("second") != first

    path = tmp_path / "captions.jsonl"
    others = "A girl and two dogs, cats and cows near an elephant, a zebra, a bear and a bird"
    path.write_text(path.read_text() + json.dumps({"image": "a.png", "caption": others}) + "\n")
    recipe.write_text(whole)
    third = made("third")
    # What is said of one picture changes nothing about another one's captions.
    assert {name: texts for name, texts in third.items() if name[0] == "2"} == {
        name: texts for name, texts in first.items() if name[0] == "2"
    }
    assert third["1-swap_obj"] == first["1-swap_obj"]
    assert not re.search(
        r"girl|dog|cat|cow|elephant|zebra|bear|bird", third["1-replace_obj"][1] + third["1-add_obj"][1]
    )
    recipe.write_text(f"{whole}other_captions = false\n")
    assert {name: texts for name, texts in made("fourth").items() if name[0] != "4"} == first


def test_a_caption_whose_every_change_another_one_names_is_rejected(recipe, tmp_path):
    rows = [{"image": "a.png", "caption": text} for text in ("a man on a hill", "A woman on a hill.")]
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, [*rows, {**rows[0], "caption": "a red cup"}])))
    recipe.write_text(recipe.read_text() + 'kinds = ["replace_obj"]\nuniform = true\n')
    built = build(recipe, tmp_path / "set")
    # For "a man" there is "a woman" alone, which the second caption says, and the other way round.
    assert built.funnel.rejected == {("other-captions", "is another caption"): 2}
    (item,) = read_pair_set(built.folder).items
    assert item.texts[0] == "A red cup."
    assert item.texts[1].endswith(".")


@pytest.mark.parametrize(
    ("kind", "true", "false", "other", "fault"),
    [
        ("add_obj", "A dog.", "A dog and a cat.", "Two cats.", "names what another caption names"),
        ("add_obj", "A dog.", "A dog and a cat.", "Two cows.", None),
        ("replace_att", "A red bus.", "A blue bus.", "A bus under blue sky", "names what another caption names"),
        ("replace_obj", "A dog on a bed.", "A child on a bed.", "Children", "names what another caption names"),
        ("replace_obj", "A dog.", "Two dogs and a cow.", "Two of them", None),  # numbers name no thing
        ("replace_rel", "A dog under a bed.", "A dog on a bed.", "A dog on the bed", None),
        ("swap_obj", "A dog on a bed.", "A bed on a dog.", "a bed on a dog", "is another caption"),
        ("replace_att", "A red bus.", "A gray bus.", "a grey-haired man", None),
        ("replace_att", "A red bus.", "A gray bus.", "grey clouds", "names what another caption names"),
        ("add_obj", "A tie.", "A tie and an airplane.", "two aeroplanes", "names what another caption names"),
    ],
)
def test_other_captions_forbid_what_they_say_or_name(kind, true, false, other, fault):
    assert contradiction(kind, true, false, ["Nothing.", other]) == fault
    assert contradiction(kind, true, false, []) is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("image,caption\na.png,\n", ("captions.csv:2", "'caption'")),
        ("image,captions\na.png,a dog\n", ("captions.csv:2", "'caption'", "'captions'")),
        ("image,caption\n../a.png,a dog\n", ("captions.csv:2", "'image'", "'../a.png'")),
        ("id,image,caption\nx,a.png,a dog\nx,a.png,a cat\n", ("captions.csv:3", "id", "'x'")),
        ("image,caption\n", ("captions.csv", "captions")),
    ],
)
def test_a_wrong_row_is_named(tmp_path, rows, says):
    (tmp_path / "captions.csv").write_text(rows)
    recipe = RecipeFile(name="few", builder="negatives", options={"captions": "captions.csv", "images": "."})
    with raises(DataError, says):
        open_builder(recipe, tmp_path)


def test_a_folder_of_images_that_is_not_there_is_named(tmp_path):
    (tmp_path / "captions.csv").write_text("image,caption\na.png,a dog\n")
    recipe = RecipeFile(name="few", builder="negatives", options={"captions": "captions.csv", "images": "gone"})
    with raises(DataError, "[options]", "folder"):
        open_builder(recipe, tmp_path)


def test_the_builder_has_a_line_for_the_list():
    assert (Negatives.__doc__ or "").startswith("Make false captions")


def test_the_lexicon_knows_spellings_forms_and_where_a_noun_ends():
    expected = ["gray", "donuts", "gray-haired", "dog"]
    assert [*map(lexicon.to_lexical, ("grey", "doughnuts", "grey-haired", "dog"))] == expected
    assert [*map(lexicon.to_british, ("gray", "airplanes", "dog"))] == ["grey", "aeroplanes", "dog"]
    assert [lexicon.prefers_british(said.split()) for said in ("a grey cat", "gray", "a cat")] == [True, False, None]
    assert lexicon.words("An old man's well-worn hat, on a hook.") == [
        "a",
        "old",
        "man",
        "'s",
        "well-worn",
        "hat",
        "on",
        "a",
        "hook",
    ]
    assert [*map(lexicon.uniform, (" two dogs  on a bed", "Is it a dog?"))] == ["Two dogs on a bed.", "Is it a dog?"]
    assert [*map(lexicon.plural, ("cat", "bus", "man", "bench"))] == ["cats", "buses", "men", "benches"]
    nouns = {"cats": "cat", "buses": "bus", "women": "woman", "berries": "berry", "grass": "grass", "dog": "dog"}
    assert [*map(lexicon.singular, nouns)] == [*nouns.values()]
    assert {"the", "with", "and"} <= lexicon.function_words() and "dog" not in lexicon.function_words()
    assert [*map(lexicon.article, ("umbrella", "dog"))] == ["an", "a"]
    assert [*map(lexicon.follows_noun, ("on", "riding", "house", None))] == [True, True, False, True]
