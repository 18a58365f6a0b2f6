"""The notes of minimal pairs: items that no model can get right are named."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import tellapart as ta


def test_items_with_a_caption_or_a_picture_twice_are_named(tmp_path: Path) -> None:
    rows = [("a", "0", "1", "a cat", "a dog"), ("b", "0", "1", "a cat", "a cat"), ("c", "0", "0", "a cat", "a dog")]
    for name in "01":
        Image.new("RGB", (8, 8), (200 * int(name), 0, 0)).save(tmp_path / f"{name}.png")
    lines = ["id,image_0,image_1,caption_0,caption_1", *(f"{i},{a}.png,{b}.png,{x},{y}" for i, a, b, x, y in rows)]
    for name, count in (("good", 2), ("bad", 4)):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines[:count]) + "\n")
        run = ta.evaluate("blind", f"table:{tmp_path / name}.csv", out=tmp_path / name)
        said = [note for note in run.result().benchmarks[f"table:{name}.csv"].notes if "twice" in note]
        assert len(said) == (name == "bad")
        assert all("2 of 3 items" in note and "'b'" in note for note in said)
