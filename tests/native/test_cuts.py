"""A file without one of its parts is refused with the part's name: a key, a layer, a stage, a row of a table.

The layouts are those that were published, and our own of tiny size, of which no depth is known; no numbers are read.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import tiny_captioners
import tiny_files
import tiny_heads
import tiny_meter_fiber
import tiny_region_models
import torch
from golden import CASES, FAMILIES, published
from tiny_files import Shapes, save_family
from tiny_heads import without

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart_native.family import Layout, NativeFamily, published_facts
from tellapart_native.prefix import find_family

#: Nothing reads it but training, which begins with a number of its own.
OPTIONAL = {"logit_scale"}

#: One of each family comes first.
TINY: dict[str, Callable[[], Any]] = {
    **tiny_files.STATES, **tiny_region_models.REGION_STATES,
    "cappa": tiny_files.cappa_shapes, "ofa": tiny_captioners.ofa_shapes,
    "fiber": tiny_meter_fiber.fiber_state, "meter": tiny_meter_fiber.meter_state,
    "albef vqa": tiny_heads.albef_vqa, "albef nlvr2": tiny_heads.albef_nlvr2,
    "fiber captions": tiny_captioners.fiber_captioner, "fiber nlvr2": partial(tiny_heads.fiber_head, "nlvr2"),
    "meter swin": partial(tiny_meter_fiber.meter_state, swin_tower=True),
    "meter nlvr2": partial(tiny_heads.meter_head, "nlvr2"),
    "xvlm captions": tiny_captioners.xvlm_captioner, "xvlm vqa": tiny_heads.xvlm_vqa,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "fiber": tiny_meter_fiber.SETTINGS,
    "meter": tiny_meter_fiber.SETTINGS,
    "ofa": tiny_captioners.OFA_SETTINGS,
    **dict.fromkeys(("uniter", "vilbert", "vlt5"), tiny_region_models.SETTINGS),
}

_BASE = tiny_heads.PUBLISHED
#: Files in the authors' layouts, and the family that reads them.
FILES = {name: case.family for name, case in CASES.items() if "_" not in name}
#: Published sizes: one a family comes first, then those of which nothing of the authors' is there, by family.
LAYOUTS: dict[str, tuple[str, Shapes]] = {
    "cappa": ("cappa", tiny_files.cappa_shapes(1024, (24, 12), 3072, 64, 65536)),
    "ofa base": ("ofa", tiny_captioners.ofa_shapes(tiny_captioners.PUBLISHED["base"])),
    **{
        f"{name} {variant}": (FAMILIES[FILES[name]], facts["keys"])
        for name in FILES
        for variant, facts in published(name)[:1]
    },
}


FIRST = len(LAYOUTS)
LAYOUTS |= {
    "albef vqa": ("albef", tiny_heads.albef_text(12, 6, _BASE) | tiny_heads.decoder(6, _BASE)),
    "albef nlvr2": ("albef", tiny_heads.albef_text(18, 6, _BASE) | tiny_heads.two_image_head(768)),
}


@pytest.fixture(autouse=True)
def no_first_numbers(monkeypatch):
    """Modules on the device `meta` have no numbers; drawing none takes most of the time."""
    for name in ("kaiming_uniform_", "uniform_", "normal_", "trunc_normal_"):
        monkeypatch.setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)


def read_layout(folder: str, tensors) -> tuple[NativeFamily, Shapes]:
    family = find_family(folder)
    kept = family.keep_tensors(tensors)
    return family, {name: tuple(getattr(tensor, "shape", tensor)) for name, tensor in kept.items()}


def read_tiny(name: str) -> tuple[NativeFamily, Shapes, dict[str, Any]]:
    folder = name.split(maxsplit=1)[0]
    return *read_layout(folder, TINY[name]()), SETTINGS.get(folder, tiny_files.SETTINGS)


def refuse(family: NativeFamily, keys: Shapes, settings, *lost: str) -> None:
    """The error names the file, and what is lost or its layer; nothing else is raised."""
    with pytest.raises(ModelError) as caught:
        family.build_module(Layout("model.pth", keys, settings))
    assert "model.pth" in str(caught.value)
    assert any(part in str(caught.value) for part in lost), (lost, str(caught.value))


def shorten(keys: Shapes, table: str) -> Shapes:
    return {**keys, table: (keys[table][0] - 1, *keys[table][1:])}


def last_parts(keys: Shapes) -> Iterator[list[str]]:
    """For each list of numbered parts: the last one, and the last two."""
    lists = {}
    for name in keys:
        for number in re.finditer(r"(?<=\.)\d+(?=\.)", name):
            lists.setdefault(name[: number.start()], set()).add(int(number[0]))
    for prefix, numbers in lists.items():
        *_, last = ordered = sorted(numbers)
        yield [f"{prefix}{last}."]
        if len(numbers) > 2:
            yield [f"{prefix}{number}." for number in ordered[-2:]]


def keys_of_a_kind(keys: Shapes) -> list[str]:
    """Of the numbers of a kind of key, the last."""
    kinds = {}
    for key in [key for key in keys if key not in OPTIONAL]:
        kinds.setdefault(re.sub(r"\d+", "*", key), []).append(key)
    return [max(same) for same in kinds.values()]


@pytest.mark.few(len(FAMILIES))
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_file_without_a_key_is_refused(name):
    family, keys, settings = read_tiny(name)
    family.build_module(Layout("model.pth", keys, settings))
    for key in keys_of_a_kind(keys):
        refuse(family, {other: shape for other, shape in keys.items() if other != key}, settings, key)


@pytest.mark.few(FIRST)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_file_without_its_last_layers_or_a_row_is_refused(name):
    family, keys = read_layout(*LAYOUTS[name])
    assert family.build_module(Layout("model.pth", keys)).config.depths == {}
    for parts in last_parts(keys):
        refuse(family, without(keys, *parts), {}, *parts)
    counted = [table for table in published_facts(family.name)["depths"] if table in keys]
    assert counted
    for table in counted:
        refuse(family, shorten(keys, table), {}, table)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name.split()[0] in {"cappa", "albef", "vilbert"}][:3])
def test_a_published_file_without_a_key_or_a_row_is_refused(name):
    family, keys = read_layout(*LAYOUTS[name])
    for key in keys_of_a_kind(keys):
        refuse(family, {other: shape for other, shape in keys.items() if other != key}, {}, key)
        if keys[key] and (name, key) != ("vilt nlvr2", "token_type_embeddings.weight"):  # its third row is not read
            refuse(family, shorten(keys, key), {}, "")  # of another shape: its name, or of those that it must fit


def test_layers_that_read_the_other_side_are_counted():
    """One of six, without which the score would be another; all of them."""
    family, keys = read_layout(*LAYOUTS["albef vqa"])
    for part in ("text_encoder.encoder.layer.6.crossattention.", "text_decoder.bert.encoder.layer.0.crossattention."):
        refuse(family, without(keys, part), {}, part)
    refuse(family, {name: keys[name] for name in keys if "crossattention" not in name}, {}, "crossattention.")


@pytest.mark.parametrize("name", ["albef", "blip", "meter", "xvlm", "uniter", "vilbert"])
def test_layers_of_an_unknown_size_read_the_other_side_if_the_family_does(name):
    """Without them all, ALBEF scored by the text alone; with them, UNITER did not read them."""
    family, keys, settings = read_tiny(name)
    other = {key: shape for key, shape in keys.items() if "crossattention" not in key}
    if other == keys:
        parts = [key for key in keys if "encoder.layer." in key and ".attention." in key]
        other = {key.replace(".attention.", ".crossattention."): keys[key] for key in parts} | keys
    refuse(family, other, settings, "crossattention.")


@pytest.mark.parametrize("towers", [("vit_model.layers.3.",), ("vit_model.layers.2.", "vit_model.layers.3.")])
def test_stages_of_a_tower_of_an_unknown_size_are_known_by_the_merging_before_them(towers):
    family, keys, settings = read_tiny("fiber")
    refuse(family, without(keys, *towers), settings, towers[0])


def test_a_number_that_is_stated_counts_before_the_published_one():
    family, keys = read_layout(*LAYOUTS["albef vqa"])
    table = "text_encoder.embeddings.word_embeddings.weight"
    longer = {**keys, table: (30530, 768)}
    refuse(family, longer, {}, table, "30530")
    assert family.build_module(Layout("model.pth", longer, {"depths": {table: 30530}})).config.vocab_size == 30530
    refuse(family, keys, {"depths": {table: 30530}}, f"{table}, row 30522")


def test_a_file_that_lacks_its_types_is_refused_where_it_is_opened(tmp_path):
    """It scored: .258 for .116."""
    name = save_family(tmp_path / "x", "albef")
    path = tmp_path / "x" / "model.pth"
    held = torch.load(path)
    lost = "text_encoder.embeddings.token_type_embeddings.weight"
    del held["model"][lost]
    torch.save(held, path)
    with raises(ModelError, path, lost):
        find_model(name)
