"""What studies say: the papers' numbers where their data allow, laws elsewhere."""

import itertools
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.metrics import cohen_kappa_score

import tellapart as ta
from facts import raises
from published import published, winoground
from sets import write_file
from tellapart import Item, PairSet, choice_score, group_score, image_score, read_samples, text_score
from tellapart.annotate.findings import (
    HUMAN,
    agreement,
    errors_by,
    findings,
    human_rows,
    human_scores,
    print_findings,
    read_groups,
    shares,
)
from tellapart.annotate.surveys import Study, SurveyAnswer, altered_words, deal, find_survey
from tellapart.errors import DataError, ScoreError
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.stats.prediction_powered import prediction_powered


def pairs_of(n: int, shape: tuple[int, int] = (2, 2), texts: tuple[str, ...] = ("a man", "a boy")) -> PairSet:
    items = []
    for k in range(n):
        images, tags = tuple(f"{k}_{i}.png" for i in range(shape[0])), {"type": "add" if k % 2 else "swap"}
        items.append(Item(id=str(k), images=images, texts=texts[: shape[1]], tags=tags))
    return PairSet("made", tuple(items), Path())


def answered(survey: str, pairs: PairSet, replies: dict[str, list[str]], **how) -> tuple[Study, list[SurveyAnswer]]:
    """A study with each annotator's answers in the order of its units; a blank is no answer."""
    study, field = deal(find_survey(survey), pairs, tuple(replies), **how), find_survey(survey).choice.name
    tasks = {(task.annotator, task.unit): task.id for task in study.tasks}
    return study, [
        SurveyAnswer(task=tasks[who, unit.id], annotator=who, unit=unit.id, values={field: label})
        for who, labels in replies.items()
        for unit, label in zip(study.units, labels, strict=True)
        if label
    ]


@pytest.mark.slow
def test_people_on_winoground_get_the_published_scores():
    """89.5, 88.5 and 85.5: each pair's share of people who replies yes, made again from single answers."""
    rows = map(json.loads, winoground("human").read_text().splitlines())
    share = {row["label"]: Fraction(row["score"]).limit_denominator(21) for row in rows}
    replies: dict[str, list[str]] = {f"annotator-{k}": [] for k in range(21)}
    for item, image, text in itertools.product(range(400), (0, 1), (0, 1)):
        yes = share[f"{item}_c{text}_i{image}"]
        for k, own in enumerate(replies.values()):
            own.append(("yes" if k < yes.numerator else "no") if k < yes.denominator else "")
    scores = human_scores([answered("match", pairs_of(400), replies)])
    assert scores.kind == "probability"
    means = [100 * metric(scores.values).mean() for metric in (text_score, image_score, group_score)]
    assert means == [89.5, 88.5, 85.5]


def test_the_human_row_counts_ties_as_wrong_and_says_how_many():
    captions = answered("i2t", pairs_of(4), {"ann": list("01010001"), "bob": list("01000001")})
    text, image, group = human_rows([captions, answered("t2i", pairs_of(4), {"ann": list("01010110")})])
    # Item 1: the second image is a tie of one vote each. Item 2: its second image is wrong. Item 3: wrong both ways.
    expected = [("text_score", 0.5, 1, 0.625), ("image_score", 0.75, 0, 0.75), ("group_score", 0.25, 1, 0.375)]
    assert [(row.metric, row.strict.value, row.ties, row.neutral) for row in (text, image, group)] == expected
    assert text.strict.low < 0.5 < text.strict.high


def test_both_or_neither_makes_a_tie_and_items_asked_in_part_are_left_out():
    (row,) = human_rows([answered("coco-cf", pairs_of(2), {"ann": ["0", "both", "neither", "1"]})])
    assert (row.strict.value, row.ties, row.neutral) == (0, 2, 0.5)
    (row,) = human_rows([answered("i2t", pairs_of(3), {"ann": ["0", "1", "0", "", "0", "0"]})])
    assert (row.items, row.strict.value) == (2, 0.5)


def test_chosen_captions_of_one_image_and_images_of_one_caption_are_scores():
    replies = {"ann": ["0", "1", "both", "neither"], "bob": ["0", "0", "0", "neither"]}
    scores = human_scores([answered("coco-cf", pairs_of(4, (1, 2)), replies)])
    assert scores.values[:, 0].tolist() == [[1, 0], [0.5, 0.5], [0.75, 0.25], [0, 0]]
    scores = human_scores([answered("t2i", pairs_of(2, (3, 1)), {"ann": ["0", "2"]})])
    assert scores.values[:, :, 0].tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("signs", list(itertools.product((1, 0, -1), repeat=4)))
def test_scores_of_both_ways_are_what_people_chose_or_there_are_none(signs):
    """All 81 outcomes of the four comparisons; linear programming says which of them scores can have."""
    label = {1: lambda own: own, 0: lambda own: "", -1: lambda own: str(1 - int(own))}
    replies = [label[sign](own) for sign, own in zip(signs, "0101", strict=True)]
    captions = answered("coco-cf", pairs_of(1), {"ann": [each or "both" for each in replies[:2]]})
    images = answered("ambiguity", pairs_of(1), {"ann": [each or "both" for each in replies[2:]]})
    # s00, s01, s10, s11
    rows = np.array([[1, -1, 0, 0], [0, 0, -1, 1], [1, 0, -1, 0], [0, -1, 0, 1]])
    strict = [sign * row for sign, row in zip(signs, rows, strict=True) if sign]
    ties = [row for sign, row in zip(signs, rows, strict=True) if not sign]
    apart, equal = -np.array(strict).reshape(-1, 4), np.array(ties).reshape(-1, 4)
    bounds = -np.ones(len(strict)), equal, np.zeros(len(ties)), (-10, 10)
    if not linprog(np.zeros(4), apart, *bounds).success:
        with raises(ScoreError, "1", "0", "items"):
            human_scores([captions, images])
        return
    assert tuple(np.sign(rows @ human_scores([captions, images]).values[0].ravel())) == signs


@given(st.lists(st.tuples(*[st.sampled_from("01")] * 4), min_size=1, max_size=12))
def test_the_row_of_scores_is_the_human_row(replies):
    captions = answered("i2t", pairs_of(len(replies)), {"ann": [label for own in replies for label in own[:2]]})
    images = answered("t2i", pairs_of(len(replies)), {"ann": [label for own in replies for label in own[2:]]})
    rows = {row.metric: row.strict.value for row in human_rows([captions, images])}
    try:
        scores = human_scores([captions, images]).values
    except ScoreError as error:
        assert "circle" in str(error)
        return
    measured = {metric.__name__: metric(scores).mean() for metric in (text_score, image_score, group_score)}
    assert rows == pytest.approx(measured)


@pytest.mark.parametrize(("survey", "shape"), [("coco-cf", (1, 2)), ("i2t", (1, 5)), ("t2i", (3, 1))])
def test_people_s_score_of_one_image_or_text_has_the_name_that_a_model_s_has(survey, shape):
    study = answered(survey, pairs_of(4, shape, texts=tuple("abcde")), {"ann": ["0", "1", "0", "0"]})
    (row,) = human_rows([study])
    values = human_scores([study]).values
    assert row.metric in {metric.name for metric in defined_for(shape)}
    assert (row.metric, row.strict.value) == ("choice_score", choice_score(values).mean()) == ("choice_score", 0.75)


@pytest.mark.parametrize(("survey", "shape"), [("i2t", (1, 3)), ("t2i", (3, 1)), ("match", (1, 3)), ("match", (3, 1))])
def test_scores_stand_in_the_set_s_order_wherever_the_truth_stands(survey, shape):
    whole, truths = pairs_of(3, shape, texts=("a cup", "a mug", "a pan")), [(2,), (0,), (1,)]
    items = (item.model_copy(update={"true": true}) for item, true in zip(whole.items, truths, strict=True))
    pairs = PairSet("made", tuple(items), Path())
    units = deal(find_survey(survey), pairs, ("ann",)).units
    # Who knows the key is right about every item, as `tellapart score` counts it.
    study, answers = answered(survey, pairs, {"ann": [unit.truth for unit in units]})
    places = human_scores([(study, answers)]).values.reshape(3, 3).argmax(axis=1)
    assert places.tolist() == [place for (place,) in truths]
    if survey != "match":
        assert [row.strict.value for row in human_rows([(study, answers)])] == [1.0]


def test_the_change_of_words_begins_with_the_true_caption_of_one_image():
    item = Item(id="0", images=("0.png",), texts=("a boy", "a man"), true=(1,))
    study, answers = answered("i2t", PairSet("made", (item,), Path()), {"ann": ["0"]})
    found = errors_by(find_survey("i2t"), study, answers, {"men": ["man"]})
    assert [(row.of, row.errors) for row in found.by_alteration] == [("man -> boy", 1)]
    assert [(row.of, row.errors) for row in found.by_group] == [("men", 1)]
    study, answers = answered("match", PairSet("made", (item,), Path()), {"ann": ["yes", "yes"]})
    assert [row.of for row in errors_by(find_survey("match"), study, answers).by_alteration] == ["man -> boy"]


TIED = [("i2t", (1, 3)), ("coco-cf", (1, 4)), ("t2i", (5, 1)), ("coco-cf", (1, 2))]


@pytest.mark.parametrize(("survey", "shape"), TIED)
def test_a_tie_of_people_is_drawn_among_as_many_as_a_model_s(survey, shape):
    options = [*map(str, range(max(shape))), *find_survey(survey).choice.choices]
    draw = np.random.default_rng(0)
    replies = {who: draw.choice(options, 40).tolist() for who in ("ann", "bob", "cem")}
    study = answered(survey, pairs_of(40, shape, texts=tuple("abcde")), replies)
    (row,) = human_rows([study])
    metric, values = METRICS["choice_score"], human_scores([study]).values
    assert row.ties > 5
    expected = metric.per_item(values).mean(), metric.tie_neutral(values).mean()
    assert (row.strict.value, row.neutral) == pytest.approx(expected)


ONE, TWO = pairs_of(1), pairs_of(2)
MATCH, CAPTIONS = ("match", ONE, {"ann": ["yes", "no", "no", "yes"]}), ("i2t", ONE, {"ann": ["0", "1"]})


@pytest.mark.parametrize(
    ("give", "studies", "message"),
    [
        (human_scores, [("i2t", TWO, {"ann": ["0"] * 4})], ("t2i", "captions", "images")),
        (human_scores, [("t2i", TWO, {"ann": ["0"] * 4})], ("i2t", "images", "captions")),
        (human_scores, [("match", ONE, {"ann": ["yes", "no", "", "no"]})], ("1", "4", "0/image", "1")),
        (human_scores, [("i2t", ONE, {"a": ["0", ""]}), ("t2i", ONE, {"a": ["0", "1"]})], ("1", "2", "i2t")),
        (human_scores, [CAPTIONS, ("t2i", TWO, {"a": list("0101")})], ("items", "studies")),
        (human_scores, [MATCH, MATCH], ("match", "2")),
        (human_scores, [MATCH, CAPTIONS], ("match", "i2t")),
        (human_rows, [CAPTIONS, ("t2i", pairs_of(1, (2, 1)), {"a": ["0"]})], ("made", "shapes")),
        *(  # two that ask the same way
            (give, [(a, TWO, {"ann": list("0101")}), (b, TWO, {"bob": list("1010")})], ("2", a, b, "ann", "bob"))
            for pair in (("i2t", "i2t"), ("coco-cf", "i2t"), ("t2i", "ambiguity"))
            for a, b in (pair, pair[::-1])
            for give in (human_rows, human_scores)
        ),
    ],
)
def test_scores_that_answers_do_not_give_are_refused(give, studies, message):
    with raises(ScoreError, message):
        give([answered(*study) for study in studies])


def test_a_survey_of_words_gives_no_scores_and_studies_of_different_sets_no_row():
    study = deal(find_survey("caption"), pairs_of(1), ("ann",))
    with raises(ScoreError, "i2t", "t2i", "caption"):
        human_scores([(study, [])])
    one, two = answered("i2t", pairs_of(1), {"a": ["0", "1"]}), answered("t2i", pairs_of(1), {"a": ["0", "1"]})
    with raises(ScoreError, "made, other", "pair"):
        human_rows([one, (two[0].model_copy(update={"pairs": "other"}), two[1])])


def test_agreement_is_between_pairs_and_over_all_in_each_view():
    rng = np.random.default_rng(0)
    truth, replies = rng.integers(0, 4, 50), {}
    for name in ("ann", "bob", "cem"):
        labels = np.where(rng.random(50) < 0.7, truth, rng.integers(0, 4, 50))
        replies[name] = ["none" if label == 3 else str(label) for label in labels]
    replies["cem"][:10] = [""] * 10
    survey = find_survey("best-image")
    study, answers = answered("best-image", pairs_of(50, (4, 1)), replies)
    as_given, collapsed = agreement(survey, study, answers)
    assert (as_given.view, collapsed.view, as_given.units) == ("as given", "one or none", 50)
    for view, read in ((as_given, lambda label: label), (collapsed, lambda label: label == "none")):
        kappas = {(pair.a, pair.b): pair.kappa.value for pair in view.pairs}
        assert [pair.units for pair in view.pairs] == [50, 40, 40]
        for a, b in itertools.combinations(replies, 2):
            both = [(read(x), read(y)) for x, y in zip(replies[a], replies[b], strict=True) if x and y]
            assert kappas[a, b] == pytest.approx(cohen_kappa_score(*map(list, zip(*both, strict=True))))
        assert view.kappa == pytest.approx(np.mean(list(kappas.values())))
        assert view.alpha.low < view.alpha.value < view.alpha.high


def test_an_undefined_kappa_is_explained_in_words(capsys):
    def said(**replies: str) -> str:
        study = answered("i2t", pairs_of(4, (1, 2)), {name: list(labels) for name, labels in replies.items()})
        print_findings(findings([study]))
        return " ".join(capsys.readouterr().out.split())

    alike = said(ann="0000", bob="0000")
    assert "ann, bob 4 100.0 undefined" in alike
    assert "Krippendorff's alpha undefined on 4 units; mean kappa undefined" in alike
    assert "all answers are one and the same, luck explains them all (0 / 0); read `same`" in alike
    some = said(ann="0000", bob="0000", cem="0101")
    assert "mean kappa 0.00 of the 2 pairs that have one" in some
    assert "undefined: kappa and alpha compare" in some
    assert "undefined" not in said(ann="0001", bob="0000")


def test_broken_and_skipped_answers_are_no_labels():
    study, answers = answered("i2t", pairs_of(4), {"ann": list("01010101"), "bob": list("01010111")})
    changes = {"ann": {"skipped": True, "values": {}}, "bob": {"problems": ["x"]}}
    others = [each for each in answers if each.unit != "0/image 0"]
    marked = [each.model_copy(update=changes[each.annotator]) for each in answers if each.unit == "0/image 0"]
    survey = find_survey("i2t")
    for measure in (agreement, shares):
        assert measure(survey, study, [*marked, *others]) == measure(survey, study, others)


def test_shares_tell_right_from_wrong_and_from_neither():
    for survey, n, replies, expected in (
        ("coco-cf", 3, ["0", "1", "0", "0", "both", "neither"], {"right": 3, "wrong": 1, "both": 1, "neither": 1}),
        ("match", 1, ["yes", "yes", "no", "no"], {"right": 2, "wrong": 2}),
    ):
        found = shares(find_survey(survey), *answered(survey, pairs_of(n), {"ann": replies}))
        assert {share.label: share.answers for share in found} == expected


def test_error_rates_by_tag_by_altered_words_and_by_group():
    texts = [("a man runs", "a boy runs"), ("a man sits", "a boy sits"), ("a red cup", "a red mug"), ("a b", "c d")]
    changes = [{"texts": own, "tags": {"half": "ab"[k // 2]}} for k, own in enumerate(texts)]
    items = (item.model_copy(update=of) for item, of in zip(pairs_of(4).items, changes, strict=True))
    pairs = PairSet("made", tuple(items), Path())
    study, answers = answered("coco-cf", pairs, {"ann": ["0", "0", "both", "1", "1", "1", "0", "1"]})
    found = errors_by(find_survey("coco-cf"), study, answers, {"people": ["man"], "cups": ["cup", "mug"]})
    assert (found.all.errors, found.all.answers) == (3, 8)
    counted = [{row.of: (row.errors, row.answers) for row in of} for of in (found.by_tag, found.by_alteration)]
    assert counted == [{"half: a": (2, 4), "half: b": (1, 4)}, {"man -> boy": (2, 4), "cup -> mug": (1, 2)}]
    assert [row.of for row in found.by_alteration] == ["man -> boy", "cup -> mug"]
    # A unit belongs to the group of its own caption's word: "boy" is in none.
    assert {row.of: (row.errors, row.answers) for row in found.by_group} == {"people": (1, 2), "cups": (1, 2)}
    assert all(row.rate.low <= row.rate.value <= row.rate.high for row in [found.all, *found.by_tag])


def test_a_survey_without_right_answers_has_no_errors():
    study, answers = answered("best-image", pairs_of(2, (4, 1)), {"ann": ["0", "none"]})
    assert errors_by(find_survey("best-image"), study, answers) is None
    study, _ = answered("i2t", pairs_of(2), {"ann": list("0101")})
    assert errors_by(find_survey("i2t"), study, []) is None


def test_the_altered_words_of_coco_counterfactuals_are_found():
    """All but 9 of 17,410; Table 10's pairs occur at least as often as people erred on them."""
    path = published("coco_counterfactuals", "metadata.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    pairs_of_words = [altered_words(row["caption_0"], row["caption_1"]) for row in rows]
    assert (len(pairs_of_words), sum(each is not None for each in pairs_of_words)) == (17_410, 17_401)
    counts = Counter(pairs_of_words)
    table_10 = """woman girl 126, man boy 125, people men 116, person man 93, person woman 42, person boy 37,
        couple group 36, person girl 33, girl woman 32, man woman 30, men people 29, woman man 24, man person 24,
        building house 23, boy man 21"""
    erred = [row.split() for row in table_10.split(",")]
    # Two images an item can err.
    assert len(erred) == 15 and all(2 * counts[one, other] >= int(errors) for one, other, errors in erred)
    # The paper counts 4,117 about people, by a matching it does not give; word for word there are so many:
    assert sum(1 for words in pairs_of_words if words and set(HUMAN) & set(words)) == 4_072


def test_groups_are_lists_of_words(tmp_path):
    assert read_groups(write_file(tmp_path / "a.json", {"human": ["Girl", "boy"]})) == {"human": ["girl", "boy"]}
    for wrong in ("girl", [], [1]):
        with raises(DataError, "'human'", "words"):
            read_groups(write_file(tmp_path / "a.json", {"human": wrong}))


def test_tags_cannot_steer_the_terminal(capsys):
    item = Item(id="a", images=("0.png",), texts=("x", "y"), tags={"[bold]t": "\x1b[2J[/nope]"})
    print_findings(findings([answered("i2t", PairSet("s", (item,), Path()), {"ann": ["0"]})]))
    out = capsys.readouterr().out
    assert "[bold]t" in out and "[/nope]" in out and "\x1b" not in out


@pytest.fixture(scope="module")
def judge(tmp_path_factory) -> Path:
    """A run on all of the demo, of scores that say little."""
    scores = np.random.default_rng(0).random((400, 2, 2))
    return Path(ta.score("demo", scores, name="judge", out=tmp_path_factory.mktemp("judge")).folder)


def _of_demo(judge: Path, step: int, wrong: int = 0) -> tuple[Study, list[SurveyAnswer]]:
    """A study of every so many items of the demo: people are right but for the first image of the first items."""
    samples = read_samples(judge, "demo")[::step]
    items = (Item(id=sample.id, images=("a", "b"), texts=sample.texts) for sample in samples)
    pairs = PairSet("demo", tuple(items), Path())
    return answered("i2t", pairs, {"ann": ["1", "1"] * wrong + ["0", "1"] * (len(samples) - wrong)})


def test_a_model_helps_to_estimate_peoples_score(judge):
    study = _of_demo(judge, 4, wrong=10)
    (row,) = human_rows([study], judge)
    right = {sample.id: sample.outcomes["text_score"] for sample in read_samples(judge, "demo")}
    ids, people = [unit.item for unit in study[0].units[::2]], [0.0] * 10 + [1.0] * 90
    others = [value for name, value in right.items() if name not in ids]
    expected = prediction_powered(people, [right[name] for name in ids], others)
    assert (row.items, row.judged.others, row.strict.value, row.judged.judge) == (100, 300, 0.9, "judge")
    assert row.judged.estimate.value == pytest.approx(expected.mean)
    assert row.judged.estimate.low < 0.9 < row.judged.estimate.high


def test_a_judge_of_other_items_is_refused(judge):
    study, answers = _of_demo(judge, 4)
    # Ids such as `row-1` are those of many sets.
    changed = study.units[0].model_copy(update={"options": ["no caption of", "the demo"]})
    others = study.model_copy(update={"units": [changed, *study.units[1:]]})
    for asked, *facts in (
        (_of_demo(judge, 1), "full set"),
        (answered("i2t", pairs_of(4), {"ann": list("01" * 4)}), "4 items", "demo"),
        ((others, answers), changed.item, "'no caption of'", "demo"),
        ((study.model_copy(update={"survey": "match"}), answers), "none", "match", "leave it out"),
    ):
        with raises(ScoreError, "judge=", *facts):
            human_rows([asked], judge)
