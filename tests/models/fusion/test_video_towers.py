"""Video towers: tiny X-CLIP, VideoPrism and PE-Video against the library's forward pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_generative import TEXTS, tokenizer

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
DRAW = np.random.default_rng(0)
FILMS = [DRAW.integers(0, 256, (4, *shape, 3), dtype=np.uint8) for shape in ((20, 24), (24, 40), (50, 16))]


def save(folder: Path, model: Any, processor: Any) -> None:
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def save_x_clip(folder: Path) -> None:
    words = tokenizer(["<s>", "</s>", "<pad>"], "bos_token eos_token pad_token")
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    language = SMALL | {"vocab_size": len(words), "max_position_embeddings": 64, "eos_token_id": 1, "pad_token_id": 2}
    vision = SMALL | {"image_size": 16, "patch_size": 4, "num_frames": 4}
    vision |= {"mit_hidden_size": 32, "mit_intermediate_size": 64, "mit_num_hidden_layers": 1}
    config = transformers.XCLIPConfig(
        text_config=language, vision_config=vision, projection_dim=32, prompt_num_attention_heads=4
    )
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
    vision = {
        "model_type": "timm_wrapper",
        "architecture": "vit_pe_core_tiny_patch16_384",
        "do_pooling": True,
        "num_classes": 32,
        "model_args": sizes,
    }
    video = SMALL | {"head_dim": 8, "vision_config": vision}
    config = transformers.PeVideoConfig(text_config=language, video_config=video)
    save(folder, transformers.PeVideoModel(config), transformers.PeVideoProcessor(videos, words))


SAVERS: dict[str, Callable[[Path], None]] = {
    "XCLIPModel": save_x_clip,
    "VideoPrismClipModel": save_videoprism,
    "PeVideoModel": save_pe_video,
}


@pytest.fixture(scope="module", params=SAVERS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    with quiet():
        SAVERS[request.param](folder)
    return request.param, folder


def by_the_library(kind: str, folder: Path, film: Any, text: str) -> float:
    """One pair's number by the model's forward pass, without the scale that is the same for all."""
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    limit = {"truncation": True, "max_length": 64}
    frames = torch.from_numpy(film).permute(0, 3, 1, 2)
    with torch.no_grad():
        inputs = dict(processor(text=[text], return_tensors="pt", **limit))
        if kind == "XCLIPModel":
            images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
            pixels = images(list(film), return_tensors="pt")["pixel_values"][None]
            return float(model(**inputs, pixel_values=pixels).logits_per_video / model.logit_scale.exp())
        inputs |= processor.video_processor([frames], do_sample_frames=False, return_tensors="pt")
        output = model(**inputs)
        if kind == "VideoPrismClipModel":
            return float(output.video_embeds @ output.text_embeds.T)
        return float(output.video_embeds @ output.text_video_embeds.T)


def test_scores_are_the_librarys(saved: tuple[str, Path]) -> None:
    kind, folder = saved
    model = find_model(str(folder), ModelOptions())
    pairs = [(film, text) for film in FILMS for text in TEXTS]
    scores = model.score_pairs([film for film, _ in pairs], [text for _, text in pairs])
    expected = [by_the_library(kind, folder, film, text) for film, text in pairs]
    assert np.ptp(expected) > 1e-4
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_the_order_of_frames_is_read(saved: tuple[str, Path]) -> None:
    model = find_model(str(saved[1]), ModelOptions())
    forwards, backwards = model.score_pairs([FILMS[0], FILMS[0][::-1].copy()], [TEXTS[0]] * 2)
    assert forwards != backwards


def test_a_picture_and_another_number_of_frames_are_refused(saved: tuple[str, Path]) -> None:
    kind, folder = saved
    model = find_model(str(folder), ModelOptions())
    with raises(ModelError, "films", "pictures"):
        model.score_pairs([FILMS[0][0]], [TEXTS[0]])
    if kind != "PeVideoModel":
        with raises(ModelError, "frames=4", "got 3"):
            model.score_pairs([FILMS[0][:3]], [TEXTS[0]])
