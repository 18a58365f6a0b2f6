"""Tiny chat models, captioners and answerers, saved as their authors save them, and the library's own numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tellapart.models.generative.readings import load_generative
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()

#: Float32 rounding of another order of summation, on log-probabilities of a few hundred nats at most.
CLOSE = 2e-5

MARKS = ["<s>", "</s>", "<pad>", "<image>"]

QWEN_MARKS = [f"<|{name}|>" for name in ("endoftext", "im_start", "im_end", "vision_start", "vision_end")]
QWEN_MARKS += ["<|image_pad|>", "<|video_pad|>"]

LLAVA_CHAT = (
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}"
    "{% for c in m['content'] if c['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}"
    "{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)

QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CLIP_SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
VISION = CLIP_SIZE | {"image_size": 16, "patch_size": 4, "initializer_range": 0.5}
LANGUAGE = CLIP_SIZE | {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
SQUARE = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
TEXTS = ["a red cup", "a cat and two dog on the blue box and a red cup", "a cat"]
DRAW = np.random.default_rng(0)
IMAGES = [DRAW.integers(0, 256, shape, dtype=np.uint8) for shape in ((20, 24, 3), (24, 60, 3), (50, 16, 3))]
PAIRS = [(image, text) for image in IMAGES for text in TEXTS]


def tokenizer(marks: list[str], roles: str):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    texts = ["USER: is this a cat ? ASSISTANT: Yes No", 'Does this figure show "a red cup"?']
    bpe.train_from_iterator(texts * 3, trainer)
    special = {role: mark for role, mark in zip(roles.split(), marks, strict=False) if role != "_"}
    rest = [mark for mark in marks if mark not in special.values()]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, additional_special_tokens=rest, **special)


def save_llava(folder: Path, kind: str = "Llava", chat: str | None = LLAVA_CHAT, **extra) -> None:
    words = tokenizer(MARKS, "bos_token eos_token pad_token")
    language = LANGUAGE | {"model_type": "llama", "vocab_size": len(words), "max_position_embeddings": 512}
    seen = {"vision_feature_layer": -2, "vision_feature_select_strategy": "default", "image_token_id": 3}
    vision = VISION | {"model_type": "clip_vision_model"}
    config = getattr(transformers, f"{kind}Config")(vision_config=vision, text_config=language, **seen, **extra)
    images = transformers.CLIPImageProcessor(**SQUARE)
    if kind == "LlavaNext":
        images = transformers.LlavaNextImageProcessor(**SQUARE, **extra)
    places = {"patch_size": 4, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor = getattr(transformers, f"{kind}Processor")(images, words, **places, chat_template=chat)
    save(folder, getattr(transformers, f"{kind}ForConditionalGeneration")(config), processor)


#: Cuts of Qwen's pictures.
QWEN_CUTS = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}


def qwen_config(words, kind: str = "Qwen2VL"):
    """Qwen3-VL puts features of lower layers into the language model."""
    later = {"out_hidden_size": 32, "intermediate_size": 64}
    vision = {"depth": 2, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2, "hidden_size": 32}
    vision |= {"initializer_range": 0.5} | {
        "Qwen2VL": {"embed_dim": 32, "mlp_ratio": 2},
        "Qwen2_5_VL": later | {"window_size": 16, "fullatt_block_indexes": [1]},
        "Qwen3VL": later | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
    }[kind]
    rotary = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    language = CLIP_SIZE | {"initializer_range": 0.5, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    language |= {"vocab_size": len(words), "num_key_value_heads": 2, "max_position_embeddings": 512}
    if kind == "Qwen3VL":
        rotary |= {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
        language["head_dim"] = 8
    language["rope_parameters"] = rotary
    marks = {"image": "image_pad", "video": "video_pad", "vision_start": "vision_start", "vision_end": "vision_end"}
    ids = {f"{name}_token_id": words.convert_tokens_to_ids(f"<|{mark}|>") for name, mark in marks.items()}
    return getattr(transformers, f"{kind}Config")(text_config=language, vision_config=vision, **ids)


def save_qwen(folder: Path, kind: str = "Qwen2VL") -> None:
    """Qwen3-VL's template lets it think."""
    third = kind == "Qwen3VL"
    words = tokenizer([*QWEN_MARKS, *(["<think>", "</think>"] if third else [])], "pad_token _ eos_token")
    images = transformers.Qwen2VLImageProcessor(**QWEN_CUTS, min_pixels=64, max_pixels=1024)
    videos = getattr(transformers, f"{'Qwen3' if third else 'Qwen2'}VLVideoProcessor")(**QWEN_CUTS)
    chat = QWEN_CHAT.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}") if third else QWEN_CHAT
    processor = getattr(transformers, f"{kind}Processor")(images, words, videos, chat_template=chat)
    save(folder, getattr(transformers, f"{kind}ForConditionalGeneration")(qwen_config(words, kind)), processor)


def marked_words(marks: list[str], roles: Sequence[str], **extra: str):
    """A tokenizer whose first marks have roles, and others the names that a processor asks for."""
    special = dict(zip(roles, marks, strict=False))
    backend = tokenizer(marks, "").backend_tokenizer
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special, extra_special_tokens=extra)


def save_gemma(folder: Path) -> None:
    """Its template marks an image by another token than its patches', and its last layers see a window."""
    marks = ["<pad>", "<eos>", "<bos>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    extra = dict(zip(("boi_token", "eoi_token", "image_token"), marks[3:], strict=True))
    words = marked_words(marks, ("pad_token", "eos_token", "bos_token"), **extra)
    language = LANGUAGE | {"vocab_size": len(words), "max_position_embeddings": 512, "head_dim": 8}
    language |= {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "num_key_value_heads": 2}
    language |= {"sliding_window": 12, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    places = {"boi_token_index": 3, "eoi_token_index": 4, "image_token_id": 5, "image_token_index": 5}
    config = transformers.Gemma3Config(text_config=language, vision_config=VISION, mm_tokens_per_image=4, **places)
    images = transformers.Gemma3ImageProcessor(size={"height": 16, "width": 16})
    chat = LLAVA_CHAT.replace("<image>\n", "<start_of_image>")
    processor = transformers.Gemma3Processor(images, words, chat_template=chat, image_seq_length=4)
    save(folder, transformers.Gemma3ForConditionalGeneration(config), processor)


def save_mllama(folder: Path) -> None:
    """Some of its layers see the images apart from the text: a mask tells which token sees which."""
    roles = ("bos_token", "eos_token", "pad_token")
    words = marked_words([*MARKS[:3], "<|image|>"], roles, image_token="<|image|>")  # noqa: S106
    language = LANGUAGE | {"vocab_size": len(words), "num_key_value_heads": 2, "max_position_embeddings": 512}
    language |= {"cross_attention_layers": [1], "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    vision = VISION | {"num_global_layers": 1, "attention_heads": 4, "max_num_tiles": 2, "vision_output_dim": 64}
    vision |= {"intermediate_layers_indices": [0], "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]]}
    config = transformers.MllamaConfig(vision_config=vision, text_config=language, image_token_index=3)
    images = transformers.MllamaImageProcessor(size={"height": 16, "width": 16}, max_image_tiles=2)
    processor = transformers.MllamaProcessor(images, words, LLAVA_CHAT.replace("<image>\n", "<|image|>"))
    save(folder, transformers.MllamaForConditionalGeneration(config), processor)


def paligemma() -> tuple[Any, Any, Any]:
    """PaliGemma's tokenizer, processor of images and configuration."""
    words = tokenizer(["<pad>", "<eos>", "<bos>", "<image>"], "pad_token eos_token bos_token")
    images = transformers.SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 16
    language = LANGUAGE | {"model_type": "gemma", "vocab_size": len(words), "head_dim": 8, "num_key_value_heads": 2}
    language |= {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "max_position_embeddings": 512}
    vision = VISION | {"model_type": "siglip_vision_model", "projection_dim": 32, "vision_use_head": False}
    config = {"text_config": language, "vision_config": vision, "projection_dim": 32}
    return words, images, transformers.PaliGemmaConfig(**config, image_token_index=3, image_token_id=3)


def save_blip(folder: Path, kind: str = "BlipForConditionalGeneration") -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "a", "picture", "of"]
    words = [*dict.fromkeys([*words, *TEXTS[1].split(), "red", "cup"])]
    language = CLIP_SIZE | {"vocab_size": len(words), "encoder_hidden_size": 32, "initializer_range": 0.5}
    language |= {"max_position_embeddings": 48 if kind.endswith("QuestionAnswering") else 24}
    language |= {"bos_token_id": 5, "sep_token_id": 3, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.BlipConfig(text_config=language, vision_config=VISION)
    bert = transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)}, do_lower_case=True)
    images = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    save(folder, getattr(transformers, kind)(config), transformers.BlipProcessor(images, bert))


def t5_tokenizer():
    """With T5's end of every text."""
    from tokenizers.processors import TemplateProcessing

    words = tokenizer(["<pad>", "</s>", "<image>"], "pad_token eos_token")
    words.backend_tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return words


def save_blip_2_t5(folder: Path, kind: str = "Blip2") -> None:
    words, size = t5_tokenizer(), CLIP_SIZE | {"num_hidden_layers": 2, "initializer_range": 0.5}
    language = {"model_type": "t5", "vocab_size": len(words), "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
    language |= {"num_heads": 4, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    former = size | {"vocab_size": 20, "encoder_hidden_size": 32, "cross_attention_frequency": 1}
    towers = {"vision_config": size | {"image_size": 16, "patch_size": 4}, "qformer_config": former}
    towers["text_config"] = language | {"initializer_factor": 3.0}
    config = getattr(transformers, f"{kind}Config")(**towers, num_query_tokens=4, image_token_index=2)
    images = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    if kind == "Blip2":
        processor = transformers.Blip2Processor(images, words, num_query_tokens=4)
    else:
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
        bert = transformers.BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})
        processor = transformers.InstructBlipProcessor(images, words, bert, num_query_tokens=4)
    save(folder, getattr(transformers, f"{kind}ForConditionalGeneration")(config), processor)


def save_florence(folder: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    marks = ["<s>", "<pad>", "</s>", "<image>"]
    words = marked_words(marks, ("bos_token", "pad_token", "eos_token"), image_token="<image>")  # noqa: S106
    ends = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    words.backend_tokenizer.post_processor = ends
    vision = {"embed_dim": [16, 32], "depths": [1, 1], "num_heads": [2, 4], "num_groups": [2, 4], "window_size": 2}
    vision |= {"patch_size": [3, 3], "patch_stride": [2, 2], "patch_padding": [1, 1], "patch_prenorm": [False, True]}
    language = {"model_type": "bart", "vocab_size": len(words), "d_model": 32, "max_position_embeddings": 250}
    for side in ("encoder", "decoder"):
        language |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    config = transformers.Florence2Config(
        vision_config=vision | {"projection_dim": 32, "max_temporal_embeddings": 8, "max_position_embeddings": 16},
        text_config=language | {"init_std": 0.5, "decoder_start_token_id": 2, "forced_bos_token_id": 0},
        image_token_id=3,
    )
    images = transformers.CLIPImageProcessor(**SQUARE, image_seq_length=17)
    processor = transformers.Florence2Processor(images, words, num_additional_image_tokens=1)
    save(folder, transformers.Florence2ForConditionalGeneration(config), processor)


def save(folder: Path, model, processor) -> None:
    torch.manual_seed(0)
    model.init_weights()
    for name, parameter in model.named_parameters():
        if name.endswith(("mm_input_projection_weight", "gate")):  # Gemma's and Mllama's, which begin at zero
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


SAVERS: dict[str, Callable[[Path], None]] = {
    "llava": save_llava,
    "llava_next": lambda folder: save_llava(folder, "LlavaNext", image_grid_pinpoints=[[16, 32], [32, 16]]),
    "qwen2_vl": save_qwen,
    "qwen2_5_vl": lambda folder: save_qwen(folder, "Qwen2_5_VL"),
    "blip": save_blip,
    "blip_vqa": lambda folder: save_blip(folder, "BlipForQuestionAnswering"),
    "qwen3_vl": lambda folder: save_qwen(folder, "Qwen3VL"),
    "gemma3": save_gemma,
    "mllama": save_mllama,
    "blip-2": save_blip_2_t5,
    "instructblip": lambda folder: save_blip_2_t5(folder, "InstructBlip"),
    "florence2": save_florence,
}

CHATS = ["llava", "llava_next", "qwen2_vl", "qwen2_5_vl"]

#: With those of no list, whose cache is tested when they load.
WRITERS = [*CHATS, *(pytest.param(family, marks=pytest.mark.slow) for family in ("qwen3_vl", "gemma3"))]


def read_as(reading: str | None, folder: Path, **options):
    """The model of a folder, by one of its readings."""
    return load_generative(str(folder), ModelOptions(reading=reading, **options))


def both(pairs: list[tuple[Any, str]]) -> tuple[list[Any], list[str]]:
    return [image for image, _ in pairs], [text for _, text in pairs]


def load(folder: Path) -> tuple[Any, Any]:
    """The library's own model and processor; images by Pillow, as everywhere here."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return transformers.AutoModelForImageTextToText.from_pretrained(folder).eval(), processor


def asked(processor, prompt: str, images: int = 1) -> str:
    content = [{"type": "image"}] * images + [{"type": "text", "text": prompt}]
    prompt = str(processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True))
    return f"{prompt}\n</think>\n\n" if prompt.endswith("<think>\n") else prompt


def greedy(model, processor, image, prompt: str, most: int) -> str:
    """The library's greedy answer to a prompt about an image."""
    inputs = processor(images=Image.fromarray(image), text=asked(processor, prompt), return_tensors="pt")
    out = model.generate(**inputs, max_new_tokens=most, do_sample=False)[0][inputs["input_ids"].shape[1] :]
    return str(processor.tokenizer.decode(out, skip_special_tokens=True).strip())


def direct(model, processor, image, prompt: str, answer: str, end: bool) -> float:
    """Log P(answer | image, prompt) by one forward over everything, as the library's documentation has it."""
    blank = "" if prompt.endswith("\n") else " "
    mark = processor.tokenizer.eos_token if end else ""
    pictures = [Image.fromarray(each) for each in (image if image.ndim == 4 else [image])]
    inputs = processor(images=pictures, text=prompt + blank + answer + mark, return_tensors="pt")
    length = len(processor.tokenizer(blank + answer + mark, add_special_tokens=False).input_ids)
    with torch.no_grad():
        logs = model(**inputs).logits[0].log_softmax(-1)
    ids = inputs["input_ids"][0]
    places = range(len(ids) - length, len(ids))
    return sum(float(logs[place - 1, ids[place]]) for place in places)
