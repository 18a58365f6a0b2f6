"""Tiny random dual encoders of transformers with real processors, saved to folders as their authors save them."""

import json
import shutil
from collections.abc import Callable, Sequence
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


def check_neighbours(encode: Callable[..., Any], *samples: Sequence[Any], sizes: Sequence[int] = (1, 3, 7)) -> Any:
    """Values of samples, which no batch, order or neighbour may change: not a bit. Several columns are pairs."""
    rng, values = np.random.default_rng(0), encode(*samples)
    for size in sizes:
        order = rng.permutation(len(samples[0])).tolist()
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        batches = [encode(*([column[k] for k in part] for column in samples)) for part in parts]
        np.testing.assert_array_equal(np.concatenate(batches), values[order])
    return values


def transformers():
    import_torch()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def byte_level(*specials: str, end_of_word: str = "") -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges of a byte-level BPE: all bytes, a few merges, and the special tokens."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters, merges = sorted(ByteLevel.alphabet()), [("r", "e"), ("b", "l"), ("o", "w")]
    pieces = [letter + ending for ending in dict.fromkeys(("", end_of_word)) for letter in letters]
    return {piece: k for k, piece in enumerate([*specials, *pieces, *map("".join, merges)])}, merges


def clip_tokenizer(**options):
    vocabulary, merges = byte_level(end_of_word="</w>")
    # As in OpenAI's, the end of the text is the last token of all.
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocabulary[token] = len(vocabulary)
    return transformers().CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=24, **options)


def bert_tokenizer(length: int = 24):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz,红色的杯子"]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + ["red", "blue", "cup", "bowl"]
    return transformers().BertTokenizer(vocab={p: k for k, p in enumerate(pieces)}, model_max_length=length)


def roberta_tokenizer():
    vocabulary, merges = byte_level("<s>", "<pad>", "</s>", "<unk>", "<mask>")
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
    layers = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    return {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH} | layers | changes


def vision(**changes) -> dict[str, Any]:
    return tower(image_size=SIZE, patch_size=PATCH, **changes)


def images_of(kind: str = "CLIP"):
    """A processor of images: of CLIP the shorter side to size, then the middle; of others all of it squashed."""
    sides, edge = {"height": SIZE, "width": SIZE}, {"shortest_edge": SIZE}
    options = {"size": edge, "crop_size": sides} if kind == "CLIP" else {"size": sides}
    return getattr(transformers(), f"{kind}ImageProcessor")(**options)


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


def save_dual(
    folder: Path, family: str, tokenizer, text: dict[str, Any], *, architecture: str = "", images: Any = None,
    processor: str = "CLIP", image: dict[str, Any] | None = None, seed: int = 0, **config,
) -> Path:  # fmt: skip
    """A model of a family with its tokenizer; `text` and `image` are settings of its towers."""
    t = transformers()
    towers = {"text_config": tower(vocab_size=len(tokenizer)) | text, "vision_config": image or vision()}
    model = getattr(t, architecture or f"{family}Model")(getattr(t, f"{family}Config")(**towers, **config))
    return save(folder, model, getattr(t, f"{processor}Processor")(images or images_of(), tokenizer), seed)


def clip(folder: Path, *, architecture: str = "CLIPModel", seed: int = 0, **text) -> Path:
    tokenizer = clip_tokenizer()
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    settings = {"max_position_embeddings": 24} | ends | text
    how = {"architecture": architecture, "seed": seed, "projection_dim": DIMENSIONS}
    return save_dual(folder, "CLIP", tokenizer, settings, **how)


def clip_legacy(folder: Path) -> Path:
    """As OpenAI's own configuration: it names 2 as the end of the text, and the highest token is looked for."""
    return clip(folder, eos_token_id=2)


def metaclip_2(folder: Path) -> Path:
    text = {"max_position_embeddings": 24, "eos_token_id": 2, "pad_token_id": 1}
    return save_dual(folder, "MetaClip2", xlm_roberta_tokenizer(), text, projection_dim=DIMENSIONS)


def siglip(folder: Path) -> Path:
    return save_siglip(folder, siglip_tokenizer(folder), padding=1)


def siglip2_fixed(folder: Path) -> Path:
    """SigLIP 2 of one resolution: SigLIP's model, and the tokenizer of SigLIP 2."""
    return save_siglip(folder, siglip2_tokenizer(), padding=0)


def save_siglip(folder: Path, tokenizer, padding: int) -> Path:
    text = {"max_position_embeddings": 16, "projection_size": WIDTH, "pad_token_id": padding}
    return save_dual(folder, "Siglip", tokenizer, text, images=images_of("Siglip"), processor="Siglip")


def siglip2_naflex(folder: Path) -> Path:
    text = {"max_position_embeddings": 16, "projection_size": WIDTH, "pad_token_id": 0}
    images = transformers().Siglip2ImageProcessor(patch_size=PATCH, max_num_patches=16)
    image = tower(patch_size=PATCH, num_patches=16)
    return save_dual(folder, "Siglip2", siglip2_tokenizer(), text, image=image, images=images, processor="Siglip2")


def align(folder: Path) -> Path:
    image = {
        "image_size": SIZE, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": DIMENSIONS,
        "kernel_sizes": [3, 3], "in_channels": [32, 8], "out_channels": [8, DIMENSIONS], "strides": [1, 2],
        "num_block_repeats": [1, 1], "expand_ratios": [1, 2], "depthwise_padding": [],
    }  # fmt: skip
    how = {"images": images_of("EfficientNet"), "processor": "Align", "projection_dim": DIMENSIONS}
    return save_dual(folder, "Align", bert_tokenizer(), {"max_position_embeddings": 32}, image=image, **how)


def altclip(folder: Path) -> Path:
    text = {"max_position_embeddings": 20, "project_dim": DIMENSIONS, "pad_token_id": 1}
    how = {"processor": "AltCLIP", "projection_dim": DIMENSIONS}
    return save_dual(folder, "AltCLIP", xlm_roberta_tokenizer(), text, **how)


def chinese_clip(folder: Path) -> Path:
    size = {"height": SIZE, "width": SIZE}
    images = transformers().ChineseCLIPImageProcessor(size=size, do_center_crop=False)
    how = {"images": images, "processor": "ChineseCLIP", "projection_dim": DIMENSIONS}
    return save_dual(folder, "ChineseCLIP", bert_tokenizer(), {"max_position_embeddings": 32}, **how)


def aimv2(folder: Path) -> Path:
    tokenizer = clip_tokenizer()
    text = {"max_position_embeddings": 32, "eos_token_id": tokenizer.eos_token_id}
    return save_dual(folder, "Aimv2", tokenizer, text, projection_dim=DIMENSIONS)


def groupvit(folder: Path) -> Path:
    tokenizer = clip_tokenizer()
    text = {"max_position_embeddings": 24, "eos_token_id": tokenizer.eos_token_id}
    image = vision(depths=[1, 1], num_group_tokens=[4, 0], num_output_groups=[4, 0])
    sizes = {"projection_dim": DIMENSIONS, "projection_intermediate_dim": WIDTH}
    return save_dual(folder, "GroupViT", tokenizer, text, image=image, **sizes)


def tipsv2(folder: Path) -> Path:
    pieces = ["<pad>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz,", "re", "red"]
    vocabulary, merges = {piece: k for k, piece in enumerate(pieces)}, [("r", "e"), ("re", "d")]
    tokenizer = transformers().Tipsv2Tokenizer(vocab=vocabulary, merges=merges, model_max_length=64)
    how = {"images": images_of("Tipsv2"), "processor": "Tipsv2"}
    return save_dual(folder, "Tipsv2", tokenizer, {"max_position_embeddings": 64}, **how)


def vision_text_dual_encoder(folder: Path) -> Path:
    """Two towers of other families; RoBERTa counts positions from behind its padding."""
    t, tokenizer = transformers(), roberta_tokenizer()
    text = t.RobertaConfig(**tower(vocab_size=len(tokenizer), max_position_embeddings=20, pad_token_id=1))
    join = t.VisionTextDualEncoderConfig.from_vision_text_configs
    model = t.VisionTextDualEncoderModel(join(t.ViTConfig(**vision()), text, projection_dim=DIMENSIONS))
    return save(folder, model, t.VisionTextDualEncoderProcessor(images_of("ViT"), tokenizer))


def flava(folder: Path, *, architecture: str = "FlavaModel") -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    parts = {
        "text_config": tower(vocab_size=len(tokenizer), max_position_embeddings=32),
        "image_config": vision(vocab_size=16), "multimodal_config": tower(),
        "image_codebook_config": {"hidden_size": 8, "num_groups": 2, "num_blocks_per_group": 1, "vocab_size": 16},
    }  # fmt: skip
    config = t.FlavaConfig(**parts, projection_dim=DIMENSIONS, hidden_size=WIDTH)
    sides = {"height": SIZE, "width": SIZE}
    processor = t.FlavaProcessor(t.FlavaImageProcessor(size=sides, crop_size=sides), tokenizer)
    return save(folder, getattr(t, architecture)(config), processor)


def flava_for_pretraining(folder: Path) -> Path:
    """As facebook/flava-full is saved."""
    return flava(folder, architecture="FlavaForPreTraining")


def blip(folder: Path, *, architecture: str = "BlipForImageTextRetrieval") -> Path:
    text = {"max_position_embeddings": 32, "encoder_hidden_size": WIDTH}
    text |= {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "sep_token_id": 3}
    how = {"architecture": architecture, "images": images_of("Blip"), "processor": "Blip"}
    sizes = {"projection_dim": DIMENSIONS, "image_text_hidden_size": DIMENSIONS}
    return save_dual(folder, "Blip", bert_tokenizer(), text, **how, **sizes)


def blip_2(folder: Path) -> Path:
    t, tokenizer = transformers(), bert_tokenizer()
    processor = t.Blip2Processor(images_of("Blip"), tokenizer)  # adds a token
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
    width, edge = 64, {"shortest_edge": SIZE}  # its vision tower has one head for each 64
    text = tower(vocab_size=len(tokenizer), max_position_embeddings=28, type_vocab_size=1, num_hidden_layers=3)
    config = t.BridgeTowerConfig(
        hidden_size=width, num_attention_heads=HEADS, num_hidden_layers=2, contrastive_hidden_size=DIMENSIONS,
        intermediate_size=2 * width, logit_scale_init_value=2.6592, text_config=text | {"hidden_size": width},
        vision_config=vision(hidden_size=width, num_hidden_layers=3) | {"init_layernorm_from_vision_encoder": False},
    )  # fmt: skip
    images = t.BridgeTowerImageProcessor(size=edge, crop_size=edge, size_divisor=PATCH)
    return save(folder, getattr(t, architecture)(config), t.BridgeTowerProcessor(images, tokenizer))


#: Every family, by the name of its test.
_MAKERS = (
    clip, clip_legacy, metaclip_2, siglip, siglip2_fixed, siglip2_naflex, align, altclip, chinese_clip, aimv2, groupvit,
    vision_text_dual_encoder, flava, flava_for_pretraining, blip, blip_2, bridgetower,
)  # fmt: skip
FAMILIES: dict[str, Callable[[Path], Path]] = {make.__name__: make for make in _MAKERS}


def with_concept(make, folder: Path, end: int | None) -> Path:
    """A model to whose tokenizer and embeddings a word was added, as by textual inversion."""
    t, torch = transformers(), import_torch()
    make(folder)
    tokenizer = t.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<concept1>"])
    tokenizer.save_pretrained(folder)
    model = getattr(t, t.AutoConfig.from_pretrained(folder).architectures[0]).from_pretrained(folder)
    embedding, generator = model.text_model.embeddings.token_embedding, torch.Generator().manual_seed(5)
    rows = torch.cat([embedding.weight.data, torch.randn(1, embedding.weight.shape[1], generator=generator)])
    embedding.weight = torch.nn.Parameter(rows)
    model.config.text_config.vocab_size = len(rows)
    model.save_pretrained(folder)
    stated = tokenizer.eos_token_id if end is None else end
    edit(folder / "config.json", lambda content: content["text_config"].update(eos_token_id=stated))
    return folder


def loaded(folder: Path, **options) -> TorchDual:
    """A saved dual encoder, opened."""
    return load(str(folder), ModelOptions(reading="itc", **options))  # type: ignore[return-value]


def edit(path: Path, change: Callable[[Any], object] | None = None, **values: object) -> None:
    """Change the content of a JSON file, or some of its values."""
    content = json.loads(path.read_text())
    (change or (lambda held: held.update(values)))(content)
    path.write_text(json.dumps(content))


def changed(source: Path, place: Path, file: str, change: Callable[[Any], object] | None = None, **values: object):
    """A copy of a model's folder whose JSON file has another content."""
    edit(shutil.copytree(source, place) / file, change, **values)
    return place
