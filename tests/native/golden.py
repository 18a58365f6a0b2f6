"""The authors' tiny state dicts, inputs and outputs; which output a reading must equal; and the published layouts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.catalog import load, names
from tellapart.models.fusion.family import FusionPrefix
from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout, NativeFamily, Reading
from tellapart_native.prefix import find_family

#: `model_type` -> folder of every family in its authors' files.
FAMILIES = {
    prefix.model_type: name.removesuffix(":")
    for name in names("prefix")
    if isinstance(prefix := load("prefix", name), FusionPrefix)
}

GOLDEN = Path(__file__).parents[2].parent / "shared" / "data" / "native"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no tiny files of the authors' (shared/data/native)")


@dataclass
class Golden:
    """One golden file: the state dict under the authors' names, the inputs, and what the authors' code made of them."""

    state: dict[str, Any]
    input: dict[str, Any]
    output: dict[str, Any]
    preprocess: dict[str, Any]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """How a golden file is read.

    Attributes:
        family: that reads it.
        settings: what no shape tells: heads of attention, which are not 64 wide here.
        scores: the authors' output that each reading must equal.
    """

    family: str
    settings: Mapping[str, int]
    scores: Mapping[str, str]


_BERT, _VIT = {"num_attention_heads": 4}, {"num_heads": 2}
_METER = {**_BERT, "num_heads": 4, "vision_heads": 2}
_VILBERT = {**_BERT, "v_num_attention_heads": 4, "bi_num_attention_heads": 4}
_T5 = {"relative_attention_max_distance": 20, "true_token_id": 17, "false_token_id": 23}
_PAIR = {"itm": "itm_logits", "itc": "itc_similarity"}
_BLIP = {"itm_enc": "itm_logits_enc", "itm": "itm_logits_cls", "retrieval": "official_score_i2t"}

CASES = {
    "albef": Case("albef", {**_BERT, **_VIT}, _PAIR),
    "albef_pretrain": Case("albef", {**_BERT, **_VIT}, _PAIR),
    "blip": Case("blip_original", {**_BERT, **_VIT}, {**_BLIP, "itc": "itc_similarity"}),
    "fiber": Case("fiber", _BERT, {**_PAIR, "rank": "rank_output"}),
    "fiber_eqsim": Case("fiber", _BERT, _PAIR),
    "meter": Case("meter", _METER, {"itm": "itm_logits", "rank": "rank_output"}),
    "meter_swin": Case("meter", _METER, {"itm": "itm_logits"}),
    "uniter": Case("uniter", _BERT, {"itm": "itm_logits", "rank": "rank_output"}),
    "uniter_pretrain": Case("uniter", _BERT, {"itm": "itm_logits"}),
    "vilbert": Case("vilbert", _VILBERT, {"itm": "itm_logits"}),
    "vilbert_multitask": Case("vilbert", _VILBERT, {"rank": "vil_logit_task7", "rank_f30k": "vil_logit_task8"}),
    "vilt": Case("vilt_original", {**_VIT, "image_size": 64}, {"itm": "itm_logits", "rank": "rank_output"}),
    "vlt5": Case("vlt5", {**_BERT, **_T5}, {"itm": "true_false_logits"}),
    "xvlm": Case("xvlm", _BERT, _PAIR),
    "xvlm_pretrain": Case("xvlm", _BERT, {**_PAIR, "boxes": "boxes"}),
}


def read_golden(name: str) -> Golden:
    if not GOLDEN.is_dir():
        pytest.skip("the authors' tiny files are not here (shared/data/native)")
    from safetensors.torch import load_file

    parts = {"state": {}, "input": {}, "output": {}, "preprocess": {}}
    for key, tensor in load_file(GOLDEN / f"{name}_tiny.safetensors").items():
        kind, _, rest = key.partition(".")
        parts.get(kind, parts["state"])[rest if kind in parts else key] = tensor
    return Golden(**parts, facts=json.loads((GOLDEN / f"{name}_tiny.json").read_text()))


def build(family_name: str, state: dict[str, Any], settings: dict[str, Any]) -> tuple[NativeFamily, Any]:
    """Make the module of a state dict, weights included."""
    family = find_family(FAMILIES[family_name])
    tensors = family.keep_tensors(state)
    layout = Layout(family_name, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, settings)
    module = family.build_module(layout)
    family.fit_module(family_name, module, tensors)
    return family, module


def open_golden(name: str) -> tuple[Golden, NativeFamily, Any]:
    """Read a golden file and make its module."""
    golden = read_golden(name)
    return golden, *build(CASES[name].family, golden.state, CASES[name].settings)


def inputs(golden: Golden) -> tuple[list[dict[str, Any]], Any, Any]:
    """Return the images (one batch; ViLT's, which keep their shapes, one by one), token ids, and which are there."""
    held = golden.input
    if "pixel_values" in held:
        images = [{"pixel_values": held["pixel_values"]}]
    elif "pixel_values_0" in held:
        images = [{"pixel_values": held[f"pixel_values_{k}"][None]} for k in range(3)]
    else:  # regions, as a file of regions gives them
        features = held["region_features" if "region_features" in held else "region_features_raw"]
        counts = held.get("region_count", features.new_full((len(features),), features.shape[1]))
        there = counts.new_tensor(list(range(features.shape[1])))[None, :] < counts[:, None]
        images = [{"features": features, "boxes": held["region_boxes"], "mask": there}]
    return images, held["input_ids"], held["attention_mask"].bool()


def score(reading: Reading, module, golden: Golden):
    """Return what a reading makes of every image with every text: `(images, texts, classes)`."""
    torch = import_torch()
    halves = reading.halves(module)
    if "words" in golden.facts:  # the tokenizer of a family without golden file
        halves.take_words(golden.facts["words"])
    images, ids, mask = inputs(golden)
    with torch.inference_mode():
        texts = halves.texts(ids, mask)
        rows = [_join(reading, halves, halves.images(**some), texts) for some in images]
    return torch.cat(rows)


def _join(reading: Reading, halves, images, texts):
    if reading.read == "cosine":
        return (images[0] @ texts[0].T)[..., None]
    count, others = len(images[0]), len(texts[0])
    every = tuple(t.repeat_interleave(others, dim=0) for t in images)
    joined = halves.join(every, tuple(t.repeat(count, *[1] * (t.ndim - 1)) for t in texts))
    return joined.unflatten(0, (count, others))


def difference(name: str, reading: str) -> float:
    """Return the largest difference of a reading to the authors' output."""
    golden, family, module = open_golden(name)
    return distance(score(family.readings[reading], module, golden), golden.output[CASES[name].scores[reading]])


def distance(ours, theirs) -> float:
    """Return the largest difference; an axis of one class may be missing."""
    assert ours.squeeze(-1).shape == theirs.squeeze(-1).shape
    return float((ours.squeeze(-1) - theirs.squeeze(-1)).abs().max())


def check_pixels(family: NativeFamily, module, golden: Golden) -> None:
    """The authors' preprocessing, to the bit; of ViLT's pictures, which keep their shapes, one by one."""
    prepare, held = family.images(module), {**golden.input, **golden.preprocess}
    held |= {f"pixel_values_{k}": pixels for k, pixels in enumerate(held.get("pixel_values", ()))}
    pictures = [name.removeprefix("image_") for name in held if name.startswith("image_")]
    assert len(pictures) >= 3
    for name in pictures:
        prepared = prepare(held[f"image_{name}"].numpy())["pixel_values"]
        np.testing.assert_array_equal(prepared, held[f"pixel_values_{name}"].numpy())


def published(family: str) -> list[tuple[str, dict[str, Any]]]:
    """List a family's published variants: name, and `keys` with shapes, `needed` ones, and the configuration."""
    if not GOLDEN.is_dir():
        return []
    variants = json.loads((GOLDEN / f"{family}_layout.json").read_text())["variants"]
    whole = []
    for name, variant in variants.items():
        keys, ignored = _keys(variants, name), variant.get("not_needed", [])
        needed = {key for key in keys if not any(fnmatchcase(key, pattern) for pattern in ignored)}
        facts = {"family": family, "keys": keys, "needed": needed, "config": variant.get("config", {})}
        whole.append((name, facts))
    return whole


def every_published(*families: str) -> Callable[[Any], Any]:
    """Run a test with `name` and `variant` of every published variant of the families."""
    variants = [each for family in families for each in published(family)]
    parametrized = pytest.mark.parametrize(("name", "variant"), variants, ids=[name for name, _ in variants])
    return lambda test: needs_golden(parametrized(test))


def _keys(variants: dict[str, Any], name: str) -> dict[str, tuple[int, ...]]:
    variant = variants[name]
    if "keys" in variant:
        return {key: tuple(shape) for key, (shape, _) in variant["keys"].items()}
    keys = _keys(variants, variant["like"])
    kept = {key: shape for key, shape in keys.items() if key not in variant.get("without", ())}
    return kept | {key: tuple(shape) for key, (shape, _) in variant.get("with", {}).items()}


def build_published(family_name: str, keys: dict[str, tuple[int, ...]], settings=None):
    """Build a published size on the meta device and return the module; it holds no numbers."""
    family = find_family(FAMILIES[family_name])
    return family.build_module(Layout(family_name, family.keep_tensors(keys), settings or {}))


def shift_one(module, first: str, second: str) -> None:
    """Swap two parts of a module: a mistake in the order of layers."""
    parts = dict(module.named_modules())
    a, b = parts[first], parts[second]
    for name, part in ((first, b), (second, a)):
        parent, _, leaf = name.rpartition(".")
        setattr(parts[parent], leaf, part) if not leaf.isdigit() else parts[parent].__setitem__(int(leaf), part)
