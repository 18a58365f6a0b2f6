"""Tiny fusion encoders of seven families with matching heads, saved with their processors, two with regions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.models.fusion.families import load_itm
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()

WORDS = [
    "a", "the", "red", "blue", "green", "small", "big", "cup", "bowl", "dog", "cat", "on", "under", "left", "right",
    "of", "two", "three", "is",
]  # fmt: skip

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


#: Numbers of a region, and regions of each picture.
DIMENSIONS, REGIONS = 6, (4, 7, 1, 10)


def regions() -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Features and boxes of each picture."""
    rng = np.random.default_rng(6)
    detections = []
    for count in REGIONS:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)
        detections.append((rng.normal(size=(count, DIMENSIONS)).astype(np.float32), corners.astype(np.float32)))
    return detections


def region_arrays(names: Sequence[str] = ()) -> dict[str, NDArray[np.float32]]:
    """The regions as a file holds them, under the pictures' names or else the hashes of their pixels."""
    keys = names or [pixel_hash(picture) for picture in pictures()]
    parts = (zip(("features", "boxes"), found, strict=True) for found in regions())
    return {f"{key}/{part}": array for key, found in zip(keys, parts, strict=True) for part, array in found}


def bert(model_max_length: int = 40) -> Any:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", ",", "!"]
    return transformers.BertTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=model_max_length
    )


def roberta():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *sorted(set("".join(WORDS) + "!,"))]
    return transformers.RobertaTokenizer(
        vocab={piece: k for k, piece in enumerate(pieces)}, merges=[], model_max_length=96
    )


def vilt_config(**changes):
    return transformers.ViltConfig(vocab_size=40, max_position_embeddings=16, **VISION, **changes)


def vilt() -> tuple[Any, Any]:
    images = transformers.ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=8)
    return transformers.ViltForImageAndTextRetrieval(vilt_config()), transformers.ViltProcessor(images, bert())


def blip() -> tuple[Any, Any]:
    ids = {"vocab_size": 40, "max_position_embeddings": 16, "pad_token_id": 0, "sep_token_id": 3, "bos_token_id": 2}
    text = TOWER | ids | {"encoder_hidden_size": 32}
    config = transformers.BlipConfig(
        text_config=text, vision_config=VISION, projection_dim=16, image_text_hidden_size=16
    )
    processor = transformers.BlipProcessor(transformers.BlipImageProcessorPil(size=PIXELS), bert())
    return transformers.BlipForImageTextRetrieval(config), processor


def blip2(image_token: int | None = None) -> tuple[Any, Any]:
    former = {"vocab_size": 40, "max_position_embeddings": 16, "pad_token_id": 0, "use_qformer_text_input": True}
    text = transformers.OPTConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = transformers.Blip2Config(
        vision_config=VISION | {"hidden_size": 24}, qformer_config=TOWER | former, text_config=text,
        num_query_tokens=3, image_text_hidden_size=16, image_token_index=image_token,
    )  # fmt: skip
    images = transformers.BlipImageProcessorPil(size=PIXELS)
    processor = transformers.Blip2Processor(images, bert(), num_query_tokens=None if image_token is None else 3)
    return transformers.Blip2ForImageTextRetrieval(config), processor


def flava() -> tuple[Any, Any]:
    codes = {"num_groups": 4, "hidden_size": 4, "vocab_size": 50, "num_blocks_per_group": 1}
    config = transformers.FlavaConfig(
        image_config=VISION | {"vocab_size": 50}, text_config=TOWER | {"vocab_size": 40, "max_position_embeddings": 16},
        multimodal_config=TOWER, image_codebook_config=codes, hidden_size=32, projection_dim=16,
    )  # fmt: skip
    images = transformers.FlavaImageProcessorPil(size=PIXELS, crop_size=PIXELS)
    return transformers.FlavaForPreTraining(config), transformers.FlavaProcessor(images, bert())


def bridgetower() -> tuple[Any, Any]:
    text = {"vocab_size": 40, "max_position_embeddings": 98, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    size = {"hidden_size": 64, "num_hidden_layers": 4}
    config = transformers.BridgeTowerConfig(
        text_config=TOWER | text | size, vision_config=size | {"patch_size": 8, "image_size": 32},
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
    )  # fmt: skip
    edge = {"shortest_edge": 32}
    processor = transformers.BridgeTowerProcessor(
        transformers.BridgeTowerImageProcessorPil(size=edge, crop_size=edge, size_divisor=8), roberta()
    )
    return transformers.BridgeTowerForImageAndTextRetrieval(config), processor


def lxmert() -> tuple[Any, Any]:
    tower = {name: TOWER[name] for name in ("hidden_size", "intermediate_size", "num_attention_heads")}
    config = transformers.LxmertConfig(
        **tower, vocab_size=40, max_position_embeddings=16, l_layers=2, r_layers=2, x_layers=2,
        visual_feat_dim=DIMENSIONS, num_qa_labels=3, num_object_labels=3, num_attr_labels=3,
    )  # fmt: skip
    return transformers.LxmertForPreTraining(config), bert()


def visual_bert() -> tuple[Any, Any]:
    config = transformers.VisualBertConfig(
        **TOWER, vocab_size=40, max_position_embeddings=16, visual_embedding_dim=DIMENSIONS, pad_token_id=0
    )
    return transformers.VisualBertForPreTraining(config), bert()


MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "vilt": vilt, "blip": blip, "blip-2": blip2, "blip-2 with image tokens": lambda: blip2(31), "flava": flava,
    "bridgetower": bridgetower, "lxmert": lxmert, "visual_bert": visual_bert,
}  # fmt: skip


def shake(model):
    """Give every weight a size that matters: fresh ones are often zero, and then any mistake passes."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.15)
    return model.eval()


def save(folder: Path, maker) -> Path:
    torch.manual_seed(0)
    with quiet():
        model, processor = maker()
        shake(model).save_pretrained(folder)
        processor.save_pretrained(folder)
    if maker in (lxmert, visual_bert):
        np.savez(folder / "regions.npz", **region_arrays())  # type: ignore[arg-type]
    return folder


def scorer(folder: Path, **changes) -> FusionScorer:
    return load_itm(str(folder), ModelOptions(**changes))


def change_weights(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})
