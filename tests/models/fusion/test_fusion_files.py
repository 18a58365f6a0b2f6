"""A fusion encoder is what its files hold: found by its folder, held to its weights, refused where they do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.huggingface.load import FUSION
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="fusion encoders need the extra 'models'")
pytest.importorskip("transformers", reason="fusion encoders need the extra 'models'")

from tiny_fusion_encoders import (
    PIXELS,
    TEXTS,
    bert,
    blip,
    change_weights,
    flava,
    pictures,
    save,
    scorer,
    shake,
    vilt,
    vilt_config,
)

torch = import_torch()
transformers = import_transformers()
pytestmark = pytest.mark.usefixtures("one_thread")

HEADS = {
    "vilt": "rank_output",
    "blip": "itm_head",
    "blip-2": "itm_head",
    "blip-2 with image tokens": "itm_head",
    "flava": "itm_head.seq_relationship",
    "bridgetower": "itm_score.fc",
}


@pytest.mark.few(2)
def test_it_is_found_by_its_folder(family: str, folder: Path) -> None:
    prints = set()
    for reading in ("itm", "itm_logit"):
        model: Any = find_model(f"hf:{folder}", ModelOptions(reading=reading))
        assert model.fingerprint == scorer(folder, reading=reading).fingerprint
        prints.add(model.fingerprint)
    assert len(prints) == 2 and scorer(folder).fingerprint in prints


@pytest.mark.few(2)
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


def test_another_reading_than_the_heads_two_is_refused(tmp_path: Path) -> None:
    with raises(ModelError, "'itc'", "itm", "itm_logit"):
        scorer(save(tmp_path, blip), reading="itc")


def test_missing_and_left_over_weights_are_an_error_that_names_them(family: str, folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    change_weights(broken, lambda tensors: tensors.update(stray=tensors.pop(f"{HEADS[family]}.weight")))
    with raises(ModelError, "model", "1 missing", f"({HEADS[family]}.weight)", "1 unexpected", "(stray)"):
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
    missing = "2 missing (itm_score.fc.bias, itm_score.fc.weight)"
    with raises(ModelError, "ViltForPreTraining", missing, "ViltForMaskedLM"):
        scorer(tmp_path)


def test_a_vilt_that_draws_patches_is_refused(tmp_path: Path) -> None:
    folder = save(
        tmp_path, lambda: (transformers.ViltForImageAndTextRetrieval(vilt_config(max_image_length=4)), vilt()[1])
    )
    with raises(ModelError, "'max_image_length'", "4", "model"):
        scorer(folder)


def test_a_family_without_a_matching_head_is_named(tmp_path: Path) -> None:
    with quiet():
        transformers.BertConfig().save_pretrained(tmp_path)
    with raises(ModelError, "type", "'bert'", "'itm'", f"{', '.join(FUSION)}"):
        scorer(tmp_path)


def test_images_of_a_size_that_the_encoder_cannot_take_are_an_error(tmp_path: Path) -> None:
    def larger() -> tuple[Any, Any]:
        images = transformers.BlipImageProcessorPil(size={"height": 40, "width": 40})
        return blip()[0], transformers.BlipProcessor(images, bert())

    with raises(ModelError, "40", "x", "40", "32", "x", "32"):
        scorer(save(tmp_path, larger))


def test_a_tokenizer_of_another_model_is_an_error(tmp_path: Path) -> None:
    def wordy() -> tuple[Any, Any]:
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{k}" for k in range(50))]
        tokenizer = transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)})
        return blip()[0], transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=PIXELS), tokenizer)

    with raises(ModelError, "55", "40", "tokenizer"):
        scorer(save(tmp_path, wordy))
