"""Open CapPa by laws, shapes and formulas of its own: no output of the authors' code is at hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from golden import build_published
from tiny_files import PICTURES, cappa_shapes, draw, save_cappa
from tiny_models import edit

from facts import raises
from tellapart.errors import ModelError
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart_native.cappa import Attention, resize_linearly, rotate_states
from tellapart_native.family import Layout

TEXTS = ["a red cup on the bowl", "two dogs", "the small green dog is left of the big blue cat under a bowl"]


@pytest.fixture
def file(tmp_path):
    return Path(save_cappa(tmp_path / "cappa").removeprefix("cappa:"))


@pytest.mark.slow
def test_published_size():
    shapes = cappa_shapes(1024, (24, 12), 3072, 64, 65536)
    module = build_published("cappa", shapes)
    blocks = ((24, 1), (12, 2))  # of vision and of text, with one and two attentions
    expected = sum(n * (kinds * (4 * 1024**2 + 128) + 3 * 1024 * 3072) for n, kinds in blocks)
    expected += 768 * 1024 + (32 + 32 + 8) * 1024 + 2 * 65536 * 1024 + 65536
    assert sum(tensor.numel() for tensor in module.state_dict().values()) == expected == 676_214_784
    assert module.vision.blocks[0].attention.each == 64
    assert (module.config.image_size, module.config.context) == (256, 64)
    with torch.device("meta"):
        tokens = module.vision(torch.empty(2, 3, 256, 256))
        logits = module.text(torch.empty((2, 63), dtype=torch.long), tokens)
    assert (tuple(tokens.shape), tuple(logits.shape)) == ((2, 16 * 16 + 8, 1024), (2, 63, 65536))


@pytest.mark.parametrize("causal", [False, True])
def test_one_attention_is_the_formula(causal):
    """Written anew in float64 numpy: a loop over heads and places, complex numbers for the rotation."""
    shapes = cappa_shapes()
    state = {name: tensor.double() for name, tensor in draw(shapes).items()}
    prefix = "text.blocks.0.attention"
    own = {name.removeprefix(f"{prefix}."): t for name, t in state.items() if name.startswith(f"{prefix}.")}
    attention = Attention(Layout("here", shapes), prefix, 32).double()
    attention.load_state_dict(own)
    states = torch.randn((5, 32), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.inference_mode():
        ours = attention(states[None], causal=causal)[0].numpy()

    arrays = {name.removesuffix(".weight"): tensor.numpy() for name, tensor in own.items()}
    heads = []
    for head in range(4):
        rows = slice(8 * head, 8 * head + 8)
        query, key, value = (states.numpy() @ arrays[part][rows].T for part in ("query", "key", "value"))
        turned = []
        for part, vectors in (("query", query), ("key", key)):
            scaled = vectors / np.sqrt((vectors**2).mean(1, keepdims=True) + 1e-6) * arrays[f"norm_{part}"]
            angles = np.exp(1j * np.arange(5)[:, None] * 10000.0 ** (-np.arange(4) / 4)) if causal else np.ones((5, 4))
            turned.append((scaled[:, :4] + 1j * scaled[:, 4:]) * angles)
        logits = np.array([[np.real(np.vdot(k, q)) for k in turned[1]] for q in turned[0]]) / np.sqrt(8)
        if causal:
            logits[np.triu_indices(5, 1)] = -np.inf
        shares = np.exp(logits - logits.max(1, keepdims=True))
        heads.append(shares / shares.sum(1, keepdims=True) @ value)
    np.testing.assert_allclose(ours, np.concatenate(heads, axis=1) @ arrays["out"].T, atol=1e-6)


def test_positions_are_resized_like_jax_and_rotation_tells_distances_only():
    """The numbers are those of `jax.image.resize(squares, (4, 1), "linear")` of jax 0.10.2."""
    squares = torch.arange(8.0)[:, None] ** 2
    np.testing.assert_allclose(resize_linearly(squares, 4)[:, 0], [1, 7, 21, 40.000004], rtol=1e-6)
    assert resize_linearly(squares, 8) is squares
    states = torch.randn((1, 1, 1, 8), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    turned = rotate_states(states.expand(1, 1, 7, 8))[0, 0]
    products = turned @ turned.T
    for apart in range(1, 6):
        np.testing.assert_allclose(products.diagonal(apart), products[0, apart], atol=1e-6)
    assert len({round(float(products[0, k]), 4) for k in range(6)}) == 6


def test_the_mean_is_over_the_predicted_tokens_and_it_is_measured_by_the_command_line(file, tmp_path, command):
    one, mean = (find_model(f"cappa:{file}", ModelOptions(reading=name)) for name in ("likelihood", "mean_likelihood"))
    # [CLS] is given, [SEP] is predicted; the second has one word with an ending.
    means = mean.log_likelihoods(PICTURES, TEXTS)
    np.testing.assert_allclose(means * [7, 4, 15], one.log_likelihoods(PICTURES, TEXTS), rtol=1e-5)
    command("run", "-m", f"cappa:{file}", "-b", "demo", "--limit", 4, "--no-cache", "--out", tmp_path / "run", code=0)
    assert read_result(tmp_path / "run").model.kind == "similarity"


def test_a_tokenizer_without_ends(file):
    edit(file.parent / "tokenizer.json", lambda content: content.update(post_processor=None))
    plain = {"tokenizer_class": "PreTrainedTokenizerFast"}
    edit(file.parent / "tokenizer_config.json", lambda settings: settings.update(plain))
    with raises(ModelError, "0", "empty", "text"):
        find_model(f"cappa:{file}")
