"""Why models fail: reasons, shares, questions in fours, paired differences, and priors that can be estimated."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit

import tellapart as ta
from facts import check_facts, raises
from tellapart import catalog
from tellapart.data.scores import ScoreKind
from tellapart.diagnosis.why import SHARES, _draw, _subtract, explain, measure_reasons, read_comparisons, read_squares
from tellapart.errors import DataError, RunError
from tellapart.metrics.matching import Reason, contrasts, reason_bounds, reasons
from tellapart.metrics.pairs import group_score
from tellapart.models.find import find_model
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.stats.intervals import interval_for
from tellapart.stats.paired import enough_flips, mcnemar, paired_difference


def scored(folder: Path, scores: NDArray[np.float64], kind: ScoreKind = "similarity", name: str = "mine") -> ta.Run:
    """A run of these scores on the pair set of a folder."""
    path = folder.parent / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "image", "text", "score"])
        for item, image, text in np.ndindex(scores.shape):
            writer.writerow([f"item-{item}", image, text, scores[item, image, text]])
    return ta.score(f"folder:{folder}", path, name=name, kind=kind)


def drawn(n: int, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2, 2)) + rng.normal(size=(n, 2, 1)) + np.eye(2)


def test_reasons_shares_and_intervals_are_those_of_the_scores(made_set):
    scores = drawn(60)
    (row,) = ta.why(scored(made_set(n=60, clusters=30), scores)).record.rows
    counts = Counter(reasons(scores))
    assert {name: value.value for name, value in row.reasons.items()} == {
        reason: pytest.approx(counts[reason] / 60) for reason in Reason
    }
    squares = (contrasts(scores) ** 2).sum(axis=0)
    assert [row.shares[name].value for name in SHARES] == pytest.approx(list(squares / squares.sum()), rel=1e-6)
    assert all((value.low or 0) < value.value < (value.high or 0) for value in row.shares.values())
    clusters = [f"scene-{k % 30}" for k in range(60)]
    right = group_score(scores)
    bounds = interval_for(right, clusters, binary=True)
    assert (row.reasons["right"].low, row.reasons["right"].high) == (bounds.low, bounds.high)
    assert row.match_score.value == pytest.approx(1 - counts[Reason.NO_MATCH] / 60)
    assert (row.match_score.chance, row.n, row.clusters, row.scale) == (0.5, 60, 30, "similarity")
    swapped = np.array([k % 3 == 0 for k in range(60)])
    assert row.by["type"]["swap"]["right"].value == pytest.approx(right[swapped].mean())
    item, match, prior, reason = row.items[7]
    assert (item, reason) == ("item-7", reasons(scores)[7])
    assert (match, prior) == pytest.approx((contrasts(scores)[7, 0], abs(contrasts(scores)[7, 1:]).max()), rel=1e-5)


def test_shares_of_few_items_stay_between_0_and_1(made_set):
    scores = logit(np.random.default_rng(0).uniform(size=(12, 2, 2)))
    (row,) = ta.why(scored(made_set(n=12), scores)).record.rows
    ends = [end for value in row.shares.values() for end in (value.low, value.high)]
    assert len(ends) == 6 and all(0 <= end <= 1 for end in ends) and {0.0, 1.0} & {*ends}


def test_a_probability_is_explained_by_its_logit_and_the_items_that_change_are_counted(made_set):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(80, 2, 2)) * 3
    probabilities = 1 / (1 + np.exp(-logits))
    folder = made_set(n=80)
    (row,) = ta.why(scored(folder, probabilities, "probability")).record.rows
    assert row.scale == "logit of the probability"
    assert row.match_score.value == (contrasts(logits)[:, 0] > 0).mean()
    changed = (contrasts(logits)[:, 0] > 0) != (contrasts(probabilities)[:, 0] > 0)
    assert row.changed_by_scale == changed.sum() > 0
    (plain,) = ta.why(scored(folder, logits, "logit", "logits")).record.rows
    assert (plain.scale, plain.changed_by_scale) == ("logit", None)
    assert plain.reasons["right"].value == row.reasons["right"].value


def test_two_models_differ_in_match_and_in_what_they_lose_to_priors(made_set, capsys):
    folder, made = made_set(n=60), {"one": drawn(60), "other": drawn(60, seed=5)}
    explained = ta.why(*(scored(folder, scores, name=name) for name, scores in made.items()))
    match, lost = explained.record.differences
    x, y = (contrasts(scores)[:, 0] > 0 for scores in made.values())
    expected = paired_difference(y, x, None, binary=True)
    assert (match.a, match.b, match.difference) == (*made, expected.value)
    assert (match.low, match.high, match.p) == (expected.low, expected.high, mcnemar(x, y).p)
    held = [contrast & (group_score(scores) == 0) for contrast, scores in zip((x, y), made.values(), strict=True)]
    assert lost.difference == pytest.approx(held[1].mean() - held[0].mean())
    assert match.p_holm >= match.p
    explained.show()
    assert "match, and are lost to a prior" in capsys.readouterr().out


def test_models_of_other_pictures_under_the_same_ids_are_not_compared(made_set, tmp_path):
    runs = [ta.evaluate(model, f"folder:{made_set(f'{model}/pairs', seed=seed)}", cache=False)
            for seed, model in enumerate(("demo-encoder", "random"))]  # fmt: skip
    with raises(RunError, "folder:pairs", "content", "same pairs"):
        ta.why(*(run.folder for run in runs))


def test_items_whose_scores_are_all_equal_have_no_match_and_no_shares_and_json_can_be_written(made_set):
    folder, scores = made_set(), drawn(12)
    (row,) = ta.why(scored(folder, np.full((12, 2, 2), 0.5))).record.rows
    assert row.reasons["no_match"].value == 1
    assert (row.shares, row.match_score.ties, row.match_score.tie_neutral) == ({}, 12, 0.5)
    scores[::3] = 0.5  # those of type swap
    (row,) = ta.why(scored(folder, scores, name="tag")).record.rows
    assert not set(SHARES) & row.by["type"]["swap"].keys() and set(SHARES) <= row.by["type"]["add"].keys()
    json.dumps(row.model_dump(mode="json"), allow_nan=False)


def test_many_models_draw_as_many_sign_flips_as_their_correction_needs(made_set):
    folder = made_set(n=64, clusters=32)
    lost, won = -np.eye(2) + np.zeros((64, 2, 2)), np.eye(2) + np.zeros((64, 2, 2))
    worse, better = scored(folder, lost, name="worse"), scored(folder, won, name="better")
    systems = [*(replace(worse.systems[0], label=f"worse {k}") for k in range(23)), *better.systems]
    rows = [row for row in explain(systems).differences if row.b == "better" and row.what == "match"]
    assert len(rows) == 23 and all(row.p_holm <= 0.05 for row in rows)
    assert {row.flips for row in rows} == {enough_flips(23 * 24)}
    assert {row.p_holm_text[:2] for row in rows} == {"<="}


def test_larger_squares_have_reasons_and_shares(made_set):
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(30, 3, 3)) + np.eye(3)
    (row,) = ta.why(scored(made_set(n=30, shape=(3, 3)), scores)).record.rows
    assert row.match_score.chance == 1 / 6
    assert row.reasons["right"].value == pytest.approx(Counter(reasons(scores))[Reason.RIGHT] / 30)
    assert sum(value.value for value in row.shares.values()) == pytest.approx(1)
    assert row.items == ()


def test_what_a_run_does_not_have_is_named(made_set):
    run = scored(folder := made_set(), drawn(12))
    assert ta.why(run, benchmark=f"folder:{folder}").record == ta.why(run).record
    with raises(RunError, "'demo'", "folder:set"):
        ta.why(run, benchmark="demo")
    with raises(RunError, "'typ'", "'type'", "side"):
        ta.why(run, by="typ")
    of_one_picture = scored(made_set("one", shape=(1, 2)), drawn(12)[:, :1])
    with raises(RunError, "folder:one", "1 images", "2 texts", "caption's prior alone", "two to six"):
        ta.why(of_one_picture)
    for number in (0, True, 2.5):
        with raises(RunError, f"debias={number}", "64"):
            ta.why("runs/none", debias=number)


def four(said: str, *, gold: str = "yes no no yes", group: str = "g") -> list[Sample]:
    """The samples of two questions of two images: the rows are q0 of a and b, then q1 of a and b."""
    rows, texts = [], ("Question 0?", "Question 1?")
    for k, (answer, right) in enumerate(zip(said.split(), gold.split(), strict=True)):
        about = {"images": ("ab"[k % 2],), "texts": (texts[k // 2],), "unit": "answer", "output": answer, "gold": right}
        rows.append(Sample(id=f"{group}{k}", cluster=group, outcomes={"a_acc": float(answer == right)}, **about))
    ids = "+".join(row.id for row in rows)
    return [*rows, Sample(id=ids, cluster=group, images=("a", "b"), texts=texts, unit="group", outcomes={})]


def test_answers_of_yes_and_no_in_fours_are_scores_of_one_and_zero():
    for said, reason in {
        "yes no no yes": Reason.RIGHT,
        "yes yes no yes": Reason.BOTH,  # [[1, 0], [1, 1]]: D is 1, T is 1, M is -1
        "yes yes yes yes": Reason.NO_MATCH,
        "no yes yes no": Reason.NO_MATCH,
        "yes no yes no": Reason.NO_MATCH,  # the same answers of both questions: picture a alone
    }.items():
        (square,), left_out = read_squares(four(said))
        assert (left_out, *reasons([square.scores])) == (0, reason)


def test_fours_are_laid_out_by_the_gold_answers():
    (turned,), _ = read_squares(four("no yes yes no", gold="no yes yes no"))
    assert (turned.scores, turned.images) == (((1.0, 0.0), (0.0, 1.0)), ("b", "a"))
    one_sided = four("yes yes no no", gold="yes yes no no", group="h")  # a question without a picture of its own
    squares, left_out = read_squares([*four("yes no no yes"), *one_sided])
    assert (len(squares), left_out) == (1, 1)


@pytest.mark.slow
def test_the_command_prints_reasons_by_tag_and_json(command, made_set, tmp_path):
    folder = made_set(n=24)
    run = scored(folder, drawn(24))
    ran = command("why", run.folder, "--by", "type", code=0)
    for words in ("lost to the picture's prior", "match score", "chance of the match score is 50.00", "replace"):
        assert words in ran.out
    (row,) = command("why", run.folder, "--json").json["rows"]
    assert (row["benchmark"], set(row["reasons"])) == ("folder:set", {*Reason})
    check_facts(command("why", run.folder, "-b", "nothing", code=2).err, "'nothing'", "folder:set")


OUTCOMES = "id,caption,type,text_score_i0,text_score_i1,image_score_c0,image_score_c1"


def outcome_file(path: Path, right: NDArray[np.bool_]) -> Path:
    rows = [f"item-{k},cup {k},{'swap' if k % 3 else 'add'},{','.join(map(str, row))}" for k, row in enumerate(right)]
    path.write_text("\n".join([OUTCOMES, *rows]) + "\n")
    return path


def compared(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether image 0, image 1, text 0 and text 1 prefer their own: bool (item, 4)."""
    a, b, c, d = scores[:, 0, 0], scores[:, 0, 1], scores[:, 1, 0], scores[:, 1, 1]
    return np.stack([a > b, d > c, a > c, d > b], axis=1)


def test_a_file_of_outcomes_bounds_what_the_scores_show(made_set, tmp_path):
    scores = drawn(60)
    (exact,) = ta.why(scored(made_set(n=60), scores)).record.rows
    explained = ta.why(outcome_file(tmp_path / "clip.csv", compared(scores)), by="type")
    (row,) = explained.record.rows
    assert (row.model, row.scale, row.n, row.shares) == ("clip", "outcomes", 60, {})
    for (name, least, most), value in zip(row.bounds(), [*exact.reasons.values(), exact.match_score], strict=True):
        assert least.value <= value.value <= most.value, name
        assert (least.value == most.value) == (name in {"right", "caption_prior", "picture_prior"})
    assert row.match_score.value + row.at_most.reasons["no_match"].value == pytest.approx(1)
    assert row.by["type"]["swap"]["right"].n == 40
    assert explained["at_most"] == [most.value for _, _, most in row.bounds()]
    assert explained["high"][-1] == row.at_most.match_score.high


def test_a_run_with_outcomes_of_sides_and_no_scores_is_bounded():
    sample = Sample(id="a", cluster="a", outcomes={"i2t": 0.0, "image_score": 1.0})
    np.testing.assert_equal(read_comparisons(sample), (0.0, np.nan, 1.0, 1.0))
    assert read_comparisons(replace(sample, outcomes={"i2t": 0.0})) is None
    assert read_comparisons(replace(sample, outcomes={"i2t": 0.5, "t2i": 1.0})) is None  # a mean of people


def test_columns_and_values_that_are_no_outcomes_are_named(made_set, tmp_path):
    path, columns = tmp_path / "sugar.csv", OUTCOMES.removeprefix("id,caption,type,")
    for text, facts in (
        ("filename,caption,correct\na.jpg,a cup,1\n", (path, columns, "caption's prior alone")),
        (f"{OUTCOMES}\na,a cup,add,1,0,0.7,1\n", (f"{path}:2", "image_score_c0", "0.7", "1 if")),
        (f"{OUTCOMES}\na,a cup,add,1,0,1,1\na,a cup,add,1,0,1,1\n", (f"{path}:3", "'a'", "line 2")),  # joined twice
    ):
        path.write_text(text)
        with raises(RunError, *facts):
            ta.why(path)
    good = outcome_file(tmp_path / "clip.csv", compared(drawn(12)))
    with raises(RunError, "debias=8", str(good)):
        ta.why(good, debias=8)
    run = scored(made_set(), drawn(12))
    assert [row.scale for row in ta.why(run, good).record.rows] == ["similarity", "outcomes"]


def test_bivlcs_files_give_the_bounds_of_the_findings_page():
    folder = Path(__file__).parents[3] / "shared" / "data" / "bivlc"
    if not folder.is_dir():
        pytest.skip("BiVLC's files of outcomes are not here")
    (row,) = ta.why(folder / "BiVLC_ViT-B-32.csv").record.rows
    bounds = {name: (round(least.value, 3), round(most.value, 3)) for name, least, most in row.bounds()}
    assert (row.n, bounds["match_score"], bounds["right"]) == (2933, (0.792, 0.977), (0.491, 0.491))
    assert (bounds["picture_prior"], bounds["caption_prior"]) == ((0.268, 0.268), (0.033, 0.033))


def test_answers_alone_bound_what_probabilities_would_show():
    for said, may in {
        "yes no no yes": {Reason.RIGHT},
        "yes yes no yes": {*Reason},  # image a and question 1 of both: which of two yes is surer is not known
        "no yes yes no": {Reason.NO_MATCH},
        "yes no yes no": {Reason.PICTURE, Reason.BOTH, Reason.NO_MATCH},
    }.items():
        squares, _ = read_squares(four(said))
        row, outcome = measure_reasons("m", "b", BenchmarkResult.model_construct(kind=None), squares)
        assert outcome == []
        assert {reason for reason in Reason if row.at_most.reasons[reason].value} == may
        assert {reason for reason in Reason if row.reasons[reason].value} == (may if len(may) == 1 else set())


def test_whatever_scores_lie_beneath_outcomes_and_answers_their_reason_is_within_the_bounds():
    logits = drawn(3000, seed=3) - 0.5
    exact = np.array([[one is reason for one in reasons(logits)] for reason in Reason])
    yes = (logits > 0).astype(float)
    squares = [Sample(id=f"{k}", cluster=f"{k}", scores=tuple(map(tuple, of)), outcomes={}) for k, of in enumerate(yes)]
    row, _ = measure_reasons("m", "b", BenchmarkResult.model_construct(kind=None), squares)
    sure, may = reason_bounds(compared(logits).astype(float)).transpose(2, 0, 1)
    assert (sure <= exact).all() and (exact <= may).all()
    assert (sure.any(axis=0) == (may.sum(axis=0) == 1)).all()
    for (name, least, most), share in zip(row.bounds(), exact.mean(axis=1), strict=False):
        assert least.value <= share <= most.value, name
    assert row.reasons["right"].value == (yes == np.eye(2)).all(axis=(1, 2)).mean()  # g_acc


def test_one_choice_for_both_is_a_prior_above_the_match(made_set):
    scores = drawn(60)
    scores[0] = 0.5  # a tie is no choice
    (row,) = ta.why(scored(made_set(n=60, clusters=30), scores)).record.rows
    match, *priors = np.abs(contrasts(scores.astype(np.float32))).T
    for name, prior in zip(("same_caption", "same_picture"), priors, strict=True):
        bounds = interval_for(prior > match, [f"scene-{k % 30}" for k in range(60)], binary=True)
        value = row.collapse[name]
        expected = (np.mean(prior > match), bounds.low, bounds.high)
        assert (value.value, value.low, value.high) == pytest.approx(expected)
    # The same answer to both pictures is counted by question.
    square = Sample(id="a", cluster="a", scores=((1.0, 0.0), (1.0, 1.0)), outcomes={})
    squares, record = [square, replace(square, id="b", cluster="b")], BenchmarkResult.model_construct(kind=None)
    row, _ = measure_reasons("mine", "fours", record, squares)
    assert row.collapse["same_answer"].value == 0.5 and "same_caption" not in row.collapse


class Liking:
    """The demo encoder, and a liking for pictures that no caption has a part in."""

    name, fingerprint, kind = "liking", "liking-1", "similarity"

    def __init__(self) -> None:
        self.demo = find_model("demo-encoder")

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        liking = [[image.mean() * 1000 % 1] for image in images]
        return np.concatenate([self.demo.encode_images(images), np.array(liking, np.float32)], axis=1)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.concatenate([self.demo.encode_texts(texts), np.ones((len(texts), 1), np.float32)], axis=1)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self.demo.similarity(images[:, :-1], texts[:, :-1]) + images[:, -1:], np.float32)


@pytest.fixture
def liking(monkeypatch, tmp_path):
    monkeypatch.setitem(catalog._ADDED["model"], "liking", lambda _options: Liking())
    return ta.evaluate("liking", "demo", limit=60, out=tmp_path / "liking", cache=tmp_path / "cache")


def test_a_liking_for_pictures_is_subtracted_and_the_gain_is_that_of_the_demo_encoder(liking, tmp_path, capsys):
    explained = ta.why(liking, debias=30, cache=tmp_path / "cache")
    rows = {row.prior: row for row in explained.record.debiased}
    before = liking.value("group_score")
    assert before < 0.5 < ta.evaluate("demo-encoder", "demo", limit=60, cache=False).value("group_score") - 0.3
    pictures, captions = rows["pictures"], rows["captions"]
    assert pictures.group_score - before == pytest.approx(pictures.gain.value)
    assert pictures.group_score > 0.85 and pictures.gain.low > 0.2
    assert 0.7 < pictures.weights[0] < 1.5 and pictures.weights[1] == 0 == captions.weights[0]
    assert captions.gain.value < 0.1 and {row.unrelated for row in rows.values()} == {30}
    explained.show()
    assert "means of the pictures" in capsys.readouterr().out


def test_the_weights_of_an_item_are_those_of_the_other_folds():
    """Twelve items that their priors outweigh, and four that are right: none is served by the others' weight."""
    outweighed, right = [[0.9, 0.8], [0.3, 0.4]], [[0.9, 0.3], [0.3, 0.9]]
    scores = np.array([outweighed] * 12 + [right] * 4, np.float32)
    pictures = np.array([[0.85, 0.35]] * 12 + [[5.0, -5.0]] * 4)
    fold = np.array([0] * 12 + [1, 2, 3, 4])
    after, (weight, captions) = _subtract(scores, pictures, np.zeros((16, 2)), fold)["pictures"]
    assert not after.any() and captions == 0
    assert weight == pytest.approx((0 + 4 * 0.9) / 5)  # 0.9 is the least of use to the twelve
    every, _ = _subtract(scores, pictures, np.zeros((16, 2)), np.arange(16) % 4)["pictures"]
    assert every.tolist() == [True] * 12 + [False] * 4


def test_what_is_drawn_is_of_other_clusters_and_does_not_depend_on_the_order_of_items():
    entries = [("a", "b"), ("b", "c"), ("d", "e"), ("a", "f")]
    clusters = ["x", "x", "y", "z"]
    rows = _draw(entries, clusters, 9, 0)
    assert {len(row) for row in rows} == {3}
    assert [set(row) for row in rows[:2]] == [{"d", "e", "f"}] * 2  # a is their cluster's caption, too
    assert sorted(_draw([*entries, ("d", "f")], [*clusters, "w"], 9, 0)[0]) == ["d", "e", "f"]  # once, of two clusters
    assert not set(rows[2]) & {"d", "e"} and not set(rows[3]) & {"a", "f"}
    assert _draw(entries[::-1], clusters[::-1], 2, 0) == _draw(entries, clusters, 2, 0)[::-1]


def test_scores_that_cannot_be_had_again_are_refused(liking, monkeypatch, made_set, tmp_path):
    monkeypatch.setattr(Liking, "fingerprint", "liking-2")
    with raises(RunError, "debias=8", "liking", "liking-1", "liking-2"):
        ta.why(liking, debias=8, cache=False)
    with raises(RunError, "debias=8", "oracle", "whole items"):
        ta.why(ta.evaluate("oracle", "demo", limit=9, cache=False), debias=8, cache=False)
    numbers = np.random.default_rng(0).random((400, 2, 2))
    with raises(RunError, "debias=8", "mine", "demo", "file"):
        ta.why(ta.score("demo", numbers, name="mine"), debias=8, cache=False)
    lone = ta.evaluate("random", f"folder:{made_set('lone', n=2, clusters=1)}", out=tmp_path / "of-lone", cache=False)
    with raises(RunError, "debias=8", "no unrelated texts"):
        ta.why(lone, debias=8, cache=False)
    folder = made_set()
    run = ta.evaluate("random", f"folder:{folder}", out=tmp_path / "run", cache=False)
    (folder / "pairs.jsonl").unlink()
    with raises(DataError, "set", "pairs.jsonl"):
        ta.why(run, debias=8, cache=False)


@pytest.mark.usefixtures("installed")
def test_a_model_of_probabilities_that_reads_pairs_has_priors_of_their_logits(made_set, tmp_path):
    folder = made_set(n=12, clusters=4)  # fewer clusters than folds
    run = ta.evaluate("probable", f"folder:{folder}", out=tmp_path / "run", cache=False)
    rows = ta.why(run, debias=50, cache=False).record.debiased
    assert [row.prior for row in rows] == ["pictures", "captions", "both"]
    for row in rows:
        assert row.group_score - row.gain.value == pytest.approx(run.value("group_score"))
        assert row.unrelated == 18  # nine items of other clusters, two pictures each
