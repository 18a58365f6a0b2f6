"""Tiny random dual encoders of transformers with real processors, saved to folders as their authors save them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.models.huggingface.load import load
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.dual_encoder import TorchDual

SIZE, PATCH, WIDTH, HEADS, LAYERS, DIMENSIONS = 32, 8, 32, 4, 2, 24

#: Of many lengths, one in another script, one empty, one too long for every tower here.
TEXTS = [
    "a red cup left of a blue bowl",
    "a blue cup left of a red bowl",
    "two bowls",
    "a cat, asleep on the mat beside the red door of a small house, while two dogs run",
    "红色的杯子",
    "",
    "one blue bowl " * 40,
]


def pictures(n: int = 5, seed: int = 0) -> list[NDArray[np.uint8]]:
    """Pictures of several shapes, one of them of three rows, which are no channels."""
    rng = np.random.default_rng(seed)
    shapes = [(40, 56), (64, 33), (3, 5), (32, 32), (90, 60)]
    return [rng.integers(0, 256, (*shapes[k % len(shapes)], 3), dtype=np.uint8) for k in range(n)]


def transformers():
    import_torch()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def byte_level(specials: dict[str, int], *, end_of_word: str = "") -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges of a byte-level BPE: all bytes, a few merges, and the special tokens."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = dict(specials)
    for token in [
        f"{letter}{ending}" for ending in dict.fromkeys(("", end_of_word)) for letter in sorted(ByteLevel.alphabet())
    ]:
        vocabulary.setdefault(token, len(vocabulary))
    merges = [("r", "e"), ("b", "l"), ("o", "w")]
    for merge in merges:
        vocabulary.setdefault("".join(merge), len(vocabulary))
    return vocabulary, merges


def clip_tokenizer(**options):
    vocabulary, merges = byte_level({}, end_of_word="</w>")
    # As in OpenAI's, the end of the text is the last token of all.
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocabulary[token] = len(vocabulary)
    return transformers().CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=24, **options)


def bert_tokenizer(length: int = 24):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz,红色的杯子"]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + ["red", "blue", "cup", "bowl"]
    return transformers().BertTokenizer(vocab={p: k for k, p in enumerate(pieces)}, model_max_length=length)


def roberta_tokenizer():
    vocabulary, merges = byte_level({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4})
    return transformers().RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=24)


def xlm_roberta_tokenizer():
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = ["▁", *"abcdefghijklmnopqrstuvwxyz,红色的杯子", "▁red", "▁blue", "▁cup", "▁bowl"]
    vocabulary = [(s, 0.0) for s in specials] + [(p, -float(len(p) == 1) - 1) for p in pieces] + [("<mask>", 0.0)]
    return transformers().XLMRobertaTokenizer(vocab=vocabulary, model_max_length=24)


def siglip_tokenizer(folder: Path):
    """SigLIP's tokenizer reads a model of sentencepiece; this one is trained on a few captions."""
    import sentencepiece

    prefix = folder / "spiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[:4] * 10), model_prefix=str(prefix), vocab_size=48, character_coverage=1.0,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    # As on the hub: no mask, and the end of the text is its padding, too.
    return transformers().SiglipTokenizer(
        vocab_file=f"{prefix}.model", model_max_length=16, model_input_names=["input_ids"]
    )


def siglip2_tokenizer():
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *"abcdefghijklmnopqrstuvwxyz,", "re", "red"]
    return transformers().Siglip2Tokenizer(
        vocab={p: k for k, p in enumerate(pieces)}, merges=[("r", "e"), ("re", "d")],
        model_max_length=16, padding_side="right",
        model_input_names=["input_ids"],
    )  # fmt: skip


def tower(**changes) -> dict[str, Any]:
    """The sizes that all towers here share."""
    sizes = {
        "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
    }  # fmt: skip
    return sizes | changes


def vision(**changes) -> dict[str, Any]:
    return tower(image_size=SIZE, patch_size=PATCH, **changes)


def square(**changes) -> dict[str, Any]:
    """An image processor's options: the shorter side to size, then the middle."""
    return {"size": {"shortest_edge": SIZE}, "crop_size": {"height": SIZE, "width": SIZE}} | changes


def save(folder: Path, model, processor, seed: int = 0) -> Path:
    """Give the model weights that tell inputs apart, and save it with its processor."""
    torch = import_torch()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:  # scales and offsets stay as they are
                parameter.normal_(0, 0.2, generator=generator)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def clip(folder: Path, *, architecture: str = "CLIPModel", seed: int = 0, **text) -> Path:
    t, tokenizer = transformers(), clip_tokenizer()
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = t.CLIPConfig(
        text_config=tower(vocab_size=len(tokenizer), max_position_embeddings=24, **ends) | text,
        vision_config=vision(), projection_dim=DIMENSIONS,
    )  # fmt: skip
    model = getattr(t, architecture)(config)
    return save(folder, model, t.CLIPProcessor(t.CLIPImageProcessor(**square()), tokenizer), seed)


def clip_legacy(folder: Path) -> Path:
    """As OpenAI's own configuration: it names 2 as the end of the text, and the highest token is looked for."""
    return clip(folder, eos_token_id=2)


def metaclip_2(folder: Path) -> Path:
    t, tokenizer = transformers(), xlm_roberta_tokenizer()
    config = t.MetaClip2Config(
        text_config=tower(vocab_size=len(tokenizer), max_position_embeddings=24, eos_token_id=2, pad_token_id=1),
        vision_config=vision(), projection_dim=DIMENSIONS,
    )  # fmt: skip
    return save(folder, t.MetaClip2Model(config), t.CLIPProcessor(t.CLIPImageProcessor(**square()), tokenizer))


def siglip(folder: Path) -> Path:
    return save_siglip(folder, siglip_tokenizer(folder), padding=1)


def siglip2_fixed(folder: Path) -> Path:
    """SigLIP 2 of one resolution: SigLIP's model, and the tokenizer of SigLIP 2."""
    return save_siglip(folder, siglip2_tokenizer(), padding=0)


def save_siglip(folder: Path, tokenizer, padding: int) -> Path:
    t = transformers()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=16, projection_size=WIDTH, pad_token_id=padding)
    config = t.SiglipConfig(text_config=text, vision_config=vision())
    images = t.SiglipImageProcessor(size={"height": SIZE, "width": SIZE})
    return save(folder, t.SiglipModel(config), t.SiglipProcessor(images, tokenizer))


def siglip2_naflex(folder: Path) -> Path:
    t, tokenizer = transformers(), siglip2_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=16, projection_size=WIDTH, pad_token_id=0)
    config = t.Siglip2Config(text_config=text, vision_config=tower(patch_size=PATCH, num_patches=16))
    images = t.Siglip2ImageProcessor(patch_size=PATCH, max_num_patches=16)
    return save(folder, t.Siglip2Model(config), t.Siglip2Processor(images, tokenizer))


def align(folder: Path) -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    config = t.AlignConfig(
        text_config=tower(vocab_size=len(tokenizer), max_position_embeddings=32),
        vision_config={
            "image_size": SIZE, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": DIMENSIONS,
            "kernel_sizes": [3, 3], "in_channels": [32, 8], "out_channels": [8, DIMENSIONS], "strides": [1, 2],
            "num_block_repeats": [1, 1], "expand_ratios": [1, 2], "depthwise_padding": [],
        },
        projection_dim=DIMENSIONS,
    )  # fmt: skip
    model = t.AlignModel(config)
    images = t.EfficientNetImageProcessor(size={"height": SIZE, "width": SIZE})
    return save(folder, model, t.AlignProcessor(images, tokenizer))


def altclip(folder: Path) -> Path:
    t, tokenizer = transformers(), xlm_roberta_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=20, project_dim=DIMENSIONS, pad_token_id=1)
    config = t.AltCLIPConfig(text_config=text, vision_config=vision(), projection_dim=DIMENSIONS)
    return save(folder, t.AltCLIPModel(config), t.AltCLIPProcessor(t.CLIPImageProcessor(**square()), tokenizer))


def chinese_clip(folder: Path) -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=32)
    config = t.ChineseCLIPConfig(text_config=text, vision_config=vision(), projection_dim=DIMENSIONS)
    images = t.ChineseCLIPImageProcessor(size={"height": SIZE, "width": SIZE}, do_center_crop=False)
    return save(folder, t.ChineseCLIPModel(config), t.ChineseCLIPProcessor(images, tokenizer))


def aimv2(folder: Path) -> Path:
    t, tokenizer = transformers(), clip_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=32, eos_token_id=tokenizer.eos_token_id)
    config = t.Aimv2Config(text_config=text, vision_config=vision(), projection_dim=DIMENSIONS)
    return save(folder, t.Aimv2Model(config), t.CLIPProcessor(t.CLIPImageProcessor(**square()), tokenizer))


def groupvit(folder: Path) -> Path:
    t, tokenizer = transformers(), clip_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=24, eos_token_id=tokenizer.eos_token_id)
    image = vision(depths=[1, 1], num_group_tokens=[4, 0], num_output_groups=[4, 0])
    config = t.GroupViTConfig(
        text_config=text, vision_config=image, projection_dim=DIMENSIONS, projection_intermediate_dim=WIDTH
    )
    return save(folder, t.GroupViTModel(config), t.CLIPProcessor(t.CLIPImageProcessor(**square()), tokenizer))


def tipsv2(folder: Path) -> Path:
    t = transformers()
    pieces = ["<pad>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz,", "re", "red"]
    tokenizer = t.Tipsv2Tokenizer(
        vocab={p: k for k, p in enumerate(pieces)}, merges=[("r", "e"), ("re", "d")], model_max_length=64
    )
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=64)
    config = t.Tipsv2Config(text_config=text, vision_config=vision())
    images = t.Tipsv2ImageProcessor(size={"height": SIZE, "width": SIZE})
    return save(folder, t.Tipsv2Model(config), t.Tipsv2Processor(images, tokenizer))


def vision_text_dual_encoder(folder: Path) -> Path:
    """Two towers of other families; RoBERTa counts positions from behind its padding."""
    t, tokenizer = transformers(), roberta_tokenizer()
    text = t.RobertaConfig(**tower(vocab_size=len(tokenizer), max_position_embeddings=20, pad_token_id=1))
    config = t.VisionTextDualEncoderConfig.from_vision_text_configs(
        t.ViTConfig(**vision()), text, projection_dim=DIMENSIONS
    )
    images = t.ViTImageProcessor(size={"height": SIZE, "width": SIZE})
    return save(folder, t.VisionTextDualEncoderModel(config), t.VisionTextDualEncoderProcessor(images, tokenizer))


def flava(folder: Path, *, architecture: str = "FlavaModel") -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    parts = {
        "text_config": tower(vocab_size=len(tokenizer), max_position_embeddings=32),
        "image_config": vision(vocab_size=16), "multimodal_config": tower(),
        "image_codebook_config": {"hidden_size": 8, "num_groups": 2, "num_blocks_per_group": 1, "vocab_size": 16},
    }  # fmt: skip
    config = t.FlavaConfig(**parts, projection_dim=DIMENSIONS, hidden_size=WIDTH)
    processor = t.FlavaProcessor(t.FlavaImageProcessor(**square(size={"height": SIZE, "width": SIZE})), tokenizer)
    return save(folder, getattr(t, architecture)(config), processor)


def flava_for_pretraining(folder: Path) -> Path:
    """As facebook/flava-full is saved."""
    return flava(folder, architecture="FlavaForPreTraining")


def blip(folder: Path, *, architecture: str = "BlipForImageTextRetrieval") -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=32, encoder_hidden_size=WIDTH)
    ends = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "sep_token_id": 3}
    config = t.BlipConfig(
        text_config=text | ends, vision_config=vision(), projection_dim=DIMENSIONS, image_text_hidden_size=DIMENSIONS
    )
    images = t.BlipImageProcessor(size={"height": SIZE, "width": SIZE})
    return save(folder, getattr(t, architecture)(config), t.BlipProcessor(images, tokenizer))


def blip_2(folder: Path) -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    processor = t.Blip2Processor(t.BlipImageProcessor(size={"height": SIZE, "width": SIZE}), tokenizer)
    former = tower(
        vocab_size=len(tokenizer), max_position_embeddings=32, encoder_hidden_size=WIDTH, use_qformer_text_input=True,
        cross_attention_frequency=1,
    )  # fmt: skip
    config = t.Blip2Config(
        vision_config=vision(), qformer_config=former,
        text_config=t.OPTConfig(hidden_size=WIDTH, vocab_size=8).to_dict(),
        num_query_tokens=4, image_text_hidden_size=DIMENSIONS,
    )  # fmt: skip
    return save(folder, t.Blip2ForImageTextRetrieval(config), processor)


def bridgetower(folder: Path, *, architecture: str = "BridgeTowerForContrastiveLearning") -> Path:
    t, tokenizer = transformers(), roberta_tokenizer()
    width = 64  # its vision tower has one head for each 64
    text = tower(
        hidden_size=width, vocab_size=len(tokenizer), max_position_embeddings=28, type_vocab_size=1, num_hidden_layers=3
    )
    config = t.BridgeTowerConfig(
        hidden_size=width, num_attention_heads=HEADS, num_hidden_layers=2, contrastive_hidden_size=DIMENSIONS,
        intermediate_size=2 * width, logit_scale_init_value=2.6592, text_config=text,
        vision_config=vision(hidden_size=width, num_hidden_layers=3) | {"init_layernorm_from_vision_encoder": False},
    )  # fmt: skip
    images = t.BridgeTowerImageProcessor(
        size={"shortest_edge": SIZE}, crop_size={"shortest_edge": SIZE}, size_divisor=PATCH
    )
    return save(folder, getattr(t, architecture)(config), t.BridgeTowerProcessor(images, tokenizer))


#: Every family, by the name of its test.
_MAKERS = (
    clip, clip_legacy, metaclip_2, siglip, siglip2_fixed, siglip2_naflex, align, altclip, chinese_clip, aimv2, groupvit,
    vision_text_dual_encoder, flava, flava_for_pretraining, blip, blip_2, bridgetower,
)  # fmt: skip
FAMILIES: dict[str, Callable[[Path], Path]] = {make.__name__: make for make in _MAKERS}


def with_concept(make, folder: Path, end: int | None) -> Path:
    """A model to whose tokenizer and embeddings a word was added, as by textual inversion."""
    make(folder)
    tokenizer = transformers().AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<concept1>"])
    tokenizer.save_pretrained(folder)
    config = transformers().AutoConfig.from_pretrained(folder)
    kind = getattr(transformers(), config.architectures[0])
    model = kind.from_pretrained(folder)
    part = model.text_model
    embedding = part.embeddings.token_embedding
    torch = import_torch()
    generator = torch.Generator().manual_seed(5)
    rows = torch.cat([embedding.weight.data, torch.randn(1, embedding.weight.shape[1], generator=generator)])
    embedding.weight = torch.nn.Parameter(rows)
    model.config.text_config.vocab_size = len(rows)
    model.save_pretrained(folder)
    stated = tokenizer.eos_token_id if end is None else end
    edit(folder / "config.json", lambda content: content["text_config"].update(eos_token_id=stated))
    return folder


def loaded(folder: Path, **options) -> TorchDual:
    """A saved dual encoder, opened."""
    model = load(str(folder), ModelOptions(reading="itc", **options))
    assert isinstance(model, TorchDual)
    return model


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the content of a JSON file."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
