"""Converters of Open CapPa, LLaVA and towers: every tensor arrives under its name, or nothing is written."""

from typing import Any

import numpy as np
import pytest
import tiny_models
from examples.convert import interpolate, llava_v0, two_towers
from examples.convert.cappa import convert_all
from safetensors.torch import load_file
from tiny_files import cappa_shapes, draw
from tiny_generative import LANGUAGE, MARKS, SQUARE, VISION, tokenizer

from facts import raises
from tellapart.models.find import find_model
from tellapart.models.huggingface.files import import_transformers, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, Generator
from tellapart.models.torch.backend import import_torch

NAMES = {
    "vision/embed/kernel": "vision.patch.weight",
    "vision/embed/row": "vision.rows",
    "vision/embed/column": "vision.columns",
    "vision/registers": "vision.registers",
}


def as_flax(stacked: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Draw a model; return tellapart's tensors, and the same as flax would keep them."""
    state = {name: tensor.numpy() for name, tensor in draw(cappa_shapes()).items()}
    tree: dict[str, Any] = {}
    named = {name: path for path, name in NAMES.items()}
    layers: dict[str, list[np.ndarray]] = {}
    for name, array in state.items():
        parts = name.split(".")
        if name in named:
            _put(tree, named[name], array.transpose(2, 3, 1, 0) if array.ndim == 4 else array)
        elif ".blocks." not in name:
            kernel = {
                "text.logits.weight": ("text/logits/kernel", array.T),
                "text.logits.bias": ("text/logits/bias", array),
            }
            _put(tree, *kernel.get(name, ("text/embed/embedding", array)))
        else:
            tower, _, number, *inside, _ = parts
            leaf = "scale" if inside[-1].startswith("norm") else "kernel"
            path = f"{tower}/layers{{}}/{'/'.join(inside)}/{leaf}"
            flax = _kernel(inside[-1], array)
            layers.setdefault(path, []).append(flax)
            if not stacked:
                _put(tree, path.format(f"_{number}"), flax)
    if stacked:
        for path, arrays in layers.items():
            _put(tree, path.format(""), np.stack(arrays))
    return state, tree


def _kernel(part: str, array: np.ndarray) -> np.ndarray:
    """Return (in, heads, each), (heads, each, out) or (in, out) of torch's (out, in)."""
    if part in ("query", "key", "value"):
        return array.T.reshape(32, 4, 8)
    if part == "out":
        return array.T.reshape(4, 8, 32)
    return array if part.startswith("norm") else array.T


def _put(tree: dict[str, Any], path: str, array: np.ndarray) -> None:
    *parents, leaf = path.split("/")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[leaf] = array


@pytest.mark.parametrize("stacked", [False, True])
def test_every_tensor_arrives(stacked):
    state, tree = as_flax(stacked)
    tensors, unknown = convert_all(tree, NAMES)
    assert unknown == []
    assert set(tensors) == set(state)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, state[name], err_msg=name)


def test_two_paths_of_one_name_and_what_is_not_known_are_listed():
    _, tree = as_flax(stacked=True)
    _put(tree, "vision/final_norm/scale", np.ones(32))
    _, unknown = convert_all(tree, {path: name for path, name in NAMES.items() if name != "vision.rows"})
    assert unknown == ["vision/embed/row (32, 32) is not known", "vision/final_norm/scale (32,) is not known"]
    _, tree = as_flax(stacked=True)
    _put(tree, "text/other/embedding", np.ones((40, 32)))
    assert convert_all(tree, NAMES)[1] == ["text/other/embedding (40, 32) has the name of another"]


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


def test_logits_are_those_of_a_model_put_together_by_hand_and_it_is_read_here(parts, model):
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


@pytest.mark.slow
def test_two_towers_make_the_model_that_they_were_taken_from(tmp_path):
    whole = tiny_models.clip(tmp_path / "whole")
    with quiet():
        for tower, kind in (("text", "CLIPTextModelWithProjection"), ("image", "CLIPVisionModelWithProjection")):
            part = getattr(transformers, kind).from_pretrained(whole, projection_dim=tiny_models.DIMENSIONS)
            part.save_pretrained(tmp_path / tower)
        two_towers.join(tmp_path / "text", tmp_path / "image", whole, tmp_path / "joined")
    models = [find_model(f"hf:{folder}") for folder in (whole, tmp_path / "joined")]
    images, texts = tiny_models.pictures(2), tiny_models.TEXTS
    scores = []
    for model in models:
        assert isinstance(model, DualEncoder)
        scores.append(model.similarity(model.encode_images(images), model.encode_texts(texts)))
    np.testing.assert_array_equal(*scores)


def test_towers_of_two_spaces_are_refused(tmp_path):
    whole = tiny_models.clip(tmp_path / "whole")
    with quiet():
        text = transformers.CLIPTextModelWithProjection.from_pretrained(whole, projection_dim=24)
        text.save_pretrained(tmp_path / "text")
        vision = transformers.CLIPVisionConfig(**tiny_models.vision(), projection_dim=8)
        transformers.CLIPVisionModelWithProjection(vision).save_pretrained(tmp_path / "image")
    with raises(SystemExit, "24", "8"):
        two_towers.join(tmp_path / "text", tmp_path / "image", whole, tmp_path / "joined")


def test_the_patch_lies_between_the_two_models(tmp_path):
    base, tuned = ({"w": torch.full((2, 3), float(k)), "steps": torch.tensor(k)} for k in (1, 2))
    torch.save(base, tmp_path / "base.pt")
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in tuned.items()}}, tmp_path / "t.pt"
    )
    mixed = load_file(interpolate.interpolate(tmp_path / "base.pt", tmp_path / "t.pt", tmp_path / "out.safetensors"))
    np.testing.assert_allclose(mixed["w"], 1.6, rtol=1e-6)
    assert mixed["steps"] == 1
    torch.save({"w": torch.zeros(2, 4), "steps": torch.tensor(0)}, tmp_path / "wide.pt")
    with raises(SystemExit, "wide.pt", "1", "shape"):
        interpolate.interpolate(tmp_path / "base.pt", tmp_path / "wide.pt", tmp_path / "no")
    with raises(SystemExit, "--share", "2", "0", "1"):
        interpolate.interpolate(tmp_path / "base.pt", tmp_path / "t.pt", tmp_path / "no", 2)
