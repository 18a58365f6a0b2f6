"""SigLIP reads one caption in one way, whichever library and tokenizer: as its authors, or as the library, if asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from numpy.typing import NDArray

from tellapart.errors import ModelError
from tellapart.models.caption_rules import AS_AUTHORS, AS_LIBRARY
from tellapart.models.find import find_model
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.training.encoders.huggingface_encoder import open_huggingface

CAPTION, LOWER, BARE = "A Red bowl, two cups", "a red bowl, two cups", "a red bowl two cups"


def gemma(folder: Path) -> Path:
    """SigLIP 2 with a tokenizer of Gemma's class, which keeps capitals."""
    t = tiny_models.transformers()
    letters = "abcdefghijklmnopqrstuvwxyzAR,"
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *letters, "re", "red"]
    tokenizer = t.GemmaTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, merges=[("r", "e"), ("re", "d")], model_max_length=16,
        padding_side="right", model_input_names=["input_ids"], add_bos_token=False,
    )  # fmt: skip
    text = tiny_models.tower(
        vocab_size=len(tokenizer), max_position_embeddings=16, projection_size=tiny_models.WIDTH, pad_token_id=0
    )
    config = t.SiglipConfig(text_config=text, vision_config=tiny_models.vision())
    side = {"height": tiny_models.SIZE, "width": tiny_models.SIZE}
    return tiny_models.save(
        folder, t.SiglipModel(config), t.SiglipProcessor(t.SiglipImageProcessor(size=side), tokenizer)
    )


def open_clip_folder(folder: Path) -> Path:
    """A folder of open_clip with SigLIP's bias, a tokenizer of transformers, and its cleaner of captions."""
    from tokenizers import normalizers

    torch, open_clip = import_torch(), import_open_clip()
    tokenizer = tiny_models.siglip2_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")  # open_clip's cleaner lowers, not it
    tokenizer.save_pretrained(folder)
    text = {
        "context_length": 16, "vocab_size": len(tokenizer), "width": 32, "heads": 2, "layers": 2,
        "no_causal_mask": True, "pool_type": "last", "proj_bias": True, "hf_tokenizer_name": "its own",
        "tokenizer_kwargs": {"clean": "canonicalize"},
    }  # fmt: skip
    vision = {"image_size": 32, "layers": 2, "width": 48, "head_width": 16, "patch_size": 8}
    config = {"embed_dim": 24, "init_logit_bias": -10, "custom_text": True, "vision_cfg": vision, "text_cfg": text}
    preprocess = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


#: Form -> the folder's maker, the name's prefix, and whether its library lowers captions and keeps their punctuation.
FORMS: dict[str, tuple[Callable[[Path], Path], str, bool, bool]] = {
    "open_clip": (open_clip_folder, "local-dir:", True, False),
    "SigLIP": (tiny_models.siglip, "", True, False),
    "SigLIP 2": (tiny_models.siglip2_fixed, "", True, True),
    "SigLIP 2 for any side": (tiny_models.siglip2_naflex, "", True, True),
    "SigLIP 2 by Gemma's class": (gemma, "", False, True),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bool, bool]:
    make, prefix, lowers, keeps = FORMS[request.param]
    return f"{prefix}{make(tmp_path_factory.mktemp('siglip'))}", lowers, keeps


def vectors(name: str, *texts: str, **options: Any) -> NDArray[np.float32]:
    model: Any = find_model(name, ModelOptions(**options))
    made: NDArray[np.float32] = model.encode_texts(texts)
    return made


def equal(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(np.abs(one - other).max() < 1e-6)


def test_a_caption_is_lower_case_with_its_punctuation_in_every_form(form: tuple[str, bool, bool]) -> None:
    name, _, _ = form
    caption, lower, bare = vectors(name, CAPTION, LOWER, BARE)
    assert equal(caption, lower) and not equal(caption, bare)
    assert find_model(name).texts == AS_AUTHORS  # type: ignore[attr-defined]


def test_the_librarys_own_way_is_there_when_asked_for(form: tuple[str, bool, bool]) -> None:
    name, lowers, keeps = form
    caption, lower, bare = vectors(name, CAPTION, LOWER, BARE, texts="library")
    assert (equal(caption, lower), equal(lower, bare)) == (lowers, not keeps)
    model: Any = find_model(name, ModelOptions(texts="library"))
    assert model.texts == AS_LIBRARY and model.fingerprint != find_model(name).fingerprint


def test_no_mask_reaches_a_tower_that_was_trained_without_one(tmp_path: Path) -> None:
    folder = tiny_models.siglip2_fixed(tmp_path)
    before = vectors(str(folder), *tiny_models.TEXTS[:4])
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    del config["model_input_names"]
    file.write_text(json.dumps(config))
    model: Any = find_model(str(folder))
    assert "attention_mask" in model._texts.tokenizer.model_input_names
    assert equal(model.encode_texts(tiny_models.TEXTS[:4]), before)


def test_training_reads_captions_as_measuring_does(tmp_path: Path) -> None:
    trained = open_huggingface(str(gemma(tmp_path)), "cpu")
    ids = [trained.tokens([text])["input_ids"].tolist() for text in (CAPTION, LOWER, BARE)]
    assert ids[0] == ids[1] != ids[2]


def test_cleaned_is_for_authors_files(form: tuple[str, bool, bool]) -> None:
    if not form[0].startswith("local-dir:"):
        with pytest.raises(ModelError, match="texts="):
            find_model(form[0], ModelOptions(texts="cleaned"))
