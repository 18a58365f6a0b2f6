"""The converter of Open CapPa, but for reading orbax: every tensor arrives under its name, or nothing is written."""

from typing import Any

import numpy as np
import pytest
from examples.convert.cappa import convert_all
from tiny_files import cappa_shapes, draw

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


def test_what_is_not_known_is_listed():
    _, tree = as_flax(stacked=True)
    _put(tree, "vision/final_norm/scale", np.ones(32))
    _, unknown = convert_all(tree, {path: name for path, name in NAMES.items() if name != "vision.rows"})
    assert unknown == ["vision/embed/row (32, 32) is not known", "vision/final_norm/scale (32,) is not known"]


def test_two_paths_of_one_name():
    _, tree = as_flax(stacked=True)
    _put(tree, "text/other/embedding", np.ones((40, 32)))
    assert convert_all(tree, NAMES)[1] == ["text/other/embedding (40, 32) has the name of another"]
