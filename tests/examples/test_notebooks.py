"""The notebooks use the public names alone, and install in one way; `make site` runs each of them."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tellapart
from scripts import import_document

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_public_names_alone_and_is_the_python_file_without_outputs(path):
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
    pytest.importorskip("jupytext", reason="notebooks need the docs extra")
    written = path.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert written == import_document("notebook_pages").write_notebook(path), "run `make docs`"
    cells = json.loads(written)["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert [cell["cell_type"] for cell in cells[:2]] == ["markdown", "code"]
    assert "".join(cells[1]["source"]) == install_cell(path)


def install_cell(path: Path) -> str:
    """The first code cell of a notebook."""
    return path.read_text(encoding="utf-8").split("# %%\n")[1].split("# %%")[0].strip()


def test_the_notebooks_install_in_one_way_and_name_what_else_they_need():
    cells = {path.stem: install_cell(path) for path in NOTEBOOKS}
    extras = re.compile(r'f"tellapart(.*) @ {source}"')
    assert len({extras.sub("", cell) for cell in cells.values()}) == 1
    assert {name: extras.findall(cell) for name, cell in cells.items()} == {
        "build_audit_annotate": [""],
        "fine_tune_and_watch": ["[models,plot]"],
        "my_clip_on_my_pairs": [""],
        "predictions_to_table": ["[plot]"],
    }


def test_without_an_address_the_first_cell_names_what_to_set(tmp_path):
    (tmp_path / "cell.py").write_text(install_cell(NOTEBOOKS[0]), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "TELLAPART_SOURCE"}}
    # Neither the packages beside Python nor the folder at hand: tellapart is missing.
    line = [sys.executable, "-I", "-S", "cell.py"]
    done = subprocess.run(line, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "%env TELLAPART_SOURCE=git+" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_fresh_environment_installs_and_runs_a_whole_notebook(tmp_path):
    """Of the two that need the core alone; those of torch and matplotlib would fetch much more."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("no uv, which makes the fresh environment")
    python = tmp_path / "fresh" / "bin" / "python"
    made = [uv, "venv", "-q", "--seed", "--python", sys.executable, str(tmp_path / "fresh")]
    needed = [uv, "pip", "install", "-q", "--python", str(python), "numpy"]
    for line in (made, needed):
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no packages can be installed here: {done.stderr.strip().splitlines()[-1]}")
    # A build writes beside the sources, so they are copied.
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    (tmp_path / "work").mkdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= {"TELLAPART_SOURCE": source.as_uri(), "TELLAPART_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    notebook = ROOT / "examples" / "notebooks" / "my_clip_on_my_pairs.py"
    ending = 'print(tellapart.__file__, file=open("found.txt", "w"))'
    (tmp_path / "cell.py").write_text(f"{notebook.read_text(encoding='utf-8')}\nimport tellapart\n{ending}\n")
    line = [str(python), str(tmp_path / "cell.py")]
    done = subprocess.run(line, cwd=tmp_path / "work", env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made = tmp_path / "work" / "tellapart-notebook"
    assert str(tmp_path / "fresh") in (made / "found.txt").read_text()
    assert (made / "runs" / "mine" / "results.json").is_file()


def test_there_are_four_notebooks_and_the_page_on_python_links_to_each():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4
    assert set(re.findall(r"examples/notebooks/(\w+)\.py", page)) == {path.stem for path in NOTEBOOKS}


def test_what_a_cell_showed_is_put_on_the_sites_page():
    _show = import_document("notebook_pages")._show
    assert _show({"output_type": "stream", "text": "60 pairs\n"}, "a-1-0") == ("```text\n60 pairs\n```", {})
    shown, files = _show({"data": {"image/png": "UE5H", "text/plain": "<Image>"}}, "a-2-0")
    assert shown == "![What the cell draws](a-2-0.png)"
    assert files == {"a-2-0.png": b"PNG"}
    shown, _ = _show({"data": {"text/html": "<pre>a\n\nb</pre>", "text/plain": "<HTML>"}}, "a-3-0")
    assert shown == '<div class="notebook-output"><pre>a&#10;&#10;b</pre></div>'
