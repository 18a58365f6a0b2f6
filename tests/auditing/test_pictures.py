"""Duplicates, leaks and changes that were planted are found, and nothing else."""

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import raises
from tellapart.auditing import pictures
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.finding import Finding
from tellapart.errors import DataError

Pixels = NDArray[np.uint8]


def patched(picture: Pixels, size: int = 10, at: tuple[int, int] = (20, 30)) -> Pixels:
    """The picture with a square in it that differs by at least 100 levels everywhere."""
    changed = picture.copy()
    rows, columns = slice(at[1], at[1] + size), slice(at[0], at[0] + size)
    changed[rows, columns] = np.where(picture[rows, columns] < 128, 255, 0)
    return changed


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


@pytest.mark.slow
def test_a_clean_set_of_minimal_pairs_passes_every_check(pictured, blots):
    # Which picture is the changed one, and which caption says so, is as good as tossed: else the order tells them
    # apart.
    turned = np.random.default_rng(0).random(30) < 0.5
    rows = [(blots(k), patched(blots(k)))[:: -1 if turned[k] else 1] for k in range(30)]
    texts = [(f"blots {k}", f"patched {k}")[:: -1 if turned[k] else 1] for k in range(30)]
    pairs = pictured(rows, texts=texts)
    record = audit(pairs)
    assert [finding.name for finding in record.warnings] == []
    assert (record.images, record.items, record.clusters) == (60, 30, 30)
    assert record.fingerprint == pairs.fingerprint()


def test_planted_duplicates_are_named(pictured, blots):
    rows = [[blots(2 * k), blots(2 * k + 1)] for k in range(6)]
    rows[1] = [rows[1][0], rows[1][0]]  # twice in an item
    rows[3] = [rows[2][0], rows[2][1]]  # the whole item again
    rows[5][1] = rows[4][1]  # one picture of another cluster
    texts = [(f"a {k}", f"b {k}") for k in range(6)]
    texts[3] = texts[2][::-1]
    pairs = pictured(rows, texts=texts, clusters=["0", "1", "2", "2", "4", "5"])
    findings = by_name(pictures.picture_duplicates(pairs, pictures.scan_images(pairs)))
    assert findings["images: twice in an item"].items == ("item-1",)
    assert findings["items: twice"].items == ("item-2", "item-3")
    assert findings["images: shared"].items == ("item-4", "item-5")  # 2 and 3 are one cluster
    assert findings["images: near-duplicates"].items == ()
    assert {each.verdict for each in findings.values()} == {"warn", "pass"}


def test_a_look_alike_in_another_cluster_is_a_near_duplicate_and_one_in_the_same_is_not(pictured, blots):
    brighter = np.clip(blots(0).astype(np.int16) + 3, 0, 255).astype(np.uint8)
    rows = [[blots(0), blots(1)], [brighter, blots(2)], [blots(3), blots(4)]]
    pairs = pictured(rows)
    near = by_name(pictures.picture_duplicates(pairs, pictures.scan_images(pairs)))["images: near-duplicates"]
    assert (near.items, near.verdict) == (("item-0", "item-1"), "warn")
    pairs = pictured(rows, clusters=["a", "a", "b"], name="clustered")
    near = by_name(pictures.picture_duplicates(pairs, pictures.scan_images(pairs)))["images: near-duplicates"]
    assert (near.items, near.verdict) == ((), "pass")


def test_pictures_and_captions_that_two_sets_share_are_a_leak(pictured, blots):
    softer = np.clip(blots(6).astype(np.int16) - 3, 0, 255).astype(np.uint8)
    ours = pictured([[blots(2 * k), blots(2 * k + 1)] for k in range(4)], name="ours")
    texts = [("A  trained caption", "b"), ("c", "d"), ("One ours 3", "e")]
    theirs = pictured([[blots(50), blots(1)], [blots(51), softer], [blots(52), blots(53)]], texts=texts, name="theirs")
    exact, alike = pictures.picture_leak(ours, pictures.scan_images(ours), theirs, pictures.scan_images(theirs))
    assert (exact.items, exact.verdict) == (("item-0",), "warn")
    assert (alike.items, alike.verdict) == (("item-3",), "warn")
    assert pictures.caption_leak(ours, theirs).items == ("item-3",)
    record = audit(ours, Options(against=theirs))
    assert record.against == "theirs"
    assert {"leak: images", "leak: near-duplicates", "leak: captions"} <= {each.name for each in record.warnings}
    assert "leak" not in [each.name for each in record.not_done]


def test_a_change_is_measured_to_the_pixel(blots):
    picture = blots(0)
    change = pictures.change_of([picture, patched(picture, 16, (32, 8))])
    assert change.share == 16 * 16 / 64**2
    assert change.box == (32 / 64, 8 / 64, 48 / 64, 24 / 64)
    assert change.box_share == change.share
    assert change.centre == (40 / 64, 16 / 64)
    assert pictures.changes_by_field([change, change]) == [[0, 2, 0], [0, 0, 0], [0, 0, 0]]


def test_noise_below_the_level_is_no_change(blots):
    grey = np.full((20, 20, 3), 100, np.uint8)
    assert pictures.change_of([grey, grey + np.uint8(pictures.LEVEL)]) == pictures.Change(
        share=0.0, mean_absolute=float(pictures.LEVEL)
    )
    assert pictures.change_of([grey, grey + np.uint8(pictures.LEVEL + 1)]).share == 1.0


def test_of_several_pictures_the_largest_change_counts(blots):
    picture = blots(0)
    change = pictures.change_of([picture, picture, patched(picture, 8), patched(picture, 4)])
    assert change.share == 64 / 64**2


def test_a_pair_that_is_not_minimal_and_one_that_cannot_be_seen_are_named(pictured, blots):
    rows = [[blots(k), patched(blots(k))] for k in range(10)]
    rows[4] = [blots(4), blots(99)]
    rows[6] = [blots(6), blots(6, 32)]
    rows[7] = [blots(7), patched(blots(7), 1)]
    pairs = pictured(rows)
    scan = pictures.scan_images(pairs)
    findings = by_name(pictures.change_findings(scan.changes, pairs))
    large = findings["change: not minimal"]
    assert (large.items, large.value, large.verdict) == (("item-4", "item-6"), 0.2, "warn")
    assert "1 items have pictures of different sizes" in large.says
    assert (findings["change: hardly seen"].items, findings["change: hardly seen"].verdict) == (("item-7",), "warn")
    assert findings["change: share"].items[0] == "item-4"
    assert findings["change: share"].n == 9


def test_items_of_one_picture_change_nothing(pictured, blots):
    record = audit(pictured([[blots(k)] for k in range(3)]))
    assert record.changes == []
    assert "change" in [each.name for each in record.not_done]


def test_a_picture_that_cannot_be_decoded_is_an_error_that_names_its_place(pictured, blots):
    pairs = pictured([[blots(0), b"no picture"]])
    with raises(DataError, "pairs.jsonl:1", "'images[1]'"):
        audit(pairs)
