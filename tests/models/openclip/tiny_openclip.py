"""Tiny architectures of open_clip, their weights as open_clip and its users save them, and open_clip's own numbers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellapart.models.openclip.library import import_open_clip
from tellapart.models.torch.backend import import_torch

torch = import_torch()

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
PREPROCESSING = {"mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "shortest"}
VISION = {"image_size": 32, "layers": 2, "width": 48, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
CLIP = {"embed_dim": 24, "vision_cfg": VISION, "text_cfg": TEXT}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tiny": CLIP,
    "tiny-quickgelu": CLIP | {"quick_gelu": True},
    "tiny-wide": CLIP | {"vision_cfg": VISION | {"width": 64}},
    "tiny-40": CLIP | {"vision_cfg": VISION | {"image_size": 40}},
    # As SigLIP: not causal, pooled at the last place, images squashed, a bias.
    "tiny-bidirectional": CLIP
    | {
        "custom_text": True,
        "init_logit_bias": -10,
        "text_cfg": TEXT | {"context_length": 16, "no_causal_mask": True, "pool_type": "last", "proj_bias": True},
    },
    "tiny-custom": CLIP | {"custom_text": True, "text_cfg": TEXT | {"pool_type": "eos", "eos_id": 49407}},
    "tiny-coca": CLIP
    | {
        "custom_text": True,
        "vision_cfg": VISION | {"attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True},
        "text_cfg": TEXT | {"context_length": 76, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
}

TEXTS = [
    "a red cup left of a blue bowl",
    "a blue cup left of a red bowl",
    "two bowls",
    "",
    "!? !!!",
    "a cat, asleep on the mat beside the red door of a small house, while two dogs run",
    "one blue bowl and " * 30,
]


def pictures() -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in ((40, 56), (64, 33), (32, 32), (50, 3))]


def named(architecture: str) -> str:
    """The name of an architecture that says which activation it has, as a bare file needs."""
    return "tiny-gelu" if architecture == "tiny" else architecture


def library_vectors(open_clip, architecture: str, file: Path, **options) -> tuple[Any, Any]:
    """Vectors of images and texts by open_clip alone, one at a time."""
    from PIL import Image

    model, _, transform = open_clip.create_model_and_transforms(architecture, str(file), **options)
    tokenizer = open_clip.get_tokenizer(architecture)
    with torch.inference_mode():
        images = [model.eval().encode_image(transform(Image.fromarray(picture))[None]) for picture in pictures()]
        texts = [model.encode_text(tokenizer([text])) for text in TEXTS]
    unit = torch.nn.functional.normalize
    return unit(torch.cat(images), dim=-1).numpy(), unit(torch.cat(texts), dim=-1).numpy()


def saved_folder(folder: Path, checkpoint: Path, *, file: str = "open_clip_pytorch_model.bin", **config) -> Path:
    """A folder as open_clip saves it."""
    folder.mkdir(exist_ok=True)
    (folder / file).write_bytes(checkpoint.read_bytes())
    return write_config(folder, **config)


def write_config(folder: Path, **config) -> Path:
    content = {"model_cfg": CLIP, "preprocess_cfg": PREPROCESSING} | config
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    return folder


@contextmanager
def added(folder: Path, architectures: dict[str, dict[str, Any]]) -> Iterator[Any]:
    """open_clip, with further architectures among its own."""
    open_clip = import_open_clip()
    factory = open_clip.factory
    for name, config in architectures.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    before = dict(factory._MODEL_CONFIGS)
    open_clip.add_model_config(folder)
    yield open_clip
    factory._MODEL_CONFIG_PATHS.remove(folder)
    factory._MODEL_CONFIGS.clear()
    factory._MODEL_CONFIGS.update(before)


def save_drawn(folder: Path) -> Path:
    """A folder of the tiny CLIP with random weights, large enough that every step shows."""
    torch.manual_seed(0)
    with added(folder, {"tiny": CLIP}) as open_clip:
        state = open_clip.create_model("tiny").state_dict()
    torch.save({key: value * 4 if value.ndim > 1 else value for key, value in state.items()}, folder / "tiny.pt")
    return saved_folder(folder / "open-clip", folder / "tiny.pt")


def tagged(open_clip, monkeypatch: pytest.MonkeyPatch, architecture: str, **tags: dict[str, Any]) -> None:
    table = open_clip.pretrained._PRETRAINED
    monkeypatch.setitem(table, architecture, {tag: PREPROCESSING | config for tag, config in tags.items()})


def spoilt(path: Path, checkpoint: Path, change) -> Path:
    state = torch.load(checkpoint, weights_only=True)
    change(state)
    torch.save(state, path / "spoilt.pt")
    return path / "spoilt.pt"
