"""The authors' tiny state dicts, inputs and outputs; and files of the same layout with random numbers."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.models.native.family import Layout, NativeFamily
from tellapart.models.native_prefixes import find_native
from tellapart.models.torch_backend import import_torch

GOLDEN = Path(__file__).parents[3].parent / "shared" / "data" / "native"
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="the authors' tiny files are not here (shared/data/native)"
)


@dataclass
class Golden:
    """One golden file: the state dict under the authors' names, the inputs, and what the authors' code made of them."""

    state: dict[str, Any]
    input: dict[str, Any]
    output: dict[str, Any]
    preprocess: dict[str, Any]
    facts: dict[str, Any]


def read_golden(name: str) -> Golden:
    if not GOLDEN.is_dir():
        pytest.skip("the authors' tiny files are not here (shared/data/native)")
    from safetensors.torch import load_file

    parts: dict[str, dict[str, Any]] = {"state": {}, "input": {}, "output": {}, "preprocess": {}}
    for key, tensor in load_file(GOLDEN / f"{name}_tiny.safetensors").items():
        kind, _, rest = key.partition(".")
        parts[kind if kind in parts else "state"][rest if kind in parts else key] = tensor
    return Golden(**parts, facts=json.loads((GOLDEN / f"{name}_tiny.json").read_text()))


def build(family_name: str, state: dict[str, Any], settings: dict[str, Any]) -> tuple[NativeFamily, Any]:
    """Make the module of a state dict, weights included."""
    family = find_native(family_name)
    tensors = family.keep(state)
    layout = Layout(family_name, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, settings)
    with import_torch().device("meta"):
        module = family.build(layout).eval().requires_grad_(False)
    family.fit(family_name, module, tensors)
    return family, module


def join_all(halves: Any, images: Any, ids: Any, mask: Any) -> Any:
    """Return the joint's output of every image with every text: `(images, texts, classes)`."""
    torch = import_torch()
    with torch.inference_mode():
        one, other = halves.images(**images), halves.texts(ids, mask.bool())
        return torch.stack(
            [
                torch.stack(
                    [
                        halves.join(tuple(t[i : i + 1] for t in one), tuple(t[j : j + 1] for t in other))[0]
                        for j in range(len(ids))
                    ]
                )
                for i in range(len(one[0]))
            ]
        )


def distance(ours: Any, theirs: Any) -> float:
    assert tuple(ours.shape) == tuple(theirs.shape)
    return float((ours - theirs).abs().max())


def check_pixels(family: NativeFamily, module: Any, golden: Golden) -> None:
    """The authors' preprocessing, to the bit."""
    prepare = family.images(module)
    for k, expected in enumerate(golden.input["pixel_values"]):
        prepared = prepare(golden.preprocess[f"image_{k}"].numpy())["pixel_values"]
        np.testing.assert_array_equal(prepared, expected.numpy())


def published(family: str) -> list[tuple[str, dict[str, Any]]]:
    """List a family's published variants: name, and `keys` with shapes, `needed` ones, and the configuration."""
    if not GOLDEN.is_dir():
        return []
    variants = json.loads((GOLDEN / f"{family}_layout.json").read_text())["variants"]
    whole: list[tuple[str, dict[str, Any]]] = []
    for name in variants:
        keys = _keys(variants, name)
        ignored = variants[name].get("not_needed", [])
        needed = {key for key in keys if not any(fnmatchcase(key, pattern) for pattern in ignored)}
        whole.append((name, {"keys": keys, "needed": needed, **_configuration(variants, name)}))
    return whole


def _keys(variants: dict[str, Any], name: str) -> dict[str, tuple[int, ...]]:
    variant = variants[name]
    if "keys" in variant:
        return {key: tuple(shape) for key, (shape, _) in variant["keys"].items()}
    keys = _keys(variants, variant["like"])
    kept = {key: shape for key, shape in keys.items() if key not in variant.get("without", ())}
    return kept | {key: tuple(shape) for key, (shape, _) in variant.get("with", {}).items()}


def _configuration(variants: dict[str, Any], name: str) -> dict[str, Any]:
    return {"config": variants[name].get("config", {}), "nesting": variants[name].get("nesting")}


def build_published(family_name: str, keys: dict[str, tuple[int, ...]]) -> Any:
    """Build a published size on the meta device and return the module; it holds no numbers."""
    torch = import_torch()
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        tensors = {name: torch.empty(shape) for name, shape in keys.items()}
        family = find_native(family_name)
        kept = family.keep(tensors)
        module = family.build(Layout(family_name, {name: tuple(tensor.shape) for name, tensor in kept.items()}))
    assert {name: tuple(t.shape) for name, t in module.state_dict().items()} == {
        n: tuple(t.shape) for n, t in kept.items()
    }
    return module


def shift_one(module: Any, first: str, second: str) -> None:
    """Swap two parts of a module: a mistake in the order of layers."""
    parts = dict(module.named_modules())
    a, b = parts[first], parts[second]
    for name, part in ((first, b), (second, a)):
        parent, _, leaf = name.rpartition(".")
        setattr(parts[parent], leaf, part) if not leaf.isdigit() else parts[parent].__setitem__(int(leaf), part)
