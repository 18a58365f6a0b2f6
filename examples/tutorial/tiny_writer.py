"""Save a tiny chat model with random weights, as a stand-in for yours: it writes, and what it writes means nothing.

python -m examples.tutorial.tiny_writer FOLDER
"""

import sys
from pathlib import Path

from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.backend import import_torch

_SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_CHAT = (
    "{% for m in messages %}{% for c in m['content'] %}{{ '<image>' if c['type'] == 'image' else c['text'] }}"
    "{% endfor %}{% endfor %} Answer:"
)


def save_writer(folder: Path | str, *, seed: int = 0) -> None:
    """Write a LLaVA model of transformers, its processor and its chat template to a folder."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    torch, transformers = import_torch(), import_transformers()
    marks = ["<s>", "</s>", "<pad>", "<image>"]
    letters = [chr(code) for code in range(32, 127)]
    places = {name: k for k, name in enumerate([*marks, *letters])}
    words = Tokenizer(models.WordLevel(places, unk_token="?"))  # noqa: S106 - a token of text
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token=marks[0], eos_token=marks[1], pad_token=marks[2],
        additional_special_tokens=marks[3:],
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config={**_SIZE, "model_type": "clip_vision_model", "image_size": 16, "patch_size": 4},
        text_config={**_SIZE, "model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": 512},
        image_token_id=3,
    )  # fmt: skip
    square = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(**square), tokenizer, patch_size=4, num_additional_image_tokens=1,
        vision_feature_select_strategy="default", chat_template=_CHAT,
    )  # fmt: skip
    torch.manual_seed(seed)
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


if __name__ == "__main__":
    save_writer(sys.argv[1])
