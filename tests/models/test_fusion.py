"""Matching heads of the five fusion encoders, on tiny random checkpoints, against the library's own forward."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.errors import ModelError
from tellapart.models.find import ModelOptions, find_model
from tellapart.models.fusion import FAMILIES, load_itm
from tellapart.models.fusion_scoring import FusionEncoder, FusionScorer
from tellapart.models.huggingface_files import import_transformers, quiet
from tellapart.models.protocols import DualEncoder, PairScorer
from tellapart.models.torch_backend import import_torch

pytest.importorskip("torch", reason="fusion encoders need the extra 'models'")
pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")

torch = import_torch()
transformers = import_transformers()

WORDS = [
    "a",
    "the",
    "red",
    "blue",
    "green",
    "small",
    "big",
    "cup",
    "bowl",
    "dog",
    "cat",
    "on",
    "under",
    "left",
    "right",
    "of",
    "two",
    "three",
    "is",
]
TEXTS = [
    "a red cup on the bowl",
    "a red bowl on the cup",
    "dog",
    "the small green dog is left of the big blue cat two three cups under a bowl",
    "a the red blue green small",  # eight tokens with [CLS] and [SEP]: fills its bucket
    "two dogs, three cats!",
    "",
    "红色 cup",
]
PIXELS = {"height": 32, "width": 32}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = TOWER | {"image_size": 32, "patch_size": 8}


def pictures() -> list[NDArray[np.uint8]]:
    """Four pictures, one of three rows, of different shapes and contents."""
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in ((40, 40), (30, 60), (90, 41), (3, 5))]


def bert(model_max_length: int = 40) -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *WORDS, "##s", ",", "!"]
    return transformers.BertTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=model_max_length
    )


def roberta() -> Any:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *sorted(set("".join(WORDS) + "!,"))]
    return transformers.RobertaTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, merges=[], model_max_length=96
    )


def vilt_config(**changes: Any) -> Any:
    return transformers.ViltConfig(vocab_size=40, max_position_embeddings=16, **VISION, **changes)


def vilt() -> tuple[Any, Any]:
    images = transformers.ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=8)
    return transformers.ViltForImageAndTextRetrieval(vilt_config()), transformers.ViltProcessor(images, bert())


def blip() -> tuple[Any, Any]:
    ids = {"vocab_size": 40, "max_position_embeddings": 16, "pad_token_id": 0, "sep_token_id": 3, "bos_token_id": 2}
    config = transformers.BlipConfig(
        text_config=TOWER | ids | {"encoder_hidden_size": 32},
        vision_config=VISION,
        projection_dim=16,
        image_text_hidden_size=16,
    )
    processor = transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=PIXELS), bert())
    return transformers.BlipForImageTextRetrieval(config), processor


def blip2(image_token: int | None = None) -> tuple[Any, Any]:
    config = transformers.Blip2Config(
        vision_config=VISION | {"hidden_size": 24},
        qformer_config=TOWER
        | {"vocab_size": 40, "max_position_embeddings": 16, "pad_token_id": 0, "use_qformer_text_input": True},
        text_config=transformers.OPTConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2),
        num_query_tokens=3,
        image_text_hidden_size=16,
        image_token_index=image_token,
    )
    images = transformers.BlipImageProcessorPil(size=PIXELS)
    processor = transformers.Blip2Processor(images, bert(), num_query_tokens=None if image_token is None else 3)
    return transformers.Blip2ForImageTextRetrieval(config), processor


def flava() -> tuple[Any, Any]:
    config = transformers.FlavaConfig(
        image_config=VISION | {"vocab_size": 50},
        text_config=TOWER | {"vocab_size": 40, "max_position_embeddings": 16},
        multimodal_config=TOWER,
        image_codebook_config={"num_groups": 4, "hidden_size": 4, "vocab_size": 50, "num_blocks_per_group": 1},
        hidden_size=32,
        projection_dim=16,
    )
    images = transformers.FlavaImageProcessorPil(size=PIXELS, crop_size=PIXELS)
    return transformers.FlavaForPreTraining(config), transformers.FlavaProcessor(images, bert())


def bridgetower() -> tuple[Any, Any]:
    text = {"vocab_size": 40, "max_position_embeddings": 98, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = transformers.BridgeTowerConfig(
        text_config=TOWER | text | {"hidden_size": 64, "num_hidden_layers": 4},
        vision_config={"hidden_size": 64, "num_hidden_layers": 4, "patch_size": 8, "image_size": 32},
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
    )
    images = transformers.BridgeTowerImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"shortest_edge": 32}, size_divisor=8
    )
    return transformers.BridgeTowerForImageAndTextRetrieval(config), transformers.BridgeTowerProcessor(
        images, roberta()
    )


MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "vilt": vilt, "blip": blip, "blip-2": blip2, "blip-2 with image tokens": lambda: blip2(31), "flava": flava,
    "bridgetower": bridgetower,
}  # fmt: skip


def shake(model: Any) -> Any:
    """Give every weight a size that matters: fresh ones are often zero, and then any mistake passes."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.15)
    return model.eval()


def save(folder: Path, maker: Callable[[], tuple[Any, Any]]) -> Path:
    torch.manual_seed(0)
    with quiet():
        model, processor = maker()
        shake(model).save_pretrained(folder)
        processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=list(MAKERS))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp(family) / "model", MAKERS[family])


def scorer(folder: Path, **changes: Any) -> FusionScorer:
    return load_itm(str(folder), ModelOptions(**changes))


def library_logits(family: str, model: Any, processor: Any, image: NDArray[np.uint8], text: str) -> Any:
    """Return the matching head's logits for one pair as the library's documentation has it, alone and unpadded."""
    from PIL import Image

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


def test_every_pair_gets_the_librarys_own_number(family: str, folder: Path) -> None:
    with quiet():
        model = type(MAKERS[family]()[0]).from_pretrained(folder).eval()
        processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    pairs = [(image, text) for image in pictures() for text in TEXTS]
    logits = torch.stack([library_logits(family, model, processor, *pair) for pair in pairs])
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


def test_batches_order_and_neighbours_change_no_bit(family: str, folder: Path) -> None:
    pairs = [(image, text) for image in pictures() for text in TEXTS]

    def scores(model: FusionScorer, order: list[int], size: int) -> NDArray[np.float32]:
        parts = [order[k : k + size] for k in range(0, len(order), size)]
        found = [model.score_pairs([pairs[k][0] for k in part], [pairs[k][1] for k in part]) for part in parts]
        return np.concatenate(found)[np.argsort(order)]

    straight = list(range(len(pairs)))
    reference = scores(scorer(folder), straight, len(pairs))
    shuffled = [int(k) for k in np.random.default_rng(2).permutation(len(pairs))]
    for order, size in ((straight, 1), (straight, 5), (straight[::-1], 7), (shuffled, len(pairs))):
        np.testing.assert_array_equal(scores(scorer(folder), order, size), reference)


def test_each_half_is_computed_once_for_all_pairs(family: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = scorer(folder)
    samples = {"images": 0, "texts": 0}

    def counted(name: str) -> Any:
        encode = getattr(model.encoder, f"encode_{name}")

        def encode_and_count(batch: Any) -> Any:
            samples[name] += len(batch)
            return encode(batch)

        return encode_and_count

    for name in samples:
        monkeypatch.setattr(model.encoder, f"encode_{name}", counted(name))
    for image in pictures():
        model.score_pairs([image.copy() for _ in TEXTS], TEXTS)
    assert samples == {"images": 4, "texts": 8} == {"images": model.images_encoded, "texts": model.texts_encoded}


def test_it_is_a_pair_scorer_of_probabilities(family: str, folder: Path) -> None:
    model = scorer(folder)
    assert isinstance(model, PairScorer) and not isinstance(model, DualEncoder)
    assert isinstance(model.encoder, FusionEncoder)
    assert model.kind == ("logit" if family == "vilt" else "probability")
    assert scorer(folder, reading="itm_logit").kind == "logit"
    assert model.name == str(folder)


def test_texts_that_lose_their_end_are_counted_once(family: str, folder: Path) -> None:
    model = scorer(folder)
    image, long = pictures()[0], "a red cup on the small blue bowl " * 12
    scores = model.score_pairs([image] * 3, [long, long + "dog", "a cup"])
    assert scores[0] == scores[1] != scores[2]
    assert model.truncated == 2
    model.score_pairs([pictures()[1]], [long])
    assert model.truncated == 2


def test_the_fingerprint_follows_contents_dtype_and_preprocessing_and_not_the_place(
    family: str, folder: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    first = scorer(folder)
    first.score_pairs(pictures()[:1], ["a " * 60])  # a tokenizer remembers how it was last called
    prints = [first.fingerprint, scorer(moved).fingerprint]
    assert prints[0] == prints[1]
    prints.append(scorer(moved, dtype="bfloat16").fingerprint)
    name = next(path for path in moved.iterdir() if "processor_config" in path.name)
    name.write_text(name.read_text().replace("0.5,", "0.25,").replace("0.48145466", "0.25").replace("0.485", "0.25"))
    prints.append(scorer(moved).fingerprint)
    tokenizer = json.loads((moved / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    one, other = sorted(vocabulary, key=vocabulary.get)[-2:]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    (moved / "tokenizer.json").write_text(json.dumps(tokenizer))
    prints.append(scorer(moved).fingerprint)
    assert len(set(prints)) == 4


def test_half_precision_weights_give_nearby_float32_scores(family: str, folder: Path) -> None:
    images, texts = pictures()[:2], TEXTS[:2]
    exact, rounded = (scorer(folder, dtype=dtype).score_pairs(images, texts) for dtype in ("float32", "bfloat16"))
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, exact, atol=0.15)
    assert (rounded != exact).any()


def change_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


HEADS = {
    "vilt": "rank_output", "blip": "itm_head", "blip-2": "itm_head", "blip-2 with image tokens": "itm_head", "flava": "itm_head.seq_relationship",
    "bridgetower": "itm_score.fc",
}  # fmt: skip


def test_the_logit_tells_apart_what_the_probability_rounds_to_certainty(tmp_path: Path) -> None:
    folder = save(tmp_path, blip)

    def sure(tensors: dict[str, Any]) -> None:
        tensors["itm_head.weight"] *= 1000

    change_weights(folder, sure)
    pairs = [(image, text) for image in pictures() for text in TEXTS]
    probability, logit = (
        scorer(folder, reading=reading).score_pairs([image for image, _ in pairs], [text for _, text in pairs])
        for reading in ("itm", "itm_logit")
    )
    assert len(set(probability.tolist())) < len(set(logit.tolist())) == len(pairs)
    assert (np.less.outer(logit, logit) >= np.less.outer(probability, probability)).all()


def test_another_reading_than_the_heads_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a matching head has no reading 'itc'; it has itm, itm_logit"):
        scorer(save(tmp_path, blip), reading="itc")


def test_a_tokenizer_that_pads_before_the_text_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path, blip)
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"padding_side": "left"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="its tokenizer pads on the left, which moves every token"):
        scorer(folder)


def test_missing_and_left_over_weights_are_an_error_that_names_them(family: str, folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    change_weights(broken, lambda tensors: tensors.update(stray=tensors.pop(f"{HEADS[family]}.weight")))
    message = rf"model: its weights are not those of \w+: 1 missing \({HEADS[family]}.weight\); 1 unexpected \(stray\)"
    with pytest.raises(ModelError, match=message):
        scorer(broken)


def test_weights_of_another_shape_are_an_error(family: str, folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))

    def cut(tensors: dict[str, Any]) -> None:
        name = f"{HEADS[family]}.weight"
        tensors[name] = tensors[name][:, :-1].contiguous()

    change_weights(broken, cut)
    with pytest.raises(ModelError, match=rf"not those of \w+: 1 of another shape \({HEADS[family]}.weight \("):
        scorer(broken)


def test_parts_that_the_reading_does_not_use_change_nothing(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole", flava)
    lean = Path(shutil.copytree(whole, tmp_path / "lean"))

    def drop(tensors: dict[str, Any]) -> None:
        for name in [name for name in tensors if name.startswith(("image_codebook.", "mim_head.", "mlm_head."))]:
            del tensors[name]

    change_weights(lean, drop)
    assert scorer(lean).fingerprint == scorer(whole).fingerprint


def save_pretrained_vilt(folder: Path) -> tuple[Any, Any]:
    """Save ViLT as its pre-training left it: `vilt.*`, `itm_score.fc.*` and a word head."""
    from safetensors.torch import save_file

    retrieval, processor = vilt()
    shake(retrieval)
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


def test_a_pretrained_vilt_is_read_by_its_two_class_head(tmp_path: Path) -> None:
    from PIL import Image

    trunk, head = save_pretrained_vilt(tmp_path / "model")
    model = scorer(tmp_path / "model")
    assert model.kind == "probability"
    processor = vilt()[1]
    image, text = pictures()[1], TEXTS[0]
    with torch.no_grad():
        pooled = trunk(**processor(images=Image.fromarray(image), text=text, return_tensors="pt")).pooler_output
        logits = pooled @ head["itm_score.fc.weight"].T + head["itm_score.fc.bias"]
    np.testing.assert_allclose(model.score_pairs([image], [text]), logits.softmax(1)[:, 1], rtol=2e-5)


def test_a_vilt_without_a_matching_head_is_refused(tmp_path: Path) -> None:
    with quiet():
        transformers.ViltForMaskedLM(vilt_config()).save_pretrained(tmp_path)
        vilt()[1].save_pretrained(tmp_path)
    message = (
        r"not those of ViltForPreTraining: 2 missing \(itm_score.fc.bias, itm_score.fc.weight\); it was saved as "
        "ViltForMaskedLM: .* or ask for another reading"
    )
    with pytest.raises(ModelError, match=message):
        scorer(tmp_path)


def test_a_vilt_that_draws_patches_is_refused(tmp_path: Path) -> None:
    folder = save(
        tmp_path, lambda: (transformers.ViltForImageAndTextRetrieval(vilt_config(max_image_length=4)), vilt()[1])
    )
    with pytest.raises(ModelError, match=r"'max_image_length' is 4: the model then draws patches at random"):
        scorer(folder)


def test_a_family_without_a_matching_head_is_named(tmp_path: Path) -> None:
    with quiet():
        transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(
        ModelError, match=f"is of type 'bert', which has no reading 'itm' here; {', '.join(FAMILIES)} have"
    ):
        scorer(tmp_path)


def test_a_checkpoint_without_its_processor_is_an_error(tmp_path: Path) -> None:
    folder = save(tmp_path, blip)
    for path in folder.iterdir():
        if "processor" in path.name or "tokenizer" in path.name:
            path.unlink()
    with pytest.raises(ModelError, match="has no processor that can be read"):
        scorer(folder)


def test_prepared_images_score_as_plain_ones(family: str, folder: Path) -> None:
    model, texts = scorer(folder), TEXTS[:4]
    prepared = [model.prepare_image(picture) for picture in pictures()]
    np.testing.assert_array_equal(model.score_pairs(prepared, texts), scorer(folder).score_pairs(pictures(), texts))


def test_images_of_a_size_that_the_encoder_cannot_take_are_an_error(tmp_path: Path) -> None:
    def larger() -> tuple[Any, Any]:
        images = transformers.BlipImageProcessorPil(size={"height": 40, "width": 40})
        return blip()[0], transformers.BlipProcessor(images, bert())

    with pytest.raises(
        ModelError, match=r"its image processor makes 40 x 40 pixels, and its image tower reads 32 x 32"
    ):
        scorer(save(tmp_path, larger))


def test_a_tokenizer_of_another_model_is_an_error(tmp_path: Path) -> None:
    def wordy() -> tuple[Any, Any]:
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{k}" for k in range(50))]
        tokenizer = transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)})
        return blip()[0], transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=PIXELS), tokenizer)

    with pytest.raises(ModelError, match="its tokenizer knows 55 tokens and its text encoder 40: they are not of one"):
        scorer(save(tmp_path, wordy))


def test_what_the_library_raises_while_it_computes_is_one_line(tmp_path: Path) -> None:
    model = scorer(save(tmp_path, blip))
    with pytest.raises(ModelError, match="BlipForImageTextRetrieval fails: The size of tensor a"):
        model.score_pairs([{"pixel_values": np.zeros((3, 40, 40), np.float32)}], ["a cup"])


def test_it_is_found_by_its_folder(family: str, folder: Path) -> None:
    prints = set()
    for reading in ("itm", "itm_logit"):
        found: Any = find_model(f"hf:{folder}", ModelOptions(reading=reading))
        assert found.fingerprint == scorer(folder, reading=reading).fingerprint
        prints.add(found.fingerprint)
    assert len(prints) == 2 and scorer(folder).fingerprint in prints


def test_a_text_that_fills_its_bucket_shares_no_batch_with_one_that_is_padded(tmp_path: Path) -> None:
    encoder: Any = scorer(save(tmp_path, blip)).encoder
    full, other_full, short, longer = encoder.encode_texts(
        ["a the red blue green small", "cup cup cup cup cup cup", "a", "a red cup on the blue bowl"]
    )
    assert [state.tensors[0].shape for state in (full, other_full, short, longer)] == [(8,), (8,), (8,), (16,)]
    assert full.group == other_full.group and len({full.group, short.group, longer.group}) == 3


def test_a_state_holds_its_own_memory_and_not_its_batches(family: str, folder: Path) -> None:
    encoder: Any = scorer(folder).encoder
    for state in (*encoder.encode_images(pictures()), *encoder.encode_texts(TEXTS)):
        assert sum(tensor.untyped_storage().nbytes() for tensor in state.tensors) == state.nbytes
