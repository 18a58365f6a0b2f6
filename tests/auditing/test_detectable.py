"""Pictures and captions of two processes are told apart; those of one process are not."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from facts import raises
from pictures import encoded
from tellapart.auditing import origin
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.finding import Finding
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.scoring.score import embeddings
from tellapart.models.store.embedding_store import EmbeddingStore

Pixels = NDArray[np.uint8]


def natural(seed: int, side: int = 48) -> Pixels:
    """A picture with detail at every scale, as photographs have: noise whose amplitude falls with the frequency."""
    rng = np.random.default_rng(seed)
    radius = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :])
    spectrum = np.fft.fft2(rng.standard_normal((3, side, side))) / np.maximum(radius, 1 / side)
    picture = np.real(np.fft.ifft2(spectrum))
    return np.clip(128 + 50 * picture / picture.std(), 0, 255).astype(np.uint8).transpose(1, 2, 0).copy()


def recompressed(pixels: Pixels, quality: int = 40) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(encoded(pixels, "JPEG", quality=quality))).convert("RGB"), np.uint8)


def blurred(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(0.7)), np.uint8)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def rows(second: Callable[[Pixels], Pixels], n: int = 24) -> list[tuple[Pixels, Pixels]]:
    return [(natural(2 * k), second(natural(2 * k + 1))) for k in range(n)]


def of_pixels(pictures: list[tuple[Pixels, Pixels]]) -> origin.Evidence:
    features = np.array([[origin.pixel_statistics(picture) for picture in row] for row in pictures])
    return origin.Evidence("images", "pixels", features, origin.PIXEL_STATISTICS)


def pairs_of(n: int) -> PairSet:
    items = tuple(Item(id=str(k), images=("0.png", "1.png"), texts=("x",)) for k in range(n))
    return PairSet("s", items, Path("nowhere"))


@pytest.mark.slow
def test_pictures_of_one_process_are_at_chance(pictured):
    pairs = pictured(rows(lambda pixels: pixels))
    findings = by_name(origin.detectability(pairs, pictures=True)[0])
    for name in ("detectable: images, by file", "detectable: images, by pixels"):
        assert findings[name].verdict == "pass"
        assert findings[name].low is not None
        assert findings[name].low < 0.5 < float(findings[name].high or 0)


@pytest.mark.slow
def test_pictures_of_which_one_was_compressed_again_are_told_and_the_audit_warns(pictured):
    pairs = pictured(rows(recompressed), texts=[("the same", "the same")] * 24)
    record = by_name(audit(pairs).warnings)["detectable: images, by pixels"]
    assert record.value > 0.9
    assert record.items
    assert "p = 0.010 (99 swaps): they come from different processes; most by " in record.says


@pytest.mark.slow
def test_pictures_of_which_one_is_blurred_are_told_by_what_blur_takes_away():
    finding = origin.detectable(of_pixels(rows(blurred)), pairs_of(24))
    assert (finding.value, finding.verdict) == (1.0, "warn")
    assert finding.says.endswith("lower in the others")


@pytest.mark.slow
def test_a_file_of_another_format_is_told_by_the_file_alone(pictured):
    pairs = pictured(
        [
            (first, encoded(second, "JPEG", quality=100, subsampling=0))
            for first, second in rows(lambda pixels: pixels, 24)
        ]
    )
    finding = by_name(origin.detectability(pairs, pictures=True)[0])["detectable: images, by file"]
    assert (finding.value, finding.verdict) == (1.0, "warn")


def test_the_order_of_the_pictures_is_what_is_told_so_swapping_half_of_the_items_hides_it():
    mixed = [row if k % 2 else row[::-1] for k, row in enumerate(rows(blurred))]
    assert origin.detectable(of_pixels(mixed), pairs_of(24)).verdict == "pass"


@pytest.mark.slow
def test_captions_whose_words_give_them_away_are_told_and_plain_reorderings_tie(captioned):
    names = ("cat", "dog", "cow", "hen", "ox")
    texts = [(f"the {names[k % 5]} sits {k}", f"there is no {names[k % 5]} {k}") for k in range(40)]
    findings, _ = origin.detectability(captioned(texts), pictures=True)
    (told,) = findings
    assert (told.name, told.value, told.verdict) == ("detectable: captions, by words", 1.0, "warn")
    texts = [(f"{names[k % 5]} sees {names[k % 4]} {k}", f"{names[k % 4]} sees {names[k % 5]} {k}") for k in range(40)]
    findings, _ = origin.detectability(captioned(texts), pictures=True)
    assert (findings[0].value, findings[0].verdict) == (0.5, "pass")


@pytest.mark.slow
def test_an_encoder_judges_pictures_and_captions_beside_the_statistics(pictured):
    pairs = pictured(rows(lambda pixels: pixels, 20), texts=[("the same", "the same")] * 20)
    record = by_name(audit(pairs, Options(detector_model="demo-encoder")).findings)
    assert record["detectable: images, by demo-encoder"].verdict == "pass"
    assert record["detectable: captions, by demo-encoder"].value == 0.5
    with raises(ModelError, "oracle", "vectors", "images"):
        audit(pairs, Options(detector_model="oracle"))


@pytest.mark.slow
def test_vectors_of_an_encoder_tell_tinted_pictures(pictured):
    red = np.array([40, 0, 0], np.uint8)
    pairs = pictured([(first // 2, second // 2 + red) for first, second in rows(lambda pixels: pixels)])
    vectors = embeddings(find_model("demo-encoder"), pairs, store=EmbeddingStore(None), texts=False).images
    finding = origin.detectable(origin.Evidence("images", "demo-encoder", vectors), pairs)
    assert (finding.verdict, finding.says) == ("warn", "p = 0.010 (99 swaps): they come from different processes")


@pytest.mark.slow
def test_what_is_not_judged_is_said(captioned, pictured):
    few = captioned([("a", "b")] * 19)
    (reason,) = (each.reason for each in origin.detectability(few, pictures=True)[1])
    assert "19 clusters" in reason and "20" in reason
    single = captioned([("a", "a")] * 20)
    assert [each.name for each in origin.detectability(single, pictures=True)[1]] == ["detectable: images"]
    pairs = pictured([(natural(k, 16), natural(100 + k, 16)) for k in range(20)])
    assert [each.name for each in origin.detectability(pairs, pictures=True)[1]] == ["detectable: by an encoder"]


@pytest.mark.slow
def test_of_a_large_set_items_are_judged_that_are_spread_evenly(captioned):
    pairs = captioned([("a", "b")] * (2 * origin.MOST_ITEMS))
    finding = origin.detectability(pairs, pictures=False)[0][0]
    assert finding.n == origin.MOST_ITEMS
    assert finding.items[:3] == ("0", "2", "4")


@pytest.mark.slow
def test_a_set_of_one_process_is_flagged_no_more_often_than_promised():
    """25 sets whose entries are exchangeable.

    A warning in one of a hundred, so three or more is a chance of 2 in 1,000.
    """
    flagged = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((24, 1, 3)) + rng.standard_normal((24, 2, 3))
        flagged += origin.detectable(origin.Evidence("images", "noise", features), pairs_of(24)).verdict == "warn"
    assert origin.LARGEST_P == 0.01
    assert 1 / (origin.SWAPS + 1) <= origin.LARGEST_P
    assert flagged <= 2


def test_the_commonest_words_are_counted_whatever_their_case():
    evidence = origin.word_counts([(f"Cat {k}", f"a cat, cat {k}") for k in range(300)])
    assert evidence.names[:3] == ("the word 'cat'", "the mark ','", "the word 'a'")
    assert (len(evidence.names), evidence.names[-2:]) == (258, ("capitals", "length"))
    assert evidence.features[0].tolist()[0][:3] + evidence.features[0].tolist()[1][:3] == [1, 0, 0, 2, 1, 1]
    assert evidence.features[0, :, -2:].tolist() == [[1, 5], [0, 12]]


@pytest.mark.parametrize("side", [1, 2, 7, 8, 9, 40])
def test_statistics_of_small_and_flat_pictures_are_finite(side):
    for pixels in (np.zeros((side, side, 3), np.uint8), natural(0, 40)[:side, : side + 1]):
        assert np.isfinite(origin.pixel_statistics(pixels)).all()


def test_statistics_move_as_they_should():
    def of(pixels: Pixels) -> dict[str, float]:
        return dict(zip(origin.PIXEL_STATISTICS, origin.pixel_statistics(pixels).tolist(), strict=True))

    plain = natural(3, 64)
    blocks, soft = of(recompressed(plain, 10)), of(blurred(plain))
    assert blocks["JPEG blocks"] > of(plain)["JPEG blocks"] + 0.2
    for name in ("sharpness", "noise", "high frequencies", "spectrum slope"):
        assert soft[name] < of(plain)[name]
    assert of(plain[:, ::-1].copy())["contrast"] == pytest.approx(of(plain)["contrast"])


def test_a_file_tells_its_format_size_and_quantisation():
    def of(kind: str, **options) -> dict[str, float]:
        statistics = origin.file_statistics(encoded(natural(1, 32), kind, **options), natural(1, 32))
        return dict(zip(origin.FILE_STATISTICS, statistics.tolist(), strict=True))

    assert of("JPEG", quality=30)["JPEG quantisation"] > of("JPEG", quality=90)["JPEG quantisation"] > 0
    assert of("JPEG", quality=30)["bytes a pixel"] < of("PNG")["bytes a pixel"]
    assert [of(kind)[kind] for kind in ("JPEG", "PNG", "WEBP")] == [1, 1, 1]
    frame = origin.file_statistics(b"\x93NUMPY", natural(1, 32))
    assert frame[origin.FILE_STATISTICS.index("JPEG quantisation") :].tolist() == [0, 0, 0, 0]


def test_swaps_that_end_early_are_all_done(captioned):
    rng = np.random.default_rng(3)
    told: list[tuple[str, int, int]] = []
    evidence = origin.Evidence("captions", "noise", rng.standard_normal((40, 2, 1)) + np.array([[0.0], [0.4]]))
    pairs = captioned([(f"cat {k}", f"dog {k}") for k in range(40)])
    finding = origin.detectable(evidence, pairs, progress=lambda *at: told.append(at))
    assert finding.verdict == "pass"
    assert told[-1] == ("captions told by noise: swaps", origin.SWAPS, origin.SWAPS)
    assert len(told) < origin.SWAPS
