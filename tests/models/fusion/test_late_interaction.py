"""Late interaction: tiny ColPali, ColQwen2 and ColModernVBert against the library's `score_retrieval`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_generative import CLIP_SIZE, IMAGES, LANGUAGE, QWEN_MARKS, TEXTS, VISION, tokenizer

from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.vectors import late_interaction

torch, transformers = import_torch(), import_transformers()


def save(folder: Path, kind: str, config: Any, processor: Any) -> None:
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForRetrieval")(config)
    model.init_weights()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def save_colpali(folder: Path) -> None:
    marks = ["<pad>", "<eos>", "<bos>", "<image>"]
    words = tokenizer(marks, "pad_token eos_token bos_token")
    words.image_token, words.image_token_id = "<image>", 3
    images = transformers.SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 16
    processor = transformers.ColPaliProcessor(images, words)
    language = LANGUAGE | {"model_type": "gemma", "vocab_size": len(words), "head_dim": 8, "num_key_value_heads": 2}
    language |= {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "max_position_embeddings": 512}
    vision = VISION | {"model_type": "siglip_vision_model", "projection_dim": 32, "vision_use_head": False}
    vlm = transformers.PaliGemmaConfig(
        text_config=language, vision_config=vision, projection_dim=32, image_token_index=3, image_token_id=3
    )
    save(folder, "ColPali", transformers.ColPaliConfig(vlm_config=vlm, embedding_dim=12), processor)


def save_colqwen(folder: Path) -> None:
    words = tokenizer(QWEN_MARKS, "pad_token _ eos_token")
    ids = words.convert_tokens_to_ids
    vision = {"depth": 2, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2, "initializer_range": 0.5}
    rotary = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    language = CLIP_SIZE | {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    language |= {"vocab_size": len(words), "num_key_value_heads": 2, "max_position_embeddings": 512}
    vlm = transformers.Qwen2VLConfig(
        text_config=language | {"rope_parameters": rotary},
        vision_config=vision | {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2},
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    cuts = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    images = transformers.Qwen2VLImageProcessor(**cuts, min_pixels=64, max_pixels=1024)
    processor = transformers.ColQwen2Processor(images, words)
    save(folder, "ColQwen2", transformers.ColQwen2Config(vlm_config=vlm, embedding_dim=12), processor)


def save_colmodernvbert(folder: Path) -> None:
    marks = ["<pad>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>", "[CLS]", "[SEP]"]
    words = tokenizer(marks, "pad_token")
    words.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "bos_token": "[CLS]", "eos_token": "[SEP]"})
    images = transformers.Idefics3ImageProcessor(
        size={"longest_edge": 16}, max_image_size={"longest_edge": 16}, do_image_splitting=False
    )
    processor = transformers.ColModernVBertProcessor(images, words, image_seq_len=4)
    language = CLIP_SIZE | {"model_type": "modernbert", "vocab_size": len(words), "pad_token_id": 0, "cls_token_id": 5}
    language |= {"bos_token_id": 5, "eos_token_id": 6, "sep_token_id": 6, "max_position_embeddings": 512}
    vision = VISION | {"model_type": "siglip_vision_model"}
    vlm = transformers.ModernVBertConfig(
        text_config=language, vision_config=vision, pixel_shuffle_factor=2, image_token_id=2
    )
    save(folder, "ColModernVBert", transformers.ColModernVBertConfig(vlm_config=vlm, embedding_dim=12), processor)


SAVERS: dict[str, Callable[[Path], None]] = {
    "ColPali": save_colpali,
    "ColQwen2": save_colqwen,
    "ColModernVBert": save_colmodernvbert,
}


@pytest.fixture(scope="module", params=SAVERS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    with quiet():
        SAVERS[request.param](folder)
    return request.param, folder


def by_the_library(kind: str, folder: Path) -> tuple[Any, list[Any], list[Any]]:
    """The library's processor, and its vectors of each text and of each image, one at a time."""
    processor = getattr(transformers, f"{kind}Processor").from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = getattr(transformers, f"{kind}ForRetrieval").from_pretrained(folder).eval()
    with torch.no_grad():
        texts = [model(**processor.process_queries([text], return_tensors="pt")).embeddings[0] for text in TEXTS]
        inputs = (processor.process_images([Image.fromarray(image)], return_tensors="pt") for image in IMAGES)
        return processor, texts, [model(**each).embeddings[0] for each in inputs]


def test_scores_are_the_librarys(saved: tuple[str, Path]) -> None:
    kind, folder = saved
    processor, texts, images = by_the_library(kind, folder)
    model = find_model(str(folder), ModelOptions())
    pairs = [(image, text) for image in IMAGES for text in TEXTS]
    scores = model.score_pairs([image for image, _ in pairs], [text for _, text in pairs])
    expected = processor.score_retrieval(texts, images).T.numpy().reshape(-1)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-5)


def test_filip_is_the_mean_of_both_directions(saved: tuple[str, Path]) -> None:
    kind, folder = saved
    _, texts, images = by_the_library(kind, folder)
    model = find_model(str(folder), ModelOptions(reading="filip"))
    assert model.fingerprint != find_model(str(folder), ModelOptions()).fingerprint
    products = (texts[1] @ images[1].T).double()
    expected = (products.max(dim=1).values.mean() + products.max(dim=0).values.mean()) / 2
    np.testing.assert_allclose(model.score_pairs([IMAGES[1]], [TEXTS[1]]), expected, rtol=1e-6)


def test_no_score_depends_on_its_neighbours(saved: tuple[str, Path]) -> None:
    model = find_model(str(saved[1]), ModelOptions())
    together = model.score_pairs([IMAGES[0], IMAGES[1], IMAGES[2]], TEXTS)
    alone = [find_model(str(saved[1]), ModelOptions()).score_pairs([IMAGES[k]], [TEXTS[k]])[0] for k in range(3)]
    np.testing.assert_array_equal(together, alone)


def test_rules_agree_with_loops() -> None:
    draw = np.random.default_rng(0)
    image, text = draw.normal(size=(5, 4)), draw.normal(size=(3, 4))
    nearest = [max(float(row @ other) for other in image) for row in text]
    back = [max(float(row @ other) for other in text) for row in image]
    assert np.isclose(late_interaction(image, text, "maxsim"), sum(nearest))
    assert np.isclose(late_interaction(image, text, "meanmaxsim"), np.mean(nearest))
    assert np.isclose(late_interaction(image, text, "filip"), (np.mean(nearest) + np.mean(back)) / 2)
