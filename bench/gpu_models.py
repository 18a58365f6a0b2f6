"""Models with random weights, made in memory on their device: what `gpu.py` measures without a network or a file."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.families import BLIP, Blip
from tellapart.models.fusion.load import prepare_pixels
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart.models.generative.chat import ChatModel
from tellapart.models.generative.readings import CaptionLikelihood
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.openclip.dual_encoder import make_dual as make_openclip
from tellapart.models.openclip.weights import Parts
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch, runtime
from tellapart.models.torch.dual_encoder import TorchDual

_WORDS = "a the two red blue small man woman dog cat child table street cup stands sits holds opens near under on of"

TINY_DUAL = "tiny"

#: The sizes of Qwen2.5-VL's configurations; the 2 B one is Qwen2-VL's language model beside a tower of half the width.
CHATS: dict[str, dict[str, dict[str, Any]]] = {
    "writer-tiny": {
        "text": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
        "vision": {"hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 4},
    },
    "writer-small": {
        "text": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 12, "num_attention_heads": 14},
        "vision": {"hidden_size": 320, "intermediate_size": 856, "depth": 4, "num_heads": 8},
    },
    "writer-2b": {
        "text": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
        "vision": {"hidden_size": 640, "intermediate_size": 1712, "depth": 32, "num_heads": 8},
    },
    "writer-7b": {
        "text": {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28},
        "vision": {"hidden_size": 1280, "intermediate_size": 3420, "depth": 32, "num_heads": 16},
    },
}
_MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
_MARKS += ["<|image_pad|>", "<|video_pad|>"]
_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_dual(architecture: str, device: str, dtype: str) -> tuple[TorchDual, Any]:
    """Make a dual encoder of open_clip; return it with its module. One architecture has the same weights everywhere.

    SigLIP's own tokenizer is on the hub; its tower reads open_clip's here, at its own context length.
    """
    torch = import_torch()
    import open_clip

    if architecture == TINY_DUAL:
        # Registered for this process only: open_clip makes models by name.
        vision = {"image_size": 32, "layers": 2, "width": 48, "head_width": 16, "patch_size": 8}
        text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
        open_clip.factory._MODEL_CONFIGS[TINY_DUAL] = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}
    torch.manual_seed(0)
    module = open_clip.create_model(architecture, pretrained=None, pretrained_image=False).eval()
    config = open_clip.get_model_config(architecture)
    facts = open_clip.transform.PreprocessCfg(**module.visual.preprocess_cfg)
    transform = open_clip.transform.image_transform_v2(facts, is_train=False)
    words = open_clip.SimpleTokenizer(context_length=config["text_cfg"]["context_length"])
    if config["text_cfg"].get("vocab_size", 49408) < len(words.encoder):
        ids, size = words.__call__, config["text_cfg"]["vocab_size"]

        class Folded(open_clip.SimpleTokenizer):  # type: ignore[misc]
            """Its ids within a smaller vocabulary."""

            def __call__(self, *arguments: Any, **options: Any) -> Any:
                return ids(*arguments, **options) % size

        words = Folded(context_length=words.context_length)
    where = runtime(ModelOptions(device=device, dtype=dtype))
    dual = make_openclip(architecture, Parts(module, transform, words, ""), where, config)
    module.to(where.device, where.torch_dtype)
    return dual, module


def make_itm(device: str, dtype: str, *, tiny: bool) -> tuple[FusionScorer, Any]:
    """Make a BLIP with its matching head, of the base size at 384 pixels; return it with its module."""
    torch, transformers = import_torch(), import_transformers()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS.split(), *(f"[unused{k}]" for k in range(30495))]
    words = words[:60] if tiny else words[:30524]
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    size = 32 if tiny else 384
    text = {"vocab_size": len(words), "bos_token_id": 2, "sep_token_id": 3, "pad_token_id": 0}
    text |= {"encoder_hidden_size": 32 if tiny else 768, "max_position_embeddings": 512}
    vision = {"image_size": size, "patch_size": 16} | (small if tiny else {})
    config = transformers.BlipConfig(text_config=text | (small if tiny else {}), vision_config=vision)
    torch.manual_seed(0)
    module = transformers.BlipForImageTextRetrieval(config).eval()
    where = runtime(ModelOptions(device=device, dtype=dtype))
    module = module.to(where.device, where.torch_dtype)
    tokenizer = transformers.BertTokenizer(vocab={word: k for k, word in enumerate(words)}, model_max_length=512)
    images = transformers.BlipImageProcessorPil(size={"height": size, "width": size})
    processor = transformers.BlipProcessor(images, tokenizer)

    halves = Blip(module)
    return FusionScorer(
        TorchFusionEncoder("blip-itm", halves, prepare_pixels("blip-itm", BLIP, halves, processor), where)
    ), module


def make_writer(name: str, device: str, dtype: str) -> tuple[CaptionLikelihood, Any, Any]:
    """Make a writer of Qwen2.5-VL's shape; return its likelihood reading, its module and its processor."""
    torch, transformers = import_torch(), import_transformers()
    shape, tiny, words = CHATS[name], name == "writer-tiny", _tokenizer(transformers)
    heads = shape["text"]["num_attention_heads"]
    width = shape["text"]["hidden_size"] // heads
    sections = [width // 8, width // 16 * 3, width // 2 - width // 8 - width // 16 * 3]
    text = shape["text"] | {
        "vocab_size": 400 if tiny else 152064,
        "num_key_value_heads": 2 if heads % 4 else 4,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "mrope_section": sections, "rope_theta": 1e6},
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    patch = 4 if tiny else 14
    vision = shape["vision"] | {"out_hidden_size": text["hidden_size"], "patch_size": patch, "spatial_merge_size": 2}
    depth = vision["depth"]
    vision |= {"window_size": patch * 8, "fullatt_block_indexes": [k for k in range(depth) if k % 8 == 7] or [1]}
    marks = {"image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 3, "vision_end_token_id": 4}
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **marks)
    where = runtime(ModelOptions(device=device, dtype=dtype))
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(where.torch_dtype)
    try:
        with torch.device(device):
            module = transformers.Qwen2_5_VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)
    cuts = {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2}
    most = 1024 if tiny else 448 * 448
    images = transformers.Qwen2VLImageProcessor(**cuts, min_pixels=64 if tiny else 56 * 56, max_pixels=most)
    videos = transformers.Qwen2VLVideoProcessor(**cuts)
    processor = transformers.Qwen2_5_VLProcessor(images, words, videos, chat_template=_CHAT)
    return CaptionLikelihood(ChatModel(name, module, processor, where), dtype=dtype), module, processor


def _tokenizer(transformers: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=_MARKS, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([_WORDS] * 3, trainer)
    special = {"pad_token": _MARKS[0], "eos_token": _MARKS[2]}
    rest = [mark for mark in _MARKS if mark not in special.values()]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, additional_special_tokens=rest, **special)
