"""The notebooks run from nothing, offline, and end in pictures; they use the public names alone."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path
from typing import Any

import pytest

import tellapart

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


def picture_in(output: Any) -> bool:
    """Whether an output shows a picture: one of its own, or one within HTML."""
    data = output.get("data", {})
    return "image/png" in data or "data:image/" in data.get("text/html", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_ends_in_a_picture(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("jupytext", "nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(needed, reason="notebooks need the docs extra")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from notebook_pages import execute

    started = time.monotonic()
    cells = [cell for cell in execute(path).cells if cell.cell_type == "code"]
    assert time.monotonic() - started < 120
    shown = [output for cell in cells for output in cell.outputs]
    assert [one.text for one in shown if one.output_type == "stream" and one.name == "stderr"] == []
    assert any(map(picture_in, cells[-1].outputs))
    pages = "".join(one.get("data", {}).get("text/html", "") for one in shown)
    assert pages.count("<iframe ") == pages.count("</iframe>")  # an open one takes the rest of the site's page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_public_names_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ta"
    }
    assert len(used) >= 4
    assert used <= set(tellapart.__all__)
    others = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in others if name and name.startswith("tellapart")]


def test_there_are_four_notebooks_and_the_page_on_python_links_to_each() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4
    assert set(re.findall(r"examples/notebooks/(\w+)\.py", page)) == {path.stem for path in NOTEBOOKS}


def test_what_a_cell_showed_is_put_on_the_sites_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from notebook_pages import _show

    assert _show({"output_type": "stream", "text": "60 pairs\n"}, "a-1-0") == ("```text\n60 pairs\n```", {})
    shown, files = _show({"data": {"image/png": "UE5H", "text/plain": "<Image>"}}, "a-2-0")
    assert shown == "![What the cell draws](a-2-0.png)"
    assert files == {"a-2-0.png": b"PNG"}
    shown, _ = _show({"data": {"text/html": "<pre>a\n\nb</pre>", "text/plain": "<HTML>"}}, "a-3-0")
    assert shown == '<div class="notebook-output"><pre>a&#10;&#10;b</pre></div>'
