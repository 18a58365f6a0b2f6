"""LXMERT and VisualBERT on tiny random checkpoints and region files, against the library's own forward."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tiny_fusion_encoders import save, scorer

from facts import raises
from tellapart.data.images import pixel_hash
from tellapart.errors import DataError, ModelError
from tellapart.models.fusion.region_file import RegionFile
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.huggingface.files import quiet

DIMENSIONS = 6
REGIONS = (4, 7, 1, 10)
TEXTS = ["a red cup", "a red bowl on the blue cup left of the dog", "dog", "a the red blue on left", ""]
WORDS = ["a", "the", "red", "blue", "cup", "bowl", "dog", "on", "left", "of"]
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
IDS = {"vocab_size": 20, "max_position_embeddings": 16}


def lxmert() -> tuple[Any, Any]:
    config = transformers.LxmertConfig(
        **TOWER, **IDS, l_layers=2, r_layers=2, x_layers=2, visual_feat_dim=DIMENSIONS, num_qa_labels=3,
        num_object_labels=3, num_attr_labels=3,
    )  # fmt: skip
    return transformers.LxmertForPreTraining(config), words()


def visual_bert() -> tuple[Any, Any]:
    config = transformers.VisualBertConfig(
        **TOWER, **IDS, num_hidden_layers=2, visual_embedding_dim=DIMENSIONS, pad_token_id=0
    )
    return transformers.VisualBertForPreTraining(config), words()


def words():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    return transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)})


MAKERS = {"lxmert": lxmert, "visual_bert": visual_bert}


def pictures() -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (8 + k, 9, 3)).astype(np.uint8) for k in range(len(REGIONS))]


def regions() -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Features and boxes of each picture."""
    rng = np.random.default_rng(6)
    detections = []
    for count in REGIONS:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)
        detections.append((rng.normal(size=(count, DIMENSIONS)).astype(np.float32), corners.astype(np.float32)))
    return detections


def arrays(names: list[str] | None = None) -> dict[str, NDArray[np.float32]]:
    names = names or [pixel_hash(picture) for picture in pictures()]
    pairs = list(zip(names, regions(), strict=True))
    return {f"{name}/features": features for name, (features, _) in pairs} | {
        f"{name}/boxes": boxes for name, (_, boxes) in pairs
    }


@pytest.fixture(scope="module", params=list(MAKERS))
def family(request):
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    folder = save(tmp_path_factory.mktemp(family) / "model", MAKERS[family])
    np.savez(folder / "regions.npz", **arrays())
    return folder


def library_score(model, inputs, features, boxes) -> float:
    """Score one pair alone, unpadded, as the library's documentation does."""
    features, boxes = torch.from_numpy(features)[None], torch.from_numpy(boxes)[None]
    with torch.no_grad():
        if isinstance(model, transformers.LxmertForPreTraining):
            logits = model(**inputs, visual_feats=features, visual_pos=boxes).cross_relationship_score
            return float(logits.softmax(1)[0, 1])
        logits = model(**inputs, visual_embeds=features).seq_relationship_logits
        return float(logits.softmax(1)[0, 0])


PAIRS = [(image, text) for image in range(len(REGIONS)) for text in range(len(TEXTS))]


def scores(model: FusionScorer, order: list[int], size: int) -> NDArray[np.float32]:
    images, batches = pictures(), []
    for start in range(0, len(order), size):
        part = [PAIRS[k] for k in order[start : start + size]]
        batches.append(model.score_pairs([images[image] for image, _ in part], [TEXTS[text] for _, text in part]))
    return np.concatenate(batches)[np.argsort(order)]


def test_every_pair_gets_the_librarys_own_number(family, folder):
    with quiet():
        model = type(MAKERS[family]()[0]).from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = [tokenizer(text, return_tensors="pt", truncation=True, max_length=16) for text in TEXTS]
    expected = np.array([library_score(model, tokens[text], *regions()[image]) for image, text in PAIRS])
    values = scores(scorer(folder), list(range(len(PAIRS))), len(PAIRS))
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-6)
    table = expected.reshape(len(REGIONS), len(TEXTS))
    assert table.std(axis=0).min() > 1e-4 and table.std(axis=1).min() > 1e-4
    by_logit = scorer(folder, reading="itm_logit")
    logit = scores(by_logit, list(range(len(PAIRS))), len(PAIRS))
    assert (by_logit.kind, scorer(folder).kind) == ("logit", "probability")
    np.testing.assert_allclose(values, 1 / (1 + np.exp(-logit)), rtol=1e-6)
    assert (np.less.outer(logit, logit) >= np.less.outer(values, values)).all()


def test_batches_and_order_change_no_bit_and_halves_are_computed_once(folder):
    straight = list(range(len(PAIRS)))
    model = scorer(folder)
    reference = scores(model, straight, len(PAIRS))
    scores(model, straight, 3)
    assert (model.images_encoded, model.texts_encoded) == (len(REGIONS), len(TEXTS))
    for order, size in ((straight, 1), (straight[::-1], 7)):
        np.testing.assert_array_equal(scores(scorer(folder), order, size), reference)


def test_images_may_be_named_by_their_path_and_the_file_may_be_safetensors(folder, tmp_path):
    from PIL import Image
    from safetensors.numpy import save_file

    names = [f"images/{k}.png" for k in range(len(REGIONS))]
    (tmp_path / "images").mkdir()
    for name, picture in zip(names, pictures(), strict=True):
        Image.fromarray(picture).save(tmp_path / name)
    save_file(arrays(names), tmp_path / "detector.safetensors")
    straight = list(range(len(PAIRS)))
    named = scorer(folder, regions=tmp_path / "detector.safetensors")
    np.testing.assert_array_equal(scores(named, straight[::-1], 4), scores(scorer(folder), straight, 4))


def test_the_fingerprint_follows_the_region_file(folder, tmp_path):
    np.savez(tmp_path / "same.npz", **arrays())
    other = arrays()
    next(iter(other.values()))[0, 0] += 1
    np.savez(tmp_path / "changed.npz", **other)
    same, changed = (scorer(folder, regions=tmp_path / f"{name}.npz").fingerprint for name in ("same", "changed"))
    assert scorer(folder).fingerprint == same != changed


def test_without_region_features_the_error_says_what_to_do(tmp_path):
    save(tmp_path / "bare", lxmert)
    with raises(ModelError, "bare", "regions=", "regions.safetensors", "regions.npz"):
        scorer(tmp_path / "bare")
    with raises(ModelError, "gone.npz", "region"):
        scorer(tmp_path / "bare", regions=tmp_path / "gone.npz")


def test_an_image_without_regions_and_one_that_is_gone_are_named(folder, tmp_path):
    stranger = np.zeros((5, 5, 3), np.uint8)
    with raises(ModelError, "hash", pixel_hash(stranger), "regions"):
        scorer(folder).score_pairs([stranger], ["a cup"])
    np.savez(tmp_path / "r.npz", **arrays([f"{k}.png" for k in range(len(REGIONS))]))
    with raises(DataError, "r.npz", "0.png", "image"):
        RegionFile(tmp_path / "r.npz", DIMENSIONS).inputs(pictures()[0])


@pytest.mark.parametrize(
    ("part", "change", "facts"),
    [
        ("boxes", lambda boxes: boxes * 100, ("boxes", "shares")),  # pixels
        ("boxes", lambda boxes: boxes[:, ::-1], ("boxes", "left")),
        ("boxes", lambda boxes: boxes[1:], ("(4, 4)", "(3, 4)")),
        ("features", lambda features: features[:, 1:], ("(regions, 6)", "(4, 5)")),
        ("features", lambda features: features / 0, ("boxes", "finite")),
        ("features", lambda features: features.astype(int), ("got int64", "features")),
        ("features", lambda _: np.array([None, "pickled"]), ("Python objects", "features")),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_regions_that_are_not_what_they_must_be_are_refused(tmp_path, part, change, facts):
    content = arrays()
    picture = pictures()[0]
    name = f"{pixel_hash(picture)}/{part}"
    np.savez(tmp_path / "r.npz", **content | {name: change(content[name])})
    with raises(ModelError, facts):
        RegionFile(tmp_path / "r.npz", DIMENSIONS).inputs(picture)


def test_half_an_image_and_damaged_files_are_refused(tmp_path):
    half = arrays()
    lost = f"{pixel_hash(pictures()[1])}/boxes"
    del half[lost]
    np.savez(tmp_path / "half.npz", **half)
    with raises(ModelError, "KEY/features", "KEY/boxes", f"'{lost}'"):
        RegionFile(tmp_path / "half.npz", DIMENSIONS)
    for name in ("damaged.npz", "damaged.safetensors"):
        (tmp_path / name).write_bytes(b"\x93NUMPY nonsense")
        with raises(ModelError, name, "plain"):
            RegionFile(tmp_path / name, DIMENSIONS)


@pytest.mark.parametrize("first", [0, 1])
def test_two_images_with_the_same_pixels_and_other_regions_are_an_error(first, tmp_path):
    from PIL import Image

    picture, (one, other, *_) = pictures()[0], regions()
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(tmp_path / name)
    Image.fromarray(pictures()[1]).save(tmp_path / "c.png")
    held = {"a.png": one, "b.png": (one, other)[first], "c.png": other}
    parts = [(f"{key}/features", one) for key, (one, _) in held.items()]
    parts += [(f"{key}/boxes", one) for key, (_, one) in held.items()]
    np.savez(tmp_path / "regions.npz", **dict(parts))
    file = RegionFile(tmp_path / "regions.npz", DIMENSIONS)
    if first:
        with raises(ModelError, "a.png", "b.png", "same pixels"):
            file.inputs(picture)
    else:
        assert file.inputs(picture)["mask"].sum() == REGIONS[0]
    assert file.inputs(pictures()[1])["mask"].sum() == REGIONS[1]
