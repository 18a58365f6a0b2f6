"""Matching heads of the fusion encoders, on tiny random checkpoints, against the library's own forward."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_fusion_encoders as tiny
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from tiny_fusion_encoders import MAKERS, TEXTS, blip, pictures, save, scorer, vilt, vilt_config
from tiny_models import check_neighbours, edit

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
    length = {"bridgetower": 96, "blip-2 with image tokens": 16 + 3}.get(family, 16)
    room = {"return_tensors": "pt", "truncation": True, "max_length": length}
    if family in REGIONS:
        features, boxes = (torch.from_numpy(array)[None] for array in tiny.regions()[number])
        inputs = processor(text, **room)
        with torch.no_grad():
            if family == "lxmert":
                return model(**inputs, visual_feats=features, visual_pos=boxes).cross_relationship_score[0]
            return model(**inputs, visual_embeds=features).seq_relationship_logits[0].flip(0)  # class 0 is the match
    image = Image.fromarray(pictures()[number])
    if family == "blip-2":  # the library's processor fails on a length if there are no image tokens to leave room for
        inputs = processor.tokenizer(text, return_token_type_ids=False, **room)
        inputs.update(processor(images=image, return_tensors="pt"))
    else:
        inputs = processor(images=image, text=text, **room)
    option, output = {
        "blip": ({"use_itm_head": True}, "itm_score"),
        "flava": ({"return_loss": False}, "itm_logits"),
    }.get(family, ({}, "logits"))
    if family.startswith("blip-2"):
        option, output = {"use_image_text_matching_head": True}, "logits_per_image"
    with torch.no_grad(), quiet():
        return getattr(model(**inputs, **option), output)[0]


#: Every picture with every text, as columns.
COLUMNS = ([image for image in pictures() for _ in TEXTS], TEXTS * len(pictures()))


def probabilities_and_logits(folder: Path) -> Iterator[NDArray[np.float32]]:
    return (scorer(folder, reading=reading).score_pairs(*COLUMNS) for reading in ("itm", "itm_logit"))


@pytest.mark.few(2)
def test_every_pair_gets_the_librarys_own_number(family, folder):
    with quiet():
        model = type(MAKERS[family]()[0]).from_pretrained(folder).eval()
        auto = transformers.AutoTokenizer if family in REGIONS else transformers.AutoProcessor
        processor = auto.from_pretrained(folder, backend="pil")
    numbers = [(number, text) for number in range(len(pictures())) for text in TEXTS]
    logits = torch.stack([library_logits(family, model, processor, *pair) for pair in numbers])
    single = logits.shape[1] == 1
    expected = np.asarray(logits[:, 0] if single else logits.softmax(1)[:, 1])
    probability, logit = probabilities_and_logits(folder)
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
    (images, texts), model, keeping = COLUMNS, scorer(folder), scorer(folder)
    model.cache_bytes = 0  # every half is computed in every batch
    reference = check_neighbours(model.score_pairs, images, texts, sizes=(1, 5, len(texts)))
    np.testing.assert_array_equal(keeping.score_pairs(images[::-1], texts[::-1])[::-1], reference)
    np.testing.assert_array_equal(keeping.score_pairs([*map(model.prepare_image, images)], texts), reference)


def test_it_scores_pairs_counts_cut_texts_once_and_a_state_holds_its_own_memory(family, folder):
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
    for state in (*model.encoder.encode_images(pictures()), *model.encoder.encode_texts(TEXTS)):
        assert sum(tensor.untyped_storage().nbytes() for tensor in state.tensors) == state.nbytes  # not of its batch


def test_the_logit_tells_apart_what_the_probability_rounds_to_certainty(tmp_path):
    folder = save(tmp_path, blip)
    tiny.change_weights(folder, lambda tensors: tensors["itm_head.weight"].mul_(1000))
    probability, logit = probabilities_and_logits(folder)
    assert len(set(probability.tolist())) < len(set(logit.tolist())) == len(logit)
    assert (np.less.outer(logit, logit) >= np.less.outer(probability, probability)).all()


def test_a_text_that_fills_its_bucket_shares_no_batch_with_one_that_is_padded(tmp_path):
    texts = ["a the red blue green small", "cup cup cup cup cup cup", "a", "a red cup on the blue bowl"]
    states = scorer(save(tmp_path, blip)).encoder.encode_texts(texts)
    assert [state.tensors[0].shape for state in states] == [(8,), (8,), (8,), (16,)]
    full, other_full, short, longer = (state.group for state in states)
    assert full == other_full and len({full, short, longer}) == 3


HEADS = {
    **{"vilt": "rank_output", "flava": "itm_head.seq_relationship", "bridgetower": "itm_score.fc"},
    **dict.fromkeys(("blip", "blip-2", "blip-2 with image tokens"), "itm_head"),
    **dict.fromkeys(REGIONS, "cls.seq_relationship"),
}


@pytest.mark.few(2)
def test_the_fingerprint_follows_contents_dtype_and_preprocessing_and_not_the_place(family, folder, tmp_path):
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    first, rounded = scorer(folder), scorer(moved, dtype="bfloat16")
    exact, near = (model.score_pairs(pictures()[:2], TEXTS[:2]) for model in (first, rounded))
    np.testing.assert_allclose(near, exact, atol=0.15)
    assert near.dtype == np.float32 and (near != exact).any()
    first.score_pairs(pictures()[:1], ["a " * 60])  # a tokenizer remembers how it was last called
    prints = [first.fingerprint, rounded.fingerprint]
    assert find_model(f"hf:{moved}", ModelOptions(reading="itm")).fingerprint == first.fingerprint
    prints.append(find_model(f"hf:{folder}", ModelOptions(reading="itm_logit")).fingerprint)
    if family in REGIONS:
        arrays = tiny.region_arrays()
        next(iter(arrays.values()))[0, 0] += 1
        np.savez(moved / "regions.npz", **arrays)  # type: ignore[arg-type]
    else:
        name = next(path for path in moved.iterdir() if "processor_config" in path.name)
        text = name.read_text().replace("0.5,", "0.25,").replace("0.48145466", "0.25").replace("0.485", "0.25")
        name.write_text(text)
    prints.append(scorer(moved).fingerprint)

    def swap_words(content: Any) -> None:
        vocabulary = content["model"]["vocab"]
        one, other = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]

    edit(moved / "tokenizer.json", swap_words)
    prints.append(scorer(moved).fingerprint)
    assert len(set(prints)) == 5


def test_missing_and_left_over_weights_are_an_error_that_names_them(family, folder, tmp_path):
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    tiny.change_weights(broken, lambda tensors: tensors.update(stray=tensors.pop(f"{HEADS[family]}.weight")))
    with raises(ModelError, "model", "1 missing", f"({HEADS[family]}.weight)", "1 unexpected", "(stray)"):
        scorer(broken)


def test_parts_that_the_reading_does_not_use_change_nothing(tmp_path):
    whole = save(tmp_path / "whole", tiny.flava)
    lean, unused = Path(shutil.copytree(whole, tmp_path / "lean")), ("image_codebook.", "mim_head.", "mlm_head.")
    tiny.change_weights(lean, lambda held: [held.pop(name) for name in list(held) if name.startswith(unused)])
    assert scorer(lean).fingerprint == scorer(whole).fingerprint


def test_a_pretrained_vilt_is_read_by_its_two_class_head(tmp_path):
    """As its pre-training left it: `vilt.*`, `itm_score.fc.*` and a word head."""
    from safetensors.torch import save_file

    retrieval, processor = vilt()
    tiny.shake(retrieval)
    weight, bias = torch.randn(2, 32), torch.randn(2)
    tensors = {name: tensor for name, tensor in retrieval.state_dict().items() if name.startswith("vilt.")}
    tensors |= {"itm_score.fc.weight": weight, "itm_score.fc.bias": bias, "mlm_score.bias": torch.zeros(40)}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    config = json.loads(vilt_config().to_json_string()) | {"architectures": ["ViltForPreTraining"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with quiet():
        processor.save_pretrained(tmp_path)
    model, image, text = scorer(tmp_path), pictures()[1], TEXTS[0]
    assert model.kind == "probability"
    with torch.no_grad():
        inputs = processor(images=Image.fromarray(image), text=text, return_tensors="pt")
        expected = (retrieval.vilt(**inputs).pooler_output @ weight.T + bias).softmax(1)[:, 1]
    np.testing.assert_allclose(model.score_pairs([image], [text]), expected, rtol=2e-5)


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


def blip_with(images: int = 32, words: int = 0) -> tuple[Any, Any]:
    """BLIP with pictures of another size, or another tokenizer's words."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{k}" for k in range(words))]
    tokenizer = transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}) if words else tiny.bert()
    size = {"height": images, "width": images}
    return blip()[0], transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=size), tokenizer)


@pytest.mark.parametrize(
    ("maker", "reading", "facts"),
    [
        (lambda: (type(vilt()[0])(vilt_config(max_image_length=4)), vilt()[1]), "itm", ("'max_image_length'", "4")),
        (lambda: blip_with(images=40), "itm", ("40", "x", "40", "32", "x", "32")),
        (lambda: blip_with(words=50), "itm", ("55", "40", "tokenizer")),
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
    folder = save(tmp_path / "bare", tiny.lxmert)
    (folder / "regions.npz").unlink()
    with raises(ModelError, "bare", "regions=", "regions.safetensors", "regions.npz"):
        scorer(folder)
    with raises(ModelError, "gone.npz", "region"):
        scorer(folder, regions=tmp_path / "gone.npz")


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
    same, third, *_ = pictures()
    one, other, *_ = tiny.regions()
    for name, picture in (("a.png", same), ("b.png", same), ("c.png", third)):
        Image.fromarray(picture).save(tmp_path / name)
    held = {"a.png": one, "b.png": (one, other)[first], "c.png": other}
    parts = {f"{key}/{part}": pair[k] for key, pair in held.items() for k, part in enumerate(("features", "boxes"))}
    np.savez(tmp_path / "regions.npz", **parts)
    file = RegionFile(tmp_path / "regions.npz", tiny.DIMENSIONS)
    if first:
        with raises(ModelError, "a.png", "b.png", "same pixels"):
            file.inputs(same)
    else:
        assert file.inputs(same)["mask"].sum() == tiny.REGIONS[0]
    assert file.inputs(third)["mask"].sum() == tiny.REGIONS[1]
