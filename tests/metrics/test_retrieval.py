"""Retrieval, classes and labels: ranks equal their definitions, ties never help, and nothing depends on blocks."""

import itertools
import subprocess
import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score
from sklearn.metrics.pairwise import cosine_similarity

from tellapart.metrics import classification, retrieval
from tellapart.metrics import retrieval as module
from tellapart.metrics.average_precision import average_precision
from tellapart.metrics.classification import class_recall_table, rank_labels
from tellapart.metrics.retrieval import (
    DEPTH,
    Ranks,
    Retrieval,
    TopEntries,
    chance_recall,
    cosines,
    embeddings_both_ways,
    grid_vectors,
    merge_top_entries,
    scores_both_ways,
    top_entries,
    unavoidable_misses,
)
from tellapart.stats.combined import MeanOfGroups


@st.composite
def galleries(draw: st.DrawFn, levels: int = 3) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
    """A small gallery with many ties, several captions an image, and now and then several images a caption."""
    images, captions = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    cell = st.integers(0, levels - 1)
    scores = draw(st.lists(st.lists(cell, min_size=captions, max_size=captions), min_size=images, max_size=images))
    links = {(draw(st.integers(0, images - 1)), caption) for caption in range(captions)}
    links |= {(image, draw(st.integers(0, captions - 1))) for image in range(images)}
    return np.array(scores, np.float32), draw(st.permutations(sorted(links)))


def places(row: NDArray[Any], true: set[int]) -> list[int]:
    """The place of the first true entry in each order of the gallery that the scores allow, all equally likely."""
    found = []
    for tie_break in permutations(range(len(row))):
        order = sorted(range(len(row)), key=lambda e: (-row[e], tie_break[e]))
        found.append(1 + next(place for place, entry in enumerate(order) if entry in true))
    return found


@settings(max_examples=60)
@given(galleries())
def test_ranks_are_those_of_all_orders_and_strict_ones_count_ties_before_the_true_entry(case):
    scores, pairs = case
    found = scores_both_ways(scores, pairs)
    for ranks, rows, side in ((found.image_to_text, scores, 0), (found.text_to_image, scores.T, 1)):
        for query, row in enumerate(rows):
            true = [pair[1 - side] for pair in pairs if pair[side] == query]
            false = [entry for entry in range(len(row)) if entry not in true]
            best, orders = max(row[true]), places(row, {*true})
            assert ranks.rank[query] == 1 + sum(row[false] >= best) >= max(orders)
            assert ranks.above[query] == sum(row[false] > best)
            assert ranks.true_tied[query] == sum(row[true] == best)
            for k in (1, 2, 3, 5):
                expected = np.mean([place <= k for place in orders])
                assert ranks.tie_neutral_recall(k)[query] == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert all((ranks.recall(k) <= ranks.tie_neutral_recall(k) + 1e-15).all() for k in (1, 2, 3, 5))


@settings(max_examples=40)
@given(galleries(), st.integers(1, 7))
def test_neither_blocks_nor_order_nor_direction_change_a_rank(case, block):
    scores, pairs = case
    whole = scores_both_ways(scores, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "_BLOCK", block)
        assert_equal(whole, scores_both_ways(scores, pairs))
    turned = scores_both_ways(scores.T, [(caption, image) for image, caption in pairs])
    assert_equal(whole, Retrieval(turned.text_to_image, turned.image_to_text))
    rows, columns = np.arange(len(scores))[::-1], np.roll(np.arange(scores.shape[1]), 1)
    moved = [(int(np.argmax(rows == image)), int(np.argmax(columns == caption))) for image, caption in pairs]
    shuffled = scores_both_ways(scores[rows][:, columns], moved)
    np.testing.assert_array_equal(shuffled.image_to_text.rank, whole.image_to_text.rank[rows])
    np.testing.assert_array_equal(shuffled.text_to_image.rank, whole.text_to_image.rank[columns])


def assert_equal(a: Retrieval, b: Retrieval) -> None:
    for one, other in ((a.image_to_text, b.image_to_text), (a.text_to_image, b.text_to_image)):
        for field in ("above", "tied", "true_tied"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_the_mean_recall_is_over_1_5_and_10_both_ways_and_a_place_among_three_is_a_third():
    rng = np.random.default_rng(4)
    found = scores_both_ways(rng.random((40, 40)), [(k, k) for k in range(40)])
    six = [ranks.recall(k).mean() for ranks in (found.image_to_text, found.text_to_image) for k in (1, 5, 10)]
    assert found.mean_recall() not in [found.mean_recall(ks) for ks in ((1, 6, 10), (1, 5, 11), (2, 5, 10))]
    assert found.mean_recall() == pytest.approx(np.mean(six), abs=1e-15)
    assert Ranks(np.array([0]), np.array([2]), np.array([1])).tie_neutral_recall(1)[0] == 1 / 3


@pytest.mark.parametrize(("true", "gallery"), [(1, 6), (2, 6), (3, 5), (4, 4)])
def test_the_chance_recall_is_that_of_all_orders_and_of_a_constant_model(true, gallery):
    drawn = list(permutations(range(gallery)))
    for k in range(1, gallery + 2):
        expected = sum(min(order[:true]) < k for order in drawn) / len(drawn)
        assert chance_recall([true], gallery, k)[0] == pytest.approx(expected, abs=1e-12)
        tied = Ranks(np.array([0]), np.array([gallery - true]), np.array([true]))
        assert tied.tie_neutral_recall(k)[0] == pytest.approx(expected, abs=1e-12)


def unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    exact = vectors.astype(np.float64)
    return exact / np.linalg.norm(exact, axis=1, keepdims=True)


def test_embeddings_rank_as_their_cosines_do_and_dot_products_on_the_grid_are_exact():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((60, 32)).astype(np.float32)
    captions = (np.repeat(images, 3, axis=0) + 2 * rng.standard_normal((180, 32))).astype(np.float32)
    pairs = [(k // 3, k) for k in range(180)]
    assert_equal(
        embeddings_both_ways(images, captions, pairs), scores_both_ways(unit(images) @ unit(captions).T, pairs)
    )
    rng = np.random.default_rng(2)
    rows = grid_vectors(rng.standard_normal((4, 768)).astype(np.float32), "images")
    for a, b in permutations(range(4), 2):
        exact = sum(int(x * 2**26) * int(y * 2**26) for x, y in zip(rows[a], rows[b], strict=True))
        assert (rows[a] @ rows[b]) * 2.0**52 == exact
        assert (rows[a][::-1] @ rows[b][::-1]) * 2.0**52 == exact


def test_equal_images_tie_exactly_wherever_they_stand_and_however_the_work_is_cut(monkeypatch):
    rng = np.random.default_rng(1)
    distinct = rng.standard_normal((37, 512)).astype(np.float32)
    images = np.concatenate([distinct, distinct * np.float32(4)])  # a twin far away; scaling by 4 is exact
    captions = (images + rng.standard_normal(images.shape) * 0.5).astype(np.float32)
    pairs = [(k, k) for k in range(len(images))]
    whole = embeddings_both_ways(images, captions, pairs)
    assert (whole.text_to_image.tied == 1).all()
    assert (whole.text_to_image.rank >= 2).all()
    for block in (1, 7 * 512, 1 << 20):
        monkeypatch.setattr(retrieval, "_BLOCK", block)
        assert_equal(whole, embeddings_both_ways(images, captions, pairs))
    order = rng.permutation(len(images))
    moved = embeddings_both_ways(images[order], captions[order], pairs)
    np.testing.assert_array_equal(moved.text_to_image.rank, whole.text_to_image.rank[order])


LARGE = """
import tracemalloc, numpy as np
tracemalloc.start()  # numpy's arrays count; what the parent of this process once held does not
from tellapart.metrics.retrieval import embeddings_both_ways
rng = np.random.default_rng(0)
images = rng.standard_normal((5000, 64), dtype=np.float32)
captions = np.repeat(images, 5, axis=0) + 3 * rng.standard_normal((25000, 64), dtype=np.float32)
found = embeddings_both_ways(images, captions, np.stack([np.arange(25000) // 5, np.arange(25000)], 1))
assert 0.01 < found.mean_recall() < 0.99
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
def test_five_thousand_images_by_25000_captions_take_little_memory():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert 10e6 < int(done.stdout) < 250e6  # the matrix of scores alone would be 500 MB


def sorted_first(scores: np.ndarray) -> list[list[int]]:
    return np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH].tolist()


def tied_scores(seed: int, rows: int, columns: int) -> np.ndarray:
    """Scores of four values only, so that most are tied."""
    return np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(np.float32) / 3


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12), st.integers(1, 12))
def test_parts_put_together_are_what_a_stable_sort_of_the_whole_gives(seed, rows, columns, width):
    scores = tied_scores(seed, rows, columns)
    found: TopEntries | None = None
    for start in range(0, columns, width):
        found = merge_top_entries(found, top_entries(scores[:, start : start + width], start=start))
    assert found.entry.tolist() == sorted_first(scores)
    assert (found.score == np.take_along_axis(scores, found.entry, axis=1)).all()


def by_scores(rows: int, columns: int) -> tuple[Retrieval, np.ndarray]:
    scores = tied_scores(0, rows, columns)
    return scores_both_ways(scores, [(k % rows, k) for k in range(columns)]), scores


def by_embeddings(rows: int, columns: int) -> tuple[Retrieval, np.ndarray]:
    axes = np.eye(4, dtype=np.float32)
    images, captions = axes[np.arange(rows) % 3], axes[np.arange(columns) % 4]
    return embeddings_both_ways(images, captions, [(k % rows, k) for k in range(columns)]), images @ captions.T


@pytest.mark.parametrize("ranked", [by_scores, by_embeddings])
@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_both_directions_keep_their_first_whatever_the_block(ranked, block, monkeypatch):
    monkeypatch.setattr(retrieval, "_BLOCK", block)
    found, scores = ranked(7, 16)
    before = scores.copy()
    for ranks, own in ((found.image_to_text, scores), (found.text_to_image, scores.T)):
        assert ranks.first.entry.tolist() == sorted_first(own)
    assert (scores == before).all()


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_every_pair_has_the_bits_it_has_alone(block, monkeypatch):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(37, 129)).astype(np.float32), rng.normal(size=(23, 129)).astype(np.float32)
    left[20] = left[3] * 2  # the same direction
    monkeypatch.setattr(module, "_PRODUCTS_AT_ONCE", block)
    found = cosines(left, right)
    alone = np.array([[cosines(a[None], b[None])[0, 0] for b in right] for a in left])
    assert np.array_equal(found, alone)
    assert np.array_equal(found[20], found[3])
    assert np.array_equal(cosines(right, left).T, found)
    assert found == pytest.approx(cosine_similarity(left.astype(np.float64), right), abs=1e-7)


@settings(max_examples=150)
@given(st.data())
def test_no_model_of_content_misses_less(data):
    owners = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    present = sorted(set(owners))
    pairs = [(present.index(owner), caption) for caption, owner in enumerate(owners)]
    images = [data.draw(st.sampled_from("ab")) for _ in present]
    captions = [data.draw(st.sampled_from("xyz")) for _ in owners]
    k = data.draw(st.integers(1, 3))
    level = {(i, c): data.draw(st.integers(0, 4)) for i in "ab" for c in "xyz"}
    found = scores_both_ways([[level[i, c] for c in captions] for i in images], pairs)
    to_text, to_image = unavoidable_misses(images, captions, pairs, k)
    assert (found.image_to_text.recall(k) == 0).sum() >= to_text
    assert (found.text_to_image.recall(k) == 0).sum() >= to_image


@pytest.mark.parametrize(
    ("images", "captions", "pairs", "k", "expected"),
    [
        (["a", "b"], ["x", "y"], [(0, 0), (1, 1)], 1, (0, 0)),
        (["a", "a"], ["x", "y"], [(0, 0), (1, 1)], 1, (1, 2)),
        (["a", "a"], ["x", "y"], [(0, 0), (1, 1)], 2, (0, 0)),
        (["a", "b"], ["x", "x"], [(0, 0), (1, 1)], 1, (2, 1)),
        (["a", "a", "a"], ["x", "y", "z"], [(0, 0), (1, 1), (2, 2)], 2, (1, 3)),
        (["a", "a"], ["x", "y", "x"], [(0, 0), (0, 1), (1, 2)], 1, (1, 3)),
        (["a", "a"], ["x", "y", "z"], [(0, 0), (0, 1), (1, 1), (1, 2)], 1, (0, 2)),  # y is true of both
    ],
)
def test_small_galleries_have_the_bound_that_all_orders_attain(images, captions, pairs, k, expected):
    assert unavoidable_misses(images, captions, pairs, k) == expected
    cells = [(i, c) for i in sorted(set(images)) for c in sorted(set(captions))]
    fewest = [len(images) + 1, len(captions) + 1]
    for order in permutations(range(len(cells))):
        level = dict(zip(cells, order, strict=True))
        found = scores_both_ways(np.array([[level[i, c] for c in captions] for i in images]), pairs)
        for side, ranks in enumerate((found.image_to_text, found.text_to_image)):
            fewest[side] = min(fewest[side], int((ranks.recall(k) == 0).sum()))
    assert tuple(fewest) == expected


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores of few levels, so that ties are frequent, and labels."""
    classes, pictures = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    scores = draw(st.lists(st.integers(-1, 1), min_size=classes * pictures, max_size=classes * pictures))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=pictures, max_size=pictures))
    return np.array(scores, np.float32).reshape(pictures, classes), np.array(labels)


@given(tables())
def test_ranks_of_labels_are_the_worst_and_mean_of_all_orders_and_a_tied_class_is_unnamed(table):
    scores, labels = table
    found = rank_labels(scores, labels)
    for row, (values, label) in enumerate(zip(scores, labels, strict=True)):
        for k in (1, 2, 5):
            hits = [
                label in sorted(range(len(values)), key=lambda c: (-values[c], order[c]))[:k]
                for order in permutations(range(len(values)))
            ]
            assert found.ranks.recall(k)[row] == min(hits)
            assert found.ranks.tie_neutral_recall(k)[row] == pytest.approx(np.mean(hits))
        best = np.flatnonzero(values == values.max())
        assert found.first[row] == (best[0] if len(best) == 1 else -1)


def test_without_ties_the_numbers_are_scikit_learns_and_means_over_classes_are_of_each_resample():
    rng = np.random.default_rng(0)
    labels = rng.choice(8, 300, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.04, 0.01])
    scores = rng.normal(size=(300, 8)) + np.eye(8)[labels]
    found = rank_labels(scores, labels)
    for k in (1, 5):
        assert found.ranks.recall(k).mean() == pytest.approx(top_k_accuracy_score(labels, scores, k=k))
    recalls = class_recall_table(found.ranks.recall(1), labels, 8)
    assert MeanOfGroups(recalls.shape[-1] // 2)(recalls.mean(axis=0)) == pytest.approx(
        balanced_accuracy_score(labels, found.first)
    )
    table = class_recall_table(np.array([1.0, 0.0]), np.array([1, 1]), 3)
    assert table.shape == (2, 2)
    assert MeanOfGroups(table.shape[-1] // 2)(table.mean(axis=0)) == 0.5
    # Three resamples of two classes: sums of outcomes, then shares of pictures; the last drew none of the second class.
    means = np.array([[0.4, 0.2, 0.5, 0.5], [0.25, 0.0, 0.25, 0.75], [0.5, 0.0, 1.0, 0.0]])
    assert MeanOfGroups(means.shape[-1] // 2)(means).tolist() == pytest.approx([(0.8 + 0.4) / 2, (1.0 + 0.0) / 2, 0.5])
    found = rank_labels(np.array([[1.0, 1.0 + 1e-12]]), [1])
    assert (found.first.tolist(), found.ranks.tie_neutral_recall(1).tolist()) == ([-1], [0.5])


def test_a_result_depends_on_neither_the_block_nor_the_order(monkeypatch):
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 4, (50, 6)).astype(np.float32), rng.integers(0, 6, 50)
    whole = rank_labels(scores, labels)
    order = rng.permutation(50)
    monkeypatch.setattr(classification, "_BLOCK", 20)
    blocks = rank_labels(scores[order], labels[order])
    assert np.array_equal(blocks.ranks.rank, whole.ranks.rank[order])
    assert np.array_equal(blocks.first, whole.first[order])


# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("levels", [3, 1000])
def test_it_is_the_librarys_over_the_hard_images(levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, (60, 9)) / levels
    labels, hard = rng.random((60, 9)) < 0.3, rng.random((60, 9)) < 0.6
    for k in range(9):
        kept = hard[:, k]
        found = average_precision(scores[kept, k], labels[kept, k]).official
        assert found == pytest.approx(metrics.average_precision_score(labels[kept, k], scores[kept, k].astype("f4")))


@pytest.mark.parametrize("right", [[1, 1, 0, 0, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 0]])
def test_ties_broken_at_random_give_the_mean_over_all_orders(right):
    levels = np.array([1, 2, 2, 2, 3])
    orders = [levels + 0.1 * np.array([0, *order, 0]) for order in itertools.permutations((1, 2, 3))]
    exact = [metrics.average_precision_score(right, order) for order in orders]
    found = average_precision(levels, np.array(right, bool))
    assert (found.neutral, found.strict) == pytest.approx((np.mean(exact), min(exact)))
