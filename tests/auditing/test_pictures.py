"""Duplicates, leaks and changes of pictures and films that were planted are found, and nothing else."""

import io
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import tellapart as ta
from facts import raises
from pictures import encoded, film
from sets import put
from tellapart import PairSet
from tellapart.auditing import pictures
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.finding import Finding
from tellapart.auditing.origin import FILE_STATISTICS, file_statistics, pixel_statistics
from tellapart.auditing.pictures import scan_images
from tellapart.data.folder import read_pair_set
from tellapart.data.perceptual import (
    BITS,
    LEVELS,
    ImageHashes,
    gather_hashes,
    near_duplicates,
    perceptual_hash,
    thumbnail,
)
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


def duplicates(pairs: PairSet) -> dict[str, Finding]:
    return by_name(pictures.picture_duplicates(pairs, pictures.scan_images(pairs)))


@pytest.mark.slow
def test_a_clean_set_of_minimal_pairs_passes_every_check(pictured, blots):
    # Which picture is the changed one, and which caption says so, is as good as tossed: else the order tells them
    # apart.
    turned = np.random.default_rng(0).random(30) < 0.5
    rows = [(blots(k), patched(blots(k)))[:: -1 if turned[k] else 1] for k in range(30)]
    texts = [(f"blots {k}", f"patched {k}")[:: -1 if turned[k] else 1] for k in range(30)]
    pairs = pictured(rows, texts=texts)
    record = audit(pairs)
    assert record.warnings == []
    assert (record.images, record.items, record.clusters, record.fingerprint) == (60, 30, 30, pairs.fingerprint())


def test_planted_duplicates_are_named(pictured, blots):
    rows = [[blots(2 * k), blots(2 * k + 1)] for k in range(6)]
    rows[1] = [rows[1][0], rows[1][0]]  # twice in an item
    rows[3] = [rows[2][0], rows[2][1]]  # the whole item again
    rows[5][1] = rows[4][1]  # one picture of another cluster
    texts = [(f"a {k}", f"b {k}") for k in range(6)]
    texts[3] = texts[2][::-1]
    pairs = pictured(rows, texts=texts, clusters=["0", "1", "2", "2", "4", "5"])
    assert {name: (finding.items, finding.verdict) for name, finding in duplicates(pairs).items()} == {
        "images: twice in an item": (("item-1",), "warn"),
        "items: twice": (("item-2", "item-3"), "warn"),
        "images: shared": (("item-4", "item-5"), "warn"),  # 2 and 3 are one cluster
        "images: near-duplicates": ((), "pass"),
    }


def test_a_look_alike_in_another_cluster_is_a_near_duplicate_and_one_in_the_same_is_not(pictured, blots):
    brighter = np.clip(blots(0).astype(np.int16) + 3, 0, 255).astype(np.uint8)
    rows = [[blots(0), blots(1)], [brighter, blots(2)], [blots(3), blots(4)]]
    near = duplicates(pictured(rows))["images: near-duplicates"]
    assert (near.items, near.verdict) == (("item-0", "item-1"), "warn")
    near = duplicates(pictured(rows, clusters=["a", "a", "b"], name="clustered"))["images: near-duplicates"]
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
    spelt = {"composed": "Un café", "apart": "un  cafe\u0301"}
    forms = [pictured([[blots(0)]], texts=[(text,)], name=name) for name, text in spelt.items()]
    assert pictures.caption_leak(*forms).items == ("item-0",)
    record = audit(ours, Options(against=theirs))
    assert record.against == "theirs"
    assert {"leak: images", "leak: near-duplicates", "leak: captions"} <= {each.name for each in record.warnings}
    assert "leak" not in [each.name for each in record.not_done]


def test_a_change_is_measured_to_the_pixel_beyond_noise_and_the_largest_counts(blots):
    picture = blots(0)
    change = pictures.change_of([picture, patched(picture, 16, (32, 8))])
    assert change.share == change.box_share == 16 * 16 / 64**2
    assert (change.box, change.centre) == ((32 / 64, 8 / 64, 48 / 64, 24 / 64), (40 / 64, 16 / 64))
    assert pictures.changes_by_field([change, change]) == [[0, 2, 0], [0, 0, 0], [0, 0, 0]]
    grey, level = np.full((20, 20, 3), 100, np.uint8), pictures.LEVEL
    unseen = pictures.Change(share=0.0, mean_absolute=float(level))
    assert pictures.change_of([grey, grey + np.uint8(level)]) == unseen
    assert pictures.change_of([grey, grey + np.uint8(level + 1)]).share == 1.0
    assert pictures.change_of([picture, picture, patched(picture, 8), patched(picture, 4)]).share == 64 / 64**2


def test_a_pair_that_is_not_minimal_and_one_that_cannot_be_seen_are_named(pictured, blots):
    rows = [[blots(k), patched(blots(k))] for k in range(10)]
    rows[4] = [blots(4), blots(99)]
    rows[6] = [blots(6), blots(6, 32)]
    rows[7] = [blots(7), patched(blots(7), 1)]
    pairs = pictured(rows)
    findings = by_name(pictures.change_findings(pictures.scan_images(pairs).changes, pairs))
    large, small, share = (findings[f"change: {name}"] for name in ("not minimal", "hardly seen", "share"))
    assert (large.items, large.value, large.verdict) == (("item-4", "item-6"), 0.2, "warn")
    assert "1 items have pictures of different sizes" in large.says
    assert (small.items, small.verdict) == (("item-7",), "warn")
    assert (share.items[0], share.n) == ("item-4", 9)
    with raises(DataError, "pairs.jsonl:1", "'images[1]'"):
        audit(pictured([[blots(0), b"no picture"]], name="broken"))


def test_items_of_one_picture_change_nothing(pictured, blots):
    record = audit(pictured([[blots(k)] for k in range(3)]))
    assert record.changes == []
    assert "change" in [each.name for each in record.not_done]


def bits(a: int, b: int) -> int:
    return (a ^ b).bit_count()


def print_of(pixels: NDArray[np.uint8]) -> ImageHashes:
    return gather_hashes([(perceptual_hash(pixels), thumbnail(pixels))])


def near_pairs(one: ImageHashes, other: ImageHashes) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for left, right in near_duplicates(one, other) for a, b in zip(left, right, strict=True)}


@pytest.mark.parametrize("seed", range(5))
def test_the_hash_is_the_one_that_scipys_transform_gives(blots, seed):
    from scipy.fft import dct

    grey = Image.fromarray(blots(seed)).convert("L").resize((32, 32), Image.Resampling.LANCZOS)
    low = dct(dct(np.asarray(grey, np.float64), axis=0), axis=1)[:8, :8].ravel()
    expected = int("".join("1" if value > np.median(low) else "0" for value in low), 2)
    assert perceptual_hash(blots(seed)) == expected


def test_a_scaled_or_compressed_picture_is_near_and_other_colours_are_not(blots):
    picture = Image.fromarray(blots(0, 96))
    small = picture.resize((70, 60), Image.Resampling.BICUBIC)
    for other in (Image.open(io.BytesIO(encoded(picture, "JPEG", quality=60))), small):
        assert near_pairs(print_of(np.asarray(picture)), print_of(np.asarray(other.convert("RGB")))) == {(0, 0)}
    assert bits(perceptual_hash(blots(0)), perceptual_hash(blots(1))) > BITS
    assert near_pairs(print_of(blots(0)), print_of(blots(1))) == set()
    red, blue = (np.full((32, 32, 3), colour, np.uint8) for colour in ((130, 0, 0), (0, 0, 130)))
    assert perceptual_hash(red) == perceptual_hash(blue)
    assert near_pairs(print_of(red), print_of(blue)) == set()


hashes = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 255).map(lambda k: k << 50))


@given(st.lists(hashes, max_size=12), st.lists(hashes, max_size=12), st.integers(0, 12))
def test_the_search_finds_exactly_the_pairs_that_a_full_comparison_finds(ours, theirs, spread):
    one, other = (
        gather_hashes([(value, np.full(192, k * spread, np.uint8)) for k, value in enumerate(values)])
        for values in (ours, theirs)
    )
    near = product(enumerate(ours), enumerate(theirs))
    expected = {(i, j) for (i, a), (j, b) in near if bits(a, b) <= BITS and abs(i - j) * spread <= LEVELS}
    assert near_pairs(one, other) == expected


def test_a_large_group_of_like_pictures_is_searched_in_blocks(monkeypatch):
    monkeypatch.setattr("tellapart.data.perceptual._BLOCK", 400)
    values = [5] * 30 + [5 ^ 1 << place for place in (3, 20, 40)] + [5 ^ 31 << 20]
    same, more = (gather_hashes([(value, np.zeros(192, np.uint8)) for value in few]) for few in (values[:30], values))
    assert near_pairs(more, same) == {(i, j) for i in range(33) for j in range(30)}
    assert near_pairs(more, more) > near_pairs(same, more) == {(i, j) for i in range(30) for j in range(33)}


@pytest.fixture
def folder(tmp_path, blots) -> Path:
    """3 items of two films of 8 frames; the second has a white patch in its last 4 frames. Item 1 shows item 0's."""
    rows = []
    (tmp_path / "set").mkdir()
    for k in range(3):
        plain = np.stack([np.roll(blots(2 * max(k, 1), 32), 2 * shift, axis=1) for shift in range(8)])
        changed = plain.copy()
        changed[4:, 8:16, 16:32] = 255
        if k == 1:  # alike, and not the same
            plain, changed = (pixels ^ np.uint8(1) for pixels in (plain, changed))
        names = [f"{k}a.mkv", f"{k}b.mkv"]
        for name, frames in zip(names, (plain, changed), strict=True):
            film(tmp_path / "set" / name, frames, "ffv1", form="bgr0")  # without loss
        rows.append({"id": str(k), "images": names, "texts": [f"no patch {k}", f"a patch {k}"], "cluster": str(k)})
    return put(tmp_path / "set", rows, images={})


def test_films_are_compared_frame_by_frame(folder):
    scan = scan_images(read_pair_set(folder))
    assert scan.hashes.thumbnails.shape == (6, 192)
    for change in scan.changes:
        assert change.share == pytest.approx(0.5 * 8 * 16 / 32**2, abs=0.01)  # a few pixels were nearly white before
        assert (change.box, change.box_share) == ((0.5, 0.25, 1.0, 0.5), 0.125)


def test_a_set_of_films_is_audited_whole(folder, tmp_path):
    found = ta.audit(str(folder), to=tmp_path / "card", against=str(folder)).record
    findings = by_name(found.findings)
    assert found.images == 6
    assert findings["images: near-duplicates"].items == ("0", "1")
    assert findings["leak: images"].value == 1.0
    assert findings["change: share"].value == pytest.approx(0.5 * 8 * 16 / 32**2, abs=0.01)
    (distribution,) = json.loads((tmp_path / "card" / "croissant.json").read_text())["distribution"][1:]
    assert distribution["encodingFormat"] == "video/matroska"


def test_statistics_of_a_film_are_means_over_its_frames(blots):
    frames = np.stack([blots(seed)[:48] for seed in range(3)])
    np.testing.assert_allclose(pixel_statistics(frames), np.mean([*map(pixel_statistics, frames)], axis=0))
    sizes = dict(zip(FILE_STATISTICS, file_statistics(b"x" * 64, frames), strict=True))
    assert np.exp([sizes["width"], sizes["height"]]).tolist() == pytest.approx([64, 48])
