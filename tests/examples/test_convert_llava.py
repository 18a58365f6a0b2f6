"""LLaVA of April 2023 out of LLaMA and a delta, on tiny random models of the real library."""

from typing import Any

import numpy as np
import pytest
from examples.convert import llava_v0
from tiny_generative import LANGUAGE, MARKS, SQUARE, VISION, tokenizer

from facts import raises
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Generator
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()

NEW = [llava_v0.PATCH, llava_v0.START, llava_v0.END]


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> dict[str, Any]:
    """LLaMA, CLIP and a delta for three words more and a projector, saved as published; and what they make."""
    root = tmp_path_factory.mktemp("llava")
    words = tokenizer(MARKS[:3], "bos_token eos_token pad_token")
    words.add_tokens(NEW, special_tokens=True)
    size = {**LANGUAGE, "vocab_size": len(words) - 3, "max_position_embeddings": 512}
    size = {key: value for key, value in size.items() if key != "model_type"}
    torch.manual_seed(0)
    with quiet():
        base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size, tie_word_embeddings=False)).eval()
        base.save_pretrained(root / "llama")
        vision = {key: value for key, value in VISION.items() if key != "model_type"}
        clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**vision)).eval()
        clip.save_pretrained(root / "clip")
        transformers.CLIPImageProcessor(**SQUARE).save_pretrained(root / "clip")
        own = {name: tensor.clone() for name, tensor in base.state_dict().items()}
        delta = {name: torch.randn_like(tensor) * 0.1 for name, tensor in own.items()}
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            delta[name] = torch.cat([delta[name], torch.randn(3, delta[name].shape[1])])
        width, seen = base.config.hidden_size, clip.config.hidden_size
        delta["model.mm_projector.weight"] = torch.randn(width, seen)
        delta["model.mm_projector.bias"] = torch.randn(width)
        (root / "delta").mkdir()
        names = sorted(delta)  # in two shards, as published
        for k, shard in enumerate((names[::2], names[1::2])):
            torch.save({name: delta[name] for name in shard}, root / "delta" / f"pytorch_model-{k + 1:05}-of-00002.bin")
        words.save_pretrained(root / "delta")
        llava_v0.convert(root / "llama", root / "delta", root / "clip", root / "out")
    total = {
        name: torch.cat([own[name], torch.zeros(len(change) - len(own[name]), *change.shape[1:])]) + change
        for name, change in delta.items()
        if name in own
    }
    return {"root": root, "total": total, "delta": delta, "clip": clip, "config": base.config}


@pytest.fixture(scope="module")
def model(parts):
    with quiet():
        folder = parts["root"] / "out"
        return transformers.LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def test_weights_are_the_sum(parts, model):
    state = model.state_dict()
    for name, tensor in parts["total"].items():
        own = name if name.startswith("lm_head") else f"model.language_model.{name.removeprefix('model.')}"
        np.testing.assert_array_equal(state[own], tensor.half().float(), err_msg=name)
    projector = "model.multi_modal_projector"
    np.testing.assert_array_equal(
        state[f"{projector}.linear_1.weight"], parts["delta"]["model.mm_projector.weight"].half().float()
    )
    np.testing.assert_array_equal(state[f"{projector}.linear_2.weight"], np.eye(parts["config"].hidden_size))


def test_logits_are_those_of_a_model_put_together_by_hand(parts, model):
    """CLIP's last layer but one, without the class token, through one linear layer, in place of the mark."""
    ids = transformers.AutoTokenizer.from_pretrained(parts["root"] / "out")
    patch, start, end = ids.convert_tokens_to_ids(NEW)
    pixels = torch.randn(1, 3, VISION["image_size"], VISION["image_size"], generator=torch.Generator().manual_seed(1))
    count = (VISION["image_size"] // VISION["patch_size"]) ** 2
    row = torch.tensor([[5, start, *[patch] * count, end, 7, 9]])
    half = {name: tensor.half().float() for name, tensor in {**parts["delta"], **parts["total"]}.items()}
    config = transformers.LlamaConfig(**{**parts["config"].to_dict(), "vocab_size": len(half["lm_head.weight"])})
    llama = transformers.LlamaForCausalLM(config).eval()
    llama.load_state_dict({name: half[name] for name in llama.state_dict()})
    clip = parts["clip"].half().float()
    with torch.inference_mode():
        seen = clip(pixels, output_hidden_states=True).hidden_states[-2][:, 1:]
        placed = seen @ half["model.mm_projector.weight"].T + half["model.mm_projector.bias"]
        embedded = llama.model.embed_tokens(row)
        embedded[0, 2 : 2 + count] = placed[0]
        expected = llama(inputs_embeds=embedded).logits
        actual = model(input_ids=row, pixel_values=pixels).logits
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_it_is_read_here(parts):
    picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    model = find_model(f"hf:{parts['root'] / 'out'}", ModelOptions(reading="likelihood"))
    assert isinstance(model, Generator)
    logs = model.log_likelihoods([picture, picture], ["a red cup", "a red bowl"])
    assert (logs < 0).all()
    assert logs[0] != logs[1]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("v0", "human's questions.\n### Human: <im_start><im_patch><im_end>\nIs it red?\n### Assistant:"),
        ("v1", "user's questions. USER: <im_start><im_patch><im_end>\nIs it red? ASSISTANT:"),
    ],
)
def test_prompts(parts, prompt, expected):
    processor = transformers.AutoProcessor.from_pretrained(parts["root"] / "out")
    content = [{"type": "image"}, {"type": "text", "text": "Is it red?"}]
    chat = [{"role": "user", "content": content}]
    template = llava_v0.template(prompt)
    assert str(processor.apply_chat_template(chat, chat_template=template, add_generation_prompt=True)).endswith(
        expected
    )
    if prompt == "v0":
        assert processor.chat_template == template


def test_a_delta_of_something_else(parts):
    base = {name: tensor for name, tensor in parts["total"].items() if "lm_head" not in name}
    with raises(SystemExit, "[]", "['lm_head.weight'"):
        llava_v0.add(base, parts["delta"])
