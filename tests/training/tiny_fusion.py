"""Fusion encoders with a handful of weights, as transformers saves them."""

from pathlib import Path

from tellapart.models.torch.backend import import_torch

torch = import_torch()
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attention_dropout": 0.0}
VISION = TOWER | {"image_size": 16, "patch_size": 8}
WORDS = ["a", "square", "left", "of", "one", "red", "green", "blue", "grey"]


def words():
    import transformers

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    return transformers.BertTokenizer(vocab={piece: k for k, piece in enumerate(pieces)}, model_max_length=16)


def blip(folder: Path) -> str:
    import transformers

    ids = {"vocab_size": 14, "max_position_embeddings": 16, "pad_token_id": 0, "sep_token_id": 3, "bos_token_id": 2}
    settings = transformers.BlipConfig(
        text_config=TOWER | STILL | ids | {"encoder_hidden_size": 16, "initializer_range": 0.3},
        vision_config=VISION | STILL | {"initializer_range": 0.3},
        projection_dim=8,
        image_text_hidden_size=8,
    )
    torch.manual_seed(0)
    transformers.BlipForImageTextRetrieval(settings).save_pretrained(folder)
    images = transformers.BlipImageProcessorPil(size={"height": 16, "width": 16})
    transformers.BlipProcessor(images, words()).save_pretrained(folder)
    return f"hf:{folder}"


def vilt(folder: Path) -> str:
    import transformers

    settings = transformers.ViltConfig(
        vocab_size=14, max_position_embeddings=16, initializer_range=0.3, **VISION, **STILL
    )
    torch.manual_seed(0)
    transformers.ViltForImageAndTextRetrieval(settings).save_pretrained(folder)
    images = transformers.ViltImageProcessorPil(size={"shortest_edge": 16}, size_divisor=8)
    transformers.ViltProcessor(images, words()).save_pretrained(folder)
    return f"hf:{folder}"


MODELS = {"blip": blip, "vilt": vilt}
