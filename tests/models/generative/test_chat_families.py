"""Chat models of families that no list names, of random weights: P(yes) and answers are those of the library."""

import numpy as np
import pytest
from tiny_generative import (
    CLIP_SIZE,
    IMAGES,
    LANGUAGE,
    LLAVA_CHAT,
    PAIRS,
    QWEN_CHAT,
    QWEN_CUTS,
    QWEN_MARKS,
    VISION,
    asked,
    both,
    direct,
    greedy,
    load,
    marked_words,
    read_as,
    save,
    tokenizer,
    transformers,
)

pytestmark = pytest.mark.slow

#: The first three tokens of every tokenizer but Qwen's.
ROLES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>"}

IDS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}

SIGLIP = VISION | {"model_type": "siglip_vision_model", "vision_use_head": False}

SQUARE = {"size": {"height": 16, "width": 16}}

#: Attention of a state between layers of common attention, as Qwen3.5 and its descendants have it.
LINEAR = {
    "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
        "partial_rotary_factor": 1.0,
    },
}


def words_of(*marks: str, **names: str):
    return marked_words([*ROLES.values(), *marks], tuple(ROLES), **names)


def language(words, kind: str = "qwen2", **extra):
    return LANGUAGE | IDS | {"num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": len(words)} | extra


def save_qwen3_5(folder) -> None:
    """Its cache holds states, so texts cannot go on from the image; its template begins a thought."""
    words = tokenizer([*QWEN_MARKS, "<think>", "</think>"], "pad_token _ eos_token")
    ids = {name: words.convert_tokens_to_ids(f"<|{name}|>") for name in ("vision_start", "vision_end")}
    ids |= {name: words.convert_tokens_to_ids(f"<|{name}_pad|>") for name in ("image", "video")}
    vision = {"depth": 2, "num_heads": 4, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 64}
    vision |= {"patch_size": 4, "num_position_embeddings": 64, "initializer_range": 0.5}
    text = language(words, **LINEAR) | {"bos_token_id": 0, "eos_token_id": 2}
    places = {f"{name}_token_id": token for name, token in ids.items()}
    config = transformers.Qwen3_5Config(text_config=text, vision_config=vision, **places)
    images = transformers.Qwen2VLImageProcessor(**QWEN_CUTS, min_pixels=64, max_pixels=1024)
    chat = QWEN_CHAT.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    videos = transformers.Qwen3VLVideoProcessor(**QWEN_CUTS)
    processor = transformers.Qwen3VLProcessor(images, words, videos, chat_template=chat)
    save(folder, transformers.Qwen3_5ForConditionalGeneration(config), processor)


def save_internvl(folder) -> None:
    marks = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    words = words_of(*marks.values(), "<video>", **marks, video_token="<video>")  # noqa: S106
    vision = CLIP_SIZE | {"image_size": [16, 16], "patch_size": [4, 4], "initializer_range": 0.5}
    text = language(words, model_type="qwen2")
    config = transformers.InternVLConfig(text_config=text, vision_config=vision, image_token_id=5, image_seq_length=4)
    images = transformers.GotOcr2ImageProcessor(**SQUARE, crop_to_patches=False)
    parts = images, words, transformers.InternVLVideoProcessor(**SQUARE)
    chat = LLAVA_CHAT.replace("<image>", "<IMG_CONTEXT>")
    processor = transformers.InternVLProcessor(*parts, image_seq_length=4, chat_template=chat)
    save(folder, transformers.InternVLForConditionalGeneration(config), processor)


def save_idefics3(folder) -> None:
    """A large picture is cut into tiles, whose rows and columns its prompt names."""
    marks = {"image_token": "<image>", "fake_image_token": "<fake_token_around_image>"}
    marks |= {"global_image_token": "<global-img>", "end_of_utterance_token": "<end_of_utterance>"}
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    words = words_of(*marks.values(), *tiles, **marks)
    text = language(words, model_type="llama")
    config = transformers.Idefics3Config(text_config=text, vision_config=VISION, image_token_id=3, scale_factor=2)
    sizes = {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 16}}
    images = transformers.Idefics3ImageProcessor(**sizes)
    chat = LLAVA_CHAT.replace("<image>\n", "<image>")
    processor = transformers.Idefics3Processor(images, words, image_seq_len=4, chat_template=chat)
    save(folder, transformers.Idefics3ForConditionalGeneration(config), processor)


def save_llava_onevision(folder) -> None:
    words = words_of("<image>", "<video>", image_token="<image>", video_token="<video>")  # noqa: S106
    cuts = {"image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]}
    config = transformers.LlavaOnevisionConfig(
        text_config=language(words, model_type="qwen2"),
        vision_config=SIGLIP,
        **{"image_token_id": 3, "video_token_id": 4, "vision_feature_layer": -1},
        **cuts,
    )
    images = transformers.LlavaOnevisionImageProcessor(**SQUARE, **cuts)
    parts = images, words, transformers.LlavaOnevisionVideoProcessor(**SQUARE)
    counted = {"num_image_tokens": 16, "vision_feature_select_strategy": "full"}
    processor = transformers.LlavaOnevisionProcessor(*parts, **counted, chat_template=LLAVA_CHAT)
    save(folder, transformers.LlavaOnevisionForConditionalGeneration(config), processor)


def save_mistral3(folder) -> None:
    """The rows of a picture end by a token, and the picture by another one."""
    words = words_of("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    vision = CLIP_SIZE | {"model_type": "pixtral", "image_size": 32, "patch_size": 4, "head_dim": 8}
    text = language(words, model_type="mistral", head_dim=8)
    parts = {"text_config": text, "vision_config": vision | {"initializer_range": 0.5}}
    config = transformers.Mistral3Config(**parts, image_token_id=3, spatial_merge_size=2)
    images = transformers.PixtralImageProcessor(size={"longest_edge": 32}, patch_size=8)
    chat = LLAVA_CHAT.replace("<image>\n", "[IMG]")
    cuts = {"patch_size": 4, "spatial_merge_size": 2}
    processor = transformers.PixtralProcessor(images, words, **cuts, chat_template=chat)
    save(folder, transformers.Mistral3ForConditionalGeneration(config), processor)


def save_gemma4(folder) -> None:
    """Each layer has embeddings of its own beside the first; some layers see a window."""
    marks = {"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>", "boa_token": "<|audio>"}
    marks |= {"eoa_token": "<audio|>", "audio_token": "<|audio|>", "video_token": "<|video|>"}
    words = words_of(*marks.values(), **marks)
    text = language(words, head_dim=8, global_head_dim=8, sliding_window=12, num_hidden_layers=4)
    text |= {"layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": len(words)}
    text |= {"hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0}
    vision = VISION | {"num_key_value_heads": 4, "head_dim": 8, "pooling_kernel_size": 2}
    vision |= {"position_embedding_size": 64, "default_output_length": 16}
    places = {f"{name}_id": words.convert_tokens_to_ids(mark) for name, mark in marks.items()}
    config = transformers.Gemma4Config(text_config=text, vision_config=vision, audio_config=None, **places)
    cuts = {"patch_size": 4, "max_soft_tokens": 70, "pooling_kernel_size": 2}
    parts = transformers.Gemma4AudioFeatureExtractor(), transformers.Gemma4ImageProcessor(**cuts), words
    chat = LLAVA_CHAT.replace("<image>\n", "<|image|>")
    processor = transformers.Gemma4Processor(*parts, transformers.Gemma4VideoProcessor(**cuts), chat_template=chat)
    save(folder, transformers.Gemma4ForConditionalGeneration(config), processor)


#: Family -> how its model is saved, and whether its cached image gives the same numbers.
FAMILIES = {
    "qwen3_5": (save_qwen3_5, False),
    "internvl": (save_internvl, True),
    "idefics3": (save_idefics3, True),
    "llava_onevision": (save_llava_onevision, True),
    "mistral3": (save_mistral3, True),
    "gemma4": (save_gemma4, True),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_no_list_gets_the_librarys_numbers(tmp_path, family):
    write, caches_image = FAMILIES[family]
    write(tmp_path)
    scorer, (model, processor) = read_as("vqa", tmp_path), load(tmp_path)
    prompts = [asked(processor, f'Does this figure show "{text}"? Please answer yes or no.') for _, text in PAIRS]
    want = [
        direct(model, processor, image, prompt, "Yes", False) for (image, _), prompt in zip(PAIRS, prompts, strict=True)
    ]
    np.testing.assert_allclose(scorer.score_pairs(*both(PAIRS)), np.exp(want), rtol=2e-5)
    assert len(set(want)) == len(PAIRS)  # it looks at both
    assert ("cached image" in scorer._reader.method) == caches_image
    answer = scorer._reader.generate([IMAGES[0]], "What is this?", 8)
    assert answer == greedy(model, processor, IMAGES[0], "What is this?", 8)
