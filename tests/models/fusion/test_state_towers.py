"""Towers whose states meet in a score, tiny ones of six families, against the library's own numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_generative import CLIP_SIZE, IMAGES, QWEN_CUTS, QWEN_MARKS, TEXTS, VISION, paligemma, qwen_config, tokenizer
from tiny_models import changed, check_neighbours

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import quiet
from tellapart.models.options import ModelOptions
from tellapart.models.vectors import late_interaction

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
DRAW = np.random.default_rng(0)
FILMS = [DRAW.integers(0, 256, (4, *shape, 3), dtype=np.uint8) for shape in ((20, 24), (24, 40), (50, 16))]


def save(folder: Path, model, processor) -> None:
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def save_colpali(folder: Path) -> None:
    words, images, vlm = paligemma()
    words.image_token, words.image_token_id = "<image>", 3
    config = transformers.ColPaliConfig(vlm_config=vlm, embedding_dim=12)
    save(folder, transformers.ColPaliForRetrieval(config), transformers.ColPaliProcessor(images, words))


def save_colqwen(folder: Path) -> None:
    words = tokenizer(QWEN_MARKS, "pad_token _ eos_token")
    config = transformers.ColQwen2Config(vlm_config=qwen_config(words), embedding_dim=12)
    images = transformers.Qwen2VLImageProcessor(**QWEN_CUTS, min_pixels=64, max_pixels=1024)
    save(folder, transformers.ColQwen2ForRetrieval(config), transformers.ColQwen2Processor(images, words))


def save_colmodernvbert(folder: Path) -> None:
    marks = ["<pad>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>", "[CLS]", "[SEP]"]
    words, edge = tokenizer(marks, "pad_token"), {"longest_edge": 16}
    words.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "bos_token": "[CLS]", "eos_token": "[SEP]"})
    images = transformers.Idefics3ImageProcessor(size=edge, max_image_size=edge, do_image_splitting=False)
    processor = transformers.ColModernVBertProcessor(images, words, image_seq_len=4)
    language = CLIP_SIZE | {"model_type": "modernbert", "vocab_size": len(words), "pad_token_id": 0, "cls_token_id": 5}
    language |= {"bos_token_id": 5, "eos_token_id": 6, "sep_token_id": 6, "max_position_embeddings": 512}
    towers = {"text_config": language, "vision_config": VISION | {"model_type": "siglip_vision_model"}}
    vlm = transformers.ModernVBertConfig(**towers, pixel_shuffle_factor=2, image_token_id=2)
    config = transformers.ColModernVBertConfig(vlm_config=vlm, embedding_dim=12)
    save(folder, transformers.ColModernVBertForRetrieval(config), processor)


def save_x_clip(folder: Path) -> None:
    words = tokenizer(["<s>", "</s>", "<pad>"], "bos_token eos_token pad_token")
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    language = SMALL | {"vocab_size": len(words), "max_position_embeddings": 64, "eos_token_id": 1, "pad_token_id": 2}
    vision = SMALL | {"image_size": 16, "patch_size": 4, "num_frames": 4}
    vision |= {"mit_hidden_size": 32, "mit_intermediate_size": 64, "mit_num_hidden_layers": 1}
    towers = {"text_config": language, "vision_config": vision}
    config = transformers.XCLIPConfig(**towers, projection_dim=32, prompt_num_attention_heads=4)
    save(folder, transformers.XCLIPModel(config), transformers.XCLIPProcessor(images, words))


def save_videoprism(folder: Path) -> None:
    words = tokenizer(["<pad>", "<unk>", "</s>"], "pad_token unk_token eos_token")
    videos = transformers.LlavaOnevisionVideoProcessor(size={"height": 16, "width": 16}, do_normalize=False)
    language = SMALL | {"vocab_size": len(words), "max_position_embeddings": 64}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "image_size": 16, "num_frames": 4}
    vision |= {"tubelet_size": [1, 4, 4], "num_spatial_layers": 1, "num_temporal_layers": 1, "num_auxiliary_layers": 1}
    config = transformers.VideoPrismConfig(text_config=language, vision_config=vision)
    save(folder, transformers.VideoPrismClipModel(config), transformers.VideoPrismProcessor(videos, words))


def save_pe_video(folder: Path) -> None:
    words = tokenizer(["<pad>", "[CLS]", "[SEP]"], "pad_token cls_token sep_token")
    usual = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    usual |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 32, "width": 32}}
    videos = transformers.PeVideoVideoProcessor(**usual)
    language = SMALL | {"model_type": "modernbert", "vocab_size": len(words), "max_position_embeddings": 64}
    language |= {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
    sizes = {"img_size": 32, "patch_size": 16, "embed_dim": 32, "depth": 1, "num_heads": 2, "ref_feat_shape": (2, 2)}
    vision = {"model_type": "timm_wrapper", "architecture": "vit_pe_core_tiny_patch16_384", "do_pooling": True}
    vision |= {"num_classes": 32, "model_args": sizes}
    video = SMALL | {"head_dim": 8, "vision_config": vision}
    config = transformers.PeVideoConfig(text_config=language, video_config=video)
    save(folder, transformers.PeVideoModel(config), transformers.PeVideoProcessor(videos, words))


Savers = dict[str, Callable[[Path], None]]
LATE: Savers = {"ColPali": save_colpali, "ColQwen2": save_colqwen, "ColModernVBert": save_colmodernvbert}
VIDEO: Savers = {"XCLIPModel": save_x_clip, "VideoPrismClipModel": save_videoprism, "PeVideoModel": save_pe_video}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    root = tmp_path_factory.mktemp("towers")

    def once(kind):
        if not (root / kind).is_dir():
            with quiet():
                (LATE | VIDEO)[kind](root / kind)
        return root / kind

    return once


def by_the_library(kind: str, folder: Path) -> tuple[Any, list[Any], list[Any]]:
    """The library's processor, and its vectors of each text and of each image, one at a time."""
    processor = getattr(transformers, f"{kind}Processor").from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = getattr(transformers, f"{kind}ForRetrieval").from_pretrained(folder).eval()
    with torch.no_grad():
        texts = [model(**processor.process_queries([text], return_tensors="pt")).embeddings[0] for text in TEXTS]
        inputs = (processor.process_images([Image.fromarray(image)], return_tensors="pt") for image in IMAGES)
        return processor, texts, [model(**each).embeddings[0] for each in inputs]


@pytest.mark.parametrize("kind", LATE)
def test_late_scores_are_the_librarys_and_filip_is_the_mean_of_both_directions(saved, kind):
    folder = str(saved(kind))
    processor, texts, images = by_the_library(kind, saved(kind))
    model, filip = find_model(folder, ModelOptions()), find_model(folder, ModelOptions(reading="filip"))
    model.cache_bytes = 0  # every state is computed in every batch
    columns = [image for image in IMAGES for _ in TEXTS], TEXTS * len(IMAGES)
    scores = check_neighbours(model.score_pairs, *columns)
    expected = processor.score_retrieval(texts, images).T.numpy().reshape(-1)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-5)
    assert filip.fingerprint != model.fingerprint
    products = (texts[1] @ images[1].T).double()
    expected = (products.max(dim=1).values.mean() + products.max(dim=0).values.mean()) / 2
    np.testing.assert_allclose(filip.score_pairs([IMAGES[1]], [TEXTS[1]]), expected, rtol=1e-6)


@pytest.mark.parametrize("setting", ["query_prefix", "visual_prompt_prefix"])
def test_the_words_before_a_query_and_a_picture_are_part_of_the_fingerprint(saved, setting, tmp_path):
    folder = changed(saved("ColPali"), tmp_path / "changed", "processor_config.json", **{setting: "a picture: "})
    before, after = (find_model(str(each)) for each in (saved("ColPali"), folder))
    assert np.abs(before.score_pairs(IMAGES, TEXTS) - after.score_pairs(IMAGES, TEXTS)).max() > 1e-3
    assert before.fingerprint != after.fingerprint


def test_rules_agree_with_loops():
    draw = np.random.default_rng(0)
    image, text = draw.normal(size=(5, 4)), draw.normal(size=(3, 4))
    nearest = [max(float(row @ other) for other in image) for row in text]
    back = [max(float(row @ other) for other in text) for row in image]
    assert np.isclose(late_interaction(image, text, "maxsim"), sum(nearest))
    assert np.isclose(late_interaction(image, text, "meanmaxsim"), np.mean(nearest))
    assert np.isclose(late_interaction(image, text, "filip"), (np.mean(nearest) + np.mean(back)) / 2)


def pair_by_the_library(kind: str, folder: Path, film, text: str) -> float:
    """One pair's number by the model's forward pass, without the scale that is the same for all."""
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    inputs = dict(processor(text=[text], return_tensors="pt", truncation=True, max_length=64))
    if kind == "XCLIPModel":
        images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        inputs["pixel_values"] = images(list(film), return_tensors="pt")["pixel_values"][None]
    else:
        frames = torch.from_numpy(film).permute(0, 3, 1, 2)
        inputs |= processor.video_processor([frames], do_sample_frames=False, return_tensors="pt")
    with torch.no_grad():
        output = model(**inputs)
        if kind == "XCLIPModel":
            return float(output.logits_per_video / model.logit_scale.exp())
    texts = output.text_embeds if kind == "VideoPrismClipModel" else output.text_video_embeds
    return float(output.video_embeds @ texts.T)


@pytest.mark.parametrize("kind", VIDEO)
def test_video_scores_are_the_librarys_and_follow_the_frames(saved, kind):
    model = find_model(str(saved(kind)), ModelOptions())
    pairs = [(film, text) for film in FILMS for text in TEXTS]
    scores = model.score_pairs([film for film, _ in pairs], [text for _, text in pairs])
    expected = [pair_by_the_library(kind, saved(kind), film, text) for film, text in pairs]
    assert np.ptp(expected) > 1e-4
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    assert model.score_pairs([FILMS[0][::-1].copy()], [TEXTS[0]])[0] != scores[0]  # the order of frames is read
    with raises(ModelError, "films", "pictures"):
        model.score_pairs([FILMS[0][0]], [TEXTS[0]])
    if kind != "PeVideoModel":
        with raises(ModelError, "frames=4", "got 3"):
            model.score_pairs([FILMS[0][:3]], [TEXTS[0]])
