"""Pictures and captions of two processes are told apart, by statistics and by heads; those of one process are not."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from facts import raises
from pictures import encoded
from published import published
from tellapart import EmbeddingStore, Item, PairSet, find_model, read_pair_set
from tellapart.auditing import origin
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.finding import Finding
from tellapart.auditing.origin import Detection, Origins, detect, origins
from tellapart.errors import DataError, ModelError, ScoreError
from tellapart.models.reference import Constant
from tellapart.models.scoring.score import embeddings

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


def rows(second: Callable[[Pixels], Any], n: int = 24) -> list[tuple[Pixels, Any]]:
    return [(natural(2 * k), second(natural(2 * k + 1))) for k in range(n)]


def of_pixels(pictures: list[tuple[Pixels, Pixels]]) -> origin.Evidence:
    features = np.array([[origin.pixel_statistics(picture) for picture in row] for row in pictures])
    return origin.Evidence("images", "pixels", features, origin.PIXEL_STATISTICS)


def pairs_of(n: int) -> PairSet:
    items = tuple(Item(id=str(k), images=("0.png", "1.png"), texts=("x",)) for k in range(n))
    return PairSet("s", items, Path("nowhere"))


@pytest.mark.slow
def test_pictures_of_one_process_are_at_chance(pictured):
    findings = by_name(origin.detectability(pictured(rows(lambda pixels: pixels)), pictures=True)[0])
    for name in ("detectable: images, by file", "detectable: images, by pixels"):
        assert findings[name].verdict == "pass" and findings[name].low < 0.5 < findings[name].high


@pytest.mark.slow
def test_pictures_of_which_one_was_compressed_again_are_told_and_the_audit_warns(pictured):
    pairs = pictured(rows(recompressed), texts=[("the same", "the same")] * 24)
    record = by_name(audit(pairs).warnings)["detectable: images, by pixels"]
    assert record.value > 0.9 and record.items
    assert "p = 0.010 (99 swaps): they come from different processes; most by " in record.says


def test_pictures_of_which_one_is_blurred_are_told_unless_half_of_the_items_are_swapped():
    blurs = rows(blurred)
    finding = origin.detectable(of_pixels(blurs), pairs_of(24))
    assert (finding.value, finding.verdict) == (1.0, "warn")
    assert finding.says.endswith("lower in the others")
    mixed = [row if k % 2 else row[::-1] for k, row in enumerate(blurs)]
    assert origin.detectable(of_pixels(mixed), pairs_of(24)).verdict == "pass"


@pytest.mark.slow
def test_a_file_of_another_format_is_told_by_the_file_alone(pictured):
    pairs = pictured(rows(lambda pixels: encoded(pixels, "JPEG", quality=100, subsampling=0)))
    finding = by_name(origin.detectability(pairs, pictures=True)[0])["detectable: images, by file"]
    assert (finding.value, finding.verdict) == (1.0, "warn")


@pytest.mark.slow
def test_captions_whose_words_give_them_away_are_told_and_plain_reorderings_tie(captioned):
    names = ("cat", "dog", "cow", "hen", "ox")
    texts = [(f"the {names[k % 5]} sits {k}", f"there is no {names[k % 5]} {k}") for k in range(40)]
    (told,), _ = origin.detectability(captioned(texts), pictures=True)
    assert (told.name, told.value, told.verdict) == ("detectable: captions, by words", 1.0, "warn")
    texts = [(f"{names[k % 5]} sees {names[k % 4]} {k}", f"{names[k % 4]} sees {names[k % 5]} {k}") for k in range(40)]
    (alike,), _ = origin.detectability(captioned(texts), pictures=True)
    assert (alike.value, alike.verdict) == (0.5, "pass")


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
    assert (finding.n, finding.items[:3]) == (origin.MOST_ITEMS, ("0", "2", "4"))


def test_clusters_are_counted_among_the_items_that_are_judged(captioned, monkeypatch):
    monkeypatch.setattr(origin, "MOST_ITEMS", 10)
    pairs = captioned([("a", "b")] * 100, cluster=["large"] * 80 + [str(k) for k in range(20)])
    findings, not_done = origin.detectability(pairs, pictures=False)
    assert (findings, [each.reason.split(":")[0] for each in not_done]) == ([], ["3 clusters"])


@pytest.mark.slow
def test_a_set_of_one_process_is_flagged_no_more_often_than_promised():
    """25 sets whose entries are exchangeable: a warning in a hundred, three or more by a chance of 2 in 1,000."""
    flagged = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((24, 1, 3)) + rng.standard_normal((24, 2, 3))
        flagged += origin.detectable(origin.Evidence("images", "noise", features), pairs_of(24)).verdict == "warn"
    assert 1 / (origin.SWAPS + 1) <= origin.LARGEST_P == 0.01
    assert flagged <= 2


def test_the_commonest_words_are_counted_whatever_their_case():
    evidence = origin.word_counts([(f"Cat {k}", f"a cat, cat {k}") for k in range(300)])
    assert evidence.names[:3] == ("the word 'cat'", "the mark ','", "the word 'a'")
    assert (len(evidence.names), evidence.names[-2:]) == (258, ("capitals", "length"))
    assert evidence.features[0].tolist()[0][:3] + evidence.features[0].tolist()[1][:3] == [1, 0, 0, 2, 1, 1]
    assert evidence.features[0, :, -2:].tolist() == [[1, 5], [0, 12]]


def test_statistics_move_as_they_should_and_those_of_small_and_flat_pictures_are_finite():
    for side in (1, 2, 7, 8, 9, 40):
        for pixels in (np.zeros((side, side, 3), np.uint8), natural(0, 40)[:side, : side + 1]):
            assert np.isfinite(origin.pixel_statistics(pixels)).all(), side

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
    assert origin.detectable(evidence, pairs, progress=lambda *at: told.append(at)).verdict == "pass"
    assert told[-1] == ("captions told by noise: swaps", origin.SWAPS, origin.SWAPS)
    assert len(told) < origin.SWAPS


#: Accuracy of images and of texts, of the published probabilities.
ACCURACIES = {"baseline": (0.9995, 0.573), "TROHN-Img": (1.0, 0.613)}

GAME = ("text_score", "image_score", "group_score", "ipos_2t", "ineg_2t", "tpos_2i", "tneg_2i")
PLAYED = {  # per cent
    "baseline": (66.69, 19.64, 19.64, 66.72, 66.72, 65.84, 48.76),
    "TROHN-Img": (75.04, 26.42, 26.42, 75.04, 75.04, 71.94, 50.73),
}


class Means:
    """A dual encoder: an image is its mean colours and spreads, a text how often it has each of eight letters."""

    name, fingerprint, kind = "means", "means-1", "similarity"

    def __init__(self) -> None:
        self.encoded = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.encoded += len(images)
        rows = [np.concatenate([i.reshape(-1, 3).mean(axis=0), i.reshape(-1, 3).std(axis=0)]) for i in images]
        return np.array(rows, np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        return np.array([[text.count(letter) for letter in "aebcdort"] for text in texts], np.float32)

    def similarity(self, images: NDArray[np.float32], texts: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.zeros((len(images), len(texts)), np.float32)


@pytest.fixture
def tinted(made_set) -> Callable[..., PairSet]:
    """A set of noise whose second pictures are redder; captions are drawn alike."""

    def make(name: str = "tinted", **options) -> PairSet:
        folder = made_set(name, **options)
        for path in (folder / "images").glob("*_1.png"):
            pixels = np.asarray(Image.open(path)).copy()
            pixels[..., 0] //= 2
            Image.fromarray(pixels).save(path)
        return read_pair_set(folder)

    return make


def rows_of(model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with published("bivlc", f"BiVLC_Classifier_CORRECT_CLIP_{model}.csv").open(newline="", encoding="utf-8") as stream:
        rows = [[float(row[column]) for column in ("text_pred", "img_pred", "label")] for row in csv.DictReader(stream)]
    text, image, label = np.array(rows).T
    return tuple(np.stack([values[label == 0], values[label == 1]], axis=1) for values in (image, text))


@pytest.mark.parametrize("model", ACCURACIES)
def test_the_published_probabilities_give_the_published_numbers(model):
    outcomes = Origins(*rows_of(model)).outcomes()
    result = {name: float(values.mean()) for name, values in outcomes.items()}
    assert (round(result["image_accuracy"], 4), round(result["text_accuracy"], 3)) == ACCURACIES[model]
    assert tuple(round(100 * result[name], 2) for name in GAME) == PLAYED[model]
    assert {len(column) for column in outcomes.values()} == {2933}


def test_a_detector_at_exactly_one_half_calls_it_natural():
    found = origin.detector_outcomes([[0.5, 0.9]], [[0.5, 0.5]])
    assert (found["ipos_2t"][0], found["ineg_2t"][0], found["tpos_2i"][0]) == (1, 0, 0)


def test_what_are_no_probabilities_of_pairs_is_refused():
    for text, image, *said in (
        ([[0.5]], [[0.5, 0.5]], "(item, 2)", "(1, 1)"),
        ([[0.5, 1.5]], [[0.5, 0.5]], "[0, 1]", "text"),
        ([[0.5, 0.5]], [[0.5, float("nan")]], "[0, 1]", "image"),
        ([[0.5, 0.5]], [[0.5, 0.5]] * 2, "1", "2", "items"),
    ):
        with raises(ScoreError, *said):
            origin.detector_outcomes(text, image)


def test_pictures_of_two_origins_are_told_captions_of_one_are_not_and_so_little_is_won(tinted):
    pairs = tinted(n=60)
    result = detect(pairs, Means(), cache=EmbeddingStore(None))
    assert result.scores["image_accuracy"].value > 0.95
    assert result.scores["text_accuracy"].low < 0.5 < result.scores["text_accuracy"].high
    assert result.scores["group_score"].value < result.scores["text_score"].value + 0.01 < 0.8
    assert (result.items, result.clusters, result.folds, result.trained_on) == (60, 60, 5, None)
    assert type(result).model_validate_json(result.model_dump_json()) == result


def test_heads_fitted_on_another_set_judge_this_one(tinted):
    here, there = tinted("here", n=40, seed=1), tinted("there", n=60, seed=2)
    result = detect(here, Means(), cache=EmbeddingStore(None), trained_on=there)
    assert (result.trained_on, result.folds) == (there.name, None)
    assert result.scores["image_accuracy"].value > 0.95


def test_what_is_measured_is_not_trained_on(tinted):
    here = tinted("here", n=8, seed=1)
    with raises(DataError, "entries"):
        origins(here, Means(), store=EmbeddingStore(None), trained_on=tinted("again", n=8, seed=1))
    both = tinted("both", n=30, seed=3)
    alone = origins(here, Means(), store=EmbeddingStore(None), trained_on=both)
    again = (each.model_copy(update={"id": f"x{each.id}"}) for each in both.items)
    mixed = PairSet("mixed", (*both.items, *again), both.root)
    assert np.allclose(alone.images, origins(here, Means(), store=EmbeddingStore(None), trained_on=mixed).images)


@pytest.mark.slow
def test_vectors_come_from_the_store_the_second_time(tinted, tmp_path):
    pairs = tinted(n=20)
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        model, again = Means(), Means()
        assert detect(pairs, model, cache=store) == detect(pairs, again, cache=store)
        assert model.encoded > 0 == again.encoded


def test_no_number_depends_on_the_order_of_the_items(tinted):
    pairs = tinted(n=30, clusters=12)
    order = np.random.default_rng(0).permutation(len(pairs))
    one, other = (origins(of, Means(), store=EmbeddingStore(None)) for of in (pairs, pairs.select(order.tolist())))
    assert np.array_equal(one.images[order], other.images) and np.array_equal(one.texts[order], other.texts)


def test_sets_and_models_that_no_detector_plays_are_refused(tinted, made_set):
    single, pairs = read_pair_set(made_set("single", shape=(1, 2))), tinted(n=6)
    for model, options, error, *facts in (
        (Means(), {"trained_on": single}, DataError, "1", "2", "2", "2"),
        (Constant(), {}, ModelError, "vectors", "images"),
        (Means(), {"folds": 9}, DataError, "9", "6", "2"),
    ):
        with raises(error, *facts):
            detect(pairs, model, cache=EmbeddingStore(None), **options)


@pytest.mark.slow
def test_it_prints_accuracies_and_the_game_and_writes_the_same_record(command, made_set):
    folder = made_set(n=24)
    done = command("detect", folder, "-m", "demo-encoder", "--folds", 4, "--out", "detection.json", code=0)
    assert "24 items, 24 clusters; heads on demo-encoder, fitted on the other 3 of 4 folds" in done.out
    assert all(name in done.out for name in ("image_accuracy", "text_accuracy", "group_score"))
    written = Detection.model_validate_json(Path("detection.json").read_text())
    again = command("detect", f"folder:{folder}", "-m", "demo-encoder", "--folds", 4, "--json")
    assert Detection.model_validate(again.json) == written


@pytest.mark.parametrize("kinds", [("JPEG", "PNG"), ("PNG", "PNG"), ("JPEG", "JPEG")])
def test_the_format_of_the_bytes_alone_is_measured_whatever_its_name(command, made_set, kinds):
    folder = made_set(n=20)
    for path in (folder / "images").iterdir():  # all of them are named .png
        Image.open(path).copy().save(path, kinds[path.stem.endswith("_1")])
    done = command("detect", folder, "-m", "demo-encoder", "--folds", 2, "--out", "detection.json", code=0)
    written = Detection.model_validate_json(Path("detection.json").read_text())
    (first, second), apart = kinds, kinds[0] != kinds[1]
    assert written.formats == ({first: (20, 0), second: (0, 20)} if apart else {first: (20, 20)})
    assert written.scores["format_accuracy"].value == (1.0 if apart else 0.5)
    said = " ".join(done.out.split())
    assert ("format alone separates" in said) == apart
    assert not apart or "JPEG 20 and 0; PNG 0 and 20" in said


def test_the_format_is_judged_on_the_measured_set_alone(command, made_set):
    here, there = made_set("here", n=8, seed=1), made_set("there", n=16, seed=2)
    for path in (here / "images").glob("*_1.png"):
        Image.open(path).copy().save(path, "WEBP")
    done = command("detect", here, "-m", "demo-encoder", "--trained-on", there, "--out", "detection.json", code=0)
    assert "heads on demo-encoder, fitted on folder:there" in " ".join(done.out.split())
    assert Detection.model_validate_json(Path("detection.json").read_text()).scores["format_accuracy"].value == 1
