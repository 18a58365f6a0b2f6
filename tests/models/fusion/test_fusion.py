"""Matching heads of the fusion encoders, on tiny random checkpoints, against the library's own forward."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_fusion_encoders as tiny
import torch
import transformers
from PIL import Image
from tiny_fusion_encoders import MAKERS, TEXTS, blip, pictures, save, scorer, vilt, vilt_config

from facts import raises
from tellapart.data.images import pixel_hash
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import quiet
from tellapart.models.huggingface.load import FUSION
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart_native.region_file import RegionFile

#: Families that read regions of a detector in place of pixels.
REGIONS = ("lxmert", "visual_bert")


def library_logits(family: str, model: Any, processor: Any, number: int, text: str) -> Any:
    """Return the matching head's logits for a picture and a text as the library's documentation has it, alone."""
    if family in REGIONS:
        features, boxes = (torch.from_numpy(array)[None] for array in tiny.regions()[number])
        inputs = processor(text, return_tensors="pt", truncation=True, max_length=16)
        with torch.no_grad():
            if family == "lxmert":
                return model(**inputs, visual_feats=features, visual_pos=boxes).cross_relationship_score[0]
            return model(**inputs, visual_embeds=features).seq_relationship_logits[0].flip(0)  # class 0 is the match
    image = pictures()[number]
    length = {"bridgetower": 96, "blip-2 with image tokens": 16 + 3}.get(family, 16)
    room = {"truncation": True, "max_length": length}
    if family == "blip-2":  # the library's processor fails on a length if there are no image tokens to leave room for
        inputs = processor.tokenizer(text, return_tensors="pt", return_token_type_ids=False, **room)
        inputs.update(processor(images=Image.fromarray(image), return_tensors="pt"))
    else:
        inputs = processor(images=Image.fromarray(image), text=text, return_tensors="pt", **room)
    with torch.no_grad(), quiet():
        if family == "vilt":
            return model(**inputs).logits[0]
        if family == "blip":
            logits = model(**inputs, use_itm_head=True).itm_score
        elif family.startswith("blip-2"):
            logits = model(**inputs, use_image_text_matching_head=True).logits_per_image
        elif family == "flava":
            logits = model(**inputs, return_loss=False).itm_logits
        else:
            logits = model(**inputs).logits
    return logits[0]


@pytest.mark.few(2)
def test_every_pair_gets_the_librarys_own_number(family, folder):
    with quiet():
        model = type(MAKERS[family]()[0]).from_pretrained(folder).eval()
        auto = transformers.AutoTokenizer if family in REGIONS else transformers.AutoProcessor
        processor = auto.from_pretrained(folder, backend="pil")
    numbers = [(number, text) for number in range(len(pictures())) for text in TEXTS]
    pairs = [(pictures()[number], text) for number, text in numbers]
    logits = torch.stack([library_logits(family, model, processor, *pair) for pair in numbers])
    single = logits.shape[1] == 1
    expected = np.asarray(logits[:, 0] if single else logits.softmax(1)[:, 1])
    probability, logit = (
        scorer(folder, reading=reading).score_pairs([image for image, _ in pairs], [text for _, text in pairs])
        for reading in ("itm", "itm_logit")
    )
    assert probability.dtype == logit.dtype == np.float32
    # Fixed shapes against single, unpadded pairs: other kernels, the same mathematics.
    np.testing.assert_allclose(probability, expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(logit, expected if single else logits[:, 1] - logits[:, 0], rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(probability, logit if single else 1 / (1 + np.exp(-logit)), rtol=1e-6)
    assert (np.less.outer(logit, logit) >= np.less.outer(probability, probability)).all()
    table = expected.reshape(len(pictures()), len(TEXTS))
    assert table.std(axis=0).min() > 1e-4 and table.std(axis=1).min() > 1e-4  # both sides count


@pytest.mark.slow
def test_batches_order_neighbours_and_the_place_of_preparation_change_no_bit(family, folder):
    pairs = [(image, text) for image in pictures() for text in TEXTS]

    def scores(model, order, size):
        parts = [order[k : k + size] for k in range(0, len(order), size)]
        batches = [model.score_pairs([pairs[k][0] for k in part], [pairs[k][1] for k in part]) for part in parts]
        return np.concatenate(batches)[np.argsort(order)]

    straight = list(range(len(pairs)))
    reference = scores(scorer(folder), straight, len(pairs))
    shuffled = [int(k) for k in np.random.default_rng(2).permutation(len(pairs))]
    for order, size in ((straight, 1), (straight, 5), (straight[::-1], 7), (shuffled, len(pairs))):
        np.testing.assert_array_equal(scores(scorer(folder), order, size), reference)
    model = scorer(folder)
    pairs = [(model.prepare_image(image), text) for image, text in pairs]
    np.testing.assert_array_equal(scores(model, straight, 5), reference)


def test_it_scores_pairs_and_counts_texts_that_lose_their_end_once(family, folder):
    model = scorer(folder)
    assert isinstance(model, PairScorer) and not isinstance(model, DualEncoder)
    assert model.kind == ("logit" if family == "vilt" else "probability")
    assert (scorer(folder, reading="itm_logit").kind, model.name) == ("logit", str(folder))
    image, long = pictures()[0], "a red cup on the small blue bowl " * 12
    scores = model.score_pairs([image] * 3, [long, long + "dog", "a cup"])
    assert scores[0] == scores[1] != scores[2]
    assert model.truncated == 2
    model.score_pairs([pictures()[1]], [long])
    assert model.truncated == 2


@pytest.mark.few(2)
def test_half_precision_weights_give_nearby_float32_scores(family, folder):
    images, texts = pictures()[:2], TEXTS[:2]
    exact, rounded = (scorer(folder, dtype=dtype).score_pairs(images, texts) for dtype in ("float32", "bfloat16"))
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, exact, atol=0.15)
    assert (rounded != exact).any()


def test_the_logit_tells_apart_what_the_probability_rounds_to_certainty(tmp_path):
    folder = save(tmp_path, blip)

    tiny.change_weights(folder, lambda tensors: tensors["itm_head.weight"].mul_(1000))
    pairs = [(image, text) for image in pictures() for text in TEXTS]
    probability, logit = (
        scorer(folder, reading=reading).score_pairs([image for image, _ in pairs], [text for _, text in pairs])
        for reading in ("itm", "itm_logit")
    )
    assert len(set(probability.tolist())) < len(set(logit.tolist())) == len(pairs)
    assert (np.less.outer(logit, logit) >= np.less.outer(probability, probability)).all()


def test_a_text_that_fills_its_bucket_shares_no_batch_with_one_that_is_padded(tmp_path):
    encoder = scorer(save(tmp_path, blip)).encoder
    full, other_full, short, longer = encoder.encode_texts(
        ["a the red blue green small", "cup cup cup cup cup cup", "a", "a red cup on the blue bowl"]
    )
    assert [state.tensors[0].shape for state in (full, other_full, short, longer)] == [(8,), (8,), (8,), (16,)]
    assert full.group == other_full.group and len({full.group, short.group, longer.group}) == 3


def test_a_state_holds_its_own_memory_and_not_its_batches(family, folder):
    encoder = scorer(folder).encoder
    for state in (*encoder.encode_images(pictures()), *encoder.encode_texts(TEXTS)):
        assert sum(tensor.untyped_storage().nbytes() for tensor in state.tensors) == state.nbytes


HEADS = {
    **{"vilt": "rank_output", "flava": "itm_head.seq_relationship", "bridgetower": "itm_score.fc"},
    **dict.fromkeys(("blip", "blip-2", "blip-2 with image tokens"), "itm_head"),
    **dict.fromkeys(REGIONS, "cls.seq_relationship"),
}


@pytest.mark.few(2)
def test_the_fingerprint_follows_contents_dtype_and_preprocessing_and_not_the_place(family, folder, tmp_path):
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    first = scorer(folder)
    first.score_pairs(pictures()[:1], ["a " * 60])  # a tokenizer remembers how it was last called
    prints = [first.fingerprint, find_model(f"hf:{moved}", ModelOptions(reading="itm")).fingerprint]
    assert prints[0] == prints[1]
    prints.append(find_model(f"hf:{folder}", ModelOptions(reading="itm_logit")).fingerprint)
    prints.append(scorer(moved, dtype="bfloat16").fingerprint)
    if family in REGIONS:
        arrays = tiny.region_arrays()
        next(iter(arrays.values()))[0, 0] += 1
        np.savez(moved / "regions.npz", **arrays)  # type: ignore[arg-type]
    else:
        name = next(path for path in moved.iterdir() if "processor_config" in path.name)
        text = name.read_text().replace("0.5,", "0.25,").replace("0.48145466", "0.25").replace("0.485", "0.25")
        name.write_text(text)
    prints.append(scorer(moved).fingerprint)
    tokenizer = json.loads((moved / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    one, other = sorted(vocabulary, key=vocabulary.get)[-2:]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    (moved / "tokenizer.json").write_text(json.dumps(tokenizer))
    prints.append(scorer(moved).fingerprint)
    assert len(set(prints)) == 5


def test_missing_and_left_over_weights_are_an_error_that_names_them(family, folder, tmp_path):
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    tiny.change_weights(broken, lambda tensors: tensors.update(stray=tensors.pop(f"{HEADS[family]}.weight")))
    with raises(ModelError, "model", "1 missing", f"({HEADS[family]}.weight)", "1 unexpected", "(stray)"):
        scorer(broken)


def test_parts_that_the_reading_does_not_use_change_nothing(tmp_path):
    whole = save(tmp_path / "whole", tiny.flava)
    lean = Path(shutil.copytree(whole, tmp_path / "lean"))

    def drop(tensors):
        for name in [name for name in tensors if name.startswith(("image_codebook.", "mim_head.", "mlm_head."))]:
            del tensors[name]

    tiny.change_weights(lean, drop)
    assert scorer(lean).fingerprint == scorer(whole).fingerprint


def save_pretrained_vilt(folder: Path) -> tuple[Any, Any]:
    """Save ViLT as its pre-training left it: `vilt.*`, `itm_score.fc.*` and a word head."""
    from safetensors.torch import save_file

    retrieval, processor = vilt()
    tiny.shake(retrieval)
    tensors = {name: tensor for name, tensor in retrieval.state_dict().items() if name.startswith("vilt.")}
    head = {"itm_score.fc.weight": torch.randn(2, 32), "itm_score.fc.bias": torch.randn(2)}
    folder.mkdir()
    words = {"mlm_score.bias": torch.zeros(40)}
    save_file({name: t.contiguous() for name, t in (tensors | head | words).items()}, folder / "model.safetensors")
    config = json.loads(vilt_config().to_json_string()) | {"architectures": ["ViltForPreTraining"]}
    (folder / "config.json").write_text(json.dumps(config))
    with quiet():
        processor.save_pretrained(folder)
    return retrieval.vilt, head


def test_a_pretrained_vilt_is_read_by_its_two_class_head(tmp_path):
    trunk, head = save_pretrained_vilt(tmp_path / "model")
    model = scorer(tmp_path / "model")
    assert model.kind == "probability"
    processor = vilt()[1]
    image, text = pictures()[1], TEXTS[0]
    with torch.no_grad():
        pooled = trunk(**processor(images=Image.fromarray(image), text=text, return_tensors="pt")).pooler_output
        logits = pooled @ head["itm_score.fc.weight"].T + head["itm_score.fc.bias"]
    np.testing.assert_allclose(model.score_pairs([image], [text]), logits.softmax(1)[:, 1], rtol=2e-5)


def test_what_has_no_matching_head_is_refused(tmp_path):
    with quiet():
        transformers.ViltForMaskedLM(vilt_config()).save_pretrained(tmp_path)
        vilt()[1].save_pretrained(tmp_path)
    missing = "2 missing (itm_score.fc.bias, itm_score.fc.weight)"
    with raises(ModelError, "ViltForPreTraining", missing, "ViltForMaskedLM"):
        scorer(tmp_path)
    with quiet():
        transformers.BertConfig().save_pretrained(tmp_path)
    with raises(ModelError, "type", "'bert'", "'itm'", f"{', '.join(FUSION)}"):
        scorer(tmp_path)


def drawing() -> tuple[Any, Any]:
    return transformers.ViltForImageAndTextRetrieval(vilt_config(max_image_length=4)), vilt()[1]


def larger() -> tuple[Any, Any]:
    images = transformers.BlipImageProcessorPil(size={"height": 40, "width": 40})
    return blip()[0], transformers.BlipProcessor(images, tiny.bert())


def wordy() -> tuple[Any, Any]:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{k}" for k in range(50))]
    tokenizer = transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)})
    return blip()[0], transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=tiny.PIXELS), tokenizer)


@pytest.mark.parametrize(
    ("maker", "reading", "facts"),
    [
        (drawing, "itm", ("'max_image_length'", "4", "model")),
        (larger, "itm", ("40", "x", "40", "32", "x", "32")),
        (wordy, "itm", ("55", "40", "tokenizer")),
        (blip, "itc", ("'itc'", "itm", "itm_logit")),
    ],
)
def test_what_gives_no_number_of_a_pair_is_refused(tmp_path, maker, reading, facts):
    with raises(ModelError, *facts):
        scorer(save(tmp_path, maker), reading=reading)


# Files of regions, which LXMERT and VisualBERT read.


@pytest.fixture(scope="module")
def with_regions(tmp_path_factory):
    return save(tmp_path_factory.mktemp("lxmert") / "model", tiny.lxmert)


def test_images_may_be_named_by_their_path_and_the_file_may_be_safetensors(with_regions, tmp_path):
    from safetensors.numpy import save_file

    names = [f"images/{k}.png" for k in range(len(tiny.REGIONS))]
    (tmp_path / "images").mkdir()
    for name, picture in zip(names, pictures(), strict=True):
        Image.fromarray(picture).save(tmp_path / name)
    save_file(tiny.region_arrays(names), tmp_path / "detector.safetensors")
    named, texts = scorer(with_regions, regions=tmp_path / "detector.safetensors"), TEXTS[: len(tiny.REGIONS)]
    scores = named.score_pairs(pictures()[::-1], texts[::-1])[::-1]
    np.testing.assert_array_equal(scores, scorer(with_regions).score_pairs(pictures(), texts))


def test_the_fingerprint_is_of_the_file_that_regions_names(with_regions, tmp_path):
    arrays = tiny.region_arrays()
    np.savez(tmp_path / "same.npz", **arrays)
    next(iter(arrays.values()))[0, 0] += 1
    np.savez(tmp_path / "changed.npz", **arrays)
    same, changed = (scorer(with_regions, regions=tmp_path / f"{name}.npz").fingerprint for name in ("same", "changed"))
    assert scorer(with_regions).fingerprint == same != changed


def test_without_region_features_the_error_says_what_to_do(tmp_path):
    (save(tmp_path / "bare", tiny.lxmert) / "regions.npz").unlink()
    with raises(ModelError, "bare", "regions=", "regions.safetensors", "regions.npz"):
        scorer(tmp_path / "bare")
    with raises(ModelError, "gone.npz", "region"):
        scorer(tmp_path / "bare", regions=tmp_path / "gone.npz")


def test_an_image_without_regions_and_one_that_is_gone_are_named(with_regions, tmp_path):
    stranger = np.zeros((5, 5, 3), np.uint8)
    with raises(ModelError, "hash", pixel_hash(stranger), "regions"):
        scorer(with_regions).score_pairs([stranger], ["a cup"])
    np.savez(tmp_path / "r.npz", **tiny.region_arrays([f"{k}.png" for k in range(len(tiny.REGIONS))]))
    with raises(DataError, "r.npz", "0.png", "image"):
        RegionFile(tmp_path / "r.npz", tiny.DIMENSIONS).inputs(pictures()[0])


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
    content = tiny.region_arrays()
    picture = pictures()[0]
    name = f"{pixel_hash(picture)}/{part}"
    np.savez(tmp_path / "r.npz", **content | {name: change(content[name])})
    with raises(ModelError, facts):
        RegionFile(tmp_path / "r.npz", tiny.DIMENSIONS).inputs(picture)


def test_half_an_image_and_damaged_files_are_refused(tmp_path):
    half = tiny.region_arrays()
    lost = f"{pixel_hash(pictures()[1])}/boxes"
    del half[lost]
    np.savez(tmp_path / "half.npz", **half)
    with raises(ModelError, "KEY/features", "KEY/boxes", f"'{lost}'"):
        RegionFile(tmp_path / "half.npz", tiny.DIMENSIONS)
    for name in ("damaged.npz", "damaged.safetensors"):
        (tmp_path / name).write_bytes(b"\x93NUMPY nonsense")
        with raises(ModelError, name, "plain"):
            RegionFile(tmp_path / name, tiny.DIMENSIONS)


@pytest.mark.parametrize("first", [0, 1])
def test_two_images_with_the_same_pixels_and_other_regions_are_an_error(first, tmp_path):
    picture, (one, other, *_) = pictures()[0], tiny.regions()
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(tmp_path / name)
    Image.fromarray(pictures()[1]).save(tmp_path / "c.png")
    held = {"a.png": one, "b.png": (one, other)[first], "c.png": other}
    parts = [(f"{key}/features", one) for key, (one, _) in held.items()]
    parts += [(f"{key}/boxes", one) for key, (_, one) in held.items()]
    np.savez(tmp_path / "regions.npz", **dict(parts))
    file = RegionFile(tmp_path / "regions.npz", tiny.DIMENSIONS)
    if first:
        with raises(ModelError, "a.png", "b.png", "same pixels"):
            file.inputs(picture)
    else:
        assert file.inputs(picture)["mask"].sum() == tiny.REGIONS[0]
    assert file.inputs(pictures()[1])["mask"].sum() == tiny.REGIONS[1]
