"""What the documents say of systems that do not look is what the annotation files give when it is measured again."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from published import published
from scripts import import_document
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import BoxSet, CaptionSet, QuestionSet, Record, RetrievalSet
from tellapart.metrics.retrieval import Ranks, scores_both_ways
from tellapart.models.reference import BagOfWords

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
WHOLE: dict[str, Any] = json.loads((ROOT / "docs" / "baselines.json").read_text(encoding="utf-8"))
WRITTEN: dict[str, Any] = WHOLE["tasks"]["benchmarks"]
baselines = import_document("task_baselines")
MEASURED = [name for name, record in WRITTEN.items() if "systems" in record]


def read_published(*parts: str):
    return json.loads(published(*parts).read_text(encoding="utf-8"))


def value(benchmark: str, system: str, metric: str) -> float:
    return float(WRITTEN[benchmark]["systems"][system]["metrics"][metric]["value"])


def test_every_benchmark_of_a_task_has_its_systems_or_a_reason():
    tasks = {one.name: one.task for one in map(find_benchmark, BENCHMARKS) if one.task != "pairs"}
    assert set(WRITTEN) == set(tasks)
    for name, record in WRITTEN.items():
        assert ("systems" in record) != ("not_measured" in record), name
        if "systems" in record:
            assert list(record["systems"]) == [system.name for system in baselines.SYSTEMS[tasks[name]]]


def test_texts_in_an_order_are_blindly_in_it_if_they_grow():
    texts = ("one", "one two", "one two three")
    items = tuple(Item(id=str(k), images=("a.png",), texts=each) for k, each in enumerate((texts, texts[::-1])))
    system = baselines.SYSTEMS["ordered-texts"][0]
    found, _words = baselines.found_by("ordered-texts", system, PairSet("x", items, root=Path()))
    assert [one.strict.tolist() for one in found] == [[1.0, 0.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED[::2])
def test_measured_again_the_systems_get_what_is_written_down(name):
    if not DATA.is_dir():
        pytest.skip("the published files are not beside this checkout")
    one = next(one for one in baselines.task_benchmarks(DATA) if one.name == name)
    if one.missing():
        pytest.skip(f"the published files of {name} are not beside this checkout")
    assert json.loads(json.dumps(baselines.baselines_of(one))) == WRITTEN[name]


def test_without_files_the_reason_names_them(tmp_path):
    (tmp_path / "vlue").mkdir()
    one = next(one for one in baselines.task_benchmarks(tmp_path) if one.name == "vlue-nlvr2")
    reason = "missing: nlvr2_vlue_test.json, from https://github.com/MichaelZhouwang/VLUE"
    assert baselines.baselines_of(one) == {"not_measured": reason}


def test_counted_from_the_file_the_more_frequent_label_is_right_as_often_as_written():
    rows = read_published("vlue", "nlvr2_vlue_test.json")
    label, count = Counter(row["label"] for row in rows).most_common(1)[0]
    assert WRITTEN["vlue-nlvr2"]["systems"]["more-frequent-label"]["says"] == f"`{label}`"
    assert value("vlue-nlvr2", "more-frequent-label", "accuracy") == pytest.approx(count / len(rows), abs=1e-9)
    assert value("vlue-nlvr2", "more-frequent-label", "consistency_both_labels") == 0


def test_counted_from_the_file_the_most_frequent_answers_are_right_as_often_as_written():
    rows = read_published("vlue", "vqa_vlue_test.json")
    by_start: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_start[tuple(row["question"].lower().split()[:2])][row["answer"].strip()] += 1
    overall = max(sum(by_start.values(), Counter()).values())
    by_two = sum(max(answers.values()) for answers in by_start.values())
    for system, count in (("most-frequent-answer", overall), ("most-frequent-answer-by-two-words", by_two)):
        assert value("vlue-vqa", system, "exact_match") == pytest.approx(count / len(rows), abs=1e-9)
        assert value("vlue-vqa", system, "pair_accuracy") == 0


@pytest.mark.parametrize("split", ["val", "test"])
def test_counted_from_the_file_the_middle_of_the_video_is_near_as_often_as_written(split):
    near, total = 0, 0
    for rows in read_published("gebplus", f"{split}.json").values():
        middle = max(row["next_timestamp"] for row in rows) / 2
        for row in rows:
            same = [one["timestamp"] for one in rows if one["caption"] == row["caption"]]
            near += min(abs(time - middle) for time in same) < 1.0
            total += 1
    assert value(f"gebc-{split}", "middle", "boundary_accuracy@1.0") == pytest.approx(near / total, abs=1e-9)


def test_whoever_takes_the_first_place_is_never_right_in_both_orders_and_blind_gets_what_it_gets_on_pairs():
    assert value("sugarcrepe-choice", "first-place", "both_orders") == 0
    assert value("sugarcrepe-choice", "first-place", "order_bias") == 1
    blind = WHOLE["benchmarks"]["sugarcrepe"]["models"]["blind"]["choice_score"]["value"]
    assert value("sugarcrepe-choice", "shorter-caption", "both_orders") == pytest.approx(blind, abs=1e-6)


def test_ties_broken_at_random_give_a_constant_model_the_recall_of_chance():
    for name in MEASURED:
        if constant := WRITTEN[name]["systems"].get("constant"):
            for metric, chance in WRITTEN[name]["chance"].items():
                if metric in ("pairwise_accuracy", "kendall_tau_b", "spearman_rho", "pearson_r"):
                    # It ties all pairs, as people tie some; or it agrees with no order.
                    assert 0 <= constant["metrics"][metric]["value"] <= chance
                    continue
                assert constant["metrics"][metric]["value"] == 0
                assert constant["metrics"][metric]["tie_neutral"] == pytest.approx(chance, abs=2e-9)


def counts(ranks: Ranks) -> list[list[int]]:
    return [ranks.above.tolist(), ranks.tied.tolist(), ranks.true_tied.tolist()]


WORDS = st.lists(st.sampled_from(["a", "A", "cat", "dog,", "runs"]), min_size=1, max_size=3).map(" ".join)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=1, max_size=5))
def test_counted_ranks_are_those_of_the_matrix_of_scores(captions):
    gallery = RetrievalSet.of("g", [f"{k}.png" for k in range(len(captions))], captions)
    flat, n = gallery.captions, len(gallery.captions)
    item = Item(id="all", images=tuple(f"{k}.png" for k in range(n)), texts=flat)
    shares = BagOfWords().score_item(item)  # caption by caption
    best = np.array([np.maximum.reduce(shares[[c for i, c in gallery.pairs if i == k]]) for k in range(len(captions))])
    for system, scores in ((baselines.words_of_captions, best), (baselines.same_score, np.zeros_like(best))):
        counted, ranked = system(gallery)[0], scores_both_ways(scores, gallery.pairs)
        assert counts(counted.image_to_text) == counts(ranked.image_to_text)
        assert counts(counted.text_to_image) == counts(ranked.text_to_image)


def test_the_whole_image_and_its_centre_overlap_a_gold_box_as_their_areas_say():
    gold = (0.0, 0.0, 100.0, 50.0), (25.0, 25.0, 50.0, 50.0), (0.0, 0.0, 10.0, 10.0)
    size = {"size": (100, 100)}
    records = BoxSet("b", tuple(Record(str(k), (f"{k}.png",), ("it",), box, facts=size) for k, box in enumerate(gold)))
    whole, centre = (baselines.measured("grounding", one, records)["metrics"] for one in baselines.SYSTEMS["grounding"])
    # The centre is 50 by 50 in the middle: 25 of the first box's 50 rows, the second itself, nothing of the third.
    assert whole["box_accuracy"]["value"] == pytest.approx(1 / 3)
    assert whole["mean_iou"]["value"] == pytest.approx((0.5 + 0.25 + 0.01) / 3)
    assert centre["box_accuracy"]["value"] == pytest.approx(1 / 3)
    assert centre["mean_iou"]["value"] == pytest.approx((1250 / 6250 + 1) / 3)


def test_answers_of_several_people_are_all_counted():
    asked = [("Is it red?", ["no"] * 10), ("Is it big?", ["yes"] * 4 + ["no"] * 6), ("What now?", ["tea"] * 10)]
    rows = tuple(Record(str(k), ("a.png",), (question,), tuple(said)) for k, (question, said) in enumerate(asked))
    one, two = baselines.SYSTEMS["vqa2"]
    assert one.says(QuestionSet("v", rows))[0] == ["no", "no", "no"]
    assert two.says(QuestionSet("v", rows))[0] == ["no", "no", "tea"]
    found = baselines.measured("vqa2", two, QuestionSet("v", rows))
    assert found["says"] == "2 beginnings, 1 of them of a single question"
    assert found["metrics"]["soft_accuracy"]["value"] == 1


def test_the_most_frequent_and_the_nearest_are_taken_by_alphabet_and_rarer_words():
    assert baselines.most_frequent(["b", "a", "c", "b", "a"]) == "a"
    references = (("a a a a", "red cup"), ("a red cup", "a a a a"), ("a dog runs",), ("a boat",))
    of_each = zip("1234", "abcd", references, strict=True)
    records = CaptionSet("c", tuple(Record(name, (image,), (), texts) for name, image, texts in of_each))
    assert baselines.nearest_caption(records)[0] == ["a red cup"] * 4  # "a" is of every image, and weighs nothing
    assert baselines.most_frequent_caption(records)[0] == ["a a a a"] * 4


@pytest.mark.slow
def test_measuring_a_benchmark_again_keeps_what_was_measured_of_the_others(tmp_path, monkeypatch):
    module, copy = import_document("baselines"), tmp_path / "baselines.json"
    copy.write_text(json.dumps(WHOLE), encoding="utf-8")
    monkeypatch.setattr(module, "BASELINES", copy)
    module.main(tmp_path, only=["demo"])
    again = json.loads(copy.read_text(encoding="utf-8"))
    assert again["tasks"] == WHOLE["tasks"]
    assert again["benchmarks"]["sugarcrepe"] == WHOLE["benchmarks"]["sugarcrepe"]
    assert again["models"] == ["blind", "bag-of-words"]
