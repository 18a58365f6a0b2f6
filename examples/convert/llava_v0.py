"""Make LLaVA of April 2023 (v0, v1) out of LLaMA and the released delta: a folder of transformers' Llava.

    python examples/convert/llava_v0.py LLAMA_FOLDER DELTA_FOLDER CLIP_FOLDER OUTPUT_FOLDER --prompt v0
    tellapart run -m hf:OUTPUT_FOLDER -b eqben

The three folders are LLaMA-7B in transformers' form, `liuhaotian/LLaVA-7b-delta-v0` (or
`LLaVA-Lightning-7B-delta-v1-1`, with `--prompt v1`), and `openai/clip-vit-large-patch14`. Its one linear projector is
the first layer of transformers' two; the second is the identity, and nothing is between them. Files are read without
running anything in them. LLaMA, the delta and the sum, in float16, are in memory at once: three times 13.5 GB for 7B.

It was run on made weights only: on tiny models with random numbers, never on the published files, and it was not
compared with the authors' code.
The chat templates follow Vicuna's conversations, v0 with "### Human" and "### Assistant", v1 with "USER" and
"ASSISTANT"; their system texts were written down from a description, not from the files.
"""

from pathlib import Path
from typing import Any, Literal

import typer

from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_checkpoint

torch, transformers = import_torch(), import_transformers()

PATCH, START, END = "<im_patch>", "<im_start>", "<im_end>"


def read_folder(folder: Path) -> dict[str, Any]:
    """Read all weights of a folder of transformers, whole or in shards."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise SystemExit(f"{folder} has neither *.safetensors nor pytorch_model*.bin")
    return {name: tensor for file in files for name, tensor in read_checkpoint(file).saved.items()}


def add(base: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Add LLaMA to the delta, name by name; words that LLaMA does not know, and what it has no part of, are whole."""
    delta = {name: tensor for name, tensor in delta.items() if not name.endswith("rotary_emb.inv_freq")}
    base = {name: tensor for name, tensor in base.items() if not name.endswith("rotary_emb.inv_freq")}
    own = sorted(name for name in delta if name not in base)
    missing = sorted(name for name in base if name not in delta)
    if missing or own != ["model.mm_projector.bias", "model.mm_projector.weight"]:
        raise SystemExit(f"the delta is not LLaMA's and a projector: it lacks {missing[:3]} and has {own[:3]} besides")
    summed = {}
    for name, change in delta.items():
        total = change.float().clone()
        if name in base:
            total[: len(base[name])] += base[name].float()
        summed[name] = total.half()
    return summed


def template(prompt: str) -> str:
    """Return the chat template: the picture is wrapped in its marks, before the question."""
    text = Path(__file__).with_name(f"llava_{prompt}.j2").read_text(encoding="utf-8")
    return "".join(line.strip() for line in text.splitlines())


def convert(llama: Path, delta: Path, clip: Path, output: Path, prompt: Literal["v0", "v1"] = "v0") -> None:
    """Write the folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(delta)
    marks = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in (PATCH, START, END)}
    unknown = [mark for mark, number in marks.items() if number in (None, tokenizer.unk_token_id)]
    if unknown:
        raise SystemExit(f"the tokenizer in {delta} does not know {', '.join(unknown)}")
    weights = add(read_folder(llama), read_folder(delta))
    words, width = weights["model.embed_tokens.weight"].shape
    text = transformers.LlamaConfig.from_pretrained(llama, vocab_size=words)
    tower = transformers.CLIPVisionModel.from_pretrained(clip, dtype=torch.float16)
    config = transformers.LlavaConfig(
        vision_config=tower.config,
        text_config=text,
        image_token_index=marks[PATCH],
        projector_hidden_act="linear",
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_seq_length=(tower.config.image_size // tower.config.patch_size) ** 2,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        model = transformers.LlavaForConditionalGeneration(config).half()
    second = {"weight": torch.eye(width, dtype=torch.float16), "bias": torch.zeros(width, dtype=torch.float16)}
    state = {f"model.multi_modal_projector.linear_2.{kind}": tensor for kind, tensor in second.items()}
    for kind in second:
        state[f"model.multi_modal_projector.linear_1.{kind}"] = weights.pop(f"model.mm_projector.{kind}")
    inner = next(iter(model.model.vision_tower.state_dict())).startswith("vision_model.")
    for name, tensor in tower.state_dict().items():
        state[f"model.vision_tower.{name if inner else name.removeprefix('vision_model.')}"] = tensor
    for name, tensor in weights.items():
        state[name if name.startswith("lm_head.") else f"model.language_model.{name.removeprefix('model.')}"] = tensor
    model.load_state_dict(state, strict=True, assign=True)
    model.save_pretrained(output)
    tokenizer.padding_side = "left"
    transformers.LlavaProcessor(
        transformers.CLIPImageProcessor.from_pretrained(clip),
        tokenizer,
        patch_size=tower.config.patch_size,
        vision_feature_select_strategy="default",
        chat_template=template(prompt),
        image_token=PATCH,
        num_additional_image_tokens=1,  # the class token, which "default" drops
    ).save_pretrained(output)


if __name__ == "__main__":
    typer.run(convert)
