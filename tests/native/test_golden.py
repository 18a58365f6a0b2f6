"""Every family against its authors' code, on state dicts of tiny width: pixels, scores, positions at another size."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from golden import CASES, GOLDEN, check_pixels, distance, needs_golden, open_golden, score

from tellapart.models.torch.backend import import_torch

torch = import_torch()

RECORD = Path(__file__).parents[2] / "bench" / "records" / "native_golden.json"

#: Of scores, relative to the largest one of a file if that is above 1; every family keeps it. The files themselves
#: were computed in float32: they are up to 5e-6 from the same graph in float64, and another processor is as far on the
#: other side.
TOLERANCE = 1e-5


def tolerance(scores: Any) -> float:
    return TOLERANCE * max(1.0, float(scores.abs().max()))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_scores_equal_the_authors_code(name: str) -> None:
    golden, family, module = open_golden(name)
    if family.images is not None and "pixel_values" in golden.input:
        check_pixels(family, module, golden)
    for reading, output in CASES[name].scores.items():
        ours, match = score(family.readings[reading], module, golden), family.readings[reading].halves(module).match
        assert distance(ours, golden.output[output]) < tolerance(golden.output[output]), reading
        if reading == "itm" and "itm_probability" in golden.output:  # ViLBERT's match is class 0
            assert distance(ours.softmax(-1)[..., match], golden.output["itm_probability"]) < TOLERANCE
        if reading == "itm" and "official_score_i2t" in golden.output and family.name != "blip_original":
            assert distance(ours[..., match], golden.output["official_score_i2t"]) < TOLERANCE
    held = module.state_dict()
    if "rank" in family.readings and "rank" not in CASES[name].scores:
        assert family.readings["rank"].needs not in held


@needs_golden
def test_no_golden_file_is_left_out() -> None:
    files = {path.name.removesuffix("_tiny.safetensors") for path in GOLDEN.glob("*_tiny.safetensors")}
    assert files - set(CASES) == {"clip_flant5"}  # a folder, not a file: tests/models/generative/test_clip_flan_t5.py


def test_the_recorded_differences_are_of_every_reading_and_within_the_tolerance() -> None:
    record = json.loads(RECORD.read_text())
    readings = {name: list(case.scores) for name, case in CASES.items()} | {"lxmert_full": ["itm"]}
    assert {name: list(found) for name, found in record.items()} == readings
    assert all(0 <= number < TOLERANCE for found in record.values() for number in found.values())


GRID, TABLE = "visual_encoder.pos_embed", "relative_position_bias_table"
RESIZED = [
    ("albef", 96, GRID, "pos_embed_at_96"),
    ("albef_pretrain", 96, GRID, "pos_embed_at_96"),
    ("blip", 96, GRID, "pos_embed_at_96"),
    ("meter", 96, "vit_model.visual.positional_embedding", "positional_embedding_at_96"),
    ("meter_swin", 96, f"vit_model.layers.2.blocks.1.attn.{TABLE}", "bias_table_at_96"),
    ("fiber", 96, f"vit_model.layers.2.blocks.15.attn.{TABLE}", "bias_table_at_96"),
    ("fiber", 128, f"vit_model.layers.2.blocks.15.attn.{TABLE}", "bias_table_at_128"),
    ("fiber_eqsim", 96, f"vit_model.layers.2.blocks.15.attn.{TABLE}", "bias_table_at_96"),
    ("fiber_eqsim", 128, f"vit_model.layers.2.blocks.15.attn.{TABLE}", "bias_table_at_128"),
]


@pytest.mark.parametrize(("name", "size", "tensor", "output"), RESIZED)
def test_positions_at_another_size_are_the_authors_and_not_the_librarys(
    name: str, size: int, tensor: str, output: str
) -> None:
    golden, family, _ = open_golden(name)
    tensors, expected = family.keep_tensors(golden.state), golden.output[output]
    assert family.resize is not None
    assert distance(family.resize(tensors, size)[tensor], expected) < 1e-6
    assert distance(resize_like_timm(tensors[tensor], expected), expected) > 1e-2


@pytest.mark.parametrize(("old", "new"), [(3, 4), (7, 12), (12, 15)])
def test_x_vlms_tables_of_biases_are_the_authors_and_not_the_librarys(old: int, new: int) -> None:
    golden, family, _ = open_golden("xvlm_pretrain")
    table, expected = (part[f"bias_table_window_{old}_to_{new}"] for part in (golden.input, golden.output))
    assert family.resize is not None
    assert distance(family.resize({TABLE: table}, 32 * new)[TABLE], expected) < TOLERANCE
    assert distance(resize_like_timm(table, expected), expected) > 1e-2


def resize_like_timm(positions: Any, wanted: Any) -> Any:
    """Resize with the library's function: a Swin's table of biases, or positions on a grid behind the class token."""
    from timm.layers import resample_abs_pos_embed, resize_rel_pos_bias_table

    if round(len(positions) ** 0.5) ** 2 == len(positions) > 1:
        window = round(len(wanted) ** 0.5) // 2 + 1
        with warnings.catch_warnings(action="ignore"):  # of how it indexes
            return resize_rel_pos_bias_table(positions, (window, window), wanted.shape)
    side = round((wanted.shape[-2] - 1) ** 0.5)
    return resample_abs_pos_embed(positions.reshape(1, *positions.shape[-2:]), [side, side]).reshape(wanted.shape)
